"""The log of one partition on one replica: a sequence of segments, and the operations of a broker on it.

This file alone decides in which segment an offset lies and when a new segment begins. Rules:

1. Offsets rise; the log ends where the last batch ends. Batches enter whole or not at all: when the disk is full, the log
   is what it was before.
2. An append is in the page cache when it returns. `flush` says what to sync for it to be on the disk, and `flushed` is
   told when that is done; the recovery point never passes what is.
3. Nothing here waits for the disk on a read: `read` answers None for what is not in memory, `cold_read` gives the job
   that reads it in a thread. Unlinking is always such a job.
4. The first file is made by the first append. A log that does not begin at 0 has its file at once: the name keeps the
   offset. It wants a flush soon: were it missing after a power cut, the next one would look like the log's beginning.
   partition.metadata is written before it and synced with it: no batch is on the disk whose topic is not.
5. Leader epochs, producers and indexes of aborted transactions always describe exactly the batches in the log.
6. Names change on the disk first (`renames.py`) and memory follows: segment by segment, the oldest first, where the log's
   start moves; all at once, the newest first, and the file that is cut with them, where its end does. So an operation that
   fails half way leaves a log that is whole, only longer than was wanted, and may be repeated. What there is no room for on
   the way back is done before the next change (`settle`). Where a device fails there the log is `torn`: it takes nothing any
   more.
7. What was renamed is durable with the next flush, which names the directory.
8. A log that never had a record is `blank`: it is a few numbers, and what else it consists of is made when it is first
   needed (`MADE_LATE`). Passes over all logs leave out those that are blank: nothing of them is on the disk.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from operator import attrgetter
from typing import Any, NamedTuple

from actors.broker.log.aborted_indexes import AbortedIndexes, Replacements
from actors.broker.log.directories.checkpoints import LEADER_EPOCHS
from actors.broker.log.directories.directory import write_identity
from actors.broker.log.directories.renames import HalfRenamed, Torn
from actors.broker.log.index_cache import IndexCache
from actors.broker.log.leader_epochs import EpochCache, EpochEnd
from actors.broker.log.names import Names
from actors.broker.log.offsets_by_time import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    PENDING_UPLOAD,
    TimeOffset,
    TimeSearch,
)
from actors.broker.log.producer_snapshots import ProducerSnapshots
from actors.broker.log.producers import markers
from actors.broker.log.producers.producers import InvalidProducerBatches, Producers
from actors.broker.log.producers.transaction_index import aborted
from actors.broker.log.reads import ColdRead, Read, check_end, only_empty
from actors.broker.log.segment import NO_LIMIT, Chunk, Job, Segment
from actors.ports import Buffer, Directory, Disk, DiskFailed, DiskFull, File
from actors.settings.topics import TopicSettings
from actors.wire import batch_header
from fastpath.records.batch import HEADER_SIZE, Header, verify

HINTS_MAX = 16
SPAN_MAX = 0x7FFFFFFF
"""The most offsets in one segment: the indexes have 32 bits."""


class OffsetOutOfRange(ValueError):
    """The offset is below the log's start or above its end; Kafka's code 1."""

    code = 1


class OffsetsOutOfOrder(ValueError):
    """Batches that do not continue the log: a leader's answer to an older request, or damage."""


class Unmarked(ValueError):
    """Data of a transaction was copied from one leader, and the log of the next one was cleaned since: it does not say any
    more how the transaction has ended."""

    def __init__(self, first_offset: int) -> None:
        super().__init__(f"it does not say any more how the transaction that began at {first_offset} has ended")
        self.first_offset = first_offset


class Unsettled(ValueError):
    """The log was cut, and that is not durable yet. A power cut may still bring back what was cut, and keep what came
    behind it: therefore nothing is appended before the flush that is under way is done. Or there was no room for something
    that has to be done before anything is appended."""


class Appended(NamedTuple):
    """Where appended batches are in the log."""

    base_offset: int
    last_offset: int
    duplicate: bool = False
    """Whether this is a repetition: nothing was written, and the offsets are the original's. Answer it once they are
    committed."""
    timestamp: int = -1
    """Largest timestamp of the original, if this is a repetition."""


