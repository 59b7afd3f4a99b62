"""OffsetDelete (47), version 0 (KIP-496).

Behaviour: a consumer group of which it is not known what it subscribes to may subscribe to every topic.

Errors at the top: GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP (a group that is no consumer group and has members). A partition:
TOPIC_AUTHORIZATION_FAILED, GROUP_SUBSCRIBED_TO_TOPIC, UNKNOWN_TOPIC_OR_PARTITION.
"""

from typing import TYPE_CHECKING, Any

from actors.authorization.resources import Operation, Resource
from actors.broker.groups.shard import AnyGroup
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Listener, Subject
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import OffsetDeleteRequest


@rpc(47, "OffsetDelete", range(0, 1), listeners=(Listener.CLIENT,), writes=Subject.GROUPS)
def offset_delete(context: BrokerContext, request: "OffsetDeleteRequest", call: Call) -> Answer:
    """Remove committed offsets of topics that no member subscribes to."""
    groups, image = context.groups, context.cache.image
    Response = message("OffsetDeleteResponse")
    if not context.authorizer.allowed(call, Operation.DELETE, Resource.GROUP, request.group_id):
        return Done(Response(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    group = _group(context, request.group_id)
    if isinstance(group, ErrorCode):
        return Done(Response(error_code=group))
    taken, offsets = groups.machine.kind_of(group).subscribes(group), groups.machine.fetch(request.group_id)
    unstable = groups.machine.unstable(request.group_id)
    codes: dict[tuple[str, int], ErrorCode] = {}
    doomed = []
    for topic in request.topics:
        row = image.topic(topic.name)
        allowed = context.authorizer.allowed(call, Operation.READ, Resource.TOPIC, topic.name)
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            if not allowed:
                codes[key] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif row < 0 or image.partition(row, partition.partition_index) < 0:
                codes[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif taken(topic.name):
                codes[key] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            elif isinstance(offsets, ErrorCode) or (key not in offsets and key not in unstable):
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


def _group(context: BrokerContext, id: str) -> AnyGroup | ErrorCode:
    """The group, if offsets may be deleted from it."""
    if not id:
        return ErrorCode.INVALID_GROUP_ID
    machine = context.groups.machine
    group: AnyGroup | ErrorCode | None = machine.find(id)
    if isinstance(group, ErrorCode):
        return group
    error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else machine.kind_of(group).offset_delete_error(group)
    return group if group is not None and error is ErrorCode.NONE else error
