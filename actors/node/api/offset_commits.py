"""Requests that commit offsets, of any length, from the request to the log: OffsetCommit and TxnOffsetCommit.

A long request is looked at in slices, and between two slices anything may happen: a member is replaced, a producer is
fenced, a topic is deleted, the leadership moves. This file alone decides what of it is written, the same for both. Rules:

1. A handler brings what it asks (`Terms`), and has no slices of its own. Nothing is written while entries are looked at.
2. In the turn of the write everything is asked once more: the rights to the group and to each topic, the member, the id
   of each topic, the leader epoch of the coordinator, and the producer. What does not hold any more is answered as if the
   request had come now.
3. What is accepted is one write in one batch: all of it counts, or nothing. A commit that is larger than
   `max.message.bytes` of `__consumer_offsets` is INVALID_COMMIT_OFFSET_SIZE.
4. A member of KIP-848 that commits in an earlier epoch must have held each of the partitions since (KIP-1251), else
   nothing is committed.
"""

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.authorization.resources import Operation, Resource
from actors.broker.coordinators.coordination import Record, size_of
from actors.broker.groups.records import CommittedOffset, offset_record
from actors.metadata.topic_names import OFFSETS_TOPIC
from actors.node.api.contexts import BrokerContext
from actors.node.runtime.answers import Answer, Done, mapped
from actors.node.runtime.calls import Call
from actors.node.runtime.slices import SliceCount, Steps
from actors.wire.errors import ErrorCode
from fastpath.records.batch import HEADER_SIZE

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import (
        OffsetCommitRequest,
        OffsetCommitResponse,
        TxnOffsetCommitRequest,
        TxnOffsetCommitResponse,
    )

Offset = tuple[str, int, CommittedOffset]
"""Topic, partition, and what is committed for it."""
Then = Callable[[ErrorCode], None]


class Terms(NamedTuple):
    """What one API asks, and how it writes. Each function is called again whenever time has passed."""

    group_id: str
    by_id: bool
    """Topics are named by their ids."""
    error: Callable[[], ErrorCode]
    """What is wrong with the request as a whole; STALE_MEMBER_EPOCH: that depends on the partitions (rule 4)."""
    held: Callable[[str, int], bool]
    """Whether the member has held a partition (topic, number) since the epoch in which it commits."""
    not_held: Callable[[], ErrorCode]
    """The error of a request with a partition that it has not held."""
    admit: Callable[[], ErrorCode]
    """Asked once, right before the write: whether the producer may write, if there is one."""
    write: Callable[[Sequence[Offset], Sequence[Record], Then], None]
    """Begin the write. The records are those of the offsets, encoded."""


class ResponseClasses(NamedTuple):
    """Classes of the response: its whole, a topic in it, a partition in that."""

    reply: Any
    topic: Any
    partition: Any


class _Place(NamedTuple):
    """What a topic of the request is now. `error`: why nothing is committed for it."""

    error: ErrorCode
    name: str
    row: int
    topic_id: bytes | None


class _Accepted(NamedTuple):
    """An offset that may be committed as far as was seen. `data`: its part of the answer."""

    data: Any
    offset: Offset
    record: Record


def committed(
    context: BrokerContext,
    request: "OffsetCommitRequest | TxnOffsetCommitRequest",
    call: Call,
    terms: Terms,
    shape: ResponseClasses,
) -> Steps:
    """Look at all entries, ask everything again, write; the answer comes when the offsets are committed to the log."""
    error, epoch = terms.error(), _leader_epoch(context, terms)
    if error not in (ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH):
        return Done((yield from refused(request, error, terms.by_id, shape)))
    late = error is ErrorCode.STALE_MEMBER_EPOCH
    reply, pace = shape.reply(), SliceCount()
    looked: list[tuple[Any, _Place, list[_Accepted]]] = []
    size, size_max, sliced = HEADER_SIZE, _size_max(context, terms), False
    for topic in request.topics:
        shown = _shown(topic, terms.by_id, shape)
        reply.topics.append(shown)
        place, accepted = _place(context, call, topic, terms.by_id), list[_Accepted]()
        looked.append((topic, place, accepted))
        for one in topic.partitions:
            if late and not terms.held(place.name, one.partition_index):
                return Done((yield from refused(request, terms.not_held(), terms.by_id, shape)))
            data = shape.partition(partition_index=one.partition_index)
            shown.partitions.append(data)
            data.error_code = _error(context, place, one)
            if data.error_code is ErrorCode.NONE:
                found = _accepted(context, terms.group_id, place, one, data)
                accepted.append(found)
                size += size_of(found.record)
                if size > size_max:
                    code = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
                    return Done((yield from refused(request, code, terms.by_id, shape)))
            if pace.over():
                sliced = True
                yield
        if pace.over():
            sliced = True
            yield
    # From here on, up to the write, no time passes.
    error = _error_now(context, call, terms, looked) if sliced else ErrorCode.NONE
    if error is ErrorCode.NONE and _leader_epoch(context, terms) != epoch:
        error = ErrorCode.NOT_COORDINATOR
    if error is ErrorCode.NONE:
        error = terms.admit()
    if error is not ErrorCode.NONE:
        return Done((yield from refused(request, error, terms.by_id, shape)))
    return _written(context, terms, [one for _, _, accepted in looked for one in accepted], reply)


