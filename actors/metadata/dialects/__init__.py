"""Dialects: how ops are written as records, and read back.

This package alone decides which record says what. A *family* never changes once storage is formatted: `drafts` (KIP-631,
levels 1 and 2 of `metadata.format`, which may follow each other in one log) or `released` (Apache Kafka 4.3).
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from actors.metadata.batches import BatchWriter
from actors.metadata.dialects import drafts, released
from actors.metadata.dialects.levels import FORMAT, LATEST
from actors.metadata.families import Family
from actors.metadata.ops import Op
from actors.ports import Batch

__all__ = ["FORMAT", "LATEST", "Dialect", "dialect"]


class Dialect(Protocol):
    """One mapping of metadata ops to records."""

    family: Family
    """What the dialect's records can say."""

    def encode(self, ops: Sequence[Op], out: BatchWriter, *, atomic: bool = True) -> int:
        """Add the records of `ops` to `out`. Returns how many there are. `atomic`: all in one batch.

        Raises ValueError for an op that the dialect has no record for, and has then added nothing.
        """

    def decode(self, batch: Batch, *, together: bool = False) -> Iterator[tuple[int, Op]]:
        """(offset of the first record, op) of each op in a data batch. `together`: new topics may be one op, for a reader
        of what is committed (TopicsSet). Raises CorruptMetadata."""


DIALECTS: dict[int | str, Dialect] = {
    1: drafts.DIALECTS[1],
    2: drafts.DIALECTS[2],
    "drafts": drafts.DIALECTS[LATEST],
    "released": released.DIALECT,
}


def dialect(which: int | str) -> Dialect:
    """The dialect of a level (1, 2) or a family ("drafts": level 2, "released"). Raises ValueError.

    A reader of the drafts may start at either level: it follows the FeatureLevelRecords that it meets in a batch.
    """
    if which not in DIALECTS:
        raise ValueError(f"there is no metadata dialect {which!r}, only {sorted(map(str, DIALECTS))}")
    return DIALECTS[which]
