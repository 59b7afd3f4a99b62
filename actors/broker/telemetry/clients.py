"""Clients that push their metrics (KIP-714): which metrics each is asked for, when it may come, and what it has told.

This file alone decides that, as Apache Kafka does. Rules:

1. A client is a client instance id, which it is given with its first question. It is remembered for three push intervals, a
   minute at least, after it came last, and not longer than its connection. `CLIENTS_MAX` are: the client that has not come
   for longest is forgotten first.
2. A client gets the metrics of all subscriptions that match it, and the shortest of their intervals. When subscriptions
   change it is taken for a new one, whose next question is answered at once.
3. The subscription id is a checksum of metrics and interval, so it changes when they do. A push with another one is refused,
   and the client asks again.
4. A client that comes before its time is told so. A push right behind a question, and the last push of a client that ends,
   are not too early.
5. What was pushed is shown as long as the client is remembered. A number that counts from the push before is added up. A
   client has `SERIES_A_CLIENT` numbers at most, all together `SERIES_MAX`, and no more than the ledger has room for; what is
   more is counted and passed over.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from actors.broker.groups.patterns import Pattern, PatternRefused
from actors.broker.telemetry.otlp import Labels, Point
from actors.ledger import EVERYBODY, Account, Ledger
from actors.wire.errors import ErrorCode
from fastpath.bytes.crc32c import crc32c

CLIENTS_MAX = 16_384
EXPIRY_MS = 60_000
INTERVAL_MS = 300_000
"""The push interval of a client that no subscription matches, ms: it asks again then."""
ALL = "*"
SERIES_A_CLIENT = 10_000
SERIES_MAX = 50_000
CLIENT_BYTES = 2_500
"""The bytes that a client takes in memory beside its names."""
SERIES_BYTES = 400
"""The bytes that a number takes in memory beside its name and labels."""
LABEL_BYTES = 160
"""The bytes that a label takes in memory beside its text."""
BYTES_MAX = 128 << 20
CODECS = 4, 3, 1, 2
"""The codecs in the order in which they are offered: zstd, lz4, gzip, snappy."""
RESERVED = bytes(16), bytes(15) + b"\1"
NEVER_MS = -(1 << 62)


class Subscription(NamedTuple):
    """A subscription: a CLIENT_METRICS resource. `match`: attribute -> expression; None: it matches no client, see
    `subscription`."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: Mapping[str, Pattern] | None

    def matches(self, attributes: Mapping[str, str]) -> bool:
        """Whether the subscription is for a client with these attributes."""
        if self.match is None:
            return False
        return all(name in attributes and one.fullmatch(attributes[name]) for name, one in self.match.items())


def subscription(metrics: Sequence[str], interval_ms: int, match: Iterable[str]) -> tuple[Subscription, str]:
    """The subscription, and what is wrong with its expressions, empty for nothing. A subscription with an expression
    that cannot be followed matches no client."""
    found: dict[str, Pattern] = {}
    for pair in match:
        name, _, expression = pair.partition("=")
        try:
            found[name.strip()] = Pattern(expression.strip())
        except PatternRefused as error:
            return Subscription(tuple(metrics), interval_ms, None), f"{pair}: {error}"
    return Subscription(tuple(metrics), interval_ms, found), ""


class Subscribed(NamedTuple):
    """The metrics that a client is asked for."""

    client: bytes
    subscription_id: int
    interval_ms: int
    metrics: Sequence[str]


class Client:
    """One client instance. Times are monotonic; `got_ms`, `pushed_ms`: when its last request of that kind was answered
    without an error."""

    __slots__ = (
        "attributes",
        "charged",
        "connection",
        "error",
        "expires_ms",
        "got_ms",
        "id",
        "interval_ms",
        "metrics",
        "principal",
        "pushed_ms",
        "series",
        "subscription_id",
        "terminating",
        "version",
    )  # fmt: skip

    def __init__(self, id: bytes, attributes: Mapping[str, str], connection: int, principal: str = EVERYBODY) -> None:
        self.id = id
        self.principal = principal
        """The principal for whom the client is kept."""
        self.charged = 0
        """The bytes for which its principal is charged."""
        self.attributes = attributes
        self.connection = connection
        self.metrics: tuple[str, ...] = ()
        self.interval_ms = INTERVAL_MS
        self.subscription_id = self.version = 0
        self.got_ms = self.pushed_ms = NEVER_MS
        self.expires_ms = 0
        self.terminating = False
        self.error = ErrorCode.NONE
        """The error of the answer to its last request."""
        self.series: dict[tuple[str, Labels], float] = {}


