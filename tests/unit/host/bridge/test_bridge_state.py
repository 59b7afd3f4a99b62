"""What `rayft status` says of a bridge."""

import socket

import pytest

from actors.command.output import screen
from actors.host.bridge import bridge_state
from actors.host.bridge.bridge_state import BridgeState


def said(**note: object) -> dict[str, object]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bridge_state, "Session", lambda connect, timeout_s: Anybody())
        patched.setattr(bridge_state, "noted", lambda session: BridgeState(note, 1001))
        return bridge_state.shown("zk:2181")


class Anybody:
    def __enter__(self) -> "Anybody":
        return self

    def __exit__(self, *error: object) -> None: ...


def test_a_bridge_that_drives_is_shown_with_its_controller_and_epoch() -> None:
    found = said(state="driving", controller=1001, controller_epoch=8)
    assert found == {"zookeeper": "zk:2181", "state": "driving", "controller": 1001, "controller_epoch": 8}
    line = screen.line({"brokers": [], "leader_id": 1, "leader_epoch": 2, "partitions": None, "bridge": found})
    assert line.endswith("bridge: driving, controller 1001, epoch 8")


@pytest.mark.parametrize(
    ("note", "state"), [({}, "not begun"), ({"state": "let go"}, "let go"), ({"state": [1]}, "not begun")]
)
def test_other_states(note: dict[str, object], state: str) -> None:
    assert said(**note)["state"] == state


def test_a_zookeeper_that_does_not_answer_does_not_stop_the_command() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = bridge_state.shown(f"127.0.0.1:{silent.getsockname()[1]}")
    assert found["state"] == "ZooKeeper does not answer"
