"""A batch whose first offset has rotted, found by the batches on both sides of it.

No checksum covers the first offset of a batch. A start that meets one which does not follow from the batch before it, or
which the batch behind it contradicts, would cut the log there, with all that follows, though every record is sound. So would
a cut that comes upon it where it looks for the end of what stays.
This file alone decides when it is known what the offset was:

1. It differs by one bit from where the batch before ends, or the segment begins.
2. With that offset the batch ends exactly where the next batch begins, or the next segment. So it is none of an older
   history that a power cut has brought back: that would go on from its own offset.
3. The checksums of both batches are right.

Of the last batch of a log nobody can know it: its leader says so (`fetchers.py`).
"""

from bisect import bisect_left

from actors.broker.log.segment import LOG, NO_LIMIT, Segment
from actors.wire import batch_header
from actors.wire.batch_header import BASE_OFFSET
from fastpath.records.batch import HEADER_SIZE, CorruptBatch, verify
from fastpath.records.indexes import SegmentIndex

OFFSETS = ("offset", "stale")
"""The faults of a batch whose first offset may have rotted."""


def mend(segment: Segment, position: int, upper_offset: int, index: SegmentIndex) -> str | None:
    """Put back the first offset of the batch at `position`, where a scan has ended, or of the one before it. Returns a
    sentence; None: it is not known that one of them has rotted. `upper_offset`: where the next segment begins, or NO_LIMIT.
    `index`: of what is in front of `position`, so that little is read. Blocking. Raises DiskFull, DiskFailed."""
    at, end, suspects = _in_front(index, position), segment.base_offset, list[tuple[int, int]]()
    while at < position:
        head = segment.log.read_cold(at, HEADER_SIZE)
        if len(head) < HEADER_SIZE or batch_header.batch_size(head) < HEADER_SIZE:
            return None  # what was durable is not looked at by a start: more than an offset has rotted
        suspects = [(at, end)]
        end, at = batch_header.last_offset(head) + 1, at + batch_header.batch_size(head)
    if at != position:
        return None
    for place, expected in [(position, end), *suspects]:
        claimed = _rotted(segment, place, expected, upper_offset)
        if claimed is not None:
            segment.log.overwrite(place, expected.to_bytes(BASE_OFFSET.stop, "big"))
            return (
                f"a bit had rotted of the first offset of the batch at byte {place} of {segment.path(LOG)}: it is "
                f"{expected} again, and was {claimed}"
            )
    return None


def _in_front(index: SegmentIndex, position: int) -> int:
    """Where a batch begins that has two others behind it in front of `position`; 0: the segment's first one."""
    entries = index.offsets
    place = bisect_left(range(len(entries)), position, key=lambda entry: entries.entry(entry)[1]) - 3
    return entries.entry(place)[1] if place >= 0 else 0


def _rotted(segment: Segment, place: int, expected: int, upper_offset: int) -> int | None:
    """What a batch says of its first offset; None: it is not known that this is `expected`."""
    head = segment.log.read_cold(place, HEADER_SIZE)
    if len(head) < HEADER_SIZE or not HEADER_SIZE <= batch_header.batch_size(head) <= segment.size - place:
        return None
    claimed = batch_header.base_offset(head)
    if ((claimed ^ expected) & 0xFFFF_FFFF_FFFF_FFFF).bit_count() != 1:
        return None
    size = batch_header.batch_size(head)
    data = segment.log.read_cold(place, size)
    behind = segment.log.read_cold(place + size, HEADER_SIZE)
    try:
        mended = verify(expected.to_bytes(BASE_OFFSET.stop, "big") + bytes(data[BASE_OFFSET.stop :]))
        if len(behind) < HEADER_SIZE:
            follows = upper_offset if not behind and upper_offset != NO_LIMIT else -1
        else:
            follows = verify(segment.log.read_cold(place + size, batch_header.batch_size(behind))).base_offset
    except CorruptBatch:
        return None
    return claimed if follows == mended.last_offset + 1 else None
