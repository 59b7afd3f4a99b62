"""Assigns partitions to members: the assignors of the coordinator, by Kafka's names (KIP-848).

This file alone decides the target assignment of a group. An assignor is a function of an `ConsumerGroupSpec` and may run
anywhere: it changes nothing. Racks are not looked at, as in Apache Kafka since 4.0. Rules:

- `uniform`: each member that subscribes to the same topics as all others gets as many partitions as the others, or one more,
  and keeps what it has where that allows it. Where members subscribe to different topics, no partition can go to a member
  with at least two fewer.
- `range`: of each topic its subscribers get ranges that follow each other, in the order of instance ids, then of member ids.
"""

import heapq
from collections.abc import Callable, Mapping
from typing import NamedTuple

from actors.broker.groups.consumer.state import Target

Targets = dict[str, Target]
MOVES_MAX = 1_000_000
"""The bound on the work of balancing a group whose members subscribe to different topics."""


class Wish(NamedTuple):
    """The wishes of a member, as an assignor knows them. `topics`: ids of the topics that exist."""

    instance_id: str | None
    topics: frozenset[bytes]


class ConsumerGroupSpec(NamedTuple):
    """What an assignor is given. `sizes`: topic id -> partitions. `before`: the present target assignment."""

    members: Mapping[str, Wish]
    sizes: Mapping[bytes, int]
    before: Mapping[str, Target]


def uniform(spec: ConsumerGroupSpec) -> Targets:
    """Assign about equally many partitions to each member, with as few moves as that allows."""
    wishes = {wish.topics for wish in spec.members.values()}
    if len(wishes) == 1:
        return _uniform_alike(spec, wishes.pop())
    return _uniform_mixed(spec)


def range_(spec: ConsumerGroupSpec) -> Targets:
    """Assign a range of each topic's partitions to each member."""
    found: dict[str, dict[bytes, frozenset[int]]] = {id: {} for id in spec.members}
    subscribers: dict[bytes, list[str]] = {}
    for id in sorted(spec.members, key=lambda id: _rank(spec.members[id].instance_id, id)):
        for topic in spec.members[id].topics:
            subscribers.setdefault(topic, []).append(id)
    for topic in sorted(subscribers):
        ids = subscribers[topic]
        least, more = divmod(spec.sizes[topic], len(ids))
        start = 0
        for place, id in enumerate(ids):
            end = start + least + (place < more)
            if end > start:
                found[id][topic] = frozenset(range(start, end))
            start = end
    return dict(found)


ASSIGNORS: Mapping[str, Callable[[ConsumerGroupSpec], Targets]] = {"uniform": uniform, "range": range_}
"""The assignors, by the names that clients and `group.consumer.assignors` use."""


def _rank(instance_id: str | None, id: str) -> tuple[bool, str]:
    return (instance_id is None, id if instance_id is None else instance_id)


def _uniform_alike(spec: ConsumerGroupSpec, topics: frozenset[bytes]) -> Targets:
    """Assign uniformly where all members subscribe to the same topics."""
    total = sum(spec.sizes[topic] for topic in topics)
    least, more = divmod(total, len(spec.members))
    found: dict[str, dict[bytes, frozenset[int]]] = {}
    taken: dict[bytes, set[int]] = {topic: set() for topic in topics}
    room: list[tuple[str, int]] = []
    left_over = more
    # A member that has one more already keeps it, so that a new member costs as few moves as may be.
    had = {id: _kept(spec, id, topics) for id in spec.members}
    for id in sorted(had, key=lambda id: -sum(map(len, had[id].values()))):
        quota = least + (left_over > 0)
        left_over -= left_over > 0
        mine: dict[bytes, frozenset[int]] = {}
        for topic, partitions in had[id].items():
            kept = partitions - taken[topic]
            if len(kept) > quota:
                kept = frozenset(sorted(kept)[:quota])
            quota -= len(kept)
            if kept:
                mine[topic] = kept
                taken[topic] |= kept
        found[id] = mine
        if quota:
            room.append((id, quota))
    free = iter([(topic, n) for topic in sorted(topics) for n in range(spec.sizes[topic]) if n not in taken[topic]])
    for id, quota in room:
        given: dict[bytes, set[int]] = {}
        for _, (topic, partition) in zip(range(quota), free, strict=False):
            given.setdefault(topic, set()).add(partition)
        for topic, more_partitions in given.items():
            found[id][topic] = found[id].get(topic, frozenset()) | more_partitions
    return dict(found)


def _kept(spec: ConsumerGroupSpec, id: str, topics: frozenset[bytes]) -> dict[bytes, frozenset[int]]:
    """The partitions of a member's last target assignment that still exist and to which it still subscribes."""
    kept = {}
    for topic, partitions in spec.before.get(id, {}).items():
        if topic in topics:
            size = spec.sizes[topic]
            kept[topic] = (
                partitions if max(partitions, default=0) < size else frozenset(n for n in partitions if n < size)
            )
    return kept


def _uniform_mixed(spec: ConsumerGroupSpec) -> Targets:
    """Assign uniformly where members subscribe to different topics: a free partition goes to the member that has least,
    then what moves improve is moved."""
    subscribers: dict[bytes, list[str]] = {}
    for id, wish in spec.members.items():
        for topic in wish.topics:
            subscribers.setdefault(topic, []).append(id)
    owner: dict[tuple[bytes, int], str] = {}
    load = dict.fromkeys(spec.members, 0)
    for id, wish in spec.members.items():
        for topic, partitions in _kept(spec, id, wish.topics).items():
            for partition in partitions:
                if owner.setdefault((topic, partition), id) == id:
                    load[id] += 1
    ranked = sorted(subscribers, key=lambda topic: (len(subscribers[topic]), topic))
    for topic in ranked:
        heap = [(load[id], id) for id in subscribers[topic]]
        heapq.heapify(heap)
        for partition in range(spec.sizes[topic]):
            if (topic, partition) not in owner:
                _, id = heap[0]
                owner[topic, partition] = id
                load[id] += 1
                heapq.heapreplace(heap, (load[id], id))
    _balance(ranked, spec.sizes, subscribers, owner, load)
    found: dict[str, dict[bytes, set[int]]] = {id: {} for id in spec.members}
    for (topic, partition), id in owner.items():
        found[id].setdefault(topic, set()).add(partition)
    return {id: {topic: frozenset(partitions) for topic, partitions in mine.items()} for id, mine in found.items()}


def _balance(
    topics: list[bytes],
    sizes: Mapping[bytes, int],
    subscribers: Mapping[bytes, list[str]],
    owner: dict[tuple[bytes, int], str],
    load: dict[str, int],
) -> None:
    """Move partitions to subscribers with at least two fewer, until there is none to move. Each move makes the sum of
    the squares of all loads smaller, so it ends."""
    moves = MOVES_MAX
    moved = True
    while moved and moves > 0:
        moved = False
        for topic in topics:
            heap = [(load[id], id) for id in subscribers[topic]]
            heapq.heapify(heap)
            for partition in range(sizes[topic]):
                present = owner[topic, partition]
                while heap[0][0] != load[heap[0][1]]:
                    heapq.heapreplace(heap, (load[heap[0][1]], heap[0][1]))
                least, id = heap[0]
                if load[present] - least >= 2:
                    owner[topic, partition] = id
                    load[present] -= 1
                    load[id] += 1
                    heapq.heapreplace(heap, (load[id], id))
                    heapq.heappush(heap, (load[present], present))
                    moved = True
                    moves -= 1
