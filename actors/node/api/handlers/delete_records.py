"""DeleteRecords (21), versions 0 to 2: nothing below an offset is read any more.

Behaviour: the leader moves its log start at once and answers when the log start of every replica that is alive has come
as far, or at the time limit with REQUEST_TIMED_OUT. Offset -1 is the high watermark.

Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE, POLICY_VIOLATION (a topic that is
compacted only), INVALID_TOPIC_EXCEPTION, REQUEST_TIMED_OUT.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from actors.authorization.resources import Operation, Resource
from actors.broker.replication.admission import RequestRefused
from actors.broker.replication.partition import Partition
from actors.metadata.topic_names import INTERNAL_TOPICS
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done, Parked
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.node.runtime.slices import SliceCount, Steps, go_on, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import DeleteRecordsRequest, DeleteRecordsResponse

HIGH_WATERMARK = -1
POLL_MS = 50
"""A follower's log start comes with its fetches and signals nothing."""


class _Pending(NamedTuple):
    partition: Partition
    offset: int
    data: Any


@rpc(21, "DeleteRecords", range(0, 3), listeners=(Listener.CLIENT,), lane=Lane.DATA, writes=Subject.RECORDS)
@in_slices
def delete_records(context: BrokerContext, request: "DeleteRecordsRequest", call: Call) -> Steps:
    """Move log starts, wait for the followers."""
    kind = message("DeleteRecordsResponse")
    response, pending = kind(), []
    pace = SliceCount()
    for topic in request.topics:
        result = kind.DeleteRecordsTopicResult(name=topic.name, partitions=[])
        response.topics.append(result)
        allowed = context.authorizer.allowed(call, Operation.DELETE, Resource.TOPIC, topic.name)
        for one in topic.partitions:
            data = kind.DeleteRecordsPartitionResult(partition_index=one.partition_index, low_watermark=-1)
            result.partitions.append(data)
            try:
                if not allowed:
                    raise RequestRefused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                pending.append(_delete(context, topic.name, one, data))
            except RequestRefused as refused:
                data.error_code = refused.code
            if pace.over():
                context.appends.signal()
                yield
                allowed = context.authorizer.allowed(call, Operation.DELETE, Resource.TOPIC, topic.name)
    context.appends.signal()
    deadline_ms = context.runtime.now.mono_ms + max(request.timeout_ms, 0)
    return (yield from _wait(context, response, pending, deadline_ms))


def _delete(
    context: BrokerContext,
    topic: str,
    one: "DeleteRecordsRequest.DeleteRecordsPartition",
    data: "DeleteRecordsResponse.DeleteRecordsPartitionResult",
) -> _Pending:
    partition = context.replicas.get(topic, one.partition_index)
    if partition is None:
        raise RequestRefused(context.availability.absent(topic, one.partition_index))
    if topic in INTERNAL_TOPICS:
        raise RequestRefused(ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition.check_epoch(-1, leader_only=True)
    if partition.settings.compact and not partition.settings.delete:
        raise RequestRefused(ErrorCode.POLICY_VIOLATION)
    offset = partition.high_watermark if one.offset == HIGH_WATERMARK else one.offset
    if not 0 <= offset <= partition.high_watermark:
        raise RequestRefused(ErrorCode.OFFSET_OUT_OF_RANGE)
    partition.log.delete_records(offset)
    context.replicas.started(partition)
    return _Pending(partition, offset, data)


def _wait(
    context: BrokerContext, response: "DeleteRecordsResponse", pending: list[_Pending], deadline_ms: int
) -> Steps:
    waiting = []
    pace = SliceCount()
    for one in pending:
        low = one.partition.low_watermark
        if not one.partition.leads:
            one.data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif low >= one.offset:
            one.data.low_watermark = low
        elif context.runtime.now.mono_ms >= deadline_ms:
            one.data.error_code = ErrorCode.REQUEST_TIMED_OUT
        else:
            waiting.append(one)
        if pace.over():
            yield
    if not waiting:
        return Done(response)
    return Parked(
        (),
        min(deadline_ms, context.runtime.now.mono_ms + POLL_MS),
        lambda expired: go_on(_wait(context, response, waiting, deadline_ms)),
    )
