"""Which records of what was read a member gets (KIP-932, acquiring records; KIP-1206, strict limits).

This file alone decides that. Rules:

1. What is available in the window goes out again before new records do, in the batches in which it went out before.
2. A batch is not divided for the sake of `records_max`: the last one may go beyond it, to the end of the batch in the log.
   With a strict limit it is divided, and the rest is available.
3. New records are divided into in-flight batches of `batch_size` records or more, at the ends of batches in the log.
4. A window holds at most `in_flight_max` records. When it is full, only what is available inside it goes out.
5. A record that was delivered often is suspect. Of a batch with such records, from half of the limit on, only a part goes
   out, half as many with each further delivery, and nothing else with it. A record's last delivery is of that record alone.
6. Offsets that were asked for and are not in what was read are gone, by compaction: they are archived.
7. Where committed records only are read, those of aborted transactions are archived at once, and go to nobody.
"""

from collections.abc import Sequence
from typing import NamedTuple

from actors.broker.groups.share.delivery.delivery_states import DeliveryState, Event
from actors.broker.groups.share.delivery.in_flight import InFlightBatch, InFlightRun
from actors.broker.groups.share.delivery.in_flight_window import Window

SUSPECT_FROM = 2
"""The least number of deliveries from which a record can be suspect."""


class Extent(NamedTuple):
    """One batch of the log: its first and last offset."""

    first: int
    last: int


class Acquired(NamedTuple):
    """Records in a row that a member has now, and for how many a time they are delivered."""

    first: int
    last: int
    delivery_count: int


class AcquisitionRequest(NamedTuple):
    """The member that wants records, and the limits of its group."""

    member: str
    records_max: int
    batch_size: int
    strict: bool
    lock_ms: int
    """Monotonic time at which the locks end."""
    delivery_limit: int
    in_flight_max: int


def can_acquire(window: Window, in_flight_max: int) -> bool:
    """Whether anything could be acquired, if it can be read."""
    return window.next_offset() != window.end + 1 or window.records < in_flight_max


def acquire(
    window: Window, ask: AcquisitionRequest, offset: int, extents: Sequence[Extent], aborted: Sequence[Extent] = ()
) -> list[Acquired]:
    """Acquire records of what was read from `offset` on: `extents`, of which `aborted` are for no member."""
    if not extents or ask.records_max <= 0 or extents[-1].last < window.start:
        return []
    last, left = _limits(window, ask, offset, extents[-1].last)
    if left <= 0:
        return []
    begin = extents[0].first
    if offset < begin and window.archive(offset, begin - 1, Event.LOSE):
        window.look()
    taking = _Taking(window, ask, extents, last, left)
    taking.run()
    acquired = taking.acquired
    if aborted and acquired:
        for extent in aborted:
            window.archive(extent.first, extent.last, Event.ABORT, DeliveryState.ACQUIRED)
        acquired = without(acquired, aborted)
    window.advance()
    return acquired


def without(acquired: Sequence[Acquired], gone: Sequence[Extent]) -> list[Acquired]:
    """What is left of `acquired` beside `gone`; both are in order."""
    left, place = [], 0
    for first, last, count in acquired:
        while place < len(gone) and gone[place].last < first:
            place += 1
        at = place
        while at < len(gone) and gone[at].first <= last:
            if first < gone[at].first:
                left.append(Acquired(first, gone[at].first - 1, count))
            first = gone[at].last + 1
            at += 1
        if first <= last:
            left.append(Acquired(first, last, count))
    return left


def _limits(window: Window, ask: AcquisitionRequest, offset: int, last: int) -> tuple[int, int]:
    """(the last offset, how many records at most) that may be acquired (rule 4)."""
    left = min(ask.records_max, ask.in_flight_max - window.records)
    if left <= 0 and offset <= window.end:
        return min(last, window.end), min(ask.records_max, window.end - offset + 1)
    return last, left


