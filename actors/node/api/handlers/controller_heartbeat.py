"""ControllerHeartbeat 0 (KIP-631): reports of snapshots, and the word to start one (`controller/snapshots.py`).

Level 1 answers without ThrottleTimeMs (R631-197). A broker always answers NOT_CONTROLLER (R631-124, A01).
Errors: INVALID_REQUEST for an id that no controller has; NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING, Any

from actors.controller.refusals import refusal
from actors.controller.snapshots import controller_heartbeat
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.table import DRAFTS, rpc
from actors.node.runtime.answers import Answer, Done, mapped
from actors.node.runtime.calls import Call, Lane, Listener
from actors.wire.errors import ErrorCode
from actors.wire.messages import Message, message

if TYPE_CHECKING:
    from actors.wire.schemas.kip631.v28 import ControllerHeartbeatRequest


@rpc(51, "ControllerHeartbeat", range(1), listeners=[Listener.CONTROLLER], families=DRAFTS, lane=Lane.CONTROL)
def decide(context: ControllerContext, request: "ControllerHeartbeatRequest", call: Call) -> Answer:
    """The active controller notes that a standby lives."""
    answer = context.role.submit(controller_heartbeat, request, call)
    return mapped(answer, _level_1) if context.role.layout_level(call) == 1 else answer


def _level_1(reply: Any) -> Any:
    return message("v19:ControllerHeartbeatResponse")(error_code=reply.error_code, start_snapshot=reply.start_snapshot)


@rpc(51, "ControllerHeartbeat", range(1), listeners=[Listener.INTER_BROKER], families=DRAFTS)
def refuse(context: BrokerContext, request: Message, call: Call) -> Answer:
    """A broker takes no heartbeats."""
    return Done(refusal(request, ErrorCode.NOT_CONTROLLER, context.quorum.leader_id))
