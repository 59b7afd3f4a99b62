"""Outbound connections: one channel for each (purpose, address), requests in order, answers matched by correlation id.

A purpose is what the connection is for (`"controller"`, `("raft", 1002)`, `("fetch", 3)`), so that a long poll never
stands in the way of a heartbeat (KIP-291 for what this node asks of others). A channel dials on the first call and
again on the first call after it was lost. It never retries: the caller hears of the loss and decides.

A caller is never told anything inside the call that asks, drops or probes: it may be in the middle of a table of its own.
What such a call settles (no controller is known, the peer has moved, the channel was dropped) is told in `settle`, in the
turn's order.

A channel to a controller begins with ApiVersions; the finalized level of `metadata.format` that it reports holds for
the life of the connection and names the layout of the drafts' answers (reading A02). If the other side asks for a
login, that comes next, and again before it is no longer good (KIP-368).

A broker in ZooKeeper mode may be of an older release: a channel to one begins with ApiVersions too, and a request leaves in
the newest version that both sides know.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.authentication.exchange import Rejected
from actors.node.net.dial_login import DialLogins
from actors.node.runtime.calls import Lane
from actors.node.runtime.effects import Dial
from actors.node.runtime.runtime import Log
from actors.node.runtime.waiting import Timer, Timers
from actors.ports import Buffer
from actors.wire import framing
from actors.wire.errors import WireError
from actors.wire.errors import text as error_text
from actors.wire.messages import Message, message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import SaslAuthenticateRequest, SaslHandshakeRequest, SaslHandshakeResponse

Reply = Any
Then = Callable[[Any], None]
AskItself = Callable[[str, Any, Then], None]
"""Asks this node itself: (API, request, callback that gets the answer in a later turn)."""

LENGTH_BYTES = 4
HANDSHAKE = "ApiVersions"
HANDSHAKE_VERSION = 4
HANDSHAKE_VERSION_OF_OLD = 3
"""The version of ApiVersions for brokers of older releases: 2.4 and later serve it, and answer a newer one in another
layout."""
SASL_HANDSHAKE, SASL_AUTHENTICATE = "SaslHandshake", "SaslAuthenticate"
SASL_HANDSHAKE_VERSION, SASL_AUTHENTICATE_VERSION = 1, 2
LOGIN_MS_MAX = 10_000
RENEWED_AFTER = 0.85
"""The part of a login's time after which it is renewed."""
PROBE_KEPT_MS = 300
"""How long, in ms, a bare connect must last to count as answered."""
PROBE_RETRY_MS = 5
"""The pause in ms between the first two bare connects; it doubles each time."""
PROBE_MS_MAX = 2000
CORRELATION_MAX = (1 << 31) - 1
"""The largest correlation id: the field is an int32, and negative ones are left out."""


