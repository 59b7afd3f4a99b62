"""The proof that the simulator of whole nodes notices mistakes: each one is planted, and its recorded seed catches
it."""

import pytest

from tests.simulator.ahead import Ahead, in_processes
from tests.simulator.planted import PLANTED
from tests.simulator.planted.hunt import recorded
from tests.simulator.planted.kinds import TIME_IS_UP, run
from tests.simulator.planted.registry import planted
from tests.simulator.planted.worlds import WORLDS
from tests.simulator.simulation import Result

RECORDED = recorded()


def mistaken(name: str) -> Result:
    """The recorded world with the mistake."""
    catch = RECORDED[name]
    with planted(name):
        return run(WORLDS[catch.world], catch.seed, catch.virtual_ms + 1000)


def sound(world: str, seed: int) -> Result:
    """The same world without a mistake, for as long as the slowest catch in it took."""
    catches = [catch for catch in RECORDED.values() if (catch.world, catch.seed) == (world, seed)]
    return run(WORLDS[world], seed, max(catch.virtual_ms for catch in catches))


ahead = in_processes({"test_planted_mistake_is_caught": mistaken, "test_nothing_is_caught_without_a_mistake": sound})


@pytest.mark.parametrize("name", RECORDED)
def test_planted_mistake_is_caught(name: str, ahead: Ahead) -> None:
    """By the recorded seed, and by the property that the record names."""
    result = ahead()
    assert result.checker == RECORDED[name].checker, result.text


@pytest.mark.parametrize("world, seed", sorted({(catch.world, catch.seed) for catch in RECORDED.values()}))
def test_nothing_is_caught_without_a_mistake(world: str, seed: int, ahead: Ahead) -> None:
    """The worlds in which mistakes are caught are clean as long."""
    result = ahead()
    assert result.checker in ("", TIME_IS_UP), result.text


@pytest.mark.parametrize("world, seed", [("silence", 0), ("rotten", 9)])
def test_what_these_worlds_have_found_stays_fixed(world: str, seed: int) -> None:
    """The list in docs/simulator.md describes what was found."""
    result = run(WORLDS[world], seed)
    assert result.ok, result.text


def test_every_mistake_has_a_record() -> None:
    assert len(RECORDED) >= 20 and set(RECORDED) == set(PLANTED)
