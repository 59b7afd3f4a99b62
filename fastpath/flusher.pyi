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

    def submit(self, token: int, fds: Iterable[int]) -> None:
        """Make everything that was written to the files so far durable, one after the other in their order; if one
        fails, those behind it are left as they are. They must stay open until the token comes back. Never waits.
        `token`: 64 bits, chosen by the caller. Raises ValueError once closed, OverflowError for an impossible file
        number."""

    def drain(self) -> list[tuple[int, int]]:
        """(token, errno) of finished jobs in the order of `submit`; errno 0 means durable. Never waits."""

    def close(self) -> None:
        """Finish what was submitted, end the thread, drop undrained results. Waits. A second call does nothing."""
