"""DescribeGroups (15), versions 0 to 6.

Version notes: 3 authorized operations; 4 instance ids; 6 GROUP_ID_NOT_FOUND with a message for a group that is not there
(before: state Dead and no error), or is one of KIP-848.
Behaviour: a group is shown once, however often it is named: what it shows may be thousands of times as long as its name.
Errors: GROUP_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND; each group has its
own.
"""

from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.broker.groups.classic.state import Group, GroupState
from actors.node.api.contexts import BrokerContext
from actors.node.api.security.authorizer import NOT_ASKED
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Listener, Subject
from actors.node.runtime.slices import SliceCount, Steps, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import DescribeGroupsRequest, DescribeGroupsResponse

NOT_FOUND_VERSION = 6


@rpc(15, "DescribeGroups", range(0, 7), listeners=(Listener.CLIENT,), reads=Subject.GROUPS)
@in_slices
def describe_groups(context: BrokerContext, request: "DescribeGroupsRequest", call: Call) -> Steps:
    """Show groups with their members."""
    Response = message("DescribeGroupsResponse")
    groups = []
    pace = SliceCount()
    judged = context.authorizer.looked(Resource.GROUP) if request.include_authorized_operations else 0
    for id in dict.fromkeys(request.groups):
        group: Group | ErrorCode | None = ErrorCode.GROUP_AUTHORIZATION_FAILED
        if context.authorizer.allowed(call, Operation.DESCRIBE, Resource.GROUP, id):
            group = context.groups.machine.group(id)
        operations = NOT_ASKED
        if request.include_authorized_operations and not isinstance(group, ErrorCode):
            operations = context.authorizer.operations(call, Resource.GROUP, id)
        if isinstance(group, ErrorCode):
            groups.append(Response.DescribedGroup(group_id=id, error_code=group))
        elif group is None:
            missing = call.api_version >= NOT_FOUND_VERSION
            other = context.groups.machine.find(id) is not None
            text = f"Group {id} is not a classic group." if other else f"Group {id} not found."
            groups.append(
                Response.DescribedGroup(
                    group_id=id,
                    group_state="Dead",
                    authorized_operations=operations,
                    error_code=ErrorCode.GROUP_ID_NOT_FOUND if missing else ErrorCode.NONE,
                    error_message=text if missing else None,
                )
            )
        else:
            groups.append(_describe(Response, group, operations))
        if pace.over(1 + len(groups[-1].members) + judged):
            yield
    return Done(Response(groups=groups))


def _describe(
    Response: "type[DescribeGroupsResponse]", group: Group, operations: int
) -> "DescribeGroupsResponse.DescribedGroup":
    """A group with its members. Their protocol, metadata and assignments belong to a stable group alone."""
    chosen = group.protocol if group.state is GroupState.STABLE else None
    return Response.DescribedGroup(
        group_id=group.id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=chosen or "",
        authorized_operations=operations,
        members=[
            Response.DescribedGroupMember(
                member_id=member.id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(chosen),
                member_assignment=member.assignment if group.state is GroupState.STABLE else b"",
            )
            for member in group.members.values()
        ],
    )
