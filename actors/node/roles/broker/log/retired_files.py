"""Files that no replica of this broker uses any more: they get another name at once, and are unlinked later.

This file alone decides:

1. The directory of a log that goes is renamed at once, so that what comes under its name next begins in a directory of its
   own, which no job of the one before reaches. It is unlinked after `file.delete.delay.ms`, in a thread; so are segments.
   Until then readers may have them open.
2. Files of which nobody has said that they may go are set aside under a name of their own, and stay.
3. In a directory that is offline nothing is renamed and nothing removed: the next start finds files that nobody claims.
4. A name that finds no room to be changed is tried again until it is. Nothing else begins under it meanwhile; a replica
   that waits for it is told.
5. What finds no room or no descriptor to be unlinked is tried again until it is gone.
6. What a start finds of segments that were in front of their logs goes at once, in a thread.
"""

from collections.abc import Callable, Iterable

from actors.broker.log.directories.directory import STRAY, PartitionDirectory, retired_name
from actors.broker.log.log import PartitionLog
from actors.broker.log.segment import Job, Segment
from actors.broker.replication.partition import Partition
from actors.node.roles.broker.log.log_directories import LogDirectories
from actors.node.runtime.runtime import Runtime
from actors.ports import Disk, DiskFailed, DiskFull
from actors.settings.topics import TopicSettings

AGAIN_MS = 1000
AT_A_TIME = 16
"""How many logs one job rids of what a start has found."""


