"""The scrubber of a broker: what is at rest is read again, slowly, and what has rotted there is mended.

`broker/log/scrubbing.py` says what is sound. This file alone decides when what is read, and what becomes of a fault. Rules:

1. One log directory at a time, in the order of its partitions' names, sealed segments that are durable here. Where a reading
   has come to is in `scrub-checkpoint` in the directory, so that a restart goes on there; the next one begins
   rayft.log.scrub.interval.ms after this one began. Of directories that are due the one is next whose last reading began
   first, so that none waits for ever.
2. A piece is read by a job outside the loop. Between two of them the settings are read anew, and the reading waits as long
   as rayft.log.scrub.bytes.per.second wants.
3. What is gone, or was cut, cleaned, moved or deleted meanwhile, is no fault: it is left, and the reading goes on behind it.
4. A small file is made again from what it was made from: an index from its segment, the table of epochs and the name from
   memory. A damaged producer snapshot goes, since an older one and the log say the same.
5. A damaged batch is put back as another replica has it (`batch_restoration.py`), if it is committed.
6. What nobody can give back is told, with all that an operator needs, and stays as it is. Only where another replica in sync
   has these offsets sound, in other batches, the replica is given up as a whole as if a reader had found the damage
   (`unreadable_storage.py`).
7. An error of the device is the directory's, as anywhere else, and says nothing about what is in it. A log in a directory
   that the broker goes on with, in which two readings end so, is given up as one that a reader could not read, where
   another replica is in sync.
8. A sync of a log's files that fails is final, as that of a flush: it is unknown what of a log is lost then. The directory
   goes offline, or this broker stops.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial as bound
from typing import Any

from actors.broker.log.directories import directory as names
from actors.broker.log.directories.checkpoints import SCRUBBED, CorruptCheckpoint, lines, text
from actors.broker.log.log import PartitionLog
from actors.broker.log.mending import (
    aborted_again,
    give_up_snapshot,
    replace_aborted,
    tells_aborted,
    write_epochs_again,
)
from actors.broker.log.producers.transaction_index import TRANSACTION_INDEX
from actors.broker.log.scrubbing import Fault, SegmentScrub, SmallFiles, content_at_rest
from actors.broker.log.segment import LOG, NO_LIMIT, Segment
from actors.broker.replication.partition import Partition
from actors.broker.replication.replicas import Replicas
from actors.node.net.channels import Channels
from actors.node.roles.broker.log.batch_restoration import BatchRestoration, Effect, Result, Steps, end_of
from actors.node.roles.broker.log.log_cleaner import LogCleaner
from actors.node.roles.broker.log.log_manager import LogManager
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.runtime.runtime import Runtime
from actors.ports import Directory, Disk, DiskFailed, DiskFull, File, Now, WorkKind
from fastpath.records.batch import CorruptBatch
from fastpath.records.indexes import SegmentIndex

FAR_MS = 1 << 62
QUIET_MS = 300_000
"""How long nothing is read after a start, when others need the disk."""
LOOK_MS, IDLE_MS = 1_000, 60_000
"""How soon a look is repeated; the longer one where nothing was due."""
CHECKPOINT_MS = 60_000


class DirectoryReading:
    """The reading of one log directory."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.known = False
        """Whether its checkpoint has been read."""
        self.began_ms = self.completed_ms = 0
        """Wall clock time at which the reading began, and at which the last one was done; 0: never."""
        self.at: tuple[str, int, int] | None = None
        """Topic, partition and offset to which the reading has come; None: it is not under way."""

    def due(self, now: Now, interval_ms: int) -> bool:
        """Whether the reading is to go on, or to begin."""
        return self.at is not None or not 0 <= now.wall_ms - self.began_ms < interval_ms

    def content(self) -> bytes:
        """The content of its checkpoint, in the form of Apache Kafka's: when the reading began and the one before was
        done, wall clock, ms (0: none); then, while it is under way, the topic, partition and offset to which it has
        come."""
        at = [] if self.at is None else ["{} {} {}".format(*self.at)]
        return text([f"{self.began_ms} {self.completed_ms}", *at])

    def learn(self, content: bytes) -> None:
        """Take over the content of its checkpoint. Raises ValueError if it has another form."""
        found = [line.split(" ") for line in lines(content)]
        began_ms, completed_ms = map(int, found[0])
        at = None if len(found) == 1 else (found[1][0], int(found[1][1]), int(found[1][2]))
        self.began_ms, self.completed_ms, self.at = began_ms, completed_ms, at


