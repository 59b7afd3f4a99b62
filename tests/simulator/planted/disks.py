"""Mistakes of the kinds that a reading of the store has found where one operation of a disk fails and the process lives on.

Each takes a cure out again. Worlds in which any operation may fail must find it without being told.
"""

from collections.abc import Sequence
from typing import Any

from actors.broker.log.log import PartitionLog
from actors.broker.log.segment import CLEANED, Segment
from actors.node.roles.broker.log.directory_failures import DirectoryFailures
from actors.node.roles.broker.log.log_cleaner import LogCleaner
from actors.node.roles.broker.log.scrubber import Scrubber
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

    def retire(log: PartitionLog, segment: Segment, ending: str) -> None:
        log.segments.remove(segment)
        log.layout += 1
        log.indexes.forget(segment)
        log.aborted.forget(segment)
        log.names.leave(segment.leaving(ending))
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
