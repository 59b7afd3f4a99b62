"""What a peer can make a node hold before it has said who it is: on a SASL listener, and in a TLS handshake."""

import contextlib
import datetime
import random
import re
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.host.net.handshakes import HANDSHAKE_BYTES, UNDER_WAY_OF_A_HOST
from actors.host.security.certificates import authority, issue, write
from actors.wire import framing
from actors.wire.messages import message
from tests.integration.answers.dialogue import request
from tests.integration.conftest import until
from tests.integration.security.nodes import ADMIN, ADMIN_PASSWORD, SecureCluster

LIMIT = 8192
MIB = 1 << 20
NOISE = 20 * MIB
"""What a node's memory moves by itself."""


def address(cluster: SecureCluster) -> tuple[str, int]:
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    return host, int(port)


def resident(cluster: SecureCluster) -> int:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{cluster.processes[0].pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def closed(peer: socket.socket) -> bool:
    """Whether the node closes a connection, whatever it sends before."""
    peer.settimeout(10)
    try:
        while peer.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def ask(peer: socket.socket, name: str, version: int, body: Any) -> Any:
    peer.sendall(b"".join(framing.encode_request(name, version, 1, "c", body)))
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack(">i", data[:4])[0]:
        part = peer.recv(1 << 16)
        if not part:
            raise ConnectionError("closed")
        data += part
    return framing.decode_response(name, version, memoryview(data)[4:])


def log_in(peer: socket.socket) -> None:
    ask(peer, "SaslHandshake", 1, message("SaslHandshakeRequest")(mechanism="PLAIN"))
    token = f"\0{ADMIN}\0{ADMIN_PASSWORD}".encode()
    told = ask(peer, "SaslAuthenticate", 2, message("SaslAuthenticateRequest")(auth_bytes=token))
    assert told.error_code == 0


def test_a_stranger_sends_8_kib_and_somebody_who_is_known_sends_more(secure: SecureCluster) -> None:
    with socket.create_connection(address(secure)) as peer:
        peer.sendall(struct.pack(">i", LIMIT + 1))
        assert closed(peer)
    until(lambda: secure.said(f"a frame of {LIMIT + 1} bytes; 0 to {LIMIT} are allowed"))
    with socket.create_connection(address(secure)) as peer:
        body = request("ApiVersions", client_software_name="n" * 7900, client_software_version="1")
        assert ask(peer, "ApiVersions", 3, body).error_code == 0
        log_in(peer)
        many = [{"name": f"{'no' * 100}-{number}"} for number in range(5_000)]
        told = ask(peer, "Metadata", 9, request("Metadata", topics=many, allow_auto_topic_creation=False))
        assert len(told.topics) == len(many)


def test_a_thousand_strangers_hold_8_kib_each_at_most(secure: SecureCluster) -> None:
    before = resident(secure)
    with contextlib.ExitStack() as kept:
        for number in range(1_000):
            peer = kept.enter_context(socket.create_connection(address(secure)))
            claimed, sent = (LIMIT, LIMIT - 1) if number % 4 == 0 else (100 * MIB, 60_000)
            with contextlib.suppress(OSError):
                peer.sendall(struct.pack(">i", claimed) + bytes(sent))
        with socket.create_connection(address(secure)) as good:
            log_in(good)
        assert resident(secure) - before < 1_000 * LIMIT + NOISE


TOKENS = [
    b"", b"\0", b"\0\0", b"\0a\0", b"a\0b\0c\0d", b"\xff" * 40, b"\0" * 8000, b"\0" + b"a" * 7000 + b"\0b",
    b"n,,n=admin,r=x", b"p=tls-unique,,n=admin,r=x", b"n,a=other,n=admin,r=x", b"n,,n==41,r=x", b"n,,n=,r=",
    b"y,,n=a,r=" + b"x" * 5000, b"c=biws,r=x,p=AAAA", b"n,,m=ext,n=a,r=x",
]  # fmt: skip
"""A corpus of first tokens, for every mechanism."""


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_any_tokens_end_a_login_with_one_line_and_nothing_else(secure: SecureCluster, mechanism: str) -> None:
    rng = random.Random(mechanism)
    tokens = [*TOKENS, *(rng.randbytes(rng.randrange(200)) for _ in range(4))]
    for token in tokens:
        with socket.create_connection(address(secure)) as peer:
            peer.settimeout(10)
            ask(peer, "SaslHandshake", 1, message("SaslHandshakeRequest")(mechanism=mechanism))
            with contextlib.suppress(ConnectionError):
                for one in (token, b"c=biws,r=x,p=AAAA"):
                    told = ask(peer, "SaslAuthenticate", 2, message("SaslAuthenticateRequest")(auth_bytes=one))
                    assert told.error_code in (0, 58), told
                    if told.error_code == 58:
                        assert not told.auth_bytes and "invalid credentials" in told.error_message
                        break
                else:
                    raise AssertionError(f"{token!r} logs in")
            assert closed(peer)
    assert not secure.said("Traceback")


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    """One node with TLS on both listeners."""
    home, now = tmp_path_factory.mktemp("handshakes"), datetime.datetime.now(datetime.UTC)
    by = authority("test", now)
    write(home / "node.pem", issue(by, "node", now, ["127.0.0.1"], "rayft").pem)
    write(home / "ca.pem", by.certificate)
    settings = {
        "listener.security.protocol.map": "BROKER:SSL,CONTROLLER:SSL",
        "ssl.keystore.location": str(home / "node.pem"),
        "ssl.truststore.location": str(home / "ca.pem"),
        "ssl.client.auth": "requested",
        "super.users": "User:CN=node,OU=rayft",
    }
    cluster = SecureCluster(home, settings, nodes=1)
    yield cluster
    cluster.stop()


def hello() -> bytes:
    """A client's first message."""
    context, out = ssl.create_default_context(), ssl.MemoryBIO()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out).do_handshake()
    return out.read()


