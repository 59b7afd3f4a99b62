"""The client: connections, routing and retries, with time in and effects out.

This file alone decides which connection a request takes, when a server is dialled, and what is sent again. Rules:

1. A request goes to whom it names. For any node an open connection is taken first, then a broker that is known, then the
   bootstrap servers: at the start, and when no known broker can be reached (KIP-899). Beside one that has said nothing for
   SILENT_MS another one is dialled. A controller or a coordinator that cannot be reached is looked up anew.
2. After a connection that failed a server is left alone for a while, which doubles with each failure (KIP-144). So is a
   request that is sent again (KIP-580).
3. A request whose connection was lost is sent again if the operation allows it (`Ask.again`). One to a `Node` or an
   `Address` is not: its operation learns of it, and decides anew who is to be asked.
4. A refused login and a server that is no Kafka are final: trying for ever would lock users out and hide the reason.
5. An operation that is not done at its deadline fails, with what went wrong last.

A driver calls `turn(now_us)`, carries out its effects, and tells what happened: `connected`, `filled`, `lost`.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from actors.client import logins
from actors.client.asks import (
    Address,
    AnyNode,
    Ask,
    Controller,
    Coordinator,
    KeyType,
    Know,
    Leader,
    Node,
    Pause,
    Purpose,
    Reply,
    Step,
    Steps,
)
from actors.client.connection import NEVER, Connection, ConnectionState, Lost
from actors.client.errors import ClientError, Interrupted, NoKafka, NotInTime, NotLoggedIn, Unspoken, refused
from actors.client.metadata import Metadata
from actors.client.properties import ClientConfig
from actors.client.tasks import Pending, Task
from actors.client.versions import choose
from actors.ports import Random
from actors.wire.errors import ErrorCode
from actors.wire.messages import Buffer, Message, message

T = TypeVar("T")
Endpoint = int | str | Address
"""The place of a server: a broker's id, `bootstrap N`, or the address of another server."""
Place = tuple[Endpoint, Purpose]
SILENT_MS = 2_000
"""How long a server that is dialled may say nothing before another one is dialled beside it, where any will do, ms."""
LOOKED_UP = ("looked up", Purpose.ORDINARY)
"""The place of a request for which something is being looked up, or was."""
INTERRUPTED = "the operation was interrupted: what it had sent may have been done or not"
MOVED = {
    Coordinator: frozenset({
        ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }),
    Controller: frozenset({ErrorCode.NOT_CONTROLLER}),
}  # fmt: skip
"""The codes with which nothing was done, and a request is to be sent again, to another node or later, by what it was
for."""


class Dial(NamedTuple):
    """Connect to a server, and tell `connected(conn)` or `lost(conn)`."""

    conn: int
    host: str
    port: int
    tls: bool


class Effects(NamedTuple):
    """What a driver is to do, in this order."""

    closes: list[int]
    dials: list[Dial]
    sends: list[tuple[int, list[Buffer]]]
    deadline_us: int | None
    """The time at which `turn` is to be called if nothing happens before; None: there is nothing to wait for."""


class _Link:
    """A connection and where it leads."""

    __slots__ = ("connection", "dial_due_us", "place", "silent_us")

    def __init__(self, place: Place, connection: Connection, dial_due_us: int, silent_us: int) -> None:
        self.place = place
        self.connection = connection
        self.dial_due_us = dial_due_us
        self.silent_us = silent_us
        """The time from which on others are dialled beside it, if it is not open by then."""


class _Failing:
    """A server whose last connections failed."""

    __slots__ = ("count", "error", "until_us")

    def __init__(self) -> None:
        self.count = 0
        self.until_us = 0
        self.error: ClientError | None = None


