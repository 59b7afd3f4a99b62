"""DeleteTopics 1-6: topics go, with partitions and settings.

Brokers pass it on; the active controller does it (`controller/partitions/topics.py`). v6 takes topic ids.
Errors: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, INVALID_REQUEST, TOPIC_DELETION_DISABLED,
UNKNOWN_TOPIC_ID by topic, THROTTLING_QUOTA_EXCEEDED over the quota; NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING, Any

from actors.authorization.resources import Operation, Resource
from actors.controller.partitions.topics import delete_topics
from actors.controller.portions import TOPICS_GONE
from actors.node.api.charged_mutations import charged
from actors.node.api.contexts import ControllerContext
from actors.node.api.entries import allowed_entries
from actors.node.api.table import controllers_own
from actors.node.runtime.answers import Answer, mapped
from actors.node.runtime.calls import Call, Subject
from actors.wire.errors import ErrorCode

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import DeleteTopicsRequest

STRICT_FROM = 5
"""The first version whose clients know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


@controllers_own(20, "DeleteTopics", range(1, 7), writes=Subject.METADATA, pipelined=True)
def decide(context: ControllerContext, request: "DeleteTopicsRequest", call: Call) -> Answer:
    """The active controller deletes the topics that the client may delete."""
    image, may = context.role.image, context.authorizer
    everything = may.shown(call, Operation.DELETE, Resource.CLUSTER)
    told: dict[bytes, str] = {}
    """Names of topics that are denied by id, to somebody who may describe them."""

    def judge(topic: "DeleteTopicsRequest.DeleteTopicState | str") -> ErrorCode:
        topic_id = None if isinstance(topic, str) or topic.name is not None else topic.topic_id
        if topic_id is not None:
            row = image.topic_by_id(topic_id)
            name = image.topic_name(row) if row >= 0 else None
        else:
            name = topic if isinstance(topic, str) else topic.name
        if everything or name is None:
            return ErrorCode.NONE
        described = may.shown(call, Operation.DESCRIBE, Resource.TOPIC, name)
        known = topic_id is not None or image.topic(name) >= 0
        if may.allowed(call, Operation.DELETE, Resource.TOPIC, name) and (known or described):
            return ErrorCode.NONE
        if topic_id is not None and described:
            told[bytes(topic_id)] = name
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def submit(allowed: "DeleteTopicsRequest") -> Answer:
        return charged(context.role, delete_topics, allowed, call, TOPICS_GONE, STRICT_FROM)

    def named(reply: Any) -> Any:
        for topic in reply.responses:
            if topic.name is None:
                topic.name = told.get(bytes(topic.topic_id))
        return reply

    answer = allowed_entries(request, TOPICS_GONE, judge, submit)
    return mapped(answer, named) if may.enabled else answer
