"""Heartbeat (12) of a group member, versions 0 to 4.

Version notes: 3 static members.
Errors: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
REBALANCE_IN_PROGRESS.
"""

from typing import TYPE_CHECKING, Any

from actors.node.registry import Answer, Call, Done, Listener, rpc
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.node.node import Node


@rpc(12, "Heartbeat", range(0, 5), listeners=(Listener.CLIENT,))
def heartbeat(node: "Node", request: Any, call: Call) -> Answer:
    """Keep the member's session."""
    assert node.broker is not None
    error = node.broker.groups.machine.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id, node.now
    )
    return Done(message("HeartbeatResponse")(error_code=error))
