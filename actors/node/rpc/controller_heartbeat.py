"""ControllerHeartbeat 0 (KIP-631): reports of snapshots, and the word to start one (`controller/snapshots.py`).

Level 1 answers without ThrottleTimeMs (R631-197). A broker always answers NOT_CONTROLLER (R631-124, A01).
Errors: 42 for an id that no controller has; 41 NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING, Any

from actors.controller.refusals import refusal
from actors.controller.snapshots import controller_heartbeat
from actors.node.answers import mapped
from actors.node.registry import Answer, Call, Done, Lane, Listener, rpc
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.node.node import Node


@rpc(51, "ControllerHeartbeat", range(1), listeners=[Listener.CONTROLLER], lane=Lane.CONTROL)
def decide(node: "Node", request: Any, call: Call) -> Answer:
    """On a controller."""
    assert node.controller is not None
    answer = node.controller.submit(controller_heartbeat, request, call)
    return mapped(answer, _level_1) if node.controller.layout_level(call) == 1 else answer


def _level_1(reply: Any) -> Any:
    return message("v19:ControllerHeartbeatResponse")(error_code=reply.error_code, start_snapshot=reply.start_snapshot)


@rpc(51, "ControllerHeartbeat", range(1), listeners=[Listener.INTER_BROKER])
def refuse(node: "Node", request: Any, call: Call) -> Answer:
    """On a broker."""
    return Done(refusal("ControllerHeartbeat", request, ErrorCode.NOT_CONTROLLER, node.quorum.leader_id))