def versions(cluster: SecureCluster) -> bool:
    """Whether a good client is served now."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(address(cluster), 10) as plain, context.wrap_socket(plain) as peer:
            return ask(peer, "ApiVersions", 0, request("ApiVersions")).error_code == 0
    except OSError:
        return False


RECORD = b"\x16\x03\x01\x40\x00"
BEGINNINGS = {
    "nothing": b"",
    "half of a first message": hello()[:100],
    "a first message": hello(),
    "a first message without an end": RECORD + b"\x01\x01\xff\xff" + bytes(16380) + 6 * (RECORD + bytes(16384)),
}


@pytest.mark.timeout(120)
def test_a_thousand_handshakes_that_never_end_hold_what_is_stated_and_leave_nothing(encrypted: SecureCluster) -> None:
    assert versions(encrypted)
    before = resident(encrypted)
    for kind, sent in BEGINNINGS.items():
        with contextlib.ExitStack() as kept:
            for number in range(250):  # the door takes fewer of two hosts
                peer = kept.enter_context(socket.socket())
                peer.bind((f"127.0.0.{2 + number % 2}", 0))
                peer.connect(address(encrypted))
                peer.setblocking(False)
                with contextlib.suppress(OSError):
                    peer.send(sent)
            until(lambda: versions(encrypted))
            held = resident(encrypted) - before
            assert held < 2 * UNDER_WAY_OF_A_HOST * HANDSHAKE_BYTES + NOISE, kind
    until(lambda: resident(encrypted) - before < NOISE)


def test_random_records_end_a_handshake_with_a_clear_line(encrypted: SecureCluster) -> None:
    rng, first = random.Random(5), hello()
    corpus = [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">i", 20) + bytes(20),
        b"\x16\x03\x01\xff\xff" + bytes(100),
        b"\x80" * 60,
    ]
    for _ in range(40):
        one = bytearray(first)
        for _ in range(rng.randrange(1, 6)):
            one[rng.randrange(len(one))] = rng.randrange(256)
        corpus.append(bytes(one))
        corpus.append(rng.randbytes(rng.randrange(1, 600)))
    for sent in corpus:
        with socket.create_connection(address(encrypted)) as peer, contextlib.suppress(OSError):
            peer.sendall(sent)
            peer.shutdown(socket.SHUT_WR)
            peer.settimeout(5)
            while peer.recv(1 << 16):
                pass
    assert versions(encrypted)
    lines = [line for line in encrypted.logs[0].read_text().splitlines() if "no TLS with" in line]
    assert lines and not any(line.endswith((": ", ":")) for line in lines), lines
    assert not encrypted.said("Traceback")
