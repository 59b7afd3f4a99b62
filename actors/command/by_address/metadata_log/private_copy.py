"""A copy of a cluster's metadata log for one command, in a temporary directory.

It is removed when the command ends, also when a signal ends it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actors.arrow.metadata_copy import Copy
from actors.client.operations.tail import Tail
from actors.command.by_address.ended_by_signals import ended_by_signals
from actors.host.client.blocking import Kafka


@contextmanager
def private_copy(kafka: Kafka, begin: int) -> Iterator[Path]:
    """A directory, as `replay` reads it, with what is committed now, at least from an offset on. Raises ClientError, also
    when nothing comes for default.api.timeout.ms, and OSError."""
    with ended_by_signals(), Copy() as copy:
        copy.fill(kafka, Tail(kafka.config, begin))
        yield copy.path
