"""The state of a streams group: members, epochs, the topology, who has which task in which role (KIP-1071).

This file alone decides what a group remembers, and what it derives from that. Rules:

1. Three epochs, each of which only grows, as in a consumer group: the group's, the target assignment's, each member's.
2. A task is active at one member at a time. Whoever has been asked to let go of it has it until it says that it has.
3. A process has a task in one role only: the state of a task is one directory on the process's disk.
4. What is derived (who has what) follows from what is remembered: `index` derives it anew after the log was read.

Times are monotonic milliseconds, except `target_wall_ms`, which is written to the log.
"""

import enum
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from actors.broker.groups.streams.answers import NOTHING, Endpoint, Tasks, TaskSets
from actors.broker.groups.streams.topology import Topology

Epochs = Mapping[str, Mapping[int, int]]
"""The member's epoch when it was given a task, by subtopology and partition. Invariant: no inner map is empty."""
NOTHING_SINCE: dict[str, dict[int, int]] = {}
FIRST_EPOCH = 1
"""The epoch of a group for which nothing was assigned yet, as of Kafka 4.3. A member that has joined is never in epoch
0."""
NEVER_VALID = 0
"""The validated topology epoch of a group that has none yet, as Kafka's."""
LEFT, AWAY = -1, -2
"""Member epochs: it leaves, and a static member that leaves to come back (not in Kafka 4.3)."""
TYPE = "streams"
FAR_MS = 1 << 62


class MemberState(enum.IntEnum):
    """How far a member is on the way to its target assignment, by Kafka's numbers."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127
    """A state that a later version has written."""


class OwnedTasks(NamedTuple):
    """Tasks that a member has, by role."""

    active: Epochs = NOTHING_SINCE
    standby: TaskSets = NOTHING
    warmup: TaskSets = NOTHING

    def tasks(self) -> Tasks:
        """The tasks without epochs."""
        return Tasks({one: frozenset(numbers) for one, numbers in self.active.items()}, self.standby, self.warmup)

    def any(self) -> bool:
        """Whether there is a task in any role."""
        return any(self)

    def each(self) -> Iterator[tuple[str, str, int]]:
        """(role, subtopology, partition) of each task."""
        for role, sets in zip(ROLES, self, strict=True):
            for one, numbers in sets.items():
                for number in numbers:
                    yield role, one, number


ROLES = OwnedTasks._fields


class Current(NamedTuple):
    """The state of a member on its way. `assigned`: what it may run; `revoking`: what it was asked to let go of, and
    has."""

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: OwnedTasks
    revoking: OwnedTasks

    def at(self, epoch: int) -> "Current":
        """The state in another epoch. The present one becomes the previous one."""
        return self._replace(epoch=epoch, previous_epoch=self.epoch)

    def since(self, subtopology: str, partition: int) -> int | None:
        """The member's epoch when it was given an active task; None: it does not have it."""
        for held in (self.assigned, self.revoking):
            since = held.active.get(subtopology, {}).get(partition)
            if since is not None:
                return since
        return None


class Description(NamedTuple):
    """What a member has told of itself. `tags`: sorted by key."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topology_epoch: int
    process_id: str
    endpoint: Endpoint | None
    tags: tuple[tuple[str, str], ...]


NEW = Current(0, 0, MemberState.STABLE, OwnedTasks(), OwnedTasks())
SILENT = Description(None, None, "", "", -1, -1, "", None, ())
"""The description of a member of which the log has no more than an assignment."""


class Member:
    """One member of a streams group. `session_due_ms`, `rebalance_due_ms`: when it is removed unless it is heard of, or
    has let go, before."""

    __slots__ = ("current", "id", "rebalance_due_ms", "session_due_ms", "told", "watched_ms")

    def __init__(self, id: str, told: Description = SILENT, current: Current = NEW) -> None:
        self.id = id
        self.told = told
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
        """Whether the member has to let go of tasks."""
        return self.current.state is MemberState.UNREVOKED_TASKS

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the member may take to let go of tasks; -1: it has not said."""
        return self.told.rebalance_timeout_ms

    def settled(self, target_epoch: int) -> bool:
        """Whether the member has all of the target assignment of an epoch, and nothing else."""
        return self.current.state is MemberState.STABLE and self.current.epoch == target_epoch


