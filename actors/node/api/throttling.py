"""What a request of a client costs it, and how its client is made to wait (KIP-219).

This file alone decides which requests are charged, and when. Rules:

1. A request is charged when its answer is known. The answer leaves at once and says how long to wait; for so long nothing
   of its connection is read or handled. A client that does not know throttle times waits all the same.
2. Of two quotas that a request exceeds, the longer time counts.
3. Brokers are not charged: neither the Fetch of a replica nor `BROKERS_FROM`; and nobody is on a control plane. That a peer
   is a broker is known from its principal (`authorizer.from_broker`), never from a version or a field of the request.
4. A Produce with acks=0 has no answer. Its bytes count and mute its connection; its time counts for later requests.
5. A request that the controller has answered waits for whatever is longer: what the controller says or this broker.
"""

from typing import Any

from actors.node.api.contexts import BrokerContext
from actors.node.api.security.authorizer import from_broker
from actors.node.net.connections import Connection
from actors.node.net.request_channel import RequestChannel
from actors.node.roles.broker.quotas.client_quotas import ClientQuotas
from actors.node.runtime.calls import Api, Call
from actors.ports import Buffer
from actors.wire import framing

PRODUCE, FETCH, ADD_PARTITIONS_TO_TXN, WRITE_TXN_MARKERS = 0, 1, 24, 27
BROKERS_FROM = {ADD_PARTITIONS_TO_TXN: 4, WRITE_TXN_MARKERS: 0}
"""Requests of brokers: the versions from this one on."""


def charge(
    context: BrokerContext, connection: Connection, api: Api, call: Call, size: int, reply: Any, *, enforced: bool
) -> int:
    """Charge a request of `size` bytes that is answered with `reply`, and say so in it; how long the client has to wait. Not
    `enforced`: its time counts for later requests."""
    quotas = context.quotas
    if _exempt(context, connection, api, call):
        return 0
    if api.key == FETCH:
        return int(reply.throttle_time_ms)  # the handler has charged it: over the quota the answer is another one
    if api.key == PRODUCE:
        bytes_ms = quotas.produced(call, size)
        throttle_ms = max(bytes_ms, quotas.worked(call, enforced=enforced))
    else:
        throttle_ms = quotas.worked(call)
    if throttle_ms and hasattr(reply, "throttle_time_ms"):
        reply.throttle_time_ms = throttle_ms
    return throttle_ms


def charge_forwarded(quotas: ClientQuotas, api: Api, call: Call, data: Buffer) -> tuple[int, Buffer]:
    """`charge`, for an answer of the controller, header and body; and the answer with the longer throttle time."""
    place = framing.throttle_time_place(api.name, call.api_version, data)
    told_ms = int.from_bytes(data[place : place + 4], "big", signed=True) if place else 0
    throttle_ms = max(told_ms, quotas.worked(call))
    if place and throttle_ms > told_ms:
        data = b"".join((data[:place], throttle_ms.to_bytes(4, "big"), data[place + 4 :]))
    return throttle_ms, data


def mute(requests: RequestChannel, connection: Connection, throttle_ms: int) -> None:
    """Make a client wait."""
    if throttle_ms > 0:
        requests.mute(connection, throttle_ms)


def _exempt(context: BrokerContext, connection: Connection, api: Api, call: Call) -> bool:
    if connection.replica:  # since a broker has fetched on it
        return True
    brokers_own = call.api_version >= BROKERS_FROM.get(api.key, call.api_version + 1)
    return brokers_own and from_broker(context.authorizer, context.config, call)
