"""ElectLeaders 0-2: preferred and unclean elections.

Brokers pass it on; the active controller does it (`controller/elections.py`). v0 knows preferred ones only.
Errors: 3, 80, 83, 84 by partition; 41 NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING, Any

from actors.controller.elections import elect_leaders
from actors.controller.portions import ELECTED
from actors.node.registry import Answer, Call, Forward, Listener, Subject, rpc

if TYPE_CHECKING:
    from actors.node.node import Node


@rpc(43, "ElectLeaders", range(3), listeners=[Listener.CONTROLLER])
def decide(node: "Node", request: Any, call: Call) -> Answer:
    """On a controller."""
    assert node.controller is not None
    return node.controller.submit(elect_leaders, request, call, ELECTED)


@rpc(43, "ElectLeaders", range(3), listeners=[Listener.CLIENT, Listener.INTER_BROKER], writes=Subject.METADATA)
def forward(node: "Node", request: Any, call: Call) -> Answer:
    """On a broker."""
    return Forward()
