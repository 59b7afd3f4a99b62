"""IncrementalAlterConfigs 0-1: single settings are set, deleted, appended to, subtracted from.

Brokers pass it on; the active controller does it (`controller/configs.py`).
Errors: 3, 29, 30, 31, 40, 42, 44, 102 by resource; 41 NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING

from actors.authorization.resources import Operation
from actors.controller.configs import incremental_alter_configs
from actors.controller.portions import CONFIGS
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.entries import allowed_entries
from actors.node.api.security.authorizer import config_error
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Forward
from actors.node.runtime.calls import Call, Listener, Subject

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import IncrementalAlterConfigsRequest


@rpc(44, "IncrementalAlterConfigs", range(2), listeners=[Listener.CONTROLLER], enveloped=True)
def decide(context: ControllerContext, request: "IncrementalAlterConfigsRequest", call: Call) -> Answer:
    """On a controller."""
    return allowed_entries(
        request,
        CONFIGS,
        lambda resource: config_error(context.authorizer, call, Operation.ALTER_CONFIGS, resource),
        lambda allowed: context.role.submit(incremental_alter_configs, allowed, call, CONFIGS),
    )


@rpc(
    44, "IncrementalAlterConfigs", range(2), listeners=[Listener.CLIENT, Listener.INTER_BROKER], writes=Subject.METADATA
)
def forward(context: BrokerContext, request: "IncrementalAlterConfigsRequest", call: Call) -> Answer:
    """On a broker."""
    return Forward()
