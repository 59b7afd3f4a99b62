"""CreatePartitions 0-3: more partitions for topics that exist.

Brokers pass it on; the active controller does it (`controller/partitions/partitions.py`).
One request may add `PARTITIONS_MAX` partitions, in however many portions it is carried out.
Errors: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR,
INVALID_REPLICA_ASSIGNMENT, INVALID_REQUEST, POLICY_VIOLATION by topic, THROTTLING_QUOTA_EXCEEDED over the quota;
NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.controller.partitions.partitions import create_partitions, growth, refuse_growth
from actors.controller.partitions.topics import PARTITIONS_MAX
from actors.controller.portions import TOPICS_GROWN
from actors.node.api.charged_mutations import charged
from actors.node.api.contexts import ControllerContext
from actors.node.api.entries import allowed_entries
from actors.node.api.table import controllers_own
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call, Subject
from actors.wire.errors import ErrorCode

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import CreatePartitionsRequest

STRICT_FROM = 3
"""The first version whose clients know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


@controllers_own(37, "CreatePartitions", range(4), writes=Subject.METADATA)
def decide(context: ControllerContext, request: "CreatePartitionsRequest", call: Call) -> Answer:
    """The active controller adds partitions to the topics that the client may alter."""
    grown: dict[str, int] = {}  # counted where entries are judged, which is in slices

    def judge(topic: "CreatePartitionsRequest.CreatePartitionsTopic") -> ErrorCode:
        if not context.authorizer.allowed(call, Operation.ALTER, Resource.TOPIC, topic.name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        grown[topic.name] = growth(topic, context.role.image)
        return ErrorCode.NONE

    def submit(allowed: "CreatePartitionsRequest") -> Answer:
        if sum(grown.values()) > PARTITIONS_MAX:
            return context.role.submit(refuse_growth, allowed, call, TOPICS_GROWN)
        return charged(context.role, create_partitions, allowed, call, TOPICS_GROWN, STRICT_FROM)

    return allowed_entries(request, TOPICS_GROWN, judge, submit)