class RetiredFiles:
    """Takes files out of a broker's log directories."""

    def __init__(self, runtime: Runtime, directories: LogDirectories) -> None:
        self._runtime = runtime
        self._directories = directories
        self.stuck: dict[tuple[Disk, str], Callable[[], None]] = {}
        """(disk, name) that is to have another name, as soon as there is room for it -> what tries again."""
        self._given_up: set[tuple[Disk, str]] = set()
        """(disk, name) of what could not be given another name though there was room: until the next start nothing begins
        there."""
        self.freed: Callable[[bytes, int], None] = lambda topic_id, number: None
        """Told (topic id, number) of a replica that has waited for a name, when it may begin under it."""
        self._waiting: dict[tuple[Disk, str], dict[tuple[bytes, int], None]] = {}
        """(disk, name) that is `stuck` -> the replicas that are to begin under it."""
        self._left_behind: dict[Disk, list[Job]] = {}
        """Disks where something is unlinked that a start has found -> the jobs that come next."""

    def left(self) -> set[tuple[Disk, str]]:
        """(disk, name) of what goes and still has its name: until there is room for another one, or until the next start."""
        return self._given_up.union(self.stuck)

    # ---- whole logs

    def drop(self, partition: Partition, log: PartitionLog) -> None:
        """Remove a log of a partition, with its files."""
        log.forget_indexes()
        self._directories.count(log.disk, -1)
        if self.there(log):
            self.retire(log.disk, log.directory, partition.topic, partition.number, partition.settings, log)

    def there(self, log: PartitionLog) -> bool:
        """Whether a log has files that can be given another name."""
        return not self._directories.failed(log.disk) and self._directories.exists(log.disk, log.directory)

    def retire(
        self, disk: Disk, name: str, topic: str, number: int, settings: TopicSettings, log: PartitionLog | None = None
    ) -> None:
        """Take a partition's directory away (rule 1). `log`: the log that has its files open."""
        retired = retired_name(topic, number, "delete", self._runtime.random.uuid())

        def later() -> None:
            if log is not None:
                log.release()
            self.remove(disk, retired)

        def renamed() -> None:
            _left(log)
            self._runtime.waiting.timers.at(self._runtime.now.mono_ms + settings.file_delete_delay_ms, later)

        self._rename(disk, name, retired, renamed)

    def free(self, disk: Disk, name: str, topic_id: bytes, number: int) -> bool:
        """Whether the log of a replica may begin under that name: what had it before has another one. If not, `freed` says
        when; or the replica is offline until the next start, where the name could not be given up."""
        key = (disk, name)
        attempt = self.stuck.get(key)
        if attempt is not None:
            attempt()
        if key in self._given_up:
            return False
        if key not in self.stuck:
            return True
        if (topic_id, number) not in self._waiting.setdefault(key, {}):
            self._waiting[key][topic_id, number] = None
            self._runtime.log.error(
                f"{name} cannot begin in {self._directories.path(disk)} until what had that name has another one, for which "
                f"there is no room"
            )
        return False

    def _rename(self, disk: Disk, name: str, to: str, then: Callable[[], None]) -> None:
        """Give a name another one, now or when there is room (rule 4), then `then`. Where the device fails, the next start
        on the repaired disk finds files that nobody claims."""
        key, told = (disk, name), False

        def attempt() -> None:
            nonlocal told
            if self._directories.failed(disk):
                self._give_up(key)
                return
            try:
                disk.rename(name, to)
            except DiskFull as error:
                if not told:
                    told = True
                    self._directories.noted(error)
                return
            except DiskFailed as error:
                self._give_up(key)
                self._directories.job_done(disk, error)
                return
            del self.stuck[key]
            then()
            for topic_id, number in self._waiting.pop(key, {}):
                self.freed(topic_id, number)

        def again() -> None:
            if self.stuck.get(key) is attempt:
                attempt()
            if self.stuck.get(key) is attempt:
                self._runtime.waiting.timers.at(self._runtime.now.mono_ms + AGAIN_MS, again)

        self.stuck[key] = attempt
        again()

    def _give_up(self, key: tuple[Disk, str]) -> None:
        """Leave a name to the next start. A replica that waits for it is offline until then."""
        del self.stuck[key]
        self._waiting.pop(key, None)
        self._given_up.add(key)

    def remove(self, disk: Disk, name: str) -> None:
        """Unlink a directory now."""
        self._work(disk, lambda: disk.remove(name))

    # ---- what stays under another name

    def set_aside(self, partition: Partition, log: PartitionLog) -> None:
        """Close a log of a partition, and keep its files under another name."""
        log.forget_indexes()
        self._directories.count(log.disk, -1)
        if self.there(log):
            self.keep_stray(log.disk, log.directory, partition.topic, partition.number)
        _left(log)
        later_ms = self._runtime.now.mono_ms + partition.settings.file_delete_delay_ms
        self._runtime.waiting.timers.at(later_ms, log.release)

    def keep_stray(self, disk: Disk, name: str, topic: str, number: int) -> None:
        """Keep files that are of no replica of this broker, under another name: a controller that says what there is
        does not say what was deleted."""

        def told(stray: str) -> None:
            self._runtime.log.warning(
                f"{name} is no replica of this broker, as the controller says, which does not say that it is deleted: its "
                f"files are set aside as {stray}. Remove them if nobody needs them"
            )

        self.stray(disk, name, topic, number, told)

    def keep_unknown(self, disk: Disk, found: PartitionDirectory) -> None:
        """Keep files that do not say which topic they are of: a power cut came before their first flush, or
        partition.metadata is damaged. A topic that was deleted may have had that name, so nobody reads them; nobody
        removes them either."""

        def told(stray: str) -> None:
            self._runtime.log.warning(
                f"{found.name} has no readable partition.metadata: its files are set aside as {stray}"
            )

        self.stray(disk, found.name, found.topic, found.number, told)

    def stray(self, disk: Disk, name: str, topic: str, number: int, told: Callable[[str], None]) -> None:
        """Rename a partition's directory to a name that is not used. `told` gets the new name, as soon as it has it."""
        stray = retired_name(topic, number, STRAY, self._runtime.random.uuid())
        self._rename(disk, name, stray, lambda: told(stray))

    # ---- segments

    def retire_segments(self, partition: Partition, segments: Iterable[Segment], jobs: Iterable[Job]) -> None:
        """Unlink segments whose place others have taken, when they cannot be read any more."""
        disk, unlinking = partition.log.disk, list(jobs)

        def later() -> None:
            for segment in segments:
                segment.close()
            self.unlink(disk, unlinking)

        self._runtime.waiting.timers.at(self._runtime.now.mono_ms + partition.settings.file_delete_delay_ms, later)

    def unlink_later(self, partition: Partition, jobs: list[Job]) -> None:
        """Run unlinking after `file.delete.delay.ms`: readers may have the files open still."""
        if jobs:
            disk, delay_ms = partition.log.disk, partition.settings.file_delete_delay_ms
            self._runtime.waiting.timers.at(self._runtime.now.mono_ms + delay_ms, lambda: self.unlink(disk, jobs))

    def unlink_what_was_left(self, disk: Disk, jobs: list[Job]) -> None:
        """Unlink what a start has found, in a thread, and some logs at a time: where there are thousands the threads have
        more to do."""
        if jobs and disk in self._left_behind:
            self._left_behind[disk] += jobs
        elif jobs:
            self._left_behind[disk] = jobs
            self._unlink_some(disk)

    def _unlink_some(self, disk: Disk) -> None:
        some, rest = self._left_behind[disk][:AT_A_TIME], self._left_behind[disk][AT_A_TIME:]
        if not some or self._directories.failed(disk):
            del self._left_behind[disk]
            return
        self._left_behind[disk] = rest

        def done(result: object) -> None:
            if isinstance(result, DiskFull):
                self.unlink(disk, some)
            else:
                self._directories.job_done(disk, result)
            self._unlink_some(disk)

        self._runtime.work(lambda: _each(some), done)

    def unlink(self, disk: Disk, jobs: list[Job]) -> None:
        """Run unlinking in a thread."""
        if jobs:
            self._work(disk, lambda: _each(jobs))

    def _work(self, disk: Disk, job: Job, told: bool = False) -> None:
        """Run a job in a thread, and again where it finds no room or no descriptor (rule 5)."""

        def done(result: object) -> None:
            if not isinstance(result, DiskFull):
                self._directories.job_done(disk, result)
                return
            if not told:
                self._directories.noted(result)
            if not self._directories.failed(disk):
                again_ms = self._runtime.now.mono_ms + AGAIN_MS
                self._runtime.waiting.timers.at(again_ms, lambda: self._work(disk, job, told=True))

        self._runtime.work(job, done)


def _left(log: PartitionLog | None) -> None:
    """Let no job for the files of a log reach those of the next one of its name."""
    if log is not None and not log.blank:
        log.names.leave_directory()


def _each(jobs: list[Job]) -> None:
    """Run all jobs; a file that cannot be removed keeps no other. Raises DiskFailed of the first of a
    device, else DiskFull."""
    failed: list[DiskFull | DiskFailed] = []
    for job in jobs:
        try:
            job()
        except (DiskFull, DiskFailed) as error:
            failed.append(error)
    if failed:
        raise next((one for one in failed if isinstance(one, DiskFailed)), failed[0])
