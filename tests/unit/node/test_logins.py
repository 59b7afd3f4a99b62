"""Logins at a node: when a peer is known, how large its requests may be, and what a login that is over means."""

from typing import Any

import pytest

from actors.wire import framing
from actors.wire.messages import message
from tests.unit.node.test_lanes import CONTROL, PLAIN, Lab, versions

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
    prefix = "kafka.network:type=SocketServer,name="
    assert shown[prefix + "ExpiredConnectionsKilledCount"] == data
    assert shown[prefix + "ControlPlaneExpiredConnectionsKilledCount"] == plane


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
