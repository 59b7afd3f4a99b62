"""What one partition answers to one fetcher, and how components inside the broker read a log.

This file alone decides the errors and the limits of a read. Order: known here, leader epoch (KIP-320), leadership,
diverging epoch (KIP-595), offset range, the follower's position, then the bytes: a follower reads to the log end, a
consumer to the high watermark, and one that wants committed records only to the last stable offset (KIP-98). What comes
from a sealed segment is verified, whoever reads it; what a machine inside the broker reads is verified from the active one
too, since nobody behind it would notice. The one exception is another replica that mends damage of its own (`RESTORER`): it
checks all that it gets, so it is given what there is, and a place that is damaged here too says nothing about the rest of
this replica.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from actors.broker.log.aborted_search import AbortedSearch
from actors.broker.log.aborted_transactions import aborted_transactions, take_rebuilt
from actors.broker.log.reads import ColdRead
from actors.broker.replication.admission import CODECS, RequestRefused
from actors.broker.replication.closest_replica import LEADER, Near, closest
from actors.broker.replication.fetch_sessions import SessionPartition
from actors.broker.replication.partition import NO_LEADER, Partition
from actors.broker.replication.replicas import Replicas
from actors.ports import Buffer, DiskFailed
from actors.wire.errors import ErrorCode
from fastpath.records.batch import CorruptBatch, headers, verify
from fastpath.records.compression import ZSTD

RESTORER = -2
"""The replica id of a replica that mends damage of its own; Kafka's id of a consumer that looks for faults."""
NONE = ErrorCode.NONE
"""A module name, because every look uses it and the look-up of an enum member costs more."""


class Reader(NamedTuple):
    """The fetcher that asks."""

    replica: int
    """Broker id of a follower; -1: a consumer; RESTORER."""
    broker_epoch: int
    leader_only: bool
    """Whether the fetcher must read from the leader alone: a consumer with a Fetch version below 11 (KIP-392)."""
    mono_ms: int
    committed_only: bool = False
    """Whether the fetcher reads up to the last stable offset only, and is told of aborted transactions."""
    near: Near | None = None
    """Which brokers are near a consumer that is sent to the closest replica; None: it is not sent."""
    zstd: bool = True
    """Whether the fetcher understands zstd (KIP-110)."""


class PartitionRead(NamedTuple):
    """What a partition answers to a fetcher."""

    entry: SessionPartition
    error: int = ErrorCode.NONE
    high_watermark: int = -1
    log_start: int = -1
    records: Buffer = b""
    size: int = 0
    below: int = -1
    """The offset after the records."""
    diverging: tuple[int, int] | None = None
    leader: int = NO_LEADER
    leader_epoch: int = -1
    cold: Any = None
    """A job that reads the bytes into memory; `look` must be repeated after it."""
    left_out: bool = False
    """Whether there is something to read, but no room for it in this answer, or the follower is held back (KIP-73)."""
    last_stable: int = -1
    aborted: Sequence[tuple[int, int]] = ()
    """(producer id, first offset) of the aborted transactions with a record in what is read, for `committed_only`."""
    preferred: int = LEADER
    """Another broker that a consumer should fetch from; then there are no records."""
    more: bool = False
    """Whether there is more to read than this answer has of the partition."""

    @property
    def urgent(self) -> bool:
        """Whether there is a reason to answer whatever the byte count."""
        return self.error != NONE or self.diverging is not None or self.preferred != LEADER

    @property
    def news(self) -> bool:
        """Whether an incremental answer must name this partition."""
        entry = self.entry
        return (
            self.size > 0
            or self.urgent
            or entry.sent_high_watermark != self.high_watermark
            or entry.sent_log_start != self.log_start
        )


class OwnRead(NamedTuple):
    """The result of one read inside the broker."""

    offset: int
    """The offset at which the records begin: the requested offset, or the log start if that is later."""
    records: Buffer = b""
    """Whole batches, verified; empty at the log's end."""
    cold: Any = None
    """A job that reads the bytes into memory; read again from `offset` with its result."""


def read_internal(replicas: Replicas, partition: Partition, offset: int, bytes_max: int, warm: Any = None) -> OwnRead:
    """Read for a component inside the broker, up to the log's end. `warm`: the result of the job that the last call
    returned. It is used once, and only if the log start has not passed it.

    Raises DiskFailed: the partition is unreadable from now on, and the next heartbeat reports it. If the device failed,
    `failed_reads` holds its directory. Raises any other OSError of the disk unchanged: it does not show that data is
    damaged."""
    log = partition.log
    start = max(offset, log.log_start_offset)
    if start >= log.log_end_offset:
        return OwnRead(start)
    try:
        faster = log.sparse and isinstance(warm, FileNotFoundError)  # the cleaner may have been
        if warm is None or start != offset or faster:
            warm = log.read(start, bytes_max)
        if warm is None:
            return OwnRead(start, cold=log.cold_read(start, bytes_max))
        if isinstance(warm, Exception):
            raise warm
        if not warm.data:
            if log.sparse and log.log_end_offset not in (start, log.log_start_offset):
                return OwnRead(log.log_end_offset)  # nothing is left of what was there
            raise CorruptBatch(0, "no batch can be found there")
        _verify(partition, start, warm.data)
    except CorruptBatch as error:
        replicas.unreadable[partition] = None
        raise _damaged(partition, start, error.reason) from None
    except (DiskFailed, FileNotFoundError) as error:
        replicas.note_unreadable(partition)
        note_failure(replicas, partition, error)
        raise DiskFailed(f"{partition!r} cannot be read from offset {start} on: {error}") from error
    return OwnRead(start, warm.data)


