"""Quorums of several nodes in the virtual world of the simulator, on a clock that a test moves.

The nodes are real and wired as everywhere. One thing is put in place of another: what is committed is given to a role that
keeps it, instead of the roles of the node, since the records of these tests mean nothing.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from actors.metadata import batches
from actors.metadata.snapshot import InPieces, verified_batches
from actors.node.node import Node
from actors.node.quorum.files import DIRECTORIES
from actors.node.quorum.replica import QuorumReplica
from actors.node.runtime.storage import Storage
from actors.node.runtime.waiting import Waiting
from actors.ports import Batch, Buffer
from actors.raft import SnapshotId
from actors.settings.node_config import node_config
from fastpath.records.batch import Builder
from tests.simulator.disk import VirtualDisk
from tests.simulator.world import Process, World

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
HOST, PORT = "127.0.0.1", 9000
SETTINGS = {
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.retry.backoff.ms": "20",
    "controller.quorum.request.timeout.ms": "2000",
    "controller.quorum.fetch.max.bytes": str(1 << 20),
    "controller.quorum.fetch.snapshot.max.bytes": "1000",
    "internal.metadata.log.segment.bytes": "4096",
    "log.dirs": "memory",
}


class Recorder:
    """A role that keeps what it is given."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.begun: list[SnapshotId] = []
        """The snapshots that it was to load."""
        self.values: list[bytes] = []
        self.next_offset = 0
        self.active = False
        self._loaded: tuple[bytes, SnapshotId] | None = None

    def loading(self, data: Buffer | InPieces, snapshot: SnapshotId) -> Iterator[None]:
        """A batch of the snapshot is a slice."""
        self.begun.append(snapshot)
        self._loaded = None
        return self._slices(data, snapshot)

    def _slices(self, data: Buffer | InPieces, snapshot: SnapshotId) -> Iterator[None]:
        last = b""
        for batch in verified_batches(data):
            if last:
                yield
            last = bytes(batch.data)[-8:]
        self._loaded = last, snapshot

    def loaded(self) -> Iterator[None]:
        assert self._loaded is not None
        last, snapshot = self._loaded
        self.events.append(f"load {snapshot.end_offset}-{snapshot.epoch}")
        self.values, self.next_offset = [last], snapshot.end_offset
        return iter(())

    def replay(self, batch: Batch) -> None:
        assert batch.base_offset == self.next_offset, (batch.base_offset, self.next_offset)
        self.next_offset = batch.last_offset + 1
        if not batches.is_control(batch.data):
            self.values.append(bytes(batch.data)[-8:])

    def committed(self, high_watermark: int) -> None:
        assert high_watermark == self.next_offset

    def gained(self, epoch: int, next_offset: int) -> None:
        assert self.next_offset == next_offset
        self.active = True
        self.events.append(f"gained {epoch}")

    full = False

    def lost(self) -> None:
        self.active = False
        self.events.append("lost")


class Replica(Process):
    """One process with a node of the quorum. `sync` may be replaced, to see or to spoil what is made durable."""

    node: Any

    def __init__(self, world: World, id: int, settings: dict[str, str], name: str | None = None) -> None:
        self.id = id
        self.settings = settings
        super().__init__(world, name or f"n{id}", node_config(settings), lambda disk: self.storage)
        self.storage = Storage(CLUSTER_ID, "drafts", 2, [self.disk], [bytes([id]) * 16], ["memory"])
        self.sync: Callable[..., None] = self._sync
        self.role = Recorder()

    def _made(self) -> Node:
        self.config = node_config(self.settings)
        self._node = node = super()._made()
        self._runtime_sync = node.runtime.sync
        node.runtime.sync = lambda *args: self.sync(*args)  # type: ignore[method-assign, assignment]
        self.role = Recorder()
        node.quorum.attach([self.role])
        return node

    def _sync(self, *args: Any) -> None:
        self._runtime_sync(*args)

    @property
    def quorum(self) -> QuorumReplica:
        return self._node.quorum

    @property
    def waiting(self) -> Waiting:
        return self._node.runtime.waiting

    @property
    def lines(self) -> list[str]:
        """What its present life, or its last one, has logged."""
        mark = f" {self.name:10} "
        return [line.partition(mark)[2] for line in self.world.lines[self._logged :] if mark in line]

    @property
    def stopped(self) -> str | None:
        """Why it has stopped by itself."""
        return None if self.stopped_with is None else self.stopped_with[1]

    def start(self) -> None:
        self._logged = len(self.world.lines)
        super().start()

    def later(self, function: Callable[[], None]) -> None:
        """A host's answer, a millisecond from now; it is lost with the process."""
        life = self.life
        self.world.after(1000, lambda: self.input(function) if self.life == life else None)

    def replace_disk(self, directory_id: bytes) -> None:
        """The process ends, and its directory is formatted anew, without voters."""
        self.crash()
        self.disk = VirtualDisk()
        self.storage = Storage(CLUSTER_ID, "drafts", 2, [self.disk], [directory_id], ["memory"])

    def power_cut(self) -> None:
        """The process ends, and what was not synced is lost."""
        self.crash()


