"""Fencing, controlled shutdown and the return of brokers: changes all partitions that are concerned, in slices.

This file alone decides the size of the slices, and when such work is done. Each operation here is one slice and is run
again until it reports its end. What a slice looks at counts, not only what it writes. All brokers that have come back
share one search, and a setting of one topic is a reason to look at the partitions of that topic alone. Every prefix of
the slices is a valid state. A new leader begins anew with what the old one left (readings A20, A31, A32, A38, A50).
"""

from collections.abc import Iterator
from typing import Any

from actors.controller.configs import unclean_allowed
from actors.controller.partitions.partition_changes import (
    PartitionChange,
    able,
    changed,
    choose_leader,
    completed,
    elect,
    leave,
)
from actors.controller.soft_state import Search
from actors.controller.state import Result, State
from actors.metadata.ops import PartitionsChanged, PartitionsSet
from actors.ports import Now, Random
from fastpath.image.isr_removal import departures

SLICE_ROWS = 20_000
"""The number of partitions changed in one slice. Between two slices the control lane runs."""
ROWS_LOOKED_AT = 4_000
"""The number of partitions looked at in one slice of a search, each by itself."""


def fence(state: State, broker: int, now: Now, random: Random) -> Result:
    """Change one slice of the partitions that a departing broker leaves; `reply` says whether the departure has ended.
    The last op fences the broker or, if an operator has given it up, ends its registration."""
    soft = state.soft
    departure = soft.leaving[broker]
    ops, next_row = _leaving(state, broker, departure.next_row, departure.give_up)
    if next_row >= 0:
        soft.leaving[broker] = departure._replace(next_row=next_row)
        return Result(ops, False, atomic=False)
    registered = state.image.broker(broker)
    if registered is not None and departure.give_up:  # fenced before or not: nothing of it is to stay
        ops.append(state.family.unregistered(broker, registered.epoch))
    elif registered is not None and not registered.fenced:  # one that is fenced already needs no second record
        ops.append(state.family.fenced(broker, registered.epoch))
    del soft.leaving[broker]
    soft.changed()
    return Result(ops, True, atomic=False)


def move(state: State, broker: int, now: Now, random: Random) -> Result:
    """Change one slice of the partitions of a controlled shutdown: other replicas take over leaderships and ISR
    memberships. The sole member of an ISR stays a member, but no longer leads (A50)."""
    shutdown = state.soft.stopping[broker]
    ops, shutdown.next_row = _leaving(state, broker, shutdown.next_row, False)
    return Result(ops, shutdown.next_row < 0, atomic=False)


def come_back(state: State, wanted: None, now: Now, random: Random) -> Result:
    """Look at one slice of the partitions that brokers which have come back, or topics that allow unclean elections
    now, may make possible to change; `reply` is the number of partitions that it has looked at. It completes
    reassignments that only waited for a member of the target that can lead, and gives partitions without a leader one,
    from their ISR or, where the topic allows it, from their replicas."""
    soft, image = state.soft, state.image
    search = soft.search or _next_search(state)
    rows = search.rows[search.place : search.place + ROWS_LOOKED_AT]
    search.place += len(rows)
    soft.search = search if search.place < len(search.rows) else None
    allowed: dict[int, bool] = {}
    changes = []
    for row in rows:
        if not image.is_partition(row):
            continue  # its topic was deleted since
        topic = image.topic_of(row)
        if image.leader(row) >= 0:
            present = PartitionChange(row, image.isr(row), image.leader(row))
            change = present if completed(state, present) is not None else None
        else:
            if topic not in allowed:
                allowed[topic] = unclean_allowed(state, topic)
            change = elect(state, row, allowed[topic])
        if change is not None:
            changes.append(change)
    return Result(changed(state, changes), len(rows), atomic=False)


def _next_search(state: State) -> Search:
    """The next search: reassignments and partitions without a leader, for all brokers that have come back; or the
    partitions of one topic."""
    soft, image = state.soft, state.image
    if not soft.electing:
        topic_id = next(iter(soft.allowing))
        del soft.allowing[topic_id]
        topic = image.topic_by_id(topic_id)
        return Search(image.topic_partitions(topic) if topic >= 0 else ())
    anywhere = any(image.counts(broker)[0] for broker in soft.electing)
    soft.electing = {}
    found = [*image.rows_moved(), *_rows(image.rows_led_by(-1))] if anywhere else []
    return Search(list(dict.fromkeys(found)))  # a partition without a leader may be moved as well


def unreadable(state: State, broker: int, topics: Any) -> list[PartitionsChanged | PartitionsSet]:
    """The changes for the partitions that a broker says it cannot read. The broker leaves their ISRs and leaderships as
    if it were fenced. The last member of an ISR stays a member, but no longer leads."""
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


def without_room(state: State, broker: int, topics: Any) -> list[PartitionsChanged | PartitionsSet]:
    """The changes for the partitions that a broker leads but has no room for. Another member of the ISR becomes leader,
    if there is one. The ISR stays: this broker still holds what is committed, and the new leader removes members that
    do not keep up."""
    image, changes = state.image, []
    for row in _rows_of(state, topics):
        if image.leader(row) != broker:
            continue
        others = frozenset(able(state, row)) - {broker}
        leader = choose_leader(image.replicas(row), image.isr(row), others)
        if leader >= 0:
            changes.append(PartitionChange(row, image.isr(row), leader))
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
    one_epoch = state.family.one_epoch or bool(state.soft.legacy)  # as in `partition_changes.next_epochs`
    aside = _unreadable_rows(state, broker)
    block, judged, next_row = departures(image, broker, usable, from_row, SLICE_ROWS, one_epoch, aside)
    changes = [change for row in judged if (change := leave(state, row, broker, give_up)) is not None]
    ops: list[Any] = [PartitionsChanged(block)] if len(block) else []
    return ops + changed(state, changes), next_row


def _unreadable_rows(state: State, broker: int) -> frozenset[int]:
    """The partitions whose replica on another broker than this one cannot be read, so that the compiled pass cannot
    know the next leader."""
    image = state.image
    others = [found for id, found in state.soft.unreadable.items() if id != broker]
    named = ((image.topic_by_id(topic_id), number) for found in others for topic_id, number in found)
    return frozenset(image.partition(topic, number) for topic, number in named if topic >= 0)


def _rows(rows: Any) -> list[int]:
    found: list[int] = rows.tolist() if hasattr(rows, "tolist") else list(rows)
    return found
