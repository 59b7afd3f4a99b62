"""The rough world, in which most mistakes are hunted: a small cluster, busy producers, many short faults in little time."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from tests.simulator.faults import Faults
from tests.simulator.planted.kinds import Kind
from tests.simulator.simulation import Shape, Topic

LASTS_MS = 1_500
"""The longest time that a fault lasts."""
MENU = {
    "kill": 5,
    "controllers lose power": 3,
    "broker loses power": 8,
    "freeze": 4,
    "partition": 2,
    "one-way partition": 3,
    "connections cut": 2,
    "slow link": 4,
    "orderly restart": 2,
    "sync fails": 2,
}
"""The weight of each fault."""


class RoughFaults(Faults):
    """The faults of a menu. One in three ends at once, or its process restarts at once."""

    def __init__(self, *args: Any, menu: Mapping[str, int] = MENU) -> None:
        super().__init__(*args)
        known = {name: begin for _, name, begin in self._menu} | self._more()
        self._menu = [(weight, name, known[name]) for name, weight in menu.items()]

    def _more(self) -> dict[str, Callable[[], bool]]:
        """Faults that the simulator's own worlds do not have."""
        return {}

    def _later(self, low_ms: int, high_ms: int, function: Callable[[], Any]) -> None:
        at_once = not self.choose.randrange(3)
        super()._later(*((0, 0) if at_once else (min(low_ms, LASTS_MS), min(high_ms, LASTS_MS))), function)


CONFIG = {
    "replica.lag.time.max.ms": "1000",
    "registration.heartbeat.interval.ms": "500",
    "registration.lease.timeout.ms": "3000",
    "log.segment.delete.delay.ms": "1000",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "group.min.session.timeout.ms": "1000",
}


def shape(seed: int) -> Shape:
    """The cluster of a seed: three controllers, three brokers."""
    choose = random.Random(f"rough {seed}")
    config = {
        **CONFIG,
        "metadata.log.max.record.bytes.between.snapshots": str(choose.choice((1_000, 5_000))),
        "internal.metadata.log.segment.bytes": str(choose.choice((2_048, 8_192))),
    }
    topics = [
        Topic("t0", 1, 3, {"min.insync.replicas": "2", "internal.segment.bytes": "4000"}),
        Topic("t1", 2, choose.choice((2, 3)), {"min.insync.replicas": "1", "internal.segment.bytes": "100000"}),
    ]
    return Shape(choose.choice((1, 2)), 3, 3, config, topics, 2, 1, bool(choose.randrange(2)), 2)


ROUGH = Kind(shape, RoughFaults)
