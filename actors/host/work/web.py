"""Requests to web servers that end in time.

urllib has a time limit for each wait alone, so a server that sends a byte now and then keeps a thread for ever. This file
alone decides how a request has one for the whole, from the first address that is tried to the last byte of the answer: its
connections are broken off, whatever they wait for.
"""

import contextlib
import http.client
import socket
import ssl
import threading
import urllib.request
from typing import Any


class TookTooLong(OSError):
    """A request whose time was over. The text says so."""


def opener(
    deadline: "Deadline", redirects: urllib.request.HTTPRedirectHandler, trusted: ssl.SSLContext | None = None
) -> urllib.request.OpenerDirector:
    """What opens URLs with connections that end with a deadline. `trusted`: whom TLS trusts; None: whom the system does."""
    return urllib.request.build_opener(redirects, _Plain(deadline), _Secure(deadline, trusted))


class Deadline:
    """Breaks off the connections of one request when its time is over, whatever they wait for. Leaving the block raises
    TookTooLong then."""

    def __init__(self, whole_s: float) -> None:
        self._whole_s = whole_s
        self._changing = threading.Lock()
        self._over = False
        self._sockets: list[socket.socket] = []
        """The sockets of the request, as copies, since TLS takes a socket out of the object that it is given."""
        self._timer = threading.Timer(whole_s, self._end)
        self._timer.daemon = True

    def connect(self, *arguments: Any, **named: Any) -> socket.socket:
        """A connection that ends with the time. Raises OSError."""
        sock = socket.create_connection(*arguments, **named)
        with self._changing:
            self._sockets.append(sock.dup())
            if self._over:
                _break(sock)
        return sock

    def _end(self) -> None:
        with self._changing:
            self._over = True
            for sock in self._sockets:
                _break(sock)

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._changing:
            for sock in self._sockets:
                sock.close()
            self._sockets.clear()
            if self._over:
                raise TookTooLong(f"the server took more than {self._whole_s:.0f} s") from None


def _break(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


class _Plain(urllib.request.HTTPHandler):
    """Opens plain connections that end with a deadline."""

    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        def made(host: str, **named: Any) -> http.client.HTTPConnection:
            connection = http.client.HTTPConnection(host, **named)
            connection._create_connection = self._deadline.connect  # type: ignore[attr-defined]
            return connection

        return self.do_open(made, req)  # type: ignore[arg-type]


class _Secure(urllib.request.HTTPSHandler):
    """Opens connections over TLS that end with a deadline."""

    def __init__(self, deadline: Deadline, trusted: ssl.SSLContext | None) -> None:
        super().__init__()
        self._deadline = deadline
        self._trusted = trusted

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        def made(host: str, **named: Any) -> http.client.HTTPConnection:
            connection = http.client.HTTPSConnection(host, context=self._trusted, **named)
            connection._create_connection = self._deadline.connect  # type: ignore[attr-defined]
            return connection

        return self.do_open(made, req)  # type: ignore[arg-type]
