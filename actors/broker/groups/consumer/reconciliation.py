"""The way of one member to its target assignment, as two tables (KIP-848).

This file alone decides what a member is told to let go of, what it is given, and in which epoch it is then. Rules:

1. A member keeps its epoch until it has let go of all that the target does not give it. Then it is in the target's epoch.
2. It is given a partition only when nobody else holds it. A member that waits for one is UNRELEASED_PARTITIONS, and uses the
   others.
3. It has let go of a partition when it names what it has, and that is not in it.
4. What it does not subscribe to any more is taken from it even before there is another target.

It is a function of values. The group tells which member holds what.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from actors.broker.groups.consumer.state import NOTHING, Current, Held, MemberState, Target
from actors.broker.groups.reconciliation import Fenced, Row, always, behind, next_step

Owned = Mapping[bytes, frozenset[int]]
"""The partitions that a member says that it has, by topic id."""


class MemberToReconcile(NamedTuple):
    """One member and the target that it is to reach. `owned`: None: it did not say. `available`: whether no other
    member holds a partition. `subscribes`: whether the member subscribes to a topic id. `changed`: its subscription has
    changed just now."""

    current: Current
    target_epoch: int
    target: Target
    owned: Owned | None
    available: Callable[[bytes, int], bool]
    subscribes: Callable[[bytes], bool]
    changed: bool


STRANGE = "The member's state is of a later version. The member must abandon all its partitions and rejoin."
"""The sentence for a member whose state is unknown here."""


def reconcile(question: MemberToReconcile) -> Current:
    """The next state of the member; the same where nothing can be done yet. Raises Fenced."""
    return next_step(STEPS, question, question.current)


# ---- conditions


def _changed(question: MemberToReconcile) -> bool:
    return question.changed


def _still_has(question: MemberToReconcile) -> bool:
    return _owns(question, question.current.revoking)


def _still_has_and_changed(question: MemberToReconcile) -> bool:
    return question.changed and _still_has(question)


def _has_something(question: MemberToReconcile) -> bool:
    return question.owned is None or any(question.owned.values())


# ---- steps


def _stay(question: MemberToReconcile) -> Current:
    return question.current


def _fence(question: MemberToReconcile) -> Current:
    raise Fenced(STRANGE)


def _drop_unsubscribed(question: MemberToReconcile) -> Current:
    """Ask partitions back to which the member no longer subscribes, in the same epoch, and give nothing."""
    current = question.current
    assigned = {topic: held for topic, held in current.assigned.items() if question.subscribes(topic)}
    if len(assigned) == len(current.assigned):
        return current
    revoking = {topic: dict(held) for topic, held in current.revoking.items()}
    for topic, held in current.assigned.items():
        if topic not in assigned:
            revoking.setdefault(topic, {}).update(held)
    current = current.at(current.epoch)._replace(assigned=assigned)
    if _owns(question, revoking):
        return current._replace(state=MemberState.UNREVOKED_PARTITIONS, revoking=revoking)
    return current


def _advance(question: MemberToReconcile) -> Current:
    return _compared(question, question.current.epoch)


def _advance_from_target(question: MemberToReconcile) -> Current:
    return _compared(question, question.target_epoch)


STEPS: Mapping[MemberState, Row[MemberToReconcile, Current]] = {
    MemberState.STABLE: ((behind, _advance), (_changed, _drop_unsubscribed), (always, _stay)),
    MemberState.UNREVOKED_PARTITIONS: (
        (_still_has_and_changed, _drop_unsubscribed),
        (_still_has, _stay),
        (always, _advance),
    ),
    MemberState.UNRELEASED_PARTITIONS: ((always, _advance),),
    MemberState.UNKNOWN: ((_has_something, _fence), (always, _advance_from_target)),
}
"""The step for each state of a member, by the first condition that holds."""

OUTCOMES: Mapping[tuple[bool, bool], tuple[MemberState, bool]] = {
    # (something to let go of, something that another member holds) -> (state, whether it is in the target's epoch)
    (True, True): (MemberState.UNREVOKED_PARTITIONS, False),
    (True, False): (MemberState.UNREVOKED_PARTITIONS, False),
    (False, True): (MemberState.UNRELEASED_PARTITIONS, True),
    (False, False): (MemberState.STABLE, True),
}


def _compared(question: MemberToReconcile, epoch: int) -> Current:
    """The next state of a member whose present and target assignment are compared, topic by topic. `epoch`: that of a
    member which has something to let go of."""
    current, target_epoch = question.current, question.target_epoch
    assigned: dict[bytes, dict[int, int]] = {}
    revoking: dict[bytes, dict[int, int]] = {}
    given: dict[bytes, dict[int, int]] = {}
    unreleased = False
    for topic in dict.fromkeys((*question.target, *current.assigned)):
        wanted = question.target.get(topic, frozenset()) if question.subscribes(topic) else frozenset()
        held = current.assigned.get(topic, {})
        kept = {n: since for n, since in held.items() if n in wanted}
        if kept:
            assigned[topic] = kept
        if len(kept) < len(held):
            revoking[topic] = {n: since for n, since in held.items() if n not in wanted}
        for partition in sorted(wanted):
            if partition in kept:
                pass
            elif question.available(topic, partition):
                given.setdefault(topic, {})[partition] = target_epoch
            else:
                unreleased = True
    state, follows = OUTCOMES[bool(revoking) and _owns(question, revoking), unreleased]
    if not follows:
        return current.at(epoch)._replace(state=state, assigned=assigned, revoking=revoking)
    for topic, partitions in given.items():
        assigned.setdefault(topic, {}).update(partitions)
    return current.at(target_epoch)._replace(state=state, assigned=assigned, revoking=NOTHING)


def _owns(question: MemberToReconcile, held: Held) -> bool:
    """Whether the member has some of these partitions, as far as it has said."""
    if question.owned is None:
        return True
    return any(not partitions.isdisjoint(held.get(topic, ())) for topic, partitions in question.owned.items())
