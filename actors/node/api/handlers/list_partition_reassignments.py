"""ListPartitionReassignments 0: what moves.

Brokers pass it on; the active controller does it (`controller/partitions/reassignments.py`).
Errors: none; NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING

from actors.controller.partitions.reassignments import list_partition_reassignments
from actors.controller.portions import REASSIGNMENTS
from actors.node.api.contexts import ControllerContext
from actors.node.api.table import controllers_own
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call, Subject

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ListPartitionReassignmentsRequest


@controllers_own(46, "ListPartitionReassignments", range(1), reads=Subject.METADATA)
def decide(context: ControllerContext, request: "ListPartitionReassignmentsRequest", call: Call) -> Answer:
    """The active controller lists the moves that it has begun."""
    return context.role.submit(list_partition_reassignments, request, call, REASSIGNMENTS)
