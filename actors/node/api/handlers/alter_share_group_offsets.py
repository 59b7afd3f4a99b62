"""AlterShareGroupOffsets (91), version 0: an administrator moves an empty share group to other offsets (KIP-932).

Behaviour: what the group remembered of these partitions is forgotten. A group that does not exist begins with it.
Errors for the whole: UNSUPPORTED_VERSION (the cluster's share.version is 0), GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID,
NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, GROUP_ID_NOT_FOUND (a group of another kind),
NON_EMPTY_GROUP. A partition: TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST (a negative offset, a
partition that is named twice), and what its share coordinator says.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.broker.groups.share.initialization import Place, ShareStateAnswer
from actors.broker.groups.share.state import Begun
from actors.node.api.contexts import BrokerContext
from actors.node.api.share.share_groups import denied
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Listener, Subject
from actors.wire.errors import ErrorCode, text
from actors.wire.messages import ZERO_UUID, message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse


@rpc(91, "AlterShareGroupOffsets", range(0, 1), listeners=(Listener.CLIENT,), writes=Subject.GROUPS)
def alter_share_group_offsets(context: BrokerContext, request: "AlterShareGroupOffsetsRequest", call: Call) -> Answer:
    """Have share partitions begin anew; answer when their share coordinators have."""
    kind = message("AlterShareGroupOffsetsResponse")
    why = denied(context, call, Operation.READ, request.group_id)
    if why is not None:
        return Done(kind(error_code=why[0], error_message=why[1]))
    refused, topics, offsets = _sorted(context, call, request)
    found: dict[Place, ShareStateAnswer] = {}
    administration = context.groups.machine.kinds.share.administration

    def start(then: Callable[[ErrorCode], None]) -> None:
        def told(error: ShareStateAnswer, results: Mapping[Place, ShareStateAnswer]) -> None:
            found.update(results)
            whole.append(error)
            then(ErrorCode.NONE)

        administration.alter(request.group_id, topics, offsets, told)

    whole: list[ShareStateAnswer] = []

    def reply(error: ErrorCode) -> "AlterShareGroupOffsetsResponse":
        if whole[0].error is not ErrorCode.NONE:
            return kind(error_code=whole[0].error, error_message=whole[0].message)
        return kind(responses=_responses(context, kind, request, refused, found))

    return context.groups.commit(start, reply)


def _sorted(
    context: BrokerContext, call: Call, request: "AlterShareGroupOffsetsRequest"
) -> tuple[dict[tuple[str, int], ErrorCode], dict[bytes, Begun], dict[Place, int]]:
    """What is refused, and what is to begin anew: topics with their partitions, and offsets."""
    refused: dict[tuple[str, int], ErrorCode] = {}
    offsets: dict[Place, int] = {}
    topics: dict[bytes, Begun] = {}
    image, wall_ms = context.cache.image, context.runtime.now.wall_ms
    for topic in request.topics:
        row = image.topic(topic.topic_name)
        allowed = context.authorizer.allowed(call, Operation.READ, Resource.TOPIC, topic.topic_name)
        topic_id = image.topic_id(row) if row >= 0 else None
        for one in topic.partitions:
            place = (topic_id or ZERO_UUID, one.partition_index)
            code = ErrorCode.NONE
            if not allowed:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif row < 0 or image.partition(row, one.partition_index) < 0:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif one.start_offset < 0 or place in offsets:
                code = ErrorCode.INVALID_REQUEST
            if code is not ErrorCode.NONE:
                refused[topic.topic_name, one.partition_index] = code
                continue
            offsets[place] = one.start_offset
            known = topics.get(place[0], Begun(topic.topic_name, frozenset(), wall_ms))
            topics[place[0]] = known._replace(partitions=known.partitions | {one.partition_index})
    return refused, topics, offsets


def _responses(
    context: BrokerContext,
    kind: "type[AlterShareGroupOffsetsResponse]",
    request: "AlterShareGroupOffsetsRequest",
    refused: Mapping[tuple[str, int], ErrorCode],
    found: Mapping[Place, ShareStateAnswer],
) -> list["AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic"]:
    image = context.cache.image
    responses = []
    for topic in request.topics:
        row = image.topic(topic.topic_name)
        topic_id = (image.topic_id(row) if row >= 0 else None) or ZERO_UUID
        partitions = []
        for one in topic.partitions:
            code = refused.get((topic.topic_name, one.partition_index))
            gone = ShareStateAnswer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            told = (
                found.get((topic_id, one.partition_index), gone) if code is None else ShareStateAnswer(code, text(code))
            )
            partitions.append(
                kind.AlterShareGroupOffsetsResponsePartition(
                    partition_index=one.partition_index, error_code=told.error, error_message=told.message
                )
            )
        responses.append(
            kind.AlterShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name, topic_id=topic_id, partitions=partitions
            )
        )
    return responses
