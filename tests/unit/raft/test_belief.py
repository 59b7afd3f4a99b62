"""When a replica believes that others than its voters may stand and lead: once it has heard from no leader for so long."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.raft.belief import lost


@pytest.mark.parametrize(
    ("recorded", "leads", "silent_ms", "expected"),
    [(True, False, 2_000, True), (True, False, 1_999, False), (True, True, 2_000, False), (False, False, 2_000, False)],
)
def test_it_is_lost_when_a_fetch_timeout_has_passed_and_not_before(
    recorded: bool, leads: bool, silent_ms: int, expected: bool
) -> None:
    core: Any = SimpleNamespace(
        history=SimpleNamespace(recorded=recorded),
        leading=object() if leads else None,
        now_ms=10_000,
        heard_ms=10_000 - silent_ms,
        limits=SimpleNamespace(fetch_timeout_ms=2_000),
    )
    assert lost(core) is expected
