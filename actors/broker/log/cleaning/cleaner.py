"""One cleaning of one log, in slices.

This file alone decides in which order a cleaning reads, writes and syncs. It is a generator of effects, and is
sent the result: `CleaningSlice`, a job for a thread, and `Durable`, files to be synced. Rules:

1. The dirty part is read into the offset map, as far as that has room. Then all segments up to there are written anew,
   group by group. No segment but the group's is touched.
2. A group's new segment is synced with its indexes, then its name `.swap`, then the old segments leave and that is synced,
   and then it gets its own name, which is synced before the next group begins. So a power cut, which may keep any of the
   names that were not synced and lose the others, leaves nothing that a start cannot tell; and older values are gone for
   good before the tombstone behind them is.
3. What is written is not read by anybody before that. A cleaning that ends early leaves a segment that `leftover` names: it
   may be unlinked, as `withdraw` has taken the name `.swap` from it.
4. Every batch that is read is checked. What is damaged ends the cleaning and changes nothing.
5. Both passes know every aborted transaction that the log knows when the cleaning begins. The new segment's index has those
   of which the pass has met data and whose marker is in it. So no entry outlives its marker: a reader that meets one
   would drop what the producer commits later.
"""

from collections.abc import Generator, Sequence
from typing import NamedTuple

from actors.broker.log.aborted_transactions import all_aborted
from actors.broker.log.cleaning.cleanable import Cleanable, Group, groups
from actors.broker.log.cleaning.replacing import name_all, name_placed, remove_unfinished, replace, stand, withdraw
from actors.broker.log.log import PartitionLog
from actors.broker.log.producers.transaction_index import Aborted as Entry
from actors.broker.log.segment import CLEANED, NO_LIMIT, Job, Segment
from actors.ports import Directory, File
from actors.wire import batch_header
from fastpath.records.batch import CorruptBatch
from fastpath.records.cleaner import Aborted, Cleaner, LastBatch, Transactions, fill
from fastpath.records.offset_map import OffsetMap

OUTPUT_BYTES_MAX = 100 << 20
"""The most bytes that a compressed batch may hold when it is opened, unless max.message.bytes is more."""
SLICE_BYTES_MIN = 4096


class DamagedSegment(ValueError):
    """A batch of the log is damaged, so the log cannot be cleaned. The text names file, position and offset."""


class CleaningSlice(NamedTuple):
    """Run `job` outside the loop; its result comes back."""

    job: Job
    bytes: int
    """The bytes that were read and written since the last slice."""


class Durable(NamedTuple):
    """Files to be synced before the cleaning goes on."""

    files: Sequence[File | Directory]


class Retired(NamedTuple):
    """Segments that are no longer part of the log."""

    segments: Sequence[Segment]
    """The segments, to be closed when nobody reads them any more."""
    jobs: Sequence[Job]
    """Jobs that unlink the files, to be run once the segments are closed."""


class CleaningLimits(NamedTuple):
    """The memory and the pace that a cleaning may take."""

    map_bytes: int
    load_factor: float
    slice_bytes: int


class Cleaned(NamedTuple):
    """The result of a cleaning."""

    end_offset: int
    """The offset below which the log is clean now."""
    records_read: int
    records_kept: int
    bytes_read: int
    """The bytes that were read from the log files; the dirty part is read twice."""
    bytes_written: int
    map_keys: int
    map_capacity: int


Effect = CleaningSlice | Durable | Retired


