"""Mistakes about disks that fail or lose names, each of which takes a cure out again.

The enumeration of `test_failing_disk.py` finds them without being told. `tests/simulator/planted/disks.py` has those that
whole clusters find.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from actors.broker.log import moving, recovery, truncation
from actors.broker.log.directories.renames import HalfRenamed
from actors.broker.log.log import PartitionLog
from actors.broker.log.moving import Move
from actors.broker.log.names import Names
from actors.broker.log.segment import CUT, CutPoint, Segment
from tests.simulator.planted.registry import Patch, instead
from tests.unit.broker.log import test_failing_disk as enumeration
from tests.unit.broker.log import test_shortage as shortage

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
    unsynced, cut_file = Names.unsynced, truncation._cut_file

    def at_once(log: PartitionLog, segment: Segment, cut: CutPoint, renamed: bool) -> None:
        cut_file(log, segment, cut, False)

    def only_new(names: Names, has_segments: bool) -> Any:
        return [], unsynced(names, has_segments)[1]

    return [instead(Names, "unsynced", only_new), instead(truncation, "_cut_file", at_once)]


def gaps_are_forgotten_by_a_kill() -> Sequence[Patch]:
    """A log that was fetched from a compacted one is not known to have gaps after a kill, and is called damaged."""
    learn = recovery.learn

    def without(*args: Any, **more: Any) -> bool:
        learn(*args, **more)
        return False

    return [instead(recovery, "learn", without)]


def what_cannot_be_removed_is_forgotten() -> Sequence[Patch]:
    """A snapshot of producers behind a cut stays as there is no descriptor, and the log grows past its offset: a start
    believes it."""
    discard = Names.discard

    def forgetful(names: Names, path: str) -> None:
        discard(names, path)
        names._unwanted.clear()

    return [instead(Names, "discard", forgetful)]


def names_stay_changed_in_part() -> Sequence[Patch]:
    """There is no room for the way back, and nobody goes it later."""

    def owe(names: Names, half: HalfRenamed) -> None:
        names.changed()

    return [instead(Names, "owe", owe)]


def a_cut_begins_before_all_is_read() -> Sequence[Patch]:
    """Segments go, and then there is no descriptor to read what the cut of the one before them needs."""
    look, retire = truncation._look, PartitionLog.retire

    def late(log: PartitionLog, segment: Segment, offset: int, prepared: Any) -> Any:
        behind = log.segments[log.segments.index(segment) + 1 :]
        log.retire(behind[::-1], CUT)
        return look(log, segment, offset, prepared)

    def once(log: PartitionLog, segments: Sequence[Segment], ending: str, last: Any = None) -> None:
        retire(log, [one for one in segments if one in log.segments], ending, last)

    return [instead(truncation, "_look", late), instead(PartitionLog, "retire", once)]


def tail_behind_a_moving_start_is_taken_for_lost() -> Sequence[Patch]:
    """A log was flushed, and retention came before the checkpoint: what was to stay goes with a power cut that keeps some of
    the names."""
    return [instead(recovery, "_fill", lambda *args: False)]


def empty_log_that_begins_anew_waits_for_nothing() -> Sequence[Patch]:
    """The checkpoints say that all is durable up to where the log ended before: a start believes what is half written
    there."""
    anew = truncation.truncate_fully

    def hasty(log: PartitionLog, offset: int, now_ms: int = 0, *, inside: bool = False) -> Any:
        jobs = anew(log, offset, now_ms, inside=True)
        log.reach = 0
        return jobs

    return [instead(enumeration, "truncate_fully", hasty)]


def faults_of(name: str) -> Callable[[], None]:
    return lambda: enumeration.test_a_fault_at_each_step_and_a_crash_behind_it(name)


def shortages_of(name: str) -> Callable[[], None]:
    return lambda: shortage.test_a_log_goes_on_without_a_start_when_a_shortage_is_over(name)


FOUND_BY: dict[Callable[[], Sequence[Patch]], tuple[Callable[[], None], str]] = {
    copy_from_before_a_start_takes_over_what_was_cleaned_since: (
        enumeration.test_a_move_that_a_start_interrupts_takes_what_there_is_then,
        "what was cleaned away is back",
    ),
    names_behind_a_cut_are_never_made_durable: (faults_of("truncate and pass"), "stale at byte"),
    what_cannot_be_removed_is_forgotten: (shortages_of("follow another leader a little"), "the next start finds"),
    names_stay_changed_in_part: (
        lambda: shortage.test_a_log_goes_on_where_its_caller_has_given_up("retain"),
        "the next start finds",
    ),
    a_cut_begins_before_all_is_read: (shortages_of("follow another leader"), "short from step"),
    tail_behind_a_moving_start_is_taken_for_lost: (faults_of("retain before the checkpoint"), "step .* fails"),
    empty_log_that_begins_anew_waits_for_nothing: (
        enumeration.test_what_a_log_has_that_began_anew_in_front_of_its_end_is_checked,
        "a start believes what is half written",
    ),
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
