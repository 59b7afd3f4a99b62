"""JoinGroup (11), versions 0 to 9.

Version notes: 1 rebalance timeout apart from the session's; 4 a new member first gets an id (MEMBER_ID_REQUIRED);
5 static members (KIP-345); 7 the protocol type comes back; 8 reason; 9 SkipAssignment for a static leader (KIP-814).
Errors: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, INVALID_GROUP_ID,
GROUP_AUTHORIZATION_FAILED, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID, INVALID_SESSION_TIMEOUT, MEMBER_ID_REQUIRED,
FENCED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED.
"""

import base64
from typing import TYPE_CHECKING, Any

from actors.authorization.resources import Operation, Resource
from actors.broker.groups.classic_requests import Joined, JoinRequest
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Listener
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import JoinGroupRequest, JoinGroupResponse

NAME_CHARACTERS_MAX = 255
"""The characters of a client's name that stand in a member id, which must itself fit into a string."""


@rpc(11, "JoinGroup", range(0, 10), listeners=(Listener.CLIENT,))
def join_group(context: BrokerContext, request: "JoinGroupRequest", call: Call) -> Answer:
    """Wait for the end of the join phase."""
    if not context.authorizer.allowed(call, Operation.READ, Resource.GROUP, request.group_id):
        return Done(message("JoinGroupResponse")(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, members=[]))
    groups = context.groups
    name = (request.group_instance_id or call.client_id or "")[:NAME_CHARACTERS_MAX]
    fresh = base64.b16encode(context.runtime.random.uuid()).decode().lower()
    join = JoinRequest(
        version=call.api_version,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=call.client_id or "",
        client_host=f"/{call.client_host}",
        rebalance_timeout_ms=request.rebalance_timeout_ms if call.api_version >= 1 else request.session_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=[(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols],
        fresh_id=f"{name}-{fresh[:8]}-{fresh[8:12]}-{fresh[12:16]}-{fresh[16:20]}-{fresh[20:]}",
        principal=call.principal,
    )
    return groups.ask(
        call.connection,
        lambda ticket: groups.machine.join(request.group_id, ticket, join, context.runtime.now),
        lambda verdict: _reply(verdict, call.api_version),
    )


def _reply(verdict: Any, version: int) -> "JoinGroupResponse":
    assert isinstance(verdict, Joined)
    Response = message("JoinGroupResponse")
    members = [
        Response.JoinGroupResponseMember(member_id=id, group_instance_id=instance, metadata=metadata)
        for id, instance, metadata in verdict.members
    ]
    protocol = verdict.protocol if verdict.protocol is not None or version >= 7 else ""
    return Response(
        error_code=verdict.error,
        generation_id=verdict.generation,
        protocol_type=verdict.protocol_type,
        protocol_name=protocol,
        leader=verdict.leader,
        skip_assignment=verdict.skip_assignment,
        member_id=verdict.member_id,
        members=members,
    )
