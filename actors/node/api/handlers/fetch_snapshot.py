"""FetchSnapshot (59): a slice of a snapshot file of the metadata partition.

Versions and errors: `quorum/codec/fetch_snapshot.py`.
"""

from typing import TYPE_CHECKING

from actors.node.api.contexts import ControllerContext
from actors.node.api.table import rpc
from actors.node.quorum.codec import fetch_snapshot as codec
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call, Lane, Listener

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import FetchSnapshotRequest


@rpc(59, codec.NAME, range(0, 2), listeners=(Listener.CONTROLLER,), lane=Lane.CONTROL)
def fetch_snapshot(context: ControllerContext, request: "FetchSnapshotRequest", call: Call) -> Answer:
    """Ask raft for the slice."""
    quorum = context.quorum
    return quorum.transport.ask(codec, codec.read_request(quorum.identity, request, call.api_version))
