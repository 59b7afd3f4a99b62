"""A small HTTP server for a few pages, which strangers may reach.

This file alone decides what they may take of the process. Rules:

1. One thread serves all. It holds `CONNECTIONS_MAX` connections; one more takes the place of the one that has been there
   longest without a whole request, or else without taking its answer; where all wait for theirs, it is closed.
2. A request has `REQUEST_BYTES_MAX` bytes at most and `REQUEST_S` seconds to arrive, its answer `ANSWER_S` to be taken.
3. One page is made at a time. Every connection whose request is there by then gets it. The next one is made after a
   rest of `REST` times what this one took (`REST_S_MAX` at most), so that no number of requests has more than a part of the
   node. Light requests (whether the node lives, say) do not wait for that: theirs is a page apart, one in `LIGHT_REST_S`.
4. A connection is closed behind its answer.
"""

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

CONNECTIONS_MAX = 16
REQUEST_BYTES_MAX = 8 << 10
REQUEST_S = 5.0
ANSWER_S = 30.0
REST = 4
LIGHT_REST_S = 0.01
REST_S_MAX = 5.0
"""The longest rest, s: a page may take long since others were waited for, and who asks next is given up after ANSWER_S."""
LOOK_S = 0.5
END = b"\r\n\r\n"


class PageRequest(NamedTuple):
    """A request for a page."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    """The headers by name in small letters."""


class Page(Protocol):
    """The content that is shown, as of one moment."""

    def form(self, asked: PageRequest) -> tuple[str, Mapping[str, str], bytes]:
        """(status, headers, body) of the answer, in the form that the request asks for."""


class _Connection:
    def __init__(self, sock: socket.socket, until_s: float) -> None:
        self.sock = sock
        self.until_s = until_s
        """The time at which the connection is closed, whatever it does."""
        self.data = bytearray()
        self.asked: PageRequest | None = None
        self.answer: memoryview | None = None
        """The part of the answer that is still to be sent; None: there is no answer yet."""


class HttpDoor:
    """The HTTP server, until `close`."""

    def __init__(
        self, host: str, port: int, make: Callable[[], Page], light: Callable[[PageRequest], bool] = lambda asked: False
    ) -> None:
        """`make` is called by the thread of the server. `light`: whether a request is answered at next to no cost. Raises
        OSError if the address cannot be used."""
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind(address)
            self._listener.listen(CONNECTIONS_MAX)
        except OSError:
            self._listener.close()
            raise
        self._listener.setblocking(False)
        self.host, self.port = (str(self._listener.getsockname()[0]), int(self._listener.getsockname()[1]))
        self.pages = 0
        """How many pages have been made."""
        self._make = make
        self._light = light
        self._rest_until_s = {True: 0.0, False: 0.0}
        """Until when no page is made for light requests, and for the others."""
        self._connections: dict[_Connection, None] = {}
        """The open connections, in order of arrival."""
        self._asking: dict[bool, list[_Connection]] = {True: [], False: []}
        """The connections whose requests are whole and have no answer: those with a light one, and the others."""
        self._closing = False
        self._wake, self._woken = socket.socketpair()
        self._poll = selectors.DefaultSelector()
        self._poll.register(self._listener, selectors.EVENT_READ)
        self._poll.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()

    @property
    def bytes_kept(self) -> int:
        """Bytes of requests that have come and of answers that are left, over all connections. Any thread may ask."""
        return sum([len(one.data) + len(one.answer or b"") for one in list(self._connections)])

    def close(self) -> None:
        """Stop serving; connections that are open are closed. A second call does nothing."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._wake.send(b"x")
        self._thread.join()
        self._wake.close()

    # ---- the thread

    def _run(self) -> None:
        while not self._closing:
            now_s = time.monotonic()
            due_s = min(
                (self._rest_until_s[light] for light, asking in self._asking.items() if asking), default=now_s + LOOK_S
            )
            for key, _ in self._poll.select(max(0.0, min(LOOK_S, due_s - now_s))):
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.data, _Connection):
                    self._move(key.data)
            now_s = time.monotonic()
            for one in [one for one in self._connections if one.until_s <= now_s]:
                self._close(one)
            for light, asking in self._asking.items():
                if asking and now_s >= self._rest_until_s[light]:
                    self._answer(light)
        for one in list(self._connections):
            self._close(one)
        self._poll.close()
        self._listener.close()
        self._woken.close()

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError:  # no descriptor is left: connections that wait go on waiting
            time.sleep(LOOK_S / 10)
            return
        if len(self._connections) >= CONNECTIONS_MAX:
            slow = next((one for one in self._connections if one.asked is None), None)
            slow = slow or next((one for one in self._connections if one.answer is not None), None)
            if slow is None:
                sock.close()
                return
            self._close(slow)
        sock.setblocking(False)
        one = _Connection(sock, time.monotonic() + REQUEST_S)
        self._connections[one] = None
        self._poll.register(sock, selectors.EVENT_READ, one)

    def _move(self, one: _Connection) -> None:
        """Read or write what a connection lets be read or written now."""
        try:
            if one.answer is not None:
                one.answer = one.answer[one.sock.send(one.answer[: 1 << 20]) :]
                if not one.answer:
                    self._close(one)
                return
            data = one.sock.recv(REQUEST_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            self._close(one)
            return
        if not data:
            self._close(one)
        elif one.asked is None:
            one.data += data
            if END in one.data or b"\n\n" in one.data:
                self._ask(one)
            elif len(one.data) > REQUEST_BYTES_MAX:
                self._say(one, "431 Request Header Fields Too Large", {}, b"")

    def _ask(self, one: _Connection) -> None:
        lines = bytes(one.data).decode("latin-1").replace("\r\n", "\n").split("\n")
        words = lines[0].split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/"):
            self._say(one, "400 Bad Request", {}, b"")
            return
        pairs = [line.partition(":") for line in lines[1:] if line]
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        path, _, query = words[1].partition("?")
        one.asked = PageRequest(words[0], path, query, headers)
        if one.asked.method not in ("GET", "HEAD"):
            self._say(one, "405 Method Not Allowed", {"Allow": "GET, HEAD"}, b"")
            return
        one.until_s = time.monotonic() + ANSWER_S
        self._asking[self._light(one.asked)].append(one)

    def _answer(self, light: bool) -> None:
        """Make a page for all connections that have asked: those with a light request, or the others."""
        asking, self._asking[light] = self._asking[light], []
        began_s = time.monotonic()
        page: Page | None = None
        with contextlib.suppress(Exception):  # no memory, say: later requests get a page again
            page, self.pages = self._make(), self.pages + 1
        for one in asking:
            if page is None:
                if one in self._connections:
                    self._say(one, "503 Service Unavailable", {}, b"")
            elif one in self._connections and one.asked is not None:
                try:
                    status, headers, body = page.form(one.asked)
                except Exception:  # a header that an encoder does not understand, say; the others get theirs
                    self._say(one, "400 Bad Request", {}, b"")
                else:
                    self._say(one, status, headers, body)
        ended_s = time.monotonic()
        self._rest_until_s[light] = ended_s + (LIGHT_REST_S if light else min(REST * (ended_s - began_s), REST_S_MAX))

    def _say(self, one: _Connection, status: str, headers: Mapping[str, str], body: bytes) -> None:
        told = {**headers, "Content-Length": str(len(body)), "Connection": "close"}
        head = f"HTTP/1.1 {status}\r\n" + "".join(f"{name}: {value}\r\n" for name, value in told.items()) + "\r\n"
        silent = one.asked is not None and one.asked.method == "HEAD"
        one.answer = memoryview(head.encode() + (b"" if silent else body))
        one.until_s = time.monotonic() + ANSWER_S
        self._poll.modify(one.sock, selectors.EVENT_WRITE, one)

    def _close(self, one: _Connection) -> None:
        if one in self._connections:
            del self._connections[one]
            self._poll.unregister(one.sock)
            one.sock.close()
