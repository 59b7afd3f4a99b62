"""Replicas of a broker on their way from one log directory to another (KIP-113): which, when, and how fast.

`broker/log/moving.py` has the rules of one move. This file alone decides the rest. Rules:

1. At most num.replica.alter.log.dirs.threads replicas are copied at once, by default as many as there are directories. The
   others wait in the order in which they were asked for.
2. A slice is read and checked outside the loop and appended inside. All moves share the bytes that
   replica.alter.log.dirs.io.max.bytes.per.second allows; the setting is read anew before each slice.
3. A request for the directory in which the replica is ends its move; one for a third directory begins a new move. A replica
   that this broker does not have yet will begin in the directory that was asked for last.
4. A move ends with its replica, and its files go. When the directory of either log fails the other log stays: the current
   one is served on, and the future one is filled on after a restart.
5. Without room in the new directory the move waits, and the replica is served where it is. What cannot be read where the
   replica is ends the move, and is told once.
6. While the future log is made durable for the last time the replica is not flushed, for HELD_MS at most: otherwise a log
   that is flushed with every append would always be ahead on its disk.
7. The old files go when the new log's name is on the disk.
"""

from functools import partial as bound

from actors.broker.log.directories.directory import future_name
from actors.broker.log.log import PartitionLog
from actors.broker.log.moving import SLICE_BYTES, Copied, Copy, MissingBatch, Move, Next
from actors.broker.log.producers.producers import CorruptSnapshot
from actors.broker.log.truncation import Preparation, Prepared
from actors.broker.replication.partition import Partition
from actors.broker.replication.replicas import Replicas
from actors.node.roles.broker.availability import Availability
from actors.node.roles.broker.log.log_manager import LogManager
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.runtime.runtime import Runtime
from actors.ports import Disk, DiskFailed, DiskFull
from actors.wire.errors import ErrorCode
from fastpath.records.batch import CorruptBatch

AGAIN_MS = 1000
"""How soon a move that had no room, or found a file gone, goes on."""
HELD_MS = 500
LIMIT = "replica.alter.log.dirs.io.max.bytes.per.second"


class RunningMove:
    """A move that is being copied."""

    def __init__(self, partition: Partition, move: Move) -> None:
        self.partition = partition
        self.move = move
        self.told = False
        """Whether the log says already that the move waits."""
        self.spent = 0
        """The bytes of the move that have been counted."""


