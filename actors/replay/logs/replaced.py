"""Where the batches of a split are now: in the file that was cut, or in what took its place.

A node's log cleaner writes segments anew: the first of a group keeps its name and has other bytes, the others are gone. This
file alone decides whether a file is still the one that was cut, and finds the batches again if not. Rules:

1. The file is the same if the batches in the split's place have the offsets and CRCs of then, which the split's fingerprint
   says. Neither the file's name nor its inode tells: a file system gives the inode of a file that is gone to a new one. What
   is mapped stays what it is, whatever becomes of the name: it is judged and read as mapped.
2. Otherwise the split is what its offsets are: the batches of the log whose base offset is in `[base_offset, next_offset)`.
   Cleaning leaves base offsets as they are, so each record that is left is in one split, whenever each of them is read.
   Damaged bytes belong to the batch behind them, so that what was lost since the split was cut is told too.
3. If two segments overlap, as while they are being swapped, each is believed below the beginning of the next one.
4. A cleaning leaves the last batch of what it has cleaned. A log that begins behind the split, or goes on behind it
   without its last batch, was deleted there: FileNotFoundError. A log that ends before the split does was truncated: what
   is left is read, then FileTruncated is raised.
"""

from pathlib import Path
from typing import NamedTuple, Protocol
from zlib import crc32

from actors.replay.logs import files
from actors.replay.logs.files import LOOK_BYTES, TRIES, Headers, NothingToRead, Segment, mapped, still_there
from fastpath.records.scan import resync, scan


class FileRange(Protocol):
    """The fields of a split that say where its batches are."""

    @property
    def path(self) -> str: ...
    @property
    def begin(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def fingerprint(self) -> int: ...
    @property
    def topic_id(self) -> bytes: ...


class Piece(NamedTuple):
    """`[begin, end)` of a mapped file."""

    path: Path
    data: memoryview
    begin: int
    end: int


def pieces(split: FileRange) -> tuple[list[Piece], bool]:
    """The bytes of a split, in order, and whether they reach to its end: a log that was truncated ends before. Raises
    FileNotFoundError: what is not there any more was not cleaned away."""
    for left in reversed(range(TRIES)):
        try:
            found = _as_cut(split)
            if found is not None:
                return [found], True
            some, whole = _by_offset(split)
            if whole or not left:
                return some, whole
        except FileNotFoundError:
            if not left:
                raise
    return [], True


def mark(fingerprint: int, headers: Headers) -> int:
    """The fingerprint of batches, where `fingerprint` is that of the batches before them, 0 for none: what tells them from
    others in their place."""
    for name in ("base_offset", "last_offset", "crc"):
        fingerprint = crc32(headers[name].tobytes(), fingerprint)
    return fingerprint


def _as_cut(split: FileRange) -> Piece | None:
    path = Path(split.path)
    try:
        data = mapped(path)
    except FileNotFoundError:
        return None
    same = split.fingerprint < 0 or _fingerprint(data, split.begin, split.end) == split.fingerprint
    return Piece(path, data, split.begin, split.end) if same else None


def _fingerprint(data: memoryview, begin: int, end: int) -> int:
    """The fingerprint of the batches that begin in `[begin, end)`; -1 if the file ends before."""
    position, found = begin, 0
    while position < end <= (size := still_there(data)):
        headers, after, fault = scan(data, position, size, False, bytes_max=min(LOOK_BYTES, end - position))
        found = mark(found, headers)
        position = after if fault is None else resync(data, after + 1, size)
    return found if end <= still_there(data) else -1


def _by_offset(split: FileRange) -> tuple[list[Piece], bool]:
    if split.base_offset < 0:  # damaged bytes and no batch: a cleaning leaves none, and takes none away
        return [], True
    path = Path(split.path)
    try:
        segments = files.partitions(path.parent)[0].segments
    except NothingToRead:
        segments = ()
    if path.exists() and path not in {segment.path for segment in segments}:
        segments = (Segment(path, -1),)
    if not segments or segments[0].base_offset > split.base_offset:
        raise FileNotFoundError(f"{path} is gone, and no other segment has its offsets")
    found: list[Piece] = []
    reached = 0
    for segment in segments:
        if 0 <= segment.next_offset <= split.base_offset or segment.base_offset >= split.next_offset:
            continue
        stop = split.next_offset if segment.next_offset < 0 else min(split.next_offset, segment.next_offset)
        piece, behind = _between(segment.path, split.base_offset, stop)
        reached = max(reached, behind)
        if piece.begin < piece.end:
            found.append(piece)
    if reached < split.next_offset <= segments[-1].base_offset:
        raise FileNotFoundError(f"{path} is gone, and no other segment has offset {split.next_offset - 1}")
    now = files.topic_id(path.parent)  # asked after the files were mapped: they are of this topic or of one before it
    if split.topic_id and now is not None and now != split.topic_id:
        raise FileNotFoundError(f"{path} is gone: its topic was deleted and made again")
    return found, reached >= split.next_offset


def _between(path: Path, first: int, stop: int) -> tuple[Piece, int]:
    """(piece of a file, offset behind the last batch of the file). The piece holds the batches with base offsets in
    `[first, stop)` and the damage in front of them; if none is left, the damage that has taken their place."""
    data = mapped(path)
    position, begin, end, behind = 0, 0, 0, 0
    while position < (size := still_there(data)):
        headers, position, fault = scan(data, position, size, False, bytes_max=LOOK_BYTES)
        behind = int(headers[-1]["last_offset"]) + 1 if len(headers) else behind
        base = headers["base_offset"]
        below, within, above = headers[base < first], headers[(base >= first) & (base < stop)], headers[base >= stop]
        if len(below):
            begin = int(below[-1]["position"] + below[-1]["size"])
        if len(within):
            end = int(within[-1]["position"] + within[-1]["size"])
        if len(above) and not end:
            end = int(above[0]["position"])
        if fault is not None:
            position = resync(data, position + 1, size)
    return Piece(path, data, begin, end), behind
