"""Which broker coordinated a group at which time, as the committed metadata has it.

Other checkers ask this when a member reports what it was told. A broker that was frozen, or that has not heard yet that
another one leads the group's partition, still answers heartbeats (so do Apache Kafka's). What it says of a session binds
nobody: the session at the new coordinator began when that one loaded the group.
"""

from typing import Any

from actors.broker.coordinators.coordination import partition_of
from actors.metadata.image import Image
from actors.metadata.topic_names import OFFSETS_TOPIC
from tests.simulator.world import World


class Coordinators:
    """The coordinators of all groups, whose records are in the `partitions` partitions of the offsets' topic."""

    def __init__(self, world: World, partitions: int) -> None:
        self._world = world
        self._leaders: list[list[tuple[int, int]]] = [[] for _ in range(partitions)]
        """Number of a partition -> its leaders, each with the time, in microseconds, since which it led."""

    def metadata(self, image: Image, batch: Any) -> None:
        """A batch was committed: the leaders may have changed."""
        topic = image.topic(OFFSETS_TOPIC)
        for number, leaders in enumerate(self._leaders):
            row = image.partition(topic, number) if topic >= 0 else -1
            leader = image.leader(row) if row >= 0 else -1
            if not leaders or leaders[-1][1] != leader:
                leaders.append((self._world.time_us, leader))

    def was(self, broker: str | None, group: str, time_us: int) -> bool:
        """Whether a broker coordinated the group at that time."""
        for since_us, leader in reversed(self._leaders[partition_of(group, len(self._leaders))]):
            if since_us <= time_us:
                return broker == f"b{leader}"
        return False
