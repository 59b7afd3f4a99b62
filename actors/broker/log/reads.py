"""Reads of a log that may wait for the disk, and what a read gives.

This file alone decides how a read goes on in the next segment, and that the end of a segment behind which offsets may be
missing is no damage only where the segment was read to its last byte.
"""

from collections.abc import Sequence
from typing import NamedTuple

from actors.broker.log.segment import Chunk, Segment
from actors.wire.batch_header import COUNT
from fastpath.records.batch import HEADER_SIZE, CorruptBatch, headers


class Read(NamedTuple):
    """The result of a read: whole batches, byte for byte as in the file."""

    data: memoryview
    next_offset: int
    """The offset after the last batch; the requested offset when `data` is empty."""


class ColdRead(NamedTuple):
    """A read that may wait for the disk: a job for a thread."""

    segments: tuple[Segment, ...]
    offset: int
    bytes_max: int
    upper_offset: int
    at_least_one: bool
    pass_empty: bool
    sparse: bool

    def __call__(self) -> Read:
        last = Read(memoryview(b""), self.offset)
        for place, segment in enumerate(self.segments):
            while True:
                chunk = segment.read(last.next_offset, self.upper_offset, self.bytes_max, self.at_least_one, cold=True)
                assert chunk is not None
                if not (self.pass_empty and only_empty(chunk.data)):
                    break
                last = Read(chunk.data, chunk.next_offset)
            if chunk.data:
                return Read(chunk.data, chunk.next_offset)
            if chunk.no_room:
                break
            if self.sparse:
                check_end(self.segments[place : place + 2], chunk, self.upper_offset)
        return last


def check_end(segments: Sequence[Segment], chunk: Chunk, upper_offset: int) -> None:
    """Check the end of a segment at which a read goes on in the next one: where offsets may be missing, nothing else
    tells damage from a gap. Raises CorruptBatch."""
    if len(segments) == 2 and segments[1].base_offset <= upper_offset and chunk.stop < segments[0].size:
        raise CorruptBatch(chunk.stop, f"the segment of offset {segments[0].base_offset} has no whole batch there")


def only_empty(data: memoryview) -> bool:
    """Whether there are batches, and no record in any of them. Raises CorruptBatch."""
    if len(data) < HEADER_SIZE or any(data[COUNT]):  # the first batch's count: nearly always the answer
        return False
    return not any(header.count for header in headers(data))
