"""AddRaftVoter (80): a controller becomes a voter of the metadata quorum.

Brokers pass it on; the active controller does it. Versions and errors: `quorum/codec/add_raft_voter.py`.
"""

from typing import TYPE_CHECKING

from actors.node.api.contexts import ControllerContext
from actors.node.api.table import controllers_own
from actors.node.quorum.codec import add_raft_voter as codec
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import AddRaftVoterRequest


@controllers_own(80, codec.NAME, range(2))
def add_raft_voter(context: ControllerContext, request: "AddRaftVoterRequest", call: Call) -> Answer:
    """Ask raft; its answer leaves when the change is written or, if that was asked for, committed."""
    quorum = context.quorum
    return quorum.transport.ask(codec, codec.read_request(quorum.identity, request, call.api_version))
