"""DescribeTopicPartitions (75), version 0 (KIP-966): topics by name, page by page.

Behaviour: topics in order of their names; a page ends at the limit asked for, `max.request.partition.size.limit` at
most; its cursor names the next partition.

Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, LEADER_NOT_AVAILABLE, INVALID_REQUEST.
"""

from bisect import bisect_left
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from actors.authorization.resources import Operation, Resource
from actors.metadata.topic_names import INTERNAL_TOPICS
from actors.node.api.contexts import BrokerContext
from actors.node.api.handlers.metadata import legal
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.node.runtime.slices import SliceCount, Steps, in_slices, put_in_order
from actors.wire.errors import ErrorCode
from actors.wire.messages import ZERO_UUID, message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse

GONE = -1


@rpc(75, "DescribeTopicPartitions", range(0, 1), listeners=(Listener.CLIENT,), lane=Lane.DATA, reads=Subject.METADATA)
@in_slices
def describe_topic_partitions(context: BrokerContext, request: "DescribeTopicPartitionsRequest", call: Call) -> Steps:
    """One page of partitions."""
    kind = message("DescribeTopicPartitionsResponse")
    cursor, everything = request.cursor, not request.topics
    pace = SliceCount()
    if cursor is not None and cursor.partition_index < 0:
        refused = []
        for one in request.topics:
            refused.append(
                kind.DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=one.name)
            )
            if pace.over():
                yield
        return Done(kind(topics=refused, next_cursor=None))
    left = min(max(request.response_partition_limit, 1), context.config.value("max.request.partition.size.limit"))
    topics: list[Any] = []
    if everything:
        first = "" if cursor is None else cursor.topic_name
        names = yield from _first_names(context, call, first, left + 1, pace)
    else:
        names = yield from put_in_order((topic.name for topic in request.topics), pace)
        if context.authorizer.enabled:
            allowed = yield from context.authorizer.allowed_names(call, Operation.DESCRIBE, Resource.TOPIC, names)
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            kept = []
            for name in names:
                if name in allowed:
                    kept.append(name)
                else:
                    topics.append(kind.DescribeTopicPartitionsResponseTopic(error_code=code, name=name))
                if pace.over():
                    yield
            names = kept
        if cursor is not None:
            names = names[bisect_left(names, cursor.topic_name) :]
    may = context.authorizer
    for name in names:
        if pace.over():
            yield
        if left == 0:
            return Done(kind(topics=topics, next_cursor=kind.Cursor(topic_name=name, partition_index=0)))
        image = context.cache.image
        row = image.topic(name)
        if row < 0:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
            topics.append(
                kind.DescribeTopicPartitionsResponseTopic(
                    error_code=error,
                    name=name,
                    topic_authorized_operations=may.operations(call, Resource.TOPIC, name),
                )
            )
            continue
        start = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        topic = kind.DescribeTopicPartitionsResponseTopic(
            name=name,
            topic_id=image.topic_id(row) or ZERO_UUID,
            is_internal=name in INTERNAL_TOPICS,
            partitions=[],
            topic_authorized_operations=may.operations(call, Resource.TOPIC, name),
        )
        following = yield from _partitions(context, kind, topic, row, start, left, pace)
        if following == GONE:
            continue
        topics.append(topic)
        if following is not None:
            return Done(kind(topics=topics, next_cursor=kind.Cursor(topic_name=name, partition_index=following)))
        left -= len(topic.partitions)
    return Done(kind(topics=topics, next_cursor=None))


def _first_names(
    context: BrokerContext, call: Call, first: str, most: int, pace: SliceCount
) -> Generator[None, None, list[str]]:
    """The first `most` names of topics from `first` on that the principal may describe."""
    may, image, found = context.authorizer, context.cache.image, list[str]()
    for row in image.topics():
        name = image.topic_name(row)
        if name >= first and may.shown(call, Operation.DESCRIBE, Resource.TOPIC, name):
            found.append(name)
            if len(found) == most:
                break
        if pace.over():
            yield
    return found


def _partitions(
    context: BrokerContext,
    kind: "type[DescribeTopicPartitionsResponse]",
    topic: Any,
    row: int,
    start: int,
    most: int,
    pace: SliceCount,
) -> Generator[None, None, int | None]:
    """Put the partitions of a topic into its part of the answer. The number of the next one, if `most` are there; None: they
    are all; GONE: the topic was deleted meanwhile."""
    image = context.cache.image
    for partition in image.topic_partitions(row):
        if image.number(partition) >= start:
            if len(topic.partitions) == most:
                return image.number(partition)
            topic.partitions.append(_partition(context, kind, partition))
        if pace.over():
            yield
            image = context.cache.image
            if image.topic_by_id(topic.topic_id) != row:
                return GONE
    return None


def _partition(
    context: BrokerContext, kind: "type[DescribeTopicPartitionsResponse]", row: int
) -> "DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition":
    # As in Metadata: fenced and absent are one to a client.
    image, alive = context.cache.image, context.cluster.unfenced
    leader, replicas = image.leader(row), image.replicas(row)
    available = leader in alive
    return kind.DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if available else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=image.number(row),
        leader_id=leader if available else -1,
        leader_epoch=image.leader_epoch(row),
        replica_nodes=list(replicas),
        isr_nodes=list(image.isr(row)),
        eligible_leader_replicas=list(image.elr(row)),
        last_known_elr=list(image.last_known_elr(row)),
        offline_replicas=[replica for replica in replicas if replica not in alive],
    )
