"""The leader's proposal of another ISR: the state machine of one partition (KIP-497; requirement rows T1 to T23).

Only the controller changes an ISR; the leader proposes changes. This file alone decides in which stage a proposal is,
and what an answer, a refusal or an update does to it. Rules:

1. `maximal = isr | proposal.want`. The high watermark never passes a member of it (R497-23).
2. At most one unsettled proposal a partition (R497-34). Queued it may change or go; once handed over it may not (R497-35).
3. Only an update with a *higher* partition epoch, an answer that carries committed state, or a refusal that can never be
   applied ends a proposal. An update with the same one is a repetition and keeps it (T15). The leader epoch has no say in
   this: under the same one the ISR may change, and a higher one never comes without a higher partition epoch.
4. A move that the table does not have is a bug: AssertionError, and nothing has changed.

```
            decide              flush               NONE (no state)
 Settled ----------------> Q ----------------> S ----------------------> A
   ^  ^                    | amend, withdraw   | 74, 95, 3 -----> R      |
   |  |                    |                   | transient: stay S, resend
   |  +--------------------+                   |                  |      |
   +---- definitive refusal, answer with state-+                  |      |
   +---- update with a higher epoch (from any stage)   <----------+------+
```
"""

import enum
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from actors.broker.replication.followers import Follower


class Stage(enum.Enum):
    """The stages of a proposal."""

    SETTLED = "settled"
    QUEUED = "Q"
    SENT = "S"
    ACKNOWLEDGED = "A"
    REFUSED = "R"


class Event(enum.Enum):
    """What can happen to a partition that this broker leads."""

    WANTED = "another set is wanted than the committed one"
    CONTENT = "the committed set is what is wanted"
    FLUSH = "handed to the network"
    TRANSIENT = "connection lost, timeout, or an error that says nothing about the proposal"
    APPLIED = "answer NONE without state"
    APPLIED_STATE = "answer NONE with a state of this epoch that is not older"
    APPLIED_OTHER = "answer NONE with another state"
    STALE = "refused because the partition epoch moved on"
    FINAL = "refused for good"
    UPDATE_NEWER = "update, same leader, higher partition epoch"
    UPDATE_SAME = "update, same partition epoch"
    UPDATE_OLDER = "update, lower partition epoch"
    OTHER_LEADER = "update, another leader"
    LEADER_AGAIN = "update, still leader, higher leader epoch"
    REMOVED = "partition removed"
    FOREIGN = "answer to a proposal that is gone"
    LEASE_ENDED = "own lease ended"
    LEASE_RENEWED = "own lease renewed with another broker epoch"
    CONTROLLER_CHANGED = "another active controller"


class Effect(enum.Enum):
    """What a move does, besides changing the stage."""

    WANT = "take the wanted set"
    SETTLE = "drop the proposal; maximal is the committed set again"
    ADOPT = "take ISR and partition epoch of the update or answer"
    EVALUATE = "look at every replica again in this turn"
    RESEND = "the same entry goes into the next request"
    HOLD_OFF = "do not ask for these replicas again for a while"
    FAILED = "count a refusal"


class IsrTransition(NamedTuple):
    """One row of the table."""

    name: str
    stage: Stage
    effects: tuple[Effect, ...] = ()


_S, _Q, _OUT, _A, _R = Stage.SETTLED, Stage.QUEUED, Stage.SENT, Stage.ACKNOWLEDGED, Stage.REFUSED
_NEWER = (Effect.ADOPT, Effect.SETTLE, Effect.EVALUATE)

