"""The proof that the simulator of whole nodes would notice mistakes: each is planted, and caught by its recorded seed."""

import pytest

from tests.simulator.planted import PLANTED
from tests.simulator.planted.hunt import recorded
from tests.simulator.planted.registry import planted
from tests.simulator.planted.rough import TIME_IS_UP, world

RECORDED = recorded()


@pytest.mark.parametrize("name", RECORDED)
def test_planted_mistake_is_caught(name: str) -> None:
    """By the recorded seed, and by the property that the record names."""
    catch = RECORDED[name]
    with planted(name):
        result = world(catch.seed, catch.virtual_ms + 1000)
    assert result.checker == catch.checker, result.text


@pytest.mark.parametrize("seed", sorted({catch.seed for catch in RECORDED.values()}))
def test_nothing_is_caught_without_a_mistake(seed: int) -> None:
    """The worlds in which mistakes are caught are clean as long."""
    until_ms = max(catch.virtual_ms for catch in RECORDED.values() if catch.seed == seed)
    result = world(seed, until_ms)
    assert result.checker in ("", TIME_IS_UP), result.text


def test_records_are_of_mistakes() -> None:
    assert len(RECORDED) >= 20 and set(RECORDED) <= set(PLANTED)
