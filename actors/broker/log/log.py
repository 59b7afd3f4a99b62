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
6. Names change on the disk first (`renames.py`) and memory follows, segment by segment: the oldest first where the log's
   start moves, the newest first where its end does. So an operation that fails half way leaves a log that is whole, only
   longer than was wanted, and may be repeated. Where even that cannot be had the log is `torn`: it takes nothing any more.
7. What was renamed is durable with the next flush, which names the directory.
"""

import errno
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from actors.broker.log.aborted_search import AbortedFound, AbortedSearch, AllAborted, Content, Part, built_again
from actors.broker.log.cutting import INSIDE_BYTES_MAX, Preparation, Prepared
from actors.broker.log.directories.checkpoints import LEADER_EPOCHS
from actors.broker.log.directories.directory import PARTITION_METADATA, write_identity
from actors.broker.log.directories.renames import Pair, Torn, present, rename_all
from actors.broker.log.epochs import EpochCache, EpochEnd
from actors.broker.log.history import Indexed, learn
from actors.broker.log.indexes import IndexCache
from actors.broker.log.producers import markers
from actors.broker.log.producers.producers import CorruptSnapshot, InvalidProducerBatches, Producers
from actors.broker.log.producers.transaction_index import (
    TRANSACTION_INDEX,
    Aborted,
    CorruptTransactionIndex,
    aborted,
    encode,
    overlapping,
)
from actors.broker.log.segment import (
    CLEANED,
    CUT,
    DELETED,
    FRONT,
    HEADER_BYTES,
    NO_LIMIT,
    SWAP,
    Chunk,
    Job,
    Segment,
    unlinking,
)
from actors.broker.log.times import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    PENDING_UPLOAD,
    TimeOffset,
    TimeSearch,
)
from actors.ports import Buffer, Directory, Disk, DiskFailed, DiskFull, File
from actors.settings.topics import TopicSettings
from fastpath.records.batch import CorruptBatch, Header, headers, verify

HINTS_MAX = 16
ABORTED_BYTES_MAX = 256 << 10
"""Entries of aborted transactions that a read looks at inside the loop: about 8,000, and a third of a millisecond."""
SPAN_MAX = 0x7FFFFFFF
"""The most offsets in one segment: the indexes have 32 bits."""
SNAPSHOT = ".snapshot"


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
    """The log was cut, and that is not durable yet. A power cut may still bring back what was cut, and keep what came behind
    it: therefore nothing does before the flush that is under way is done."""


class SegmentsChanged(ValueError):
    """The log was cut, or segments went, while they were being cleaned."""


class Appended(NamedTuple):
    """Where appended batches are in the log."""

    base_offset: int
    last_offset: int
    duplicate: bool = False
    """Whether this is a repetition: nothing was written, and the offsets are the original's. Answer it once they are
    committed."""
    timestamp: int = -1
    """Largest timestamp of the original, if this is a repetition."""


class Read(NamedTuple):
    """Whole batches, byte for byte as in the file."""

    data: memoryview
    next_offset: int
    """The offset after the last batch; the requested offset when `data` is empty."""


class Flush(NamedTuple):
    """What must be synced so that everything below `offset` is durable. It goes back to `flushed`."""

    offset: int
    files: Sequence[File | Directory]
    replacements: Sequence[tuple[Disk, str, bytes]]
    generation: int
    snapshots: tuple[int, ...]
    epochs: bytes | None
    """Their table as `replacements` has it; None: it is not to be written."""
    indexes: tuple[tuple[Segment, bytes], ...]
    """Indexes of aborted transactions that `replacements` has whole."""
    names: int
    """How often names in the log's directory had changed."""
    cut: bool
    """Whether the log was truncated. Then the checkpoints must be synced too: an older recovery point may lie beyond
    the new end, and records that are written there next would be trusted without a check."""


