"""The voters of the metadata quorum, as this node knows them (KIP-853).

Raft decides which replicas vote, by the newest record in the log. This file alone translates between that and records,
and keeps where each voter may be reached."""

from collections.abc import Sequence

from actors.metadata import batches
from actors.metadata.ops import CorruptMetadata
from actors.node.quorum.addresses import Addresses
from actors.ports import Batch
from actors.raft import ReplicaKey, Voter, Voters

CONTROL_BYTE, CONTROL_BIT = 22, 0x20


def record(voters: Voters) -> batches.Voters:
    """The record that names these voters."""
    return batches.Voters(tuple(batches.Voter(one.key.id, one.key.directory_id, *one[1:]) for one in voters.members))


def from_record(found: Sequence[batches.Voter]) -> Voters:
    """The voters that a record names. Raises ValueError if an id is there twice."""
    return Voters(Voter(ReplicaKey(one.id, one.directory_id), one.endpoints, one.kraft_versions) for one in found)


def voters_in(batch: Batch) -> tuple[int, Voters] | None:
    """The record in a batch that names the voters, with its offset. None: there is none, or none that can be read; in
    the second case the replay stops at it."""
    if not batch.data[CONTROL_BYTE] & CONTROL_BIT:
        return None
    try:
        found = [(offset, one) for offset, one in batches.controls(batch.data) if isinstance(one, batches.Voters)]
        return (found[-1][0], from_record(found[-1][1].voters)) if found else None
    except (CorruptMetadata, ValueError):
        return None


class VoterSet:
    """The voters with their endpoints. `voters` is empty while this node does not know them."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self.voters = Voters()
        """The voters as raft has them."""

    def adopt(self, voters: Voters) -> None:
        """Take over the voters that count from now on."""
        before = {one.key.id: one for one in self.voters.members}
        self.voters = voters
        self._addresses.record(voters.members)
        for one in voters.members if before else ():
            known = before.get(one.key.id)
            if known is None or known.endpoints != one.endpoints:
                self._addresses.moved(one)

    def ids(self) -> Sequence[int]:
        """The ids of the voters, in order."""
        return [key.id for key in self.voters.keys]
