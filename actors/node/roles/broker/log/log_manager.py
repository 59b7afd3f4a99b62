"""The logs of a broker: which there are in which directory, and the order in which the parts beside this file act.

`LogManager` is Kafka's own word for this. Each part has its own file and its own rules:

`log_directories.py`     where the directories are, which are offline or full, which one a new replica gets
`claims.py`              what the start found, and which replica claims it
`log_loader.py`          opening a log
`future_logs.py`         logs of replicas on their way to another directory
`retired_files.py`       files that go: when they are unlinked
`directory_failures.py`  replicas go offline with their directory
`missing_files.py`       replicas whose files are gone
`offset_checkpoints.py`  what a checkpoint holds, when it is written
`written_logs.py`        which log is flushed when
`flushes.py`             how it becomes durable
`log_retention.py`       which segments go
`clean_stop.py`          the last flush, and the mark

A replica that a start should find and does not find never begins again empty as a member of the ISR.
"""

from collections.abc import Callable, Container
from functools import partial
from itertools import islice
from typing import Any

from actors.broker.log.directories.directory import partition_name
from actors.broker.log.index_cache import IndexCache
from actors.broker.log.log import PartitionLog
from actors.broker.replication.partition import Partition
from actors.broker.replication.replicas import Replicas
from actors.node.roles.broker.log.claims import Claims
from actors.node.roles.broker.log.clean_stop import CleanStop
from actors.node.roles.broker.log.directory_failures import DirectoryFailures
from actors.node.roles.broker.log.flushes import Flushes, by_directory
from actors.node.roles.broker.log.future_logs import FutureLogs
from actors.node.roles.broker.log.log_directories import LogDirectories
from actors.node.roles.broker.log.log_loader import LogLoader
from actors.node.roles.broker.log.log_retention import LogRetention
from actors.node.roles.broker.log.missing_files import MissingFiles
from actors.node.roles.broker.log.offset_checkpoints import OffsetCheckpoints
from actors.node.roles.broker.log.retired_files import RetiredFiles
from actors.node.roles.broker.log.written_logs import WrittenLogs
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.storage import Storage
from actors.ports import DiskFull, Now
from actors.settings.topics import TopicSettings

AGAIN_MS = 1000
"""The time in ms after which logs that found no room or no descriptor are tried again."""
TRIES_MAX = 64
"""How many of them are tried then: in vain one takes a tenth of a millisecond, and thousands may wait. When one was opened
the next ones are tried in the next turn."""
FAR_MS = 1 << 62


