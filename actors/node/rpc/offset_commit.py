"""OffsetCommit (8), versions 2 to 10.

Version notes: 2 to 4 carry a retention that nobody uses; 6 leader epoch; 7 static members; 9 a member of an unknown group
hears so; 10 topic ids.
Errors: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID,
ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, FENCED_INSTANCE_ID, OFFSET_METADATA_TOO_LARGE, UNKNOWN_TOPIC_OR_PARTITION,
UNKNOWN_TOPIC_ID; each partition has its own.
"""

from typing import TYPE_CHECKING, Any

from actors.broker.groups.records import CommittedOffset
from actors.node.answers import joined
from actors.node.registry import Answer, Call, Listener, Subject, rpc
from actors.node.slices import Pace, Steps, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.node.node import Node

TOPIC_IDS = 10
NOT_FOUND_FROM = 9


@rpc(8, "OffsetCommit", range(2, 11), listeners=(Listener.CLIENT,), writes=Subject.GROUPS, pipelined=True)
@in_slices
def offset_commit(node: "Node", request: Any, call: Call) -> Steps:
    """Write the offsets; answer once they are committed. Many are written in portions, a slice each."""
    assert node.broker is not None
    version = call.api_version
    error = _error(node, request, version)
    kind = message("OffsetCommitResponse")
    reply = kind()
    portion = _Portion()
    writes: list[tuple[_Portion, Answer]] = []
    pace = Pace()
    for topic in request.topics:
        name = _name(node, topic, version)
        if version >= TOPIC_IDS:
            shown = kind.OffsetCommitResponseTopic(topic_id=topic.topic_id, partitions=[])
        else:
            shown = kind.OffsetCommitResponseTopic(name=topic.name, partitions=[])
        reply.topics.append(shown)
        for one in topic.partitions:
            data = kind.OffsetCommitResponsePartition(partition_index=one.partition_index)
            shown.partitions.append(data)
            metadata = one.committed_metadata or ""
            if error is not ErrorCode.NONE:
                data.error_code = error
            elif name is None:
                data.error_code = (
                    ErrorCode.UNKNOWN_TOPIC_ID if version >= TOPIC_IDS else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                )
            elif not _exists(node, name, one.partition_index):
                data.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif len(metadata) > node.broker.groups.machine.settings.metadata_bytes_max:
                data.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                portion.add(
                    data,
                    name,
                    CommittedOffset(one.committed_offset, one.committed_leader_epoch, metadata, node.now.wall_ms),
                )
            if pace.over():
                if portion.offsets:
                    writes.append((portion, _write(node, request.group_id, portion)))
                    portion = _Portion()
                yield
                error = _error(node, request, version)
        if pace.over():
            yield
            error = _error(node, request, version)
    if portion.offsets:
        writes.append((portion, _write(node, request.group_id, portion)))

    def finish(codes: list[ErrorCode]) -> Any:
        for (written, _), code in zip(writes, codes, strict=True):
            for data in written.answers:
                data.error_code = code
        return reply

    return joined([answer for _, answer in writes], finish)


def _error(node: "Node", request: Any, version: int) -> ErrorCode:
    """What is wrong with the member that commits."""
    assert node.broker is not None
    machine = node.broker.groups.machine
    error = machine.commit_error(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id_or_member_epoch, node.now
    )
    if error is ErrorCode.ILLEGAL_GENERATION and version >= NOT_FOUND_FROM and machine.group(request.group_id) is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return error


class _Portion:
    """Offsets that are written together, and what the answer says of each."""

    __slots__ = ("answers", "offsets")

    def __init__(self) -> None:
        self.offsets: list[tuple[str, int, CommittedOffset]] = []
        self.answers: list[Any] = []

    def add(self, data: Any, topic: str, committed: CommittedOffset) -> None:
        """One more. `data`: its part of the answer."""
        self.offsets.append((topic, data.partition_index, committed))
        self.answers.append(data)


def _write(node: "Node", group_id: str, portion: _Portion) -> Answer:
    """Begin to write a portion; the reply is its error."""
    assert node.broker is not None
    groups = node.broker.groups
    return groups.commit(lambda then: groups.machine.commit(group_id, portion.offsets, then), lambda code: code)


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
