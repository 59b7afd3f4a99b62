"""The real client in simulated clusters, against its checkers: fixed seeds here, fresh ones in `make sim`."""

import pytest

from tests.simulator.many import alone

SHORT = {("by address", 1), ("unclean", 3)}
SEEDS = [("by address", seed) for seed in (1, 100, 304, *range(400, 406))] + [("unclean", seed) for seed in range(1, 9)]


@pytest.mark.parametrize(
    ("kind", "seed"), [pytest.param(*one, marks=[] if one in SHORT else [pytest.mark.slow]) for one in SEEDS]
)
def test_the_client_keeps_its_promises(kind: str, seed: int) -> None:
    """Nothing that it was told to be written is lost or there twice, transactions are whole, what is lost is told, and no
    operation outlives its deadline. Seed 304 found a topic whose leader was none of the brokers that were known, which was
    never asked for anew."""
    result = alone(seed, kind)
    assert result.ok, f"python -m tests.simulator --kind '{kind}' --seed {seed} replays: {result.text}"
    assert result.counts["by address: records acknowledged"] > 500 and result.counts["by address: records read"] > 500
    if kind == "by address":
        assert result.counts["by address: transactions committed"] > 5 and result.counts["by address: batches divided"]
