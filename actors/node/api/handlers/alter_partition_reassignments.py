"""AlterPartitionReassignments 0-1: replicas begin to move, or stop.

Brokers pass it on; the active controller does it (`controller/partitions/reassignments.py`).
Errors: 3, 38, 39, 42, 85 by partition; 41 NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING

from actors.controller.partitions.reassignments import alter_partition_reassignments
from actors.controller.portions import REASSIGNED
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Forward
from actors.node.runtime.calls import Call, Listener, Subject

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import AlterPartitionReassignmentsRequest


@rpc(45, "AlterPartitionReassignments", range(2), listeners=[Listener.CONTROLLER], enveloped=True)
def decide(context: ControllerContext, request: "AlterPartitionReassignmentsRequest", call: Call) -> Answer:
    """On a controller."""
    return context.role.submit(alter_partition_reassignments, request, call, REASSIGNED)


@rpc(
    45,
    "AlterPartitionReassignments",
    range(2),
    listeners=[Listener.CLIENT, Listener.INTER_BROKER],
    writes=Subject.METADATA,
)
def forward(context: BrokerContext, request: "AlterPartitionReassignmentsRequest", call: Call) -> Answer:
    """On a broker."""
    return Forward()
