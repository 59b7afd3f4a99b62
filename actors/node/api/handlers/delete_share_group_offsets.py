"""DeleteShareGroupOffsets (92), version 0: an administrator has an empty share group forget topics (KIP-932).

Behaviour: a topic that is deleting since an earlier request failed can be named again.
Errors for the whole: UNSUPPORTED_VERSION (the cluster's share.version is 0), GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID,
NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP. A topic:
TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION (the topic, or something of it that the group remembers), and what a
share coordinator says.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.broker.groups.share.initialization import ShareStateAnswer
from actors.node.api.contexts import BrokerContext
from actors.node.api.share.share_groups import denied
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Listener, Subject
from actors.node.runtime.slices import Steps, in_slices
from actors.wire.errors import ErrorCode, text
from actors.wire.messages import ZERO_UUID, message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse


@rpc(92, "DeleteShareGroupOffsets", range(0, 1), listeners=(Listener.CLIENT,), writes=Subject.GROUPS)
@in_slices
def delete_share_group_offsets(context: BrokerContext, request: "DeleteShareGroupOffsetsRequest", call: Call) -> Steps:
    """Have share partitions of topics end; answer when their share coordinators have forgotten them."""
    kind = message("DeleteShareGroupOffsetsResponse")
    why = denied(context, call, Operation.DELETE, request.group_id)
    if why is not None:
        return Done(kind(error_code=why[0], error_message=why[1]))
    names = dict.fromkeys(topic.topic_name for topic in request.topics)
    may = yield from context.authorizer.allowed_names(call, Operation.READ, Resource.TOPIC, names)
    allowed = [name for name in names if name in may]
    forbidden = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    found = {name: ShareStateAnswer(forbidden, text(forbidden)) for name in names if name not in may}
    whole: list[ShareStateAnswer] = []

    def start(then: Callable[[ErrorCode], None]) -> None:
        def told(error: ShareStateAnswer, results: Mapping[str, ShareStateAnswer]) -> None:
            found.update(results)
            whole.append(error)
            then(ErrorCode.NONE)

        context.groups.machine.kinds.share.administration.delete_offsets(request.group_id, allowed, told)

    def reply(error: ErrorCode) -> "DeleteShareGroupOffsetsResponse":
        if whole[0].error is not ErrorCode.NONE:
            return kind(error_code=whole[0].error, error_message=whole[0].message)
        image = context.cache.image
        responses = []
        for name, told in found.items():
            row = image.topic(name) if told.error is not forbidden else -1
            responses.append(
                kind.DeleteShareGroupOffsetsResponseTopic(
                    topic_name=name,
                    topic_id=(image.topic_id(row) if row >= 0 else None) or ZERO_UUID,
                    error_code=told.error,
                    error_message=told.message,
                )
            )
        return kind(responses=responses)

    return context.groups.commit(start, reply)
