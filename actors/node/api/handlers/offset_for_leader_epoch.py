"""OffsetForLeaderEpoch (23), versions 2 to 4: where a leader epoch ended here (KIP-101, KIP-279, KIP-320).

Version notes: 3 replica id, 4 flexible.

Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
"""

from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.broker.replication.admission import RequestRefused
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.node.runtime.slices import SliceCount, Steps, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse


@rpc(
    23,
    "OffsetForLeaderEpoch",
    range(2, 5),
    listeners=(Listener.CLIENT, Listener.INTER_BROKER),
    lane=Lane.DATA,
    reads=Subject.RECORDS,
)
@in_slices
def offset_for_leader_epoch(context: BrokerContext, request: "OffsetForLeaderEpochRequest", call: Call) -> Steps:
    """The end offset of each epoch asked for."""
    kind = message("OffsetForLeaderEpochResponse")
    reply = kind()
    node = context.authorizer.shown(call, Operation.CLUSTER_ACTION, Resource.CLUSTER)
    pace = SliceCount()
    for topic in request.topics:
        result = kind.OffsetForLeaderTopicResult(topic=topic.topic, partitions=[])
        reply.topics.append(result)
        allowed = node or context.authorizer.allowed(call, Operation.DESCRIBE, Resource.TOPIC, topic.topic)
        for one in topic.partitions:
            if allowed:
                result.partitions.append(_end(context, kind, topic.topic, one))
            else:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                result.partitions.append(kind.EpochEndOffset(error_code=code, partition=one.partition))
            if pace.over():
                yield
    return Done(reply)


def _end(
    context: BrokerContext,
    kind: "type[OffsetForLeaderEpochResponse]",
    topic: str,
    one: "OffsetForLeaderEpochRequest.OffsetForLeaderPartition",
) -> "OffsetForLeaderEpochResponse.EpochEndOffset":
    partition = context.replicas.get(topic, one.partition)
    try:
        if partition is None:
            raise RequestRefused(context.availability.absent(topic, one.partition))
        partition.check_epoch(one.current_leader_epoch, leader_only=True)
    except RequestRefused as refused:
        return kind.EpochEndOffset(error_code=refused.code, partition=one.partition)
    epoch, end = partition.log.end_offset_for_epoch(one.leader_epoch)
    return kind.EpochEndOffset(partition=one.partition, leader_epoch=epoch, end_offset=end)
