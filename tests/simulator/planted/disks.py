"""Mistakes of the kinds that a reading of the store has found where one operation of a disk fails and the process lives on.

Each takes a cure out again. Worlds in which any operation may fail must find it without being told.
"""

from collections.abc import Sequence
from typing import Any

from actors.broker.log.directories.checkpoints import instance_of
from actors.broker.log.directories.directory import Checkpointed, LogDirectory
from actors.broker.log.index_cache import IndexCache
from actors.broker.log.log import PartitionLog
from actors.broker.log.moving import Copy, Move
from actors.broker.log.segment import CLEANED, NO_LIMIT, Segment
from actors.broker.replication import isr_transitions
from actors.node.roles.broker.log.directory_failures import DirectoryFailures
from actors.node.roles.broker.log.log_cleaner import LogCleaner
from actors.node.roles.broker.log.scrubber import Scrubber
from actors.node.roles.broker.replication.delayed_fetch import DelayedFetch
from actors.ports import DiskFailed, DiskFull
from tests.simulator.planted.registry import Patch, instead, mistake

WORLD = "failing disks"


@mistake(WORLD)
def cleaned_copy_of_a_torn_log_loses_its_name() -> Sequence[Patch]:
    """S1 once more: some of the old segments have gone and could not come back, and the cleaner takes the name from the only
    copy of what they had."""

    def end(cleaner: LogCleaner, running: Any) -> None:
        cleaner._running.pop(running.partition, None)
        running.steps.close()
        log, left = running.log, running.cleaning.leftover
        if left is None or cleaner._directories.failed(log.disk) or log.standing is not left:
            return
        try:
            left.rename(CLEANED)
        except (DiskFull, DiskFailed) as error:
            cleaner._directories.job_done(log.disk, error)

    return [instead(LogCleaner, "_end", end)]


@mistake(WORLD)
def segment_leaves_memory_before_its_files_have_left() -> Sequence[Patch]:
    """S2: retention forgets a segment, and then its rename fails."""

    def retire(log: PartitionLog, segments: Sequence[Segment], ending: str, last: Any = None) -> None:
        for segment in segments:
            log.segments.remove(segment)
            log.layout += 1
            log.indexes.forget(segment)
            log.aborted.forget(segment)
        log.names.leave([pair for segment in segments for pair in segment.leaving(ending)], last)
        for segment in segments:
            segment.left(ending)

    return [instead(PartitionLog, "retire", retire)]


@mistake(WORLD)
def failed_sync_is_tried_again() -> Sequence[Patch]:
    """A sync that has failed is believed when it succeeds later: the kernel has forgotten what it could not write."""
    fail = DirectoryFailures.fail

    def forgiving(failures: DirectoryFailures, replicas: Any, disk: Any, error: Exception) -> bool:
        return "sync" in str(error) or fail(failures, replicas, disk, error)

    return [instead(DirectoryFailures, "fail", forgiving)]


@mistake(WORLD)
def all_directories_are_given_up_with_one() -> Sequence[Patch]:
    """A sound disk is blamed with its neighbour."""
    fail = DirectoryFailures.fail

    def all_of_them(failures: DirectoryFailures, replicas: Any, disk: Any, error: Exception) -> bool:
        found = fail(failures, replicas, disk, error)
        for _, other in list(failures._directories.paths()):
            fail(failures, replicas, other, error)
        return found

    return [instead(DirectoryFailures, "fail", all_of_them)]


@mistake(WORLD)
def nothing_at_rest_is_read() -> Sequence[Patch]:
    """What has rotted stays."""
    return [instead(Scrubber, "_rate", lambda scrubber: 0)]


# ---- S4 to S7; what the enumeration of one log finds is in `tests/unit/broker/log/test_failing_disk_planted.py`


