"""The metadata log on disk: segments, what of them is in memory, and recovery.

This file alone decides where a batch lies in a file. It knows offsets, not epochs (those are the quorum's) and not what
is in a batch.

Rules:

1. A batch is appended whole and never changed. Only its end may be cut, and only by `truncate`.
2. The newest batches stay in memory up to `TAIL_BYTES_MAX`; older ones are read from the file, never mapped. A read that
   is not in the page cache answers None: the node runs `cold` outside the loop and then `warm`.
3. Recovery reads and checks every batch. What is torn, which only an unsynced append can be, is cut and reported: the end of
   the log, or a page that is missing, with all that follows. Damage stops the start with file name and position: what is
   damaged may be committed, and cutting it would lose it. `durable_mark` says what tells the two apart.
4. Files to be deleted are renamed first, one after the other, each durably, and unlinked outside the loop, once no sync in
   flight can name them. Else a power cut could bring one of them back beside what has taken its place, or between two that
   are gone. Before the first one goes, the name of what comes to begin the log is durable: it does not say `AHEAD` any more,
   and would say so again of a segment that nothing comes before.
5. A segment begun while its predecessor is not durable has a name that says so, `AHEAD`, until it is. Nothing in it was
   made durable before the predecessor was, so recovery drops it when the predecessor does not end where it begins. Thus a
   power cut may tear a segment that is not the last, and damage to what was durable is still told from it.
6. What was cut is durable before anything is appended in its place; until then appends go into such a segment, or where
   nothing is left of a file, into another one of its name. Else a power cut could leave old batches behind new ones in one
   file.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from actors.node.quorum.files import AHEAD, DELETED, DamagedFile, segment_name, segment_of
from actors.ports import Batch, Buffer, Disk, DiskFailed, DiskFull, File
from actors.wire import batch_header
from actors.wire.batch_header import MAGIC, MAGIC_AT, SIZE_BYTES
from fastpath.records import batch as batches
from fastpath.records.batch import HEADER_SIZE, CorruptBatch

TAIL_BYTES_MAX = 2 << 20
INDEX_BYTES = 4096
"""At least this many bytes between two entries of a segment's index."""
READ_BYTES = 1 << 19
"""The least that is read of a file at once."""
NO_LIMIT = 1 << 62
"""An offset above every other."""
SECTOR_BYTES = 512
"""The least bytes that a device writes as a whole."""


class Segment:
    """One file of the log. The index is sparse and in memory only: (first offset, position), both rising."""

    __slots__ = ("ahead", "base_offset", "created_ms", "cut", "file", "offsets", "positions", "syncs")

    def __init__(self, base_offset: int, file: File, created_ms: int, ahead: bool) -> None:
        self.base_offset = base_offset
        self.file = file
        self.created_ms = created_ms
        self.ahead = ahead
        """Whether the file's name ends in `AHEAD`: never the first one's."""
        self.cut = False
        """Whether the end of the file was cut, and that may not be durable."""
        self.syncs = 0
        """How many syncs of this file are in flight."""
        self.offsets = array("q")
        self.positions = array("q")

    def note(self, offset: int, position: int) -> None:
        """Note that a batch with that first offset begins at that position."""
        if not self.positions or position - self.positions[-1] >= INDEX_BYTES:
            self.offsets.append(offset)
            self.positions.append(position)

    def near(self, offset: int) -> int:
        """A position of a batch boundary at or before the batch that holds `offset`."""
        place = bisect_right(self.offsets, offset) - 1
        return self.positions[place] if place >= 0 else 0

    def forget(self, position: int) -> None:
        """Drop entries at or beyond a position."""
        keep = bisect_left(self.positions, position)
        del self.offsets[keep:], self.positions[keep:]


class ColdRead(NamedTuple):
    """The read of a segment that `read` needs from the disk. `job` may block; give its result to `MetadataLog.warm`."""

    base_offset: int
    position: int
    cuts: int
    """How often the log had been cut when the read began: what was read before a cut is no longer valid."""
    job: Callable[[], memoryview]


