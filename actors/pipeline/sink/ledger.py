"""The ledger of sinks: a compacted topic with one key a sink, whose newest record is all that counts.

    key    the sinkId
    value  {"layout": 1, "state": "decided", "opening": 7, "batch": 41, "query": "...", "run": "...", "base": 3,
            "attempts": [["rayft-sink/orders/3/a1b2c3/0", 1007, 4, [["out", 0, 120, 5119], ["out", 1, 118, 4077]]], ...]}

This file alone decides that form, and how the newest record is found. Rules:

1. The topic has one partition: a sink's record is where it is looked for, whatever partitions are added.
2. A sink writes one record in each transaction, and reads behind all that was written before: a transaction of another sink
   that is open in front of it is waited for, since what lies behind it is not readable before.
3. The newest record of a sink is near the end, so the log is read backwards, in ranges that grow.
4. What cannot be read is an error: an opening that took it for nothing would write a decided batch again.
"""

import json
from collections.abc import Iterator
from typing import Any

from actors.client.asks import Know, Pause, Steps
from actors.client.errors import ClientError
from actors.client.metadata import Metadata
from actors.client.operations import configs, offsets, topics
from actors.client.operations.fetching import Fetched, Fetcher
from actors.client.operations.leaders import Part
from actors.client.operations.records import batch, records
from actors.client.properties import ClientConfig
from actors.pipeline.sink.values import Attempt, Record, SinkFailed, State
from actors.wire.errors import ErrorCode

LAYOUT = 1
PARTITION = 0
REPLICAS = 3
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(4 << 20),
    "min.cleanable.dirty.ratio": "0.1",
    "compression.type": "producer",
    "max.message.bytes": str(8 << 20),
}
RECORD_BYTES_MAX = 7 << 20
"""The largest record: some 70,000 task attempts."""
RANGE_OFFSETS = 100
"""How many offsets in front of the end are read first."""
ABSENCES_MAX = 10
"""How often brokers may say that there is no such topic, when another one knows it."""


def value_of(record: Record) -> bytes:
    """The value of a record. Raises SinkFailed for one that no ledger takes."""
    rows = [[one.id, one.producer_id, one.epoch, one.counts] for one in record.attempts]
    found = json.dumps(
        {"layout": LAYOUT, **record._asdict(), "attempts": rows}, separators=(",", ":")
    ).encode()  # fmt: skip
    if len(found) > RECORD_BYTES_MAX:
        raise SinkFailed(f"{len(rows)} tasks are too many for one batch of a sink: repartition it into fewer")
    return found


def record_of(sink: str, value: bytes) -> Record:
    """The record of a value. Raises SinkFailed for one of another layout, or that is none."""
    try:
        found = json.loads(value)
        layout = found["layout"]
        if type(layout) is int and layout != LAYOUT:
            raise SinkFailed(
                f"the ledger's record of sink {sink} has layout {layout}, and this rayft reads {LAYOUT}: use the version "
                f"that wrote it, or give the sink another sinkId"
            )
        numbers = [found[name] for name in ("opening", "batch", "base")]
        texts = [found[name] for name in ("query", "run")]
        if (
            layout != LAYOUT
            or any(type(one) is not int for one in numbers)
            or any(type(one) is not str for one in texts)
        ):
            raise ValueError
        return Record(
            State(found["state"]), numbers[0], numbers[1], texts[0], texts[1], numbers[2],
            tuple(_attempt(*row) for row in found["attempts"]),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise SinkFailed(
            f"the ledger's record of sink {sink} cannot be read: something else has written to the ledger's topic"
        ) from None


def _attempt(id: Any, producer_id: Any, epoch: Any, counts: Any) -> Attempt:
    rows = tuple((topic, number, count, last) for topic, number, count, last in counts)
    if type(id) is not str or any(type(one) is not int for one in (producer_id, epoch)):
        raise ValueError
    if any(tuple(map(type, one)) != (str, int, int, int) for one in rows):
        raise ValueError
    return Attempt(id, producer_id, epoch, rows)


def batch_of(sink: str, record: Record, now_ms: int) -> bytearray:
    """A record batch with the record."""
    return batch(sink.encode(), value_of(record), now_ms, "lz4")


# ---- in the cluster


def found(name: str) -> Steps[None]:
    """Look for the ledger's topic, and make it if there is none. Raises SinkFailed for one that is not compacted, and
    ClientError."""
    metadata: Metadata = yield Know((name,), fresh=True)
    if name not in metadata.topics and metadata.refused.get(name) in (None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        replicas = min(REPLICAS, len(metadata.brokers))
        more = {"min.insync.replicas": str(max(1, replicas - 1))}
        made = yield from topics.create([topics.NewTopic(name, 1, replicas, CONFIGS | more)])
        error = made[name]
        if error is not None and error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise SinkFailed(
                f"the ledger, {error}: make it by hand, with one partition and cleanup.policy=compact", error.code
            )
        yield from topics.led([name])
    resource = configs.Kind.TOPIC, name
    for attempt in range(ABSENCES_MAX):
        told = yield from configs.describe([resource], ["cleanup.policy"])
        one = told[resource]
        if not isinstance(one, ClientError) or one.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            break
        yield Pause(attempt=attempt)  # brokers learn of a new topic one after the other
    if isinstance(one, ClientError):
        if one.code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            raise SinkFailed(
                f"the ledger: topic {name} must be compacted, and its cleanup.policy may not be looked at: allow "
                f"DescribeConfigs on it",
                one.code,
            )
        raise one
    policy = one["cleanup.policy"].value if "cleanup.policy" in one else None
    if policy is None or policy.replace(" ", "") != "compact":
        raise SinkFailed(
            f"topic {name} has cleanup.policy={policy}, so a ledger's records would be deleted: set it to compact, or write "
            f"another name in the option ledger"
        )


def newest(name: str, sink: str, config: ClientConfig) -> Steps[Record | None]:
    """The newest record of a sink. Raises SinkFailed for what cannot be read, and ClientError."""
    part = name, PARTITION
    low = yield from _offset(part, offsets.EARLIEST)
    high = yield from _offset(part, offsets.LATEST)
    key = sink.encode()
    end, size = high, RANGE_OFFSETS
    while end > low:
        first = max(low, end - size)
        value = yield from _within(part, first, end, key, config)
        if value is not None:
            return record_of(sink, value)
        end, size = first, size * 4
    return None


def _offset(part: Part, at: int) -> Steps[int]:
    told = yield from offsets.list_offsets([part], at)
    one = told[part]
    if isinstance(one, ClientError):
        raise SinkFailed(f"the ledger cannot be read: {one}", one.code)
    return int(one.offset)


def _within(part: Part, first: int, end: int, key: bytes, config: ClientConfig) -> Steps[bytes | None]:
    """The value of the last record with a key between two offsets; None: there is none. It waits for transactions that are
    open in front of the end, as the config reads what is committed."""
    fetcher = Fetcher(config, {part: first})
    value: bytes | None = None
    while fetcher.position(*part) < end:
        for one in (yield from fetcher.fetch()):
            if not isinstance(one, Fetched):
                raise SinkFailed(
                    f"the ledger cannot be read: partition {part[0]}/{part[1]}: {getattr(one, 'error', one)}"
                )
            for own in _records(one):
                if own.offset < end and own.key is not None and bytes(own.key) == key:
                    # One that was deleted is none that can be read.
                    value = b"" if own.value is None else bytes(own.value)
    return value


def _records(one: Fetched) -> Iterator[Any]:
    try:
        yield from records(one)
    except ClientError as error:
        raise SinkFailed(f"the ledger cannot be read: {error}") from None
