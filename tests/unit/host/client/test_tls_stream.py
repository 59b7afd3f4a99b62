"""TLS in memory over a socket: all bytes in order, ends and refusals as a socket has them."""

import contextlib
import datetime
import random
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors.host.client.tls_stream import READ_BYTES, WRITE_BYTES, TlsStream
from actors.host.security.certificates import authority, issue

NOW = datetime.datetime.now(datetime.UTC)
BY = authority("test", NOW)
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@contextlib.contextmanager
def served(tmp_path: Path, serve: Callable[[socket.socket, ssl.SSLContext], None]) -> Iterator[socket.socket]:
    """A socket whose other end is served by a thread."""
    (tmp_path / "node.pem").write_bytes(issue(BY, "node", NOW, ["localhost"], days=1).pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "node.pem")
    ours, theirs = socket.socketpair()
    theirs.settimeout(20)
    ours.setblocking(False)

    def run() -> None:
        with contextlib.suppress(OSError), theirs:
            serve(theirs, context)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield ours
    finally:
        ours.close()
        thread.join(20)
        assert not thread.is_alive()


def stream(sock: socket.socket, version: ssl.TLSVersion | None = None, trusts: bytes = BY.certificate) -> TlsStream:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=trusts.decode())
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return TlsStream(context, sock, "localhost", memoryview(bytearray(READ_BYTES)))


def until_done(one: TlsStream, do: Callable[[], int | None]) -> int | None:
    """The result, after as many tries as it takes."""
    while True:
        try:
            return do()
        except BlockingIOError:
            ready = select.select([one], [one] if one.has_unsent else [], [], 20)
            assert ready[0] or ready[1], "nothing comes"


def echo(sock: socket.socket, context: ssl.SSLContext) -> None:
    with context.wrap_socket(sock, server_side=True) as tls:
        while data := tls.recv(1 << 16):
            tls.sendall(data)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", range(4))
def test_bytes_of_any_parts_come_back_in_order_into_any_room(
    tmp_path: Path, seed: int, version: ssl.TLSVersion
) -> None:
    rng = random.Random(seed)
    parts = [rng.randbytes(rng.choice((0, 1, 30, 16_383, 16_384, 100_000, WRITE_BYTES + 1))) for _ in range(30)]
    whole = b"".join(parts)
    with served(tmp_path, echo) as sock:
        one = stream(sock, version)
        until_done(one, one.do_handshake)
        out, came = [memoryview(part) for part in parts], bytearray()
        while len(came) < len(whole):
            if out:
                with contextlib.suppress(BlockingIOError):
                    count = one.sendmsg(out[:8])
                    while out and count >= len(out[0]):
                        count -= len(out.pop(0))
                    if count:
                        out[0] = out[0][count:]
            room = memoryview(bytearray(rng.choice((1, 100, 16_384, 70_000, 1 << 20))))
            with contextlib.suppress(BlockingIOError):
                count = one.recv_into(room)
                assert count, "it ended"
                came += room[:count]
                continue
            if one.has_unsent:
                with contextlib.suppress(BlockingIOError):
                    one.flush()
            select.select([one], [one] if one.has_unsent or out else [], [], 20)
        assert bytes(came) == whole


@pytest.mark.parametrize("word", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_what_came_before_the_end_is_read_and_then_the_end(tmp_path: Path, version: ssl.TLSVersion, word: bool) -> None:
    """Whether the peer says goodbye in TLS or only closes."""
    data = bytes(range(256)) * 1000

    def serve(sock: socket.socket, context: ssl.SSLContext) -> None:
        tls = context.wrap_socket(sock, server_side=True)
        tls.sendall(data)
        if word:
            with contextlib.suppress(OSError):
                tls.unwrap()
        tls.close()

    with served(tmp_path, serve) as sock:
        one, came = stream(sock, version), bytearray()
        until_done(one, one.do_handshake)
        room = memoryview(bytearray(1 << 20))
        while count := until_done(one, lambda: one.recv_into(room)):
            came += room[:count]
        assert bytes(came) == data
        assert until_done(one, lambda: one.recv_into(room)) == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_damaged_record_is_no_end_of_the_peer(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """What came before it is read, from records of any size, and then the reason is told."""
    sizes = (1, 0, 7, 16_384, 16_383, 1, 40_000)

    def serve(sock: socket.socket, context: ssl.SSLContext) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_side=True)
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
                break
            sock.sendall(outgoing.read())
            incoming.write(sock.recv(1 << 16))
        for size in sizes:
            tls.write(bytes(size))
        data = outgoing.read()
        tls.write(b"damaged")
        bad = bytearray(outgoing.read())
        bad[-1] ^= 1
        sock.sendall(data + bad)
        sock.recv(1)

    with served(tmp_path, serve) as sock:
        one, came = stream(sock, version), 0
        until_done(one, one.do_handshake)
        room = memoryview(bytearray(1 << 20))

        def read() -> None:
            nonlocal came
            while count := until_done(one, lambda: one.recv_into(room)):
                came += count

        with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
            read()
        assert came == sum(sizes)
        with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):
            one.held_into(room)
        kept = one._broken
        assert kept is not None and kept.__traceback__ is None and kept.__context__ is None, "it holds no buffer"


def test_a_peer_that_speaks_no_tls_and_one_that_is_not_trusted_are_refused_and_told(tmp_path: Path) -> None:
    def plain(sock: socket.socket, context: ssl.SSLContext) -> None:
        sock.recv(1 << 16)
        sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with served(tmp_path, plain) as sock:
        one = stream(sock)
        with pytest.raises(ssl.SSLError, match=r"WRONG_VERSION_NUMBER|RECORD_LAYER|PACKET_LENGTH"):
            until_done(one, one.do_handshake)
    told: list[str] = []

    def strict(sock: socket.socket, context: ssl.SSLContext) -> None:
        try:
            context.wrap_socket(sock, server_side=True).recv(1)
        except ssl.SSLError as error:
            told.append(str(error.reason))

    with served(tmp_path, strict) as sock:
        one = stream(sock, trusts=authority("another", NOW).certificate)
        with pytest.raises(ssl.SSLCertVerificationError):
            until_done(one, one.do_handshake)
    assert told == ["TLSV1_ALERT_UNKNOWN_CA"], "the alert has reached the peer"


def test_a_peer_that_ends_during_the_handshake_is_an_error(tmp_path: Path) -> None:
    def serve(sock: socket.socket, context: ssl.SSLContext) -> None:
        sock.recv(10)

    with served(tmp_path, serve) as sock:
        one = stream(sock)
        with pytest.raises(OSError):
            until_done(one, one.do_handshake)
