"""Which partitions each instance of the application has, for queries between instances (`application.server`, KIP-1071).

A task has of each topic that its subtopology reads the partition of its number, where the topic has so many. This file
alone decides that; when a member is told is decided in `groups.py`. Kafka names the first partitions of a topic that is
smaller than the task's number instead; the instance has none of them.
"""

from collections.abc import Callable, Iterable

from actors.broker.groups.streams.answers import Endpoint, Served, Tasks
from actors.broker.groups.streams.topology import Topology


def served(endpoint: Endpoint, tasks: Tasks, topology: Topology, size: Callable[[str], int | None]) -> Served:
    """What an instance with these tasks has. `size`: how many partitions a topic has."""
    read = {one.id: tuple(one.read()) for one in topology.subtopologies}

    def partitions(of: Iterable[tuple[str, frozenset[int]]]) -> list[tuple[str, list[int]]]:
        found: dict[str, set[int]] = {}
        for one, numbers in of:
            for topic in read.get(one, ()):
                found.setdefault(topic, set()).update(number for number in numbers if number < (size(topic) or 0))
        return [(topic, sorted(numbers)) for topic, numbers in sorted(found.items()) if numbers]

    return Served(endpoint, partitions(tasks.active.items()), partitions(tasks.standby.items()))