TRANSITIONS: dict[tuple[Stage, Event], IsrTransition] = {
    (_S, Event.WANTED): IsrTransition("T1 T2", _Q, (Effect.WANT,)),
    (_S, Event.CONTENT): IsrTransition("T1 T2", _S),
    (_Q, Event.WANTED): IsrTransition("T3", _Q, (Effect.WANT,)),
    (_Q, Event.CONTENT): IsrTransition("T4", _S, (Effect.SETTLE,)),
    (_Q, Event.FLUSH): IsrTransition("T5", _OUT),
    (_OUT, Event.WANTED): IsrTransition("T6", _OUT),
    (_OUT, Event.CONTENT): IsrTransition("T6", _OUT),
    (_A, Event.WANTED): IsrTransition("T6", _A),
    (_A, Event.CONTENT): IsrTransition("T6", _A),
    (_R, Event.WANTED): IsrTransition("T6", _R),
    (_R, Event.CONTENT): IsrTransition("T6", _R),
    (_OUT, Event.TRANSIENT): IsrTransition("T7", _OUT, (Effect.RESEND,)),
    (_OUT, Event.APPLIED): IsrTransition("T8", _A),
    (_A, Event.APPLIED): IsrTransition("T9", _A),
    (_A, Event.STALE): IsrTransition("T9", _A),
    (_A, Event.FINAL): IsrTransition("T9", _A),
    (_A, Event.TRANSIENT): IsrTransition("T9", _A),
    (_A, Event.APPLIED_STATE): IsrTransition("T9", _A),
    (_A, Event.APPLIED_OTHER): IsrTransition("T9", _A),
    (_OUT, Event.APPLIED_STATE): IsrTransition("T10", _S, _NEWER),
    (_OUT, Event.APPLIED_OTHER): IsrTransition("T11", _OUT),
    (_OUT, Event.STALE): IsrTransition("T12", _R, (Effect.FAILED,)),
    (_OUT, Event.FINAL): IsrTransition("T13", _S, (Effect.SETTLE, Effect.HOLD_OFF, Effect.FAILED)),
    (_OUT, Event.LEASE_RENEWED): IsrTransition("T22", _OUT, (Effect.RESEND,)),
    (_OUT, Event.CONTROLLER_CHANGED): IsrTransition("T23", _OUT, (Effect.RESEND,)),
}
for _stage in Stage:
    TRANSITIONS[_stage, Event.UPDATE_NEWER] = IsrTransition("T14", _S, _NEWER)
    TRANSITIONS[_stage, Event.UPDATE_SAME] = IsrTransition("T15", _stage)
    TRANSITIONS[_stage, Event.UPDATE_OLDER] = IsrTransition("T16", _stage)
    TRANSITIONS[_stage, Event.OTHER_LEADER] = IsrTransition("T17", _S, (Effect.SETTLE,))
    TRANSITIONS[_stage, Event.LEADER_AGAIN] = IsrTransition("T18", _S, _NEWER)
    TRANSITIONS[_stage, Event.REMOVED] = IsrTransition("T19", _S, (Effect.SETTLE,))
    TRANSITIONS[_stage, Event.FOREIGN] = IsrTransition("T20", _stage)
    TRANSITIONS[_stage, Event.LEASE_ENDED] = IsrTransition("T21", _stage)
    TRANSITIONS.setdefault((_stage, Event.LEASE_RENEWED), IsrTransition("T22", _stage))
    TRANSITIONS.setdefault((_stage, Event.CONTROLLER_CHANGED), IsrTransition("T23", _stage))
del _stage


class Proposal:
    """One proposal of another ISR. Answers are matched by identity, never by content (T20)."""

    __slots__ = ("base", "epochs", "want")

    def __init__(self, base: int, want: frozenset[int], epochs: Mapping[int, int]) -> None:
        self.base = base
        """Partition epoch that the proposal rests on: CurrentZkVersion in its AlterIsr."""
        self.want = want
        """The whole proposed ISR. Invariant once sent: it differs from the committed one and never changes."""
        self.epochs = epochs
        """Broker epoch of each member, from the fetch that made it eligible; -1: unknown."""

    def __repr__(self) -> str:
        return f"Proposal(base={self.base}, want={sorted(self.want)})"


