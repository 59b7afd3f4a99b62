"""The hunt for seeds that catch mistakes, and the record of it."""

import json
from pathlib import Path
from typing import NamedTuple

from tests.simulator.planted.kinds import run
from tests.simulator.planted.registry import HUNTED_IN, PLANTED, planted
from tests.simulator.planted.worlds import WORLDS

RECORDED = Path(__file__).with_name("recorded.json")
SEEDS_MAX = 100
"""The number of fresh seeds that must suffice for any mistake."""


class Catch(NamedTuple):
    """How a mistake was caught: the kind of world, the seed, the property that did not hold, and the virtual time."""

    world: str
    seed: int
    checker: str
    virtual_ms: int


def caught(name: str, world: str, seed: int) -> Catch | None:
    """How the world of that seed catches the mistake; None: it does not."""
    with planted(name):
        result = run(WORLDS[world], seed)
    return None if result.ok else Catch(world, seed, result.checker, result.virtual_ms)


def hunt(name: str, first_seed: int, seeds_max: int = SEEDS_MAX, world: str = "") -> Catch | None:
    """The first of `seeds_max` seeds that catches it. Without `world`, in the kind of world that the mistake names."""
    for seed in range(first_seed, first_seed + seeds_max):
        found = caught(name, world or HUNTED_IN[name], seed)
        if found is not None:
            return found
    return None


def recorded() -> dict[str, Catch]:
    """Name -> how it was caught."""
    return {name: Catch(**found) for name, found in json.loads(RECORDED.read_text()).items()}


def record(found: dict[str, Catch]) -> None:
    """Write the catches into the record."""
    rows = [f" {json.dumps(name)}: {json.dumps(found[name]._asdict())}" for name in PLANTED if name in found]
    RECORDED.write_text("{\n" + ",\n".join(rows) + "\n}\n")
