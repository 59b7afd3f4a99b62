"""DescribeCluster (60), versions 0 to 2. On brokers: the brokers that are not fenced, as Metadata names them. On
controllers: the controllers of the quorum and the active one among them (KIP-919).

Version notes: 1 endpoint type (1 brokers), 2 fenced brokers (the drafts keep no registration of a fenced broker).

Errors: UNSUPPORTED_ENDPOINT_TYPE, MISMATCHED_ENDPOINT_TYPE (controllers are described by controllers).
"""

from typing import TYPE_CHECKING

from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.security.authorizer import cluster_operations
from actors.node.api.shown_cluster import NOT_DRIVING, ClusterView, shown_by_controller, with_controller
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import DescribeClusterRequest

BROKERS, CONTROLLERS = 1, 2
NAMES = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}


@rpc(60, "DescribeCluster", range(0, 3), listeners=(Listener.CLIENT,), lane=Lane.DATA, reads=Subject.METADATA)
def describe_cluster(context: BrokerContext, request: "DescribeClusterRequest", call: Call) -> Answer:
    """Name the brokers."""
    return _brokers(context, request, call)


@rpc(60, "DescribeCluster", range(0, 3), listeners=[Listener.BRIDGE], lane=Lane.DATA)
def describe_to_clients(context: ControllerContext, request: "DescribeClusterRequest", call: Call) -> Answer:
    """Name the brokers and this controller to clients of brokers in ZooKeeper mode."""
    shown = shown_by_controller(context)
    return NOT_DRIVING if shown is None else _brokers(shown, request, call)


def _brokers(context: ClusterView, request: "DescribeClusterRequest", call: Call) -> Answer:
    kind = message("DescribeClusterResponse")
    if request.endpoint_type != BROKERS:
        return _other(request.endpoint_type, BROKERS)
    brokers = []
    image = context.cache.image
    registered = image.brokers() if request.include_fenced_brokers else image.unfenced_brokers()
    shown, controller = with_controller(context, call.listener_name, registered)
    for broker in shown:
        endpoint = next((one for one in broker.endpoints if one.name == call.listener_name), None)
        if endpoint is not None:
            brokers.append(
                kind.DescribeClusterBroker(
                    broker_id=broker.id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=broker.rack,
                    is_fenced=broker.fenced,
                )
            )
    reply = kind(cluster_id=context.cluster_id, controller_id=controller, brokers=brokers)
    if request.include_cluster_authorized_operations:
        reply.cluster_authorized_operations = cluster_operations(context.authorizer, call)
    return Done(reply)


@rpc(60, "DescribeCluster", range(0, 3), listeners=(Listener.CONTROLLER,), lane=Lane.DATA)
def describe_controllers(context: ControllerContext, request: "DescribeClusterRequest", call: Call) -> Answer:
    """Name the controllers; any of them can, so a tool that knows one finds the active one."""
    kind = message("DescribeClusterResponse")
    if request.endpoint_type != CONTROLLERS:
        return _other(request.endpoint_type, CONTROLLERS)
    controllers = [
        kind.DescribeClusterBroker(broker_id=controller, host=address[0], port=address[1])
        for controller in context.quorum.identity.voters.ids()
        if (address := context.quorum.identity.addresses.find(controller)) is not None
    ]
    reply = kind(
        endpoint_type=CONTROLLERS,
        cluster_id=context.cluster_id,
        controller_id=context.quorum.leader_id,
        brokers=controllers,
    )
    if request.include_cluster_authorized_operations:
        reply.cluster_authorized_operations = cluster_operations(context.authorizer, call)
    return Done(reply)


def _other(asked: int, described: int) -> Done:
    """The answer on a listener that describes nodes of another kind than was asked for."""
    code, text = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {asked}"
    if asked in NAMES:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        sent, wanted = NAMES[described], NAMES[asked]
        text = f"The request was sent to an endpoint of type {sent}, but we wanted an endpoint of type {wanted}"
    return Done(
        message("DescribeClusterResponse")(error_code=code, error_message=text, endpoint_type=asked, cluster_id="")
    )