NOT_HELD_OFF: Mapping[int, int] = MappingProxyType({})
NOBODY: frozenset[int] = frozenset()


@lru_cache(maxsize=4096)
def _shared(members: tuple[int, ...]) -> frozenset[int]:
    """The one set of these members: many partitions have the same."""
    return frozenset(members)


class Isr:
    """Committed ISR, the partition epoch that it came with, and the proposal of one led partition."""

    __slots__ = ("_refused", "held_off", "isr", "maximal", "partition_epoch", "proposal", "stage")

    def __init__(self, isr: Iterable[int], partition_epoch: int) -> None:
        self.isr = _shared(tuple(isr))
        self.partition_epoch = partition_epoch
        self.stage = Stage.SETTLED
        self.proposal: Proposal | None = None
        """The proposal that waits or is sent. Invariant: None exactly when the stage is SETTLED."""
        self.maximal = self.isr
        """The union of the committed and the proposed ISR. Invariant: `isr | proposal.want`."""
        self.held_off: Mapping[int, int] = NOT_HELD_OFF
        """The monotonic time before which a replica is not proposed again, by replica (T13)."""
        self._refused = NOBODY

    def decide(self, want: frozenset[int], epochs: Mapping[int, int]) -> bool:
        """Note the ISR that the present state calls for (T1 to T4, T6). True when a new proposal must be queued for
        sending."""
        settled = self.stage is Stage.SETTLED
        self._move(Event.CONTENT if want == self.isr else Event.WANTED, want=want, epochs=epochs)
        return settled and self.stage is Stage.QUEUED

    def flushed(self) -> Proposal:
        """Note that the proposal is sent now (T5)."""
        self._move(Event.FLUSH)
        assert self.proposal is not None and self.proposal.want != self.isr
        return self.proposal

    def answered(
        self, proposal: Proposal, event: Event, *, isr: Iterable[int] = (), partition_epoch: int = -1, until_ms: int = 0
    ) -> IsrTransition:
        """Take an answer for `proposal`, or its loss. `isr` and `partition_epoch` with APPLIED_STATE, `until_ms` with
        FINAL (hold-off)."""
        return self._move(
            event if proposal is self.proposal else Event.FOREIGN,
            isr=isr,
            partition_epoch=partition_epoch,
            until_ms=until_ms,
        )

    def updated(self, isr: Iterable[int], partition_epoch: int, *, again: bool = False) -> IsrTransition:
        """Take a committed update of a partition that is still led. `again`: under a higher leader epoch (T18)."""
        if partition_epoch == self.partition_epoch:
            event = Event.UPDATE_SAME
        elif partition_epoch < self.partition_epoch:
            event = Event.UPDATE_OLDER
        else:
            event = Event.LEADER_AGAIN if again else Event.UPDATE_NEWER
        return self._move(event, isr=isr, partition_epoch=partition_epoch)

    def happened(self, event: Event) -> IsrTransition:
        """Take an event without data: OTHER_LEADER, REMOVED, LEASE_ENDED, LEASE_RENEWED, CONTROLLER_CHANGED."""
        return self._move(event)

    def broker_changed(self, replica: int) -> None:
        """End the hold-off of `replica`, since its registration changed. This ends its hold-off."""
        if replica in self.held_off:
            self.held_off = {one: until_ms for one, until_ms in self.held_off.items() if one != replica}

    def _move(
        self,
        event: Event,
        *,
        want: frozenset[int] = frozenset(),
        epochs: Mapping[int, int] | None = None,
        isr: Iterable[int] = (),
        partition_epoch: int = -1,
        until_ms: int = 0,
    ) -> IsrTransition:
        row = TRANSITIONS.get((self.stage, event))
        assert row is not None, f"{event.name} cannot happen in stage {self.stage.name}"
        for effect in row.effects:
            if effect is Effect.WANT:
                self.proposal = Proposal(self.partition_epoch, want, epochs or {})
            elif effect is Effect.ADOPT:
                self._adopt(frozenset(isr), partition_epoch)
            elif effect is Effect.HOLD_OFF:
                self.held_off = {**self.held_off, **dict.fromkeys(self._refused, until_ms)}
            elif effect is Effect.SETTLE:
                self._refused = self.proposal.want - self.isr if self.proposal else NOBODY
                self.proposal = None
        self.stage = row.stage
        self.maximal = self.isr | self.proposal.want if self.proposal else self.isr
        return row

    def _adopt(self, isr: frozenset[int], partition_epoch: int) -> None:
        self.isr, self.partition_epoch = _shared(tuple(isr)), partition_epoch
        self.held_off = NOT_HELD_OFF


