"""DescribeProducers (61), version 0: what a replica here remembers of each producer, its open transaction too (KIP-664).

Behaviour: any replica answers, not only the leader: `kafka-transactions.sh find-hanging` asks the leader, an administrator
may ask another one.

Errors, by partition: TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER (no replica here),
KAFKA_STORAGE_ERROR.
"""

from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.broker.log.producers.producers import Producer
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.node.runtime.slices import SliceCount, Steps, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import DescribeProducersRequest, DescribeProducersResponse


@rpc(61, "DescribeProducers", range(0, 1), listeners=(Listener.CLIENT,), lane=Lane.DATA, reads=Subject.RECORDS)
@in_slices
def describe_producers(context: BrokerContext, request: "DescribeProducersRequest", call: Call) -> Steps:
    """The producers of each partition asked for, once each."""
    kind = message("DescribeProducersResponse")
    wanted: dict[str, dict[int, None]] = {}
    pace = SliceCount()
    for topic in request.topics:
        numbers = wanted.setdefault(topic.name, {})
        for number in topic.partition_indexes:
            numbers[number] = None
            if pace.over():
                yield
        if pace.over():
            yield
    response = kind(topics=[])
    for name, numbers in wanted.items():
        answer = kind.TopicResponse(name=name, partitions=[])
        response.topics.append(answer)
        allowed = context.authorizer.allowed(call, Operation.READ, Resource.TOPIC, name)
        for number in numbers:
            data = kind.PartitionResponse(partition_index=number, active_producers=[])
            answer.partitions.append(data)
            if pace.over():
                yield
            if not allowed:
                data.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                continue
            partition = context.replicas.get(name, number)
            if partition is None:
                data.error_code = context.availability.absent(name, number)
                continue
            for producer_id, producer in list(partition.log.producers.by_id.items()):
                data.active_producers.append(_state(kind, producer_id, producer))
                if pace.over():
                    yield
    return Done(response)


def _state(
    kind: "type[DescribeProducersResponse]", producer_id: int, producer: Producer
) -> "DescribeProducersResponse.ProducerState":
    return kind.ProducerState(
        producer_id=producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.batches[-1].last_sequence if producer.batches else -1,
        last_timestamp=producer.timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.transaction_offset,
    )
