"""StopReplica (5): the active controller tells of which partitions this broker has no replica any more (KIP-291).

Served by brokers with `rayft.metadata.source=push` alone, on the control plane's listener and, without its priority, on the
one between brokers, where controllers send it that do not know of the former (R291-39). What is obeyed is decided in
`roles/broker/metadata/pushed_metadata.py`. Errors: top level STALE_CONTROLLER_EPOCH, CLUSTER_AUTHORIZATION_FAILED,
STALE_BROKER_EPOCH; by partition KAFKA_STORAGE_ERROR, FENCED_LEADER_EPOCH.
"""

from typing import TYPE_CHECKING

from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Close, Done
from actors.node.runtime.calls import Call, Listener

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import StopReplicaRequest


@rpc(5, "StopReplica", range(4, 5), listeners=[Listener.CONTROL_PLANE, Listener.INTER_BROKER], pushed=True)
def stop_replica(context: BrokerContext, request: "StopReplicaRequest", call: Call) -> Answer:
    """A broker to which metadata is pushed ends its replicas."""
    assert context.pushed_metadata is not None, "it is served where metadata is pushed"
    if context.pushed_metadata.overtaken(request, call.connection):
        return Close(f"controller {request.controller_id} speaks over a newer connection")
    return Done(context.pushed_metadata.stop_replica(request))
