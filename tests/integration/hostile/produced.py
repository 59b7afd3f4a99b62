"""Topics and batches for attacks by produced records: made by hand, sent on raw connections."""

import struct
import time
from collections.abc import Sequence
from typing import Any

from actors.wire import framing
from actors.wire.messages import message
from fastpath.bytes.crc32c import crc32c
from fastpath.records import compression
from fastpath.records.batch import Builder
from tests.integration.answers.dialogue import request
from tests.integration.hostile.scene import Address, Peer, encoded

PRODUCE, LIST_OFFSETS = 9, 7
MEBIBYTE = 1 << 20


def asked(peer: Peer, name: str, version: int, body: Any) -> Any:
    """Send one request and read its answer."""
    peer.send(encoded(name, version, body))
    return answer_of(peer, name, version)


def answer_of(peer: Peer, name: str, version: int) -> Any:
    """Read the next answer."""
    return framing.decode_response(name, version, memoryview(bytearray(peer.read())))


def create(address: Address, topic: str, partitions: int, **configs: str) -> None:
    """Create a topic with one replica for each partition, and wait until the broker at `address` knows the leaders."""
    made = {
        "name": topic,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": [{"name": name, "value": value} for name, value in configs.items()],
    }
    with Peer(address) as peer:
        answer = asked(peer, "CreateTopics", 5, request("CreateTopics", topics=[made], timeout_ms=20_000))
        assert answer.topics[0].error_code == 0, answer
        end = time.monotonic() + 20
        while time.monotonic() < end:
            found = asked(peer, "ListOffsets", LIST_OFFSETS, offsets_request(topic, range(partitions), -1))
            if all(one.error_code == 0 for one in found.topics[0].partitions):
                return
            time.sleep(0.05)
    raise AssertionError(f"{topic} has no leaders")


def produce_request(topic: str, batches: Sequence[tuple[int, bytes]], acks: int = 1) -> Any:
    """`batches`: (partition, batch)."""
    kind = message("ProduceRequest")
    parts = [kind.PartitionProduceData(index=index, records=data) for index, data in batches]
    return kind(acks=acks, timeout_ms=30_000, topic_data=[kind.TopicProduceData(name=topic, partition_data=parts)])


def offsets_request(topic: str, partitions: Sequence[int], timestamp: int) -> Any:
    """ListOffsets of a consumer."""
    asked = [{"partition_index": index, "timestamp": timestamp} for index in partitions]
    return request("ListOffsets", replica_id=-1, topics=[{"name": topic, "partitions": asked}])


def bomb(codec: int, value_bytes: int, timestamp_ms: int, later_ms: int = 0) -> bytes:
    """A batch with one record of zeros. `later_ms` adds a small record that is later by so much: a search for it reads
    all of both."""
    builder = Builder(attributes=codec, timestamp_ms=timestamp_ms)
    builder.append(None, bytes(value_bytes))
    if later_ms:
        builder.append(None, b"later", timestamp_ms + later_ms)
    return bytes(builder.build())


def claiming(batch: bytes | bytearray, *, max_timestamp: int | None = None, count: int | None = None) -> bytes:
    """The batch with other claims in its header, and a matching CRC."""
    data = bytearray(batch)
    if max_timestamp is not None:
        struct.pack_into(">q", data, 35, max_timestamp)
    if count is not None:
        struct.pack_into(">i", data, 23, count - 1)
        struct.pack_into(">i", data, 57, count)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


def with_body(codec: int, body: bytes, count: int, timestamp_ms: int) -> bytes:
    """A batch with a sound header and any body."""
    builder = Builder(timestamp_ms=timestamp_ms)
    builder.append(None, None)
    data = bytearray(builder.build())[:61] + body
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">h", data, 21, codec)
    return claiming(data, count=count)


CODECS = {
    "gzip": compression.GZIP,
    "snappy": compression.SNAPPY,
    "lz4": compression.LZ4,
    "zstd": compression.ZSTD,
}
