"""A client without sockets: its dials are answered by servers that are functions from bytes to bytes."""

from collections.abc import Callable
from typing import Any

from actors.client.asks import Steps
from actors.client.client import Client
from actors.client.properties import ClientConfig, client_config
from actors.client.tasks import Task
from actors.wire import framing
from actors.wire.messages import message, requests, rpcs


class Dice:
    """`ports.Random` that always gives the same."""

    def below(self, n: int) -> int:
        """The middle."""
        return n // 2

    def uuid(self) -> bytes:
        """Always the same one."""
        return bytes(range(16))


Handler = Callable[["Server", str, int, Any], Any]


class Server:
    """A server of Kafka's protocol. `answers`: API -> a function of (server, version, request) that gives the response;
    None: no answer. Bytes instead of a response are sent as they are; an Exception ends the connection."""

    def __init__(
        self, host: str, port: int, answers: dict[str, Any], versions: dict[str, tuple[int, int]] | None = None
    ):
        self.host, self.port = host, port
        self.answers = answers
        self.versions = versions or {}
        self.asked: list[tuple[str, int, Any]] = []
        self.refuses = False
        self.conns: set[int] = set()

    def api_versions(self, version: int) -> Any:
        kind = message("ApiVersionsResponse")
        keys = [
            kind.ApiVersion(api_key=row.key, min_version=low, max_version=high)
            for row in rpcs("rpc").values()
            for low, high in [self.versions.get(row.name.removeprefix("rpc:"), (row.advertised[0], row.advertised[-1]))]
            if high >= 0
        ]
        return kind(api_keys=keys)


class World:
    """A client, servers, and a clock that moves when nothing else does."""

    def __init__(self, *servers: Server, **config: Any) -> None:
        given = {"bootstrap.servers": f"{servers[0].host}:{servers[0].port}"} | {
            name.replace("_", "."): value for name, value in config.items()
        }
        self.config: ClientConfig = client_config(given)
        self.client = Client(self.config, Dice())
        self.servers = {(one.host, one.port): one for one in servers}
        self.now_us = 1_000_000
        self.conns: dict[int, Server] = {}
        self.dialled: list[tuple[int, str, int]] = []
        """(time in us, host, port)."""
        self.piece = 1 << 20
        """Bytes that a client is given at once."""
        self._incoming: list[tuple[int, bytes | Exception]] = []
        self._unread: dict[int, bytes] = {}

    def run(self, steps: Steps[Any], timeout_ms: int | None = None) -> Any:
        """Run an operation to its end."""
        return self.wait(self.client.start(steps, self.now_us, timeout_ms))

    def wait(self, task: Task[Any]) -> Any:
        for _ in range(100_000):
            if task.done:
                return task.result()
            self.step()
        raise AssertionError("it does not end")

    def step(self) -> None:
        """Carry out the effects of one turn, then deliver what is on the way, or let time pass."""
        tasks = list(self.client._tasks)
        effects = self.client.turn(self.now_us)
        ended = any(task.done for task in tasks)
        for conn in effects.closes:
            server = self.conns.pop(conn, None)
            if server is not None:
                server.conns.discard(conn)
        for dial in effects.dials:
            self.dialled.append((self.now_us, dial.host, dial.port))
            server = self.servers.get((dial.host, dial.port))
            if server is None or server.refuses:
                self.client.lost(dial.conn, "nothing listens there", self.now_us)
                continue
            self.conns[dial.conn] = server
            server.conns.add(dial.conn)
            self.client.connected(dial.conn, self.now_us)
        for conn, parts in effects.sends:
            if conn in self.conns:
                self._serve(conn, b"".join(parts))
        if self._incoming:
            conn, data = self._incoming.pop(0)
            if conn in self.conns:
                self._deliver(conn, data)
        elif not ended and not effects.dials and not effects.sends and effects.deadline_us is not None:
            self.now_us = max(self.now_us + 1, effects.deadline_us)

    def cut(self, server: Server) -> None:
        """End all connections to a server."""
        for conn in list(server.conns):
            self._deliver(conn, ConnectionError("reset"))

    def _deliver(self, conn: int, data: bytes | Exception) -> None:
        if isinstance(data, Exception):
            server = self.conns.pop(conn)
            server.conns.discard(conn)
            self.client.lost(conn, str(data), self.now_us)
            return
        for start in range(0, len(data), self.piece):
            self.client.received(conn, data[start : start + self.piece], self.now_us)

    def _serve(self, conn: int, data: bytes) -> None:
        server, data = self.conns[conn], self._unread.pop(conn, b"") + data
        while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big"):
            size = int.from_bytes(data[:4], "big")
            frame, data = data[4 : 4 + size], data[4 + size :]
            header, position = framing.decode_request_header(frame)
            name = rpcs("rpc")[header.api_key].name.removeprefix("rpc:")
            request = framing.decode_request(name, header.api_version, frame, position)
            server.asked.append((name, header.api_version, request))
            answer = self._answer(server, name, header.api_version, request)
            if answer is None:
                continue
            if not isinstance(answer, bytes | Exception):
                answer = b"".join(framing.encode_response(name, header.api_version, header.correlation_id, answer))
            self._incoming.append((conn, answer))
        self._unread[conn] = data

    def _answer(self, server: Server, name: str, version: int, request: Any) -> Any:
        own = server.answers.get(name)
        if own is not None:
            return own(server, version, request) if callable(own) else own
        if name == "ApiVersions":
            return server.api_versions(version)
        if name == "Metadata":
            return self.metadata()
        raise AssertionError(f"nobody has said what {name} is answered")

    def metadata(self, controller: int = 1, **topics: Any) -> Any:
        """All servers as brokers, in order from 1. `topics`: name -> leaders of its partitions, or (epoch, leaders)."""
        kind = message("MetadataResponse")
        brokers = [
            kind.MetadataResponseBroker(node_id=n, host=one.host, port=one.port)
            for n, one in enumerate(self.servers.values(), 1)
        ]
        return kind(
            brokers=brokers,
            controller_id=controller,
            cluster_id="cluster",
            topics=[metadata_topic(name, value) for name, value in topics.items()],
        )


def metadata_topic(name: str, value: Any) -> Any:
    """A topic of a Metadata answer: leaders by partition, or (epoch, leaders), or an error code."""
    kind = message("MetadataResponse").MetadataResponseTopic
    if isinstance(value, int):
        return kind(name=name, error_code=value)
    epoch, leaders = value if isinstance(value, tuple) else (1, value)
    return kind(
        name=name,
        topic_id=name.encode().ljust(16, b"\1"),
        partitions=[
            message("MetadataResponse").MetadataResponsePartition(
                partition_index=n, leader_id=leader, leader_epoch=epoch, replica_nodes=[leader], isr_nodes=[leader]
            )
            for n, leader in enumerate(leaders)
        ],
    )


def newest(name: str) -> int:
    """The newest version of a request."""
    return requests(name).advertised[-1]
