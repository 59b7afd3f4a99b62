"""The process of a client: connections with a request timeout, tasks written as coroutines, and its view of the
cluster.

This file alone decides how a client waits. Rules:

1. A coroutine awaits `ask` (an answer, or None when the connection was lost or the time was over) and `sleep`.
2. As in Kafka's own clients, a request without an answer in time closes the connection.
3. Clients share nothing but the history.
"""

from collections.abc import Callable, Coroutine, Generator
from random import Random
from typing import Any

from actors.wire import framing
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.simulator.cluster import PORT
from tests.simulator.history import History
from tests.simulator.world import EPOCH_WALL_MS, HERE, Link, World

Resume = Callable[[Any], None]
TIMEOUT_MS = 5_000
METADATA_VERSION = 12
REFUSED = frozenset((
    ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
))  # fmt: skip


class Wait:
    """The object that a coroutine awaits: `begin(resume)` starts it, `resume(value)` ends it."""

    __slots__ = ("_begin",)

    def __init__(self, begin: Callable[[Resume], None]) -> None:
        self._begin = begin

    def __await__(self) -> Generator["Wait", Any, Any]:
        return (yield self)

    def begin(self, resume: Resume) -> None:
        self._begin(resume)


class Tasks:
    """The work of a process as coroutines, each of which runs until it waits."""

    world: World
    running: int
    """How many have begun and not ended."""

    def spawn(self, coroutine: Coroutine[Wait, Any, None]) -> None:
        """Begin a task, which runs until it waits."""
        self.running += 1
        self._step(coroutine, None)

    def _step(self, coroutine: Coroutine[Wait, Any, None], value: Any) -> None:
        try:
            wait = coroutine.send(value)
        except StopIteration:
            self.running -= 1
            return
        wait.begin(lambda result: self._step(coroutine, result))

    def sleep(self, milliseconds: int) -> Wait:
        """Wait for so many milliseconds of virtual time."""
        return Wait(lambda resume: self.world.after(milliseconds * 1000, lambda: resume(None)))


