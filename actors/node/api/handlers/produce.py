"""Produce (0), versions 3 to 13, advertised from 0 (librdkafka reads features out of the range).

Behaviour: each partition's bytes are checked, given offsets and the leader epoch in place, and appended as they came, or in
the codec that the topic asks for (KIP-390); acks=1 answers then, with flush.messages=1 once they are on this broker's disk;
acks=all when the high watermark over the maximal ISR has passed them, or at the time limit with REQUEST_TIMED_OUT; acks=0
answers nothing, and closes the connection on an error, once all else is appended. A repeated idempotent batch is answered
with the original's offset once that is committed, whatever acks says.

A batch of a transaction that is the first one in its partition waits until the coordinator has the partition in the
transaction (`roles/broker/transactions/transaction_verification.py`); later Produce requests of the connection wait
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

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.authorization.resources import Operation, Resource
from actors.broker.log.log import PartitionLog
from actors.broker.replication import admission
from actors.broker.replication.admission import CODECS, TRANSACTIONAL, Claims, Refused
from actors.broker.replication.partition import Partition
from actors.metadata.topic_names import INTERNAL_TOPICS
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.roles.broker.availability import Leader
from actors.node.roles.broker.replication.record_validation import BATCH_COST_MAX, ROOM, Inspection, Room, rest
from actors.node.roles.broker.transactions.transaction_verification import Check, Client, Question
from actors.node.runtime.answers import Answer, Close, Done, Later, Parked, mapped
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.node.runtime.slices import ENTRIES_A_SLICE, Pace, Steps, go_on
from actors.node.runtime.waiting import FAR_MS
from actors.ports import WorkKind
from actors.wire.errors import ErrorCode
from actors.wire.messages import changed, message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ProduceRequest, ProduceResponse

IDS_FROM = 13
LEADER_FROM = 10
ABORTABLE_FROM, ADDS_FROM = 11, 12
JUDGED = frozenset(
    (
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    )
)
"""The log itself refused the batch: the answer says where it starts."""
_RESPONSE = message("ProduceResponse")


class _Pending(NamedTuple):
    """A partition whose data is appended and not yet committed, or not yet on the disk where that is waited for."""

    topic: bytes | str
    """As the request names it."""
    partition: Partition
    leader_epoch: int
    required_offset: int
    data: Any
    """Its part of the response."""
    flushed: bool = False
    """It waits for this broker's disk alone: acks=1 with flush.messages=1."""

    def verdict(self) -> ErrorCode | None:
        """How it ended; None: not yet."""
        judge = self.partition.flushed_verdict if self.flushed else self.partition.verdict
        return judge(self.required_offset, self.leader_epoch)


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
    if not context.lookups.serving:
        return Close("this broker is fenced")
    if context.authorizer.enabled:
        return go_on(_authorized(context, request, call))
    return _begun(context, request, call)


def _authorized(context: BrokerContext, request: "ProduceRequest", call: Call) -> Steps:
    """What may be written is; the topics that may not be are answered beside it."""
    may, id = context.authorizer, request.transactional_id
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    kept: list[Any] = []
    denied: list[Any] = []
    pace = Pace()
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
    refused = Refused(code, code.text)
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
    """Append what may be. `refused`: something of the request was refused already."""
    order, plain = context.produced, request.transactional_id is None and not context.cluster.recompresses
    if plain and order.free(call.connection) and _plain(request):
        return go_on(_appended(context, request, call, {}, None, refused=refused))
    return _Request(context, request, call, refused).begin()


def _plain(request: "ProduceRequest") -> bool:
    """Whether no batch of a request is compressed. A long request is not looked through at once."""
    entries = 0
    for topic in request.topic_data:
        for one in topic.partition_data:
            entries += 1
            if entries == ENTRIES_A_SLICE or admission.compressed(one.records):
                return False
    return True


