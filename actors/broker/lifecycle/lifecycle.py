"""The states of a broker (INITIAL, FENCED, ACTIVE, SHUTDOWN) and its lease (KIP-631, Broker State Machine).

This file alone decides in which state this broker is, when it sends a heartbeat, and what an answer does. Rules:

1. Only TRANSITIONS changes the state. SHUTDOWN is final, and nothing returns to INITIAL (R631-188).
2. A lease is a *length*: the end minus the start that one answer states, counted on the monotonic clock from the moment
   of sending (A22). The broker ends it without any message (R631-146). An answer that comes after that end grants
   nothing.
3. FENCED becomes ACTIVE by a *new* broker epoch only (R631-185). A broker that fenced itself, or was told to without an
   error, first says so with TargetState FENCED (A23).
4. NextState 0 orders nothing. In an answer with an error only NextState FENCED is obeyed. NOT_CONTROLLER changes
   nothing (A14, A24).
5. An ACTIVE broker does not serve yet until its replay has reached the broker epoch, which is the offset of its
   registration record (DESIGN section 7).
6. A heartbeat leaves at once when the state or the target state changes, not at the next interval (R631-165, A23).
"""

import enum
from typing import NamedTuple

from actors.ports import Now

RETRY_MS = 50
"""The pause before a heartbeat is repeated: after a refusal, a lost request, or the first one of a controlled shutdown
(A49)."""
STOP_LIMIT_MS = 300_000
"""After this time a controlled shutdown ends even if no controller has granted it (A49)."""
CONFLICT_LEASES = 3
"""After this many lease periods in which another process has held the id, as one controller says without a break, this
process stops for good (DESIGN section 9). Each controller that becomes active grants the lease anew that it finds, also that
of a process that is dead."""
EXIT_CONFLICT = 78

NOT_CONTROLLER, STALE_BROKER_EPOCH = 41, 77


class BrokerState(enum.IntEnum):
    """BrokerState on the wire (R631-182)."""

    UNKNOWN = 0
    INITIAL = 1
    FENCED = 2
    ACTIVE = 3
    SHUTDOWN = 4


class Event(enum.Enum):
    """The events that change a broker's state."""

    GRANTED = "lease granted under the present epoch"
    RESTORED = "lease granted under a new epoch"
    LEASE_ENDED = "no renewal in time"
    REVOKED = "told to fence"
    RELEASED = "controlled shutdown granted"
    STOPPED = "stops without a grant"


TRANSITIONS: dict[tuple[BrokerState, Event], BrokerState] = {
    (BrokerState.INITIAL, Event.RESTORED): BrokerState.ACTIVE,
    (BrokerState.ACTIVE, Event.GRANTED): BrokerState.ACTIVE,
    (BrokerState.ACTIVE, Event.RESTORED): BrokerState.ACTIVE,
    (BrokerState.ACTIVE, Event.LEASE_ENDED): BrokerState.FENCED,
    (BrokerState.ACTIVE, Event.REVOKED): BrokerState.FENCED,
    (BrokerState.FENCED, Event.RESTORED): BrokerState.ACTIVE,
    (BrokerState.ACTIVE, Event.RELEASED): BrokerState.SHUTDOWN,
    (BrokerState.FENCED, Event.RELEASED): BrokerState.SHUTDOWN,
    (BrokerState.INITIAL, Event.STOPPED): BrokerState.SHUTDOWN,
    (BrokerState.ACTIVE, Event.STOPPED): BrokerState.SHUTDOWN,
    (BrokerState.FENCED, Event.STOPPED): BrokerState.SHUTDOWN,
}


ACTIVE, SHUTDOWN = BrokerState.ACTIVE, BrokerState.SHUTDOWN
"""Module names, because every turn uses them and the look-up of an enum member costs more."""
FAR_MS = 1 << 62


class Heartbeat(NamedTuple):
    """The content of the next heartbeat, without listeners, rack, features and ids, which the node adds."""

    target: BrokerState
    epoch: int
    lease_start_ms: int
    """Wall clock time of sending (R631-141)."""
    metadata_offset: int
    """The last offset that was applied, inclusive; -1 when none (A26)."""


class Answer(NamedTuple):
    """The content of a heartbeat's answer. `next_state` is the number on the wire."""

    error: int
    next_state: int
    epoch: int
    lease_end_ms: int
    controller: int = -1
    """The id of the controller that answers."""


class Stop(NamedTuple):
    """The order to end the process: exit code and reason."""

    code: int
    why: str


class Metadata(NamedTuple):
    """How far this broker's replay is. `high_watermark`: the one that the leader has told this process; -1: none
    yet."""

    next_offset: int
    high_watermark: int
    leader_known: bool

    @property
    def caught_up(self) -> bool:
        """Whether everything that is known to be committed is replayed."""
        return self.leader_known and 0 <= self.high_watermark <= self.next_offset


