"""The client with sockets of one thread: `with connect("localhost:9092") as kafka: kafka.run(topics.describe(["orders"]))`.

It reads straight into the memory of the frames, and waits with the system's selector.
"""

import contextlib
import errno
import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from actors.client.asks import Steps
from actors.client.client import Client, Dial, Effects
from actors.client.errors import ClientError
from actors.client.metadata import Metadata
from actors.client.properties import ClientConfig, client_config, properties
from actors.client.tasks import Task
from actors.host.client.contexts import client_context, failed, read_token
from actors.host.client.tls_stream import READ_BYTES, TlsStream
from actors.host.work.system_random import SystemRandom

T = TypeVar("T")
PARTS_MAX = 64
BROKEN_OFF = "it was broken off"
"""Why a connection ends on which something was interrupted, as by Ctrl-C: nobody knows how many bytes came and went."""
READS_MAX = 16
"""How many reads one connection may have before the others have their turn."""


def now_us() -> int:
    """The monotonic time in µs."""
    return time.monotonic_ns() // 1000


def clock_ms() -> int:
    """The time of day in ms since 1970."""
    return time.time_ns() // 1_000_000


def given(
    bootstrap: str | None,
    config: Mapping[str, Any] | str | None,
    defaults: Mapping[str, Any] | None = None,
    typed: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The settings of a client by Kafka's names, from an address and a mapping, or the path of a properties file.
    `defaults`: what counts where `config` says nothing; `typed`: what counts before it. Raises OSError."""
    if isinstance(config, str):
        with open(config, encoding="latin-1") as file:
            config = properties(file.read())
    found = {**(defaults or {}), **(config or {}), **(typed or {})}
    if bootstrap is not None:
        found["bootstrap.servers"] = bootstrap
    return found


def settings(
    bootstrap: str | None,
    config: Mapping[str, Any] | str | None,
    defaults: Mapping[str, Any] | None = None,
    typed: Mapping[str, Any] | None = None,
) -> ClientConfig:
    """The config of a client whose settings are `given`. Raises ConfigError, OSError."""
    return client_config(given(bootstrap, config, defaults, typed))


def connect(bootstrap: str | None = None, config: Mapping[str, Any] | str | None = None) -> "Kafka":
    """A client of a cluster. `config`: Kafka's own names, or the path of a properties file; `bootstrap` counts before
    what is there. Nothing is dialled yet. Raises ConfigError, OSError."""
    return Kafka(settings(bootstrap, config))


class _Socket:
    """One connection of the system."""

    __slots__ = ("addresses", "dial", "events", "handshakes", "out", "server", "sock", "up")

    def __init__(self, dial: Dial, addresses: list[Any]) -> None:
        self.dial = dial
        self.addresses = addresses
        self.server = f"{dial.host}:{dial.port}"
        self.sock: socket.socket | TlsStream | None = None
        self.handshakes = False
        self.up = False
        self.events = 0
        self.out: deque[memoryview] = deque()


class Kafka:
    """A client for one thread."""

    def __init__(self, config: ClientConfig) -> None:
        """A client that has dialled nothing. Raises ConfigError."""
        token = (lambda: read_token(config)) if config.login is not None and config.login.token_file else None
        self.config = config
        self.client = Client(config, SystemRandom(), token)
        self._tls = client_context(config.tls) if config.tls is not None else None
        self._ciphertext = memoryview(bytearray(READ_BYTES if self._tls is not None else 0))
        self._selector = selectors.DefaultSelector()
        self._sockets: dict[int, _Socket] = {}
        self._not_reached: dict[tuple[str, int], int] = {}
        """Name and port -> how often it could not be reached: another of its addresses is then tried first."""
        self._process = os.getpid()
        self._has_lost = False
        """Whether a connection has ended since the client was asked when it has to do something."""
        self._closed = False

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self.close()

    @property
    def metadata(self) -> Metadata:
        """The client's knowledge of the cluster."""
        return self.client.metadata

    def __enter__(self) -> "Kafka":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all connections. Operations that are under way fail."""
        if not self._closed:
            self._closed = True
            self._carry_out(self.client.close())
            for conn in list(self._sockets):
                self._end(conn)
            self._selector.close()

    def run(self, steps: Steps[T], timeout_s: float | None = None) -> T:
        """Run an operation. A KeyboardInterrupt gives it up. Raises ClientError."""
        task = self.start(steps, timeout_s)
        try:
            self.wait(task)
            return task.result()
        finally:
            self.client.cancel(task)

    def start(self, steps: Steps[T], timeout_s: float | None = None) -> Task[T]:
        """Begin an operation. Its requests are sent now, and it goes on whenever the client waits for something."""
        if self._closed:
            raise ClientError("the client was closed")
        self._must_be_here()
        self._deliver(0)  # nothing is to be sent on a connection that has ended meanwhile
        task = self.client.start(steps, now_us(), None if timeout_s is None else int(timeout_s * 1000))
        try:
            self._carry_out(self.client.turn(now_us()))
        except BaseException:  # such as Ctrl-C: nobody else has the task, which would go on beside what comes next
            self.client.cancel(task)
            raise
        return task

    def wait(self, *tasks: Task[Any]) -> Any:
        """Wait until the first of these operations is over. Returns its result if there is only one. Raises
        ClientError."""
        while not any(task.done for task in tasks):
            self.step()
        return tasks[0].result() if len(tasks) == 1 else None

    def wait_until(self, tasks: Iterable[Task[Any]], until_us: int | None) -> bool:
        """Wait until the first of these operations is over, or until a time, µs. Returns whether one of them is over, or
        there are none; False: the time is over."""
        waited = list(tasks)
        while waited and not any(task.done for task in waited):
            left_s = None if until_us is None else max(0.0, (until_us - now_us()) / 1e6)
            self.step(left_s)
            if left_s == 0:
                return any(task.done for task in waited)
        return True

    def step(self, timeout_s: float | None = None) -> None:
        """Wait for something to happen, at most `timeout_s`, and deal with it. Raises ClientError in a fork of the
        process."""
        self._must_be_here()
        self._has_lost = False
        happened = self._deliver(0)  # what came while nobody waited came in time
        effects = self.client.turn(now_us())
        self._carry_out(effects)
        if happened or self._has_lost:
            timeout_s = 0
        elif effects.deadline_us is not None:
            left_s = max(0.0, (effects.deadline_us - now_us()) / 1e6)
            timeout_s = left_s if timeout_s is None else min(left_s, timeout_s)
        self._deliver(timeout_s)
        self._carry_out(self.client.turn(now_us()))

    def _must_be_here(self) -> None:
        """Check that this is the process of the client: a fork would read what its parent waits for."""
        if self._process != os.getpid():
            raise ClientError("the client belongs to another process, of which this one is a fork: connect anew here")

    def _deliver(self, timeout_s: float | None) -> bool:
        """Wait for the system, at most so long, and tell the client what has happened; False: nothing."""
        ready = self._selector.select(timeout_s)
        for key, events in ready:
            found = self._sockets.get(key.data)
            if found is None:
                continue
            try:
                self._ready(key.data, found, events)
            except BaseException:
                self._lost(key.data, BROKEN_OFF)
                raise
        return bool(ready)

    # ---- effects

    def _carry_out(self, effects: Effects) -> None:
        try:
            for conn in effects.closes:
                self._end(conn)
            for dial in effects.dials:
                self._dial(dial)
            for conn, parts in effects.sends:
                found = self._sockets.get(conn)
                if found is not None:
                    found.out.extend(memoryview(part).cast("B") for part in parts)
                    self._write(conn, found)
        except BaseException:
            for conn in (*(dial.conn for dial in effects.dials), *(conn for conn, _ in effects.sends)):
                self._lost(conn, BROKEN_OFF)
            raise

    def _end(self, conn: int) -> None:
        found = self._sockets.pop(conn, None)
        if found is not None and not found.up:
            name = found.dial.host, found.dial.port
            self._not_reached[name] = self._not_reached.get(name, 0) + 1
        if found is not None and found.sock is not None:
            if self._process == os.getpid():  # else the selector is that of the parent too, which goes on
                with contextlib.suppress(KeyError, ValueError):
                    self._selector.unregister(found.sock)
            found.sock.close()

    def _lost(self, conn: int, why: str | ClientError) -> None:
        self._end(conn)
        self._has_lost = True
        self.client.lost(conn, why, now_us())

    # ---- dialling

    def _dial(self, dial: Dial) -> None:
        try:
            rows = socket.getaddrinfo(dial.host, dial.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            self._lost(dial.conn, f"its name is not known ({error})")
            return
        first = self._not_reached.get((dial.host, dial.port), 0) % max(len(rows), 1)
        found = _Socket(dial, rows[first:] + rows[:first])
        self._sockets[dial.conn] = found
        self._next_address(dial.conn, found, "it has no address")

    def _next_address(self, conn: int, found: _Socket, why: str | ClientError) -> None:
        """Try the next address of a name."""
        while found.addresses:
            family, kind, protocol, _, address = found.addresses.pop(0)
            try:
                sock = socket.socket(family, kind, protocol)
            except OSError as error:
                why = failed(found.server, error)
                continue
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for option, size in (
                (socket.SO_RCVBUF, self.config.receive_buffer_bytes),
                (socket.SO_SNDBUF, self.config.send_buffer_bytes),
            ):
                if size > 1 << 17:  # the system's own choice is better than a small one
                    sock.setsockopt(socket.SOL_SOCKET, option, size)
            found.sock = sock
            code = sock.connect_ex(address)
            if code not in (0, errno.EINPROGRESS):
                sock.close()
                found.sock, why = None, failed(found.server, OSError(code, os.strerror(code)))
                continue
            self._listen(conn, found, selectors.EVENT_WRITE)
            return
        self._lost(conn, why)

    def _connected(self, conn: int, found: _Socket) -> None:
        assert isinstance(found.sock, socket.socket)
        code = found.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._selector.unregister(found.sock)
            found.sock.close()
            found.sock, found.events = None, 0
            self._next_address(conn, found, failed(found.server, OSError(code, os.strerror(code))))
            return
        if self._tls is None:
            found.up = True
            self._listen(conn, found, selectors.EVENT_READ)
            self.client.connected(conn, now_us())
            return
        try:
            found.sock = TlsStream(self._tls, found.sock, found.dial.host, self._ciphertext)
        except (OSError, ValueError) as error:
            self._lost(conn, failed(found.server, error))
            return
        found.handshakes = True
        self._shake_hands(conn, found)

    def _shake_hands(self, conn: int, found: _Socket) -> None:
        assert isinstance(found.sock, TlsStream)
        try:
            found.sock.do_handshake()
        except BlockingIOError:
            also = selectors.EVENT_WRITE if found.sock.has_unsent else 0
            self._listen(conn, found, selectors.EVENT_READ | also)
        except (OSError, ValueError) as error:
            self._lost(conn, failed(found.server, error))
        else:
            found.handshakes, found.up = False, True
            self._listen(conn, found, selectors.EVENT_READ)
            self.client.connected(conn, now_us())

    # ---- bytes

    def _listen(self, conn: int, found: _Socket, events: int) -> None:
        assert found.sock is not None
        if found.events == 0:
            self._selector.register(found.sock, events, conn)
        elif found.events != events:
            self._selector.modify(found.sock, events, conn)
        found.events = events

    def _ready(self, conn: int, found: _Socket, events: int) -> None:
        if found.handshakes:
            self._shake_hands(conn, found)
        elif not found.up:
            self._connected(conn, found)
        else:
            if events & selectors.EVENT_WRITE:
                self._write(conn, found)
            if events & selectors.EVENT_READ and conn in self._sockets:
                self._read(conn, found)

    def _read(self, conn: int, found: _Socket) -> None:
        sock = found.sock
        assert sock is not None
        for _ in range(READS_MAX):
            if not self._read_once(conn, found, sock.recv_into):
                return
        if isinstance(sock, TlsStream):  # the selector does not see what has been taken from the system
            while self._read_once(conn, found, sock.held_into):
                pass

    def _read_once(self, conn: int, found: _Socket, read: Callable[[memoryview], int]) -> bool:
        """Read what is there, as far as there is room for it. Returns whether there may be more."""
        room = self.client.buffer(conn)
        if room is None:
            return False
        try:
            count = read(room)
        except BlockingIOError:
            return False
        except OSError as error:
            self._lost(conn, failed(found.server, error))
            return False
        if not count:
            self._lost(conn, "the connection was ended there")
            return False
        self.client.filled(conn, count, now_us())
        return count == len(room) or isinstance(found.sock, TlsStream)

    def _write(self, conn: int, found: _Socket) -> None:
        sock = found.sock
        assert sock is not None
        try:
            while found.out:
                count = sock.sendmsg([found.out[n] for n in range(min(len(found.out), PARTS_MAX))])
                while found.out and count >= len(found.out[0]):
                    count -= len(found.out.popleft())
                if count:
                    found.out[0] = found.out[0][count:]
            if isinstance(sock, TlsStream):
                sock.flush()
        except BlockingIOError:
            self._listen(conn, found, selectors.EVENT_READ | selectors.EVENT_WRITE)
        except OSError as error:
            self._lost(conn, failed(found.server, error))
        else:
            self._listen(conn, found, selectors.EVENT_READ)
