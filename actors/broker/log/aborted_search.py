"""The aborted transactions that a reader of committed records has to know of, where they are not in memory, or many.

This file alone decides what becomes of an index that is damaged while the log is open: it is built again from the log, as at
the start (`recovery.py`), and the reader gets what is built. What is built is handed back, so that the next flush replaces
the file.
"""

from collections.abc import Sequence
from typing import NamedTuple

from actors.broker.log.history import Indexed, learn
from actors.broker.log.producers.producers import CorruptSnapshot, Producers
from actors.broker.log.producers.transaction_index import (
    Aborted,
    Candidates,
    CorruptTransactionIndex,
    check,
    encode,
    entries,
    narrowed,
    overlapping,
)
from actors.broker.log.segment import Segment
from actors.ports import Disk


class IndexedSegment(NamedTuple):
    """One segment that has an index."""

    segment: Segment
    end_offset: int
    """The offset behind the last one that the segment may hold."""
    candidates: Candidates | None
    """The entries that were in memory; None: they are in the file."""


class Rebuilt(NamedTuple):
    """An index of aborted transactions that was damaged, as it was built again."""

    segment: Segment
    entries: bytes
    reason: str


class AbortedFound(NamedTuple):
    """The aborted transactions that a search has found. It holds as long as the log has not been cut since, and no
    segments have taken the place of others: an entry of an old one may have lost its marker, and would hide what its
    producer has committed since."""

    generation: int
    layout: int
    offset: int
    upper_offset: int
    found: list[tuple[int, int]]
    """(producer id, first offset) of the aborted transactions with a record in `[offset, upper_offset)`."""
    rebuilt: list[Rebuilt]


class AbortedSearch(NamedTuple):
    """A job for a thread that finds the aborted transactions in a range of offsets. Raises DiskFailed, CorruptBatch;
    FileNotFoundError if a segment went meanwhile."""

    parts: tuple[IndexedSegment, ...]
    segments: tuple[Segment, ...]
    """All segments of the log."""
    snapshots: tuple[tuple[int, str], ...]
    """(offset, path) of the producer snapshots on the disk, rising."""
    disk: Disk
    generation: int
    layout: int
    offset: int
    upper_offset: int

    def __call__(self) -> AbortedFound:
        found: list[tuple[int, int]] = []
        rebuilt: list[Rebuilt] = []
        for segment, end_offset, candidates in self.parts:
            try:
                if candidates is None:
                    candidates = segment.aborted.candidates(self.offset, self.upper_offset, end_offset, cold=True)
            except CorruptTransactionIndex as error:
                data = b"".join(map(encode, built_again(self.disk, self.snapshots, self.segments, segment)))
                rebuilt.append(Rebuilt(segment, data, str(error)))
                candidates = narrowed(data, self.offset, self.upper_offset)
            assert candidates is not None
            found += overlapping(candidates.rows, self.offset, self.upper_offset)
            if candidates.complete:
                break
        return AbortedFound(self.generation, self.layout, self.offset, self.upper_offset, found, rebuilt)


class Content(NamedTuple):
    """The whole index of aborted transactions of one segment."""

    segment: Segment
    end_offset: int
    """The offset behind the last one that the segment may hold."""
    entries: bytes | None
    """The entries that were in memory; None: they are in the file."""


class AllAborted(NamedTuple):
    """The job that reads every entry of a log, in the order of the markers. Raises as AbortedSearch."""

    contents: tuple[Content, ...]
    segments: tuple[Segment, ...]
    """All segments of the log."""
    snapshots: tuple[tuple[int, str], ...]
    disk: Disk

    def __call__(self) -> list[Aborted]:
        found: list[Aborted] = []
        for segment, end_offset, known in self.contents:
            try:
                data = segment.aborted.read(cold=True) if known is None else known
                assert data is not None
                check(data, segment.base_offset, end_offset)
                found += entries(data)
            except CorruptTransactionIndex:
                found += built_again(self.disk, self.snapshots, self.segments, segment)
        return found


def built_again(
    disk: Disk, snapshots: Sequence[tuple[int, str]], segments: Sequence[Segment], segment: Segment
) -> list[Aborted]:
    """The aborted transactions whose marker is in `segment`, from its batches and the producers at its begin. Blocking.

    Raises DiskFailed, CorruptBatch, FileNotFoundError."""
    producers, start = _producers(disk, snapshots, segment.base_offset, segments[0].base_offset)
    before = [one for one in segments if one.base_offset <= segment.base_offset]
    first = max((place for place, one in enumerate(before) if one.base_offset <= start), default=0)
    indexed: Indexed = {}
    learn(before[first:], start, producers=producers, indexed=indexed)
    return indexed.get(segment, [])


def _producers(disk: Disk, snapshots: Sequence[tuple[int, str]], offset: int, begin: int) -> tuple[Producers, int]:
    """(the producers' state of the newest sound snapshot at or below `offset`, the offset of that snapshot). Without
    such a snapshot an empty state, and the offset at which the log begins."""
    for at, path in reversed(snapshots):
        if at > offset:
            continue
        try:
            file = disk.open(path)
        except FileNotFoundError:
            continue
        try:
            return Producers.parse(file.read_cold(0, file.size)), at
        except CorruptSnapshot:
            continue
        finally:
            file.close()
    return Producers(), begin
