from collections.abc import Iterable

class Flusher:
    """A thread that calls fdatasync without the GIL. Start it after a fork, not before: threads do not survive one."""

    def __init__(self) -> None:
        """OSError without an eventfd or a thread."""

    @property
    def syncs(self) -> int:
        """fdatasync calls so far; fewer than files submitted when jobs were joined. ValueError once closed."""

    def fileno(self) -> int:
        """An eventfd, readable when `drain` has something. ValueError once closed."""

    def submit(self, token: int, fds: Iterable[int]) -> None:
        """Make what was written to the files so far durable; they stay open until the token comes back.

        Never waits. `token`: 64 bits, of the caller's choice. ValueError once closed, OverflowError for no file number.
        """

    def drain(self) -> list[tuple[int, int]]:
        """(token, errno) of finished jobs in the order of `submit`; errno 0: durable. Never waits."""

    def close(self) -> None:
        """Finish what was submitted, end the thread, forget undrained results. Waits; idempotent."""
