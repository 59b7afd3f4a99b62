"""What a member says of the records that it has (KIP-932, KIP-1222).

This file alone decides which acknowledgements of a request hold. Rules:

1. The batches of a partition are in the order of their offsets. A batch has one type for all of its records, or one for
   each.
2. All batches of a partition hold, or none does: everything is looked at before anything is changed.
3. A member acknowledges what it has acquired and has not acknowledged yet. Records below the start are passed over.
4. A renewal makes the lock last anew, at once. Every other acknowledgement is a change that has to be written first.

Errors: INVALID_REQUEST (the batches make no sense, or end behind what was acquired), INVALID_RECORD_STATE (the records are
not acquired, another member has them, they are acknowledged already, or the group does not renew).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from actors.broker.groups.share.delivery.delivery_states import DeliveryState, Event, after
from actors.broker.groups.share.delivery.in_flight import DeliveryChange
from actors.broker.groups.share.delivery.in_flight_window import Window
from actors.broker.replication.admission import RequestRefused
from actors.wire.errors import ErrorCode

TYPE_MAX, TYPE_MAX_WITH_RENEWALS = Event.REJECT.value, Event.RENEW.value


class AcknowledgementBatch(NamedTuple):
    """An acknowledgement of the records first..last. `types`: one for all of them, or one each."""

    first: int
    last: int
    types: Sequence[int]

    def pieces(self) -> Iterator[tuple[int, int, Event]]:
        """(first, last, what is said) of neighbouring records of which the same is said."""
        types = self.types
        if len(types) == 1:
            yield self.first, self.last, Event(types[0])
            return
        begin = 0
        for place in range(1, len(types) + 1):
            if place == len(types) or types[place] != types[begin]:
                yield self.first + begin, self.first + place - 1, Event(types[begin])
                begin = place


def check_form(batches: Sequence[AcknowledgementBatch], *, renewals: bool, renewing: bool) -> None:
    """Check the form of acknowledgements (rule 1). `renewals`: the version of the request knows them; `renewing`: the
    request says that it has some. Raises RequestRefused: INVALID_REQUEST."""
    below = -1
    type_max = TYPE_MAX_WITH_RENEWALS if renewals else TYPE_MAX
    for first, last, types in batches:
        if first > last or first < below:
            raise RequestRefused(ErrorCode.INVALID_REQUEST, f"offsets {first} to {last} do not follow {below}")
        if not types or (len(types) > 1 and last - first != len(types) - 1):
            raise RequestRefused(ErrorCode.INVALID_REQUEST, f"{len(types)} types for offsets {first} to {last}")
        if min(types) < 0 or max(types) > type_max:
            raise RequestRefused(
                ErrorCode.INVALID_REQUEST, f"there is no acknowledge type {min(types)} to {max(types)}"
            )
        if not renewing and TYPE_MAX_WITH_RENEWALS in types:
            raise RequestRefused(ErrorCode.INVALID_REQUEST, "a renewal in a request that says it has none")
        below = last


def acknowledge(
    window: Window,
    member: str,
    batches: Sequence[AcknowledgementBatch],
    *,
    lock_ms: int,
    delivery_limit: int,
    renewals: bool,
) -> DeliveryChange | None:
    """Take in what a member says of its records. Returns what is to be written; None: nothing is. `lock_ms`: until when
    what is renewed is locked. `renewals`: whether the group allows them. Raises RequestRefused."""
    below = -1
    for batch in batches:
        if batch.last >= window.start:
            _check(window, member, batch, below, renewals)
            below = batch.last
    change = DeliveryChange()
    for batch in batches:
        for first, last, event in batch.pieces():
            if last >= window.start:
                _apply(window, max(first, window.start), last, event, change, lock_ms, delivery_limit)
    return change if change.batches else None


def _check(window: Window, member: str, batch: AcknowledgementBatch, below: int, renewals: bool) -> None:
    if batch.first <= below:
        raise RequestRefused(ErrorCode.INVALID_RECORD_STATE, f"offset {below} is acknowledged twice")
    found = window.covering(batch.first, batch.last)
    if window.floor(batch.first) < 0 and not (found and batch.first < window.start):
        raise RequestRefused(ErrorCode.INVALID_RECORD_STATE, f"offsets {batch.first} to {batch.last} are not acquired")
    if not found or batch.last > found[-1].last:
        raise RequestRefused(
            ErrorCode.INVALID_REQUEST, f"offsets {batch.first} to {batch.last} end behind what was acquired"
        )
    if Event.RENEW.value in batch.types and not renewals:
        raise RequestRefused(ErrorCode.INVALID_RECORD_STATE, "the group does not renew acquisition locks")
    for one in found:
        for run in one.within(max(batch.first, window.start), batch.last):
            if not run.held:
                raise RequestRefused(
                    ErrorCode.INVALID_RECORD_STATE, f"offset {max(run.first, batch.first)} is not acquired"
                )
            if run.member != member:
                raise RequestRefused(
                    ErrorCode.INVALID_RECORD_STATE, f"another member has offset {max(run.first, batch.first)}"
                )


def _apply(
    window: Window, first: int, last: int, event: Event, change: DeliveryChange, lock_ms: int, delivery_limit: int
) -> None:
    for batch in window.covering(first, last):
        for run in batch.cut(first, last):
            if event is Event.RENEW:
                run.lock_ms = lock_ms
                continue
            run.target = after(DeliveryState.ACQUIRED, event, spent=run.count >= delivery_limit)
            run.change = change
            change.add(run.first, run.last, run.target, run.count)
        batch.join()


def settle(window: Window, change: DeliveryChange, error: int) -> None:
    """Settle a change that is written, or could not be written: then its records are as before, and their locks go
    on."""
    change.done, change.error = True, error
    for begin, end, _, _ in change.batches:
        for batch in window.covering(begin, end):
            for run in batch.within(begin, end):
                if run.change is change and error:
                    run.change, run.target = None, run.state
                elif run.change is change:
                    run.become(run.target)
            batch.join()
    if window.batches and window.batches[0].first < window.start:  # it may have been given back below the start
        window.archive(window.batches[0].first, window.start - 1, Event.LOSE)
    window.look()
    window.advance()
