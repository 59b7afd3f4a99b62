"""The log cleaner of a broker: which log is cleaned when, how fast, and what becomes of a cleaning that fails.

`broker/log/cleaning/cleanable.py` says what of a log is dirty, `broker/log/cleaning/cleaner.py` how one is cleaned.
This file alone decides the rest. Rules:

1. At most log.cleaner.threads logs are cleaned at once, the dirtiest first. When none is dirty enough the next look comes
   after log.cleaner.backoff.ms.
2. A slice of a cleaning is a job outside the loop. Between two of them the settings are read anew, and the cleaning waits
   as long as log.cleaner.io.max.bytes.per.second wants. All cleanings share these bytes.
3. A cleaning ends at once, and leaves the log as it is, when the partition is gone, offline or no longer compacted, when its
   log was cut or segments of it went, or when the cleaner is switched off. A replica that is moved to another directory is
   not cleaned.
4. A log that is damaged, or cannot be cleaned for another reason that will not pass, is set aside until this process ends or
   the replica is in another directory: one line says so, and a gauge. A full disk passes: the log is tried again later.
5. The log is clean only once the names of all its new segments are on the disk.
6. What a cleaning leaves that ends early is unlinked only when a start would not use it: when its name `.swap` has been
   taken back, and that is on the disk. Where that cannot be done now the log does it before it changes otherwise.
"""

from collections.abc import Generator, Iterable
from functools import partial as bound
from typing import NamedTuple

from actors.broker.log.cleaning.cleanable import Cleanable, cleanable, due
from actors.broker.log.cleaning.cleaner import (
    Cleaned,
    CleaningLimits,
    CleaningSlice,
    DamagedSegment,
    Durable,
    Effect,
    LogCleaning,
)
from actors.broker.log.cleaning.replacing import SegmentsChanged, withdraw
from actors.broker.log.log import PartitionLog
from actors.broker.log.segment import Job, Segment
from actors.broker.replication.partition import Partition
from actors.broker.replication.replicas import Replicas
from actors.node.roles.broker.log.log_manager import LogManager
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.runtime.runtime import Runtime
from actors.ports import Disk, DiskFailed, DiskFull, Now, WorkKind

FAR_MS = 1 << 62
LOOK_MS = 1000
"""How soon a look is repeated that has found logs of which too little was in memory."""


class RunningCleaning(NamedTuple):
    """One cleaning that is under way."""

    partition: Partition
    log: PartitionLog
    cleaning: LogCleaning
    steps: Generator[Effect, object, Cleaned]
    began_ms: int
    """Monotonic time at which the cleaning began."""


class Stats:
    """The numbers of the cleaner that metrics tell."""

    def __init__(self) -> None:
        self.max_dirty_ratio = 0.0
        """The largest share that is dirty, among the logs that could be cleaned, at the last look."""
        self.max_delay_ms = 0
        """The longest time for which max.compaction.lag.ms was over, at the last look, ms."""
        self.cleaned_ms = -1
        """Monotonic time when a cleaning ended last; -1: none has."""
        self.clean_ms = 0
        """How long the last cleaning took, ms."""
        self.recopied_ratio = 0.0
        """The bytes that the last cleaning wrote, as a share of the bytes that it read."""
        self.map_used_ratio = 0.0
        """How full the offset map of the last cleaning was."""


