"""Produce (0), versions 3 to 13, advertised from 0 (librdkafka reads features out of the range).

Behaviour: each partition's bytes are checked, given offsets and the leader epoch in place, and appended as they came;
acks=1 answers then, with flush.messages=1 once they are on this broker's disk; acks=all when the high watermark over the
maximal ISR has passed them, or at the time limit with REQUEST_TIMED_OUT; acks=0 answers nothing, and closes the connection
on an error. A repeated idempotent batch is answered with the original's offset once that is committed, whatever acks says.

Version notes: 5 log start offset, 8 error messages, 9 flexible, 10 current leader, 13 topic ids. zstd needs 7.

Skipped: transactions, a broker-side change of the compression type, quotas.

Errors: INVALID_REQUIRED_ACKS, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS,
NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT, INVALID_TOPIC_EXCEPTION, CORRUPT_MESSAGE, INVALID_RECORD,
MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE, INVALID_TIMESTAMP, INVALID_TXN_STATE,
OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, KAFKA_STORAGE_ERROR.
"""

import struct
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.broker.partition import Partition, Refused
from actors.controller.names import INTERNAL_TOPICS
from actors.node.inspections import BATCH_COST_MAX, Inspection, rest
from actors.node.registry import Answer, Call, Close, Done, Lane, Later, Listener, Parked, Subject, rpc
from actors.node.slices import ENTRIES_A_SLICE, Pace, Steps, go_on
from actors.node.waiting import FAR_MS
from actors.ports import WorkKind
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.batch import retime

if TYPE_CHECKING:
    from actors.node.broker_role import BrokerRole
    from actors.node.node import Node

IDS_FROM = 13
LEADER_FROM = 10
ZSTD_FROM = 7
ZSTD, CODECS, TRANSACTIONAL = 4, 0x07, 0x10
HEADER_BYTES = 61
_BATCH = struct.Struct(">q35xqhi")
"""Of a batch: base offset, producer id and epoch, base sequence."""
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
def produce(node: "Node", request: Any, call: Call) -> Answer:
    """Append, then answer as `acks` says."""
    role = node.broker
    assert role is not None
    if not role.serving:
        return Close("this broker is fenced")
    if role.produced.free(call.connection) and _plain(request):
        return go_on(_appended(node, role, request, call, {}))
    return _Request(node, role, request, call).begin()


def _plain(request: Any) -> bool:
    """Whether no batch of a request is compressed. A long request is not looked through at once."""
    entries = 0
    for topic in request.topic_data:
        for one in topic.partition_data:
            entries += 1
            if entries == ENTRIES_A_SLICE or _compressed(one.records):
                return False
    return True


def _compressed(records: Any) -> bool:
    return records is not None and len(records) >= HEADER_BYTES and records[22] & CODECS != 0


