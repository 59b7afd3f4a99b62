"""What the batches of a log say about leader epochs, producers and aborted transactions, read back from their headers.

It is used at the start after an unclean stop, and after a truncation that memory alone cannot follow. It reads large
pieces of the files and looks at columns of headers. Only batches of idempotent producers become objects.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from actors.broker.log.leader_epochs import EpochCache
from actors.broker.log.producers import markers
from actors.broker.log.producers.producers import Producers
from actors.broker.log.producers.transaction_index import Aborted, aborted
from actors.broker.log.segment import NO_LIMIT, SCAN_BYTES, Segment
from fastpath.records.batch import CorruptBatch, columns, headers

Columns = dict[str, np.ndarray[Any, Any]]
Indexed = dict[Segment, list[Aborted]]
"""Aborted transactions by the segment of their marker."""


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
    indexed: Indexed | None = None,
) -> bool:
    """Enter every batch from `offset` on into the given tables; into `epochs` also the batch that holds `offset`.
    Blocking. Returns whether offsets are missing between batches, which is looked at only with `epochs`. `indexed`:
    aborted transactions that become known with `producers` are added. Raises CorruptBatch."""
    behind, gaps = offset, False
    for segment in segments:
        position = segment.index.offsets.lookup(offset)[1] if segment.index is not None else 0
        for data, found in pieces(segment, position):
            if epochs is not None:
                gaps = gaps or _has_gaps(found, offset, behind)
                behind = _learn_epochs(epochs, found, offset, behind)
            if producers is not None and found["producer_id"].max() >= 0:
                entries = learn_producers(producers, data, offset, now_ms)
                if indexed is not None and entries:
                    indexed.setdefault(segment, []).extend(entries)
    return gaps


def _has_gaps(found: Columns, offset: int, behind: int) -> bool:
    wanted = found["last_offset"] >= offset
    base_offset, last_offset = found["base_offset"][wanted], found["last_offset"][wanted]
    return bool(len(base_offset)) and bool(base_offset[0] > behind or (base_offset[1:] > last_offset[:-1] + 1).any())


def _learn_epochs(epochs: EpochCache, found: Columns, offset: int, behind: int) -> int:
    """Enter the leader epochs of batches. `behind`: where the batch before these ends, and where the last one does. An
    epoch may have begun in the gap between two batches of a compacted log: see `PartitionLog._write`."""
    wanted = found["last_offset"] >= offset
    epoch, base_offset, last_offset = (found[name][wanted] for name in ("epoch", "base_offset", "last_offset"))
    if not len(epoch):
        return behind
    for row in np.flatnonzero(np.diff(epoch, prepend=epoch[0] - 1)):
        start = int(last_offset[row - 1]) + 1 if row else behind
        epochs.assign(int(epoch[row]), min(start, int(base_offset[row])))
    return int(last_offset[-1]) + 1


def learn_producers(
    producers: Producers, data: memoryview, offset: int, now_ms: int, upper_offset: int = NO_LIMIT
) -> list[Aborted]:
    """Enter the batches in `data` from the one that holds `offset` on, as far as they end below `upper_offset`; the
    transactions that abort markers among them have ended. A log may begin inside a batch, which counts."""
    found = []
    for header in headers(data):
        if header.producer_id >= 0 and header.last_offset >= offset and header.last_offset < upper_offset:
            marker = markers.read(data, header.position) if header.attributes & markers.CONTROL else None
            ended = producers.append(header, now_ms, marker)
            if ended is not None and marker is not None and not marker.commit:
                found.append(aborted(ended, producers.transactions))
    return found
