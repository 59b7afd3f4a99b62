"""Mistakes about disks that fail or lose names, each of which takes a cure out again.

The enumeration of `test_failing_disk.py` finds them without being told. `tests/simulator/planted/disks.py` has those that
whole clusters find.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from actors.broker.log import moving, recovery
from actors.broker.log.log import PartitionLog
from actors.broker.log.moving import Move
from actors.broker.log.names import Names
from tests.simulator.planted.registry import Patch, instead
from tests.unit.broker.log import test_failing_disk as enumeration

pytestmark = pytest.mark.long


def copy_from_before_a_start_takes_over_what_was_cleaned_since() -> Sequence[Patch]:
    """A move goes on after a start with what it had copied before. The current log was cleaned meanwhile, and what it says
    of itself is taken for the copy too: a deleted key comes back for ever."""
    init, succeed = Move.__init__, moving._succeed

    def filled(move: Move, *logs: PartitionLog) -> None:
        init(move, *logs)
        move._filled = True

    def all_of_it(future: PartitionLog, current: PartitionLog) -> None:
        succeed(future, current)
        future.cleaned_offset = current.cleaned_offset

    return [instead(Move, "__init__", filled), instead(moving, "_succeed", all_of_it)]


def names_behind_a_cut_are_never_made_durable() -> Sequence[Patch]:
    """What a cut has renamed away comes back with a power cut, behind what was written since."""
    unsynced = Names.unsynced

    def only_new(names: Names, has_segments: bool) -> Any:
        return [], unsynced(names, has_segments)[1]

    return [instead(Names, "unsynced", only_new)]


def gaps_are_forgotten_by_a_kill() -> Sequence[Patch]:
    """A log that was fetched from a compacted one is not known to have gaps after a kill, and is called damaged."""
    learn = recovery.learn

    def without(*args: Any, **more: Any) -> bool:
        learn(*args, **more)
        return False

    return [instead(recovery, "learn", without)]


def faults_of(name: str) -> Callable[[], None]:
    return lambda: enumeration.test_a_fault_at_each_step_and_a_crash_behind_it(name)


FOUND_BY: dict[Callable[[], Sequence[Patch]], tuple[Callable[[], None], str]] = {
    copy_from_before_a_start_takes_over_what_was_cleaned_since: (
        enumeration.test_a_move_that_a_start_interrupts_takes_what_there_is_then,
        "what was cleaned away is back",
    ),
    names_behind_a_cut_are_never_made_durable: (faults_of("truncate and pass"), "old records behind a cut"),
    gaps_are_forgotten_by_a_kill: (faults_of("fetch what has gaps"), "readers would call it damaged"),
}
"""The sequence that finds a mistake, and what it says."""


@pytest.mark.parametrize("plant", FOUND_BY, ids=lambda plant: plant.__name__)
def test_the_enumeration_finds_a_planted_mistake(plant: Callable[[], Sequence[Patch]]) -> None:
    sequence, said = FOUND_BY[plant]
    with ExitStack() as stack, pytest.raises(AssertionError, match=said):
        for one in plant():
            stack.enter_context(one)
        sequence()
