"""What only the active controller can do, brokers pass on (KIP-590): the request as it came, in an Envelope.

The answer's bytes go back to the client as they are. Rules:

1. While no controller is known, or one says that it is not active, requests wait in a line, in which hosts and their
   connections take turns. One of it asks again for all. If the controller is silent, another one asks after `PATIENCE_MS`:
   the first may be one that takes long. One with which the connection was lost asks behind the others: it may be the one
   that the controller closes the connection for.
2. When a request's time is over its connection closes, and the client asks another broker. What waits of a connection that
   has closed is dropped.
3. A request that would not fit into a frame any more would be tried for all that time, and break the connection of all
   others each time: it is not taken.
4. How long a controller is silent is nobody's choice here. So what is on its way to it holds no room of `connections.py`,
   for which all clients would wait, but has a bound of its own: above `HOST_BYTES_MAX` of a host, or `ALL_BYTES_MAX` of all,
   a host that has something on its way is refused more.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from actors.node.net.channels import ChannelError, Channels
from actors.node.net.connections import Connection, Slot
from actors.node.net.envelopes import envelope
from actors.node.net.request_channel import RequestChannel
from actors.node.runtime.calls import Call
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.turns import Turns
from actors.node.runtime.waiting import Timer
from actors.ports import Buffer
from actors.wire.errors import ErrorCode

FORWARD_MS_MAX = 30_000
RETRY_MS = 20
PATIENCE_MS = 500
"""How long a controller may be silent to the request that asks for all, before one more asks."""
AT_ONCE = 64
"""Requests of the line that are passed on in one turn when a controller is there again."""
CONTROLLER_REQUEST_BYTES_MAX = 8 << 20
"""The largest request that a controller's listener takes, an Envelope included, unless socket.request.max.bytes is less."""
HOST_BYTES_MAX = 16 << 20
"""The bytes of requests of a host on their way to the controller: sixteen of the largest that well-known tools send, and
one beside them."""
ALL_BYTES_MAX = 128 << 20
ENVELOPE_BYTES = 1024
"""More than an Envelope adds to a request."""
GIVEN_UP = "no active controller took a forwarded request in time"

Finish = Callable[[Buffer], Buffer]
"""What leaves of an answer, header and body."""


