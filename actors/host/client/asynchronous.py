"""The client on asyncio: `async with connect("localhost:9092") as kafka: await kafka.run(topics.describe(["orders"]))`.

Operations may run at the same time, each as a task of its own. A task that is cancelled gives its operation up.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from actors.client.asks import Steps
from actors.client.client import Client, Dial, Effects
from actors.client.errors import ClientError
from actors.client.metadata import Metadata
from actors.client.properties import ClientConfig
from actors.client.tasks import Task
from actors.host.client.blocking import now_us, settings
from actors.host.client.contexts import client_context, failed, read_token
from actors.host.work.system_random import SystemRandom

T = TypeVar("T")
NEXT_ADDRESS_S = 0.25
"""After this the next address of a name is tried beside one that does not answer (RFC 8305)."""


def connect(bootstrap: str | None = None, config: Mapping[str, Any] | str | None = None) -> "Kafka":
    """A client of a cluster. Arguments and errors are those of `blocking.connect`."""
    return Kafka(settings(bootstrap, config))


class _Link(asyncio.BufferedProtocol):
    """One connection: bytes go straight into the memory of the frames."""

    def __init__(self, kafka: "Kafka", conn: int, server: str) -> None:
        self._kafka = kafka
        self._conn = conn
        self._server = server
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that the dial has succeeded."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._kafka.linked(self._conn, self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """The memory to read into. Bytes of a connection that is over go nowhere."""
        room = self._kafka.client.buffer(self._conn)
        return room if room is not None else memoryview(bytearray(1 << 12))

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes that have come."""
        self._kafka.client.filled(self._conn, nbytes, now_us())
        self._kafka.turn()

    def eof_received(self) -> bool:
        """Note that the server sends no more."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is over."""
        why = "the connection was ended there" if exc is None else failed(self._server, exc)
        self._kafka.unlinked(self._conn, why)


class Aside:
    """A thread's work beside the running loop, one piece at a time."""

    def __init__(self) -> None:
        self._work: asyncio.Future[None] | None = None

    async def run(self, work: Callable[[], None]) -> None:
        """Let a thread do it. What was begun before and not waited for to its end is waited for instead: a task may have
        been cancelled meanwhile. Raises what it raises."""
        if self._work is None:
            self._work = asyncio.ensure_future(asyncio.to_thread(work))
        await asyncio.wait([self._work])
        done, self._work = self._work, None
        done.result()

    async def ended(self) -> None:
        """Wait for what is under way."""
        if self._work is not None:
            await asyncio.wait([self._work])


class Kafka:
    """A client on the running loop."""

    def __init__(self, config: ClientConfig) -> None:
        """A client that has dialled nothing. Raises ConfigError."""
        token = (lambda: read_token(config)) if config.login is not None and config.login.token_file else None
        self.config = config
        self.client = Client(config, SystemRandom(), token)
        self._tls = client_context(config.tls) if config.tls is not None else None
        self._links: dict[int, _Link] = {}
        self._dials: dict[int, asyncio.Task[None]] = {}
        self._waiting: dict[Task[Any], asyncio.Future[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def metadata(self) -> Metadata:
        """The client's knowledge of the cluster."""
        return self.client.metadata

    async def __aenter__(self) -> "Kafka":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections. Operations that are under way fail."""
        if self._closed:
            return
        self._closed = True
        self._carry_out(self.client.close())
        self._wake()
        if self._timer is not None:
            self._timer.cancel()
        dials = list(self._dials.values())
        for one in dials:
            one.cancel()
        await asyncio.gather(*dials, return_exceptions=True)

    async def run(self, steps: Steps[T], timeout_s: float | None = None) -> T:
        """Run an operation. Raises ClientError."""
        task = self.start(steps, timeout_s)
        try:
            await self.wait(task)
        finally:
            self.client.cancel(task)
        return task.result()

    def start(self, steps: Steps[T], timeout_s: float | None = None) -> Task[T]:
        """Begin an operation, which goes on while the loop runs. Raises ClientError."""
        if self._closed:
            raise ClientError("the client was closed")
        task = self.client.start(steps, now_us(), None if timeout_s is None else int(timeout_s * 1000))
        try:
            self.turn()
        except BaseException:  # such as Ctrl-C: nobody else has the task, which would go on beside what comes next
            self.client.cancel(task)
            raise
        return task

    async def wait(self, *tasks: Task[Any], most_us: int | None = None) -> None:
        """Wait until the first of these operations is over, or for `most_us`; None: for as long as it takes."""
        future = asyncio.get_running_loop().create_future()
        self._waiting |= dict.fromkeys(tasks, future)
        self._wake()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if most_us is None else most_us / 1e6):
                    await future
        finally:
            for task in tasks:
                self._waiting.pop(task, None)

    # ---- what its connections call

    def turn(self) -> None:
        """Let the client go on, and set the clock for the next time."""
        if self._closed:
            return
        effects = self.client.turn(now_us())
        self._carry_out(effects)
        self._wake()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if effects.deadline_us is not None:
            left_s = max(0.0, (effects.deadline_us - now_us()) / 1e6)
            self._timer = asyncio.get_running_loop().call_later(left_s, self.turn)

    def linked(self, conn: int, link: _Link) -> None:
        """Note that a connection is open."""
        self._links[conn] = link
        self.client.connected(conn, now_us())
        self.turn()

    def unlinked(self, conn: int, why: str | ClientError) -> None:
        """Note that a connection is over, or could not be made."""
        if self._links.pop(conn, None) is not None or conn in self._dials:
            self.client.lost(conn, why, now_us())
            asyncio.get_running_loop().call_soon(self.turn)

    # ---- effects

    def _wake(self) -> None:
        for task, future in list(self._waiting.items()):
            if task.done and not future.done():
                future.set_result(None)

    def _carry_out(self, effects: Effects) -> None:
        for conn in effects.closes:
            link = self._links.pop(conn, None)
            if link is not None and link.transport is not None:
                link.transport.abort()
            dial = self._dials.pop(conn, None)
            if dial is not None:
                dial.cancel()
        for one in effects.dials:
            self._dials[one.conn] = asyncio.get_running_loop().create_task(self._dial(one))
        for conn, parts in effects.sends:
            link = self._links.get(conn)
            if link is not None and link.transport is not None:
                link.transport.writelines(parts)

    async def _dial(self, dial: Dial) -> None:
        server = f"{dial.host}:{dial.port}"
        host = dial.host if self._tls is not None else None
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: _Link(self, dial.conn, server), dial.host, dial.port, ssl=self._tls, server_hostname=host,
                happy_eyeballs_delay=NEXT_ADDRESS_S,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            self.unlinked(dial.conn, failed(server, error))
        finally:
            with contextlib.suppress(KeyError):
                del self._dials[dial.conn]
