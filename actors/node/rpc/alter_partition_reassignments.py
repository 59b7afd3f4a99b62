"""AlterPartitionReassignments 0-1: replicas begin to move, or stop.

Brokers pass it on; the active controller does it (`controller/reassignments.py`).
Errors: 3, 38, 39, 42, 85 by partition; 41 NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING, Any

from actors.controller.portions import REASSIGNED
from actors.controller.reassignments import alter_partition_reassignments
from actors.node.registry import Answer, Call, Forward, Listener, Subject, rpc

if TYPE_CHECKING:
    from actors.node.node import Node


@rpc(45, "AlterPartitionReassignments", range(2), listeners=[Listener.CONTROLLER])
def decide(node: "Node", request: Any, call: Call) -> Answer:
    """On a controller."""
    assert node.controller is not None
    return node.controller.submit(alter_partition_reassignments, request, call, REASSIGNED)


@rpc(
    45,
    "AlterPartitionReassignments",
    range(2),
    listeners=[Listener.CLIENT, Listener.INTER_BROKER],
    writes=Subject.METADATA,
)
def forward(node: "Node", request: Any, call: Call) -> Answer:
    """On a broker."""
    return Forward()