class View(NamedTuple):
    """The state of a led partition in one turn, as far as decisions about its ISR need it."""

    me: int
    replicas: tuple[int, ...]
    followers: Mapping[int, Follower]
    unfenced: Mapping[int, int]
    """Broker epoch of every broker that is registered and not fenced, as far as this leader knows. Fenced and absent are
    one thing to an ISR: neither may join."""
    log_end: int
    own_end: int
    """The leader's own offset for the high watermark: its log end or, with flush.messages=1, its durable offset."""
    high_watermark: int
    epoch_start: int
    """The log end at the start of the current leader epoch."""
    lag_ms_max: int
    mono_ms: int
    readable: bool = True
    """Whether this broker can read its replica, and has not said that another one is to lead."""


def eligible(view: View, follower: Follower) -> bool:
    """Whether a follower may be in an ISR, apart from its position (R497-43): it is not fenced, and its fetches carry
    the epoch of its registration."""
    epoch = view.unfenced.get(follower.id)
    return epoch is not None and (follower.broker_epoch == epoch)


def wanted(view: View, isr: Isr) -> frozenset[int]:
    """The ISR that the present state calls for: replicas join by R497-43 and leave by R497-44. Nobody leaves a leader that
    cannot read its replica: followers lag because it gives them nothing, and one of them is to lead instead."""
    want = set(isr.isr)
    for replica in view.replicas:
        follower = view.followers.get(replica)
        if follower is None:
            continue
        if replica in want:
            if view.readable and follower.lags(view.log_end, view.mono_ms, view.lag_ms_max):
                want.discard(replica)
        elif joins(view, isr, follower):
            want.add(replica)
    return frozenset(want)


def joins(view: View, isr: Isr, follower: Follower) -> bool:
    """Whether a follower that is outside the committed ISR may be proposed (R497-43)."""
    return (
        follower.log_end >= view.high_watermark
        and follower.log_end >= view.epoch_start
        and eligible(view, follower)
        and isr.held_off.get(follower.id, -1) <= view.mono_ms
    )


def epochs_of(view: View, want: Iterable[int]) -> dict[int, int]:
    """The broker epochs that a proposal names: the epochs of the fetches, for members where it is also the registered
    one."""
    return {
        replica: follower.broker_epoch
        for replica in want
        if (follower := view.followers.get(replica)) is not None and eligible(view, follower)
    }


def high_watermark(view: View, isr: Isr, min_insync: int) -> int:
    """The high watermark that the present state allows (R497-23, -45, -53). It is never below the present one.

    It is the lowest log end over the maximal ISR and over every replica that is caught up and may join. While the
    committed ISR is smaller than min(`min_insync`, number of replicas), it stays where it is.
    """
    if len(isr.isr) < min(min_insync, len(view.replicas)):
        return view.high_watermark
    lowest = view.own_end
    for replica in view.replicas:
        follower = view.followers.get(replica)
        if follower is None or follower.log_end >= lowest:
            continue
        if replica in isr.maximal or _awaited(view, follower):
            lowest = follower.log_end
    return max(lowest, view.high_watermark)


def _awaited(view: View, follower: Follower) -> bool:
    return eligible(view, follower) and not follower.lags(view.log_end, view.mono_ms, view.lag_ms_max)
