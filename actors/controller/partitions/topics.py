"""CreateTopics (19) and DeleteTopics (20): a topic appears with all its partitions, and goes with all of them.

This file alone decides which new topics are legal, what their partitions look like, and which error a refused topic
gets. Rules:

1. Topics of a request are decided one by one; one refusal does not stop the others. Each accepted topic becomes one
   group of records, so that no node ever sees a topic with part of its partitions (R631-104).
2. Without a number of partitions or replicas, this controller's num.partitions and default.replication.factor are used.
3. Only brokers with a live lease that are not stopping get replicas or enter an ISR (R631-163).
4. There is no scan over topics or partitions: the cost of a request depends only on what it asks for.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.controller.configs import TOPIC, ChangeRefused, effective_topic_configs, topic_config_error
from actors.controller.mutation_quota import Charge, free
from actors.controller.partitions.placement import Placement, TooFewBrokers
from actors.controller.state import Result, State
from actors.metadata.ops import ConfigSet, PartitionsSet, TopicGone, TopicSet
from actors.metadata.topic_names import METADATA_TOPICS, name_error, rival
from actors.ports import Now, Random
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import (
        CreateTopicsRequest,
        CreateTopicsResponse,
        DeleteTopicsRequest,
        DeleteTopicsResponse,
    )

PARTITIONS_MAX = 10_000
"""The most partitions that one request may create, the same as in Apache Kafka. A topic is one record batch, whose size
is bounded. For 10,000 partitions the controller needs 30 ms."""
NO_ID = bytes(16)


class Assignment(NamedTuple):
    """Replicas and ISRs of new partitions, by partition."""

    replicas: Sequence[tuple[int, ...]]
    isr: Sequence[tuple[int, ...]]


def create_topics(
    state: State,
    request: "CreateTopicsRequest",
    now: Now,
    random: Random,
    accepted: dict[str, str] | None = None,
    charge: Charge = free,
) -> Result:
    """Carry out a CreateTopicsRequest. Errors by topic: 17 INVALID_TOPIC_EXCEPTION, 36, 37, 38, 39, 40, 42, 44
    POLICY_VIOLATION, 89 THROTTLING_QUOTA_EXCEEDED.

    `accepted`: names that earlier portions of the same request have accepted, by the name with '_' for '.'. The names
    of this portion are added. A portion that is only validated leaves nothing in the image, where the next one would
    find it.
    """
    reply = message("CreateTopicsResponse")()
    seen: dict[str, int] = {}
    for topic in request.topics:
        seen[topic.name] = seen.get(topic.name, 0) + 1
    placement = Placement(state.soft.usable(state.image), random)
    groups: list[list[Any]] = []
    accepted = {} if accepted is None else accepted
    partitions = 0
    for name, times in seen.items():
        if times > 1:
            reply.topics.append(_refusal(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
    for topic in request.topics:
        if seen[topic.name] > 1:
            continue
        try:
            _check_neighbours(topic.name, accepted)
            group, result = _create(state, topic, PARTITIONS_MAX - partitions, placement, random, charge)
        except ChangeRefused as refused:
            reply.topics.append(_refusal(topic.name, refused.code, refused.text))
            continue
        accepted[topic.name.replace(".", "_")] = topic.name
        reply.topics.append(result)
        partitions += result.num_partitions
        if not request.validate_only:
            groups.append(group)
    if request.validate_only:
        return Result((), reply)
    return Result([op for group in groups for op in group], reply)


def partitions_asked(request: "CreateTopicsRequest", default: int) -> int:
    """How many partitions a CreateTopicsRequest asks for, topics that will be refused included. `default`: the number
    for a topic that names none."""
    return sum(
        len(topic.assignments) or (topic.num_partitions if topic.num_partitions > 0 else default)
        for topic in request.topics
    )


def refuse_topics(state: State, request: "CreateTopicsRequest", now: Now, random: Random) -> Result:
    """Refuse a CreateTopicsRequest for more partitions than one request may create. Error: 44 POLICY_VIOLATION."""
    names = dict.fromkeys(topic.name for topic in request.topics)
    text = f"One request may create {PARTITIONS_MAX} partitions at most, and this one asks for more."
    return Result(
        (),
        message("CreateTopicsResponse")(topics=[_refusal(name, ErrorCode.POLICY_VIOLATION, text) for name in names]),
    )


def check_charge(charge: Charge, partitions: int) -> None:
    """Charge the client for new or deleted partitions. Raises ChangeRefused."""
    if not charge(partitions):
        raise ChangeRefused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")


def _create(
    state: State,
    topic: "CreateTopicsRequest.CreatableTopic",
    partitions_max: int,
    placement: Placement,
    random: Random,
    charge: Charge,
) -> tuple[list[Any], Any]:
    """Ops and result of one topic. Raises ChangeRefused."""
    name = topic.name
    _check_name(state, name)
    configs = {config.name: config.value for config in topic.configs}
    _check_configs(state, topic.configs, configs)
    assignment = _assignment(state, topic, partitions_max, placement)
    count = len(assignment.replicas)
    check_charge(charge, count)
    topic_id = _new_id(state, random)
    group: list[Any] = [TopicSet(name, topic_id)]
    group.append(whole(topic_id, 0, assignment))
    group += [ConfigSet(TOPIC, name, key, value) for key, value in configs.items()]
    result = message("CreateTopicsResponse").CreatableTopicResult(
        name=name,
        topic_id=topic_id,
        error_code=0,
        error_message=None,
        num_partitions=count,
        replication_factor=len(assignment.replicas[0]),
        configs=effective_topic_configs(state, configs),
    )
    return group, result


def whole(topic_id: bytes, first: int, assignment: Assignment) -> PartitionsSet:
    """The op that makes new partitions from number `first` on. The first member of each ISR leads."""
    leaders = [isr[0] for isr in assignment.isr]
    numbers = range(first, first + len(leaders))
    return PartitionsSet(topic_id, numbers, assignment.replicas, assignment.isr, leader=leaders)


def _check_name(state: State, name: str) -> None:
    error = name_error(name)
    if error is not None:
        raise ChangeRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, error)
    if name in METADATA_TOPICS:
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if state.image.name_taken(name):
        raise ChangeRefused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = rival(name, state.image)
    if other is not None:
        raise ChangeRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def _check_neighbours(name: str, accepted: dict[str, str]) -> None:
    """Check that a new name does not collide with one that the same request has accepted; the same name does not, since
    the request may be run again. Raises ChangeRefused."""
    if "." in name or "_" in name:
        other = accepted.get(name.replace(".", "_"))
        if other is not None and other != name:
            raise ChangeRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with topic: {other}")


def _check_configs(state: State, given: Any, configs: Mapping[str, str | None]) -> None:
    if not given:
        return
    if len(configs) != len(given):
        raise ChangeRefused(ErrorCode.INVALID_CONFIG, "A config name is given more than once.")
    error = topic_config_error(configs)
    if error is not None:
        raise ChangeRefused(ErrorCode.INVALID_CONFIG, error)


def _assignment(
    state: State, topic: "CreateTopicsRequest.CreatableTopic", partitions_max: int, placement: Placement
) -> Assignment:
    if topic.assignments:
        return _manual(state, topic, partitions_max)
    count, factor = topic.num_partitions, topic.replication_factor
    if factor == -1:
        factor = state.options.replicas_default
    elif factor < 1:
        raise ChangeRefused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if count == -1:
        count = state.options.partitions_default
    elif count < 1:
        raise ChangeRefused(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0, or -1 to use the default value."
        )
    check_count(count, partitions_max)
    try:
        replicas = placement.place(count, factor)
    except TooFewBrokers as error:
        raise ChangeRefused(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"Unable to replicate the partition {factor} time(s): {error}"
        ) from None
    return Assignment(replicas, replicas)


def _manual(state: State, topic: "CreateTopicsRequest.CreatableTopic", partitions_max: int) -> Assignment:
    if topic.replication_factor != -1:
        raise ChangeRefused(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.num_partitions != -1:
        raise ChangeRefused(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    check_count(len(topic.assignments), partitions_max)
    by_number = {entry.partition_index: tuple(entry.broker_ids) for entry in topic.assignments}
    if len(by_number) != len(topic.assignments):
        raise ChangeRefused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Found multiple manual partition assignments for one partition."
        )
    if sorted(by_number) != list(range(len(by_number))):
        raise ChangeRefused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Partition numbers should be a consecutive sequence from 0."
        )
    replicas = [by_number[number] for number in range(len(by_number))]
    return manual_assignment(state, replicas, len(replicas[0]))


def manual_assignment(state: State, replicas: list[tuple[int, ...]], factor: int) -> Assignment:
    """Check replicas that the client chose, and return them with their ISRs. Raises ChangeRefused."""
    usable = state.soft.usable(state.image).ids
    isrs = []
    for members in replicas:
        check_replicas(state, members)
        if len(members) != factor:
            raise ChangeRefused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes a partition "
                f"with {len(members)} replica(s), but this is not consistent with previous partitions, which "
                f"have {factor} replica(s).",
            )
        isr = tuple(broker for broker in members if broker in usable)
        if not isr:
            raise ChangeRefused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "All brokers specified in a manual partition assignment are fenced or in controlled shutdown.",
            )
        isrs.append(isr)
    return Assignment(replicas, isrs)


def check_replicas(state: State, members: tuple[int, ...]) -> None:
    """A list of replicas must name registered brokers, fenced or not, each once: a fenced one hosts a replica that is not in
    sync. Raises ChangeRefused."""
    if not members:
        raise ChangeRefused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The manual partition assignment includes an empty replica list."
        )
    if len(set(members)) != len(members):
        raise ChangeRefused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The manual partition assignment includes a broker more than once: {list(members)}.",
        )
    for broker in members:
        if not state.image.is_registered(broker):
            raise ChangeRefused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes broker {broker}, but no such broker is registered.",
            )


def check_count(count: int, partitions_max: int) -> None:
    """Check that this many new partitions fit into what is left of a request's limit. Raises ChangeRefused."""
    if count > partitions_max:
        raise ChangeRefused(ErrorCode.POLICY_VIOLATION, f"One request may create {PARTITIONS_MAX} partitions at most.")