class Lifecycle:
    """State of one broker process. Its inputs are `tick`, `answered`, `lost` and `stop`; `tick` returns what to
    send."""

    def __init__(self, interval_ms: int, lease_ms: int) -> None:
        self.state = BrokerState.INITIAL
        self.epoch = -1
        """The last broker epoch granted; -1 before the first. Invariant: never falls."""
        self.interval_ms = interval_ms
        self.lease_ms = lease_ms
        """The expected lease length, used for time limits only (A49). The leases themselves come from answers."""
        self.lease_until_ms = -1
        """Monotonic end of the lease. Invariant: a broker that is ACTIVE has been granted a lease."""
        self.reported: list[str] = []
        """Sentences for the log since the last `take_reports`."""
        self.stop_at: Stop | None = None
        self._sent: tuple[Now, Heartbeat] | None = None
        self._due_ms = 0
        self._refusals = 0
        self._tell_fenced = False
        self._stopping_since_ms = -1
        self._stop_beats = 0
        self._answered_ms = -1
        self._rival_since_ms = -1
        """When the controller `_refused_by` began to say that another process has the id; -1: it does not."""
        self._refused_by = -1
        self._started = False

    # ---- inputs

    def tick(self, now: Now, metadata: Metadata) -> Heartbeat | None:
        """End a lease whose time is over. Returns the heartbeat to send now, if one is due; at most one is in
        flight."""
        if self.state is BrokerState.ACTIVE and now.mono_ms >= self.lease_until_ms:
            self._tell_fenced = self._stopping_since_ms < 0
            self._move(Event.LEASE_ENDED, "the lease ended without renewal", now)
        if self._stopping_since_ms >= 0:
            self._limit_stop(now)
        if self.state is BrokerState.SHUTDOWN or self._sent is not None or now.mono_ms < self._due_ms:
            return None
        if not self._started and not metadata.caught_up:
            return None
        self._started = True
        beat = Heartbeat(self._target(), self.epoch, now.wall_ms, metadata.next_offset - 1)
        self._sent = now, beat
        self._due_ms = now.mono_ms + self.interval_ms
        return beat

    def answered(self, answer: Answer, now: Now) -> None:
        """Take the answer to the heartbeat in flight."""
        if self._sent is None or self.state is BrokerState.SHUTDOWN:
            return
        (sent, beat), self._sent = self._sent, None
        if answer.error == NOT_CONTROLLER:
            self._rival_since_ms = -1
            self._retry(now)
            return
        self._answered_ms = now.mono_ms
        self._note_rival(answer, now)
        if beat.target is BrokerState.FENCED:
            self._tell_fenced = False
            self._due_ms = now.mono_ms
        self._obey(answer, sent, beat, now)
        if beat.target is BrokerState.SHUTDOWN and self.stop_at is None:
            self._stop_beats += 1
            self._due_ms = now.mono_ms + (RETRY_MS if self._stop_beats == 1 else self.interval_ms)

    def lost(self, now: Now) -> None:
        """Note that the heartbeat in flight got no answer: its connection is lost, no controller is known, or its time
        is over."""
        self._sent = None
        self._rival_since_ms = -1
        self._retry(now)

    def hurry(self, now: Now) -> None:
        """Make the next heartbeat due now, since something must be told to the controller."""
        self._due_ms = min(self._due_ms, now.mono_ms)

    def stop(self, now: Now, *, ask: bool = True) -> None:
        """End the process by a controlled shutdown (R631-165). It ends at once from INITIAL (A49), or when `ask` is
        false. A repeated call changes nothing."""
        if self._stopping_since_ms >= 0 or self.state is BrokerState.SHUTDOWN:
            return
        self._stopping_since_ms = self._answered_ms = now.mono_ms
        self._due_ms = now.mono_ms
        if self.state is BrokerState.INITIAL:
            self._end(Event.STOPPED, 0, "stopped before it was ever active", now)
        elif not ask:
            self._end(Event.STOPPED, 0, "stopped without asking, controlled.shutdown.enable=false", now)

    # ---- readers

    @property
    def stopping(self) -> bool:
        """Whether a controlled shutdown was asked for."""
        return self._stopping_since_ms >= 0

    def serving(self, now: Now, next_offset: int) -> bool:
        """Whether clients are served: ACTIVE, inside the lease, and the own replay has reached the broker epoch."""
        return self.state is ACTIVE and now.mono_ms < self.lease_until_ms and next_offset > self.epoch

    def due(self, now: Now) -> bool:
        """Whether `tick` has anything to do."""
        return not self._started or now.mono_ms >= self.deadline_ms()

    def deadline_ms(self) -> int:
        """Monotonic time of the next thing to do; before the first heartbeat it is catching up, not time, that counts."""
        state = self.state
        if state is SHUTDOWN:
            return FAR_MS
        due = self._due_ms if self._sent is None and self._started else FAR_MS
        if state is ACTIVE and self.lease_until_ms < due:
            due = self.lease_until_ms
        if self._stopping_since_ms >= 0:
            due = min(due, self._stopping_since_ms + STOP_LIMIT_MS, self._answered_ms + self.lease_ms)
        return due

    def take_reports(self) -> list[str]:
        """Sentences for the log. Each is returned once."""
        reports, self.reported = self.reported, []
        return reports

    # ---- decisions

    def _target(self) -> BrokerState:
        if self._stopping_since_ms >= 0:
            return BrokerState.SHUTDOWN
        return BrokerState.FENCED if self._tell_fenced else BrokerState.ACTIVE

    def _obey(self, answer: Answer, sent: Now, beat: Heartbeat, now: Now) -> None:
        if answer.error:
            if answer.next_state == BrokerState.FENCED:
                self._revoked(answer, f"the controller answered error {answer.error} and FENCED", now)
            self._retry(now)
        elif answer.next_state == BrokerState.SHUTDOWN and beat.target is BrokerState.SHUTDOWN:
            self._end(Event.RELEASED, 0, "controlled shutdown granted", now)
        elif answer.next_state == BrokerState.FENCED:
            self._revoked(answer, "the controller ordered FENCED", now)
            if beat.target is BrokerState.ACTIVE:
                self._retry(now)
        elif answer.next_state == BrokerState.ACTIVE:
            self._granted(answer, sent, beat, now)
        elif answer.next_state == BrokerState.INITIAL:
            self._retry(now)

    def _granted(self, answer: Answer, sent: Now, beat: Heartbeat, now: Now) -> None:
        until_ms = sent.mono_ms + answer.lease_end_ms - beat.lease_start_ms
        if answer.lease_end_ms <= beat.lease_start_ms or until_ms <= now.mono_ms or answer.epoch < 0:
            return
        if answer.epoch <= self.epoch and self.state is not BrokerState.ACTIVE:
            self._tell_fenced = True  # the controller must take the old epoch back before it gives a new one (rule 3)
            return
        event = Event.RESTORED if answer.epoch > self.epoch else Event.GRANTED
        self._refusals = 0
        self._tell_fenced = False
        self.lease_until_ms = max(self.lease_until_ms, until_ms)
        self.epoch = max(self.epoch, answer.epoch)
        self._move(event, f"lease granted under broker epoch {self.epoch}", now)

    def _revoked(self, answer: Answer, why: str, now: Now) -> None:
        if self.state is BrokerState.INITIAL:
            # At level 1 a refusal carries epoch 0. Taking it ends the first phase, since no lease has epoch 0 (A18).
            self.epoch = max(self.epoch, answer.epoch)
        elif self.state is BrokerState.ACTIVE:
            # With an error the controller has ended the lease already. Only an order without an error is confirmed.
            self._tell_fenced = not answer.error and self._stopping_since_ms < 0
            self._move(Event.REVOKED, why, now)

    def _note_rival(self, answer: Answer, now: Now) -> None:
        if answer.error != STALE_BROKER_EPOCH or answer.next_state != BrokerState.FENCED:
            self._rival_since_ms = -1
        elif self._rival_since_ms < 0 or answer.controller != self._refused_by:
            self._rival_since_ms, self._refused_by = now.mono_ms, answer.controller
        elif now.mono_ms - self._rival_since_ms >= CONFLICT_LEASES * self.lease_ms:
            why = f"another process has held this broker id for {CONFLICT_LEASES} lease periods"
            self._end(Event.STOPPED, EXIT_CONFLICT, why, now)

    def _limit_stop(self, now: Now) -> None:
        if self.state is BrokerState.SHUTDOWN:
            return
        if now.mono_ms - self._stopping_since_ms >= STOP_LIMIT_MS:
            self._end(Event.STOPPED, 0, "controlled shutdown was not granted within five minutes", now)
        elif now.mono_ms - self._answered_ms >= self.lease_ms:
            self._end(
                Event.STOPPED, 0, "no active controller answered within a lease period; stops without a grant", now
            )

    def _retry(self, now: Now) -> None:
        wait_ms = min(RETRY_MS << min(self._refusals, 6), self.interval_ms)
        self._refusals += 1
        self._due_ms = now.mono_ms + wait_ms

    def _end(self, event: Event, code: int, why: str, now: Now) -> None:
        if (self.state, event) in TRANSITIONS:
            self._move(event, why, now)
            self.stop_at = Stop(code, why)

    def _move(self, event: Event, why: str, now: Now) -> None:
        after = TRANSITIONS.get((self.state, event))
        if after is None:
            self.reported.append(f"{event.name} does not apply in state {self.state.name}; nothing changes")
            return
        if after is not self.state:
            self.reported.append(f"{self.state.name} -> {after.name}: {why}")
            self.state = after
            self._due_ms = min(self._due_ms, now.mono_ms) if event is Event.LEASE_ENDED else self._due_ms
