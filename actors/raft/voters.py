"""Who votes, and the arithmetic of majorities.

This file alone decides what a majority is, and in which order voters try to succeed a dead leader.
"""

from collections.abc import Iterable, Sequence

from actors.raft.messages import ReplicaKey


class Voters:
    """An immutable set of voters in the order of their ids.

    Invariant: ids are unique, so a replica with a known id but another directory id is not a voter.
    """

    __slots__ = ("_by_id", "keys", "majority")

    def __init__(self, keys: Iterable[ReplicaKey] = ()) -> None:
        self.keys: Sequence[ReplicaKey] = tuple(sorted(keys))
        self._by_id = {key.id: key for key in self.keys}
        if len(self._by_id) != len(self.keys):
            raise ValueError(f"two voters share an id: {self.keys}")
        self.majority = len(self.keys) // 2 + 1

    def __contains__(self, key: object) -> bool:
        return isinstance(key, tuple) and self._by_id.get(key[0]) == key

    def __len__(self) -> int:
        return len(self.keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Voters) and self.keys == other.keys

    def __hash__(self) -> int:
        return hash(self.keys)

    def __repr__(self) -> str:
        return f"Voters({[key.id for key in self.keys]})"

    def key(self, replica_id: int) -> ReplicaKey | None:
        """The voter of that id."""
        return self._by_id.get(replica_id)

    def others(self, me: ReplicaKey) -> Sequence[ReplicaKey]:
        """All voters but `me`."""
        return tuple(key for key in self.keys if key != me)

    def rank(self, me: int, dead: int) -> int:
        """The place of `me` counted upward (and around) from `dead`: 1 for the next higher id, and so on."""
        following = [key.id for key in self.keys if key.id > dead] + [key.id for key in self.keys if key.id < dead]
        return following.index(me) + 1 if me in following else len(following) + 1

    def agreed(self, values: Sequence[int]) -> int:
        """The highest value that a majority has reached; `values` holds one for each voter."""
        assert len(values) == len(self.keys)
        return sorted(values, reverse=True)[self.majority - 1]
