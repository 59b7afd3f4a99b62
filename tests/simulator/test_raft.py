"""The raft world over many seeds, and the proof that it notices mistakes."""

import os
from collections import Counter

import pytest

from tests.simulator import raft_planted, raft_quorums
from tests.simulator.raft_seeds import run

SEEDS = int(os.environ.get("RAYFT_RAFT_SEEDS", "2000"))
CHANGING_SEEDS = int(os.environ.get("RAYFT_RAFT_CHANGING_SEEDS", "200"))
FIRST_SEED = int(os.environ.get("RAYFT_RAFT_FIRST_SEED", "0"))
FOLLOWED_MS_MAX = 1000


@pytest.mark.timeout(1800)
def test_seeds() -> None:
    """The checkers find no violation. After the leader is killed, a new one needs one epoch (99 of 100 seeds) and well
    under a second."""
    outcomes = [run(seed) for seed in range(FIRST_SEED, FIRST_SEED + SEEDS)]
    assert sum(one.committed for one in outcomes) > 20 * SEEDS
    kills = [one for one in outcomes if one.kill_epochs]
    assert len(kills) > SEEDS // 2
    epochs = Counter(one.kill_epochs for one in kills)
    assert epochs[1] >= 0.99 * len(kills), epochs
    slow = [one for one in kills if one.kill_ms > FOLLOWED_MS_MAX]
    assert len(slow) <= 0.01 * len(kills), slow[:5]


@pytest.mark.timeout(1800)
def test_quorums_that_change() -> None:
    """Voters are added and removed and lose their disks, and no checker objects (KIP-853). Each quorum grows to all its
    controllers and shrinks to one."""
    outcomes = [raft_quorums.run(seed) for seed in range(FIRST_SEED, FIRST_SEED + CHANGING_SEEDS)]
    assert all({1, 2, 3, 4, 5} <= set(one.sizes) for one in outcomes)
    assert sum(one.changes for one in outcomes) > 10 * CHANGING_SEEDS


@pytest.mark.parametrize("name", raft_planted.PLANTED)
def test_planted_mistake_is_caught(name: str) -> None:
    """The recorded seed and checker catch it, and nothing is caught without the mistake."""
    recorded = raft_planted.recorded()[name]
    assert raft_planted.caught(name, recorded["seed"]) == recorded["checker"]
    raft_planted.clean(name, recorded["seed"])


def test_a_seed_replays_exactly() -> None:
    assert run(11) == run(11)
    assert raft_quorums.run(11) == raft_quorums.run(11)
