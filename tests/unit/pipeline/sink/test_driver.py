"""What the driver of a sink makes of a coordinator's answer about an open transaction."""

import pytest

from actors.client.operations.transactions import NO_TIMEOUT_MS, Described
from actors.pipeline.sink.driver import _seen

MONTH_MS = 31 * 86_400_000


@pytest.mark.parametrize(
    ("timeout_ms", "started_ms", "left_ms"),
    [
        (900_000, MONTH_MS - 1_000, 899_000),
        (1_000, MONTH_MS - 3_000, -2_000),
        (NO_TIMEOUT_MS, 0, None),
        (NO_TIMEOUT_MS - 1, 0, NO_TIMEOUT_MS - 1 - MONTH_MS),
        (900_000, -1, None),
    ],
)
def test_a_transaction_of_a_two_phase_commit_may_stay_open_for_ever(
    timeout_ms: int, started_ms: int, left_ms: int | None
) -> None:
    assert _seen(Described(7, 1, "Ongoing", timeout_ms, started_ms), MONTH_MS).left_ms == left_ms
