"""WriteTxnMarkers (27), versions 1 and 2: a coordinator ends transactions in the partitions of this broker (KIP-98).

Behaviour: a marker is appended to each partition as acks=all, and the answer says of each, when it is committed, or after
30 seconds REQUEST_TIMED_OUT. A marker that was appended stays, so the coordinator asks again until it hears NONE, and the
second marker changes nothing. When a marker in a partition of `__consumer_offsets` is committed, the group coordinator hears
of it before the answer leaves. The administrator's `kafka-transactions.sh abort` asks for markers too (KIP-664), so the
listeners of clients serve it.

Version notes: 2 the transaction version (KIP-890): from 2 on the marker's epoch must be above the producer's.

Errors, by partition: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS,
NOT_ENOUGH_REPLICAS_AFTER_APPEND, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, REQUEST_TIMED_OUT,
KAFKA_STORAGE_ERROR, INVALID_REQUEST (no producer has that id, or that epoch).
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from actors.broker.groups.coordinator import MarkerPlace
from actors.broker.replication.admission import RequestRefused
from actors.broker.replication.partition import Partition
from actors.metadata.topic_names import OFFSETS_TOPIC
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Close, Done, Parked
from actors.node.runtime.calls import Call, Lane, Listener
from actors.node.runtime.slices import SliceCount, Steps, go_on, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import WriteTxnMarkersRequest, WriteTxnMarkersResponse

TIMEOUT_MS = 30_000
VERSION_FROM = 2


class _Pending(NamedTuple):
    """A marker that is appended and not yet committed."""

    partition: Partition
    leader_epoch: int
    required_offset: int
    marker: Any
    """The marker as the request has it."""
    data: Any
    """The marker's part of the response."""
    place: MarkerPlace | None
    """In a partition of `__consumer_offsets`: where it stands for the group coordinator."""


@rpc(27, "WriteTxnMarkers", range(1, 3), listeners=(Listener.CLIENT, Listener.INTER_BROKER), lane=Lane.DATA)
@in_slices
def write_txn_markers(context: BrokerContext, request: "WriteTxnMarkersRequest", call: Call) -> Steps:
    """Append every marker, then wait for all of them."""
    if not context.availability.serving:
        return Close("this broker is fenced")
    kind = message("WriteTxnMarkersResponse")
    response = kind(markers=[])
    pending: list[_Pending] = []
    pace = SliceCount()
    for marker in request.markers:
        result = kind.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=[])
        response.markers.append(result)
        for topic in marker.topics:
            answer = kind.WritableTxnMarkerTopicResult(name=topic.name, partitions=[])
            result.topics.append(answer)
            for number in dict.fromkeys(topic.partition_indexes):
                data = kind.WritableTxnMarkerPartitionResult(partition_index=number, error_code=ErrorCode.NONE)
                answer.partitions.append(data)
                try:
                    pending.append(_append(context, topic.name, number, marker, call.api_version, data))
                except RequestRefused as refused:
                    data.error_code = refused.code
                if pace.over():
                    context.appends.signal()
                    yield
                    if not context.availability.serving:
                        return Close("this broker is fenced")
            if pace.over():
                yield
    context.appends.signal()
    return (yield from _wait(context, response, pending, context.runtime.now.mono_ms + TIMEOUT_MS))


def _append(
    context: BrokerContext,
    topic: str,
    number: int,
    marker: "WriteTxnMarkersRequest.WritableTxnMarker",
    version: int,
    data: "WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult",
) -> _Pending:
    partition = context.replicas.get(topic, number)
    if partition is None:
        raise RequestRefused(context.availability.absent(topic, number))
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        raise RequestRefused(ErrorCode.INVALID_REQUEST)
    appended = context.appends.end_transaction(
        partition,
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.coordinator_epoch,
        marker.transaction_version if version >= VERSION_FROM else 0,
    )
    context.appends.grown(partition)
    context.verification.transaction_ended(partition, marker.producer_id, marker.producer_epoch)
    place = context.groups.machine.marker_place(number) if topic == OFFSETS_TOPIC else None
    return _Pending(partition, partition.leader_epoch, appended.last_offset + 1, marker, data, place)


def _wait(
    context: BrokerContext, response: "WriteTxnMarkersResponse", pending: list[_Pending], deadline_ms: int
) -> Steps:
    if not context.availability.serving:
        return Close("this broker is fenced")
    waiting = []
    pace = SliceCount()
    for one in pending:
        verdict = one.partition.verdict(one.required_offset, one.leader_epoch)
        if verdict is ErrorCode.NONE and one.place is not None:
            marker = one.marker
            context.groups.transaction_ended(
                one.partition.number, marker.producer_id, marker.transaction_result, one.place
            )
        if verdict is None and context.runtime.now.mono_ms >= deadline_ms:
            verdict = ErrorCode.REQUEST_TIMED_OUT
        if verdict is None:
            waiting.append(one)
        else:
            one.data.error_code = verdict
        if pace.over():
            yield
    if not waiting:
        return Done(response)
    return Parked(
        [one.partition.committed for one in waiting],
        deadline_ms,
        lambda expired: go_on(_wait(context, response, waiting, deadline_ms)),
        [one.required_offset for one in waiting],
    )
