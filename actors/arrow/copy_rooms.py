"""The temporary directories in which copies of metadata logs lie, and how those go that a killed process has left.

This file alone decides that. Rules:

1. A process locks the directory of a copy (flock) for as long as it lives: whatever ends the process unlocks it.
2. Whoever removes what was left locks it first, and a directory counts as a process's own only if it is still there once it
   is locked: so none is removed that is used.
3. Only directories of this user and this machine are removed: several may share one file system. Where a directory cannot be
   locked, none is.
"""

import fcntl
import os
import platform
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
TRIES = 100


class Room:
    """A directory that only its owner can read, and that nobody removes but this process while it lives."""

    def __init__(self) -> None:
        """A new one. Raises OSError."""
        for _ in range(TRIES):
            self._made = tempfile.TemporaryDirectory(prefix=_prefix())
            self.path = Path(self._made.name)
            held = _held(self.path)
            if held is not None:
                break
            self._made.cleanup()  # it was taken for one that was left
        else:
            raise FileNotFoundError(f"{self.path} is gone, which was just made")
        self._let_go = weakref.finalize(self, os.close, held)

    def __enter__(self) -> "Room":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove it, with all that it holds."""
        try:
            self._made.cleanup()
        finally:
            self._let_go()


def remove_left() -> None:
    """Remove the directories of processes that have ended without doing it, as a signal gives no time for that."""
    name = re.compile(re.escape(_prefix()) + "[a-z0-9_]{8}")
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for one in entries:
            if name.fullmatch(one.name) and one.is_dir(follow_symlinks=False):
                with suppress(OSError), _locked(one.path):
                    shutil.rmtree(one.path)


def _prefix() -> str:
    return f"rayft-metadata-{re.sub('[^A-Za-z0-9.]', '_', platform.node())}-"


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Hold a directory of this user. Raises OSError if it is another's, or somebody holds it."""
    descriptor = os.open(path, FLAGS)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(path)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _held(path: Path) -> int | None:
    """A descriptor that locks a directory that was just made; None: somebody else removes it."""
    try:
        descriptor = os.open(path, FLAGS)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:  # nobody can lock one here, so nobody removes one
        return descriptor
    try:
        is_there = os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        is_there = False
    if not is_there:
        os.close(descriptor)
        return None
    return descriptor
