"""CreateTopics 2-7: topics with their partitions and settings.

Brokers pass it on; the active controller does it (`controller/partitions/topics.py`). v5 answers partitions and
settings, v7 topic ids. Errors: INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED, TOPIC_ALREADY_EXISTS,
INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, INVALID_REQUEST,
POLICY_VIOLATION by topic, THROTTLING_QUOTA_EXCEEDED over the quota; NOT_CONTROLLER on a standby.
"""

from functools import partial
from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.controller.partitions.topics import PARTITIONS_MAX, create_topics, partitions_asked, refuse_topics
from actors.controller.portions import TOPICS_MADE
from actors.node.api.charged_mutations import charged
from actors.node.api.contexts import ControllerContext
from actors.node.api.entries import allowed_entries
from actors.node.api.table import controllers_own
from actors.node.runtime.answers import Answer, mapped
from actors.node.runtime.calls import Call, Subject
from actors.wire.errors import ErrorCode

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import CreateTopicsRequest, CreateTopicsResponse

STRICT_FROM = 6
"""The first version whose clients know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


@controllers_own(19, "CreateTopics", range(2, 8), writes=Subject.METADATA, pipelined=True)
def decide(context: ControllerContext, request: "CreateTopicsRequest", call: Call) -> Answer:
    """The active controller creates the topics that the client may create."""
    everything = context.authorizer.shown(call, Operation.CREATE, Resource.CLUSTER)
    error = partial(_error, context, call, everything)
    return allowed_entries(request, TOPICS_MADE, error, partial(_created, context, call))


def _error(
    context: ControllerContext, call: Call, everything: bool, topic: "CreateTopicsRequest.CreatableTopic"
) -> ErrorCode:
    """Whether the client may create a topic. `everything`: it may create any."""
    if everything or context.authorizer.allowed(call, Operation.CREATE, Resource.TOPIC, topic.name):
        return ErrorCode.NONE
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _created(context: ControllerContext, call: Call, request: "CreateTopicsRequest") -> Answer:
    """Create what the client may create, as far as its quota goes, if that is no more than one request may ask for."""
    role = context.role
    if partitions_asked(request, role.options.partitions_default) > PARTITIONS_MAX:
        return role.submit(refuse_topics, request, call, TOPICS_MADE)
    answer = charged(role, partial(create_topics, accepted={}), request, call, TOPICS_MADE, STRICT_FROM)
    return mapped(answer, partial(_hidden, context, call)) if context.authorizer.enabled else answer


def _hidden(context: ControllerContext, call: Call, reply: "CreateTopicsResponse") -> "CreateTopicsResponse":
    """The reply without settings of new topics that the client may not describe (KIP-525)."""
    may = context.authorizer
    for topic in reply.topics:
        if topic.error_code == ErrorCode.NONE and not may.shown(
            call, Operation.DESCRIBE_CONFIGS, Resource.TOPIC, topic.name
        ):
            topic.topic_config_error_code = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            topic.num_partitions = topic.replication_factor = -1
            topic.configs = []
    return reply
