"""OffsetFetch (9), versions 1 to 10.

Version notes: 2 all topics (null) and an error for the group; 5 leader epoch; 7 RequireStable (nothing is unstable here
while there are no transactions); 8 several groups; 9 member id and epoch (KIP-848); 10 topic ids.
Behaviour: a group, and a topic of a group, is answered once, however often it is named: what a group committed may be
thousands of times as long as its name. Topic ids that nobody knows stand behind all others.

Errors: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS; a partition without a committed offset says -1 and no error.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from actors.broker.groups.records import CommittedOffset
from actors.node.registry import Answer, Call, Done, Listener, rpc
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.node.node import Node

GROUPS, TOPIC_IDS = 8, 10
NOTHING = CommittedOffset(-1, -1, "", -1)


@rpc(9, "OffsetFetch", range(1, 11), listeners=(Listener.CLIENT,))
def offset_fetch(node: "Node", request: Any, call: Call) -> Answer:
    """Read committed offsets."""
    Response = message("OffsetFetchResponse")
    version = call.api_version
    if version < GROUPS:
        error, topics = _group(
            node,
            request.group_id,
            request.topics,
            version,
            Response.OffsetFetchResponseTopic,
            Response.OffsetFetchResponsePartition,
        )
        return Done(Response(topics=topics, error_code=error))
    groups = []
    for group_id, wanted in _by_group(request).items():
        error, topics = _group(
            node,
            group_id,
            wanted,
            version,
            Response.OffsetFetchResponseTopics,
            Response.OffsetFetchResponsePartitions,
        )
        groups.append(Response.OffsetFetchResponseGroup(group_id=group_id, topics=topics, error_code=error))
    return Done(Response(groups=groups))


def _by_group(request: Any) -> dict[str, list[Any] | None]:
    """Topics that are asked for; None: all."""
    wanted: dict[str, list[Any] | None] = {}
    for group in request.groups:
        topics = wanted.setdefault(group.group_id, [])
        if group.topics is None:
            wanted[group.group_id] = None
        elif topics is not None:
            topics.extend(group.topics)
    return wanted


def _group(
    node: "Node", group_id: str, topics: Sequence[Any] | None, version: int, Topic: Any, Partition: Any
) -> tuple[ErrorCode, list[Any]]:
    assert node.broker is not None
    image = node.broker.image
    offsets = node.broker.groups.machine.fetch(group_id)
    if isinstance(offsets, ErrorCode):
        if version >= 2:
            return offsets, []
        return ErrorCode.NONE, [
            _topic(Topic, Partition, {"name": topic.name}, {p: NOTHING for p in topic.partition_indexes}, offsets)
            for topic in topics or ()
        ]
    answer = []
    if topics is None:
        by_topic: dict[str, dict[int, CommittedOffset]] = {}
        for (name, partition), committed in offsets.items():
            by_topic.setdefault(name, {})[partition] = committed
        for name, found in by_topic.items():
            row = image.topic(name)
            if version < TOPIC_IDS:
                answer.append(_topic(Topic, Partition, {"name": name}, found, ErrorCode.NONE))
            elif row >= 0:
                answer.append(_topic(Topic, Partition, {"topic_id": image.topic_id(row)}, found, ErrorCode.NONE))
        return ErrorCode.NONE, answer
    named: dict[Any, dict[int, None]] = {}
    for topic in topics:
        key = topic.topic_id if version >= TOPIC_IDS else topic.name
        named.setdefault(key, {}).update(dict.fromkeys(topic.partition_indexes))
    unknown = []
    for key, numbers in named.items():
        if version >= TOPIC_IDS:
            row = image.topic_by_id(key)
            fields = {"topic_id": key}
            name_or_none = image.topic_name(row) if row >= 0 else None
        else:
            fields, name_or_none = {"name": key}, key
        if name_or_none is None:
            unknown.append(
                _topic(Topic, Partition, fields, dict.fromkeys(numbers, NOTHING), ErrorCode.UNKNOWN_TOPIC_ID)
            )
        else:
            answer.append(
                _topic(
                    Topic,
                    Partition,
                    fields,
                    {p: offsets.get((name_or_none, p), NOTHING) for p in numbers},
                    ErrorCode.NONE,
                )
            )
    return ErrorCode.NONE, answer + unknown


def _topic(
    Topic: Any, Partition: Any, fields: dict[str, Any], found: dict[int, CommittedOffset], error: ErrorCode
) -> Any:
    return Topic(
        **fields,
        partitions=[
            Partition(
                partition_index=partition,
                committed_offset=committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                metadata=committed.metadata,
                error_code=error,
            )
            for partition, committed in sorted(found.items())
        ],
    )
