"""What became of the rows that were written: where they are, and how that is told.

Nothing that was written is left unsaid. An error of a write has what was acknowledged before it, partition by partition, and
how many rows were under way, of which nobody knows whether they were written.
"""

from dataclasses import dataclass, field

import numpy as np

from actors.client.errors import ClientError
from actors.client.operations.producing import Placed
from fastpath.arrow.columns_to_batches import Closed

NAMED_MAX = 5
"""The most partitions that a sentence names."""


@dataclass(frozen=True)
class Span:
    """The records that were written to one partition. Records of others may lie between them."""

    first: int
    """The offset of the first one; -1: it is not known (acks=0, or a broker had some of them by an earlier try)."""
    last: int
    """The offset of the last one; -1: it is not known."""
    count: int


@dataclass
class Written:
    """What was written to a topic."""

    topic: str
    partitions: dict[int, Span] = field(default_factory=dict)
    """What was written to each partition, by number; only those to which something was."""

    @property
    def count(self) -> int:
        """The number of records."""
        return sum(span.count for span in self.partitions.values())

    def add(self, partition: int, records: int, placed: Placed) -> None:
        """Note records that were acknowledged. Once a place is not known, neither are the ends."""
        end = placed.last if placed.last >= 0 else placed.offset + records - 1
        before = self.partitions.get(partition, Span(placed.offset, end, 0))
        first, last = min(before.first, placed.offset), max(before.last, end)
        self.partitions[partition] = Span(*((first, last) if first >= 0 else (-1, -1)), before.count + records)

    def __str__(self) -> str:
        if not self.count:
            return f"nothing was written to {self.topic}"
        told = [_span(number, span) for number, span in sorted(self.partitions.items())]
        more = f" and {len(told) - NAMED_MAX} more partitions" if len(told) > NAMED_MAX else ""
        return f"{_rows(self.count)} written to {self.topic} ({', '.join(told[:NAMED_MAX])}{more})"


def _span(number: int, span: Span) -> str:
    return f"partition {number}: {span.count}" + (f" at offsets {span.first} to {span.last}" if span.last >= 0 else "")


def _rows(count: int) -> str:
    return "1 row was" if count == 1 else f"{count} rows were"


class WriteFailed(ClientError):
    """A write has failed. Its text says why, and what is in the topic now."""

    def __init__(self, sentence: str, code: int, written: Written, unknown: int, row: int | None = None) -> None:
        super().__init__(sentence, code)
        self.written = written
        """What was acknowledged. A reader of committed records does not read it if its transaction was aborted."""
        self.unknown = unknown
        """The number of rows that were under way: they may have been written or not."""
        self.row = row
        """The number of the row that cannot be written, among all rows from 0 on; None: it is not about one row."""


class BatchRefused(ClientError):
    """A batch was not taken, because of a row that is known or not."""

    def __init__(self, sentence: str, code: int, row: int | None) -> None:
        super().__init__(sentence, code)
        self.row = row


def refused(batch: Closed, error: ClientError, record: int | None) -> BatchRefused:
    """The error of a batch in terms of rows. `record`: the one that is to blame, if that is known."""
    if record is not None and 0 <= record < batch.records:
        row = int(batch.rows[record])
        return BatchRefused(f"row {row}: {error}", error.code, row)
    low, high = int(np.min(batch.rows)), int(np.max(batch.rows))
    where = f"row {low}" if low == high else f"{batch.records} rows from {low} to {high}"
    return BatchRefused(f"{where}: {error}", error.code, None)