class LogCleaning:
    """One cleaning of one log. `steps` does it."""

    def __init__(
        self,
        log: PartitionLog,
        found: Cleanable,
        limits: CleaningLimits,
        seed: bytes,
        now_ms: int,
    ) -> None:
        """A cleaning that has not begun. `seed`: 16 random bytes. `now_ms`: wall clock."""
        self._log = log
        self._found = found
        self._now_ms = now_ms
        self._slice_bytes = max(limits.slice_bytes, SLICE_BYTES_MIN)
        self._output_bytes_max = max(OUTPUT_BYTES_MAX, log.settings.max_message_bytes)
        self._entries: dict[int, Entry] = {}
        """Every aborted transaction of the log, by the offset of its marker."""
        self._generation = log.generation
        self._layout = log.layout
        """The log's layout, counted up for what this cleaning itself has replaced."""
        self._offsets = OffsetMap(
            limits.map_bytes, limits.load_factor, seed, found.first_uncleanable - found.first_dirty
        )
        self._bytes = 0
        """The bytes that were read and written since the last slice."""
        self._bytes_read = 0
        self._whole = True
        """Whether the map has had room for all of the dirty part."""
        self.leftover: Segment | None = None
        """The segment that is being written. Once the cleaning is over: the segment that it has left."""
        self.retired: Retired | None = None
        """The segments that have left the log and were not handed over yet."""

    @property
    def map_bytes(self) -> int:
        """The memory of the offset map, in bytes."""
        return self._offsets.memory_bytes

    @property
    def outdated(self) -> bool:
        """Whether the log was cut since this cleaning began, or has lost segments to retention: what was read may not
        be there any more."""
        return self._log.generation != self._generation or self._log.layout != self._layout

    def steps(self) -> Generator[Effect, object, Cleaned]:
        """The steps of the cleaning. Raises DiskFull, DiskFailed, FileNotFoundError, MemoryError; DamagedSegment if a
        batch is damaged; SegmentsChanged if the log changed meanwhile; CorruptBatch if an index of aborted transactions
        is damaged and the log, too."""
        log, found = self._log, self._found
        before = log.standing
        if before is not None:  # an earlier cleaning could not take it back
            withdraw(log)
            yield self._slice(before.delete())
        yield self._slice(lambda: remove_unfinished(log.disk, log.directory))
        # What producers write from now on lies behind all that is cleaned.
        last_batches = [
            LastBatch(producer_id, one.epoch, one.batches[-1].last_offset if one.batches else -1)
            for producer_id, one in log.producers.by_id.items()
        ]
        if log.aborted.segments:
            read = all_aborted(log)
            yield self._slice(lambda: self._learn(read()))
        yield from self._fill([one.segments for one in groups(log, found.first_uncleanable)])
        end_offset = found.first_uncleanable if self._whole else self._offsets.latest_offset + 1
        transactions = yield from self._transactions()
        cleaner = Cleaner(
            self._offsets,
            transactions,
            last_batches,
            now_ms=self._now_ms,
            delete_retention_ms=log.settings.delete_retention_ms,
            output_bytes_max=self._output_bytes_max,
        )
        if log.unplaced is not None:
            name_all(log)
            yield Durable([log.names.listing])
            log.unplaced = None
        for group in groups(log, end_offset):
            yield from self._clean(group, cleaner, transactions)
        return Cleaned(
            end_offset,
            cleaner.records_read,
            cleaner.records_kept,
            self._bytes_read,
            cleaner.bytes_written,
            self._offsets.count,
            self._offsets.capacity,
        )

    # ---- the map

    def _fill(self, wanted: Sequence[Sequence[Segment]]) -> Generator[Effect, object, None]:
        transactions, start = (yield from self._transactions()), self._found.first_dirty
        segments = [segment for group in wanted for segment in group]
        behind = [segment.base_offset for segment in segments[1:]] + [self._found.first_uncleanable]
        for segment, end in zip(segments, behind, strict=True):
            position, full = 0, end <= start
            while position < segment.size and not full:
                step = yield self._slice(lambda s=segment, p=position: self._fill_one(s, p, transactions))  # type: ignore[misc]
                assert isinstance(step, tuple)
                self._count(step[0] - position, 0)
                position, full = step
            if full and end > start:
                self._whole = False
                return

    def _fill_one(self, segment: Segment, position: int, transactions: Transactions) -> tuple[int, bool]:
        """Enter the next piece of a segment into the map, in a thread. Returns where the piece after it begins, and
        whether the map is full."""
        data = self._read(segment, position)
        try:
            stop, full = fill(
                self._offsets,
                data,
                0,
                len(data),
                self._found.first_dirty,
                transactions,
                output_bytes_max=self._output_bytes_max,
            )
        except CorruptBatch as error:
            raise _damaged(segment, position, error) from None
        return position + stop, full

    # ---- the segments

    def _clean(self, group: Group, cleaner: Cleaner, transactions: Transactions) -> Generator[Effect, object, None]:
        log, first = self._log, group.segments[0]
        cleaned = Segment(
            log.disk, log.directory, first.base_offset, log.settings.index_interval_bytes, first.created_ms, CLEANED
        )
        self.leftover = cleaned
        cleaned.begin()
        for segment in group.segments:
            position = 0
            while position < segment.size:
                step = yield self._slice(
                    lambda s=segment, p=position: self._clean_one(s, p, cleaner, group.last_offset)  # type: ignore[misc]
                )
                assert isinstance(step, tuple)
                left, stop = step
                if len(left):
                    first_timestamp = batch_header.max_timestamp(left)
                    cleaned.append(left, first_timestamp, group.segments[-1].appended_ms)
                for one in transactions.take_kept():
                    cleaned.aborted.append(self._entries[one.last_offset])
                self._count(stop - position, len(left))
                position = stop
        cleaned.appended_ms = group.segments[-1].appended_ms
        cleaned.seal()
        files = cleaned.write_index()
        if cleaned.aborted.exists:
            files += cleaned.aborted.write(sealed=True)
        yield Durable(files)
        stand(log, group.segments, cleaned)
        yield Durable([log.names.listing])
        jobs = replace(log, group.segments, cleaned)
        self.leftover, self._layout = None, log.layout
        retired = self.retired = Retired(group.segments, jobs)
        yield Durable([log.names.listing])
        name_placed(log, cleaned)
        yield Durable([log.names.listing])
        log.unplaced = None
        self.retired = None
        yield retired

    def _clean_one(self, segment: Segment, position: int, cleaner: Cleaner, last_offset: int) -> tuple[memoryview, int]:
        """Clean the next piece of a segment, in a thread. Returns what is left of it, and where the piece after it
        begins."""
        data = self._read(segment, position)
        try:
            left, stop = cleaner.clean(data, 0, len(data), last_offset)
        except CorruptBatch as error:
            raise _damaged(segment, position, error) from None
        return left, position + stop

    # ---- inside

    def _learn(self, entries: Sequence[Entry]) -> None:
        """Enter the aborted transactions of the log, in a thread: there may be millions."""
        self._entries = {one.last_offset: one for one in _rising(entries)}

    def _transactions(self) -> Generator[Effect, object, Transactions]:
        if not self._entries:
            return Transactions()
        entries = self._entries.values()
        made = yield self._slice(lambda: Transactions(Aborted(*one[:3]) for one in entries))
        assert isinstance(made, Transactions)
        return made

    def _slice(self, job: Job) -> CleaningSlice:
        spent, self._bytes = self._bytes, 0
        return CleaningSlice(job, spent)

    def _count(self, read: int, written: int) -> None:
        self._bytes += read + written
        self._bytes_read += read

    def _read(self, segment: Segment, position: int) -> memoryview:
        """A piece of a segment from `position`, with one whole batch at least."""
        data = segment.log.read_cold(position, self._slice_bytes)
        if len(data) >= batch_header.SIZE_BYTES:
            size = batch_header.batch_size(data)
            if size > len(data):
                data = segment.log.read_cold(position, min(size, segment.size - position))
            if batch_header.SIZE_BYTES <= size <= len(data):
                return data
        raise DamagedSegment(f"{segment.log.path} ends inside the batch at byte {position}")


def _rising(entries: Sequence[Entry]) -> list[Entry]:
    """The indexes of several segments as one, in which last stable offsets do not fall. They would fall where an index
    was built again after data of a transaction had gone. The lower offset is right for both entries: a reader looks at
    more entries."""
    found, stable = list[Entry](), NO_LIMIT
    for one in reversed(entries):
        stable = min(stable, one.last_stable_offset)
        found.append(one._replace(last_stable_offset=stable))
    return found[::-1]


def _damaged(segment: Segment, position: int, error: CorruptBatch) -> DamagedSegment:
    return DamagedSegment(f"{segment.log.path} at byte {position + error.position}: {error.reason}")
