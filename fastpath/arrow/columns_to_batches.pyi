from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastpath.arrow.array_views import Array

DAMAGED: str
TOO_LARGE: str
PARTITION_OUTSIDE: str
TIME_OUTSIDE: str
NO_NAME: str
CHANGED: str

class Closed(NamedTuple):
    """A record batch that is to be sent."""

    partition: int
    data: memoryview
    """The bytes, which may be changed: without a producer, and with their CRC."""
    records: int
    """The number of its records."""
    rows: NDArray[np.int64]
    """The number of each record's row."""

class BadRow(ValueError):
    """A row that cannot be a record."""

    number: int
    """The number of the row."""
    reason: str
    """One of DAMAGED, TOO_LARGE, PARTITION_OUTSIDE, TIME_OUTSIDE, NO_NAME, CHANGED."""
    value: int
    """What it is about: the record's bytes, the partition, the time in the column's unit."""

class Columns:
    """The columns of some rows, as Arrow arrays."""

    rows: int

    def __init__(
        self,
        rows: int,
        key: Array | None = None,
        value: Array | None = None,
        partition: Array | None = None,
        timestamp: Array | None = None,
        unit: str = "ms",
        headers: tuple[Array, Array, Array, Array] | None = None,
    ) -> None:
        """`partition`, `timestamp`: fixed, 8 bytes; `unit` of the latter: s, ms, us or ns. `headers`: the lists, what they
        hold, and the names and contents of that. A missing partition is chosen, other missing columns are null. Raises
        ValueError if an array has fewer rows."""

class Batches:
    """The record batches of a topic's partitions while they are filled."""

    partitions: int
    open_bytes: int
    """The bytes of records, and of their rows' numbers, in batches that are open."""
    closed_bytes: int
    """The bytes of batches that were closed and are not taken yet, before compression, and of their rows' numbers."""
    batch_bytes: int
    """The size at which a batch is closed, before compression, its header included. It may be set."""

    def __init__(
        self,
        partitions: int,
        batch_bytes: int,
        record_bytes_max: int,
        codec: int = 0,
        turns: Sequence[int] | None = None,
    ) -> None:
        """`record_bytes_max`: of a batch with one record. `codec`: the attributes' three bits. `turns`: the partitions that
        records without a key go to, one after the other; None: all. Raises ValueError if there are none."""

    def fill(self, columns: Columns, first: int, end: int, number: int, now_ms: int, bytes_max: int) -> int:
        """Take the rows from `first` to in front of `end`, as long as batches have fewer than `bytes_max` bytes. `number`:
        that of row 0 among all rows; `now_ms`: the time of records without one. Returns the row to go on from. Raises
        BadRow; the rows in front of that were taken."""

    def close(self) -> None:
        """Close all batches that are open."""

    def taken(self) -> list[Closed]:
        """The batches that were closed since the last call, those of a partition in order."""