class Clients:
    """All clients of one broker that push metrics."""

    def __init__(self, bytes_max: int, new_id: Callable[[], bytes], account: Account | None = None) -> None:
        """A broker's clients when none has come. `bytes_max`: telemetry.max.bytes. `new_id`: a random uuid."""
        self.account = account or Ledger().account("ClientMetrics", BYTES_MAX)
        """The account for the memory of clients. Invariant: it has what is charged for the clients."""
        self.bytes_max = bytes_max
        self._new_id = new_id
        self._subscriptions: Collection[Subscription] = ()
        self._version = 0
        """A number that counts changes of the subscriptions."""
        self._by_id: dict[bytes, Client] = {}
        """The clients by id, in the order in which they came last."""
        self._by_connection: dict[int, bytes] = {}
        """The id of the client that came over a connection. Invariant: each client that is named here is in
        `_by_id`."""
        self.series = 0
        """The number of series of all clients."""
        self.passed_over = self.throttled = self.unknown_subscriptions = self.malformed = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def subscribe(self, subscriptions: Collection[Subscription]) -> None:
        """Take over the subscriptions that hold from now on."""
        self._subscriptions = subscriptions
        self._version += 1

    def ask(
        self,
        id: bytes,
        attributes: Callable[[], Mapping[str, str]],
        connection: int,
        now_ms: int,
        principal: str = EVERYBODY,
    ) -> Subscribed | ErrorCode:
        """Handle a GetTelemetrySubscriptions request. `id` of zeros: the client has none yet. `attributes`: what
        expressions are matched with. Returns what it is asked for, or the error."""
        if id == RESERVED[0]:
            id = self._new_id()
            while id in self._by_id:
                id = self._new_id()
        client = self._client(id, attributes, connection, now_ms, principal)
        early = now_ms - max(client.got_ms, client.pushed_ms) < client.interval_ms
        again = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if early and client.error not in again:
            self.throttled += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if not early:
            client.got_ms = now_ms
        client.error = ErrorCode.NONE
        return Subscribed(id, client.subscription_id, client.interval_ms, client.metrics)

    def push(
        self,
        id: bytes,
        subscription_id: int,
        codec: int,
        size: int,
        terminating: bool,
        attributes: Callable[[], Mapping[str, str]],
        connection: int,
        now_ms: int,
        principal: str = EVERYBODY,
    ) -> Client | ErrorCode:
        """Handle a PushTelemetry of `size` bytes. Returns the client, whose numbers are then `taken`, or the error."""
        if id in RESERVED:
            return ErrorCode.INVALID_REQUEST
        client = self._client(id, attributes, connection, now_ms, principal)
        error = self._refusal(client, subscription_id, codec, size, terminating, now_ms)
        client.terminating = terminating
        client.error = error
        return client if error is ErrorCode.NONE else error

    def _refusal(
        self, client: Client, subscription_id: int, codec: int, size: int, terminating: bool, now_ms: int
    ) -> ErrorCode:
        if client.terminating:
            return ErrorCode.INVALID_REQUEST
        if client.got_ms > client.pushed_ms or now_ms - client.pushed_ms >= client.interval_ms:
            client.pushed_ms = now_ms
        elif not terminating:
            self.throttled += 1
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if subscription_id != client.subscription_id:
            self.unknown_subscriptions += 1
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if codec != 0 and codec not in CODECS:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.TELEMETRY_TOO_LARGE if size > self.bytes_max else ErrorCode.NONE

    def taken(self, client: Client, points: Iterable[Point]) -> None:
        """Take the numbers of a push. Nothing happens if the client was forgotten meanwhile."""
        if self._by_id.get(client.id) is not client:
            return
        series = client.series
        for point in points:
            key = point.name, point.labels
            if key in series:
                series[key] = series[key] + point.value if point.adds else point.value
            elif (
                len(series) < SERIES_A_CLIENT
                and self.series < SERIES_MAX
                and self.account.charge(client.principal, size := _bytes(point))
            ):
                client.charged += size
                series[key] = point.value
                self.series += 1
            else:
                self.passed_over += 1

    def damaged(self, client: Client) -> None:
        """Note that a push could not be read."""
        client.error = ErrorCode.INVALID_RECORD
        self.malformed += 1

    def known(self) -> list[Client]:
        """Every client, with its numbers."""
        return list(self._by_id.values())

    def closed(self, connection: int) -> None:
        """Forget the client that came over a connection that is gone."""
        id = self._by_connection.get(connection)
        if id is not None:
            self._forget(id)

    def expire(self, now_ms: int) -> None:
        """Forget clients that have not come for long."""
        for id in [id for id, client in self._by_id.items() if client.expires_ms <= now_ms]:
            self._forget(id)

    # ---- inside

    def _client(
        self, id: bytes, attributes: Callable[[], Mapping[str, str]], connection: int, now_ms: int, principal: str
    ) -> Client:
        client = self._by_id.get(id)
        if client is None or client.version != self._version:
            known = {**attributes(), "client_instance_id": shown(id)} if client is None else client.attributes
            series = {} if client is None else client.series
            if client is not None and self._by_connection.get(client.connection) == id:
                del self._by_connection[client.connection]
            self._connected(connection)
            told = 0 if client is None else client.charged
            client = self._made(Client(id, known, connection, principal if client is None else client.principal))
            client.series, client.charged = series, told
            if not told:
                client.charged = CLIENT_BYTES + sum(map(len, known.values()))
                self.account.keep(client.principal, client.charged)
            self._by_connection[connection] = id
        self._by_id.pop(id, None)
        self._by_id[id] = client
        client.expires_ms = now_ms + max(EXPIRY_MS, 3 * client.interval_ms)
        while (other := self._in_the_way(client)) is not None:
            self._forget(other)
        return client

    def _in_the_way(self, client: Client) -> bytes | None:
        """The id of the client that is forgotten to make room for another one, the oldest first: any client where there
        are too many, and one of the same principal where that has too much; None: there is room."""
        if len(self._by_id) > CLIENTS_MAX:
            return next(iter(self._by_id))
        if self.account.has_room(client.principal, 0):
            return None
        everybody = self.account.bytes > self.account.bytes_max
        for id, one in self._by_id.items():
            if one is not client and (everybody or one.principal == client.principal):
                return id
        return None

    def _connected(self, connection: int) -> None:
        """Note that another client comes over a connection: the one before goes when its time is over."""
        self._by_connection.pop(connection, None)

    def _made(self, client: Client) -> Client:
        matching = [one for one in self._subscriptions if one.matches(client.attributes)]
        metrics = dict.fromkeys(name for one in matching for name in one.metrics)
        client.metrics = (ALL,) if ALL in metrics else tuple(metrics)
        client.interval_ms = min([INTERVAL_MS, *(one.interval_ms for one in matching)])
        client.version = self._version
        text = f"[{', '.join(client.metrics)}]{client.interval_ms}"
        client.subscription_id = _signed(crc32c(text.encode()) ^ _hash(client.id))
        return client

    def _forget(self, id: bytes) -> None:
        client = self._by_id.pop(id)
        self.series -= len(client.series)
        self.account.give_back(client.principal, client.charged)
        if self._by_connection.get(client.connection) == id:
            del self._by_connection[client.connection]

    def check(self) -> None:
        """Assert the invariants; called after each step in tests."""
        assert self.series == sum(len(client.series) for client in self._by_id.values())
        assert self.account.bytes == sum(client.charged for client in self._by_id.values())
        assert all(self._by_id[id].connection == conn for conn, id in self._by_connection.items())


def _bytes(point: Point) -> int:
    texts = sum([LABEL_BYTES + len(name) + len(value) for name, value in point.labels])
    return SERIES_BYTES + len(point.name) + texts


def shown(id: bytes) -> str:
    """A uuid as Kafka writes it: base64 for URLs, without the end."""
    return urlsafe_b64encode(id)[:22].decode()


def _hash(id: bytes) -> int:
    """Java's hash of Kafka's Uuid, unsigned."""
    both = int.from_bytes(id[:8], "big") ^ int.from_bytes(id[8:], "big")
    return (both >> 32 ^ both) & 0xFFFFFFFF


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value
