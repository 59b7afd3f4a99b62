"""UnregisterBroker 0: a broker is given up, with its last copies.

Brokers pass it on; the active controller does it (`controller/brokers/unregistration.py`).
Errors: REQUEST_TIMED_OUT, BROKER_ID_NOT_REGISTERED; NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING

from actors.controller.brokers.unregistration import unregister_broker
from actors.node.api.contexts import ControllerContext
from actors.node.api.table import controllers_own
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call, Subject

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import UnregisterBrokerRequest


@controllers_own(64, "UnregisterBroker", range(1), writes=Subject.METADATA)
def decide(context: ControllerContext, request: "UnregisterBrokerRequest", call: Call) -> Answer:
    """The active controller ends the registration."""
    return context.role.submit(unregister_broker, request, call)
