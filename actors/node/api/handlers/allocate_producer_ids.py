"""AllocateProducerIds 0: a block of producer ids for a broker (`controller/producer_ids.py`). Controllers only.

Errors: STALE_BROKER_EPOCH; NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING

from actors.controller.producer_ids import allocate_producer_ids
from actors.node.api.contexts import ControllerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call, Lane, Listener

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import AllocateProducerIdsRequest


@rpc(67, "AllocateProducerIds", range(1), listeners=[Listener.CONTROLLER, Listener.BRIDGE], lane=Lane.CONTROL)
def decide(context: ControllerContext, request: "AllocateProducerIdsRequest", call: Call) -> Answer:
    """The active controller gives a block of producer ids."""
    return context.role.submit(allocate_producer_ids, request, call)
