"""What the handlers of consumer, share and streams groups have in common: who may ask, which group is shown, and how a group
and its members become an answer.

This file alone decides the order of the checks. Rules:

1. A group is shown once, however often it is named. Each group of a request has an error of its own.
2. A group with a topic that the principal may not describe is refused as a whole.
3. Topics that do not exist any more are left out.
4. A request is served in slices: a member with many topics costs as much as many members.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from actors.authorization.resources import Operation, Resource
from actors.broker.groups.member_groups import MemberGroup
from actors.broker.groups.streams.answers import TaskSets
from actors.node.api.contexts import BrokerContext
from actors.node.api.security.authorizer import NOT_ASKED
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call
from actors.node.runtime.slices import SliceCount, Steps
from actors.wire.errors import ErrorCode

if TYPE_CHECKING:
    from actors.broker.groups.consumer.requests import ConsumerBeat
    from actors.broker.groups.share.requests import ShareBeat
    from actors.wire.schemas.rpc import (
        ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse,
        ConsumerGroupHeartbeatResponse,
        ShareGroupDescribeRequest,
        ShareGroupDescribeResponse,
        ShareGroupHeartbeatResponse,
        StreamsGroupDescribeRequest,
        StreamsGroupDescribeResponse,
        StreamsGroupHeartbeatResponse,
    )

    Described = (
        type[ConsumerGroupDescribeResponse] | type[ShareGroupDescribeResponse] | type[StreamsGroupDescribeResponse]
    )

G = TypeVar("G", bound=MemberGroup)
NotShown = tuple[ErrorCode, str | None]
"""Why a group is not shown: error code, and a sentence."""
Assigned = Mapping[bytes, Collection[int]]
"""Topic id -> partitions."""


# ---- heartbeats


def heartbeat_error(context: BrokerContext, call: Call, group_id: str, serves: bool) -> ErrorCode:
    """Whether a client may send a heartbeat for a group, whatever is in it. `serves`: the cluster has such groups."""
    if not serves:
        return ErrorCode.UNSUPPORTED_VERSION
    if not context.authorizer.allowed(call, Operation.READ, Resource.GROUP, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def topics_error(context: BrokerContext, call: Call, topics: Iterable[str]) -> ErrorCode:
    """Whether a client may name these topics in its subscription."""
    for topic in topics:
        if not context.authorizer.allowed(call, Operation.DESCRIBE, Resource.TOPIC, topic):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def heartbeat_reply(
    kind: "type[ConsumerGroupHeartbeatResponse] | type[ShareGroupHeartbeatResponse]", beat: "ConsumerBeat | ShareBeat"
) -> "ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse":
    """The answer to a heartbeat of a group whose members are assigned partitions. `beat`: the coordinator's."""
    given: Any = None
    if beat.assigned is not None:
        topics: list[Any] = [
            kind.TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(beat.assigned.items())
        ]
        given = kind.Assignment(topic_partitions=topics)
    return kind(
        error_code=beat.error,
        error_message=beat.message,
        member_id=beat.member_id,
        member_epoch=beat.epoch,
        heartbeat_interval_ms=beat.interval_ms,
        assignment=given,
    )


# ---- descriptions


def group_to_show(context: BrokerContext, call: Call, id: str, serves: bool, of: type[G]) -> G | NotShown:
    """The group of that id, if it is one `of` the kind, or why it is not shown. `serves`: the cluster has such groups."""
    if not serves:
        return ErrorCode.UNSUPPORTED_VERSION, None
    if not context.authorizer.allowed(call, Operation.DESCRIBE, Resource.GROUP, id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED, None
    if not id:
        return ErrorCode.INVALID_GROUP_ID, None
    found = context.groups.machine.find(id)
    if isinstance(found, ErrorCode):
        return found, None
    if isinstance(found, of) and not found.gone:
        return found
    other = found is not None and not isinstance(found, of)
    return ErrorCode.GROUP_ID_NOT_FOUND, f"Group {id} is not a {of.type} group." if other else f"Group {id} not found."


def describe(
    context: BrokerContext,
    call: Call,
    kind: "Described",
    request: "ConsumerGroupDescribeRequest | ShareGroupDescribeRequest | StreamsGroupDescribeRequest",
    find: Callable[[str], G | NotShown],
    show: Callable[[G, int, SliceCount], Generator[None, None, Any]],
) -> Steps:
    """The answer about each group of a request, as `show` has it with the operations that the client may do, or why there is
    none. `find`: a group by its id."""
    groups: list[Any] = []
    pace = SliceCount()
    judged = context.authorizer.looked(Resource.GROUP) if request.include_authorized_operations else 0
    for id in dict.fromkeys(request.group_ids):
        found = find(id)
        if pace.over(1 + judged):
            yield
        if isinstance(found, tuple):
            code, text = found
            groups.append(kind.DescribedGroup(group_id=id, error_code=code, error_message=text))
            continue
        operations = NOT_ASKED
        if request.include_authorized_operations:
            operations = context.authorizer.operations(call, Resource.GROUP, id)
        groups.append((yield from show(found, operations, pace)))
    return Done(kind(groups=groups))


def unless_denied(
    context: BrokerContext, call: Call, kind: "Described", shown: Any, topics: Iterable[str], pace: SliceCount
) -> Generator[None, None, Any]:
    """A group that was described, or an error where the client may not describe one of its topics."""
    for topic in topics:
        if pace.over():
            yield
        if not context.authorizer.allowed(call, Operation.DESCRIBE, Resource.TOPIC, topic):
            return kind.DescribedGroup(
                group_id=shown.group_id,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message="The group has described topic(s) that the client is not authorized to describe.",
            )
    return shown


def assignment(
    context: BrokerContext,
    kind: "type[ConsumerGroupDescribeResponse] | type[ShareGroupDescribeResponse]",
    assigned: Assigned,
    named: dict[str, None],
) -> Any:
    """Partitions by topic. `named` gathers the topics."""
    topics: list[Any] = []
    for topic_id, partitions in sorted(assigned.items()):
        name = context.cache.topic_name(topic_id)
        if name is not None:
            named[name] = None
            topics.append(kind.TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(partitions)))
    return kind.Assignment(topic_partitions=topics)


def tasks(
    kind: "type[StreamsGroupDescribeResponse] | type[StreamsGroupHeartbeatResponse]", sets: TaskSets
) -> list[Any]:
    """Tasks by subtopology."""
    return [kind.TaskIds(subtopology_id=one, partitions=sorted(numbers)) for one, numbers in sorted(sets.items())]
