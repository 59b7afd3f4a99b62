"""Which member runs which task: Kafka's sticky assignor for streams groups (KIP-1071).

This file alone decides that. Rules:

1. Each task is active at one member. Members have alike many tasks: none gets more than its share of what is left while
   another has room.
2. A task stays where it was active, else goes to where it was a standby task, as far as rule 1 allows.
3. Of what is left each task goes to the process with the fewest tasks a member, and there to the member with the fewest.
4. With standby replicas each task that keeps state has so many copies, each in another process, as there are processes for
   them: where it was active before, else where it was a standby task, else as in rule 3.

It is a function of values, and equal orders give equal answers.
"""

import heapq
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from actors.broker.groups.streams.answers import Tasks, TaskSets

Task = tuple[str, int]
"""A task: (subtopology, partition)."""
Targets = Mapping[str, Tasks]
"""The tasks of each member."""


class AssignedMember(NamedTuple):
    """A member: its process, and what it has of the present target assignment."""

    process: str
    before: Tasks


class StreamsGroupSpec(NamedTuple):
    """What an assignor is given. `tasks`: subtopology -> how many. `stateful`: subtopologies that keep state."""

    members: Mapping[str, AssignedMember]
    tasks: Mapping[str, int]
    stateful: frozenset[str]
    standby_replicas: int


def sticky(spec: StreamsGroupSpec) -> Targets:
    """A target for each member."""
    return _Assignment(spec).made() if spec.members else {}


class _Quota:
    """How many tasks a member may have: what is left, in equal shares among those with room."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.share = -(-tasks // members)

    def has(self, count: int) -> None:
        """Count that a member has so many tasks now. One that is full is no longer counted."""
        if count == self.share:
            self._members -= 1
            self._tasks -= count
            self.share = -(-self._tasks // self._members) if self._members else 0


class _Process:
    """One process with its members, and the tasks that they have been given so far."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.counts: dict[str, int] = {}
        self.tasks: set[Task] = set()

    def load(self) -> tuple[float, str]:
        """The number of tasks a member; and the name, so that the order is one."""
        return sum(self.counts.values()) / len(self.counts), self.id

    def least(self) -> str:
        """The member with the fewest tasks."""
        return min(self.counts, key=lambda id: (self.counts[id], id))


class _Assignment:
    """An assignment that is being made."""

    def __init__(self, spec: StreamsGroupSpec) -> None:
        self._spec = spec
        self._processes: dict[str, _Process] = {}
        self._active_before: dict[Task, str] = {}
        self._standby_before: dict[Task, list[str]] = {}
        for id in sorted(spec.members):
            place = spec.members[id]
            self._processes.setdefault(place.process, _Process(place.process)).counts[id] = 0
            for task in _tasks(place.before.active):
                self._active_before[task] = id
            for task in _tasks(place.before.standby):
                self._standby_before.setdefault(task, []).append(id)
        self._active: dict[str, set[Task]] = {id: set() for id in spec.members}
        self._standby: dict[str, set[Task]] = {id: set() for id in spec.members}
        active = sum(spec.tasks.values())
        stateful = sum(count for id, count in spec.tasks.items() if id in spec.stateful)
        self._active_quota = _Quota(active, len(spec.members))
        self._quota = _Quota(active + stateful * spec.standby_replicas, len(spec.members))

    def made(self) -> Targets:
        self._assign_active()
        if self._spec.standby_replicas:
            self._assign_standby()
        return {id: Tasks(_sets(self._active[id]), _sets(self._standby[id])) for id in sorted(self._spec.members)}

    def _assign_active(self) -> None:
        left = sorted(_tasks({id: range(count) for id, count in self._spec.tasks.items()}), key=lambda task: task[::-1])
        left = [task for task in left if not self._stay(task, self._active_before.get(task))]
        left = [task for task in left if not self._stay(task, self._least(self._standby_before.get(task, ())))]
        heap = [(process.load(), process.id) for process in self._processes.values()]
        heapq.heapify(heap)
        for task in sorted(left):
            process = self._processes[heap[0][1]]
            self._give(task, process.least(), active=True)
            heapq.heapreplace(heap, (process.load(), process.id))

    def _stay(self, task: Task, id: str | None) -> bool:
        """Give a task to a member that had it, if there is one and it has room."""
        if id is None or self._process(id).counts[id] >= self._active_quota.share:
            return False
        self._give(task, id, active=True)
        return True

    def _assign_standby(self) -> None:
        tasks = _tasks({id: range(count) for id, count in self._spec.tasks.items() if id in self._spec.stateful})
        left: list[tuple[Task, int]] = []
        for task in sorted(tasks, key=lambda task: task[::-1], reverse=True):
            for copy in range(self._spec.standby_replicas):
                id = self._had(task)
                if id is None:
                    left.append((task, self._spec.standby_replicas - copy))
                    break
                self._give(task, id, active=False)
        heap = [(process.load(), process.id) for process in self._processes.values()]
        heapq.heapify(heap)
        for task, copies in sorted(left, reverse=True):
            for _ in range(copies):
                if not self._copy(task, heap):
                    break

    def _had(self, task: Task) -> str | None:
        """A member that had a task before, has room, and in whose process it is not."""
        before = self._active_before.get(task)
        for id in (before, self._least(self._standby_before.get(task, ()), without=task)):
            if id is not None:
                process = self._process(id)
                if task not in process.tasks and process.counts[id] < self._quota.share:
                    return id
        return None

    def _copy(self, task: Task, heap: list[tuple[tuple[float, str], str]]) -> bool:
        """Give a standby task to the process with the fewest tasks that has it not. Returns whether there is one."""
        passed = []
        while heap and task in self._processes[heap[0][1]].tasks:
            passed.append(heapq.heappop(heap))
        found = bool(heap)
        if found:
            process = self._processes[heap[0][1]]
            self._give(task, process.least(), active=False)
            heapq.heapreplace(heap, (process.load(), process.id))
        for one in passed:
            heapq.heappush(heap, one)
        return found

    def _least(self, ids: Iterable[str], without: Task | None = None) -> str | None:
        """The member in the process with the fewest tasks, out of `ids`. `without`: in none that has this task."""
        found = [id for id in ids if without is None or without not in self._process(id).tasks]
        return min(found, key=lambda id: (self._process(id).load()[0], self._process(id).counts[id], id), default=None)

    def _give(self, task: Task, id: str, *, active: bool) -> None:
        process = self._process(id)
        process.tasks.add(task)
        process.counts[id] += 1
        (self._active if active else self._standby)[id].add(task)
        if active:
            self._active_quota.has(process.counts[id])
        self._quota.has(process.counts[id])

    def _process(self, id: str) -> _Process:
        return self._processes[self._spec.members[id].process]


def _tasks(sets: Mapping[str, Iterable[int]]) -> list[Task]:
    return [(subtopology, number) for subtopology, numbers in sets.items() for number in numbers]


def _sets(tasks: set[Task]) -> TaskSets:
    found: dict[str, set[int]] = {}
    for subtopology, number in sorted(tasks):
        found.setdefault(subtopology, set()).add(number)
    return {subtopology: frozenset(numbers) for subtopology, numbers in found.items()}
