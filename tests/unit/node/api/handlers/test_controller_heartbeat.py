"""ControllerHeartbeat of the drafts: which layout a standby is answered in."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.node.api.handlers.controller_heartbeat import decide
from actors.node.runtime.answers import Done
from actors.wire.messages import message


@pytest.mark.parametrize(("level", "layout"), [(1, "v19"), (2, "v28")])
def test_r631_195_a_standby_is_answered_in_the_layout_of_the_cluster_s_level(level: int, layout: str) -> None:
    said = message("v28:ControllerHeartbeatResponse")(error_code=0, start_snapshot=True)
    role: Any = SimpleNamespace(layout_level=lambda call: level, submit=lambda operation, request, call: Done(said))
    answer = decide(SimpleNamespace(role=role), SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]
    assert isinstance(answer, Done)
    assert type(answer.reply) is message(f"{layout}:ControllerHeartbeatResponse")
    assert (answer.reply.error_code, answer.reply.start_snapshot) == (0, True)
