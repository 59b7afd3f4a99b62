"""The copies of a log, and which of them is read as the log.

A cluster's directory holds a copy of each log for each of its nodes. This file alone decides which one is read, as a quorum
or a controller would that has to choose the next leader:

1. A copy is newer if its last sound batch has a higher leader epoch. A leader that died may have written more than its
   successor, but no client was told that those records are committed. A checkpoint of metadata counts like the batches
   that it stands for: a node that has fetched one has no other batch yet.
2. If several copies end in the same epoch, the one that reaches the highest offset is the newest. Headers say that. The
   size of a file says nothing: it may hold zeros at its end, or longer batches. A copy with a hole in its last segment,
   as a power cut may leave it, ends there.
3. A copy that ends in a batch that the chosen one does not have is told in a warning, `CopiesDiffer`, with both places: its
   last records were never acknowledged, or were lost in an unclean election. To read that copy, give its node's directory.

Only copies of one log are compared: those of one topic id (`topic_logs.py`), or of the metadata of one cluster.
"""

import warnings
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from actors.replay.logs.files import (
    LOOK_BYTES,
    Headers,
    NothingToRead,
    Partition,
    Segment,
    mapped,
    partitions,
    property_of,
    still_there,
)
from fastpath.records.scan import resync, scan

INDEX_ENTRY = np.dtype([("offset", ">u4"), ("position", ">u4")])
"""An entry of a segment's offset index."""


INDEX_BYTES_MAX = 64 << 20
"""How much of an index is read. A node's index has at most 8 bytes for each 4 KiB of its segment."""


class CopiesDiffer(UserWarning):
    """A copy of a log holds records that the copy that is read does not have."""


class CopyEnd(NamedTuple):
    """Where a copy ends. Ends compare as copies do: the larger one is newer."""

    epoch: int
    """The leader epoch of the last sound batch or the newest checkpoint, -1 if there is none."""
    offset: int
    """The offset after it; without one, the offset at which the log begins."""


def metadata_log(path: str | Path) -> Partition:
    """The one metadata log under a path. If there are several copies, it is the newest. Raises NothingToRead when there
    is none, or when there are logs of several clusters; FileNotFoundError."""
    every = partitions(path)
    found = [one for one in every if one.metadata] or [one for one in every if not one.named]  # copied and renamed
    clusters = {property_of(one, "cluster.id") for one in found} - {None}
    if len({(one.topic, one.number) for one in found if one.named}) == 1 and len(clusters) <= 1:
        return newest(found)
    if len(found) != 1:
        names = ", ".join(str(one.files[0].parent) for one in found[:5])
        raise NothingToRead(
            f"{path} holds {len(found)} metadata logs{': ' + names if names else ''}; give one of them."
        )
    return found[0]


def newest(copies: list[Partition]) -> Partition:
    """The newest of the copies of one log. Warns of those that differ from it."""
    if len(copies) == 1:
        return copies[0]
    ends = {id(copy): end_of(copy) for copy in copies}
    chosen = max(copies, key=lambda copy: (ends[id(copy)], _checkpointed(copy)))
    for copy in copies:
        if copy is not chosen and not _has(chosen, ends[id(chosen)], ends[id(copy)]):
            warnings.warn(_difference(chosen, copy, ends[id(copy)]), CopiesDiffer, stacklevel=2)
    return chosen


def end_of(log: Partition) -> CopyEnd:
    """Where a copy ends: behind its last sound batch, or where a checkpoint ends if that is newer. Damage is skipped; the
    CRC of the last batch is checked."""
    return max(_last_batch(log), *(CopyEnd(one.epoch, one.end_offset) for one in log.checkpoints), CopyEnd(-1, -1))


def _last_batch(log: Partition) -> CopyEnd:
    for segment in reversed(log.segments):
        for headers, data in _from_behind(segment, _hole(segment)):
            for header in headers[::-1]:
                if _sound(data, header):
                    return CopyEnd(int(header["epoch"]), int(header["last_offset"]) + 1)
    return CopyEnd(-1, max(log.segments[0].base_offset, 0) if log.segments else -1)


def _checkpointed(log: Partition) -> int:
    return max((one.end_offset for one in log.checkpoints), default=-1)


