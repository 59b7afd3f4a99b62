"""Ops: the changes of metadata, as immutable values that mean the same in every dialect.

This file alone decides the vocabulary between the controller (which returns ops), the dialects (which write them as
records and read them back) and the image (which replays them). It knows neither record types nor levels.

Rules:

1. An op states the result of a change, never how it was decided.
2. Partitions travel as blocks (fastpath.image.blocks), one row for each record. For everything else one op is one
   record.
3. Topics and partitions are named by topic id, because rows of an image have no meaning outside their process.

KIP-631, "Record schemas"; extensions of readings A08, A15, A31 to A37.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, Self

from fastpath.image.arrivals import Arrivals
from fastpath.image.blocks import NOTHING, Block, Extra, State

UNCHANGED = -2
"""The value of a leader field that does not change."""

NO_UUID = bytes(16)


class CorruptMetadata(ValueError):
    """Metadata that is not valid: a record that cannot follow those before it, or bytes that are no record. The reader
    cannot go on.

    `offset` is that of the record, or -1 when the bytes are not in a log.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"offset {offset}: {reason}")
        self.offset = offset
        self.reason = reason


class EndPoint(NamedTuple):
    """One listener of a broker. `port` is 0 to 65535; `security_protocol` is Kafka's number (0 PLAINTEXT)."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class BrokerSet(NamedTuple):
    """The registration of broker `id` under this epoch. It replaces an earlier registration as a whole."""

    id: int
    epoch: int
    incarnation_id: bytes = NO_UUID
    endpoints: tuple[EndPoint, ...] = ()
    rack: str | None = None
    features: tuple[tuple[str, int, int], ...] = ()
    """(name, lowest level, highest level) of each supported feature"""
    log_dirs: tuple[bytes, ...] = ()
    fenced: bool = False
    """Whether the broker is registered but may not lead nor be in sync. Levels 1 and 2 know no such registration (A31).
    """
    in_controlled_shutdown: bool = False
    cordoned_log_dirs: tuple[bytes, ...] = ()
    lease_ms: int = 0
    """The longest lease that the broker may hold; 0: not known. Levels 1 and 2 only."""
    zookeeper: bool = False
    """Whether the broker is one of Apache Kafka's that lives with ZooKeeper. Its epoch is the czxid of its znode, which
    is no offset, and it sends no heartbeats: it lives as long as that znode does. Levels 1 and 2 only."""


class BrokerChanged(NamedTuple):
    """The parts of a registration that change. A part that is None stays. Released family only."""

    id: int
    epoch: int
    fenced: bool | None = None
    in_controlled_shutdown: bool | None = None
    log_dirs: tuple[bytes, ...] | None = None
    cordoned_log_dirs: tuple[bytes, ...] | None = None


class BrokerUnregistered(NamedTuple):
    """The registration under this epoch ends; partitions stay as they are, their changes are records of their own.
    Released family only."""

    id: int
    epoch: int


class BrokerGone(NamedTuple):
    """The registration of a broker ends, and the broker leaves every leadership and every ISR that has another member,
    by this one record (A32). The drafts' family has it, and writes it when a broker is fenced too. `epoch` is that of
    the registration that ends. Level 1 writes it. Level 2 has no field for it. Replay does not use it."""

    id: int
    epoch: int = -1


class TopicSet(NamedTuple):
    """A topic id has this name. `deleting`: the topic is hidden and not served, and its name is still taken (A34, level
    2)."""

    name: str
    id: bytes
    deleting: bool = False


class TopicGone(NamedTuple):
    """The topic, its partitions and its configurations are gone.

    `name`: level 1 writes it and needs it. Level 2 has no field for it. Replay uses the id.
    """

    id: bytes
    name: str = ""


FIRST_EPOCH = 0
"""The leader epoch and the partition epoch of a partition when it is made."""


class PartitionsSet:
    """The whole state of some partitions of one topic: they were created, or replaced (start and end of a
    reassignment).

    Columns have one entry for each partition. `removing`, `adding`, `elr`, `last_known_elr` may be empty: no partition
    has any. `recovery` may be empty: all are recovered. `directories`: log directory uuids in replica order; empty: not
    assigned.
    """

    __slots__ = ("block",)

    def __init__(
        self,
        topic_id: bytes,
        numbers: Sequence[int],
        replicas: Sequence[Sequence[int]],
        isr: Sequence[Collection[int]],
        removing: Sequence[Sequence[int]] = (),
        adding: Sequence[Sequence[int]] = (),
        leader: Sequence[int] = (),
        leader_epoch: Sequence[int] = (),
        partition_epoch: Sequence[int] = (),
        directories: Sequence[Sequence[bytes]] = (),
        recovery: Sequence[int] = (),
        elr: Sequence[Sequence[int]] = (),
        last_known_elr: Sequence[Sequence[int]] = (),
    ) -> None:
        """Columns as in the class. `leader` left out: the first of the ISR in replica order, -1 if it is empty. An
        epoch left out: 0."""
        self.block = block = Block()
        rare = bool(removing or adding or recovery or elr or last_known_elr)
        for i, number in enumerate(numbers):
            members = isr[i]
            leads = leader[i] if leader else next((r for r in replicas[i] if r in members), -1)
            extra = None
            if rare:
                extra = Extra(
                    tuple(removing[i]) if removing else (),
                    tuple(adding[i]) if adding else (),
                    recovery[i] if recovery else 0,
                    tuple(elr[i]) if elr else (),
                    tuple(last_known_elr[i]) if last_known_elr else (),
                )
            block.append(
                topic_id,
                number,
                replicas[i],
                members,
                leads,
                leader_epoch[i] if leader_epoch else FIRST_EPOCH,
                partition_epoch[i] if partition_epoch else FIRST_EPOCH,
                directories[i] if directories else None,
                extra,
            )

    @classmethod
    def of(cls, block: Block) -> Self:
        """An op around a block that is complete already: it has one topic, and every row is whole."""
        assert block.topics_count == 1, "a PartitionsSet is about one topic"
        op = cls.__new__(cls)
        op.block = block
        return op

    @classmethod
    def one(
        cls,
        topic_id: bytes,
        number: int,
        replicas: Sequence[int],
        isr: Collection[int],
        leader: int,
        leader_epoch: int,
        partition_epoch: int,
        *,
        removing: Sequence[int] = (),
        adding: Sequence[int] = (),
        directories: Sequence[bytes] | None = None,
        recovery: int = 0,
        elr: Sequence[int] = (),
        last_known_elr: Sequence[int] = (),
    ) -> Self:
        """The whole state of a single partition."""
        block = Block()
        extra = Extra(tuple(removing), tuple(adding), recovery, tuple(elr), tuple(last_known_elr))
        rare = None if extra == Extra() else extra
        block.append(topic_id, number, replicas, isr, leader, leader_epoch, partition_epoch, directories, rare)
        return cls.of(block)

    @property
    def topic_id(self) -> bytes:
        """The topic of all these partitions: 16 bytes."""
        return self.block.topic_ids()[0]

    @property
    def numbers(self) -> list[int]:
        """Partition numbers, in record order."""
        return [state.number for state in self.block]

    def __iter__(self) -> Iterator[State]:
        return iter(self.block)

    def __len__(self) -> int:
        return len(self.block)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionsSet) and self.block == other.block

    def __hash__(self) -> int:
        return hash(self.block)

    def __repr__(self) -> str:
        return f"PartitionsSet({list(self.block)!r})"


class PartitionsChanged:
    """Existing partitions, of any topics, change: ISR, leader and epochs together, rarely more.

    An epoch that is given is absolute. One that is not given (-1) follows the rule of PartitionChangeRecord: the leader
    epoch plus one where a leader is named, the partition epoch plus one always. Neither follows from the other.
    """

    __slots__ = ("block",)

    def __init__(self, block: Block) -> None:
        self.block = block

    @classmethod
    def one(
        cls,
        topic_id: bytes,
        number: int,
        isr: Collection[int] | None = None,
        leader: int = UNCHANGED,
        leader_epoch: int = -1,
        partition_epoch: int = -1,
        *,
        replicas: Sequence[int] | None = None,
        directories: Sequence[bytes] | None = None,
        extra: Extra | None = None,
    ) -> Self:
        """A change of a single partition. What is not given stays."""
        block = Block()
        block.append(topic_id, number, replicas, isr, leader, leader_epoch, partition_epoch, directories, extra)
        return cls(block)

    @classmethod
    def many(
        cls,
        topic_ids: Sequence[bytes],
        numbers: Sequence[int],
        isr: Sequence[Collection[int]],
        leader: Sequence[int],
        leader_epoch: Sequence[int],
        partition_epoch: Sequence[int],
    ) -> Self:
        """Changes of many partitions. All sequences have the same length."""
        block = Block()
        for topic_id, number, members, *rest in zip(
            topic_ids, numbers, isr, leader, leader_epoch, partition_epoch, strict=True
        ):
            block.append(topic_id, number, None, members, *rest)
        return cls(block)

    def __iter__(self) -> Iterator[State]:
        return iter(self.block)

    def __len__(self) -> int:
        return len(self.block)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionsChanged) and self.block == other.block

    def __hash__(self) -> int:
        return hash(self.block)

    def __repr__(self) -> str:
        return f"PartitionsChanged({list(self.block)!r})"


class TopicsSet:
    """New topics with the partitions that they begin with, as many records: TopicSet and PartitionsSet of each in turn.

    Only what is committed is read like this, by those who do not ask what single ops have changed. It is never written.
    """

    __slots__ = ("arrivals",)

    def __init__(self, arrivals: Arrivals) -> None:
        self.arrivals = arrivals

    def __iter__(self) -> Iterator["TopicSet | PartitionsSet"]:
        for name, topic_id, block in self.arrivals.one_by_one():
            yield TopicSet(name, topic_id)
            if block is not None:
                yield PartitionsSet.of(block)

    def __len__(self) -> int:
        return len(self.arrivals)


class ConfigSet(NamedTuple):
    """One key of one resource (2 topic, 4 broker, name "": all brokers). The value None removes it (A35)."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


