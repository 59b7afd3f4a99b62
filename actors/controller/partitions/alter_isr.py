"""AlterIsr (56, KIP-497): a partition's leader asks, the controller decides.

This file alone decides which proposals are granted, by `CHECKS` in the order of the requirements' table 2.6; the first
check that fails names the error. All accepted partitions of a request are one group of records (R497-27), and a
reassignment that a proposal completes ends in it (R497-08). A long request comes in portions (`controller/portions.py`,
G-51), each of which is such a group.

Errors: top level 77, 41 (the sender knows more than this controller, R497-42; then nothing of the request is applied); by
partition 3, 42, 74 FENCED_LEADER_EPOCH, 95 INVALID_UPDATE_VERSION. CurrentZkVersion is the partition epoch that the proposal
rests on; at levels 1 and 2 its value is also the leader epoch's (G-03), and nothing here depends on that.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.controller.partitions.leader_election import PartitionChange, able
from actors.controller.partitions.partition_changes import changed, completed
from actors.controller.state import Result, State, broker_epoch_holds
from actors.metadata.image import Image
from actors.ports import Now, Random
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.kip631 import AlterIsrRequest

NO_ID = bytes(16)


class Proposal(NamedTuple):
    """One partition of a request. `row` is -1 for an unknown one."""

    sender: int
    row: int
    repeated: bool
    entry: Any


def alter_isr(state: State, request: "AlterIsrRequest", now: Now, random: Random) -> Result:
    """Carry out an AlterIsrRequest, in KIP-497's layout."""
    if not broker_epoch_holds(state, request.broker_id, request.broker_epoch):
        return _top(ErrorCode.STALE_BROKER_EPOCH)
    seen: set[int] = set()
    judged = [
        (topic, [(entry, *_judge(state, one)) for entry, one in _proposals(state, request.broker_id, topic, seen)])
        for topic in _first_only(request.topics)
    ]
    if any(code == ErrorCode.NOT_CONTROLLER for _, entries in judged for _, code, _ in entries):
        return _top(ErrorCode.NOT_CONTROLLER)
    kind = message("AlterIsrResponse")
    reply = kind()
    changes: list[PartitionChange] = []
    for topic, entries in judged:
        answers = []
        for entry, code, wanted in entries:
            if wanted is not None:
                changes.append(wanted)
            answers.append(kind.PartitionData(partition_id=entry.partition_id, error_code=int(code)))
        reply.topics.append(kind.TopicData(topic=topic.topic, partitions=answers))
    return Result(changed(state, changes), reply)


def knows_more(image: Image, topic: "AlterIsrRequest.TopicData", entry: "AlterIsrRequest.PartitionData") -> bool:
    """Whether the sender of this proposal has seen a newer state of the partition than `image` has (R497-42). The state of
    an active controller does not fall behind that of a proposal any more, as long as it is active."""
    topic_row = image.topic(topic.topic)
    if topic_row < 0 or topic.topic_id not in (NO_ID, image.topic_id(topic_row)):
        return False
    row = image.partition(topic_row, entry.partition_id)
    return row >= 0 and is_ahead(image, row, entry.leader_epoch, entry.current_zk_version)


def is_ahead(image: Image, row: int, leader_epoch: int, partition_epoch: int) -> bool:
    """Whether one of these epochs is above that of partition `row`."""
    return leader_epoch > image.leader_epoch(row) or partition_epoch > image.partition_epoch(row)


def _top(code: ErrorCode) -> Result:
    return Result((), message("AlterIsrResponse")(error_code=int(code)))


def _first_only(topics: Any) -> list["AlterIsrRequest.TopicData"]:
    """The topics of a request, each once: entries of a topic that is named twice are answered together."""
    merged: dict[tuple[str, bytes], Any] = {}
    kind = message("AlterIsrRequest").TopicData
    for topic in topics:
        key = (topic.topic, topic.topic_id)
        if key in merged:
            first = merged[key]
            topic = kind(topic=topic.topic, topic_id=topic.topic_id, partitions=[*first.partitions, *topic.partitions])
        merged[key] = topic
    return list(merged.values())


def _proposals(
    state: State, sender: int, topic: "AlterIsrRequest.TopicData", seen: set[int]
) -> list[tuple[Any, Proposal]]:
    """The proposals of one topic, each with its entry. `seen`: rows that the request has named before."""
    image = state.image
    topic_row = image.topic(topic.topic)
    if topic_row >= 0 and topic.topic_id not in (NO_ID, image.topic_id(topic_row)):
        topic_row = -1
    proposals = []
    for entry in topic.partitions:
        row = image.partition(topic_row, entry.partition_id) if topic_row >= 0 else -1
        proposals.append((entry, Proposal(sender, row, row in seen, entry)))
        seen.add(row)
    return proposals


