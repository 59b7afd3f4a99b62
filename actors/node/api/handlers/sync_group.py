"""SyncGroup (14), versions 0 to 5.

Version notes: 3 static members; 5 protocol type and name are demanded, checked, and come back.
Errors: GROUP_AUTHORIZATION_FAILED, NOT_COORDINATOR, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS (also while the group is loaded: join again).
"""

from typing import TYPE_CHECKING, Any

from actors.authorization.resources import Operation, Resource
from actors.broker.groups.classic_requests import Synced
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Listener
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import SyncGroupRequest, SyncGroupResponse

PROTOCOL_FROM = 5


@rpc(14, "SyncGroup", range(0, 6), listeners=(Listener.CLIENT,))
def sync_group(context: BrokerContext, request: "SyncGroupRequest", call: Call) -> Answer:
    """Wait until the leader's assignment is committed."""
    if not context.authorizer.allowed(call, Operation.READ, Resource.GROUP, request.group_id):
        return Done(_reply(Synced(ErrorCode.GROUP_AUTHORIZATION_FAILED)))
    groups = context.groups
    if call.api_version >= PROTOCOL_FROM and (request.protocol_type is None or request.protocol_name is None):
        return Done(_reply(Synced(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)))
    return groups.ask(
        call.connection,
        lambda ticket: groups.machine.sync(
            request.group_id,
            ticket,
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            request.protocol_type,
            request.protocol_name,
            [(entry.member_id, bytes(entry.assignment)) for entry in request.assignments],
            context.runtime.now,
        ),
        _reply,
    )


def _reply(verdict: Any) -> "SyncGroupResponse":
    assert isinstance(verdict, Synced)
    return message("SyncGroupResponse")(
        error_code=verdict.error,
        protocol_type=verdict.protocol_type,
        protocol_name=verdict.protocol,
        assignment=verdict.assignment,
    )
