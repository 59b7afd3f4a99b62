"""Making the logs of a broker durable.

This file alone decides what goes with a flush and what its end means. Rules:

1. The logs of one directory are flushed together, each by itself beside the others, and those of one directory do not wait
   for another's.
2. With a log that was cut go the checkpoints, behind it: the old recovery point may be one that the log reaches again.
3. On a full disk a flush waits for room. A log that has moved to another directory meanwhile is durable there: it took the
   place when it was.
4. A directory that fails in a flush goes offline, and the flush of the others counts.
"""

from collections.abc import Callable, Iterable
from typing import Any

from actors.broker.replication.partition import Partition
from actors.broker.replication.replicas import Replicas
from actors.node.roles.broker.log.directory_failures import DirectoryFailures
from actors.node.roles.broker.log.log_directories import LogDirectories
from actors.node.roles.broker.log.offset_checkpoints import OffsetCheckpoints
from actors.node.runtime.runtime import Runtime
from actors.ports import Disk, DiskFailed, DiskFull, Run
from fastpath.meters.spread import Spread

NS_SHIFT = 6
AGAIN_MS = 1000
"""How soon a flush that found no room is tried again."""


def by_directory(partitions: Iterable[Partition]) -> Iterable[list[Partition]]:
    """The partitions whose logs are in one directory, for each directory: none has to wait for another."""
    disks: dict[Disk, list[Partition]] = {}
    for partition in partitions:
        disks.setdefault(partition.log.disk, []).append(partition)
    return disks.values()


class Flushes:
    """All flushes of a broker's current logs."""

    def __init__(
        self,
        runtime: Runtime,
        directories: LogDirectories,
        failures: DirectoryFailures,
        checkpoints: OffsetCheckpoints,
    ) -> None:
        self._runtime = runtime
        self._directories = directories
        self._failures = failures
        self._checkpoints = checkpoints
        self.spent = Spread(NS_SHIFT)
        """How long flushes took, in ns."""

    def flush(
        self,
        replicas: Replicas,
        partitions: list[Partition],
        then: Callable[[Any], None],
        waits: Callable[[list[Partition]], None] = lambda partitions: None,
    ) -> None:
        """Make logs durable as they are now, except the logs of removed partitions. `then(None)` or `then(DiskFailed)`
        is called at the end, `waits` each time that some find no room."""
        directories = {here[0].log.disk: here for here in by_directory(one for one in partitions if not one.removed)}
        if not directories:
            self._runtime.sync([], [], then)
            return
        waiting = set(directories)

        def over(disk: Disk, result: object) -> None:
            waiting.discard(disk)
            if result is not None or not waiting:
                then(result)

        for disk, here in directories.items():
            self._flush_one(replicas, disk, here, over, waits)

    def _flush_one(
        self,
        replicas: Replicas,
        disk: Disk,
        partitions: list[Partition],
        then: Callable[[Disk, Any], None],
        waits: Callable[[list[Partition]], None],
    ) -> None:
        """Flush the logs of one directory. `then(disk, None)` is called at the end, also if it has gone offline."""

        def wait(full: DiskFull) -> None:
            self._directories.refused(disk, full)
            again_ms = self._runtime.now.mono_ms + AGAIN_MS
            self._runtime.waiting.timers.at(again_ms, lambda: self._flush_one(replicas, disk, partitions, then, waits))
            waits(partitions)

        flushes = []
        try:
            for log in [one.log for one in partitions if not one.removed and one.log.disk is disk]:
                flushes.append((log, log.flush(self._runtime.now.mono_ms)))
        except DiskFull as error:
            wait(error)
            return
        except DiskFailed as error:
            then(disk, None if self._failures.fail(replicas, disk, error) else error)
            return
        behind = []
        if any(flush.cut for _, flush in flushes):
            behind = self._checkpoints.behind_a_cut(replicas, disk)

        began_ns = self._runtime.stopwatch()

        def done(result: object) -> None:
            at_ns = self._runtime.stopwatch()
            self.spent.add(at_ns - began_ns, at_ns)
            if isinstance(result, DiskFull):
                self._checkpoints.forget()
                wait(result)
                return
            if isinstance(result, DiskFailed) and self._failures.fail(replicas, disk, result):
                result = None
            elif not isinstance(result, Exception):
                try:
                    for log, flush in flushes:
                        log.flushed(flush)
                except DiskFailed as error:  # what came late behind a cut cannot be removed
                    result = None if self._failures.fail(replicas, disk, error) else error
            then(disk, result)

        self._runtime.sync([], behind, done, runs=[Run(flush.files, flush.replacements) for _, flush in flushes])
