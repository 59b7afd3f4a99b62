"""LeaveGroup (13), versions 0 to 5.

Version notes: 3 several members at once, by member or instance id; 5 reason.
Errors: GROUP_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE at the top;
UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID a member (at the top before version 3).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Listener, Subject
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import LeaveGroupRequest, LeaveGroupResponse


@rpc(13, "LeaveGroup", range(0, 6), listeners=(Listener.CLIENT,), writes=Subject.GROUPS)
def leave_group(context: BrokerContext, request: "LeaveGroupRequest", call: Call) -> Answer:
    """Take members out; the rest rebalances. Answered when the log says so, of groups that keep their members there."""
    groups = context.groups
    Response = message("LeaveGroupResponse")
    if not context.authorizer.allowed(call, Operation.READ, Resource.GROUP, request.group_id):
        return Done(Response(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if call.api_version < 3:
        members: list[tuple[str, str | None]] = [(request.member_id, None)]
    else:
        members = [(member.member_id, member.group_instance_id) for member in request.members]
    codes: ErrorCode | list[ErrorCode] = ErrorCode.NONE

    def start(then: Callable[[ErrorCode], None]) -> None:
        nonlocal codes
        codes = groups.machine.leave(request.group_id, members, context.runtime.now, then)

    def reply(error: ErrorCode) -> "LeaveGroupResponse":
        """`error`: why it could not be written."""
        if error is not ErrorCode.NONE:
            return Response(error_code=error)
        if isinstance(codes, ErrorCode):
            return Response(error_code=codes)
        if call.api_version < 3:
            return Response(error_code=codes[0])
        return Response(
            error_code=ErrorCode.NONE,
            members=[
                Response.MemberResponse(member_id=member_id, group_instance_id=instance_id, error_code=code)
                for (member_id, instance_id), code in zip(members, codes, strict=True)
            ],
        )

    return groups.commit(start, reply)
