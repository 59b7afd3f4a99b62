"""Logins at a node: when a peer is known, how large its requests may be, and what a login that is over means."""

import base64
from typing import Any

import pytest

from actors.authentication.exchange import Accepted
from actors.authentication.scram import Mechanism
from actors.host.security.scram_argument import credential_of
from actors.metadata.image import RULE_FIELDS
from actors.metadata.ops import EntityGone, EntitySet
from actors.wire import framing
from actors.wire.messages import message
from tests.unit.node.net.test_request_channel import CONTROL, PLAIN, Lab, versions

PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CP:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "connections.max.reauth.ms": "60000",
    "connection.failed.authentication.delay.ms": "0",
} | {
    f"listener.name.{name}.{key}": value
    for name in ("plaintext", "cp")
    for key, value in {
        "sasl.enabled.mechanisms": "PLAIN",
        "plain.sasl.jaas.config": f'{PLAIN_LOGIN} required username="n" password="p" user_n="p" user_alice="right";',
    }.items()
}


@pytest.fixture
def lab() -> Lab:
    return Lab(**SETTINGS)


def handshake(mechanism: str = "PLAIN") -> Any:
    return message("SaslHandshakeRequest")(mechanism=mechanism)


def token(name: str = "alice", password: str = "right") -> Any:
    return message("SaslAuthenticateRequest")(auth_bytes=f"\0{name}\0{password}".encode())


def told(lab: Lab, conn: int, name: str, version: int, request: Any) -> tuple[Any, Any]:
    """(the decoded answer or None, the effects of the turn)"""
    lab.send(conn, name, version, request)
    effects = lab.turn()
    sent = [b"".join(parts) for one, parts in effects.send if one == conn]
    return (framing.decode_response(name, version, memoryview(sent[0])[4:]) if sent else None), effects


def log_in(lab: Lab, conn: int) -> None:
    told(lab, conn, "SaslHandshake", 1, handshake())
    reply, effects = told(lab, conn, "SaslAuthenticate", 2, token())
    assert reply.error_code == 0 and list(effects.known) == [conn]


def test_the_host_is_told_once_whose_requests_may_be_large(lab: Lab) -> None:
    conn = lab.connect(PLAIN)
    for name, version, request in (("ApiVersions", 3, versions()), ("SaslHandshake", 1, handshake())):
        assert not told(lab, conn, name, version, request)[1].known
    _, effects = told(lab, conn, "SaslAuthenticate", 2, token(password="wrong"))
    assert list(effects.close) == [conn] and not effects.known
    conn = lab.connect(PLAIN)
    log_in(lab, conn)
    assert not lab.turn().known
    told(lab, conn, "SaslHandshake", 1, handshake())
    reply, effects = told(lab, conn, "SaslAuthenticate", 2, token())
    assert reply.error_code == 0 and not effects.known, "it was known before"


@pytest.mark.parametrize(("listener", "data", "plane"), [(PLAIN, 1, 0), (CONTROL, 0, 1)])
def test_r291_13_who_asks_when_its_login_is_over_is_closed_and_counted(
    lab: Lab, listener: str, data: int, plane: int
) -> None:
    conn = lab.connect(listener)
    log_in(lab, conn)
    lab.world.run_for(59_000)
    assert told(lab, conn, "ApiVersions", 3, versions())[0] is not None
    lab.world.run_for(2_000)
    reply, _ = told(lab, conn, "ApiVersions", 3, versions())
    assert reply is not None, "who logs in anew may ask which versions there are"
    lab.node.received(conn, memoryview(bytearray(b"\0\x03\0\0\0\0\0\1\xff\xff")))
    effects = lab.turn()
    assert list(effects.close) == [conn]
    shown = lab.metrics()
    prefix = "kafka_network_socketserver_"
    assert shown[prefix + "expiredconnectionskilledcount"] == data
    assert shown[prefix + "controlplaneexpiredconnectionskilledcount"] == plane


def test_who_asks_for_a_weaker_mechanism_is_refused_and_told_which_there_are() -> None:
    scram = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="n" password="p";'
    more = {
        "listener.name.plaintext.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.plaintext.scram-sha-512.sasl.jaas.config": scram,
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    }
    strong = Lab(**(SETTINGS | more))
    conn = strong.connect(PLAIN)
    reply, effects = told(strong, conn, "SaslHandshake", 1, handshake("PLAIN"))
    assert (reply.error_code, list(reply.mechanisms)) == (33, ["SCRAM-SHA-512"])
    assert list(effects.close) == [conn]
    assert len([line for line in strong.world.lines if "it wants SASL mechanism 'PLAIN'" in line]) == 1


