"""One share partition on the leader of its partition: its window, and what of it is still to be stored (KIP-932).

What members get is decided in `acquisition.py`, what they say in `acknowledgement.py`, what they lose in
`acquisition_locks.py`, where the window is in `in_flight_window.py`. This file alone decides what is stored when. Rules:

1. Nothing is acquired or acknowledged before the stored state is loaded.
2. A change holds once it is stored. One write is under way at a time; what comes up meanwhile shares the next one, as long
   as no record is in it twice.
3. A write that fails undoes its changes. Where another leader has taken over, or the group is gone, the share partition is
   fenced: nothing can be done with it any more, and all that waits in it fails.
"""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from actors.broker.groups.share.delivery import acknowledgement, acquisition_locks
from actors.broker.groups.share.delivery.acknowledgement import AcknowledgementBatch
from actors.broker.groups.share.delivery.acquisition import Acquired, AcquisitionRequest, Extent, acquire, can_acquire
from actors.broker.groups.share.delivery.delivery_states import DeliveryState
from actors.broker.groups.share.delivery.in_flight import NEVER_MS, DeliveryChange, StateBatch
from actors.broker.groups.share.delivery.in_flight_window import Window
from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.broker.replication.admission import RequestRefused
from actors.wire.errors import ErrorCode

FENCING = {
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""The error that members hear for an error of the share coordinator that ends a share partition here."""
UNAVAILABLE = frozenset(
    (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
)


class ShareLimits(NamedTuple):
    """The settings of a group, as they are now."""

    lock_duration_ms: int
    delivery_limit: int
    in_flight_max: int
    renewals: bool
    committed_only: bool


class StateWrite(NamedTuple):
    """The state that the share coordinator is asked to store."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    batches: Sequence[StateBatch]


def told(code: ErrorCode) -> ErrorCode:
    """The error that members hear for an error of the share coordinator."""
    if code in FENCING:
        return FENCING[code]
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if code in UNAVAILABLE else ErrorCode.UNKNOWN_SERVER_ERROR


class SharePartition:
    """A partition as one share group reads it, in one leadership."""

    def __init__(self, key: SharePartitionKey, leader_epoch: int) -> None:
        self.key = key
        self.leader_epoch = leader_epoch
        self.window: Window | None = None
        """The window of records in flight; None: it is not loaded yet."""
        self.state_epoch = 0
        self.fenced: ErrorCode | None = None
        """Why the share partition cannot be used any more; None: it can."""
        self.lock_due_ms = NEVER_MS
        """The time before which no lock ends."""
        self._waiting: deque[list[DeliveryChange]] = deque()
        """Writes that are not begun. Invariant: no list is empty, and no record is twice in one."""
        self._writing: list[DeliveryChange] = []

    # ---- its state

    def load(self, start_offset: int, state_epoch: int, batches: Sequence[StateBatch]) -> None:
        """Load the state that was stored. Raises ValueError if what was stored makes no sense."""
        self.window = Window.loaded(start_offset, batches)
        self.state_epoch = state_epoch

    @property
    def active(self) -> bool:
        """Whether members can be served."""
        return self.window is not None and self.fenced is None

    def fence(self, code: ErrorCode) -> None:
        """End the use of the share partition here. What waits in it has failed with that error."""
        if self.fenced is None:
            self.fenced = code
            for change in (*self._writing, *(one for changes in self._waiting for one in changes)):
                change.done, change.error = True, code
            self._writing, self._waiting = [], deque()

    @property
    def acquired(self) -> bool:
        """Whether a member has some of its records."""
        return self.window is not None and any(run.state is DeliveryState.ACQUIRED for _, run in self.window.runs())

    # ---- what members do

    def can_acquire(self, limits: ShareLimits) -> bool:
        """Whether there may be something for a member, in the window or behind it."""
        return self.active and can_acquire(self._window, limits.in_flight_max)

    @property
    def start_offset(self) -> int:
        """The offset below which all is done. It must be active. It must be active."""
        return self._window.start

    def next_offset(self) -> int:
        """The offset at which to read for the next member. It must be active. It must be active."""
        return self._window.next_offset()

    def unseen(self, below: int, limits: ShareLimits) -> int:
        """How many records below an offset no member has had, and one may have now. It must be active."""
        window = self._window
        return max(0, min(below - window.follows, limits.in_flight_max - window.records))

    def span(self, records: int, limits: ShareLimits) -> int:
        """How many offsets from `next_offset` on have so many records for a member. It must be active."""
        follows = self._window.follows
        return follows - self.next_offset() + self.unseen(follows + records, limits)

    def log_starts_at(self, offset: int) -> None:
        """Note where the log begins now."""
        if self.active:
            self._window.log_starts_at(offset)

    def acquire(
        self, ask: AcquisitionRequest, offset: int, extents: Sequence[Extent], aborted: Sequence[Extent]
    ) -> list[Acquired]:
        """Give a member records of what was read from `offset` on. It must be active."""
        acquired = acquire(self._window, ask, offset, extents, aborted)
        if acquired:
            self.lock_due_ms = min(self.lock_due_ms, ask.lock_ms)
        return acquired

    def acknowledge(
        self, member: str, batches: Sequence[AcknowledgementBatch], now_ms: int, limits: ShareLimits
    ) -> DeliveryChange | None:
        """Take in what a member says. Returns None if nothing has to be stored for it. Raises RequestRefused."""
        if not self.active:
            raise RequestRefused(
                self.fenced or ErrorCode.INVALID_RECORD_STATE, "nothing is acquired in that share partition"
            )
        change = acknowledgement.acknowledge(
            self._window,
            member,
            batches,
            lock_ms=now_ms + limits.lock_duration_ms,
            delivery_limit=limits.delivery_limit,
            renewals=limits.renewals,
        )
        self._enqueue(change)
        return change

    def give_back(self, member: str, limits: ShareLimits) -> None:
        """Give back the records of a member whose session has ended."""
        if self.active:
            self._enqueue(acquisition_locks.give_back(self._window, member, limits.delivery_limit))

    def expire(self, now_ms: int, limits: ShareLimits) -> bool:
        """Take back what was locked for too long. Returns whether there was anything."""
        if not self.active or now_ms < self.lock_due_ms:
            return False
        change, self.lock_due_ms = acquisition_locks.expire(self._window, now_ms, limits.delivery_limit)
        self._enqueue(change)
        return change is not None

    # ---- what is stored

    @property
    def idle(self) -> bool:
        """Whether no write is under way or waits."""
        return not self._writing and not self._waiting

    def next_write(self) -> StateWrite | None:
        """Begin the next write; None: one is under way, or nothing has to be stored."""
        if self._writing or not self._waiting:
            return None
        self._writing = self._waiting.popleft()
        batches = sorted(batch for change in self._writing for batch in change.batches)
        window = self._window
        return StateWrite(self.state_epoch, self.leader_epoch, window.start, window.complete, batches)

    def written(self, code: ErrorCode, now_ms: int) -> None:
        """Settle the write under way, which has ended."""
        if code in FENCING:
            self.fence(told(code))
        if self.fenced is not None:
            return
        changes, self._writing = self._writing, []
        for change in changes:
            acknowledgement.settle(self._window, change, told(code) if code else 0)
        if code:
            self.lock_due_ms = min(self.lock_due_ms, now_ms)  # a lock may have ended while it was written

    @property
    def _window(self) -> Window:
        assert self.window is not None
        return self.window

    def _enqueue(self, change: DeliveryChange | None) -> None:
        if change is None:
            return
        if self._waiting and not any(_overlap(change, other) for other in self._waiting[-1]):
            self._waiting[-1].append(change)
        else:
            self._waiting.append([change])


def _overlap(change: DeliveryChange, other: DeliveryChange) -> bool:
    """Whether a record is in both changes."""
    mine, theirs = change.batches, other.batches
    if mine[-1].last_offset < theirs[0].first_offset or theirs[-1].last_offset < mine[0].first_offset:
        return False
    taken = sorted((batch.first_offset, batch.last_offset) for batch in (*mine, *theirs))
    return any(before[1] >= after[0] for before, after in pairwise(taken))
