"""The worlds in which mistakes are planted: small clusters, busy producers, many faults in little time.

They are the simulator's own worlds with another shape and another mix of faults, chosen here alone: what is added to the
simulator's own mix leaves these worlds, and so the recorded seeds, as they are.
"""

import random
from collections.abc import Callable
from typing import Any

from tests.simulator import faults, simulation
from tests.simulator.checkers.hooks import Violation
from tests.simulator.clients.process import Client
from tests.simulator.clients.producer import Producer
from tests.simulator.faults import Faults
from tests.simulator.planted.registry import instead
from tests.simulator.simulation import Result, Shape, Simulation, Topic

FAULTY_MS = 10_000
HEALTHY_MS = 40_000
PAUSE_MS = (50, 1_000)
LASTS_MS = 1_500
"""No fault lasts longer."""
HASTE = 8
"""How much faster producers are than in the simulator's own worlds."""
TIME_IS_UP = "time is up"
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
"""Fault -> weight."""


class RoughFaults(Faults):
    """The faults of `MENU`; one in three is over, or restarted from, at once."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        known = {name: begin for _, name, begin in self._menu}
        self._menu = [(weight, name, known[name]) for name, weight in MENU.items()]

    def _later(self, low_ms: int, high_ms: int, function: Callable[[], Any]) -> None:
        at_once = not self.choose.randrange(3)
        super()._later(*((0, 0) if at_once else (min(low_ms, LASTS_MS), min(high_ms, LASTS_MS))), function)


class HastyProducer(Producer):
    """A producer that pauses little."""

    def __init__(self, client: Client, *, acks: int, idempotent: bool, pause_ms: int) -> None:
        super().__init__(client, acks=acks, idempotent=idempotent, pause_ms=max(1, pause_ms // HASTE))


def shape(seed: int) -> Shape:
    """The cluster of a seed: three controllers, three brokers."""
    choose = random.Random(f"rough {seed}")
    config = {
        "replica.lag.time.max.ms": "1000",
        "registration.heartbeat.interval.ms": "500",
        "registration.lease.timeout.ms": "3000",
        "metadata.log.max.record.bytes.between.snapshots": str(choose.choice((1_000, 5_000))),
        "internal.metadata.log.segment.bytes": str(choose.choice((2_048, 8_192))),
        "log.segment.delete.delay.ms": "1000",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "3",
        "group.min.session.timeout.ms": "1000",
    }
    topics = [
        Topic("t0", 1, 3, {"min.insync.replicas": "2", "internal.segment.bytes": "4000"}),
        Topic("t1", 2, choose.choice((2, 3)), {"min.insync.replicas": "1", "internal.segment.bytes": "100000"}),
    ]
    return Shape(choose.choice((1, 2)), 3, 3, config, topics, 2, 1, bool(choose.randrange(2)), 2)


def world(seed: int, until_ms: int = -1) -> Result:
    """Run a rough world, with whatever is planted; it ends at `until_ms` of virtual time at the latest."""
    with (
        instead(simulation, "FAULTY_MS", FAULTY_MS),
        instead(simulation, "HEALTHY_MS", HEALTHY_MS),
        instead(simulation, "Producer", HastyProducer),
        instead(simulation, "Faults", RoughFaults),
        instead(simulation, "shape", shape),
        instead(faults, "PAUSE_MS", PAUSE_MS),
    ):
        one = Simulation(seed)
        if until_ms >= 0:
            one.world.at(until_ms * 1000, _stop)
        return one.run()


def _stop() -> None:
    raise Violation(TIME_IS_UP, "nothing was wrong until now")
