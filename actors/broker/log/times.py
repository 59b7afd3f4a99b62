"""Offsets by time: the answers to ListOffsets (KIP-734 for the largest timestamp).

Special timestamps are answered at once. For a real one, and for the largest, batches have to be read and perhaps
decompressed, so the answer is a job for a thread. The job works on the segments as they were when it was made.
"""

from typing import NamedTuple

from actors.broker.log.history import pieces
from actors.broker.log.segment import Segment
from fastpath.batch import records

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
APPEND_TIME = 0x08


class TimeOffset(NamedTuple):
    """An offset, its timestamp (-1 for the ends of the log) and its leader epoch (-1 unknown)."""

    offset: int
    timestamp: int
    epoch: int


class TimeSearch(NamedTuple):
    """The job: the first record at or after `timestamp`, or with MAX_TIMESTAMP the first that has the largest."""

    segments: tuple[Segment, ...]
    timestamp: int
    lower_offset: int
    upper_offset: int

    def __call__(self) -> TimeOffset | None:
        """None: there is no such record in `[lower_offset, upper_offset)`. Raises DiskFailed, CorruptBatch."""
        if self.timestamp == MAX_TIMESTAMP:
            found = self._largest()
        else:
            found = self._first()
        return found if found is not None and found.offset < self.upper_offset else None

    def _largest(self) -> TimeOffset | None:
        best: tuple[int, Segment] | None = None
        for segment in self.segments:
            deleted = segment.base_offset < self.lower_offset
            largest = self._largest_left(segment) if deleted else segment.max_timestamp(cold=True)
            if largest is not None and largest >= 0 and (best is None or largest > best[0]):
                best = largest, segment
        return self._search(best[1], best[0]) if best is not None else None

    def _largest_left(self, segment: Segment) -> int:
        """Of a segment whose first records are deleted; -1: none."""
        whole = segment.max_timestamp(cold=True)
        if whole is not None and self._search(segment, whole) is not None:
            return whole
        index = segment.index or segment.load_index(cold=True)
        assert index is not None
        lower, largest = self.lower_offset, -1
        for data, found in pieces(segment, index.offsets.lookup(lower)[1]):
            largest = max(largest, found["max_timestamp"][found["base_offset"] >= lower].max(initial=-1).item())
            for row in ((found["base_offset"] < lower) & (found["last_offset"] >= lower)).nonzero()[0]:
                for record in records(data, int(found["position"][row])):
                    largest = max(largest, record.timestamp if record.offset >= lower else -1)
        return largest

    def _first(self) -> TimeOffset | None:
        for segment in self.segments:
            largest = segment.max_timestamp(cold=True)
            if largest is not None and largest >= self.timestamp:
                found = self._search(segment, self.timestamp)
                if found is not None:
                    return found
        return None

    def _search(self, segment: Segment, timestamp: int) -> TimeOffset | None:
        index = segment.index or segment.load_index(cold=True)
        assert index is not None
        offset = max(index.times.lookup(timestamp)[1], self.lower_offset)
        for data, found in pieces(segment, index.offsets.lookup(offset)[1]):
            late = (found["max_timestamp"] >= timestamp) & (found["last_offset"] >= self.lower_offset)
            for row in late.nonzero()[0]:
                for record in records(data, int(found["position"][row])):
                    if record.timestamp >= timestamp and record.offset >= self.lower_offset:
                        return TimeOffset(record.offset, record.timestamp, int(found["epoch"][row]))
        return None
