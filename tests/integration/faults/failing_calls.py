"""Calls of a real process to its file system that fail by their number: `failing_calls.c`, compiled and driven.

`Calls` is the file that the library in the process and the test share. While it is armed, calls that change something below
one directory are counted, and those that a `Fault` names fail.
"""

import ctypes
import errno
import mmap
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_suffix(".c")
KINDS = ("rename", "sync", "write", "open", "unlink", "truncate", "mkdir")
CALLS = 4096
PATH_BYTES = 124


class _Call(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_uint32), ("path", ctypes.c_char * PATH_BYTES))


class _Control(ctypes.Structure):
    _fields_ = (
        ("armed", ctypes.c_uint32), ("kinds", ctypes.c_uint32), ("first", ctypes.c_uint32), ("last", ctypes.c_uint32),
        ("number", ctypes.c_uint32), ("partial", ctypes.c_uint32), ("count", ctypes.c_uint32), ("failed", ctypes.c_uint32),
        ("directory", ctypes.c_char * 1024), ("calls", _Call * CALLS),
    )  # fmt: skip


class Fault(NamedTuple):
    """Which calls fail, and how."""

    first: int
    """The number of the first one, from 1."""
    number: int = errno.EIO
    lasts: int = 1
    """How many fail, the first included."""
    partial: bool = False
    """The first is made by half if it writes, and those behind it fail, as where room ends in a write."""

    def __str__(self) -> str:
        lasts = "on" if self.lasts > 1000 else str(self.first + self.lasts - 1)
        return f"{self.first}-{lasts} {errno.errorcode[self.number]}{' by half' * self.partial}"


FOREVER = 1 << 30


class Unavailable(Exception):
    """Why calls cannot fail on this machine."""


def compiled(folder: Path) -> Path:
    """The library, compiled into a folder. Raises Unavailable."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise Unavailable("no C compiler: the library in which calls fail cannot be made")
    library = folder / "failing_calls.so"
    command = [compiler, "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        raise Unavailable(f"{compiler} does not compile {SOURCE.name} here: {made.stderr[-500:]}")
    return library


class Calls:
    """What a process has called below a directory, and what fails."""

    def __init__(self, library: Path, file: Path) -> None:
        self._library, self._file = library, file
        file.write_bytes(bytes(ctypes.sizeof(_Control)))
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), 0)
        self._control = _Control.from_buffer(self._map)

    @property
    def environment(self) -> Mapping[str, str]:
        """With which the process is to be started."""
        return {"LD_PRELOAD": str(self._library), "FAILING_CALLS": str(self._file)}

    def arm(self, directory: Path, fault: Fault | None = None, kinds: Sequence[str] = KINDS) -> None:
        """From now on calls below a directory are counted, from 1, and those of a fault fail."""
        control = self._control
        control.armed = control.count = control.failed = 0
        control.directory = os.fsencode(directory.resolve())
        control.kinds = sum(1 << KINDS.index(one) for one in kinds)
        control.first = 0 if fault is None else fault.first
        control.last = 0 if fault is None else min(fault.first + fault.lasts - 1, (1 << 32) - 1)
        control.number = 0 if fault is None else fault.number
        control.partial = fault is not None and fault.partial
        control.armed = 1

    def disarm(self) -> None:
        """Calls work again, and are not counted."""
        self._control.armed = 0

    @property
    def count(self) -> int:
        """How many there were."""
        return int(self._control.count)

    @property
    def failed(self) -> int:
        """How many of them have failed."""
        return int(self._control.failed)

    def made(self) -> list[str]:
        """The calls: what each did, and the end of its path."""
        found = self._control.calls[: min(self.count, CALLS)]
        return [f"{KINDS[one.kind]} {one.path.decode(errors='replace')}" for one in found]
