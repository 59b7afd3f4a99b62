"""What readers of committed records may see of a log, from all its batches, each time anew (KIP-98).

The log (`actors/broker/log`) keeps the first unstable offset as it grows, and aborted transactions in a file a segment. Here
every question walks over every batch.
"""

from collections.abc import Sequence
from typing import NamedTuple

PLAIN, TRANSACTIONAL, ABORT, COMMIT = "plain", "transactional", "abort", "commit"
NO_LIMIT = 1 << 62


class Batch(NamedTuple):
    """One batch. `producer` -1: of none."""

    base: int
    last: int
    kind: str
    producer: int = -1
    epoch: int = -1
    sequence: int = -1


class Transaction(NamedTuple):
    """One transaction. `marker` None: it is open."""

    producer: int
    batches: tuple[Batch, ...]
    marker: Batch | None

    @property
    def first(self) -> int:
        return self.batches[0].base

    def left(self, start: int) -> int:
        """The same of what is left of it in a log that begins at `start`; NO_LIMIT: nothing."""
        return min((one.base for one in self.batches if one.last >= start), default=NO_LIMIT)


def transactions(batches: Sequence[Batch]) -> list[Transaction]:
    """All of a log, in the order of their markers, the open ones last."""
    running: dict[int, list[Batch]] = {}
    found = []
    for one in batches:
        if one.kind == TRANSACTIONAL:
            running.setdefault(one.producer, []).append(one)
        elif one.kind in (ABORT, COMMIT) and one.producer in running:
            found.append(Transaction(one.producer, tuple(running.pop(one.producer)), one))
    return found + [Transaction(producer, tuple(rest), None) for producer, rest in running.items()]


def last_stable_offset(batches: Sequence[Batch], start: int, high_watermark: int) -> tuple[int, int]:
    """The lowest and the highest that may be given. They differ where records were deleted that a transaction began with:
    a log that was opened since may not know of them."""
    lowest = highest = high_watermark
    for one in transactions(batches):
        if one.marker is None or one.marker.last >= high_watermark:
            lowest = min(lowest, max(one.first, start))
            highest = min(highest, max(one.left(start), start))
    return lowest, highest


def aborted(batches: Sequence[Batch], offset: int, upper_offset: int) -> set[tuple[int, int]]:
    """(producer, first offset) of the aborted transactions with a record in `[offset, upper_offset)`."""
    return {
        (one.producer, one.first)
        for one in transactions(batches)
        if one.marker is not None
        and one.marker.kind == ABORT
        and one.marker.last >= offset
        and one.first < upper_offset
    }


def visible(batches: Sequence[Batch], offset: int, upper_offset: int) -> list[int]:
    """Base offsets of the batches that a reader of committed records takes in."""
    hidden = {
        batch.base
        for one in transactions(batches)
        if one.marker is not None and one.marker.kind == ABORT
        for batch in one.batches
    }
    return [
        one.base
        for one in batches
        if one.kind in (PLAIN, TRANSACTIONAL)
        and one.last >= offset
        and one.last < upper_offset
        and one.base not in hidden
    ]


def consumed(batches: Sequence[Batch], told: Sequence[tuple[int, int]]) -> list[int]:
    """What a consumer takes in of these batches, told of aborted transactions as Fetch tells it. As Apache Kafka's does it:
    a producer is ignored from the first offset of an aborted transaction to its next abort marker."""
    waiting = sorted(told, key=lambda one: one[1])
    ignored: set[int] = set()
    found = []
    for one in batches:
        while waiting and waiting[0][1] <= one.last:
            ignored.add(waiting.pop(0)[0])
        if one.kind == ABORT:
            ignored.discard(one.producer)
        elif one.kind == PLAIN or (one.kind == TRANSACTIONAL and one.producer not in ignored):
            found.append(one.base)
    return found


def next_of(batches: Sequence[Batch], producer: int) -> tuple[int, int]:
    """(epoch, sequence) of a producer's next batch."""
    epoch, sequence = 0, 0
    for one in batches:
        if one.producer != producer:
            continue
        if one.epoch != epoch:
            epoch, sequence = one.epoch, 0
        if one.kind == TRANSACTIONAL:
            sequence = one.sequence + one.last - one.base + 1
    return epoch, sequence