def _new_id(state: State, random: Random) -> bytes:
    topic_id = random.uuid()
    while state.image.topic_by_id(topic_id) >= 0:
        topic_id = random.uuid()
    return topic_id


def _refusal(name: str, code: ErrorCode, text: str) -> "CreateTopicsResponse.CreatableTopicResult":
    return message("CreateTopicsResponse").CreatableTopicResult(
        name=name,
        topic_id=NO_ID,
        error_code=int(code),
        error_message=text,
        num_partitions=-1,
        replication_factor=-1,
        configs=[],
    )


# ---- deletion


def delete_topics(
    state: State, request: "DeleteTopicsRequest", now: Now, random: Random, charge: Charge = free
) -> Result:
    """Carry out a DeleteTopicsRequest, by name (v1-5) or by name or id (v6). Errors by topic: 3, 42, 73
    TOPIC_DELETION_DISABLED, 89 THROTTLING_QUOTA_EXCEEDED, 100 UNKNOWN_TOPIC_ID."""
    wanted = [(topic.name, topic.topic_id) for topic in request.topics or ()]
    wanted += [(name, NO_ID) for name in request.topic_names or ()]
    reply = message("DeleteTopicsResponse")()
    ops: list[Any] = []
    rows = [_find(state, name, topic_id) for name, topic_id in wanted]
    keys = [row if row >= 0 else (name, topic_id) for (name, topic_id), row in zip(wanted, rows, strict=True)]
    times, judged = Counter(keys), set()
    for (name, topic_id), row, key in zip(wanted, rows, keys, strict=True):
        if key in judged:
            continue
        judged.add(key)
        try:
            if not state.options.delete_topics:
                raise ChangeRefused(
                    ErrorCode.TOPIC_DELETION_DISABLED,
                    "This cluster does not delete topics (delete.topic.enable=false).",
                )
            _check_deletion(name, topic_id, row, times[key])
            check_charge(charge, state.image.partition_count(row))
        except ChangeRefused as refused:
            reply.responses.append(_deleted(name, topic_id, refused.code, refused.text))
            continue
        topic_id = state.image.topic_id(row) or NO_ID
        topic = state.image.topic_name(row)
        ops.append(TopicGone(topic_id, topic))
        reply.responses.append(_deleted(topic, topic_id, ErrorCode.NONE, None))
    return Result(ops, reply, atomic=False)


def _find(state: State, name: str | None, topic_id: bytes) -> int:
    return state.image.topic(name) if name is not None else state.image.topic_by_id(topic_id)


def _check_deletion(name: str | None, topic_id: bytes, row: int, times: int) -> None:
    if times > 1:
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, "The topic is named more than once.")
    if name is not None and topic_id != NO_ID:
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if name is None and topic_id == NO_ID:
        raise ChangeRefused(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if row < 0 and name is None:
        raise ChangeRefused(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    if row < 0:
        raise ChangeRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


def _deleted(
    name: str | None, topic_id: bytes, code: ErrorCode, text: str | None
) -> "DeleteTopicsResponse.DeletableTopicResult":
    return message("DeleteTopicsResponse").DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=int(code), error_message=text
    )
