"""AllocateProducerIds 0: a block of producer ids for a broker (`controller/producer_ids.py`). Controllers only.

Errors: 77 STALE_BROKER_EPOCH; 41 NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING, Any

from actors.controller.producer_ids import allocate_producer_ids
from actors.node.registry import Answer, Call, Lane, Listener, rpc

if TYPE_CHECKING:
    from actors.node.node import Node


@rpc(67, "AllocateProducerIds", range(1), listeners=[Listener.CONTROLLER], lane=Lane.CONTROL)
def decide(node: "Node", request: Any, call: Call) -> Answer:
    """On a controller."""
    assert node.controller is not None
    return node.controller.submit(allocate_producer_ids, request, call)