def look(
    replicas: Replicas, entry: SessionPartition, reader: Reader, bytes_max: int, *, first: bool, over_rate: bool = False
) -> PartitionRead:
    """Look at one partition. `first`: no records were found before, so one batch is given even if it is larger than the
    limits. `over_rate`: throttled partitions give nothing to followers that are not in sync."""
    partition = entry.partition
    assert partition is not None
    try:
        partition.check_epoch(entry.leader_epoch, leader_only=reader.leader_only)
        if reader.replica >= 0:
            diverging = partition.diverging(entry.fetch_offset, entry.last_fetched_epoch)
            if diverging is None:
                partition.check_offset(entry.fetch_offset)
                _note(replicas, partition, entry, reader)
        else:
            if reader.near is not None and partition.leads:
                preferred = closest(partition, entry.fetch_offset, reader.near)
                if preferred != LEADER:
                    return _elsewhere(partition, entry, preferred)
            diverging = partition.diverging(entry.fetch_offset, entry.last_fetched_epoch)
            if diverging is None:
                partition.check_offset(entry.fetch_offset)
        held_back = over_rate and partition.throttled_as_leader and reader.replica not in partition.isr.isr
        return _read(partition, entry, reader, bytes_max, diverging, first, held_back)
    except RequestRefused as refused:
        return _refusal(partition, entry, refused.code, reader)
    except DiskFailed as error:
        if error.errno is not None and reader.replica != RESTORER:
            partition.unreadable = True  # as where a job has read it: the directory may be one that stays
        if partition not in replicas.unreadable:
            replicas.reports.append(f"cannot read {partition!r}: {error}")
        if partition.unreadable:
            replicas.unreadable[partition] = None
        note_failure(replicas, partition, error)
        return _refusal(partition, entry, ErrorCode.KAFKA_STORAGE_ERROR, reader)


def _elsewhere(partition: Partition, entry: SessionPartition, preferred: int) -> PartitionRead:
    """The answer that sends a consumer to another replica, without data."""
    return PartitionRead(
        entry,
        NONE,
        partition.high_watermark,
        partition.log.log_start_offset,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        last_stable=partition.last_stable_offset,
        preferred=preferred,
    )


def note_failure(replicas: Replicas, partition: Partition, error: object) -> None:
    """Note that a read has failed. If the device returned an error, its whole directory must go offline. Damaged data
    affects this replica alone."""
    if isinstance(error, DiskFailed) and error.errno is not None:
        replicas.failed_reads[error.disk or partition.log.disk] = error


def _note(replicas: Replicas, partition: Partition, entry: SessionPartition, reader: Reader) -> None:
    if entry.fresh:
        attached = entry.session.id != 0
        partition.note_fetch(
            reader.replica, entry.fetch_offset, entry.log_start, reader.broker_epoch, reader.mono_ms, attached=attached
        )
        entry.fresh = False
        replicas.fetched(partition, reader.mono_ms)


