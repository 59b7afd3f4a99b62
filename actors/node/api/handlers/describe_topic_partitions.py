"""DescribeTopicPartitions (75), version 0 (KIP-966): topics by name, page by page.

Behaviour: topics in order of their names; a page ends at the limit asked for, `max.request.partition.size.limit` at
most; its cursor names the next partition.

Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, LEADER_NOT_AVAILABLE, INVALID_REQUEST.
"""

from typing import Any

from actors.authorization.resources import Operation, Resource
from actors.metadata.topic_names import INTERNAL_TOPICS
from actors.node.api.contexts import BrokerContext
from actors.node.api.handlers.metadata import legal
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.node.runtime.slices import Pace, Steps, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import message


@rpc(75, "DescribeTopicPartitions", range(0, 1), listeners=(Listener.CLIENT,), lane=Lane.DATA, reads=Subject.METADATA)
@in_slices
def describe_topic_partitions(context: BrokerContext, request: Any, call: Call) -> Steps:
    """One page of partitions."""
    kind = message("DescribeTopicPartitionsResponse")
    image, cursor = context.cache.image, request.cursor
    everything = not request.topics
    names = (
        [image.topic_name(row) for row in image.topics()] if everything else sorted({t.name for t in request.topics})
    )
    may = context.authorizer
    denied: list[str] = []
    if may.enabled:
        check = may.shown if everything else may.allowed
        denied = [name for name in names if not check(call, Operation.DESCRIBE, Resource.TOPIC, name)]
        names = sorted(set(names) - set(denied))
    if cursor is not None and cursor.partition_index < 0:
        refused = [
            kind.DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=one.name)
            for one in request.topics
        ]
        return Done(kind(topics=refused, next_cursor=None))
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    left = min(max(request.response_partition_limit, 1), context.config.value("max.request.partition.size.limit"))
    topics: list[Any] = [
        kind.DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
        for name in denied
        if not everything
    ]
    pace = Pace()
    for name in names:
        if pace.over():
            yield
        if left == 0:
            return Done(kind(topics=topics, next_cursor=kind.Cursor(topic_name=name, partition_index=0)))
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
        rows = [one for one in image.topic_partitions(row) if image.number(one) >= start]
        topics.append(
            kind.DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=image.topic_id(row),
                is_internal=name in INTERNAL_TOPICS,
                partitions=[_partition(context, kind, one) for one in rows[:left]],
                topic_authorized_operations=may.operations(call, Resource.TOPIC, name),
            )
        )
        if len(rows) > left:
            following = kind.Cursor(topic_name=name, partition_index=image.number(rows[left]))
            return Done(kind(topics=topics, next_cursor=following))
        left -= len(rows)
    return Done(kind(topics=topics, next_cursor=None))


def _partition(context: BrokerContext, kind: Any, row: int) -> Any:
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
