"""ListGroups (16), versions 0 to 5: the groups that this broker coordinates.

Behaviour: a principal that may not describe the cluster sees the groups that it may describe.
Version notes: 4 filter by state (KIP-518); 5 filter by type (KIP-848): classic, or consumer.
Errors: COORDINATOR_LOAD_IN_PROGRESS while a partition is loading.
"""

from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Listener, Subject
from actors.node.runtime.slices import SliceCount, Steps, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ListGroupsRequest


@rpc(16, "ListGroups", range(0, 6), listeners=[Listener.BRIDGE])
def on_a_controller(context: ControllerContext, request: "ListGroupsRequest", call: Call) -> Answer:
    """A controller names no group: clients of brokers in ZooKeeper mode ask every broker, and take it for one."""
    return Done(message("ListGroupsResponse")())


@rpc(16, "ListGroups", range(0, 6), listeners=(Listener.CLIENT,), reads=Subject.GROUPS)
@in_slices
def list_groups(context: BrokerContext, request: "ListGroupsRequest", call: Call) -> Steps:
    """List the groups that this broker coordinates."""
    Response = message("ListGroupsResponse")
    machine = context.groups.machine
    states = {state.lower() for state in (request.states_filter if call.api_version >= 4 else ())}
    types = {type.lower() for type in (request.types_filter if call.api_version >= 5 else ())}
    reply = Response()
    authorizer = context.authorizer
    whole = authorizer.shown(call, Operation.DESCRIBE, Resource.CLUSTER)
    pace = SliceCount()
    for group in machine.every(types):
        id, type, of_kind = group.id, group.type, machine.kind_of(group)
        protocol_type, state = of_kind.listed(group)
        if not (whole or authorizer.shown(call, Operation.DESCRIBE, Resource.GROUP, id)):
            pass
        elif not states or state.lower() in states:
            reply.groups.append(
                Response.ListedGroup(group_id=id, protocol_type=protocol_type, group_state=state, group_type=type)
            )
        if pace.over(1 + of_kind.size(group)):
            yield
    reply.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if machine.loading() else ErrorCode.NONE
    return Done(reply)
