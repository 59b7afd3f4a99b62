"""Whole clusters under faults: every checker over many worlds, and the same world again, event for event."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulator.checkers.hooks import Violation
from tests.simulator.many import alone
from tests.simulator.patience import turns_end
from tests.simulator.planted.worlds import WORLDS
from tests.simulator.simulation import Simulation, simulate

ROOT = Path(__file__).parent.parent.parent
SEEDS = int(os.environ.get("SIMULATOR_SEEDS", "20"))
DIGEST = """
from tests.simulator.planted.kinds import run
from tests.simulator.planted.worlds import WORLDS
print(run(WORLDS[{kind!r}], {seed}).digest)
"""
SHORT = {"general": 11, "guarded": 4300}
"""Kind of world -> the seed that is run under two hash seeds in `make test`."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_seed_holds_every_property(seed):
    result = alone(seed)
    assert result.ok, f"python -m tests.simulator --seed {seed} replays: {result.text}"


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind in SHORT else [pytest.mark.slow]) for kind in WORLDS]
)
def test_a_seed_is_the_same_world_under_any_hash_seed(kind):
    """Nothing goes in the order of a set of texts. It is the product as much as the worlds that this holds: the order in
    which a controller writes records is the order in all its logs."""
    digests = set()
    for hash_seed in ("0", "1", "1234"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        found = subprocess.run(
            [sys.executable, "-c", DIGEST.format(kind=kind, seed=SHORT.get(kind, 4300))],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            check=True,
        )
        digests.add(found.stdout)
    assert len(digests) == 1


def test_a_broken_promise_is_reported_with_its_name():
    """A client gets an acknowledgement for a record that no client sent."""
    simulation = Simulation(0)
    history = simulation.history

    def lie(*_: object) -> None:
        simulation.hooks.committed.clear()
        history.acknowledged("t0", b"?" * 16, 0, 0, [b"x"], -1)

    simulation.world.at(3_000_000, lie)
    result = simulation.run()
    assert not result.ok and result.checker == "no_acknowledged_record_lost"


def test_a_turn_without_end_is_a_violation():
    with pytest.raises(Violation, match="turn 8 does not end"), turns_end(lambda: 7, 0.2):
        while True:
            pass


def test_a_patch_lasts_as_long_as_its_world():
    applied = []

    def patch():
        applied.append(True)
        original = Simulation._work

        def broken(self: Simulation) -> None:
            raise Violation("planted", "as asked")

        Simulation._work = broken
        return lambda: setattr(Simulation, "_work", original)

    original = Simulation._work
    assert simulate(0, [patch]).checker == "planted" and Simulation._work is original and applied == [True]
