"""UnregisterBroker 0: a broker is given up, with its last copies.

Brokers pass it on; the active controller does it (`controller/brokers/unregistration.py`).
Errors: 7, 102; 41 NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING

from actors.controller.brokers.unregistration import unregister_broker
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Forward
from actors.node.runtime.calls import Call, Listener, Subject

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import UnregisterBrokerRequest


@rpc(64, "UnregisterBroker", range(1), listeners=[Listener.CONTROLLER], enveloped=True)
def decide(context: ControllerContext, request: "UnregisterBrokerRequest", call: Call) -> Answer:
    """On a controller."""
    return context.role.submit(unregister_broker, request, call)


@rpc(64, "UnregisterBroker", range(1), listeners=[Listener.CLIENT, Listener.INTER_BROKER], writes=Subject.METADATA)
def forward(context: BrokerContext, request: "UnregisterBrokerRequest", call: Call) -> Answer:
    """On a broker."""
    return Forward()
