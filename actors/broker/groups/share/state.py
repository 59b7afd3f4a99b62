"""What a share group remembers (KIP-932): members, the target assignment, and how far its partitions have begun.

This file alone decides what follows from what is remembered. Rules:

1. A share partition is initialising from when the group has said so in the log until its share coordinator has answered,
   then it is initialised. Only what is initialised is assigned.
2. A topic is deleting while what its share coordinators remember of it is removed.
3. A member takes over its target at once: nobody has to let go of what several may have.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

FAR_MS = 1 << 62
TYPE = "share"
"""The group's type, and its protocol type."""
LEFT = -1
"""The epoch with which a member leaves."""
FIRST_EPOCH = 1
"""The epoch of a group without any member yet, as in Apache Kafka."""
STABLE = 0
"""The state of every member in the log, by Kafka's number."""

Target = Mapping[bytes, frozenset[int]]
"""The partitions that are assigned, by topic id. Invariant: none is empty."""
NOTHING: Target = {}


class Begun(NamedTuple):
    """Share partitions of one topic. `name`: of the topic. `wall_ms`: when that was written; 0: before the log was
    read."""

    name: str
    partitions: frozenset[int]
    wall_ms: int = 0


class Subscription(NamedTuple):
    """What a member has told of itself. `topics` are in order."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()


class Member:
    """One member of a share group. `epoch`: 0: it has joined and has no assignment yet. `previous_epoch`: a heartbeat
    in it is one whose answer was lost. `session_due_ms`: when it is removed; `watched_ms`: the look at it that is
    planned."""

    __slots__ = ("assigned", "epoch", "id", "previous_epoch", "session_due_ms", "subscription", "watched_ms")

    def __init__(self, id: str) -> None:
        self.id = id
        self.subscription = Subscription()
        self.epoch = 0
        self.previous_epoch = -1
        self.assigned: Target = NOTHING
        self.session_due_ms = FAR_MS
        self.watched_ms = FAR_MS

    def due_ms(self) -> int:
        """The time at which the member is removed, as far as is known now."""
        return self.session_due_ms


class ShareGroup:
    """One share group. `gone`: its removal is being written, or has been."""

    type = TYPE

    def __init__(self, id: str) -> None:
        self.id = id
        self.way: Any = None
        """The work in progress for the group; see `groups.py`. It is not remembered; None: the log is still being
        read."""
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = FIRST_EPOCH
        self.target_wall_ms = 0
        """When the target assignment was made; 0: never."""
        self.members: dict[str, Member] = {}
        self.targets: dict[str, Target] = {}
        self.initializing: dict[bytes, Begun] = {}
        self.initialized: dict[bytes, Begun] = {}
        self.deleting: dict[bytes, str] = {}
        """The names of topics that are deleting, by topic id."""
        self.gone = False
        # ---- derived
        self.topics: Counter[str] = Counter()
        """The number of members that name a topic, by topic."""
        self.changes = 0
        """A number that grows with every change of what is subscribed to, has begun or is assigned."""
        self._unassigned = (-1, False)
        """`unassigned`, and the number `changes` for which it was found out."""

    # ---- what it shows

    def state(self) -> str:
        """The group's state by Kafka's name."""
        if self.gone:
            return "Dead"
        return "Stable" if self.members else "Empty"

    def assignable(self, topic_id: bytes) -> frozenset[int]:
        """The partitions of a topic that may be assigned."""
        begun = self.initialized.get(topic_id)
        return frozenset() if begun is None else begun.partitions

    def unassigned(self) -> bool:
        """Whether something has begun, of a topic to which somebody subscribes, and the target assignment is without
        it. It is found out anew only after a change: every heartbeat asks."""
        if self._unassigned[0] != self.changes:
            self._unassigned = (self.changes, self._is_unassigned())
        return self._unassigned[1]

    def _is_unassigned(self) -> bool:
        wanted = {id: begun.partitions for id, begun in self.initialized.items() if begun.name in self.topics}
        if not wanted or not self.members:
            return False
        assigned: dict[bytes, set[int]] = {}
        for target in self.targets.values():
            for topic_id, partitions in target.items():
                assigned.setdefault(topic_id, set()).update(partitions)
        return any(assigned.get(topic_id, set()) != set(partitions) for topic_id, partitions in wanted.items())

    # ---- changes

    def subscribe(self, member: Member, subscription: Subscription) -> None:
        """Take the subscription of a member, new or known."""
        known = self.members.get(member.id) is member
        if not known or member.subscription.topics != subscription.topics:
            self.changes += 1
        if known:
            self._count(member, -1)
        self.members[member.id] = member
        member.subscription = subscription
        self._count(member, 1)

    def remove(self, id: str) -> None:
        """Remove a member that is no longer there."""
        self.changes += 1
        self._count(self.members.pop(id), -1)
        self.targets.pop(id, None)

    def assign(self, targets: Mapping[str, Target], epoch: int, wall_ms: int) -> list[str]:
        """Take a target assignment: it holds for all members that are still there. Returns the members whose target is
        another one."""
        self.changes += 1
        self.target_epoch, self.target_wall_ms = epoch, wall_ms
        moved = [id for id, target in targets.items() if id in self.members and self.targets.get(id) != target]
        self.targets.update((id, targets[id]) for id in moved)
        return moved

    def begin(self, topics: Mapping[bytes, Begun]) -> None:
        """Note that share partitions are initialising."""
        self.changes += 1
        for topic_id, begun in topics.items():
            self.initializing[topic_id] = _joined(self.initializing.get(topic_id), begun)
            self.deleting.pop(topic_id, None)

    def settle(self, topics: Mapping[bytes, Begun], *, begun: bool) -> None:
        """Note that share coordinators have answered. `begun`: the share partitions are initialised, else they are to
        be tried again."""
        self.changes += 1
        for topic_id, one in topics.items():
            present = self.initializing.get(topic_id)
            left = frozenset() if present is None else present.partitions - one.partitions
            if present is not None and left:
                self.initializing[topic_id] = present._replace(partitions=left)
            else:
                self.initializing.pop(topic_id, None)
            if begun:
                self.initialized[topic_id] = _joined(self.initialized.get(topic_id), one)

    def end(self, topics: Mapping[bytes, Begun]) -> None:
        """Note that topics are deleting."""
        self.changes += 1
        for topic_id, one in topics.items():
            self.initialized.pop(topic_id, None)
            self.initializing.pop(topic_id, None)
            self.deleting[topic_id] = one.name

    def ended(self, topic_ids: Iterable[bytes]) -> None:
        """Note that what share coordinators remember of topics is removed, or could not be: they may begin again."""
        self.changes += 1
        for topic_id in topic_ids:
            self.deleting.pop(topic_id, None)

    def lose(self, topics: Mapping[bytes, Begun]) -> None:
        """Note that share coordinators know nothing of share partitions any more: they have not begun."""
        self.changes += 1
        for topic_id, one in topics.items():
            left = self.initialized[topic_id].partitions - one.partitions
            if left:
                self.initialized[topic_id] = one._replace(partitions=left)
            else:
                del self.initialized[topic_id]

    def forget(self, topic_ids: frozenset[bytes]) -> bool:
        """Forget topics that do not exist any more. Returns whether anything was remembered of them."""
        self.changes += 1
        known = [topics for topics in (self.initializing, self.initialized, self.deleting) if topic_ids & topics.keys()]
        for topics in known:
            for topic_id in topic_ids & topics.keys():
                del topics[topic_id]
        return bool(known)

    def index(self) -> list[str]:
        """Derive what is derived from what is remembered. The log may have stopped between two records that belong
        together: no epoch is behind one that was given out. Returns an empty list: there is no member of which the log
        says otherwise."""
        self.changes += 1
        self.topics.clear()
        for member in self.members.values():
            self._count(member, 1)
        self.targets = {id: target for id, target in self.targets.items() if id in self.members}
        self.epoch = max([self.epoch, self.target_epoch, *(member.epoch for member in self.members.values())])
        return []

    def _count(self, member: Member, change: int) -> None:
        for name in member.subscription.topics:
            self.topics[name] += change
            if not self.topics[name]:
                del self.topics[name]

    def check(self) -> None:
        """Assert the invariants; called after each step in tests."""
        assert self.target_epoch <= self.epoch
        counted: Counter[str] = Counter()
        for member in self.members.values():
            assert 0 <= member.epoch <= self.epoch
            assert all(member.assigned.values()), "no topic without a partition"
            counted.update(member.subscription.topics)
        assert counted == self.topics
        assert self.targets.keys() <= self.members.keys()
        for topics in (self.initializing, self.initialized):
            assert all(begun.partitions for begun in topics.values()), "no topic without a partition"


def _joined(known: Begun | None, begun: Begun) -> Begun:
    return begun if known is None else begun._replace(partitions=known.partitions | begun.partitions)
