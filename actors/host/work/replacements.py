"""Many small files in place of old ones at once: a table of epochs and a snapshot of its producers for each of many logs.

This file alone decides how they share what they wait for. Each is written to a temporary name, synced, renamed, and its
directory synced, as `LocalDisk.replace` does it with one; but each of these steps is made for up to 256 files beside each
other, and a directory is synced once. Renames too: one that takes the place of a file waits for the device (ext4: 2 ms).
They have no order, so a loss of power leaves any of them. What is not as it should be, such as a directory that is missing,
is left to `LocalDisk.replace`.
"""

import errno
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple

from actors.host.work.disk import LocalDisk
from actors.ports import DiskFailed, DiskFull
from fastpath.flusher import sync_beside

TOGETHER = 256
"""How many files are open at once for it."""
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
    places = iter(range(len(wanted)))
    if not wanted:
        return []
    with ThreadPoolExecutor(min(len(wanted), THREADS_MAX), "replace") as threads:
        while chunk := list(islice(places, TOGETHER)):
            for place in chunk:
                if (error := lost.get(wanted[place].disk)) is not None:
                    results[place] = error
            _replace_chunk(wanted, [place for place in chunk if place not in results], results, threads)
            for place in chunk:
                if isinstance(error := results.get(place), DiskFailed):
                    lost.setdefault(wanted[place].disk, error)
    return [results.get(place) for place in range(len(wanted))]


def _replace_chunk(
    wanted: Sequence[Replacement], places: list[int], results: dict[int, OSError], threads: ThreadPoolExecutor
) -> None:
    """Replace some of the files; errors are put into `results`."""
    written: dict[int, int] = {}
    alone: list[int] = []
    for place in places:
        disk, path, content, _ = wanted[place]
        try:
            written[place] = disk.write_beside(path, content)
        except FileNotFoundError:
            alone.append(place)
        except Exception as error:  # whatever it is: the node that waits must learn of it
            results[place] = _told(disk, error, path)
    errors = _synced(wanted, written)

    def named(place: int) -> bool:
        disk, path, _, departures = wanted[place]
        os.close(written[place])
        try:
            if number := errors.get(place):
                raise disk.error(OSError(number, os.strerror(number)), f"fsync failed: {os.strerror(number)}", path)
            return disk.place(path, departures)
        except Exception as error:
            results[place] = _told(disk, error, path)
            return False

    directories: dict[tuple[LocalDisk, str], list[int]] = {}
    for place, there in zip(written, threads.map(named, written), strict=True):
        if there:
            disk, path, _, _ = wanted[place]
            directories.setdefault((disk, path.rpartition("/")[0]), []).append(place)
    _sync_directories(directories, results)
    for place in alone:
        disk, path, content, departures = wanted[place]
        try:
            disk.replace(path, content, departures)
        except Exception as error:
            results[place] = _told(disk, error, path)


def _synced(wanted: Sequence[Replacement], written: dict[int, int]) -> dict[int, int]:
    """Sync the temporary files. Returns the errno of each that failed."""
    synced = [place for place in written if wanted[place].disk.synced]
    errors = sync_beside(written[place] for place in synced)
    return {place: error for place, error in zip(synced, errors, strict=True) if error}


def _sync_directories(directories: dict[tuple[LocalDisk, str], list[int]], results: dict[int, OSError]) -> None:
    opened: dict[tuple[LocalDisk, str], int] = {}
    for one, places in directories.items():
        disk, directory = one
        if disk.synced:
            try:
                opened[one] = disk.descriptor(f"{disk.root}/{directory}", os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:  # it was renamed or removed just now, and the files with it
                continue
            except OSError as error:
                results.update(dict.fromkeys(places, _told(disk, error, directory)))
    for (one, fd), number in zip(opened.items(), sync_beside(opened.values()), strict=True):
        os.close(fd)
        if number:
            disk, directory = one
            failed = disk.error(OSError(number, os.strerror(number)), f"fsync failed: {os.strerror(number)}", directory)
            results.update(dict.fromkeys(directories[one], failed))


def _told(disk: LocalDisk, error: Exception, path: str) -> OSError:
    """The error as a node is told of it."""
    if isinstance(error, DiskFull | DiskFailed):
        return error
    if isinstance(error, MemoryError):
        return DiskFull(errno.ENOMEM, "there is no memory to replace the file", path)
    if isinstance(error, OSError):
        return disk.error(error, f"replace failed: {error.strerror}", path)
    return DiskFailed(errno.EIO, f"replace failed: {error!r}", path)
