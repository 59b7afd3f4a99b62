"""Heartbeat (12) of a group member, versions 0 to 4.

Version notes: 3 static members.
Errors: GROUP_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS.
"""

from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Listener
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import HeartbeatRequest


@rpc(12, "Heartbeat", range(0, 5), listeners=(Listener.CLIENT,))
def heartbeat(context: BrokerContext, request: "HeartbeatRequest", call: Call) -> Answer:
    """Keep the member's session."""
    if not context.authorizer.allowed(call, Operation.READ, Resource.GROUP, request.group_id):
        return Done(message("HeartbeatResponse")(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    error = context.groups.machine.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id, context.runtime.now
    )
    return Done(message("HeartbeatResponse")(error_code=error))
