"""The way of one member of a streams group to its target assignment, as two tables (KIP-1071).

This file alone decides which tasks a member is told to let go of, which it is given, and in which epoch it is then. Rules:

1. A member keeps its epoch until it has let go of all that the target does not give it, or gives it in another role. Then
   it is in the target's epoch.
2. It is given an active task only when the task is active nowhere, and its process has it in no other role. It is given a
   standby or a warm-up task only when its process has it in no role. A member that waits for one is UNRELEASED_TASKS, and
   runs the others.
3. It has let go of a task when it names what it has, and that is not in it.

It is a function of values. The group tells which member has what, as it was before this step.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from actors.broker.groups.reconciliation import Fenced, Row, always, behind, next_step
from actors.broker.groups.streams.answers import Tasks, TaskSets
from actors.broker.groups.streams.state import Current, Epochs, MemberState, OwnedTasks


class StreamsMemberToReconcile(NamedTuple):
    """One member and the target that it is to reach. `owned`: what it says that it has; None: it did not say.
    `available`: whether it may be given a task in a role."""

    current: Current
    target_epoch: int
    target: Tasks
    owned: Tasks | None
    available: Callable[[str, str, int], bool]


STRANGE = "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."
"""The sentence for a member whose state is unknown here."""


def reconcile(question: StreamsMemberToReconcile) -> Current:
    """The next state of the member; the same where nothing can be done yet. Raises Fenced."""
    return next_step(STEPS, question, question.current)


# ---- conditions


def _still_has(question: StreamsMemberToReconcile) -> bool:
    return _owns(question, question.current.revoking)


def _has_something(question: StreamsMemberToReconcile) -> bool:
    return question.owned is None or question.owned.any()


# ---- steps


def _stay(question: StreamsMemberToReconcile) -> Current:
    return question.current


def _fence(question: StreamsMemberToReconcile) -> Current:
    raise Fenced(STRANGE)


def _advance(question: StreamsMemberToReconcile) -> Current:
    return _compared(question, question.current.epoch)


def _advance_from_next(question: StreamsMemberToReconcile) -> Current:
    """The next state of a member that has let go, and is in an epoch of its own between the two, as with Apache
    Kafka."""
    return _compared(question, question.current.epoch + 1)


def _advance_from_target(question: StreamsMemberToReconcile) -> Current:
    return _compared(question, question.target_epoch)


STEPS: Mapping[MemberState, Row[StreamsMemberToReconcile, Current]] = {
    MemberState.STABLE: ((behind, _advance), (always, _stay)),
    MemberState.UNREVOKED_TASKS: ((_still_has, _stay), (always, _advance_from_next)),
    MemberState.UNRELEASED_TASKS: ((always, _advance),),
    MemberState.UNKNOWN: ((_has_something, _fence), (always, _advance_from_target)),
}
"""The step for each state of a member, by the first condition that holds."""

OUTCOMES: Mapping[tuple[bool, bool], tuple[MemberState, bool]] = {
    # (something to let go of, something that is not free) -> (state, whether it is in the target's epoch)
    (True, True): (MemberState.UNREVOKED_TASKS, False),
    (True, False): (MemberState.UNREVOKED_TASKS, False),
    (False, True): (MemberState.UNRELEASED_TASKS, True),
    (False, False): (MemberState.STABLE, True),
}


def _compared(question: StreamsMemberToReconcile, epoch: int) -> Current:
    """The next state of a member whose present and target assignment are compared, role by role. `epoch`: that of a
    member which has something to let go of."""
    current, target, target_epoch = question.current, question.target, question.target_epoch
    active = _split("active", current.assigned.active, target.active, question)
    standby = _split("standby", current.assigned.standby, target.standby, question)
    warmup = _split("warmup", current.assigned.warmup, target.warmup, question)
    since = current.assigned.active
    kept = OwnedTasks(_epochs(active.kept, since), standby.kept, warmup.kept)
    revoking = OwnedTasks(_epochs(active.revoked, since), standby.revoked, warmup.revoked)
    unreleased = active.waits or standby.waits or warmup.waits
    state, follows = OUTCOMES[revoking.any() and _owns(question, revoking), unreleased]
    if not follows:
        return current.at(epoch)._replace(state=state, assigned=kept, revoking=revoking)
    given = {one: dict(numbers) for one, numbers in kept.active.items()}
    for one, numbers in active.given.items():
        given.setdefault(one, {}).update(dict.fromkeys(sorted(numbers), target_epoch))
    assigned = OwnedTasks(given, _union(standby.kept, standby.given), _union(warmup.kept, warmup.given))
    return current.at(target_epoch)._replace(state=state, assigned=assigned, revoking=OwnedTasks())


class _Split(NamedTuple):
    """Tasks of one role: kept, revoked, given now; whether some are still elsewhere."""

    kept: TaskSets
    revoked: TaskSets
    given: TaskSets
    waits: bool


def _split(
    role: str, present: Mapping[str, Iterable[int]], target: TaskSets, question: StreamsMemberToReconcile
) -> _Split:
    kept: dict[str, frozenset[int]] = {}
    revoked: dict[str, frozenset[int]] = {}
    given: dict[str, frozenset[int]] = {}
    waits = False
    for one in sorted({*present, *target}):
        has, wanted = frozenset(present.get(one, ())), target.get(one, frozenset())
        new = wanted - has
        free = frozenset(number for number in new if question.available(role, one, number))
        waits = waits or free != new
        for found, numbers in ((kept, has & wanted), (revoked, has - wanted), (given, free)):
            if numbers:
                found[one] = numbers
    return _Split(kept, revoked, given, waits)


def _epochs(tasks: TaskSets, since: Epochs) -> Epochs:
    return {one: {number: since[one][number] for number in sorted(numbers)} for one, numbers in tasks.items()}


def _union(left: TaskSets, right: TaskSets) -> TaskSets:
    return {one: left.get(one, frozenset()) | right.get(one, frozenset()) for one in sorted({*left, *right})}


def _owns(question: StreamsMemberToReconcile, held: OwnedTasks) -> bool:
    """Whether the member has some of these tasks, as far as it has said."""
    if question.owned is None:
        return True
    for owned, tasks in zip(question.owned, held.tasks(), strict=True):
        if any(not numbers.isdisjoint(owned.get(one, frozenset())) for one, numbers in tasks.items()):
            return True
    return False