class MetadataLog:
    """The segments of one directory, in order. Implements the log half of raft's LogReader."""

    def __init__(self, disk: Disk, directory: str, segment_bytes: int, segment_ms: int) -> None:
        self.disk = disk
        self.directory = directory
        self.segment_bytes = segment_bytes
        self.segment_ms = segment_ms
        self.segments: list[Segment] = []
        self.end_offset = 0
        self.dirty: dict[int, Segment] = {}
        """The segments that the next sync must cover, by first offset."""
        self.garbage: list[tuple[str, File]] = []
        """Renamed files that wait to be unlinked."""
        self.missed: ColdRead | None = None
        """The read from the disk that the last `read` needs if it answered None."""
        self._tail: list[Batch] = []
        self._tail_bytes = 0
        self._warm: tuple[int, int, memoryview] | None = None
        self._cuts = 0
        self._roll = False

    @property
    def start_offset(self) -> int:
        """The first offset that is in a file."""
        return self.segments[0].base_offset if self.segments else self.end_offset

    @property
    def size(self) -> int:
        """The bytes of all segments."""
        return sum(segment.file.size for segment in self.segments)

    # -- writing

    def append(self, added: Sequence[Batch], now_ms: int) -> None:
        """Append at the end. Raises DiskFull (batches before the one without room are kept), DiskFailed."""
        for batch in added:
            assert batch.base_offset == self.end_offset, (batch.base_offset, self.end_offset)
            segment = self._active(batch, now_ms)
            position = segment.file.size
            segment.file.append((batch.data,))
            segment.note(batch.base_offset, position)
            self.dirty[segment.base_offset] = segment
            self.end_offset = batch.last_offset + 1
            self._tail.append(batch)
            self._tail_bytes += len(batch.data)
        if self._tail_bytes > TAIL_BYTES_MAX:
            self._shorten_tail()

    def _active(self, batch: Batch, now_ms: int) -> Segment:
        """The segment to append to, a new one if the last is full, old, or behind a snapshot."""
        if self.segments:
            last = self.segments[-1]
            size = last.file.size
            last.cut = last.cut and not self._settled(last)
            full = size + len(batch.data) > self.segment_bytes or now_ms - last.created_ms > self.segment_ms
            if size == 0 and last.cut:
                self._retire_last()
            elif size == 0 or not (full or self._roll or last.cut):
                return last
        return self._begin(batch.base_offset, now_ms)

    def _begin(self, base_offset: int, now_ms: int) -> Segment:
        self._roll = False
        ahead = bool(self.segments) and not self._settled(self.segments[-1])
        name = segment_name(base_offset) + (AHEAD if ahead else "")
        segment = Segment(base_offset, self.disk.open(f"{self.directory}/{name}", create=True), now_ms, ahead)
        self.segments.append(segment)
        self.dirty[base_offset] = segment
        return segment

    def _settled(self, segment: Segment) -> bool:
        """Whether all of a segment, and of what comes before it, is durable."""
        return not segment.ahead and segment.syncs == 0 and segment.base_offset not in self.dirty

    def _shorten_tail(self) -> None:
        keep, size = len(self._tail), 0
        while keep > 0 and size < TAIL_BYTES_MAX // 2:
            keep -= 1
            size += len(self._tail[keep].data)
        del self._tail[:keep]
        self._tail_bytes = size

    def roll(self) -> None:
        """Begin a new segment with the next batch, so that the present one can go when a snapshot has passed it."""
        self._roll = True

    def truncate(self, end_offset: int) -> None:
        """Cut the log, so that `end_offset`, a batch boundary, is the next offset. Reads the disk in rare cases.
        Raises DiskFull: to be called again until there is room, and nothing else before that; DiskFailed."""
        assert self.start_offset <= end_offset <= self.end_offset, (self.start_offset, end_offset, self.end_offset)
        while self.segments and self.segments[-1].base_offset >= end_offset and len(self.segments) > 1:
            segment = self.segments[-1]
            self._end_at(segment.base_offset)
            segment.file.truncate(0)
            self._retire_last()
        if self.segments:
            segment = self.segments[-1]
            position = self._position(segment, end_offset)
            segment.file.truncate(position)
            segment.cut = True
            segment.forget(position)
            self.dirty[segment.base_offset] = segment
        self._end_at(end_offset)

    def restart_at(self, offset: int, now_ms: int) -> None:
        """Throw everything away, and let the log begin, empty, at `offset`. Raises DiskFull: to be called again until there
        is room; DiskFailed. The log has then what is left of it."""
        self._tail.clear()  # it may begin before the first segment, where `_end_at` does not reach it
        self._tail_bytes = 0
        while self.segments:
            self._retire_last()
        self._end_at(offset)
        self._begin(offset, now_ms)

    def _retire_last(self) -> None:
        """Take away the last segment. Raises DiskFull, DiskFailed: it is still there."""
        segment = self.segments[-1]
        self._discard(segment)
        del self.segments[-1]
        self._end_at(segment.base_offset)

    def _end_at(self, offset: int) -> None:
        """Note where the log ends, and forget what was behind."""
        self.end_offset = offset
        while self._tail and self._tail[-1].last_offset >= offset:
            self._tail_bytes -= len(self._tail.pop().data)
        self._cool()

    def delete_below(self, offset: int) -> None:
        """Give up segments that lie wholly below `offset`. The last one stays, and so does one in front of a segment
        that is ahead. Raises DiskFull, DiskFailed: the others are still there."""
        settled = False
        while len(self.segments) > 1 and self.segments[1].base_offset <= offset and not self.segments[1].ahead:
            if not settled:  # the name of the next one may have lost `AHEAD` a moment ago
                self.disk.settle(self.directory)
                settled = True
            self._discard(self.segments[0])
            del self.segments[0]

    def _discard(self, segment: Segment) -> None:
        """Take away a segment's name. Raises DiskFull, DiskFailed: the caller still has it, and may do it again."""
        path = segment.file.path
        if not path.endswith(DELETED):
            self.disk.rename(path, path + DELETED)
        self.disk.settle(self.directory)
        self.dirty.pop(segment.base_offset, None)
        self.garbage.append((segment.file.path, segment.file))

    def take_dirty(self) -> list[Segment]:
        """The segments of the next sync; call `synced` when it is done."""
        taken, self.dirty = list(self.dirty.values()), {}
        for segment in taken:
            segment.syncs += 1
        return taken

    def synced(self, taken: Sequence[Segment]) -> None:
        """Note that a sync of those segments is done. A segment that finds no room for its name keeps the one that it has
        until the next sync. Raises DiskFailed."""
        for segment in taken:
            segment.syncs -= 1
        for before, segment in pairwise(self.segments):
            if segment.ahead and self._settled(before):
                path = segment.file.path
                try:
                    self.disk.rename(path, path.removesuffix(AHEAD))
                except DiskFull:
                    return
                segment.ahead = False

    # -- reading

    def read(self, offset: int, bytes_max: int) -> list[Batch] | None:
        """Whole batches from the one that holds `offset`, at least one, about `bytes_max`. None: see `missed`."""
        if self._tail and offset >= self._tail[0].base_offset:
            return self._from_tail(offset, bytes_max)
        if offset >= self.end_offset:
            return []
        place = bisect_right(self.segments, offset, key=lambda segment: segment.base_offset) - 1
        assert place >= 0, f"offset {offset} is below the log's start {self.start_offset}"
        segment = self.segments[place]
        position = segment.near(offset)
        size = max(bytes_max, READ_BYTES) + INDEX_BYTES
        data = self._bytes(segment, position, size)
        if data is None:
            return None
        found = _cut(data, offset, bytes_max)
        if not found:
            whole = batches.headers(data)
            cut_at = whole[-1].position + whole[-1].size if whole else 0
            data = self._bytes(segment, position, cut_at + max(batch_header.batch_size(data[cut_at:]), size))
            if data is None:
                return None
            found = _cut(data, offset, bytes_max)
        assert found, (offset, self.end_offset)
        return found

    def _from_tail(self, offset: int, bytes_max: int) -> list[Batch]:
        tail = self._tail
        place = bisect_left(tail, offset, key=lambda batch: batch.last_offset)
        found: list[Batch] = []
        size = 0
        while place < len(tail):
            size += len(tail[place].data)
            if found and size > bytes_max:
                break
            found.append(tail[place])
            place += 1
        return found

    def _bytes(self, segment: Segment, position: int, size: int) -> memoryview | None:
        if self._warm is not None and self._warm[:2] == (segment.base_offset, position):
            data = self._warm[2]
            if len(data) >= min(size, segment.file.size - position):
                return data
        try:
            found = segment.file.read(position, size)
        except (DiskFull, DiskFailed):  # the job waits for a descriptor, or finds what is wrong
            found = None
        if found is None:
            file = segment.file
            self.missed = ColdRead(segment.base_offset, position, self._cuts, lambda: file.read_cold(position, size))
        return found

    def warm(self, cold: ColdRead, data: memoryview) -> None:
        """Take the bytes of a cold read; the next `read` of the same place finds them."""
        if cold.cuts == self._cuts:
            self._warm = (cold.base_offset, cold.position, data)

    def _cool(self) -> None:
        """Drop bytes that were read, or are being read, from the disk: the log was cut, and they may be of what was cut
        off."""
        self._warm = None
        self._cuts += 1

    def _position(self, segment: Segment, offset: int) -> int:
        """The position of the batch that begins at `offset`, or the end of the segment."""
        position = segment.near(offset)
        while position < segment.file.size:
            data = segment.file.read_cold(position, READ_BYTES + HEADER_SIZE)
            found = batches.headers(data)
            if not found:
                if not 0 <= batch_header.base_offset(data) < offset:
                    return position
                position += batch_header.batch_size(data)
                continue
            for header in found:
                if header.base_offset >= offset:
                    return position + header.position
            position += found[-1].position + found[-1].size
        return segment.file.size

    # -- recovery

    def recover(self, now_ms: int, seen: Callable[[Batch, int], None], durable_offset: int = 0) -> list[str]:
        """Open and check all segments, and call `seen(batch, attributes)` for each batch. Returns what was cut, in
        sentences. Nothing is cut below `durable_offset`, the durable mark. Raises DamagedFile."""
        notices: list[str] = []
        found = [
            (base_offset, name.endswith(AHEAD), name)
            for name in self.disk.names(self.directory)
            if (base_offset := segment_of(name.removesuffix(AHEAD))) is not None
        ]
        named_last = max((base_offset for base_offset, is_ahead, _ in found if not is_ahead), default=-1)
        for base_offset, is_ahead, name in sorted(found):
            file = self.disk.open(f"{self.directory}/{name}")
            segment = Segment(base_offset, file, now_ms, is_ahead)
            follows = bool(self.segments) and base_offset == self.end_offset
            if is_ahead and not follows:
                notices.append(f"{file.path}: dropped, it was never durable and the log ends at {self.end_offset}")
                self._discard(segment)
                continue
            if self.segments and not follows:
                raise DamagedFile(
                    f"{file.path} begins at offset {base_offset}, the log before it ends at {self.end_offset}"
                )
            self.end_offset = base_offset
            self.segments.append(segment)
            durable = durable_offset if base_offset >= named_last else NO_LIMIT
            cut = self._check(segment, durable, seen)
            if cut is not None:
                notices.append(cut)
        # What a killed process wrote may be in the page cache only.
        first = next((place for place, segment in enumerate(self.segments) if segment.ahead), len(self.segments))
        for segment in self.segments[max(first - 1, 0) :]:
            self.dirty[segment.base_offset] = segment
        return notices

    def _check(self, segment: Segment, durable: int, seen: Callable[[Batch, int], None]) -> str | None:
        file = segment.file
        position = 0
        while position < file.size:
            data = file.read_cold(position, READ_BYTES)
            place, bad = self._check_chunk(segment, position, data, seen)
            if bad is None and place == 0:
                data = file.read_cold(position, batch_header.batch_size(data))
                place, bad = self._check_chunk(segment, position, data, seen)
            position += place
            if bad is not None:
                return self._torn(segment, position, bad, durable)
        return None

    def _check_chunk(
        self, segment: Segment, start: int, data: memoryview, seen: Callable[[Batch, int], None]
    ) -> tuple[int, str | None]:
        """(bytes that were sound, what is wrong after them): nothing is wrong with a batch that only needs more data."""
        place = 0
        whole_file = start + len(data) >= segment.file.size
        while place < len(data):
            try:
                header = batches.verify(data, place)
            except CorruptBatch as error:
                cut_here = len(data) - place < HEADER_SIZE or batch_header.batch_size(data[place:]) > len(data) - place
                if cut_here and not whole_file and _plausible(data, place, self.end_offset):
                    return place, None
                return place, error.reason
            if header.base_offset != self.end_offset:
                return place, f"offset {header.base_offset} where {self.end_offset} was expected"
            segment.note(header.base_offset, start + place)
            self.end_offset = header.last_offset + 1
            batch = Batch(header.base_offset, header.last_offset, header.epoch, data[place : place + header.size])
            seen(batch, header.attributes)
            place += header.size
        return place, None

    def _torn(self, segment: Segment, position: int, reason: str, durable: int) -> str:
        """Cut what is torn; returns the sentence for the operator. `durable`: everything below that offset was durable.
        Raises DamagedFile."""
        file = segment.file
        rest = file.read_cold(position, file.size - position)
        follower = _sound_after(rest, self.end_offset)
        lost = durable > self.end_offset
        if lost or (follower is not None and not _page_missing(rest, position, follower)):
            where = "" if follower is None else f"; a sound batch follows at byte {position + follower}"
            known = f"; it was durable up to offset {durable}" if lost and durable < NO_LIMIT else ""
            raise DamagedFile(
                f"{file.path} is damaged at byte {position}, offset {self.end_offset} ({reason}){where}{known}. Restore it "
                f"from a copy, or empty the directory and let this node fetch the log from the others"
            )
        size = file.size - position
        file.truncate(position)
        segment.cut = True
        return f"{file.path}: cut a torn tail of {size} bytes at byte {position}, offset {self.end_offset} ({reason})"


