"""From rows of the image to values that a broker can act on.

This file alone reads the image on behalf of the applier: what the op just replayed has touched, or all of it after a
snapshot. Most rows that an op touches are of no concern to one broker, so a row costs a look at its replicas, and becomes a
value only where this broker has, or had, something of it.

It alone decides which replicas are made when. One record may assign thousands to this broker, and a broker that took them
all in one turn would lose its lease. The first few of a turn are made at once. Those that begin without records and come
behind them are `arriving`: they are made a few in each turn, or when somebody asks for one. What they become then is what
the metadata says then, so whatever is said of one meanwhile needs no memory.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from actors.broker.replication.metadata_delta import MetadataDelta, PartitionState
from actors.broker.replication.partition import Assignment
from actors.broker.replication.replicas import Replicas
from actors.metadata.image import Delta, Image, Rows
from actors.node.roles.broker.log.log_manager import LogManager
from actors.node.roles.broker.metadata_cache import MetadataCache

AT_ONCE = 64
"""How many new replicas are made in a turn: one takes 20 microseconds."""
ROWS_A_TURN = 4096
"""How many rows ops may touch in a turn until the rest of the log is left to the next one."""


class ImageDeltas:
    """The image as a source of deltas. What it gives is to be read before the next op is replayed."""

    def __init__(self, cache: MetadataCache, replicas: Replicas, logs: LogManager) -> None:
        self._cache = cache
        self._me = cache.me
        self._replicas = replicas
        self._logs = logs
        self._room = AT_ONCE
        """How many more replicas are made at once in this turn."""
        self._rows = 0
        """How many rows were touched in this turn."""

    @property
    def full(self) -> bool:
        """Whether ops have touched as many rows as is good for a turn."""
        return self._rows >= ROWS_A_TURN

    def crowded(self) -> bool:
        """Whether one more replica is too many for this turn. If not, it is counted."""
        if self._room > 0:
            self._room -= 1
            return False
        return True

    def begin_turn(self) -> None:
        """Let as many replicas be made as in any turn."""
        self._room, self._rows = AT_ONCE, 0

    def of(self, touched: Delta) -> MetadataDelta:
        """The change that one op has made."""
        image, rows = self._cache.image, touched.partitions
        self._rows += len(rows)
        return MetadataDelta(
            [(id, image.broker(id)) for id in touched.brokers],
            self._led_here(image) if touched.brokers else (),
            touched.removed,
            self._touched(image, rows) if len(rows) else (),
            touched.configs,
            topics_changed=bool(touched.topics),
            leaders_changed=bool(touched.brokers) or len(rows) > 0,
            features_changed=bool(touched.features),
        )

    def whole(self) -> MetadataDelta:
        """The whole content of the image, of which all was so before this process began."""
        return self.brokers()._replace(partitions=self._here(self._cache.image))

    # ---- all of it, in slices

    def brokers(self) -> MetadataDelta:
        """What the image says of brokers."""
        image = self._cache.image
        return MetadataDelta([(broker.id, broker) for broker in image.brokers()], self._led_here(image))

    def slices(self, size: int) -> Iterator[list[PartitionState]]:
        """What the image says of the partitions with a replica here, `size` of them in a slice. Each slice is what it says
        when the slice is asked for; partitions that come to this broker meanwhile are in none."""
        rows = self._cache.image.rows_of(self._me).data
        for begin in range(0, len(rows), size):
            yield list(self._in_order(rows[begin : begin + size]))

    def __contains__(self, partition: object) -> bool:
        """Whether the image has a replica here of a partition, by topic id and number."""
        assert isinstance(partition, tuple), partition
        topic_id, number = partition
        image, topic = self._cache.image, self._cache.image.topic_by_id(topic_id)
        row = image.partition(topic, number) if topic >= 0 else -1
        return row >= 0 and self._me in image.replicas(row)

    # ---- what is arriving

    def arrived(self) -> MetadataDelta:
        """What the metadata says of the next partitions that are arriving: as many as there is room for."""
        arriving, found = self._replicas.arriving, list[PartitionState]()
        while arriving:
            topic_id, numbers = next(iter(arriving.items()))
            while numbers:
                if self.crowded():
                    return MetadataDelta(partitions=found)
                found += self._now(topic_id, numbers.popitem()[0])
            del arriving[topic_id]
        return MetadataDelta(partitions=found)

    def one(self, topic: bytes | str, number: int) -> MetadataDelta | None:
        """What the metadata says of one partition, if that is arriving."""
        image, arriving = self._cache.image, self._replicas.arriving
        if isinstance(topic, bytes):
            topic_id: bytes | None = topic
        else:
            row = image.topic(topic)
            topic_id = image.topic_id(row) if row >= 0 else None
        numbers = arriving.get(topic_id) if topic_id is not None else None
        if topic_id is None or numbers is None or number not in numbers:
            return None
        del numbers[number]
        if not numbers:
            del arriving[topic_id]
        return MetadataDelta(partitions=self._now(topic_id, number))

    def _now(self, topic_id: bytes, number: int) -> list[PartitionState]:
        image = self._cache.image
        topic = image.topic_by_id(topic_id)
        row = image.partition(topic, number) if topic >= 0 else -1
        replicas = image.replicas(row) if row >= 0 else ()
        return [self._state(image, row, replicas)] if self._me in replicas else []

    def _waits(self, name: str, topic_id: bytes, number: int, *, before: bool = False) -> bool:
        """Whether a replica of this broker need not be made in this turn. If so, it is arriving from now on."""
        replicas = self._replicas
        if replicas.known(topic_id, number):
            return False
        if not self._logs.begins_blank(name, topic_id, number, before=before):
            return False
        if not self.crowded():
            return False
        replicas.arriving.setdefault(topic_id, {})[number] = None
        return True

    # ---- rows

    def _touched(self, image: Image, rows: Rows) -> Iterator[PartitionState]:
        me, known = self._me, self._replicas.known
        topic, topic_id, name = -1, b"", ""
        for row in rows.data if isinstance(rows, np.ndarray) else rows:
            if not image.is_partition(row):
                continue
            if image.topic_of(row) != topic:
                topic = image.topic_of(row)
                topic_id, name = _id_of(image, topic), image.topic_name(topic)
            replicas, number = image.replicas(row), image.number(row)
            if me in replicas:
                if not self._waits(name, topic_id, number):
                    yield self._state(image, row, replicas)
            elif known(topic_id, number):
                yield PartitionState(name, topic_id, number, None)

    def _in_order(self, rows: Iterable[int]) -> Iterator[PartitionState]:
        """By name and number what the image says of those rows which are a replica here."""
        image = self._cache.image
        here = [row for row in rows if image.is_partition(row) and self._me in image.replicas(row)]
        for name, row in sorted((image.topic_name(image.topic_of(row)), row) for row in here):
            topic_id = _id_of(image, image.topic_of(row))
            if image.topic_by_id(topic_id) >= 0 and not self._waits(name, topic_id, image.number(row)):
                yield self._state(image, row, image.replicas(row))

    def _here(self, image: Image) -> Iterator[PartitionState]:
        by_topic: dict[int, list[int]] = {}
        for row in image.rows_of(self._me).data:
            by_topic.setdefault(image.topic_of(row), []).append(row)
        for name, topic in sorted((image.topic_name(topic), topic) for topic in by_topic):
            topic_id = _id_of(image, topic)
            if image.topic_by_id(topic_id) < 0:
                continue  # it is hidden
            for row in by_topic[topic]:
                if not self._waits(name, topic_id, image.number(row), before=True):
                    yield self._state(image, row, image.replicas(row))

    def _led_here(self, image: Image) -> Iterator[PartitionState]:
        for row in image.rows_led_by(self._me).data:
            yield self._state(image, row, image.replicas(row))

    def _state(self, image: Image, row: int, replicas: tuple[int, ...]) -> PartitionState:
        topic = image.topic_of(row)
        moving = image.is_moving(row)
        assignment = Assignment(
            replicas,
            image.isr(row),
            image.leader(row),
            image.leader_epoch(row),
            image.partition_epoch(row),
            moving,
            len(image.adding(row)) if moving else 0,
        )
        return PartitionState(image.topic_name(topic), _id_of(image, topic), image.number(row), assignment)


def _id_of(image: Image, topic: int) -> bytes:
    topic_id = image.topic_id(topic)
    assert topic_id is not None, "a partition's topic has an id"
    return topic_id
