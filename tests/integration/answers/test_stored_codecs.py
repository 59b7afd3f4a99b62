"""The same batches produced to rayft and to Apache Kafka, for every compression.type (KIP-390): equal answers, and equal
batches in the log but for the bytes of the codec."""

from typing import Any

import pytest

import rayft
from bench import apache
from fastpath.records import batch
from tests.integration.answers.dialogue import Dialogue

TYPES = ("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer")
LEVELS = {"compression.gzip.level": "9", "compression.lz4.level": "17", "compression.zstd.level": "1"}
CONFIG = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "1"}
TIME = 1_700_000_000_000
LIMIT = 3_000


def batches() -> dict[str, bytes]:
    """By title: every codec, with and without a producer, times out of order, and sizes on both sides of the limit."""
    found = {}
    for codec in range(5):
        builder = batch.Builder(attributes=codec, timestamp_ms=TIME)
        for number, time in enumerate((TIME, TIME + 50, TIME - 20)):
            headers = ((b"h", None), (b"", b"x")) if number else ()
            builder.append(None if number else b"k", b"value %d " % number * 40, time, headers)
        found[f"codec {codec}"] = bytes(builder.build())
        builder = batch.Builder(
            attributes=codec, timestamp_ms=TIME, producer_id=4_000 + codec, producer_epoch=2, base_sequence=0
        )
        builder.append(b"k", None)
        found[f"idempotent, codec {codec}"] = found[f"again, codec {codec}"] = bytes(builder.build())
        builder = batch.Builder(attributes=codec, timestamp_ms=TIME)
        builder.append(None, bytes(LIMIT))
        found[f"grows, codec {codec}"] = bytes(builder.build())
    return found


def stored(bootstrap_servers: str) -> dict[str, Any]:
    """What becomes of the batches, by type and title: (error, base offset), or the batch's header and records."""
    dialogue = Dialogue(bootstrap_servers)
    found: dict[str, Any] = {}
    try:
        for wanted in TYPES:
            for time_type in ("CreateTime", "LogAppendTime"):
                topic = f"{wanted}-{time_type}"
                settings = LEVELS | {
                    "compression.type": wanted, "message.timestamp.type": time_type, "max.message.bytes": str(LIMIT),
                }  # fmt: skip
                configs = [{"name": name, "value": value} for name, value in settings.items()]
                made = {"name": topic, "num_partitions": 1, "replication_factor": 1, "configs": configs}
                dialogue.raw("CreateTopics", 5, topics=[made], timeout_ms=20_000)
                dialogue.settled(topic, 1)
                for title, data in batches().items():
                    part = {"index": 0, "records": data}
                    sent = [{"name": topic, "partition_data": [part]}]
                    reply = dialogue.raw("Produce", 9, acks=-1, timeout_ms=20_000, topic_data=sent)
                    [answer] = reply.responses[0].partition_responses
                    found[f"{topic}, {title}"] = answer.error_code, answer.base_offset
                found |= {f"{topic} at {head['base_offset']}": head for head in log(dialogue, topic)}
    finally:
        dialogue.close()
    return found


def log(dialogue: Dialogue, topic: str) -> list[dict[str, Any]]:
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": -1}
    reply = dialogue.raw(
        "Fetch", 11, replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_id=0, session_epoch=-1,
        topics=[{"topic": topic, "partitions": [wanted]}], forgotten_topics_data=[], rack_id="",
    )  # fmt: skip
    data, found = reply.responses[0].partitions[0].records, []
    for head in batch.headers(data):
        fields = batch.verify(data, head.position)._asdict()
        for name in ("position", "size", "crc", "epoch"):
            del fields[name]
        records = [record._asdict() for record in batch.records(data, head.position)]
        if head.attributes & 8:  # the log's own clock
            fields["max_timestamp"] = bool(fields["max_timestamp"])
            records = [record | {"timestamp": 0} for record in records]
        found.append({**fields, "records": records})
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_batches_are_stored_as_apache_kafka_stores_them() -> None:
    if apache.libs() is None:
        pytest.skip("no Apache Kafka to compare with: `make kafka` fetches it where it can")
    with rayft.Cluster(controllers=1, brokers=1, config=CONFIG) as cluster:
        ours = stored(cluster.bootstrap_servers)
    with apache.ApacheKafka(controllers=1, brokers=1, config=CONFIG, heap="512m") as kafka:
        theirs = stored(kafka.bootstrap_servers)
    differing = [
        f"{name}: Kafka {theirs.get(name)}, rayft {ours.get(name)}"
        for name in sorted({*theirs, *ours})
        if theirs.get(name) != ours.get(name)
    ]
    assert not differing, "\n".join(differing)
    assert len(theirs) > 300
