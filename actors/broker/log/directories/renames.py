"""Names of a log's files that change together: all of them, or none.

This file alone decides what a rename that fails leaves behind. Names change on the disk first, and memory follows when all
have changed. Rules:

1. When one rename fails, those before it are taken back, in the reverse order. The disk is then what memory still says.
2. Where there is no room for that either, or no descriptor, `HalfRenamed` says which renames are left: the log takes nothing
   before they are made, and needs no start for that. Where the device fails on the way back nobody can say any more that
   memory and disk agree. `Torn` says so: the log takes nothing more until a start has read it again, and its directory goes
   offline. Every state in between is one that `recovery.py` knows.
3. A name that is missing from the beginning is left out: an index may never have been written.
4. What has to change with the names, and fails, takes them back as well: a file that is cut when those behind it have gone.
"""

from collections.abc import Callable, Iterable, Sequence

from actors.ports import Disk, DiskFailed, DiskFull

Pair = tuple[str, str]
"""(old name, new name), on one disk."""


class Torn(DiskFailed):
    """Some names have changed, others have not, and they could not be changed back."""


class HalfRenamed(DiskFull):
    """Some names have changed, and there is no room to change them back now."""

    back: Sequence[Pair] = ()
    """The renames that are left, in their order."""


def present(disk: Disk, pairs: Iterable[Pair]) -> list[Pair]:
    """The pairs whose old name exists on the disk. Raises DiskFull, DiskFailed."""
    return [pair for pair in pairs if disk.exists(pair[0])]


def rename_all(disk: Disk, pairs: Sequence[Pair], last: Callable[[], None] | None = None) -> None:
    """Rename files in order, and then do what is `last`: all of it, or nothing. Raises what `last` raises; DiskFull or
    DiskFailed: no name has changed; HalfRenamed; Torn."""
    done: list[Pair] = []
    try:
        for old, new in pairs:
            disk.rename(old, new)
            done.append((old, new))
        if last is not None:
            last()
    except (DiskFull, DiskFailed) as error:
        _take_back(disk, [(new, old) for old, new in reversed(done)], error)
        raise


def _take_back(disk: Disk, back: Sequence[Pair], why: OSError) -> None:
    for place, (now, before) in enumerate(back):
        try:
            disk.rename(now, before)
        except (DiskFull, DiskFailed) as error:
            if isinstance(error, DiskFailed) or isinstance(why, DiskFailed):
                raise torn(disk, now, error, why) from why
            half = HalfRenamed(error.errno, f"renamed in part only, after {why}: {error}", now)
            half.disk, half.back = disk, back[place:]
            raise half from why


def torn(disk: Disk, path: str, error: OSError, why: OSError | None = None) -> Torn:
    """The error where the name `path` could not be changed back. `why`: the error on the way there, if it has just come."""
    after = "" if why is None else f", after {why}"
    found = Torn(error.errno, f"renamed in part only{after}: {error}", path)
    found.disk = disk
    return found
