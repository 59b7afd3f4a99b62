"""CreatePartitions (37): more partitions for topics that exist. All new partitions of a topic are one group of
records."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from actors.controller.configs import ChangeRefused
from actors.controller.mutation_quota import Charge, free
from actors.controller.partitions.placement import Placement, TooFewBrokers
from actors.controller.partitions.topics import (
    PARTITIONS_MAX,
    Assignment,
    check_charge,
    check_count,
    manual_assignment,
    whole,
)
from actors.controller.state import Result, State
from actors.metadata.image import Image
from actors.metadata.ops import PartitionsSet
from actors.ports import Now, Random
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import CreatePartitionsRequest


def create_partitions(
    state: State, request: "CreatePartitionsRequest", now: Now, random: Random, charge: Charge = free
) -> Result:
    """Carry out a CreatePartitionsRequest. Errors by topic: 3, 37 INVALID_PARTITIONS, 38, 39, 42, 44, 60
    REASSIGNMENT_IN_PROGRESS, 89 THROTTLING_QUOTA_EXCEEDED."""
    reply = message("CreatePartitionsResponse")()
    times = Counter(topic.name for topic in request.topics)
    placement = Placement(state.soft.usable(state.image), random)
    groups = []
    partitions = 0
    for topic in {topic.name: topic for topic in request.topics}.values():
        code, text = ErrorCode.NONE, None
        try:
            if times[topic.name] > 1:
                raise ChangeRefused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            grown = _grow(state, topic, PARTITIONS_MAX - partitions, placement, charge)
            partitions += len(grown.numbers)
            groups.append([grown])
        except ChangeRefused as refused:
            code, text = refused.code, refused.text
        reply.results.append(
            message("CreatePartitionsResponse").CreatePartitionsTopicResult(
                name=topic.name, error_code=int(code), error_message=text
            )
        )
    return Result(() if request.validate_only else groups, reply, atomic=False)


def growth(topic: "CreatePartitionsRequest.CreatePartitionsTopic", image: Image) -> int:
    """How many partitions an entry of a CreatePartitionsRequest adds to its topic; 0 if there is no such topic."""
    row = image.topic(topic.name)
    return max(0, topic.count - image.partition_count(row)) if row >= 0 else 0


def refuse_growth(state: State, request: "CreatePartitionsRequest", now: Now, random: Random) -> Result:
    """Refuse a CreatePartitionsRequest for more partitions than one request may create. Error: 44 POLICY_VIOLATION."""
    kind = message("CreatePartitionsResponse")
    text = f"One request may create {PARTITIONS_MAX} partitions at most, and this one asks for more."
    code = int(ErrorCode.POLICY_VIOLATION)
    names = dict.fromkeys(topic.name for topic in request.topics)
    results = [kind.CreatePartitionsTopicResult(name=name, error_code=code, error_message=text) for name in names]
    return Result((), kind(results=results))


def _grow(
    state: State,
    topic: "CreatePartitionsRequest.CreatePartitionsTopic",
    partitions_max: int,
    placement: Placement,
    charge: Charge,
) -> PartitionsSet:
    image = state.image
    row = image.topic(topic.name)
    if row < 0:
        raise ChangeRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    present = image.partition_count(row)
    if topic.count == present:
        raise ChangeRefused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if topic.count < present:
        raise ChangeRefused(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {present} partition(s); {topic.count} would not be an increase.",
        )
    added = topic.count - present
    check_count(added, partitions_max)
    first = image.partition(row, 0)
    factor = len(image.replicas(first))
    if image.adding(first) or image.removing(first):
        factor -= len(image.adding(first))
    if topic.assignments is not None:
        assignment = _manual(state, topic, added, factor)
    else:
        try:
            replicas = placement.place(added, factor)
        except TooFewBrokers as error:
            raise ChangeRefused(
                ErrorCode.INVALID_REPLICATION_FACTOR, f"Unable to replicate the partition {factor} time(s): {error}"
            ) from None
        assignment = Assignment(replicas, replicas)
    check_charge(charge, added)
    return whole(image.topic_id(row) or b"", present, assignment)


def _manual(state: State, topic: Any, added: int, factor: int) -> Assignment:
    if len(topic.assignments) != added:
        raise ChangeRefused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(topic.assignments)} assignment(s) were specified.",
        )
    return manual_assignment(state, [tuple(entry.broker_ids) for entry in topic.assignments], factor)