def _judge(state: State, proposal: Proposal) -> tuple[ErrorCode, PartitionChange | None]:
    for _, passes, code in CHECKS:
        if not passes(state, proposal):
            return code, None
    image, row, sender = state.image, proposal.row, proposal.sender
    wanted = set(proposal.entry.isr)
    if wanted == set(image.isr(row)):
        return ErrorCode.NONE, None  # row 15
    isr = tuple(broker for broker in image.replicas(row) if broker in wanted)
    change = PartitionChange(row, isr, sender)
    whole = completed(state, change)
    moved = whole is not None and whole[1] != sender
    return (ErrorCode.FENCED_LEADER_EPOCH if moved else ErrorCode.NONE), change


# ---- the table


def _known(state: State, proposal: Proposal) -> bool:
    return proposal.row >= 0


def _once(state: State, proposal: Proposal) -> bool:
    return not proposal.repeated


def _epoch_not_ahead(state: State, proposal: Proposal) -> bool:
    return bool(proposal.entry.leader_epoch <= state.image.leader_epoch(proposal.row))


def _version_not_ahead(state: State, proposal: Proposal) -> bool:
    return bool(proposal.entry.current_zk_version <= state.image.partition_epoch(proposal.row))


def _sender_leads(state: State, proposal: Proposal) -> bool:
    return state.image.leader(proposal.row) == proposal.sender


def _names_itself(state: State, proposal: Proposal) -> bool:
    return bool(proposal.entry.leader == proposal.sender)


def _version_is_current(state: State, proposal: Proposal) -> bool:
    # A leader that names an older leader epoch proposes on an older state, whatever version it names.
    image, row, entry = state.image, proposal.row, proposal.entry
    return bool(
        entry.current_zk_version == image.partition_epoch(row) and entry.leader_epoch == image.leader_epoch(row)
    )


def _well_formed(state: State, proposal: Proposal) -> bool:
    isr = proposal.entry.isr
    return bool(isr) and min(isr) >= 0 and len(set(isr)) == len(isr)


def _of_replicas(state: State, proposal: Proposal) -> bool:
    return set(proposal.entry.isr) <= set(state.image.replicas(proposal.row))


def _has_leader(state: State, proposal: Proposal) -> bool:
    return proposal.sender in proposal.entry.isr


def _eligible(state: State, proposal: Proposal) -> bool:
    """Whether every member of the proposed ISR may be in it. Members that are in the ISR already and in controlled
    shutdown, or fenced by themselves (A23), may stay until the controller takes them out; the leader itself, too. Any
    other member has to be usable, under the epoch that the leader has seen, and must not say that it cannot use its
    replica: the leader knows it as caught up until it has fetched nothing for long enough. A fenced broker is refused
    like an absent one, but for another reason: absent, it has no epoch to compare; fenced, it is not usable."""
    image = state.image
    soft = state.soft
    usable, healthy = soft.usable(image).ids, able(state, proposal.row)
    present = image.isr(proposal.row)
    epochs = proposal.entry.isr_broker_epochs
    if epochs and len(epochs) != len(proposal.entry.isr):
        return False
    for index, member in enumerate(proposal.entry.isr):
        broker = image.broker(member)
        if broker is None or (member not in usable and (member not in present or not soft.may_stay(member))):
            return False
        if member not in present and member not in healthy:
            return False
        if epochs and epochs[index] not in (-1, broker.epoch):
            return False
    return True


Check = Callable[[State, Proposal], bool]

CHECKS: tuple[tuple[str, Check, ErrorCode], ...] = (
    ("4, 5 known", _known, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("5 listed once", _once, ErrorCode.INVALID_REQUEST),
    ("6 leader epoch not above ours", _epoch_not_ahead, ErrorCode.NOT_CONTROLLER),
    ("7 version not above ours", _version_not_ahead, ErrorCode.NOT_CONTROLLER),
    ("8 the sender leads", _sender_leads, ErrorCode.FENCED_LEADER_EPOCH),
    ("9 it names itself", _names_itself, ErrorCode.INVALID_REQUEST),
    ("10 version is current", _version_is_current, ErrorCode.INVALID_UPDATE_VERSION),
    ("11 well formed", _well_formed, ErrorCode.INVALID_REQUEST),
    ("12 out of the replicas", _of_replicas, ErrorCode.INVALID_REQUEST),
    ("13 with the leader", _has_leader, ErrorCode.INVALID_REQUEST),
    ("14 every member eligible", _eligible, ErrorCode.INVALID_REQUEST),
)