class _Request:
    """A request whose compressed batches are looked at first, and whose partitions must be in a transaction, if the batches
    are of one; when all are judged, it is appended."""

    __slots__ = ("_call", "_check", "_context", "_refused", "_request", "_verdicts")

    def __init__(self, context: BrokerContext, request: "ProduceRequest", call: Call, refused: bool) -> None:
        self._refused = refused
        self._context = context
        self._request = request
        self._call = call
        self._verdicts: dict[int, Inspection | Refused] = {}
        """Of each batch that is or gets compressed, by the id of its part of the request."""
        self._check: Check | None = None
        """What the coordinator was asked; None: nothing."""

    def begin(self) -> Answer:
        """Begin at once, unless a Produce request of this connection waits: then behind that one."""
        order, connection = self._context.produced, self._call.connection
        if order.free(connection):
            return go_on(self._first())
        order.enter(connection, self)
        return self._wait()

    def _first(self) -> Steps:
        """Append at once, unless a batch needs a thread or a coordinator: then later requests of the connection wait."""
        left = yield from self._inspect()
        yield from self._verify()
        if left or self._check is not None:
            self._context.produced.enter(self._call.connection, self)
            return self._judge(left)
        return (yield from self._append())

    def _wait(self) -> Answer:
        return Parked([self._context.produced.key(self._call.connection)], FAR_MS, self._again)

    def _again(self, expired: bool) -> Answer:
        return go_on(self._next()) if self._context.produced.first(self._call.connection, self) else self._wait()

    def _next(self) -> Steps:
        left = yield from self._inspect()
        yield from self._verify()
        if left or self._check is not None:
            return self._judge(left)
        return (yield from self._finish())

    def _judge(self, left: list[Inspection]) -> Answer:
        if left:
            size = sum(one.form_bytes for one in self._verdicts.values() if isinstance(one, Inspection))
            if not self._context.produced.reserve(self._call.connection, size):
                return Parked([ROOM], FAR_MS, lambda expired: self._judge(left))
            return Later(rest(left), lambda result: self._verified(False), WorkKind.RECORDS)
        return self._verified(False)

    def _verified(self, expired: bool) -> Answer:
        if self._check is not None and self._check.left:
            return Parked([self._check.key], FAR_MS, self._verified)
        return go_on(self._finish())

    def _finish(self) -> Steps:
        """All batches are judged; a job that failed has left some without a verdict."""
        try:
            if not self._context.lookups.serving:
                return Close("this broker is fenced")
            return (yield from self._append())
        finally:
            self._context.produced.leave(self._call.connection, self)

    def _verify(self) -> Generator[None, None, None]:
        """Ask the coordinator for the partitions of the request's batches, as far as they are not in the transaction yet."""
        request, version = self._request, self._call.api_version
        if not request.transactional_id:
            return
        questions, pace = [], Pace()
        for topic in request.topic_data:
            if not topic.partition_data and pace.over():
                yield
            for one in topic.partition_data:
                if pace.over():
                    yield
                try:
                    name = topic.topic_id if version >= IDS_FROM else topic.name
                    partition, claims = _admitted(self._context, name, one, request, version)
                except Refused:
                    continue  # the append says why
                if claims.attributes & TRANSACTIONAL:
                    questions.append(_question(one, partition, claims))
        self._check = self._context.verification.begin(request.transactional_id, _client(version), questions)

    def _inspect(self) -> Generator[None, None, list[Inspection]]:
        """Look at every batch that is or gets compressed, as far as the turn allows; those that a thread has to finish."""
        left: list[Inspection] = []
        room, recompresses = Room(), self._context.cluster.recompresses
        request, version, pace = self._request, self._call.api_version, Pace()
        for topic in request.topic_data:
            for one in topic.partition_data:
                if pace.over():
                    yield
                records = one.records
                if not recompresses and not admission.compressed(records):
                    continue
                name = topic.topic_id if version >= IDS_FROM else topic.name
                try:
                    partition, claims = _admitted(self._context, name, one, request, version)
                except Refused as refused:
                    self._verdicts[id(one)] = refused
                    continue
                settings = partition.settings
                target = admission.target(settings, claims.attributes) if recompresses else None
                if target is None and not claims.attributes & CODECS:
                    continue
                rules = admission.rules(settings, self._context.runtime.now.wall_ms)
                inspection = Inspection(records, rules, settings, target, room)
                self._verdicts[id(one)] = inspection
                order = self._context.produced
                if inspection.in_turn and (cost_max := min(order.budget(), BATCH_COST_MAX)) > 0:
                    order.spend(inspection.go_on(cost_max))
                if inspection.verdict is None:
                    left.append(inspection)
        return left

    def _append(self) -> Steps:
        return _appended(self._context, self._request, self._call, self._verdicts, self._check, refused=self._refused)


