"""AddRaftVoter (80): a controller becomes a voter of the metadata quorum.

Brokers pass it on; the active controller does it. Versions and errors: `quorum/codec/add_raft_voter.py`.
"""

from typing import TYPE_CHECKING

from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.table import rpc
from actors.node.quorum.codec import add_raft_voter as codec
from actors.node.runtime.answers import Answer, Forward
from actors.node.runtime.calls import Call, Listener

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import AddRaftVoterRequest


@rpc(80, codec.NAME, range(2), listeners=[Listener.CONTROLLER], enveloped=True)
def add_raft_voter(context: ControllerContext, request: "AddRaftVoterRequest", call: Call) -> Answer:
    """Ask raft; its answer leaves when the change is written or, if that was asked for, committed."""
    quorum = context.quorum
    return quorum.transport.ask(codec, codec.read_request(quorum.identity, request, call.api_version))


@rpc(80, codec.NAME, range(2), listeners=[Listener.CLIENT, Listener.INTER_BROKER])
def forward(context: BrokerContext, request: "AddRaftVoterRequest", call: Call) -> Answer:
    """On a broker."""
    return Forward()
