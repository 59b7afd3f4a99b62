"""The broker's directories: opening and dropping partition logs, flushing, retention, the clean stop.

This file alone decides when a log is flushed, when a checkpoint is written and which directory a new partition gets. Rules:

1. Everything that is on the disk is opened when metadata assigns it; a directory of another topic id of the same name is
   renamed away and unlinked later. So is one whose replica was deleted or moved to other brokers: what comes under that
   name next, be it the same partition, begins in a directory of its own.
2. A clean stop is marked only after the last flush of every log, and the mark is taken away at the next start. A directory
   with a log that the start found damaged, that a crash has left and nobody has claimed since, or that was left half moved,
   gets none: the next start has to look again.
3. Unlinking waits `file.delete.delay.ms` and runs in a thread.
4. A directory whose device fails goes offline, and its replicas with it; the broker goes on with the others. It ends where
   no other is left, or where the metadata log is in it. A replica whose files are removed while the broker runs goes
   offline by itself. One that a start should find and does not find never begins again empty as a member of the ISR.
5. A partition is in one directory. Of two that say the same topic id and the same move the one counts that has arrived.
   Without that nobody can tell: the node stops, as Apache Kafka does, and removes neither.
6. A future log that the start finds beside its replica is filled on. Where the replica has no files any more, and would
   begin empty, it begins with the future log.
"""

import errno
import itertools
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from typing import Any

from actors.broker.log import retention
from actors.broker.log.directories.checkpoints import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    SCRUBBED,
    TOPIC_IDS,
)
from actors.broker.log.directories.directory import (
    ARRIVED,
    FUTURE,
    LEAVING,
    STRAY,
    LogDirectory,
    PartitionDirectory,
    Replacement,
    partition_name,
    read_move,
    retired_name,
)
from actors.broker.log.directories.disk_full import FullDisks
from actors.broker.log.directories.losses import DIRECTORY_IDS
from actors.broker.log.directories.renames import Torn
from actors.broker.log.indexes import IndexCache
from actors.broker.log.log import PartitionLog
from actors.broker.log.recovery import Recovered, recover
from actors.broker.log.segment import Job, Segment
from actors.broker.replication.partition import Partition
from actors.broker.replication.replicas import Offline, Replicas
from actors.node.roles.broker.log.offset_checkpoints import OffsetCheckpoints
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.storage import Storage
from actors.ports import Disk, DiskFailed, DiskFull, Now
from actors.settings.topics import TopicSettings

DEVICE_ERRORS = frozenset((errno.EIO, errno.EROFS, errno.ENODEV, errno.ENXIO, errno.ENOTDIR, errno.ESTALE))
"""Why a job in a directory takes it offline; that a name is in use, say, does not."""
OF_ALL = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANED_OFFSETS, TOPIC_IDS, DIRECTORY_IDS, SCRUBBED)
WRITTEN_ANYWHERE = frozenset(name + end for name in OF_ALL for end in ("", ".tmp"))
"""Files that this process makes in a log directory whatever is in it."""
META = "meta.properties"
"""What a directory holds that was formatted (`host/storage.py`). No running process writes it."""
FLUSH_NEVER_MS = 1 << 62
LOOKS = 256
"""Replicas whose files are looked for at each checkpoint, in turn."""


