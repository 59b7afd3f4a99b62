from collections.abc import Iterable

class Flusher:
    """A thread that calls fdatasync without the GIL. Start it after a fork, not before: threads do not survive one."""

    def __init__(self) -> None:
        """Raises OSError when there is no descriptor or no thread."""

    @property
    def syncs(self) -> int:
        """The number of fdatasync calls so far; fewer than files submitted when jobs were joined. Raises ValueError
        once closed."""

    def fileno(self) -> int:
        """A descriptor, readable when `drain` has something. Raises ValueError once closed."""

    def submit(self, token: int, fds: Iterable[int], ends: Iterable[int] = ()) -> None:
        """Make everything that was written to the files so far durable, one after the other in their order; if one
        fails, those behind it are left as they are. They must stay open until the token comes back. Never waits.
        `token`: 64 bits, chosen by the caller. `ends`: the places in `fds` at which runs end, in ascending order. Runs go
        beside each other, each in its order; what is behind the last one waits for all of them. Raises ValueError once
        closed, and for impossible ends; OverflowError for an impossible file number."""

    def drain(self) -> list[tuple[int, tuple[tuple[int, int], ...]]]:
        """(token, failures) of finished jobs in the order of `submit`. A failure is (place in `fds`, errno) of the file with
        which a run ended; there are none when all is durable. Never waits."""

    def close(self) -> None:
        """Finish what was submitted, end the thread, drop undrained results. Waits. A second call does nothing."""

def sync_beside(fds: Iterable[int]) -> list[int]:
    """Make files durable that have no order, each once, and wait for it without the GIL. Returns the errno of each; 0:
    durable. Raises MemoryError."""
