"""Write bytes and names so that they survive a loss of power once the function has returned.

A file that is replaced is written beside its place first, under a name that no other process and no other thread takes, so
that two which replace the same file at once do not meet: the last one counts.

Only the user that runs a node can read what it writes: files and directories get the modes below, whatever the umask
is.
"""

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping

from actors.ports import Buffer, NotMade

FILE_MODE, DIRECTORY_MODE = 0o600, 0o700
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def private(path: str | os.PathLike[str], flags: int) -> int:
    """A descriptor of a file. If the file is created now, only this user may read it. Raises OSError."""
    return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)


def write_file(path: str, content: Buffer | Iterable[Buffer], sync: bool = True) -> None:
    """Make `content`, or all its pieces, the whole content of a file. Its name is durable only after `sync_directory`.
    `sync`: whether to wait for the device. Raises OSError; NotMade, MemoryError where a piece cannot be made."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        for piece in (content,) if isinstance(content, bytes | bytearray | memoryview) else _pieces(content):
            view, done = memoryview(piece), 0
            while done < len(view):
                with _named(path):
                    done += os.write(fd, view[done:])
        if sync:
            with _named(path):
                os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """Have an OSError of a descriptor, which the kernel does not give a name, say which file it is of."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


def _pieces(content: Iterable[Buffer]) -> Iterator[Buffer]:
    """The pieces of a content. Whatever goes wrong in making one says nothing of the disk, an OSError neither."""
    try:
        yield from content
    except MemoryError:
        raise
    except Exception as error:
        raise NotMade(repr(error)) from error


_numbers = itertools.count()


def replace_files(directory: str, contents: Mapping[str, Buffer], sync: bool = True) -> None:
    """Write small files of a directory. Each is whole or absent, and none gets its name before all are written. What was
    there before is replaced with its mode. `sync`: whether to wait for the device. Raises OSError; then nothing is left
    beside them."""
    beside: dict[str, str] = {}
    try:
        for name, content in contents.items():
            beside[name] = os.path.join(directory, f"{name}.{os.getpid()}-{next(_numbers)}.tmp")
            write_file(beside[name], content, sync)
        for name in contents:
            os.replace(beside[name], os.path.join(directory, name))
            del beside[name]
    finally:
        for path in beside.values():
            with contextlib.suppress(OSError):
                os.unlink(path)
    if sync:
        sync_directory(directory)


def sync_directory(path: str) -> None:
    """Make what was created, renamed or removed in a directory durable. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with _named(path):
            os.fsync(fd)
    finally:
        os.close(fd)
