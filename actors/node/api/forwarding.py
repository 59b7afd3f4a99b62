"""What only the active controller can do, brokers pass on (KIP-590): the request as it came, in an Envelope.

The answer's bytes go back to the client as they are. While no controller is known, or one says that it is not active, the
request waits in a line, the first of which asks again for all. When its time is over the connection closes, and the client
asks another broker. A request that would not fit into a frame any more would be tried for all that time, and break the
connection of all others each time: it is not taken.
"""

import ipaddress
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

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
AT_ONCE = 64
"""Requests of the line that are passed on in one turn when a controller is there again."""
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


class _Waiting(NamedTuple):
    """A request that is to be passed on."""

    slot: Slot
    api_key: int
    envelope: Any
    until_ms: int
    """When it is given up, in monotonic time."""
    finish: Finish


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
        self._line: deque[_Waiting] = deque()
        """Requests that no controller took, in order."""
        self._asks = False
        """Whether the first of them is under way, or a time has been set for it."""

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
        one = _Waiting(slot, call.api_key, envelope, self._runtime.now.mono_ms + FORWARD_MS_MAX, finish)
        if self._line:
            self._line.append(one)
        else:
            self._try(one)

    def _lives(self, one: _Waiting) -> bool:
        """Whether a request may still be passed on; if its time is over, its connection is closed."""
        if one.slot.connection.closed:
            return False
        if one.until_ms > self._runtime.now.mono_ms:
            return True
        self._requests.close(one.slot.connection, "no active controller took a forwarded request in time")
        return False

    def _try(self, one: _Waiting, *, first: bool = False) -> None:
        self._channels.controller(
            "Envelope",
            one.envelope,
            lambda reply: self._answered(one, reply, first=first),
            one.until_ms - self._runtime.now.mono_ms,
            purpose="forwarding",
        )

    def _later(self, one: _Waiting, *, first: bool) -> None:
        """No controller took it: it waits in the line, of which the first alone asks again."""
        if first:
            self._asks = False
            self._line.appendleft(one)
        else:
            self._line.append(one)
        if not self._asks:
            self._asks = True
            self._runtime.waiting.timers.at(self._runtime.now.mono_ms + RETRY_MS, self._ask)

    def _ask(self) -> None:
        """Let the first of the line ask again, and close those whose time is over."""
        self._line = deque(one for one in self._line if self._lives(one))
        if self._line:
            self._try(self._line.popleft(), first=True)
        else:
            self._asks = False

    def _go_on(self) -> None:
        """A controller takes requests: the line goes on, some in each turn."""
        for _ in range(min(AT_ONCE, len(self._line))):
            one = self._line.popleft()
            if self._lives(one):
                self._try(one)
        if self._line and not self._asks:
            self._runtime.waiting.timers.at(self._runtime.now.mono_ms, self._go_on)

    def _answered(self, one: _Waiting, reply: Any, *, first: bool) -> None:
        slot, api_key, finish = one.slot, one.api_key, one.finish
        if isinstance(reply, ChannelError) or reply.error_code == ErrorCode.NOT_CONTROLLER:
            self._later(one, first=first)
            return
        if first:
            self._asks = False
            self._go_on()
        if slot.connection.closed:
            return
        if reply.error_code != ErrorCode.NONE or reply.response_data is None:
            self._requests.close(slot.connection, f"the controller refused an Envelope: {reply.error_code}")
            return
        if not self._admitted(slot.connection, api_key):
            return
        data = finish(reply.response_data)
        self._requests.answer(slot, [len(data).to_bytes(4, "big"), data])