class LogCleaner:
    """All cleanings of a broker."""

    def __init__(self, runtime: Runtime, logs: LogManager, cache: MetadataCache, replicas: Replicas) -> None:
        self._runtime = runtime
        self._logs = logs
        self._directories = logs.directories
        self._futures = logs.futures
        self._cache = cache
        self._replicas = replicas
        self._running: dict[Partition, RunningCleaning] = {}
        self._resting: dict[Partition, int] = {}
        """When a partition whose cleaning has just ended early may be tried again, by partition."""
        self._look_ms = 0
        self._free_ms = 0
        """Monotonic time at which the bytes that were read and written are within the limit again."""
        self.uncleanable: dict[Partition, str] = {}
        """The partitions that are set aside, and why. Invariant: none is being cleaned."""
        self._aside: dict[Partition, PartitionLog] = {}
        """The logs that they had then: in another directory there may be nothing wrong with it."""
        self.stats = Stats()

    # ---- what the broker's turn calls

    def tick(self, now: Now) -> None:
        """Begin the cleanings that are due."""
        if now.mono_ms >= self._look_ms and not self._logs.closing:
            self._look(now)

    def deadline_ms(self) -> int:
        """The monotonic time at which `tick` is due; never while there is nothing that could ever be cleaned."""
        return self._look_ms if self._logs.written.compacted else FAR_MS

    def try_again(self, partition: Partition) -> None:
        """Stop setting a partition aside, since what was damaged of its log has been mended."""
        self.uncleanable.pop(partition, None)

    def uncleanable_in(self, disk: Disk) -> Iterable[Partition]:
        """The partitions of a directory that are set aside."""
        return [one for one in self.uncleanable if one.log.disk is disk and not one.removed]

    # ---- which log

    def _look(self, now: Now) -> None:
        value = self._cache.value
        self._look_ms = now.mono_ms + max(1, value("log.cleaner.backoff.ms"))
        if not value("log.cleaner.enable"):
            return
        found: list[tuple[Partition, Cleanable]] = []
        warm: list[tuple[Disk, Job]] = []
        for partition in self._replicas.written():
            log = partition.log
            if not log.settings.compact or len(log.segments) < 2:
                continue
            # A flush that is to replace an index of aborted transactions would come over the new one.
            if log.aborted.rebuilt:
                continue
            if partition in self._running or partition in self.uncleanable or partition.unreadable:
                continue
            if (
                partition in self._futures.by_partition
                or (partition.topic_id, partition.number) in self._futures.resumed
            ):
                continue
            look = cleanable(log, self._stable(partition), now.wall_ms)
            warm += [(log.disk, job) for job in look.warm]
            if look.cleanable_bytes:
                found.append((partition, look))
        self._aside = {one: log for one, log in self._aside.items() if not one.removed and one.log is log}
        self.uncleanable = {one: why for one, why in self.uncleanable.items() if one in self._aside}
        self._resting = {one: at for one, at in self._resting.items() if at > now.mono_ms and not one.removed}
        self.stats.max_dirty_ratio = max((look.ratio for _, look in found), default=0.0)
        self.stats.max_delay_ms = max((look.delay_ms for _, look in found), default=0)
        for disk, job in warm:
            self._runtime.work(job, bound(self._directories.job_done, disk), WorkKind.CLEANING)
        if warm:
            self._look_ms = min(self._look_ms, now.mono_ms + LOOK_MS)
        found = [one for one in found if due(one[0].log, one[1]) and one[0] not in self._resting]
        found.sort(key=lambda one: one[1].ratio, reverse=True)
        for partition, look in found[: max(0, value("log.cleaner.threads") - len(self._running))]:
            self._begin(partition, look, now)

    @staticmethod
    def _stable(partition: Partition) -> int:
        """The offset above which nothing is cleaned: the log may be cut there, or a transaction aborted."""
        return partition.last_stable_offset

    # ---- one cleaning

    def _begin(self, partition: Partition, look: Cleanable, now: Now) -> None:
        log, seed = partition.log, self._runtime.random.uuid() + self._runtime.random.uuid()
        # A uuid has bits that are always the same: halves of two make a seed that nobody knows.
        seed = bytes(one ^ other for one, other in zip(seed[:16], seed[16:][::-1], strict=True))
        try:
            cleaning = LogCleaning(log, look, self._limits(), seed, now.wall_ms)
        except (MemoryError, ValueError) as error:
            self._rest(partition, f"there is no memory for its keys: {error}")
            return
        running = RunningCleaning(partition, log, cleaning, cleaning.steps(), now.mono_ms)
        self._running[partition] = running
        self._go_on(running, None)

    def _limits(self) -> CleaningLimits:
        value = self._cache.value
        share = value("log.cleaner.dedupe.buffer.size") // max(1, value("log.cleaner.threads"))
        load = max(0.01, value("log.cleaner.io.buffer.load.factor"))
        return CleaningLimits(share, load, value("log.cleaner.io.buffer.size"))

    def _go_on(self, running: RunningCleaning, result: object) -> None:
        if not self._wanted(running):
            self._end(running)
            return
        try:
            if isinstance(result, Exception):
                raise result
            effect = running.steps.send(result)
        except StopIteration as end:
            self._cleaned(running, end.value)
        except SegmentsChanged:
            self._end(running)
        except DiskFull as error:
            self._end(running)
            self._rest(running.partition, f"there is no room for its new segments: {error}")
        except (DiskFailed, FileNotFoundError) as error:
            self._end(running)
            self._directories.job_done(running.log.disk, error)
            self._set_aside(running.partition, str(error))
        except (DamagedSegment, MemoryError, ValueError) as error:
            self._end(running)
            self._set_aside(running.partition, str(error) or repr(error))
        else:
            self._carry_out(running, effect)

    def _wanted(self, running: RunningCleaning) -> bool:
        partition, log = running.partition, running.log
        return not (
            partition.removed
            or partition.log is not log
            or partition in self._futures.by_partition
            or running.cleaning.outdated
            or not log.settings.compact
            or not self._cache.value("log.cleaner.enable")
            or self._logs.closing
            or self._directories.failed(log.disk)
        )

    def _carry_out(self, running: RunningCleaning, effect: Effect) -> None:
        runtime = self._runtime
        if isinstance(effect, CleaningSlice):
            self._spend(effect.bytes)
            begin = bound(runtime.work, effect.job, bound(self._go_on, running), WorkKind.CLEANING)
            if self._free_ms > runtime.now.mono_ms:
                runtime.waiting.timers.at(self._free_ms, begin)
            else:
                begin()
        elif isinstance(effect, Durable):
            runtime.sync(effect.files, [], bound(self._synced, running))
        else:
            self._logs.retired.retire_segments(running.partition, effect.segments, effect.jobs)
            self._go_on(running, None)

    def _synced(self, running: RunningCleaning, result: object) -> None:
        """Go on after a sync, or take the directory offline: a failed sync is final, as that of a flush, since it is
        unknown what of the new segments, or of their names, is lost."""
        if not isinstance(result, DiskFailed):
            self._go_on(running, result)
            return
        self._end(running)
        self._unsynced(running.partition, running.log, result)

    def _unsynced(self, partition: Partition, log: PartitionLog, error: DiskFailed) -> None:
        if not self._logs.failures.fail(self._replicas, log.disk, error):
            self._runtime.stop(1, f"the cleaned segments of {partition!r} cannot be made durable: {error}")

    def _spend(self, size: int) -> None:
        limit = self._cache.value("log.cleaner.io.max.bytes.per.second")
        if limit > 0:
            self._free_ms = max(self._free_ms, self._runtime.now.mono_ms) + int(min(size * 1000 / limit, 60_000))

    def _cleaned(self, running: RunningCleaning, done: Cleaned) -> None:
        now, log, stats = self._runtime.now, running.log, self.stats
        del self._running[running.partition]
        log.cleaned_offset = max(log.cleaned_offset, done.end_offset)
        stats.cleaned_ms, stats.clean_ms = now.mono_ms, now.mono_ms - running.began_ms
        stats.recopied_ratio = done.bytes_written / done.bytes_read if done.bytes_read else 0.0
        stats.map_used_ratio = done.map_keys / done.map_capacity
        self._runtime.log.info(
            f"cleaned {running.partition!r} below {done.end_offset}: kept {done.records_kept} of {done.records_read} "
            f"records, wrote {done.bytes_written} bytes in {stats.clean_ms} ms"
        )
        self._look_ms = now.mono_ms

    def _end(self, running: RunningCleaning) -> None:
        """End a cleaning early, and unlink what it has left. Where names have changed in part only, all is left to the next
        start: what stands in the place of others may be the only copy."""
        if self._running.get(running.partition) is running:
            del self._running[running.partition]
        running.steps.close()
        log, left, retired = running.log, running.cleaning.leftover, running.cleaning.retired
        if retired is not None:
            self._logs.retired.retire_segments(running.partition, retired.segments, retired.jobs)
        if left is not None:
            left.close()  # nobody reads it, and perhaps it has to stay
        if left is None or log.torn is not None or self._logs.closing or self._directories.failed(log.disk):
            return
        try:
            if log.standing is left:
                withdraw(log)
        except (DiskFull, DiskFailed) as error:
            self._directories.job_done(log.disk, error)
        else:
            self._runtime.sync([log.names.listing], [], bound(self._remove, running.partition, log, left))

    def _remove(self, partition: Partition, log: PartitionLog, left: Segment, result: object) -> None:
        """Remove what a cleaning has left: it has no name any more that a start would use, also after a power cut."""
        disk = log.disk
        if isinstance(result, DiskFailed):
            self._unsynced(partition, log, result)
            return
        if isinstance(result, Exception) or self._directories.failed(disk):
            self._directories.job_done(disk, result)
            return
        try:
            job = left.delete()
        except (DiskFull, DiskFailed) as error:
            self._directories.job_done(disk, error)
        else:
            self._logs.retired.unlink(disk, [job])

    def _rest(self, partition: Partition, why: str) -> None:
        """Try a partition again after a while."""
        self._resting[partition] = self._runtime.now.mono_ms + max(LOOK_MS, self._cache.value("log.cleaner.backoff.ms"))
        self._runtime.log.warning(f"{partition!r} is not cleaned for a while: {why}")

    def _set_aside(self, partition: Partition, why: str) -> None:
        if not partition.removed and partition not in self.uncleanable:
            self.uncleanable[partition], self._aside[partition] = why, partition.log
            self._runtime.log.error(f"{partition!r} cannot be cleaned and grows from now on: {why}")