class ChannelError(Exception):
    """The reason why no answer will come: `refused`, `lost`, `timeout`, `unknown` (no address), `damaged` (unreadable
    answer), or `unsupported` (the other side serves no version that this node speaks)."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class _Request:
    """One call of a peer. Invariant: `then` is called exactly once, with a reply or a ChannelError, then becomes None."""

    __slots__ = ("build", "name", "then", "timer", "version", "versions")

    def __init__(
        self,
        name: str,
        version: int,
        build: Callable[[int, str, int], list[Buffer]],
        then: Then,
        versions: range | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.versions = versions
        """The versions of which any will do: `version` is chosen when it is known what the other side serves."""
        self.build = build
        """Makes the frame from (correlation id, client id, version)."""
        self.then: Then | None = then
        self.timer: Timer | None = None

    def tell(self, reply: Any) -> None:
        then, self.then = self.then, None
        if self.timer is not None:
            self.timer.cancel()
        if then is not None:
            then(reply)


class _Probe:
    """A bare connect under way. `timer` runs while it is taken and not broken."""

    __slots__ = ("address", "again_ms", "then", "timer", "until_ms")

    def __init__(self, address: tuple[str, int], then: Callable[[bool], None], until_ms: int) -> None:
        self.address = address
        self.then = then
        self.until_ms = until_ms
        self.again_ms = PROBE_RETRY_MS
        self.timer: Timer | None = None


class Channel:
    """One outbound connection and what is in flight on it.

    `conn` is 0 while there is none. `level` is 0 until the handshake has told it.
    `answered`: something has come back on it. `asks_versions`: it begins with ApiVersions, and `served` has API key ->
    newest version from then on. Invariant: `queued` is empty while the channel is up.
    """

    __slots__ = (
        "address",
        "answered",
        "asks_versions",
        "conn",
        "handshake",
        "in_flight",
        "lane",
        "level",
        "listener",
        "next_correlation",
        "purpose",
        "queued",
        "served",
        "to_controller",
        "up",
    )

    def __init__(
        self,
        purpose: Hashable,
        address: tuple[str, int],
        lane: Lane,
        handshake: bool,
        to_controller: bool,
        listener: str = "",
        asks_versions: bool = False,
    ) -> None:
        self.asks_versions = asks_versions
        self.served: dict[int, int] = {}
        self.listener = listener
        """The name of the other side's listener, if it is neither the one between brokers nor the controllers'."""
        self.purpose = purpose
        self.address = address
        self.lane = lane
        self.handshake = handshake
        self.to_controller = to_controller
        self.conn = 0
        self.up = False
        self.answered = False
        self.level = 0
        self.next_correlation = 0
        self.in_flight: dict[int, _Request] = {}
        self.queued: list[_Request] = []

    @property
    def of_quorum(self) -> bool:
        """Whether the other side is asked as a replica of the metadata log, and not as the active controller."""
        return self.to_controller and not self.handshake

    def correlation(self) -> int:
        """A correlation id that no request in flight has. It begins at 0 again behind the largest int32: a channel
        lives as long as its node, and the header's field has four bytes."""
        while True:
            self.next_correlation = (self.next_correlation + 1) & CORRELATION_MAX
            if self.next_correlation not in self.in_flight:
                return self.next_correlation


class Traversed:
    """What has gone over some connections, counted. Bytes are those of frames, their lengths included."""

    __slots__ = ("bytes_in", "bytes_out", "requests", "responses")

    def __init__(self) -> None:
        self.requests = self.responses = self.bytes_in = self.bytes_out = 0


class Outbound(NamedTuple):
    """What a turn has decided about connections that this node dials."""

    sends: Sequence[tuple[int, list[Buffer]]] = ()
    dials: Sequence[Dial] = ()
    closes: Sequence[int] = ()


NOTHING = Outbound()


