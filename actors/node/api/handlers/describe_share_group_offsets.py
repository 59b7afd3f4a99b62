"""DescribeShareGroupOffsets (90), versions 0 and 1: where share groups are (KIP-932).

Version notes: 1 the lag, how many records a group still has before it (KIP-1226).
Behaviour: without topics, all share partitions that have begun for a group are shown. What no share coordinator knows, and
what does not exist, has start offset -1: that is no error. A lag of -1: it is not known, as nothing was read yet.
Errors, each group its own: UNSUPPORTED_VERSION (the cluster's share.version is 0), GROUP_AUTHORIZATION_FAILED,
INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS. A partition: TOPIC_AUTHORIZATION_FAILED, and what the
leader says whose end the lag is counted from.
"""

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.authorization.resources import Operation, Resource
from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.broker.groups.share.state import ShareGroup
from actors.node.api.contexts import BrokerContext
from actors.node.api.share.share_groups import denied
from actors.node.api.table import rpc
from actors.node.roles.broker.replication.end_offsets import Ends
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Listener, Subject
from actors.node.runtime.slices import SliceCount, Steps, in_slices, joined
from actors.wire.errors import ErrorCode, text
from actors.wire.messages import ZERO_UUID, message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsResponse,
        ReadShareGroupStateSummaryResponse,
    )

NO_OFFSET, NO_COUNT, NO_LAG = -1, -1, -1


class _Place(NamedTuple):
    """A partition that is shown, by the name of its topic too."""

    topic: str
    key: SharePartitionKey


@rpc(90, "DescribeShareGroupOffsets", range(0, 2), listeners=(Listener.CLIENT,), reads=Subject.GROUPS)
@in_slices
def describe_share_group_offsets(
    context: BrokerContext, request: "DescribeShareGroupOffsetsRequest", call: Call
) -> Steps:
    """Ask share coordinators, then leaders, and show what they have told."""
    kind = message("DescribeShareGroupOffsetsResponse")
    answers: list[Answer] = []
    pace = SliceCount()
    for one in request.groups:
        answers.append((yield from _describe(context, call, kind, one, pace)))
        if pace.over():
            yield

    def finish(
        groups: list["DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup"],
    ) -> Generator[None, None, Any]:
        yield from ()
        return kind(groups=groups)

    return joined(answers, finish)


def _describe(
    context: BrokerContext,
    call: Call,
    kind: "type[DescribeShareGroupOffsetsResponse]",
    one: "DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup",
    pace: SliceCount,
) -> Generator[None, None, Answer]:
    """One group; the reply is its part of the response."""
    why = denied(context, call, Operation.DESCRIBE, one.group_id)
    group = None if why is not None else context.groups.machine.find(one.group_id)
    if isinstance(group, ErrorCode):
        why = group, text(group)
    if why is not None:
        shown = kind.DescribeShareGroupOffsetsResponseGroup(
            group_id=one.group_id, error_code=why[0], error_message=why[1]
        )
        return Done(shown)
    others: list[Any] = []
    if one.topics is None:
        places = yield from _all(context, call, group, pace)
    else:
        places, others = yield from _named(context, call, kind, one, pace)
    told = yield from _beyond(context, places, pace)
    ends: dict[tuple[str, int], int | ErrorCode] = {}

    def start(then: Callable[[ErrorCode], None]) -> None:
        def summed_up() -> None:
            wanted = [(place.topic, place.key.number) for place in places if _has_lag(told[place.key])]
            context.end_offsets.ask(wanted, counted)

        def counted(found: Ends) -> None:
            ends.update(found)
            then(ErrorCode.NONE)

        _ask(context, places, told, summed_up)

    def reply(error: ErrorCode) -> "DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup":
        topics = [*_topics(kind, places, told, ends), *others]
        return kind.DescribeShareGroupOffsetsResponseGroup(group_id=one.group_id, topics=topics)

    return context.groups.commit(start, reply)


def _all(context: BrokerContext, call: Call, group: Any, pace: SliceCount) -> Generator[None, None, list[_Place]]:
    """All that has begun for a group, of topics that the principal may describe."""
    places = []
    for topic_id, begun in list(group.initialized.items()) if isinstance(group, ShareGroup) else ():
        if pace.over(1 + len(begun.partitions)):
            yield
        name = context.cache.topic_name(topic_id)
        if name is not None and context.authorizer.shown(call, Operation.DESCRIBE, Resource.TOPIC, name):
            places += [
                _Place(name, SharePartitionKey(group.id, topic_id, number)) for number in sorted(begun.partitions)
            ]
    return places


