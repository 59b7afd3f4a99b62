"""A collector that redirects, drips or talks much, and numbers that cannot be sent: the log says so, the next are sent."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from actors.node.metrics.family import GAUGE, Family, Sample
from actors.settings.keys import ConfigError

pytest.importorskip("opentelemetry.proto")
from actors.host.metrics import otlp

NUMBERS = [Sample(Family("number", GAUGE, "A number."), (), 1.0)]
TOKEN = {"Authorization": "Bearer of the test"}
DEADLINE_S = 30


class Collector:
    """A web server that answers with a status and headers, and knows what it was asked."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.reason: str | None = None
        self.asked: list[tuple[str, dict[str, str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.asked.append((self.command, dict(self.headers)))
                self.send_response(outer.status, outer.reason)
                for name, value in {"Content-Length": "0", **outer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/metrics"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@contextmanager
def collector() -> Iterator[Collector]:
    one = Collector()
    try:
        yield one
    finally:
        one.server.shutdown()
        one.server.server_close()


@contextmanager
def sender(url: str, metrics: Callable[[], Any] = lambda: NUMBERS) -> Iterator[otlp.Sender]:
    one = otlp.Sender(url, 0.05, metrics, {}, TOKEN)
    try:
        yield one
    finally:
        one.close()


def news(one: otlp.Sender) -> str:
    """The next sentence for the log."""
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        sentence = one.news()
        if sentence is not None:
            return sentence
        time.sleep(0.01)
    raise AssertionError("nothing is told")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_an_error_and_the_token_goes_nowhere_else(status: int) -> None:
    with collector() as there, collector() as other:
        there.status, there.headers = status, {"Location": other.url}
        with sender(there.url) as one:
            assert f"HTTP Error {status}" in news(one)
        assert there.asked[0][1]["Authorization"] == TOKEN["Authorization"]
        assert other.asked == []


def test_a_collector_that_drips_its_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "WHOLE_S", 0.5)
    over = threading.Event()
    came: list[socket.socket] = []

    def drip(sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            sock.recv(1 << 16)
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
            while not over.wait(0.02):
                sock.sendall(b"x")

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = listener.accept()
                came.append(sock)
                threading.Thread(target=drip, args=(sock,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        try:
            with sender(f"http://127.0.0.1:{listener.getsockname()[1]}/") as one:
                assert "took more than" in news(one)
                until = time.monotonic() + DEADLINE_S
                while len(came) < 2 and time.monotonic() < until:
                    time.sleep(0.01)
                assert len(came) >= 2
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't start new thread"), TypeError("odd")], ids=repr)
def test_whatever_fails_is_told_and_the_next_numbers_are_sent(error: Exception) -> None:
    fails = True

    def metrics() -> list[Sample]:
        if fails:
            raise error
        return NUMBERS

    with collector() as there, sender(there.url, metrics) as one:
        assert (str(error) or repr(error)) in news(one)
        fails = False
        assert news(one).endswith("again")
        assert there.asked


def test_a_collector_that_talks_much_gets_one_short_line() -> None:
    with collector() as there:
        there.status, there.reason = 400, "x" * 50_000
        with sender(there.url) as one:
            assert len(news(one)) < 1000


def test_a_user_in_the_url_is_refused_without_the_password() -> None:
    with pytest.raises(ConfigError, match="headers") as refused:
        otlp.endpoint("http://me:secret@collector:4318/v1/metrics")
    assert "secret" not in str(refused.value)
    assert otlp.endpoint("http://collector:4318/v1/@metrics") == "http://collector:4318/v1/@metrics"
