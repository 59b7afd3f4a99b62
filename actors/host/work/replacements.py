"""Many small files in place of old ones at once: a table of epochs and a snapshot of its producers for each of many logs.

This file alone decides how they share what they wait for. Each is written to a temporary name, synced, renamed, and its
directory synced, as `LocalDisk.replace` does it with one; but each of these steps is made for up to 256 files beside each
other, and a directory is synced once. Renames too: one that takes the place of a file waits for the device (ext4: 2 ms).
They have no order, so a loss of power leaves any of them. What is not as it should be, such as a directory that is missing,
is left to `LocalDisk.replace`.

Where descriptors, threads or memory are lacking, fewer go beside each other. Whoever holds descriptors waits for none: they
might be the very ones that it waits for.
"""

import errno
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from actors.host.work import descriptors
from actors.host.work.disk import LocalDisk
from actors.host.work.kept_errors import bare
from actors.host.work.shortages import SHORT
from actors.ports import DiskFailed, DiskFull
from fastpath.flusher import sync_beside

TOGETHER = 256
"""How many files are open at once for it at most."""
THREADS_MAX = 32
"""How many threads rename."""


class Replacement(NamedTuple):
    """A small file that is to be written."""

    disk: LocalDisk
    path: str
    content: bytes
    departures: int
    """The value of `departures` of the disk when it was asked for."""


def replace_beside(wanted: Sequence[Replacement]) -> list[OSError | None]:
    """Replace small files, no two of one name. Blocks; from any thread. Returns what became of each: None, DiskFull or
    DiskFailed, which has the disk. Nothing more is written to a disk that has failed."""
    results: dict[int, OSError] = {}
    lost: dict[LocalDisk, OSError] = {}
    left = deque(range(len(wanted)))
    together = min(TOGETHER, descriptors.pins_max())
    while left:
        chunk = _replace_chunk(wanted, left, together, lost, results)
        for place in chunk:
            if isinstance(error := results.get(place), DiskFailed):
                lost.setdefault(wanted[place].disk, error)
    return [results.get(place) for place in range(len(wanted))]


def _replace_chunk(
    wanted: Sequence[Replacement],
    left: deque[int],
    together: int,
    lost: dict[LocalDisk, OSError],
    results: dict[int, OSError],
) -> list[int]:
    """Replace the first files that are left, up to `together` or as many as there are descriptors for. Returns their
    places; errors are put into `results`."""
    chunk: list[int] = []
    written: dict[int, int] = {}
    alone: list[int] = []
    while left and len(chunk) < together:
        place = left[0]
        disk, path, content, _ = wanted[place]
        if disk in lost:
            results[place] = lost[disk]
        else:
            try:
                fd = disk.write_beside(path, content, wait=not written)
                if fd < 0:
                    break
                written[place] = fd
            except FileNotFoundError:
                alone.append(place)
            except Exception as error:  # whatever it is: the node that waits must learn of it
                results[place] = _told(disk, error, path)
        chunk.append(left.popleft())
    errors = _synced(wanted, written)
    there: list[int] = []

    def named(place: int) -> None:
        disk, path, _, departures = wanted[place]
        try:
            os.close(written[place])
            if number := errors.get(place):
                raise disk.error(OSError(number, os.strerror(number)), f"fsync failed: {os.strerror(number)}", path)
            if disk.place(path, departures):
                there.append(place)
        except Exception as error:
            results[place] = _told(disk, error, path)

    _by_threads(named, written)
    directories: dict[tuple[LocalDisk, str], list[int]] = {}
    unsure: dict[int, list[str]] = {}
    for place in there:
        disk, path, _, _ = wanted[place]
        directory = path.rpartition("/")[0]
        new = disk.new_directories(directory)
        for one in (directory, *(one.rpartition("/")[0] for one in new)):
            directories.setdefault((disk, one), []).append(place)
        unsure[place] = new
    _sync_directories(directories, results)
    for place, new in unsure.items():
        if place not in results:
            disk, _, _, departures = wanted[place]
            disk.are_named(new, departures)
    for place in alone:
        disk, path, content, departures = wanted[place]
        try:
            disk.replace(path, content, departures)
        except Exception as error:
            results[place] = _told(disk, error, path)
    return chunk


def _by_threads(do: Callable[[int], None], places: Iterable[int]) -> None:
    """Call `do`, which raises nothing, for all places, from this thread and as many others as there may be."""
    left = deque(places)

    def take() -> None:
        while True:
            try:
                place = left.popleft()
            except IndexError:
                return
            do(place)

    threads: list[threading.Thread] = []
    for _ in range(min(len(left), THREADS_MAX) - 1):
        thread = threading.Thread(target=take, name="replace", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError):  # the system gives no more: those that are there do it
            break
        threads.append(thread)
    take()
    for thread in threads:
        thread.join()


def _synced(wanted: Sequence[Replacement], written: dict[int, int]) -> dict[int, int]:
    """Sync the temporary files. Returns the errno of each that failed."""
    synced = [place for place in written if wanted[place].disk.synced]
    errors = _sync_beside([written[place] for place in synced])
    return {place: error for place, error in zip(synced, errors, strict=True) if error}


def _sync_beside(fds: Sequence[int]) -> list[int]:
    try:
        return sync_beside(fds)
    except MemoryError:
        return [errno.ENOMEM] * len(fds)


def _sync_directories(directories: dict[tuple[LocalDisk, str], list[int]], results: dict[int, OSError]) -> None:
    opened: dict[tuple[LocalDisk, str], int] = {}
    left = deque(one for one in directories if one[0].synced)
    while left:
        one = disk, directory = left[0]
        try:
            opened[one] = disk.descriptor(f"{disk.root}/{directory}", os.O_RDONLY | os.O_DIRECTORY, wait=not opened)
        except FileNotFoundError:  # it was renamed or removed just now, and the files with it
            pass
        except OSError as error:
            if opened and error.errno in SHORT:
                _sync_opened(opened, directories, results)
                continue
            results.update(dict.fromkeys(directories[one], bare(_as_told(disk, error, directory))))
        left.popleft()
    _sync_opened(opened, directories, results)


def _sync_opened(
    opened: dict[tuple[LocalDisk, str], int],
    directories: dict[tuple[LocalDisk, str], list[int]],
    results: dict[int, OSError],
) -> None:
    """Sync and close the directories that are open."""
    for (one, fd), number in zip(opened.items(), _sync_beside(list(opened.values())), strict=True):
        os.close(fd)
        if number:
            disk, directory = one
            failed = disk.error(OSError(number, os.strerror(number)), f"fsync failed: {os.strerror(number)}", directory)
            results.update(dict.fromkeys(directories[one], failed))
    opened.clear()


def _told(disk: LocalDisk, error: Exception, path: str) -> OSError:
    """The error as a node is told of it. What was written goes, unless the device has failed."""
    told = bare(_as_told(disk, error, path))
    if isinstance(told, DiskFull):
        disk.take_back(path)
    return told


def _as_told(disk: LocalDisk, error: Exception, path: str) -> OSError:
    if isinstance(error, DiskFull | DiskFailed):
        return error
    if isinstance(error, MemoryError):
        return DiskFull(errno.ENOMEM, "there is no memory to replace the file", path)
    if isinstance(error, OSError):
        return disk.error(error, f"replace failed: {error.strerror}", path)
    return DiskFailed(errno.EIO, f"replace failed: {error!r}", path)
