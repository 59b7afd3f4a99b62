"""AlterPartitionReassignments (45) and ListPartitionReassignments (46): moves replicas (KIP-455).

This file alone decides what a partition looks like while a reassignment runs, and how it is cancelled. Rules:

1. While it runs, Replicas are the target followed by what goes away; AddingReplicas and RemovingReplicas say which are
   which. Start, end and cancellation are whole PartitionRecords (R631-075, A37), each under the next epochs.
2. It is complete when every adding replica is in the ISR, whatever has brought in the last one (`partition_changes.py`). A
   reassignment that adds no replica is complete at once.
3. It is not completed while no member of the target's ISR could lead. A broker that cannot read its replica does not
   lead.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from actors.controller.configs import ChangeRefused
from actors.controller.partitions.leader_election import able, choose_leader
from actors.controller.partitions.partition_changes import assign, finish
from actors.controller.partitions.topics import check_replicas
from actors.controller.state import Result, State
from actors.metadata.ops import PartitionsSet
from actors.ports import Now, Random
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.image.blocks import Block

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest

# ---- operations


def alter_partition_reassignments(
    state: State, request: "AlterPartitionReassignmentsRequest", now: Now, random: Random
) -> Result:
    """Carry out an AlterPartitionReassignmentsRequest. Errors by partition: 3, 38, 39, 42, 85
    NO_REASSIGNMENT_IN_PROGRESS."""
    kind = message("AlterPartitionReassignmentsResponse")
    reply = kind(allow_replication_factor_change=request.allow_replication_factor_change)
    answer, may_change = kind.ReassignablePartitionResponse, request.allow_replication_factor_change
    blocks: list[Block] = []
    seen: dict[str, set[int]] = {}
    sound: set[tuple[int, ...]] = set()
    for topic in request.topics:
        answers = []
        topic_row, named = state.image.topic(topic.name), seen.setdefault(topic.name, set())
        block = Block()
        for entry in topic.partitions:
            number = entry.partition_index
            try:
                if number in named:
                    raise ChangeRefused(ErrorCode.INVALID_REQUEST, "The partition is named more than once.")
                named.add(number)
                row = state.image.partition(topic_row, number) if topic_row >= 0 else -1
                if row < 0:
                    raise ChangeRefused(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        f"Unable to find partition {topic.name}-{number}.",
                    )
                _reassign(block, state, row, entry.replicas, may_change, sound)
                answers.append(answer(partition_index=number, error_message=None))
            except ChangeRefused as refused:
                code, text = refused.code, refused.text
                answers.append(answer(partition_index=number, error_code=int(code), error_message=text))
        if len(block):
            blocks.append(block)
        reply.responses.append(kind.ReassignableTopicResponse(name=topic.name, partitions=answers))
    return Result([PartitionsSet.of(block) for block in blocks], reply, atomic=False)


def _reassign(
    block: Block,
    state: State,
    row: int,
    wanted: Sequence[int] | None,
    factor_may_change: bool,
    sound: set[tuple[int, ...]],
) -> None:
    """Add what one partition becomes, unless it is as it is wanted. `wanted` None: cancel. `sound`: lists of replicas that
    were checked."""
    if wanted is None:
        _cancel(block, state, row)
        return
    image = state.image
    target = tuple(wanted)
    if target not in sound:
        check_replicas(state, target)
        sound.add(target)
    members, before, leader = image.isr(row), image.replicas(row), image.leader(row)
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    present = before
    factor = len(before)
    if image.is_moving(row):
        adding, removing = image.adding(row), image.removing(row)
        present = tuple([broker for broker in before if broker not in adding])
        factor = len([broker for broker in before if broker not in removing])
    if not factor_may_change and len(target) != factor:
        raise ChangeRefused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {factor} to {len(target)}",
        )
    if target == before and not adding and not removing:
        return
    added = tuple([broker for broker in target if broker not in present])
    gone = tuple([broker for broker in present if broker not in target])
    if all([broker in members for broker in added]):
        whole = finish(state, row, target, members, leader)
        if whole is not None:
            block.extend(whole[0].block)
            return
    replicas = target + gone
    isr = tuple([broker for broker in replicas if broker in members])
    if not isr:
        raise ChangeRefused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "None of the partition's in-sync replicas would remain."
        )
    leads = leader if leader in isr else choose_leader(replicas, isr, able(state, row))
    if (replicas, added, gone, leads) != (before, adding, removing, leader):
        assign(block, state, row, replicas, isr, leads, added, gone)


def _cancel(block: Block, state: State, row: int) -> None:
    """Cancel a reassignment: the partition returns to the replicas before it. Refused if none of them is in the ISR any
    more."""
    image = state.image
    adding, removing = image.adding(row), image.removing(row)
    if not adding and not removing:
        raise ChangeRefused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "The partition is not being reassigned.")
    before = tuple(broker for broker in image.replicas(row) if broker not in adding)
    isr = tuple(broker for broker in before if broker in image.isr(row))
    if not isr:
        raise ChangeRefused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "None of the replicas of before is in sync.")
    leader = image.leader(row)
    if leader not in isr:
        leader = choose_leader(before, isr, able(state, row))
    assign(block, state, row, before, isr, leader)


def list_partition_reassignments(
    state: State, request: "ListPartitionReassignmentsRequest", now: Now, random: Random
) -> Result:
    """Answer a ListPartitionReassignmentsRequest. If its topics are null, it is about all reassignments that run."""
    image = state.image
    kind = message("ListPartitionReassignmentsResponse")
    reply = kind()
    if request.topics is None:
        wanted: Any = ((row, image.topic_partitions(row)) for row in image.topics())
    else:
        known = ((image.topic(topic.name), topic) for topic in request.topics)
        wanted = (
            (row, [image.partition(row, number) for number in dict.fromkeys(topic.partition_indexes)])
            for row, topic in known
            if row >= 0
        )
    for topic_row, rows in wanted:
        running = [
            kind.OngoingPartitionReassignment(
                partition_index=image.number(row),
                replicas=list(image.replicas(row)),
                adding_replicas=list(image.adding(row)),
                removing_replicas=list(image.removing(row)),
            )
            for row in rows
            if row >= 0 and (image.adding(row) or image.removing(row))
        ]
        if running:
            reply.topics.append(kind.OngoingTopicReassignment(name=image.topic_name(topic_row), partitions=running))
    return Result((), reply)
