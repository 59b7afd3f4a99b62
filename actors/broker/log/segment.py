"""One segment of a partition's log: `<base offset>.log` with its `.index` and `.timeindex`.

This file alone touches those three files; `transaction_index.py` has the fourth, which few segments have. Rules:

1. The log file holds batches byte for byte as they were sent or fetched. No object is made for a record.
2. The indexes are in memory, and are written to their files when the segment is flushed, sealed or closed. They can
   always be built again from the log file, so a lost or damaged one costs a scan, never data.
3. A read that would wait for the disk returns None. The same call with `cold=True` waits, and belongs into a `Work`
   job. A cold read changes nothing in the segment. An index that it had to build it offers to the loop, which takes it if
   the file has not been cut since: the segment may take appends again by then, with an index of its own.
4. A read ends at the end of a batch, never inside one.
5. An entry of the offset index counts where the batch to which it points ends with its offset, or before: Apache Kafka
   before 4.0 made one for all batches that it appended together, with the place of the first and the offset of the last one
   (`near`). One of the time index counts where its batch has that time (`search_from`). A bit of the file may have rotted: a
   reader would pass records over, or a cut would take too much or too little.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from actors.broker.log.directories.renames import Pair, present, rename_all
from actors.broker.log.producers.transaction_index import TRANSACTION_INDEX, TransactionIndex
from actors.broker.log.producers.transactions import NO_LIMIT as NO_LIMIT
from actors.ports import Disk, DiskFailed, DiskFull, File
from actors.wire import batch_header
from fastpath.records.batch import HEADER_SIZE, CorruptBatch, columns
from fastpath.records.indexes import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    CorruptIndex,
    OffsetIndex,
    SegmentIndex,
    TimeIndex,
    span,
)

LOG, INDEX, TIME_INDEX = ".log", ".index", ".timeindex"
DELETED = ".deleted"
"""The ending of every name of a file that is to be unlinked, as in Apache Kafka. Apache Kafka and earlier versions add
nothing else."""
FRONT, CUT = f".front{DELETED}", f".cut{DELETED}"
"""The endings of the names of files that were in front of the log's start, or have been cleaned, and of files that were
behind its end. A start removes both, and so does one of Apache Kafka; where a power cut has kept only some of the
names, they say which way the log was to become shorter."""
CLEANED, SWAP = ".cleaned", ".swap"
"""The endings of the names of a segment that a cleaning writes, and of one that is whole and takes the place of
others."""
ORDERS = {
    "": (INDEX, TIME_INDEX, LOG, TRANSACTION_INDEX),
    SWAP: (INDEX, TIME_INDEX, TRANSACTION_INDEX, LOG),
    CLEANED: (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX),
}
"""The order in which a segment's files get a suffix."""
TIME_BYTES = 1 << 16
"""How much of a file is read at a time to find the batch of a time."""
TIME_TRIES = 8
"""How many entries of a time index are held against the log before nothing of it counts."""
SCAN_BYTES = 1 << 20
"""How much of a file a scan holds at a time, except for a single batch that is larger."""

Job = Callable[[], object]
"""A job for a thread: see `ports.Work`."""


class Chunk(NamedTuple):
    """Whole batches of one segment as they are in the file. `data` is empty when none can be returned."""

    data: memoryview
    next_offset: int
    """The offset after the last batch; the requested offset when there is none."""
    start: int
    stop: int
    """Positions in the file: `stop` is where the batch of `next_offset` begins."""
    no_room: bool = False
    """Whether nothing is returned because the next batch is too large. Then nothing after it may be returned either."""


class Scan(NamedTuple):
    """Where a walk over the batches of a file ended."""

    position: int
    next_offset: int
    fault: str | None
    """Why the batch at `position` is refused; None at the end of the file."""


def _int(data: memoryview) -> int:
    return int.from_bytes(data, "big", signed=True)


