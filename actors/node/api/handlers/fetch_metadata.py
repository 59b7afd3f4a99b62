"""Fetch (1) on the controller listener: how replicas pull the metadata log.

Versions and errors: `quorum/codec/fetch.py`.
"""

from typing import TYPE_CHECKING

from actors.node.api.contexts import ControllerContext
from actors.node.api.table import rpc
from actors.node.quorum.codec import fetch as codec
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call, Lane, Listener

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import FetchRequest


@rpc(1, codec.NAME, range(4, 19), listeners=(Listener.CONTROLLER,), lane=Lane.CONTROL)
def fetch_metadata(context: ControllerContext, request: "FetchRequest", call: Call) -> Answer:
    """Ask raft, which answers at once or when there is news."""
    quorum = context.quorum
    return quorum.transport.ask(codec, codec.read_request(quorum.identity, request, call.api_version, call.connection))
