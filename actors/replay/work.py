"""What can be decoded in pieces, each by a task of its own, and the files of a read as such.

This file alone decides what `ray_cache.py` needs to know of what it shares. Topics by address are another kind of work
(`actors/pipeline/ray.py`).
"""

from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa

from actors.replay.read_options import ReadOptions, scan


class Work(Protocol):
    """Rows of a known schema, in pieces. It is sent to tasks, as its pieces are."""

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        ...

    def pieces(self, cores: int) -> list[Any]:
        """The pieces, enough for so many cores."""
        ...

    def batches(self, piece: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a piece, in order."""
        ...


class Logs:
    """The logs of a read. Raises what opening them raises."""

    def __init__(self, options: ReadOptions) -> None:
        found = options.open()
        self._options = options._replace(table=found.table, family=found.family or None)
        self.schema = found.schema(options.columns)

    def pieces(self, cores: int) -> list[Any]:
        """The splits of the logs that exist now."""
        return list(self._options.planned(cores))

    def batches(self, piece: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a split."""
        return scan(self._options, piece, tuple(self.schema.names))
