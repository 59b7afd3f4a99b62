"""The way of one member to its target, step by step, beside what another member holds."""

from collections.abc import Mapping

import pytest

from actors.broker.groups.consumer.reconciliation import STRANGE, MemberToReconcile, reconcile
from actors.broker.groups.consumer.state import NOTHING, Current, MemberState
from actors.broker.groups.reconciliation import Fenced

T, U = b"t" * 16, b"u" * 16
STABLE, UNREVOKED, UNRELEASED, UNKNOWN = MemberState
Parts = Mapping[bytes, set[int]]


def current(state: MemberState, epoch: int, assigned: Parts, revoking: Mapping[bytes, set[int]] = {}) -> Current:
    held = [{topic: dict.fromkeys(sorted(some), 1) for topic, some in one.items()} for one in (assigned, revoking)]
    return Current(epoch, epoch - 1, state, *held)


def step(
    before: Current,
    target: Parts,
    epoch: int,
    owned: Parts | None = None,
    taken: Mapping[bytes, set[int]] = {},
    left: tuple[bytes, ...] = (),
    changed: bool = False,
) -> Current:
    """One step. `taken`: what another member holds; `left`: topics to which the member does not subscribe."""
    return reconcile(
        MemberToReconcile(
            before,
            epoch,
            {topic: frozenset(some) for topic, some in target.items()},
            None if owned is None else {topic: frozenset(some) for topic, some in owned.items()},
            lambda topic, number: number not in taken.get(topic, ()),
            lambda topic: topic not in left,
            changed,
        )
    )


def test_a_member_keeps_its_epoch_until_it_has_let_go() -> None:
    before = current(STABLE, 3, {T: {0, 1}})
    asked = step(before, {T: {1, 2}}, 4, owned={T: {0, 1}})
    assert (asked.state, asked.epoch) == (UNREVOKED, 3)
    assert (asked.assigned, asked.revoking) == ({T: {1: 1}}, {T: {0: 1}}), "2 is not given yet"
    assert step(asked, {T: {1, 2}}, 4, owned={T: {0, 1}}) is asked and step(asked, {T: {1, 2}}, 4) is asked
    done = step(asked, {T: {1, 2}}, 4, owned={T: {1}})
    assert (done.state, done.epoch, done.revoking) == (STABLE, 4, NOTHING)
    assert done.assigned == {T: {1: 1, 2: 4}} and done.since(T, 2) == 4, "the epoch in which it was given"


def test_what_the_member_does_not_have_any_more_it_need_not_let_go_of() -> None:
    found = step(current(STABLE, 3, {T: {0}}), {T: {1}}, 4, owned={T: set()})
    assert (found.state, found.epoch, found.assigned) == (STABLE, 4, {T: {1: 4}})


def test_a_partition_of_another_member_is_waited_for_and_the_others_are_used() -> None:
    waits = step(current(STABLE, 3, {T: {0}}), {T: {0, 1, 2}}, 4, owned={T: {0}}, taken={T: {1}})
    assert (waits.state, waits.epoch, waits.assigned) == (UNRELEASED, 4, {T: {0: 1, 2: 4}})
    free = step(waits, {T: {0, 1, 2}}, 4, owned={T: {0, 2}})
    assert (free.state, free.epoch, free.assigned) == (STABLE, 4, {T: {0: 1, 1: 4, 2: 4}})


def test_what_it_does_not_subscribe_to_any_more_is_taken_before_there_is_a_new_target() -> None:
    before = current(STABLE, 3, {T: {0}, U: {0}})
    asked = step(before, {T: {0}, U: {0}}, 3, owned={T: {0}, U: {0}}, left=(U,), changed=True)
    assert (asked.state, asked.epoch, asked.assigned, asked.revoking) == (UNREVOKED, 3, {T: {0: 1}}, {U: {0: 1}})
    assert step(before, {T: {0}, U: {0}}, 3, left=(U,), changed=False) is before
    again = step(asked, {T: {0}, U: {0}}, 3, owned={T: {0}, U: {0}}, left=(U, T), changed=True)
    assert again.assigned == {} and again.revoking == {T: {0: 1}, U: {0: 1}}


def test_a_state_of_a_later_version_is_begun_anew() -> None:
    before = current(UNKNOWN, 3, {T: {0}})
    for owned in (None, {T: {0}}):
        with pytest.raises(Fenced, match=STRANGE):
            step(before, {T: {0}}, 4, owned=owned)
    assert step(before, {T: {0}}, 4, owned={T: set()}).state is STABLE