class _Taking:
    """One acquisition that is under way."""

    def __init__(
        self, window: Window, ask: AcquisitionRequest, extents: Sequence[Extent], last: int, left: int
    ) -> None:
        self._window = window
        self._ask = ask
        self._extents = extents
        self._last = last
        self._left = left
        """How many records may still be acquired; below zero after a batch that was not divided."""
        self._suspect_from = max(SUSPECT_FROM, (ask.delivery_limit + 1) // 2)
        self.acquired: list[Acquired] = []

    def run(self) -> None:
        """Take what is available in the window, then new records."""
        window, begin = self._window, self._extents[0].first
        floor = window.floor(begin)
        base = max(begin, window.start)
        if floor >= 0 and window.batches[floor].last >= begin:
            base = window.batches[floor].first
        batches = window.between(min(begin, base), self._last)
        if not batches:
            self._new(base, self._last)
            return
        below = base
        for batch in batches:
            if self._left <= 0:
                return
            if window.has_gap and below < batch.first:
                self._new(below, batch.first - 1)
            below = max(below, batch.last + 1)
            if self._left <= 0 or not self._take(batch):
                return
        if self._left > 0:
            if below <= self._last:
                self._new(below, self._last)
            if self._left > 0:
                window.passed(self._last + 1)

    # ---- what was in flight before

    def _take(self, batch: InFlightBatch) -> bool:
        """Take what is available of a batch. Returns whether others may follow."""
        begin = self._extents[0].first
        highest = max((run.count for run in batch.within(begin, self._last) if run.available), default=-1)
        if highest < 0:
            return True
        suspect = highest >= self._suspect_from
        if suspect and self.acquired:
            return False
        inside = batch.first >= begin and batch.last <= self._last
        if inside and len(batch.runs) == 1 and not suspect and not (self._ask.strict and len(batch) > self._left):
            self._acquire(batch.runs[0])
            return True
        return not (self._take_part(batch) and suspect)

    def _take_part(self, batch: InFlightBatch) -> int:
        """Take available records of a batch one run after the other. Returns how many."""
        limit, taken, most = self._ask.delivery_limit, 0, self._left if self._ask.strict else len(batch)
        for run in list(batch.within(self._extents[0].first, self._last)):
            if not run.available:
                continue
            last_delivery = limit > SUSPECT_FROM and run.count == limit - 1
            if run.count >= self._suspect_from:
                most = min(most, max(1, len(batch) >> (run.count - self._suspect_from + 1)))
            if taken >= most or (last_delivery and taken):
                break
            first = max(run.first, self._extents[0].first)
            last = min(run.last, self._last, first if last_delivery else first + most - taken - 1)
            for part in batch.cut(first, last):
                self._acquire(part)
            taken += last - first + 1
            if last_delivery:
                break
        batch.join()
        return taken

    def _acquire(self, run: InFlightRun) -> None:
        run.acquire(self._ask.member, self._ask.lock_ms)
        self._give(run.first, run.last, run.count)

    def _give(self, first: int, last: int, count: int) -> None:
        acquired = self.acquired
        self._left -= last - first + 1
        self._window.passed(last + 1)
        acquired.append(Acquired(first, last, count))

    # ---- new records

    def _new(self, first: int, last: int) -> None:
        """Take records that were not in flight: those of first..last that are in the window or behind it, if any
        are."""
        window, ask = self._window, self._ask
        first = max(first, window.start if window.records else window.end)
        if first > last:
            return
        if self._left < last - first + 1:
            last = min(last, self._aligned(first + self._left - 1))
        if ask.strict and self._left < last - first + 1:
            taken = first + self._left - 1
            held = InFlightRun(first, taken, DeliveryState.ACQUIRED, 1, ask.member, ask.lock_ms)
            window.insert(InFlightBatch([held, InFlightRun(taken + 1, last, DeliveryState.AVAILABLE, 0)]))
            window.look()
            pieces = [Extent(first, taken)]
        else:
            pieces = [Extent(first, last)] if ask.strict else self._divided(first, last)
            for piece in pieces:
                window.insert(InFlightBatch([InFlightRun(*piece, DeliveryState.ACQUIRED, 1, ask.member, ask.lock_ms)]))
        if window.batches[0].first == first:
            window.start = first
        window.end = max(window.end, last)
        for piece in pieces:
            self._give(*piece, 1)

    def _aligned(self, offset: int) -> int:
        """The last offset of the log's batch that has `offset`."""
        return next((extent.last for extent in self._extents if extent.first <= offset <= extent.last), offset)

    def _divided(self, first: int, last: int) -> list[Extent]:
        """The pieces into which new records are divided (rule 3)."""
        pieces = []
        if last - first + 1 > self._ask.batch_size:
            for extent in self._extents:
                if extent.first > last:
                    break
                if extent.first - first >= self._ask.batch_size:
                    pieces.append(Extent(first, extent.first - 1))
                    first = extent.first
        pieces.append(Extent(first, last))
        return pieces
