"""How many tasks each subtopology has, and which topics are missing or have the wrong size, in the cluster as it is
now.

This file alone decides that (KIP-1071). Rules:

1. Every source topic exists. Otherwise nothing is decided: MISSING_SOURCE_TOPICS.
2. A repartition topic has as many partitions as the application says, or as many as the largest topic that is read by a
   subtopology which writes it. Where that depends on another repartition topic, that one comes first; a topology in which
   each waits for another is refused.
3. The topics of a copartition group have alike many partitions. Repartition topics whose number was not said follow the
   others; where that is not possible: INCORRECTLY_PARTITIONED_TOPICS.
4. A subtopology has as many tasks as the largest topic that it reads has partitions, and so have its changelogs.
5. An internal topic that exists has the size that was decided, or else: INCORRECTLY_PARTITIONED_TOPICS. Those that do not
   exist are to be made: MISSING_INTERNAL_TOPICS.

It is a function of values.
"""

import heapq
from collections.abc import Callable, Mapping
from typing import NamedTuple

from actors.broker.groups.refusals import RequestRefused
from actors.broker.groups.streams.answers import NewTopic, Status
from actors.broker.groups.streams.topology import Subtopology, Topic, Topology
from actors.wire.errors import ErrorCode

TASKS_MAX = 100_000
"""The most tasks of all subtopologies together, standby tasks not counted."""
NAMED_MAX = 3
"""The most topics that a sentence names."""
Size = Callable[[str], int | None]
"""A function that returns how many partitions a topic has; None: there is no such topic."""


class Partitioned(NamedTuple):
    """A topology in the cluster as it is. `tasks`: subtopology -> how many; empty where nothing could be decided.

    `problem`: why no task can run now. `sizes`: of internal topics, by name. `missing`: those to be made."""

    topology: Topology
    tasks: Mapping[str, int] = {}
    sizes: Mapping[str, int] = {}
    problem: tuple[Status, str] | None = None
    missing: tuple[NewTopic, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether tasks can run."""
        return self.problem is None

    def stateful(self) -> frozenset[str]:
        """The subtopologies that keep state, which a standby task copies."""
        return frozenset(one.id for one in self.topology.subtopologies if one.changelogs)


class _Problem(Exception):
    """The topics are not as the application needs them."""

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(text)
        self.status = status


def partition(topology: Topology, size: Size) -> Partitioned:
    """The topology among these topics. Raises RequestRefused: no topics could satisfy it."""
    parts = topology.subtopologies
    absent = sorted({name for one in parts for name in one.sources if size(name) is None})
    if absent:
        text = f"Source topics {_named(absent)} are missing."
        return Partitioned(topology, problem=(Status.MISSING_SOURCE_TOPICS, text))
    try:
        decided = _repartitions(parts, size)
        _copartition(parts, decided, size)
        tasks = {one.id: _largest(one, decided, size) for one in parts}
        if sum(tasks.values()) > TASKS_MAX:
            raise RequestRefused(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"The topology has more than {TASKS_MAX} tasks.")
        decided.update({log.name: tasks[one.id] for one in parts for log in one.changelogs})
        missing = _missing(parts, decided, size)
    except _Problem as problem:
        return Partitioned(topology, problem=(problem.status, str(problem)))
    told = None
    if missing:
        told = (Status.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {_named([one.name for one in missing])}")
    return Partitioned(topology, tasks, decided, told, missing)


def _repartitions(parts: tuple[Subtopology, ...], size: Size) -> dict[str, int]:
    """The size of each repartition topic, before copartition groups are asked (rule 2)."""
    decided = {topic.name: topic.partitions for one in parts for topic in one.repartitions if topic.partitions}
    readers: dict[str, list[int]] = {}
    for place, one in enumerate(parts):
        for topic in one.repartitions:
            readers.setdefault(topic.name, []).append(place)
    # (round, place): in each round all that can be decided is, in the order of the subtopologies.
    due = [(0, place) for place, one in enumerate(parts) if _known(one, decided, size)]
    done: set[int] = set()
    while due:
        round, place = heapq.heappop(due)
        if place in done:
            continue
        done.add(place)
        wanted = max(_known(parts[place], decided, size))
        for sink in parts[place].sinks:
            if sink not in decided:
                decided[sink] = wanted
                for reader in readers.get(sink, ()):
                    heapq.heappush(due, (round + (reader <= place), reader))
    if any(sink not in decided for one in parts for sink in one.sinks):
        raise RequestRefused(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
            "that cannot be resolved.",
        )
    if any(topic.name not in decided for one in parts for topic in one.repartitions):
        raise RequestRefused(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is "
            "never used as a sink topic.",
        )
    return decided


def _known(one: Subtopology, decided: Mapping[str, int], size: Size) -> list[int]:
    """The sizes of what a subtopology reads, as far as they are known."""
    known = [decided[topic.name] for topic in one.repartitions if topic.name in decided]
    return known + [found for name in one.sources if (found := size(name)) is not None]


def _copartition(parts: tuple[Subtopology, ...], decided: dict[str, int], size: Size) -> None:
    """Make the topics of each copartition group alike (rule 3)."""
    said = {topic.name: topic.partitions for one in parts for topic in one.repartitions}
    fixed = {name for name, partitions in said.items() if partitions}
    for one in parts:
        for group in one.groups():
            found = {name: _size(name, decided, size) for name in sorted(group)}
            flexible = {name: number for name, number in found.items() if name in said}
            others = {name: number for name, number in found.items() if name not in said}
            if not found:
                continue
            if others:
                wanted = _same(others, others)
            elif any(name in fixed for name in found):
                wanted = _same({name: number for name, number in found.items() if name in fixed}, flexible)
            else:
                wanted = max(flexible.values())
            for name, number in flexible.items():
                if name in fixed and number != wanted:
                    raise _Problem(
                        Status.INCORRECTLY_PARTITIONED_TOPICS,
                        f"Number of partitions [{number}] of repartition topic [{name}] doesn't match number of "
                        f"partitions [{wanted}] of the source topic.",
                    )
                decided[name] = wanted


def _same(numbers: Mapping[str, int], shown: Mapping[str, int]) -> int:
    """The one number that all have."""
    if len(set(numbers.values())) > 1:
        listed = ", ".join(f"{name}={number}" for name, number in sorted(shown.items()))
        raise _Problem(
            Status.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{listed}}}]",
        )
    return next(iter(numbers.values()))


def _missing(parts: tuple[Subtopology, ...], decided: Mapping[str, int], size: Size) -> tuple[NewTopic, ...]:
    """Internal topics that do not exist (rule 5)."""
    wanted: dict[str, Topic] = {topic.name: topic for one in parts for topic in one.internal()}
    missing = []
    for name, topic in sorted(wanted.items()):
        found, expected = size(name), topic.partitions or decided[name]
        if found is None:
            missing.append(NewTopic(name, expected, topic.replicas or -1, topic.settings))
        elif found != expected:
            raise _Problem(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {expected}, found {found}",
            )
    return tuple(missing)


def _largest(one: Subtopology, decided: Mapping[str, int], size: Size) -> int:
    return max(_size(name, decided, size) for name in one.read())


def _size(name: str, decided: Mapping[str, int], size: Size) -> int:
    """The size of a topic that exists, or that is to be made. A repartition topic that exists counts as it is."""
    found = size(name)
    return decided[name] if found is None else found


def _named(topics: list[str]) -> str:
    more = len(topics) - NAMED_MAX
    return ", ".join(topics[:NAMED_MAX]) + (f" and {more} additional topics" if more > 0 else "")
