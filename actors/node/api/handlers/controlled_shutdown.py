"""ControlledShutdown (7): a broker asks whether it may stop (`controller/brokers/controlled_shutdown.py`). Controllers
that push metadata only. Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, STALE_BROKER_EPOCH,
BROKER_ID_NOT_REGISTERED.
"""

from typing import TYPE_CHECKING

from actors.controller.brokers.controlled_shutdown import controlled_shutdown
from actors.node.api.contexts import ControllerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call, Lane, Listener

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ControlledShutdownRequest


@rpc(7, "ControlledShutdown", range(4), listeners=[Listener.BRIDGE], lane=Lane.CONTROL)
@rpc(7, "ControlledShutdown", range(4), listeners=[Listener.CONTROLLER], lane=Lane.CONTROL, pushed=True)
def decide(context: ControllerContext, request: "ControlledShutdownRequest", call: Call) -> Answer:
    """The active controller moves leaderships away from a broker that is to end."""
    return context.role.submit(controlled_shutdown, request, call)
