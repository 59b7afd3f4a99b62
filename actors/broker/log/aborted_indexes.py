"""Which segments of one log have an index of aborted transactions, and which of these indexes the next flush replaces.

This file alone decides how the indexes follow what becomes of the segments: they are cut, retired or replaced with them, and
an index that is damaged is built again from the log. `aborted_search.py` finds what a reader has to know.
"""

from bisect import insort
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from actors.broker.log.aborted_search import built_again
from actors.broker.log.names import Names
from actors.broker.log.producer_snapshots import ProducerSnapshots
from actors.broker.log.producers.transaction_index import TRANSACTION_INDEX, Aborted, CorruptTransactionIndex, encode
from actors.broker.log.segment import Segment
from actors.ports import DiskFull
from fastpath.records.batch import CorruptBatch

Replacements = tuple[tuple[Segment, bytes], ...]
"""Whole indexes that a flush writes."""


class Known(NamedTuple):
    """What a cut has to know of the index of a segment besides what is in memory then."""

    content: bytes | None
    """The index, built again from the log, as the file is damaged; None: it is in memory."""
    damage: str | None
    """Why the log does not say it either; None: it does."""


class AbortedIndexes:
    """The indexes of one log."""

    __slots__ = ("_all", "_names", "_overwritten", "_snapshots", "rebuilt", "segments")

    def __init__(self, segments: Sequence[Segment], names: Names, snapshots: ProducerSnapshots) -> None:
        """The indexes of a log that has none yet. `segments`: all of the log, now and later."""
        self._all = segments
        self._names = names
        self._snapshots = snapshots
        self.segments: list[Segment] = []
        """The segments with abort markers, by base offset: a log without transactions has none."""
        self.rebuilt: list[Segment] = []
        """The segments whose index was damaged; the next flush replaces it."""
        self._overwritten: list[Segment] = []
        """The segments whose index a late flush has replaced with that of an earlier segment, to be built again."""

    def append(self, segment: Segment, entry: Aborted) -> None:
        """Enter a marker that has come into the last segment."""
        segment.aborted.append(entry)
        if not self.segments or self.segments[-1] is not segment:
            self.segments.append(segment)

    def forget(self, segment: Segment) -> None:
        """Forget the index of a segment that has left the log."""
        for some in (self.segments, self.rebuilt):
            if segment in some:
                some.remove(segment)

    def replace(self, old: Sequence[Segment], cleaned: Segment) -> None:
        """Note that a segment has taken the place of others."""
        self.segments = [segment for segment in self.segments if segment not in old]
        if cleaned.aborted.exists:
            insort(self.segments, cleaned, key=_base_offset)

    def mend(self, segment: Segment, content: bytes) -> bool:
        """Take `content` as the index of a segment, whose own is damaged. Returns whether the next flush replaces its
        file."""
        if segment not in self.segments or segment in self.rebuilt:
            return False
        segment.aborted.replace(content)
        self.rebuilt.append(segment)
        return True

    def built_again(self, segment: Segment) -> list[Aborted]:
        """The aborted transactions whose marker is in `segment`, as the log says. Blocking. Raises CorruptBatch."""
        return built_again(self._names.disk, self._snapshots.paths(), self._all, segment)

    def know(self, segment: Segment, end_offset: int) -> Known:
        """Have the index of a segment that is to be cut in memory; `end_offset`: where the segment ends. Blocks a little.
        Raises DiskFull, DiskFailed, FileNotFoundError."""
        if not segment.aborted.exists or segment.aborted.in_memory:
            return Known(None, None)
        try:
            segment.aborted.found(end_offset=end_offset, active=True)
        except CorruptTransactionIndex:
            try:
                return Known(b"".join(map(encode, self.built_again(segment))), None)
            except CorruptBatch as error:
                return Known(b"", error.reason)
        return Known(None, None)

    def truncate(self, segment: Segment, end_offset: int, known: Known) -> None:
        """Cut the index of the last segment to `end_offset`. `known`: what `know` said of it. Raises DiskFailed."""
        if known.content is not None:
            segment.aborted.replace(known.content)
            self._replace_file(segment)
        try:
            segment.aborted.truncate(end_offset)
        except DiskFull:  # memory is cut: the next flush replaces the file
            segment.aborted.rewrite()
            self._replace_file(segment)

    def _replace_file(self, segment: Segment) -> None:
        if segment not in self.rebuilt:
            self.rebuilt.append(segment)

    def replacements(self) -> Replacements:
        """The whole indexes that the next flush writes."""
        return tuple((one, content) for one in self.rebuilt if (content := one.aborted.replacement()) is not None)

    def flushed(self, written: Replacements) -> None:
        """Note that a flush has written these indexes."""
        for segment, content in written:
            segment.aborted.replaced(content)
        if self.rebuilt:
            self.rebuilt = [segment for segment in self.rebuilt if segment.aborted.rebuilt]

    def came_late(self, written: Replacements) -> None:
        """Remove, or write again, indexes that a flush has replaced after their segments had gone or been replaced."""
        for segment, _ in written:
            here = next((one for one in self._all if one.base_offset == segment.base_offset), None)
            if here is None:
                self._names.discard(f"{self._names.directory}/{segment.base_offset:020d}{TRANSACTION_INDEX}")
            elif here is not segment and here not in self._overwritten:
                self._overwritten.append(here)
        with suppress(DiskFull):  # the next flush does it
            self.settle()

    def settle(self) -> None:
        """Build the indexes again whose files an earlier segment's have replaced. Raises DiskFull: some are left;
        DiskFailed."""
        while self._overwritten:
            here = self._overwritten[0]
            try:
                if here in self._all and not here.aborted.in_memory:
                    here.aborted.rebuild(self.built_again(here))
            except (CorruptBatch, FileNotFoundError):  # who needs it finds no file, and the damage
                self._names.discard(here.aborted.path)
            else:
                if here in self._all:
                    here.aborted.rewrite()
                    self._replace_file(here)
                    if here not in self.segments:
                        insort(self.segments, here, key=_base_offset)
            del self._overwritten[0]


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
