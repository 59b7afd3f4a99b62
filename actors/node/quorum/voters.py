"""Who votes in the metadata quorum, as this node knows it (KIP-853).

This file alone keeps the voters. They come from what formatting wrote, from a snapshot, and from Voters records; who may be
reached where follows from them. Today no record changes who votes; what will, passes through here.
"""

from collections.abc import Sequence

from actors.metadata import batches
from actors.node.quorum.addresses import Addresses
from actors.raft import ReplicaKey, Voters


class VoterSet:
    """The voters with their endpoints. `records` is empty while this node does not know them."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self.records: Sequence[batches.Voter] = ()

    def adopt(self, records: Sequence[batches.Voter]) -> None:
        """These vote from now on."""
        self.records = records
        self._addresses.record(records)

    @property
    def voters(self) -> Voters:
        """Their keys, as raft wants them."""
        return Voters(ReplicaKey(voter.id, voter.directory_id) for voter in self.records)

    def ids(self) -> Sequence[int]:
        """Their ids, in order."""
        return [key.id for key in self.voters.keys]

    def record(self) -> batches.Voters | None:
        """Them as a snapshot names them; None while this node does not know them."""
        return batches.Voters(tuple(self.records)) if self.records else None
