"""EndQuorumEpoch (54): the leader of the metadata quorum gives up its epoch.

Versions and errors: `quorum/codec/end_quorum_epoch.py`.
"""

from typing import TYPE_CHECKING

from actors.node.api.contexts import ControllerContext
from actors.node.api.table import rpc
from actors.node.quorum.codec import end_quorum_epoch as codec
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call, Lane, Listener

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import EndQuorumEpochRequest


@rpc(54, codec.NAME, range(0, 2), listeners=(Listener.CONTROLLER,), lane=Lane.CONTROL)
def end_quorum_epoch(context: ControllerContext, request: "EndQuorumEpochRequest", call: Call) -> Answer:
    """Ask raft: the first of the preferred candidates stands at once."""
    quorum = context.quorum
    return quorum.transport.ask(codec, codec.read_request(quorum.identity, request, call.api_version))