class LogManager:
    """All logs of a broker. Its methods say in which order the parts act."""

    def __init__(self, runtime: Runtime, storage: Storage, cache: MetadataCache) -> None:
        self._runtime = runtime
        self._cache = cache
        indexes = IndexCache()
        self.directories = LogDirectories(runtime, storage, indexes.failing)
        self.retired = RetiredFiles(runtime, self.directories)
        self._loader = LogLoader(runtime, self.directories, indexes)
        self.claims = Claims(runtime, cache, self.directories, self.retired)
        self.futures = FutureLogs(runtime, self.directories, self.retired, self._loader, self.claims)
        self.failures = DirectoryFailures(runtime, self.directories, self.futures)
        self.checkpoints = OffsetCheckpoints(runtime, self.directories, self.claims, self.futures, self.failures)
        self.written = WrittenLogs(self.directories, self.futures)
        self.flushes = Flushes(runtime, self.directories, self.failures, self.checkpoints)
        self._missing = MissingFiles(runtime, self.directories, self.failures, self.checkpoints)
        self._retention = LogRetention(runtime, self.directories, self.retired, self.written)
        self._clean_stop = CleanStop(
            runtime, self.directories, self.claims, self.futures, self.checkpoints, self.retired
        )
        self.may_begin: Callable[[bytes, int], None] = lambda topic_id, number: None
        """Told (topic id, number) of a replica that is offline as its log could not be opened, when that is to be tried
        again."""
        self._waiting: dict[tuple[bytes, int], None] = {}
        """The replicas whose log could not be opened yet, by topic id and number: the one tried longest ago first."""
        self._try_ms = FAR_MS
        """When the first of them are tried again, monotonic ms; FAR_MS: that is not planned."""
        self.in_use = False
        """Whether partitions follow the image: they are opened as it assigns them."""
        self.closing = False
        """Whether this process ends: the last flush of its logs begins, or there is none. Nothing is appended any
        more."""
        value = runtime.config.value
        self._retention_interval_ms = value("log.retention.check.interval.ms")
        self._retention_delay_ms = value("log.initial.task.delay.ms")
        self._checkpoint_interval_ms = value("replica.high.watermark.checkpoint.interval.ms")
        self._expiration_interval_ms = value("producer.id.expiration.check.interval.ms")
        self._retention_ms = self._checkpoint_ms = self._expiration_ms = 0

    # ---- start and stop

    def recover(self) -> int:
        """Read what the last stop left. Returns the broker epoch of a clean stop, -1 after any other."""
        self.directories.read()
        self.checkpoints.read()
        for directory in self.directories:
            for fault in directory.faults:
                self._runtime.log.warning(fault)
            self.claims.look(directory)
        now_ms = self._runtime.now.mono_ms
        self._retention_ms = now_ms + self._retention_delay_ms
        self._expiration_ms = now_ms + self._expiration_interval_ms
        epochs = {directory.broker_epoch for directory in self.directories}
        return epochs.pop() if len(epochs) == 1 else -1

    def begin_use(self) -> None:
        """Let partitions follow the image from now on."""
        self.in_use = True

    def begin_close(self) -> None:
        """Refuse appends from now on, since this process ends."""
        self.closing = True

    def close(self, replicas: Replicas, broker_epoch: int, then: Callable[[Any], None]) -> None:
        """Make the last flush of a clean stop, then write the checkpoints and the mark. `then(None)` or
        `then(DiskFailed)` is called at the end."""
        if self.in_use:
            self._clean_stop.used(replicas, broker_epoch, then)
        else:
            self._clean_stop.unused(then)

    # ---- partitions

    def open(self, topic: str, topic_id: bytes, number: int) -> tuple[PartitionLog, TopicSettings, int] | None:
        """Open the log of a partition that metadata assigns to this broker. Returns (log, settings, checkpointed high
        watermark). None: its files are in a directory that is offline, or cannot be read, or its name is not free
        yet."""
        settings = self._cache.settings(topic)
        claimed, futures = self.claims.claim(topic, topic_id, number, settings)
        if claimed is None:
            disk, name = self.directories.place(topic_id, number), partition_name(topic, number)
            if not self.retired.free(disk, name, topic_id, number):
                self.directories.prefer(topic_id, number, disk)
                return None
            return self._loader.create(disk, name, settings, topic_id), settings, 0
        directory, found = claimed
        if self.directories.failed(directory.disk):
            self._waiting.pop((topic_id, number), None)
            return None
        try:
            recovered = self._loader.load(directory, found, topic_id, settings)
        except DiskFull as error:
            if (topic_id, number) not in self._waiting:
                self._runtime.log.error(
                    f"{found.name} is offline until there is room and a descriptor to open it: {error}"
                )
            self.claims.give_back(claimed, futures)
            self._waiting.pop((topic_id, number), None)
            self._waiting[topic_id, number] = None
            self._try_at(self._runtime.now.mono_ms + AGAIN_MS)
            return None
        if (topic_id, number) in self._waiting:
            del self._waiting[topic_id, number]
            self._try_at(self._runtime.now.mono_ms)
        if recovered is None:
            return None
        log = recovered.log
        self.retired.unlink_what_was_left(log.disk, log.left_over())
        if log.damaged is not None:
            self._runtime.log.warning(f"{found.name} is damaged below its recovery point: {log.damaged}")
        self.written.note_compacted(log)
        known = directory.checkpointed((topic, number), topic_id, found.instance)
        high_watermark = min(max(known.high_watermark, log.log_start_offset), log.log_end_offset)
        if futures and log.damaged is None:
            self.futures.resume(futures[0], topic_id, settings)
        return log, settings, high_watermark

    def _try_at(self, due_ms: int) -> None:
        """Have the logs that wait tried again at that time, or when that is planned already."""
        if self._waiting and due_ms < self._try_ms:
            self._try_ms = due_ms
            self._runtime.waiting.timers.at(due_ms, partial(self._try_again, due_ms))

    def _try_again(self, due_ms: int) -> None:
        if due_ms != self._try_ms:
            return  # it was done earlier
        self._try_ms = FAR_MS
        for key in list(islice(self._waiting, TRIES_MAX)):
            self._waiting[key] = self._waiting.pop(key)
            self.may_begin(*key)
        self._try_at(self._runtime.now.mono_ms + AGAIN_MS)

    def lost(self, topic: str, topic_id: bytes, number: int, *, before: bool) -> bool:
        """Whether a replica that metadata assigns has no files though this broker had some. `before`: it was assigned before
        this process began."""
        if self.claims.has(topic, topic_id, number):
            return False
        return self.checkpoints.lost(topic, topic_id, number, before=before)

    def begins_blank(self, topic: str, topic_id: bytes, number: int, *, before: bool) -> bool:
        """Whether a replica that metadata assigns has no files here, and had none: when it is made makes no difference.
        `before`: as for `lost`."""
        if self.claims.names(topic, number):
            return False
        return not self.checkpoints.had(topic, topic_id, number, before=before)

    def give_up(self, topic: str, topic_id: bytes, number: int) -> None:
        """Note that there is no replica here any more of one that is offline, or could not be opened yet."""
        self.checkpoints.give_up_lost(topic, number)
        self.claims.give_up(topic, topic_id, number)
        self._waiting.pop((topic_id, number), None)

    def give_up_all_but(self, here: Container[object]) -> None:
        """Note which replicas there are here, by topic id and number: no others."""
        unopened = [(topic, found.topic_id, number) for (topic, number), (_, found) in self.claims.unopened.items()]
        for topic, topic_id, number in [*unopened, *self.checkpoints.known_lost()]:
            if topic_id is not None and (topic_id, number) not in here:
                self.give_up(topic, topic_id, number)

    def unclaim(self, topic: str, topic_id: bytes, number: int) -> None:
        """Note that a replica which is offline is none of this broker's any more, and that its data may be wanted."""
        self.claims.unclaim(topic, topic_id, number)
        self._waiting.pop((topic_id, number), None)

    def configure(self, partition: Partition) -> None:
        """Take over changed settings of a partition. If only what is on the disk counts from now on, the rest is
        flushed."""
        partition.configure(self._cache.settings(partition.topic))
        partition.log.configure(partition.settings)
        future = self.futures.by_partition.get(partition)
        if future is not None:
            future.configure(partition.settings)
        self.written.note_compacted(partition.log)
        if partition.durable_first:
            self.written.look_again(partition)

    def delete(self, partition: Partition) -> None:
        """Remove the files of a partition that was removed from the replicas."""
        self.futures.drop(partition)
        self.retired.drop(partition, partition.log)

    def set_aside(self, partition: Partition) -> None:
        """Keep the files of a partition that was removed from the replicas, under another name."""
        self.futures.drop(partition)
        self.retired.set_aside(partition, partition.log)

    # ---- a turn

    def tick(self, now: Now, replicas: Replicas) -> None:
        """Write checkpoints, retain logs and forget silent producers when that is due, and look whether there is room
        again. Not before the partitions follow the image: until then they are not here, and the checkpoints would
        forget them."""
        if self.directories.full.lacks:
            self.directories.look_for_room()
        if now.mono_ms >= self._checkpoint_ms:
            self._checkpoint_ms = now.mono_ms + self._checkpoint_interval_ms
            self._missing.look(replicas)
            self.checkpoints.write(replicas)
        if now.mono_ms >= self._retention_ms:
            self._retention_ms = now.mono_ms + self._retention_interval_ms
            self._retention.check(replicas.written())
        if self._retention.gathers and not self.closing:
            self._retention.go_on(replicas)
        if now.mono_ms >= self._expiration_ms:
            self._expiration_ms = now.mono_ms + self._expiration_interval_ms
            silence_ms = self._cache.value("producer.id.expiration.ms")
            for partition in replicas.written():
                partition.log.producers.expire(now.wall_ms, silence_ms)

    def deadline_ms(self) -> int:
        """The monotonic time at which `tick` is due; 0: at once."""
        if self._retention.gathers and not self.closing:
            return 0
        due = self._checkpoint_ms if self._checkpoint_ms < self._retention_ms else self._retention_ms
        due = due if due < self._expiration_ms else self._expiration_ms
        full = self.directories.full
        return min(due, full.deadline_ms()) if full.lacks else due

    def end(self, replicas: Replicas) -> None:
        """End the turn of the logs: flush what the settings want flushed."""
        refusals = replicas.cluster.without_room
        if refusals:
            for disk, why in refusals.items():
                self.directories.refused(disk, why)
            refusals.clear()
        due = self.written.due(self._runtime.now.mono_ms)
        for here in by_directory(due):
            self.flushes.flush(replicas, here, partial(self._flushed, replicas, here))

    def _flushed(self, replicas: Replicas, partitions: list[Partition], result: object) -> None:
        if isinstance(result, Exception):
            self._runtime.stop(1, f"the logs cannot be made durable: {result}")
            return
        for partition in partitions:
            replicas.durable(partition, self._runtime.now.mono_ms)
