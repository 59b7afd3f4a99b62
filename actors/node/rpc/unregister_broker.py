"""UnregisterBroker 0: a broker is given up, with its last copies.

Brokers pass it on; the active controller does it (`controller/unregistration.py`).
Errors: 7, 102; 41 NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING, Any

from actors.controller.unregistration import unregister_broker
from actors.node.registry import Answer, Call, Forward, Listener, Subject, rpc

if TYPE_CHECKING:
    from actors.node.node import Node


@rpc(64, "UnregisterBroker", range(1), listeners=[Listener.CONTROLLER])
def decide(node: "Node", request: Any, call: Call) -> Answer:
    """On a controller."""
    assert node.controller is not None
    return node.controller.submit(unregister_broker, request, call)


@rpc(64, "UnregisterBroker", range(1), listeners=[Listener.CLIENT, Listener.INTER_BROKER], writes=Subject.METADATA)
def forward(node: "Node", request: Any, call: Call) -> Answer:
    """On a broker."""
    return Forward()
