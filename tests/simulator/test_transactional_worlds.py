"""Whole clusters with transactions under faults, and planted mistakes that they must find."""

from collections.abc import Callable
from typing import Any

import pytest

from actors.broker.groups.transactional_offsets import TransactionalOffsets
from actors.broker.transactions.coordinator import Coordinator
from actors.node.roles.broker.transaction_verification import TransactionVerification
from tests.simulator.transactional import simulate

SEEDS = range(1, 5)


@pytest.mark.parametrize("seed", SEEDS)
def test_committed_readers_see_each_transaction_whole_or_not_at_all(seed: int) -> None:
    result = simulate(seed)
    assert result.ok, f"python -m tests.simulator.transactional {seed}: {result.text}"
    assert result.counts["transactions seen"] > 20


def test_a_seed_decides_everything() -> None:
    assert simulate(SEEDS[0]).digest == simulate(SEEDS[0]).digest


def planted(owner: Any, name: str, other: Callable[..., Any]) -> Callable[[], Callable[[], None]]:
    def patch() -> Callable[[], None]:
        before = getattr(owner, name)
        setattr(owner, name, other)
        return lambda: setattr(owner, name, before)

    return patch


def nothing(*_: Any, **__: Any) -> None:
    """In place of a function that does something."""


_LOADED = Coordinator.loaded


def forgets_prepared_ends(self: Coordinator, partition: int, epoch: int) -> None:
    _LOADED(self, partition, epoch)
    self.endings.clear()


_ENDED = TransactionalOffsets.ended


def counts_aborted_offsets(self: TransactionalOffsets, producer_id: int, commit: bool) -> Any:
    return _ENDED(self, producer_id, True)


MISTAKES = {
    "a new coordinator forgets prepared ends": planted(Coordinator, "loaded", forgets_prepared_ends),
    "transactions over their time stay": planted(Coordinator, "_abort_timed_out", nothing),
    "aborted offsets count": planted(TransactionalOffsets, "ended", counts_aborted_offsets),
    "a partition is not added": planted(TransactionVerification, "_needed", lambda self, question, client: False),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake: str) -> None:
    for seed in range(1, 9):
        result = simulate(seed, [MISTAKES[mistake]])
        if not result.ok:
            assert result.checker in (
                "no_open_transaction",
                "transactions_are_atomic",
                "transactional_offsets",
                "liveness",
            )
            return
    raise AssertionError(f"eight worlds did not find that {mistake}")
