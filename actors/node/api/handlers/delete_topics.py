"""DeleteTopics 1-6: topics go, with partitions and settings.

Brokers pass it on; the active controller does it (`controller/topics.py`). v6 takes topic ids.
Errors: 3, 29, 42, 73, 100 by topic, 89 over the quota; 41 NOT_CONTROLLER on a standby.
"""

from typing import Any

from actors.authorization.resources import Operation, Resource
from actors.controller.portions import TOPICS_GONE
from actors.controller.topics import delete_topics
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.entries import allowed_entries
from actors.node.api.mutations import charged
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Forward
from actors.node.runtime.calls import Call, Listener, Subject
from actors.wire.errors import ErrorCode

STRICT_FROM = 5
"""The first version whose clients know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


@rpc(20, "DeleteTopics", range(1, 7), listeners=[Listener.CONTROLLER], enveloped=True)
def decide(context: ControllerContext, request: Any, call: Call) -> Answer:
    """On a controller."""
    image, may = context.role.image, context.authorizer

    def judge(topic: Any) -> ErrorCode:
        name = topic if isinstance(topic, str) else topic.name
        if name is None:
            row = image.topic_by_id(topic.topic_id)
            name = image.topic_name(row) if row >= 0 else None
        if name is None or may.allowed(call, Operation.DELETE, Resource.TOPIC, name):
            return ErrorCode.NONE
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def submit(allowed: Any) -> Answer:
        return charged(context.role, delete_topics, allowed, call, TOPICS_GONE, STRICT_FROM)

    return allowed_entries(request, TOPICS_GONE, judge, submit)


@rpc(
    20,
    "DeleteTopics",
    range(1, 7),
    listeners=[Listener.CLIENT, Listener.INTER_BROKER],
    writes=Subject.METADATA,
    pipelined=True,
)
def forward(context: BrokerContext, request: Any, call: Call) -> Answer:
    """On a broker."""
    return Forward()
