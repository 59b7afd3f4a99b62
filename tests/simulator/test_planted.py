"""The proof that the simulator of whole nodes notices mistakes: each one is planted, and its recorded seed catches
it."""

import re

import pytest

from tests.simulator.many import alone_in
from tests.simulator.planted import PLANTED
from tests.simulator.planted.hunt import recorded
from tests.simulator.planted.kinds import TIME_IS_UP, run
from tests.simulator.planted.registry import planted
from tests.simulator.planted.worlds import WORLDS
from tests.simulator.simulation import Result

RECORDED = recorded()
LONG_MS = 6_000
"""The virtual time in ms beyond which a mistake that is caught is tried by `make test-slow`."""


UNFIT = re.compile(r"^(Attribute|Import|Name|Type)Error\b", re.MULTILINE)
"""How a run ends in which a patch does not fit what it replaces: that is no catch of the mistake."""


def slow(virtual_ms: int) -> tuple[pytest.MarkDecorator, ...]:
    """The marks of a test whose world runs as long as that."""
    return (pytest.mark.slow,) if virtual_ms > LONG_MS else ()


def mistaken(name: str) -> Result:
    """The recorded world with the mistake."""
    catch = RECORDED[name]
    with planted(name):
        return run(WORLDS[catch.world], catch.seed, catch.virtual_ms + 1000)


def sound(world: str, seed: int, virtual_ms: int) -> Result:
    """The result of a world without the mistake, for as long as the slowest catch in it took."""
    return run(WORLDS[world], seed, virtual_ms)


def longest() -> list[tuple[str, int, int]]:
    """(world, seed, virtual time of the slowest catch in it); those that take long once more without their long catches."""
    found = dict[tuple[str, int, bool], int]()
    for catch in RECORDED.values():
        for key in {(catch.world, catch.seed, True), (catch.world, catch.seed, catch.virtual_ms > LONG_MS)}:
            found[key] = max(found.get(key, 0), catch.virtual_ms)
    return sorted({(world, seed, virtual_ms) for (world, seed, _), virtual_ms in found.items()})


@pytest.mark.parametrize("name", [pytest.param(name, marks=slow(catch.virtual_ms)) for name, catch in RECORDED.items()])
def test_planted_mistake_is_caught(name: str) -> None:
    """By the recorded seed, and by the property that the record names."""
    result = alone_in(mistaken, name=name)
    assert result.checker == RECORDED[name].checker and not UNFIT.search(result.text), result.text


@pytest.mark.parametrize(("world", "seed", "virtual_ms"), [pytest.param(*one, marks=slow(one[2])) for one in longest()])
def test_nothing_is_caught_without_a_mistake(world: str, seed: int, virtual_ms: int) -> None:
    """The worlds in which mistakes are caught are clean as long."""
    result = alone_in(sound, world=world, seed=seed, virtual_ms=virtual_ms)
    assert result.checker in ("", TIME_IS_UP), result.text


@pytest.mark.parametrize("world, seed", [("silence", 0), ("rotten", 9)])
def test_what_these_worlds_have_found_stays_fixed(world: str, seed: int) -> None:
    """The list in docs/simulator-found.md describes what was found."""
    result = run(WORLDS[world], seed)
    assert result.ok, result.text


def test_every_mistake_has_a_record_and_can_be_made() -> None:
    """What it replaces is still there: most worlds with a mistake run with the slow tests alone."""
    assert len(RECORDED) >= 20 and set(RECORDED) == set(PLANTED)
    for name in PLANTED:
        with planted(name):
            pass