class _Request:
    """A request whose compressed batches are looked at first; when all are judged, it is appended."""

    __slots__ = ("_call", "_node", "_request", "_role", "_verdicts")

    def __init__(self, node: "Node", role: "BrokerRole", request: Any, call: Call) -> None:
        self._node = node
        self._role = role
        self._request = request
        self._call = call
        self._verdicts: dict[int, Inspection | Refused] = {}
        """Of each compressed batch, by the id of its part of the request."""

    def begin(self) -> Answer:
        """Begin at once, unless a Produce request of this connection waits: then behind that one."""
        order, connection = self._role.produced, self._call.connection
        if order.free(connection):
            return go_on(self._first())
        order.enter(connection, self)
        return self._wait()

    def _first(self) -> Steps:
        """Append at once, unless a batch needs a thread: then later requests of the connection wait."""
        left = yield from self._inspect()
        if left:
            self._role.produced.enter(self._call.connection, self)
            return Later(rest(left), self._inspected, WorkKind.RECORDS)
        return (yield from self._append())

    def _wait(self) -> Answer:
        return Parked([self._role.produced.key(self._call.connection)], FAR_MS, self._again)

    def _again(self, expired: bool) -> Answer:
        return go_on(self._next()) if self._role.produced.first(self._call.connection, self) else self._wait()

    def _next(self) -> Steps:
        left = yield from self._inspect()
        if left:
            return Later(rest(left), self._inspected, WorkKind.RECORDS)
        return (yield from self._finish())

    def _inspected(self, result: object) -> Answer:
        return go_on(self._finish())

    def _finish(self) -> Steps:
        """All batches are judged; a job that failed has left some without a verdict."""
        try:
            if not self._role.serving:
                return Close("this broker is fenced")
            return (yield from self._append())
        finally:
            self._role.produced.leave(self._call.connection, self)

    def _inspect(self) -> Generator[None, None, list[Inspection]]:
        """Look at every compressed batch, as far as the turn allows; those that a thread has to finish."""
        left: list[Inspection] = []
        request, version, pace = self._request, self._call.api_version, Pace()
        for topic in request.topic_data:
            for one in topic.partition_data:
                if pace.over():
                    yield
                records = one.records
                if not _compressed(records):
                    continue
                name = topic.topic_id if version >= IDS_FROM else topic.name
                try:
                    partition = _admitted(self._role, name, one, request, version)
                except Refused as refused:
                    self._verdicts[id(one)] = refused
                    continue
                inspection = Inspection(records, partition.rules(self._node.now.wall_ms))
                self._verdicts[id(one)] = inspection
                order = self._role.produced
                if (cost_max := min(order.budget(), BATCH_COST_MAX)) > 0:
                    order.spend(inspection.go_on(cost_max))
                if inspection.verdict is None:
                    left.append(inspection)
        return left

    def _append(self) -> Steps:
        return _appended(self._node, self._role, self._request, self._call, self._verdicts)


def _appended(
    node: "Node", role: "BrokerRole", request: Any, call: Call, verdicts: dict[int, Inspection | Refused]
) -> Steps:
    acks, version = request.acks, call.api_version
    response = _RESPONSE()
    pending: list[_Pending] = []
    failed = False
    moved: dict[int, None] = {}
    pace = Pace()
    for topic in request.topic_data:
        name = topic.topic_id if version >= IDS_FROM else topic.name
        if version >= IDS_FROM:
            answer = _RESPONSE.TopicProduceResponse(topic_id=name, partition_responses=[])
        else:
            answer = _RESPONSE.TopicProduceResponse(name=name, partition_responses=[])
        response.responses.append(answer)
        for one in topic.partition_data:
            try:
                data = _append(role, name, one, request, version, verdicts, pending)
                failed = failed or data.error_code != ErrorCode.NONE
            except Refused as refused:
                failed = True
                data = _refusal(one.index, refused)
                if refused.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    partition = role.replicas.get(name, one.index)
                    if partition is not None:
                        _name_leader(data, partition, moved)
            answer.partition_responses.append(data)
            if pace.over():
                role.signal()
                yield
        if not topic.partition_data and pace.over():
            yield
    role.signal()
    if moved and version >= LEADER_FROM:
        response.node_endpoints = role.node_endpoints(moved, _RESPONSE.NodeEndpoint, call.listener_name)
    if acks == 0:
        return Close("a produce request without acknowledgement failed") if failed else Done(None)
    if not pending:
        return Done(response)
    return _Wait(node, role, response, pending, node.now.mono_ms + max(request.timeout_ms, 0)).again(False)


def _append(
    role: "BrokerRole",
    topic: bytes | str,
    one: Any,
    request: Any,
    version: int,
    verdicts: dict[int, Inspection | Refused],
    pending: list[_Pending],
) -> Any:
    acks, records = request.acks, one.records
    partition = _admitted(role, topic, one, request, version)
    log, wall_ms = partition.log, role.node.now.wall_ms
    try:
        _judge(records)
        if records[22] & CODECS:
            _believe(records, verdicts[id(one)])
        appended = role.append(partition, records, client=True)
    except Refused as refused:
        if refused.code not in JUDGED:
            raise
        data = _refusal(one.index, refused)
        data.log_start_offset = log.log_start_offset
        return data
    data = _RESPONSE.PartitionProduceResponse(
        index=one.index, base_offset=appended.base_offset, log_start_offset=log.log_start_offset
    )
    if not appended.duplicate:
        role.grown(partition)
    if partition.settings.message_timestamp_type == "LogAppendTime":
        data.log_append_time_ms = appended.timestamp if appended.duplicate else wall_ms
    if acks == -1 or appended.duplicate:
        required = appended.last_offset + 1
        if partition.verdict(required, partition.leader_epoch) is not ErrorCode.NONE:
            pending.append(_Pending(topic, partition, partition.leader_epoch, required, data))
    elif acks == 1 and partition.settings.flush_messages == 1:
        pending.append(_Pending(topic, partition, partition.leader_epoch, appended.last_offset + 1, data, True))
    return data


