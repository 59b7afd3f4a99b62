"""Which client is asked for what, and when it may come."""

from collections.abc import Mapping

import pytest

from actors.broker.telemetry import clients as module
from actors.broker.telemetry.clients import CODECS, Client, Clients, Subscribed, Subscription, shown, subscription
from actors.broker.telemetry.otlp import Point
from actors.ledger import Ledger
from actors.wire.errors import ErrorCode

A, B, NOBODY = b"a" * 16, b"b" * 16, bytes(16)


class World:
    """The clients of a broker, and a clock."""

    def __init__(self, *subscriptions: Subscription) -> None:
        self.ids = 0
        self.clients = Clients(1000, self._new_id)
        self.now_ms = 0
        self.attributes: Mapping[str, str] = {"client_id": "c"}
        self.clients.subscribe(subscriptions)

    def _new_id(self) -> bytes:
        self.ids += 1
        return b"\7" * 15 + bytes([self.ids])

    def ask(self, id: bytes = A, connection: int = 1) -> Subscribed | ErrorCode:
        found = self.clients.ask(id, lambda: self.attributes, connection, self.now_ms)
        self.clients.check()
        return found

    def subscribed(self, id: bytes = A, connection: int = 1) -> Subscribed:
        found = self.ask(id, connection)
        assert isinstance(found, Subscribed)
        return found

    def push(
        self, subscription_id: int, id: bytes = A, *, codec: int = 0, size: int = 5, terminating: bool = False
    ) -> Client | ErrorCode:
        found = self.clients.push(
            id, subscription_id, codec, size, terminating, lambda: self.attributes, 1, self.now_ms
        )
        self.clients.check()
        return found


def wants(*metrics: str, interval_ms: int = 1000, match: tuple[str, ...] = ()) -> Subscription:
    found, wrong = subscription(metrics, interval_ms, match)
    assert not wrong
    return found


def test_a_client_without_a_subscription_comes_again_after_five_minutes() -> None:
    w = World()
    found = w.subscribed(NOBODY)
    assert found.client == b"\7" * 15 + b"\1" and found.metrics == () and found.interval_ms == 300_000


def test_all_matching_subscriptions_count_and_the_shortest_interval() -> None:
    w = World(
        wants("m.a", "m.b", interval_ms=5000),
        wants("m.b", "m.c", interval_ms=2000),
        wants("m.d", match=("client_id=x",)),
    )
    found = w.subscribed()
    assert found.metrics == ("m.a", "m.b", "m.c") and found.interval_ms == 2000
    w = World(wants("m.a"), wants("*"))
    assert w.subscribed().metrics == ("*",)


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ("client_id=c", True), ("client_id=.*", True), ("client_id=", True), ("client_id=cc", False),
        ("client_software_name=.*", False), (f"client_instance_id={shown(A)}", True), ("client_id = c|d", True),
    ],
)  # fmt: skip
def test_an_expression_must_match_the_whole_attribute(expression: str, matches: bool) -> None:
    w = World(wants("m", match=(expression,)) if expression != "client_id=" else wants("m"))
    assert bool(w.subscribed().metrics) is matches


def test_a_subscription_with_an_expression_that_cannot_be_followed_matches_nobody() -> None:
    found, wrong = subscription(["*"], 1000, ["client_id=(?=x)"])
    assert wrong and World(found).subscribed().metrics == ()


def test_the_subscription_id_is_apache_kafkas() -> None:
    """Computed with Uuid and Crc32C of kafka-clients 4.3.1."""
    w = World(wants("*", interval_ms=1000))
    assert w.subscribed(bytes(range(16))).subscription_id == 848016057
    w = World()
    assert w.subscribed(bytes(range(16))).subscription_id == -725132322
    assert shown(bytes(range(16))) == "AAECAwQFBgcICQoLDA0ODw"


def test_who_asks_before_the_time_is_told_so_unless_there_is_something_new() -> None:
    w = World(wants("m"))
    w.subscribed()
    w.now_ms = 999
    assert w.ask() is ErrorCode.THROTTLING_QUOTA_EXCEEDED and w.clients.throttled == 1
    w.clients.subscribe([wants("n")])
    assert w.subscribed().metrics == ("n",)
    w.now_ms = 1999
    assert isinstance(w.ask(), Subscribed)


