"""AddPartitionsToTxn (24), versions 0 to 5: partitions that a transaction is about to write to (KIP-98, KIP-890).

Behaviour: all partitions of a transaction are added, or none: where one does not exist, the others are told
OPERATION_NOT_ATTEMPTED. Answered when the record of the transaction is committed.

Version notes: 0 to 3 are a client's, with one transaction. 2 PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH. 4 and 5
are a broker's, with several transactions, each of which is to be added to or only verified (TRANSACTION_ABORTABLE for a
partition that is not in it); a client that asks with them is served alike. Of a transaction that is named twice the first
counts.

Errors: CLUSTER_AUTHORIZATION_FAILED (4 and 5). Of each partition:
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, OPERATION_NOT_ATTEMPTED,
INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_PRODUCER_EPOCH, CONCURRENT_TRANSACTIONS,
NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, TRANSACTION_ABORTABLE, POLICY_VIOLATION,
UNSUPPORTED_VERSION.
"""

from collections.abc import Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.authorization.resources import Operation, Resource
from actors.broker.transactions.state import TopicPartition
from actors.metadata.topic_names import INTERNAL_TOPICS, OFFSETS_TOPIC
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Lane, Listener
from actors.node.runtime.slices import SliceCount, Steps, in_slices, joined, portions
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

BATCHED_FROM = 4
FENCED_FROM = 2
VERSION_2 = 2
CLASSIC = 0


class _Transaction(NamedTuple):
    """One transaction that a request names."""

    id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    partitions: Sequence[TopicPartition]


@rpc(24, "AddPartitionsToTxn", range(0, 6), listeners=(Listener.CLIENT,), lane=Lane.DATA)
@in_slices
def add_partitions_to_txn(context: BrokerContext, request: "AddPartitionsToTxnRequest", call: Call) -> Steps:
    """Add partitions to transactions, or verify that they are in them."""
    batched = call.api_version >= BATCHED_FROM
    if batched:
        if not context.authorizer.allowed(call, Operation.CLUSTER_ACTION, Resource.CLUSTER):
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            return Done(message("AddPartitionsToTxnResponse")(error_code=code))
        named = [
            (one.transactional_id, one.producer_id, one.producer_epoch, one.verify_only, one.topics)
            for one in request.transactions
        ]
    else:
        named = [
            (
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                False,
                request.v3_and_below_topics,
            )
        ]
    pace = SliceCount()
    transactions: dict[str, _Transaction] = {}
    for id, producer_id, producer_epoch, verify_only, topics in named:
        partitions: dict[TopicPartition, None] = {}
        for topic in topics:
            for number in topic.partitions:
                partitions[topic.name, number] = None
                if pace.over():
                    yield
            if pace.over():
                yield
        transactions.setdefault(id, _Transaction(id, producer_id, producer_epoch, verify_only, list(partitions)))
    answers: list[Answer] = []
    for one in transactions.values():
        answers.append((yield from _one(context, one, call, batched, pace)))
        if pace.over():
            yield
    if not batched:
        return joined(answers, partial(_classic, call.api_version))
    return joined(answers, _batched)


def _one(
    context: BrokerContext, one: _Transaction, call: Call, batched: bool, pace: SliceCount
) -> Generator[None, None, Answer]:
    """The reply is (transaction, error of each partition)."""
    machine = context.transactions.machine
    for some in portions(one.partitions):  # ahead of what is done with all of them in one go
        if pace.over(len(some)):
            yield
    if not batched and not context.authorizer.allowed(call, Operation.WRITE, Resource.TRANSACTIONAL_ID, one.id):
        return Done((one, [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * len(one.partitions)))
    allowed: set[str] | None = None
    if not batched:
        topics = (topic for topic, _ in one.partitions)
        allowed = yield from context.authorizer.allowed_names(call, Operation.WRITE, Resource.TOPIC, topics)
    if not batched or not one.verify_only:
        codes = []
        for partition in one.partitions:
            codes.append(_place_error(context, partition, allowed))
            if pace.over():
                yield
        if any(code is not ErrorCode.NONE for code in codes):
            return Done(
                (one, [ErrorCode.OPERATION_NOT_ATTEMPTED if code is ErrorCode.NONE else code for code in codes])
            )
    if one.verify_only:
        found = machine.verify(one.id, one.producer_id, one.producer_epoch, one.partitions)
        return Done((one, [found] * len(one.partitions) if isinstance(found, ErrorCode) else found))
    return context.transactions.ask(
        call.connection,
        lambda ticket: machine.add(
            one.id,
            ticket,
            one.producer_id,
            one.producer_epoch,
            frozenset(one.partitions),
            VERSION_2 if batched else CLASSIC,
            context.runtime.now,
            patient=not batched,  # a broker asks for many transactions at once, and tries by itself
        ),
        lambda verdict: (one, [verdict.error] * len(one.partitions)),
    )


def _place_error(context: BrokerContext, partition: TopicPartition, allowed: set[str] | None) -> ErrorCode:
    """A client writes to no internal topic; the group coordinator adds its own partition (TxnOffsetCommit 5).
    `allowed`: topics that the client may write to; None: a broker asks."""
    image = context.cache.image
    topic, number = partition
    if allowed is not None and topic not in allowed:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if topic in INTERNAL_TOPICS and not (allowed is None and topic == OFFSETS_TOPIC):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    row = image.topic(topic)
    if row < 0 or image.partition(row, number) < 0:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _results(
    kind: "type[AddPartitionsToTxnResponse]", one: _Transaction, codes: Sequence[ErrorCode], pace: SliceCount
) -> Generator[None, None, list[Any]]:
    topics: dict[str, Any] = {}
    for (name, number), code in zip(one.partitions, codes, strict=True):
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = kind.AddPartitionsToTxnTopicResult(name=name, results_by_partition=[])
        topic.results_by_partition.append(
            kind.AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
        )
        if pace.over():
            yield
    return list(topics.values())


def _classic(version: int, replies: list[tuple[_Transaction, Sequence[ErrorCode]]]) -> Generator[None, None, Any]:
    kind, pace = message("AddPartitionsToTxnResponse"), SliceCount()
    one, codes = replies[0]
    if version < FENCED_FROM:
        fenced, old = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
        codes = [old if code is fenced else code for code in codes]
    return kind(results_by_topic_v3_and_below=(yield from _results(kind, one, codes, pace)))


def _batched(replies: list[tuple[_Transaction, Sequence[ErrorCode]]]) -> Generator[None, None, Any]:
    kind, pace = message("AddPartitionsToTxnResponse"), SliceCount()
    reply = kind()
    for one, codes in replies:
        topics = yield from _results(kind, one, codes, pace)
        reply.results_by_transaction.append(
            kind.AddPartitionsToTxnResult(transactional_id=one.id, topic_results=topics)
        )
        if pace.over():
            yield
    return reply
