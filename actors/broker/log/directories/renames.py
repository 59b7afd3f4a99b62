"""Names of a log's files that change together: all of them, or none.

This file alone decides what a rename that fails leaves behind. Names change on the disk first, and memory follows when all
have changed. Rules:

1. When one rename fails, those before it are taken back, in the reverse order. The disk is then what memory still says.
2. When one of these fails too, nobody can say any more that memory and disk agree. `Torn` says so: the log takes nothing
   more until a start has read it again, and its directory goes offline. Every state in between is one that `recovery.py`
   knows.
3. A name that is missing from the beginning is left out: an index may never have been written.
"""

from collections.abc import Iterable, Sequence

from actors.ports import Disk, DiskFailed, DiskFull

Pair = tuple[str, str]
"""(old name, new name), on one disk."""


class Torn(DiskFailed):
    """Some names have changed, others have not, and they could not be changed back."""


def present(disk: Disk, pairs: Iterable[Pair]) -> list[Pair]:
    """The pairs whose old name exists on the disk. Raises DiskFailed."""
    return [pair for pair in pairs if disk.exists(pair[0])]


def rename_all(disk: Disk, pairs: Sequence[Pair]) -> None:
    """Rename files in order, all or none. Raises DiskFull or DiskFailed: no name has changed; Torn."""
    done: list[Pair] = []
    for old, new in pairs:
        try:
            disk.rename(old, new)
        except (DiskFull, DiskFailed) as error:
            _take_back(disk, done, error)
            raise
        done.append((old, new))


def _take_back(disk: Disk, done: Sequence[Pair], why: OSError) -> None:
    for old, new in reversed(done):
        try:
            disk.rename(new, old)
        except (DiskFull, DiskFailed) as error:
            torn = Torn(error.errno, f"renamed in part only, after {why}: {error}", new)
            torn.disk = disk
            raise torn from why