def _read(
    partition: Partition,
    entry: SessionPartition,
    reader: Reader,
    bytes_max: int,
    diverging: tuple[int, int] | None,
    first: bool,
    held_back: bool,
) -> PartitionRead:
    log = partition.log
    last_stable = end = partition.high_watermark
    if not log.blank and log.producers.transactions.first_unstable < end:
        last_stable = partition.last_stable_offset
    if reader.replica >= 0:
        end = log.log_end_offset
    elif reader.committed_only:
        end = last_stable
    records: Buffer = b""
    cold: ColdRead | AbortedSearch | None = None
    unread, restores = entry.unread == entry.fetch_offset, reader.replica == RESTORER
    if (partition.unreadable and (unread or (reader.replica < 0 and not restores))) or (restores and unread):
        # A follower may hold a sound copy of the damaged part, and can become leader only if it gets the rest.
        raise DiskFailed(f"a sealed segment of {partition!r} is damaged")
    readable = diverging is None and entry.fetch_offset < end
    sealed = readable and log.active is not None and entry.fetch_offset < log.active.base_offset
    limit = min(entry.bytes_max, bytes_max)
    below = entry.fetch_offset
    # librdkafka never gets beyond an answer without a record. A follower stores everything.
    passes = reader.replica < 0 and log.sparse
    warm, entry.warm = entry.warm, None
    if warm is not None and readable and warm[0] == entry.fetch_offset and warm[1] <= end:
        # The result of an earlier read is used once. The log may have changed meanwhile, so it is checked.
        _, below, records = warm
    elif readable and (limit > 0 or first) and not held_back:
        try:
            found = log.read(entry.fetch_offset, limit, end, first, passes)
        except CorruptBatch as error:
            raise _damaged(partition, entry.fetch_offset, error.reason, reader) from None
        except FileNotFoundError as error:
            raise _damaged(partition, entry.fetch_offset, f"a file is gone: {error}", reader) from None
        if found is None:
            cold = log.cold_read(entry.fetch_offset, limit, end, first, passes)
        else:
            records, below = found.data, found.next_offset
            if sealed and first and not records and not log.sparse:
                raise _damaged(partition, entry.fetch_offset, "no batch can be found there", reader)
    if sealed and records and reader.replica != RESTORER:
        try:
            _verify(partition, entry.fetch_offset, records)
        except CorruptBatch as error:
            raise _damaged(partition, entry.fetch_offset, error.reason, reader) from None
    if records and not reader.zstd:
        records, below = _before_zstd(records, below)
    aborted: Sequence[tuple[int, int]] = ()
    if records and reader.committed_only and log.aborted.segments:
        found_aborted = _aborted(partition, entry, below)
        if isinstance(found_aborted, AbortedSearch):
            cold = found_aborted
        else:
            aborted = found_aborted
    return PartitionRead(
        entry,
        NONE,
        partition.high_watermark,
        log.log_start_offset,
        records,
        len(records),
        below,
        diverging,
        partition.leader,
        partition.leader_epoch,
        cold,
        readable and not len(records),
        last_stable,
        aborted,
        more=readable and below < end,
    )


def _before_zstd(records: Buffer, below: int) -> tuple[Buffer, int]:
    """The batches that a client gets if it does not understand zstd, out of batches that end at `below`: all before the
    first one in zstd. And the offset behind them. Raises RequestRefused, UNSUPPORTED_COMPRESSION_TYPE, where that is the
    first."""
    for header in headers(records):
        if header.attributes & CODECS == ZSTD:
            if not header.position:
                raise RequestRefused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Fetch version 10")
            return memoryview(records)[: header.position], header.base_offset
    return records, below


def _aborted(partition: Partition, entry: SessionPartition, below: int) -> Sequence[tuple[int, int]] | AbortedSearch:
    """The aborted transactions of what is read from the entry's offset to `below`. What a job has found is used once."""
    searched, entry.aborted = entry.aborted, None
    wanted = searched is not None and searched.offset == entry.fetch_offset and searched.upper_offset >= below
    if searched is not None and take_rebuilt(partition.log, searched) and wanted:
        return searched.found
    return aborted_transactions(partition.log, entry.fetch_offset, below)


def _verify(partition: Partition, offset: int, records: Buffer) -> None:
    """Check that what was read from a segment, from `offset` on, is what was appended: every checksum, and the fields
    that no checksum covers. Raises CorruptBatch.

    Offsets leave no gap, save in a log that was compacted.
    """
    position, below, epochs, sparse = 0, offset, partition.log.epochs, partition.log.sparse
    while position < len(records):
        header = verify(records, position)
        if (header.base_offset < below and position > 0) or (header.base_offset > below and not sparse):
            raise CorruptBatch(position, f"it begins at {header.base_offset}")
        # A log may begin inside a batch. The table of epochs begins where the log does.
        wanted = epochs.epoch_at(max(header.base_offset, offset))
        if header.last_offset < offset or header.epoch != wanted:
            raise CorruptBatch(position, f"it ends at {header.last_offset} and is of epoch {header.epoch}")
        position, below = position + header.size, header.last_offset + 1


def _damaged(partition: Partition, offset: int, reason: str, reader: Reader | None = None) -> DiskFailed:
    """Note that a segment is damaged, and that this replica is unreadable for good, unless a RESTORER has found it."""
    if reader is None or reader.replica != RESTORER:
        partition.unreadable = True
    return DiskFailed(f"a segment of {partition!r} is damaged, behind offset {offset}: {reason}")


def _refusal(partition: Partition, entry: SessionPartition, code: ErrorCode, reader: Reader) -> PartitionRead:
    start, high_watermark = -1, -1
    if code == ErrorCode.OFFSET_OUT_OF_RANGE and reader.replica >= 0:
        start, high_watermark = partition.log.log_start_offset, partition.high_watermark
    return PartitionRead(
        entry,
        code,
        high_watermark,
        start,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        last_stable=high_watermark,
    )