def _has(chosen: Partition, end: CopyEnd, other: CopyEnd) -> bool:
    """Whether a log has the last batch of another copy of it, as far as its files tell: a batch of the same epoch at the
    same offset."""
    if other.epoch < 0 or (other.epoch == end.epoch and other.offset <= end.offset):
        return True
    if other.offset > end.offset:
        return False
    last = other.offset - 1
    segments = [one for one in chosen.segments if one.base_offset <= last]
    if not segments:  # retention has deleted it, so it was committed
        return True
    for headers, _ in _headers(segments[-1], 0):
        at = int(np.searchsorted(headers["last_offset"], last))
        if at < len(headers):
            return bool(headers[at]["base_offset"] > last or headers[at]["epoch"] == other.epoch)
    return True


def _difference(chosen: Partition, copy: Partition, end: CopyEnd) -> str:
    return (
        f"{copy.files[0].parent} ends at offset {end.offset} in leader epoch {end.epoch} with records that "
        f"{chosen.files[0].parent} does not have, which a later leader wrote and which is read: nobody was told that they "
        f"are committed, or an unclean election has lost them. To see them, give that node's directory."
    )


def _hole(segment: Segment) -> int:
    """The position in the last segment of a log where bytes that are no batch lie in front of another batch; else the
    size. A power cut may keep a later page and lose an earlier one. A node's next start ends such a log there."""
    data, position = mapped(segment.path), 0
    while segment.next_offset < 0 and position < (stop := still_there(data)):
        _, position, fault = scan(data, position, stop, False, bytes_max=LOOK_BYTES)
        if fault is not None:
            return position if resync(data, position + 1, stop) < stop else len(data)
    return len(data)


def _from_behind(segment: Segment, end: int) -> Iterator[tuple[Headers, memoryview]]:
    """The headers of a segment up to `end`, from its last index entry on, then of the whole segment, if there was no sound
    batch. The last ones come first, LOOK_BYTES of the file at a time, whatever its size."""
    data = mapped(segment.path)
    for start in {_hint(segment.path): None, 0: None}:
        blocks, last = [start], list[Headers]()
        for headers, position in _headers_of(data, start, end):
            if position - blocks[-1] >= LOOK_BYTES:
                blocks.append(position)
                last = []
            last.append(headers)
        if last:
            yield np.concatenate(last), data
        for begin, stop in reversed(list(pairwise(blocks))):
            found = [headers for headers, _ in _headers_of(data, begin, stop)]
            if found:
                yield np.concatenate(found), data


def _headers(segment: Segment, start: int) -> Iterator[tuple[Headers, memoryview]]:
    data = mapped(segment.path)
    for headers, _ in _headers_of(data, start, len(data)):
        yield headers, data


def _headers_of(data: memoryview, position: int, end: int) -> Iterator[tuple[Headers, int]]:
    """Headers of the batches that begin in `[position, end)`, and where the first of each lot begins."""
    while position < end and position < (stop := still_there(data)):
        begin = position
        headers, position, fault = scan(data, position, stop, False, bytes_max=min(LOOK_BYTES, end - position))
        if len(headers):
            yield headers, begin
        position = position if fault is None else resync(data, position + 1, stop)


def _hint(path: Path) -> int:
    """The position in a segment of the last entry of its offset index; 0 if there is none, or it is not that of a batch."""
    try:
        with path.with_suffix(".index").open("rb") as file:
            bytes_ = file.read(INDEX_BYTES_MAX)
    except OSError:
        return 0
    entries = np.frombuffer(bytes_, INDEX_ENTRY, len(bytes_) // INDEX_ENTRY.itemsize)
    position = int(entries["position"].max()) if len(entries) else 0
    data = mapped(path)
    if not position < still_there(data):
        return 0
    headers, _, _ = scan(data, position, still_there(data), True, records_max=1)
    return position if len(headers) else 0


def _sound(data: memoryview, header: np.void) -> bool:
    position, end = int(header["position"]), int(header["position"] + header["size"])
    return end <= still_there(data) and len(scan(data, position, end, True, records_max=1)[0]) == 1


def alike(logs: Iterable[Partition]) -> dict[tuple[str, int], list[Partition]]:
    """(topic, partition) -> all its copies."""
    found: dict[tuple[str, int], list[Partition]] = {}
    for log in logs:
        found.setdefault((log.topic, log.number), []).append(log)
    return found
