"""A copy of a cluster's metadata log for one command, in a temporary directory.

It is removed when the command ends, also when a signal ends it.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from actors.arrow.metadata_copy import Copy
from actors.client.operations.tail import Tail
from actors.host.client.blocking import Kafka


@contextmanager
def private_copy(kafka: Kafka, begin: int) -> Iterator[Path]:
    """A directory, as `replay` reads it, with what is committed now, at least from an offset on. Raises ClientError, also
    when nothing comes for default.api.timeout.ms, and OSError."""
    with ended_by_signals(), Copy() as copy:
        copy.fill(kafka, Tail(kafka.config, begin))
        yield copy.path


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and a terminal that is closed end the command by an exception, so that its files are removed. What ignores
    them goes on ignoring them (nohup)."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    heeded = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_DFL]
    for one in heeded:
        signal.signal(one, end)
    try:
        yield
    finally:
        for one in heeded:
            signal.signal(one, signal.SIG_DFL)
