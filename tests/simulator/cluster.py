"""A whole cluster in the virtual world: configurations, formatted disks, processes, and a client that sends frames."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from actors.host.storage import Voter, first_checkpoint
from actors.node.runtime.storage import Storage
from actors.settings.node_config import NodeConfig, node_config
from actors.wire import framing
from tests.simulator.disk import VirtualDisk
from tests.simulator.world import Link, Process, World

CLUSTER_ID = "AAECAwQFBgcICQoLDA0ODw"
FIRST_CHECKPOINT = "__kafka_metadata-0/00000000000000000000-0000000000.checkpoint"
CONTROLLER, BROKER = 1000, 0
PORT = 9000
DIRECTORIES = ("data", "more", "third")
"""Paths of a broker's log directories; the first holds the metadata log too."""


PLANE_PORT = 9099
PUSHES = {
    "rayft.metadata.push.enable": "true",
    "control.plane.listener.name": "CP",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CP:PLAINTEXT",
}
"""The settings of controllers that push metadata."""


def is_pushed(id: int) -> dict[str, str]:
    """Settings of a broker that does not pull metadata."""
    return {
        "rayft.metadata.source": "push",
        "control.plane.listener.name": "CP",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CP:PLAINTEXT",
        "listeners": f"PLAINTEXT://b{id}:{PORT},CP://b{id}:{PLANE_PORT}",
    }


AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
OPERATOR = "User:operator"
"""The super user that is no node."""
STOLEN = 77
"""A node that is no more. A stranger has its certificate, and speaks for others with it."""


def node_principal(id: int) -> str:
    """The principal that a node's certificate names."""
    return f"User:rayft-node-{id}"


def directory_id(node: int) -> bytes:
    """A directory id that names its node."""
    return node.to_bytes(2, "big") * 8


class Cluster:
    """`controllers` voters (1001, ...) and `brokers` brokers (1, ...), each a process of its own."""

    def __init__(
        self,
        world: World,
        controllers: int = 3,
        brokers: int = 3,
        level: int = 2,
        config: Mapping[str, str] | None = None,
        directories: int = 1,
        transaction_version: int = 0,
        *,
        guarded: bool = False,
        pushed: Collection[int] = (),
        group_version: int = 0,
        share_version: int = 0,
        streams_version: int = 0,
    ) -> None:
        """`config` are settings of the nodes; `{id}` in a value is the node's id. `directories`: how many log
        directories a broker has. `transaction_version`, `group_version`, `share_version`, `streams_version`: the
        cluster begins with them. `guarded`: access rules decide what a principal may do; nodes and operators are super
        users, and each node's certificate names it. `pushed`: brokers that do not pull the metadata log; controllers
        push it to their control planes."""
        self.transaction_version = transaction_version
        self.group_version = group_version
        self.share_version = share_version
        self.streams_version = streams_version
        self.world = world
        self.level = level
        self.controllers: dict[int, Process] = {}
        self.brokers: dict[int, Process] = {}
        ids = [CONTROLLER + n for n in range(1, controllers + 1)]
        if guarded:
            nodes = [node_principal(id) for id in (*ids, *range(1, brokers + 1), STOLEN)]
            config = {**(config or {}), **AUTHORIZER, "super.users": ";".join([*nodes, OPERATOR])}
        voters = [Voter(id, f"c{id}", PORT, directory_id(id), "CONTROLLER") for id in ids]
        connect = ",".join(f"{id}@c{id}:{PORT}" for id in ids)
        for id in ids:
            settings = {
                "process.roles": "controller",
                "controller.id": str(id),
                "controller.connect": connect,
                "controller.listeners": "CONTROLLER",
                "listeners": f"CONTROLLER://c{id}:{PORT}",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                "log.dirs": "data",
                **(PUSHES if pushed else {}),
                **(config or {}),
            }
            process = self._process(f"c{id}", _config(settings, id), directory_id(id))
            process.disk.replace(FIRST_CHECKPOINT, first_checkpoint(voters))
            self.controllers[id] = process
        for id in range(1, brokers + 1):
            settings = {
                "process.roles": "broker",
                "broker.id": str(id),
                "controller.connect": connect,
                "listeners": f"PLAINTEXT://b{id}:{PORT}",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                "log.dirs": ",".join(DIRECTORIES[:directories]),
                "group.initial.rebalance.delay.ms": "0",
                "rayft.log.scrub.bytes.per.second": "0",
                **(is_pushed(id) if id in pushed else {}),
                **(config or {}),
            }
            process = self.brokers[id] = self._process(f"b{id}", _config(settings, id), directory_id(id))
            for number in range(1, directories):
                disk = VirtualDisk()
                disk.id = directory_id(100 * id + number)
                process.more.append(disk)
        if guarded:
            for id, process in (self.controllers | self.brokers).items():
                process.principal = node_principal(id)

    def start(self) -> None:
        """Start the processes of all nodes."""
        for process in (*self.controllers.values(), *self.brokers.values()):
            process.start()

    def active(self) -> Process | None:
        """The controller that serves."""
        for process in self.controllers.values():
            if process.node is not None and process.node.controller.active:
                return process
        return None

    def ready(self) -> bool:
        """Whether every running broker serves clients."""
        return self.active() is not None and all(
            "PLAINTEXT" in process.listening for process in self.brokers.values() if process.alive
        )

    def _process(self, name: str, config: NodeConfig, id: bytes) -> Process:
        def storage(disk: VirtualDisk) -> Storage:
            if not process.more:
                disks, ids, paths = [disk], [disk.id or id], [f"{name}:data"]
            else:
                disks = process.disks
                ids = [one.id or id for one in disks]
                paths = list(DIRECTORIES[: len(ids)])
            return Storage(
                CLUSTER_ID, "drafts", self.level, disks, ids, paths, self.transaction_version,
                group_version=self.group_version, share_version=self.share_version,
                streams_version=self.streams_version,
            )  # fmt: skip

        process = Process(self.world, name, config, storage)
        self.world.add(process)
        return process


