"""BeginQuorumEpoch (53): a new leader of the metadata quorum makes itself known.

Versions and errors: `quorum/codec/begin_quorum_epoch.py`.
"""

from typing import TYPE_CHECKING

from actors.node.api.contexts import ControllerContext
from actors.node.api.table import rpc
from actors.node.quorum.codec import begin_quorum_epoch as codec
from actors.node.quorum.codec.partition import Refusal
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call, Lane, Listener

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import BeginQuorumEpochRequest


@rpc(53, codec.NAME, range(0, 2), listeners=(Listener.CONTROLLER,), lane=Lane.CONTROL)
def begin_quorum_epoch(context: ControllerContext, request: "BeginQuorumEpochRequest", call: Call) -> Answer:
    """Ask raft; its answer leaves when the epoch is durable."""
    quorum = context.quorum
    asked = codec.read_request(quorum.identity, request, call.api_version)
    if not isinstance(asked, Refusal):
        quorum.transport.hear_of_leader(asked, request.leader_endpoints)
    return quorum.transport.ask(codec, asked)
