"""Write bytes and names so that they survive a loss of power once the function has returned.

Only the user that runs a node can read what it writes: files and directories get the modes below, whatever the umask
is.
"""

import os

from actors.ports import Buffer

FILE_MODE, DIRECTORY_MODE = 0o600, 0o700
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def private(path: str | os.PathLike[str], flags: int) -> int:
    """A descriptor of a file. If the file is created now, only this user may read it. Raises OSError."""
    return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)


def write_file(path: str, content: Buffer) -> None:
    """Make `content` the whole content of a file. Its name is durable only after `sync_directory`. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        view, done = memoryview(content), 0
        while done < len(view):
            done += os.write(fd, view[done:])
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_directory(path: str) -> None:
    """Make what was created, renamed or removed in a directory durable. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