class LogDirMoves:
    """All moves of a broker."""

    def __init__(
        self, runtime: Runtime, logs: LogManager, cache: MetadataCache, replicas: Replicas, availability: Availability
    ) -> None:
        self._runtime = runtime
        self._logs = logs
        self._directories = logs.directories
        self._futures = logs.futures
        self._cache = cache
        self._replicas = replicas
        self._availability = availability
        self._waiting: dict[Partition, Move] = {}
        self._running: dict[Partition, RunningMove] = {}
        self._owed_bytes = 0.0
        """The bytes that were copied, and are not yet allowed by the limit."""
        self._owed_ms = 0

    # ---- requests

    def ask(self, path: str, topic: str, number: int) -> ErrorCode:
        """Have a replica moved to the directory `path`. Returns Kafka's error code."""
        disk = dict(self._directories.paths()).get(path)
        if future_name(topic, number, bytes(16)) is None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if disk is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if self._directories.failed(disk):
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._replicas.get(topic, number)
        if partition is None:
            return self._wish(disk, topic, number)
        future = self._futures.by_partition.get(partition)
        if future is not None and future.disk is not disk:
            self._futures.drop(partition)
            self._runtime.log.info(f"{partition!r} is not moved to {self._directories.path(future.disk)} any more")
            self._begin_waiting()
            future = None
        if partition.log.disk is disk or future is not None:
            return ErrorCode.NONE
        if self._directories.offline_count or partition.unreadable:
            return ErrorCode.KAFKA_STORAGE_ERROR  # its future log may be in the directory that is offline
        return self._begin(partition, disk)

    def _wish(self, disk: Disk, topic: str, number: int) -> ErrorCode:
        absent = self._availability.absent(topic, number)
        if absent is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return absent
        image = self._cache.image
        topic_id = image.topic_id(image.topic(topic))
        if topic_id is not None:
            self._directories.prefer(topic_id, number, disk)
        return ErrorCode.REPLICA_NOT_AVAILABLE

    # ---- what the broker's turn calls

    def tick(self) -> None:
        """Go on with the moves that the start has found."""
        resumed = self._futures.resumed
        for topic_id, number in list(resumed):
            partition = self._replicas.get(topic_id, number)
            future = self._futures.adopt(partition) if partition is not None else None
            if partition is None or future is None:
                gone = resumed.pop((topic_id, number), None)  # its files are found again by the next start
                if gone is not None:
                    gone.forget_indexes()
                    gone.release()
                continue
            self._runtime.log.info(f"{partition!r} is moved on to {self._directories.path(future.disk)}")
            self._waiting[partition] = Move(partition.log, future)
        self._begin_waiting()

    # ---- one move

    def _begin(self, partition: Partition, disk: Disk) -> ErrorCode:
        wall_ms = self._runtime.now.wall_ms
        try:
            partition.log.begin_file(wall_ms)
        except DiskFull:
            return ErrorCode.KAFKA_STORAGE_ERROR
        except DiskFailed as error:
            self._logs.failures.append_failed(self._replicas, partition, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._logs.written.add(partition)
        name = future_name(partition.topic, partition.number, self._runtime.random.uuid())
        assert name is not None, "the request was for a topic whose name leaves room"
        future = self._futures.begin(partition, disk, name)
        paths = self._directories.path(partition.log.disk), self._directories.path(disk)
        self._runtime.log.info(f"{partition!r} is moved from {paths[0]} to {paths[1]}")
        move = self._waiting[partition] = Move(partition.log, future)
        try:
            move.begin(wall_ms)
        except DiskFull:
            pass  # it waits for room, when it is its turn
        except DiskFailed as error:
            self._failed(move, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._begin_waiting()
        return ErrorCode.NONE

    def _begin_waiting(self) -> None:
        wanted = self._runtime.config.value("num.replica.alter.log.dirs.threads")
        threads = max(1, wanted or len(list(self._directories.paths())))
        for running in [one for one in self._running.values() if not self._wanted(one.partition, one.move)]:
            del self._running[running.partition]
        while self._waiting and len(self._running) < threads:
            partition = next(iter(self._waiting))
            move = self._waiting.pop(partition)
            if self._wanted(partition, move):
                running = self._running[partition] = RunningMove(partition, move)
                self._go_on(running)

    def _wanted(self, partition: Partition, move: Move) -> bool:
        return (
            not partition.removed
            and partition.log is move.current
            and self._futures.by_partition.get(partition) is move.future
            and not self._logs.closing
        )

    def _is_over(self, running: RunningMove) -> bool:
        """Whether a move goes no further. If so, another one may begin."""
        if self._running.get(running.partition) is running and self._wanted(running.partition, running.move):
            return False
        self._begin_waiting()
        return True

    def _go_on(self, running: RunningMove) -> None:
        if self._is_over(running):
            return
        move, now = running.move, self._runtime.now
        delay_ms = self._delay_ms()
        if delay_ms:
            self._later(running, delay_ms)
            return
        try:
            wanted = move.look(now.wall_ms, self._slice_bytes())
        except DiskFull as error:
            self._wait(running, error)
            return
        except DiskFailed as error:
            if error.disk is move.current.disk:
                self._unread(running, error)
            else:
                self._failed(move, error)
            return
        finally:
            self._note(running)
        if isinstance(wanted, Next):
            STEPS[wanted](self, running)
        elif isinstance(wanted, Copy):
            self._runtime.work(wanted.__call__, bound(self._copied, running, wanted.generation))
        else:
            self._runtime.work(wanted.__call__, bound(self._prepared, running, wanted))

    def _copied(self, running: RunningMove, generation: int, result: object) -> None:
        if self._is_over(running):
            return
        move, now = running.move, self._runtime.now
        if isinstance(result, DiskFull):  # an index that was lost is made anew, to be read
            self._wait(running, result)
            return
        if isinstance(result, DiskFailed):
            self._unread(running, result)
            return
        if isinstance(result, FileNotFoundError):  # retention has come here
            move.again()
            self._later(running, 1)
            return
        if isinstance(result, CorruptBatch) and generation != move.current.generation:
            move.again()  # it was cut while it was read
            self._later(running, 1)
            return
        if isinstance(result, CorruptBatch):
            self._give_up(running, f"it has a damaged batch: {result}")
            return
        assert isinstance(result, Copied), result
        try:
            move.take(result, now.wall_ms, running.partition.high_watermark)
        except DiskFull as error:
            self._wait(running, error)
        except DiskFailed as error:
            self._failed(move, error)
        except MissingBatch as error:
            self._give_up(running, str(error))
        else:
            self._note(running)
            running.told = False
            if move.future.flush_due(now.mono_ms):
                self._flush(running, settle=False)
            else:
                self._go_on(running)

    def _prepared(self, running: RunningMove, job: Preparation, result: object) -> None:
        if self._is_over(running):
            return
        move = running.move
        if isinstance(result, DiskFailed):
            self._failed(move, result)
            return
        if isinstance(result, CorruptSnapshot):
            move.future.snapshots.forget(job.start)
        if isinstance(result, Prepared):
            try:
                move.cut(job, result)
            except DiskFull as error:
                self._wait(running, error)
                return
            except DiskFailed as error:
                self._failed(move, error)
                return
            self._note(running)
        self._later(running, 1)

    def _flush(self, running: RunningMove, *, settle: bool) -> None:
        move, partition, now_ms = running.move, running.partition, self._runtime.now.mono_ms
        future = move.future
        try:
            flush = future.flush(now_ms)
        except DiskFull as error:
            self._wait(running, error)
            return
        except DiskFailed as error:
            self._failed(move, error)
            return
        replacements = list(flush.replacements)
        if flush.cut:
            replacements += self._logs.checkpoints.behind_a_cut(self._replicas, future.disk)
        if settle:
            replacements.append(move.settlement())
            self._futures.held[partition] = now_ms + HELD_MS

        def done(result: object) -> None:
            self._futures.held.pop(partition, None)
            if self._is_over(running):
                return
            if isinstance(result, DiskFull):
                self._wait(running, result)
            elif isinstance(result, DiskFailed):
                self._failed(move, result)
            else:
                try:
                    future.flushed(flush)
                except DiskFailed as error:  # a file that the flush wrote is to go again, as the log was cut meanwhile
                    self._failed(move, error)
                    return
                if settle:
                    move.settled()
                self._go_on(running)

        self._runtime.sync(flush.files, replacements, done)

    def _flush_cut(self, running: RunningMove) -> None:
        self._flush(running, settle=False)

    def _settle(self, running: RunningMove) -> None:
        self._flush(running, settle=True)

    def _mark(self, running: RunningMove) -> None:
        def done(result: object) -> None:
            if self._is_over(running):
                return
            if isinstance(result, DiskFull | DiskFailed):
                self._directories.job_done(running.move.current.disk, result)
                self._wait(running, result)
            else:
                running.move.marked()
                self._go_on(running)

        self._runtime.sync([], [running.move.mark()], done)

    def _take_over(self, running: RunningMove) -> None:
        move, partition = running.move, running.partition
        current = move.current
        try:
            if move.future.disk.exists(current.directory):  # what an earlier move has left there has not gone yet
                move.again()
                self._later(running, AGAIN_MS)
                return
            move.take_over(partition.high_watermark)
        except DiskFull as error:
            self._wait(running, error)
            return
        except DiskFailed as error:
            self._failed(move, error)
            return
        partition.log = move.future
        self._replicas.log_replaced()
        del self._running[partition]
        self._futures.taken_over(partition, current)
        self._logs.written.add(partition)
        path = self._directories.path(move.future.disk)
        self._runtime.log.info(f"{partition!r} is in {path} now: {move.copied_bytes} bytes were copied")
        self._logs.flushes.flush(self._replicas, [partition], bound(self._named, partition, current))
        self._begin_waiting()

    def _named(self, partition: Partition, current: PartitionLog, result: object) -> None:
        if isinstance(result, Exception):
            self._runtime.stop(1, f"{partition!r} cannot be made durable: {result}")
        elif not self._logs.closing and current in self._futures.superseded:
            self._futures.retire_superseded(partition, current)

    # ---- what goes wrong

    def _wait(self, running: RunningMove, error: DiskFull | DiskFailed) -> None:
        if not running.told:
            running.told = True
            path = self._directories.path(running.move.future.disk)
            self._runtime.log.warning(f"{running.partition!r} waits on its way to {path}: {error}")
        running.move.again()
        self._later(running, AGAIN_MS)

    def _unread(self, running: RunningMove, error: DiskFailed) -> None:
        """Note that the log that is copied could not be read. Its directory may be one without which nothing goes on."""
        self._directories.job_done(running.move.current.disk, error)
        self._wait(running, error)

    def _failed(self, move: Move, error: DiskFailed) -> None:
        """Take the directory offline to which a replica is moved, since it fails."""
        disk = error.disk or move.future.disk
        if not self._logs.failures.fail(self._replicas, disk, error):
            self._runtime.stop(1, f"log directory {self._directories.path(disk)} cannot be used: {error}")
        self._begin_waiting()

    def _give_up(self, running: RunningMove, why: str) -> None:
        self._runtime.log.error(f"{running.partition!r} stays where it is, and is not moved: {why}")
        self._futures.drop(running.partition)
        self._begin_waiting()

    # ---- how fast

    def _later(self, running: RunningMove, delay_ms: int) -> None:
        at_ms = self._runtime.now.mono_ms + delay_ms
        self._runtime.waiting.timers.at(at_ms, lambda: self._go_on(running))

    def _slice_bytes(self) -> int:
        limit = self._cache.value(LIMIT)
        return max(1, min(SLICE_BYTES, int(limit)))

    def _note(self, running: RunningMove) -> None:
        """Count what a move has copied, and unlink what it needs no more."""
        move = running.move
        self._owed_bytes += move.copied_bytes - running.spent
        running.spent = move.copied_bytes
        jobs, move.jobs = move.jobs, []
        self._logs.retired.unlink(move.future.disk, jobs)

    def _delay_ms(self) -> int:
        """How long to wait for the limit; 0: go on. It may change meanwhile, so not for longer than AGAIN_MS."""
        limit, now_ms = self._cache.value(LIMIT), self._runtime.now.mono_ms
        self._owed_bytes = max(0.0, self._owed_bytes - limit * (now_ms - self._owed_ms) / 1000)
        self._owed_ms = now_ms
        return min(AGAIN_MS, int(self._owed_bytes * 1000 / limit)) if limit > 0 else AGAIN_MS


STEPS = {
    Next.FLUSH: LogDirMoves._flush_cut,
    Next.MARK: LogDirMoves._mark,
    Next.SETTLE: LogDirMoves._settle,
    Next.TAKE_OVER: LogDirMoves._take_over,
}
