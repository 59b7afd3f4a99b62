"""RemoveRaftVoter (81): a voter of the metadata quorum votes no more.

Brokers pass it on; the active controller does it. Versions and errors: `quorum/codec/remove_raft_voter.py`.
"""

from typing import TYPE_CHECKING

from actors.node.api.contexts import ControllerContext
from actors.node.api.table import controllers_own
from actors.node.quorum.codec import remove_raft_voter as codec
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import RemoveRaftVoterRequest


@controllers_own(81, codec.NAME, range(1))
def remove_raft_voter(context: ControllerContext, request: "RemoveRaftVoterRequest", call: Call) -> Answer:
    """Ask raft; its answer leaves when the change is committed."""
    quorum = context.quorum
    return quorum.transport.ask(codec, codec.read_request(quorum.identity, request, call.api_version))
