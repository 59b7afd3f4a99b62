"""Reads the files of one log that are at rest, and says which bytes are not what was written.

This file alone decides what is sound in files that nobody writes any more. Everything here is a job for a thread: it changes
nothing, and takes nothing of the loop but what it is given. `node/roles/broker/log/scrubber.py` decides when a piece is
read, and what becomes of a fault. Rules:

1. A batch is sound when its checksum is right and the fields that no checksum covers are: in a log without gaps it begins
   where the one before ends, it ends before the next segment begins, and its epoch is the one that the table of epochs has
   for its offset. The table comes from memory, so a bit that has rotted in an epoch is found as well.
2. Behind a batch that is not sound the next sound one is looked for, so that all damage of a segment is found in one pass.
3. An entry of an index is sound when it says exactly what the batch says to which it points, and the last entry of times has
   the latest time of the segment. Entries that point into damage are not judged.
4. An entry of a transaction index is sound when the log has that abort marker. Where the log has no gaps, and a snapshot of
   the producers at the begin of the segment, the index is what the batches make of it, byte for byte.
5. A file that is gone is no fault of what is in it: `FileNotFoundError` says so, and the caller knows whether it should be.

What is not found: in a compacted log, a bit of a base offset that has rotted and leaves the batch between its neighbours,
and the offsets in a transaction index that no marker has."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from actors.broker.log.directories.checkpoints import LEADER_EPOCHS, CorruptCheckpoint
from actors.broker.log.directories.directory import PARTITION_METADATA, identity_text
from actors.broker.log.leader_epochs import EpochCache
from actors.broker.log.producer_snapshots import SNAPSHOT
from actors.broker.log.producers import markers
from actors.broker.log.producers.producers import CorruptSnapshot, Producers
from actors.broker.log.producers.transaction_index import TRANSACTION_INDEX, CorruptTransactionIndex, check, entries
from actors.broker.log.segment import INDEX, LOG, TIME_INDEX
from actors.ports import Disk, File
from actors.wire import batch_header
from fastpath.records.batch import HEADER_SIZE
from fastpath.records.indexes import SegmentIndex
from fastpath.records.scan import resync, scan

PIECE_BYTES = 1 << 20
"""How much of a file is read at a time, except for a single batch that is larger."""
BATCH_BYTES_MAX = 128 << 20
"""The most bytes of a batch: one that says that it is longer has a damaged length."""
WINDOW_BYTES_MAX = 64 << 20
"""How far behind a fault the next sound batch is looked for. Where there is none the rest of the segment is damaged."""
_OFFSETS = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIMES = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
Array = np.ndarray[Any, Any]


class Fault(NamedTuple):
    """Bytes of a log file that are not what was written."""

    path: str
    """The path of the file on its disk."""
    position: int
    size: int
    """The number of damaged bytes: up to the next sound batch, or the end of the file."""
    first_offset: int
    """The offset at which the batch before the damage ends."""
    next_offset: int
    """The offset at which the next sound batch begins: the offsets between are damaged. For damage above the last sound
    batch: the end of the segment."""
    reason: str


class SmallFault(NamedTuple):
    """An index or another small file that is not what it was."""

    path: str
    """The path of the file on its disk."""
    reason: str
    offset: int = -1
    """The offset of a producer snapshot; -1 for other files."""


class SegmentScrub:
    """One reading of one sealed segment. `step` reads a piece, until `done`."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        end_offset: int,
        log: File,
        *,
        sparse: bool,
        start_offset: int = 0,
        epochs: tuple[Sequence[int], Sequence[int]] = ((), ()),
        transactions: bool = False,
        rebuild: SegmentIndex | None = None,
        suffix: str = "",
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        """A reading that has not begun. `end_offset`: where the next segment begins. `start_offset`: of the log.
        `epochs`: the table, epochs and their first offsets. `transactions`: whether there is an index of aborted
        transactions, in a file. `rebuild`: an empty index, which gets the entries of the sound batches. `suffix`:
        behind the names of the files."""
        self._disk = disk
        self._stem = f"{directory}/{base_offset:020d}"
        self._suffix = suffix
        self._base_offset = base_offset
        self._end_offset = end_offset
        self._log = log
        self._size = log.size
        self._sparse = sparse
        self._start_offset = start_offset
        self._epochs = np.array(epochs[0], np.int64), np.array(epochs[1], np.int64)
        self._transactions = transactions
        self.rebuild = rebuild
        self._piece_bytes = piece_bytes
        self._wanted = piece_bytes
        self._position = 0
        self._next_offset = base_offset
        self._after_fault = False
        """Whether the batch at `_position` is the first one behind damage: where it begins is not known."""
        self._latest = -1
        """Latest time of a batch so far, ms."""
        self._aborts: dict[int, int] = {}
        """The producer of each abort marker, by the marker's offset."""
        self._offset_entries = self._time_entries = (np.empty(0, np.int64), np.empty(0, np.int64))
        self._judged = {INDEX: 0, TIME_INDEX: 0}
        """How many entries of each index have been looked at."""
        self._begun = False
        self.done = False
        self.faults: list[Fault] = []
        """The faults of the log file, by position, rising."""
        self.index_faults: dict[str, str] = {}
        """Why an index is not believed, by the ending of its file's name."""

    def path(self, ending: str) -> str:
        """The path of one of the segment's files."""
        return f"{self._stem}{ending}{self._suffix}"

    def step(self) -> int:
        """Read the next piece. Returns the number of bytes read. Blocks. Raises DiskFailed; FileNotFoundError if the
        segment is gone."""
        read = 0
        if not self._begun:
            self._begun = True
            read += self._load_indexes()
        if self._position < self._size:
            read += self._piece()
        if self._position >= self._size:
            read += self._finish()
            self.done = True
        return read

    # ---- batches

    def _piece(self) -> int:
        data = self._log.read_at_rest(self._position, min(self._wanted, self._size - self._position))
        if not len(data):
            self._fault(self._size, f"the file ends at byte {self._position} of {self._size}")
            return 0
        heads, stop, _ = scan(data, 0, len(data))
        stop = int(heads["position"][-1] + heads["size"][-1]) if len(heads) else 0  # not the zeros behind it
        good, reason = self._judge(heads)
        begin = self._position
        self._take(data, heads[:good])
        if good < len(heads):
            stop = int(heads["position"][good])
            self._position = begin + stop
            self._pass_over(reason)
        elif stop < len(data) or begin + stop < self._size:
            self._position = begin + stop
            if (needed := self._needed(data[stop:])) is None:
                self._pass_over("its checksum or its header is not right")
            else:
                self._wanted = max(self._piece_bytes, needed)
                return stop or len(data)
        else:
            self._position = begin + stop
        self._wanted = self._piece_bytes
        return len(data)

    def _needed(self, rest: memoryview) -> int | None:
        """How many bytes the batch at the position needs, of which `rest` is read; None: it is damaged, more would not
        help."""
        left = self._size - self._position
        if left < HEADER_SIZE:
            return None
        if len(rest) < HEADER_SIZE:
            return HEADER_SIZE
        size = batch_header.batch_size(rest)
        if (
            rest[batch_header.MAGIC_AT] == batch_header.MAGIC
            and HEADER_SIZE <= size <= min(left, BATCH_BYTES_MAX)
            and size > len(rest)
        ):
            return size
        return None

    def _judge(self, heads: Array) -> tuple[int, str]:
        """How many of these batches, whose checksums are right, are sound; and why the next one is not."""
        if not len(heads):
            return 0, ""
        base, last = heads["base_offset"], heads["last_offset"]
        expected = np.empty(len(base), np.int64)
        expected[0], expected[1:] = self._next_offset, last[:-1] + 1
        misplaced = base < expected if self._sparse else base != expected
        if self._after_fault:
            misplaced[0] = base[0] <= self._next_offset
        misplaced |= last >= self._end_offset
        wrong = self._wrong_epochs(base, heads["epoch"])
        bad = np.flatnonzero(misplaced | wrong)
        if not len(bad):
            return len(base), ""
        first = int(bad[0])
        if misplaced[first]:
            return first, f"it says that it begins at offset {base[first]}, and not at {expected[first]}"
        return first, f"it says that it is of leader epoch {heads['epoch'][first]}"

    def _wrong_epochs(self, base: Array, epoch: Array) -> Array:
        known, starts = self._epochs
        if not len(known):
            return np.zeros(len(base), bool)
        place = np.searchsorted(starts, np.maximum(base, self._start_offset), "right") - 1
        wrong: Array = (place >= 0) & (known[place] != epoch)
        return wrong

    def _take(self, data: memoryview, heads: Array) -> None:
        """Take batches that are sound: check the indexes against them, and note what they say."""
        if not len(heads):
            return
        if self._after_fault and self.faults:
            last = self.faults[-1]
            self.faults[-1] = last._replace(next_offset=int(heads["base_offset"][0]))
        self._after_fault = False
        position = heads["position"] + self._position
        self._judge_offsets(position, heads)
        self._judge_times(heads)
        if self.rebuild is not None:
            begin, end = int(heads["position"][0]), int(heads["position"][-1] + heads["size"][-1])
            self.rebuild.append(data[begin:end], self._position + begin)
        for row in np.flatnonzero(heads["attributes"] & markers.CONTROL) if self._transactions else ():
            marker = markers.read(data, int(heads["position"][row]))
            if marker is not None and not marker.commit:
                self._aborts[int(heads["last_offset"][row])] = int(heads["producer_id"][row])
        self._next_offset = int(heads["last_offset"][-1]) + 1

    # ---- behind damage

    def _pass_over(self, reason: str) -> None:
        """Note that the batch at the position is damaged, and go on at the next sound one."""
        self._fault(self._next_sound(), reason)

    def _fault(self, end: int, reason: str) -> None:
        begin = self._position
        if self._after_fault and self.faults and self.faults[-1].position + self.faults[-1].size == begin:
            before = self.faults.pop()
            begin, reason = before.position, before.reason
        fault = Fault(self.path(LOG), begin, end - begin, self._next_offset, self._end_offset, reason)
        self.faults.append(fault)
        self._position, self._after_fault = end, True

    def _next_sound(self) -> int:
        """The position at which the next sound batch begins; the end of the file if there is none."""
        begin, window = self._position, self._piece_bytes
        while True:
            data = self._log.read_at_rest(begin, min(window, self._size - begin))
            for at in self._candidates(data):
                heads, _, _ = scan(data, at, len(data), records_max=1)
                if (
                    len(heads)
                    and self._next_offset < heads["base_offset"][0] <= heads["last_offset"][0] < self._end_offset
                ):
                    return begin + at
            if begin + len(data) >= self._size or window >= WINDOW_BYTES_MAX or not len(data):
                return self._size
            window *= 4

    def _candidates(self, data: memoryview) -> Iterator[int]:
        """The positions at which a sound batch may begin: behind the damaged one, if its length is right, else
        anywhere."""
        size = batch_header.batch_size(data)
        if HEADER_SIZE <= size < len(data):
            yield size
        at = 1
        while at < len(data) and (at := resync(data, at, len(data))) < len(data):
            yield at
            at += 1

    # ---- indexes

    def _load_indexes(self) -> int:
        read = 0
        for ending, dtype in ((INDEX, _OFFSETS), (TIME_INDEX, _TIMES)):
            try:
                data = content_at_rest(self._disk, self.path(ending))
            except FileNotFoundError:
                self._log.read_at_rest(0, 1)  # the segment may have gone as a whole
                self.index_faults[ending] = "it is missing"
                continue
            read += len(data)
            if len(data) % dtype.itemsize:
                self.index_faults[ending] = f"{len(data)} bytes are no whole entries"
                continue
            rows = np.frombuffer(data, dtype)
            offset = rows["offset"].astype(np.int64) + self._base_offset
            other = rows["position" if ending == INDEX else "timestamp"].astype(np.int64)
            if (np.diff(other) <= 0).any() or (np.diff(offset) < (ending == INDEX)).any():
                self.index_faults[ending] = "its entries do not rise"
            elif ending == INDEX:
                self._offset_entries = offset, other
            else:
                self._time_entries = offset, other
        return read

    def _judge_offsets(self, position: Array, heads: Array) -> None:
        """Check the entries of the offset index that point to what has just been read."""
        offsets, positions = self._offset_entries
        begin = self._judged[INDEX]
        end = int(np.searchsorted(positions, position[-1], "right"))
        self._judged[INDEX] = max(begin, end)
        for_these = slice(begin + int(np.searchsorted(positions[begin:end], position[0])), end)
        if for_these.start != begin and not self._in_damage(positions[begin : for_these.start], by_position=True):
            self._distrust(INDEX, begin, "points to no batch")
        place = np.searchsorted(position, positions[for_these])
        right = (position[place] == positions[for_these]) & (heads["last_offset"][place] == offsets[for_these])
        if not right.all():
            self._distrust(INDEX, for_these.start + int(np.flatnonzero(~right)[0]), "is not what its batch says")

    def _judge_times(self, heads: Array) -> None:
        last, time = heads["last_offset"], heads["max_timestamp"]
        latest = np.maximum(np.maximum.accumulate(time), self._latest)
        offsets, times = self._time_entries
        begin = self._judged[TIME_INDEX]
        end = int(np.searchsorted(offsets, last[-1], "right"))
        self._judged[TIME_INDEX] = max(begin, end)
        for_these = slice(begin + int(np.searchsorted(offsets[begin:end], heads["base_offset"][0])), end)
        if for_these.start != begin and not self._in_damage(offsets[begin : for_these.start], by_position=False):
            self._distrust(TIME_INDEX, begin, "is of no batch")
        place = np.searchsorted(last, offsets[for_these])
        right = (last[place] == offsets[for_these]) & (time[place] == times[for_these])
        if not self.faults:
            right &= latest[place] == times[for_these]
        if not right.all():
            self._distrust(TIME_INDEX, for_these.start + int(np.flatnonzero(~right)[0]), "is not what its batch says")
        self._latest = int(latest[-1])

    def _in_damage(self, where: Array, *, by_position: bool) -> bool:
        """Whether all of these positions, or offsets, lie in damage, so that they cannot be judged."""
        inside = np.zeros(len(where), bool)
        for one in self.faults:
            if by_position:
                inside |= (where >= one.position) & (where < one.position + one.size)
            else:
                inside |= (where >= one.first_offset) & (where < one.next_offset)
        return bool(inside.all())

    def _distrust(self, ending: str, entry: int, why: str) -> None:
        self.index_faults.setdefault(ending, f"entry {entry} {why}")

    def _finish(self) -> int:
        (offsets, positions), (time_offsets, times) = self._offset_entries, self._time_entries
        begin = self._judged[INDEX]
        if begin < len(offsets) and not self._in_damage(positions[begin:], by_position=True):
            self._distrust(INDEX, begin, "points to no batch")
        begin = self._judged[TIME_INDEX]
        if begin < len(times) and not self._in_damage(time_offsets[begin:], by_position=False):
            self._distrust(TIME_INDEX, begin, "is of no batch")
        if not self.faults and self._latest >= 0 and (not len(times) or times[-1] != self._latest):
            self.index_faults.setdefault(TIME_INDEX, "it lacks the latest time of its segment")
        if self.rebuild is not None:
            self.rebuild.seal()
        if not self._transactions:
            return 0
        try:
            data = content_at_rest(self._disk, self.path(TRANSACTION_INDEX))
            check(data, self._base_offset, self._end_offset)
            found = entries(data)
        except FileNotFoundError:
            self._log.read_at_rest(0, 1)
            self.index_faults[TRANSACTION_INDEX] = "it is missing"
            return 0
        except CorruptTransactionIndex as error:
            self.index_faults[TRANSACTION_INDEX] = str(error)
            return len(data)
        for place, one in enumerate(found if not self.faults else ()):
            if self._aborts.get(one.last_offset) != one.producer_id:
                self._distrust(TRANSACTION_INDEX, place, "is of no marker")
                break
        return len(data)