def _question(one: "ProduceRequest.PartitionProduceData", partition: Partition, claims: Claims) -> Question:
    return Question(id(one), partition, claims.producer_id, claims.producer_epoch, claims.base_sequence)


def _client(version: int) -> Client:
    return Client(adds=version >= ADDS_FROM, aborts=version >= ABORTABLE_FROM)


def _appended(
    context: BrokerContext,
    request: "ProduceRequest",
    call: Call,
    verdicts: dict[int, Inspection | Refused],
    check: Check | None,
    *,
    refused: bool,
) -> Steps:
    acks, version = request.acks, call.api_version
    response = _RESPONSE()
    pending: list[_Pending] = []
    failed = refused
    moved: dict[int, None] = {}
    pace = Pace()
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
                data = _append(context, name, one, request, version, verdicts, check, pending)
                failed = failed or data.error_code != ErrorCode.NONE
            except Refused as why:
                failed = True
                data = _refusal(one.index, why)
                if why.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    _name_leader(data, context.lookups.leader(name, one.index), moved)
            answer.partition_responses.append(data)
            if pace.over():
                context.appends.signal()
                yield
                if not context.lookups.serving:  # nothing is appended, or acknowledged, after the lease (R631-161)
                    return Close("this broker is fenced")
        if not topic.partition_data and pace.over():
            yield
            if not context.lookups.serving:
                return Close("this broker is fenced")
    context.appends.signal()
    if moved and version >= LEADER_FROM:
        response.node_endpoints = context.cache.node_endpoints(moved, _RESPONSE.NodeEndpoint, call.listener_name)
    if acks == 0:
        return Close("a produce request without acknowledgement failed") if failed else Done(None)
    if not pending:
        return Done(response)
    return _Wait(context, response, pending, context.runtime.now.mono_ms + max(request.timeout_ms, 0)).again(False)


def _append(
    context: BrokerContext,
    topic: bytes | str,
    one: "ProduceRequest.PartitionProduceData",
    request: "ProduceRequest",
    version: int,
    verdicts: dict[int, Inspection | Refused],
    check: Check | None,
    pending: list[_Pending],
) -> "ProduceResponse.PartitionProduceResponse":
    acks, records = request.acks, one.records
    partition, claims = _admitted(context, topic, one, request, version)
    log, wall_ms = partition.log, context.runtime.now.wall_ms
    try:
        admission.judge(claims)
        found = verdicts.get(id(one))
        if found is not None or claims.attributes & CODECS:
            records = admission.believe(records, found.verdict if isinstance(found, Inspection) else found)
    except Refused as refused:
        return _judged(one, log, refused)
    try:
        if claims.attributes & TRANSACTIONAL:
            context.verification.admit(_question(one, partition, claims), check, _client(version))
    except Refused as refused:
        if refused.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            raise  # what the coordinator refuses is no judgement of this log
        return _judged(one, log, refused)
    try:
        appended = context.appends.append(partition, records, client=True)
    except Refused as refused:
        return _judged(one, log, refused)
    data = _RESPONSE.PartitionProduceResponse(
        index=one.index, base_offset=appended.base_offset, log_start_offset=log.log_start_offset
    )
    if not appended.duplicate:
        context.appends.grown(partition)
    if partition.settings.message_timestamp_type == "LogAppendTime":
        data.log_append_time_ms = appended.timestamp if appended.duplicate else wall_ms
    if acks == -1 or appended.duplicate:
        required = appended.last_offset + 1
        if partition.verdict(required, partition.leader_epoch) is not ErrorCode.NONE:
            pending.append(_Pending(topic, partition, partition.leader_epoch, required, data))
    elif acks == 1 and partition.settings.flush_messages == 1:
        pending.append(_Pending(topic, partition, partition.leader_epoch, appended.last_offset + 1, data, True))
    return data


