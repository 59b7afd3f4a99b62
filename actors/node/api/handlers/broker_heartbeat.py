"""BrokerHeartbeat 0 (KIP-631): registration, lease, controlled shutdown (`controller/brokers/registration.py`).

Level 1 answers without ThrottleTimeMs (R631-194); the layout is the one of the connection (A02). A broker always answers
NOT_CONTROLLER on a listener of its own for brokers (R631-137, A01). A broker sends on one connection at a time: what
arrives from the holder of a lease on an older one than its newest was stuck there, and tells of the past.
Errors: UNSUPPORTED_VERSION, INVALID_REQUEST, STALE_BROKER_EPOCH, DUPLICATE_BROKER_REGISTRATION,
INCONSISTENT_CLUSTER_ID; NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING

from actors.bridge.stages import Progress, progress
from actors.controller.brokers.registration import NO_ID, broker_heartbeat
from actors.controller.refusals import refusal
from actors.controller.soft_state import Lease
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.table import DRAFTS, rpc
from actors.node.runtime.answers import Answer, Close, Done, mapped
from actors.node.runtime.calls import Call, Lane, Listener
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.kip631.v19 import BrokerHeartbeatResponse as V19BrokerHeartbeatResponse
    from actors.wire.schemas.kip631.v28 import BrokerHeartbeatRequest
    from actors.wire.schemas.kip631.v28 import BrokerHeartbeatResponse as V28BrokerHeartbeatResponse


@rpc(50, "BrokerHeartbeat", range(1), listeners=[Listener.CONTROLLER], families=DRAFTS, lane=Lane.CONTROL)
def decide(context: ControllerContext, request: "BrokerHeartbeatRequest", call: Call) -> Answer:
    """The active controller registers a broker, or prolongs its lease."""
    role = context.role
    held = role.soft.leases.get(request.broker_id)
    if held is not None and call.connection < held.connection and _of_the_holder(request, held):
        return Close(f"broker {request.broker_id} sends heartbeats on a newer connection")
    level = role.layout_level(call)
    if request.legacy:
        role.cannot_tell(request.broker_id)

    def told(reply: "V28BrokerHeartbeatResponse") -> "V19BrokerHeartbeatResponse | V28BrokerHeartbeatResponse":
        lease = role.soft.leases.get(request.broker_id)
        if lease is not None and reply.broker_epoch == lease.epoch:
            lease.connection = max(lease.connection, call.connection)
            role.heard(request.broker_id, call)
        return _level_1(reply) if level == 1 else _with_driver(context, reply)

    return mapped(role.submit(broker_heartbeat, request, call), told)


def _of_the_holder(request: "BrokerHeartbeatRequest", held: Lease) -> bool:
    return bool(request.broker_epoch == held.epoch or request.incarnation_id == held.incarnation_id != NO_ID)


def _with_driver(context: ControllerContext, reply: "V28BrokerHeartbeatResponse") -> "V28BrokerHeartbeatResponse":
    """Where clients reach this controller, which brokers in ZooKeeper mode name to them; null: it is about to drive them,
    and they name the one before."""
    role = context.role
    if progress(role.image) is Progress.MIGRATION:
        kind = message("v28:BrokerHeartbeatResponse").ClientListener
        own = [kind(name=one.name, host=one.host, port=one.port) for one in context.config.bridge_endpoints]
        reply.driving = None if role.soft.zookeeper_epoch is None else own
    return reply


def _level_1(reply: "V28BrokerHeartbeatResponse") -> "V19BrokerHeartbeatResponse":
    return message("v19:BrokerHeartbeatResponse")(
        error_code=reply.error_code,
        active_controller_id=reply.active_controller_id,
        next_state=reply.next_state,
        broker_epoch=reply.broker_epoch,
        lease_end_time_ms=reply.lease_end_time_ms,
    )


@rpc(50, "BrokerHeartbeat", range(1), listeners=[Listener.INTER_BROKER], families=DRAFTS)
def refuse(context: BrokerContext, request: "BrokerHeartbeatRequest", call: Call) -> Answer:
    """A broker takes no heartbeats."""
    return Done(refusal(request, ErrorCode.NOT_CONTROLLER, context.quorum.leader_id))
