"""Whether somebody still reads what a command prints."""

import io
import select
import sys
from typing import Any


def open_pipe() -> None:
    """Check that standard output still has a reader: without a new record no write would tell. Raises BrokenPipeError
    if it has none."""
    try:
        number = sys.stdout.fileno()
    except (io.UnsupportedOperation, AttributeError, ValueError):
        return
    poll: Any = select.poll()
    poll.register(number, 0)
    if any(events & select.POLLERR for _, events in poll.poll(0)):
        raise BrokenPipeError