class StreamsGroup:
    """One streams group. `gone`: its removal is being written."""

    type = TYPE

    def __init__(self, id: str) -> None:
        self.id = id
        self.way: Any = None
        """The work in progress for the group; see `groups.py`. It is not remembered; None: the log is still being
        read."""
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.topology: Topology | None = None
        self.valid_epoch = NEVER_VALID
        """The topology epoch for which all topics were as they have to be, at the last change of the group; -1:
        none."""
        self.settings: tuple[tuple[str, str], ...] = ()
        """The settings with which tasks were assigned last, sorted by name."""
        self.target_epoch = FIRST_EPOCH
        self.target_wall_ms = 0
        """When the target assignment was made; 0: never."""
        self.members: dict[str, Member] = {}
        self.targets: dict[str, Tasks] = {}
        self.gone = False
        # ---- derived
        self.holders: dict[tuple[str, str, int], dict[str, None]] = {}
        """The members that have a task in a role, by (role, subtopology, partition). Invariant: none is empty, and a
        task that is active has one member."""

    # ---- what it shows

    def epoch_of(self, id: str) -> int | None:
        """The epoch of a member; None: there is no such member."""
        member = self.members.get(id)
        return None if member is None else member.current.epoch

    def state(self) -> str:
        """The group's state by Kafka's name."""
        if self.gone:
            return "Dead"
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.valid_epoch:
            return "NotReady"
        if self.epoch > self.target_epoch:
            return "Assigning"
        settled = all(member.settled(self.target_epoch) for member in self.members.values())
        return "Stable" if settled else "Reconciling"

    def subscribes(self, topic: str) -> bool:
        """Whether a member may read a topic."""
        return bool(self.members) and self.topology is not None and topic in self.topology.readers

    def has(self, role: str, subtopology: str, partition: int, process: str | None = None) -> bool:
        """Whether some member has a task in a role. `process`: a member of that process."""
        ids = self.holders.get((role, subtopology, partition), {})
        return bool(ids) if process is None else any(self.members[id].told.process_id == process for id in ids)

    def available(self, member: Member, role: str, subtopology: str, partition: int) -> bool:
        """Whether a member may be given a task in a role (rules 2 and 3)."""
        if role == "active" and self.has(role, subtopology, partition):
            return False
        process = member.told.process_id
        return not any(self.has(one, subtopology, partition, process) for one in ROLES)

    # ---- changes

    def move(self, member: Member, current: Current) -> None:
        """Put a member in another state."""
        self._release(member)
        member.current = current
        self._hold(member)

    def remove(self, id: str) -> None:
        """Remove a member that is no longer there, and has nothing."""
        self._release(self.members.pop(id))
        self.targets.pop(id, None)

    def index(self) -> list[str]:
        """Derive what is derived from what is remembered. The log may have stopped between two records that belong
        together: no epoch is behind one that was given out, and of two members at which a task is active the one that
        was given it later keeps it. Returns the members of which the log says otherwise."""
        self.holders.clear()
        self.targets = {id: target for id, target in self.targets.items() if id in self.members}
        self.epoch = max([self.epoch, self.target_epoch, *(member.current.epoch for member in self.members.values())])
        corrected = self._one_each()
        for member in self.members.values():
            self._hold(member)
        return corrected

    def _one_each(self) -> list[str]:
        best: dict[tuple[str, int], tuple[int, str]] = {}
        for member in self.members.values():
            for held in (member.current.assigned, member.current.revoking):
                for one, numbers in held.active.items():
                    for number, epoch in numbers.items():
                        best[one, number] = max(best.get((one, number), (-1, "")), (epoch, member.id))
        corrected = []
        for member in self.members.values():
            mine = [
                held._replace(active=_without(held.active, best, member.id))
                for held in (member.current.assigned, member.current.revoking)
            ]
            if mine != [member.current.assigned, member.current.revoking]:
                member.current = member.current._replace(assigned=mine[0], revoking=mine[1])
                corrected.append(member.id)
        return corrected

    def _hold(self, member: Member) -> None:
        for held in (member.current.assigned, member.current.revoking):
            for key in held.each():
                self.holders.setdefault(key, {})[member.id] = None

    def _release(self, member: Member) -> None:
        for held in (member.current.assigned, member.current.revoking):
            for key in held.each():
                ids = self.holders.get(key, {})
                ids.pop(member.id, None)
                if not ids:
                    self.holders.pop(key, None)

    def check(self) -> None:
        """Assert the invariants; called after each step in tests."""
        assert self.target_epoch <= self.epoch
        found: dict[tuple[str, str, int], dict[str, None]] = {}
        roles: dict[tuple[str, str, int], str] = {}
        for member in self.members.values():
            current = member.current
            assert current.epoch <= self.epoch
            assert not current.revoking.any() or current.state is MemberState.UNREVOKED_TASKS
            for held in (current.assigned, current.revoking):
                assert all(numbers for sets in held for numbers in sets.values()), "no subtopology without a task"
                for role, one, number in held.each():
                    found.setdefault((role, one, number), {})[member.id] = None
                    assert roles.setdefault((member.told.process_id, one, number), role) == role, "one role a process"
        assert found == self.holders
        assert all(len(ids) == 1 for key, ids in found.items() if key[0] == "active"), "active at one member at a time"
        assert self.targets.keys() <= self.members.keys()


def _without(active: Epochs, best: Mapping[tuple[str, int], tuple[int, str]], id: str) -> Epochs:
    return {
        one: kept
        for one, numbers in active.items()
        if (kept := {number: epoch for number, epoch in numbers.items() if best[one, number][1] == id})
    }
