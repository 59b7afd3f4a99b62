"""What a share group remembers of one partition, as values (KIP-932, "Share group persister").

This file alone decides what a record of the log makes of it. Rules:

1. A snapshot replaces all that was known. An update changes the start offset, unless it is -1, and adds its batches.
2. Batches are in order and do not overlap, whatever order they came in (`combine`). None of them is below the start offset.
3. Where two say something of the same offset, the one with the higher delivery count holds, and of equal ones that with the
   higher delivery state: an acknowledgement that comes late takes nothing back.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from actors.ports import Now

NO_OFFSET = -1
"""No start offset: nothing was consumed yet; in an update: the present one."""
NO_EPOCH = -1
"""In a request: it claims no epoch."""
NO_COUNT = -1
"""The count if it is not known how many deliveries are complete."""
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
DELIVERY_STATES = frozenset((AVAILABLE, ACKNOWLEDGED, ARCHIVED))
"""States that are remembered. An acquired record (1) is acquired in its leader's memory alone."""


class Batch(NamedTuple):
    """Offsets `first` to `last`, both included, with one delivery state and delivery count."""

    first: int
    last: int
    delivery_state: int
    delivery_count: int


class ShareState(NamedTuple):
    """All that is remembered of a share partition. Invariant: rule 2.

    `complete_count`: offsets from the start offset on whose delivery is complete (KIP-1226). `created_ms`, `written_ms`:
    when the snapshot was first written, and last; wall clock."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    created_ms: int
    written_ms: int
    batches: tuple[Batch, ...]


class Update(NamedTuple):
    """What has changed since a snapshot, of the same snapshot epoch."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    batches: tuple[Batch, ...]


def initial(known: ShareState | None, state_epoch: int, start_offset: int, now: Now) -> ShareState:
    """A share partition begins, or begins again, at an offset. Nothing of before is kept."""
    return ShareState(
        0 if known is None else known.snapshot_epoch + 1,
        state_epoch,
        0,
        start_offset,
        NO_COUNT if start_offset == NO_OFFSET else 0,
        now.wall_ms,
        now.wall_ms,
        (),
    )


def replayed(known: ShareState | None, record: ShareState | Update | None) -> ShareState | None:
    """What is known after a record of the log; None: nothing any more."""
    if not isinstance(record, Update):
        return record
    if known is None:
        # The snapshot before it is gone: only Apache Kafka deletes so, and it goes on the same way.
        return ShareState(record.snapshot_epoch, 0, record.leader_epoch, *record[2:4], 0, 0, record.batches)
    start = known.start_offset if record.start_offset == NO_OFFSET else record.start_offset
    return known._replace(
        leader_epoch=known.leader_epoch if record.leader_epoch == NO_EPOCH else record.leader_epoch,
        start_offset=start,
        complete_count=record.complete_count,
        batches=combine(known.batches, record.batches, start),
    )


def snapshot(known: ShareState, update: Update, now: Now) -> ShareState:
    """The state after an update, as a snapshot of its own."""
    state = replayed(known, update)
    assert state is not None
    return state._replace(snapshot_epoch=known.snapshot_epoch + 1, created_ms=now.wall_ms, written_ms=now.wall_ms)


def combine(known: Sequence[Batch], added: Iterable[Batch], start_offset: int) -> tuple[Batch, ...]:
    """Batches that are in order and do not overlap, and others in any order: rules 2 and 3. Neighbours that say the
    same are one. The time that it takes grows with what is added; of what is known only the overlapped part is looked
    at, and what is below the start offset."""
    found = list(known)
    if start_offset != NO_OFFSET:
        _prune(found, start_offset)
    for batch in added:
        if batch.last >= start_offset:
            _add(found, batch if batch.first >= start_offset else batch._replace(first=start_offset))
    return tuple(found)


def _prune(found: list[Batch], start_offset: int) -> None:
    """Forget what is below the start offset."""
    gone = bisect_left(found, start_offset, key=lambda one: one.last)
    del found[:gone]
    if found and found[0].first < start_offset:
        found[0] = found[0]._replace(first=start_offset)


def _add(found: list[Batch], added: Batch) -> None:
    """Add one batch, in the place of the run of those that it overlaps or touches."""
    low = bisect_left(found, added.first - 1, key=lambda one: one.last)
    high = low
    while high < len(found) and found[high].first <= added.last + 1:
        high += 1
    pieces: list[Batch] = []
    next_offset = added.first
    for one in found[low:high]:
        if next_offset <= min(one.first - 1, added.last):
            _append(pieces, added._replace(first=next_offset, last=min(one.first - 1, added.last)))
        for piece in _laid_over(one, added):
            _append(pieces, piece)
        next_offset = max(next_offset, one.last + 1)
    if next_offset <= added.last:
        _append(pieces, added._replace(first=next_offset))
    found[low:high] = pieces


def _laid_over(one: Batch, added: Batch) -> Iterable[Batch]:
    """The parts of a known batch, between its own ends, after another one is laid over it."""
    first, last = max(one.first, added.first), min(one.last, added.last)
    if first > last or (added.delivery_count, added.delivery_state) <= (one.delivery_count, one.delivery_state):
        return (one,)
    pieces = (one._replace(last=first - 1), added._replace(first=first, last=last), one._replace(first=last + 1))
    return (piece for piece in pieces if piece.first <= piece.last)


def _append(pieces: list[Batch], piece: Batch) -> None:
    """Append a batch, or join it with the last one where both say the same."""
    if pieces and pieces[-1].last + 1 == piece.first and pieces[-1][2:] == piece[2:]:
        pieces[-1] = pieces[-1]._replace(last=piece.last)
    else:
        pieces.append(piece)


def check(state: ShareState) -> None:
    """Assert the invariant; called after each step in tests."""
    edge = state.start_offset - 1 if state.start_offset != NO_OFFSET else NO_OFFSET
    for batch in state.batches:
        assert edge < batch.first <= batch.last, "in order, without overlap, from the start offset on"
        assert batch.delivery_state in DELIVERY_STATES
        edge = batch.last
    for left, right in zip(state.batches, state.batches[1:], strict=False):
        assert left.last + 1 < right.first or left[2:] != right[2:], "neighbours that say the same are one"
