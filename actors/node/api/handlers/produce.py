"""Produce (0), versions 3 to 13, advertised from 0 (librdkafka reads features out of the range).

Behaviour: each partition's bytes are checked, given offsets and the leader epoch in place, and appended as they came, or in
the codec that the topic asks for (KIP-390); acks=1 answers then, with flush.messages=1 once they are on this broker's disk;
acks=all when the high watermark over the maximal ISR has passed them, or at the time limit with REQUEST_TIMED_OUT; acks=0
answers nothing, and closes the connection on an error, once all else is appended. A repeated idempotent batch is answered
with the original's offset once that is committed, whatever acks says.

A batch of a transaction that is the first one in its partition waits until the coordinator has the partition in the
transaction (`roles/broker/replication/transaction_verification.py`); later Produce requests of the connection wait
behind it.

Version notes: 5 log start offset, 8 error messages, 9 flexible, 10 current leader, 11 TRANSACTION_ABORTABLE, 12 the leader
adds the partition to the transaction (KIP-890), 13 topic ids. zstd needs 7.

Errors: INVALID_REQUIRED_ACKS, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS,
NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT, INVALID_TOPIC_EXCEPTION, CORRUPT_MESSAGE, INVALID_RECORD,
MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE, INVALID_TIMESTAMP, INVALID_TXN_STATE,
TRANSACTIONAL_ID_AUTHORIZATION_FAILED (a transactional batch without a transactional id, as Apache Kafka answers it),
OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, KAFKA_STORAGE_ERROR, TRANSACTION_ABORTABLE, CONCURRENT_TRANSACTIONS,
INVALID_PRODUCER_ID_MAPPING.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from actors.authorization.resources import Operation, Resource
from actors.broker.replication.admission import RequestRefused
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.roles.broker.availability import Leader
from actors.node.roles.broker.replication.delayed_produce import Awaited, DelayedProduce, awaited
from actors.node.roles.broker.replication.produced_batches import IDS_FROM, Judged, ProduceAttempt
from actors.node.runtime.answers import Answer, Close, Done, mapped
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.node.runtime.slices import SliceCount, Steps, go_on
from actors.wire.errors import ErrorCode
from actors.wire.messages import changed, message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ProduceRequest, ProduceResponse

LEADER_FROM = 10
_RESPONSE = message("ProduceResponse")


@rpc(
    0,
    "Produce",
    range(3, 14),
    listeners=(Listener.CLIENT, Listener.INTER_BROKER),
    lane=Lane.DATA,
    advertised=range(0, 14),
    reads=Subject.METADATA,
    writes=Subject.RECORDS,
    pipelined=True,
)
def produce(context: BrokerContext, request: "ProduceRequest", call: Call) -> Answer:
    """Append, then answer as `acks` says."""
    if not context.availability.serving:
        return Close("this broker is fenced")
    if context.authorizer.enabled:
        return go_on(_authorized(context, request, call))
    return _begun(context, request, call)


def _authorized(context: BrokerContext, request: "ProduceRequest", call: Call) -> Steps:
    """Append to the topics that the client may write to, and answer the others beside them."""
    may, id = context.authorizer, request.transactional_id
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    kept: list[Any] = []
    denied: list[Any] = []
    pace = SliceCount()
    if id is not None and not may.allowed(call, Operation.WRITE, Resource.TRANSACTIONAL_ID, id):
        code, denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, list(request.topic_data)
    else:
        for topic in request.topic_data:
            name = context.cache.topic_name(topic.topic_id) if call.api_version >= IDS_FROM else topic.name
            allowed = name is None or may.allowed(call, Operation.WRITE, Resource.TOPIC, name)
            (kept if allowed else denied).append(topic)
            if pace.over():
                yield
    if not denied:
        return _begun(context, request, call)
    if request.acks == 0:
        if not kept:
            return Close("a produce request without acknowledgement is not authorized")
        return _begun(context, changed(request, topic_data=kept), call, refused=True)
    refused = RequestRefused(code, code.text)
    answers: list[Any] = []
    for topic in denied:
        named = {"topic_id": topic.topic_id} if call.api_version >= IDS_FROM else {"name": topic.name}
        answers.append(_RESPONSE.TopicProduceResponse(**named, partition_responses=[]))
        for one in topic.partition_data:
            answers[-1].partition_responses.append(_refusal(one.index, refused))
            if pace.over():
                yield
        if pace.over():
            yield

    def joined(reply: Any) -> Any:
        reply.responses += answers
        return reply

    if not kept:
        return Done(joined(_RESPONSE(responses=[])))
    return mapped(_begun(context, changed(request, topic_data=kept), call), joined)


def _begun(context: BrokerContext, request: "ProduceRequest", call: Call, *, refused: bool = False) -> Answer:
    """Append the batches. `refused`: something of the request was refused already."""
    if context.produces.plain(request, call.connection):
        return go_on(_appended(context, request, call, refused, None))
    append = partial(_appended, context, request, call, refused)
    return ProduceAttempt(context.produces, request, call.api_version, call.connection, append).begin()


def _appended(
    context: BrokerContext, request: "ProduceRequest", call: Call, failed: bool, judged: Judged | None
) -> Steps:
    acks, version = request.acks, call.api_version
    response = _RESPONSE()
    waiting: list[tuple[Awaited, ProduceResponse.PartitionProduceResponse]] = []
    moved: dict[int, None] = {}
    pace = SliceCount()
    for topic in request.topic_data:
        name: bytes | str
        if version >= IDS_FROM:
            name = topic.topic_id
            answer = _RESPONSE.TopicProduceResponse(topic_id=topic.topic_id, partition_responses=[])
        else:
            name = topic.name
            answer = _RESPONSE.TopicProduceResponse(name=topic.name, partition_responses=[])
        response.responses.append(answer)
        for one in topic.partition_data:
            try:
                partition, appended = context.produces.append(request, version, name, one, judged)
            except RequestRefused as why:
                failed = True
                data = _refusal(one.index, why)
                context.produces.refused(name, one, why.code)
                if why.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    _name_leader(data, context.availability.leader(name, one.index), moved)
            else:
                data = _RESPONSE.PartitionProduceResponse(
                    index=one.index,
                    base_offset=appended.base_offset,
                    log_start_offset=partition.log.log_start_offset,
                )
                if partition.settings.message_timestamp_type == "LogAppendTime":
                    wall_ms = context.runtime.now.wall_ms
                    data.log_append_time_ms = appended.timestamp if appended.duplicate else wall_ms
                if (pending := awaited(name, partition, appended, acks)) is not None:
                    waiting.append((pending, data))
            answer.partition_responses.append(data)
            if pace.over():
                context.appends.signal()
                yield
                if not context.availability.serving:  # nothing is appended, or acknowledged, after the lease (R631-161)
                    return Close("this broker is fenced")
        if not topic.partition_data and pace.over():
            yield
            if not context.availability.serving:
                return Close("this broker is fenced")
    context.appends.signal()
    if moved and version >= LEADER_FROM:
        response.node_endpoints = context.cache.node_endpoints(moved, _RESPONSE.NodeEndpoint, call.listener_name)
    if acks == 0:
        return Close("a produce request without acknowledgement failed") if failed else Done(None)
    if not waiting:
        return Done(response)
    deadline_ms = context.runtime.now.mono_ms + max(request.timeout_ms, 0)
    return DelayedProduce(context.availability, waiting, deadline_ms, partial(_ended, response)).again(False)


def _ended(
    response: "ProduceResponse", failed: "list[tuple[ProduceResponse.PartitionProduceResponse, ErrorCode]]"
) -> Answer:
    """The answer once each batch has its verdict."""
    for data, code in failed:
        data.error_code = code
        data.base_offset = -1
    return Done(response)


def _refusal(index: int, refused: RequestRefused) -> "ProduceResponse.PartitionProduceResponse":
    return _RESPONSE.PartitionProduceResponse(
        index=index,
        error_code=refused.code,
        base_offset=-1,
        log_start_offset=refused.log_start_offset,
        error_message=str(refused),
        record_errors=[
            _RESPONSE.BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=text)
            for number, text in refused.records
        ],
    )


def _name_leader(data: "ProduceResponse.PartitionProduceResponse", leader: Leader, moved: dict[int, None]) -> None:
    moved[leader.id] = None
    data.current_leader = _RESPONSE.LeaderIdAndEpoch(leader_id=leader.id, leader_epoch=leader.epoch)