def _plausible(data: memoryview, place: int, offset: int) -> bool:
    """Whether what is there of a header could begin the batch of that offset."""
    head = data[place:]
    return len(head) <= MAGIC_AT or (batch_header.base_offset(head) == offset and head[MAGIC_AT] == MAGIC)


def _sound_after(rest: Buffer, offset: int) -> int | None:
    """The position of the first sound batch, beyond the damage at 0, that holds a later offset."""
    data = bytes(rest)
    place = data.find(MAGIC, MAGIC_AT + 1)
    while place >= 0:
        begin = place - MAGIC_AT
        if begin > 0 and 0 <= batch_header.base_offset(data[begin : begin + SIZE_BYTES]) - offset < 1 << 32:
            try:
                batches.verify(data, begin)
                return begin
            except CorruptBatch:
                pass
        place = data.find(b"\x02", place + 1)
    return None


def _page_missing(rest: Buffer, position: int, size: int) -> bool:
    """Whether one of the first `size` bytes of `rest`, which lies at `position` of its file, is of a page that was never
    written: there are only zeros from its begin, or from the begin of `rest`, to its end. What is sound, from `size` on, may
    begin in such a page with zeros of its own: those of an offset."""
    begin, end = 0, SECTOR_BYTES - position % SECTOR_BYTES
    while begin < size:
        if not any(rest[begin:end]):
            return True
        begin, end = end, end + SECTOR_BYTES
    return False


def _cut(data: memoryview, offset: int, bytes_max: int) -> list[Batch]:
    """The batches in `data` from the one that holds `offset`."""
    found: list[Batch] = []
    size = 0
    for header in batches.headers(data):
        if header.last_offset < offset:
            continue
        size += header.size
        if found and size > bytes_max:
            break
        place = header.position
        found.append(Batch(header.base_offset, header.last_offset, header.epoch, data[place : place + header.size]))
    return found