def _admitted(role: "BrokerRole", topic: bytes | str, one: Any, request: Any, version: int) -> Partition:
    """The partition, if it may be appended to and the batch has the right form and size."""
    if not -1 <= request.acks <= 1:
        raise Refused(ErrorCode.INVALID_REQUIRED_ACKS)
    partition: Partition | None = role.replicas.get(topic, one.index)
    if partition is None:
        raise Refused(role.absent(topic, one.index))
    if partition.topic in INTERNAL_TOPICS:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{partition.topic} is written by the cluster only")
    _check(one.records, partition, version, request.transactional_id)
    partition.admit(request.acks)
    return partition


def _believe(records: Any, verdict: Inspection | Refused) -> None:
    """Append a compressed batch whose records were looked at, with their largest timestamp in its header."""
    found = verdict.verdict if isinstance(verdict, Inspection) else verdict
    if found is None:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "the records of the batch could not be looked at")
    if isinstance(found, Refused):
        raise found
    retime(records, 0, found)


def _check(records: Any, partition: Partition, version: int, transactional_id: str | None) -> None:
    size = int.from_bytes(records[8:12], "big") + 12 if records is not None and len(records) >= HEADER_BYTES else -1
    if size != (0 if records is None else len(records)):
        raise Refused(ErrorCode.INVALID_RECORD, "a produce request holds one whole record batch a partition")
    if records[16] != 2:
        raise Refused(ErrorCode.INVALID_RECORD, f"record batches have magic 2 here, not {records[16]}")
    settings = partition.settings
    if size > settings.max_message_bytes:
        raise Refused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size} bytes is larger than max.message.bytes={settings.max_message_bytes}",
        )
    if size > settings.segment_bytes:
        raise Refused(ErrorCode.RECORD_LIST_TOO_LARGE, f"a batch of {size} bytes is larger than a segment")
    attributes = records[22]
    if attributes & CODECS == ZSTD and version < ZSTD_FROM:
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7")
    if transactional_id is not None or attributes & TRANSACTIONAL:
        raise Refused(ErrorCode.INVALID_TXN_STATE, "this cluster has no transactions")


def _judge(records: Any) -> None:
    """What the header of a batch tells apart from its records."""
    base_offset, producer_id, epoch, sequence = _BATCH.unpack_from(records)
    if base_offset != 0:
        raise Refused(ErrorCode.INVALID_RECORD, f"a produced batch counts its records from 0, not from {base_offset}")
    if producer_id >= 0 and (epoch < 0 or sequence < 0):
        raise Refused(ErrorCode.INVALID_RECORD, "a batch of an idempotent producer has an epoch and a sequence number")


def _refusal(index: int, refused: Refused) -> Any:
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


def _name_leader(data: Any, partition: Partition, moved: dict[int, None]) -> None:
    moved[partition.leader] = None
    data.current_leader = _RESPONSE.LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)


class _Wait:
    """A request with partitions that are not committed yet."""

    __slots__ = ("_deadline_ms", "_node", "_pending", "_response", "_role")

    def __init__(
        self, node: "Node", role: "BrokerRole", response: Any, pending: list[_Pending], deadline_ms: int
    ) -> None:
        self._node = node
        self._role = role
        self._response = response
        self._pending = pending
        self._deadline_ms = deadline_ms

    def again(self, expired: bool) -> Answer:
        """Answer when every partition has its verdict. After the lease nothing is acknowledged any more (R631-161)."""
        if not self._role.serving:
            return Close("this broker is fenced")
        waiting = []
        for one in self._pending:
            partition = one.partition
            if partition.removed:
                verdict: ErrorCode | None = self._role.absent(one.topic, partition.number)
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
