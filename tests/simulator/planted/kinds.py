"""How a kind of world is described, and how one is run with a planted mistake.

The worlds are the simulator's own, with another shape and another mix of faults, which depend on the kind alone. So
additions to the simulator's own mix leave these worlds, and the recorded seeds, as they are.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from tests.simulator import faults, simulation, world
from tests.simulator.checkers.hooks import Violation
from tests.simulator.clients import member
from tests.simulator.clients.pipeline import Pipeline
from tests.simulator.clients.process import Client
from tests.simulator.clients.producer import Producer
from tests.simulator.clients.topics import churn
from tests.simulator.planted.registry import Patch, instead
from tests.simulator.simulation import Result, Shape, Simulation
from tests.simulator.strangers import Nobody, Strangers

TIME_IS_UP = "time is up"
HASTE = 8
"""How much faster hasty producers are than those of the simulator's own worlds."""


class HastyProducer(Producer):
    """A producer with short pauses."""

    def __init__(self, client: Client, *, acks: int, idempotent: bool, pause_ms: int) -> None:
        super().__init__(client, acks=acks, idempotent=idempotent, pause_ms=max(1, pause_ms // HASTE))


class HastyPipeline(HastyProducer, Pipeline):
    """A hasty producer with several batches in flight."""


class Kind(NamedTuple):
    """A kind of world."""

    shape: Callable[[int], Shape]
    faults: Callable[..., faults.Faults]
    faulty_ms: int = 10_000
    healthy_ms: int = 40_000
    pause_ms: tuple[int, int] = (50, 1_000)
    producer: type[Producer] = HastyProducer
    pipeline: type[Producer] = HastyProducer
    """The class of half of the idempotent producers."""
    operator: Callable[[Client, int, int], Any] = churn
    """The operator's work, if the shape has an operator."""
    commits_ms: tuple[int, int] = member.PAUSE_MS
    """The time between two commits of a member of the group."""
    sync_us: tuple[int, int] = world.SYNC_US
    purge_ms: int = simulation.PURGE_MS
    relocation_ms: int = simulation.RELOCATION_MS
    rules_ms: int = simulation.RULES_MS
    strangers: type[Strangers] = Nobody
    keyed_pause_ms: int = simulation.KEYED_PAUSE_MS
    """The pause in ms of producers of compacted topics."""
    begun: Callable[[], Sequence[Patch]] = list
    """Patches that say where counters begin."""
    simulation: type[Simulation] = Simulation
    """What a run is: who works there, and what is judged besides."""


def run(kind: Kind, seed: int, until_ms: int = -1, *, keep_log: bool = False) -> Result:
    """Run the world of a seed. It ends at `until_ms` of virtual time at the latest. `keep_log`: every event becomes a
    line of the result."""
    with ExitStack() as stack:
        for owner, name, value in (
            (simulation, "FAULTY_MS", kind.faulty_ms),
            (simulation, "HEALTHY_MS", kind.healthy_ms),
            (simulation, "Producer", kind.producer),
            (simulation, "Pipeline", kind.pipeline),
            (simulation, "Faults", kind.faults),
            (simulation, "Strangers", kind.strangers),
            (simulation, "shape", kind.shape),
            (simulation, "churn", kind.operator),
            (simulation, "PURGE_MS", kind.purge_ms),
            (simulation, "RELOCATION_MS", kind.relocation_ms),
            (simulation, "KEYED_PAUSE_MS", kind.keyed_pause_ms),
            (simulation, "RULES_MS", kind.rules_ms),
            (faults, "PAUSE_MS", kind.pause_ms),
            (member, "PAUSE_MS", kind.commits_ms),
            (world, "SYNC_US", kind.sync_us),
        ):
            stack.enter_context(instead(owner, name, value))
        for patch in kind.begun():
            stack.enter_context(patch)
        one = kind.simulation(seed, keep_log=keep_log)
        if until_ms >= 0:
            one.world.at(until_ms * 1000, _stop)
        return one.run()


def _stop() -> None:
    raise Violation(TIME_IS_UP, "nothing was wrong until now")
