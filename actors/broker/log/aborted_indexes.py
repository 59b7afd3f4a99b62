"""Which segments of one log have an index of aborted transactions, and which of these indexes the next flush replaces.

This file alone decides how the indexes follow what becomes of the segments: they are cut, retired or replaced with them, and
an index that is damaged is built again from the log. `aborted_search.py` finds what a reader has to know.
"""

from bisect import insort
from collections.abc import Sequence

from actors.broker.log.aborted_search import built_again
from actors.broker.log.names import Names
from actors.broker.log.producer_snapshots import ProducerSnapshots
from actors.broker.log.producers.transaction_index import TRANSACTION_INDEX, Aborted, CorruptTransactionIndex
from actors.broker.log.segment import Segment
from actors.ports import DiskFull
from fastpath.records.batch import CorruptBatch

Replacements = tuple[tuple[Segment, bytes], ...]
"""Whole indexes that a flush writes."""


class AbortedIndexes:
    """The indexes of one log."""

    __slots__ = ("_all", "_names", "_snapshots", "rebuilt", "segments")

    def __init__(self, segments: Sequence[Segment], names: Names, snapshots: ProducerSnapshots) -> None:
        """The indexes of a log that has none yet. `segments`: all of the log, now and later."""
        self._all = segments
        self._names = names
        self._snapshots = snapshots
        self.segments: list[Segment] = []
        """The segments with abort markers, by base offset: a log without transactions has none."""
        self.rebuilt: list[Segment] = []
        """The segments whose index was damaged; the next flush replaces it."""

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

    def truncate(self, segment: Segment, end_offset: int, log_end_offset: int) -> str | None:
        """Cut the index of the last segment, which was cut to `end_offset`; `log_end_offset`: where the log ended
        before. Returns the damage of the log that this has found; None: none."""
        damage = None
        try:
            segment.aborted.truncate(end_offset, log_end_offset)
        except DiskFull:  # memory is cut: the next flush replaces the file
            if not segment.aborted.in_memory:
                raise
            segment.aborted.rewrite()
            if segment not in self.rebuilt:
                self.rebuilt.append(segment)
        except CorruptTransactionIndex:
            try:
                entries = self.built_again(segment)
            except CorruptBatch as error:
                damage, entries = error.reason, []
            segment.aborted.rebuild(entries)
            if segment not in self.rebuilt:
                self.rebuilt.append(segment)
        return damage

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
                self._names.disk.remove(f"{self._names.directory}/{segment.base_offset:020d}{TRANSACTION_INDEX}")
            elif here is not segment:
                if not here.aborted.in_memory:
                    here.aborted.rebuild(self.built_again(here))
                here.aborted.rewrite()
                if here not in self.rebuilt:
                    self.rebuilt.append(here)
                if here not in self.segments:
                    insort(self.segments, here, key=_base_offset)


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
