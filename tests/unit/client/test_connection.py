"""One connection, message by message: versions, a login, answers in order, and what ends it."""

from typing import Any

import pytest

from actors.client.connection import CORRELATION_MAX, Answer, Connection, ConnectionState, Lost
from actors.client.errors import ClientError, NoKafka, NotLoggedIn
from actors.client.properties import client_config
from actors.wire import framing
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.client.servers import Dice, Server

LOGIN = {
    "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": 'x.PlainLoginModule required username="alice" password="a-secret";',
}  # fmt: skip
METADATA = message("MetadataRequest")


class Peer:
    """The other end of a connection, which answers when a test says so."""

    def __init__(self, **config: Any) -> None:
        given = {"bootstrap.servers": "a:1", **{name.replace("_", "."): value for name, value in config.items()}}
        self.connection = Connection(client_config(given), "a:1", Dice())
        self.asked: list[tuple[str, int, int]] = []
        """(API, version, correlation id) of what came."""
        self.read = 0
        self.connection.opened(0)

    def sent(self) -> list[tuple[str, int, int]]:
        """The requests that have come since."""
        data = b"".join(bytes(one) for one in self.connection.take_out())
        before = len(self.asked)
        while data:
            size = 4 + int.from_bytes(data[:4], "big")
            header, _ = framing.decode_request_header(data[4:size])
            self.asked.append((NAMES[header.api_key], header.api_version, header.correlation_id))
            data = data[size:]
        return self.asked[before:]

    def gives(self, data: bytes, now_us: int = 0) -> list[Answer]:
        room = self.connection.frames.buffer()
        room[: len(data)] = data
        return self.connection.filled(len(data), now_us)

    def answers(self, body: Any, correlation: int | None = None, now_us: int = 0) -> list[Answer]:
        """Answer the oldest request that was not answered."""
        name, version, number = self.asked[self.read]
        self.read += 1
        if correlation is not None:
            number = correlation
        return self.gives(b"".join(framing.encode_response(name, version, number, body)), now_us)

    def ready(self) -> "Peer":
        """A connection that takes requests."""
        self.sent()
        self.answers(VERSIONS)
        assert self.connection.state is ConnectionState.READY
        return self

    def ask(self, owner: Any, due_us: int = 10**9, now_us: int = 0) -> None:
        self.connection.send(owner, "Metadata", 12, METADATA(topics=[]), due_us, now_us, True)
        self.sent()


NAMES = {3: "Metadata", 17: "SaslHandshake", 18: "ApiVersions", 36: "SaslAuthenticate"}
VERSIONS = Server("a", 1, {}).api_versions(4)
TOLD = message("MetadataResponse")


def test_versions_are_asked_first_and_then_requests_are_taken_and_answered_in_order() -> None:
    peer = Peer()
    assert [row[:2] for row in peer.sent()] == [("ApiVersions", 4)] and not peer.connection.has_room(0)
    peer.answers(VERSIONS)
    assert peer.connection.has_room(0)
    peer.ask("one")
    peer.ask("two")
    assert [one.owner for one in peer.answers(TOLD(cluster_id="x"))] == ["one"]
    (second,) = peer.answers(TOLD())
    assert (second.owner, second.version) == ("two", 12) and not peer.connection.under_way


def test_an_answer_to_another_request_ends_the_connection() -> None:
    peer = Peer().ready()
    peer.ask("one")
    with pytest.raises(NoKafka, match=r"answered with correlation id 7 where \d+ \(Metadata\) was next"):
        peer.answers(TOLD(), correlation=7)
    with pytest.raises(NoKafka, match="an answer that nobody had asked for"):
        Peer().ready().gives(b"\x00\x00\x00\x04\x00\x00\x00\x07")


def test_correlation_ids_begin_again_behind_the_highest() -> None:
    peer = Peer()
    peer.sent()
    peer.connection._correlation_id = CORRELATION_MAX
    peer.answers(VERSIONS)
    for owner in "ab":
        peer.ask(owner)
    assert [row[2] for row in peer.asked[1:]] == [CORRELATION_MAX, 0]
    assert [one.owner for one in peer.answers(TOLD()) + peer.answers(TOLD())] == ["a", "b"]


