"""OffsetDelete (47), version 0 (KIP-496).

Errors at the top: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (a group that is no
consumer group and has members). A partition: GROUP_SUBSCRIBED_TO_TOPIC, UNKNOWN_TOPIC_OR_PARTITION.
"""

from typing import TYPE_CHECKING, Any

from actors.broker.groups.state import Group, GroupState
from actors.node.registry import Answer, Call, Done, Listener, Subject, rpc
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.node.node import Node

CONSUMER = "consumer"


@rpc(47, "OffsetDelete", range(0, 1), listeners=(Listener.CLIENT,), writes=Subject.GROUPS)
def offset_delete(node: "Node", request: Any, call: Call) -> Answer:
    """Remove committed offsets of topics that no member subscribes to."""
    assert node.broker is not None
    groups, image = node.broker.groups, node.broker.image
    Response = message("OffsetDeleteResponse")
    group = groups.machine.group(request.group_id)
    if group is None:
        group = ErrorCode.GROUP_ID_NOT_FOUND
    if isinstance(group, ErrorCode):
        return Done(Response(error_code=group))
    if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
        return Done(Response(error_code=ErrorCode.NON_EMPTY_GROUP))
    subscribed = subscriptions(group)
    offsets = groups.machine.fetch(request.group_id)
    codes: dict[tuple[str, int], ErrorCode] = {}
    doomed = []
    for topic in request.topics:
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            row = image.topic(topic.name)
            if row < 0 or image.partition(row, partition.partition_index) < 0:
                codes[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif topic.name in subscribed:
                codes[key] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            elif isinstance(offsets, ErrorCode) or key not in offsets:
                codes[key] = ErrorCode.NONE
            else:
                doomed.append(key)

    def reply(error: ErrorCode) -> Any:
        return Response(
            topics=[
                Response.OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=[
                        Response.OffsetDeleteResponsePartition(
                            partition_index=partition.partition_index,
                            error_code=codes.get((topic.name, partition.partition_index), error),
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    if not doomed:
        return Done(reply(ErrorCode.NONE))
    return groups.commit(lambda then: groups.machine.delete_offsets(request.group_id, doomed, then), reply)


def subscriptions(group: Group) -> set[str]:
    """Topics that some member of a consumer group subscribes to, out of the embedded consumer protocol: int16 version,
    then an array of strings. A member whose metadata cannot be read subscribes to nothing that we know of."""
    topics: set[str] = set()
    for member in group.members.values():
        data = member.metadata(group.protocol)
        if len(data) < 6:
            continue
        count = int.from_bytes(data[2:6], "big", signed=True)
        position = 6
        for _ in range(count):
            size = int.from_bytes(data[position : position + 2], "big")
            name = data[position + 2 : position + 2 + size]
            if len(name) < size or position + 2 > len(data):
                break
            topics.add(name.decode("utf-8", "replace"))
            position += 2 + size
    return topics
