"""The state of idempotent producers in a log, by which a repeated batch is stored once (KIP-98, KIP-360).

This file alone decides whether a batch is new, a repetition or out of order. Rules:

1. Of each producer the last five batches are kept, all of its current epoch. A batch with the sequence numbers of one
   of them is a repetition, and is answered with the offsets of the original.
2. An epoch below the known one is refused (INVALID_PRODUCER_EPOCH). A higher one must begin with sequence 0.
3. A batch must follow the one before it: sequence numbers count on and wrap from 2^31-1 to 0. Anything else is
   OUT_OF_ORDER_SEQUENCE_NUMBER. An unknown producer may begin with any sequence.
4. A follower does not check what a leader has accepted: it only remembers it.
5. A producer that is silent for `producer.id.expiration.ms` is forgotten. The time counts from the timestamp of its
   last record or from the append, whichever is later; if the time of the append is not known, from the start.

The `<offset>.snapshot` file holds the state up to that offset in Apache Kafka's form, big-endian:

    version int16 = 1 | crc uint32 (CRC-32C of all that follows) | count int32 | entries, 46 bytes each:
    producer id int64, epoch int16, last sequence int32, last offset int64, offset delta int32, timestamp int64,
    coordinator epoch int32, first offset of the open transaction int64 (-1)

That format holds only the last batch of a producer, but after a restart a client may repeat any of five. So the batches
before the last follow, if there are any, oldest first, at a place that Apache Kafka does not read. If they are missing,
because Apache Kafka wrote the file, the scan of the log restores those that it reaches:

    count int32 | rows, 32 bytes each:
    producer id int64, last sequence int32, last offset int64, offset delta int32, timestamp int64
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from actors.ports import Buffer
from fastpath.bytes.crc32c import crc32c
from fastpath.records.batch import Header

BATCHES_KEPT = 5
SEQUENCE_MAX = 2**31 - 1
CONTROL = 0x20
TRANSACTIONAL = 0x10

_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_COUNT = struct.Struct(">i")
_BEFORE = struct.Struct(">qiqiq")


class ProducerFault(ValueError):
    """A batch that a client may not append; `code` is Kafka's error code."""

    code = -1


class OutOfOrderSequence(ProducerFault):
    """A gap or a step back in a producer's sequence numbers."""

    code = 45


class InvalidProducerEpoch(ProducerFault):
    """A newer incarnation of the producer has written here."""

    code = 47


class InvalidProducerBatches(ProducerFault):
    """More than one batch of an idempotent producer in one request for one partition."""

    code = 87


class CorruptSnapshot(ValueError):
    """A producer snapshot whose bytes cannot be trusted. The state is built from the log instead."""


class Remembered(NamedTuple):
    """One stored batch of a producer. Its sequences are `first_sequence` to `last_sequence`, wrapping."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int


class Producer:
    """One producer's state in one log."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "timestamp", "touched_ms", "transaction_offset")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[Remembered] = []
        """Oldest first. Invariant: at most five, all of `epoch`."""
        self.timestamp = -1
        """Timestamp of its last record or marker, ms."""
        self.touched_ms = -1
        """When that was appended here, wall clock; -1: not known."""
        self.coordinator_epoch = -1
        self.transaction_offset = -1
        """First offset of the open transaction, -1 without one."""


