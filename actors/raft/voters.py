"""The voters: their majorities, and from which offset of the log which set of them counts (KIP-853).

This file alone decides what a majority is, in which order voters try to succeed a dead leader, and which set of voters
counts at an offset. Rules:

1. A set of voters counts from the moment in which its record is appended, committed or not. When the record is truncated,
   the set before it counts again.
2. kraft.version 0: no record names voters; the set that the replica was given counts always. kraft.version 1: the first
   set is that of the snapshot at which the log begins, or of a record.
3. Two sets that follow each other differ by one voter (`change`), so that their majorities share a replica.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from actors.raft.messages import ReplicaKey, Voter


class Voters:
    """An immutable set of voters in the order of their ids.

    Invariant: ids are unique, so a replica with a known id but another directory id is not a voter.
    """

    __slots__ = ("_by_id", "keys", "majority", "members")

    def __init__(self, voters: Iterable[Voter | ReplicaKey] = ()) -> None:
        members = (one if isinstance(one, Voter) else Voter(one) for one in voters)
        self.members: Sequence[Voter] = tuple(sorted(members))
        self.keys: Sequence[ReplicaKey] = tuple(one.key for one in self.members)
        self._by_id = {key.id: key for key in self.keys}
        if len(self._by_id) != len(self.keys):
            raise ValueError(f"two voters share an id: {self.keys}")
        self.majority = len(self.keys) // 2 + 1

    def __contains__(self, key: object) -> bool:
        return isinstance(key, tuple) and self._by_id.get(key[0]) == key

    def __len__(self) -> int:
        return len(self.keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Voters) and self.members == other.members

    def __hash__(self) -> int:
        return hash(self.members)

    def __repr__(self) -> str:
        return f"Voters({[key.id for key in self.keys]})"

    def key(self, replica_id: int) -> ReplicaKey | None:
        """The key of the voter with that id; None: there is none."""
        return self._by_id.get(replica_id)

    def member(self, key: ReplicaKey) -> Voter | None:
        """The voter with that key, with all that is known of it; None: there is none."""
        return next((one for one in self.members if one.key == key), None)

    def others(self, me: ReplicaKey) -> Sequence[ReplicaKey]:
        """All voters but `me`."""
        return tuple(key for key in self.keys if key != me)

    def with_voter(self, voter: Voter) -> "Voters":
        """This set with one voter more, or with a voter as it is now."""
        return Voters([*(one for one in self.members if one.key.id != voter.key.id), voter])

    def without(self, key: ReplicaKey) -> "Voters":
        """This set with one voter less."""
        return Voters(one for one in self.members if one.key != key)

    def rank(self, me: int, dead: int) -> int:
        """The place of `me` counted upward (and around) from `dead`: 1 for the next higher id, and so on."""
        following = [key.id for key in self.keys if key.id > dead] + [key.id for key in self.keys if key.id < dead]
        return following.index(me) + 1 if me in following else len(following) + 1

    def agreed(self, values: Sequence[int]) -> int:
        """The highest value that a majority has reached; `values` holds one for each voter."""
        assert len(values) == len(self.keys)
        return sorted(values, reverse=True)[self.majority - 1]


class VoterHistory:
    """The offsets of the records that name voters, in order, each with its set. Invariant: offsets rise. Without a
    record (kraft.version 0) `newest` is the set that was given."""

    __slots__ = ("_given", "_offsets", "_sets", "newest")

    def __init__(self, given: Voters, entries: Iterable[tuple[int, Voters]] = ()) -> None:
        """`entries` are (offset, set): the set of the snapshot at which the log begins, under the offset of the last
        record in the snapshot, then those of the records in the log."""
        self._given = given
        self._offsets: list[int] = []
        self._sets: list[Voters] = []
        for offset, voters in entries:
            self._offsets.append(offset)
            self._sets.append(voters)
        self.newest = self._sets[-1] if self._sets else given
        """The voters that count now."""

    @property
    def recorded(self) -> bool:
        """Whether the log or its snapshot names the voters: kraft.version 1."""
        return bool(self._sets)

    @property
    def newest_offset(self) -> int:
        """The offset of the newest record; -1: there is none."""
        return self._offsets[-1] if self._offsets else -1

    @property
    def before(self) -> Voters:
        """The set before the newest one; the newest itself if there is none before it."""
        return self._sets[-2] if len(self._sets) > 1 else self.newest

    def append(self, offset: int, voters: Voters) -> None:
        """Note a record at `offset` that names the voters."""
        assert offset > self.newest_offset, (offset, self.newest_offset)
        self._offsets.append(offset)
        self._sets.append(voters)
        self.newest = voters

    def truncate(self, end_offset: int) -> None:
        """Forget the sets of records at `end_offset` and above."""
        while self._offsets and self._offsets[-1] >= end_offset:
            self._offsets.pop()
            self._sets.pop()
        self.newest = self._sets[-1] if self._sets else self._given

    def cut_front(self, start_offset: int) -> None:
        """Let the log begin at `start_offset`: the set that counts there stays, sets before it go."""
        first = bisect_left(self._offsets, start_offset) - 1
        if first > 0:
            del self._offsets[:first], self._sets[:first]

    def restart_at(self, end_offset: int, voters: Voters | None) -> None:
        """Let the log begin anew behind a snapshot that names `voters` (None: it names none)."""
        self._offsets, self._sets = ([], []) if voters is None else ([end_offset - 1], [voters])
        self.newest = self._sets[-1] if self._sets else self._given

    def ever(self, key: ReplicaKey, end_offset: int) -> bool:
        """Whether a record below `end_offset`, of those that are still known, names that voter."""
        known = zip(self._offsets, self._sets, strict=True)
        return any(offset < end_offset and key in voters for offset, voters in known)

    def at(self, end_offset: int) -> Voters | None:
        """The voters according to the records below `end_offset`; None: the records name no voters (kraft.version 0)."""
        place = bisect_left(self._offsets, end_offset) - 1
        return self._sets[place] if place >= 0 else None
