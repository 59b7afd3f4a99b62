"""Fencing, controlled shutdown and the return of a broker: changes all partitions that are concerned, in slices.

This file alone decides the size of the slices, and when such work is done. Each operation here writes one slice and is
run again until it reports its end. Every prefix of the slices is a valid state. A new leader begins anew with what the
old one left (readings A20, A31, A32, A38, A50).
"""

from collections.abc import Iterator
from typing import Any

from actors.controller.changes import Change, able, changed, choose_leader, elect, leave
from actors.controller.configs import unclean_allowed
from actors.controller.reassignments import completed
from actors.controller.state import Result, State
from actors.metadata.image import Rows
from actors.metadata.ops import PartitionsChanged
from actors.ports import Now, Random
from fastpath.image.isr_removal import departures

SLICE_ROWS = 20_000
"""The number of partitions changed in one slice. Between two slices the control lane runs."""


def fence(state: State, broker: int, now: Now, random: Random) -> Result:
    """One slice of a departure; `reply` says whether it has ended. The last op fences the broker or, where it is given up on
    purpose, ends its registration."""
    soft = state.soft
    departure = soft.leaving[broker]
    ops, next_row = _leaving(state, broker, departure.next_row, departure.give_up)
    if next_row >= 0:
        soft.leaving[broker] = departure._replace(next_row=next_row)
        return Result(ops, False, atomic=False)
    registered = state.image.broker(broker)
    if registered is not None and departure.give_up:  # fenced before or not: nothing of it is to stay
        ops.append(state.family.unregistered(broker, registered.epoch))
    elif registered is not None and not registered.fenced:  # who is fenced already needs no second record
        ops.append(state.family.fenced(broker, registered.epoch))
    del soft.leaving[broker]
    soft.changed()
    return Result(ops, True, atomic=False)


def move(state: State, broker: int, now: Now, random: Random) -> Result:
    """One slice of a controlled shutdown: other replicas take over leaderships and ISR memberships. The sole member of
    an ISR stays a member, but leads no more (A50)."""
    shutdown = state.soft.stopping[broker]
    ops, shutdown.next_row = _leaving(state, broker, shutdown.next_row, False)
    return Result(ops, shutdown.next_row < 0, atomic=False)


def come_back(state: State, broker: int, now: Now, random: Random) -> Result:
    """One slice of a broker's return. It completes reassignments that only waited for a member of the target that can
    lead. It makes `broker` leader of partitions without a leader, if it is in their ISR, or if it is a replica of a
    topic that allows unclean elections."""
    image = state.image
    waiting = (row for row in image.rows_moved() if broker in image.isr(row))
    ended = [whole[0] for row in waiting if (whole := completed(state, row, image.isr(row))) is not None]
    if ended:
        return Result(ended, False, atomic=False)
    changes = []
    if image.counts(broker)[0]:
        allowed: dict[int, bool] = {}
        for row in _rows(_leaderless(state)):
            if broker not in image.replicas(row):
                continue
            topic = image.topic_of(row)
            if topic not in allowed:
                allowed[topic] = unclean_allowed(state, topic)
            change = elect(state, row, allowed[topic])
            if change is not None:
                changes.append(change)
                if len(changes) == SLICE_ROWS:
                    break
    return Result(changed(state, changes), len(changes) < SLICE_ROWS, atomic=False)


def unreadable(state: State, broker: int, topics: Any) -> list[PartitionsChanged]:
    """The partitions that a broker says it cannot read. The broker leaves their ISRs and leaderships as if it were
    fenced. The last member of an ISR stays a member, but leads no more."""
    soft = state.soft
    before = soft.unreadable.pop(broker, frozenset())
    now = frozenset((topic.topic_id, number) for topic in topics for number in topic.partitions)
    if now:
        soft.unreadable[broker] = now
    if before - now:
        soft.electing[broker] = None  # it may lead again partitions that have no leader
    return changed(
        state, [change for row in _rows_of(state, topics) if (change := leave(state, row, broker)) is not None]
    )


def without_room(state: State, broker: int, topics: Any) -> list[PartitionsChanged]:
    """The partitions that a broker leads but has no room for. Another member of the ISR becomes leader, if there is
    one. The ISR stays: this broker still holds what is committed, and the new leader removes members that do not keep
    up."""
    image, changes = state.image, []
    for row in _rows_of(state, topics):
        if image.leader(row) != broker:
            continue
        others = frozenset(able(state, row)) - {broker}
        leader = choose_leader(image.replicas(row), image.isr(row), others)
        if leader >= 0:
            changes.append(Change(row, image.isr(row), leader))
    return changed(state, changes)


def _rows_of(state: State, topics: Any) -> Iterator[int]:
    """The partitions that a heartbeat names and that exist, each once."""
    image = state.image
    seen: set[int] = set()
    for topic in topics:
        topic_row = image.topic_by_id(topic.topic_id)
        for number in topic.partitions if topic_row >= 0 else ():
            row = image.partition(topic_row, number)
            if row >= 0 and row not in seen:
                seen.add(row)
                yield row


def _leaving(state: State, broker: int, from_row: int, give_up: bool) -> tuple[list[Any], int]:
    """(ops of one slice, the row where the next one begins or -1). A broker that leaves joins no further ISR, so rows
    that were passed need no second look."""
    image = state.image
    if image.counts(broker)[2] == 0:
        return [], -1
    usable = state.soft.usable(image).ids
    one_epoch = state.family.one_epoch or bool(state.soft.legacy)  # as in `changes.next_epochs`
    block, judged, next_row = departures(image, broker, usable, from_row, SLICE_ROWS, one_epoch)
    changes = [change for row in judged if (change := leave(state, row, broker, give_up)) is not None]
    ops: list[Any] = [PartitionsChanged(block)] if len(block) else []
    return ops + changed(state, changes), next_row


def _leaderless(state: State) -> Rows:
    """Partitions without a leader. A new active controller looks at the returns of all brokers one after the other, and they
    find the same ones until something is written: one search serves them all."""
    soft, image = state.soft, state.image
    offset, found = soft.leaderless
    if offset != image.next_offset:
        found = image.rows_led_by(-1)
        soft.leaderless = image.next_offset, found
    return found


def _rows(rows: Any) -> list[int]:
    found: list[int] = rows.tolist() if hasattr(rows, "tolist") else list(rows)
    return found