class Flush(NamedTuple):
    """The files and names that must be synced so that everything below `offset` is durable. Hand it back to `flushed`
    then."""

    offset: int
    files: Sequence[File | Directory]
    replacements: Sequence[tuple[Disk, str, bytes]]
    generation: int
    snapshots: tuple[int, ...]
    epochs: bytes | None
    """The table of epochs, as `replacements` has it; None: it is not to be written."""
    indexes: Replacements
    """Indexes of aborted transactions, whole, as `replacements` has them."""
    names: int
    """How often names in the log's directory had changed."""
    cut: bool
    """Whether the log was truncated. Then the checkpoints must be synced too: an older recovery point may lie beyond
    the new end, and records that are written there next would be trusted without a check."""


class PartitionLog:
    """The log of one partition. Invariant: log_start_offset <= log_end_offset; recovery_point <= log_end_offset."""

    __slots__ = (
        "_asked_ms", "_began_in", "aborted", "active", "asked_offset", "blank", "checkpointed_offset", "cleaned_offset",
        "damaged", "disk", "durable_generation", "epochs", "generation", "hints", "indexes", "instance", "layout",
        "log_end_offset", "log_start_offset", "moves", "names", "producers", "reach", "recovery_point", "refusing",
        "segments", "settings", "shortened", "snapshots", "standing", "topic_id", "torn", "unplaced",
    )  # fmt: skip

    segments: list[Segment]
    """The segments, by base offset. Invariant: only the last one takes appends; empty until the first append."""
    names: Names
    producers: Producers
    snapshots: ProducerSnapshots
    aborted: AbortedIndexes
    hints: dict[int, tuple[Segment, int]]
    """The position at which the batch of an offset begins, by offset, for the next readers of the tail."""
    shortened: list[Segment]
    """The segments that were cut since the last flush that is done."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        settings: TopicSettings,
        topic_id: bytes | None = None,
        start_offset: int = 0,
        indexes: IndexCache | None = None,
        instance: int = 0,
    ) -> None:
        """An empty log; `recovery.recover` opens one that may have files. `topic_id` is written beside the first file."""
        self.disk = disk
        self._began_in = directory
        self.blank = True
        """Whether nothing but its numbers was needed yet. Then there is no segment, no file and no producer."""
        self.settings = settings
        self.topic_id = topic_id
        self.instance = instance
        """Which of the logs of its log directory it is: a successor of the same topic id has another (`checkpoints.py`)."""
        self.indexes = IndexCache() if indexes is None else indexes
        """The cache of indexes, shared by the logs of a broker."""
        self.active: Segment | None = None
        """The segment that takes appends. Invariant: the last of `segments`; None without any."""
        self.log_start_offset = start_offset
        """First offset that may be read."""
        self.log_end_offset = start_offset
        """The offset of the next append."""
        self.recovery_point = start_offset
        """The offset below which everything is on the disk."""
        self.cleaned_offset = start_offset if settings.compact else -1
        """The offset below which the cleaner has left one record of each key. -1: the log has never been one of a
        compacted topic, and its offsets leave no gap."""
        self.checkpointed_offset = start_offset
        """The recovery point that a checkpoint on the disk has. What is below it is never scanned again: the batches
        there need not tell where leader epochs began. What is below is never scanned again: the batches there need not
        tell where leader epochs began. Invariant: at most the recovery point."""
        self.layout = 0
        """A number that rises whenever segments go or take the place of others: a job that has read the old ones must
        not go on with them."""
        self.epochs = EpochCache()
        self.generation = 0
        """A number that rises with every truncation: a flush that began before does not cover what came after."""
        self.durable_generation = 0
        """The generation of the last finished flush. If it is lower than the present one, a truncation may not be
        durable."""
        self.asked_offset = start_offset
        """The offset up to which a flush was last asked for."""
        self._asked_ms = -1
        self.moves: tuple[str, ...] = ()
        """By which moves between directories it has come here in this life of the broker, the last one first."""
        self.damaged: str | None = None
        """The damage that a start found in durable data. Epochs and producers may lack what it hid."""
        self.refusing: DiskFailed | Unsettled | None = None
        """Why nothing is appended now. Invariant: `torn` if there is that; else Unsettled exactly while `shortened` is not
        empty or `names.owed`."""
        self.reach = 0
        """Up to where the checkpoints say that a log was durable that has begun anew in front of that, or has lost all its
        files. Until a flush is done it takes one append alone, whose first batch reaches there: of what ends before it a
        start would believe all, or drop it, and it would call the log damaged where something followed what is torn. 0:
        there is no such place."""
        self.standing: Segment | None = None
        """A segment under the name `.swap` that is to take the place of others and has not yet. A start would let it do so:
        its name goes before anything else of the log changes."""
        self.unplaced: Segment | None = None
        """A cleaned segment that has taken the place of others, and has a name of its own, for certain, only after the next
        sync: nothing else is cleaned before that, as a start that finds another one beside `.swap` drops this."""
        self.torn: DiskFailed | None = None
        """Why memory and disk may not say the same of this log any more; None: they do. If it is set, nothing is
        appended to the log or flushed."""

    def __getattr__(self, name: str) -> Any:
        """A part that is needed for the first time."""
        make = MADE_LATE.get(name)
        if make is None:
            raise AttributeError(f"a log has no {name}")
        part = make(self)
        setattr(self, name, part)
        if self.blank:
            self.blank = False
            self.indexes.begun += 1
        return part

    @property
    def directory(self) -> str:
        """The name of the log's directory on `disk`: `<topic>-<partition>`."""
        return self._began_in if self.blank else self.names.directory

    @property
    def sparse(self) -> bool:
        """Whether offsets may be missing, inside batches and between them."""
        return self.cleaned_offset >= 0

    def configure(self, settings: TopicSettings) -> None:
        """Take other settings of the topic. A log that was compacted once stays sparse."""
        self.settings = settings
        if settings.compact and not self.sparse:
            self.cleaned_offset = self.log_start_offset

    @property
    def size(self) -> int:
        """The bytes of all log files."""
        return 0 if self.blank else sum(segment.size for segment in self.segments)

    # -- appends ------------------------------------------------------------------------------------------------------

    def append(
        self, data: bytes | bytearray | memoryview, headers: Sequence[Header], now_ms: int, *, client: bool = True
    ) -> Appended:
        """Append batches that `batch.accept` has checked and given offsets from `log_end_offset` on.

        `headers`: what `accept` returned for `data`. `now_ms`: wall clock. With `client` the rules of idempotence are
        checked: raises ProducerFault, and nothing is appended. Raises Unsettled or DiskFull (nothing is appended), or
        DiskFailed.
        """
        first, last = headers[0], headers[-1]
        if first.base_offset < self.log_end_offset:
            raise OffsetsOutOfOrder(f"{self.directory} ends at {self.log_end_offset}, not {first.base_offset}")
        producing = False
        for header in headers:
            if header.producer_id >= 0:
                producing = True
                if not client:
                    break
                if len(headers) > 1:
                    raise InvalidProducerBatches("several batches, one of them of an idempotent producer")
                original = self.producers.check(header)
                if original is not None:
                    base_offset = original.last_offset - original.offset_delta
                    return Appended(base_offset, original.last_offset, True, original.timestamp)
        self._write(data, headers, now_ms)
        if producing:
            for header in headers:
                if header.attributes & markers.CONTROL:
                    self._end_transaction(data, header, header.position - first.position, now_ms)
                else:
                    self.producers.append(header, now_ms)
        return Appended(first.base_offset, last.last_offset)

    def _end_transaction(self, data: Buffer, header: Header, position: int, now_ms: int) -> None:
        """Enter a control batch that is in the log. All of an append is in one segment, so an abort goes into the last
        one's index."""
        marker = markers.read(data, position)
        ended = self.producers.append(header, now_ms, marker)
        if ended is not None and marker is not None and not marker.commit:
            segment = self.active
            assert segment is not None
            self.aborted.append(segment, aborted(ended, self.producers.transactions))

    def begins_inside(self, data: bytes | bytearray | memoryview, leader_log_start: int) -> int | None:
        """The first offset of the leader's first batch, if this log ends inside that batch and has nothing to keep.

        Records may be deleted up to any offset, and the leader's epochs begin there, but batches are sent whole. So a
        log may begin inside a batch, or may be truncated where the leader has no batch boundary. It has nothing to keep
        if it is empty, or if `leader_log_start` lies after the batch's first offset, because the leader has deleted
        what is before. Then it begins again at that offset, and its start follows the leader's once the batch is there.
        Raises CorruptBatch.
        """
        base_offset = batch_header.base_offset(data)
        if base_offset >= self.log_end_offset or (self.size > 0 and leader_log_start <= base_offset):
            return None
        first = verify(data)
        return first.base_offset if self.log_end_offset <= first.last_offset else None

    def append_fetched(
        self, data: bytes | bytearray | memoryview, now_ms: int, *, unmarked_offset: int = -1
    ) -> Appended | None:
        """Append batches as a leader sent them, offsets and epochs included. None when there is no whole batch.

        A last batch that is cut off is left out. Every CRC is checked. Raises CorruptBatch, and nothing is appended;
        OffsetsOutOfOrder when the batches do not continue this log; Unmarked, unless the transaction began at or below
        `unmarked_offset`; Unsettled, DiskFull, DiskFailed.
        """
        found: list[Header] = []
        view = memoryview(data)
        position, expected = 0, self.log_end_offset
        while position + HEADER_SIZE <= len(view):
            rest = view[position:]
            if not batch_header.SIZE_BYTES <= batch_header.batch_size(rest) <= len(rest):
                break
            header = verify(view, position)
            if header.base_offset < expected:
                raise OffsetsOutOfOrder(f"{self.directory} expects {expected}, the leader sent {header.base_offset}")
            if header.base_offset > expected and not self.sparse:
                # The leader's log was compacted, though the topic is not now.
                self.cleaned_offset = self.log_start_offset
            expected = header.last_offset + 1
            found.append(header)
            position += header.size
        if not found:
            return None
        return self.append_copied(view[:position], found, now_ms, unmarked_offset=unmarked_offset)

    def append_copied(
        self, data: Buffer, headers: Sequence[Header], now_ms: int, *, unmarked_offset: int = -1
    ) -> Appended:
        """Append batches of another log of this partition, which have been checked: the one way to fill a log from another.
        Raises as `append_fetched`."""
        if self.sparse and self.producers.transactions.open:
            first_offset = self.producers.unmarked(headers)
            if first_offset is not None and first_offset > unmarked_offset:
                raise Unmarked(first_offset)
        return self.append(data, headers, now_ms, client=False)

    def _write(self, data: bytes | bytearray | memoryview, headers: Sequence[Header], now_ms: int) -> None:
        if self.refusing is not None:
            self.settle()
            if self.refusing is not None:
                raise self.refusing.with_traceback(None)  # else it keeps all that it has refused
        first, last = headers[0], headers[-1]
        if self.reach and (first.last_offset < self.reach - 1 or self.log_end_offset >= self.reach):
            raise Unsettled(f"{self.directory} has begun in front of {self.reach}, and that is not durable yet")
        segment = self.active
        if segment is None or self._must_roll(segment, len(data), last, now_ms):
            far = last.last_offset - self.log_end_offset > SPAN_MAX
            base_offset = first.base_offset if far else self.log_end_offset
            segment = self.open_first(base_offset, now_ms) if segment is None else self.roll(now_ms, base_offset)
        position = segment.append(data, first.max_timestamp, now_ms)
        hints = self.hints
        hints[first.base_offset] = (segment, position)
        if len(hints) > HINTS_MAX:
            del hints[next(iter(hints))]
        if last.epoch != self.epochs.latest:
            # Where a leader's compacted log has a gap, the epoch may have begun in it. The earliest place is the safe one:
            # a replica that has other records there learns that they are not this leader's.
            start = self.log_end_offset
            for header in headers:
                self.epochs.assign(header.epoch, min(start, header.base_offset))
                start = header.last_offset + 1
        self.log_end_offset = last.last_offset + 1

    def start_epoch(self, epoch: int) -> None:
        """Note that this replica leads from here on: its epoch begins at the log's end."""
        self.epochs.assign(epoch, self.log_end_offset)

    # -- segments -----------------------------------------------------------------------------------------------------

    def begin_file(self, now_ms: int) -> None:
        """Make the first file of a log that has none, so that its directory is there. Raises DiskFull, DiskFailed."""
        if self.active is None:
            self.open_first(self.log_end_offset, now_ms)

    def open_first(self, base_offset: int, now_ms: int) -> Segment:
        if self.topic_id is not None:
            write_identity(self.disk, self.directory, self.topic_id, self.instance)
        self.names.flush_wanted = True
        return self._add_segment(base_offset, now_ms)

    def _add_segment(self, base_offset: int, now_ms: int) -> Segment:
        self.settle()  # a file of that name may be owed to be removed
        segment = Segment(self.disk, self.directory, base_offset, self.settings.index_interval_bytes, now_ms)
        try:
            segment.begin()
        except (DiskFull, DiskFailed):
            segment.close()
            self.names.discard(segment.log.path)  # a start would take it for the place up to which the log has come
            self.refuse()
            raise
        segment.is_new = True
        self.segments.append(segment)
        self.active = segment
        return segment

    def _must_roll(self, segment: Segment, size: int, last: Header, now_ms: int) -> bool:
        settings = self.settings
        if segment.full(size, last.last_offset, settings.segment_bytes, settings.segment_index_bytes):
            return True
        if segment.size == 0:
            return False
        first = segment.first_timestamp
        if first is not None and first >= 0 and last.max_timestamp >= 0:
            return last.max_timestamp - first > settings.roll_ms
        return now_ms - segment.created_ms > settings.roll_ms

    def roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Seal the last segment and begin one at `base_offset` (default: the log's end). The log wants a flush soon
        then."""
        assert self.active is not None
        base_offset = self.log_end_offset if base_offset is None else base_offset
        sealed = self.active
        segment = self._add_segment(base_offset, now_ms)
        sealed.seal()
        self.indexes.touch(sealed)
        self.keep_producers(base_offset)
        self.names.flush_wanted = True
        return segment

    def left_over(self) -> list[Job]:
        """Jobs that unlink what operations have taken out of the log that failed later on."""
        return self.names.take_unlinks() if not self.blank and self.torn is None else []

    def tear(self, error: OSError) -> DiskFailed:
        """The error to raise, now and at each later use, after an operation that failed half way: what it has left
        cannot be known."""
        if self.torn is None:
            found = error if isinstance(error, DiskFailed) else DiskFailed(error.errno, str(error), self.directory)
            found.disk = self.disk
            self.torn = self.refusing = found
        return self.torn

    @contextmanager
    def renaming(self) -> Iterator[None]:
        """A context in which names of the log's files change, once those are what memory says. Raises DiskFull, DiskFailed:
        none has changed; HalfRenamed, Torn."""
        self.take_back()
        try:
            yield
        except Torn as error:
            raise self.tear(error) from None
        except HalfRenamed as half:
            self.names.owe(half)
            self.refuse()
            raise
        except (DiskFull, DiskFailed):
            self.names.changed()  # and back: a power cut may keep the first of both
            raise

    def take_back(self) -> None:
        """Let the names of the log's files be what memory says. Raises DiskFull, DiskFailed, Torn."""
        if self.torn is not None:
            raise self.torn.with_traceback(None)
        try:
            self.names.take_back()
        except Torn as error:
            raise self.tear(error) from None

    def settle(self) -> None:
        """Do what there was no room for when the log changed. Raises DiskFull: there is none yet; DiskFailed, Torn."""
        self.take_back()
        self.names.settle()
        self.refuse()

    def refuse(self) -> None:
        """Note whether anything may be appended."""
        if self.torn is not None:
            self.refusing = self.torn
        elif self.shortened:
            if self.refusing is None:
                self.refusing = Unsettled(f"the cut of {self.shortened[0].log.path} is not durable yet")
        else:
            owed = self.names.owed
            self.refusing = Unsettled(f"there was no room for all changes of {self.directory}") if owed else None

    def retire(self, segments: Sequence[Segment], ending: str, last: Callable[[], None] | None = None) -> None:
        """Take segments out of the log, the first ones or the last ones, in this order, and then do what is `last`. Raises
        what `last` raises; DiskFull or DiskFailed: all are still part of it; Torn."""
        with self.renaming():
            ending = self.names.ending((path for segment in segments for path in segment.paths), ending)
            self.names.leave([pair for segment in segments for pair in segment.leaving(ending)], last)
        for segment in segments:
            segment.left(ending)
            self.layout += 1
            self.indexes.forget(segment)
            self.segments.remove(segment)
            self.aborted.forget(segment)

    def segments_from(self, offset: int) -> list[Segment]:
        """The segment that holds `offset` (the first one if it lies before all), and those after it."""
        return self.segments[self.segment_of(offset) :]

    def segment_of(self, offset: int) -> int:
        return max(0, bisect_right(self.segments, offset, key=_base_offset) - 1)

    def end_of(self, segment: Segment) -> int:
        """The offset behind the last one that a segment may hold."""
        place = bisect_right(self.segments, segment.base_offset, key=_base_offset)
        return self.segments[place].base_offset if place < len(self.segments) else self.log_end_offset

    def delete_records(self, offset: int) -> None:
        """Raise the log's start to `offset`: records below it are never read again. Their files go with the next
        retention. The caller has checked `offset` against the high watermark. Raises OffsetOutOfRange."""
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(f"{offset} is above {self.log_end_offset}, the end of {self.directory}")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_start(offset)
            if not self.blank:
                self.hints.clear()

    # -- reads --------------------------------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        bytes_max: int,
        upper_offset: int = NO_LIMIT,
        at_least_one: bool = True,
        pass_empty: bool = False,
    ) -> Read | None:
        """Read batches from the one that holds `offset` on, all below `upper_offset`; None: they are not in memory, use
        `cold_read`. At most `bytes_max`, but one whole batch with `at_least_one`. Never crosses a segment. With
        `pass_empty` batches that hold no record at all are given only where nothing comes behind them. Raises
        OffsetOutOfRange, CorruptBatch."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            held = f"{self.log_start_offset}..{self.log_end_offset}"
            raise OffsetOutOfRange(f"{offset} is not in {held} of {self.directory}")
        if offset >= upper_offset or offset == self.log_end_offset:
            return Read(memoryview(b""), offset)
        hint = self.hints.get(offset)
        if hint is not None:
            chunk = hint[0].read(offset, upper_offset, bytes_max, at_least_one, hint[1])
            if chunk is None:
                return None
            self._hint(hint[0], chunk)
            if chunk.data and not (pass_empty and only_empty(chunk.data)):
                return Read(chunk.data, chunk.next_offset)
        last = Read(memoryview(b""), offset)
        segments = self.segments_from(offset)
        for place, segment in enumerate(segments):
            if segment is not self.active and not self.have_index(segment):
                return None
            chunk = segment.read(last.next_offset, upper_offset, bytes_max, at_least_one)
            while chunk is not None and pass_empty and only_empty(chunk.data):
                last = Read(chunk.data, chunk.next_offset)
                chunk = segment.read(last.next_offset, upper_offset, bytes_max, at_least_one)
            if chunk is None:
                return None
            if chunk.data:
                self._hint(segment, chunk)
                return Read(chunk.data, chunk.next_offset)
            if chunk.no_room or segment.base_offset >= upper_offset:
                break
            if self.sparse:
                check_end(segments[place : place + 2], chunk, upper_offset)
        return last

    def cold_read(
        self,
        offset: int,
        bytes_max: int,
        upper_offset: int = NO_LIMIT,
        at_least_one: bool = True,
        pass_empty: bool = False,
    ) -> ColdRead:
        """A job for a thread that reads what `read` would read; its result is a Read. The job raises DiskFailed,
        CorruptBatch; FileNotFoundError if the segment has been deleted meanwhile: then read again."""
        segments = tuple(self.segments_from(offset))
        return ColdRead(segments, offset, bytes_max, upper_offset, at_least_one, pass_empty, self.sparse)

    def have_index(self, segment: Segment) -> bool:
        if segment.index is None:
            index = segment.load_index(cold=False)
            if index is None:
                return False
            segment.keep_index(index)
        self.indexes.touch(segment)
        return True

    def _hint(self, segment: Segment, chunk: Chunk) -> None:
        hints = self.hints
        if chunk.data and chunk.next_offset < self.log_end_offset:
            hints[chunk.next_offset] = (segment, chunk.stop)
            if len(hints) > HINTS_MAX:
                del hints[next(iter(hints))]

    # -- epochs -------------------------------------------------------------------------------------------------------

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Where an epoch ended in this log: the answer to OffsetForLeaderEpoch, and the check of a fetch's last
        epoch."""
        return self.epochs.end_offset(epoch, self.log_end_offset)

    def offset_for_time(self, timestamp: int, upper_offset: int | None = None) -> TimeOffset | TimeSearch | None:
        """The answer to ListOffsets: the end (-1), the start (-2, -4), the largest timestamp (-3), or the first record
        at or after a time.

        The last two are jobs, with a TimeOffset or None as result. `upper_offset` (the high watermark; default: the
        log's end) is what counts as the end, and nothing at or above it is found. None: there is no such offset (-5,
        -6: nothing is tiered).
        """
        upper = self.log_end_offset if upper_offset is None else upper_offset
        if timestamp == LATEST:
            return TimeOffset(upper, -1, self.epochs.latest)
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return TimeOffset(self.log_start_offset, -1, self.epochs.epoch_at(self.log_start_offset))
        if timestamp in (LATEST_TIERED, PENDING_UPLOAD):
            return None
        return TimeSearch(tuple(self.segments_from(self.log_start_offset)), timestamp, self.log_start_offset, upper)

    # -- flush --------------------------------------------------------------------------------------------------------

    def flush_due(self, now_ms: int) -> bool:
        """Whether the settings (or a new file) ask for a `flush` now. `now_ms`: any clock, the same at every call."""
        if self.blank:
            return False
        if self.names.flush_wanted:
            return True
        waiting = self.log_end_offset - self.asked_offset
        if waiting <= 0:
            return False
        if self._asked_ms < 0:
            self._asked_ms = now_ms
        return waiting >= self.settings.flush_messages or now_ms - self._asked_ms >= self.settings.flush_ms

    def flush(self, now_ms: int = -1) -> Flush:
        """The files to sync so that the log becomes durable as it is now. Brings index files up to date. Raises
        DiskFull, DiskFailed."""
        if self.torn is not None:
            raise self.torn
        if self.blank:
            cut = self.generation != self.durable_generation
            return Flush(self.log_end_offset, (), (), self.generation, (), None, (), 0, cut)
        self.settle()
        self.aborted.settle()
        self.snapshots.begin_flush()
        if not self.segments and self.log_end_offset:
            self.open_first(self.log_end_offset, 0)  # there was no room for it when the log began there
        # They become durable in this order: what was cut, then the segments as they follow each other. A power cut in
        # between must not keep what came behind a cut, and bring back what that took away.
        files: list[File | Directory] = [one.log for one in self.shortened if one in self.segments]
        shortened = {*files}
        place = len(self.segments) - 1
        while place > 0 and self.segments[place].base_offset >= self.recovery_point:
            place -= 1
        for segment in self.segments[max(place, 0) :]:
            files += [file for file in segment.write_index() if file not in shortened]
            if segment.aborted.exists:
                files += segment.aborted.write(sealed=segment is not self.active)
        before, after = self.names.unsynced(bool(self.segments))
        pending = self.snapshots.pending
        indexes = self.aborted.replacements()
        replacements = [(self.disk, self.snapshots.path(offset), content) for offset, content in pending.items()]
        replacements += [(self.disk, one.aborted.path, content) for one, content in indexes]
        epochs = self.epochs.encode() if self.epochs.dirty and self.segments else None
        if epochs is not None:
            replacements.append((self.disk, f"{self.directory}/{LEADER_EPOCHS}", epochs))
        self.asked_offset = self.log_end_offset
        self._asked_ms = now_ms
        self.names.flush_wanted = False
        return Flush(
            self.log_end_offset,
            [*before, *files, *after],
            replacements,
            self.generation,
            tuple(pending),
            epochs,
            indexes,
            self.names.changes,
            self.generation != self.durable_generation,
        )

    def flushed(self, flush: Flush) -> None:
        """Note that the sync of `flush` is done. If a sync never ends, the next flush covers all of it. Raises DiskFailed
        where the log was truncated meanwhile."""
        if self.blank:
            self.durable_generation = flush.generation
            return
        self.names.flushed(flush.files, flush.names)
        if self.segments and self.segments[-1].is_new:
            durable = {*flush.files}  # a start behind a kill finds thousands of new segments in one log
            for segment in takewhile(attrgetter("is_new"), reversed(self.segments)):
                segment.is_new = segment.log not in durable
        if flush.generation != self.generation:
            # The log was truncated while the sync ran, so its small files may be wrong. The epochs are still dirty.
            self.snapshots.outdated(flush.snapshots)
            self.aborted.came_late(flush.indexes)
            self.refuse()
            return
        self.durable_generation = flush.generation
        self.shortened.clear()
        self.reach = 0
        self.refuse()
        self.aborted.came_late(flush.indexes)
        self.aborted.flushed(flush.indexes)
        if flush.epochs is not None and flush.epochs == self.epochs.encode():
            self.epochs.dirty = False
        self.names.placed = True
        self.recovery_point = max(self.recovery_point, flush.offset)
        self.snapshots.flushed(flush.snapshots)

    def close(self) -> Flush:
        """Make the last flush of a clean stop, with a snapshot of the producers. Sync it, then call `release`."""
        if self.active is not None:
            self.active.seal()
        if (self.producers.by_id or self.snapshots) and self.log_end_offset not in self.snapshots.offsets:
            self.keep_producers(self.log_end_offset)
        return self.flush()

    def keep_producers(self, offset: int) -> None:
        """Let the next flush write the producers' state, also an empty one, unless damage may have hidden a part of
        it."""
        if self.damaged is None:
            self.snapshots.pending[offset] = self.producers.snapshot()

    def release(self) -> None:
        """Close the file handles. May be called more than once."""
        if self.blank:
            return
        for segment in self.segments:
            segment.close()
        self.names.release()

    def forget_indexes(self) -> None:
        """Drop the indexes of a log whose directory is renamed: nothing is written under its present name any more."""
        for segment in () if self.blank else self.segments:
            self.indexes.forget(segment)

    def check(self) -> None:
        """Assert the invariants."""
        assert self.log_start_offset <= self.log_end_offset
        assert self.recovery_point <= self.log_end_offset
        if self.blank:
            assert self.active is None and self.recovery_point == self.log_end_offset
            assert not any(_made(self, name) for name in MADE_LATE), "what is made ends that the log is blank"
            return
        bases = [segment.base_offset for segment in self.segments]
        assert bases == sorted(set(bases))
        assert self.active is (self.segments[-1] if self.segments else None)
        assert not self.segments or bases[-1] <= self.log_end_offset
        self.epochs.check()
        assert self.epochs.latest < 0 or self.epochs.starts[-1] <= self.log_end_offset


MADE_LATE: dict[str, Callable[[PartitionLog], Any]] = {
    "segments": lambda log: [],
    "names": lambda log: Names(log.disk, log._began_in, log.topic_id is not None),
    "producers": lambda log: Producers(),
    "snapshots": lambda log: ProducerSnapshots(log.names),
    "aborted": lambda log: AbortedIndexes(log.segments, log.names, log.snapshots),
    "hints": lambda log: {},
    "shortened": lambda log: [],
}
"""The parts of a log that are made on first use, and how."""


def _made(log: PartitionLog, name: str) -> bool:
    try:
        object.__getattribute__(log, name)
    except AttributeError:
        return False
    return True


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