class PartitionLog:
    """Invariant: log_start_offset <= log_end_offset; recovery_point <= log_end_offset."""

    __slots__ = (
        "_durable_generation", "_durable_names", "_flush_ms", "_flush_offset", "_generation", "_hints", "_name",
        "_named", "_names", "_pending", "_placed", "_unlinks", "_unsynced_file", "aborting", "active",
        "checkpointed_offset", "cleaned_offset", "damaged", "directory", "disk", "epochs", "indexes", "instance", "layout",
        "log_end_offset", "log_start_offset", "producers", "rebuilt", "recovery_point", "refusing", "segments", "settings",
        "shortened", "snapshots", "standing", "topic_id", "torn",
    )  # fmt: skip

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
        self.directory = directory
        """`<topic>-<partition>`, on `disk`."""
        self.settings = settings
        self.topic_id = topic_id
        self.instance = instance
        """Which of the logs of its log directory it is: a successor of the same topic id has another (`checkpoints.py`)."""
        self.indexes = IndexCache() if indexes is None else indexes
        """Shared by the logs of a broker."""
        self.segments: list[Segment] = []
        """By base offset. Invariant: only the last one takes appends; empty until the first append."""
        self.active: Segment | None = None
        """Invariant: the last of `segments`."""
        self.log_start_offset = start_offset
        """First offset that may be read."""
        self.log_end_offset = start_offset
        """The offset of the next append."""
        self.recovery_point = start_offset
        """Everything below is on the disk."""
        self.cleaned_offset = start_offset if settings.compact else -1
        """Below it the cleaner has left one record of each key. -1: of a log that has never been one of a compacted topic,
        in which offsets leave no gap."""
        self.checkpointed_offset = start_offset
        """The recovery point that a checkpoint on the disk has. What is below is never scanned again: the batches there need
        not tell where leader epochs began. Invariant: at most the recovery point."""
        self.layout = 0
        """Rises whenever segments go or take the place of others: whoever has read the old ones must not go on with them."""
        self.epochs = EpochCache()
        self.producers = Producers()
        self.snapshots: list[int] = []
        """Offsets of the producer snapshots that are on the disk, rising."""
        self._pending: dict[int, bytes] = {}
        """Producer snapshots that the next flush writes, by offset."""
        self._hints: dict[int, tuple[Segment, int]] = {}
        """Offset -> where its batch begins, for the next readers of the tail."""
        self._generation = 0
        """Rises with every truncation: a flush that began before does not cover what came after."""
        self._durable_generation = 0
        """The generation of the last finished flush. If it is lower than the present one, a truncation may not be
        durable."""
        self._flush_offset = start_offset
        """The offset up to which a flush was last asked for."""
        self._flush_ms = -1
        self._unsynced_file = False
        """Whether a file was begun, the first or by a roll, and no flush was asked for since."""
        self._name: File | None = None
        """partition.metadata, while a flush syncs it."""
        self._named = topic_id is None
        """Whether it is durable. If it existed when the process began, that is not known."""
        self.damaged: str | None = None
        """The damage that a start found in durable data. Epochs and producers may lack what it hid."""
        self.shortened: list[Segment] = []
        """Cut since the last flush that is done."""
        self.refusing: DiskFailed | Unsettled | None = None
        """Why nothing is appended now. Invariant: `torn` if there is that; else Unsettled exactly while `shortened` is not
        empty."""
        self.aborting: list[Segment] = []
        """Those with abort markers, by base offset: a log without transactions has none."""
        self.rebuilt: list[Segment] = []
        """Their index of aborted transactions was damaged, and the next flush replaces it."""
        self.standing: Segment | None = None
        """A segment under the name `.swap` that is to take the place of others and has not yet. A start would let it do so:
        its name goes before anything else of the log changes."""
        self.torn: DiskFailed | None = None
        """Why memory and disk may not say the same of this log any more: nothing is appended to it or flushed."""
        self._names = self._durable_names = 0
        """How often names in its directory have changed, and how many of these changes are durable."""
        self._placed = True
        """The name of its directory is durable, as far as this process has changed it."""
        self._unlinks: list[str] = []
        """Files that are to be unlinked, of an operation that has failed half way: the next one's job does it, or that of
        `left_over`."""

    @property
    def sparse(self) -> bool:
        """Offsets may be missing, inside batches and between them."""
        return self.cleaned_offset >= 0

    def configure(self, settings: TopicSettings) -> None:
        """The topic has other settings. What was compacted once stays sparse."""
        self.settings = settings
        if settings.compact and not self.sparse:
            self.cleaned_offset = self.log_start_offset

    @property
    def size(self) -> int:
        """Bytes in all log files."""
        return sum(segment.size for segment in self.segments)

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
        """A control batch is in the log. All of an append is in one segment, so an abort goes into the last one's index."""
        marker = markers.read(data, position)
        ended = self.producers.append(header, now_ms, marker)
        if ended is not None and marker is not None and not marker.commit:
            segment = self.active
            assert segment is not None
            segment.aborted.append(aborted(ended, self.producers.transactions))
            if not self.aborting or self.aborting[-1] is not segment:
                self.aborting.append(segment)

    def begins_inside(self, data: bytes | bytearray | memoryview, leader_log_start: int) -> int | None:
        """The first offset of the leader's first batch, if this log ends inside that batch and has nothing to keep.

        Records may be deleted up to any offset, and the leader's epochs begin there, but batches are sent whole. So a
        log may begin inside a batch, or may be truncated where the leader has no batch boundary. It has nothing to keep
        if it is empty, or if `leader_log_start` lies after the batch's first offset, because the leader has deleted
        what is before. Then it begins again at that offset, and its start follows the leader's once the batch is there.
        Raises CorruptBatch.
        """
        base_offset = int.from_bytes(data[:8], "big", signed=True)
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
        while position + 61 <= len(view):
            if position + 12 + int.from_bytes(view[position + 8 : position + 12], "big") > len(view):
                break
            header = verify(view, position)
            if header.base_offset < expected:
                raise OffsetsOutOfOrder(f"{self.directory} expects {expected}, the leader sent {header.base_offset}")
            if header.base_offset > expected and not self.sparse:
                self.cleaned_offset = (
                    self.log_start_offset
                )  # the leader's log was compacted, though the topic is not now
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
            raise self.refusing.with_traceback(None)  # else it keeps all that it has refused
        first, last = headers[0], headers[-1]
        segment = self.active
        if segment is None or self._must_roll(segment, len(data), last, now_ms):
            far = last.last_offset - self.log_end_offset > SPAN_MAX
            base_offset = first.base_offset if far else self.log_end_offset
            segment = self._open_first(base_offset, now_ms) if segment is None else self.roll(now_ms, base_offset)
        position = segment.append(data, first.max_timestamp, now_ms)
        hints = self._hints
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
        """This replica leads from here on: its epoch begins at the log's end."""
        self.epochs.assign(epoch, self.log_end_offset)

    # -- segments -----------------------------------------------------------------------------------------------------

    def _open_first(self, base_offset: int, now_ms: int) -> Segment:
        if self.topic_id is not None:
            write_identity(self.disk, self.directory, self.topic_id, self.instance)
        self._unsynced_file = True
        return self._add_segment(base_offset, now_ms)

    def _add_segment(self, base_offset: int, now_ms: int) -> Segment:
        segment = Segment(self.disk, self.directory, base_offset, self.settings.index_interval_bytes, now_ms)
        try:
            segment.begin()
        except (DiskFull, DiskFailed):
            segment.close()
            self.disk.remove(segment.log.path)  # a start would take it for the place up to which the log has come
            raise
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
        self._keep_producers(base_offset)
        self._unsynced_file = True
        return segment

    def drop_segments(self, count: int) -> list[Job]:
        """Remove the oldest `count` segments, but never the last one. Returns jobs that unlink. The log begins after
        them. Raises DiskFull, DiskFailed, Torn: some may have gone, and the log begins after those."""
        assert 0 <= count < len(self.segments)
        self.withdraw()
        try:
            for segment in self.segments[:count]:
                self._retire(segment, FRONT)
                self._begins_at(self.segments[0].base_offset, segment.base_offset)
        except Torn as error:
            raise self._tear(error) from None
        return self._take_unlinks()

    def _begins_at(self, base_offset: int, gone: int) -> None:
        self._hints.clear()
        self.log_start_offset = max(self.log_start_offset, base_offset)
        self.epochs.truncate_start(self.log_start_offset)
        self._retire_snapshots([offset for offset in self.snapshots[:-1] if offset <= gone])

    def _retire_snapshots(self, offsets: Sequence[int]) -> None:
        for offset in offsets:
            if pairs := self._snapshots_leaving([offset]):
                self._rename(pairs)
            self.snapshots.remove(offset)

    def _snapshots_leaving(self, offsets: Sequence[int]) -> list[Pair]:
        """The names that producer snapshots get when they leave the log. Raises DiskFailed."""
        names = [self._snapshot_path(offset) for offset in offsets]
        return present(self.disk, [(name, name + DELETED) for name in names])

    def _rename(self, pairs: Sequence[tuple[str, str]]) -> None:
        rename_all(self.disk, pairs)
        self._unlinks += [name for _, name in pairs]
        self._names += 1
        self._unsynced_file = True

    def left_over(self) -> list[Job]:
        """Jobs that unlink what operations have taken out of the log that failed later on."""
        return self._take_unlinks() if self.torn is None else []

    def _take_unlinks(self) -> list[Job]:
        paths, self._unlinks = self._unlinks, []
        return [unlinking(self.disk, self.directory, paths)] if paths else []

    def _tear(self, error: OSError) -> DiskFailed:
        """What was left half done cannot be known: the error to raise, now and at each later use."""
        if self.torn is None:
            found = error if isinstance(error, DiskFailed) else DiskFailed(error.errno, str(error), self.directory)
            found.disk = self.disk
            self.torn = self.refusing = found
        return self.torn

    @property
    def names(self) -> Directory:
        """The names in its directory, for a sync."""
        return self.disk.directory(self.directory)

    # -- segments that take the place of others ------------------------------------------------------------------------

    def stand(self, old: Sequence[Segment], cleaned: Segment) -> None:
        """`cleaned`, which is durable, gets the name by which a start lets it take the place of the neighbours `old`. Sync
        `names`, then call `replace`.

        Raises SegmentsChanged, also while a flush is to replace an old index of aborted transactions, which would come over
        the new one; DiskFull or DiskFailed: nothing has changed; Torn.
        """
        self._place_of(old)
        assert self.standing is None, "one segment at a time takes the place of others"
        self._name_all()
        try:
            cleaned.rename(SWAP)
        except Torn as error:
            raise self._tear(error) from None
        self.standing = cleaned
        self._names += 1

    def replace(self, old: Sequence[Segment], cleaned: Segment) -> list[Job]:
        """`cleaned`, whose name `.swap` is durable, takes the place of `old`; jobs that unlink. Readers of those go on. Sync
        `names`, then call `name_placed`.

        A start finds all of the old ones, some, or none, and lets `cleaned` take their place. Raises SegmentsChanged;
        DiskFull or DiskFailed: nothing has changed, and `cleaned` stands there still; Torn.
        """
        place = self._place_of(old)
        if self.standing is not cleaned:
            raise SegmentsChanged(f"{self.directory} has changed since it was cleaned")
        gone = {segment.base_offset for segment in old[1:]}
        snapshots = [one for one in self.snapshots[:-1] if one in gone]
        pairs = [one.leaving() for one in old]
        try:
            # The snapshots go with them: were `cleaned` part of the log by then, a failure would pass for "not replaced".
            self._rename([pair for several in pairs for pair in several] + self._snapshots_leaving(snapshots))
        except Torn as error:
            raise self._tear(error) from None
        for offset in snapshots:
            self.snapshots.remove(offset)
        for segment in old:
            self.indexes.forget(segment)
            segment.left(close=False)
        self.standing = None
        cleaned.placed = True
        self.segments[place : place + len(old)] = [cleaned]
        self.aborting = [segment for segment in self.aborting if segment not in old]
        if cleaned.aborted.exists:
            insort(self.aborting, cleaned, key=_base_offset)
        self.indexes.touch(cleaned)
        self._hints.clear()
        self.layout += 1
        return self._take_unlinks()

    def name_placed(self, cleaned: Segment) -> None:
        """The old segments' names are gone for good: `cleaned` gets the name of a segment. Raises DiskFull, DiskFailed,
        Torn: it is part of the log under the name that it has."""
        if cleaned.suffix == SWAP:
            try:
                cleaned.rename("")
            except Torn as error:
                raise self._tear(error) from None
            self._names += 1
            self._unsynced_file = True

    def _name_all(self) -> None:
        """Segments to which an earlier rename could not give their names."""
        for segment in self.segments:
            self.name_placed(segment)

    def withdraw(self) -> None:
        """Nothing takes the place of others any more, also not at a start: the caller is to change the log otherwise, or has
        given up. Raises DiskFull, DiskFailed, Torn."""
        if self.standing is not None:
            try:
                self.standing.rename(CLEANED)
            except Torn as error:
                raise self._tear(error) from None
            self._names += 1
            self._unsynced_file = True
            self.standing = None

    def _place_of(self, old: Sequence[Segment]) -> int:
        bases = [segment.base_offset for segment in self.segments]
        place = bases.index(old[0].base_offset) if old[0].base_offset in bases else 0
        if self.segments[place : place + len(old)] != list(old) or old[-1] is self.active:
            raise SegmentsChanged(f"{self.directory} has other segments than those that were cleaned")
        if any(segment in self.rebuilt for segment in old):
            raise SegmentsChanged(f"{self.directory} has an index that the next flush replaces")
        return place

    def _retire(self, segment: Segment, ending: str) -> None:
        """Take the first or the last segment out of the log. Raises DiskFull or DiskFailed: it is still part of it; Torn."""
        self._rename(segment.leaving(ending))
        segment.left(ending)
        self.layout += 1
        self.indexes.forget(segment)
        self.segments.remove(segment)
        for some in (self.aborting, self.rebuilt):
            if segment in some:
                some.remove(segment)

    def segments_from(self, offset: int) -> list[Segment]:
        """The segment that holds `offset` (the first one if it lies before all), and those after it."""
        return self.segments[self._segment_of(offset) :]

    def _segment_of(self, offset: int) -> int:
        return max(0, bisect_right(self.segments, offset, key=_base_offset) - 1)

    # -- reads --------------------------------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        bytes_max: int,
        upper_offset: int = NO_LIMIT,
        at_least_one: bool = True,
        pass_empty: bool = False,
    ) -> Read | None:
        """Batches from the one that holds `offset` on, all below `upper_offset`; None: not in memory, use `cold_read`.

        At most `bytes_max`, but one whole batch with `at_least_one`. Never crosses a segment. With `pass_empty` what holds
        no record at all is given only where nothing comes behind it. Raises OffsetOutOfRange, CorruptBatch.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            held = f"{self.log_start_offset}..{self.log_end_offset}"
            raise OffsetOutOfRange(f"{offset} is not in {held} of {self.directory}")
        if offset >= upper_offset or offset == self.log_end_offset:
            return Read(memoryview(b""), offset)
        hint = self._hints.get(offset)
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
            if segment is not self.active and not self._have_index(segment):
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
                _check_end(segments[place : place + 2], chunk, upper_offset)
        return last

    def cold_read(
        self,
        offset: int,
        bytes_max: int,
        upper_offset: int = NO_LIMIT,
        at_least_one: bool = True,
        pass_empty: bool = False,
    ) -> "ColdRead":
        """The same as a job for a thread; its result is a Read.

        The job raises DiskFailed, CorruptBatch, or FileNotFoundError when the segment has been deleted meanwhile: then read
        again.
        """
        segments = tuple(self.segments_from(offset))
        return ColdRead(segments, offset, bytes_max, upper_offset, at_least_one, pass_empty, self.sparse)

    def _have_index(self, segment: Segment) -> bool:
        if segment.index is None:
            index = segment.load_index(cold=False)
            if index is None:
                return False
            segment.keep_index(index)
        self.indexes.touch(segment)
        return True

    def _hint(self, segment: Segment, chunk: Chunk) -> None:
        hints = self._hints
        if chunk.data and chunk.next_offset < self.log_end_offset:
            hints[chunk.next_offset] = (segment, chunk.stop)
            if len(hints) > HINTS_MAX:
                del hints[next(iter(hints))]

    # -- transactions -------------------------------------------------------------------------------------------------

    def aborted_transactions(self, offset: int, upper_offset: int) -> list[tuple[int, int]] | AbortedSearch:
        """(producer id, first offset) of the aborted transactions with a record in `[offset, upper_offset)`; a job that
        finds them where they are not in memory, or many, or an index has to be built again."""
        if not self.aborting:
            return []
        begin = self.segments[self._segment_of(offset)].base_offset
        place = bisect_left(self.aborting, begin, key=_base_offset)
        found: list[tuple[int, int]] = []
        looked = 0
        for segment in self.aborting[place:]:
            try:
                part = segment.aborted.candidates(offset, upper_offset, self._end_of(segment), cold=False)
            except CorruptTransactionIndex:
                part = None
            if part is not None:
                looked += len(part.rows)
            if part is None or looked > ABORTED_BYTES_MAX:
                return self._aborted_search(place, offset, upper_offset)
            found += overlapping(part.rows, offset, upper_offset)
            if part.complete:
                break
        return found

    def _aborted_search(self, place: int, offset: int, upper_offset: int) -> AbortedSearch:
        parts = []
        for one in self.aborting[place:]:
            index, end = one.aborted, self._end_of(one)
            known = index.candidates(offset, upper_offset, end, cold=False) if index.in_memory else None
            parts.append(Part(one, end, known))
        segments, snapshots = tuple(self.segments), self._snapshot_paths()
        return AbortedSearch(
            tuple(parts), segments, snapshots, self.disk, self._generation, self.layout, offset, upper_offset
        )

    def all_aborted(self) -> AllAborted:
        """The job that reads every entry of the log."""
        contents = []
        for one in self.aborting:
            known = one.aborted.read(cold=False) if one.aborted.in_memory else None
            contents.append(Content(one, self._end_of(one), None if known is None else bytes(known)))
        return AllAborted(tuple(contents), tuple(self.segments), self._snapshot_paths(), self.disk)

    def take_rebuilt(self, search: AbortedFound) -> bool:
        """Keep the indexes that a search has built again; whether the log is still what it was when the search began."""
        if (search.generation, search.layout) != (self._generation, self.layout):
            return False
        for segment, entries, _ in search.rebuilt:
            if segment in self.aborting and segment not in self.rebuilt:
                segment.aborted.replace(entries)
                self.rebuilt.append(segment)
        return True

    def _end_of(self, segment: Segment) -> int:
        """Behind the last offset that a segment may hold."""
        place = bisect_right(self.segments, segment.base_offset, key=_base_offset)
        return self.segments[place].base_offset if place < len(self.segments) else self.log_end_offset

    def built_again(self, segment: Segment) -> list[Aborted]:
        """The aborted transactions whose marker is in `segment`, as the log says. Blocking; raises CorruptBatch."""
        return built_again(self.disk, self._snapshot_paths(), self.segments, segment)

    def aborted_again(self, segment: Segment) -> Job:
        """The job that builds the index of aborted transactions of a segment from the log: the bytes of its file. Raises
        DiskFailed, CorruptBatch, FileNotFoundError."""
        disk, paths, segments = self.disk, self._snapshot_paths(), tuple(self.segments)
        return lambda: b"".join(map(encode, built_again(disk, paths, segments, segment)))

    def tells_aborted(self, segment: Segment) -> bool:
        """Whether the log has all that the index of aborted transactions of a segment is made from."""
        return not self.sparse and (segment.base_offset in self.snapshots or segment.base_offset == 0)

    def replace_aborted(self, segment: Segment, content: bytes) -> None:
        """The index of aborted transactions of a segment is damaged, and is to be that: the next flush, which the log wants
        soon, replaces the file."""
        if segment in self.aborting and segment not in self.rebuilt:
            segment.aborted.replace(content)
            self.rebuilt.append(segment)
            self._unsynced_file = True

    def write_epochs_again(self) -> None:
        """The file of epochs is damaged: the next flush, which the log wants soon, writes it."""
        self.epochs.dirty = self._unsynced_file = True

    def give_up_snapshot(self, offset: int) -> None:
        """A producer snapshot is damaged. If it was the newest, the next flush writes one of what is in memory; the log
        wants one soon. Raises DiskFull, DiskFailed, Torn."""
        newest = offset == self.snapshots[-1]
        self._retire_snapshots([offset])
        if newest and not self._pending:
            self._keep_producers(self.log_end_offset)
        self._unsynced_file = True

    def _snapshot_paths(self) -> tuple[tuple[int, str], ...]:
        return tuple((offset, self._snapshot_path(offset)) for offset in self.snapshots)

    # -- epochs -------------------------------------------------------------------------------------------------------

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Where an epoch ended here: the answer to OffsetForLeaderEpoch, and the check of a fetch's last epoch."""
        return self.epochs.end_offset(epoch, self.log_end_offset)

    def offset_for_time(self, timestamp: int, upper_offset: int | None = None) -> TimeOffset | TimeSearch | None:
        """ListOffsets: the end (-1), the start (-2, -4), the largest timestamp (-3), or the first record at or after a time.

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
        if self._unsynced_file:
            return True
        waiting = self.log_end_offset - self._flush_offset
        if waiting <= 0:
            return False
        if self._flush_ms < 0:
            self._flush_ms = now_ms
        return waiting >= self.settings.flush_messages or now_ms - self._flush_ms >= self.settings.flush_ms

    def flush(self, now_ms: int = -1) -> Flush:
        """What to sync so that the log becomes durable as it is now. Brings index files up to date; raises DiskFull,
        DiskFailed."""
        if self.torn is not None:
            raise self.torn
        # They become durable in this order: what was cut, then the segments as they follow each other. A power cut in
        # between must not keep what came behind a cut, and bring back what that took away.
        files: list[File | Directory] = [one.log for one in self.shortened if one in self.segments]
        place = len(self.segments) - 1
        while place > 0 and self.segments[place].base_offset >= self.recovery_point:
            place -= 1
        for segment in self.segments[max(place, 0) :]:
            files += [file for file in segment.write_index() if file not in files]
            if segment.aborted.exists:
                files += segment.aborted.write(sealed=segment is not self.active)
        if not self._named and self.segments:
            if self._name is None:
                self._name = self._own_name()
            files.append(self._name)
        replacements = [(self.disk, self._snapshot_path(offset), content) for offset, content in self._pending.items()]
        indexes = [(one, content) for one in self.rebuilt if (content := one.aborted.replacement()) is not None]
        replacements += [(self.disk, one.aborted.path, content) for one, content in indexes]
        epochs = self.epochs.encode() if self.epochs.dirty and self.segments else None
        if epochs is not None:
            replacements.append((self.disk, f"{self.directory}/{LEADER_EPOCHS}", epochs))
        if self._names != self._durable_names:
            files.insert(0, self.names)
        if not self._placed:
            files.append(self.disk.directory(self.directory.rpartition("/")[0]))
        self._flush_offset = self.log_end_offset
        self._flush_ms = now_ms
        self._unsynced_file = False
        cut = self._generation != self._durable_generation
        snapshots = tuple(self._pending)
        return Flush(
            self.log_end_offset,
            files,
            replacements,
            self._generation,
            snapshots,
            epochs,
            tuple(indexes),
            self._names,
            cut,
        )

    def _own_name(self) -> File:
        path = f"{self.directory}/{PARTITION_METADATA}"
        try:
            return self.disk.open(path)
        except FileNotFoundError as error:  # the log directory was unmounted or moved away
            raise DiskFailed(error.errno, "the file is gone", path) from None

    def flushed(self, flush: Flush) -> None:
        """The sync of `flush` is done. If a sync never ends, the next flush covers all of it."""
        if self._name is not None and self._name in flush.files:
            self._named = True
            self._forget_name()
        self._durable_names = max(self._durable_names, flush.names)
        if flush.generation != self._generation:
            self._outdated(flush)
            return
        self._durable_generation = flush.generation
        self.shortened.clear()
        self.refusing = self.torn
        self._came_late(flush)
        for segment, content in flush.indexes:
            segment.aborted.replaced(content)
        if self.rebuilt:
            self.rebuilt = [segment for segment in self.rebuilt if segment.aborted.rebuilt]
        if flush.epochs is not None and flush.epochs == self.epochs.encode():
            self.epochs.dirty = False
        self._placed = True
        self.recovery_point = max(self.recovery_point, flush.offset)
        for offset in flush.snapshots:
            if self._pending.pop(offset, None) is not None and offset not in self.snapshots:
                self.snapshots = sorted([*self.snapshots, offset])

    def _outdated(self, flush: Flush) -> None:
        """The log was truncated while the sync ran, so its small files may be wrong: remove snapshots. The epochs are
        still dirty."""
        for offset in flush.snapshots:
            if offset not in self._pending and offset not in self.snapshots:
                self.disk.remove(self._snapshot_path(offset))
        self._came_late(flush)

    def _came_late(self, flush: Flush) -> None:
        """Indexes that the sync has replaced may be those of segments that have gone, or been replaced, since."""
        for segment, _ in flush.indexes:
            here = next((one for one in self.segments if one.base_offset == segment.base_offset), None)
            if here is None:
                self.disk.remove(f"{self.directory}/{segment.base_offset:020d}{TRANSACTION_INDEX}")
            elif here is not segment:
                if not here.aborted.in_memory:
                    here.aborted.rebuild(self.built_again(here))
                here.aborted.rewrite()
                if here not in self.rebuilt:
                    self.rebuilt.append(here)
                if here not in self.aborting:
                    insort(self.aborting, here, key=_base_offset)

    def mark_flushed_to(self, offset: int) -> None:
        """At the start: everything below `offset` is durable already."""
        self.recovery_point = self._flush_offset = offset

    def close(self) -> Flush:
        """The last flush of a clean stop, with a snapshot of the producers. Sync it, then call `release`."""
        if self.active is not None:
            self.active.seal()
        known = self.producers.by_id or self.snapshots or self._pending
        if known and self.log_end_offset not in self.snapshots:
            self._keep_producers(self.log_end_offset)
        return self.flush()

    def _keep_producers(self, offset: int) -> None:
        """Let the next flush write the producers' state, also an empty one, unless damage may have hidden a part of
        it."""
        if self.damaged is None:
            self._pending[offset] = self.producers.snapshot()

    def release(self) -> None:
        """Close the file handles. May be called more than once."""
        for segment in self.segments:
            segment.close()
        self._forget_name()

    def forget_indexes(self) -> None:
        """The directory is renamed: nothing is written under its present name any more."""
        for segment in self.segments:
            self.indexes.forget(segment)

    # -- between directories ------------------------------------------------------------------------------------------

    @property
    def asked_offset(self) -> int:
        """The offset up to which somebody has asked for a flush."""
        return self._flush_offset

    @property
    def cuts_durable(self) -> bool:
        """Whether what was cut cannot come back."""
        return self._generation == self._durable_generation

    def begin_file(self, now_ms: int) -> None:
        """Make the first file of a log that has none, so that its directory is there. Raises DiskFull, DiskFailed."""
        if not self.segments:
            self._open_first(self.log_end_offset, now_ms)

    def kept_producers(self, offset: int) -> bytes | str | None:
        """The producer snapshot of an offset, or its path on the disk; None: there is none."""
        if offset in self._pending:
            return self._pending[offset]
        return self._snapshot_path(offset) if offset in self.snapshots else None

    def seed_producers(self, content: bytes) -> None:
        """This log, which is empty, begins with the state that a snapshot of this offset has. Raises CorruptSnapshot."""
        self.producers = Producers.parse(content)
        self._pending[self.log_end_offset] = content

    def learn_from(self, current: "PartitionLog") -> None:
        """Take over epochs and producers of a log that ends where this one does, and write them with the next flush."""
        self._take_epochs(current)
        before, self.producers = self.producers, Producers.parse(current.producers.snapshot())
        self.producers.heard(before, -1)
        self.producers.heard(current.producers, -1)
        if self.producers.by_id or self.snapshots or self._pending:
            self._keep_producers(self.log_end_offset)

    def _take_epochs(self, current: "PartitionLog") -> None:
        mine, others = self.epochs, current.epochs
        if (mine.epochs, mine.starts) != (others.epochs, others.starts):
            self.epochs = others.copy()
            self.epochs.dirty = True

    def succeed(self, current: "PartitionLog") -> None:
        """Take the place of a log that ends where this one does, under its name. Until the next flush no more counts as
        durable than did there, since this log's name may not be on the disk. Raises DiskFull, DiskFailed: nothing has
        changed."""
        self.disk.rename(self.directory, current.directory)
        self._unlinks = [current.directory + path[len(self.directory) :] for path in self._unlinks]
        self.directory = current.directory
        self._placed = False
        for segment in self.segments:
            segment.moved(self.directory)
        self._forget_name()
        self._take_epochs(current)
        self.producers = current.producers
        self.damaged = current.damaged
        self.recovery_point = min(self.recovery_point, current.recovery_point)
        self._flush_offset = min(self._flush_offset, self.recovery_point)
        # Whoever has read the other log must not go on as if it were this one; and a flush carries the checkpoints.
        self._generation = max(self._generation, current.generation) + 1
        self.layout = max(self.layout, current.layout) + 1
        self._unsynced_file = True

    def _forget_name(self) -> None:
        if self._name is not None:
            self._name.close()
            self._name = None

    # -- cuts ---------------------------------------------------------------------------------------------------------

    def prepare_cut(self, offset: int) -> Preparation | None:
        """The job that reads what `truncate_to(offset)` needs from the disk. None: that is little, so truncate at
        once."""
        if not self.log_start_offset <= offset < self.log_end_offset:
            return None
        place = self._segment_of(offset)
        segment = self.segments[place]
        known = segment is self.active or (self._have_index(segment) and segment.aborted.in_memory)
        if known and self.producers.can_truncate(offset):
            return None
        start = max((one for one in (*self.snapshots, *self._pending) if one <= offset), default=-1)
        found = start >= 0
        start = start if found else self.log_start_offset
        first = self._segment_of(start)
        begin = self._near(self.segments[first], start)
        size = sum(one.size for one in self.segments[first:place]) + self._near(segment, offset) - begin
        if known and size <= INSIDE_BYTES_MAX:
            return None
        content = self._pending.get(start) if found else None
        path = self._snapshot_path(start) if found and content is None else None
        segments = tuple(self.segments[first : place + 1])
        return Preparation(
            offset, segments, start, begin, content, self.disk, path, self._generation, self.log_end_offset, self.layout
        )

    def _near(self, segment: Segment, offset: int) -> int:
        """Position of a batch at or before the one that holds `offset`; 0 if the index is not in memory."""
        return segment.index.offsets.lookup(offset)[1] if segment.index is not None else 0

    def fits(self, job: Preparation) -> bool:
        """Whether the log is still what it was when the job was made."""
        now = self._generation, self.log_end_offset, self.layout
        return (job.generation, job.end_offset, job.layout) == now

    @property
    def generation(self) -> int:
        """Rises with every truncation."""
        return self._generation

    def forget_snapshot(self, job: Preparation) -> None:
        """The job has found that its snapshot cannot be trusted: the next job begins at an older one."""
        self.snapshots = [one for one in self.snapshots if one != job.start]

    def truncate_to(self, offset: int, prepared: Prepared | None = None) -> list[Job]:
        """Remove everything from `offset` on, with the whole batch that holds it. Returns jobs that unlink files. It
        blocks only a little, if `prepare_cut` had nothing to prepare or `prepared` is its result.

        The caller flushes the log then, also where this fails: nothing is appended before. If nothing is left, the log is
        empty and begins at its start, or at `offset` if that is lower. Raises DiskFull or DiskFailed: only segments behind
        are gone, or none; Torn.
        """
        if offset >= self.log_end_offset:
            # An epoch that began at the end, when this replica led, may have no batch. The leader does not have that
            # epoch.
            self.epochs.truncate_end(self.log_end_offset)
            return []
        if offset < self.log_start_offset:
            return self.truncate_fully(offset)
        self.withdraw()
        self._retire_behind(self._segment_of(offset), CUT)
        if self._cut_inside(offset, prepared) < self.log_start_offset:
            # The next segment would begin at the log start, after a hole: recovery would treat that as a lost tail.
            return self.truncate_fully(self.log_start_offset)
        return self._take_unlinks()

    def _retire_behind(self, place: int, ending: str) -> None:
        """The segments behind one go, the newest first. Where one cannot, the log ends in front of those that have gone."""
        reached: int | None = None
        try:
            while len(self.segments) > place + 1:
                base_offset = self.segments[-1].base_offset
                self._retire(self.segments[-1], ending)
                reached = base_offset
        except Torn as error:
            raise self._tear(error) from None
        except (DiskFull, DiskFailed):
            self.active = self.segments[-1]
            if reached is not None and self._cut_inside(reached, None) < self.log_start_offset:
                raise self._tear(DiskFailed(errno.EIO, "the log ends before it begins", self.directory)) from None
            raise
        self.active = self.segments[-1] if self.segments else None

    def _cut_inside(self, offset: int, prepared: Prepared | None) -> int:
        """The log ends in its last segment: where. What fails here leaves a file and memory that may differ."""
        try:
            return self._cut_last(offset, prepared)
        except (DiskFull, DiskFailed, FileNotFoundError) as error:
            raise self._tear(error) from error

    def _cut_last(self, offset: int, prepared: Prepared | None) -> int:
        segment = self.active
        assert segment is not None
        self.indexes.forget(segment)
        if prepared is not None and prepared.segment_index is not None and segment.index is None:
            segment.keep_index(prepared.segment_index)
        if prepared is not None and prepared.aborted is not None:
            segment.aborted.keep(prepared.aborted)
        end = segment.truncate(offset)
        if end < self.log_start_offset:
            return end  # all of it goes
        self.note_cut(segment)
        if segment.aborted.exists:
            self._cut_aborted(segment, end)
        self._ends_at(end)
        self.epochs.truncate_end(end)
        if prepared is not None:
            self._take_prepared(prepared)
        elif not self.producers.truncate(end):
            try:
                self.rebuild_producers()
            except CorruptBatch as error:
                self.damaged = self.damaged or error.reason
        return end

    def note_cut(self, segment: Segment) -> None:
        """A segment's file has become shorter. The caller sees to a flush; until it is done nothing is appended."""
        self.shortened.append(segment)
        if self.refusing is None:
            self.refusing = Unsettled(f"the cut of {segment.log.path} is not durable yet")

    def _cut_aborted(self, segment: Segment, end_offset: int) -> None:
        try:
            segment.aborted.truncate(end_offset, self.log_end_offset)
        except CorruptTransactionIndex:
            try:
                entries = self.built_again(segment)
            except CorruptBatch as error:
                self.damaged, entries = self.damaged or error.reason, []
            segment.aborted.rebuild(entries)
            if segment not in self.rebuilt:
                self.rebuilt.append(segment)

    def _take_prepared(self, prepared: Prepared) -> None:
        before, self.producers = self.producers, prepared.producers
        self.producers.heard(before, -1)
        self.damaged = prepared.damaged or self.damaged
        if prepared.snapshot is not None and self.damaged is None and prepared.snapshot[0] not in self.snapshots:
            offset, content = prepared.snapshot
            self._pending.setdefault(offset, content)

    def truncate_fully(self, offset: int, now_ms: int = 0) -> list[Job]:
        """Remove everything and begin again at `offset`, because what the leader has does not overlap with this log. Raises
        DiskFull or DiskFailed: only segments behind are gone, or none; Torn."""
        self.withdraw()
        self._retire_behind(-1, FRONT)  # as if the start had moved: what is left in front of a hole may go
        try:
            self._ends_at(offset)
            self.drop_snapshots_above(-1)  # an old state would lack what is not in the log any more
        except (DiskFull, DiskFailed) as error:
            raise self._tear(error) from error
        self.log_start_offset = offset
        self.recovery_point = self._flush_offset = offset
        self.epochs.clear()
        self.producers.clear()
        jobs = self._take_unlinks()
        if offset > 0:
            with suppress(DiskFull):  # the first append makes the file then, once these jobs have made room
                self._open_first(offset, now_ms)
        return jobs

    def _ends_at(self, offset: int) -> None:
        self.log_end_offset = offset
        self.cleaned_offset = min(self.cleaned_offset, offset)
        self.checkpointed_offset = min(self.checkpointed_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self._flush_offset = min(self._flush_offset, offset)
        self._generation += 1
        self._hints.clear()
        self.drop_snapshots_above(offset)

    def drop_snapshots_above(self, offset: int) -> None:
        """Remove producer snapshots of offsets that the log no longer has. Unlinks, so for start-up and truncation
        only."""
        for snapshot in [s for s in self.snapshots if s > offset]:
            self.disk.remove(self._snapshot_path(snapshot))
            self.snapshots.remove(snapshot)
            self._names += 1
        self._pending = {s: content for s, content in self._pending.items() if s <= offset}

    def rebuild_producers(self, now_ms: int = -1, otherwise: int = 0, indexed: Indexed | None = None) -> int:
        """Producer state from the newest sound snapshot and the batches behind it; blocking. Where these begin.

        Without a snapshot the batches from `otherwise` on tell all there is; if there are only damaged ones, the whole log
        does. `indexed`: what they say of aborted transactions is added. Where the last segment begins without a snapshot,
        the next flush writes one.
        """
        before = self.producers
        self.producers, start = self._newest_snapshot(max(otherwise, self.log_start_offset))
        if start < self.log_end_offset:
            *before_last, last = self.segments_from(start)
            learn(before_last, start, producers=self.producers, now_ms=now_ms, indexed=indexed)
            if before_last and last.base_offset not in self.snapshots:
                self._pending.setdefault(
                    last.base_offset, self.producers.snapshot()
                )  # a kill has lost what the roll kept
            learn([last], start, producers=self.producers, now_ms=now_ms, indexed=indexed)
        self.producers.heard(before, now_ms)
        return start

    def _newest_snapshot(self, otherwise: int) -> tuple[Producers, int]:
        for offset in sorted({*self.snapshots, *self._pending}, reverse=True):
            try:
                return Producers.parse(self._pending.get(offset) or self._snapshot_bytes(offset)), offset
            except (CorruptSnapshot, FileNotFoundError):
                self.snapshots = [s for s in self.snapshots if s != offset]
                self._pending.pop(offset, None)
                otherwise = self.log_start_offset
        return Producers(), otherwise

    def _snapshot_bytes(self, offset: int) -> memoryview:
        file = self.disk.open(self._snapshot_path(offset))
        try:
            return file.read_cold(0, file.size)
        finally:
            file.close()

    def _snapshot_path(self, offset: int) -> str:
        return f"{self.directory}/{offset:020d}{SNAPSHOT}"

    def delete_records(self, offset: int) -> None:
        """Records below `offset` are never read again. Their files go with the next retention. Raises OffsetOutOfRange.

        The caller has checked `offset` against the high watermark.
        """
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(f"{offset} is above {self.log_end_offset}, the end of {self.directory}")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_start(offset)
            self._hints.clear()

    def check(self) -> None:
        """Assert the invariants."""
        assert self.log_start_offset <= self.log_end_offset
        assert self.recovery_point <= self.log_end_offset
        bases = [segment.base_offset for segment in self.segments]
        assert bases == sorted(set(bases))
        assert self.active is (self.segments[-1] if self.segments else None)
        assert not self.segments or bases[-1] <= self.log_end_offset
        self.epochs.check()
        assert self.epochs.latest < 0 or self.epochs.starts[-1] <= self.log_end_offset


class ColdRead(NamedTuple):
    """A read that may wait for the disk: a job for a thread."""

    segments: tuple[Segment, ...]
    offset: int
    bytes_max: int
    upper_offset: int
    at_least_one: bool
    pass_empty: bool
    sparse: bool

    def __call__(self) -> Read:
        last = Read(memoryview(b""), self.offset)
        for place, segment in enumerate(self.segments):
            while True:
                chunk = segment.read(last.next_offset, self.upper_offset, self.bytes_max, self.at_least_one, cold=True)
                assert chunk is not None
                if not (self.pass_empty and only_empty(chunk.data)):
                    break
                last = Read(chunk.data, chunk.next_offset)
            if chunk.data:
                return Read(chunk.data, chunk.next_offset)
            if chunk.no_room:
                break
            if self.sparse:
                _check_end(self.segments[place : place + 2], chunk, self.upper_offset)
        return last


def _check_end(segments: Sequence[Segment], chunk: Chunk, upper_offset: int) -> None:
    """A read that goes on in the next segment has come to the end of this one: where offsets may be missing, nothing else
    tells damage from a gap. Raises CorruptBatch."""
    if len(segments) == 2 and segments[1].base_offset <= upper_offset and chunk.stop < segments[0].size:
        raise CorruptBatch(chunk.stop, f"the segment of offset {segments[0].base_offset} has no whole batch there")


def only_empty(data: memoryview) -> bool:
    """Whether there are batches, and no record in any of them. Raises CorruptBatch."""
    if len(data) < HEADER_BYTES or any(data[57:61]):  # the first batch's count: nearly always the answer
        return False
    return not any(header.count for header in headers(data))


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