class Scrubber:
    """All readings of a broker. At most one is under way."""

    def __init__(
        self,
        runtime: Runtime,
        channels: Channels,
        logs: LogManager,
        cache: MetadataCache,
        replicas: Replicas,
        cleaner: LogCleaner,
    ) -> None:
        self._runtime = runtime
        self._logs = logs
        self._directories = logs.directories
        self._cache = cache
        self._replicas = replicas
        self._cleaner = cleaner
        self._readings: dict[Disk, DirectoryReading] = {}
        self._steps: Steps | None = None
        self._next_ms = -1
        """When to look whether a reading is due; -1: not known yet."""
        self._off = True
        """Whether nothing is to be read, as far as the last look knows. While that is so, no turn is planned for a
        look."""
        self._free_ms = 0
        """Monotonic time at which what has been read is within the limit again."""
        self._written_ms = 0
        self._restoration = BatchRestoration(
            channels, cache, runtime.config.inter_broker_listener, self._job, self._sync_log, self._here
        )
        self.bytes_read = self.faults_found = self.faults_repaired = 0
        """The numbers since the start. All damage between two sound batches is one fault, and so is a small file."""
        self.damaged: dict[str, str] = {}
        """What was found damaged and could not be mended, by path."""
        self._failing: dict[Partition, PartitionLog] = {}
        """The logs whose last reading has ended with an error of the device."""

    # ---- what the broker's turn calls

    def tick(self, now: Now) -> None:
        """Begin the reading that is due."""
        if now.mono_ms < self._next_ms:
            return
        value = self._cache.value
        self._off = not self._rate()
        if self._next_ms < 0:
            self._next_ms = now.mono_ms + min(QUIET_MS, value("rayft.log.scrub.interval.ms"))
            return
        self._next_ms = now.mono_ms + LOOK_MS
        if self._steps is not None or self._logs.closing or self._off:
            return
        readings = [
            self._readings.setdefault(disk, DirectoryReading(disk))
            for _, disk in self._directories.paths()
            if not self._directories.failed(disk)
        ]
        due = [one for one in readings if one.due(now, value("rayft.log.scrub.interval.ms"))]
        if due:  # the first directory may be due again before the others had their turn
            self._steps = self._read(min(due, key=lambda one: one.began_ms))
            self._go_on(None)
        else:
            self._next_ms = now.mono_ms + IDLE_MS

    def deadline_ms(self) -> int:
        """The monotonic time at which `tick` is due."""
        return FAR_MS if self._steps is not None or self._off else self._next_ms

    @property
    def completed_ms(self) -> int:
        """Wall clock time of the oldest last whole reading among the directories; 0: one has never had any."""
        online = [disk for _, disk in self._directories.paths() if not self._directories.failed(disk)]
        return min((self._readings[disk].completed_ms if disk in self._readings else 0 for disk in online), default=0)

    # ---- one step after the other

    def _go_on(self, result: Result) -> None:
        """Carry out steps until one is to be waited for."""
        steps = self._steps
        if steps is None:
            return
        if self._logs.closing:
            steps.close()
            self._steps = None
            return
        try:
            effect = steps.throw(result) if isinstance(result, Exception) else steps.send(result)
        except StopIteration:
            self._steps, self._next_ms = None, self._runtime.now.mono_ms + LOOK_MS
        else:
            effect(self._go_on)

    def _job(self, job: Callable[[], Any], size: int = 0) -> Effect:
        """Run a job outside the loop, when the bytes read so far allow it. `size`: the bytes that it reads, as far as
        that is known."""

        def begin(then: Callable[[Result], None]) -> None:
            self._spend(size)
            start = bound(self._runtime.work, job, then, WorkKind.CLEANING)
            if self._free_ms > self._runtime.now.mono_ms:
                self._runtime.waiting.timers.at(self._free_ms, start)
            else:
                start()

        return begin

    def _sync(self, files: list[File | Directory], replacements: list[tuple[Disk, str, bytes]]) -> Effect:
        """Make small files durable."""
        return lambda then: self._runtime.sync(files, replacements, then)

    def _sync_log(self, log: PartitionLog, files: list[File | Directory]) -> Effect:
        """Make files of a log durable (rule 8)."""

        def begin(then: Callable[[Result], None]) -> None:
            self._runtime.sync(files, [], bound(self._synced, log, then))

        return begin

    def _synced(self, log: PartitionLog, then: Callable[[Result], None], result: Result) -> None:
        if isinstance(result, DiskFailed) and not self._logs.failures.fail(self._replicas, log.disk, result):
            self._runtime.stop(1, f"what was mended in {log.directory} cannot be made durable: {result}")
        then(result)

    def _spend(self, size: int) -> None:
        self.bytes_read += size
        rate = self._rate()
        if rate:
            self._free_ms = max(self._free_ms, self._runtime.now.mono_ms) + min(size * 1000 // rate, 60_000)

    def _rate(self) -> int:
        return int(self._cache.value("rayft.log.scrub.bytes.per.second"))

    # ---- one directory

    def _read(self, reading: DirectoryReading) -> Steps:
        if not reading.known:
            yield from self._recall(reading)
            if not reading.due(self._runtime.now, self._cache.value("rayft.log.scrub.interval.ms")):
                return
        if reading.at is None:
            reading.began_ms, reading.at = self._runtime.now.wall_ms, ("", -1, 0)
            self.damaged = {path: why for path, why in self.damaged.items() if not self._is_in(path, reading.disk)}
            self._failing = {one: log for one, log in self._failing.items() if self._here(one, log)}
        before = self.bytes_read, self.faults_found, self.faults_repaired
        ahead = self._ahead(reading)
        while not self._directories.failed(reading.disk):
            # A turn for each: nothing is read of a partition without records, and there may be thousands.
            yield self._job(int)
            if not self._rate():
                return
            partition = next(ahead, None)
            if partition is None:
                reading.at, reading.completed_ms = None, self._runtime.now.wall_ms
                self._told(reading, *before)
                break
            if not (yield from self._one(reading, partition)):
                return
        yield from self._keep(reading, now=True)

    def _told(self, reading: DirectoryReading, size: int, found: int, repaired: int) -> None:
        left = sum(self._is_in(path, reading.disk) for path in self.damaged)
        self._runtime.log.info(
            f"read what is at rest in {self._path(reading.disk)}: {self.bytes_read - size} bytes since it began or went on, "
            f"{self.faults_found - found} faults, {self.faults_repaired - repaired} mended, {left} files stay damaged"
        )

    def _recall(self, reading: DirectoryReading) -> Steps:
        try:
            content = yield self._job(bound(content_at_rest, reading.disk, SCRUBBED))
            reading.learn(bytes(content))
        except FileNotFoundError:
            pass
        except (CorruptCheckpoint, ValueError, IndexError):
            self._runtime.log.warning(f"{SCRUBBED} in {self._path(reading.disk)} is not used: it is damaged")
        except (DiskFull, DiskFailed) as error:
            self._directories.job_done(reading.disk, error)
        reading.known = True

    def _keep(self, reading: DirectoryReading, *, now: bool = False) -> Steps:
        """Write down where the reading is, about once a minute."""
        if (now or self._runtime.now.mono_ms >= self._written_ms) and not self._directories.failed(reading.disk):
            self._written_ms = self._runtime.now.mono_ms + CHECKPOINT_MS
            try:
                yield self._sync([], [(reading.disk, SCRUBBED, reading.content())])
            except (DiskFull, DiskFailed) as error:
                self._directories.job_done(reading.disk, error)

    def _ahead(self, reading: DirectoryReading) -> Iterator[Partition]:
        """The partitions in the directory that are not done. They are sorted once, and what has come meanwhile behind them
        is looked for at the end."""
        while True:
            assert reading.at is not None
            topic, number, offset = reading.at
            done = topic, number, offset >= NO_LIMIT
            here = [
                one
                for one in self._replicas.written()
                if one.log.disk is reading.disk and not one.removed and (one.topic, one.number, True) > done
            ]
            if not here:
                return
            for one in sorted(here, key=lambda one: (one.topic, one.number)):
                if one.log.disk is reading.disk and not one.removed:
                    yield one

    def _one(self, reading: DirectoryReading, partition: Partition) -> Steps:
        """Read one partition from where the reading has come to. Returns False if scrubbing was turned off before the
        end."""
        assert reading.at is not None
        offset = reading.at[2] if reading.at[:2] == (partition.topic, partition.number) else 0
        log = partition.log
        try:
            if not offset and log.segments:
                yield from self._small_files(partition, log)
            while self._here(partition, log) and self._rate():
                reading.at = partition.topic, partition.number, offset
                segment = self._segment(log, offset)
                if segment is None:
                    break
                offset = end_of(log, segment)
                with suppress(FileNotFoundError, CorruptBatch):  # gone, or damaged again: the next reading tells
                    yield from self._segment_of(partition, log, segment)
                yield from self._keep(reading)
            if not self._rate():
                return False
            self._failing.pop(partition, None)
        except (DiskFull, DiskFailed) as error:
            self._directories.job_done(error.disk or log.disk, error)
            self._failed(partition, log, error)
        except FileNotFoundError:
            pass
        except (ValueError, LookupError, ArithmeticError, MemoryError) as error:
            self._runtime.log.error(f"{partition!r} cannot be read at rest: {error!r}")
        reading.at = partition.topic, partition.number, NO_LIMIT
        return True

    def _failed(self, partition: Partition, log: PartitionLog, error: DiskFull | DiskFailed) -> None:
        """Give a log up whose file fails for good, though its directory stays (rule 7)."""
        if not isinstance(error, DiskFailed) or error.errno is None or not self._here(partition, log):
            return
        if self._failing.get(partition) is not log:
            self._failing[partition] = log
        elif not partition.unreadable and any(one != self._cache.me for one in partition.isr.isr):
            self._replicas.note_unreadable(partition)
            self._runtime.log.error(f"{partition!r} cannot be read at rest, twice, and is given up here: {error}")

    def _here(self, partition: Partition, log: PartitionLog) -> bool:
        return not (partition.removed or partition.log is not log or self._directories.failed(log.disk) or log.torn)

    @staticmethod
    def _segment(log: PartitionLog, offset: int) -> Segment | None:
        """The first sealed segment from an offset on which is durable and not deleted."""
        for place, segment in enumerate(log.segments[:-1]):
            end = log.segments[place + 1].base_offset
            if segment.base_offset >= offset and end > log.log_start_offset:
                return segment if end <= log.recovery_point else None
        return None

    # ---- one segment

    def _segment_of(self, partition: Partition, log: PartitionLog, segment: Segment) -> Steps:
        told: dict[int, Fault] = {}
        reached, rebuild = -1, False
        while True:
            found = yield from self._scrub(partition, log, segment, rebuild)
            if found is None:
                return
            faults = [one for one in found.faults if one.next_offset > log.log_start_offset]
            for one in faults:
                if one.position not in told:
                    told[one.position] = one
                    self._tell(log, one.path, f"{one.size} bytes at byte {one.position}, {_offsets(one)}: {one.reason}")
            if not faults:
                self._mended(log, segment.path(LOG), len(told))
                break
            if faults[0].position <= reached or not self._committed(partition, faults[0]):
                break
            reached = faults[0].position
            self._restoration.unfit = None
            generation = log.generation
            restored = yield from self._restoration.restore(partition, log, segment, faults)
            if not self._stays(partition, log, segment, found) or log.generation != generation:
                return
            if not restored:
                break
            rebuild = False
        if faults:
            left = {one.position for one in faults}
            self.faults_repaired += sum(position not in left for position in told)
            self._unmended(partition, log, segment, faults)
            return
        if told:
            self._cleaner.try_again(partition)
        yield from self._indexes(partition, log, segment, found)

    def _scrub(self, partition: Partition, log: PartitionLog, segment: Segment, rebuild: bool) -> Steps:
        """Read a segment once. Returns None if it is not what it was when that began. That others leave the log meanwhile,
        or are cleaned, is nothing to it: where one goes sooner than one is read, none would ever be read to its end."""
        aborted = segment.aborted
        found = SegmentScrub(
            log.disk,
            log.directory,
            segment.base_offset,
            end_of(log, segment),
            segment.log,
            sparse=log.sparse,
            start_offset=log.log_start_offset,
            epochs=(log.epochs.epochs, log.epochs.starts),
            transactions=aborted.exists and not aborted.in_memory and segment not in log.aborted.rebuilt,
            rebuild=SegmentIndex(segment.base_offset, segment.interval_bytes) if rebuild else None,
            suffix=segment.suffix,
        )
        generation = log.generation
        while not found.done:
            size = yield self._job(found.step)
            self._spend(size)
            if not self._rate() or not self._stays(partition, log, segment, found) or log.generation != generation:
                return None
        return found

    def _stays(self, partition: Partition, log: PartitionLog, segment: Segment, found: SegmentScrub) -> bool:
        """Whether the segment is still a sealed one of the log, under the name that it had."""
        return self._here(partition, log) and segment in log.segments[:-1] and segment.path(LOG) == found.path(LOG)

    def _committed(self, partition: Partition, fault: Fault) -> bool:
        return fault.first_offset < partition.high_watermark

    # ---- indexes

    def _indexes(self, partition: Partition, log: PartitionLog, segment: Segment, found: SegmentScrub) -> Steps:
        wrong = {ending: why for ending, why in found.index_faults.items() if ending != TRANSACTION_INDEX}
        for ending, why in wrong.items():
            self._tell(log, found.path(ending), why)
        if wrong:
            again = yield from self._scrub(partition, log, segment, True)
            if again is None or again.faults or not self._stays(partition, log, segment, again):
                return
            log.indexes.forget(segment)
            files = segment.replace_index(again.rebuild)
            log.indexes.touch(segment)
            yield self._sync_log(log, [*files, log.names.listing])
            for ending in wrong:
                self._mended(log, found.path(ending))
        aborted, generation = segment.aborted, log.generation
        if (
            not aborted.exists
            or aborted.in_memory
            or segment in log.aborted.rebuilt
            or segment not in log.aborted.segments
        ):
            return
        why = found.index_faults.get(TRANSACTION_INDEX, "")
        if not why and not tells_aborted(log, segment):
            return
        content = yield self._job(aborted_again(log, segment), segment.size)
        if not why:
            stored = yield self._job(bound(content_at_rest, log.disk, aborted.path))
            why = "" if stored == content else "it is not what the log says"
        if why and log.generation == generation and self._stays(partition, log, segment, found):
            self._tell(log, aborted.path, why)
            replace_aborted(log, segment, content)
            yield from self._flushed(partition)
            self._mended(log, aborted.path)

    # ---- small files

    def _small_files(self, partition: Partition, log: PartitionLog) -> Steps:
        epochs = None if log.epochs.dirty else (log.epochs.epochs, log.epochs.starts)
        identity = None if log.topic_id is None or log.recovery_point < 1 else (log.topic_id, log.instance)
        job = SmallFiles(log.disk, log.directory, epochs, identity, tuple(log.snapshots.offsets))
        found, size = yield self._job(job.read)
        self._spend(size)
        if not self._here(partition, log):
            return
        for one in found:
            if not self._here(partition, log):
                return  # another topic may have these names by now
            if one.offset >= 0:
                if one.offset not in log.snapshots.offsets:
                    continue  # it has gone meanwhile
                self._tell(log, one.path, one.reason)
                give_up_snapshot(log, one.offset)
            elif one.path.endswith(names.PARTITION_METADATA):
                assert identity is not None
                self._tell(log, one.path, one.reason)
                yield self._sync([], [(log.disk, one.path, names.identity_text(*identity))])
            elif epochs == (log.epochs.epochs, log.epochs.starts) and not log.epochs.dirty:
                self._tell(log, one.path, one.reason)
                write_epochs_again(log)
            else:
                continue
            yield from self._flushed(partition)
            self._mended(log, one.path)

    def _flushed(self, partition: Partition) -> Steps:
        """Go on when what the log wants to write again is durable."""
        log = partition.log

        def begin(then: Callable[[Result], None]) -> None:
            self._logs.flushes.flush(self._replicas, [partition], bound(self._synced, log, then))

        yield begin

    # ---- what is told

    def _tell(self, log: PartitionLog, path: str, what: str) -> None:
        self.faults_found += 1
        self.damaged[f"{self._path(log.disk)}/{path}"] = what
        self._runtime.log.error(f"damage at rest in {self._path(log.disk)}/{path}: {what}")

    def _mended(self, log: PartitionLog, path: str, count: int = 1) -> None:
        if count:
            self.faults_repaired += count
            self.damaged.pop(f"{self._path(log.disk)}/{path}", None)
            self._runtime.log.warning(f"mended {self._path(log.disk)}/{path}: it is again what it was")

    def _unmended(self, partition: Partition, log: PartitionLog, segment: Segment, faults: list[Fault]) -> None:
        path, first = f"{self._path(log.disk)}/{segment.path(LOG)}", faults[0]
        what = f"{path} stays damaged at byte {first.position}, {_offsets(first)}, {len(faults)} places in all"
        if not self._committed(partition, first):
            self._runtime.log.error(
                f"{what}: they are not committed yet, and are looked at again with the next reading"
            )
        elif self._restoration.unfit in partition.isr.isr and self._cache.me in partition.isr.isr:
            self._replicas.note_unreadable(partition)
            self._runtime.log.error(f"{what}: {partition!r} is fetched anew from broker {partition.leader}")
        else:
            self._runtime.log.error(
                f"{what}: no other replica of {partition!r} could give them. They are lost if none has them: bring such a "
                f"replica back and start this broker again, or delete the records below {first.next_offset}"
            )

    def _path(self, disk: Disk) -> str:
        return self._directories.path(disk)

    def _is_in(self, path: str, disk: Disk) -> bool:
        return path.startswith(f"{self._path(disk)}/")


def _offsets(fault: Fault) -> str:
    return f"offsets {fault.first_offset} to {fault.next_offset - 1}"
