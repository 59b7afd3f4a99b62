"""File descriptors of the process, and who gets how many.

This file alone decides how they are divided: half for the files of the log directories, the rest for connections, save for
a few that connections never get. Without those a flood of connections would keep the checkpoints from being written, which
is an error of the disk, and the last one.
"""

import contextlib
import resource

SPARE = 64


def raise_limit() -> int:
    """Allow this process what it may have; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return _number(soft)


def connections_end() -> int:
    """The first descriptor, by number, that is not for a connection. The kernel gives the lowest one that is free."""
    limit = _number(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return limit - min(SPARE, limit // 4)


def handles_max(disks: int, most: int) -> int:
    """How many a log directory may keep open, of so many directories; `most` at most."""
    limit = _number(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return max(16, min(most, limit // 2 // disks))


def _number(limit: int) -> int:
    return 1 << 30 if limit == resource.RLIM_INFINITY else limit
