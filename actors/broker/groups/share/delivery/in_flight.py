"""Records in flight as runs: neighbours in the same state are one run, however many they are.

An in-flight batch is what a member acquired at once; it is the unit in which records are acquired again. Its runs cover it
without a gap. A run is cut where something happens to a part of it, and joined with its neighbours when they are alike
again, so a batch that is treated as one costs one run.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from actors.broker.groups.share.delivery.delivery_states import FINAL, DeliveryState

NOBODY = ""
NEVER_MS = 1 << 62


class StateBatch(NamedTuple):
    """Records in a row with the same state, as they are stored: `delivery_state` 0, 2 or 4."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class DeliveryChange:
    """What one acknowledgement, release or expiry changes, until it is written.

    `done` with `error` NONE (0): it is stored, and holds. With another error the records are as they were before."""

    __slots__ = ("batches", "done", "error")

    def __init__(self) -> None:
        self.batches: list[StateBatch] = []
        self.done = False
        self.error = 0

    def add(self, first: int, last: int, state: int, count: int) -> None:
        """Records that get another state; neighbours that are alike are one batch."""
        if self.batches:
            before = self.batches[-1]
            if before.last_offset + 1 == first and before[2:] == (state, count):
                self.batches[-1] = before._replace(last_offset=last)
                return
        self.batches.append(StateBatch(first, last, state, count))


class InFlightRun:
    """Records first..last, all alike. Invariant: `member` and `lock_ms` are set exactly while the state is ACQUIRED.
    `change`: what is to become of them, to `target`, is being written; until then they stay as they are, and nothing
    can be done with them."""

    __slots__ = ("change", "count", "first", "last", "lock_ms", "member", "state", "target")

    def __init__(
        self, first: int, last: int, state: DeliveryState, count: int, member: str = NOBODY, lock_ms: int = NEVER_MS
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.count = count
        """How often the records were delivered, including the delivery that lasts."""
        self.member = member
        self.lock_ms = lock_ms
        """Monotonic time at which the acquisition lock ends."""
        self.change: DeliveryChange | None = None
        self.target = state

    @property
    def available(self) -> bool:
        return self.state is DeliveryState.AVAILABLE

    @property
    def held(self) -> bool:
        """Whether a member has the records, and has not said what becomes of them."""
        return self.state is DeliveryState.ACQUIRED and self.change is None

    @property
    def over(self) -> bool:
        """Whether the records are in a final state."""
        return self.state in FINAL

    def acquire(self, member: str, lock_ms: int) -> None:
        """Note one more delivery of the records."""
        self.state = self.target = DeliveryState.ACQUIRED
        self.count += 1
        self.member, self.lock_ms = member, lock_ms

    def become(self, state: DeliveryState) -> None:
        """Put the records in any other state than ACQUIRED."""
        self.state = self.target = state
        self.member, self.lock_ms, self.change = NOBODY, NEVER_MS, None

    def like(self, other: "InFlightRun") -> bool:
        """Whether the two may be one run."""
        return (
            self.state is other.state
            and self.count == other.count
            and self.member == other.member
            and self.lock_ms == other.lock_ms
            and self.change is other.change
            and self.target is other.target
        )

    def cut(self, first: int, last: int) -> "InFlightRun":
        """A run of a part of these records."""
        part = InFlightRun(first, last, self.state, self.count, self.member, self.lock_ms)
        part.change, part.target = self.change, self.target
        return part


class InFlightBatch:
    """The records that a member acquired at once. Invariant: `runs` cover first..last in order, without a gap."""

    __slots__ = ("first", "last", "runs")

    def __init__(self, runs: Sequence[InFlightRun]) -> None:
        self.first = runs[0].first
        self.last = runs[-1].last
        self.runs = list(runs)

    def __len__(self) -> int:
        return self.last - self.first + 1

    def within(self, first: int, last: int) -> Iterator[InFlightRun]:
        """The runs that have a record in first..last, uncut."""
        for run in self.runs:
            if run.first > last:
                return
            if run.last >= first:
                yield run

    def cut(self, first: int, last: int) -> list[InFlightRun]:
        """The runs of first..last, cut so that they cover that and nothing else."""
        inside, runs = [], []
        for run in self.runs:
            if run.last < first or run.first > last:
                runs.append(run)
                continue
            if run.first < first:
                runs.append(run.cut(run.first, first - 1))
            part = run
            if run.first < first or run.last > last:
                part = run.cut(max(run.first, first), min(run.last, last))
            runs.append(part)
            inside.append(part)
            if run.last > last:
                runs.append(run.cut(last + 1, run.last))
        self.runs = runs
        return inside

    def join(self) -> None:
        """Join neighbours that are alike."""
        runs = [self.runs[0]]
        for run in self.runs[1:]:
            if runs[-1].like(run):
                runs[-1].last = run.last
            else:
                runs.append(run)
        self.runs = runs