class FeatureSet(NamedTuple):
    """A feature is finalized at this level; 0 removes it."""

    name: str
    level: int


class ProducerIdsSet(NamedTuple):
    """Producer ids below `next_producer_id` are given out; the last block went to this broker."""

    broker_id: int
    broker_epoch: int
    next_producer_id: int


class EntitySet(NamedTuple):
    """An entity that brokers and controllers keep but that no partition depends on: an access rule, a quota, SCRAM
    credentials, a delegation token, a controller's registration. (kind, key) names it. `fields` are those of its
    record."""

    kind: str
    key: tuple[object, ...]
    fields: tuple[tuple[str, object], ...]


class EntityGone(NamedTuple):
    """The entity with this kind and key is removed."""

    kind: str
    key: tuple[object, ...]


class Transaction(NamedTuple):
    """A boundary of a metadata transaction (KIP-868). What lies between "begin" and "abort" never happened."""

    edge: str
    """One of begin, end, abort."""


class ElrCleared(NamedTuple):
    """Eligible leader replicas of a topic ("": of all topics) are forgotten."""

    topic_name: str


Op = (
    BrokerSet
    | BrokerChanged
    | BrokerGone
    | BrokerUnregistered
    | TopicSet
    | TopicGone
    | TopicsSet
    | PartitionsSet
    | PartitionsChanged
    | ConfigSet
    | FeatureSet
    | ProducerIdsSet
    | EntitySet
    | EntityGone
    | Transaction
    | ElrCleared
)

__all__ = [
    "NOTHING",
    "NO_UUID",
    "UNCHANGED",
    "Arrivals",
    "Block",
    "BrokerChanged",
    "BrokerGone",
    "BrokerSet",
    "BrokerUnregistered",
    "ConfigSet",
    "CorruptMetadata",
    "ElrCleared",
    "EndPoint",
    "EntityGone",
    "EntitySet",
    "Extra",
    "FeatureSet",
    "Op",
    "PartitionsChanged",
    "PartitionsSet",
    "ProducerIdsSet",
    "State",
    "TopicGone",
    "TopicSet",
    "TopicsSet",
    "Transaction",
    "records",
]


MANY_RECORDS = frozenset((PartitionsSet, PartitionsChanged, TopicsSet))
"""The ops that are written as a record for each partition."""


def records(op: Op) -> int:
    """The number of records that an op is written as, and hence the number of offsets that it takes."""
    return len(op) if type(op) in MANY_RECORDS else 1  # type: ignore[arg-type]
