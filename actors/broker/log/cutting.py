"""What a truncation of a log must read first, as a job for a thread.

A truncation removes batches that the producers' state includes. If memory cannot go back that far, the state is read
again from the newest producer snapshot at or below the new end, and from the batches between. This is at most a
segment, because every roll writes a snapshot. A log of an older version may have no snapshot. Then it is read from its
start, once, and the state at the beginning of the last remaining segment is kept as a snapshot.

This file alone decides how much a truncation may read inside the loop: `INSIDE_BYTES_MAX`. While the job runs the log
stays as it is. It is truncated when the result is there: `PartitionLog.truncate_to`.
"""

from typing import NamedTuple

from actors.broker.log.history import learn_producers, pieces
from actors.broker.log.producers.producers import Producers
from actors.broker.log.producers.transaction_index import CorruptTransactionIndex, check
from actors.broker.log.segment import Segment
from actors.ports import Disk
from fastpath.records.batch import CorruptBatch
from fastpath.records.indexes import SegmentIndex

INSIDE_BYTES_MAX = 256 << 10
"""A truncation that must read more than this is prepared by a job."""


class Prepared(NamedTuple):
    """What the files contain below the new end."""

    producers: Producers
    snapshot: tuple[int, bytes] | None
    """(offset, content) of a producer snapshot for the beginning of the last remaining segment, if there was none."""
    segment_index: SegmentIndex | None
    """Of the cut's segment, where it was not in memory."""
    aborted: bytes | None
    """The segment's index of aborted transactions, where it was not in memory and is sound."""
    damaged: str | None
    """Why the batches could not be read to the end. Then `producers` lacks what follows."""


class Preparation(NamedTuple):
    """The job. Its result is a Prepared. It raises DiskFailed, CorruptSnapshot, or FileNotFoundError when a file was
    removed meanwhile."""

    offset: int
    """The new end of the log."""
    segments: tuple[Segment, ...]
    """The segments from the one that holds `start` to the one that holds `offset`."""
    start: int
    """Offset of the snapshot, or the log's start."""
    position: int
    """The position of a batch in the first segment, at or before `start`."""
    content: bytes | None
    """The content of the snapshot, if it is not on the disk yet."""
    disk: Disk
    path: str | None
    """The path of the snapshot on the disk. None, without `content`: there is no snapshot."""
    generation: int
    end_offset: int
    layout: int
    """All three of the log when the job was made."""

    def __call__(self) -> Prepared:
        producers = self._snapshot()
        last = self.segments[-1]
        kept, damaged = None, None
        try:
            for place, segment in enumerate(self.segments):
                if segment is last and place:
                    kept = segment.base_offset, producers.snapshot()
                for data, found in pieces(segment, 0 if place else self.position):
                    if found["base_offset"][0] >= self.offset:
                        break
                    if found["producer_id"].max() >= 0:
                        learn_producers(producers, data, self.start, -1, self.offset)
        except CorruptBatch as error:
            kept, damaged = None, error.reason
        index = last.load_index(cold=True) if last.index is None else None
        return Prepared(producers, kept, index, self._aborted(last), damaged)

    def _aborted(self, segment: Segment) -> bytes | None:
        index = segment.aborted
        if index.in_memory:
            return None
        try:
            data = index.read(cold=True)
            assert data is not None
            check(data, segment.base_offset, self.end_offset)
        except CorruptTransactionIndex:
            return None
        return bytes(data)

    def _snapshot(self) -> Producers:
        content = self.content
        if content is None and self.path is not None:
            file = self.disk.open(self.path)
            try:
                content = bytes(file.read_cold(0, file.size))
            finally:
                file.close()
        return Producers() if content is None else Producers.parse(content)
