"""OffsetFetch (9), versions 1 to 10.

Version notes: 2 all topics (null) and an error for the group; 5 leader epoch; 7 RequireStable (a partition with offsets in
an open transaction says UNSTABLE_OFFSET_COMMIT, KIP-447); 8 several groups; 9 member id and epoch (KIP-848); 10 topic ids.
Behaviour: a group, and a topic of a group, is answered once, however often it is named: what a group committed may be
thousands of times as long as its name. Of all topics only those are shown that the principal may describe. Topic ids that
nobody knows stand behind all others.

Errors: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH (members of KIP-848), GROUP_AUTHORIZATION_FAILED,
TOPIC_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
UNSTABLE_OFFSET_COMMIT; a partition without a committed offset says -1 and no error.
"""

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from actors.authorization.resources import Operation, Resource
from actors.broker.groups.records import CommittedOffset
from actors.metadata.image import Image
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Listener, Subject
from actors.node.runtime.slices import SliceCount, Steps, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import OffsetFetchRequest

STABLE, GROUPS, MEMBERS, TOPIC_IDS = 7, 8, 9, 10
NOTHING = CommittedOffset(-1, -1, "", -1)
UNSTABLE = CommittedOffset(-1, -1, "", -2)
"""In place of an offset that an open transaction may replace."""


@rpc(9, "OffsetFetch", range(1, 11), listeners=(Listener.CLIENT,), reads=Subject.GROUPS)
@in_slices
def offset_fetch(context: BrokerContext, request: "OffsetFetchRequest", call: Call) -> Steps:
    """Read committed offsets."""
    Response = message("OffsetFetchResponse")
    version, pace = call.api_version, SliceCount()
    if version < GROUPS:
        error, topics = yield from _group(
            context,
            call,
            pace,
            request.group_id,
            request.topics,
            version,
            Response.OffsetFetchResponseTopic,
            Response.OffsetFetchResponsePartition,
            stable=version >= STABLE and request.require_stable,
        )
        return Done(Response(topics=topics, error_code=error))
    groups = []
    stale = (yield from _stale(context, call, request, pace)) if version >= MEMBERS else {}
    for group_id, wanted in (yield from _by_group(request, pace)).items():
        if pace.over():
            yield
        if group_id in stale:
            groups.append(Response.OffsetFetchResponseGroup(group_id=group_id, topics=[], error_code=stale[group_id]))
            continue
        error, topics = yield from _group(
            context,
            call,
            pace,
            group_id,
            wanted,
            version,
            Response.OffsetFetchResponseTopics,
            Response.OffsetFetchResponsePartitions,
            stable=request.require_stable,
        )
        groups.append(Response.OffsetFetchResponseGroup(group_id=group_id, topics=topics, error_code=error))
    return Done(Response(groups=groups))


def _stale(
    context: BrokerContext, call: Call, request: "OffsetFetchRequest", pace: SliceCount
) -> Generator[None, None, dict[str, ErrorCode]]:
    """Groups of which the member that asks is none, or not in that epoch."""
    found: dict[str, ErrorCode] = {}
    for asked in request.groups:
        if pace.over():
            yield
        if asked.member_id is None and asked.member_epoch < 0:
            continue
        if context.authorizer.allowed(call, Operation.DESCRIBE, Resource.GROUP, asked.group_id):
            error = context.groups.machine.fetch_error(asked.group_id, asked.member_id or "", asked.member_epoch)
            if error is not ErrorCode.NONE:
                found[asked.group_id] = error
    return found


def _by_group(request: "OffsetFetchRequest", pace: SliceCount) -> Generator[None, None, dict[str, list[Any] | None]]:
    """Topics that are asked for; None: all."""
    wanted: dict[str, list[Any] | None] = {}
    for group in request.groups:
        topics = wanted.setdefault(group.group_id, [])
        if group.topics is None:
            wanted[group.group_id] = None
        elif topics is not None:
            topics.extend(group.topics)
        if pace.over():
            yield
    return wanted


def _group(
    context: BrokerContext,
    call: Call,
    pace: SliceCount,
    group_id: str,
    topics: Sequence[Any] | None,
    version: int,
    Topic: Any,
    Partition: Any,
    *,
    stable: bool,
) -> Generator[None, None, tuple[ErrorCode, list[Any]]]:
    """The error of a group, and its topics as far as they are asked for."""
    image = context.cache.image
    may = context.authorizer
    found_or_error: Any = ErrorCode.GROUP_AUTHORIZATION_FAILED
    if may.allowed(call, Operation.DESCRIBE, Resource.GROUP, group_id):
        found_or_error = context.groups.machine.fetch(group_id)
    offsets: dict[tuple[str, int], CommittedOffset] = {}
    error = ErrorCode.NONE
    if not isinstance(found_or_error, ErrorCode):
        offsets = found_or_error
        unstable = context.groups.machine.unstable(group_id) if stable else ()
        if unstable:
            offsets = {
                **offsets,
                **dict.fromkeys((key for key in unstable if topics is not None or key in offsets), UNSTABLE),
            }
    elif version >= 2:
        return found_or_error, []
    else:
        error = found_or_error
    wanted: dict[Any, dict[int, CommittedOffset]] = {}
    if topics is None:
        for (name, number), committed in offsets.copy().items():
            wanted.setdefault(name, {})[number] = committed
            if pace.over():
                yield
    else:
        for topic in topics:
            named = wanted.setdefault(topic.topic_id if version >= TOPIC_IDS else topic.name, {})
            asked = _name(image, topic.topic_id) if version >= TOPIC_IDS else topic.name
            for number in topic.partition_indexes:
                named[number] = NOTHING if asked is None else offsets.get((asked, number), NOTHING)
                if pace.over():
                    yield
            if pace.over():
                yield
    answer: list[Any] = []
    unknown: list[Any] = []
    for key, found in wanted.items():
        topic_error = error
        if pace.over():
            yield
        topic_name = _name(image, key) if version >= TOPIC_IDS and topics is not None else key
        if (
            topic_name is not None
            and topics is None
            and not may.shown(call, Operation.DESCRIBE, Resource.TOPIC, topic_name)
        ):
            continue
        if (
            topic_name is not None
            and topics is not None
            and not may.allowed(call, Operation.DESCRIBE, Resource.TOPIC, topic_name)
        ):
            topic_error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            found = dict.fromkeys(found, NOTHING)
        if version < TOPIC_IDS:
            fields: dict[str, Any] = {"name": key}
        elif topics is not None:
            fields = {"topic_id": key}
            topic_error = ErrorCode.UNKNOWN_TOPIC_ID if topic_name is None else topic_error
        elif (row := image.topic(key)) >= 0:
            fields = {"topic_id": image.topic_id(row)}
        else:
            continue
        shown = Topic(**fields, partitions=[])
        (unknown if topic_error is ErrorCode.UNKNOWN_TOPIC_ID else answer).append(shown)
        for number, committed in sorted(found.items()):
            shown.partitions.append(
                Partition(
                    partition_index=number,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    metadata=committed.metadata,
                    error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT if committed is UNSTABLE else topic_error,
                )
            )
            if pace.over():
                yield
    return error if version >= 2 else ErrorCode.NONE, answer + unknown


def _name(image: "Image", topic_id: bytes) -> str | None:
    row = image.topic_by_id(topic_id)
    return image.topic_name(row) if row >= 0 else None
