"""DescribeCluster (60), versions 0 to 2. On brokers: the brokers that are not fenced, as Metadata names them. On
controllers: the controllers of the quorum and the active one among them (KIP-919).

Version notes: 1 endpoint type (1 brokers), 2 fenced brokers (the drafts keep no registration of a fenced broker).

Errors: UNSUPPORTED_ENDPOINT_TYPE, MISMATCHED_ENDPOINT_TYPE (controllers are described by controllers).
"""

from typing import TYPE_CHECKING, Any

from actors.node.registry import Answer, Call, Done, Lane, Listener, Subject, rpc
from actors.node.rpc.metadata import CLUSTER_OPERATIONS
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.node.node import Node

BROKERS, CONTROLLERS = 1, 2


@rpc(60, "DescribeCluster", range(0, 3), listeners=(Listener.CLIENT,), lane=Lane.DATA, reads=Subject.METADATA)
def describe_cluster(node: "Node", request: Any, call: Call) -> Answer:
    """Name the brokers."""
    role = node.broker
    assert role is not None
    kind = message("DescribeClusterResponse")
    if request.endpoint_type != BROKERS:
        known = request.endpoint_type == CONTROLLERS
        return Done(
            kind(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                error_message="this listener describes brokers, endpoint type 1",
                endpoint_type=request.endpoint_type,
                cluster_id="",
            )
        )
    brokers = []
    for broker in role.image.brokers():
        if broker.fenced and not request.include_fenced_brokers:
            continue
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
    reply = kind(cluster_id=node.storage.cluster_id, controller_id=role.me, brokers=brokers)
    if request.include_cluster_authorized_operations:
        reply.cluster_authorized_operations = CLUSTER_OPERATIONS
    return Done(reply)


@rpc(60, "DescribeCluster", range(0, 3), listeners=(Listener.CONTROLLER,), lane=Lane.DATA)
def describe_controllers(node: "Node", request: Any, call: Call) -> Answer:
    """Name the controllers; any of them can, so a tool that knows one finds the active one."""
    kind = message("DescribeClusterResponse")
    if request.endpoint_type != CONTROLLERS:
        known = request.endpoint_type == BROKERS
        return Done(
            kind(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                error_message="this listener describes controllers, endpoint type 2",
                endpoint_type=request.endpoint_type,
                cluster_id="",
            )
        )
    controllers = [
        kind.DescribeClusterBroker(broker_id=controller, host=address[0], port=address[1])
        for controller in node.quorum.voter_ids()
        if (address := node.quorum.addresses.find(controller)) is not None
    ]
    reply = kind(
        endpoint_type=CONTROLLERS,
        cluster_id=node.storage.cluster_id,
        controller_id=node.quorum.leader_id,
        brokers=controllers,
    )
    if request.include_cluster_authorized_operations:
        reply.cluster_authorized_operations = CLUSTER_OPERATIONS
    return Done(reply)
