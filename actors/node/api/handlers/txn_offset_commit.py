"""TxnOffsetCommit (28), versions 0 to 5: offsets of a group that count when the producer's transaction is committed
(KIP-98).

Behaviour: the partition of `__consumer_offsets` must be in the transaction, or is added to it
(`roles/broker/transaction_verification.py`). Answered when the offsets are committed to the log; they are visible with the
marker of the transaction. Many are written in portions, in the order in which they came.

Version notes: 2 leader epoch; 3 generation, member and instance of the consumer are checked (KIP-447); 4 knows
TRANSACTION_ABORTABLE; 5 the partition is added by this broker (KIP-890). Up to 1 COORDINATOR_NOT_AVAILABLE in place of
COORDINATOR_LOAD_IN_PROGRESS, for which such clients are not prepared.

Errors, of each partition: GROUP_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
TOPIC_AUTHORIZATION_FAILED, INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS (also while the transaction's
coordinator cannot answer), COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID,
OFFSET_METADATA_TOO_LARGE, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TXN_STATE, TRANSACTION_ABORTABLE, INVALID_PRODUCER_EPOCH,
INVALID_PRODUCER_ID_MAPPING, INVALID_REQUEST.
"""

from collections.abc import Generator
from typing import Any

from actors.authorization.resources import Operation, Resource
from actors.broker.admission import Refused
from actors.broker.groups.records import CommittedOffset
from actors.broker.partition import Partition
from actors.metadata.topic_names import OFFSETS_TOPIC
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.roles.broker.transaction_verification import Check, Client, Question
from actors.node.runtime.answers import Answer, Done, Parked, joined
from actors.node.runtime.calls import Call, Listener, Subject
from actors.node.runtime.slices import Pace, Steps, go_on
from actors.node.runtime.waiting import FAR_MS
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

MEMBERS_FROM, ABORTABLE_FROM, ADDS_FROM = 3, 4, 5
LOADING_FROM = 2
QUESTION = 0
AGAIN = frozenset((ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS))
"""Of a verification: ask again."""

_Written = tuple[list[Any], Answer]
"""Parts of the answer, and how the write of their offsets ends."""


@rpc(28, "TxnOffsetCommit", range(0, 6), listeners=(Listener.CLIENT,), writes=Subject.GROUPS)
def txn_offset_commit(context: BrokerContext, request: Any, call: Call) -> Answer:
    """Verify, then write."""
    error = _error(context, request, call)
    if error not in (ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH):
        return go_on(_refused(request, call, error))
    partition = _partition(context, request)
    if partition is None:
        return go_on(_refused(request, call, ErrorCode.NOT_COORDINATOR))
    question = Question(QUESTION, partition, request.producer_id, request.producer_epoch)
    check = context.verification.begin(request.transactional_id, _client(call), [question])

    def verified(expired: bool) -> Answer:
        if check is not None and check.left:
            return Parked([check.key], FAR_MS, verified)
        return go_on(_write(context, request, call, question, check))

    return verified(False)


def _client(call: Call) -> Client:
    return Client(adds=call.api_version >= ADDS_FROM, aborts=call.api_version >= ABORTABLE_FROM)


def _partition(context: BrokerContext, request: Any) -> Partition | None:
    found: Partition | None = context.replicas.get(OFFSETS_TOPIC, context.groups.machine.partition_of(request.group_id))
    return found


