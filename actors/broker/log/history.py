"""Leader epochs and producers, read back from the headers of a log's batches.

It is used at the start after an unclean stop, and after a truncation that memory alone cannot follow. It reads large
pieces of the files and looks at columns of headers. Only batches of idempotent producers become objects.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from actors.broker.log.epochs import EpochCache
from actors.broker.log.producers import CONTROL, Producers
from actors.broker.log.segment import NO_LIMIT, SCAN_BYTES, Segment
from fastpath.records.batch import CorruptBatch, columns, headers, records

Columns = dict[str, np.ndarray[Any, Any]]


def pieces(segment: Segment, position: int = 0) -> Iterator[tuple[memoryview, Columns]]:
    """The file from `position`, a batch's begin, in pieces; with the headers of the whole batches in each. Blocking.

    Raises CorruptBatch.
    """
    size = SCAN_BYTES
    while position < segment.size:
        data = segment.log.read_cold(position, min(size, segment.size - position))
        found = columns(data)
        if not len(found["size"]):
            if len(data) < size:
                raise CorruptBatch(0, f"the file ends inside the batch at byte {position}")
            size *= 2
            continue
        yield data, found
        position += int(found["position"][-1] + found["size"][-1])
        size = SCAN_BYTES


def learn(
    segments: Iterable[Segment],
    offset: int,
    epochs: EpochCache | None = None,
    producers: Producers | None = None,
    now_ms: int = -1,
) -> None:
    """Enter every batch from `offset` on into the given tables. `epochs` also gets the batch that contains `offset`.
    Blocking."""
    for segment in segments:
        position = segment.index.offsets.lookup(offset)[1] if segment.index is not None else 0
        for data, found in pieces(segment, position):
            if epochs is not None:
                _learn_epochs(epochs, found, offset)
            if producers is not None and found["producer_id"].max() >= 0:
                learn_producers(producers, data, offset, now_ms)


def _learn_epochs(epochs: EpochCache, found: Columns, offset: int) -> None:
    wanted = found["last_offset"] >= offset
    epoch, base_offset = found["epoch"][wanted], found["base_offset"][wanted]
    if len(epoch):
        for row in np.flatnonzero(np.diff(epoch, prepend=epoch[0] - 1)):
            epochs.assign(int(epoch[row]), int(base_offset[row]))


def learn_producers(
    producers: Producers, data: memoryview, offset: int, now_ms: int, upper_offset: int = NO_LIMIT
) -> None:
    """Enter the batches in `data` that begin at or behind `offset` and end below `upper_offset`."""
    for header in headers(data):
        if header.producer_id >= 0 and header.base_offset >= offset and header.last_offset < upper_offset:
            producers.append(header, now_ms, marker_epoch(data, header.position) if header.attributes & CONTROL else -1)


def marker_epoch(data: memoryview, position: int) -> int:
    """The coordinator epoch in the transaction marker at `position`: value int16 version, int32 epoch. -1: none."""
    for record in records(data, position):
        if record.value is not None and len(record.value) >= 6:
            return int.from_bytes(record.value[2:6], "big", signed=True)
    return -1
