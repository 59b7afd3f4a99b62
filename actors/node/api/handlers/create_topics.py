"""CreateTopics 2-7: topics with their partitions and settings.

Brokers pass it on; the active controller does it (`controller/partitions/topics.py`). v5 answers partitions and
settings, v7 topic ids. Errors: 17, 29, 36, 37, 38, 39, 40, 42, 44 by topic, 89 over the quota; 41 NOT_CONTROLLER on a
standby.
"""

from functools import partial
from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.controller.partitions.topics import PARTITIONS_MAX, create_topics, partitions_asked, refuse_topics
from actors.controller.portions import TOPICS_MADE
from actors.node.api.charged_mutations import charged
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.entries import allowed_entries
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Forward, mapped
from actors.node.runtime.calls import Call, Listener, Subject
from actors.wire.errors import ErrorCode

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import CreateTopicsRequest, CreateTopicsResponse

STRICT_FROM = 6
"""The first version whose clients know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


@rpc(19, "CreateTopics", range(2, 8), listeners=[Listener.CONTROLLER], enveloped=True)
def decide(context: ControllerContext, request: "CreateTopicsRequest", call: Call) -> Answer:
    """On a controller."""
    role, may = context.role, context.authorizer
    everything = may.shown(call, Operation.CREATE, Resource.CLUSTER)

    def judge(topic: "CreateTopicsRequest.CreatableTopic") -> ErrorCode:
        if everything or may.allowed(call, Operation.CREATE, Resource.TOPIC, topic.name):
            return ErrorCode.NONE
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def submit(allowed: "CreateTopicsRequest") -> Answer:
        fits = partitions_asked(allowed, role.options.partitions_default) <= PARTITIONS_MAX
        if not fits:
            return role.submit(refuse_topics, allowed, call, TOPICS_MADE)
        answer = charged(role, partial(create_topics, accepted={}), allowed, call, TOPICS_MADE, STRICT_FROM)
        return mapped(answer, lambda reply: _hidden(context, call, reply)) if may.enabled else answer

    return allowed_entries(request, TOPICS_MADE, judge, submit)


def _hidden(context: ControllerContext, call: Call, reply: "CreateTopicsResponse") -> "CreateTopicsResponse":
    """Settings of a new topic are for those who may describe them (KIP-525)."""
    for topic in reply.topics:
        if topic.error_code == ErrorCode.NONE and not context.authorizer.shown(
            call, Operation.DESCRIBE_CONFIGS, Resource.TOPIC, topic.name
        ):
            topic.topic_config_error_code = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            topic.num_partitions = topic.replication_factor = -1
            topic.configs = []
    return reply


@rpc(
    19,
    "CreateTopics",
    range(2, 8),
    listeners=[Listener.CLIENT, Listener.INTER_BROKER],
    writes=Subject.METADATA,
    pipelined=True,
)
def forward(context: BrokerContext, request: "CreateTopicsRequest", call: Call) -> Answer:
    """On a broker."""
    return Forward()
