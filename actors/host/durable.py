"""Bytes and names that outlast a loss of power, once these functions have returned."""

import os

from actors.ports import Buffer


def write_file(path: str, content: Buffer) -> None:
    """The file holds `content` and nothing else; its name is durable only with `sync_directory`. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
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
