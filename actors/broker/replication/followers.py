"""A leader's knowledge of one follower, learned from the follower's fetches alone.

This file alone decides when a follower counts as caught up (KIP-497; Kafka's rule of the last caught-up time):

1. A fetch at the leader's present log end: the follower is caught up now.
2. A fetch at or past the log end that the *previous* fetch saw: the follower was caught up at the time of that previous
   fetch. So a follower that always trails a busy leader by one round trip is in sync.
3. A follower whose last fetch was at the log end is caught up as of the latest request of its session, also one that
   does not name the partition. The leader notes this when it appends (`passed`), so an idle partition costs nothing.
4. The position and the broker epoch by which a replica is judged come from the same fetch (R497-43).
"""

from typing import NamedTuple

UNKNOWN_OFFSET = -1
UNKNOWN_EPOCH = -1


class Position(NamedTuple):
    """One fetch of a follower, as the leader saw it."""

    offset: int
    """Fetch offset: the follower's log end."""
    log_start: int
    broker_epoch: int
    """Epoch of the follower's registration; -1 when its request carried none."""
    leader_end: int
    """The leader's log end when the fetch was read."""
    mono_ms: int


class Follower:
    """The progress of one follower, as its leader knows it. Invariant: `caught_up_ms <= fetch_ms` once it has fetched
    under this leader."""

    __slots__ = (
        "attached",
        "broker_epoch",
        "caught_up_ms",
        "fetch_leader_end",
        "fetch_ms",
        "id",
        "log_end",
        "log_start",
    )

    def __init__(self, replica: int, caught_up_ms: int) -> None:
        self.id = replica
        self.log_end = UNKNOWN_OFFSET
        self.log_start = UNKNOWN_OFFSET
        self.broker_epoch = UNKNOWN_EPOCH
        self.caught_up_ms = caught_up_ms
        """Monotonic time of the last moment at which the follower had the whole log."""
        self.fetch_ms = caught_up_ms
        self.fetch_leader_end = UNKNOWN_OFFSET
        self.attached = False
        """Whether the partition is in the follower's fetch session."""

    def fetched(self, position: Position) -> None:
        """Note one fetch."""
        if position.offset >= position.leader_end:
            self.caught_up_ms = max(self.caught_up_ms, position.mono_ms)
        elif self.fetch_leader_end >= 0 and position.offset >= self.fetch_leader_end:
            self.caught_up_ms = max(self.caught_up_ms, self.fetch_ms)
        self.log_end = position.offset
        self.log_start = position.log_start
        self.broker_epoch = position.broker_epoch
        # A fetch that came before this replica led, or waited behind a later one, is noted with the time at which it came.
        self.fetch_ms = max(self.fetch_ms, position.mono_ms)
        self.fetch_leader_end = position.leader_end

    def passed(self, leader_end: int, heard_ms: int) -> None:
        """Note that the leader appends: its log end was `leader_end`, and the follower's last fetch came at
        `heard_ms`."""
        if self.attached and self.log_end == leader_end and heard_ms > self.caught_up_ms:
            self.caught_up_ms = self.fetch_ms = heard_ms
            self.fetch_leader_end = leader_end

    def lags(self, leader_end: int, mono_ms: int, lag_ms_max: int) -> bool:
        """Whether the follower's log end differs from the leader's, and it has not been caught up for longer than
        `lag_ms_max` (R497-44)."""
        return self.log_end != leader_end and mono_ms - self.caught_up_ms > lag_ms_max
