"""The aborted transactions of one segment: `<base offset>.txnindex`, in Apache Kafka's form (KIP-98).

The file has one entry for each abort marker in the segment that ended a transaction, 34 bytes, big-endian:

    version int16 = 0 | producer id int64 | first offset int64 | last offset int64 (the marker's) |
    last stable offset int64: first offset of the oldest other transaction that was open, else behind the marker

Rules:

1. A segment without aborted transactions has no file.
2. Entries are in memory until a flush has written them, those of the active segment always. What a reader needs of a
   sealed segment is read from the file, and checked each time. The whole file is checked when the log is opened.
3. Last offsets rise and lie in the segment, last stable offsets do not fall, and the first offset is below the last. A file
   that breaks this, or has part of an entry, is not believed: the index is built again from the log, and replaces the file
   whole at the next flush. Until then the file stays as it is: a crash must not leave a shorter one that looks sound.
"""

import struct
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from actors.broker.log.producers.transactions import NO_LIMIT, Ended, Transactions
from actors.ports import Buffer, Disk, File

TRANSACTION_INDEX = ".txnindex"
_ENTRY = struct.Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size
WHOLE_BYTES = 16_384
"""The most bytes of a file that is read whole for a question."""
PIECE_BYTES = ENTRY_BYTES << 16
_ROWS = np.dtype(
    [
        ("version", ">i2"),
        ("producer_id", ">i8"),
        ("first_offset", ">i8"),
        ("last_offset", ">i8"),
        ("last_stable_offset", ">i8"),
    ]
)
assert _ROWS.itemsize == ENTRY_BYTES == 34
Rows = np.ndarray[Any, Any]


class CorruptTransactionIndex(ValueError):
    """The file of an index cannot be trusted; the text says why."""


