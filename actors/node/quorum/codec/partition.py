"""The parts that the RPCs of the quorum share on the wire: one topic, one partition, a cluster id, addresses of the
leader."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.node.quorum.identity import Identity
from actors.raft import Error

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import BeginQuorumEpochRequest

ENDPOINTS_MAX = 100
"""The most endpoints of an answer that are read: it names one leader, and a quorum has a few voters."""


class Refusal(NamedTuple):
    """The answer to a request that is not given to raft."""

    reply: Any


def foreign(own: Identity, request: Any) -> bool:
    """Whether a request names another cluster. It may name none."""
    return request.cluster_id is not None and request.cluster_id != own.cluster_id


def partition(own: Identity, topics: Sequence[Any], name: str, number: str) -> Any | None:
    """The one partition of a request or an answer, if it is the metadata partition and nothing else. `name` and
    `number` are the attributes in which this RPC keeps topic name and partition number."""
    if len(topics) != 1 or len(topics[0].partitions) != 1 or getattr(topics[0], name) != own.topic:
        return None
    found = topics[0].partitions[0]
    return found if getattr(found, number) == 0 else None


def endpoints(own: Identity, cls: type[Any], leader_id: int) -> list[Any]:
    """The NodeEndpoints of an answer: the leader's, if it is known."""
    address = own.addresses.find(leader_id) if leader_id >= 0 else None
    return [] if address is None else [cls(node_id=leader_id, host=address[0], port=address[1])]


def own_endpoints(own: Identity, cls: type[Any]) -> list["BeginQuorumEpochRequest.LeaderEndpoint"]:
    """The LeaderEndpoints of a request: this node's controller listener."""
    address = own.addresses.own
    if address is None:
        return []
    return [cls(name=own.listener_name, host=address[0], port=address[1])]


def learn(own: Identity, reply: Any, leader_id: int = -1) -> None:
    """Believe the addresses of voters in an answer; of all replicas, as long as this node does not know the voters. The
    leader that the answer names is remembered even if it is no voter here: the voters may have changed."""
    known = {key.id for key in own.voters.voters.keys}
    for endpoint in (reply.node_endpoints or ())[:ENDPOINTS_MAX]:
        if not known or endpoint.node_id in known:
            own.addresses.learn(endpoint.node_id, endpoint.host, endpoint.port)
        elif endpoint.node_id == leader_id:
            own.addresses.learn_stranger(endpoint.node_id, endpoint.host, endpoint.port)


def error(code: int) -> Error | None:
    """The quorum's error of that code; None: the quorum does not know the code."""
    return Error(code) if code in Error._value2member_map_ else None
