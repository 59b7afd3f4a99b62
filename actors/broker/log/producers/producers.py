"""The state of idempotent producers in a log, by which a repeated batch is stored once (KIP-98, KIP-360).

This file alone decides whether a batch is new, a repetition or out of order. Rules:

1. Of each producer the last five batches are kept, all of its current epoch. A batch with the sequence numbers of one
   of them is a repetition, and is answered with the offsets of the original.
2. An epoch below the known one is refused (INVALID_PRODUCER_EPOCH). A higher one must begin with sequence 0.
3. A batch follows the one before it: sequence numbers count on and wrap from 2^31-1 to 0. Anything else is
   OUT_OF_ORDER_SEQUENCE_NUMBER. A producer that is not known here may begin with any sequence.
4. What a leader has accepted a follower does not judge: it only remembers. What a leader writes for a producer itself, the
   offsets of its transaction, is refused as in rule 2. Wherever a batch comes from, the known epoch never falls.
5. A producer silent for `producer.id.expiration.ms` is forgotten, judged by the later of its last record's timestamp and
   the time of the append; where that is not known, of the start. One with an open transaction never is.
6. A transactional batch opens a transaction, where its producer has none open; a marker ends it. While one is open, batches
   of the producer that are not transactional are INVALID_TXN_STATE.
7. A marker with an older producer epoch is INVALID_PRODUCER_EPOCH, one with an older coordinator epoch is
   TRANSACTION_COORDINATOR_FENCED. In transaction version 2 the producer's epoch rises with each end of a transaction
   (KIP-890, part 2), so a marker must have a higher epoch than the producer; below that, the same is enough. In version 2 a
   marker with the same epoch is a repetition, and is written once more, if no transaction is open or the epoch cannot rise.
   A marker without an open transaction is written: it fences and tells the coordinator epoch.
8. After a marker with a higher epoch the producer begins with sequence 0.
9. Compaction takes a marker, or empties it, once the data of its transaction is gone. So a batch may show that a transaction
   has ended which is open here: an empty marker, or data of a higher epoch without a marker before it. Then the data here is
   older than that cleaning, and nobody can say any more what became of it.

The `<offset>.snapshot` file holds the state up to that offset in Apache Kafka's form, big-endian:

    version int16 = 1 | crc uint32 (CRC-32C of all that follows) | count int32 | entries, 46 bytes each:
    producer id int64, epoch int16, last sequence int32, last offset int64, offset delta int32, timestamp int64,
    coordinator epoch int32, first offset of the open transaction int64 (-1)

That format holds only the last batch of a producer, but after a restart a client may repeat any of five. So the batches
before the last follow, if there are any, oldest first, at a place that Apache Kafka does not read. If they are missing,
because Apache Kafka wrote the file, the scan of the log restores those that it reaches:

    count int32 | rows, 32 bytes each:
    producer id int64, last sequence int32, last offset int64, offset delta int32, timestamp int64

Behind these, and only then, come the transactions that had ended and whose marker was not known to be replicated:

    count int32 | rows, 24 bytes each:
    first offset int64, last offset int64, producer id int64
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from actors.broker.log.producers.markers import CONTROL, TRANSACTIONAL, Marker
from actors.broker.log.producers.transactions import Ended, Transactions
from actors.ports import Buffer
from fastpath.bytes.crc32c import crc32c
from fastpath.records.batch import Header

BATCHES_KEPT = 5
SEQUENCE_MAX = 2**31 - 1
EPOCH_MAX = 2**15 - 1
EPOCH_RISES_FROM = 2
"""The first transaction version in which the producer's epoch rises with each end of a transaction."""

_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_COUNT = struct.Struct(">i")
_BEFORE = struct.Struct(">qiqiq")
_ENDED = struct.Struct(">qqq")


class ProducerFault(ValueError):
    """A batch that a client may not append; `code` is Kafka's error code."""

    code = -1


class OutOfOrderSequence(ProducerFault):
    """A gap or a step back in a producer's sequence numbers."""

    code = 45


class InvalidProducerEpoch(ProducerFault):
    """A newer incarnation of the producer has written here."""

    code = 47


class InvalidTransactionState(ProducerFault):
    """A batch outside of the transaction that its producer has open."""

    code = 48


class CoordinatorFenced(ProducerFault):
    """A newer leader of the transaction coordinator's partition has written a marker here."""

    code = 52


class InvalidProducerBatches(ProducerFault):
    """More than one batch of an idempotent producer in one request for one partition."""

    code = 87


class CorruptSnapshot(ValueError):
    """A producer snapshot whose bytes cannot be trusted. The state is built from the log instead."""


