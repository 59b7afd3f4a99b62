"""The changes of a partition as ops: its new ISR, its new leader, and the end of its reassignment (KIP-631, KIP-455).

Every change of an ISR or a leader passes through `changed`, whatever asks for it; which replica leads is decided in
`leader_election.py`. Rules:

1. Each change moves the partition epoch by one, and the leader epoch as the family of the metadata says: always (A33), or
   where the leader changes. Nothing changed: no op.
2. A change after which every adding replica of a reassignment is in the ISR completes it, in the same record (R497-08),
   unless no member of the target's ISR could lead. A change that was unclean, or that made a broker leave, completes it
   like a leader's proposal.
"""

from collections.abc import Sequence

from actors.controller.partitions.leader_election import PartitionChange, able, choose_leader
from actors.controller.state import State
from actors.metadata.families import Epochs
from actors.metadata.ops import PartitionsChanged, PartitionsSet
from fastpath.image.blocks import Block, Extra

NO_DIRECTORY = bytes(16)
"""The directory of a replica that no broker has reported yet."""


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
    block = Block()
    assign(block, state, row, replicas, isr, leader, adding, removing)
    return PartitionsSet.of(block)


def assign(
    block: Block,
    state: State,
    row: int,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    leader: int,
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
) -> None:
    """Add what `assigned` says of a partition to a block."""
    image = state.image
    before, stored, recovery = image.replicas(row), image.directories(row), image.recovery(row)
    leadership_moves = leader != image.leader(row) or any([broker not in replicas for broker in before])
    directories = None
    if stored:
        held = dict(zip(before, stored, strict=False))
        directories = [held.get(broker, NO_DIRECTORY) for broker in replicas]
    epochs = next_epochs(state, row, leadership_moves=leadership_moves)
    block.append(
        image.topic_id(image.topic_of(row)) or b"",
        image.number(row),
        replicas,
        isr,
        leader,
        epochs.leader,
        epochs.partition,
        directories,
        Extra(removing, adding, recovery) if removing or adding or recovery else None,
    )


def next_epochs(state: State, row: int, *, leadership_moves: bool) -> Epochs:
    """The epochs of partition `row` after a change. `leadership_moves`: see Family.next_epochs. While brokers are told of
    metadata, each change counts as a new leadership: one of Apache Kafka obeys no LeaderAndIsr of an epoch that it knows."""
    image = state.image
    leadership_moves = leadership_moves or bool(state.soft.legacy)
    now = image.leader_epoch(row), image.partition_epoch(row)
    return state.family.next_epochs(now, leadership_moves=leadership_moves)
