"""ListPartitionReassignments 0: what moves.

Brokers pass it on; the active controller does it (`controller/partitions/reassignments.py`).
Errors: none; 41 NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING

from actors.controller.partitions.reassignments import list_partition_reassignments
from actors.controller.portions import REASSIGNMENTS
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Forward
from actors.node.runtime.calls import Call, Listener, Subject

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ListPartitionReassignmentsRequest


@rpc(46, "ListPartitionReassignments", range(1), listeners=[Listener.CONTROLLER], enveloped=True)
def decide(context: ControllerContext, request: "ListPartitionReassignmentsRequest", call: Call) -> Answer:
    """On a controller."""
    return context.role.submit(list_partition_reassignments, request, call, REASSIGNMENTS)


@rpc(
    46,
    "ListPartitionReassignments",
    range(1),
    listeners=[Listener.CLIENT, Listener.INTER_BROKER],
    reads=Subject.METADATA,
)
def forward(context: BrokerContext, request: "ListPartitionReassignmentsRequest", call: Call) -> Answer:
    """On a broker."""
    return Forward()