def sent(lab: Lab, effects: Any, conn: int) -> int:
    """How many answers left."""
    return sum(len(parts) > 0 for one, parts in effects.send if one == conn)


@pytest.mark.parametrize("right_at", [0, 1, 7])
def test_logins_of_a_connection_are_judged_one_at_a_time_and_nothing_runs_behind_one(right_at: int) -> None:
    """Eight guesses that are sent at once are one guess: the first that fails is the last that is looked at."""
    lab = Lab(**(SETTINGS | {"connection.failed.authentication.delay.ms": "100"}))
    conn = lab.connect(PLAIN)
    told(lab, conn, "SaslHandshake", 1, handshake())
    for place in range(8):
        lab.send(conn, "SaslAuthenticate", 2, token(password="right" if place == right_at else f"guess {place}"))
        lab.send(conn, "Metadata", 9, message("MetadataRequest")(topics=None))
    before = len(lab.world.lines)
    effects = lab.turn()
    known = list(effects.known) == [conn]
    said = [line for line in lab.world.lines[before:] if "its login failed: a wrong password" in line]
    assert known is (right_at == 0)
    assert len(said) == (0 if known else 1), (
        "a failure is in the log at once, and the guesses behind it are not looked at"
    )
    if not known:
        assert sent(lab, effects, conn) == 0 and not effects.close
        assert lab.node.requests.failed_logins == 1
        lab.world.run_for(99)
        assert lab.node.requests.connections.get(conn).principal == "User:ANONYMOUS"
        lab.world.run_for(2)
        assert lab.node.requests.connections.get(conn) is None
        shown = lab.metrics()
        assert shown["rayft_failed_logins_total"] == 1
        door = f'{{listener="{PLAIN}",networkProcessor="0"}}'
        assert shown["kafka_server_socket_server_metrics_failed_authentication_total" + door] == 1


def test_a_known_peer_that_logs_in_anew_asks_nothing_meanwhile() -> None:
    """What is behind the login is not done for whom it was before."""
    lab = Lab(**(SETTINGS | {"connection.failed.authentication.delay.ms": "100"}))
    conn = lab.connect(PLAIN)
    log_in(lab, conn)
    told(lab, conn, "SaslHandshake", 1, handshake())
    lab.send(conn, "SaslAuthenticate", 2, token(password="wrong"))
    lab.send(conn, "Metadata", 9, message("MetadataRequest")(topics=None))
    lab.turn()
    login, behind = lab.node.requests.connections.get(conn).slots
    assert login.parked is not None and behind.parts is None
    lab.world.run_for(101)
    assert lab.node.requests.connections.get(conn) is None


def test_a_failed_login_is_in_the_log_though_its_peer_does_not_wait() -> None:
    lab = Lab(**(SETTINGS | {"connection.failed.authentication.delay.ms": "100"}))
    conn = lab.connect(PLAIN)
    told(lab, conn, "SaslHandshake", 1, handshake())
    told(lab, conn, "SaslAuthenticate", 2, token(password="wrong"))
    lab.node.closed(conn, False)
    lab.turn()
    assert len([line for line in lab.world.lines if "its login failed: a wrong password" in line]) == 1


def stored(name: str, key: bytes) -> EntitySet:
    fields = {"salt": b"s", "stored_key": key, "server_key": b"v", "iterations": 4096}
    return EntitySet("scram", (name, 2), tuple(fields.items()))


def changed(lab: Lab, op: Any) -> list[int]:
    """The connections that end when the broker's metadata says that."""
    image = lab.node.broker.cache.image
    image.replay(image.next_offset, op)
    lab.world.run_for(400)
    closed = lab.turn().close
    return [
        conn
        for conn in range(10_001, lab.conns + 1)
        if lab.node.requests.connections.get(conn) is None or conn in closed
    ]


@pytest.mark.parametrize("how", ["deleted", "changed"])
def test_connections_of_a_user_end_with_its_password(how: str) -> None:
    lab = Lab()
    alice, bob, nobody = lab.connect(PLAIN), lab.connect(PLAIN), lab.connect(PLAIN)
    logins = lab.node.dispatch.broker.logins
    assert changed(lab, stored("alice", b"1")) == changed(lab, stored("bob", b"1")) == []
    for conn, name in ((alice, "alice"), (bob, "bob")):
        connection = lab.node.requests.connections.get(conn)
        connection.principal = f"User:{name}"
        connection.kept = logins.kept("SCRAM-SHA-512", Accepted(b"", f"User:{name}"))
    assert changed(lab, stored("carol", b"1")) == []
    assert changed(lab, stored("alice", b"1")) == [], "the same as before"
    gone = EntityGone("scram", ("alice", 2)) if how == "deleted" else stored("alice", b"2")
    assert changed(lab, gone) == [alice]
    assert len([line for line in lab.world.lines if "the login of User:alice was taken back" in line]) == 1
    assert lab.node.requests.connections.get(bob) and lab.node.requests.connections.get(nobody)


