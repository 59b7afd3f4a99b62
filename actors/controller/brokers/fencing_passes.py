"""Fencing, controlled shutdown and the return of brokers: changes all partitions that are concerned, in slices.

This file alone decides the size of the slices, and when such work is done; which broker is to be fenced,
`heartbeat_leases.py` decides, and which replica leads then, `partitions/leader_election.py`. Each operation here is one
slice and is run again until it reports its end. What a slice looks at counts, not only what it writes. Every prefix of the
slices is a valid state. A new leader begins anew with what the old one left (readings A20, A31, A32, A38, A50).

- All brokers that are being fenced share one pass, which goes round: who comes later joins it where it is, and is done
  when it has come back there. A partition that several of them leave is written once.
- All brokers that have come back share one search, and a setting of one topic is a reason to look at the partitions of
  that topic alone.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from actors.controller.configs import unclean_allowed
from actors.controller.partitions.leader_election import PartitionChange, able, choose_leader, elect, leave
from actors.controller.partitions.partition_changes import changed, completed
from actors.controller.soft_state import Search
from actors.controller.state import Result, State
from actors.metadata.ops import PartitionsChanged, PartitionsSet
from actors.ports import Now, Random
from fastpath.image.clean_elections import elections
from fastpath.image.isr_removal import departures

SLICE_COST = 10_000
"""What one slice may cost, in partitions that are changed by a compiled pass. Between two slices the control lane runs."""
SLICE_COST_MIN = 50
"""What a slice costs at least, whatever it finds: it takes 5 to 30 microseconds to begin and end one."""


class Slice(NamedTuple):
    """What one slice has come to."""

    ended: tuple[int, ...]
    """The brokers whose departure or shutdown has ended with it."""
    cost: int
    """What it has cost, in partitions that are changed by a compiled pass."""


def fence(state: State, wanted: None, now: Now, random: Random) -> Result:
    """Change one slice of the partitions that departing brokers leave; `reply` is a `Slice`. For each broker whose
    departure ends, the last ops fence it or, if an operator has given it up, end its registration."""
    soft, image = state.soft, state.image
    leaving, row = soft.leaving, soft.leaving_row
    for broker, departure in [*leaving.items()]:
        if departure.from_row < 0:
            leaving[broker] = departure._replace(from_row=row)
    in_none = {broker for broker in leaving if image.counts(broker)[2] == 0}
    # A broker that may come back leaves last, so that no ISR is emptied of which it is a member as well.
    given_up_first = sorted(leaving.items(), key=lambda item: not item[1].give_up)
    give_up = {broker: departure.give_up for broker, departure in given_up_first if broker not in in_none}
    ops, next_row, cost = _leaving(state, give_up, row)
    ended = []
    for broker, departure in [*leaving.items()]:
        if next_row < 0:
            is_done = departure.around or departure.from_row == 0
        else:
            is_done = departure.around and next_row >= departure.from_row
        if not (is_done or broker in in_none):
            leaving[broker] = departure._replace(around=departure.around or next_row < 0)
            continue
        ended.append(broker)
        del leaving[broker]
        registered = image.broker(broker)
        if registered is not None and departure.give_up:  # fenced before or not: nothing of it is to stay
            ops.append(state.family.unregistered(broker, registered.epoch))
        elif registered is not None and not registered.fenced:  # one that is fenced already needs no second record
            ops.append(state.family.fenced(broker, registered.epoch))
    soft.leaving_row = max(next_row, 0) if leaving else 0
    if ended:
        soft.changed()
    return Result(ops, Slice(tuple(ended), cost), atomic=False)


def move(state: State, broker: int, now: Now, random: Random) -> Result:
    """Change one slice of the partitions of a controlled shutdown: other replicas take over leaderships and ISR
    memberships. The sole member of an ISR stays a member, but no longer leads (A50). `reply` is a `Slice`."""
    shutdown = state.soft.stopping[broker]
    ops, shutdown.next_row, cost = _leaving(state, {broker: False}, shutdown.next_row)
    return Result(ops, Slice((broker,) if shutdown.next_row < 0 else (), cost), atomic=False)


def come_back(state: State, wanted: None, now: Now, random: Random) -> Result:
    """Look at one slice of the partitions that brokers which have come back, or topics that allow unclean elections
    now, may make possible to change; `reply` is a `Slice`. It completes reassignments that only waited for a member of the
    target that can lead, and gives partitions without a leader one, from their ISR or, where the topic allows it, from
    their replicas."""
    soft, image = state.soft, state.image
    search = soft.search or _next_search(state)
    ops: list[Any] = []
    cost = 1
    if search.rows:
        row, end = search.rows[0]
        block, judged, next_row, cost = elections(
            image,
            soft.usable(image).ids,
            row,
            end,
            SLICE_COST,
            lambda topic: unclean_allowed(state, topic),
            (lambda row: _is_unreadable(state, row)) if soft.unreadable else None,
        )
        changes = [change for row in judged if (change := _found(state, row)) is not None]
        ops = [*([PartitionsChanged(block)] if len(block) else ()), *changed(state, changes)]
        search.rows[:1] = [(next_row, end)] if next_row >= 0 else ()
    soft.search = search if search.rows else None
    return Result(ops, Slice((), cost), atomic=False)


def _found(state: State, row: int) -> PartitionChange | None:
    """The change of a partition that a search has found; None: it stays."""
    image = state.image
    if image.leader(row) < 0:
        return elect(state, row, unclean_allowed(state, image.topic_of(row)))
    present = PartitionChange(row, image.isr(row), image.leader(row))
    return present if completed(state, present) is not None else None


def _next_search(state: State) -> Search:
    """The next search: reassignments and partitions without a leader, for all brokers that have come back; or the
    partitions of one topic."""
    soft, image = state.soft, state.image
    if not soft.electing:
        topic_id = next(iter(soft.allowing))
        del soft.allowing[topic_id]
        topic = image.topic_by_id(topic_id)
        return Search(image.topic_ranges(topic) if topic >= 0 else [])
    anywhere = any(image.counts(broker)[0] for broker in soft.electing)
    soft.electing = {}
    return Search([(0, image.row_end)] if anywhere else [])


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
        state, [change for row in _rows_of(state, topics) if (change := leave(state, row, {broker: False})) is not None]
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


def _leaving(state: State, brokers: Mapping[int, bool], from_row: int) -> tuple[list[Any], int, int]:
    """(ops of one slice, the row where the next one begins or -1, cost). `brokers`: those that leave, in order, and whether
    each is given up. A broker that leaves joins no further ISR, so rows that were passed need no second look."""
    image = state.image
    if all(image.counts(broker)[2] == 0 for broker in brokers):
        return [], -1, 1
    one_epoch = state.family.one_epoch or bool(state.soft.legacy)  # as in `partition_changes.next_epochs`
    block, judged, next_row, cost = departures(
        image,
        tuple(brokers),
        state.soft.usable(image).ids - set(brokers),
        from_row,
        SLICE_COST,
        one_epoch,
        _unreadable_rows(state, brokers),
        None if any(brokers.values()) else lambda topic: unclean_allowed(state, topic),
    )
    changes = [change for row in judged if (change := leave(state, row, brokers)) is not None]
    ops: list[Any] = [PartitionsChanged(block)] if len(block) else []
    return ops + changed(state, changes), next_row, cost


def _is_unreadable(state: State, row: int) -> bool:
    """Whether a broker says that it cannot read its replica of this partition. A search asks this for those without a leader
    alone: there are as many searches as topics with new settings, and `_unreadable_rows` walks over whole disks."""
    image = state.image
    key = (image.topic_id(image.topic_of(row)) or b"", image.number(row))
    return any(key in found for found in state.soft.unreadable.values())


def _unreadable_rows(state: State, brokers: Collection[int]) -> frozenset[int]:
    """The partitions whose replica on another broker than these cannot be read, so that a compiled pass cannot know the
    next leader."""
    image = state.image
    others = [found for id, found in state.soft.unreadable.items() if id not in brokers]
    named = ((image.topic_by_id(topic_id), number) for found in others for topic_id, number in found)
    return frozenset(image.partition(topic, number) for topic, number in named if topic >= 0)
