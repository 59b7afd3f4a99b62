"""A broker's log directories: where each is, which are offline or without room, and which one a new replica gets.

This file alone decides:

1. A new replica begins in the directory that a client has asked for (KIP-113), else in the one with the fewest logs.
2. Which errors of a job take its directory offline: those of the device. That is done at the end of the turn
   (`unreadable_storage.py`).
3. A broker goes on without a directory while another one is left, unless the metadata log is in it (KIP-112).
4. Which directories a stop may mark as clean, as far as the directory decides that: one that is offline, or of which a log
   was left for the next start to look at, gets no mark.
5. Which of two copies of a replica began last: it has the higher instance of the two. Files of the other one may be left
   where nobody can remove them, or be back after a power cut.
6. When a directory counts as gone as a whole: META is not in it any more, or nothing but what a running process writes.
"""

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from actors.broker.log.directories.checkpoints import (
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LIFE_BITS,
    LOG_STARTS,
    RECOVERY_POINTS,
    SCRUBBED,
    TOPIC_IDS,
)
from actors.broker.log.directories.directory import LogDirectory
from actors.broker.log.directories.disk_full import FullDisks
from actors.broker.log.directories.losses import DIRECTORY_IDS
from actors.broker.log.directories.renames import Torn
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.storage import Storage
from actors.ports import Disk, DiskFailed, DiskFull

DEVICE_ERRORS = frozenset((errno.EIO, errno.EROFS, errno.ENODEV, errno.ENXIO, errno.ENOTDIR, errno.ESTALE))
"""The errors of a job in a directory that take it offline; that a name is in use, say, does not."""
OF_ALL = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANED_OFFSETS, TOPIC_IDS, DIRECTORY_IDS, SCRUBBED)
WRITTEN_ANYWHERE = frozenset(name + end for name in OF_ALL for end in ("", ".tmp"))
"""Files that this process makes in a log directory whatever is in it."""
WISHES_MAX = 100_000
"""How many replicas that are not here yet may have been given a directory."""
META = "meta.properties"
"""The file that a directory has if it was formatted (`host/storage.py`). No running process writes it."""


