"""Bytes and names that outlast a loss of power, once these functions have returned.

What a node writes is for the user that runs it alone: files and directories are made with the modes below, whatever the
umask says.
"""

import os

from actors.ports import Buffer

FILE_MODE, DIRECTORY_MODE = 0o600, 0o700
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def private(path: str | os.PathLike[str], flags: int) -> int:
    """A descriptor of a file that, where it is made now, only this user may read. Raises OSError."""
    return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)


def write_file(path: str, content: Buffer) -> None:
    """The file holds `content` and nothing else; its name is durable only with `sync_directory`. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        view, done = memoryview(content), 0
        while done < len(view):
            done += os.write(fd, view[done:])
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_directory(path: str) -> None:
    """What was created, renamed or removed in it stays so. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