class Cluster:
    """Nodes by id. What brokers are given to connect to names no ids: they learn who leads."""

    def __init__(
        self, controllers: int = 3, brokers: int = 0, spare: int = 0, settings: dict[str, str] | None = None
    ) -> None:
        """`spare`: more controllers, formatted without voters; they learn who leads. `settings`: of every node."""
        self._settings = settings or {}
        self.world = World(7, keep_log=True)
        self.nodes: dict[int, Replica] = {}
        ids = range(1, controllers + 1)
        places = {id: f"{HOST}:{PORT + id}" for id in ids}
        named = {"controller.connect": ",".join(f"{id}@{place}" for id, place in places.items())}
        unnamed = {"controller.connect": ",".join(places.values())}
        for id in ids:
            self._add(id, {
                "process.roles": "controller",
                "controller.id": str(id),
                "controller.listeners": "CONTROLLER",
                "listeners": f"CONTROLLER://{HOST}:{PORT + id}",
            } | named)  # fmt: skip
        for id in range(1 + controllers, 1 + controllers + spare):
            self._add(id, {
                "process.roles": "controller",
                "controller.id": str(id),
                "controller.listeners": "CONTROLLER",
                "listeners": f"CONTROLLER://{HOST}:{PORT + id}",
            } | unnamed)  # fmt: skip
        for id in range(101, 101 + brokers):
            self._add(id, {
                "process.roles": "broker",
                "broker.id": str(id),
                "listeners": f"PLAINTEXT://{HOST}:{PORT + id}",
            } | unnamed)  # fmt: skip
        voters = tuple(batches.Voter(id, bytes([id]) * 16, (("CONTROLLER", HOST, PORT + id),)) for id in ids)
        head = [batches.SnapshotHeader(0), batches.KRaftVersion(1), batches.Voters(voters)]
        first = batches.control_batch(0, 0, 0, head)
        last = batches.control_batch(3, 0, 0, [batches.SnapshotFooter()])
        self.first_checkpoint = bytes(first.data) + bytes(last.data)
        for id in ids:
            self.nodes[id].disk.replace(self.path("0" * 20 + "-" + "0" * 10 + ".checkpoint"), self.first_checkpoint)

    def _add(self, id: int, settings: dict[str, str]) -> None:
        replica = self.nodes[id] = Replica(self.world, id, SETTINGS | settings | self._settings)
        self.world.add(replica)

    def copy(self, id: int, port: int) -> Replica:
        """A process on a copy of a node's disk as it is now, which listens on another port; it is not among `nodes`."""
        first = self.nodes[id]
        twin = Replica(self.world, id, first.settings | {"listeners": f"CONTROLLER://{HOST}:{port}"}, f"twin{id}")
        for name in first.disk.names(DIRECTORIES["drafts"]):
            file = first.disk.open(self.path(name))
            twin.disk.replace(self.path(name), bytes(file.read_cold(0, file.size)))
        self.world.add(twin)
        return twin

    @staticmethod
    def path(name: str) -> str:
        return f"{DIRECTORIES['drafts']}/{name}"

    @property
    def time_ms(self) -> int:
        """What the nodes' monotonic clocks show."""
        return self.world.time_us // 1000 + 1

    def start(self, *ids: int) -> None:
        for id in ids or self.nodes:
            self.nodes[id].start()

    def ask(self, source: Replica, target: Replica, name: str, request: Any) -> Any:
        """The answer to a request that one node's channels carry to another node."""
        box: list[Any] = []
        channels, address = source.node.channels, (HOST, PORT + target.id)
        source.input(partial(channels.peer, ("outside", 0), address, name, request, box.append, 1000))
        assert self.run(100, lambda: bool(box))
        return box[0]

    def run(self, milliseconds: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Move the clock; True as soon as `until` holds."""
        return self.world.run_until(until, milliseconds)

    def leader(self) -> Replica | None:
        for node in self.nodes.values():
            if node.alive and node.role.active:
                return node
        return None

    def elect(self) -> Replica:
        assert self.run(5000, lambda: self.leader() is not None)
        leader = self.leader()
        assert leader is not None
        return leader

    def append(self, text: str, size: int = 0) -> int:
        """A client's record at the leader; its offset."""
        leader = self.leader()
        assert leader is not None
        raft = leader.quorum.raft
        offset = raft.log_end_offset
        builder = Builder(offset, raft.epoch, timestamp_ms=leader.now().wall_ms)
        builder.append(None, bytes(size) + text.encode().rjust(8))
        leader.input(lambda: leader.quorum.append(Batch(offset, offset, raft.epoch, builder.build())))
        return offset

    def settled(self) -> bool:
        """Every living node has replayed the leader's whole log."""
        leader = self.leader()
        return leader is not None and all(
            node.role.next_offset == leader.quorum.raft.log_end_offset for node in self.nodes.values() if node.alive
        )
