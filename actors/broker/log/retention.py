"""Which segments of a log are deleted, and how: those that are too old, too many, or below the log's start.

This file alone decides about deletion. Rules:

1. Only whole segments are deleted, the oldest first. The first that must stay keeps all after it.
2. A segment is deleted only when every record in it is below the high watermark.
3. Time and size apply only if cleanup.policy names delete. Segments below the log's start are always deleted. A segment
   whose records have no time is as old as its last append.
4. When even the last segment is too old, the log rolls before that one is deleted, so that its end offset is never lost. The
   others go first: on a full disk nothing else makes room for the new file.
   A segment is deleted only in front of one whose file is durable. A power cut could keep that all in front have left, and
   not that the file has come: the log would begin at 0, and give its offsets to other records. So is what else only the
   records said: the producers, whose next batches would be refused, and the leader epochs. Where there is no room for
   that the file has to do.
5. A check deletes no more than `A_CHECK` segments: each takes a few tenths of a millisecond, and a log may have thousands.
6. Files are renamed to `.front.deleted` at once. A job unlinks them, to be run `file.delete.delay.ms` later.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from actors.broker.log.cleaning.replacing import withdraw
from actors.broker.log.log import PartitionLog
from actors.broker.log.segment import FRONT, Job, Segment
from actors.ports import DiskFull

A_CHECK = 64
"""How many segments a check deletes at most."""


class Retained(NamedTuple):
    """The result of a check of one log."""

    deleted: int
    """The number of deleted segments."""
    log_start_offset: int
    jobs: list[Job]
    """Jobs that unlink files; run them `file.delete.delay.ms` later."""
    warm: list[Job]
    """Jobs that read what the check did not have in memory, or sync what has to be durable before the first segment goes
    behind a start: in the loop, one sync for each of thousands of logs would hold it up. Run them now, and check again."""
    behind: list[Segment]
    """Segments whose files have to be durable before what is in front of them goes: sync these, say so to `synced`, and
    check again."""
    more: bool
    """Whether there may be more to delete at once: check again."""


def retain(log: PartitionLog, now_ms: int, high_watermark: int) -> Retained:
    """Delete the segments that the settings say. `now_ms`: wall clock. Raises DiskFull if a new segment finds no
    room."""
    warm: list[Job] = []
    if not log.segments:
        return Retained(0, log.log_start_offset, [], warm, [], False)
    if log.settings.delete:
        count = max(_too_old(log, now_ms, high_watermark, warm), _too_many(log, high_watermark))
    else:
        count = 0
    count = max(count, _below_start(log))
    if count and (job := log.names.doubts()) is not None:
        return Retained(0, log.log_start_offset, [], [*warm, job], [], False)
    before = {segment.base_offset for segment in log.segments}
    jobs, behind = _delete(log, count, now_ms) if count else ([], [])
    deleted = len(before - {segment.base_offset for segment in log.segments})
    return Retained(deleted, log.log_start_offset, jobs, warm, behind, count == A_CHECK)


def synced(behind: Sequence[Segment]) -> None:
    """Note that the files of these segments are durable, as their names are then."""
    for segment in behind:
        segment.is_new = False


def _ends(log: PartitionLog) -> Iterator[tuple[Segment, int]]:
    """The segments that a check may delete, each with the offset after it, oldest first."""
    segments = log.segments[: A_CHECK + 1]
    ends = [segment.base_offset for segment in segments[1:]]
    return zip(segments[:A_CHECK], [*ends, log.log_end_offset], strict=False)


def _leading(log: PartitionLog, goes: Callable[[Segment, int], bool]) -> int:
    count = 0
    for segment, end in _ends(log):
        if not goes(segment, end):
            break
        count += 1
    return count


def _too_old(log: PartitionLog, now_ms: int, high_watermark: int, warm: list[Job]) -> int:
    limit = log.settings.retention_ms
    if limit < 0:
        return 0

    def goes(segment: Segment, end: int) -> bool:
        if end > high_watermark or segment.size == 0:
            return False
        if segment.max_timestamp() is None:
            place = log.segments.index(segment)
            warm.append(partial(_learn_times, log.segments[place:A_CHECK], now_ms, limit))
            return False
        return _is_old(segment, now_ms, limit)

    return _leading(log, goes)


def _is_old(segment: Segment, now_ms: int, limit: int) -> bool:
    newest = segment.max_timestamp()
    return newest is not None and now_ms - (newest if newest >= 0 else segment.appended_ms) > limit


def _learn_times(segments: Sequence[Segment], now_ms: int, limit: int) -> None:
    """Read the times of segments, up to the first that stays: one job and one check for each of thousands that go would be
    as many syncs of their directory. Blocking."""
    for segment in segments:
        segment.max_timestamp(cold=True)
        if not _is_old(segment, now_ms, limit):
            break


def _too_many(log: PartitionLog, high_watermark: int) -> int:
    limit = log.settings.retention_bytes
    if limit < 0:
        return 0
    surplus = log.size - limit

    def goes(segment: Segment, end: int) -> bool:
        nonlocal surplus
        if end > high_watermark or segment.size == 0 or surplus < segment.size:
            return False
        surplus -= segment.size
        return True

    return _leading(log, goes)


def _below_start(log: PartitionLog) -> int:
    return _leading(log, lambda segment, end: end <= log.log_start_offset and segment is not log.active)


def _delete(log: PartitionLog, count: int, now_ms: int) -> tuple[list[Job], list[Segment]]:
    """Delete so many segments, as far as they are in front of a durable one. Returns jobs that unlink, and what has to be
    durable before the rest goes."""
    if count < len(log.segments):
        return _in_front(log, count)
    jobs, behind = _in_front(log, count - 1)
    try:
        log.roll(now_ms)
    except DiskFull:
        if not jobs and not behind:
            raise
        return jobs, behind  # what goes makes room: the next check comes to the last segment
    return jobs, [*behind, *log.segments[-1:]]


def _in_front(log: PartitionLog, count: int) -> tuple[list[Job], list[Segment]]:
    """Delete those of so many segments that are in front of a durable one. Returns the same."""
    place = next((place for place in range(count, 0, -1) if not log.segments[place].is_new), 0)
    behind = log.segments[place + 1 : count + 1]
    return drop_segments(log, place) if place else [], behind


def drop_segments(log: PartitionLog, count: int) -> list[Job]:
    """Remove the oldest `count` segments, but never the last one. Returns jobs that unlink. The log begins after them.
    Raises DiskFull, DiskFailed, Torn: some may have gone, and the log begins after these."""
    assert 0 <= count < len(log.segments)
    withdraw(log)
    for segment in log.segments[:count]:
        log.retire([segment], FRONT)
        _begins_at(log, log.segments[0].base_offset, segment.base_offset)
    return log.names.take_unlinks()


def _begins_at(log: PartitionLog, base_offset: int, gone: int) -> None:
    log.hints.clear()
    log.log_start_offset = max(log.log_start_offset, base_offset)
    log.epochs.truncate_start(log.log_start_offset)
    log.snapshots.retire([offset for offset in log.snapshots.offsets[:-1] if offset <= gone])