class SmallFiles(NamedTuple):
    """A look at the small files beside the segments of a log. Raises DiskFailed."""

    disk: Disk
    directory: str
    epochs: tuple[Sequence[int], Sequence[int]] | None
    """What the file of epochs is to say: the epochs and their first offsets; None: it is not to be looked at."""
    identity: tuple[bytes, int] | None
    """The topic id and the instance that partition.metadata is to say; None: it is not to be looked at."""
    snapshots: tuple[int, ...]
    """Offsets of the producer snapshots."""

    def read(self) -> tuple[list[SmallFault], int]:
        """Read the small files. Returns the faults, and how many bytes were read."""
        found: list[SmallFault] = []
        read = 0
        if self.epochs is not None and (reason := self._epochs()):
            found.append(SmallFault(f"{self.directory}/{LEADER_EPOCHS}", reason))
        if self.identity is not None and (reason := self._identity()):
            found.append(SmallFault(f"{self.directory}/{PARTITION_METADATA}", reason))
        for offset in self.snapshots:
            path = f"{self.directory}/{offset:020d}{SNAPSHOT}"
            try:
                data = content_at_rest(self.disk, path)
                read += len(data)
                Producers.parse(data)
            except FileNotFoundError:
                found.append(SmallFault(path, "it is missing", offset))
            except (CorruptSnapshot, ValueError) as error:
                found.append(SmallFault(path, str(error), offset))
        return found, read

    def _epochs(self) -> str:
        assert self.epochs is not None
        try:
            content = bytes(content_at_rest(self.disk, f"{self.directory}/{LEADER_EPOCHS}"))
            table = EpochCache.parse(content)
        except FileNotFoundError:
            return "it is missing" if self.epochs[0] else ""
        except CorruptCheckpoint as error:
            return str(error)
        whole = (table.epochs, table.starts) == self.epochs and content == table.encode()
        return "" if whole else "it does not say which epochs the log has"

    def _identity(self) -> str:
        assert self.identity is not None
        try:
            content = bytes(content_at_rest(self.disk, f"{self.directory}/{PARTITION_METADATA}"))
        except FileNotFoundError:
            return "it is missing"
        whole = content.rstrip(b"\n") == identity_text(*self.identity)
        return "" if whole else "it does not say which topic and log these files are of"


def content_at_rest(disk: Disk, path: str) -> memoryview:
    """The content of a file. Blocks. Raises FileNotFoundError, DiskFailed."""
    file = disk.open(path)
    try:
        return file.read_at_rest(0, file.size)
    finally:
        file.close()
