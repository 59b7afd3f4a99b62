"""Offsets by time: the answers to ListOffsets (KIP-734 for the largest timestamp).

Special timestamps are answered at once. For a real timestamp, and for the largest one, batches must be read and perhaps
decompressed. So the answer is a job for a thread, in slices. The job works on the segments as they were when it was
made, and holds only a piece of a batch at a time. Records that cannot be decompressed are skipped: no client can read
them either, and one such batch must not make all searches fail.
"""

from typing import NamedTuple

from actors.broker.log.history import Columns, pieces
from actors.broker.log.segment import Segment
from actors.broker.log.slices import BATCH_COST, Step, Steps, cost
from fastpath.records import compression
from fastpath.records.batch import HEADER_SIZE, OUTPUT_BYTES_MAX, header
from fastpath.records.indexes import SegmentIndex
from fastpath.records.record_stream import Walk

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
CODEC, APPEND_TIME = 0x07, 0x08
NEVER_MS = (1 << 63) - 1
NO_TIME = -1


class TimeOffset(NamedTuple):
    """An offset, its timestamp (-1 for the ends of the log) and its leader epoch (-1 unknown)."""

    offset: int
    timestamp: int
    epoch: int


class TimeSearch(NamedTuple):
    """The search for the first record at or after `timestamp`, or with MAX_TIMESTAMP the first that has the largest."""

    segments: tuple[Segment, ...]
    timestamp: int
    lower_offset: int
    upper_offset: int

    def __call__(self) -> TimeOffset | None:
        """Run all steps at once."""
        steps = self.steps()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: TimeOffset | None = end.value
                return found

    def steps(self) -> Steps[TimeOffset | None]:
        """The steps of the search. Result None: there is no such record in `[lower_offset, upper_offset)`. Raises
        DiskFailed, CorruptBatch."""
        found = yield from self._largest() if self.timestamp == MAX_TIMESTAMP else self._first()
        return found if found is not None and found.offset < self.upper_offset else None

    def _first(self) -> Steps[TimeOffset | None]:
        for segment in self.segments:
            if (yield from _time(segment)) >= self.timestamp:
                found = yield from self._search(segment, _index(segment), self.timestamp)
                if found is not None:
                    return found
        return None

    def _largest(self) -> Steps[TimeOffset | None]:
        """Find the largest timestamp. The index may name the time of a record that is deleted or cannot be read. Then
        the segment's batches are searched. Records without a time are below all others, and the first of them is found
        if there are no others."""
        largest = dict[int, int]()
        for place, segment in enumerate(self.segments):
            largest[place] = yield from _time(segment)
        exact: set[int] = set()
        while largest:
            best = max(largest, key=lambda place: (largest[place], -place))
            segment, time = self.segments[best], largest[best]
            index = _index(segment)
            found = yield from self._search(segment, index, time)
            if found is not None:
                return found
            if time == NO_TIME or best in exact:
                del largest[best]
            else:
                largest[best] = yield from self._largest_left(segment, index)
                exact.add(best)
        return None

    def _largest_left(self, segment: Segment, index: SegmentIndex) -> Steps[int]:
        """The largest timestamp of the records that are not deleted and can be read; -1: none."""
        largest = -1
        for data, found in pieces(segment, segment.near(self.lower_offset, index, cold=True) or 0):
            yield Step(len(data), len(data))
            times = found["max_timestamp"]
            for row in times.argsort(kind="stable")[::-1]:
                if times[row] <= largest:
                    break
                if found["last_offset"][row] >= self.lower_offset:
                    walk = yield from self._walk(data, found, int(row), NEVER_MS)
                    largest = max(largest, walk.latest)
        return largest

    def _search(self, segment: Segment, index: SegmentIndex, timestamp: int) -> Steps[TimeOffset | None]:
        offset = max(segment.search_from(timestamp, index), self.lower_offset)
        for data, found in pieces(segment, segment.near(offset, index, cold=True) or 0):
            yield Step(len(data), len(data))
            late = (found["max_timestamp"] >= timestamp) & (found["last_offset"] >= self.lower_offset)
            for row in late.nonzero()[0]:
                walk = yield from self._walk(data, found, int(row), timestamp)
                if walk.found is not None:
                    first = int(found["base_offset"][row]) + walk.found.offset_delta
                    return TimeOffset(first, walk.found.timestamp, int(found["epoch"][row]))
        return None

    def _walk(self, data: memoryview, found: Columns, row: int, from_ms: int) -> Steps[Walk]:
        """Read the records of one batch, up to the first at or after `from_ms`, or to the first invalid one."""
        position = int(found["position"][row])
        head = header(data, position)
        walk = Walk(
            head.count,
            head.last_offset_delta,
            head.base_timestamp,
            strict=False,
            append_time_ms=head.max_timestamp if head.attributes & APPEND_TIME else None,
            from_ms=from_ms,
            from_delta=max(0, self.lower_offset - head.base_offset),
        )
        body, codec = data[position + HEADER_SIZE : position + head.size], head.attributes & CODEC
        if not codec:
            walk.feed(body)
            yield Step(BATCH_COST + len(body), len(data))
            return walk
        held = len(data) + compression.held_bytes(codec, body)
        yield Step(BATCH_COST, len(data))
        try:
            for piece in compression.pieces(codec, body, OUTPUT_BYTES_MAX):
                if walk.feed(piece) is not None or walk.found is not None:
                    break
                yield Step(cost(codec, len(piece)), held)
        except compression.CompressionError:
            pass
        return walk


def _time(segment: Segment) -> Steps[int]:
    """The largest timestamp of a segment; -1: it has none. A log may have thousands of segments, and that of each has to be
    read once."""
    known = segment.max_timestamp()
    if known is None:
        known = segment.max_timestamp(cold=True)
        yield Step(BATCH_COST, 0)
    return NO_TIME if known is None else known


def _index(segment: Segment) -> SegmentIndex:
    index = segment.index or segment.load_index(cold=True)
    assert index is not None
    return index
