"""Where the batches of a split are now: in the file that was cut, or in what took its place.

A node's log cleaner writes segments anew: the first of a group keeps its name and has other bytes, the others are gone. This
file alone decides whether a file is still the one that was cut, and finds the batches again if not. Rules:

1. The file is the same if it has the inode of then, and the first sound batch from the split's beginning on has the base
   offset of then. Damage may stand in front of it. What is mapped stays what it is, whatever becomes of the name: it is
   judged and read as mapped.
2. Otherwise the split is what its offsets are: the batches of the log whose base offset is in `[base_offset, next_offset)`.
   Cleaning leaves base offsets as they are, so each record that is left is in one split, whenever each of them is read.
   Damaged bytes belong to the batch behind them, so that what was lost since the split was cut is told too.
3. Of two segments that overlap, as while they are being swapped, each is believed below the beginning of the next one.
4. A cleaning leaves the last batch of what it has cleaned. A log that begins behind the split, or ends before it does, was
   deleted or truncated: FileNotFoundError.
"""

from pathlib import Path
from typing import NamedTuple, Protocol

from actors.replay import files
from actors.replay.files import LOOK_BYTES, NothingToRead, Segment, opened, still_there
from fastpath.records.scan import resync, scan

TRIES = 5
"""How often is looked: a file can vanish between its listing and its opening."""


class Cut(Protocol):
    """Of a split, what says where it is."""

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
    def inode(self) -> int: ...


class Piece(NamedTuple):
    """`[begin, end)` of a mapped file."""

    path: Path
    data: memoryview
    begin: int
    end: int


def pieces(split: Cut) -> list[Piece]:
    """The bytes of a split, in order. Raises FileNotFoundError: what is not there any more was not cleaned away."""
    for left in reversed(range(TRIES)):
        try:
            found = _as_cut(split)
            return [found] if found is not None else _by_offset(split)
        except FileNotFoundError:
            if not left:
                raise
    return []


def same_file(split: Cut) -> bool:
    """Whether the file's name still is that of the file that was cut. Raises FileNotFoundError."""
    return split.inode < 0 or Path(split.path).stat().st_ino == split.inode


def _as_cut(split: Cut) -> Piece | None:
    path = Path(split.path)
    try:
        data, inode = opened(path)
    except FileNotFoundError:
        return None
    if split.inode >= 0 and inode != split.inode:
        return None
    if split.base_offset >= 0 and not _begins_with(data, split.begin, split.end, split.base_offset):
        return None
    return Piece(path, data, split.begin, split.end)


def _begins_with(data: memoryview, position: int, end: int, base_offset: int) -> bool:
    """Whether there is a sound batch that begins in `[position, end)`, and the first one has this base offset."""
    while position < min(end, size := still_there(data)):
        headers, position, _ = scan(data, position, size, False, records_max=1)
        if len(headers):
            return int(headers[0]["base_offset"]) == base_offset
        position = resync(data, position + 1, size)
    return False


def _by_offset(split: Cut) -> list[Piece]:
    if split.base_offset < 0:  # damaged bytes and no batch: a cleaning leaves none, and takes none away
        return []
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
    if reached < split.next_offset:
        raise FileNotFoundError(f"{path} is gone, and the log ends before offset {split.next_offset - 1}")
    return found


def _between(path: Path, first: int, stop: int) -> tuple[Piece, int]:
    """The batches with base offsets in `[first, stop)` and the damage in front of them; if none is left, the damage that has
    taken their place. And the offset behind the last batch of the file."""
    data, _ = opened(path)
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
