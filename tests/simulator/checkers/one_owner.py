"""A partition of a consumer group has one owner at a time (KIP-848).

A member owns a partition from when it was told so until it has let go of it, or its session may be over: a member that was
not answered for that long must expect that others have taken its place. Only the answer of a broker that coordinated the
group when it was asked counts.
"""

from tests.simulator.checkers.coordinators import Coordinators
from tests.simulator.checkers.hooks import Violation

Partition = tuple[str, str, int]


class OneOwner:
    name = "one_owner_at_a_time"

    def __init__(self, coordinators: Coordinators) -> None:
        self._coordinators = coordinators
        self._owners: dict[Partition, str] = {}
        self._alive_us: dict[tuple[str, str, str], int] = {}

    def owns(self, group: str, topic: str, partition: int, member: str, time_us: int) -> None:
        """Check that no other member owns the partition, and note the owner."""
        key = group, topic, partition
        owner = self._owners.get(key, member)
        if owner != member and time_us < self._alive_us.get((group, topic, owner), 0):
            raise Violation(self.name, f"{member} of {group} is given {topic}-{partition}, which {owner} still uses")
        self._owners[key] = member

    def released(self, group: str, topic: str, partition: int, member: str) -> None:
        """Note that the member has let go of the partition, which may be given to others."""
        if self._owners.get((group, topic, partition)) == member:
            del self._owners[group, topic, partition]

    def left(self, group: str, topic: str, member: str) -> None:
        """Note that the member has left, and all that it owned may be given to others."""
        for key in [key for key, owner in self._owners.items() if (*key[:2], owner) == (group, topic, member)]:
            del self._owners[key]

    def alive(self, group: str, topic: str, member: str, broker: str | None, asked_us: int, session_ms: int) -> None:
        """For so long its partitions are its own."""
        if self._coordinators.was(broker, group, asked_us):
            self._alive_us[group, topic, member] = asked_us + session_ms * 1000
