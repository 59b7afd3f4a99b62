"""Vote (52): who should lead the metadata quorum.

Versions and errors: `quorum/codec/vote.py`.
"""

from typing import TYPE_CHECKING

from actors.node.api.contexts import ControllerContext
from actors.node.api.table import rpc
from actors.node.quorum.codec import vote as codec
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call, Lane, Listener

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import VoteRequest


@rpc(52, codec.NAME, range(0, 3), listeners=(Listener.CONTROLLER,), lane=Lane.CONTROL)
def vote(context: ControllerContext, request: "VoteRequest", call: Call) -> Answer:
    """Ask raft; its answer leaves when the vote is durable."""
    quorum = context.quorum
    return quorum.transport.ask(codec, codec.read_request(quorum.identity, request, call.api_version))
