"""The state of a consumer group in which the coordinator assigns (KIP-848): members, epochs, who holds what.

This file alone decides what a group remembers, and what it derives from that. Rules:

1. Three epochs, each of which only grows: the group's, with each change that asks for another assignment; that of the
   target assignment, which follows; and each member's, which follows the target's when the member has let go of what it
   has to.
2. A partition has one holder at a time. Whoever has been asked to let go of it holds it until it says that it has.
3. What is derived (holders, subscriptions, static members) follows from what is remembered: `index` derives it anew after
   the log was read.
4. A group in which nothing is under way can be laid to rest (`resting.py`). Whoever asks for its members, or for what is
   derived from them, wakes it, and need not know that it was at rest.

Times are monotonic milliseconds, except `target_wall_ms`, which is written to the log.
"""

import enum
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.broker.groups.consumer.resting import MEMBERS_MAX, RepeatedWords, Rest

Target = Mapping[bytes, frozenset[int]]
"""The partitions that are assigned, by topic id."""
Held = Mapping[bytes, Mapping[int, int]]
"""The member's epoch when it was given a partition, by topic id and partition."""
NOTHING: dict[bytes, dict[int, int]] = {}
FIRST_EPOCH = 1
"""The epoch of a group for which nothing was assigned yet, as of Kafka 4.3. A member that has joined is never in epoch
0."""
LEFT, AWAY = -1, -2
"""The member epochs with which a member leaves, and with which a static member leaves to come back."""
TYPE = "consumer"
FAR_MS = 1 << 62


class MemberState(enum.IntEnum):
    """How far a member is on the way to its target assignment, by Kafka's numbers."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127
    """A state that a later version has written."""


class ClassicMember(NamedTuple):
    """The facts that are known besides of a member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class Subscription(NamedTuple):
    """The subscription of a member, and what else it has told of itself. `topics`: sorted. `regex`: "" for none.
    `assignor`: None: any will do."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    regex: str
    rebalance_timeout_ms: int
    assignor: str | None
    classic: ClassicMember | None = None

    @property
    def said(self) -> RepeatedWords:
        """The words that the member repeats with each heartbeat."""
        return RepeatedWords(self.instance_id, self.client_id, self.client_host)


class Current(NamedTuple):
    """The state of a member on its way. `assigned`: what it may use; `revoking`: what it was asked to let go of, and
    holds."""

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Held
    revoking: Held

    def at(self, epoch: int) -> "Current":
        """The state in another epoch. The present one becomes the previous one."""
        return self._replace(epoch=epoch, previous_epoch=self.epoch)

    def since(self, topic_id: bytes, partition: int) -> int | None:
        """The member's epoch when it was given a partition; None: it does not hold it."""
        for held in (self.assigned, self.revoking):
            since = held.get(topic_id, {}).get(partition)
            if since is not None:
                return since
        return None

    @property
    def held(self) -> dict[bytes, set[int]]:
        """All partitions that the member holds: what it may use, and what it was asked to let go of."""
        found: dict[bytes, set[int]] = {}
        for part in (self.assigned, self.revoking):
            for topic_id, partitions in part.items():
                found.setdefault(topic_id, set()).update(partitions)
        return found


NEW = Current(0, 0, MemberState.STABLE, NOTHING, NOTHING)
SILENT = Subscription(None, None, "", "", (), "", -1, None)
"""The subscription of a member of which the log has no more than an assignment."""


class Resolved(NamedTuple):
    """The topics that a regular expression matches. `version`: of the metadata in which they were looked up."""

    topics: frozenset[str]
    version: int
    wall_ms: int