class _Forwarded(NamedTuple):
    """A request that is to be passed on. `size`: of its frame, in bytes, which `envelope` has."""

    slot: Slot
    api_key: int
    envelope: Any
    size: int
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
        self._line: Turns[_Forwarded] = Turns()
        """Requests that no controller took."""
        self._next: Timer | None = None
        """When one of the line asks next, or when the line goes on. Invariant: there is such a time while it has a request;
        then what comes stands behind the others."""
        self._goes_on = False
        """Whether a controller takes what stands in the line."""
        self._bytes: dict[str, int] = {}
        """Host -> bytes of its requests here, until nobody holds their envelopes. Invariant: none is 0."""
        self.bytes_held = 0
        """The sum of these."""

    def forward(self, slot: Slot, call: Call, finish: Finish) -> None:
        """Pass one request on; its slot is answered, or its connection closed, in the end. `finish` is given the answer,
        and says what of it leaves."""
        connection, size = slot.connection, len(call.frame)
        most = (
            min(CONTROLLER_REQUEST_BYTES_MAX, self._runtime.config.value("socket.request.max.bytes")) - ENVELOPE_BYTES
        )
        if size > most:
            why = f"a request that is too large to be passed on to the controller: {size} bytes of {most}"
            self._requests.close(connection, why)
            return
        held = self._bytes.get(connection.peer_host, 0)
        if held and (held + size > HOST_BYTES_MAX or self.bytes_held + size > ALL_BYTES_MAX):
            why = f"a request that no controller takes at present: {held} bytes of its host are on their way to it"
            self._requests.close(connection, why)
            return
        one = _Forwarded(
            slot, call.api_key, envelope(call, call.frame), size, self._runtime.now.mono_ms + FORWARD_MS_MAX, finish
        )
        self._bytes[connection.peer_host] = held + size
        self.bytes_held += size
        self._requests.connections.give_back(slot)
        if self._next is not None:
            self._stand(one)
        else:
            self._try(one)

    # ---- one request

    def _try(self, one: _Forwarded, *, asks: bool = False) -> None:
        """Pass a request on. `asks`: it asks for all that wait in the line."""
        self._channels.controller(
            "Envelope",
            one.envelope,
            lambda reply: self._answered(one, reply, asks=asks),
            one.until_ms - self._runtime.now.mono_ms,
            purpose="forwarding",
        )

    def _answered(self, one: _Forwarded, reply: Any, *, asks: bool) -> None:
        slot, api_key, finish = one.slot, one.api_key, one.finish
        if isinstance(reply, ChannelError) or reply.error_code == ErrorCode.NOT_CONTROLLER:
            lost = isinstance(reply, ChannelError) and reply.reason == "lost"
            self._not_taken(one, asked=asks, first=asks and not lost)
            return
        self._over(one)
        if self._next is not None and not self._goes_on:
            self._next.cancel()
            self._goes_on = True
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

    def _not_taken(self, one: _Forwarded, *, asked: bool, first: bool) -> None:
        """No controller took it: it waits in the line. `asked`: it has asked for the line, of which one asks again soon.
        `first`: that is this one."""
        if self._lives(one):
            self._stand(one, first=first)
        if asked or self._goes_on or self._next is None:
            self._ask_in(RETRY_MS)

    def _lives(self, one: _Forwarded) -> bool:
        """Whether a request may still be passed on; if not, nobody holds it any more, and if its time is over, its
        connection is closed."""
        closed = one.slot.connection.closed
        if not closed and one.until_ms > self._runtime.now.mono_ms:
            return True
        self._over(one)
        if not closed:
            self._requests.close(one.slot.connection, GIVEN_UP)
        return False

    def _over(self, one: _Forwarded) -> None:
        """The request is over: nobody holds its envelope any more."""
        host = one.slot.connection.peer_host
        left = self._bytes[host] - one.size
        self.bytes_held -= one.size
        if left:
            self._bytes[host] = left
        else:
            del self._bytes[host]

    # ---- the line

    def _stand(self, one: _Forwarded, *, first: bool = False) -> None:
        connection = one.slot.connection
        put = self._line.put_back if first else self._line.put
        put(connection.peer_host, connection.id, one)
        self._requests.when_closed(connection.id, "forwarding", lambda: self._leave(connection))

    def _leave(self, connection: Connection) -> None:
        """A connection is closed: what it has in the line goes."""
        for one in self._line.drop(connection.peer_host, connection.id):
            self._over(one)

    def _ask_in(self, ms: int) -> None:
        """One of the line asks after so long, and none before that."""
        if self._next is not None:
            self._next.cancel()
        self._goes_on = False
        self._next = self._runtime.waiting.timers.at(self._runtime.now.mono_ms + ms, self._ask)

    def _ask(self) -> None:
        """Close those whose time is over, and let the next of the line ask."""
        self._next = None
        for one in [one for one in self._line.firsts() if one.until_ms <= self._runtime.now.mono_ms]:
            self._requests.close(one.slot.connection, GIVEN_UP)
        if self._line.hosts:
            one = self._line.take()
            self._ask_in(PATIENCE_MS)
            if self._lives(one):
                self._try(one, asks=True)

    def _go_on(self) -> None:
        """A controller takes requests: the line goes on, some in each turn."""
        self._next, left = None, AT_ONCE
        while left and self._line.hosts:
            one = self._line.take()
            left -= 1
            if self._lives(one):
                self._try(one)
        if self._line.hosts:
            self._next = self._runtime.waiting.timers.at(self._runtime.now.mono_ms, self._go_on)
        else:
            self._goes_on = False
