"""What is sent over TLS: in order, piece by piece as the peer reads, and to the end before the connection is closed."""

import contextlib
import datetime
import random
import select
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.host.net import tls_link
from actors.host.net.link import UNSENT_BYTES_HIGH
from actors.host.net.tls_link import PIECE_BYTES, TlsLink
from actors.host.security.certificates import authority, issue
from tests.unit.host.test_loop import DEADLINE_S, Running, encrypted, exactly, frame

NOW = datetime.datetime.now(datetime.UTC)
BY = authority("test", NOW)
SIZES = (0, 1, 100, 16_380, 16_384, 16_385, PIECE_BYTES - 4, PIECE_BYTES, PIECE_BYTES + 1, 700_000, 3_000_000)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "node.pem").write_bytes(issue(BY, "node", NOW, ["localhost"], days=1).pem)
    one = encrypted(tmp_path / "node.pem")
    yield one
    one.end()


def client(node: Running, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLSocket:
    context = ssl.create_default_context(cadata=BY.certificate.decode())
    context.minimum_version = context.maximum_version = version
    return context.wrap_socket(node.connect("CLIENTS"), server_hostname="localhost")


def link(node: Running) -> TlsLink:
    node.until(lambda: node.loop._links)
    (found,) = node.loop._links.values()
    assert isinstance(found, TlsLink)
    return found


def echoed(sock: ssl.SSLSocket, whole: bytes, rng: random.Random) -> bytes:
    """What comes back while everything is sent, by one thread: two at once break an SSL socket of Python before 3.13."""
    sock.setblocking(False)
    unsent, came = memoryview(whole), bytearray()
    while len(came) < len(whole):
        if rng.random() < 0.01:
            time.sleep(0.02)
        sent = 0
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
            sent = sock.send(unsent[:100_000]) if unsent else 0  # what was refused is offered again
        unsent, before = unsent[sent:], len(came)
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
            part = sock.recv(rng.choice((1000, 300_000)))
            assert part, "closed too early"
            came += part
        if not sent and len(came) == before:
            assert any(select.select([sock], [sock] if unsent else [], [], DEADLINE_S)), "nothing comes"
    return bytes(came)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("seed", range(3))
def test_answers_of_any_size_come_in_order_however_slowly_they_are_read(
    node: Running, seed: int, version: ssl.TLSVersion
) -> None:
    rng = random.Random(seed)
    whole = b"".join(frame(rng.randbytes(rng.choice(SIZES))) for _ in range(30))
    with client(node, version) as sock:
        assert echoed(sock, whole, rng) == whole
        assert link(node).unsent_bytes() == 0


def test_no_more_of_an_answer_is_encrypted_than_its_peer_reads(node: Running) -> None:
    """The rest is seen as unsent, and the peer's next requests wait for it."""
    with client(node) as sock:
        sock.sendall(frame(b"small"))
        exactly(sock, 9)
        data = frame(bytes(24 << 20))
        node.node.act = lambda conn, heard: node.node.extra.update(send=[(conn, [data])])
        sock.sendall(frame(b"give me the large one"))
        one = link(node)
        node.until(lambda: ("congested", one.conn, True) in node.node.seen)
        assert one.unsent_bytes() > UNSENT_BYTES_HIGH
        assert one.transport.get_write_buffer_size() <= PIECE_BYTES + 64 * 1024
        assert exactly(sock, len(data)) == data
        node.until(lambda: ("congested", one.conn, False) in node.node.seen)
        assert one.unsent_bytes() == 0


def test_small_answers_that_are_not_read_take_their_bytes(node: Running) -> None:
    """A part for each had a view of its own: fifty times its bytes."""
    with client(node) as sock:
        sock.sendall(frame(b"small"))
        exactly(sock, 9)
        large, small = frame(bytes(24 << 20)), [bytes([n & 255]) * (n % 20) for n in range(20_000)]
        node.node.act = lambda conn, heard: node.node.extra.update(
            send=[(conn, [large]), (conn, small), (conn, [large])]
        )
        sock.sendall(frame(b"give me all"))
        one = link(node)
        node.until(lambda: one.unsent_bytes() > UNSENT_BYTES_HIGH)
        assert len(one._parts) < 100
        whole = large + b"".join(small) + large
        assert exactly(sock, len(whole)) == whole
        assert one.unsent_bytes() == 0


def test_what_was_sent_before_a_close_arrives_though_it_is_read_late(
    node: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.host.loop.SHUTDOWN_TIMEOUT_S", 0.2)
    data = frame(bytes(24 << 20))
    node.node.act = lambda conn, heard: node.node.extra.update(send=[(conn, [data])], close=[conn])
    with client(node) as sock:
        sock.sendall(frame(b"the last request"))
        time.sleep(0.6)
        assert exactly(sock, len(data)) == data
        assert sock.recv(1) == b""


def test_a_peer_that_reads_nothing_is_closed_after_a_time(node: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_link, "CLOSE_TIMEOUT_S", 0.3)
    data = frame(bytes(24 << 20))
    lost: list[TlsLink] = []
    told = node.loop.lost
    monkeypatch.setattr(node.loop, "lost", lambda one: (lost.append(one), told(one)))
    node.node.act = lambda conn, heard: node.node.extra.update(send=[(conn, [data])], close=[conn])
    with client(node) as sock:
        sock.sendall(frame(b"the last request"))
        node.until(lambda: lost)
        assert lost[0].unsent_bytes() == 0


def test_small_parts_share_a_record(node: Running) -> None:
    """A record for each would be read, and decrypted, one by one."""
    reads: list[int] = []
    node.node.act = lambda conn, heard: node.node.extra.update(send=[(conn, [bytes([n]) for n in range(100)])])
    with client(node) as sock:
        sock.sendall(frame(b"many parts"))
        while sum(reads) < 100:
            reads.append(len(sock.recv(1000)))
    assert reads == [100]
