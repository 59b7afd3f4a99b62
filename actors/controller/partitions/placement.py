"""Where new replicas go: evenly over the brokers, and in different racks as far as possible.

This file alone decides that. Rules:

1. The brokers form one circle in which neighbours are of different racks where that is possible. Racks, and the brokers
   in each, are shuffled once for each request, so that topics do not pile up on the same brokers.
2. The preferred leaders of a request go around the circle: no broker gets two more of them than another.
3. The other replicas follow the leader in the circle, starting one place further on in each round. So the load of a
   lost broker is spread over many. A rack is used a second time only when every rack has been used once, and so on.
   Brokers without a rack together form one rack.
"""

from actors.controller.soft_state import Usable
from actors.ports import Random


class TooFewBrokers(ValueError):
    """The cluster has fewer usable brokers than a partition would have replicas."""


def _shuffled(items: list[int], random: Random) -> list[int]:
    for last in range(len(items) - 1, 0, -1):
        other = random.below(last + 1)
        items[last], items[other] = items[other], items[last]
    return items


def _circle(usable: Usable, random: Random) -> tuple[list[int], list[int]]:
    """(brokers, number of the rack of each), with the racks taking turns."""
    racks: dict[str | None, list[int]] = {}
    for broker, rack in usable.racks:
        racks.setdefault(rack, []).append(broker)
    groups = [_shuffled(group, random) for group in racks.values()]
    order = _shuffled(list(range(len(groups))), random)
    brokers, numbers = [], []
    for turn in range(max(map(len, groups))):
        for number in order:
            if turn < len(groups[number]):
                brokers.append(groups[number][turn])
                numbers.append(number)
    return brokers, numbers


def _replicas(brokers: list[int], racks: list[int], factor: int, start: int, shift: int) -> tuple[int, ...]:
    """The replicas of the partition whose leader is at place `start` of the circle."""
    chosen, used = [brokers[start]], {racks[start]}
    count, taken = len(brokers), {start}
    racks_there = len(set(racks))
    while len(chosen) < factor:
        for step in range(count - 1):
            place = (start + 1 + (shift + step) % (count - 1)) % count
            if place not in taken and racks[place] not in used:
                chosen.append(brokers[place])
                taken.add(place)
                used.add(racks[place])
                if len(chosen) == factor or len(used) == racks_there:
                    break
        used = set()
    return tuple(chosen)


class Placement:
    """The placement of one request. The circle goes on from one topic to the next."""

    def __init__(self, usable: Usable, random: Random) -> None:
        self._usable = usable
        self._random = random
        self._circle: tuple[list[int], list[int]] | None = None
        self._next = 0
        self._known: dict[tuple[int, int, int], tuple[int, ...]] = {}

    def place(self, partitions: int, factor: int) -> list[tuple[int, ...]]:
        """Replicas of `partitions` new partitions, the preferred leader first. Raises TooFewBrokers."""
        count = len(self._usable.racks)
        if factor > count:
            raise TooFewBrokers(
                f"The target replication factor of {factor} cannot be reached because only {count} broker(s) are "
                "registered."
            )
        if self._circle is None:
            self._circle = _circle(self._usable, self._random)
        brokers, racks = self._circle
        known, placed, around = self._known, [], max(1, count - 1)
        for number in range(self._next, self._next + partitions):
            key = (factor, number % count, number // count % around)
            replicas = known.get(key)
            if replicas is None:
                replicas = known[key] = _replicas(brokers, racks, *key)
            placed.append(replicas)
        self._next += partitions
        return placed
