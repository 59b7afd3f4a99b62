"""What a client knows of a cluster: brokers, topics, leaders, controller.

Rules:

1. An older leader epoch does not replace a newer one, as brokers learn of a new leader one after the other. A topic with
   another id is another topic, and all that was known of the old one is gone (KIP-516).
2. A topic that the cluster does not have is forgotten.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from actors.wire.errors import ErrorCode
from actors.wire.messages import ZERO_UUID

GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INVALID_TOPIC_EXCEPTION})


class Broker(NamedTuple):
    """A broker and its address."""

    id: int
    host: str
    port: int
    rack: str | None = None


class Partition(NamedTuple):
    """A partition as a broker told it."""

    number: int
    leader: int
    """The id of the leader; -1: the partition has none now."""
    leader_epoch: int
    """The leader epoch; -1: the cluster does not tell it (before Kafka 2.1)."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass
class Topic:
    """A topic as a broker told it."""

    name: str
    id: bytes
    """The topic id; zeros: the cluster has no topic ids (before Kafka 2.8)."""
    internal: bool
    partitions: dict[int, Partition]
    updated_us: int


@dataclass
class Metadata:
    """The metadata of a cluster. Operations read it; only the client changes it."""

    brokers: dict[int, Broker] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    controller: int = -1
    cluster_id: str | None = None
    refused: dict[str, int] = field(default_factory=dict)
    """The error code of the last answer about a topic that the client may not see or that cannot be told, by name."""
    all_updated_us: int = -1
    """The time when all topics were told last; -1: never."""

    def named(self, topic_id: bytes) -> str | None:
        """The name of a topic id; None: it is not known."""
        return next((one.name for one in self.topics.values() if one.id == topic_id), None)

    def leader(self, topic: str, partition: int) -> int:
        """The leader of a partition; -1: it is not known or there is none."""
        found = self.topics.get(topic)
        part = found.partitions.get(partition) if found is not None else None
        return part.leader if part is not None else -1

    def leader_epoch(self, topic: str, partition: int) -> int:
        """The newest leader epoch that was told; -1: none."""
        found = self.topics.get(topic)
        part = found.partitions.get(partition) if found is not None else None
        return part.leader_epoch if part is not None else -1

    def by_leader(self, parts: Iterable[tuple[str, int]]) -> dict[int, list[tuple[str, int]]]:
        """The partitions that each leader leads, out of `parts`; -1: those without a known leader."""
        found: dict[int, list[tuple[str, int]]] = {}
        for topic, partition in parts:
            found.setdefault(self.leader(topic, partition), []).append((topic, partition))
        return found

    def update(self, reply: Any, asked: tuple[str, ...] | None, now_us: int) -> None:
        """Take in an answer. `asked`: the topics that it is about; None: all."""
        if reply.brokers:
            self.brokers = {one.node_id: Broker(one.node_id, one.host, one.port, one.rack) for one in reply.brokers}
        self.controller = reply.controller_id
        self.cluster_id = reply.cluster_id or self.cluster_id
        told = {one.name for one in reply.topics if one.name is not None}
        for name in [one for one in (self.topics if asked is None else asked) if one not in told]:
            self.topics.pop(name, None)
            self.refused.pop(name, None)
        for one in reply.topics:
            if one.name is not None:
                self._topic(one, now_us)
        if asked is None:
            self.all_updated_us = now_us

    def new_leader(self, topic: str, partition: int, leader: int, epoch: int) -> None:
        """Take in a new leader that a broker has told (KIP-951)."""
        found = self.topics.get(topic)
        part = found.partitions.get(partition) if found is not None else None
        if found is not None and part is not None and epoch > part.leader_epoch and leader in self.brokers:
            found.partitions[partition] = part._replace(leader=leader, leader_epoch=epoch)

    def _topic(self, told: Any, now_us: int) -> None:
        name = told.name
        if told.error_code:
            if told.error_code in GONE:
                self.topics.pop(name, None)
            if told.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
                self.refused[name] = told.error_code
            return
        self.refused.pop(name, None)
        id = bytes(told.topic_id)
        known = self.topics.get(name)
        same = known is not None and (known.id == id or ZERO_UUID in (known.id, id))
        before = known.partitions if known is not None and same else {}
        partitions = {}
        for one in told.partitions:
            index = one.partition_index
            old = before.get(index)
            new = Partition(
                index, one.leader_id, one.leader_epoch,
                tuple(one.replica_nodes), tuple(one.isr_nodes), tuple(one.offline_replicas),
            )  # fmt: skip
            # A broker that does not tell epochs (-1) is believed: there is nothing to compare.
            partitions[index] = old if old is not None and -1 < new.leader_epoch < old.leader_epoch else new
        kept = known.id if known is not None and same and id == ZERO_UUID else id
        self.topics[name] = Topic(name, kept, told.is_internal, partitions, now_us)