class Client:
    """A client of one cluster."""

    def __init__(self, config: ClientConfig, random: Random, token: logins.Token | None = None) -> None:
        """A client that has dialled nothing. `token` gives the bearer token of a login that begins, for OAUTHBEARER
        with a file."""
        self.config = config
        self.metadata = Metadata()
        self._random = random
        self._token = token
        self._links: dict[int, _Link] = {}
        self._places: dict[Place, int] = {}
        self._failing: dict[Endpoint, _Failing] = {}
        self._coordinators: dict[tuple[KeyType, str], int] = {}
        self._look_ups: dict[Any, Task[Any]] = {}
        """The look-ups for requests that wait, by what is looked up: the metadata (None), a coordinator."""
        self._tasks: list[Task[Any]] = []
        self._pending: dict[Pending, None] = {}
        """The requests that wait or are under way, in the order in which they came."""
        self._fresh = False
        """Whether requests have come that were not looked at yet."""
        self._closes: list[int] = []
        self._dials: list[Dial] = []
        self._next_conn = 0
        self._first_bootstrap = random.below(len(config.bootstrap))
        self._now_us = 0
        self._deadline_us = NEVER

    # ---- what a driver does with it

    def start(self, steps: Steps[T], now_us: int, timeout_ms: int | None = None) -> Task[T]:
        """Begin an operation. `timeout_ms`: for all of it; None: default.api.timeout.ms. `turn` is to be called then."""
        self._now_us = now_us
        task = Task(steps, now_us + (self.config.api_timeout_ms if timeout_ms is None else timeout_ms) * 1000)
        self._tasks.append(task)
        self._advance(task, None)
        return task

    def cancel(self, task: Task[Any]) -> None:
        """Give up an operation. What was sent stays sent."""
        if not task.done:
            self._fail(task, ClientError("the operation was given up"))

    def turn(self, now_us: int) -> Effects:
        """Do what is due. Returns what a driver is to do."""
        self._now_us = now_us
        self._deadline_us = NEVER
        self._wake()
        self._tick()
        self._fresh = True
        while self._fresh:
            self._fresh = False
            self._route()
        sends = [(conn, out) for conn, link in self._links.items() if (out := link.connection.take_out())]
        for link in self._links.values():
            due_us = link.dial_due_us if link.connection.state is ConnectionState.DIALLING else link.connection.due_us()
            self._until(due_us)
        for task in self._tasks:
            self._until(task.deadline_us)
            self._until(task.wake_us if task.wake_us is not None else NEVER)
        closes, self._closes = self._closes, []
        dials, self._dials = self._dials, []
        return Effects(closes, dials, sends, None if self._deadline_us == NEVER else self._deadline_us)

    def connected(self, conn: int, now_us: int) -> None:
        """Note that a dial has succeeded, TLS included."""
        self._now_us = now_us
        link = self._links.get(conn)
        if link is not None:
            link.connection.opened(now_us)

    def buffer(self, conn: int) -> memoryview | None:
        """The memory into which a driver reads the bytes of a connection; None: the connection is over."""
        link = self._links.get(conn)
        return link.connection.frames.buffer() if link is not None else None

    def filled(self, conn: int, count: int, now_us: int) -> None:
        """Take in bytes that have come into `buffer(conn)`."""
        self._now_us = now_us
        link = self._links.get(conn)
        if link is None:
            return
        try:
            answers = link.connection.filled(count, now_us)
        except ClientError as error:
            self._drop(conn, error, close=True)
            return
        if link.connection.state is ConnectionState.READY:
            self._failing.pop(link.place[0], None)
        for answer in answers:
            self._answered(answer.owner, Reply(answer.message, answer.version, self._node(link.place[0])))

    def received(self, conn: int, data: Buffer, now_us: int) -> None:
        """Bytes of a connection, for a driver that has them already."""
        view = memoryview(data)
        while view:
            room = self.buffer(conn)
            if room is None:
                return
            count = min(len(room), len(view))
            room[:count] = view[:count]
            view = view[count:]
            self.filled(conn, count, now_us)

    def lost(self, conn: int, why: str | ClientError, now_us: int) -> None:
        """Note that a connection has ended, or could not be made. `why`: in words; a ClientError is final for the
        requests that need the connection."""
        self._now_us = now_us
        link = self._links.get(conn)
        if link is not None:
            self._drop(conn, link.connection.ended(why) if isinstance(why, str) else why, close=False)

    def close(self) -> Effects:
        """End all operations and connections."""
        for task in list(self._tasks):
            self._fail(task, ClientError("the client was closed"))
        for conn in list(self._links):
            self._forget(conn)
            self._closes.append(conn)
        closes, self._closes = self._closes, []
        return Effects(closes, [], [], None)

    def forget_coordinator(self, kind: KeyType, key: str) -> None:
        """Forget a coordinator, which is to be looked up anew."""
        self._coordinators.pop((kind, key), None)

    # ---- tasks

    def _advance(self, task: Task[Any], value: Any, error: Exception | None = None) -> None:
        """Let an operation go on until it waits again or is over. `error`: what it waited for has failed. What it raises
        is its own result, and not that of whoever let the client go on. Ctrl-C is everybody's, and it is over then."""
        while not task.done:
            try:
                steps = task.stack[-1]
                step = steps.throw(error) if error is not None else steps.send(value)
                error = None
            except StopIteration as end:
                task.stack.pop()
                value, error = end.value, None
                if not task.stack:
                    self._finish(task, value, None)
                continue
            except Exception as failed:
                task.stack.pop()
                error = NoKafka("an answer lacks what was asked for") if isinstance(failed, IndexError) else failed
                if not task.stack:
                    self._finish(task, None, error)
                continue
            except BaseException:
                self._fail(task, Interrupted(INTERRUPTED))
                raise
            ready, value = self._begin(task, step)
            if not ready:
                return

    def _begin(self, task: Task[Any], step: Step) -> tuple[bool, Any]:
        """Take what an operation has asked for. Returns (True, value) if it need not wait."""
        if isinstance(step, Ask):
            self._enqueue(task, [step], True)
            return False, None
        if isinstance(step, Know):
            if not step.fresh and self._is_known(step.topics):
                return True, self.metadata
            task.stack.append(self._learn(step.topics))
            return True, None
        if isinstance(step, Pause):
            ms = step.ms or self._backoff_ms(step.attempt)
            task.wake_us = self._now_us + ms * 1000
            return False, None
        if not step:
            return True, []
        self._enqueue(task, step, False)
        return False, None

    def _enqueue(self, task: Task[Any], asks: list[Ask], alone: bool) -> None:
        task.parts = [Pending(task, ask) for ask in asks]
        task.alone = alone
        self._pending.update(dict.fromkeys(task.parts))
        self._fresh = True

    def _settle(self, pending: Pending, found: Reply | ClientError) -> None:
        """Give a request its reply, or the error with which it has failed for good."""
        task = pending.task
        if pending.found is not None or task.done:
            return
        pending.found = found
        if any(one.found is None for one in task.parts):
            return
        parts, task.parts = task.parts, []
        if not task.alone:
            self._advance(task, [one.found for one in parts])
        elif isinstance(found, ClientError):
            self._advance(task, None, found)
        else:
            self._advance(task, found)

    def _finish(self, task: Task[Any], value: Any, error: Exception | None) -> None:
        parts = task.parts
        task.finish(value, error)
        self._tasks.remove(task)
        for one in parts:
            self._pending.pop(one, None)

    def _fail(self, task: Task[Any], error: Exception) -> None:
        while task.stack:
            task.stack.pop().close()
        self._finish(task, None, error)

    def _wake(self) -> None:
        for task in list(self._tasks):
            if task.done:
                continue
            if task.deadline_us <= self._now_us:
                self._fail(task, self._late(task))
            elif task.wake_us is not None and task.wake_us <= self._now_us:
                task.wake_us = None
                self._advance(task, None)

    def _late(self, task: Task[Any]) -> ClientError:
        failing = [one.place[0] for one in task.parts if one.place is not None and one.place[0] in self._failing]
        error = next((self._failing[one].error for one in failing), None) or task.last_error
        if error is None:
            error = next((one.error for one in self._failing.values() if one.error is not None), None)
        if error is None:
            waited = [self._links[one.conn] for one in task.parts if one.conn in self._links]
            dialled = [self._links[conn] for one in task.parts if (conn := self._places.get(one.place)) is not None]
            waited += [one for one in dialled if one.connection.state is not ConnectionState.READY]
            slow = next(iter(waited), None)
            if slow is not None:
                error = ClientError(f"{slow.connection.server} has not answered yet")
        if error is None and any(one.connection.throttled_until_us > self._now_us for one in self._links.values()):
            error = ClientError("the server asks to wait, as a quota is used up")
        return NotInTime("there was no result in time" + (f": {error}" if error is not None else ""))

    # ---- connections

    def _tick(self) -> None:
        for conn, link in list(self._links.items()):
            if conn not in self._links:
                continue
            connection = link.connection
            if connection.state is ConnectionState.DIALLING:
                if link.dial_due_us <= self._now_us:
                    self._drop(conn, Lost(f"{connection.server} did not accept a connection in time"), close=True)
                continue
            try:
                wanted = connection.tick(self._now_us)
            except ClientError as error:
                self._drop(conn, error, close=True)
                continue
            if not wanted:
                self._forget(conn)
                self._closes.append(conn)

    def _forget(self, conn: int) -> _Link:
        link = self._links.pop(conn)
        if self._places.get(link.place) == conn:
            del self._places[link.place]
        return link

    def _drop(self, conn: int, error: ClientError, close: bool) -> None:
        """Drop a connection that is over."""
        link = self._forget(conn)
        if close:
            self._closes.append(conn)
        endpoint = link.place[0]
        failing = self._failing.setdefault(endpoint, _Failing())
        failing.error = error
        wait_ms = min(self.config.reconnect_backoff_ms << min(failing.count, 20), self.config.reconnect_backoff_max_ms)
        failing.until_us = self._now_us + self._spread(wait_ms) * 1000
        failing.count += 1
        self._doubt(endpoint)
        final = isinstance(error, NotLoggedIn | NoKafka | Unspoken)
        for pending in list(self._pending):
            if pending.place != link.place or pending.conn not in (None, conn) or pending.found is not None:
                continue
            pending.task.last_error = error
            if pending.conn == conn:
                self._again(pending, error, sent=True)
            elif isinstance(pending.ask.to, Node | Address):
                self._settle_failed(pending, error)
        if final:
            self._final(link.place, error)

    def _doubt(self, endpoint: Endpoint) -> None:
        """Look up anew what a broker was named for, as it cannot be reached: others may name another by now."""
        if endpoint == self.metadata.controller:
            self.metadata.controller = -1
        self._coordinators = {key: node for key, node in self._coordinators.items() if node != endpoint}

    def _final(self, place: Place, error: ClientError) -> None:
        """Fail the requests that wait for a server that cannot be used, unless there are others that may do."""
        others = self._others(place[0])
        for pending in list(self._pending):
            waits = pending.place == place and pending.found is None and pending.conn is None
            if waits and (isinstance(error, NotLoggedIn) or not others or not isinstance(pending.ask.to, AnyNode)):
                self._settle_failed(pending, error)

    def _others(self, endpoint: Endpoint) -> bool:
        """Whether there is a server that has not failed for good."""
        final = (NotLoggedIn, NoKafka, Unspoken)
        failed = {one for one, failing in self._failing.items() if isinstance(failing.error, final)} | {endpoint}
        return bool(({*self.metadata.brokers} | {*self._bootstraps()}) - failed)

    def _settle_failed(self, pending: Pending, error: ClientError) -> None:
        self._pending.pop(pending, None)
        self._settle(pending, error)

    def _again(self, pending: Pending, error: ClientError, sent: bool) -> None:
        """Send a request that has failed on its way again later, if that is allowed."""
        pending.conn = None
        pending.task.last_error = error
        tried = pending.attempts >= self.config.retries
        if sent and not pending.ask.again:
            self._settle_failed(pending, Lost(f"{error}; {pending.ask.name} may have been done or not"))
            return
        if isinstance(pending.ask.to, Node | Address) or tried:
            self._settle_failed(pending, error)
            return
        pending.not_before_us = self._now_us + self._backoff_ms(pending.attempts) * 1000
        pending.attempts += 1

    def _spread(self, ms: int) -> int:
        """The time with a fifth more or less, at random."""
        return ms * 4 // 5 + self._random.below(ms * 2 // 5 + 1)

    def _backoff_ms(self, attempt: int) -> int:
        return self._spread(min(self.config.retry_backoff_ms << min(attempt, 20), self.config.retry_backoff_max_ms))

    def _until(self, due_us: int) -> None:
        self._deadline_us = min(self._deadline_us, due_us)

    # ---- routing

    def _route(self) -> None:
        """Send what can be sent."""
        told = {key for key, task in self._look_ups.items() if task.done}
        for pending in list(self._pending):
            if pending.conn is not None or pending.found is not None or pending.task.done:
                continue
            if pending.not_before_us > self._now_us:
                self._until(pending.not_before_us)
                continue
            try:
                self._place(pending)
            except ClientError as error:
                self._settle_failed(pending, error)
            except Exception as error:  # it cannot be made: the others are not to wait for it
                self._fail(pending.task, error)
            except BaseException:  # it may have been sent
                self._fail(pending.task, Interrupted(INTERRUPTED))
                raise
        self._look_ups = {key: task for key, task in self._look_ups.items() if not (task.done and key in told)}
        self._fresh = self._fresh or any(task.done for task in self._look_ups.values())

    def _place(self, pending: Pending) -> None:
        """Send a request, or dial. Raises ClientError if it has failed for good."""
        endpoint = self._endpoint(pending)
        if endpoint is None:
            return
        place = pending.place = endpoint, pending.ask.purpose
        conn = self._places.get(place)
        if conn is None:
            self._dial(place)
            return
        connection = self._links[conn].connection
        if connection.state is ConnectionState.READY:
            self._send(pending, conn, connection)

    def _send(self, pending: Pending, conn: int, connection: Connection) -> None:
        if not connection.has_room(self._now_us):
            if connection.throttled_until_us > self._now_us:
                self._until(connection.throttled_until_us)
            return
        ask = pending.ask
        try:
            version = choose(ask.name, connection.spoken, *ask.versions)
        except Unspoken as error:
            raise Unspoken(f"{connection.server} {error}") from None
        due_us = self._now_us + (ask.timeout_ms or self.config.request_timeout_ms) * 1000
        connection.send(pending, ask.name, version, ask.build(version), due_us, self._now_us, ask.answered)
        if ask.answered:
            pending.conn = conn
            return
        del self._pending[pending]
        self._settle(pending, Reply(None, version, self._node(self._links[conn].place[0])))

    def _endpoint(self, pending: Pending) -> Endpoint | None:
        """The server to which a request goes; None: it has to wait. Raises ClientError if there is none for it."""
        to = pending.ask.to
        if isinstance(to, AnyNode):
            return self._any(pending.ask.purpose)
        if isinstance(to, Node):
            if to.id not in self.metadata.brokers:
                raise Lost(f"broker {to.id} is not among the brokers of the cluster now")
            return to.id
        if isinstance(to, Address):
            return to
        if isinstance(to, Controller):
            if self.metadata.controller in self.metadata.brokers:
                return self.metadata.controller
            self._look_up(pending, None, self._learn(()))
            return None
        if isinstance(to, Leader):
            leader = self.metadata.leader(to.topic, to.partition)
            if leader in self.metadata.brokers:
                return leader
            self._look_up(pending, None, self._learn((to.topic,)))
            return None
        found = self._coordinators.get((to.kind, to.key), -1)
        if found in self.metadata.brokers:
            return found
        self._look_up(pending, (to.kind, to.key), self._find(to))
        return None

    def _look_up(self, pending: Pending, key: Any, steps: Steps[Any]) -> None:
        """Look up what a request needs. Raises the ClientError with which the last look-up for it failed."""
        known = self._look_ups.get(key)
        if known is not None and known.error is not None and pending.place is LOOKED_UP:
            steps.close()
            raise known.error
        if known is not None and not known.done:
            steps.close()
            pending.place = LOOKED_UP
            return
        if pending.place is LOOKED_UP:  # and that did not help
            steps.close()
            pending.place = None
            pending.not_before_us = self._now_us + self._backoff_ms(pending.attempts) * 1000
            pending.attempts += 1
            self._until(pending.not_before_us)
            return
        pending.place = LOOKED_UP
        self._look_ups[key] = self.start(steps, self._now_us)

    def _any(self, purpose: Purpose) -> Endpoint | None:
        """A server for a request that any broker may answer; None: all are left alone for a while."""
        dialled = {
            endpoint: self._links[conn]
            for (endpoint, found), conn in self._places.items()
            if found is purpose and not isinstance(endpoint, Address)
        }
        open_ones = [endpoint for endpoint, link in dialled.items() if link.connection.has_room(self._now_us)]
        if open_ones:
            return open_ones[self._random.below(len(open_ones))]
        silent = set()
        for endpoint, link in dialled.items():
            if link.connection.state is not ConnectionState.READY:
                if link.silent_us > self._now_us:
                    self._until(link.silent_us)
                    return endpoint
                silent.add(endpoint)
        brokers: list[Endpoint] = [one for one in self.metadata.brokers if one not in silent]
        free = [one for one in brokers if self._is_free(one)]
        if free:
            return free[self._random.below(len(free))]
        if not self.metadata.brokers or self.config.rebootstrap:
            brokers += [one for one in self._bootstraps() if one not in silent]
            free = [one for one in brokers if self._is_free(one)]
            if free:
                return free[0]
        for one in brokers:
            self._until(self._failing[one].until_us)
        return next(iter(dialled), None)

    def _is_free(self, endpoint: Endpoint) -> bool:
        failing = self._failing.get(endpoint)
        return failing is None or failing.until_us <= self._now_us

    def _bootstraps(self) -> list[Endpoint]:
        count = len(self.config.bootstrap)
        return [f"bootstrap {(self._first_bootstrap + number) % count}" for number in range(count)]

    def _address(self, endpoint: Endpoint) -> tuple[str, int]:
        if isinstance(endpoint, Address):
            return endpoint.host, endpoint.port
        if isinstance(endpoint, str):
            return self.config.bootstrap[int(endpoint.partition(" ")[2])]
        broker = self.metadata.brokers[endpoint]
        return broker.host, broker.port

    def _node(self, endpoint: Endpoint) -> int:
        return endpoint if isinstance(endpoint, int) else -1

    def _dial(self, place: Place) -> None:
        failing = self._failing.get(place[0])
        if failing is not None and failing.until_us > self._now_us:
            self._until(failing.until_us)
            return
        host, port = self._address(place[0])
        self._next_conn += 1
        conn = self._next_conn
        setup_ms = self.config.setup_timeout_ms << min(failing.count if failing is not None else 0, 10)
        due_us = self._now_us + min(setup_ms, self.config.setup_timeout_max_ms) * 1000
        server = f"{host}:{port}"
        if isinstance(place[0], int):
            server = f"broker {place[0]} ({server})"
        elif isinstance(place[0], Address):
            server = place[0].server
        connection = Connection(self.config, server, self._random, self._token)
        self._links[conn] = _Link(place, connection, due_us, self._now_us + SILENT_MS * 1000)
        self._places[place] = conn
        self._until(due_us)
        self._dials.append(Dial(conn, host, port, self.config.tls is not None))

    # ---- answers

    def _answered(self, pending: Pending, reply: Reply) -> None:
        if pending not in self._pending:
            return  # its operation is over
        to = pending.ask.to
        codes = MOVED.get(type(to))
        if codes is not None:
            code = next((one for one in error_codes(reply.message) if one in codes), 0)
            if code:
                if isinstance(to, Coordinator) and code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    self._coordinators.pop((to.kind, to.key), None)
                elif isinstance(to, Controller):
                    self.metadata.controller = -1
                self._again(pending, refused(f"{pending.ask.name} at broker {reply.node}", code), sent=False)
                return
        del self._pending[pending]
        self._settle(pending, reply)

    # ---- what the client asks for itself

    def _is_known(self, topics: tuple[str, ...] | None) -> bool:
        metadata, oldest_us = self.metadata, self._now_us - self.config.metadata_max_age_ms * 1000
        if topics is None:
            return -1 < metadata.all_updated_us >= oldest_us
        return bool(metadata.brokers) and all(
            topic in metadata.topics
            and metadata.topics[topic].updated_us >= oldest_us
            and all(part.leader in metadata.brokers for part in metadata.topics[topic].partitions.values())
            for topic in topics
        )

    def _learn(self, topics: tuple[str, ...] | None) -> Steps[Metadata]:
        """Ask a broker for metadata."""
        kind = message("MetadataRequest")

        def build(version: int) -> Any:
            named = None if topics is None else [kind.MetadataRequestTopic(name=one) for one in topics]
            return kind(topics=named, allow_auto_topic_creation=False)

        attempt = 0
        while True:
            reply = yield Ask(AnyNode(), "Metadata", build, versions=(1, 1 << 15))
            if reply.message.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
                self._bootstrap_anew()
            elif reply.message.brokers:
                self.metadata.update(reply.message, topics, self._now_us)
                self._adopt()
                return self.metadata
            yield Pause(attempt=attempt)  # a broker that has just started knows nothing yet
            attempt += 1

    def _bootstrap_anew(self) -> None:
        """Forget the brokers, and close the connections to them: a broker says that what is known is of no use
        (KIP-1102)."""
        self.metadata.brokers = {}
        for conn, link in list(self._links.items()):
            if isinstance(link.place[0], int):
                self._drop(conn, Lost(f"{link.connection.server} wants this client to begin anew"), close=True)

    def _adopt(self) -> None:
        """Keep the connection to a bootstrap server as that to the broker of the same address; close connections to
        brokers that have moved."""
        at = {(one.host, one.port): one.id for one in self.metadata.brokers.values()}
        for conn, link in list(self._links.items()):
            endpoint, purpose = link.place
            if isinstance(endpoint, str):
                id = at.get(self._address(endpoint))
                if id is not None and (id, purpose) not in self._places and not link.connection.under_way:
                    del self._places[link.place]
                    link.place = id, purpose
                    self._places[link.place] = conn

    def _find(self, to: Coordinator) -> Steps[None]:
        """Look up a coordinator, as steps."""
        kind = message("FindCoordinatorRequest")

        def build(version: int) -> Any:
            if version < 4:
                return kind(key=to.key, key_type=int(to.kind))
            return kind(coordinator_keys=[to.key], key_type=int(to.kind))

        lowest = 6 if to.kind is KeyType.SHARE else 0
        attempt = 0
        while True:
            reply = yield Ask(AnyNode(), "FindCoordinator", build, versions=(lowest, 1 << 15))
            told = reply.message if reply.version < 4 else reply.message.coordinators[0]
            if not told.error_code:
                if told.node_id not in self.metadata.brokers:
                    yield Know((), fresh=True)
                if told.node_id in self.metadata.brokers:
                    self._coordinators[to.kind, to.key] = told.node_id
                    return
            elif told.error_code not in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
                what = "group" if to.kind is KeyType.GROUP else f"{to.kind.name.lower()} coordinator's key"
                raise refused(f"{what} {to.key}", told.error_code, told.error_message)
            yield Pause(attempt=attempt)
            attempt += 1


def error_codes(value: Any) -> Iterator[int]:
    """All error codes in an answer that are not 0."""
    for name in value.__layout__.names:
        held = getattr(value, name)
        if isinstance(held, int):
            if held and name.endswith("error_code"):
                yield held
        elif isinstance(held, list):
            for one in held:
                if isinstance(one, Message):
                    yield from error_codes(one)
        elif isinstance(held, Message):
            yield from error_codes(held)
