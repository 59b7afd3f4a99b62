"""DescribeTopicPartitions (75), version 0 (KIP-966): topics by name, page by page.

Behaviour: topics in order of their names; a page ends at the limit asked for, `max.request.partition.size.limit` at
most; its cursor names the next partition.

Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, LEADER_NOT_AVAILABLE, INVALID_REQUEST.
"""

from bisect import bisect_left
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from actors.authorization.resources import Operation, Resource
from actors.node.api.contexts import BrokerContext
from actors.node.api.handlers.metadata import legal
from actors.node.api.security.topic_rights import TopicRights
from actors.node.api.table import rpc
from actors.node.api.topics_shown import ShownTopics
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.node.runtime.slices import ENTRIES_A_SLICE, SliceCount, Steps, in_slices, put_in_order
from actors.wire.errors import ErrorCode
from actors.wire.messages import encode, message
from fastpath.image.topic_answers import DESCRIBED

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import DescribeTopicPartitionsRequest


@rpc(75, "DescribeTopicPartitions", range(0, 1), listeners=(Listener.CLIENT,), lane=Lane.DATA, reads=Subject.METADATA)
@in_slices
def describe_topic_partitions(context: BrokerContext, request: "DescribeTopicPartitionsRequest", call: Call) -> Steps:
    """One page of partitions."""
    kind = message("DescribeTopicPartitionsResponse")
    cursor, everything = request.cursor, not request.topics
    pace = SliceCount()
    if cursor is not None and cursor.partition_index < 0:
        refused = []
        for one in request.topics:
            refused.append(
                kind.DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=one.name)
            )
            if pace.over():
                yield
        return Done(kind(topics=refused, next_cursor=None))
    left = min(max(request.response_partition_limit, 1), context.config.value("max.request.partition.size.limit"))
    page = _Page(context, call, left)
    if everything:
        following = yield from _along(context, call, page, cursor, pace)
    else:
        following = yield from _named(context, call, page, request, pace)
    topics: Any = page.topics.encoded()
    return Done(kind(topics=topics, next_cursor=following))


class _Page:
    """The topics of an answer, and how many partitions have room in it."""

    def __init__(self, context: BrokerContext, call: Call, room: int) -> None:
        self.topics = ShownTopics(context, call, DESCRIBED)
        self._room = room

    @property
    def left(self) -> int:
        """How many partitions more have room."""
        return self._room - self.topics.partitions

    def topic(
        self, name: str, row: int, operations: int, cursor: Any, pace: SliceCount
    ) -> Generator[None, None, Any | None]:
        """Add a topic, from the cursor on if that is in it. Returns the cursor of the next page if it goes on there."""
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        following = yield from self.topics.topic(name, row, operations, pace, first, self.left)
        return _cursor(name, following) if following >= 0 else None


def _cursor(name: str, partition: int) -> Any:
    return message("DescribeTopicPartitionsResponse").Cursor(topic_name=name, partition_index=partition)


def _along(
    context: BrokerContext, call: Call, page: _Page, cursor: Any, pace: SliceCount
) -> Generator[None, None, Any | None]:
    """All topics from the cursor on that the principal may describe. They cost by what the page has, and by what is passed
    over because it may not be shown."""
    rights = TopicRights(context.authorizer, call, asked=True)
    name, behind = "" if cursor is None else cursor.topic_name, False
    while True:
        order, run, slices = context.cache.image.order, None, page.topics.slices
        found = order.following(name, min(page.left + 1, ENTRIES_A_SLICE), behind)
        if not found:
            return None
        behind = True
        for name, row in found:
            if run is None or (run.until is not None and name >= run.until):
                run = rights.run(name, order)
                if run.hides_all:
                    if run.until is None:
                        return None
                    name, behind = run.until, False
                    if pace.over():
                        yield
                    break
            operations = run.of(name)
            if operations is not None:
                if page.left == 0:
                    return _cursor(name, 0)
                following = yield from page.topic(name, row, operations, cursor, pace)
                if following is not None:
                    return following
            if pace.over(page.topics.looked()):
                yield
                break
            if page.topics.slices != slices:  # the names that were found may be gone
                break


def _named(
    context: BrokerContext, call: Call, page: _Page, request: "DescribeTopicPartitionsRequest", pace: SliceCount
) -> Generator[None, None, Any | None]:
    """The topics that were asked for, from the cursor on. Those that are denied stand in front, on each page."""
    kind, cursor, may = message("DescribeTopicPartitionsResponse"), request.cursor, context.authorizer
    names = yield from put_in_order((topic.name for topic in request.topics), pace)
    if may.enabled:
        allowed = yield from may.allowed_names(call, Operation.DESCRIBE, Resource.TOPIC, names)
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        kept = []
        for name in names:
            if name in allowed:
                kept.append(name)
            else:
                page.topics.put(encode(kind.DescribeTopicPartitionsResponseTopic(error_code=code, name=name), 0))
            if pace.over():
                yield
        names = kept
    if cursor is not None:
        names = names[bisect_left(names, cursor.topic_name) :]
    judged = may.looked(Resource.TOPIC)
    for name in names:
        if page.left == 0:
            return _cursor(name, 0)
        operations, image = may.operations(call, Resource.TOPIC, name), context.cache.image
        row = image.topic(name)
        if row >= 0:
            following = yield from page.topic(name, row, operations, cursor, pace)
            if following is not None:
                return following
        else:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
            absent = kind.DescribeTopicPartitionsResponseTopic(
                error_code=error, name=name, topic_authorized_operations=operations
            )
            page.topics.put(encode(absent, 0))
        if pace.over(page.topics.looked() + judged):
            yield
    return None
