"""AlterPartitionReassignments 0-1: replicas begin to move, or stop.

Brokers pass it on; the active controller does it (`controller/partitions/reassignments.py`).
Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_REQUEST,
NO_REASSIGNMENT_IN_PROGRESS by partition; NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING

from actors.controller.partitions.reassignments import alter_partition_reassignments
from actors.controller.portions import REASSIGNED
from actors.node.api.contexts import ControllerContext
from actors.node.api.table import controllers_own
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call, Subject

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import AlterPartitionReassignmentsRequest


@controllers_own(45, "AlterPartitionReassignments", range(2), writes=Subject.METADATA)
def decide(context: ControllerContext, request: "AlterPartitionReassignmentsRequest", call: Call) -> Answer:
    """The active controller begins or cancels moves."""
    return context.role.submit(alter_partition_reassignments, request, call, REASSIGNED)
