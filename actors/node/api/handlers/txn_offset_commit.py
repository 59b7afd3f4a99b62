"""TxnOffsetCommit (28), versions 0 to 5: offsets of a group that count when the producer's transaction is committed
(KIP-98).

Behaviour: the partition of `__consumer_offsets` must be in the transaction, or is added to it
(`roles/broker/replication/transaction_verification.py`). Answered when the offsets are committed to the log; they are
visible with the marker of the transaction. All that is accepted is one write (`api/offset_commits.py`): when the
producer or the member is replaced while a long request is looked at, nothing of it is written.

Version notes: 2 leader epoch; 3 generation, member and instance of the consumer are checked (KIP-447); 4 knows
TRANSACTION_ABORTABLE; 5 the partition is added by this broker (KIP-890). Up to 1 COORDINATOR_NOT_AVAILABLE in place of
COORDINATOR_LOAD_IN_PROGRESS, for which such clients are not prepared.

Errors, of each partition: GROUP_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
TOPIC_AUTHORIZATION_FAILED, INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS (also while the transaction's
coordinator cannot answer), COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID,
OFFSET_METADATA_TOO_LARGE, INVALID_COMMIT_OFFSET_SIZE, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TXN_STATE,
TRANSACTION_ABORTABLE, INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, INVALID_REQUEST.
"""

from functools import partial
from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.broker.replication.admission import RequestRefused
from actors.broker.replication.partition import Partition
from actors.metadata.topic_names import OFFSETS_TOPIC
from actors.node.api.contexts import BrokerContext
from actors.node.api.offset_commits import ResponseClasses, Terms, committed, refused
from actors.node.api.table import rpc
from actors.node.roles.broker.replication.transaction_verification import BatchToVerify, ClientAbilities, Verification
from actors.node.runtime.answers import Answer, Done, Parked
from actors.node.runtime.calls import Call, Listener, Subject
from actors.node.runtime.slices import Steps, go_on
from actors.node.runtime.waiting import FAR_MS
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import TxnOffsetCommitRequest

MEMBERS_FROM, ABORTABLE_FROM, ADDS_FROM = 3, 4, 5
LOADING_FROM = 2
QUESTION = 0
AGAIN = frozenset((ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS))
"""Answers of a verification after which the client is to ask again."""

_RESPONSE = message("TxnOffsetCommitResponse")
_SHAPE = ResponseClasses(_RESPONSE, _RESPONSE.TxnOffsetCommitResponseTopic, _RESPONSE.TxnOffsetCommitResponsePartition)


@rpc(28, "TxnOffsetCommit", range(0, 6), listeners=(Listener.CLIENT,), writes=Subject.GROUPS)
def txn_offset_commit(context: BrokerContext, request: "TxnOffsetCommitRequest", call: Call) -> Answer:
    """Have the partition of the offsets verified, then write them."""
    error = _error(context, request, call)
    partition = _partition(context, request)
    if error in (ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH) and partition is None:
        error = ErrorCode.NOT_COORDINATOR
    if error not in (ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH) or partition is None:
        return go_on(_refused(request, _told(error, call)))
    question = BatchToVerify(QUESTION, partition, request.producer_id, request.producer_epoch)
    check = context.verification.begin(request.transactional_id, _client(call), [question])

    return _verified(context, request, call, question, check)


def _verified(
    context: BrokerContext,
    request: "TxnOffsetCommitRequest",
    call: Call,
    question: BatchToVerify,
    check: Verification | None,
    expired: bool = False,
) -> Answer:
    if check is not None and check.left:
        return Parked([check.key], FAR_MS, partial(_verified, context, request, call, question, check))
    terms = _terms(context, request, call, question, check)
    return go_on(committed(context, request, call, terms, _SHAPE))


def _client(call: Call) -> ClientAbilities:
    return ClientAbilities(adds=call.api_version >= ADDS_FROM, aborts=call.api_version >= ABORTABLE_FROM)


def _partition(context: BrokerContext, request: "TxnOffsetCommitRequest") -> Partition | None:
    found: Partition | None = context.replicas.get(OFFSETS_TOPIC, context.groups.machine.partition_of(request.group_id))
    return found


def _error(context: BrokerContext, request: "TxnOffsetCommitRequest", call: Call) -> ErrorCode:
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


def _told(error: ErrorCode, call: Call) -> ErrorCode:
    """An error as a client of that version knows it."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and call.api_version < LOADING_FROM:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error


def _refused(request: "TxnOffsetCommitRequest", error: ErrorCode) -> Steps:
    """The reply with one error for all partitions."""
    return Done((yield from refused(request, error, False, _SHAPE)))


def _terms(
    context: BrokerContext,
    request: "TxnOffsetCommitRequest",
    call: Call,
    question: BatchToVerify,
    check: Verification | None,
) -> Terms:
    """What is asked before offsets are written, and how they are."""
    machine = context.groups.machine
    id, producer = request.group_id, (request.producer_id, request.producer_epoch)
    return Terms(
        group_id=id,
        by_id=False,
        error=lambda: _told(_error(context, request, call), call),
        held=lambda topic, number: machine.held_since(id, request.member_id, request.generation_id, topic, number),
        not_held=lambda: ErrorCode.ILLEGAL_GENERATION,
        admit=lambda: _told(_admitted(context, request, call, question, check), call),
        write=lambda offsets, records, then: machine.commit_transactional(id, producer, offsets, then, records),
    )


def _admitted(
    context: BrokerContext,
    request: "TxnOffsetCommitRequest",
    call: Call,
    question: BatchToVerify,
    check: Verification | None,
) -> ErrorCode:
    """Whether the transaction may write to the partition now."""
    if _partition(context, request) is not question.partition:
        return ErrorCode.NOT_COORDINATOR
    known = question.partition.log.producers.by_id.get(question.producer_id)
    if known is not None and known.epoch > question.producer_epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    try:
        context.verification.admit(question, check, _client(call))
    except RequestRefused as refused:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if refused.code in AGAIN else refused.code
    return ErrorCode.NONE
