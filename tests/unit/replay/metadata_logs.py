"""Metadata logs for tests: ops as files, in the drafts' family or released Kafka's records."""

from collections.abc import Sequence
from pathlib import Path

from actors.metadata.batches import BatchWriter, LeaderChange, control_batch
from actors.metadata.dialects import dialect
from actors.metadata.ops import (
    BrokerSet,
    ConfigSet,
    EndPoint,
    FeatureSet,
    Op,
    PartitionsChanged,
    PartitionsSet,
    TopicSet,
)
from actors.ports import Batch
from actors.wire.messages import encode, message

TOPIC = bytes(range(16))
OTHER = bytes(range(100, 116))
DRAFTS, RELEASED = "__kafka_metadata-0", "__cluster_metadata-0"


def ops(level: int = 2) -> list[Op]:
    """A small history: 18 records."""
    return [
        FeatureSet("metadata.format", level),
        *(BrokerSet(n, 10 + n, bytes([n]) * 16, (EndPoint("PLAINTEXT", "host", 9000 + n),)) for n in (1, 2, 3)),
        TopicSet("orders", TOPIC),
        PartitionsSet(TOPIC, range(4), [[1, 2, 3]] * 4, [[1, 2, 3]] * 4),
        ConfigSet(2, "orders", "retention.ms", "1000"),
        PartitionsChanged.many([TOPIC] * 3, [0, 1, 3], [[2, 3], [1, 2], [1]], [2, 1, 1], [1, 1, 1], [1, 1, 1]),
        TopicSet("payments", OTHER),
        PartitionsSet(OTHER, range(2), [[3, 1]] * 2, [[3, 1]] * 2),
        ConfigSet(2, "orders", "retention.ms", "2000"),
        ConfigSet(4, "1", "ssl.keystore.password", "swordfish"),
    ]


def batches(all_ops: Sequence[Op], each: int, level: int = 2, start: int = 1, epoch: int = 3) -> list[Batch]:
    """Batches of `each` ops, at times 1000, 2000, ... ms; a leader change in front of them if they start at 1."""
    found = [control_batch(0, epoch, 500, [LeaderChange(1001, (1001,), (1001,))])] if start == 1 else []
    for index in range(0, len(all_ops), each):
        out = BatchWriter(start, epoch, 1000 * (1 + index // each))
        dialect(level).encode(all_ops[index : index + each], out)
        found += out.finish()
        start = out.next_offset
    return found


def write(directory: Path, found: Sequence[Batch], name: str = DRAFTS) -> Path:
    """One segment of these batches."""
    folder = directory / name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{found[0].base_offset:020}.log"
    path.write_bytes(b"".join(bytes(one.data) for one in found))
    return folder


Record = tuple[int, int, str, dict[str, object]]
"""Type, version, name and fields."""


def released(records: Sequence[Record], offset: int = 0, time: int = 1000) -> Batch:
    """One batch of (type, version, name, fields) in released Kafka's frame."""
    out = BatchWriter(offset, 1, time)
    for type_, version, name, fields in records:
        cls = message(f"metadata:{name}")
        out.add(encode(cls(**fields), version, bytes((1, type_, version))))
    (batch,) = out.finish()
    return batch


def on_three_brokers(topic: str, partitions: int) -> list[Record]:
    """What released Kafka writes of brokers 1 to 3 and of a topic, TOPIC, with all replicas on them and in sync."""
    fields = {
        "topic_id": TOPIC,
        "replicas": [1, 2, 3],
        "isr": [1, 2, 3],
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
    }
    brokers = [
        {"broker_id": id, "broker_epoch": id, "incarnation_id": bytes([id]) * 16, "fenced": False} for id in (1, 2, 3)
    ]
    return [
        *((0, 3, "RegisterBrokerRecord", broker) for broker in brokers),
        (2, 0, "TopicRecord", {"name": topic, "topic_id": TOPIC}),
        *((3, 1, "PartitionRecord", {**fields, "partition_id": number}) for number in range(partitions)),
    ]