class Aborted(NamedTuple):
    """One entry of an index: an aborted transaction. All offsets are those of the log."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class Candidates(NamedTuple):
    """Entries of one segment among which are all those that overlap a range of offsets."""

    rows: Buffer
    """The entries, whole and checked."""
    complete: bool
    """Whether no segment behind this one has another such entry: all transactions that began in the range had ended."""


def aborted(ended: Ended, transactions: Transactions) -> Aborted:
    """The entry of a transaction that has just ended with an abort marker."""
    stable = transactions.oldest_open
    if stable == NO_LIMIT:
        stable = ended.last_offset + 1
    return Aborted(ended.producer_id, ended.first_offset, ended.last_offset, stable)


def encode(entry: Aborted) -> bytes:
    """The 34 bytes of an entry."""
    return _ENTRY.pack(0, *entry)


def entries(data: Buffer) -> list[Aborted]:
    """The entries in a file that was checked."""
    return [Aborted(*row[1:]) for row in _ENTRY.iter_unpack(data)]


def check(data: Buffer, base_offset: int, end_offset: int) -> None:
    """Check the bytes of a file of a segment that ends at `end_offset`. Raises CorruptTransactionIndex if they are not
    sound."""
    if len(data) % ENTRY_BYTES:
        raise CorruptTransactionIndex(f"{len(data)} bytes are no whole entries")
    rows = np.frombuffer(data, _ROWS)
    if not len(rows):
        return
    first, last = rows["first_offset"].astype(np.int64), rows["last_offset"].astype(np.int64)
    stable = rows["last_stable_offset"].astype(np.int64)
    if (rows["version"] != 0).any():
        raise CorruptTransactionIndex("an entry has a version other than 0")
    if last[0] < base_offset or last[-1] >= end_offset or (first < 0).any() or (first >= last).any():
        raise CorruptTransactionIndex(f"an offset is not in {base_offset} to {end_offset}")
    if (np.diff(last) <= 0).any() or (np.diff(stable) < 0).any():
        raise CorruptTransactionIndex("offsets do not rise")


def narrow(count: int, entry: Callable[[int], Aborted], offset: int, upper_offset: int) -> tuple[int, int, bool]:
    """The places of the entries to look at for `[offset, upper_offset)`, out of `count`: from the first that ends in
    the range or behind, to the first whose last stable offset is not in it; and whether there is such a last one.
    `entry` is asked for few of them."""
    begin = bisect_left(range(count), offset, key=lambda place: entry(place).last_offset)
    end = bisect_left(range(count), upper_offset, lo=begin, key=lambda place: entry(place).last_stable_offset)
    return begin, min(end + 1, count), end < count


def narrowed(data: Buffer, offset: int, upper_offset: int) -> Candidates:
    """The entries to look at for `[offset, upper_offset)`, out of all entries of a segment, which are sound."""
    view = memoryview(data)
    begin, end, complete = narrow(
        len(view) // ENTRY_BYTES, lambda place: _entry(view[place * ENTRY_BYTES :]), offset, upper_offset
    )
    return Candidates(bytes(view[begin * ENTRY_BYTES : end * ENTRY_BYTES]), complete)


def overlapping(rows: Buffer, offset: int, upper_offset: int) -> list[tuple[int, int]]:
    """(producer id, first offset) of the entries with a record in `[offset, upper_offset)`, in the order of the markers."""
    found: list[tuple[int, int]] = []
    view = memoryview(rows)
    for begin in range(0, len(view), PIECE_BYTES):
        piece = np.frombuffer(view[begin : begin + PIECE_BYTES], _ROWS)
        piece = piece[(piece["last_offset"] >= offset) & (piece["first_offset"] < upper_offset)]
        found += zip(piece["producer_id"].tolist(), piece["first_offset"].tolist(), strict=True)
    return found


def _entry(data: Buffer) -> Aborted:
    return Aborted(*_ENTRY.unpack_from(data)[1:])


class _NotInMemory(Exception):
    """A read would have to wait for the disk."""


class TransactionIndex:
    """The index of one segment. Appends never read its file, which is read inside the loop only where a log is opened
    or cut."""

    __slots__ = ("_data", "_disk", "_file", "base_offset", "exists", "path", "rebuilt")

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self._disk = disk
        self.path = path
        self.base_offset = base_offset
        self.exists = False
        """Whether there are entries, or a file."""
        self.rebuilt = False
        """Whether the file is not what memory has, and is to be replaced whole. Invariant: then the entries are in
        memory."""
        self._data: bytearray | None = bytearray()
        """All entries; None: they are in the file."""
        self._file: File | None = None

    def found(self, *, end_offset: int, active: bool) -> None:
        """Look at the file, which exists. Its entries stay in memory if the segment takes appends. Start-up and cuts
        only: it blocks. Raises CorruptTransactionIndex."""
        self.claim()
        data = self._content(cold=True)
        assert data is not None
        check(data, self.base_offset, end_offset)
        self._data = bytearray(data) if active else None

    def claim(self) -> None:
        """Note that there is a file, which has not been looked at yet."""
        self.exists, self._data = True, None

    def keep(self, data: bytes) -> None:
        """Keep all entries, which a thread has read and checked: the segment is to take appends again."""
        if self._data is None:
            self._data = bytearray(data)

    def begin(self) -> None:
        """Begin as the index of an empty segment, whatever an earlier one of that name left behind."""
        if self._disk.exists(self.path):
            self.exists = True
            file = self._open()
            if file.size:
                file.truncate(0)

    def append(self, entry: Aborted) -> None:
        """Enter an abort marker that is in the log. In memory only, so that nothing can go wrong behind the append."""
        assert self._data is not None, "the index of a segment that takes appends is in memory"
        self._data += encode(entry)
        self.exists = True

    def rebuild(self, entries: list[Aborted]) -> bool:
        """Take these entries in the place of what the file has. Returns whether that was something else. Start-up only:
        it blocks. Raises DiskFull, DiskFailed."""
        data = bytearray().join(map(encode, entries))
        try:
            self.rebuilt = self._content(cold=True) != data
        except CorruptTransactionIndex:
            self.rebuilt = True
        self.exists = self.rebuilt or self.exists or bool(data)
        if self.exists and not self.rebuilt:
            self._open()  # the next flush syncs it: the process that was killed may have cut it last
        self._data = data
        return self.rebuilt

    def replace(self, data: bytes) -> None:
        """Take the index that a thread has built again, as the file is damaged: the next flush replaces it."""
        if self._data is None:
            self._data, self.rebuilt, self.exists = bytearray(data), True, True

    def rewrite(self) -> None:
        """Write the file whole with the next flush: a replacement of an earlier segment's file may have come late."""
        assert self._data is not None, "the segment is new, and takes appends"
        self.rebuilt = self.exists = True

    @property
    def in_memory(self) -> bool:
        """Whether the entries are in memory; a sealed segment's are not, once its file has them."""
        return self._data is not None

    def read(self, *, cold: bool) -> Buffer | None:
        """All entries; None: not in memory (never with `cold`, which blocks). They are not checked. Raises
        CorruptTransactionIndex if the file is gone."""
        return self._content(cold=cold) if self._data is None else self._data

    def candidates(self, offset: int, upper_offset: int, end_offset: int, *, cold: bool) -> Candidates | None:
        """The entries to look at for `[offset, upper_offset)`; None: not in memory (never with `cold`, which blocks).

        `end_offset`: of the segment. Of a large file only these are read, and checked. Raises CorruptTransactionIndex."""
        if self._data is not None:
            return narrowed(self._data, offset, upper_offset)
        try:
            file = self._disk.open(self.path)
        except FileNotFoundError:
            raise CorruptTransactionIndex("the file is gone") from None

        def read(position: int, size: int) -> memoryview:
            data = file.read_cold(position, size) if cold else file.read(position, size)
            if data is None:
                raise _NotInMemory
            return data

        try:
            if file.size <= WHOLE_BYTES or file.size % ENTRY_BYTES:
                data = read(0, file.size)
                check(data, self.base_offset, end_offset)
                return narrowed(data, offset, upper_offset)
            begin, end, complete = narrow(
                file.size // ENTRY_BYTES,
                lambda place: _entry(read(place * ENTRY_BYTES, ENTRY_BYTES)),
                offset,
                upper_offset,
            )
            rows = read(begin * ENTRY_BYTES, (end - begin) * ENTRY_BYTES)
            check(rows, self.base_offset, end_offset)
            return Candidates(rows, complete)
        except _NotInMemory:
            return None
        finally:
            file.close()

    def truncate(self, offset: int) -> None:
        """Forget the entries of markers at or above `offset`, where the log ends now; this segment takes appends, and its
        entries are in memory. Raises DiskFull: memory has forgotten them, the file has not; DiskFailed."""
        if not self.exists:
            self._data = bytearray()
            return
        data = self._data
        assert data is not None, "it was looked at before the cut"
        kept = bisect_left(
            range(len(data) // ENTRY_BYTES),
            offset,
            key=lambda place: _entry(data[place * ENTRY_BYTES : (place + 1) * ENTRY_BYTES]).last_offset,
        )
        del data[kept * ENTRY_BYTES :]
        if not self.rebuilt and self._disk.exists(self.path):
            file = self._open()
            if file.size > len(data):
                file.truncate(len(data))

    def write(self, *, sealed: bool) -> list[File]:
        """Bring the file up to what memory has. Returns what is to be synced. Raises DiskFull, DiskFailed."""
        data = self._data
        if self.rebuilt or not self.exists:
            return []
        if data is not None and (data or self._file is not None):
            file = self._open()
            if file.size < len(data):
                file.append((bytes(data[file.size :]),))
            if sealed:
                self._data = None
        return [] if self._file is None else [self._file]

    def replacement(self) -> bytes | None:
        """The bytes with which the file is to be replaced; None: it need not be."""
        return bytes(self._data) if self.rebuilt and self._data is not None else None

    def replaced(self, content: bytes) -> None:
        """Note that the file has been replaced with `content`, and is durable."""
        if self.rebuilt and self.replacement() == content:
            self.rebuilt = False
            self.close()

    def renamed(self, path: str) -> None:
        """Note the present name of the file, if there is one."""
        self.path = path

    def close(self) -> None:
        """Close the file handle. Idempotent. Idempotent."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _content(self, *, cold: bool) -> Buffer | None:
        if not self.exists and not self._disk.exists(self.path):
            return b""
        try:
            file = self._disk.open(self.path)
        except FileNotFoundError:
            raise CorruptTransactionIndex("the file is gone") from None
        try:
            return file.read_cold(0, file.size) if cold else file.read(0, file.size)
        finally:
            file.close()

    def _open(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        return self._file