def _named(
    context: BrokerContext,
    call: Call,
    kind: "type[DescribeShareGroupOffsetsResponse]",
    one: "DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup",
    pace: SliceCount,
) -> Generator[None, None, tuple[list[_Place], list[Any]]]:
    """What the request names: partitions to be asked about, and topics that are answered without."""
    places: dict[_Place, None] = {}
    others = []
    for topic in one.topics or ():
        if pace.over():
            yield
        image = context.cache.image
        row = image.topic(topic.topic_name)
        denied = not context.authorizer.allowed(call, Operation.DESCRIBE, Resource.TOPIC, topic.topic_name)
        if denied or row < 0:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if denied else ErrorCode.NONE
            others.append((yield from _unknown(kind, topic, code, pace)))
        else:
            topic_id = image.topic_id(row) or ZERO_UUID
            for number in topic.partitions:
                places[_Place(topic.topic_name, SharePartitionKey(one.group_id, topic_id, number))] = None
                if pace.over():
                    yield
    return list(places), others


def _beyond(
    context: BrokerContext, places: list[_Place], pace: SliceCount
) -> Generator[None, None, dict[SharePartitionKey, Any]]:
    """What is told of partitions that do not exist, without a share coordinator: nothing is known of them."""
    nothing = message("ReadShareGroupStateSummaryResponse").PartitionResult(start_offset=NO_OFFSET)
    image, counts, told = context.cache.image, dict[str, int](), dict[SharePartitionKey, Any]()
    for place in places:
        if place.topic not in counts:
            row = image.topic(place.topic)
            counts[place.topic] = len(image.topic_partitions(row)) if row >= 0 else 0
        if not 0 <= place.key.number < counts[place.topic]:
            told[place.key] = nothing
        if pace.over():
            yield
            image = context.cache.image
    return told


def _unknown(
    kind: "type[DescribeShareGroupOffsetsResponse]",
    topic: "DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic",
    code: ErrorCode,
    pace: SliceCount,
) -> Generator[None, None, Any]:
    shown = kind.DescribeShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, partitions=[])
    for number in topic.partitions:
        shown.partitions.append(
            kind.DescribeShareGroupOffsetsResponsePartition(
                partition_index=number,
                start_offset=NO_OFFSET,
                error_code=code,
                error_message=text(code) if code else None,
            )
        )
        if pace.over():
            yield
    return shown


def _ask(
    context: BrokerContext, places: list[_Place], told: dict[SharePartitionKey, Any], then: Callable[[], None]
) -> None:
    """Ask about each share partition of which nothing is told yet; `then` when all are answered."""
    waiting = {place.key for place in places} - told.keys()

    def answered(key: SharePartitionKey, result: "ReadShareGroupStateSummaryResponse.PartitionResult") -> None:
        told[key] = result
        waiting.discard(key)
        if not waiting:
            then()

    if not waiting:
        then()
    for key in [place.key for place in places if place.key in waiting]:
        context.share_persister.summary(key, -1, lambda result, key=key: answered(key, result))  # type: ignore[misc]


def _has_lag(result: "ReadShareGroupStateSummaryResponse.PartitionResult") -> bool:
    known = result.start_offset != NO_OFFSET and result.delivery_complete_count != NO_COUNT
    return not result.error_code and known


def _topics(
    kind: "type[DescribeShareGroupOffsetsResponse]",
    places: Iterable[_Place],
    told: dict[SharePartitionKey, Any],
    ends: dict[tuple[str, int], int | ErrorCode],
) -> list["DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic"]:
    topics: dict[tuple[str, bytes], list[Any]] = {}
    for place in places:
        result, end = told[place.key], ends.get((place.topic, place.key.number), NO_OFFSET)
        topics.setdefault((place.topic, place.key.topic_id), []).append(_partition(kind, place, result, end))
    return [
        kind.DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id, partitions=parts)
        for (name, topic_id), parts in topics.items()
    ]


def _partition(
    kind: "type[DescribeShareGroupOffsetsResponse]",
    place: _Place,
    result: "ReadShareGroupStateSummaryResponse.PartitionResult",
    end: int | ErrorCode,
) -> "DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition":
    shown = kind.DescribeShareGroupOffsetsResponsePartition(partition_index=place.key.number, start_offset=NO_OFFSET)
    if isinstance(end, ErrorCode):
        shown.start_offset, shown.error_code, shown.error_message = 0, end, text(end)
    elif not result.error_code:
        shown.start_offset, shown.leader_epoch = result.start_offset, result.leader_epoch
        if _has_lag(result):
            shown.lag = end - result.start_offset - result.delivery_complete_count
    return shown
