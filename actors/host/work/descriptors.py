"""File descriptors of the process, and how they are divided.

This file alone decides how they are divided: half for the files of the log directories, the rest for connections,
except for a few that connections never get. Without those few, a flood of connections would keep a checkpoint from
being written. Some of these are kept open without a use (`Reserve`), so that they are there for what must not fail even
if something that is not counted has taken all others.
"""

import contextlib
import os
import resource
import threading

SPARE = 64
RESERVE = 16
PINS_MAX = 1024
FEW = 4096
"""The number of descriptors below which an operator is told: a broker with a thousand partitions and as many clients
has none to spare."""


def raise_limit() -> int:
    """Raise the limit of this process as far as the system allows. Returns the number of descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return _number(soft)


def too_few() -> str | None:
    """A sentence for the operator where the limit is so low that a busy node meets it; None where it is not."""
    limit = limit_now()
    if limit >= FEW:
        return None
    return (
        f"this process may have {limit} files and connections open at once, as the hard limit says: {limit // 2} for log "
        f"files, which are opened and closed in turn then, and {connections_end() - limit // 2} or more for connections. "
        f"Raise the hard limit (ulimit -Hn, LimitNOFILE of systemd) to 65536 or more."
    )


def limit_now() -> int:
    """How many descriptors the process may have."""
    return _number(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def connections_end(*, limited: bool = True) -> int:
    """The first descriptor, by number, that is not for a connection. The kernel always gives the lowest free number. Not
    `limited`: for connections of other nodes, which get half of the spare ones."""
    limit = limit_now()
    spare = min(SPARE, limit // 4)
    return limit - (spare if limited else spare // 2)


def handles_max(disks: int, most: int) -> int:
    """How many descriptors one log directory may keep open when there are `disks` of them; at most `most`."""
    return max(16, min(most, limit_now() // 2 // disks))


def pins_max() -> int:
    """How many descriptors the syncs of one class may hold at once; the files beyond wait for their turn."""
    return max(4, min(PINS_MAX, limit_now() // 8))


class Reserve:
    """Descriptors that are kept open unused, so that each can be closed for something that must not fail. Any thread
    may use it."""

    def __init__(self, count: int = RESERVE) -> None:
        self.count = min(count, limit_now() // 16)
        self.lent = 0
        """How often a descriptor was lent."""
        self._naming = threading.Lock()
        self._held: list[int] = []
        self.fill()

    def fill(self) -> bool:
        """Open again what was lent. False: there are not enough descriptors for it yet."""
        with self._naming:
            try:
                while len(self._held) < self.count:
                    self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                return False
            return True

    def lend(self) -> bool:
        """Close one descriptor, so that the next call that opens something gets it. False: there is none left."""
        with self._naming:
            if not self._held:
                return False
            self.lent += 1
            os.close(self._held.pop())
            return True

    def close(self) -> None:
        """Give all descriptors back. None is lent any more."""
        with self._naming:
            self.count = 0
            while self._held:
                os.close(self._held.pop())


def _number(limit: int) -> int:
    return 1 << 30 if limit == resource.RLIM_INFINITY else limit
