"""ListPartitionReassignments 0: what moves.

Brokers pass it on; the active controller does it (`controller/reassignments.py`).
Errors: none; 41 NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING, Any

from actors.controller.portions import REASSIGNMENTS
from actors.controller.reassignments import list_partition_reassignments
from actors.node.registry import Answer, Call, Forward, Listener, Subject, rpc

if TYPE_CHECKING:
    from actors.node.node import Node


@rpc(46, "ListPartitionReassignments", range(1), listeners=[Listener.CONTROLLER])
def decide(node: "Node", request: Any, call: Call) -> Answer:
    """On a controller."""
    assert node.controller is not None
    return node.controller.submit(list_partition_reassignments, request, call, REASSIGNMENTS)


@rpc(
    46,
    "ListPartitionReassignments",
    range(1),
    listeners=[Listener.CLIENT, Listener.INTER_BROKER],
    reads=Subject.METADATA,
)
def forward(node: "Node", request: Any, call: Call) -> Answer:
    """On a broker."""
    return Forward()