def test_no_answer_in_time_ends_it_as_nothing_behind_could_be_answered() -> None:
    peer = Peer().ready()
    peer.ask("late", due_us=100)
    peer.ask("later", due_us=50)
    assert peer.connection.due_us() == 50 and peer.connection.tick(49)
    with pytest.raises(Lost, match="did not answer Metadata in time"):
        peer.connection.tick(50)


def test_what_the_server_asks_to_wait_is_waited_for() -> None:
    peer = Peer().ready()
    peer.ask("one")
    peer.answers(TOLD(throttle_time_ms=200), now_us=1_000)
    assert not peer.connection.has_room(200_999) and peer.connection.has_room(201_000)


def test_so_many_requests_are_under_way() -> None:
    peer = Peer(max_in_flight_requests_per_connection=2).ready()
    for owner in "ab":
        assert peer.connection.has_room(0)
        peer.ask(owner)
    assert not peer.connection.has_room(0)
    peer.answers(TOLD())
    assert peer.connection.has_room(0)


def test_a_connection_that_nobody_uses_is_given_back() -> None:
    peer = Peer(connections_max_idle_ms=500).ready()
    assert peer.connection.tick(499_999) and not peer.connection.tick(500_000)
    peer.ask("one")
    assert peer.connection.tick(500_000), "not while something is under way"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            ("SaslHandshake", {"error_code": int(ErrorCode.UNSUPPORTED_SASL_MECHANISM), "mechanisms": ["X"]}),
            "it takes X",
        ),
        (("SaslHandshake", {"error_code": int(ErrorCode.ILLEGAL_SASL_STATE)}), "asks for no login there"),
        (("SaslAuthenticate", {"error_code": int(ErrorCode.SASL_AUTHENTICATION_FAILED), "error_message": "no"}), "no"),
    ],
)
def test_a_login_that_is_refused_says_why_and_not_the_password(answer: tuple[str, dict[str, Any]], words: str) -> None:
    peer = Peer(**LOGIN)
    peer.sent()
    peer.answers(VERSIONS)
    assert [row[0] for row in peer.sent()] == ["SaslHandshake"] and not peer.connection.has_room(0)
    if answer[0] == "SaslAuthenticate":
        peer.answers(message("SaslHandshakeResponse")(mechanisms=["PLAIN"]))
        assert [row[0] for row in peer.sent()] == ["SaslAuthenticate"]
    with pytest.raises(NotLoggedIn, match=words) as error:
        peer.answers(message(f"{answer[0]}Response")(**answer[1]))
    assert "secret" not in str(error.value)


def test_a_login_is_renewed_between_requests_before_its_end() -> None:
    peer = Peer(**LOGIN)
    peer.sent()
    peer.answers(VERSIONS)
    peer.sent()
    peer.answers(message("SaslHandshakeResponse")(mechanisms=["PLAIN"]))
    peer.sent()
    peer.answers(message("SaslAuthenticateResponse")(session_lifetime_ms=1_000))
    renew_us = peer.connection.due_us()
    assert 850_000 <= renew_us <= 950_000 and peer.connection.has_room(renew_us)
    assert peer.connection.tick(renew_us) and not peer.connection.has_room(renew_us)
    assert [row[0] for row in peer.sent()] == ["SaslHandshake"]
    peer.answers(message("SaslHandshakeResponse")(mechanisms=["PLAIN"]))
    peer.sent()
    peer.answers(message("SaslAuthenticateResponse")(), now_us=renew_us)
    assert peer.connection.has_room(renew_us) and peer.connection.tick(10 * renew_us), "this one does not end"


def test_where_the_connection_ended_is_told() -> None:
    asking, ready, login = Peer(), Peer().ready(), Peer(**LOGIN)
    login.sent()
    login.answers(VERSIONS)
    half = Peer().ready()
    half.ask("one")
    half.gives(b"\x00\x00\x00\x40\x00")
    for one, words in (
        (asking, "before it had answered anything: it may want TLS"),
        (login, "during the login"),
        (half, "in the middle of an answer"),
        (ready, "a:1: reset"),
    ):
        assert words in str(one.connection.ended("reset"))
    assert asking.connection.state is ConnectionState.CLOSED


def test_a_request_that_cannot_be_written_is_not_sent() -> None:
    peer = Peer().ready()
    with pytest.raises(ClientError, match="Metadata cannot be written in version 0"):
        peer.connection.send("x", "Metadata", 0, METADATA(topics=None), 1, 0, True)
    assert peer.sent() == [] and not peer.connection.under_way
