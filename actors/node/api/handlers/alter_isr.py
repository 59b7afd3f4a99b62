"""AlterIsr 0 (KIP-497): a leader asks for another ISR (`controller/partitions/alter_isr.py`). Controllers only.

A broker's AlterIsr is taken from the newest connection on which it has sent one; an older connection is closed and what
waits in it is dropped, so that a delayed copy never overtakes a later proposal (R497-52). Only what comes under the
live epoch of the broker counts as sent by it: anybody can write its id. Errors: top level NOT_CONTROLLER,
STALE_BROKER_EPOCH; by partition UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST, FENCED_LEADER_EPOCH,
INVALID_UPDATE_VERSION.
"""

from typing import TYPE_CHECKING

from actors.controller.partitions.alter_isr import alter_isr
from actors.controller.portions import PROPOSED
from actors.node.api.contexts import ControllerContext
from actors.node.api.table import DRAFTS, rpc
from actors.node.runtime.answers import Answer, Close
from actors.node.runtime.calls import Call, Lane, Listener

if TYPE_CHECKING:
    from actors.wire.schemas.kip631 import AlterIsrRequest
    from actors.wire.schemas.rpc import AlterPartitionRequest


@rpc(56, "AlterIsr", range(1), listeners=[Listener.CONTROLLER], families=DRAFTS, lane=Lane.CONTROL)
def decide(context: ControllerContext, request: "AlterIsrRequest", call: Call) -> Answer:
    """The active controller changes ISRs as their leaders ask."""
    return in_order(context, request, call) or context.role.submit(alter_isr, request, call, PROPOSED)


def in_order(
    context: ControllerContext, request: "AlterIsrRequest | AlterPartitionRequest", call: Call
) -> Close | None:
    """The end of a connection that is not the newest one of its broker; None: it is the newest."""
    role = context.role
    lease = role.soft.leases.get(request.broker_id)
    if not role.active or lease is None or lease.epoch != request.broker_epoch:
        return None
    newest = role.soft.isr_connections
    known = newest.get(request.broker_id, -1)
    if call.connection < known:
        return Close(f"broker {request.broker_id} sends AlterIsr on a newer connection")
    if call.connection > known:
        newest[request.broker_id] = call.connection
        older = context.requests.connections.get(known)
        if older is not None:
            context.requests.close(older, f"broker {request.broker_id} sends AlterIsr on a newer connection")
    return None