def _judged(
    one: "ProduceRequest.PartitionProduceData", log: PartitionLog, refused: Refused
) -> "ProduceResponse.PartitionProduceResponse":
    """The answer to a batch that this log does not take; any other refusal is raised again."""
    if refused.code not in JUDGED:
        raise refused
    data = _refusal(one.index, refused)
    data.log_start_offset = log.log_start_offset
    return data


def _admitted(
    context: BrokerContext,
    topic: bytes | str,
    one: "ProduceRequest.PartitionProduceData",
    request: "ProduceRequest",
    version: int,
) -> tuple[Partition, Claims]:
    """The partition, if it may be appended to, and what the batch claims, if it has the right form and size."""
    if not -1 <= request.acks <= 1:
        raise Refused(ErrorCode.INVALID_REQUIRED_ACKS)
    partition: Partition | None = context.replicas.get(topic, one.index)
    if partition is None:
        raise Refused(context.lookups.absent(topic, one.index))
    if partition.topic in INTERNAL_TOPICS:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{partition.topic} is written by the cluster only")
    claims = admission.check(one.records, partition.settings, version, request.transactional_id)
    partition.admit(request.acks)
    return partition, claims


def _refusal(index: int, refused: Refused) -> "ProduceResponse.PartitionProduceResponse":
    return _RESPONSE.PartitionProduceResponse(
        index=index,
        error_code=refused.code,
        base_offset=-1,
        error_message=str(refused),
        record_errors=[
            _RESPONSE.BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=text)
            for number, text in refused.records
        ],
    )


def _name_leader(data: "ProduceResponse.PartitionProduceResponse", leader: Leader, moved: dict[int, None]) -> None:
    moved[leader.id] = None
    data.current_leader = _RESPONSE.LeaderIdAndEpoch(leader_id=leader.id, leader_epoch=leader.epoch)


class _Wait:
    """A request with partitions that are not committed yet."""

    __slots__ = ("_context", "_deadline_ms", "_pending", "_response")

    def __init__(
        self, context: BrokerContext, response: "ProduceResponse", pending: list[_Pending], deadline_ms: int
    ) -> None:
        self._context = context
        self._response = response
        self._pending = pending
        self._deadline_ms = deadline_ms

    def again(self, expired: bool) -> Answer:
        """Answer when every partition has its verdict. After the lease nothing is acknowledged any more (R631-161)."""
        if not self._context.lookups.serving:
            return Close("this broker is fenced")
        waiting = []
        for one in self._pending:
            partition = one.partition
            if partition.removed:
                verdict: ErrorCode | None = self._context.lookups.absent(one.topic, partition.number)
            else:
                verdict = one.verdict()
            if verdict is None and expired:
                verdict = ErrorCode.REQUEST_TIMED_OUT
            if verdict is None:
                waiting.append(one)
            elif verdict is not ErrorCode.NONE:
                one.data.error_code = verdict
                one.data.base_offset = -1
        self._pending = waiting
        if not waiting:
            return Done(self._response)
        # Many may wait for one partition: each is asked when the high watermark has come to its batch.
        return Parked(
            [one.partition.committed for one in waiting],
            self._deadline_ms,
            self.again,
            [0 if one.flushed else one.required_offset for one in waiting],
        )
