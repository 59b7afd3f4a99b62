"""IncrementalAlterConfigs 0-1: single settings are set, deleted, appended to, subtracted from.

Brokers pass it on; the active controller does it (`controller/configs.py`).
Errors: 3, 40, 42, 44, 102 by resource; 41 NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING, Any

from actors.controller.configs import incremental_alter_configs
from actors.controller.portions import CONFIGS
from actors.node.registry import Answer, Call, Forward, Listener, Subject, rpc

if TYPE_CHECKING:
    from actors.node.node import Node


@rpc(44, "IncrementalAlterConfigs", range(2), listeners=[Listener.CONTROLLER])
def decide(node: "Node", request: Any, call: Call) -> Answer:
    """On a controller."""
    assert node.controller is not None
    return node.controller.submit(incremental_alter_configs, request, call, CONFIGS)


@rpc(
    44, "IncrementalAlterConfigs", range(2), listeners=[Listener.CLIENT, Listener.INTER_BROKER], writes=Subject.METADATA
)
def forward(node: "Node", request: Any, call: Call) -> Answer:
    """On a broker."""
    return Forward()