class BrokerStorage:
    """All log directories of a broker."""

    def __init__(self, runtime: Runtime, storage: Storage, cache: MetadataCache) -> None:
        self._runtime = runtime
        self._storage = storage
        self._cache = cache
        value = runtime.config.value
        self.directory_ids: list[bytes] = []
        """16 bytes each, of the directories that hold partitions."""
        self._directories: list[LogDirectory] = []
        self._paths: list[str] = []
        self.unclaimed: dict[tuple[str, int], list[tuple[LogDirectory, PartitionDirectory]]] = {}
        """What the start found and no metadata has claimed yet. Invariant: no list is empty, none has one topic id twice."""
        self.found_futures: dict[tuple[str, int], list[tuple[LogDirectory, PartitionDirectory]]] = {}
        """Future logs that the start found and nobody has claimed yet."""
        self.unclaimed_settled = False
        """What nobody claims has been retired."""
        self.futures: dict[Partition, PartitionLog] = {}
        """Future logs of replicas that are on their way to another directory."""
        self.resumed: dict[tuple[bytes, int], PartitionLog] = {}
        """By topic id and number: future logs that were opened with their replica, and are to be filled on."""
        self._left_behind: set[Disk] = set()
        """Where a future log was left for the next start. This process does not make it durable any more, so no stop is
        marked clean there: the next start would take it for durable."""
        self.preferred: dict[tuple[bytes, int], Disk] = {}
        """By topic id and number: where a replica is to begin that is not here yet."""
        self.superseded: dict[PartitionLog, Partition] = {}
        """Logs whose place a future log has taken, until its name is on the disk."""
        self.held: dict[Partition, int] = {}
        """Replicas whose flushes wait, at most until that monotonic time: their future log is being made durable."""
        self._indexes = IndexCache()
        self.failing: dict[Disk, DiskFailed] = self._indexes.failing
        """Directories in which a job has failed in this turn, by an error of the device."""
        self.in_use = False
        """Partitions follow the image: they are opened as it assigns them."""
        self.closing = False
        """This process ends: the last flush of its logs begins, or there is none. Nothing is appended any more."""
        self._counts: list[int] = []
        self._retention_interval_ms = value("log.retention.check.interval.ms")
        self._retention_delay_ms = value("log.initial.task.delay.ms")
        self._checkpoint_interval_ms = value("replica.high.watermark.checkpoint.interval.ms")
        self._expiration_interval_ms = value("producer.id.expiration.check.interval.ms")
        self._retention_ms = self._checkpoint_ms = self._expiration_ms = 0
        self._written: dict[Partition, None] = {}
        """Appended to, and perhaps to be flushed."""
        self._full_disks = FullDisks()
        self._failed: set[Disk] = set()
        """Directories that are offline."""
        self._formatted: set[Disk] = set()
        """Directories that had META at the start: without it they are not there any more."""
        self._unopened: set[Disk] = set()
        """Directories with a log that could not be opened: nobody knows whether it is whole."""
        self._offsets: OffsetCheckpoints
        self._looked = 0
        """Replicas that have been looked for, over and over."""
        self.compacted = False
        """There has been a log that can be cleaned: of a compacted topic, with a segment that is sealed."""

    # ---- start and stop

    def recover(self) -> int:
        """Read what the last stop left; the broker epoch of a clean stop, -1 after any other."""
        storage, log = self._storage, self._runtime.log
        mine = set(self._runtime.config.log_dirs)
        for disk, path, id in zip(storage.disks, storage.paths, storage.directory_ids, strict=True):
            if path in mine or len(storage.disks) == 1:
                self.directory_ids.append(id)
                self._directories.append(LogDirectory(disk))
                self._paths.append(path)
                with suppress(DiskFull, DiskFailed):  # who needs it next finds out
                    self._formatted.update((disk,) if disk.exists(META) else ())
        self._counts = [0] * len(self._directories)
        self._offsets = OffsetCheckpoints(self._directories, self.directory_ids, self.futures)
        for directory in self._directories:
            for fault in directory.faults:
                log.warning(fault)
            for found in directory.partitions():
                if found.suffix == STRAY:
                    log.warning(f"{found.name} is not used: it does not say whose it was. Remove it if nobody needs it")
                elif found.suffix == FUTURE and found.topic_id is not None:
                    self.found_futures.setdefault((found.topic, found.number), []).append((directory, found))
                elif found.suffix:
                    self._remove(directory.disk, found.name)
                else:
                    self._find(directory, found)
        now_ms = self._runtime.now.mono_ms
        self._retention_ms, self._expiration_ms = (
            now_ms + self._retention_delay_ms,
            now_ms + self._expiration_interval_ms,
        )
        epochs = {directory.broker_epoch for directory in self._directories}
        return epochs.pop() if len(epochs) == 1 else -1

    def close(self, replicas: Replicas, broker_epoch: int, then: Callable[[Any], None]) -> None:
        """The last flush of a clean stop, then the checkpoints and the mark; `then(None)` or `then(DiskFailed)`. Logs that
        this process has never used are as the stop before left them, and only where that was clean they are marked so
        again."""
        if not self.in_use:
            marks = [
                directory.clean_shutdown(directory.broker_epoch) for directory in self._directories if directory.clean
            ]
            if marks:
                self._runtime.sync([], marks, then)
            else:
                then(None)
            return
        every = [one.log for one in replicas]
        logs = [log for log in (*every, *self.futures.values(), *self.resumed.values()) if log.segments]
        try:
            flushes = [(log, log.close()) for log in logs]
        except (DiskFull, DiskFailed) as error:
            self._runtime.log.error(f"no clean stop, the next start will scan the logs: {error}")
            then(None)
            return

        def flushed(result: object) -> None:
            if isinstance(result, Exception):
                then(result)
                return
            for log, flush in flushes:
                log.flushed(flush)
            unsure = {log.disk for log, _ in flushes if log.damaged is not None}
            unclaimed = itertools.chain.from_iterable([*self.unclaimed.values(), *self.found_futures.values()])
            unsure.update(directory.disk for directory, _ in unclaimed if not directory.clean)
            unsure |= self._failed | self._unopened | self._left_behind
            marks = [one.clean_shutdown(broker_epoch) for one in self._directories if one.disk not in unsure]
            self._runtime.sync([], [*self._checkpoints(replicas), *marks], marked)

        def marked(result: object) -> None:
            for log in logs:
                log.release()
            then(result)

        self._runtime.sync(
            [file for _, flush in flushes for file in flush.files],
            [one for _, flush in flushes for one in flush.replacements],
            flushed,
        )

    def begin_use(self) -> None:
        """Partitions follow the image from now on."""
        self.in_use = True

    def begin_close(self) -> None:
        """Nothing is appended any more: this process ends."""
        self.closing = True

    # ---- partitions

    def open(self, topic: str, topic_id: bytes, number: int) -> tuple[PartitionLog, TopicSettings, int] | None:
        """The log of a partition that metadata assigns to this broker, its settings, its checkpointed high watermark. None:
        its files are in a directory that is offline, or cannot be read."""
        settings = self._cache.settings(topic)
        claimed = None
        for place, one in self.unclaimed.pop((topic, number), ()):
            if one.topic_id == topic_id:
                claimed = place, one
            elif place.disk in self._failed:
                continue
            elif one.topic_id is None:
                self._set_aside(place.disk, one)
            else:
                self._retire(place.disk, one.name, topic, number, settings)
        claimed, futures = self._claim_futures(topic, topic_id, number, claimed)
        if claimed is None:
            disk = self._place(topic_id, number)
            log = PartitionLog(
                disk,
                partition_name(topic, number),
                settings,
                topic_id,
                indexes=self._indexes,
                instance=self._next_instance(disk),
            )
            self._count(log.disk, 1)
            return log, settings, 0
        directory, found = claimed
        if directory.disk in self._failed:
            return None
        recovered = self._recover(directory, found, topic_id, settings)
        if recovered is None:
            return None
        log = recovered.log
        if log.damaged is not None:
            self._runtime.log.warning(f"{found.name} is damaged below its recovery point: {log.damaged}")
        self._note_compacted(log)
        known = directory.checkpointed((topic, number), topic_id, found.instance)
        high_watermark = min(max(known.high_watermark, log.log_start_offset), log.log_end_offset)
        if futures and log.damaged is None:
            self._resume(*futures[0], topic_id, settings)
        return log, settings, high_watermark

    def _recover(
        self, directory: LogDirectory, found: PartitionDirectory, topic_id: bytes, settings: TopicSettings
    ) -> Recovered | None:
        """Open a log that the start found; None: it cannot be opened, and its directory fails."""
        known = directory.checkpointed((found.topic, found.number), topic_id, found.instance)
        try:
            recovered = recover(
                directory.disk,
                found.name,
                settings,
                clean=directory.clean,
                recovery_point=known.recovery_point,
                log_start_offset=known.log_start_offset,
                cleaned_offset=known.cleaned_offset,
                topic_id=topic_id,
                now_ms=self._runtime.now.wall_ms,
                indexes=self._indexes,
                instance=found.instance,
            )
        except (DiskFull, DiskFailed) as error:
            self._runtime.log.error(
                f"{found.name} in {self.path(directory.disk)} is offline, it cannot be opened: {error}"
            )
            self._unopened.add(directory.disk)
            self._failing(directory.disk, error)
            return None
        self._count(directory.disk, 1)
        for cut in recovered.cuts:
            self._runtime.log.warning(f"cut {cut.size} bytes of {cut.path} at {cut.position}: {cut.reason}")
        for report in recovered.rebuilt:
            self._runtime.log.warning(report)
        return recovered

    def _place(self, topic_id: bytes, number: int) -> Disk:
        """Where a new replica begins: in the directory that was asked for, else in the one with the fewest."""
        wanted = self.preferred.pop((topic_id, number), None)
        if wanted is not None and wanted not in self._failed:
            return wanted
        online = [index for index, one in enumerate(self._directories) if one.disk not in self._failed]
        return self._directories[min(online, key=lambda index: self._counts[index])].disk

    def lost(self, topic: str, topic_id: bytes, number: int, *, before: bool) -> bool:
        """Whether a replica that metadata assigns has no files though this broker had some. `before`: it was assigned before
        this process began."""
        found = self.unclaimed.get((topic, number), ())
        if any(one.topic_id == topic_id for _, one in found):
            return False
        return self._offsets.lost(topic, topic_id, number, before=before)

    def give_up_lost(self, topic: str, number: int) -> None:
        """What was lost there counts no longer: it is fetched anew, or has no replica here any more."""
        self._offsets.give_up_lost(topic, number)

    def fail(self, replicas: Replicas, disk: Disk, error: Exception) -> bool:
        """A device has failed: its directory and all replicas in it go offline. False: this broker cannot go on without."""
        if disk in self._failed:
            return True
        left = [one for one in self._directories if one.disk not in self._failed and one.disk is not disk]
        if not left or disk is self._storage.disks[0]:
            return False
        self._failed.add(disk)
        for partition in [one for one, future in self.futures.items() if future.disk is disk]:
            self._runtime.log.warning(f"{partition!r} is not moved to {self.path(disk)}, which has failed: it stays")
            self.drop_future(partition, keep=True)
        for current, partition in list(self.superseded.items()):
            if partition.log.disk is disk:
                self.retire_moved(partition, current)
        here = [partition for partition in replicas if partition.log.disk is disk]
        for partition in here:
            self._take_offline(replicas, partition, Offline.FAILED)
        self._runtime.log.error(
            f"log directory {self.path(disk)} is offline with {len(here)} partitions: {error}. Repair or replace the disk "
            f"and start this broker again; the other directories are served"
        )
        return True

    def append_failed(self, replicas: Replicas, partition: Partition, error: DiskFailed) -> None:
        """Nothing can be appended to a partition any more: its directory goes offline, or this broker stops."""
        if not self.fail(replicas, error.disk or partition.log.disk, error):
            self._runtime.stop(1, f"nothing can be appended to {partition!r} any more: {error}")

    def failed(self, disk: Disk) -> bool:
        """Whether a directory is offline."""
        return disk in self._failed

    @property
    def offline_directories(self) -> int:
        """How many are offline."""
        return len(self._failed)

    def _take_offline(self, replicas: Replicas, partition: Partition, why: Offline) -> None:
        self._written.pop(partition, None)
        partition.log.forget_indexes()
        self.drop_future(partition, keep=True)
        replicas.take_offline(partition, why)

    def retire_unclaimed(self, offline: Container[tuple[bytes, int]], *, aside: bool = False) -> None:
        """What the start found and nobody has claimed is of topics that went while this broker was away. Not before the
        partitions follow the image, and it has this process's registration, which lies behind all that was ever assigned.
        `offline`: topic id and number of replicas that are here and cannot be used. They may begin with their future log.
        `aside`: the files stay, under another name: who says what there is does not say what was deleted (R291-76)."""
        self.unclaimed_settled = True
        for key, futures in list(self.found_futures.items()):
            gone = [one for one in futures if (one[1].topic_id, one[1].number) not in offline]
            self._retire_futures(gone)
            if len(gone) == len(futures):
                del self.found_futures[key]
        for directory, found in itertools.chain.from_iterable(self.unclaimed.values()):
            if directory.disk in self._failed:
                continue
            if found.topic_id is None:
                self._set_aside(directory.disk, found)
            elif aside:
                self._stray(directory.disk, found.name, found.topic, found.number)
            else:
                self._runtime.log.info(f"{found.name} has no replica here any more: its files are removed")
                self._retire(directory.disk, found.name, found.topic, found.number, self._cache.settings(found.topic))
        self.unclaimed.clear()

    def delete(self, partition: Partition) -> None:
        """A partition has no replica here any more."""
        self._written.pop(partition, None)
        self.drop_future(partition)
        self._drop(partition, partition.log)

    def set_aside(self, partition: Partition) -> None:
        """A partition has no replica here any more, and its files are kept under another name."""
        self._written.pop(partition, None)
        self.drop_future(partition)
        log = partition.log
        log.forget_indexes()
        self._count(log.disk, -1)
        if self._there(log):
            self._stray(log.disk, log.directory, partition.topic, partition.number)
        later_ms = self._runtime.now.mono_ms + partition.settings.file_delete_delay_ms
        self._runtime.waiting.timers.at(later_ms, log.release)

    def remove_unclaimed(self, topic: str, number: int) -> None:
        """Files that the start found and no metadata has claimed are of a partition that is deleted."""
        for directory, found in self.unclaimed.pop((topic, number), ()):
            if directory.disk not in self._failed:
                self._retire(directory.disk, found.name, topic, number, self._cache.settings(topic))

    def _stray(self, disk: Disk, name: str, topic: str, number: int) -> None:
        stray = retired_name(topic, number, STRAY, self._runtime.random.uuid())
        if self._rename(disk, name, stray):
            self._runtime.log.warning(
                f"{name} is no replica of this broker, as the controller says, which does not say that it is deleted: its "
                f"files are set aside as {stray}. Remove them if nobody needs them"
            )

    def _drop(self, partition: Partition, log: PartitionLog) -> None:
        log.forget_indexes()
        self._count(log.disk, -1)
        if self._there(log):
            self._retire(log.disk, log.directory, partition.topic, partition.number, partition.settings, log)

    def configure(self, partition: Partition) -> None:
        """Settings have changed; where only what is on the disk counts from now on, what is not yet goes there."""
        partition.configure(self._cache.settings(partition.topic))
        partition.log.configure(partition.settings)
        if partition in self.futures:
            self.futures[partition].configure(partition.settings)
        self._note_compacted(partition.log)
        if partition.durable_first:
            self._written[partition] = None

    def paths(self) -> Iterable[tuple[str, Disk]]:
        """(path, disk) of every log directory."""
        return zip(self._paths, (directory.disk for directory in self._directories), strict=True)

    # ---- replicas on their way to another directory

    def begin_future(self, partition: Partition, disk: Disk, name: str) -> PartitionLog:
        """An empty log that a replica is to be copied into."""
        topic_id = partition.topic_id
        instance = self._next_instance(disk)
        future = PartitionLog(disk, name, partition.settings, topic_id, indexes=self._indexes, instance=instance)
        self.futures[partition] = future
        self._count(disk, 1)
        return future

    def drop_future(self, partition: Partition, *, keep: bool = False) -> None:
        """A replica, if it is on its way, goes no further. `keep`: the files stay, for the next start to go on with."""
        future = self.futures.pop(partition, None)
        self.held.pop(partition, None)
        if future is None:
            return
        if keep:
            self._left_behind.add(future.disk)
            future.forget_indexes()
            self._count(future.disk, -1)
            future.release()
        else:
            self._drop(partition, future)

    def taken_over(self, partition: Partition, current: PartitionLog) -> None:
        """The future log is the partition's log now. `current`, whose place it has, is still there and counts no longer."""
        del self.futures[partition]
        self.held.pop(partition, None)
        current.forget_indexes()
        self._count(current.disk, -1)
        self.superseded[current] = partition
        self.written(partition)

    def retire_moved(self, partition: Partition, current: PartitionLog) -> None:
        """The log that has taken the place of `current` has its name on the disk. If its directory has failed instead,
        nobody removes what is left."""
        del self.superseded[current]
        if not self._there(current):
            current.release()
        elif partition.log.disk not in self._failed:
            self._retire(
                current.disk, current.directory, partition.topic, partition.number, partition.settings, current
            )
        else:
            stray = retired_name(partition.topic, partition.number, STRAY, self._runtime.random.uuid())
            if self._rename(current.disk, current.directory, stray):
                self._runtime.log.error(
                    f"{partition!r} had just been moved from {self.path(current.disk)} to a directory that has failed: its "
                    f"old files, up to offset {current.log_end_offset}, are set aside as {stray}"
                )
            current.release()

    def checkpoints(self, replicas: Replicas, disk: Disk) -> list[Replacement]:
        """Of one directory, behind a cut of a log in it."""
        self._offsets.changes()
        return self._checkpoints(replicas, disk)

    def _claim_futures(
        self, topic: str, topic_id: bytes, number: int, claimed: tuple[LogDirectory, PartitionDirectory] | None
    ) -> tuple[tuple[LogDirectory, PartitionDirectory] | None, list[tuple[LogDirectory, PartitionDirectory]]]:
        """Rule 6: what a replica is opened from, and the future log that it has beside that."""
        found = self.found_futures.pop((topic, number), [])
        mine = [one for one in found if one[1].topic_id == topic_id and one[0].disk not in self._failed]
        if claimed is not None:
            mine = [one for one in mine if one[0] is not claimed[0]]
        self._retire_futures(one for one in found if one not in mine[:1])
        if claimed is not None or not mine:
            return claimed, mine
        directory, future = mine[0]
        name = partition_name(topic, number)
        if self._exists(directory.disk, name) or not self._rename(directory.disk, future.name, name):
            return None, []
        self._runtime.log.warning(f"{name} has no files left and begins with what was copied to {future.name}")
        return (directory, future._replace(name=name, suffix="")), []

    def _resume(
        self, directory: LogDirectory, found: PartitionDirectory, topic_id: bytes, settings: TopicSettings
    ) -> None:
        recovered = self._recover(directory, found, topic_id, settings)
        if recovered is None:
            return
        if recovered.log.damaged is None:
            self.resumed[topic_id, found.number] = recovered.log
        else:
            self._count(directory.disk, -1)
            recovered.log.forget_indexes()  # one that leaves memory later would be written, in a new directory of that name
            recovered.log.release()
            self._retire_futures([(directory, found)])

    def adopt_resumed(self, partition: Partition) -> PartitionLog | None:
        """The future log that was opened with a replica; None: there is none."""
        future = self.resumed.pop((partition.topic_id, partition.number), None)
        if future is not None:
            self.futures[partition] = future
        return future

    def _retire_futures(self, futures: Iterable[tuple[LogDirectory, PartitionDirectory]]) -> None:
        for directory, one in futures:
            if directory.disk not in self._failed:
                settings = self._cache.settings(one.topic)
                self._retire(directory.disk, one.name, one.topic, one.number, settings)

    def _next_instance(self, disk: Disk) -> int:
        return next(one for one in self._directories if one.disk is disk).next_instance()

    def _count(self, disk: Disk, by: int) -> None:
        for place, directory in enumerate(self._directories):
            if directory.disk is disk:
                self._counts[place] += by

    # ---- flush, checkpoints, retention

    def written(self, partition: Partition) -> None:
        """A log has grown."""
        self._written[partition] = None
        self._note_compacted(partition.log)
        if self._full_disks.lacks:
            self._full_disks.taken(partition.log.disk)

    def flush(self, replicas: Replicas, partitions: list[Partition], then: Callable[[Any], None]) -> None:
        """Make logs durable as they are now, save those that are gone; `then(None)` or `then(DiskFailed)`. It waits for room
        on a full disk. With a log that was cut go the checkpoints, behind it: the old recovery point may be one that the
        log reaches again."""

        disks: dict[Disk, list[Partition]] = {}
        for partition in partitions:
            if not partition.removed:
                disks.setdefault(partition.log.disk, []).append(partition)
        if not disks:
            self._runtime.sync([], [], then)
            return
        waiting = set(disks)

        def over(disk: Disk, result: object) -> None:
            waiting.discard(disk)
            if result is not None or not waiting:
                then(result)

        for disk, here in disks.items():
            self._flush_one(replicas, disk, here, over)

    def _flush_one(
        self, replicas: Replicas, disk: Disk, partitions: list[Partition], then: Callable[[Disk, Any], None]
    ) -> None:
        """Flush the logs of one directory; `then(disk, None)` also when it has gone offline."""

        def wait(full: DiskFull) -> None:
            self._tell_of_room({disk: full})
            again_ms = self._runtime.now.mono_ms + 1000
            self._runtime.waiting.timers.at(again_ms, lambda: self._flush_one(replicas, disk, partitions, then))

        flushes = []
        try:
            for log in [partition.log for partition in partitions if not partition.removed]:
                flushes.append((log, log.flush(self._runtime.now.mono_ms)))
        except DiskFull as error:
            wait(error)
            return
        except DiskFailed as error:
            then(disk, None if self.fail(replicas, disk, error) else error)
            return
        replacements = [one for _, flush in flushes for one in flush.replacements]
        if any(flush.cut for _, flush in flushes):
            replacements += self._checkpoints(replicas, disk)
            self._offsets.changes()

        def done(result: object) -> None:
            if isinstance(result, DiskFull):
                self._offsets.forget()
                wait(result)
                return
            if isinstance(result, DiskFailed) and self.fail(replicas, disk, result):
                result = None
            elif not isinstance(result, Exception):
                for log, flush in flushes:
                    log.flushed(flush)
            then(disk, result)

        self._runtime.sync([file for _, flush in flushes for file in flush.files], replacements, done)

    def end(self, replicas: Replicas) -> None:
        """End of a turn: flush what the settings want flushed."""
        if replicas.cluster.without_room:
            self._tell_of_room(replicas.cluster.without_room)
        if not self._written:
            return
        now_ms = self._runtime.now.mono_ms
        due: list[Partition] = []
        later: dict[Partition, None] = {}
        for one in self._written:
            if self.held and self.held.get(one, 0) > now_ms:
                later[one] = None
            elif one.log.flush_due(now_ms) or one.flush_before_asking:
                due.append(one)
            elif one.settings.flush_ms < FLUSH_NEVER_MS:
                later[one] = None
        self._written = later
        if due:
            self.flush(replicas, due, lambda result: self._flushed(replicas, due, result))

    def _flushed(self, replicas: Replicas, partitions: list[Partition], result: object) -> None:
        if isinstance(result, Exception):
            self._runtime.stop(1, f"the logs cannot be made durable: {result}")
            return
        for partition in partitions:
            replicas.durable(partition, self._runtime.now.mono_ms)

    def tick(self, now: Now, replicas: Replicas) -> None:
        """Checkpoints, retention and silent producers when they are due, and whether there is room again. Not before the
        partitions follow the image: until then they are not here, and the checkpoints would forget them."""
        if self._full_disks.lacks:
            for disk in self._full_disks.over(now.mono_ms):
                self._runtime.log.info(f"there is room in {self.path(disk)} again: appends are taken")
        if now.mono_ms >= self._checkpoint_ms:
            self._checkpoint_ms = now.mono_ms + self._checkpoint_interval_ms
            self._look(replicas)
            self._checkpoint(replicas)
        if now.mono_ms >= self._retention_ms:
            self._retention_ms = now.mono_ms + self._retention_interval_ms
            for partition in replicas:
                self._retain(partition, now)
        if now.mono_ms >= self._expiration_ms:
            self._expiration_ms = now.mono_ms + self._expiration_interval_ms
            silence_ms = self._cache.value("producer.id.expiration.ms")
            for partition in replicas:
                partition.log.producers.expire(now.wall_ms, silence_ms)

    def _look(self, replicas: Replicas) -> None:
        """Whether some replicas' files are still there, the next ones each time: who removes them from a running broker is
        not noticed by appends, which go to files without a name."""
        every = list(replicas)
        begin = self._looked % len(every) if every else 0
        some = (every[begin:] + every[:begin])[:LOOKS]
        self._looked = begin + len(some)
        for partition in some:
            log = partition.log
            names = [segment.log.path for segment in log.segments[:1] + log.segments[1:][-1:]]
            missing = next((name for name in names if not self._exists(log.disk, name)), None)
            if missing is None or partition.removed:
                continue
            gone = self._gone(log.disk)
            if gone is None:
                self._offsets.note_lost(partition.topic, partition.topic_id, partition.number)
                self._take_offline(replicas, partition, Offline.REMOVED)
                self._runtime.log.error(
                    f"{partition!r} is offline: {missing} was removed from {self.path(log.disk)} under the running broker. "
                    f"What was in it is gone, unless another replica has it"
                )
            elif not self.fail(replicas, log.disk, gone):
                self._runtime.stop(1, f"log directory {self.path(log.disk)} cannot be used: {gone}")
                return

    def _gone(self, disk: Disk) -> DiskFailed | None:
        """Why a directory is not there as a whole, which has held more than its partitions; None: it is there. What this
        process writes at any time, also small files of a partition, may have been written to the place where it was."""
        try:
            names = set(disk.names(""))
            if META in names if disk in self._formatted else names - WRITTEN_ANYWHERE:
                return None
            return DiskFailed(errno.ENOENT, "it is empty or no directory: it was unmounted or moved away")
        except DiskFull:  # it could not be looked at
            return None
        except DiskFailed as error:
            return error

    def deadline_ms(self) -> int:
        """When `tick` is due."""
        due = self._checkpoint_ms if self._checkpoint_ms < self._retention_ms else self._retention_ms
        due = due if due < self._expiration_ms else self._expiration_ms
        return min(due, self._full_disks.deadline_ms()) if self._full_disks.lacks else due

    def retire_segments(self, partition: Partition, segments: Iterable[Segment], jobs: Iterable[Job]) -> None:
        """Segments that others have taken the place of: they are unlinked when nobody can be reading them any more."""
        disk, unlinking = partition.log.disk, list(jobs)

        def later() -> None:
            for segment in segments:
                segment.close()
            self.unlink(disk, unlinking)

        self._runtime.waiting.timers.at(self._runtime.now.mono_ms + partition.settings.file_delete_delay_ms, later)

    def unlink(self, disk: Disk, jobs: list[Job]) -> None:
        """Run unlinking in a thread."""
        if jobs:
            self._runtime.work(lambda: _each(jobs), lambda result: self.job_done(disk, result))

    # ---- inside

    def _find(self, directory: LogDirectory, found: PartitionDirectory) -> None:
        others = self.unclaimed.setdefault((found.topic, found.number), [])
        for place, (other, same) in enumerate(others):
            if found.topic_id is None or found.topic_id != same.topic_id:
                continue
            if _took_over(directory.disk, other.disk, found.name):
                others[place] = directory, found
                self._superseded(other, same, directory)
            elif _took_over(other.disk, directory.disk, found.name):
                self._superseded(directory, found, other)
            else:
                self._runtime.stop(
                    1,
                    f"{found.name} is in {self.path(other.disk)} and in {self.path(directory.disk)}: take the copy away "
                    f"that is out of date",
                )
            return
        others.append((directory, found))

    def _superseded(self, directory: LogDirectory, found: PartitionDirectory, by: LogDirectory) -> None:
        self._runtime.log.info(
            f"{found.name} was moved from {self.path(directory.disk)} to {self.path(by.disk)}: the old files are removed"
        )
        self._retire(directory.disk, found.name, found.topic, found.number, self._cache.settings(found.topic))

    def _tell_of_room(self, refusals: dict[Disk, DiskFull]) -> None:
        for disk, why in refusals.items():
            if self._full_disks.refused(disk, self._runtime.now.mono_ms):
                self._runtime.log.error(f"no append to {self.path(disk)} is taken until there is room: {why}")
        refusals.clear()

    def path(self, disk: Disk) -> str:
        """Of a log directory, for sentences and metrics."""
        return next(path for path, mine in self.paths() if mine is disk)

    def job_done(self, disk: Disk, result: object) -> None:
        """A job in one directory has ended."""
        self._noted(result)
        self._failing(disk, result)

    def _note_compacted(self, log: PartitionLog) -> None:
        if log.settings.compact and len(log.segments) > 1:
            self.compacted = True

    def _failing(self, disk: Disk, result: object) -> None:
        if isinstance(result, DiskFailed) and (result.errno in DEVICE_ERRORS or isinstance(result, Torn)):
            self.failing[result.disk or disk] = result

    def _noted(self, result: object) -> None:
        if isinstance(result, Exception):
            self._runtime.log.warning(f"a job on the log directories failed: {result!r}")

    def _checkpoint(self, replicas: Replicas) -> None:
        if not self._offsets.changed(replicas):
            return
        for directory in self._directories:
            if directory.disk not in self._failed:
                self._checkpoint_one(replicas, directory.disk)

    def _checkpoint_one(self, replicas: Replicas, disk: Disk) -> None:
        logs = [one.log for one in replicas if one.log.disk is disk]
        points = [(log, log.generation, log.recovery_point) for log in logs if log.sparse]

        def written(result: object) -> None:
            several = len(self._directories) > 1
            if several and isinstance(result, DiskFailed) and self.fail(replicas, disk, result):
                return
            self._noted(result)
            if isinstance(result, Exception):
                self._offsets.forget()
                return
            for log, generation, point in points:
                if log.generation == generation:
                    log.checkpointed_offset = point

        self._runtime.sync([], self._checkpoints(replicas, disk), written)

    def _checkpoints(self, replicas: Replicas, only: Disk | None = None) -> list[Replacement]:
        """Of the directories that are online, or of one of them."""
        online = [one for one in self._directories if one.disk not in self._failed and only in (None, one.disk)]
        return self._offsets.replacements(replicas, online)

    def _retain(self, partition: Partition, now: Now) -> None:
        log = partition.log
        self._unlink_later(partition, log.left_over())
        if not log.segments:
            return
        try:
            retained = retention.retain(log, now.wall_ms, partition.high_watermark)
        except (DiskFull, DiskFailed, FileNotFoundError) as error:
            self._runtime.log.warning(f"retention of {partition!r} failed: {error}")
            self._failing(log.disk, error)
            self._unlink_later(partition, log.left_over())  # on a full disk what it has come to makes room for the rest
            self._written[partition] = None
            return
        if retained.deleted:
            self.written(partition)  # if it has rolled, nothing but the new file says where the log ends
            self._runtime.log.info(
                f"deleted {retained.deleted} segments of {partition!r}, which begins at {log.log_start_offset} now"
            )
            self._unlink_later(partition, retained.jobs)
        if retained.warm:
            self._runtime.work(lambda: [job() for job in retained.warm], lambda result: self._retry(partition, result))

    def _unlink_later(self, partition: Partition, jobs: list[Job]) -> None:
        """Readers may have the files open still: not before `file.delete.delay.ms`."""
        if jobs:
            disk, delay_ms = partition.log.disk, partition.settings.file_delete_delay_ms
            self._runtime.waiting.timers.at(self._runtime.now.mono_ms + delay_ms, lambda: self.unlink(disk, jobs))

    def _retry(self, partition: Partition, result: object) -> None:
        self.job_done(partition.log.disk, result)
        if not isinstance(result, Exception) and not partition.removed:
            self._retain(partition, self._runtime.now)

    def _set_aside(self, disk: Disk, found: PartitionDirectory) -> None:
        """Files that do not say which topic they are of: a power cut came before their first flush, or partition.metadata is
        damaged. A topic that was deleted may have had that name, so nobody reads them; nobody removes them either."""
        stray = retired_name(found.topic, found.number, STRAY, self._runtime.random.uuid())
        if self._rename(disk, found.name, stray):
            self._runtime.log.warning(
                f"{found.name} has no readable partition.metadata: its files are set aside as {stray}"
            )

    def _retire(
        self, disk: Disk, name: str, topic: str, number: int, settings: TopicSettings, log: PartitionLog | None = None
    ) -> None:
        retired = retired_name(topic, number, "delete", self._runtime.random.uuid())
        if not self._rename(disk, name, retired):
            return  # the next start on the repaired disk finds files that nobody claims

        def later() -> None:
            if log is not None:
                log.release()
            self._remove(disk, retired)

        self._runtime.waiting.timers.at(self._runtime.now.mono_ms + settings.file_delete_delay_ms, later)

    def _rename(self, disk: Disk, name: str, to: str) -> bool:
        try:
            disk.rename(name, to)
        except (DiskFull, DiskFailed) as error:
            self.job_done(disk, error)
            return False
        return True

    def _exists(self, disk: Disk, name: str) -> bool:
        """Whether there is such a name; one of which the device does not say it counts as there."""
        try:
            return disk.exists(name)
        except DiskFailed as error:
            self.job_done(disk, error)
            return True

    def _there(self, log: PartitionLog) -> bool:
        """Whether a log has files that can be given another name."""
        return log.disk not in self._failed and self._exists(log.disk, log.directory)

    def _remove(self, disk: Disk, name: str) -> None:
        self._runtime.work(lambda: disk.remove(name), lambda result: self.job_done(disk, result))


def _took_over(disk: Disk, other: Disk, name: str) -> bool:
    """Whether the log of that name on one disk has taken the place of the one on the other. Start-up only."""
    move = read_move(disk, name, ARRIVED)
    return move is not None and move == read_move(other, name, LEAVING)


def _each(jobs: list[Job]) -> None:
    """Run all; what cannot be removed keeps nothing else. Raises DiskFull, DiskFailed, the first one's."""
    failed: list[OSError] = []
    for job in jobs:
        try:
            job()
        except (DiskFull, DiskFailed) as error:
            failed.append(error)
    if failed:
        raise failed[0]
