"""The changes of a partition: its new ISR, its new leader, and the end of its reassignment (KIP-631, Fencing; KIP-455).

Every change of an ISR or a leader passes through `changed`, whatever asks for it. Rules:

1. Each change moves the partition epoch by one, and the leader epoch as the family of the metadata says: always (A33), or
   where the leader changes. Nothing changed: no op.
2. A leader stays while it is in the ISR. Otherwise the first replica, in the order of preference, that is in the ISR and
   usable; -1 if there is none.
3. The last member of an ISR is not removed: it has the data (A32). Then the leader is -1, unless the topic allows an
   unclean election, or the broker is given up on purpose.
4. A broker that says that it cannot read its replica is not elected, not even uncleanly.
5. A change after which every adding replica of a reassignment is in the ISR completes it, in the same record (R497-08),
   unless no member of the target's ISR could lead. A change that was unclean, or that made a broker leave, completes it
   like a leader's proposal.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from actors.controller.configs import unclean_allowed
from actors.controller.state import State
from actors.metadata.families import Epochs
from actors.metadata.ops import PartitionsChanged, PartitionsSet
from fastpath.image.blocks import Block


class PartitionChange(NamedTuple):
    """Partition `row` gets this ISR and leader, under the next epochs."""

    row: int
    isr: tuple[int, ...]
    leader: int


def changed(state: State, changes: Sequence[PartitionChange]) -> list[PartitionsChanged | PartitionsSet]:
    """The changes as ops: one for all of them, and one for each reassignment that they complete."""
    image = state.image
    block, ended = Block(), []
    for change in changes:
        whole = completed(state, change)
        if whole is not None:
            ended.append(whole[0])
            continue
        row, isr, leader = change
        block.append(
            image.topic_id(image.topic_of(row)) or b"",
            image.number(row),
            None,
            isr,
            leader,
            *next_epochs(state, row, leadership_moves=leader != image.leader(row)),
        )
    return [PartitionsChanged(block), *ended] if len(block) else [*ended]


def completed(state: State, change: PartitionChange) -> tuple[PartitionsSet, int] | None:
    """The partition after its reassignment, and its leader, if a change completes it; None otherwise."""
    image, row = state.image, change.row
    adding, removing = image.adding(row), image.removing(row)
    if (not adding and not removing) or not set(adding) <= set(change.isr):
        return None
    target = tuple(broker for broker in image.replicas(row) if broker not in removing)
    return finish(state, row, target, change.isr, change.leader)


def finish(
    state: State, row: int, target: tuple[int, ...], isr: tuple[int, ...], leader: int
) -> tuple[PartitionsSet, int] | None:
    """Partition `row` on its target alone, and its leader; None while no replica there can lead."""
    members = tuple(broker for broker in target if broker in isr)
    if leader not in members:
        leader = choose_leader(target, members, able(state, row))
    if leader < 0:
        return None
    return assigned(state, row, target, members, leader), leader


def assigned(
    state: State,
    row: int,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    leader: int,
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
) -> PartitionsSet:
    """Partition `row` on these replicas, as a whole record under the next epochs. If a replica leaves the assignment,
    the leader epoch moves too: that replica may not fetch under the one that it knows."""
    image = state.image
    before, stored = image.replicas(row), image.directories(row)
    directories = dict(zip(before, stored, strict=False))
    leadership_moves = leader != image.leader(row) or not set(before) <= set(replicas)
    return PartitionsSet.one(
        image.topic_id(image.topic_of(row)) or b"",
        image.number(row),
        replicas,
        isr,
        leader,
        *next_epochs(state, row, leadership_moves=leadership_moves),
        adding=adding,
        removing=removing,
        recovery=image.recovery(row),
        directories=[directories.get(broker, bytes(16)) for broker in replicas] if directories else None,
    )


def next_epochs(state: State, row: int, *, leadership_moves: bool) -> Epochs:
    """The epochs of partition `row` after a change. `leadership_moves`: see Family.next_epochs. While brokers are told of
    metadata, each change counts as a new leadership: one of Apache Kafka obeys no LeaderAndIsr of an epoch that it knows."""
    image = state.image
    leadership_moves = leadership_moves or bool(state.soft.legacy)
    now = Epochs(image.leader_epoch(row), image.partition_epoch(row))
    return state.family.next_epochs(now, leadership_moves=leadership_moves)


def choose_leader(replicas: tuple[int, ...], isr: Collection[int], usable: Collection[int]) -> int:
    """The most preferred usable member of the ISR, or -1."""
    for broker in replicas:
        if broker in isr and broker in usable:
            return broker
    return -1


def able(state: State, row: int) -> Collection[int]:
    """The usable brokers, without those that have said that they cannot read their replica of partition `row`."""
    image, usable = state.image, state.soft.usable(state.image).ids
    if not state.soft.unreadable:
        return usable
    key = (image.topic_id(image.topic_of(row)) or b"", image.number(row))
    return usable - {broker for broker, replicas in state.soft.unreadable.items() if key in replicas}


def leave(state: State, row: int, brokers: Mapping[int, bool]) -> PartitionChange | None:
    """The change with which brokers, one after the other, leave the ISR and the leadership of partition `row`; None if that
    changes nothing. `brokers`: each with whether it is given up, so that even the last copy may go."""
    image = state.image
    isr, leader = image.isr(row), image.leader(row)
    for broker, give_up in brokers.items():
        if broker not in isr:
            continue
        rest = tuple(member for member in isr if member != broker)
        usable = frozenset(able(state, row)) - set(brokers)
        if rest:
            isr = rest
            if leader not in rest:
                leader = choose_leader(image.replicas(row), rest, usable)
            continue
        heir = -1
        if unclean_allowed(state, image.topic_of(row)):
            heir = choose_leader(image.replicas(row), image.replicas(row), usable)
        if heir >= 0:
            isr, leader = (heir,), heir
        else:
            isr, leader = () if give_up else isr, -1
    return None if (isr, leader) == (image.isr(row), image.leader(row)) else PartitionChange(row, isr, leader)


def elect(state: State, row: int, unclean: bool) -> PartitionChange | None:
    """The change that gives a partition without a leader one; None if no replica can lead it. `unclean`: a replica
    outside the ISR may lead too."""
    image = state.image
    if image.leader(row) >= 0:
        return None
    replicas, isr, usable = image.replicas(row), image.isr(row), able(state, row)
    leader = choose_leader(replicas, isr, usable)
    if leader >= 0:
        return PartitionChange(row, isr, leader)
    if unclean:
        leader = choose_leader(replicas, replicas, usable)
        if leader >= 0:
            return PartitionChange(row, (leader,), leader)
    return None