@mistake(WORLD)
def checkpoints_of_a_dropped_replica_count_for_its_successor() -> Sequence[Patch]:
    """S4: what the checkpoints say of a replica that has gone is believed of the one that has come back."""
    checkpointed = LogDirectory.checkpointed

    def of_any(directory: LogDirectory, partition: Any, topic_id: bytes, instance: int = 0) -> Checkpointed:
        known = (directory._ids or {}).get(partition, b"")
        mine = instance_of(known) if known[:16] == topic_id else instance
        return checkpointed(directory, partition, topic_id, mine)

    return [instead(LogDirectory, "checkpointed", of_any)]


@mistake(WORLD)
def error_goes_to_the_disk_of_who_called() -> Sequence[Patch]:
    """S5: an index of a dead directory cannot be written to make room in memory, and the sound one that is read from is
    given up."""
    touch = IndexCache.touch

    def blaming(cache: IndexCache, segment: Segment) -> None:
        before = set(cache.failing)
        touch(cache, segment)
        for disk in set(cache.failing) - before:
            error = cache.failing.pop(disk)
            error.disk = segment.disk
            cache.failing[segment.disk] = error

    return [instead(IndexCache, "touch", blaming)]


@mistake(WORLD)
def no_time_is_taken_for_a_time_that_is_not_known() -> Sequence[Patch]:
    """S6: a batch without a time at the beginning of a segment has the time of that segment read again and again, and the
    log is never cleaned."""
    learn = Segment.learn_first_timestamp

    def never(segment: Segment) -> None:
        learn(segment)
        if segment.first_timestamp is not None and segment.first_timestamp < 0:
            segment.first_timestamp = None

    append = Segment.append

    def unknown(segment: Segment, data: Any, first_timestamp: int, now_ms: int) -> int:
        position = append(segment, data, first_timestamp, now_ms)
        if segment.first_timestamp is not None and segment.first_timestamp < 0:
            segment.first_timestamp = None
        return position

    return [instead(Segment, "learn_first_timestamp", never), instead(Segment, "append", unknown)]


@mistake(WORLD)
def slice_of_a_move_is_read_beyond_what_is_known() -> Sequence[Patch]:
    """S7: a leader is elected while a slice is read, the slice has a batch of an epoch that was not known when it was
    asked for, and the move is given up as that of a damaged log."""
    copy = Move._copy

    def to_the_end(move: Move, bytes_max: int) -> Copy:
        found = copy(move, bytes_max)
        read = move.current.cold_read(found.read.offset, found.read.bytes_max, NO_LIMIT)
        return found._replace(read=read)

    return [instead(Move, "_copy", to_the_end)]


@mistake(WORLD)
def age_of_records_without_times_begins_with_each_start() -> Sequence[Patch]:
    """S7: what has no time is as old as its broker."""
    init = Segment.__init__

    def young(segment: Segment, *args: Any, **more: Any) -> None:
        init(segment, *args, **more)
        segment.appended_ms = segment.created_ms

    return [instead(Segment, "__init__", young)]


@mistake(WORLD)
def segment_that_the_cleaner_has_taken_is_called_damaged() -> Sequence[Patch]:
    """S7: a thread reads a segment that a cleaning replaces meanwhile, and finds no file of that name."""
    warming = DelayedFetch._warming

    def slow(look: Any, entry: Any, expired: bool, promised: int) -> Any:
        warmed = warming(look, entry, expired, promised)

        def blaming(result: Any) -> Any:
            return warmed(DiskFailed(str(result)) if isinstance(result, FileNotFoundError) else result)

        return blaming

    return [instead(DelayedFetch, "_warming", slow)]


@mistake(WORLD)
def leader_that_cannot_read_removes_who_lags() -> Sequence[Patch]:
    """Its followers lag because it gives them nothing, and it is left alone with what nobody can read."""
    wanted = isr_transitions.wanted
    return [instead(isr_transitions, "wanted", lambda view, isr: wanted(view._replace(readable=True), isr))]