class Remembered(NamedTuple):
    """One stored batch of a producer. Its sequence numbers are `first_sequence` to `last_sequence`, wrapping."""

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
        """The producer's last batches, oldest first. Invariant: at most five, all of `epoch`."""
        self.timestamp = -1
        """Timestamp of its last record or marker, ms."""
        self.touched_ms = -1
        """When the producer's last record or marker was appended here, wall clock; -1: not known."""
        self.coordinator_epoch = -1
        self.transaction_offset = -1
        """First offset of the open transaction, -1 without one."""


class Producers:
    """All producers of one log. Invariant: holds every batch below the log's end and none above."""

    __slots__ = ("by_id", "transactions")

    def __init__(self) -> None:
        self.by_id: dict[int, Producer] = {}
        self.transactions = Transactions()
        """The transactions of the log. Invariant: its open ones are those of `by_id`."""

    def __len__(self) -> int:
        return len(self.by_id)

    def check(self, header: Header) -> Remembered | None:
        """Check a client's batch. Returns None if it is new, or the original if it is a repetition. Raises
        ProducerFault."""
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            return None
        epoch, first = header.producer_epoch, header.base_sequence
        if epoch < producer.epoch:
            self.check_epoch(header)
        if epoch > producer.epoch:
            if first != 0:
                raise OutOfOrderSequence(f"producer {header.producer_id} begins epoch {epoch} with sequence {first}")
        elif not producer.batches:
            if first != 0:
                raise OutOfOrderSequence(f"producer {header.producer_id} begins behind a marker with sequence {first}")
        else:
            last = _advance(first, header.last_offset_delta)
            for batch in producer.batches:
                if batch.first_sequence == first and batch.last_sequence == last:
                    return batch
            expected = _advance(producer.batches[-1].last_sequence, 1)
            if first != expected:
                raise OutOfOrderSequence(f"producer {header.producer_id} sent sequence {first}, expected {expected}")
        if producer.transaction_offset >= 0 and not header.attributes & TRANSACTIONAL:
            raise InvalidTransactionState(f"producer {header.producer_id} has a transaction open")
        return None

    def check_epoch(self, header: Header) -> None:
        """Check the epoch of a batch whose sequence numbers are not checked. Raises InvalidProducerEpoch."""
        producer = self.by_id.get(header.producer_id)
        if producer is not None and header.producer_epoch < producer.epoch:
            raise InvalidProducerEpoch(
                f"producer {header.producer_id} has epoch {producer.epoch}, the batch {header.producer_epoch}"
            )

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> None:
        """Check a marker of a transaction coordinator (rule 7). Raises InvalidProducerEpoch, CoordinatorFenced."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            return
        known = producer.epoch
        stale = producer_epoch < known
        if producer_epoch == known and transaction_version >= EPOCH_RISES_FROM:
            stale = producer.transaction_offset >= 0 and known < EPOCH_MAX
        if stale:
            raise InvalidProducerEpoch(f"producer {producer_id} has epoch {known}, the marker {producer_epoch}")
        if coordinator_epoch < producer.coordinator_epoch:
            raise CoordinatorFenced(
                f"a coordinator of epoch {producer.coordinator_epoch} has ended a transaction of producer {producer_id}, "
                f"the marker is of epoch {coordinator_epoch}"
            )

    def unmarked(self, batches: Iterable[Header]) -> int | None:
        """The first offset of an open transaction that must have ended, though its marker is not in the log, as batches
        that follow the log show (rule 9); None: they show nothing of the kind."""
        marked = set()
        for header in batches:
            first_offset = self.transactions.open.get(header.producer_id)
            if first_offset is None or header.producer_id in marked:
                continue
            if header.attributes & CONTROL:
                if not header.count:
                    return first_offset
                marked.add(header.producer_id)
            elif header.producer_epoch > self.by_id[header.producer_id].epoch:
                return first_offset
        return None

    def append(self, header: Header, now_ms: int, marker: Marker | None = None) -> Ended | None:
        """Remember a batch that is now in the log; batches without a producer are ignored. Returns the transaction that
        it has ended, if any. `marker`: what a control batch says. One that says nothing, as after compaction, changes
        nothing."""
        if header.producer_id < 0:
            return None
        control = header.attributes & CONTROL
        if control and marker is None:
            return None
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            producer = self.by_id[header.producer_id] = Producer(header.producer_epoch)
        elif producer.epoch < header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        producer.timestamp = header.max_timestamp
        producer.touched_ms = now_ms
        if control:
            assert marker is not None
            producer.coordinator_epoch = max(producer.coordinator_epoch, marker.coordinator_epoch)
            if producer.transaction_offset < 0:
                return None
            producer.transaction_offset = -1
            return self.transactions.end(header.producer_id, header.last_offset)
        first = header.base_sequence
        # A coordinator of groups commits offsets in a transaction without sequence numbers.
        if first >= 0 and header.producer_epoch == producer.epoch:
            batches = producer.batches
            if len(batches) == BATCHES_KEPT:
                del batches[0]
            last, delta = _advance(first, header.last_offset_delta), header.last_offset_delta
            batches.append(Remembered(first, last, header.last_offset, delta, header.max_timestamp))
        if header.attributes & TRANSACTIONAL and producer.transaction_offset < 0:
            producer.transaction_offset = header.base_offset
            self.transactions.begin(header.producer_id, header.base_offset)
        return None

    def can_truncate(self, offset: int) -> bool:
        """Whether `truncate` would leave enough of the state."""
        return not self.transactions.ended and all(
            one.transaction_offset < 0
            and one.coordinator_epoch < 0
            and one.batches
            and one.batches[0].last_offset < offset
            for one in self.by_id.values()
        )

    def truncate(self, offset: int) -> bool:
        """Forget batches at or above `offset`. Returns False if what remains is not enough: build the state from the
        log."""
        if self.transactions.ended or any(
            p.transaction_offset >= 0 or p.coordinator_epoch >= 0 for p in self.by_id.values()
        ):
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
        """Give producers the times at which `before` has heard of them, or else the present: this state was read from
        files, which do not say when a batch was appended."""
        for producer_id, producer in self.by_id.items():
            known = before.by_id.get(producer_id)
            producer.touched_ms = max(producer.touched_ms, now_ms, -1 if known is None else known.touched_ms)

    def clear(self) -> None:
        """Forget all producers and transactions."""
        self.by_id.clear()
        self.transactions.clear()

    def snapshot(self) -> bytes:
        """The bytes of a snapshot file."""
        rows = [_row(producer_id, producer) for producer_id, producer in self.by_id.items()]
        before = [
            _BEFORE.pack(producer_id, batch.last_sequence, batch.last_offset, batch.offset_delta, batch.timestamp)
            for producer_id, producer in self.by_id.items()
            for batch in producer.batches[:-1]
        ]
        ended = [_ENDED.pack(*one) for one in sorted(self.transactions.ended)]
        parts = [_COUNT.pack(len(rows)), *rows]
        if before or ended:
            parts += [_COUNT.pack(len(before)), *before]
        if ended:
            parts += [_COUNT.pack(len(ended)), *ended]
        body = b"".join(parts)
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
            end += _restore_before(state.by_id, view[end:])
        ended = _restore_ended(view[end:]) if len(view) > end else []
        open = {id: one.transaction_offset for id, one in state.by_id.items() if one.transaction_offset >= 0}
        state.transactions.restore(open, ended)
        return state

    def equals(self, other: "Producers") -> bool:
        """Whether both would judge every next batch alike; tests compare with it."""
        mine, others = self.transactions, other.transactions
        same = mine.open == others.open and sorted(mine.ended) == sorted(others.ended)
        return same and _plain(self.by_id.items()) == _plain(other.by_id.items())


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


def _restore_before(by_id: dict[int, Producer], view: memoryview) -> int:
    """Enter the batches before each producer's last. Returns how many bytes they take. Raises CorruptSnapshot."""
    count, rows = _table(view, _BEFORE.size, "earlier batches")
    for producer_id, sequence, offset, delta, timestamp in _BEFORE.iter_unpack(rows):
        batches = by_id[producer_id].batches if producer_id in by_id else []
        if not 0 < len(batches) < BATCHES_KEPT:
            raise CorruptSnapshot(f"producer {producer_id} has no last batch, or more than {BATCHES_KEPT}")
        batches.insert(-1, _remembered(sequence, offset, delta, timestamp))
    return _COUNT.size + count * _BEFORE.size


def _restore_ended(view: memoryview) -> list[Ended]:
    """The transactions that had ended when the snapshot was made. Raises CorruptSnapshot."""
    count, rows = _table(view, _ENDED.size, "ended transactions")
    if len(view) != _COUNT.size + count * _ENDED.size:
        raise CorruptSnapshot(f"bytes behind {count} ended transactions")
    return [Ended(*row) for row in _ENDED.iter_unpack(rows)]


def _table(view: memoryview, row_bytes: int, what: str) -> tuple[int, memoryview]:
    """A count, and the rows behind it. Raises CorruptSnapshot."""
    count = _COUNT.unpack_from(view)[0] if len(view) >= _COUNT.size else -1
    end = _COUNT.size + count * row_bytes
    if count < 0 or len(view) < end:
        raise CorruptSnapshot(f"{len(view)} bytes do not hold {count} {what}")
    return count, view[_COUNT.size : end]


def _plain(items: Iterable[tuple[int, Producer]]) -> dict[int, tuple[object, ...]]:
    return {i: (p.epoch, tuple(p.batches), p.coordinator_epoch, p.transaction_offset) for i, p in items}
