"""The identity of this replica to its peers: its cluster, the metadata partition, its own key, and where the others
are."""

from actors.node.quorum.addresses import Addresses
from actors.node.quorum.voters import VoterSet
from actors.raft import ReplicaKey


class Identity:
    """The values that the codec writes into messages and compares in them."""

    def __init__(self, cluster_id: str, topic: str, me: ReplicaKey, listener_name: str, addresses: Addresses) -> None:
        """`topic` is the name of the metadata topic in this family. `listener_name`: of this node's controller
        listener; empty on a broker."""
        self.cluster_id = cluster_id
        self.topic = topic
        self.me = me
        self.listener_name = listener_name
        self.addresses = addresses
        self.voters = VoterSet(addresses)
