"""What the clients tried and what they were told: the facts with which checkers compare the logs.

This file alone decides how a record is named: `value = b"<producer>:<topic>:<partition>:<number>"`, used once in a world.
The history calls the checkers; it checks nothing itself.
"""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from tests.simulator.checkers.hooks import Hooks


class Attempt(NamedTuple):
    """A record that a producer has sent at least once."""

    topic: str
    partition: int
    producer: str
    number: int
    """Rises by one for each record of a producer in a partition."""
    acks: int
    idempotent: bool
    topic_id: bytes = b""
    """The id of the topic to which it was sent; empty if the producer used only the name."""


class History:
    """Facts, in the order in which they came about."""

    def __init__(self, hooks: Hooks) -> None:
        self.hooks = hooks
        self.attempts: dict[bytes, Attempt] = {}
        self.counts: Counter[str] = Counter()
        self.deleted: dict[str, None] = {}
        """Topics that a client tried to delete: their records may be lost."""
        self.ends: dict[tuple[bytes, int], int] = {}
        """(topic id, partition) -> the offset after the last record that was acknowledged."""
        self.purged: dict[tuple[bytes, int], int] = {}
        """(topic id, partition) -> the offset up to which a client tried to delete records."""
        self.tried: dict[tuple[str, str, int], set[int]] = {}
        """(group, topic, partition) -> every offset that a member asked to commit."""
        self.leads: Callable[[str, str, int], bool] = lambda broker, topic, partition: False
        """Whether a broker leads a partition by what is committed."""
        self._floors: dict[tuple[str, str, int], int] = {}

    def attempt(self, value: bytes, attempt: Attempt) -> None:
        """A record is about to be sent for the first time."""
        self.attempts[value] = attempt
        self.counts["records sent"] += 1

    def acknowledged(
        self, topic: str, topic_id: bytes, partition: int, offset: int, values: list[bytes], acks: int
    ) -> None:
        """A producer was told that its batch begins at `offset`."""
        self.counts["records acknowledged"] += len(values)
        key = topic_id, partition
        self.ends[key] = max(offset + len(values), self.ends.get(key, 0))
        for function in self.hooks.acknowledged:
            function(topic, topic_id, partition, offset, values, acks)

    def created(self, topic: str, topic_id: bytes) -> None:
        """A client was told that its topic exists."""
        self.counts["topics created"] += 1
        for function in self.hooks.created:
            function(topic, topic_id)

    def gone(self, topic: str, topic_id: bytes) -> None:
        """A client was told that its topic is deleted."""
        for function in self.hooks.deleted:
            function(topic, topic_id)

    def identified(self, client: str, producer_id: int) -> None:
        """A producer was given its id."""
        for function in self.hooks.identified:
            function(client, producer_id)

    def consumed(self, consumer: str, topic_id: bytes, partition: int, offset: int, value: bytes, wanted: int) -> None:
        """A consumer that wanted the record at `wanted`, or the next one that is left, was given one."""
        self.counts["records consumed"] += 1
        for function in self.hooks.consumed:
            function(consumer, topic_id, partition, offset, value, wanted)

    def begins(self, topic_id: bytes, partition: int, offset: int) -> None:
        """A consumer that was out of range was told the first offset."""
        for function in self.hooks.begins:
            function(topic_id, partition, offset)

    def unserved(self, topic_id: bytes, partition: int, offset: int, broker: str, asked_us: int) -> None:
        """A consumer wanted that offset and was told by a broker, which it asked then, that it is out of range."""
        for function in self.hooks.unserved:
            function(topic_id, partition, offset, broker, asked_us)

    def served(self, consumer: str, topic_id: bytes, partition: int, stated: int, epoch: int, offset: int) -> None:
        """A consumer that stated the leader epoch that it knows was given a batch."""
        for function in self.hooks.served:
            function(consumer, topic_id, partition, stated, epoch, offset)

    def compared(self, consumer: str, topic_id: bytes, partition: int, position: int, epoch: int, end: int) -> None:
        """A consumer asked where the epoch of its position ends."""
        self.counts["positions compared"] += 1
        for function in self.hooks.compared:
            function(consumer, topic_id, partition, position, epoch, end)

    def commits(self, group: str, topic: str, partition: int, offset: int) -> None:
        """A member is about to commit an offset."""
        self.tried.setdefault((group, topic, partition), set()).add(offset)

    def committed(self, group: str, topic: str, partition: int, offset: int) -> None:
        """A member was told that its group's offset is committed."""
        self.counts["offsets committed"] += 1
        key = group, topic, partition
        self._floors[key] = max(offset, self._floors.get(key, -1))
        for function in self.hooks.committed:
            function(group, topic, partition, offset)

    def floor(self, group: str, topic: str, partition: int) -> int:
        """The highest offset that a member was told is committed; -1: none."""
        return self._floors.get((group, topic, partition), -1)

    def owns(self, group: str, topic: str, partition: int, member: str, time_us: int) -> None:
        """A member of a consumer group was told that it may use a partition."""
        self.counts["partitions given to members"] += 1
        for function in self.hooks.owns:
            function(group, topic, partition, member, time_us)

    def released(self, group: str, topic: str, partition: int, member: str) -> None:
        """Note that a member uses a partition no more."""
        for function in self.hooks.released:
            function(group, topic, partition, member)

    def left(self, group: str, topic: str, member: str) -> None:
        """Note that a member uses no partition any more."""
        for function in self.hooks.left:
            function(group, topic, member)

    def alive(self, group: str, topic: str, member: str, broker: str | None, asked_us: int, session_ms: int) -> None:
        """A broker that it asked at `asked_us` has heard of it, so its session lasts for `session_ms` from then at least."""
        for function in self.hooks.alive:
            function(group, topic, member, broker, asked_us, session_ms)

    def fetched(self, group: str, topic: str, partition: int, offset: int, floor: int) -> None:
        """A member was told the group's offset (-1: none); `floor`: the highest one committed before it asked."""
        for function in self.hooks.fetched:
            function(group, topic, partition, offset, floor)
