"""What an answer says that a node has done or refused, and which rights that needs.

Written down from Apache Kafka's documentation ("Operations and resources on protocols"), not from the table of the nodes,
so that a wrong row there is found. A claim is about one thing that a request names: a topic, a group, the cluster.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from actors.wire.errors import ErrorCode

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = (
    3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
)  # fmt: skip
NONE = ErrorCode.NONE
NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_ID = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)  # fmt: skip
REFUSALS = frozenset((NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_ID))
APPENDED = frozenset((
    NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
))  # fmt: skip
JOINED = frozenset((NONE, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS))
TOPIC_CONFIGS, GROUP_CONFIGS = 2, 32
"""Types of resources with settings."""


class Right(NamedTuple):
    """An operation on a resource. `name` None: on any resource of that kind."""

    operation: int
    resource: int
    name: str | None


Need = tuple[Right, ...]
"""Rights of which one is enough."""
ON_CLUSTER = "kafka-cluster"


class Claim(NamedTuple):
    """A node has done something, for which every need must be met; or it has refused it, so that one was not."""

    done: bool
    needs: tuple[Need, ...]
    what: str


Names = Mapping[bytes, str]
"""Topic id -> name, of every topic that there ever was."""


class Exchange(NamedTuple):
    """A request and its answer."""

    version: int
    request: Any
    reply: Any
    names: Names


def topic(operation: int, name: str) -> Need:
    return (Right(operation, TOPIC, name),)


def group(operation: int, name: str) -> Need:
    return (Right(operation, GROUP, name),)


def transactional_id(operation: int, name: str) -> Need:
    return (Right(operation, TRANSACTIONAL_ID, name),)


def cluster(operation: int) -> Need:
    return (Right(operation, CLUSTER, ON_CLUSTER),)


def _judged(code: int, needs: Mapping[int, Need], what: str, done: Iterable[int] = (NONE,)) -> Iterator[Claim]:
    """The claim that an answer with this error code makes. `needs`: error with which the request is refused -> the need
    that is not met then."""
    if code in needs:
        yield Claim(False, (needs[code],), what)
    elif code in done:
        yield Claim(True, tuple(needs.values()), what)


def _name(exchange: Exchange, one: Any, ids_from: int, field: str = "name") -> str | None:
    return exchange.names.get(bytes(one.topic_id)) if exchange.version >= ids_from else getattr(one, field)


def _produce(exchange: Exchange) -> Iterator[Claim]:
    id = exchange.request.transactional_id
    for one in exchange.reply.responses:
        name = _name(exchange, one, 13)
        if name is None:
            continue
        needs = {NO_TOPIC: topic(WRITE, name)}
        if id is not None:
            needs[NO_ID] = transactional_id(WRITE, id)
        for part in one.partition_responses:
            yield from _judged(part.error_code, needs, f"appended to {name}-{part.index}", APPENDED)


def _fetch(exchange: Exchange) -> Iterator[Claim]:
    for one in exchange.reply.responses:
        name = _name(exchange, one, 13, "topic")
        if name is None:
            continue
        for part in one.partitions:
            what = f"read {name}-{part.partition_index}"
            yield from _judged(NONE if part.records else part.error_code, {NO_TOPIC: topic(READ, name)}, what)


def _of_partitions(operation: int, what: str, field: str = "name") -> Callable[[Exchange], Iterator[Claim]]:
    def claims(exchange: Exchange) -> Iterator[Claim]:
        for one in exchange.reply.topics:
            name = getattr(one, field)
            for part in one.partitions:
                yield from _judged(part.error_code, {NO_TOPIC: topic(operation, name)}, f"{what} {name}")

    return claims


def _epochs(exchange: Exchange) -> Iterator[Claim]:
    for one in exchange.reply.topics:
        either = (*topic(DESCRIBE, one.topic), *cluster(CLUSTER_ACTION))
        for part in one.partitions:
            yield from _judged(part.error_code, {NO_TOPIC: either}, f"told the epochs of {one.topic}")


def _metadata(exchange: Exchange) -> Iterator[Claim]:
    makes = exchange.version < 4 or exchange.request.allow_auto_topic_creation
    for one in exchange.reply.topics:
        if one.name is None:
            continue
        if one.error_code == NO_TOPIC:
            if not makes:
                yield Claim(False, (topic(DESCRIBE, one.name),), f"described {one.name}")
        elif one.partitions:
            yield Claim(True, (topic(DESCRIBE, one.name),), f"described {one.name}")


def _topic_partitions(exchange: Exchange) -> Iterator[Claim]:
    for one in exchange.reply.topics:
        if one.name is not None:
            yield from _judged(one.error_code, {NO_TOPIC: topic(DESCRIBE, one.name)}, f"described {one.name}")


def _coordinator(exchange: Exchange) -> Iterator[Claim]:
    request, reply = exchange.request, exchange.reply
    found = [(one.key, one.error_code) for one in reply.coordinators]
    if exchange.version < 4:
        found = [(request.key, reply.error_code)]
    for key, code in found:
        if request.key_type == 0:
            yield from _judged(code, {NO_GROUP: group(DESCRIBE, key)}, f"found the coordinator of {key}")
        elif request.key_type == 1:
            yield from _judged(code, {NO_ID: transactional_id(DESCRIBE, key)}, f"found the coordinator of {key}")


def _of_group(what: str, done: Iterable[int] = JOINED) -> Callable[[Exchange], Iterator[Claim]]:
    def claims(exchange: Exchange) -> Iterator[Claim]:
        name = exchange.request.group_id
        yield from _judged(exchange.reply.error_code, {NO_GROUP: group(READ, name)}, f"{what} {name}", done)

    return claims


def _offset_commit(exchange: Exchange) -> Iterator[Claim]:
    id = exchange.request.group_id
    for one in exchange.reply.topics:
        name = _name(exchange, one, 10)
        if name is None:
            continue
        needs = {NO_GROUP: group(READ, id), NO_TOPIC: topic(READ, name)}
        for part in one.partitions:
            yield from _judged(part.error_code, needs, f"committed an offset of {name} for {id}")


def _offset_fetch(exchange: Exchange) -> Iterator[Claim]:
    reply = exchange.reply
    if exchange.version < 8:
        groups = [(exchange.request.group_id, reply.error_code, reply.topics)]
    else:
        groups = [(one.group_id, one.error_code, one.topics) for one in reply.groups]
    for id, code, topics in groups:
        of_group = {NO_GROUP: group(DESCRIBE, id)}
        if exchange.version >= 2:  # before that every partition tells of the group's error
            yield from _judged(code, of_group, f"told of group {id}")
        for one in topics:
            name = _name(exchange, one, 10)
            if name is None:
                continue
            for part in one.partitions:
                needs = of_group | {NO_TOPIC: topic(DESCRIBE, name)}
                yield from _judged(part.error_code, needs, f"told offsets of {name} in {id}")


def _offset_delete(exchange: Exchange) -> Iterator[Claim]:
    id = exchange.request.group_id
    yield from _judged(exchange.reply.error_code, {NO_GROUP: group(DELETE, id)}, f"deleted offsets of {id}")
    for one in exchange.reply.topics:
        for part in one.partitions:
            yield from _judged(part.error_code, {NO_TOPIC: topic(READ, one.name)}, f"deleted offsets of {one.name}")


def _delete_groups(exchange: Exchange) -> Iterator[Claim]:
    for one in exchange.reply.results:
        yield from _judged(one.error_code, {NO_GROUP: group(DELETE, one.group_id)}, f"deleted group {one.group_id}")


def _describe_groups(exchange: Exchange) -> Iterator[Claim]:
    for one in exchange.reply.groups:
        needs = {NO_GROUP: group(DESCRIBE, one.group_id)}
        yield from _judged(one.error_code, needs, f"described group {one.group_id}")


def _list_groups(exchange: Exchange) -> Iterator[Claim]:
    for one in exchange.reply.groups:
        either = (*group(DESCRIBE, one.group_id), *cluster(DESCRIBE))
        yield Claim(True, (either,), f"listed group {one.group_id}")


def _init_producer_id(exchange: Exchange) -> Iterator[Claim]:
    id, code = exchange.request.transactional_id, exchange.reply.error_code
    if id is None:
        either = (Right(WRITE, TOPIC, None), *cluster(IDEMPOTENT_WRITE))
        yield from _judged(code, {NO_CLUSTER: either}, "gave a producer id")
    else:
        yield from _judged(code, {NO_ID: transactional_id(WRITE, id)}, f"began an epoch of {id}")


def _add_partitions(exchange: Exchange) -> Iterator[Claim]:
    if exchange.version >= 4:
        yield from _whole(CLUSTER_ACTION, "added partitions to transactions")(exchange)
        return
    id = exchange.request.v3_and_below_transactional_id
    for one in exchange.reply.results_by_topic_v3_and_below:
        needs = {NO_ID: transactional_id(WRITE, id), NO_TOPIC: topic(WRITE, one.name)}
        for part in one.results_by_partition:
            if not one.name.startswith("__"):  # nobody may add an internal topic
                yield from _judged(part.partition_error_code, needs, f"added {one.name} to {id}")


def _add_offsets(exchange: Exchange) -> Iterator[Claim]:
    request = exchange.request
    needs = {NO_ID: transactional_id(WRITE, request.transactional_id), NO_GROUP: group(READ, request.group_id)}
    yield from _judged(exchange.reply.error_code, needs, f"added offsets to {request.transactional_id}")


def _end(exchange: Exchange) -> Iterator[Claim]:
    id = exchange.request.transactional_id
    yield from _judged(exchange.reply.error_code, {NO_ID: transactional_id(WRITE, id)}, f"ended {id}")


def _offsets_in_transaction(exchange: Exchange) -> Iterator[Claim]:
    request = exchange.request
    for one in exchange.reply.topics:
        needs = {
            NO_ID: transactional_id(WRITE, request.transactional_id), NO_GROUP: group(READ, request.group_id),
            NO_TOPIC: topic(READ, one.name),
        }  # fmt: skip
        for part in one.partitions:
            yield from _judged(part.error_code, needs, f"committed offsets of {one.name} in a transaction")


def _describe_transactions(exchange: Exchange) -> Iterator[Claim]:
    for one in exchange.reply.transaction_states:
        id = one.transactional_id
        yield from _judged(one.error_code, {NO_ID: transactional_id(DESCRIBE, id)}, f"described transaction {id}")
        if one.error_code == NONE:
            for part in one.topics:
                yield Claim(True, (topic(DESCRIBE, part.topic),), f"told of {part.topic} in a transaction")


def _list_transactions(exchange: Exchange) -> Iterator[Claim]:
    for one in exchange.reply.transaction_states:
        id = one.transactional_id
        yield Claim(True, (transactional_id(DESCRIBE, id),), f"listed transaction {id}")


def _named(field: str, needed: Callable[[str], Need], what: str) -> Callable[[Exchange], Iterator[Claim]]:
    """Answers with an error for each topic."""

    def claims(exchange: Exchange) -> Iterator[Claim]:
        for one in getattr(exchange.reply, field):
            if one.name is not None:
                yield from _judged(one.error_code, {NO_TOPIC: needed(one.name)}, f"{what} {one.name}")

    return claims


def _configs(operation: int, field: str, what: str) -> Callable[[Exchange], Iterator[Claim]]:
    def claims(exchange: Exchange) -> Iterator[Claim]:
        for one in getattr(exchange.reply, field):
            code, need = NO_CLUSTER, cluster(operation)
            if one.resource_type == TOPIC_CONFIGS:
                code, need = NO_TOPIC, topic(operation, one.resource_name)
            elif one.resource_type == GROUP_CONFIGS:
                code, need = NO_GROUP, group(operation, one.resource_name)
            yield from _judged(one.error_code, {code: need}, f"{what} of {one.resource_name!r}")

    return claims


def _whole(operation: int, what: str) -> Callable[[Exchange], Iterator[Claim]]:
    """Claims of requests that need one right to the cluster: an asker without it is refused, whatever else is wrong."""

    def claims(exchange: Exchange) -> Iterator[Claim]:
        found = set(codes(exchange.reply, exchange.version))
        if found:  # a request about nothing is answered with nothing
            yield Claim(REFUSALS.isdisjoint(found), (cluster(operation),), what)

    return claims


def codes(value: Any, version: int) -> Iterator[int]:
    """Every error in an answer, however deep."""
    for field in value.__struct__.fields:
        one = getattr(value, field.attribute)
        if version not in field.versions:
            continue
        if field.attribute.endswith("error_code"):
            yield one
        elif field.struct is not None and one is not None:
            for part in one if field.array else (one,):
                yield from codes(part, version)


CLAIMS: dict[str, Callable[[Exchange], Iterator[Claim]]] = {
    "AddOffsetsToTxn": _add_offsets,
    "AddPartitionsToTxn": _add_partitions,
    "AllocateProducerIds": _whole(CLUSTER_ACTION, "gave a block of producer ids"),
    "AlterClientQuotas": _whole(ALTER_CONFIGS, "changed quotas"),
    "AlterConfigs": _configs(ALTER_CONFIGS, "responses", "changed settings"),
    "AlterIsr": _whole(CLUSTER_ACTION, "changed an ISR"),
    "AlterPartitionReassignments": _whole(ALTER, "moved partitions"),
    "AlterReplicaLogDirs": _whole(ALTER, "moved replicas between directories"),
    "AlterUserScramCredentials": _whole(ALTER, "changed credentials"),
    "BeginQuorumEpoch": _whole(CLUSTER_ACTION, "heard of an epoch"),
    "BrokerHeartbeat": _whole(CLUSTER_ACTION, "took a heartbeat"),
    "ControllerHeartbeat": _whole(CLUSTER_ACTION, "took a heartbeat of a controller"),
    "CreateAcls": _whole(ALTER, "made access rules"),
    "CreatePartitions": _named("results", lambda name: topic(ALTER, name), "made partitions of"),
    "CreateTopics": _named("topics", lambda name: (*topic(CREATE, name), *cluster(CREATE)), "made topic"),
    "DeleteAcls": _whole(ALTER, "deleted access rules"),
    "DeleteGroups": _delete_groups,
    "DeleteRecords": _of_partitions(DELETE, "deleted records of"),
    "DeleteTopics": _named("responses", lambda name: topic(DELETE, name), "deleted topic"),
    "DescribeAcls": _whole(DESCRIBE, "described access rules"),
    "DescribeClientQuotas": _whole(DESCRIBE_CONFIGS, "described quotas"),
    "DescribeConfigs": _configs(DESCRIBE_CONFIGS, "results", "described settings"),
    "DescribeGroups": _describe_groups,
    "DescribeLogDirs": _whole(DESCRIBE, "described directories"),
    "DescribeProducers": _of_partitions(READ, "described producers of"),
    "DescribeQuorum": _whole(DESCRIBE, "described the quorum"),
    "DescribeTopicPartitions": _topic_partitions,
    "DescribeTransactions": _describe_transactions,
    "DescribeUserScramCredentials": _whole(DESCRIBE, "described credentials"),
    "ElectLeaders": _whole(ALTER, "elected leaders"),
    "EndQuorumEpoch": _whole(CLUSTER_ACTION, "heard of the end of an epoch"),
    "EndTxn": _end,
    "Envelope": _whole(CLUSTER_ACTION, "opened an envelope"),
    "Fetch": _fetch,
    "FetchSnapshot": _whole(CLUSTER_ACTION, "gave a snapshot"),
    "FindCoordinator": _coordinator,
    "Heartbeat": _of_group("took a heartbeat in"),
    "IncrementalAlterConfigs": _configs(ALTER_CONFIGS, "responses", "changed settings"),
    "InitProducerId": _init_producer_id,
    "JoinGroup": _of_group("let join"),
    "LeaveGroup": _of_group("let leave"),
    "ListConfigResources": _whole(DESCRIBE_CONFIGS, "listed resources with settings"),
    "ListGroups": _list_groups,
    "ListOffsets": _of_partitions(DESCRIBE, "told offsets of"),
    "ListPartitionReassignments": _whole(DESCRIBE, "listed reassignments"),
    "ListTransactions": _list_transactions,
    "OffsetCommit": _offset_commit,
    "OffsetDelete": _offset_delete,
    "OffsetFetch": _offset_fetch,
    "OffsetForLeaderEpoch": _epochs,
    "Metadata": _metadata,
    "Produce": _produce,
    "SyncGroup": _of_group("synchronised"),
    "TxnOffsetCommit": _offsets_in_transaction,
    "UnregisterBroker": _whole(ALTER, "unregistered a broker"),
    "UpdateFeatures": _whole(ALTER, "changed features"),
    "Vote": _whole(CLUSTER_ACTION, "voted"),
    "WriteTxnMarkers": _whole(CLUSTER_ACTION, "wrote markers"),
}
"""API -> what its answer claims."""

BY_CONTROLLERS = frozenset((
    "AlterClientQuotas", "AlterConfigs", "AlterPartitionReassignments", "AlterUserScramCredentials", "CreateAcls",
    "CreatePartitions", "CreateTopics", "DeleteAcls", "DeleteTopics", "ElectLeaders", "IncrementalAlterConfigs",
    "ListPartitionReassignments", "UnregisterBroker", "UpdateFeatures",
))  # fmt: skip
"""What brokers pass on: the controller that answers has done it."""

SPEAKS: dict[str, Callable[[Any], list[int]]] = {
    "AllocateProducerIds": lambda request: [request.broker_id],
    "AlterIsr": lambda request: [request.broker_id],
    "BeginQuorumEpoch": lambda request: [part.leader_id for one in request.topics for part in one.partitions],
    "BrokerHeartbeat": lambda request: [request.broker_id],
    "ControllerHeartbeat": lambda request: [request.controller_id],
    "EndQuorumEpoch": lambda request: [part.leader_id for one in request.topics for part in one.partitions],
    "Fetch": lambda request: [
        max(request.replica_id, request.replica_state.replica_id if request.replica_state else -1)
    ],
    "FetchSnapshot": lambda request: [request.replica_id],
    "Vote": lambda request: [part.replica_id for one in request.topics for part in one.partitions],
}
"""API -> the nodes in whose name it is asked."""