def _config(settings: Mapping[str, str], id: int) -> NodeConfig:
    return node_config({name: value.replace("{id}", str(id)) for name, value in settings.items()})


class Client:
    """A process without a node: it dials, sends requests and receives answers. Calls use continuations."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.life = 1
        self.principal: str | None = None
        self.peers: dict[int, Link] = {}
        self.node = self  # the links speak to `.node`
        self._next_conn = 0
        self._correlation = 0
        self._conns: dict[str, int] = {}
        self._up: set[int] = set()
        self._queued: dict[int, list[tuple[int, bytes]]] = {}
        self._pending: dict[tuple[int, int], tuple[str, int, Callable[[Any], None]]] = {}

    def ask(self, target: str, name: str, version: int, request: Any, then: Callable[[Any], None]) -> None:
        """Send a request to a broker, then call `then(reply)`, or `then(None)` when the connection is lost."""
        conn = self._conns.get(target)
        if conn is None:
            self._next_conn -= 1
            conn = self._conns[target] = self._next_conn
            self._queued[conn] = []
            self.world.dial(self, conn, target, PORT)
        self._correlation += 1
        data = b"".join(framing.encode_request(name, version, self._correlation, self.name, request))
        self._pending[conn, self._correlation] = (name, version, then)
        if conn in self._up:
            self.peers[conn].send(self, data)
        else:
            self._queued[conn].append((self._correlation, data))

    def call(self, target: str, name: str, version: int, request: Any, milliseconds_max: int = 30_000) -> Any:
        """Send a request and move the world until the answer is there. None if the connection was lost."""
        box: list[Any] = []
        self.ask(target, name, version, request, box.append)
        if not self.world.run_until(lambda: bool(box), milliseconds_max):
            raise TimeoutError(f"{target} did not answer {name} in {milliseconds_max} virtual ms")
        return box[0]

    # ---- what the links call

    def input(self, function: Callable[[], Any]) -> None:
        function()

    def connected(self, conn: int, listener: str, host: str) -> None:
        self._up.add(conn)
        for _, data in self._queued.pop(conn, []):
            self.peers[conn].send(self, data)

    def received(self, conn: int, frame: memoryview) -> None:
        entry = self._pending.pop((conn, framing.correlation_id(frame)), None)
        if entry is not None:
            name, version, then = entry
            then(framing.decode_response(name, version, frame))

    def closed(self, conn: int, refused: bool) -> None:
        self._up.discard(conn)
        self._queued.pop(conn, None)
        self._conns = {target: one for target, one in self._conns.items() if one != conn}
        lost = [key for key in self._pending if key[0] == conn]
        for key in lost:
            self._pending.pop(key)[2](None)
