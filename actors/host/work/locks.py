"""The lock that keeps a second process out of a directory, and the process that holds it.

This file alone decides which process a signal may go to. Rules:

1. A process that opens a directory holds its `.lock` until it ends. The system frees the lock however the process dies.
2. `.lock` has the holder's process id. A process that cannot write it there does not hold the directory: no command
   could stop it, and a command would take its directory for one that is free.
3. The number alone proves nothing. It may be of another machine or another namespace of processes, or used again. A
   process is the holder if it has this very file open: the same device and inode among its descriptors.
4. A signal goes to a process that was looked at by a handle (pidfd), which no later process takes over. A holder that
   cannot be proved gets no signal: the command says so and ends.
5. One command at a time makes or changes the cluster of a directory, from its first look at it to its last file.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from actors.host.cluster_error import ClusterError
from actors.host.work import durable, kernel

LOCK = ".lock"
HOLDER_BYTES = 32
LOOK_S = 0.2
"""How long in s a node tries to get the lock. A process that only asks for the holder takes the lock for a moment."""


class StorageError(Exception):
    """A directory cannot be used. The message is one sentence that says what to do."""


class Unseen(Exception):
    """A directory is held, and not by a process that can be proved to be the holder. The message says what to do."""


class Holder(NamedTuple):
    """The process that holds a directory."""

    pid: int | None
    """The process id of the holder, if that was proved; None: it cannot be seen from here."""


class Lock:
    """The right to use a directory, held until `close` or the end of the process."""

    def __init__(self, path: str, *, told: bool = True) -> None:
        """Takes the lock of a directory. Raises StorageError if another process holds it, or if this process could not
        write there that it is the holder. `told`: False for a moment's work, which needs no entry of the holder; a full
        disk does not keep it from that."""
        self._fd = os.open(os.path.join(path, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, durable.FILE_MODE)
        until = time.monotonic() + LOOK_S
        while not self._take():
            if time.monotonic() > until:
                number = _number(self._fd)
                os.close(self._fd)
                raise StorageError(
                    f"{path} is in use by process {number or '(unknown)'}: stop it first, or give this node another "
                    f"directory."
                )
            time.sleep(0.005)
        if not told:
            return
        # Written in place: where the file was written once, a full disk has the room.
        text = str(os.getpid()).ljust(HOLDER_BYTES - 1).encode() + b"\n"
        try:
            written = os.pwrite(self._fd, text, 0)
        except OSError as error:
            written, why = 0, error.strerror
        else:
            why = "No space left on device"
        if written < len(text):
            os.close(self._fd)
            raise StorageError(
                f"{os.path.join(path, LOCK)} cannot be written ({why}), and nobody could tell who uses {path}: make room, "
                f"or make the file writable."
            )

    def _take(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Give the directory back. A second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@contextlib.contextmanager
def alone(directory: Path, wait_s: float = 0.0) -> Iterator[None]:
    """Be the only command that makes or changes the cluster of a directory. Raises ClusterError when another one does so for
    longer than `wait_s`, or when there is no such directory."""
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ClusterError(f"{directory} holds no cluster ({error.strerror}): name another with --dir.") from None
    until = time.monotonic() + wait_s
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise ClusterError(
                        f"another command changes the cluster of {directory}: wait until it has ended."
                    ) from None
            time.sleep(0.02)
        yield
    finally:
        os.close(fd)


def holder(path: str) -> Holder | None:
    """The process that holds a directory; None: it is not held. Does not take the lock. A holder that has not said yet who
    it is, or that holds for a moment only, is looked at again for LOOK_S."""
    try:
        fd = os.open(os.path.join(path, LOCK), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    until = time.monotonic() + LOOK_S
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None
            except OSError:
                text, file = _number(fd), os.fstat(fd)
                if text.isdecimal() and kernel.has_open(int(text), (file.st_dev, file.st_ino), fd):
                    return Holder(int(text))
            if time.monotonic() > until:
                return Holder(None)
            time.sleep(0.01)
    finally:
        os.close(fd)


def seen(path: str) -> int | None:
    """The id of the process that holds a directory; None: it is not held. Raises Unseen."""
    found = holder(path)
    if found is not None and found.pid is None:
        raise Unseen(
            f"{path} is held by a process that cannot be seen from here (in a container, on another machine, or of another "
            f"user): stop it where it runs."
        )
    return None if found is None else found.pid


def send(path: str, number: int) -> bool:
    """Send a signal to the process that holds a directory. False: it is not held any more. Raises Unseen."""
    pid = seen(path)
    if pid is None:
        return False
    return kernel.send(pid, number, lambda: seen(path) == pid)


def is_child(pid: int, parent: int) -> bool:
    """Whether a process exists, and is a child of `parent`."""
    return kernel.parent_of(pid) == parent


def _number(fd: int) -> str:
    return os.pread(fd, HOLDER_BYTES, 0).decode(errors="replace").strip()
