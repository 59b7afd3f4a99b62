"""One connection to a server as a state machine: versions, a login, then requests in order.

Rules:

1. A connection that has just opened asks which versions the server speaks (ApiVersions 4, or what the server says instead,
   KIP-511), logs in where the config says so, and only then takes requests.
2. Answers come in the order of the requests; one with another correlation id ends the connection. So does a request
   without an answer in time, as nothing behind it could be answered.
3. A login that ends is renewed before its end, between two requests (KIP-368). What the server asks to wait
   (throttle_time_ms) is waited for before the next request (KIP-219).
4. Whatever a server sends that is not an answer ends the connection with one sentence.
"""

import enum
from collections import deque
from typing import Any, NamedTuple

from actors.authentication.client import Login as Exchange
from actors.authentication.exchange import Rejected
from actors.client import logins
from actors.client.errors import ClientError, NoKafka, NotLoggedIn
from actors.client.frames import Frames
from actors.client.properties import ClientConfig
from actors.client.versions import SOFTWARE, Spoken, choose, spoken
from actors.ports import Random
from actors.wire import framing
from actors.wire.errors import ErrorCode, WireError
from actors.wire.messages import Buffer, message

CORRELATION_MAX = (1 << 31) - 1
API_VERSIONS_FIRST = 4
RENEW_PER_CENT, RENEW_SPREAD = 85, 10
"""The part of a login's time after which it is renewed: 85 to 95 per cent, as by Java's clients."""
SOFTWARE_VERSION = "1"
NEVER = 1 << 62


class ConnectionState(enum.Enum):
    """The state of a connection on its way to requests."""

    DIALLING = "is not open yet"
    ASKING = "asks for versions"
    LOGGING_IN = "logs in"
    READY = "takes requests"
    CLOSED = "is over"


class Lost(ClientError):
    """The connection ended: a request that was under way may have been done or not."""


class Sent(NamedTuple):
    """A request that waits for its answer."""

    correlation_id: int
    name: str
    version: int
    due_us: int
    owner: Any
    """The owner of the request; None: the connection itself."""


class Answer(NamedTuple):
    """An answer to the request of an owner."""

    owner: Any
    message: Any
    version: int


