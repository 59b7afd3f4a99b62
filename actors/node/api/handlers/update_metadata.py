"""UpdateMetadata (6): the active controller tells what the cluster is (KIP-291).

Served by brokers with `rayft.metadata.source=push` alone, on the control plane's listener and, without its priority, on the
one between brokers, where controllers send it that do not know of the former (R291-39). What is obeyed is decided in
`roles/broker/metadata/pushed_metadata.py`. Errors: STALE_CONTROLLER_EPOCH, CLUSTER_AUTHORIZATION_FAILED,
INVALID_REQUEST, STALE_BROKER_EPOCH.
"""

from typing import TYPE_CHECKING

from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Close, Done
from actors.node.runtime.calls import Call, Listener
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import UpdateMetadataRequest


@rpc(6, "UpdateMetadata", range(8, 9), listeners=[Listener.CONTROL_PLANE, Listener.INTER_BROKER], pushed=True)
def update_metadata(context: BrokerContext, request: "UpdateMetadataRequest", call: Call) -> Answer:
    """A broker to which metadata is pushed takes over what it shows to clients."""
    assert context.pushed_metadata is not None, "it is served where metadata is pushed"
    if context.pushed_metadata.overtaken(request, call.connection):
        return Close(f"controller {request.controller_id} speaks over a newer connection")
    code = context.pushed_metadata.update_metadata(request)
    return Done(message("UpdateMetadataResponse")(error_code=int(code)))
