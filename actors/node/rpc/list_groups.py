"""ListGroups (16), versions 0 to 5: the groups that this broker coordinates.

Version notes: 4 filter by state (KIP-518); 5 filter by type (KIP-848); all are `classic` here.
Errors: COORDINATOR_LOAD_IN_PROGRESS while a partition is loading.
"""

from typing import TYPE_CHECKING, Any

from actors.node.registry import Answer, Call, Done, Listener, Subject, rpc
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.node.node import Node

TYPE = "classic"


@rpc(16, "ListGroups", range(0, 6), listeners=(Listener.CLIENT,), reads=Subject.GROUPS)
def list_groups(node: "Node", request: Any, call: Call) -> Answer:
    """List groups."""
    assert node.broker is not None
    Response = message("ListGroupsResponse")
    machine = node.broker.groups.machine
    states = {state.lower() for state in (request.states_filter if call.api_version >= 4 else ())}
    types = {type.lower() for type in (request.types_filter if call.api_version >= 5 else ())}
    groups = [
        Response.ListedGroup(
            group_id=group.id, protocol_type=group.protocol_type or "", group_state=group.state.value, group_type=TYPE
        )
        for group in machine.groups()
        if (not states or group.state.value.lower() in states) and (not types or TYPE in types)
    ]
    error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if machine.loading() else ErrorCode.NONE
    return Done(Response(error_code=error, groups=groups))
