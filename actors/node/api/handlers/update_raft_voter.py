"""UpdateRaftVoter (82): a voter of the metadata quorum says where it is reached.

Versions and errors: `quorum/codec/update_raft_voter.py`.
"""

from typing import TYPE_CHECKING

from actors.node.api.contexts import ControllerContext
from actors.node.api.table import rpc
from actors.node.quorum.codec import update_raft_voter as codec
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call, Lane, Listener

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import UpdateRaftVoterRequest


@rpc(82, codec.NAME, range(1), listeners=(Listener.CONTROLLER,), lane=Lane.CONTROL)
def update_raft_voter(context: ControllerContext, request: "UpdateRaftVoterRequest", call: Call) -> Answer:
    """Ask raft; its answer leaves when the change is written."""
    quorum = context.quorum
    return quorum.transport.ask(codec, codec.read_request(quorum.identity, request, call.api_version))