class LogDirectories:
    """All log directories of a broker, in the order of its settings."""

    def __init__(self, runtime: Runtime, storage: Storage, failing: dict[Disk, DiskFailed]) -> None:
        """Directories whose files are not read yet. `failing`: to which other parts may add directories whose device
        has failed."""
        self._runtime = runtime
        self._storage = storage
        self.ids: list[bytes] = []
        """The ids of the directories that hold partitions, 16 bytes each."""
        self._directories: list[LogDirectory] = []
        self._paths: list[str] = []
        self._counts: list[int] = []
        """The number of logs that each directory has."""
        self.preferred: dict[tuple[bytes, int], Disk] = {}
        """The directory in which a replica that is not here yet is to begin, by topic id and number."""
        self.failing = failing
        """Directories in which a job has failed in this turn, by an error of the device."""
        self._failed: set[Disk] = set()
        """Directories that are offline."""
        self._unsure: set[Disk] = set()
        """Directories with a log that the next start has to look at."""
        self._formatted: set[Disk] = set()
        """Directories that had META at the start: without it they are not there any more."""
        self.full = FullDisks()
        self.life: Callable[[], int] = lambda: 0
        """A number of this life of the broker, above those of all lives before."""

    def read(self) -> None:
        """Read the small files of every directory. Start-up only. Raises DiskFailed."""
        storage = self._storage
        mine = set(self._runtime.config.log_dirs)
        for disk, path, id in zip(storage.disks, storage.paths, storage.directory_ids, strict=True):
            if path in mine or len(storage.disks) == 1:
                self.ids.append(id)
                self._directories.append(LogDirectory(disk))
                self._paths.append(path)
                with suppress(DiskFull, DiskFailed):  # its next user finds out
                    self._formatted.update((disk,) if disk.exists(META) else ())
        self._counts = [0] * len(self._directories)

    # ---- which there are

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(self._directories)

    def __len__(self) -> int:
        return len(self._directories)

    def of(self, disk: Disk) -> LogDirectory:
        """The directory on a disk."""
        return next(one for one in self._directories if one.disk is disk)

    def paths(self) -> Iterable[tuple[str, Disk]]:
        """(path, disk) of every log directory."""
        return zip(self._paths, (directory.disk for directory in self._directories), strict=True)

    def path(self, disk: Disk) -> str:
        """The path of a log directory, for sentences and metrics."""
        return next(path for path, mine in self.paths() if mine is disk)

    # ---- how many logs each has

    def count(self, disk: Disk, by: int) -> None:
        """Count that a directory has `by` logs more."""
        for place, directory in enumerate(self._directories):
            if directory.disk is disk:
                self._counts[place] += by

    def prefer(self, topic_id: bytes, number: int, disk: Disk) -> None:
        """Note in which directory a replica that is not here yet is to begin. Of too many the oldest wish is forgotten."""
        self.preferred.pop((topic_id, number), None)
        self.preferred[topic_id, number] = disk
        if len(self.preferred) > WISHES_MAX:
            del self.preferred[next(iter(self.preferred))]

    def next_instance(self, disk: Disk) -> int:
        """The instance of a log that begins in a directory now (rule 5)."""
        above = max(self.life() << LIFE_BITS, *(one.instances for one in self._directories))
        return self.of(disk).next_instance(above)

    def place(self, topic_id: bytes, number: int) -> Disk:
        """The directory in which a new replica begins (rule 1)."""
        wanted = self.preferred.pop((topic_id, number), None)
        if wanted is not None and wanted not in self._failed:
            return wanted
        online = [index for index, one in enumerate(self._directories) if one.disk not in self._failed]
        return self._directories[min(online, key=lambda index: self._counts[index])].disk

    # ---- which are offline

    def failed(self, disk: Disk) -> bool:
        """Whether a directory is offline."""
        return disk in self._failed

    @property
    def offline_count(self) -> int:
        """The number of directories that are offline."""
        return len(self._failed)

    def online(self) -> list[LogDirectory]:
        """The directories that are not offline."""
        return [one for one in self._directories if one.disk not in self._failed]

    def take_offline(self, disk: Disk) -> bool:
        """Use a directory no more. Returns False if this broker cannot go on without it (rule 3)."""
        if self.needed(disk):
            return False
        self._failed.add(disk)
        return True

    def needed(self, disk: Disk) -> bool:
        """Whether this broker cannot go on without a directory (rule 3)."""
        left = [one for one in self._directories if one.disk not in self._failed and one.disk is not disk]
        return not left or disk is self._storage.disks[0]

    def doubt(self, disk: Disk) -> None:
        """Leave a log in this directory for the next start to look at: no stop of this process is clean there."""
        self._unsure.add(disk)

    def unsure(self) -> set[Disk]:
        """Directories that no stop of this process marks as clean (rule 4)."""
        return self._failed | self._unsure

    def gone(self, disk: Disk) -> DiskFailed | None:
        """Why a directory that has held more than its partitions is not there as a whole; None: it is there. What this
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

    # ---- jobs in a directory

    def job_done(self, disk: Disk, result: object) -> None:
        """Note how a job in a directory has ended."""
        self.noted(result)
        self.job_failed(disk, result)

    def noted(self, result: object) -> None:
        """Say that a job has failed, if it has."""
        if isinstance(result, Exception):
            self._runtime.log.warning(f"a job on the log directories failed: {result!r}")

    def job_failed(self, disk: Disk, result: object) -> None:
        """A directory fails if a job in it has ended with an error of the device (rule 2)."""
        if isinstance(result, DiskFailed) and (result.errno in DEVICE_ERRORS or isinstance(result, Torn)):
            self.failing[result.disk or disk] = result

    def rename(self, disk: Disk, name: str, to: str) -> bool:
        """Give a name in a directory another name. Returns whether it has that now."""
        try:
            disk.rename(name, to)
        except (DiskFull, DiskFailed) as error:
            self.job_done(disk, error)
            return False
        return True

    def exists(self, disk: Disk, name: str) -> bool:
        """Whether there is such a name; True if the device does not say it."""
        try:
            return disk.exists(name)
        except (DiskFull, DiskFailed) as error:
            self.job_done(disk, error)
            return True

    # ---- room

    def refused(self, disk: Disk, why: DiskFull) -> None:
        """Note that a write to a directory found no room."""
        if self.full.refused(disk, self._runtime.now.mono_ms):
            self._runtime.log.error(f"no append to {self.path(disk)} is taken until there is room: {why}")

    def look_for_room(self) -> None:
        """Log which directories have room again."""
        for disk in self.full.over(self._runtime.now.mono_ms):
            self._runtime.log.info(f"there is room in {self.path(disk)} again: appends are taken")