def _error(context: BrokerContext, request: Any, call: Call) -> ErrorCode:
    """What is wrong with the request as a whole. STALE_MEMBER_EPOCH: it depends on the partitions."""
    may = context.authorizer.allowed
    if not may(call, Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not may(call, Operation.READ, Resource.GROUP, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not request.transactional_id or request.producer_id < 0 or request.producer_epoch < 0:
        return ErrorCode.INVALID_REQUEST
    members = call.api_version >= MEMBERS_FROM
    return context.groups.machine.commit_error(
        request.group_id,
        request.member_id if members else "",
        request.group_instance_id if members else None,
        request.generation_id if members else -1,
        context.runtime.now,
        transactional=True,
    )


def _earlier_epoch_error(context: BrokerContext, request: Any, call: Call) -> Generator[None, None, ErrorCode]:
    """NONE: the member has held all these partitions since the epoch in which it commits (KIP-1251)."""
    machine, pace = context.groups.machine, Pace()
    for topic in request.topics:
        for one in topic.partitions:
            if not machine.held_since(
                request.group_id, request.member_id, request.generation_id, topic.name, one.partition_index
            ):
                return ErrorCode.ILLEGAL_GENERATION
            if pace.over():
                yield
    error = _error(context, request, call)
    return ErrorCode.NONE if error is ErrorCode.STALE_MEMBER_EPOCH else error


def _refused(request: Any, call: Call, error: ErrorCode) -> Steps:
    """The same error for each partition."""
    kind = message("TxnOffsetCommitResponse")
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and call.api_version < LOADING_FROM:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    reply = kind()
    pace = Pace()
    for topic in request.topics:
        shown = kind.TxnOffsetCommitResponseTopic(name=topic.name, partitions=[])
        reply.topics.append(shown)
        for one in topic.partitions:
            shown.partitions.append(
                kind.TxnOffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error)
            )
            if pace.over():
                yield
        if pace.over():
            yield
    return Done(reply)


def _write(context: BrokerContext, request: Any, call: Call, question: Question, check: Check | None) -> Steps:
    """Write the offsets. The first portion opens the transaction in this partition; the others find it open."""
    error = _error(context, request, call)
    if error is ErrorCode.STALE_MEMBER_EPOCH:
        error = yield from _earlier_epoch_error(context, request, call)
    if error is ErrorCode.NONE:
        error = _admitted(context, request, call, question, check)
    if error is not ErrorCode.NONE:
        return (yield from _refused(request, call, error))
    kind = message("TxnOffsetCommitResponse")
    reply = kind()
    written: list[_Written] = []
    portion: list[tuple[str, int, CommittedOffset]] = []
    answers: list[Any] = []
    image, machine = context.cache.image, context.groups.machine
    pace = Pace()
    for topic in request.topics:
        shown = kind.TxnOffsetCommitResponseTopic(name=topic.name, partitions=[])
        reply.topics.append(shown)
        row = image.topic(topic.name)
        allowed = context.authorizer.allowed(call, Operation.READ, Resource.TOPIC, topic.name)
        for one in topic.partitions:
            data = kind.TxnOffsetCommitResponsePartition(partition_index=one.partition_index)
            shown.partitions.append(data)
            metadata = one.committed_metadata or ""
            if not allowed:
                data.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif row < 0 or image.partition(row, one.partition_index) < 0:
                data.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif len(metadata) > machine.settings.metadata_bytes_max:
                data.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                wall_ms = context.runtime.now.wall_ms
                offset = CommittedOffset(one.committed_offset, one.committed_leader_epoch, metadata, wall_ms)
                portion.append((topic.name, one.partition_index, offset))
                answers.append(data)
            if pace.over():
                written += _begun(context, request, portion, answers)
                portion, answers = [], []
                yield
                image = context.cache.image
                row = image.topic(topic.name)
                if not _still_open(question):
                    # The transaction has ended between two portions: nothing of it is there any more.
                    return (yield from _refused(request, call, ErrorCode.INVALID_TXN_STATE))
        if pace.over():
            yield
            image = context.cache.image
    written += _begun(context, request, portion, answers)

    def finish(codes: list[ErrorCode]) -> Any:
        for (parts, _), code in zip(written, codes, strict=True):
            for data in parts:
                data.error_code = code
        return reply

    return joined([answer for _, answer in written], finish)


def _admitted(context: BrokerContext, request: Any, call: Call, question: Question, check: Check | None) -> ErrorCode:
    """Whether the transaction may write to the partition now."""
    if _partition(context, request) is not question.partition:
        return ErrorCode.NOT_COORDINATOR
    known = question.partition.log.producers.by_id.get(question.producer_id)
    if known is not None and known.epoch > question.producer_epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    try:
        context.verification.admit(question, check, _client(call))
    except Refused as refused:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if refused.code in AGAIN else refused.code
    return ErrorCode.NONE


def _still_open(question: Question) -> bool:
    known = question.partition.log.producers.by_id.get(question.producer_id)
    return known is not None and known.epoch == question.producer_epoch and known.transaction_offset >= 0


def _begun(
    context: BrokerContext, request: Any, portion: list[tuple[str, int, CommittedOffset]], answers: list[Any]
) -> list[_Written]:
    """Begin to write a portion, if there is anything in it."""
    if not portion:
        return []
    groups = context.groups
    producer = request.producer_id, request.producer_epoch
    answer = groups.commit(
        lambda then: groups.machine.commit_transactional(request.group_id, producer, portion, then),
        lambda code: code,
    )
    return [(answers, answer)]
