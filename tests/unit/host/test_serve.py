"""What surrounds a node in its process: the log it writes, and what is given back where it does not start."""

import errno
import io
from typing import Any

from actors.host.serve import Journal


class Disk(io.RawIOBase):
    """A stream on a disk that may be full."""

    full, written = True, b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.written += bytes(data)
        return len(data)


def test_a_log_that_cannot_be_written_hurts_nobody_and_goes_on_when_there_is_room() -> None:
    """A node that reports its full disk often has its log on the same one."""
    disk = Disk()
    journal = Journal(io.TextIOWrapper(io.BufferedWriter(disk)))
    for _ in range(2000):  # more than the stream keeps back
        journal.error("no append is taken until there is room")
    disk.full = False
    journal.info("there is room again")
    assert disk.written.endswith(b"INFO  there is room again\n")
