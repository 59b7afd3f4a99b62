"""File descriptors of the process, and how they are divided.

This file alone decides how they are divided: half for the files of the log directories, the rest for connections,
except for a few that connections never get. Without those few, a flood of connections would make writing a checkpoint
fail. That is an error of the disk, and it takes the disk offline.
"""

import contextlib
import resource

SPARE = 64


def raise_limit() -> int:
    """Raise the limit of this process as far as the system allows. Returns the number of descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return _number(soft)


def connections_end() -> int:
    """The first descriptor, by number, that is not for a connection. The kernel always gives the lowest free number."""
    limit = _number(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return limit - min(SPARE, limit // 4)


def handles_max(disks: int, most: int) -> int:
    """How many descriptors one log directory may keep open when there are `disks` of them; at most `most`."""
    limit = _number(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return max(16, min(most, limit // 2 // disks))


def _number(limit: int) -> int:
    return 1 << 30 if limit == resource.RLIM_INFINITY else limit