class Client(Tasks):
    """A client of the cluster. `brokers` are the names of the brokers' processes."""

    def __init__(self, world: World, name: str, brokers: list[str], history: History, random: Random) -> None:
        self.world = world
        self.name = name
        self.life = 1
        self.peers: dict[int, Link] = {}
        self.node = self  # the links speak to `.node`
        self.brokers = brokers
        self.history = history
        self.random = random
        self.stopping = False
        self.running = 0
        self.leaders: dict[tuple[str, int], str] = {}
        self.principal: str | None = None
        """The principal that the client's certificate names; None: it shows none, and no broker asks for rights."""
        self.host = HERE
        self.rack = ""
        """The rack of a consumer that is to be served by a replica there (KIP-392); empty: of no rack."""
        self.preferred: dict[tuple[str, int], str] = {}
        """The broker, not the leader, that it was sent to."""
        self.topic_ids: dict[str, bytes] = {}
        self.epochs: dict[tuple[str, int], int] = {}
        """The newest leader epoch that Metadata has told. What names an older one is older, and is passed over."""
        self.read_epochs: dict[tuple[str, int], int] = {}
        """The epoch of the last batch that it was given."""
        self.states_epochs = False
        """Whether the client states its leader epoch in what it asks of leaders, as real consumers do (KIP-320)."""
        self.timeless = 0
        """One batch in so many that it writes has no time; 0: each has one."""
        self._next_conn = 0
        self._correlation = 0
        self._conns: dict[str, int] = {}
        self._up: set[int] = set()
        self._queued: dict[int, list[bytes]] = {}
        self._pending: dict[tuple[int, int], tuple[str, int, Resume]] = {}

    def timestamp_ms(self, sequence: int) -> int:
        """The time of a batch with that sequence number."""
        if self.timeless and not sequence % self.timeless:
            return -1
        return EPOCH_WALL_MS + self.world.time_us // 1000

    # ---- requests

    def ask(self, target: str, name: str, version: int, request: Any, timeout_ms: int = TIMEOUT_MS) -> Wait:
        """Send a request to a broker. Gives the reply, or None."""
        return Wait(lambda resume: self._ask(target, name, version, request, timeout_ms, resume))

    def any_broker(self) -> str:
        """A broker for a request that any broker may answer."""
        return self.brokers[self.random.randrange(len(self.brokers))]

    def refused(self, code: int | None) -> bool:
        """Whether an error says that the client has no right to what it asked for. Rights come back, so it asks again."""
        return self.principal is not None and code in REFUSED

    def hang_up(self, target: str) -> None:
        """Close the connection to a broker; what is asked there gets no answer."""
        conn = self._conns.get(target)
        link = self.peers.pop(conn, None) if conn is not None else None
        if conn is not None and link is not None:
            link.close(self)
            self.closed(conn, False)

    async def learn(self, *topics: str) -> bool:
        """Ask for the leaders of topics. False if that failed or a topic does not exist."""
        kind = message("MetadataRequest")
        request = kind(
            topics=[kind.MetadataRequestTopic(name=topic) for topic in topics], allow_auto_topic_creation=False
        )
        reply = await self.ask(self.any_broker(), "Metadata", METADATA_VERSION, request)
        if reply is None:
            return False
        names = {broker.node_id: broker.host for broker in reply.brokers}
        found = True
        for topic in reply.topics:
            if topic.error_code:
                if not self.refused(topic.error_code):
                    self.topic_ids.pop(topic.name, None)
                found = False
                continue
            if self.topic_ids.get(topic.name, b"") != bytes(topic.topic_id):
                self.epochs = {key: epoch for key, epoch in self.epochs.items() if key[0] != topic.name}
            self.topic_ids[topic.name] = bytes(topic.topic_id)
            for partition in topic.partitions:
                key = topic.name, partition.partition_index
                if self.states_epochs and partition.leader_epoch < self.epochs.get(key, -1):
                    continue
                self.epochs[key] = partition.leader_epoch
                leader = names.get(partition.leader_id)
                if leader is not None:
                    self.leaders[key] = leader
                else:
                    self.leaders.pop(key, None)
        return found

    def _ask(self, target: str, name: str, version: int, request: Any, timeout_ms: int, resume: Resume) -> None:
        conn = self._conns.get(target)
        if conn is None:
            self._next_conn -= 1
            conn = self._conns[target] = self._next_conn
            self._queued[conn] = []
            self.world.dial(self, conn, target, PORT)
        self._correlation += 1
        key = conn, self._correlation
        data = b"".join(framing.encode_request(name, version, self._correlation, self.name, request))
        self._pending[key] = (name, version, resume)
        if conn in self._up:
            self.peers[conn].send(self, data)
        else:
            self._queued[conn].append(data)
        self.world.after(timeout_ms * 1000, lambda: self._overdue(key))

    def _overdue(self, key: tuple[int, int]) -> None:
        if key in self._pending:
            link = self.peers.pop(key[0], None)
            if link is not None:
                link.close(self)
            self.closed(key[0], False)

    # ---- what the links call

    def input(self, function: Callable[[], Any]) -> None:
        function()

    def connected(self, conn: int, listener: str, host: str) -> None:
        if conn not in self._queued:
            self.peers.pop(conn).close(self)
            return
        self._up.add(conn)
        for data in self._queued.pop(conn):
            self.peers[conn].send(self, data)

    def received(self, conn: int, frame: memoryview) -> None:
        entry = self._pending.pop((conn, framing.correlation_id(frame)), None)
        if entry is not None:
            name, version, resume = entry
            resume(framing.decode_response(name, version, frame))

    def closed(self, conn: int, refused: bool) -> None:
        self._up.discard(conn)
        self._queued.pop(conn, None)
        for target in [target for target, one in self._conns.items() if one == conn]:
            del self._conns[target]
        for key in [key for key in self._pending if key[0] == conn]:
            self._pending.pop(key)[2](None)