def refused(
    request: "OffsetCommitRequest | TxnOffsetCommitRequest", error: ErrorCode, by_id: bool, shape: ResponseClasses
) -> Generator[None, None, Any]:
    """The reply with the same error for each partition."""
    reply, pace = shape.reply(), SliceCount()
    for topic in request.topics:
        shown = _shown(topic, by_id, shape)
        reply.topics.append(shown)
        for one in topic.partitions:
            shown.partitions.append(shape.partition(partition_index=one.partition_index, error_code=error))
            if pace.over():
                yield
        if pace.over():
            yield
    return reply


def _error_now(
    context: BrokerContext, call: Call, terms: Terms, looked: list[tuple[Any, _Place, list[_Accepted]]]
) -> ErrorCode:
    """Ask everything again: the error of the whole request. A topic that has changed meanwhile is taken out of it."""
    error = terms.error()
    if error not in (ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH):
        return error
    late = error is ErrorCode.STALE_MEMBER_EPOCH
    for topic, place, accepted in looked:
        if late and not all(terms.held(place.name, one.partition_index) for one in topic.partitions):
            return terms.not_held()
        if not accepted:
            continue
        now = _place(context, call, topic, terms.by_id)
        if now.error is ErrorCode.NONE and now.topic_id != place.topic_id:
            now = now._replace(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if now.error is not ErrorCode.NONE:
            for one in accepted:
                one.data.error_code = now.error
            accepted.clear()
    return ErrorCode.NONE


def _written(
    context: BrokerContext,
    terms: Terms,
    accepted: list[_Accepted],
    reply: "OffsetCommitResponse | TxnOffsetCommitResponse",
) -> Answer:
    if not accepted:
        return Done(reply)

    def ended(code: ErrorCode) -> "OffsetCommitResponse | TxnOffsetCommitResponse":
        for one in accepted:
            one.data.error_code = code
        return reply

    offsets, records = [one.offset for one in accepted], [one.record for one in accepted]
    return mapped(context.groups.commit(lambda then: terms.write(offsets, records, then), lambda code: code), ended)


def _place(
    context: BrokerContext,
    call: Call,
    topic: Any,
    by_id: bool,
) -> _Place:
    image = context.cache.image
    row = image.topic_by_id(topic.topic_id) if by_id else image.topic(topic.name)
    if by_id and row < 0:
        return _Place(ErrorCode.UNKNOWN_TOPIC_ID, "", row, None)
    name = image.topic_name(row) if by_id else topic.name
    if not context.authorizer.allowed(call, Operation.READ, Resource.TOPIC, name):
        return _Place(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, row, None)
    if row < 0:
        return _Place(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name, row, None)
    return _Place(ErrorCode.NONE, name, row, image.topic_id(row))


def _error(
    context: BrokerContext,
    place: _Place,
    one: "OffsetCommitRequest.OffsetCommitRequestPartition | TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition",
) -> ErrorCode:
    """What is wrong with one partition of the request."""
    if place.error is not ErrorCode.NONE:
        return place.error
    if context.cache.image.partition(place.row, one.partition_index) < 0:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if len(one.committed_metadata or "") > context.groups.machine.settings.metadata_bytes_max:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def _accepted(
    context: BrokerContext,
    group_id: str,
    place: _Place,
    one: "OffsetCommitRequest.OffsetCommitRequestPartition | TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition",
    data: "OffsetCommitResponse.OffsetCommitResponsePartition | TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition",
) -> _Accepted:
    offset = CommittedOffset(
        one.committed_offset,
        one.committed_leader_epoch,
        one.committed_metadata or "",
        context.runtime.now.wall_ms,
    )
    record = offset_record(group_id, place.name, one.partition_index, offset)
    return _Accepted(data, (place.name, one.partition_index, offset), record)


def _shown(
    topic: Any,
    by_id: bool,
    shape: ResponseClasses,
) -> Any:
    named = {"topic_id": topic.topic_id} if by_id else {"name": topic.name}
    return shape.topic(**named, partitions=[])


def _leader_epoch(context: BrokerContext, terms: Terms) -> int:
    """The leader epoch of the group's coordinator here; -1: it is not here."""
    machine = context.groups.machine
    shard = machine.shards.get(machine.partition_of(terms.group_id))
    return -1 if shard is None else shard.epoch


def _size_max(context: BrokerContext, terms: Terms) -> int:
    """How many bytes a batch of the group's partition may have."""
    partition = context.replicas.get(OFFSETS_TOPIC, context.groups.machine.partition_of(terms.group_id))
    return 0 if partition is None else int(partition.log.settings.max_message_bytes)
