"""What the batches of a log say about leader epochs, producers and aborted transactions, read back from their headers.

It is used at the start after an unclean stop, and after a truncation that memory alone cannot follow. It reads large
pieces of the files and looks at columns of headers. Only batches of idempotent producers become objects.

Leader epochs never fall in a log. Where they do, a bit of one has rotted, which no checksum covers, or a power cut has
brought back the end of an older history. The batches that say too much or too little are the fewer ones: they are left out,
so that the table says what the others say, and scrubbing finds those and puts them back as another replica has them. One
between two epochs is of the one that it differs from by a bit. Otherwise, or where that may be either, it is of the later
one: a follower must not take a batch of its own, which is of the earlier one, for the leader's.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from actors.broker.log.leader_epochs import UNDEFINED_EPOCH, EpochCache
from actors.broker.log.producers import markers
from actors.broker.log.producers.producers import Producers
from actors.broker.log.producers.transaction_index import Aborted, aborted
from actors.broker.log.segment import NO_LIMIT, SCAN_BYTES, Segment
from fastpath.records.batch import CorruptBatch, columns, headers

Columns = dict[str, np.ndarray[Any, Any]]
Indexed = dict[Segment, list[Aborted]]
"""Aborted transactions by the segment of their marker."""
KNOWN_BATCHES = 2
"""How many batches the last entry of a table that was read from its file counts for."""
RUNS_MAX = 2_000
"""In how many runs it is looked for the ones that do not fit: the time grows with the square."""


class Run(NamedTuple):
    """Batches of one leader epoch, one behind the other."""

    epoch: int
    start: int
    """The offset at which the epoch may have begun: behind the batch before."""
    batches: int


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
    behind, gaps, runs = offset, False, list[Run]()
    try:
        for segment in segments:
            position = (segment.near(offset, segment.index, cold=True) or 0) if segment.index is not None else 0
            for data, found in pieces(segment, position):
                if epochs is not None:
                    gaps = gaps or _has_gaps(found, offset, behind)
                    behind = _collect_epochs(runs, found, offset, behind)
                if producers is not None and found["producer_id"].max() >= 0:
                    entries = learn_producers(producers, data, offset, now_ms)
                    if indexed is not None and entries:
                        indexed.setdefault(segment, []).extend(entries)
    finally:
        if epochs is not None:
            _enter(epochs, runs)
    return gaps


def _has_gaps(found: Columns, offset: int, behind: int) -> bool:
    wanted = found["last_offset"] >= offset
    base_offset, last_offset = found["base_offset"][wanted], found["last_offset"][wanted]
    return bool(len(base_offset)) and bool(base_offset[0] > behind or (base_offset[1:] > last_offset[:-1] + 1).any())


def _collect_epochs(runs: list[Run], found: Columns, offset: int, behind: int) -> int:
    """Add the leader epochs of batches. `behind`: where the batch before these ends, and where the last one does. An
    epoch may have begun in the gap between two batches of a compacted log: see `PartitionLog._write`."""
    wanted = found["last_offset"] >= offset
    epoch, base_offset, last_offset = (found[name][wanted] for name in ("epoch", "base_offset", "last_offset"))
    if not len(epoch):
        return behind
    rows = np.flatnonzero(np.diff(epoch, prepend=~epoch[0]))
    for row, end in zip(rows, [*rows[1:], len(epoch)], strict=True):
        if runs and runs[-1].epoch == epoch[row]:
            runs[-1] = runs[-1]._replace(batches=runs[-1].batches + int(end - row))
            continue
        start = int(last_offset[row - 1]) + 1 if row else behind
        runs.append(Run(int(epoch[row]), min(start, int(base_offset[row])), int(end - row)))
    return int(last_offset[-1]) + 1


def _enter(epochs: EpochCache, runs: list[Run]) -> None:
    """Enter what batches say into the table, behind what it says already."""
    if epochs.latest >= 0:
        runs = [Run(epochs.latest, -1, KNOWN_BATCHES), *runs]
    before = -1
    for place in _fitting(runs):
        run, start = runs[place], runs[place].start
        if start < 0:
            before = place
            continue
        for left_out in reversed(runs[before + 1 : place]):
            if left_out.start < 0 or left_out.epoch == UNDEFINED_EPOCH:
                break
            if before >= 0 and _rotted(left_out, runs[before].epoch) and not _rotted(left_out, run.epoch):
                break
            start = left_out.start
        epochs.assign(run.epoch, start)
        before = place


def _rotted(run: Run, epoch: int) -> bool:
    """Whether these may be batches of an epoch of which one bit has rotted."""
    return run.batches == 1 and ((run.epoch ^ epoch) & 0xFFFF_FFFF).bit_count() == 1


def _fitting(runs: list[Run]) -> list[int]:
    """The places of the runs whose epochs do not fall, with the most batches. One below 0 is no epoch."""
    places = [place for place, run in enumerate(runs) if run.epoch >= 0]
    said = [runs[place] for place in places]
    if all(before.epoch <= run.epoch for before, run in pairwise(said)) or len(said) > RUNS_MAX:
        return places
    epoch, most = np.array([run.epoch for run in said]), np.array([run.batches for run in said])
    before = np.full(len(said), -1)
    for place in range(1, len(said)):
        below = np.flatnonzero(epoch[:place] <= epoch[place])
        if len(below):
            before[place] = below[-1 - int(np.argmax(most[below][::-1]))]
            most[place] += most[before[place]]
    place, found = len(said) - 1 - int(np.argmax(most[::-1])), list[int]()
    while place >= 0:
        found.append(places[place])
        place = int(before[place])
    return found[::-1]


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