class CutPoint(NamedTuple):
    """Where a segment is to be cut, with all that has to be read for it."""

    position: int
    """The size of the log file behind the cut."""
    end_offset: int
    """The end offset of what is left."""
    left: SegmentIndex
    """The index of what is left."""
    sizes: tuple[int, int]
    """How many bytes of each index file are of it for certain."""
    fault: str | None
    """Why the batch at `position` cannot stay, though it was to; None: the segment ends where it was to end."""


class Segment:
    """One segment of a log, open for appends while it is the last one, and sealed after. Invariant: `index`, when
    loaded, covers every byte of `log`."""

    __slots__ = (
        "aborted", "appended_ms", "base_offset", "built_again", "created_ms", "cuts", "directory", "disk",
        "first_timestamp", "index", "index_file", "interval_bytes", "is_new", "last_timestamp", "log", "offered", "parsed",
        "placed", "suffix", "time_file", "trusted",
    )  # fmt: skip

    def __init__(
        self, disk: Disk, directory: str, base_offset: int, interval_bytes: int, created_ms: int, suffix: str = ""
    ) -> None:
        """Opens the log file, creating it if it is missing. Raises DiskFull, DiskFailed."""
        self.disk = disk
        self.directory = directory
        self.suffix = suffix
        """The ending of the names of its files: empty while it is part of the log, or `.swap` when it has just become
        one."""
        self.placed = not suffix
        """Whether the segment is, or was, part of the log."""
        self.is_new = False
        """Whether this process, or one that was killed before, has made the file, and nothing has synced it since: a power
        cut may take it."""
        self.base_offset = base_offset
        self.interval_bytes = interval_bytes
        self.created_ms = created_ms
        """Wall clock time of the first append. Before this process has made it, when it first opened the segment."""
        self.log: File = disk.open(self.path(LOG), create=True)
        written_ms = self.log.modified_ms
        self.appended_ms = created_ms if written_ms is None else min(created_ms, written_ms)
        """Wall clock time of the last append. Before this process has appended, when its file was last written; where that
        is not known the same as `created_ms`."""
        self.index: SegmentIndex | None = None
        self.cuts = 0
        """How often the file was cut."""
        self.offered: tuple[SegmentIndex, int] | None = None
        """An index that a thread had to build, and the number `cuts` when it began."""
        self.parsed = False
        """Whether `index` was read from its files, so that nobody has held its last time against the log."""
        self.built_again = False
        """Whether `index` had to be built from the log file, as the index files are not sound: nothing that they have is
        taken for a part of it."""
        self.index_file: File | None = None
        self.time_file: File | None = None
        self.trusted: tuple[int, int] | None = None
        """How many bytes of each index file a start has trusted, where they still have more; None: they say what `index`
        says, as far as they go."""
        self.aborted = TransactionIndex(disk, self.path(TRANSACTION_INDEX), base_offset)
        self.first_timestamp: int | None = None
        """Largest timestamp of the first batch, ms, -1 when it has none; None: not known yet."""
        self.last_timestamp: int | None = None
        """Largest timestamp of a sealed segment whose index is not in memory, or was read; None: not known yet."""

    @property
    def size(self) -> int:
        """Bytes of the log file."""
        return self.log.size

    def path(self, suffix: str) -> str:
        """The path of one of the segment's files, on its disk."""
        return f"{self.directory}/{self.base_offset:020d}{suffix}{self.suffix}"

    @property
    def paths(self) -> list[str]:
        """The paths that the segment's files have, if they exist, on its disk."""
        return [self.path(one) for one in (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX)]

    def begin(self) -> None:
        """Begin as an empty segment: the indexes are empty too, whatever an earlier segment of that name left
        behind."""
        self.index = SegmentIndex(self.base_offset, self.interval_bytes)
        if self.log.size:
            self.log.truncate(0)
        self._cut_index_files((0, 0))
        self.aborted.begin()

    # -- appends ------------------------------------------------------------------------------------------------------

    def append(self, data: bytes | bytearray | memoryview, first_timestamp: int, now_ms: int) -> int:
        """Append whole batches that have been checked. Returns the position where they begin. Raises DiskFull (nothing
        is kept), DiskFailed."""
        assert self.index is not None
        position = self.log.size
        self.log.append((data,))
        self.index.append(data, position)
        self.appended_ms = now_ms
        if position == 0:
            self.first_timestamp = first_timestamp
            self.created_ms = now_ms
        return position

    def full(self, size: int, last_offset: int, segment_bytes: int, index_bytes: int) -> bool:
        """Whether `size` more bytes that reach `last_offset` must go into a new segment, apart from the age of this
        one."""
        used = self.log.size
        if used == 0:
            return last_offset - self.base_offset > 0x7FFFFFFF
        index = self.index
        assert index is not None
        return (
            used + size > segment_bytes
            or last_offset - self.base_offset > 0x7FFFFFFF
            or index.offsets.size_bytes + 8 > index_bytes
            or index.times.size_bytes + 12 > index_bytes
        )

    # -- reads --------------------------------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        upper_offset: int,
        bytes_max: int,
        at_least_one: bool = True,
        position: int | None = None,
        cold: bool = False,
    ) -> Chunk | None:
        """Read batches from the one that holds `offset` on, all below `upper_offset`; None: not in memory. `position`:
        where that batch begins, if the caller knows it. Otherwise the index is used."""
        file_read = self.log.read_cold if cold else self.log.read
        wanted = max(bytes_max, HEADER_SIZE)
        index: SegmentIndex | None = None
        if position is None:
            index = self.index or self.load_index(cold=cold)
            if index is None:
                return None
            named, position = index.offsets.lookup(offset)
            wanted += self.interval_bytes
        while (left := self.log.size - position) > 0:
            data = file_read(position, min(wanted, left))
            if data is None:
                return None
            if index is not None:
                believed, index = index, None
                if position and not self._leads(data, named):
                    position = self.near(named - 1, believed, cold=cold)
                    if position is None:
                        return None
                    continue
            found = span(data, offset, upper_offset, bytes_max, at_least_one)
            if found.stop > found.start:
                return Chunk(
                    data[found.start : found.stop], found.next_offset, position + found.start, position + found.stop
                )
            cut_short = len(data) < min(wanted, left)
            # All that was read may lie below `offset` and end at a batch boundary. What is wanted follows it.
            if not found.needed and found.start < len(data):
                larger = found if at_least_one else span(data, offset, upper_offset, bytes_max)
                no_room = larger.stop > larger.start or larger.needed > 0
                return Chunk(memoryview(b""), offset, position, position, no_room)
            if not found.start and (cut_short or found.needed > left):
                break
            position += found.start
            wanted = max(wanted, found.needed)
        return Chunk(memoryview(b""), offset, position, position)

    # -- indexes ------------------------------------------------------------------------------------------------------

    def near(self, offset: int, index: SegmentIndex, *, cold: bool) -> int | None:
        """The position of a batch at or before the one that holds `offset`; None: not in memory (never with `cold`)."""
        read = self.log.read_cold if cold else self.log.read
        named, position = index.offsets.lookup(offset)
        while position > 0:
            head = read(position, min(HEADER_SIZE, self.log.size - position))
            if head is None:
                return None
            if self._leads(head, named):
                break
            named, position = index.offsets.lookup(named - 1)
        return position

    def _leads(self, data: memoryview, named: int) -> bool:
        """Whether bytes begin with a batch, in front of all that is behind the offset of an index entry."""
        if _ends_at(data, named):
            return True
        if len(data) < HEADER_SIZE or data[batch_header.MAGIC_AT] != batch_header.MAGIC:
            return False
        return self.base_offset <= batch_header.base_offset(data) <= batch_header.last_offset(data) < named

    def load_index(self, *, cold: bool) -> SegmentIndex | None:
        """The indexes of a sealed segment from their files. None: that needs the disk (never with `cold`).

        Missing or damaged files are replaced by a scan of the log, which counts as cold.
        """
        offered, cuts = self.offered, self.cuts
        if offered is not None and offered[1] == cuts:
            return offered[0]
        parsed = self._parse_index(cold)
        if parsed is not None or not cold:
            return parsed
        index = self._scanned_index()
        self.offered = index, cuts
        return index

    def _scanned_index(self) -> SegmentIndex:
        """The indexes of a sealed segment from its log file. Blocking."""
        index = SegmentIndex(self.base_offset, self.interval_bytes)
        self.scan(index, 0, self.base_offset, check_from=NO_LIMIT)
        index.seal()
        return index

    def drop_index(self) -> None:
        """Free the index's memory. What the files do not have yet is written first. Raises DiskFull, DiskFailed."""
        if self.index is not None:
            self.write_index()
            if not self.parsed:
                self.last_timestamp = self.index.max_timestamp
            self.index, self.offered, self.parsed = None, None, False

    def keep_index(self, index: SegmentIndex) -> None:
        """Keep the index that `load_index` returned. The loop's alone."""
        self.parsed = self.offered is None
        if self.offered is not None:  # a thread, perhaps another one, could not read the files
            self.built_again, self.last_timestamp = True, index.max_timestamp
        self.offered = None
        self.index = index

    def _parse_index(self, cold: bool) -> SegmentIndex | None:
        parts = []
        named = self.suffix
        for suffix in (INDEX, TIME_INDEX):
            try:
                file = self.disk.open(self.path(suffix))
            except FileNotFoundError:
                return None
            except DiskFull:
                if cold:
                    raise
                return None  # a job waits for a descriptor, the loop does not
            try:
                data = file.read_cold(0, file.size) if cold else file.read(0, file.size)
            finally:
                file.close()
            if data is None or self.suffix != named:  # another segment's file may have the name by now
                return None
            parts.append(data)
        try:
            offsets = OffsetIndex.parse(self.base_offset, parts[0], self.log.size)
            times = TimeIndex.parse(self.base_offset, parts[1])
        except CorruptIndex:
            return None
        if not len(times) and self.log.size:
            return None
        return SegmentIndex(self.base_offset, self.interval_bytes, offsets, times)

    def resume_index(self, below_offset: int) -> tuple[SegmentIndex, int]:
        """Read the index files as far as they speak of what is below an offset. Returns (index, position from which to
        scan on). Start-up only. An index that does not agree with the batch to which it points is not trusted at all.
        What the files have beyond stays until the index is written: a start that cut two files of each of 10,000 logs took
        half a minute on a busy disk."""
        index, position = self._believed(below_offset)
        self.trusted = index.offsets.size_bytes, index.times.size_bytes
        return index, position

    def _believed(self, below_offset: int) -> tuple[SegmentIndex, int]:
        index = self._parse_index(cold=True)
        if index is not None:
            index.truncate(below_offset)
            if len(index.offsets):
                offset, position = index.offsets.entry(len(index.offsets) - 1)
                head = self.log.read_cold(position, HEADER_SIZE)
                if self._leads(head, offset):
                    index.truncate(offset + _ends_at(head, offset))  # what is found behind an entry rises above it
                    return index, position
        return SegmentIndex(self.base_offset, self.interval_bytes), 0

    def scan(
        self,
        index: SegmentIndex,
        position: int,
        next_offset: int,
        *,
        check_from: int,
        upper_offset: int = NO_LIMIT,
        upper_position: int = NO_LIMIT,
    ) -> Scan:
        """Walk the batches from `position` to the end of the file, or to `upper_position`, and enter them into `index`.
        Blocking.

        The CRC is checked for batches that reach offset `check_from` or beyond. None may reach `upper_offset`.
        """
        wanted = SCAN_BYTES
        size = min(self.log.size, upper_position)
        while position < size:
            data = self.log.read_cold(position, min(wanted, size - position))
            if not data:
                break  # the log was cut while a thread reads it
            found = index.scan(data, position, size, next_offset, check_from, upper_offset)
            position += found.stop
            next_offset = found.next_offset
            if found.fault is not None:
                return Scan(position, next_offset, found.fault)
            wanted = max(SCAN_BYTES, found.needed)
        return Scan(position, next_offset, None)

    def find_last(self) -> tuple[int, int]:
        """(the offset behind the last whole batch, the epoch of that batch), by the last index entry and what follows
        it; (its base offset, -1) without any. Blocking. Raises DiskFailed."""
        position = 0
        try:
            file = self.disk.open(self.path(INDEX))
        except FileNotFoundError:
            file = None
        if file is not None:
            try:
                entry = memoryview(file.read_cold(max(0, file.size - 8), 8))
            finally:
                file.close()
            if len(entry) == 8:
                last, position = self.base_offset + _int(entry[:4]), _int(entry[4:])
                head = self.log.read_cold(position, HEADER_SIZE) if 0 <= position < self.log.size else memoryview(b"")
                if not self._leads(head, last):
                    position = 0
        end, epoch, wanted = self.base_offset, -1, SCAN_BYTES
        while position < self.log.size:
            try:
                found = columns(self.log.read_cold(position, min(wanted, self.log.size - position)))
            except CorruptBatch:
                break
            if len(found["size"]):
                end, epoch = int(found["last_offset"][-1]) + 1, int(found["epoch"][-1])
                position += int(found["position"][-1] + found["size"][-1])
            elif wanted < self.log.size - position:
                wanted *= 2
            else:
                break
        return end, epoch

    def learn_first_timestamp(self) -> None:
        """Read the time of the first batch in a segment that was found on the disk: a roll by time counts from it.
        Blocking, once."""
        if self.first_timestamp is None and self.log.size >= HEADER_SIZE:
            head = self.log.read_cold(0, HEADER_SIZE)
            self.first_timestamp = batch_header.max_timestamp(head)

    def max_timestamp(self, *, cold: bool = False) -> int | None:
        """Largest timestamp in the segment, ms, -1 when it has none; None: not known without the disk (never with `cold`,
        which blocks). What a time index says counts where its batch agrees: retention would delete the segment, and all
        others wherever this replica leads, for a bit that has rotted."""
        if self.index is not None and not self.parsed:
            return self.index.max_timestamp
        if self.last_timestamp is None and cold:
            self.last_timestamp = self._last_time()
        return self.last_timestamp

    def _last_time(self) -> int:
        try:
            file = self.disk.open(self.path(TIME_INDEX))
        except FileNotFoundError:
            file = None
        if file is not None:
            try:
                whole = file.size and not file.size % TIME_ENTRY_SIZE
                last = file.read_cold(file.size - TIME_ENTRY_SIZE, TIME_ENTRY_SIZE) if whole else None
            finally:
                file.close()
            if last is not None:
                timestamp, offset = _int(last[:8]), self.base_offset + _int(last[8:])
                if self._has_time(timestamp, offset, self._near_in_file(offset)):
                    return timestamp
        # It is not offered: nobody reads this segment, and no cache would count it.
        return self._scanned_index().max_timestamp

    def search_from(self, timestamp: int, index: SegmentIndex) -> int:
        """An offset in front of which no record is as late as that. Blocking."""
        for _ in range(TIME_TRIES):
            named, offset = index.times.lookup(timestamp)
            if named < 0 or self._has_time(named, offset, self.near(offset, index, cold=True) or 0):
                return offset
            timestamp = named - 1
        return self.base_offset

    def _has_time(self, timestamp: int, offset: int, position: int) -> bool:
        """Whether a time is the largest one of the batch that holds an offset, at that position or behind it. Blocking."""
        wanted = TIME_BYTES
        while (left := self.log.size - position) > 0:
            try:
                found = columns(self.log.read_cold(position, min(wanted, left)))
            except CorruptBatch:
                return False
            here = (found["base_offset"] <= offset) & (found["last_offset"] >= offset)
            if here.any():
                return bool((found["max_timestamp"][here] == timestamp).all())
            if len(here):
                position += int(found["position"][-1] + found["size"][-1])
            elif wanted < left:
                wanted *= 2
            else:
                break
        return False

    def _near_in_file(self, offset: int) -> int:
        """The position that `near` finds, by the file of the index, of which little is read; 0 where that says nothing that
        is true. Blocking."""
        try:
            file = self.disk.open(self.path(INDEX))
        except FileNotFoundError:
            return 0

        def entry(place: int) -> tuple[int, int]:
            data = file.read_cold(place * OFFSET_ENTRY_SIZE, OFFSET_ENTRY_SIZE)
            return self.base_offset + _int(data[:4]), _int(data[4:])

        try:
            places = range(file.size // OFFSET_ENTRY_SIZE)
            place = bisect_right(places, offset, key=lambda one: entry(one)[0]) - 1
            named, position = entry(place) if place >= 0 else (self.base_offset, 0)
        finally:
            file.close()
        if not 0 < position < self.log.size:
            return 0
        return position if self._leads(self.log.read_cold(position, HEADER_SIZE), named) else 0

    # -- files --------------------------------------------------------------------------------------------------------

    def write_index(self) -> list[File]:
        """Write to the index files what memory holds beyond them. Returns every file of the segment. Raises DiskFull,
        DiskFailed."""
        index = self.index
        if index is None:  # it was written when it was dropped, but is not synced yet
            return [self.log, *(file for file in (self.index_file, self.time_file) if file is not None)]
        if self.index_file is None:
            self.index_file = self.disk.open(self.path(INDEX), create=True)
        if self.time_file is None:
            self.time_file = self.disk.open(self.path(TIME_INDEX), create=True)
        self._distrust()
        if self.trusted is not None and not self._agree(index):
            self._write_beyond_trusted(index)
        self.trusted = None
        for file, entries in ((self.index_file, index.offsets), (self.time_file, index.times)):
            if file.size < entries.size_bytes:
                file.append((entries.data(file.size),))
        return [self.log, self.index_file, self.time_file]

    def replace_index(self, index: SegmentIndex) -> list[File]:
        """Take an index that was built from the log file in the place of what the index files have, which are to be synced.
        Where they are as long only what is wrong in them changes. Raises DiskFull, DiskFailed: the index is taken, and
        nothing of the files is trusted."""
        self.offered, self.built_again, self.trusted = None, False, (0, 0)
        self.keep_index(index)
        self.parsed, self.last_timestamp = False, index.max_timestamp
        for suffix, entries in ((INDEX, index.offsets), (TIME_INDEX, index.times)):
            file = self._index_file(suffix)
            if file is None or not self.disk.exists(file.path):
                file = self.disk.open(self.path(suffix), create=True)
                if suffix == INDEX:
                    self.index_file = file
                else:
                    self.time_file = file
            content = entries.data()
            if file.size == len(content):
                if content:
                    file.overwrite(0, content)
            else:
                file.truncate(0)
                file.append((content,))
        self.trusted = None
        return [file for file in (self.index_file, self.time_file) if file is not None]

    def seal(self) -> None:
        """Accept no more appends: the largest timestamp enters the time index."""
        if self.index is not None:
            self.index.seal()
            self.last_timestamp = self.index.max_timestamp

    def find_cut(self, offset: int) -> CutPoint:
        """Where the segment ends without the batch that holds `offset` and all after it. Reads what `cut` and `was_cut`
        need, so that nothing is left then for which a descriptor may lack. Blocks a little. Raises DiskFull, DiskFailed."""
        if self.index is None:
            index = self.load_index(cold=True)
            assert index is not None
            self.keep_index(index)
        end = self.read(offset, NO_LIMIT, 0, cold=True)
        assert end is not None and self.index is not None
        for suffix in (INDEX, TIME_INDEX):
            self._index_file(suffix)  # there is a descriptor
        position = self.log.size
        if end.data:
            position, offset = end.start, min(offset, batch_header.base_offset(end.data))
        index, begin = self._index_below(offset)
        sizes = index.offsets.size_bytes, index.times.size_bytes
        # The part after the last entry counts towards the next entry, and may hold the largest timestamp.
        found = self.scan(index, begin, self.base_offset, check_from=NO_LIMIT, upper_position=position)
        if found.fault is not None:  # what is wrong may be the batch before: then its checksum says it
            index, begin = self._index_below(offset)
            found = self.scan(index, begin, self.base_offset, check_from=self.base_offset, upper_position=position)
        return CutPoint(found.position, found.next_offset, index, sizes, found.fault)

    def _index_below(self, offset: int) -> tuple[SegmentIndex, int]:
        """Another index with the entries below an offset, and from where to scan on: those of `index` stay. The last entry
        is of one batch, else those that are found behind it would not rise."""
        assert self.index is not None
        offsets = OffsetIndex.parse(self.base_offset, self.index.offsets.data(), self.log.size)
        times = TimeIndex.parse(self.base_offset, self.index.times.data())
        index = SegmentIndex(self.base_offset, self.index.interval_bytes, offsets, times)
        index.truncate(offset)
        position = 0
        while len(index.offsets):
            named, position = index.offsets.entry(len(index.offsets) - 1)
            head = self.log.read_cold(position, HEADER_SIZE)
            if _ends_at(head, named):
                break
            index.truncate(named)
            if self._leads(head, named):
                break
            position = 0
        return index, position

    def cut(self, cut: CutPoint) -> None:
        """Cut the log file; then call `was_cut`. Raises DiskFull: nothing has changed; DiskFailed."""
        if cut.position < self.log.size:
            self.log.truncate(cut.position)

    def was_cut(self, cut: CutPoint) -> None:
        """Let the indexes follow the log file, which was cut. Raises DiskFailed."""
        self.cuts += 1
        self.offered, self.last_timestamp, self.parsed = None, None, False
        self.index = cut.left
        if self.log.size == 0:
            self.first_timestamp = None
        try:
            self._cut_index_files(cut.sizes)
        except DiskFull:  # what they have beyond it goes with the next flush
            trusted = self.trusted or cut.sizes
            self.trusted = min(cut.sizes[0], trusted[0]), min(cut.sizes[1], trusted[1])

    def _agree(self, index: SegmentIndex) -> bool:
        """Whether what the index files have beyond the trusted part is what `index` has there too: a log that nobody has
        written to since the last stop."""
        assert self.trusted is not None
        for suffix, entries, trusted in zip(
            (INDEX, TIME_INDEX), (index.offsets, index.times), self.trusted, strict=True
        ):
            file = self._index_file(suffix)
            if file is None or file.size != entries.size_bytes:
                return False
            try:
                beyond = file.read_cold(trusted, file.size - trusted)
            except FileNotFoundError:  # it was removed under the running broker
                return False
            if bytes(beyond) != bytes(entries.data(trusted)):
                return False
        return True

    def _distrust(self) -> None:
        """Trust nothing of the index files if `index` was not read from them."""
        if self.built_again:
            self.trusted, self.built_again = (0, 0), False

    def _write_beyond_trusted(self, index: SegmentIndex) -> None:
        """Let the index files say what `index` says. They are cut only where they are too long: a cut waits for the file
        system's journal (ext4: 4 ms each), and many logs are written at a stop."""
        for suffix, entries, trusted in zip(
            (INDEX, TIME_INDEX), (index.offsets, index.times), self.trusted or (0, 0), strict=True
        ):
            file = self._index_file(suffix)
            if file is None:
                continue
            if file.size > entries.size_bytes:
                file.truncate(entries.size_bytes)
            beyond = file.size - trusted
            if beyond > 0:
                content = bytes(entries.data(trusted))
                file.overwrite(trusted, content[:beyond])
                if len(content) > beyond:
                    file.append((content[beyond:],))

    def _cut_to_trusted(self) -> None:
        for suffix, size in zip((INDEX, TIME_INDEX), self.trusted or (), strict=False):
            file = self._index_file(suffix)
            if file is not None and file.size > size:
                file.truncate(size)
        self.trusted = None

    def _cut_index_files(self, sizes: tuple[int, int]) -> None:
        self._distrust()
        self._cut_to_trusted()
        for suffix, size in zip((INDEX, TIME_INDEX), sizes, strict=True):
            file = self._index_file(suffix)
            if file is not None and file.size > size:
                file.truncate(size)

    def _index_file(self, suffix: str) -> File | None:
        file = self.index_file if suffix == INDEX else self.time_file
        if file is None:
            try:
                file = self.disk.open(self.path(suffix))
            except FileNotFoundError:
                return None
            if suffix == INDEX:
                self.index_file = file
            else:
                self.time_file = file
        return file

    def rename(self, suffix: str) -> None:
        """Give the segment's files other names, all or none. Raises DiskFull, DiskFailed, HalfRenamed, Torn.

        The log file's name says what the segment is. It is the last to become `.swap` and the first that is `.swap` no
        more, so that a process that dies leaves whole indexes beside it. Only when the segment becomes part of the log the
        index of aborted transactions comes last: a start cannot tell one beside a `.swap` log from that of a segment that
        goes.
        """
        pairs = present(self.disk, [(self.path(one), self._named(one, suffix)) for one in ORDERS[suffix]])
        rename_all(self.disk, pairs)
        self.suffix = suffix
        self.aborted.renamed(self.path(TRANSACTION_INDEX))

    def _named(self, one: str, suffix: str) -> str:
        return f"{self.directory}/{self.base_offset:020d}{one}{suffix}"

    def moved(self, directory: str) -> None:
        """Note the present name of the directory that the segment is in."""
        self.directory = directory
        self.aborted.renamed(self.path(TRANSACTION_INDEX))

    def leaving(self, ending: str = FRONT) -> list[Pair]:
        """The names that the segment's files get when they leave the log. Raises DiskFailed."""
        assert self.suffix != SWAP or self.placed, "what is named .swap and is in no log may be the only copy"
        return present(self.disk, [(path, path + ending) for path in self.paths])

    def left(self, ending: str = FRONT, *, close: bool = True) -> None:
        """Note that the segment's files have the names with which they leave the log. Without `close` its readers go
        on."""
        self.suffix += ending
        self.aborted.renamed(self.path(TRANSACTION_INDEX))
        if close:
            self.close()

    def delete(self, ending: str = FRONT) -> Job:
        """Take the files out of the log by renaming them, all or none; the job unlinks them. Raises DiskFull, DiskFailed,
        HalfRenamed, Torn."""
        pairs = self.leaving(ending)
        rename_all(self.disk, pairs)
        self.left(ending)
        return unlinking(self.disk, self.directory, [name for _, name in pairs])

    def close(self) -> None:
        """Close the handles. May be called more than once."""
        for file in (self.log, self.index_file, self.time_file):
            if file is not None:
                file.close()
        self.aborted.close()


def _ends_at(data: memoryview, offset: int) -> bool:
    """Whether bytes begin with a batch whose last record has that offset."""
    return len(data) >= HEADER_SIZE and batch_header.last_offset(data) == offset


def unlinking(disk: Disk, directory: str, paths: Sequence[str], waiting: set[str] | None = None) -> Job:
    """The job that unlinks files of a log, once their present names are durable: they tell a start what was going on. When
    it has ended it takes their paths out of `waiting`; after an error it may be run again. What is not in `waiting` any more
    it leaves."""
    return partial(_unlink, disk, directory, paths, waiting)


def _unlink(disk: Disk, directory: str, paths: Sequence[str], waiting: set[str] | None) -> None:
    """Remove all files; if one cannot be removed, the others are. Raises DiskFull or DiskFailed, the first one met."""
    disk.settle(directory)
    failed: OSError | None = None
    for path in paths:
        if waiting is not None and path not in waiting:
            continue
        try:
            disk.remove(path)
        except (DiskFull, DiskFailed) as error:
            failed = failed or error
    if failed is not None:
        raise failed
    if waiting is not None:
        waiting.difference_update(paths)