class Connection:
    """One connection to a server, as a state machine. `server` is its address as text, for errors."""

    def __init__(self, config: ClientConfig, server: str, random: Random, token: logins.Token | None = None) -> None:
        self.server = server
        self.state = ConnectionState.DIALLING
        self.spoken: Spoken = {}
        self.frames = Frames(config.receive_bytes_max)
        self.under_way: deque[Sent] = deque()
        self.used_us = 0
        """The time when something was sent or received last."""
        self.throttled_until_us = 0
        self._config = config
        self._random = random
        self._token = token
        self._correlation_id = random.below(CORRELATION_MAX)
        self._out: list[Buffer] = []
        self._exchange: Exchange | None = None
        self._renew_us = NEVER
        self._renewing = False

    # ---- what the client does with it

    def opened(self, now_us: int) -> None:
        """Note that the driver has connected it (TLS included)."""
        self.state = ConnectionState.ASKING
        self.used_us = now_us
        self._ask_versions(API_VERSIONS_FIRST, now_us)

    def has_room(self, now_us: int) -> bool:
        """Whether a request may be sent now."""
        return (
            self.state is ConnectionState.READY
            and not self._renewing
            and now_us >= self.throttled_until_us
            and len(self.under_way) < self._config.in_flight_max
        )

    def send(self, owner: Any, name: str, version: int, body: Any, due_us: int, now_us: int, answered: bool) -> None:
        """Send a request. Raises ClientError if it cannot be encoded; nothing is sent then."""
        try:
            self._send(owner, name, version, body, due_us, now_us, answered)
        except WireError as error:
            raise ClientError(f"{name} cannot be written in version {version}: {error}") from None

    def take_out(self) -> list[Buffer]:
        """The bytes to send now."""
        found, self._out = self._out, []
        return found

    def filled(self, count: int, now_us: int) -> list[Answer]:
        """Take in bytes that have come into `frames.buffer()`. Returns the answers. Raises ClientError if the
        connection is to be closed."""
        self.used_us = now_us
        found: list[Answer] = []
        try:
            frames = self.frames.filled(count)
        except NoKafka as error:
            raise NoKafka(f"{self.server} is no Kafka as this client is set up: {error}") from None
        for frame in frames:
            answer = self._answer(frame, now_us)
            if answer is not None:
                found.append(answer)
        return found

    def due_us(self) -> int:
        """The time at which `tick` is to be called at the latest."""
        first = min((one.due_us for one in self.under_way), default=NEVER)
        if self.state is ConnectionState.READY and not self._renewing:
            first = min(first, self._renew_us)
            if self._config.idle_ms >= 0 and not self.under_way:
                first = min(first, self.used_us + self._config.idle_ms * 1000)
        return first

    def tick(self, now_us: int) -> bool:
        """Renew a login, and look whether an answer is late. Returns False if no request needs the connection any more.
        Raises Lost."""
        late = next((one for one in self.under_way if one.due_us <= now_us), None)
        if late is not None:
            raise Lost(f"{self.server} did not answer {late.name} in time")
        if self.state is not ConnectionState.READY or self._renewing:
            return True
        if now_us >= self._renew_us:
            self._renewing = True
            self._handshake(now_us)
        idle_ms = self._config.idle_ms
        return bool(self.under_way) or idle_ms < 0 or now_us < self.used_us + idle_ms * 1000

    def ended(self, why: str) -> ClientError:
        """The error for a connection that the server, or the way to it, has ended."""
        before, self.state = self.state, ConnectionState.CLOSED
        if self.frames.cut:
            return Lost(f"{self.server} ended the connection in the middle of an answer")
        if before is ConnectionState.ASKING:
            hint = "" if self._config.tls is not None else ": it may want TLS (security.protocol=SSL), or be no Kafka"
            return Lost(f"{self.server} ended the connection before it had answered anything{hint}")
        if before is ConnectionState.LOGGING_IN:
            return Lost(f"{self.server} ended the connection during the login")
        return Lost(f"{self.server}: {why}")

    # ---- requests

    def _send(self, owner: Any, name: str, version: int, body: Any, due_us: int, now_us: int, answered: bool) -> None:
        number = self._correlation_id
        self._out += framing.encode_request(name, version, number, self._config.client_id, body)
        self._correlation_id = 0 if number >= CORRELATION_MAX else number + 1
        self.used_us = now_us
        if answered:
            self.under_way.append(Sent(number, name, version, due_us, owner))

    def _own(self, name: str, version: int, body: Any, now_us: int) -> None:
        self._send(None, name, version, body, now_us + self._config.request_timeout_ms * 1000, now_us, True)

    def _answer(self, frame: memoryview, now_us: int) -> Answer | None:
        number = framing.correlation_id(frame)
        if not self.under_way:
            raise NoKafka(f"{self.server} sent an answer that nobody had asked for")
        sent = self.under_way.popleft()
        if number != sent.correlation_id:
            raise NoKafka(
                f"{self.server} answered with correlation id {number} where {sent.correlation_id} ({sent.name}) was next"
            )
        version = sent.version
        try:
            if sent.name == "ApiVersions" and framing.leading_error(frame) == ErrorCode.UNSUPPORTED_VERSION:
                version = 0
            found = framing.decode_response(sent.name, version, frame)
        except WireError as error:
            raise NoKafka(f"{self.server} answered {sent.name} with bytes that cannot be read: {error}") from None
        throttle_ms = getattr(found, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self.throttled_until_us = max(self.throttled_until_us, now_us + throttle_ms * 1000)
        if sent.owner is not None:
            return Answer(sent.owner, found, version)
        _OWN[sent.name](self, found, sent, now_us)
        return None

    # ---- versions

    def _ask_versions(self, version: int, now_us: int) -> None:
        body = message("ApiVersionsRequest")(client_software_name=SOFTWARE, client_software_version=SOFTWARE_VERSION)
        self._own("ApiVersions", version, body, now_us)

    def _told_versions(self, found: Any, sent: Sent, now_us: int) -> None:
        if found.error_code == ErrorCode.UNSUPPORTED_VERSION and sent.version > 0:
            theirs = {row.api_key: row.max_version for row in found.api_keys}
            highest = theirs.get(framing.rpc("ApiVersions").key, 0)
            self._ask_versions(max(0, min(highest, sent.version - 1)), now_us)
            return
        if found.error_code:
            raise NoKafka(f"{self.server} answered ApiVersions with error {found.error_code}")
        self.spoken = spoken(found)
        if self._config.login is None:
            self.state = ConnectionState.READY
            return
        self.state = ConnectionState.LOGGING_IN
        self._handshake(now_us)

    # ---- the login

    def _handshake(self, now_us: int) -> None:
        assert self._config.login is not None
        self._exchange = logins.begin(self._config.login, self._random, self._token)
        body = message("SaslHandshakeRequest")(mechanism=self._config.login.mechanism)
        self._own("SaslHandshake", choose("SaslHandshake", self.spoken, 1), body, now_us)

    def _told_mechanisms(self, found: Any, sent: Sent, now_us: int) -> None:
        assert self._exchange is not None and self._config.login is not None
        if found.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(found.mechanisms) or "none"
            raise NotLoggedIn(
                f"{self.server} does not take sasl.mechanism={self._config.login.mechanism}: it takes {offered}"
            )
        if found.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise NotLoggedIn(f"{self.server} asks for no login there: set security.protocol to PLAINTEXT or SSL")
        if found.error_code:
            raise NotLoggedIn(f"{self.server} answered SaslHandshake with error {found.error_code}")
        self._authenticate(self._exchange.first(), now_us)

    def _authenticate(self, token: bytes, now_us: int) -> None:
        body = message("SaslAuthenticateRequest")(auth_bytes=token)
        self._own("SaslAuthenticate", choose("SaslAuthenticate", self.spoken), body, now_us)

    def _told_token(self, found: Any, sent: Sent, now_us: int) -> None:
        assert self._exchange is not None and self._config.login is not None
        mechanism = self._config.login.mechanism
        if found.error_code:
            said = logins.refusal(mechanism, self._exchange, found.error_message)
            raise NotLoggedIn(f"{self.server} {said}", found.error_code)
        try:
            token = self._exchange.next(bytes(found.auth_bytes))
        except Rejected as error:
            raise NotLoggedIn(f"{self.server} {logins.refusal(mechanism, self._exchange, None, error)}") from None
        if token is not None:
            self._authenticate(token, now_us)
            return
        if getattr(self._exchange, "told", ""):
            raise NotLoggedIn(f"{self.server} {logins.refusal(mechanism, self._exchange, None)}")
        self._exchange = None
        self._renewing = False
        self._renew_us = NEVER
        if found.session_lifetime_ms > 0:
            per_cent = RENEW_PER_CENT + self._random.below(RENEW_SPREAD + 1)
            self._renew_us = now_us + found.session_lifetime_ms * 10 * per_cent
        self.state = ConnectionState.READY


_OWN = {
    "ApiVersions": Connection._told_versions,
    "SaslHandshake": Connection._told_mechanisms,
    "SaslAuthenticate": Connection._told_token,
}
"""The functions that take the answers to a connection's own requests."""
