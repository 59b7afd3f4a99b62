"""What only the active controller can do, brokers pass on (KIP-590): the request as it came, in an Envelope.

The answer's bytes go back to the client as they are. While no controller is known, or one says that it is not active, the
request is tried again; when its time is over the connection closes, and the client asks another broker. A request that
would not fit into a frame any more would be tried for all that time, and break the connection of all others each time: it
is not taken.
"""

import ipaddress
from collections.abc import Callable
from typing import Any

from actors.node.net.channels import ChannelError, Channels
from actors.node.net.connections import Connection, Slot
from actors.node.net.request_channel import RequestChannel
from actors.node.runtime.calls import Call
from actors.node.runtime.runtime import Runtime
from actors.ports import Buffer
from actors.wire.errors import ErrorCode
from actors.wire.messages import encode, message

FORWARD_MS_MAX = 30_000
RETRY_MS = 20
CONTROLLER_REQUEST_BYTES_MAX = 8 << 20
"""The largest request that a controller's listener takes, an Envelope included, unless socket.request.max.bytes is less."""
ENVELOPE_BYTES = 1024
"""More than an Envelope adds to a request."""
PRINCIPAL_VERSION = b"\x00\x00"

Finish = Callable[[Buffer], Buffer]
"""What leaves of an answer, header and body."""


def principal_bytes(principal: str, by_token: bool) -> bytes:
    """`Type:name`, and whether it has logged in with a delegation token, as DefaultPrincipalData version 0 behind its
    version number."""
    kind, _, name = principal.partition(":")
    data = message("DefaultPrincipalData")(type=kind, name=name, token_authenticated=by_token)
    return PRINCIPAL_VERSION + encode(data, 0)


def address_bytes(host: str) -> bytes:
    """4 or 16 bytes of the client's address; loopback when the host gave none that can be read."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return b"\x7f\x00\x00\x01"


class Forwarder:
    """Requests on their way to the active controller."""

    def __init__(
        self,
        runtime: Runtime,
        requests: RequestChannel,
        channels: Channels,
        admitted: Callable[[Connection, int], bool],
    ) -> None:
        """`admitted`: whether an answer to that API may still leave on a connection."""
        self._runtime = runtime
        self._requests = requests
        self._channels = channels
        self._admitted = admitted

    def forward(self, slot: Slot, call: Call, finish: Finish) -> None:
        """Pass one request on; its slot is answered, or its connection closed, in the end. `finish` is given the answer,
        and says what of it leaves."""
        most = (
            min(CONTROLLER_REQUEST_BYTES_MAX, self._runtime.config.value("socket.request.max.bytes")) - ENVELOPE_BYTES
        )
        if len(call.frame) > most:
            self._requests.close(
                slot.connection,
                f"a request that is too large to be passed on to the controller: {len(call.frame)} bytes of {most}",
            )
            return
        envelope = message("EnvelopeRequest")(
            request_data=bytes(call.frame),
            request_principal=principal_bytes(call.principal, call.by_token),
            client_host_address=address_bytes(call.client_host),
        )
        self._try(slot, call.api_key, envelope, self._runtime.now.mono_ms + FORWARD_MS_MAX, finish)

    def _try(self, slot: Slot, api_key: int, envelope: Any, until_ms: int, finish: Finish) -> None:
        if slot.connection.closed:
            return
        left_ms = until_ms - self._runtime.now.mono_ms
        if left_ms <= 0:
            self._requests.close(slot.connection, "no active controller took a forwarded request in time")
            return
        self._channels.controller(
            "Envelope",
            envelope,
            lambda reply: self._answered(slot, api_key, envelope, until_ms, finish, reply),
            left_ms,
            purpose="forwarding",
        )

    def _answered(self, slot: Slot, api_key: int, envelope: Any, until_ms: int, finish: Finish, reply: Any) -> None:
        if isinstance(reply, ChannelError) or reply.error_code == ErrorCode.NOT_CONTROLLER:
            again_ms = self._runtime.now.mono_ms + RETRY_MS
            self._runtime.waiting.park(
                (), again_ms, lambda expired: self._try(slot, api_key, envelope, until_ms, finish), slot.connection
            )
            return
        if reply.error_code != ErrorCode.NONE or reply.response_data is None:
            self._requests.close(slot.connection, f"the controller refused an Envelope: {reply.error_code}")
            return
        if not self._admitted(slot.connection, api_key):
            return
        data = finish(reply.response_data)
        self._requests.answer(slot, [len(data).to_bytes(4, "big"), data])