def test_connections_of_a_token_end_with_it() -> None:
    lab = Lab()
    conn = lab.connect(PLAIN)
    token_set = EntitySet("token", ("t1",), (("owner", "User:alice"),))
    assert changed(lab, token_set) == []
    connection = lab.node.requests.connections.get(conn)
    said = Accepted(b"", "User:alice", 1000, by_token=True, token_id="t1")
    connection.kept = lab.node.dispatch.broker.logins.kept("SCRAM-SHA-512", said)
    assert changed(lab, EntitySet("token", ("t2",), ())) == []
    assert changed(lab, EntityGone("token", ("t1",))) == [conn]


def test_connections_of_a_node_end_when_a_rule_shuts_it_out() -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    lab = Lab(
        **{"authorizer.class.name": authorizer, "super.users": "User:ANONYMOUS;User:rayft-node-3;User:rayft-node-4"}
    )
    conns = [lab.connect(PLAIN) for _ in range(3)]
    for conn, name in zip(conns, ("rayft-node-3", "rayft-node-4", "alice"), strict=True):
        lab.node.requests.connections.get(conn).principal = f"User:{name}"

    def rule(name: str) -> EntitySet:
        values = (4, "kafka-cluster", 3, f"User:{name}", "*", 2, 2)
        return EntitySet("acl", values, tuple(zip(RULE_FIELDS, values, strict=True)))

    assert changed(lab, rule("alice")) == [], "a user is denied with each request"
    assert changed(lab, rule("rayft-node-3")) == [conns[0]]


def test_a_connection_ends_with_the_certificate_of_its_peer() -> None:
    lab = Lab()
    lab.conns += 4
    first = lab.conns - 3
    for conn, good_for_ms in zip(range(first, first + 4), (5000, 1000, 3000, 0), strict=True):
        lab.node.connected(conn, PLAIN, "127.0.0.1", 0, f"User:{conn}", good_for_ms)
    ends = []
    for ms in (900, 200, 2000, 2000, 9000):
        lab.world.run_for(ms)
        ends.append(
            [conn - first for conn in range(first, first + 4) if lab.node.requests.connections.get(conn) is None]
        )
    assert ends == [[], [1], [1, 2], [0, 1, 2], [0, 1, 2]]
    assert len([line for line in lab.world.lines if "is no longer good" in line]) == 3


def salts(lab: Lab, names: list[str]) -> list[bytes]:
    """The salts with which SCRAM answers."""
    found = []
    for name in names:
        exchange = lab.node.dispatch.broker.logins.begin("PLAINTEXT", "SCRAM-SHA-512")
        told = exchange.respond(f"n,,n={name},r=nonce".encode())
        fields = dict(part.split("=", 1) for part in told.token.decode().split(","))
        found.append(base64.b64decode(fields["s"]))
        assert fields["i"] == "4096"
    return found


def test_the_salt_of_a_user_that_does_not_exist_is_as_a_real_one_and_the_same_everywhere() -> None:
    ghosts = [f"ghost{number}" for number in range(30)]
    one, other = Lab(**{"super.users": "User:boss; User:root"}), Lab(**{"super.users": "User:root;User:boss"})
    other.node.runtime.random.uuid()  # two processes draw other numbers
    assert salts(one, ghosts) != salts(other, ghosts), "there is nothing that both know and nobody else does"
    for lab in (one, other):
        changed(lab, stored("root", b"secret"))
    invented = salts(one, ghosts)
    assert invented == salts(other, ghosts) == salts(one, ghosts) and len(set(invented)) == 30
    real = [bytes(dict(credential_of(f"u{n}", Mechanism.SCRAM_SHA_512, "p").fields)["salt"]) for n in range(30)]  # type: ignore[call-overload]
    for salt in (*invented, *real):
        assert 20 <= len(salt) <= 26 and salt.isalnum() and salt == salt.lower()
    changed(one, stored("root", b"another"))
    assert salts(one, ghosts) != invented
