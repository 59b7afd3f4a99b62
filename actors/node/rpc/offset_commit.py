"""OffsetCommit (8), versions 2 to 10.

Version notes: 2 to 4 carry a retention that nobody uses; 6 leader epoch; 7 static members; 9 a member of an unknown group
hears so; 10 topic ids.
Errors: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID,
ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, FENCED_INSTANCE_ID, OFFSET_METADATA_TOO_LARGE, UNKNOWN_TOPIC_OR_PARTITION,
UNKNOWN_TOPIC_ID; each partition has its own.
"""

from typing import TYPE_CHECKING, Any

from actors.broker.groups.records import CommittedOffset
from actors.node.registry import Answer, Call, Done, Listener, Subject, rpc
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.node.node import Node

TOPIC_IDS = 10
NOT_FOUND_FROM = 9


@rpc(8, "OffsetCommit", range(2, 11), listeners=(Listener.CLIENT,), writes=Subject.GROUPS, pipelined=True)
def offset_commit(node: "Node", request: Any, call: Call) -> Answer:
    """Write the offsets; answer once they are committed."""
    assert node.broker is not None
    groups = node.broker.groups
    error = groups.machine.commit_error(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id_or_member_epoch, node.now
    )
    if error is ErrorCode.ILLEGAL_GENERATION and call.api_version >= NOT_FOUND_FROM:
        error = ErrorCode.GROUP_ID_NOT_FOUND if groups.machine.group(request.group_id) is None else error
    offsets: list[tuple[str, int, CommittedOffset]] = []
    codes: dict[tuple[Any, int], ErrorCode] = {}
    for topic in request.topics:
        name = _name(node, topic, call.api_version)
        for partition in topic.partitions:
            key = (topic.topic_id if call.api_version >= TOPIC_IDS else topic.name, partition.partition_index)
            metadata = partition.committed_metadata or ""
            if error is not ErrorCode.NONE:
                codes[key] = error
            elif name is None:
                codes[key] = (
                    ErrorCode.UNKNOWN_TOPIC_ID
                    if call.api_version >= TOPIC_IDS
                    else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                )
            elif not _exists(node, name, partition.partition_index):
                codes[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif len(metadata) > groups.machine.settings.metadata_bytes_max:
                codes[key] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                offsets.append(
                    (
                        name,
                        partition.partition_index,
                        CommittedOffset(
                            partition.committed_offset, partition.committed_leader_epoch, metadata, node.now.wall_ms
                        ),
                    )
                )
    if not offsets:
        return Done(_reply(request, call.api_version, codes, error))
    return groups.commit(
        lambda then: groups.machine.commit(request.group_id, offsets, then),
        lambda written: _reply(request, call.api_version, codes, written),
    )


def _name(node: "Node", topic: Any, version: int) -> str | None:
    assert node.broker is not None
    image = node.broker.image
    if version < TOPIC_IDS:
        return topic.name if image.topic(topic.name) >= 0 else None
    row = image.topic_by_id(topic.topic_id)
    return image.topic_name(row) if row >= 0 else None


def _exists(node: "Node", name: str, partition: int) -> bool:
    assert node.broker is not None
    image = node.broker.image
    return image.partition(image.topic(name), partition) >= 0


def _reply(request: Any, version: int, codes: dict[tuple[Any, int], ErrorCode], rest: ErrorCode) -> Any:
    Response = message("OffsetCommitResponse")
    topics = []
    for topic in request.topics:
        id = topic.topic_id if version >= TOPIC_IDS else topic.name
        partitions = [
            Response.OffsetCommitResponsePartition(
                partition_index=partition.partition_index, error_code=codes.get((id, partition.partition_index), rest)
            )
            for partition in topic.partitions
        ]
        names = {"topic_id": id} if version >= TOPIC_IDS else {"name": id}
        topics.append(Response.OffsetCommitResponseTopic(partitions=partitions, **names))
    return Response(topics=topics)
