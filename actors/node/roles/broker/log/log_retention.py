"""Retention in a broker: when a log is looked at, and what becomes of segments that it gives up.

`broker/log/retention.py` decides which segments go. This file alone decides the rest:

1. What is not in memory is read in a thread, a log that has to be durable is flushed, and then it is looked at again. One
   that was cut waits for the flush that writes the checkpoints too. On a full disk the new files alone are synced, and what
   was cut before them: what goes makes the room for the rest.
2. A log has one such job or flush under way, and a directory a few: clients wait for the same threads and the same disk, and
   so does a stop. A directory whose disk does not answer holds up no other one.
3. A turn goes on with the check as long as little has been done in it. A log of which much goes is looked at again, behind
   the others.
4. Files are unlinked when nobody can be reading them any more. A check that fails makes what room it can.
5. A new file is flushed soon, whatever becomes of its flush here.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable

from actors.broker.log import retention
from actors.broker.log.log import PartitionLog
from actors.broker.log.segment import Segment
from actors.broker.replication.partition import Partition
from actors.broker.replication.replicas import Replicas
from actors.node.roles.broker.log.log_directories import LogDirectories
from actors.node.roles.broker.log.retired_files import RetiredFiles
from actors.node.roles.broker.log.written_logs import WrittenLogs
from actors.node.runtime.runtime import Runtime
from actors.ports import Disk, DiskFailed, DiskFull, Run

AT_ONCE = 16
"""For how many logs of a directory something is under way at once."""
A_TURN = 64
"""After how many segments that went, or files that were begun, a turn leaves the other logs to the next one: each takes some
tenths of a millisecond."""
LOOKED_AT = 2000
"""How many logs a turn looks at, of which nothing goes."""


class LogRetention:
    """Deletes what the logs of a broker need not keep."""

    def __init__(
        self, runtime: Runtime, directories: LogDirectories, retired: RetiredFiles, written: WrittenLogs
    ) -> None:
        self._runtime = runtime
        self._directories = directories
        self._retired = retired
        self._written = written
        self._line: OrderedDict[Partition, None] = OrderedDict()
        """The partitions whose log is to be looked at, in this order."""
        self._held: dict[Disk, OrderedDict[Partition, None]] = {}
        """The partitions that wait until less is under way in the directory of their log."""
        self._under_way: dict[Disk, set[PartitionLog]] = {}
        """The logs of a directory for which there is a job or a flush."""

    def check(self, partitions: Iterable[Partition]) -> None:
        """Have all these logs looked at, in this turn and the next ones."""
        self._held.clear()
        self._line.update(dict.fromkeys(partitions))

    @property
    def gathers(self) -> bool:
        """Whether a log can be looked at now."""
        return bool(self._line) or any(held and self._places(disk) > 0 for disk, held in self._held.items())

    def go_on(self, replicas: Replicas) -> None:
        """Look at logs that are in line, as many as a turn has time for. `replicas` are told what is durable."""
        for disk, held in self._held.items():
            for _ in range(min(self._places(disk), len(held))):
                self._line[held.popitem(last=False)[0]] = None
        looked_at = done = 0
        while self._line and looked_at < LOOKED_AT and done < A_TURN:
            done += self._look(replicas, self._line.popitem(last=False)[0])
            looked_at += 1

    def _places(self, disk: Disk) -> int:
        return AT_ONCE - len(self._under_way.get(disk, ()))

    def _look(self, replicas: Replicas, partition: Partition) -> int:
        """Delete the segments that one log need not keep. Returns how many have gone or were begun."""
        log, retired = partition.log, self._retired
        if partition.removed:
            return 0
        retired.unlink_later(partition, log.left_over())
        if not log.segments or log in self._under_way.get(log.disk, ()):
            return 0
        if self._places(log.disk) <= 0:
            self._held.setdefault(log.disk, OrderedDict())[partition] = None
            return 0
        active = log.active
        try:
            retained = retention.retain(log, self._runtime.now.wall_ms, partition.high_watermark)
        except (DiskFull, DiskFailed, FileNotFoundError) as error:
            self._runtime.log.warning(f"retention of {partition!r} failed: {error}")
            self._directories.job_failed(log.disk, error)
            # On a full disk what it has come to makes room for the rest.
            retired.unlink_later(partition, log.left_over())
            self._written.look_again(partition)
            return 1
        rolled = log.active is not active
        if retained.deleted or rolled:
            self._written.add(partition)  # if it has rolled, nothing but the new file says where the log ends
        if retained.deleted:
            self._runtime.log.info(
                f"deleted {retained.deleted} segments of {partition!r}, which begins at {log.log_start_offset} now"
            )
            retired.unlink_later(partition, retained.jobs)
        if retained.warm:
            self._runtime.work(lambda: [job() for job in retained.warm], self._begun(partition, log))
        elif retained.behind:
            self._flush(replicas, partition, log, retained.behind)
        elif retained.more:
            self._line[partition] = None
        return retained.deleted + rolled

    def _flush(self, replicas: Replicas, partition: Partition, log: PartitionLog, behind: list[Segment]) -> None:
        """Make a log durable, so that what it has begun is there whatever goes."""
        try:
            flush = log.flush(self._runtime.now.mono_ms)
        except DiskFull:
            self._sync(partition, log, behind)
            return
        except DiskFailed as error:
            self._directories.job_done(log.disk, error)
            return
        if flush.cut:
            log.names.flush_wanted = True
            self._written.look_again(partition)
            if log.disk in self._directories.full.lacks:  # that flush may wait for what goes here
                self._sync(partition, log, behind)
            return
        ended = self._begun(partition, log)

        def done(result: object) -> None:
            if not isinstance(result, Exception):
                try:
                    log.flushed(flush)
                    replicas.durable(partition, self._runtime.now.mono_ms)
                except DiskFailed as error:  # what came late behind a cut cannot be removed
                    result = error
            else:
                log.names.flush_wanted = True
                self._written.look_again(partition)
            if isinstance(result, DiskFull) or (result is None and any(segment.is_new for segment in behind)):
                self._sync(partition, log, behind)
            else:
                ended(result)

        self._runtime.sync([], [], done, runs=[Run(flush.files, flush.replacements)])

    def _sync(self, partition: Partition, log: PartitionLog, behind: list[Segment]) -> None:
        """Make new files durable, behind what was cut, and nothing else: for that there is no room."""
        files = [segment.log for segment in (*log.shortened, *behind) if segment in log.segments]
        ended = self._begun(partition, log)

        def done(result: object) -> None:
            if not isinstance(result, Exception):
                retention.synced(behind)
            ended(result)

        self._runtime.sync([], [], done, runs=[Run(files, ())])

    def _begun(self, partition: Partition, log: PartitionLog) -> Callable[[object], None]:
        """Note that a job or a flush of a log begins, after which it is looked at again. Returns who is told its end. The
        partition may have another log by then."""
        disk = log.disk
        self._under_way.setdefault(disk, set()).add(log)

        def done(result: object) -> None:
            self._under_way[disk].discard(log)
            self._directories.job_done(disk, result)
            if isinstance(result, DiskFull | DiskFailed):
                self._held.pop(disk, None)  # the others would come to the same: the next check tries again
            if not isinstance(result, Exception):
                self._line[partition] = None

        return done
