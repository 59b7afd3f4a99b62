"""The way of one member to its target tasks, step by step, beside what other members have."""

import pytest

from actors.broker.groups.reconciliation import Fenced
from actors.broker.groups.streams.answers import Tasks
from actors.broker.groups.streams.reconciliation import StreamsMemberToReconcile, reconcile
from actors.broker.groups.streams.state import Current, MemberState, OwnedTasks

STABLE, UNREVOKED, UNRELEASED, UNKNOWN = MemberState


def some(*numbers: int) -> dict[str, frozenset[int]]:
    return {"s": frozenset(numbers)} if numbers else {}


def current(state: MemberState, epoch: int, active: dict[int, int], standby: tuple[int, ...] = ()) -> Current:
    return Current(
        epoch, epoch - 1, state, OwnedTasks({"s": active} if active else {}, some(*standby), {}), OwnedTasks()
    )


def step(
    before: Current, target: Tasks, epoch: int, owned: Tasks | None = None, taken: tuple[tuple[str, int], ...] = ()
) -> Current:
    return reconcile(
        StreamsMemberToReconcile(before, epoch, target, owned, lambda role, _, number: (role, number) not in taken)
    )


def test_a_member_keeps_its_epoch_until_it_has_let_go_and_then_has_one_of_its_own() -> None:
    target = Tasks(some(1, 2))
    asked = step(current(STABLE, 3, {0: 2, 1: 2}), target, 5, owned=Tasks(some(0, 1)))
    assert (asked.state, asked.epoch, asked.previous_epoch) == (UNREVOKED, 3, 3)
    assert (asked.assigned.active, asked.revoking.active) == ({"s": {1: 2}}, {"s": {0: 2}})
    assert step(asked, target, 5, owned=Tasks(some(0, 1))) is asked and step(asked, target, 5) is asked
    done = step(asked, target, 5, owned=Tasks(some(1)))
    assert (done.state, done.epoch) == (STABLE, 5) and done.assigned.active == {"s": {1: 2, 2: 5}}
    assert not done.revoking.any()
    more = step(asked, Tasks(some(2)), 6, owned=Tasks(some(1)))
    assert (more.state, more.epoch, more.revoking.active) == (UNREVOKED, 4, {"s": {1: 2}}), "between the two"


def test_another_role_is_let_go_of_first() -> None:
    """The task that a member has as a standby one is given to it as an active one only when it has it no more."""
    before = current(STABLE, 3, {}, standby=(0,))
    asked = step(before, Tasks(some(0)), 4, owned=Tasks({}, some(0)), taken=(("active", 0),))
    assert (asked.state, asked.revoking.standby, asked.assigned.active) == (UNREVOKED, some(0), {})
    waits = step(asked, Tasks(some(0)), 4, owned=Tasks(), taken=(("active", 0),))
    assert (waits.state, waits.epoch, waits.assigned.active) == (UNRELEASED, 4, {})
    assert step(waits, Tasks(some(0)), 4, owned=Tasks()).assigned.active == {"s": {0: 4}}


def test_tasks_that_are_elsewhere_are_waited_for_in_each_role_and_the_others_run() -> None:
    target = Tasks(some(0, 1), some(2, 3), some(4, 5))
    taken = (("active", 1), ("standby", 3), ("warmup", 5))
    waits = step(current(STABLE, 3, {}), target, 4, owned=Tasks(), taken=taken)
    assert (waits.state, waits.epoch) == (UNRELEASED, 4)
    assert waits.assigned == OwnedTasks({"s": {0: 4}}, some(2), some(4))
    for role in taken:
        assert step(current(STABLE, 3, {}), target, 4, owned=Tasks(), taken=(role,)).state is UNRELEASED
    assert step(waits, target, 4, owned=Tasks(some(0), some(2), some(4))).state is STABLE


def test_a_state_of_a_later_version_is_begun_anew() -> None:
    for owned in (None, Tasks(some(0)), Tasks({}, {}, some(0))):
        with pytest.raises(Fenced, match="must abandon all its tasks and rejoin"):
            step(current(UNKNOWN, 3, {0: 1}), Tasks(some(0)), 4, owned=owned)
    assert step(current(UNKNOWN, 3, {}), Tasks(some(0)), 4, owned=Tasks()).state is STABLE
