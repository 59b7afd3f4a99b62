"""The HTTP server of one page, as strangers find it."""

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from actors.host.net import http_door
from actors.host.net.http_door import CONNECTIONS_MAX, HttpDoor, PageRequest

pytestmark = pytest.mark.long


class Book:
    """Counts its pages; one is made when `go` is set."""

    def __init__(self) -> None:
        self.made = 0
        self.begun, self.go = threading.Event(), threading.Event()
        self.go.set()
        self.body = b"page"

    def __call__(self) -> "Book":
        self.begun.set()
        assert self.go.wait(10)
        self.made += 1
        return self

    def form(self, asked: PageRequest) -> tuple[str, Mapping[str, str], bytes]:
        if asked.headers.get("accept") == "nonsense":
            raise ValueError
        return "200 OK", {"Content-Type": "text/plain"}, self.body + b" %d" % self.made


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.fixture
def door(book: Book) -> Iterator[HttpDoor]:
    one = HttpDoor("127.0.0.1", 0, book)
    yield one
    one.close()
    one.close()


def dial(door: HttpDoor) -> socket.socket:
    return socket.create_connection(("127.0.0.1", door.port), timeout=10)


def said(sock: socket.socket) -> bytes:
    """Everything until the end."""
    data = b""
    while part := sock.recv(1 << 16):
        data += part
    return data


def ask(door: HttpDoor, head: bytes = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") -> bytes:
    with dial(door) as sock:
        sock.sendall(head)
        return said(sock)


def test_a_page_and_what_is_none(door: HttpDoor) -> None:
    found = ask(door)
    assert found.startswith(b"HTTP/1.1 200 OK\r\n") and found.endswith(b"\r\n\r\npage 1")
    assert b"Content-Length: 6\r\n" in found
    assert ask(door, b"HEAD / HTTP/1.0\n\n").endswith(b"\r\n\r\n")
    assert ask(door, b"POST / HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 405")
    assert ask(door, b"\0\0\0\7garbage\n\n").startswith(b"HTTP/1.1 400")
    assert ask(door, b"GET / HTTP/1.1\r\nAccept: nonsense\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert ask(door, b"GET / HTTP/1.1\r\na: " + b"b" * 9000).startswith(b"HTTP/1.1 431")
    assert ask(door).endswith(b"page 4"), "it goes on"


def test_a_page_that_cannot_be_made_does_not_end_the_server() -> None:
    book, lacks = Book(), [False, True]

    def make() -> Book:
        if lacks.pop():
            raise MemoryError
        return book()

    door = HttpDoor("127.0.0.1", 0, make)
    try:
        assert ask(door).startswith(b"HTTP/1.1 503")
        assert ask(door).endswith(b"page 1")
    finally:
        door.close()


def test_unfinished_requests_take_a_few_descriptors_and_keep_nobody_out(door: HttpDoor, book: Book) -> None:
    before = len(os.listdir("/proc/self/fd"))
    threads = threading.active_count()
    with ExitStack() as kept:
        for _ in range(10 * CONNECTIONS_MAX):
            sock = kept.enter_context(dial(door))
            sock.sendall(b"GET /met")
        assert ask(door).endswith(b"page 1")
        here = len(os.listdir("/proc/self/fd")) - before - 10 * CONNECTIONS_MAX
        assert here <= CONNECTIONS_MAX and threading.active_count() == threads
        assert ask(door).endswith(b"page 2")


def test_an_unfinished_request_has_a_time(door: HttpDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_door, "REQUEST_S", 0.2)
    with dial(door) as sock:
        sock.sendall(b"GET /")
        assert said(sock) == b""


def test_an_answer_that_nobody_takes_has_a_time(door: HttpDoor, book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_door, "ANSWER_S", 0.2)
    book.body = bytes(50_000_000)
    with dial(door) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        ended = threading.Event()

        def wait() -> None:
            while door._connections or not book.made:
                ended.wait(0.01)
            ended.set()

        thread = threading.Thread(target=wait)
        thread.start()
        thread.join(10)
        assert ended.is_set() and len(said(sock)) < 50_000_000 if book.made else False


def test_one_page_is_made_at_a_time_and_whoever_waits_gets_the_next(door: HttpDoor, book: Book) -> None:
    book.go.clear()
    with ExitStack() as kept:
        first = kept.enter_context(dial(door))
        first.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert book.begun.wait(10)
        others = [kept.enter_context(dial(door)) for _ in range(10)]
        for sock in others:
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        book.go.set()
        assert said(first).endswith(b"page 1")
        pages = {said(sock)[-6:] for sock in others}
    assert book.made == door.pages <= 3 and pages <= {b"page 2", b"page 3"}


def test_where_all_have_asked_another_one_is_closed(door: HttpDoor, book: Book) -> None:
    book.go.clear()
    with ExitStack() as kept:
        first = kept.enter_context(dial(door))
        first.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert book.begun.wait(10)
        several = [kept.enter_context(dial(door)) for _ in range(CONNECTIONS_MAX - 1)]
        for sock in several:
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        book.go.set()
        assert all(b"page" in said(sock) for sock in (first, *several))


def test_those_who_do_not_take_their_answers_keep_nobody_out(door: HttpDoor, book: Book) -> None:
    book.body = bytes(20_000_000)
    with ExitStack() as kept:
        several = [kept.enter_context(dial(door)) for _ in range(CONNECTIONS_MAX)]
        for sock in several:
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        for sock in several:
            assert sock.recv(4).startswith(b"HTTP"), "each has asked, and is answered"
        book.body = b"page"
        assert b"page" in ask(door)
