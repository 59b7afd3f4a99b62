"""Dialects: how ops are written as records, and read back.

This package alone decides which record says what. A *family* never changes once storage is formatted: `drafts` (KIP-631,
levels 1 and 2 of `metadata.format`, which may follow each other in one log) or `released` (Apache Kafka 4.3).
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from actors.metadata.batches import BatchWriter
from actors.metadata.ops import Op
from actors.ports import Batch

FORMAT = "metadata.format"
"""The feature that names the level of the drafts' family (A07)."""

LATEST = 2
"""Level of new storage."""


class Dialect(Protocol):
    """One way to write metadata down."""

    def encode(self, ops: Sequence[Op], out: BatchWriter, *, atomic: bool = True) -> int:
        """Add the records of `ops`; how many. `atomic`: all in one batch. Raises ValueError, having added nothing, for
        an op that the dialect has no record for."""

    def decode(self, batch: Batch) -> Iterator[tuple[int, Op]]:
        """(offset of the first record, op) of a plain batch. Raises CorruptMetadata."""


def dialect(which: int | str) -> Dialect:
    """By level (1, 2) or family ("drafts": level 2, "released"). Raises ValueError.

    A reader of the drafts may start at either level: it follows the FeatureLevelRecords that it meets in a batch.
    """
    from actors.metadata.dialects import released, v19, v28

    known: dict[int | str, Dialect] = {
        1: v19.DIALECT,
        2: v28.DIALECT,
        "drafts": v28.DIALECT,
        "released": released.DIALECT,
    }
    if which not in known:
        raise ValueError(f"there is no metadata dialect {which!r}, only {sorted(map(str, known))}")
    return known[which]