class Member:
    """One member of a consumer group. `session_due_ms`, `rebalance_due_ms`: when it is removed unless it is heard of,
    or has let go, before. Of a classic member the second is the time for the next step that it owes: to join anew, or
    to ask for its assignment."""

    __slots__ = ("current", "id", "rebalance_due_ms", "session_due_ms", "subscription", "watched_ms")

    def __init__(self, id: str, subscription: Subscription = SILENT, current: Current = NEW) -> None:
        self.id = id
        self.subscription = subscription
        self.current = current
        self.session_due_ms = FAR_MS
        self.rebalance_due_ms = FAR_MS
        self.watched_ms = FAR_MS
        """The time when a look at the session and the rebalance is planned; FAR_MS: none is."""

    def due_ms(self) -> int:
        """The time at which the member is removed, as far as is known now."""
        return min(self.session_due_ms, self.rebalance_due_ms)

    @property
    def revokes(self) -> bool:
        """Whether the member has to let go of partitions. A static member that is away is not waited for."""
        return self.current.state is MemberState.UNREVOKED_PARTITIONS and self.current.epoch != AWAY

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the member may take to let go of partitions; -1: it has not said."""
        return self.subscription.rebalance_timeout_ms

    def settled(self, target_epoch: int) -> bool:
        """Whether the member has all of the target assignment of an epoch, and nothing else."""
        return self.current.state is MemberState.STABLE and self.current.epoch == target_epoch


OF_MEMBERS = (
    "assignors", "classic_members", "holders", "members", "protocols", "regexes", "resolved", "static", "targets", "topics",
)  # fmt: skip
"""The fields that a group at rest does not have."""


class ConsumerGroup:
    """One consumer group. `gone`: its removal is being written."""

    __slots__ = (
        *OF_MEMBERS, "__weakref__", "epoch", "gone", "has_partition_metadata", "id", "metadata_hash", "rest", "target_epoch",
        "target_wall_ms", "watched_ms", "way",
    )  # fmt: skip
    type = TYPE

    def __init__(self, id: str) -> None:
        self.id = id
        self.rest: Rest | None = None
        """The members in the form of a group at rest, instead of `OF_MEMBERS`; None: the group is awake."""
        self.watched_ms = FAR_MS
        """The time when a look at the sessions of all its members is planned; FAR_MS: none is."""
        self.way: Any = None
        """The work in progress for the group; see `groups.py`. It is not remembered; None: the log is still being
        read."""
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = FIRST_EPOCH
        self.target_wall_ms = 0
        """The time when the target assignment was made; 0: never, or before Kafka wrote it down."""
        self.has_partition_metadata = False
        """Whether the log has a record of topics' sizes, which Kafka wrote before 4.1."""
        self.gone = False
        self._begin()

    def _begin(self) -> None:
        self.members: dict[str, Member] = {}
        self.targets: dict[str, Target] = {}
        self.resolved: dict[str, Resolved] = {}
        # ---- derived
        self.static: dict[str, str] = {}
        """The member ids of static members, by instance id."""
        self.holders: dict[bytes, dict[int, str]] = {}
        """The member that holds a partition, by topic id and partition. Invariant: no inner map is empty."""
        self.topics: Counter[str] = Counter()
        """The number of members that name a topic, by topic."""
        self.regexes: Counter[str] = Counter()
        """The number of members that name a regular expression, by expression."""
        self.assignors: Counter[str] = Counter()
        """The number of members that ask for an assignor, by assignor."""
        self.protocols: Counter[str] = Counter()
        """The number of classic members that name a protocol, by protocol."""
        self.classic_members = 0

    # ---- rest

    def _may_rest(self) -> bool:
        """Whether all members have what they are to have, and are few enough. Regular expressions are looked up from
        time to time and classic members owe steps, so a group with one of these is awake."""
        return (
            self.rest is None
            and 0 < len(self.members) <= MEMBERS_MAX
            and not (self.gone or self.regexes or self.resolved or self.classic_members)
            and self.epoch == self.target_epoch
            and all(map(self._quiet, self.members.values()))
        )

    def _quiet(self, member: Member) -> bool:
        instance = member.subscription.instance_id
        known = instance is None or self.static.get(instance) == member.id
        return known and member.settled(self.target_epoch)

    def lie_down(self) -> bool:
        """Keep of the members what `resting.py` says, if they are at rest. Returns whether they are."""
        if not self._may_rest():
            return False
        members = self.members.values()
        self.rest = Rest(
            self.members,
            (member.session_due_ms for member in members),
            (member.subscription.said for member in members),
            [sys.intern(topic) for topic in self.topics],
            [(member.subscription, member.current, self.targets.get(member.id)) for member in members],
        )
        for name in OF_MEMBERS:
            delattr(self, name)
        return True

    def wake(self) -> None:
        """Take up what was kept. The members' sessions are not watched one by one yet: see `watched_ms`."""
        rest, self.rest = self.rest, None
        assert rest is not None
        self._begin()
        for (id, place), (subscription, current, target) in zip(rest.places.items(), rest.opened(), strict=True):
            member = self.members[id] = Member(id, subscription, current)
            member.session_due_ms = rest.due_ms[place]
            if target is not None:
                self.targets[id] = target
        self._derive()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in OF_MEMBERS or self.rest is None:
                raise AttributeError(f"a consumer group has no {name!r}")
            self.wake()
            return getattr(self, name)

    # ---- what it shows

    def size(self) -> int:
        """The number of members."""
        return len(self.members if self.rest is None else self.rest.places)

    def epoch_of(self, id: str) -> int | None:
        """The epoch of a member; None: there is no such member."""
        if self.rest is not None:
            return self.target_epoch if id in self.rest.places else None
        member = self.members.get(id)
        return None if member is None else member.current.epoch

    def state(self) -> str:
        """The group's state by Kafka's name."""
        if self.gone:
            return "Dead"
        if self.rest is not None:
            return "Stable"
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        settled = all(member.settled(self.target_epoch) for member in self.members.values())
        return "Stable" if settled else "Reconciling"

    def subscribes(self, topic: str) -> bool:
        """Whether some member subscribes to a topic, by name or by a regular expression."""
        if self.rest is not None:
            return topic in self.rest.topics
        return topic in self.topics or any(
            topic in self.resolved[one].topics for one in self.regexes if one in self.resolved
        )

    def subscribed(self, subscription: Subscription) -> frozenset[str]:
        """All topics to which one subscribes. A regular expression that is not resolved yet matches none."""
        names = frozenset(subscription.topics)
        found = self.resolved.get(subscription.regex) if subscription.regex else None
        return names if found is None else names | found.topics

    def all_topics(self) -> set[str]:
        """All topics to which some member subscribes."""
        found = set(self.topics)
        for regex in self.regexes:
            if regex in self.resolved:
                found |= self.resolved[regex].topics
        return found

    def assignor(self, default: str) -> str:
        """The assignor for which most members ask; among equals the last by name, so that the choice is stable."""
        return max(self.assignors, key=lambda name: (self.assignors[name], name), default=default)

    def supports_classic(self, protocols: Iterable[str]) -> bool:
        """Whether a classic member with these protocols has one in common with all other classic members."""
        return any(self.protocols[name] == self.classic_members for name in protocols)

    def waits_for_release(self, member: Member) -> bool:
        """Whether another member holds a partition that this one is to get."""
        return any(
            n not in member.current.assigned.get(topic_id, ()) and self.holder(topic_id, n) is not None
            for topic_id, partitions in self.targets.get(member.id, {}).items()
            for n in partitions
        )

    def holder(self, topic_id: bytes, partition: int) -> str | None:
        """The member that holds a partition."""
        return self.holders.get(topic_id, {}).get(partition)

    # ---- changes

    def subscribe(self, member: Member, subscription: Subscription) -> None:
        """Take the subscription of a member, new or known."""
        if self.members.get(member.id) is member:
            self._count(member, -1)
        self.members[member.id] = member
        member.subscription = subscription
        self._count(member, 1)
        if subscription.instance_id is not None:
            self.static[subscription.instance_id] = member.id

    def move(self, member: Member, current: Current) -> None:
        """Put a member in another state."""
        self._release(member)
        member.current = current
        self._hold(member)

    def remove(self, id: str) -> None:
        """Remove a member that is no longer there, and holds nothing."""
        member = self.members.pop(id)
        self._release(member)
        self._count(member, -1)
        self.targets.pop(id, None)
        instance = member.subscription.instance_id
        if instance is not None and self.static.get(instance) == id:
            del self.static[instance]
        for regex in [one for one in self.resolved if one not in self.regexes]:
            del self.resolved[regex]

    def index(self) -> list[str]:
        """Derive what is derived from what is remembered. The log may have stopped between two records that belong
        together: no epoch is behind one that was given out, and of two members that hold a partition the one that was
        given it later keeps it. Returns the members of which the log says otherwise."""
        self.targets = {id: target for id, target in self.targets.items() if id in self.members}
        self.epoch = max([self.epoch, self.target_epoch, *(member.current.epoch for member in self.members.values())])
        corrected = self._one_holder_each()
        self._derive()
        return corrected

    def _derive(self) -> None:
        self.static.clear()
        self.holders.clear()
        self.classic_members = 0
        for counted in (self.topics, self.regexes, self.assignors, self.protocols):
            counted.clear()
        for member in self.members.values():
            self._count(member, 1)
            if member.subscription.instance_id is not None:
                self.static[member.subscription.instance_id] = member.id
            self._hold(member)

    def _one_holder_each(self) -> list[str]:
        best: dict[tuple[bytes, int], tuple[int, str]] = {}
        for member in self.members.values():
            for held in (member.current.assigned, member.current.revoking):
                for topic_id, partitions in held.items():
                    for partition, epoch in partitions.items():
                        claim = (epoch, member.id)
                        if claim > best.get((topic_id, partition), (-1, "")):
                            best[topic_id, partition] = claim
        corrected = []
        for member in self.members.values():
            current = member.current
            mine = [
                {
                    topic_id: kept
                    for topic_id, partitions in held.items()
                    if (kept := {n: epoch for n, epoch in partitions.items() if best[topic_id, n][1] == member.id})
                }
                for held in (current.assigned, current.revoking)
            ]
            if mine != [current.assigned, current.revoking]:
                member.current = current._replace(assigned=mine[0], revoking=mine[1])
                corrected.append(member.id)
        return corrected

    def _hold(self, member: Member) -> None:
        for held in (member.current.assigned, member.current.revoking):
            for topic_id, partitions in held.items():
                self.holders.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member.id))

    def _release(self, member: Member) -> None:
        for held in (member.current.assigned, member.current.revoking):
            for topic_id, partitions in held.items():
                holders = self.holders.get(topic_id, {})
                for partition in partitions:
                    if holders.get(partition) == member.id:
                        del holders[partition]
                if not holders:
                    self.holders.pop(topic_id, None)

    def _count(self, member: Member, change: int) -> None:
        told = member.subscription
        protocols: set[str] = set()
        if told.classic is not None:
            self.classic_members += change
            protocols = {name for name, _ in told.classic.protocols}
        for counted, names in (
            (self.topics, told.topics),
            (self.protocols, protocols),
            (self.regexes, (told.regex,) if told.regex else ()),
            (self.assignors, (told.assignor,) if told.assignor is not None else ()),
        ):
            for name in names:
                counted[name] += change
                if not counted[name]:
                    del counted[name]

    def check(self) -> None:
        """Assert the invariants; called after each step in tests."""
        assert self.target_epoch <= self.epoch
        held: dict[tuple[bytes, int], str] = {}
        for member in self.members.values():
            assert member.current.epoch <= self.epoch
            assert member.current.revoking == NOTHING or member.current.state is MemberState.UNREVOKED_PARTITIONS
            for one in (member.current.assigned, member.current.revoking):
                for topic_id, partitions in one.items():
                    assert partitions, "no topic without a partition"
                    for partition in partitions:
                        assert held.setdefault((topic_id, partition), member.id) == member.id, "one holder at a time"
        flat = {(topic_id, n): id for topic_id, inner in self.holders.items() for n, id in inner.items()}
        assert flat == held
        assert all(self.members[id].subscription.instance_id == name for name, id in self.static.items())
        assert self.targets.keys() <= self.members.keys()
        assert all(self.topics.values())
