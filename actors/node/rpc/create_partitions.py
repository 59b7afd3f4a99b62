"""CreatePartitions 0-3: more partitions for topics that exist.

Brokers pass it on; the active controller does it (`controller/partitions.py`).
Errors: 3, 37, 38, 39, 42, 44 by topic; 41 NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING, Any

from actors.controller.partitions import create_partitions
from actors.controller.portions import TOPICS_GROWN
from actors.node.registry import Answer, Call, Forward, Listener, Subject, rpc

if TYPE_CHECKING:
    from actors.node.node import Node


@rpc(37, "CreatePartitions", range(4), listeners=[Listener.CONTROLLER])
def decide(node: "Node", request: Any, call: Call) -> Answer:
    """On a controller."""
    assert node.controller is not None
    return node.controller.submit(create_partitions, request, call, TOPICS_GROWN)


@rpc(37, "CreatePartitions", range(4), listeners=[Listener.CLIENT, Listener.INTER_BROKER], writes=Subject.METADATA)
def forward(node: "Node", request: Any, call: Call) -> Answer:
    """On a broker."""
    return Forward()
