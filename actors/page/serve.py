"""The page served: at which address, with which secret, until it is ended.

This file alone decides where the page may be reached. On loopback the secret is a token that is made at the start and
stands in the printed address. Any other address needs a certificate with its key, and a password out of a file: a page
shows what is in the topics. Nothing that is printed or logged has the password, nor, but for that one line, the token.
"""

import asyncio
import ipaddress
import secrets
import signal
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from actors.page.application import application
from actors.page.guard import Access
from actors.page.shown import Slot

LOOPBACK = "127.0.0.1"
PORT = 8421
PASSWORD_MIN = 12
"""The fewest characters of a password."""
CONNECTIONS_MAX = 256
HEADER_BYTES_MAX = 16 << 10
IDLE_S = 40
"""How long a connection may wait for its next request, s: longer than an open page waits between two, which would make one,
and TLS with it, for each."""
END_S = 2
REQUEST_S = 10.0
"""How long a connection may take for its first request, s."""


class Door(NamedTuple):
    """The address of a page, and what opens it."""

    host: str = LOOPBACK
    port: int = PORT
    names: tuple[str, ...] = ()
    """Further names under which browsers may reach it."""
    certificate: Path | None = None
    key: Path | None = None
    password_file: Path | None = None
    may_change: bool = False

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class PromptProtocol(H11Protocol):
    """A connection that is ended if it does not ask soon: a client that only connects takes the place of one that
    reads."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, REQUEST_S at most."""
        super().connection_made(transport)
        self._late = self.loop.call_later(REQUEST_S, self._end_if_late)

    def _end_if_late(self) -> None:
        if self.cycle is None:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is over."""
        self._late.cancel()
        super().connection_lost(exc)


class Ends:
    """The signals that end a page. Each ends it in good order, so that the copy of a log is removed."""

    def __init__(self) -> None:
        self._server: uvicorn.Server | None = None
        self._task = asyncio.current_task()
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(one, self._end)

    def serves(self, server: uvicorn.Server) -> None:
        """Note the server that is to be ended from now on."""
        self._server = server

    def _end(self) -> None:
        if self._server is not None:
            self._server.should_exit = True
        elif self._task is not None:
            self._task.cancel()


class QuietServer(uvicorn.Server):
    """A server that leaves signals to `Ends`, and ends answers that have no end before it does."""

    def __init__(self, config: uvicorn.Config, ends: Iterable[Callable[[], None]]) -> None:
        super().__init__(config)
        self._ends = ends

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve nobody any more."""
        for end in self._ends:
            end()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take no signal."""
        yield


class Refused(ValueError):
    """The page may not be served so."""


def password(door: Door) -> str:
    """The password of a page, or a new token on loopback. Raises Refused, OSError."""
    if (door.certificate is None) != (door.key is None):
        raise Refused("--certificate and --key go together: give both.")
    if not door.is_loopback and (door.certificate is None or door.password_file is None):
        raise Refused(
            f"{door.host} is reached by others, so the page needs TLS and a password there: give --certificate, --key and "
            f"--password-file, or leave --listen out and use ssh -L {door.port}:localhost:{door.port}."
        )
    if door.password_file is None:
        return secrets.token_urlsafe(24)
    found = door.password_file.read_text("utf-8").strip()
    if len(found) < PASSWORD_MIN:
        raise Refused(
            f"the password in {door.password_file} is shorter than {PASSWORD_MIN} characters: choose a longer one."
        )
    return found


def access(door: Door, port: int, secret: str) -> Access:
    """How a page is reached at a port."""
    scheme = "https" if door.certificate is not None else "http"
    names = {_name(door), *door.names, *(("localhost", LOOPBACK, "::1") if door.is_loopback else ())}
    hosts = [f"[{one}]" if ":" in one else one for one in names]
    default = 443 if scheme == "https" else 80
    origins = {f"{scheme}://{one.lower()}{'' if port == default else f':{port}'}" for one in hosts}
    return Access(
        frozenset(origins),
        secret,
        f"rayft-page-{port}",
        scheme == "https",
        door.password_file is not None,
        door.may_change,
    )


async def serve(
    shown: AbstractAsyncContextManager[Mapping[str, Slot]], door: Door, on_ready: Callable[[str], None], secret: str
) -> None:
    """Serve a page until SIGINT or SIGTERM. `on_ready`: called with its address once it answers. Raises Refused, OSError,
    and what the thing that is shown raises when it is opened."""
    ends = Ends()
    with _listening(door) as sock:
        port = sock.getsockname()[1]
        found = access(door, port, secret)
        async with shown as slots:
            page = application(slots, found)
            config = uvicorn.Config(
                page, log_config=None, access_log=False, lifespan="off", server_header=False,
                limit_concurrency=CONNECTIONS_MAX, h11_max_incomplete_event_size=HEADER_BYTES_MAX,
                http=PromptProtocol, ws="none", timeout_keep_alive=IDLE_S, timeout_graceful_shutdown=END_S,
                date_header=False, proxy_headers=False,
                ssl_certfile=door.certificate, ssl_keyfile=door.key, ssl_version=ssl.PROTOCOL_TLS_SERVER,
            )  # fmt: skip
            server = QuietServer(config, page.ends)
            ends.serves(server)
            ended = asyncio.create_task(server.serve([sock]))
            while not server.started and not ended.done():
                await asyncio.sleep(0.01)
            if server.started:
                on_ready(address(door, port, secret))
            await ended


def address(door: Door, port: int, secret: str) -> str:
    """The address to open: with the token, where there is no password."""
    host = f"[{_name(door)}]" if ":" in _name(door) else _name(door)
    scheme = "https" if door.certificate is not None else "http"
    query = "" if door.password_file is not None else f"?token={secret}"
    return f"{scheme}://{host}:{port}/{query}"


def _name(door: Door) -> str:
    """The name in the printed address: one of this machine, where every address of it is listened at."""
    return (*door.names, socket.gethostname())[0] if door.host in ("0.0.0.0", "::") else door.host


@contextmanager
def _listening(door: Door) -> Iterator[socket.socket]:
    """A socket that listens at the door. Raises Refused if another process has the port."""
    family = socket.AF_INET6 if ":" in door.host else socket.AF_INET
    # With its protocol named asyncio lets connections send at once: an answer's body waited 40 ms behind its head.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((door.host, door.port))
        except OSError as error:
            raise Refused(
                f"the page cannot listen at {door.host}:{door.port} ({error.strerror}): choose another --port."
            ) from None
        sock.listen(128)
        yield sock