class Producers:
    """All producers of one log. Invariant: holds every batch below the log's end and none above."""

    __slots__ = ("by_id",)

    def __init__(self) -> None:
        self.by_id: dict[int, Producer] = {}

    def __len__(self) -> int:
        return len(self.by_id)

    def check(self, header: Header) -> Remembered | None:
        """Check a client's batch. None: it is new. Otherwise it is a repetition, and the original is returned. Raises
        ProducerFault."""
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            return None
        epoch, first = header.producer_epoch, header.base_sequence
        if epoch < producer.epoch:
            raise InvalidProducerEpoch(f"producer {header.producer_id} has epoch {producer.epoch}, the batch {epoch}")
        if epoch > producer.epoch:
            if first != 0:
                raise OutOfOrderSequence(f"producer {header.producer_id} begins epoch {epoch} with sequence {first}")
            return None
        if not producer.batches:
            return None
        last = _advance(first, header.last_offset_delta)
        for batch in producer.batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch
        expected = _advance(producer.batches[-1].last_sequence, 1)
        if first != expected:
            raise OutOfOrderSequence(f"producer {header.producer_id} sent sequence {first}, expected {expected}")
        return None

    def append(self, header: Header, now_ms: int, marker_epoch: int = -1) -> None:
        """Remember a batch that is now in the log; batches without a producer are ignored.

        `marker_epoch`: the coordinator epoch inside a transaction marker, when `header` is one and the caller read it.
        """
        if header.producer_id < 0:
            return
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            producer = self.by_id[header.producer_id] = Producer(header.producer_epoch)
        elif producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        producer.timestamp = header.max_timestamp
        producer.touched_ms = now_ms
        if header.attributes & CONTROL:
            producer.transaction_offset = -1
            producer.coordinator_epoch = max(producer.coordinator_epoch, marker_epoch)
            return
        last = _advance(header.base_sequence, header.last_offset_delta)
        batches = producer.batches
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        batches.append(
            Remembered(header.base_sequence, last, header.last_offset, header.last_offset_delta, header.max_timestamp)
        )
        if header.attributes & TRANSACTIONAL and producer.transaction_offset < 0:
            producer.transaction_offset = header.base_offset

    def can_truncate(self, offset: int) -> bool:
        """Whether enough batches would be left after `truncate`."""
        return all(
            one.transaction_offset < 0
            and one.coordinator_epoch < 0
            and one.batches
            and one.batches[0].last_offset < offset
            for one in self.by_id.values()
        )

    def truncate(self, offset: int) -> bool:
        """Forget batches at or above `offset`. False: what is left is not enough, so the state must be built from the
        log."""
        if any(p.transaction_offset >= 0 or p.coordinator_epoch >= 0 for p in self.by_id.values()):
            return False
        for producer in self.by_id.values():
            batches = producer.batches
            if not batches:
                return False
            while batches[-1].last_offset >= offset:
                batches.pop()
                if not batches:
                    return False
                producer.timestamp = batches[-1].timestamp
        return True

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that have been silent for `expiration_ms`. Returns how many."""
        silent = [
            producer_id
            for producer_id, producer in self.by_id.items()
            if producer.transaction_offset < 0
            and now_ms - max(producer.timestamp, producer.touched_ms) >= expiration_ms
        ]
        for producer_id in silent:
            del self.by_id[producer_id]
        return len(silent)

    def heard(self, before: "Producers", now_ms: int) -> None:
        """This state was read from files, which do not say when a batch was appended. So use the time that `before`
        has, or else the present."""
        for producer_id, producer in self.by_id.items():
            known = before.by_id.get(producer_id)
            producer.touched_ms = max(producer.touched_ms, now_ms, -1 if known is None else known.touched_ms)

    def open_transaction_offset(self) -> int:
        """First offset of the oldest open transaction, -1 without one."""
        return min((p.transaction_offset for p in self.by_id.values() if p.transaction_offset >= 0), default=-1)

    def clear(self) -> None:
        """Forget everything."""
        self.by_id.clear()

    def snapshot(self) -> bytes:
        """The bytes of a snapshot file."""
        rows = [_row(producer_id, producer) for producer_id, producer in self.by_id.items()]
        before = [
            _BEFORE.pack(producer_id, batch.last_sequence, batch.last_offset, batch.offset_delta, batch.timestamp)
            for producer_id, producer in self.by_id.items()
            for batch in producer.batches[:-1]
        ]
        body = b"".join((_COUNT.pack(len(rows)), *rows, *((_COUNT.pack(len(before)), *before) if before else ())))
        return struct.pack(">hI", 1, crc32c(body)) + body

    @classmethod
    def parse(cls, data: Buffer) -> "Producers":
        """The state in a snapshot file. Raises CorruptSnapshot."""
        view = memoryview(data)
        if len(view) < _HEAD.size:
            raise CorruptSnapshot(f"{len(view)} bytes are too few")
        version, crc, count = _HEAD.unpack_from(view)
        if version != 1:
            raise CorruptSnapshot(f"version {version}, not 1")
        if crc32c(view[6:]) != crc:
            raise CorruptSnapshot("the CRC does not match")
        end = _HEAD.size + count * _ENTRY.size
        if count < 0 or len(view) < end:
            raise CorruptSnapshot(f"{len(view)} bytes do not hold {count} entries")
        state = cls()
        for row in _ENTRY.iter_unpack(view[_HEAD.size : end]):
            _restore(state.by_id, row)
        if len(view) > end:
            _restore_before(state.by_id, view[end:])
        return state

    def equals(self, other: "Producers") -> bool:
        """Whether both would decide alike on every next batch; tests compare with it."""
        return _plain(self.by_id.items()) == _plain(other.by_id.items())


def _advance(sequence: int, count: int) -> int:
    return (sequence + count) & SEQUENCE_MAX


def _remembered(last_sequence: int, last_offset: int, offset_delta: int, timestamp: int) -> Remembered:
    """A batch from a file, which leaves the first sequence out."""
    return Remembered(_advance(last_sequence, -offset_delta), last_sequence, last_offset, offset_delta, timestamp)


def _row(producer_id: int, producer: Producer) -> bytes:
    if producer.batches:
        last = producer.batches[-1]
        sequence, offset, delta = last.last_sequence, last.last_offset, last.offset_delta
    else:
        sequence, offset, delta = -1, -1, 0
    return _ENTRY.pack(
        producer_id, producer.epoch, sequence, offset, delta,
        producer.timestamp, producer.coordinator_epoch, producer.transaction_offset,
    )  # fmt: skip


def _restore(by_id: dict[int, Producer], row: tuple[int, ...]) -> None:
    producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, transaction_offset = row
    producer = by_id[producer_id] = Producer(epoch)
    producer.timestamp = timestamp
    producer.coordinator_epoch = coordinator_epoch
    producer.transaction_offset = transaction_offset
    if sequence >= 0:
        producer.batches.append(_remembered(sequence, offset, delta, timestamp))


def _restore_before(by_id: dict[int, Producer], view: memoryview) -> None:
    """The batches before each producer's last. Raises CorruptSnapshot."""
    count = _COUNT.unpack_from(view)[0] if len(view) >= _COUNT.size else -1
    if len(view) != _COUNT.size + count * _BEFORE.size:
        raise CorruptSnapshot(f"{len(view)} bytes do not hold {count} earlier batches")
    for producer_id, sequence, offset, delta, timestamp in _BEFORE.iter_unpack(view[_COUNT.size :]):
        batches = by_id[producer_id].batches if producer_id in by_id else []
        if not 0 < len(batches) < BATCHES_KEPT:
            raise CorruptSnapshot(f"producer {producer_id} has no last batch, or more than {BATCHES_KEPT}")
        batches.insert(-1, _remembered(sequence, offset, delta, timestamp))


def _plain(items: Iterable[tuple[int, Producer]]) -> dict[int, tuple[object, ...]]:
    return {i: (p.epoch, tuple(p.batches), p.coordinator_epoch, p.transaction_offset) for i, p in items}
