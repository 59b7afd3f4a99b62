"""Random histories of committed offsets hold what they have to, and show mistakes that are planted in the code."""

from collections.abc import Callable
from typing import Any

import pytest

from actors.broker.groups.coordinator import Coordinator
from actors.broker.groups.transactional_offsets import TransactionalOffsets
from actors.broker.log.producers.producers import Producers
from actors.node.api import offset_commits
from actors.node.api.handlers import txn_offset_commit
from actors.node.runtime import slices
from actors.wire.errors import ErrorCode
from tests.unit.node.roles.broker.transactions import offsets_model
from tests.unit.node.roles.broker.transactions.offsets_model import Wrong, run

STEPS = 40
LOAD, ENDED = Coordinator.load, TransactionalOffsets.ended


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "ENTRIES_A_SLICE", offsets_model.ENTRIES_A_SLICE)


@pytest.mark.parametrize("seed", range(12))
def test_a_history_of_committed_offsets(seed: int) -> None:
    """What is told is what is remembered."""
    run(seed, STEPS)


def nothing(*_: Any) -> None:
    """In the place of a function with an effect."""


def no_error(*_: Any) -> ErrorCode:
    return ErrorCode.NONE


def no_keys(*_: Any) -> int:
    return 0


def loads_all_as_committed(self: Any, partition: int, epoch: int, records: Any, producer_id: int = -1) -> list[str]:
    return LOAD(self, partition, epoch, records)


def aborted_counts(self: Any, producer_id: int, commit: bool, order: int) -> Any:
    return ENDED(self, producer_id, True, order)


MISTAKES: dict[str, tuple[list[tuple[Any, str, Callable[..., Any]]], int]] = {
    "nothing is asked again behind a pause": ([(offset_commits, "_error_now", no_error)], 0),
    "a fenced producer is not asked about": (
        [
            (txn_offset_commit, "_admitted", no_error),
            (Producers, "check_epoch", nothing),
        ],
        0,
    ),
    "aborted offsets count": ([(TransactionalOffsets, "ended", aborted_counts)], 1),
    "an older offset of a transaction takes the place of a newer one": ([(TransactionalOffsets, "set", nothing)], 10),
    "offsets of open transactions are loaded as committed": ([(Coordinator, "load", loads_all_as_committed)], 0),
    "markers are not loaded": ([(Coordinator, "load_end", nothing)], 1),
    "offsets of deleted topics stay": ([(Coordinator, "_forget_of", no_keys)], 0),
}
"""Name -> what is changed, and a seed that shows it."""


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changes, seed = MISTAKES[name]
    for place, attribute, mistake in changes:
        monkeypatch.setattr(place, attribute, mistake)
    with pytest.raises(Wrong):
        run(seed, STEPS)
