"""A cleaned segment takes the place of the segments that it was made from.

This file alone decides in which steps it does, so that a start which finds the log half way brings it to its end or takes
it back (`recovery.py`). The steps are `stand`, `replace` and `name_placed`, with a sync of the directory after each;
`withdraw` takes the first of them back.
"""

from collections.abc import Sequence

from actors.broker.log.log import PartitionLog
from actors.broker.log.segment import CLEANED, FRONT, SWAP, Job, Segment
from actors.ports import Disk


class SegmentsChanged(ValueError):
    """The log was cut, or segments went, while they were being cleaned."""


def stand(log: PartitionLog, old: Sequence[Segment], cleaned: Segment) -> None:
    """Give `cleaned`, which is durable, the name by which a start lets it take the place of the neighbours `old`. Sync
    `names.listing`, then call `replace`.

    Raises SegmentsChanged, also while a flush is to replace an old index of aborted transactions, which would come over
    the new one; DiskFull or DiskFailed: nothing has changed; Torn.
    """
    _place_of(log, old)
    assert log.standing is None, "one segment at a time takes the place of others"
    with log.renaming():
        cleaned.rename(SWAP)
    log.standing = cleaned
    log.names.changes += 1


def replace(log: PartitionLog, old: Sequence[Segment], cleaned: Segment) -> list[Job]:
    """Let `cleaned`, whose name `.swap` is durable, take the place of `old`. Returns jobs that unlink the old files.
    Readers of those go on. Sync `names.listing`, then call `name_placed`.

    A start finds all of the old ones, some, or none, and lets `cleaned` take their place. Raises SegmentsChanged;
    DiskFull or DiskFailed: nothing has changed, and `cleaned` stands there still; Torn.
    """
    place = _place_of(log, old)
    if log.standing is not cleaned:
        raise SegmentsChanged(f"{log.directory} has changed since it was cleaned")
    gone = {segment.base_offset for segment in old[1:]}
    snapshots = [one for one in log.snapshots.offsets[:-1] if one in gone]
    with log.renaming():
        ending = log.names.ending((path for one in old for path in one.paths), FRONT)
        pairs = [pair for one in old for pair in one.leaving(ending)]
        # The snapshots go with them: were `cleaned` part of the log by then, a failure would pass for "not replaced".
        log.names.leave(pairs + log.snapshots.leaving(snapshots))
    for offset in snapshots:
        log.snapshots.offsets.remove(offset)
    for segment in old:
        log.indexes.forget(segment)
        segment.left(ending, close=False)
    log.standing, log.unplaced = None, cleaned
    cleaned.placed = True
    log.segments[place : place + len(old)] = [cleaned]
    log.aborted.replace(old, cleaned)
    log.indexes.touch(cleaned)
    log.hints.clear()
    log.layout += 1
    return log.names.take_unlinks()


def name_placed(log: PartitionLog, cleaned: Segment) -> None:
    """Give `cleaned` the name of a segment, once the old segments' names are gone for good. Raises DiskFull,
    DiskFailed, Torn: it is part of the log under the name that it has."""
    if cleaned.suffix == SWAP:
        with log.renaming():
            cleaned.rename("")
        log.names.changed()


def name_all(log: PartitionLog) -> None:
    """Name the segments to which an earlier rename could not give their names. Raises DiskFull, DiskFailed, Torn."""
    for segment in log.segments:
        name_placed(log, segment)


def remove_unfinished(disk: Disk, directory: str) -> None:
    """Remove what earlier cleanings have written and could not remove. Beside it a start takes a segment that has the place
    of others, and not its own name yet, for one of several that count together or not at all. That is durable when the
    next cleaned segment is. Blocking. Raises DiskFull, DiskFailed."""
    for name in disk.names(directory):
        if name.endswith(CLEANED):
            disk.remove(f"{directory}/{name}")


def withdraw(log: PartitionLog) -> None:
    """Take back the name of a segment that is to take the place of others, also for the next start, and all names that
    have changed in part: the caller is to change the log otherwise, or has given up. Raises DiskFull, DiskFailed, Torn, also
    where the log was torn before: some of the old segments may have gone, so what stands there may be the only copy."""
    log.take_back()
    if log.standing is not None:
        with log.renaming():
            log.standing.rename(CLEANED)
        log.names.changed()
        log.standing = None


def _place_of(log: PartitionLog, old: Sequence[Segment]) -> int:
    bases = [segment.base_offset for segment in log.segments]
    place = bases.index(old[0].base_offset) if old[0].base_offset in bases else 0
    if log.segments[place : place + len(old)] != list(old) or old[-1] is log.active:
        raise SegmentsChanged(f"{log.directory} has other segments than those that were cleaned")
    if any(segment in log.aborted.rebuilt for segment in old):
        raise SegmentsChanged(f"{log.directory} has an index that the next flush replaces")
    return place