def test_a_push_behind_a_question_is_not_too_early_and_the_next_one_is() -> None:
    w = World(wants("m"))
    id = w.subscribed().subscription_id
    w.now_ms = 1
    assert isinstance(w.push(id), Client)
    w.now_ms = 1000
    assert w.push(id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    w.now_ms = 1001
    assert isinstance(w.push(id), Client)


def test_the_last_push_may_come_at_any_time_and_nothing_behind_it() -> None:
    w = World(wants("m"))
    id = w.subscribed().subscription_id
    assert isinstance(w.push(id), Client)
    assert isinstance(w.push(id, terminating=True), Client)
    assert w.push(id, terminating=True) is ErrorCode.INVALID_REQUEST


def test_what_a_push_may_not_be() -> None:
    w = World(wants("m"))
    for reserved in (NOBODY, bytes(15) + b"\1"):
        assert w.push(1, reserved) is ErrorCode.INVALID_REQUEST
    id = w.subscribed().subscription_id
    assert w.push(id + 1) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID and w.clients.unknown_subscriptions == 1
    assert isinstance(w.ask(), Subscribed), "it may ask again at once"
    w.now_ms += 1000
    assert w.push(id, codec=5) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert isinstance(w.ask(), Subscribed)
    for codec in (0, *CODECS):
        w.now_ms += 1000
        assert isinstance(w.push(id, codec=codec, size=1000), Client)
    w.now_ms += 1000
    assert w.push(id, size=1001) is ErrorCode.TELEMETRY_TOO_LARGE
    assert w.ask() is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def told(w: World) -> dict[str, float]:
    w.clients.check()
    return {name: value for client in w.clients.known() for (name, _), value in client.series.items()}


def test_what_counts_from_the_push_before_is_added_up() -> None:
    w = World(wants("m"))
    client = w.push(w.subscribed().subscription_id)
    assert isinstance(client, Client)
    for value in (3.0, 4.0):
        w.clients.taken(client, [Point("sum", (), value, True), Point("now", (), value, False)])
    assert told(w) == {"sum": 7.0, "now": 4.0}
    w.clients.subscribe([wants("n")])
    client = w.push(w.subscribed().subscription_id)
    assert isinstance(client, Client)
    w.clients.taken(client, [Point("sum", (), 1.0, True)])
    assert told(w) == {"sum": 8.0, "now": 4.0}, "new subscriptions forget nothing"


def test_numbers_have_a_bound_for_each_client_and_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SERIES_A_CLIENT", 3)
    monkeypatch.setattr(module, "SERIES_MAX", 5)
    w = World(wants("m"))
    for id in (A, B):
        client = w.push(w.subscribed(id).subscription_id, id)
        assert isinstance(client, Client)
        w.clients.taken(client, [Point(str(n), (), 1.0, False) for n in range(4)])
    assert len(told(w)) == 3 and w.clients.series == 5 and w.clients.passed_over == 3


@pytest.mark.parametrize("how", ["closed", "expired"])
def test_a_client_that_is_gone_is_shown_no_more(how: str) -> None:
    w = World(wants("m"))
    client = w.push(w.subscribed(connection=1).subscription_id)
    assert isinstance(client, Client)
    w.clients.taken(client, [Point("x", (), 1.0, False)])
    if how == "closed":
        w.clients.closed(2)
        assert told(w)
        w.clients.closed(1)
    else:
        w.clients.expire(w.now_ms + 59_999)
        assert told(w)
        w.clients.expire(w.now_ms + 60_000)
    assert not told(w) and len(w.clients) == 0
    w.clients.taken(client, [Point("late", (), 1.0, False)])
    assert not told(w), "a push that was being read meanwhile"


def test_so_many_clients_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENTS_MAX", 2)
    w = World(wants("m"))
    for number, id in enumerate((A, B, A, b"c" * 16)):
        w.ask(id, number)
    assert list(w.clients._by_id) == [A, b"c" * 16], "who has not come for longest is forgotten"


@pytest.mark.parametrize(
    ("kept", "bound", "left"),
    [
        (0, 1 << 20, [b"q" * 16, A, B]),
        (1 << 20, 1 << 20, [b"q" * 16, B]),
        (0, 2 * module.CLIENT_BYTES + 200, [A, B]),
    ],
)
def test_who_has_too_much_takes_no_place_of_others(kept: int, bound: int, left: list[bytes]) -> None:
    """`kept`: what is kept for that principal beside its clients. Where all have too much the oldest is forgotten."""
    ledger = Ledger(principal_bytes_max=1 << 20)
    ledger.account("GroupMembers", 1 << 30).keep("User:p", kept)
    clients = Clients(1000, lambda: NOBODY, ledger.account("ClientMetrics", bound))
    for connection, (id, principal) in enumerate(((b"q" * 16, "User:q"), (A, "User:p"), (B, "User:p"))):
        assert isinstance(clients.ask(id, dict, connection, 0, principal), Subscribed)
        clients.check()
        ledger.check()
    assert list(clients._by_id) == left
