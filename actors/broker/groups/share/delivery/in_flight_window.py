"""The window of a share partition: which records are in flight, and where the next ones are read (KIP-932).

This file alone decides how the window moves. Rules:

1. Below `start` all is done. From `start` to `end` records are in flight: acquired once or more, and not all done. Where
   nothing is in flight, the next record is at `end`.
2. The start moves over what is acknowledged or archived, and whole batches leave the window with it. It moves to the start
   of the log when that has overtaken it: records below it that nobody has are archived.
3. What is available is read again before what follows the window.
4. After a load there may be gaps between the batches that were stored: records that were in flight, and of which nothing was
   ever stored. They are new ones, and are looked for from `gap` on until the window grows beyond what was loaded.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from actors.broker.groups.share.delivery.delivery_states import DeliveryState, Event, after
from actors.broker.groups.share.delivery.in_flight import InFlightBatch, InFlightRun, StateBatch

NO_GAP = -1


class Window:
    """The records in flight of a share partition. Invariant: `batches` are in the order of their offsets and do not
    overlap."""

    __slots__ = ("_gap_end", "_look", "batches", "end", "gap", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.batches: list[InFlightBatch] = []
        self.gap = NO_GAP
        """The offset below which there is no gap any more; NO_GAP: there is none anywhere."""
        self._gap_end = NO_GAP
        self._look = False
        """Whether something may be available inside the window."""

    @staticmethod
    def loaded(start: int, stored: Sequence[StateBatch]) -> "Window":
        """The window as it was stored. Raises ValueError if what was stored makes no sense."""
        window = Window(start)
        below = start
        for one in stored:
            if one.first_offset < below or one.last_offset < one.first_offset:
                raise ValueError(f"state batch {one.first_offset} to {one.last_offset} does not follow {below - 1}")
            if one.first_offset > below and window.gap == NO_GAP:
                window.gap = below
            state = DeliveryState(one.delivery_state)
            if state is DeliveryState.ACQUIRED:
                raise ValueError(f"state batch {one.first_offset} is stored as acquired")
            window.batches.append(
                InFlightBatch([InFlightRun(one.first_offset, one.last_offset, state, one.delivery_count)])
            )
            below = one.last_offset + 1
        if window.batches:
            window._look = True
            window.end = window._gap_end = below - 1
            window.advance()
        return window

    # ---- what is in it

    @property
    def records(self) -> int:
        """How many offsets are in flight."""
        return self.end - self.start + 1 if self.batches and self.start <= self.batches[-1].last else 0

    @property
    def has_gap(self) -> bool:
        """Whether gaps of a load are still looked for."""
        return self.gap != NO_GAP and self._gap_end == self.end

    @property
    def complete(self) -> int:
        """How many records from the start on are done, or will be with what is being written."""
        return sum(
            run.last - max(run.first, self.start) + 1
            for batch in self.batches
            for run in batch.runs
            if run.last >= self.start and run.target in (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)
        )

    @property
    def follows(self) -> int:
        """The first offset behind the window."""
        if not self.batches or self.start > self.batches[-1].last:
            return self.end
        return self.end + 1

    def next_offset(self) -> int:
        """The offset at which to read next."""
        if self._look:
            if self.batches and self.start <= self.batches[-1].last:
                found = self._first_available()
                if found >= 0:
                    return found
            self._look = False
        return self.follows

    def _first_available(self) -> int:
        gap = self.gap if self.has_gap else None
        for batch in self.batches:
            if gap is not None:
                if batch.first > gap:
                    return gap
                gap = max(batch.last + 1, gap)
            for run in batch.runs:
                if run.available:
                    return run.first
        return -1

    def floor(self, offset: int) -> int:
        """The place of the last batch that begins at or before an offset; -1: none does."""
        return bisect_right(self.batches, offset, key=_first) - 1

    def between(self, first: int, last: int) -> list[InFlightBatch]:
        """The batches that begin in first..last."""
        return self.batches[bisect_right(self.batches, first - 1, key=_first) : self.floor(last) + 1]

    def covering(self, first: int, last: int) -> list[InFlightBatch]:
        """The batches that have a record in first..last."""
        begin = self.floor(first)
        if begin < 0 or self.batches[begin].last < first:
            begin += 1
        return self.batches[begin : self.floor(last) + 1]

    def runs(self) -> Iterator[tuple[InFlightBatch, InFlightRun]]:
        """All runs of the window, in order."""
        for batch in self.batches:
            for run in batch.runs:
                yield batch, run

    # ---- what happens to it

    def insert(self, batch: InFlightBatch) -> None:
        """Insert a batch of new records that are in flight."""
        assert self.start <= batch.first <= batch.last, (self.start, batch.first, batch.last)
        self.batches.insert(self.floor(batch.first) + 1, batch)

    def look(self) -> None:
        """Note that something has become available."""
        self._look = True

    def passed(self, offset: int) -> None:
        """Note that no gap of the load is left below an offset."""
        if self.gap == NO_GAP:
            return
        self.gap = max(self.gap, offset, self.start)
        for batch in self.covering(self.gap, self._gap_end):
            if batch.first > self.gap:
                break
            self.gap = batch.last + 1
        if not self.has_gap or self.gap > self._gap_end:
            self.gap = NO_GAP

    def archive(self, first: int, last: int, event: Event, state: DeliveryState = DeliveryState.AVAILABLE) -> bool:
        """Archive the records of first..last that are in that state: they are lost to the group. Returns whether there
        were any."""
        found = False
        for batch in self.covering(first, last):
            if not any(run.state is state and run.change is None for run in batch.within(first, last)):
                continue
            for run in batch.cut(first, last):
                if run.state is state and run.change is None:
                    run.become(after(state, event, spent=True))
                    found = True
            batch.join()
        return found

    def log_starts_at(self, offset: int) -> None:
        """Note that the log begins at an offset, which may be above the start (rule 2)."""
        if offset <= self.start:
            return
        if self.batches:
            self.archive(self.batches[0].first, offset - 1, Event.LOSE)
            self._look = True
        self.start = offset
        self.end = max(self.end, offset)
        self.advance()

    def advance(self) -> bool:
        """Move the start over what is done. Returns whether it moved. What a member has below the start does not hold
        it up."""
        before, place = self.start, 0
        self.passed(self.start)
        while place < len(self.batches):
            batch, start = self.batches[place], self.start
            if batch.last >= start and self.has_gap and batch.last >= self.gap:
                break
            left = [run for run in batch.runs if not run.over]
            undone = next((run.first for run in left if run.last >= start), -1)
            if undone >= 0:
                if undone > batch.first:
                    self.start = max(start, undone)
                break
            if left:
                place += 1
            else:
                del self.batches[place]
            if batch.last >= start:
                self._leave(batch, place)
        return self.start > before

    def _leave(self, batch: InFlightBatch, place: int) -> None:
        """Take a batch out that the start has passed; at `place` is the one behind it."""
        if place == len(self.batches):
            self.start = self.end = batch.last + 1
        else:
            following = self.batches[place].first
            self.start = max(self.start, min(following, self.gap) if self.has_gap else following)

    def check(self) -> None:
        """Check the invariants. Raises AssertionError if one does not hold."""
        below = -1
        for batch in self.batches:
            assert batch.first > below, (batch.first, below)
            below = batch.first - 1
            for run in batch.runs:
                assert run.first == below + 1 and run.last >= run.first, (run.first, run.last, below)
                assert (run.state is DeliveryState.ACQUIRED) == bool(run.member), (run.first, run.state, run.member)
                assert run.change is None or run.state is DeliveryState.ACQUIRED
                below = run.last
            assert batch.last == below, (batch.last, below)
        assert not self.batches or below <= self.end, (below, self.end)


def _first(batch: InFlightBatch) -> int:
    return batch.first
