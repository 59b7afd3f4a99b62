"""Room that is kept back in a log directory, for when its disk is full.

On a full disk even what makes room needs some: a name that changes, a checkpoint, a snapshot of the metadata, the file that
a log rolls into before its last segment goes. Therefore a file keeps room back, and is removed when one of these finds none.

This file alone decides what may have that room, and when it is kept again. Rules:

1. Records of partitions never have it. From the moment at which it is given up until it is kept again none are appended in
   that directory: else they would take it within a second. Their copies, which cleanings and moves make, are the same.
2. Everything else has it: small files, names, indexes, the metadata log and its snapshots. So a controller goes on for as
   long as it lasts, and a clean stop works.
3. It is kept again once there is room for it twice: a disk that is freed by little does not begin and end to be full. What a
   file system reserves for root counts where this process is root: with it the disk has become full.
4. Where there is no room for it at the start, the directory is full from the beginning. On a small file system less is kept:
   an eighth at most.
"""

import contextlib
import errno
import os
import threading
from collections.abc import Sequence
from typing import Protocol

from actors.host.work import durable, kernel

NAME = "rayft.kept-room"
"""The name of the file in a log directory. Apache Kafka looks at directories only."""
NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT))
METADATA_LOGS = frozenset(("__kafka_metadata-0", "__cluster_metadata-0"))


def of_records(path: str) -> bool:
    """Whether a file of a log directory holds records of partitions."""
    directory, _, name = path.rpartition("/")
    return name[20:24] == ".log" and directory not in METADATA_LOGS


def _volume(root: str) -> int:
    try:
        volume = os.statvfs(root)
    except OSError:  # its next user finds out
        return 0
    return volume.f_frsize * volume.f_blocks


class KeptRoom:
    """The room that is kept back in one log directory. Any thread may give it up; the loop's sees to it that it is kept
    again."""

    def __init__(self, root: str, size: int) -> None:
        """`size` is the room in bytes; 0: none is kept."""
        self.size = min(size, _volume(root) // 8)
        self.given = 0
        """How often the room was given up."""
        self._root = root
        self._path = f"{root}/{NAME}"
        self._lock = threading.Lock()
        self.kept = False
        self.full = False
        """Whether the directory lacks the room to keep back: it was given up, or could never be kept. A disk that does
        not take the file for another reason has room."""
        self.keep()

    def keep(self) -> None:
        """Keep the room back, if there is any. Blocks if the file system has to write the file."""
        with self._lock:
            if not self.size:
                with contextlib.suppress(OSError):
                    os.unlink(self._path)
                return
            try:
                fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, durable.FILE_MODE)
                try:
                    kernel.take_room(fd, self.size)
                finally:
                    os.close(fd)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.unlink(self._path)
                self.kept, self.full = False, error.errno in NO_ROOM
            else:
                self.kept, self.full = True, False

    def fits_twice(self) -> bool:
        """Whether the file system has space for the room twice. Raises OSError."""
        volume = os.statvfs(self._root)
        return volume.f_frsize * (volume.f_bfree if kernel.is_root() else volume.f_bavail) >= 2 * self.size

    def give(self, before: int) -> bool:
        """Give up the room, unless that was done since `given` was `before`. False: there is none left."""
        with self._lock:
            if self.given != before:
                return True
            if not self.kept:
                return False
            self.full = True  # before there is room: records that another thread appends meanwhile would take it
            try:
                os.unlink(self._path)
            except OSError:
                self.full = False
                return False
            self.kept = False
            self.given += 1
            return True


class Disk(Protocol):
    """The parts of a log directory's disk that this file looks at."""

    root: str
    room: KeptRoom

    @property
    def lacks_room(self) -> bool: ...
    def has_room_again(self) -> bool: ...
    def keep_room(self) -> None: ...


class Log(Protocol):
    """The log in which a lack of room is reported."""

    def info(self, text: str) -> None: ...
    def error(self, text: str) -> None: ...


class Rooms:
    """The kept room of all log directories of a node: reports a lack once, and sees to it that room is kept again."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._disks: Sequence[Disk] = ()
        self._told: dict[Disk, None] = {}
        """Directories whose lack of room was reported."""
        self._keeping: dict[Disk, threading.Thread] = {}

    def watch(self, disks: Sequence[Disk]) -> None:
        """Set the node's log directories."""
        self._disks = disks

    def look(self) -> None:
        """Report what lacks, and keep room again where it can be kept. Called about once a second."""
        for disk in self._disks:
            if not disk.lacks_room and disk not in self._told:
                continue
            keeping = self._keeping.get(disk)
            if keeping is not None:
                if keeping.is_alive():
                    continue
                del self._keeping[disk]
            if not disk.lacks_room:
                del self._told[disk]
                self._log.info(
                    f"{disk.root} has room again: {disk.room.size} bytes are kept back, and records are taken"
                )
                continue
            if disk not in self._told:
                self._told[disk] = None
                self._log.error(
                    f"{disk.root} is full: no records are taken there, and what makes room uses the {disk.room.size} bytes "
                    f"that were kept back. Make room, at least twice that: delete topics or records, shorten retention, "
                    f"move partitions, or enlarge the disk; no restart is needed"
                )
            if disk.has_room_again():
                thread = threading.Thread(target=disk.keep_room, name="kept-room", daemon=True)
                with contextlib.suppress(RuntimeError, MemoryError):  # no thread is left: it is asked about again
                    thread.start()
                    self._keeping[disk] = thread