class Channels:
    """The outbound connections of a node. Connection numbers are below zero and never used twice."""

    def __init__(
        self,
        timers: Timers,
        now_ms: Callable[[], int],
        client_id: str,
        controller_address: Callable[[], tuple[str, int] | None],
        logins: DialLogins,
        log: Log,
    ) -> None:
        self._timers = timers
        self._now_ms = now_ms
        self._client_id = client_id
        self._controller_address = controller_address
        self._logins = logins
        self._log = log
        self._by_purpose: dict[Hashable, Channel] = {}
        self._by_conn: dict[int, Channel] = {}
        self._probes: dict[int, _Probe] = {}
        self._watchers: dict[Hashable, Callable[[bool], None]] = {}
        self._next_conn = 0
        self._ended: list[tuple[_Request, ChannelError]] = []
        """The requests that no answer will come to, in the order in which that became known; their callers are not told
        yet."""
        self._called = 0
        """How many calls of users are under way: a callback runs inside none of them."""
        self.ask_itself: AskItself | None = None
        """Asks this node itself, for what a node has to ask of itself. None: the node serves no API."""
        self.dials: list[Dial] = []
        self.sends: list[tuple[int, list[Buffer]]] = []
        self.closes: list[int] = []
        self.to_quorum = Traversed()
        """What was asked of other replicas of the metadata log, and answered."""

    def taken(self) -> Outbound:
        """The dials, closes and sends for the host since the last call, to be done in this order."""
        if not (self.sends or self.dials or self.closes):
            return NOTHING
        taken = Outbound(self.sends, self.dials, self.closes)
        self.sends, self.dials, self.closes = [], [], []
        return taken

    @property
    def unsettled(self) -> bool:
        """Whether a caller is to be told something in the next `settle`."""
        return bool(self._ended)

    def settle(self) -> None:
        """Tell callers which requests have ended without an answer. What they ask then and what ends at once is told
        the next time."""
        assert not self._called, "a callback would run inside a call that asks"
        ended, self._ended = self._ended, []
        for request, error in ended:
            request.tell(error)

    # ---- calls

    def controller(
        self,
        name: str,
        request: Message,
        then: Then,
        timeout_ms: int = 30_000,
        *,
        version: int | None = None,
        purpose: Hashable = "controller",
    ) -> None:
        """Ask the active controller. `then` gets the reply or a ChannelError: in the next `settle` when no leader is known.

        Distinct `purpose`s are distinct connections, each with its own order."""
        address = self._controller_address()
        if address is None:
            unsent = _Request(name, -1, lambda correlation, client_id, version: [], then)
            self._end(unsent, ChannelError("unknown", "no active controller is known"))
            return
        self.peer(purpose, address, name, request, then, timeout_ms, version, handshake=True, to_controller=True)

    def controller_moved(self) -> None:
        """Fail all requests to the old controller with `lost`, since another one is active: the old one may be frozen
        and never answer, and each caller asks the new one (R497-48)."""
        address = self._controller_address()
        if address is not None:
            for channel in list(self._by_purpose.values()):
                if channel.handshake and channel.address != address:
                    self.drop(channel.purpose)
            self.settle()

    def level(self, purpose: Hashable = "controller") -> int:
        """`metadata.format` as the peer of that channel reported it; 0 while unknown."""
        channel = self._by_purpose.get(purpose)
        return channel.level if channel is not None else 0

    def peer(
        self,
        purpose: Hashable,
        address: tuple[str, int],
        name: str,
        request: Message,
        then: Then,
        timeout_ms: int = 30_000,
        version: int | None = None,
        *,
        lane: Lane = Lane.CONTROL,
        handshake: bool = False,
        to_controller: bool = False,
        listener: str = "",
        versions: range | None = None,
    ) -> None:
        """Ask a node at an address. `name` is the API's (`Fetch`); a draft's answer is read in the layout of the
        channel's level. `to_controller`: the address is that of a controller's listener, and not of the one between
        brokers. `listener`: of another one still, by name. `versions`: the other side is asked first which version it
        serves, and the newest of these is spoken; `unsupported` where it serves none."""
        chosen = version if version is not None else framing.latest_version(name)

        def build(correlation: int, client_id: str, version: int) -> list[Buffer]:
            return framing.encode_request(name, version, correlation, client_id, request)

        kind = (lane, handshake, to_controller, listener, versions is not None)
        self._called += 1
        try:
            self._submit(purpose, address, _Request(name, chosen, build, then, versions), timeout_ms, kind)
        finally:
            self._called -= 1

    def itself(
        self,
        name: str,
        request: Message,
        then: Then,
        timeout_ms: int = 30_000,
    ) -> None:
        """Ask this node itself, without a connection. `then` gets the reply or a ChannelError, in a later turn."""
        assert self.ask_itself is not None, name
        asked = _Request(name, -1, lambda correlation, client_id, version: [], then)
        lost = ChannelError("timeout", f"no answer to {name} from this node itself")
        asked.timer = self._timers.at(self._now_ms() + timeout_ms, lambda: self._tell(asked, lost))
        self._called += 1
        try:
            self.ask_itself(name, request, lambda reply: self._tell(asked, reply))
        finally:
            self._called -= 1

    def probe(self, address: tuple[str, int], then: Callable[[bool], None]) -> None:
        """Try a bare connect, without a byte sent: `then(True)` is called only if it was refused.

        A dying process may lose its connections before its listener: a connect in between is accepted by the system
        alone and broken soon. So one that is taken is kept for a moment, and made anew when the other side breaks it;
        `then(False)` when it has lasted, or that has gone on for too long: a living process may turn away peers that it
        cannot serve.
        """
        self._probe(_Probe(address, then, self._now_ms() + PROBE_MS_MAX))

    def _probe(self, probe: "_Probe") -> None:
        probe.timer = None
        self._probes[self._dial(probe.address, "")] = probe

    def _kept(self, conn: int, probe: "_Probe") -> None:
        del self._probes[conn]
        self.closes.append(conn)
        probe.then(False)

    def _probe_closed(self, probe: "_Probe", refused: bool) -> None:
        """Judge a bare connect that has ended. It was refused; or it was broken after it was taken, which shows nothing
        yet; or it could not be made, which shows nothing."""
        now_ms = self._now_ms()
        taken = probe.timer is not None
        if probe.timer is not None:
            probe.timer.cancel()
        if refused or not taken or now_ms >= probe.until_ms:
            probe.then(refused)
        else:
            self._timers.at(now_ms + probe.again_ms, lambda: self._probe(probe))
            probe.again_ms *= 2

    def watch(self, purpose: Hashable, lost: Callable[[bool], None]) -> None:
        """Watch the channel of that purpose: whenever it is lost, `lost(False)` is called, it is redialled once at
        once, and if that is refused `lost(True)` is called. If the redial works, the second call is not made. A peer
        that takes connections and breaks them before a first answer is not redialled: that would go round as fast as
        the network does."""
        self._watchers[purpose] = lost

    def drop(self, purpose: Hashable, *, unsent: bool = False) -> None:
        """Close a channel; what is in flight fails with `lost`, in the next `settle`. `unsent`: what this turn is to send
        on it does not."""
        channel = self._by_purpose.pop(purpose, None)
        self._watchers.pop(purpose, None)
        if channel is not None and channel.conn:
            if unsent:
                self.sends = [one for one in self.sends if one[0] != channel.conn]
            self.closes.append(channel.conn)
            self._down(channel, ChannelError("lost", f"the connection to {channel.address} was dropped"))

    # ---- inputs

    def lane(self, conn: int) -> Lane:
        """The lane in which the answers of a connection are handled."""
        channel = self._by_conn.get(conn)
        return channel.lane if channel is not None else Lane.CONTROL

    def connected(self, conn: int) -> None:
        """Take a dial that succeeded."""
        probe = self._probes.pop(conn, None)
        if probe is not None:
            self._probes[conn] = probe
            probe.timer = self._timers.at(self._now_ms() + PROBE_KEPT_MS, lambda: self._kept(conn, probe))
            return
        channel = self._by_conn.get(conn)
        if channel is None:
            self.closes.append(conn)
            return
        if channel.handshake or channel.asks_versions:
            hello = message("ApiVersionsRequest")(client_software_name="rayft", client_software_version="1")
            self._send(
                channel,
                _Request(
                    HANDSHAKE,
                    HANDSHAKE_VERSION if channel.handshake else HANDSHAKE_VERSION_OF_OLD,
                    lambda correlation, client_id, version: framing.encode_request(
                        HANDSHAKE, version, correlation, client_id, hello
                    ),
                    lambda reply: self._greeted(channel, reply),
                ),
            )
            return
        self._log_in(channel)

    def closed(self, conn: int, refused: bool) -> None:
        """Take the end of a connection that this node has dialled, or could not make."""
        probe = self._probes.pop(conn, None)
        if probe is not None:
            self._probe_closed(probe, refused)
            return
        channel = self._by_conn.get(conn)
        if channel is None:
            return
        redial = channel.up and channel.answered
        word = "refused" if refused else "lost"
        watcher = self._watchers.get(channel.purpose)
        self._down(channel, ChannelError(word, f"the connection to {channel.address} was {word}"))
        self.settle()
        if watcher is not None:
            watcher(refused)
            if redial and not channel.conn and self._by_purpose.get(channel.purpose) is channel:
                self._connect(channel)

    def received(self, conn: int, frame: memoryview) -> None:
        """Take a frame with an answer."""
        channel = self._by_conn.get(conn)
        if channel is None:
            return
        request = None
        try:
            correlation = framing.correlation_id(frame)
            request = channel.in_flight.get(correlation)
            channel.answered = True
            if channel.of_quorum:
                self.to_quorum.responses += 1
                self.to_quorum.bytes_in += LENGTH_BYTES + len(frame)
            if request is None:
                return  # its time was over
            reply: Any = framing.decode_response(self._layout(channel, request.name), request.version, frame)
        except WireError as error:
            request_name = request.name if request is not None else "?"
            self.closes.append(conn)
            self._down(channel, ChannelError("damaged", f"unreadable {request_name} answer: {error}"))
            self.settle()
            return
        del channel.in_flight[correlation]
        self._tell(request, reply)

    # ---- inside

    def _submit(
        self,
        purpose: Hashable,
        address: tuple[str, int],
        request: _Request,
        timeout_ms: int,
        kind: tuple[Lane, bool, bool, str, bool],
    ) -> None:
        channel = self._by_purpose.get(purpose)
        unasked = channel is not None and request.versions is not None and not channel.asks_versions
        if channel is not None and (channel.address != address or unasked):
            self._by_purpose.pop(purpose)
            if channel.conn:
                self.closes.append(channel.conn)
            self._down(channel, ChannelError("lost", f"{purpose} moved to {address}"))
            channel = None
        if channel is None:
            channel = self._by_purpose[purpose] = Channel(purpose, address, *kind)
        request.timer = self._timers.at(self._now_ms() + timeout_ms, lambda: self._timed_out(channel, request))
        if channel.up:
            self._send(channel, request)
            return
        channel.queued.append(request)
        if not channel.conn:
            self._connect(channel)

    def _dial(self, address: tuple[str, int], listener: str) -> int:
        self._next_conn -= 1
        self.dials.append(Dial(self._next_conn, *address, listener))
        return self._next_conn

    def _connect(self, channel: Channel) -> None:
        listener = channel.listener or self._logins.listener(channel.to_controller)
        channel.conn = self._dial(channel.address, listener)
        self._by_conn[channel.conn] = channel

    def _open(self, channel: Channel) -> None:
        channel.up = True
        queued, channel.queued = channel.queued, []
        for request in queued:
            if request.then is not None:
                self._send(channel, request)

    def _greeted(self, channel: Channel, reply: Any) -> None:
        if isinstance(reply, ChannelError):
            return
        levels = {feature.name: feature.max_version_level for feature in reply.finalized_features}
        channel.level = levels.get("metadata.format", 0)
        channel.served = {one.api_key: one.max_version for one in reply.api_keys}
        self._log_in(channel)

    def _log_in(self, channel: Channel) -> None:
        """Log in if the other side asks for it; then, or otherwise at once, the channel is open."""
        found = self._logins.begin(channel.to_controller, channel.listener)
        if found is None:
            self._open(channel)
            return
        mechanism, login = found
        conn = channel.conn

        def chosen(reply: "SaslHandshakeResponse | ChannelError") -> None:
            if self._failed(channel, conn, reply, mechanism):
                return
            self._say(channel, SASL_AUTHENTICATE, login.first(), answered)

        def answered(reply: Any) -> None:
            if self._failed(channel, conn, reply, mechanism):
                return
            try:
                more = login.next(bytes(reply.auth_bytes))
            except Rejected as rejected:
                self._not_logged_in(channel, mechanism, str(rejected))
                return
            if more is not None:
                self._say(channel, SASL_AUTHENTICATE, more, answered)
                return
            if reply.session_lifetime_ms > 0:
                again_ms = self._now_ms() + int(reply.session_lifetime_ms * RENEWED_AFTER)
                self._timers.at(again_ms, lambda: self._log_in(channel) if channel.conn == conn else None)
            if not channel.up:
                self._open(channel)

        self._say(channel, SASL_HANDSHAKE, mechanism, chosen)

    def _say(self, channel: Channel, name: str, said: Any, then: Then) -> None:
        """Send a message of a login. It goes before the requests that wait for the channel to open."""
        request: SaslHandshakeRequest | SaslAuthenticateRequest
        if name == SASL_HANDSHAKE:
            version, request = SASL_HANDSHAKE_VERSION, message("SaslHandshakeRequest")(mechanism=said)
        else:
            version, request = SASL_AUTHENTICATE_VERSION, message("SaslAuthenticateRequest")(auth_bytes=said)

        def build(correlation: int, client_id: str, version: int) -> list[Buffer]:
            return framing.encode_request(name, version, correlation, client_id, request)

        asked = _Request(name, version, build, then)
        asked.timer = self._timers.at(self._now_ms() + LOGIN_MS_MAX, lambda: self._timed_out(channel, asked))
        self._send(channel, asked)

    def _failed(self, channel: Channel, conn: int, reply: Any, mechanism: str) -> bool:
        """Whether a login cannot go on. An answer with an error closes the channel."""
        if isinstance(reply, ChannelError) or channel.conn != conn:
            return True
        if reply.error_code:
            told = getattr(reply, "error_message", None) or error_text(reply.error_code)
            self._not_logged_in(channel, mechanism, told)
            return True
        return False

    def _not_logged_in(self, channel: Channel, mechanism: str, why: str) -> None:
        host, port = channel.address
        text = f"cannot log in at {host}:{port} with {mechanism}: {why}"
        self._log.error(text)
        self.closes.append(channel.conn)
        self._down(channel, ChannelError("lost", text))

    def _layout(self, channel: Channel, name: str) -> str:
        if framing.is_draft(name):
            return f"v19:{name}" if channel.level == 1 else f"v28:{name}"
        return name

    def _send(self, channel: Channel, request: _Request) -> None:
        if request.versions is not None:
            served = channel.served.get(framing.rpc(request.name).key, -1)
            if served < request.versions[0]:
                error = f"{channel.address} serves {request.name} {served} at most"
                self._end(request, ChannelError("unsupported", error))
                return
            request.version = min(served, request.versions[-1])
        correlation = channel.correlation()
        channel.in_flight[correlation] = request
        parts = request.build(correlation, self._client_id, request.version)
        if channel.of_quorum:
            self.to_quorum.requests += 1
            self.to_quorum.bytes_out += sum(map(len, parts))
        self.sends.append((channel.conn, parts))

    def _timed_out(self, channel: Channel, request: _Request) -> None:
        # A peer that is silent for so long may be frozen: a new connection is the only way to know.
        self._end(request, ChannelError("timeout", f"no answer to {request.name} from {channel.address}"))
        if channel.conn and self._by_purpose.get(channel.purpose) is channel:
            self.closes.append(channel.conn)
            self._down(channel, ChannelError("lost", f"the connection to {channel.address} was silent"))
        self.settle()

    def _down(self, channel: Channel, error: ChannelError) -> None:
        self._by_conn.pop(channel.conn, None)
        channel.conn, channel.up, channel.answered, channel.level = 0, False, False, 0
        requests = list(channel.in_flight.values()) + channel.queued
        channel.in_flight, channel.queued = {}, []
        for request in requests:
            self._end(request, error)

    def _end(self, request: _Request, error: ChannelError) -> None:
        """Note that no answer will come; `settle` tells the caller so. The first error of a request stands."""
        if request.timer is not None:
            request.timer.cancel()
        self._ended.append((request, error))

    def _tell(self, request: _Request, reply: Any) -> None:
        assert not self._called, "a callback would run inside a call that asks"
        request.tell(reply)
