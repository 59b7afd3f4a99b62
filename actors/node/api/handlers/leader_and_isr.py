"""LeaderAndIsr (4): the active controller tells which part this broker has in which partition (KIP-291).

Served by brokers with `rayft.metadata.source=push` alone, on the control plane's listener and, without its priority, on the
one between brokers, where controllers send it that do not know of the former (R291-39). What is obeyed is decided in
`roles/broker/metadata/pushed_metadata.py`. Errors: top level STALE_CONTROLLER_EPOCH, CLUSTER_AUTHORIZATION_FAILED,
INVALID_REQUEST, STALE_BROKER_EPOCH; by partition UNKNOWN_TOPIC_OR_PARTITION, STALE_CONTROLLER_EPOCH, INVALID_REQUEST,
KAFKA_STORAGE_ERROR, INCONSISTENT_TOPIC_ID.
"""

from typing import TYPE_CHECKING

from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Close, Done
from actors.node.runtime.calls import Call, Listener

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import LeaderAndIsrRequest


@rpc(4, "LeaderAndIsr", range(7, 8), listeners=[Listener.CONTROL_PLANE, Listener.INTER_BROKER], pushed=True)
def leader_and_isr(context: BrokerContext, request: "LeaderAndIsrRequest", call: Call) -> Answer:
    """A broker to which metadata is pushed takes over who leads, and what is in sync."""
    assert context.pushed_metadata is not None, "it is served where metadata is pushed"
    if context.pushed_metadata.overtaken(request, call.connection):
        return Close(f"controller {request.controller_id} speaks over a newer connection")
    return Done(context.pushed_metadata.leader_and_isr(request))
