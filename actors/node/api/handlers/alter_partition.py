"""AlterPartition 0 to 3: a leader in ZooKeeper mode asks for another ISR (`zookeeper_alter_partition.py`).
Controllers, on the listeners for such brokers only.

Version notes: 0 is what Apache Kafka 2.7 to 3.1 call AlterIsr, and not the AlterIsr of KIP-497 that brokers of rayft send on
the controllers' own listener: the listener decides, never the version. 2 topic ids, 3 epochs of the members.

Errors: top level NOT_CONTROLLER, STALE_BROKER_EPOCH; by partition UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST,
FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, UNKNOWN_TOPIC_ID, INELIGIBLE_REPLICA.
"""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from actors.controller.partitions.zookeeper_alter_partition import IDS_FROM, AlterPartition
from actors.controller.portions import PROPOSED_BY_LEGACY
from actors.node.api.contexts import ControllerContext
from actors.node.api.handlers.alter_isr import in_order
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Held, Parked, Sliced
from actors.node.runtime.calls import Call, Lane, Listener
from actors.node.runtime.slices import Steps, go_on
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import AlterPartitionRequest

AGAIN_MS = 200
operation = cache(AlterPartition)


@rpc(56, "AlterPartition", range(4), listeners=[Listener.BRIDGE], lane=Lane.CONTROL)
def decide(context: ControllerContext, request: "AlterPartitionRequest", call: Call) -> Answer:
    """The active controller changes ISRs as their leaders ask. Before version 2 a member that may not join yet has a
    moment's time to become one that may: what is refused for that reason is decided a second time, and for good."""
    return in_order(context, request, call) or go_on(_decided(context, request, call))


def _decided(context: ControllerContext, request: "AlterPartitionRequest", call: Call) -> Steps:
    role, submit = context.role, context.role.submit
    answer = yield from _whole(submit(operation(call.api_version), request, call, PROPOSED_BY_LEGACY))
    if (
        call.api_version >= IDS_FROM
        or not isinstance(answer, Held)
        or not any(map(_refused, _partitions(answer.reply)))
    ):
        return answer
    first, epoch = answer, role.epoch

    def again() -> Steps:
        anew = operation(call.api_version, anew=True)
        if role.epoch != epoch:  # what was granted may be undone, since the leadership was lost meanwhile
            return (yield from _whole(submit(anew, request, call, PROPOSED_BY_LEGACY)))
        second = yield from _whole(submit(anew, _rest(request, first.reply), call, PROPOSED_BY_LEGACY))
        if not isinstance(second, Held):
            return second
        return Held(max(first.offset, second.offset), _joined(first.reply, second.reply))

    return Parked((), context.runtime.now.mono_ms + AGAIN_MS, lambda expired: go_on(again()))


def _whole(answer: Answer) -> Steps:
    """The answer once all its slices are done."""
    while isinstance(answer, Sliced):
        yield
        answer = answer.again()
    return answer


def _refused(one: Any) -> bool:
    return bool(one.error_code == ErrorCode.INVALID_REQUEST)


def _partitions(reply: Any) -> Iterator[Any]:
    return (one for topic in reply.topics for one in topic.partitions)


def _rest(request: "AlterPartitionRequest", reply: Any) -> Any:
    """The request with what the reply has refused for a member's sake. Before version 2 topics have names."""
    refused = {
        (topic.topic_name, one.partition_index) for topic in reply.topics for one in topic.partitions if _refused(one)
    }
    kind = message("AlterPartitionRequest")
    topics = []
    for topic in request.topics:
        left = [one for one in topic.partitions if (topic.topic_name, one.partition_index) in refused]
        if left:
            topics.append(kind.TopicData(topic_name=topic.topic_name, partitions=left))
    return kind(broker_id=request.broker_id, broker_epoch=request.broker_epoch, topics=topics)


def _joined(first: Any, second: Any) -> Any:
    """The first reply, with what the second says of partitions that the first has refused."""
    said = {(topic.topic_name, one.partition_index): one for topic in second.topics for one in topic.partitions}
    kind = message("AlterPartitionResponse")
    topics = []
    for topic in first.topics:
        partitions = [said.get((topic.topic_name, one.partition_index), one) for one in topic.partitions]
        topics.append(kind.TopicData(topic_name=topic.topic_name, topic_id=topic.topic_id, partitions=partitions))
    return kind(error_code=second.error_code, topics=topics)
