"""Quorums of several nodes, over real frames and virtual disks, on a clock that a test moves.

Only what `Quorum` needs of a runtime is here: time, timers, syncs, work, channels, waiting. A frame is encoded and decoded
as on a socket; a dead node refuses.
"""

from collections.abc import Callable, Hashable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

from actors.metadata import batches
from actors.node.api import handlers as rpc
from actors.node.net.channels import ChannelError
from actors.node.quorum.files import DIRECTORIES
from actors.node.quorum.replica import Quorum
from actors.node.runtime.answers import Done, Parked
from actors.node.runtime.calls import Call, Listener
from actors.node.runtime.storage import Storage
from actors.node.runtime.waiting import Waiting
from actors.ports import Batch, Buffer, DiskFull, Now, Sync
from actors.raft import SnapshotId
from actors.wire import framing
from fastpath.records.batch import Builder
from tests.served import TABLE
from tests.simulator.disk import VirtualDisk

WALL_MS = 1_700_000_000_000
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
SETTINGS = {
    "controller.quorum.election.timeout.ms": 1000,
    "controller.quorum.election.backoff.max.ms": 1000,
    "controller.quorum.fetch.timeout.ms": 2000,
    "controller.quorum.retry.backoff.ms": 20,
    "controller.quorum.request.timeout.ms": 2000,
    "controller.quorum.fetch.max.bytes": 1 << 20,
    "controller.quorum.fetch.snapshot.max.bytes": 1000,
    "internal.metadata.log.segment.bytes": 4096,
    "metadata.log.segment.bytes": 1 << 30,
    "metadata.log.segment.ms": 1 << 40,
}


class Endpoint:
    name = "CONTROLLER"
    host = "127.0.0.1"

    def __init__(self, port: int) -> None:
        self.port = port


class Config:
    """The part of NodeConfig that the quorum reads."""

    def __init__(self, id: int, roles: frozenset[str], connect: Sequence[tuple[int | None, str, int]]) -> None:
        self.roles = roles
        self.controller_connect = connect
        self.controller_endpoints = (Endpoint(9000 + id),) if "controller" in roles else ()

    def value(self, name: str) -> Any:
        return SETTINGS[name]


class Recorder:
    """A role that keeps what it is given."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.values: list[bytes] = []
        self.next_offset = 0

    def load(self, data: Buffer, snapshot: SnapshotId) -> None:
        self.events.append(f"load {snapshot.end_offset}-{snapshot.epoch}")
        self.values = [bytes(data)[-8:]]
        self.next_offset = snapshot.end_offset

    def replay(self, batch: Batch) -> None:
        assert batch.base_offset == self.next_offset, (batch.base_offset, self.next_offset)
        self.next_offset = batch.last_offset + 1
        if not batches.is_control(batch.data):
            self.values.append(bytes(batch.data)[-8:])

    def committed(self, high_watermark: int) -> None:
        assert high_watermark == self.next_offset

    def gained(self, epoch: int, next_offset: int) -> None:
        assert self.next_offset == next_offset
        self.events.append(f"gained {epoch}")

    def lost(self) -> None:
        self.events.append("lost")


class Chance:
    def __init__(self, random: Random) -> None:
        self.random = random

    def below(self, n: int) -> int:
        return self.random.randrange(n)

    def uuid(self) -> bytes:
        return self.random.randbytes(16)


class Channels:
    """Calls over the cluster's network."""

    def __init__(self, node: "FakeNode") -> None:
        self.node = node
        self.watchers: dict[Hashable, Callable[[bool], None]] = {}

    def peer(
        self, purpose: Hashable, address: tuple[str, int], name: str, request: Any, then: Any, timeout_ms: int
    ) -> None:
        self.node.cluster.call(self.node, purpose, address, name, request, then)

    def watch(self, purpose: Hashable, lost: Callable[[bool], None]) -> None:
        self.watchers[purpose] = lost

    def drop(self, purpose: Hashable) -> None:
        self.watchers.pop(purpose, None)


class FakeNode:
    """One node's surroundings."""

    def __init__(self, cluster: "Cluster", id: int, roles: frozenset[str], connect: Any) -> None:
        self.cluster = cluster
        self.id = id
        self.config = Config(id, roles, connect)
        self.disk = VirtualDisk()
        self.storage = Storage(CLUSTER_ID, "drafts", 2, [self.disk], [bytes([id]) * 16], ["memory"])
        self.random = Chance(cluster.random)
        self.lines: list[str] = []
        self.log = self
        self.alive = False
        self.life = 0
        self.stopped: str | None = None

    def info(self, text: str) -> None:
        self.lines.append(text)

    warning = error = info

    @property
    def now(self) -> Now:
        return self.cluster.now

    def start(self) -> None:
        self.life += 1
        self.alive = True
        self.stopped = None
        self.waiting = Waiting()
        self.channels = Channels(self)
        self.role = Recorder()
        runtime: Any = self
        channels: Any = self.channels
        self.quorum = Quorum(runtime, channels, self.storage, self.id)
        self.quorum.attach([self.role])
        self.context = SimpleNamespace(quorum=self.quorum, requests=self)
        self.quorum.recover()

    def kill(self, power: bool = False) -> None:
        self.alive = False
        self.life += 1
        if power:
            self.disk.crash(self.cluster.random)
        for other in self.cluster.nodes.values():
            if other.alive:
                for purpose, lost in list(other.channels.watchers.items()):
                    if purpose[1] == self.id:  # type: ignore[index]
                        lost(False)
                        lost(True)

    def sync(self, files: Any, replacements: Any, then: Callable[[Any], None], kind: Any = None) -> None:
        def done() -> None:
            try:
                self.disk.sync(Sync(0, files, replacements))
            except DiskFull as full:
                then(full)
            else:
                then(None)

        self.cluster.after(1, self, done)

    def work(self, job: Callable[[], Any], then: Callable[[Any], None]) -> None:
        def done() -> None:
            try:
                result: Any = job()
            except Exception as error:
                result = error
            then(result)

        self.cluster.after(1, self, done)

    def stop(self, code: int, sentence: str) -> None:
        self.stopped = sentence
        self.kill()

    def turn(self) -> None:
        if self.alive:
            self.waiting.expire(self.now.mono_ms)
        if self.alive:
            self.quorum.tick(self.now)
            self.quorum.advance()
            while self.waiting.run():
                pass


