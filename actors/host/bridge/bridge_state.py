"""The notes of the bridge in ZooKeeper: for `rayft bridge`, which waits for them, and for `rayft status`, which shows
them."""

from typing import Any, NamedTuple

from actors.bridge.znodes import BRIDGE, CONTROLLER, REFUSED, BadZnode, fields
from actors.host.bridge.zookeeper_session import Session
from actors.ports.zookeeper import Get, Rejected

TIMEOUT_S = 2.0
STATES = ("driving", "handed back", "let go")


class BridgeState(NamedTuple):
    """The content of the three znodes that show what the bridge has done."""

    note: dict[str, Any]
    """The note of the bridge: `state`, and of a bridge that drives `controller` and `controller_epoch`; empty: there
    has been none."""
    holder: int
    """The id in /controller; -1: there is no controller."""
    refusal: str = ""
    """Why the operator's request is not done; empty: it is not refused."""


def noted(session: Session) -> BridgeState:
    """Read what the bridge has noted. Raises OSError, BadZnode."""
    bridge, controller, refused = session.read([Get(BRIDGE), Get(CONTROLLER), Get(REFUSED)])
    note = fields(BRIDGE, bridge) if bridge is not None and bridge.data else {}
    holder = fields(CONTROLLER, controller).get("brokerid", -1) if controller is not None else -1
    return BridgeState(note, holder, "" if refused is None else refused.data.decode("utf-8", "replace"))


def shown(connect: str) -> dict[str, Any]:
    """The notes of the bridge for `status --json`: `zookeeper`, `state`, `controller`, `controller_epoch`."""
    found: dict[str, Any] = {"zookeeper": connect, "state": "", "controller": None, "controller_epoch": None}
    try:
        with Session(connect, TIMEOUT_S) as session:
            note, holder, _ = noted(session)
    except (OSError, BadZnode, Rejected, ValueError):
        return found | {"state": "ZooKeeper does not answer"}
    state = note.get("state")
    return found | {
        "state": state if state in STATES else "not begun",
        "controller": None if holder < 0 else holder,
        "controller_epoch": note.get("controller_epoch"),
    }
