"""Which replica a Fetch is of, by what it says and what is known of brokers.

This file alone decides whose fetches count for a replica. Rules:

1. A replica id counts with the broker epoch of its broker's present life (KIP-903). One whose registration has not been
   heard of yet is served like a client.
2. A broker that does not tell its epoch, for which a request has no place before version 15, is served like a client. One
   in ZooKeeper mode need not tell it: it asks in its present life.
3. What mends damage of its own (`RESTORER`) is a broker: it may read what it could fetch as a replica.
"""

from typing import TYPE_CHECKING

from actors.authorization.rights import Node
from actors.broker.replication.closest_replica import Near
from actors.node.api.contexts import BrokerContext
from actors.node.api.security.authorizer import from_broker
from actors.node.api.security.speakers import named
from actors.node.runtime.calls import Call

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import FetchRequest

STATE_FROM = 15
CONSUMER = -1


def claimed(context: BrokerContext, request: "FetchRequest", version: int) -> tuple[int, int]:
    """(replica id or CONSUMER, broker epoch or -1) that a request claims."""
    if version < STATE_FROM:
        replica, epoch = request.replica_id, -1
    else:
        state = request.replica_state
        replica, epoch = (CONSUMER, -1) if state is None else (state.replica_id, state.replica_epoch)
    if replica >= 0 and epoch < 0:
        registration = context.cache.image.broker(replica)
        if registration is not None and registration.zookeeper:
            epoch = registration.epoch
    return replica, epoch


def is_registered(context: BrokerContext, replica: int, broker_epoch: int) -> bool:
    """Whether a replica id is that of a broker of this cluster, in its present life. Registered is meant, fenced or not: a
    fenced broker goes on replicating (A30), an absent one is nobody."""
    broker = context.cache.image.broker(replica)
    return broker is not None and broker.epoch == broker_epoch


def restores(context: BrokerContext, call: Call) -> bool:
    """Whether a peer that says that it mends a replica is a broker."""
    ids = named(call.principal)
    brokers = ids is None or any(context.kind(id) & Node.BROKER for id in ids)
    return brokers and from_broker(context.authorizer, context.config, call)


def near_brokers(context: BrokerContext, rack: str, listener: str) -> Near:
    """Which brokers are in a consumer's rack, and are reached on the listener that it uses."""

    def near(broker: int) -> bool:
        registration = context.cache.image.broker(broker)
        return (
            registration is not None
            and registration.rack == rack
            and context.cache.endpoint(broker, listener) is not None
        )

    return near