class Cluster:
    """Nodes by id. `connect` names no ids: brokers learn who leads."""

    def __init__(self, controllers: int = 3, brokers: int = 0) -> None:
        rpc.load()
        self.random = Random(7)
        self.time_ms = 0
        self.queue: list[tuple[int, FakeNode, int, Callable[[], None]]] = []
        self.nodes: dict[int, FakeNode] = {}
        ids = range(1, controllers + 1)
        connect = [(None, "127.0.0.1", 9000 + id) for id in ids]
        for id in ids:
            self.nodes[id] = FakeNode(self, id, frozenset({"controller"}), connect)
        for id in range(101, 101 + brokers):
            self.nodes[id] = FakeNode(self, id, frozenset({"broker"}), connect)
        voters = tuple(batches.Voter(id, bytes([id]) * 16, (("CONTROLLER", "127.0.0.1", 9000 + id),)) for id in ids)
        head = [batches.SnapshotHeader(0), batches.KRaftVersion(1), batches.Voters(voters)]
        first = batches.control_batch(0, 0, 0, head)
        last = batches.control_batch(3, 0, 0, [batches.SnapshotFooter()])
        self.first_checkpoint = bytes(first.data) + bytes(last.data)
        for id in ids:
            self.nodes[id].disk.replace(self.path("0" * 20 + "-" + "0" * 10 + ".checkpoint"), self.first_checkpoint)

    @staticmethod
    def path(name: str) -> str:
        return f"{DIRECTORIES['drafts']}/{name}"

    @property
    def now(self) -> Now:
        return Now(self.time_ms, WALL_MS + self.time_ms)

    def after(self, delay_ms: int, node: FakeNode, act: Callable[[], None]) -> None:
        self.queue.append((self.time_ms + delay_ms, node, node.life, act))

    def start(self, *ids: int) -> None:
        for id in ids or self.nodes:
            self.nodes[id].start()

    def call(self, source: FakeNode, purpose: Any, address: Any, name: str, request: Any, then: Any) -> None:
        version = framing.latest_version(name)
        frame = b"".join(framing.encode_request(name, version, 1, "test", request))[4:]
        target = self.nodes[address[1] - 9000]

        def refused() -> None:
            then(ChannelError("refused", "dead"))
            watcher = source.channels.watchers.get(purpose)
            if watcher is not None:
                watcher(True)

        def arrive() -> None:
            header, position = framing.decode_request_header(frame)
            body = framing.decode_request(name, version, memoryview(frame), position)
            api = TABLE[Listener.CONTROLLER, header.api_key]
            call = Call(1, Listener.CONTROLLER, "CONTROLLER", header.api_key, version, "", "", "", memoryview(frame))
            settle(api.handler(target.context, body, call))

        def settle(answer: Any) -> None:
            if isinstance(answer, Parked):
                target.waiting.park(answer.keys, answer.deadline_ms, lambda expired: settle(answer.again(expired)))
                return
            assert isinstance(answer, Done), answer
            parts = framing.encode_response(name, version, 1, answer.reply)
            reply = memoryview(b"".join(parts)[4:])
            life = source.life
            if source.alive:
                self.after(
                    1,
                    source,
                    lambda: then(framing.decode_response(name, version, reply)) if source.life == life else None,
                )

        if target.alive:
            self.after(1, target, arrive)
        else:
            self.after(1, source, refused)

    def run(self, milliseconds: int, until: Callable[[], bool] | None = None) -> bool:
        """Move the clock; True as soon as `until` holds."""
        for _ in range(milliseconds):
            self.time_ms += 1
            due = [item for item in self.queue if item[0] <= self.time_ms]
            self.queue = [item for item in self.queue if item[0] > self.time_ms]
            for _, node, life, act in due:
                if node.alive and node.life == life:
                    act()
            for node in self.nodes.values():
                node.turn()
            if until is not None and until():
                return True
        return until is not None and until()

    def leader(self) -> FakeNode | None:
        for node in self.nodes.values():
            if node.alive and node.quorum.active:
                return node
        return None

    def elect(self) -> FakeNode:
        assert self.run(5000, lambda: self.leader() is not None)
        leader = self.leader()
        assert leader is not None
        return leader

    def append(self, text: str, size: int = 0) -> int:
        """A client's record at the leader; its offset."""
        leader = self.leader()
        assert leader is not None
        offset = leader.quorum.log_end_offset
        builder = Builder(offset, leader.quorum.epoch, timestamp_ms=self.now.wall_ms)
        builder.append(None, bytes(size) + text.encode().rjust(8))
        leader.quorum.append(Batch(offset, offset, leader.quorum.epoch, builder.build()))
        return offset

    def settled(self) -> bool:
        """Every living node has replayed the leader's whole log."""
        leader = self.leader()
        return leader is not None and all(
            node.role.next_offset == leader.quorum.log_end_offset for node in self.nodes.values() if node.alive
        )
