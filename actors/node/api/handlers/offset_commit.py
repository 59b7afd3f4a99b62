"""OffsetCommit (8), versions 2 to 10.

Version notes: 2 to 4 carry a retention that nobody uses; 6 leader epoch; 7 static members; 9 a member of an unknown group
hears so, and members of KIP-848 commit; 10 topic ids.
Behaviour: a member of KIP-848 may commit in an earlier epoch for partitions that it has held since (KIP-1251); if one
partition is not, nothing is committed.
Errors: GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
COORDINATOR_NOT_AVAILABLE, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, STALE_MEMBER_EPOCH,
UNSUPPORTED_VERSION (a member of KIP-848 before version 9), REBALANCE_IN_PROGRESS, FENCED_INSTANCE_ID,
OFFSET_METADATA_TOO_LARGE, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID; each partition has its own.
"""

from collections.abc import Generator
from typing import Any

from actors.authorization.resources import Operation, Resource
from actors.broker.groups.records import CommittedOffset
from actors.broker.groups.streams.state import StreamsGroup
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, joined
from actors.node.runtime.calls import Call, Listener, Subject
from actors.node.runtime.slices import Pace, Steps, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

TOPIC_IDS = 10
NOT_FOUND_FROM = 9


@rpc(8, "OffsetCommit", range(2, 11), listeners=(Listener.CLIENT,), writes=Subject.GROUPS, pipelined=True)
@in_slices
def offset_commit(context: BrokerContext, request: Any, call: Call) -> Steps:
    """Write the offsets; answer once they are committed. Many are written in portions, a slice each."""
    version = call.api_version
    error = _error(context, request, call)
    kind = message("OffsetCommitResponse")
    reply = kind()
    portion = _Portion()
    writes: list[tuple[_Portion, Answer]] = []
    pace = Pace()
    late = False
    if error is ErrorCode.STALE_MEMBER_EPOCH:
        error = yield from _earlier_epoch_error(context, request, version)
        late = error is ErrorCode.NONE
    for topic in request.topics:
        name = _name(context, topic, version)
        if version >= TOPIC_IDS:
            shown = kind.OffsetCommitResponseTopic(topic_id=topic.topic_id, partitions=[])
        else:
            shown = kind.OffsetCommitResponseTopic(name=topic.name, partitions=[])
        allowed = _allowed(context, call, name if version >= TOPIC_IDS else topic.name)
        reply.topics.append(shown)
        for one in topic.partitions:
            data = kind.OffsetCommitResponsePartition(partition_index=one.partition_index)
            shown.partitions.append(data)
            metadata = one.committed_metadata or ""
            if error is not ErrorCode.NONE:
                data.error_code = error
            elif not allowed:
                data.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif name is None:
                data.error_code = (
                    ErrorCode.UNKNOWN_TOPIC_ID if version >= TOPIC_IDS else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                )
            elif not _exists(context, name, one.partition_index):
                data.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif len(metadata) > context.groups.machine.settings.metadata_bytes_max:
                data.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                portion.add(
                    data,
                    name,
                    CommittedOffset(
                        one.committed_offset, one.committed_leader_epoch, metadata, context.runtime.now.wall_ms
                    ),
                )
            if pace.over():
                if portion.offsets:
                    writes.append((portion, _write(context, request.group_id, portion)))
                    portion = _Portion()
                yield
                error = _again(context, request, call, late)
        if pace.over():
            yield
            error = _again(context, request, call, late)
    if portion.offsets:
        writes.append((portion, _write(context, request.group_id, portion)))

    def finish(codes: list[ErrorCode]) -> Any:
        for (written, _), code in zip(writes, codes, strict=True):
            for data in written.answers:
                data.error_code = code
        return reply

    return joined([answer for _, answer in writes], finish)


def _error(context: BrokerContext, request: Any, call: Call) -> ErrorCode:
    """What is wrong with the member that commits."""
    if not context.authorizer.allowed(call, Operation.READ, Resource.GROUP, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    version = call.api_version
    machine = context.groups.machine
    error = machine.commit_error(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        context.runtime.now,
    )
    if version < NOT_FOUND_FROM and isinstance(machine.find(request.group_id), StreamsGroup) and request.member_id:
        return ErrorCode.UNSUPPORTED_VERSION
    if version < NOT_FOUND_FROM and error in (ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH) and request.member_id:
        group = machine.consumer_group(request.group_id)
        member = None if group is None else group.members.get(request.member_id)
        if member is not None and member.subscription.classic is None:
            return ErrorCode.UNSUPPORTED_VERSION
    if error is ErrorCode.ILLEGAL_GENERATION and version >= NOT_FOUND_FROM and machine.find(request.group_id) is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return error


def _again(context: BrokerContext, request: Any, call: Call, late: bool) -> ErrorCode:
    """What is wrong after a pause. `late`: the member commits in an earlier epoch, and may."""
    error = _error(context, request, call)
    return ErrorCode.NONE if late and error is ErrorCode.STALE_MEMBER_EPOCH else error


def _earlier_epoch_error(context: BrokerContext, request: Any, version: int) -> Generator[None, None, ErrorCode]:
    """NONE: the member has held all these partitions since the epoch in which it commits."""
    machine, pace = context.groups.machine, Pace()
    for topic in request.topics:
        name = _name(context, topic, version)
        for one in topic.partitions:
            epoch = request.generation_id_or_member_epoch
            if not machine.held_since(request.group_id, request.member_id, epoch, name or "", one.partition_index):
                return machine.stale_error(request.group_id, request.member_id)
            if pace.over():
                yield
    return ErrorCode.NONE


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


def _write(context: BrokerContext, group_id: str, portion: _Portion) -> Answer:
    """Begin to write a portion; the reply is its error."""
    groups = context.groups
    return groups.commit(lambda then: groups.machine.commit(group_id, portion.offsets, then), lambda code: code)


def _name(context: BrokerContext, topic: Any, version: int) -> str | None:
    image = context.cache.image
    if version < TOPIC_IDS:
        return topic.name if image.topic(topic.name) >= 0 else None
    row = image.topic_by_id(topic.topic_id)
    return image.topic_name(row) if row >= 0 else None


def _allowed(context: BrokerContext, call: Call, name: str | None) -> bool:
    return name is None or context.authorizer.allowed(call, Operation.READ, Resource.TOPIC, name)


def _exists(context: BrokerContext, name: str, partition: int) -> bool:
    image = context.cache.image
    return image.partition(image.topic(name), partition) >= 0
