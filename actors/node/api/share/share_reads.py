"""What one ShareFetch can read of a share partition, and what its member acquires of it (KIP-932).

This file alone decides what may be read. Rules:

1. Only the leader reads for a share group, from where the share partition says; up to the high watermark, or the last stable
   offset where the group reads committed records only.
2. What lies on the disk is read by one fetch at a time for a share partition: others would read the same.
3. As much is read as the records that a member wants are likely to take, by the size of those that were read last.
4. A member gets whole batches of the log: those with a record that it has acquired, and what lies between them.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from actors.authorization.resources import Operation, Resource
from actors.broker.groups.share.delivery.acquisition import Acquired, AcquisitionRequest, Extent
from actors.broker.groups.share.delivery.share_partition import ShareLimits
from actors.broker.groups.share.delivery.share_sessions import Named, SessionOwner
from actors.broker.log.aborted_search import AbortedFound
from actors.broker.log.reads import Read
from actors.broker.replication.fetch_sessions import Session, SessionPartition, Wanted, Warm
from actors.broker.replication.partition import Partition
from actors.broker.replication.reading import PartitionRead, Reader, look, note_failure
from actors.node.api.contexts import BrokerContext
from actors.node.roles.broker.groups.share.share_partitions import LedSharePartition
from actors.node.runtime.calls import Call
from actors.ports import Buffer, DiskFailed
from actors.wire.errors import ErrorCode
from fastpath.records.batch import CorruptBatch, columns

READ_BYTES_MAX = 1 << 20
"""What is read of one partition for one answer: a member acquires some hundred records at once, however many bytes it
allows."""
MARGIN, MARGIN_BYTES = 1.25, 32 << 10
"""What is read beside the likely size: records differ, and the last batch is given whole."""
CONTROL, TRANSACTIONAL = 0x20, 0x10
EXTENTS = ("position", "size", "base_offset", "last_offset")
WITH_PRODUCERS = (*EXTENTS, "producer_id", "attributes")
"""What has to be known of the batches that were read; where transactions were aborted, also whose they are."""
CODES = {int(code): code for code in ErrorCode}

Batches = dict[str, np.ndarray[Any, Any]]
"""Columns of the headers of what was read, by name."""


class Taken(NamedTuple):
    """What a member gets of a share partition."""

    records: Buffer
    acquired: Sequence[Acquired]


class SharePartitionRead:
    """One partition of a request, from its first look to the answer."""

    __slots__ = ("entry", "error", "found", "held", "named", "offset", "warm")

    def __init__(self, named: Named, session: Session) -> None:
        self.named = named
        self.entry = SessionPartition(Wanted(*named, 0, -1, -1, -1, 0), session)
        self.held: LedSharePartition | None = None
        self.error = ErrorCode.NONE
        self.offset = 0
        """Where it was read last."""
        self.found: PartitionRead | None = None
        self.warm: Warm | None = None
        """What has been read for the next look."""

    def keep(self) -> None:
        """What was found is for the next look."""
        found = self.found
        if found is not None and found.size:
            self.warm = self.offset, found.below, found.records


class ShareReads:
    """The reads of one request."""

    def __init__(self, context: BrokerContext, owner: SessionOwner, call: Call) -> None:
        self._context = context
        self._owner = owner
        self._call = call
        self._guarded = context.authorizer.enabled
        """Whether each partition is looked at for the right to read it, each time: rules may change."""
        self._session = Session(0, -1, True, 0)
        """A session that no later request finds: the entries of a look belong to one."""

    def place(self, named: Named) -> SharePartitionRead:
        """A partition that the request wants."""
        return SharePartitionRead(named, self._session)

    def idle(self, place: SharePartitionRead, limits: ShareLimits) -> bool:
        """Whether nothing can have come there for a member that waits. It is asked for each record and each member that
        waits, so it looks only at what is nearly always so."""
        held = place.held
        if held is None or self._guarded or held.share.fenced is not None:
            return False
        share = held.share
        if share.active and share.start_offset < held.partition.log.log_start_offset:
            return False
        return not _offers(held, limits)

    def readable(self, place: SharePartitionRead, limits: ShareLimits) -> bool:
        """Whether something may be acquired there, if it can be read. `place.error`: it cannot be at all."""
        place.found, place.error, held = None, ErrorCode.NONE, place.held
        if held is None or self._guarded or not held.partition.leads:
            place.error = self._refusal(place)
            if place.error:
                return False
            partition = self._context.replicas.get(*place.named)
            assert partition is not None
            if held is None or held.partition is not partition:
                held = place.held = self._context.shares.open(self._owner.group, partition)
                place.entry.partition = partition
        share, partition = held.share, held.partition
        if share.fenced is not None:
            place.error = share.fenced
            return False
        share.log_starts_at(partition.log.log_start_offset)
        return _offers(held, limits) and (not held.reading or place.warm is not None)

    def look(
        self, place: SharePartitionRead, records: int, bytes_max: int, limits: ShareLimits, *, first: bool
    ) -> PartitionRead:
        """Read for so many records, or say which job reads. It must be readable."""
        held, entry = place.held, place.entry
        assert held is not None
        share = held.share
        offset = share.next_offset()
        warm, place.warm = place.warm, None
        if warm is not None and warm[0] != offset:
            warm = None
        if held.record_bytes:
            likely = share.span(records, limits) * held.record_bytes
            bytes_max = min(bytes_max, int(likely * MARGIN) + MARGIN_BYTES)
        entry.fetch_offset = place.offset = offset
        entry.bytes_max = bytes_max
        entry.warm = warm
        reader = Reader(-1, -1, True, self._context.runtime.now.mono_ms, limits.committed_only)
        found = look(self._context.replicas, entry, reader, bytes_max, first=first)
        place.error = CODES[found.error]
        place.found = found
        if found.size:
            held.record_bytes = found.size / (found.below - offset)
        return found

    def available(self, place: SharePartitionRead, limits: ShareLimits) -> int:
        """About how many bytes there are, read or not. It must be readable."""
        held, found = place.held, place.found
        assert held is not None
        size = found.size if found is not None else 0
        below = found.below if found is not None and size else held.share.next_offset()
        return size + max(0, int((_end(held.partition, limits) - below) * held.record_bytes))

    def warmed(self, place: SharePartitionRead, result: Any) -> None:
        """A job has read something, or has failed to."""
        assert place.held is not None
        partition = place.held.partition
        if isinstance(result, AbortedFound):
            place.entry.aborted = result
        elif isinstance(result, Read):
            place.warm = place.offset, result.next_offset, result.data
        elif isinstance(result, (DiskFailed, CorruptBatch)):
            self._context.runtime.log.warning(f"cannot read {partition!r}: {result}")
            partition.unreadable, place.entry.unread = True, place.offset

    def seen(self, place: SharePartitionRead, result: Any) -> None:
        """The job has ended, whether or not somebody waits for it."""
        assert place.held is not None
        note_failure(self._context.replicas, place.held.partition, result)
        self._context.shares.release_reading(place.held)

    def take(self, place: SharePartitionRead, ask: AcquisitionRequest) -> Taken | None:
        """Acquire of what was read; None: nothing of it is for this member."""
        held, found = place.held, place.found
        if held is None or found is None or not found.size or not held.share.active:
            return None
        if held.share.next_offset() != place.offset:
            return None
        batches = columns(found.records, fields=WITH_PRODUCERS if found.aborted else EXTENTS)
        begins = batches["base_offset"].tolist()
        count = ask.in_flight_max + ask.records_max + 1
        extents = list(islice(map(Extent, begins, batches["last_offset"].tolist()), count))
        aborted = _aborted(batches, found.aborted) if found.aborted else ()
        acquired = held.share.acquire(ask, place.offset, extents, aborted)
        self._context.shares.gather(held)
        return Taken(_part(found.records, batches, begins, acquired), acquired) if acquired else None

    def _refusal(self, place: SharePartitionRead) -> ErrorCode:
        context, (topic_id, number) = self._context, place.named
        name = context.cache.topic_name(topic_id)
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not context.authorizer.allowed(self._call, Operation.READ, Resource.TOPIC, name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        partition = context.replicas.get(topic_id, number)
        if partition is None:
            return context.availability.absent(topic_id, number)
        return ErrorCode.NONE if partition.leads else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _end(partition: Partition, limits: ShareLimits) -> int:
    """Where the records end that a group may have (rule 1)."""
    return partition.last_stable_offset if limits.committed_only else partition.high_watermark


def _offers(held: LedSharePartition, limits: ShareLimits) -> bool:
    """Whether something may be acquired that can be read. Nearly always, where many members wait, nothing is new; an unclean
    election may also have cut the log. While it is being loaded there is nothing."""
    share = held.share
    return share.active and share.next_offset() < _end(held.partition, limits) and share.can_acquire(limits)


def _part(records: Buffer, batches: Batches, begins: Sequence[int], acquired: Sequence[Acquired]) -> Buffer:
    """The whole batches with what was acquired (rule 4). `begins`: the first offset of each batch."""
    first = max(0, bisect_right(begins, acquired[0].first) - 1)
    last = bisect_right(begins, acquired[-1].last) - 1
    begin = int(batches["position"][first])
    end = int(batches["position"][last]) + int(batches["size"][last])
    return records if begin == 0 and end == len(records) else memoryview(records)[begin:end]


def _aborted(batches: Batches, transactions: Sequence[tuple[int, int]]) -> list[Extent]:
    """The batches of aborted transactions; `transactions`: (producer id, first offset)."""
    coming = sorted(transactions, key=lambda one: one[1])
    open_: set[int] = set()
    found, place = [], 0
    for first, last, producer, attributes in zip(
        batches["base_offset"].tolist(),
        batches["last_offset"].tolist(),
        batches["producer_id"].tolist(),
        batches["attributes"].tolist(),
        strict=True,
    ):
        while place < len(coming) and coming[place][1] <= last:
            open_.add(coming[place][0])
            place += 1
        if producer in open_ and attributes & CONTROL:
            open_.discard(producer)
        elif producer in open_ and attributes & TRANSACTIONAL:
            found.append(Extent(first, last))
    return found
