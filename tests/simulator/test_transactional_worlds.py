"""Worlds with many transactions in little time: they are clean, and they do something. What they must find is in
`test_planted.py`."""

import pytest

from tests.simulator.planted.kinds import run
from tests.simulator.planted.worlds import WORLDS


@pytest.mark.parametrize("kind", ["transactional", "swept"])
@pytest.mark.parametrize("seed", [1, 2])
def test_committed_readers_see_each_transaction_whole_or_not_at_all(kind: str, seed: int) -> None:
    result = run(WORLDS[kind], seed)
    assert result.ok, f"{kind} {seed}: {result.text}"
    assert result.counts["transactions seen"] > 20
    assert result.counts["records copied" if kind == "transactional" else "logs cleaned"]


@pytest.mark.parametrize("kind", ["prepared", "repeated"])
@pytest.mark.parametrize("seed", [4, 5])
def test_what_was_decided_elsewhere_becomes_of_it(kind: str, seed: int) -> None:
    """Of transactions that were prepared, while clients die and come back, and coordinators and leaders with them."""
    result = run(WORLDS[kind], seed)
    assert result.ok, f"{kind} {seed}: {result.text}"
    assert result.counts["transactions prepared"] > 5 and result.counts["transactions kept"] > 2


def test_a_seed_decides_everything() -> None:
    assert run(WORLDS["transactional"], 1).digest == run(WORLDS["transactional"], 1).digest
