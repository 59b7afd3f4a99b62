"""Several brokers without sockets or controllers: metadata is handed to them as ops, requests go through real bytes.

Each is a whole node with its own wiring and its own turn. Three things are put in place of others: what raft says
(`Committed`), what the node asks of controllers and of leaders (`Wires`), and the syncs and jobs of the host, which a test
may hold. A request is given to its handler at once. `Lab.commit(op)` is what a committed record is to every broker that is
not `cut`; `Lab.settle()` runs turns until nothing moves. Time stands still unless `pass_ms` is called.
"""

from collections.abc import Callable, Sequence
from typing import Any

from actors.metadata import ops
from actors.metadata.batches import BatchWriter
from actors.metadata.dialects import dialect
from actors.node.api.perform import perform
from actors.node.api.table import ENVELOPED
from actors.node.net.channels import ChannelError
from actors.node.net.request_channel import RequestChannel
from actors.node.node import Node
from actors.node.roles.broker.role import BrokerRole
from actors.node.runtime.answers import Close, Done, Forward, Held, Later, Parked, Sliced
from actors.node.runtime.calls import Call, Listener
from actors.node.runtime.effects import Effects, Stop
from actors.node.runtime.storage import Storage
from actors.node.runtime.waiting import Waiting
from actors.ports import DiskFailed, DiskFull, Now, Run, Sync, to_end
from actors.settings.node_config import node_config
from actors.wire import framing
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.batch import Builder
from tests.served import TABLE
from tests.simulator.disk import VirtualDisk

TOPIC_ID = bytes(range(16))
LEASE_MS = 20_000
CONTROLLER_ID = 1001
TURN_NS = 4_000_000


class Dice:
    """Counts instead of chance."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def below(self, n: int) -> int:
        self.state += 1
        return self.state % n

    def uuid(self) -> bytes:
        self.state += 1
        return self.state.to_bytes(16, "big")


class Book:
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, text: str) -> None:
        self.lines.append(text)

    warning = error = info


class Pending:
    """One request and what became of it."""

    def __init__(self) -> None:
        self.reply: Any = None
        self.closed: str | None = None
        self.done = False


def unwrapped(request: Any, then: Callable[[Any], None]) -> tuple[str, Any, Callable[[Any], None]]:
    """What is in an Envelope: API, request, and who is told the answer."""
    frame = memoryview(bytes(request.request_data))
    header, position = framing.decode_request_header(frame)
    api, version = ENVELOPED[header.api_key], header.api_version

    def told(reply: Any) -> None:
        if not isinstance(reply, ChannelError):
            data = b"".join(framing.encode_response(api.name, version, header.correlation_id, reply))[4:]
            reply = message("EnvelopeResponse")(response_data=data)
        then(reply)

    return api.name, framing.decode_request(api.name, version, frame, position), told


class Wires:
    """What a broker asks of others."""

    def __init__(self, node: "Facade") -> None:
        self.node = node

    def controller(self, name: str, request: Any, then: Callable[[Any], None], timeout_ms: int = 0, **_: Any) -> None:
        lab = self.node.lab
        if not lab.controller_up or self.node.id in lab.cut:
            lab.later.append(lambda: then(ChannelError("unknown", "no active controller is known")))
            return
        if name == "Envelope":
            name, request, then = unwrapped(request, then)
        lab.asked.append((self.node.id, name, request))
        lab.later.append(lambda: lab.answer_controller(self.node, name, request, then))

    def peer(
        self,
        purpose: Any,
        address: tuple[str, int],
        name: str,
        request: Any,
        then: Callable[[Any], None],
        timeout_ms: int = 0,
        version: int | None = None,
        versions: range | None = None,
        **_: Any,
    ) -> None:
        lab = self.node.lab
        target = lab.nodes[address[1] - 9000]
        if lab.zookeeper.get(target.id) is not None:
            assert versions is not None and lab.zookeeper[target.id] in versions, "it is asked first what it serves"
            version = lab.zookeeper[target.id]
        elif (own := lab.zookeeper.get(self.node.id)) is not None and name == "Fetch":
            version = own
        if target.id in lab.dead or frozenset((target.id, self.node.id)) in lab.split or name in lab.lost:
            lab.later.append(lambda: then(ChannelError("lost", "cut")))
            return
        lab.fetches += 1

        def deliver() -> None:
            chosen = framing.latest_version(name) if version is None else version
            pending = lab.call(target.id, name, chosen, request, connection=1000 + self.node.id, retry=True)
            lab.awaited.append((pending, then, self.node.id, target.id))

        lab.later.append(deliver)

    def drop_all(self) -> None:
        pass


class Committed:
    """What raft says where the quorum is the lab: everything is committed, and the replica has nothing to do."""

    exhausted = False
    kraft_version = 1

    def __init__(self, lab: "Lab") -> None:
        self.lab = lab

    @property
    def high_watermark(self) -> int:
        return self.lab.next_offset

    committed_offset = high_watermark

    told_high_watermark = high_watermark

    @property
    def leader_id(self) -> int:
        return CONTROLLER_ID if self.lab.controller_up else -1

    def quiet(self, applied: int) -> bool:
        return True

    def tick(self, now: Now) -> None:
        pass

    def resign(self) -> None:
        pass


def handed_over(job: Callable[[], object]) -> object:
    """What the host says of a job or a sync that is done, or of the disk that has failed in it."""
    try:
        return to_end(job)
    except (DiskFull, DiskFailed) as error:
        return error


class Facade:
    """A node of the lab."""

    def __init__(self, lab: "Lab", id: int, disk: VirtualDisk, settings: dict[str, str]) -> None:
        self.lab = lab
        self.id = id
        self.disk = disk
        lab.starts += 1
        config = node_config(
            {
                "process.roles": "broker",
                "broker.id": str(id),
                "listeners": f"PLAINTEXT://b{id}:{9000 + id}",
                "controller.listener.names": "CONTROLLER",
                "controller.connect": f"{CONTROLLER_ID}@c:1",
                "log.dirs": "/d",
                **settings,
            }
        )
        self.log = Book()
        self.held_syncs: list[Callable[[], None]] = []
        self.hold_syncs = False
        self.listening: set[str] = set()
        """Listeners that keep what arrives."""
        storage = Storage("cluster", "drafts", 2, [disk], [bytes([id]) * 16], ["/d"])
        self.node: Any = Node(config, storage, Dice(id * 1000 + lab.starts * 100_000), self.log)
        self.runtime = self.node.runtime
        self.runtime.sync, self.runtime.work = self.sync, self.work
        wires, channels = Wires(self), self.node.channels
        channels.controller, channels.peer, channels.drop_all = wires.controller, wires.peer, wires.drop_all
        self.node.quorum.raft = Committed(lab)
        self.node.quorum.recover = lambda: None

    def start(self) -> None:
        """The process begins."""
        self.perform(self.node.start(self.lab.now))

    def turn(self) -> None:
        """One turn of the node."""
        self.perform(self.node.turn(self.lab.now, TURN_NS))

    def perform(self, effects: Effects) -> None:
        """What is done about its listeners; all else goes through the lab."""
        assert not (effects.sync or effects.work or effects.dial), effects
        self.listening.update(effects.listen)
        self.listening.difference_update(effects.turn_away)

    def connected(self, conn: int) -> None:
        """A client, or a follower, has connected."""
        if self.requests.connections.get(conn) is None:
            self.node.connected(conn, "PLAINTEXT", "127.0.0.1")

    @property
    def broker(self) -> BrokerRole:
        broker: BrokerRole = self.node.broker
        return broker

    @property
    def arrives(self) -> bool:
        """Whether the next turn makes more replicas."""
        return bool(self.broker.replicas.arriving) and not self.broker.logs.closing

    @property
    def requests(self) -> RequestChannel:
        requests: RequestChannel = self.node.requests
        return requests

    @property
    def waiting(self) -> Waiting:
        waiting: Waiting = self.runtime.waiting
        return waiting

    @property
    def stopped(self) -> Stop | None:
        stopped: Stop | None = self.runtime.stopped
        return stopped

    def sync(
        self,
        files: Sequence[Any],
        replacements: Sequence[Any],
        then: Callable[[Any], None],
        *_: Any,
        runs: Sequence[Run] = (),
    ) -> None:
        def run() -> None:
            then(handed_over(lambda: self.disk.sync(Sync(0, files, replacements, runs=runs))))

        (self.held_syncs if self.hold_syncs else self.lab.later).append(run)

    def work(self, job: Callable[[], object], then: Callable[[Any], None], *_: Any) -> None:
        self.lab.later.append(lambda: then(handed_over(job)))


class Lab:
    """The cluster."""

    def __init__(
        self, brokers: int = 3, settings: dict[str, str] | None = None, zookeeper: dict[int, int] | None = None
    ) -> None:
        self.slices = 0
        """Slices of requests that were not the last of theirs."""
        self.between_slices: Callable[[], None] = lambda: None
        self.now = Now(1_000_000, 1_700_000_000_000)
        self.settings = settings or {}
        self.log: list[Any] = []
        """Committed metadata batches."""
        self.next_offset = 0
        self.zookeeper: dict[int, int] = zookeeper or {}
        """Brokers that are registered as ones in ZooKeeper mode, and the newest Fetch that they know."""
        self.cut: set[int] = set()
        """Brokers that neither reach the controller nor pull metadata."""
        self.dead: set[int] = set()
        self.split: set[frozenset[int]] = set()
        self.lost: set[str] = set()
        """APIs whose requests between brokers are lost."""
        self.controller_up = True
        self.hold_controller: list[Callable[[], None]] | None = None
        """A list: answers of the controller stay in it instead of arriving."""
        self.hold_heartbeats = False
        """Heartbeats are lost."""
        self.alter: Callable[[Any], Any] | None = None
        """Answers AlterIsr; None: everything is applied and committed."""
        self.asked: list[tuple[int, str, Any]] = []
        self.later: list[Callable[[], None]] = []
        self.awaited: list[tuple[Pending, Callable[[Any], None], int, int]] = []
        self.fetches = 0
        self.starts = 0
        self.seen: dict[int, int] = {}
        self.disks = {id: VirtualDisk() for id in range(1, brokers + 1)}
        self.nodes: dict[int, Facade] = {}
        self.commit(ops.FeatureSet("metadata.format", 2))
        for id in range(1, brokers + 1):
            self.start(id)
        self.settle()

    # ---- brokers

    def start(self, id: int) -> Facade:
        """A new process of a broker."""
        node = self.nodes[id] = Facade(self, id, self.disks[id], self.settings)
        self.seen[id] = 0
        self.dead.discard(id)
        node.start()
        self.pull(node)
        return node

    def crash(self, id: int) -> None:
        """The process is gone at once; what was not synced is lost."""
        self.dead.add(id)
        self.disks[id].crash()
        self.awaited = [one for one in self.awaited if one[2] != id]

    def broker(self, id: int) -> BrokerRole:
        return self.nodes[id].broker

    def partition(self, id: int, number: int = 0, topic: str = "t") -> Any:
        return self.nodes[id].broker.replicas.get(topic, number)

    # ---- metadata

    def commit(self, *changes: Any) -> int:
        """Records are committed; the offset of the first. Brokers that are not cut replay them at once."""
        writer = BatchWriter(self.next_offset, 1, self.now.wall_ms)
        first = self.next_offset
        dialect(2).encode(changes, writer)
        for batch in writer.finish():
            self.log.append(batch)
            self.next_offset = batch.last_offset + 1
        for node in self.nodes.values():
            self.pull(node)
        return first

    def pull(self, node: Facade) -> None:
        """A broker replays what it has not seen, unless it is cut."""
        if node.id in self.cut or node.id in self.dead:
            return
        for batch in self.log[self.seen[node.id] :]:
            node.broker.replay(batch)
        self.seen[node.id] = len(self.log)
        node.broker.committed(self.next_offset)

    def topic(
        self,
        replicas: Sequence[int],
        name: str = "t",
        topic_id: bytes = TOPIC_ID,
        partitions: int = 1,
        configs: dict[str, str] | None = None,
    ) -> None:
        """A topic with the same replicas everywhere, all in sync."""
        self.commit(
            ops.TopicSet(name, topic_id),
            ops.PartitionsSet(topic_id, range(partitions), [replicas] * partitions, [replicas] * partitions),
            *(ops.ConfigSet(2, name, key, value) for key, value in (configs or {}).items()),
        )
        self.settle()

    def change(self, isr: Sequence[int], leader: int, number: int = 0, topic_id: bytes = TOPIC_ID) -> None:
        """The controller changes ISR and leader."""
        image = next(node.broker.cache.image for node in self.nodes.values() if node.id not in self.dead | self.cut)
        row = image.partition(image.topic_by_id(topic_id), number)
        epoch = image.partition_epoch(row) + 1
        self.commit(ops.PartitionsChanged.one(topic_id, number, isr, leader, epoch, epoch))

    def answer_controller(self, node: Facade, name: str, request: Any, then: Callable[[Any], None]) -> None:
        """The active controller, simple minded."""
        if name == "BrokerHeartbeat" and self.hold_heartbeats:
            then(ChannelError("timeout", "held"))
            return
        answer = getattr(self, f"_answer_{name}")(node, request)

        def arrive() -> None:
            if node.id not in self.dead:
                then(answer)

        if self.hold_controller is not None and name != "BrokerHeartbeat":
            self.hold_controller.append(arrive)
        else:
            arrive()

    def _answer_BrokerHeartbeat(self, node: Facade, request: Any) -> Any:
        reply = message("v28:BrokerHeartbeatResponse")
        end_ms = request.lease_start_time_ms + LEASE_MS
        if request.target_state == 4:
            return reply(next_state=4, broker_epoch=request.broker_epoch)
        registered = node.broker.cache.image.broker(node.id)
        if request.target_state == 2:
            if registered is not None:
                self.commit(ops.BrokerGone(node.id))
            return reply(next_state=2, broker_epoch=-1)
        if request.broker_epoch < 0 and registered is not None and registered.incarnation_id != request.incarnation_id:
            self.commit(ops.BrokerGone(node.id))
        elif registered is not None and registered.epoch == request.broker_epoch:
            return reply(next_state=3, broker_epoch=registered.epoch, lease_end_time_ms=end_ms)
        endpoints = tuple(ops.EndPoint(one.name, one.host, one.port, 0) for one in request.listeners)
        epoch = self.commit(
            ops.BrokerSet(
                node.id,
                self.next_offset,
                request.incarnation_id,
                endpoints,
                request.rack,
                (),
                tuple(request.log_dirs),
                zookeeper=node.id in self.zookeeper,
            )
        )
        return reply(next_state=3, broker_epoch=epoch, lease_end_time_ms=end_ms)

    def _answer_AllocateProducerIds(self, node: Facade, request: Any) -> Any:
        first = node.broker.cache.image.next_producer_id
        self.commit(ops.ProducerIdsSet(node.id, request.broker_epoch, first + 1000))
        return message("AllocateProducerIdsResponse")(producer_id_start=first, producer_id_len=1000)

    def _answer_CreateTopics(self, node: Facade, request: Any) -> Any:
        kind = message("CreateTopicsResponse")
        topics = []
        for topic in request.topics:
            self.commit(
                ops.TopicSet(topic.name, topic.name.encode().ljust(16, b"\1")[:16]),
                ops.PartitionsSet(topic.name.encode().ljust(16, b"\1")[:16], [0], [[node.id]], [[node.id]]),
            )
            topics.append(kind.CreatableTopicResult(name=topic.name))
        return kind(topics=topics)

    def _answer_AlterIsr(self, node: Facade, request: Any) -> Any:
        if self.alter is not None:
            return self.alter(request)
        kind = message("AlterIsrResponse")
        topics = []
        for topic in request.topics:
            parts = []
            for one in topic.partitions:
                epoch = one.current_zk_version + 1
                self.commit(
                    ops.PartitionsChanged.one(topic.topic_id, one.partition_id, one.isr, one.leader, epoch, epoch)
                )
                parts.append(kind.PartitionData(partition_id=one.partition_id, error_code=0))
            topics.append(kind.TopicData(topic=topic.topic, partitions=parts))
        return kind(topics=topics)

    # ---- requests

    def call(self, id: int, name: str, version: int, request: Any, connection: int = 7, retry: bool = False) -> Pending:
        """One request of a client, or of a follower, through its bytes and back."""
        node, pending = self.nodes[id], Pending()
        frame = bytearray(b"".join(framing.encode_request(name, version, 1, "client", request))[4:])
        header, position = framing.decode_request_header(frame)
        api = TABLE[Listener.CLIENT, header.api_key]
        assert version in api.versions, f"{name} {version} is not served"
        asked = framing.decode_request(name, version, memoryview(frame), position)
        call = Call(
            connection,
            Listener.CLIENT,
            "PLAINTEXT",
            header.api_key,
            version,
            "client",
            "127.0.0.1",
            "User:ANONYMOUS",
            memoryview(frame),
        )
        node.runtime.now = self.now
        node.connected(connection)
        self._settle(node, pending, name, version, perform(node.node.dispatch.broker, api, asked, call))
        return pending

    def _settle(self, node: Facade, pending: Pending, name: str, version: int, answer: Any) -> None:
        while isinstance(answer, Sliced):
            self.slices += 1
            self.between_slices()
            answer = answer.again()
        if isinstance(answer, Done):
            pending.done = True
            if answer.reply is not None:
                frame = b"".join(framing.encode_response(name, version, 1, answer.reply))
                pending.reply = framing.decode_response(name, version, memoryview(bytearray(frame))[4:])
        elif isinstance(answer, Close):
            pending.done, pending.closed = True, answer.why
        elif isinstance(answer, Parked):
            node.waiting.park(
                answer.keys,
                answer.deadline_ms,
                lambda late: self._settle(node, pending, name, version, answer.again(late)),
                idle=answer.idle,
            )
        elif isinstance(answer, Later):
            try:
                result = to_end(answer.job)
            except Exception as error:
                result = error  # as the host hands it over
            if answer.seen is not None:
                answer.seen(result)
            self._settle(node, pending, name, version, answer.then(result))
        else:
            assert isinstance(answer, Held | Forward)
            pending.done, pending.reply = True, answer

    # ---- time

    def turn(self) -> bool:
        """One turn of everybody; whether anything happened."""
        later, self.later = self.later, []
        for job in later:
            job()
        arrived = [one for one in self.awaited if one[0].done]
        self.awaited = [one for one in self.awaited if not one[0].done]
        for pending, then, asker, target in arrived:
            if asker not in self.dead:
                gone = pending.closed is not None or target in self.dead
                self.nodes[asker].runtime.now = self.now
                then(ChannelError("lost", "closed") if gone else pending.reply)
        for node in self.nodes.values():
            if node.id in self.dead:
                continue
            node.turn()
        alive = [node for node in self.nodes.values() if node.id not in self.dead]
        goes_on = any(node.requests.queue.ready() or node.arrives for node in alive)
        return bool(later or arrived or self.later or goes_on or any(one[0].done for one in self.awaited))

    def settle(self, turns: int = 500) -> None:
        """Turns until nothing moves."""
        for _ in range(turns):
            if not self.turn():
                return
        raise AssertionError("the cluster does not come to rest")

    def pass_ms(self, ms: int, step_ms: int = 100) -> None:
        """Let time pass in steps."""
        until = self.now.mono_ms + ms
        while self.now.mono_ms < until:
            step = min(step_ms, until - self.now.mono_ms)
            self.now = Now(self.now.mono_ms + step, self.now.wall_ms + step)
            self.settle()

    # ---- shorthand

    def produce(
        self,
        id: int,
        *values: bytes,
        acks: int = -1,
        topic: str = "t",
        number: int = 0,
        timeout_ms: int = 1000,
        **fields: Any,
    ) -> Pending:
        """One batch to one partition."""
        builder = Builder(**{"timestamp_ms": self.now.wall_ms, **fields})
        for value in values:
            builder.append(None, value)
        kind = message("ProduceRequest")
        return self.call(
            id,
            "Produce",
            9,
            kind(
                acks=acks,
                timeout_ms=timeout_ms,
                topic_data=[
                    kind.TopicProduceData(
                        name=topic, partition_data=[kind.PartitionProduceData(index=number, records=builder.build())]
                    )
                ],
            ),
        )

    def fetch(
        self,
        id: int,
        offset: int,
        topic: str = "t",
        number: int = 0,
        wait_ms: int = 0,
        version: int = 12,
        epoch: int = -1,
    ) -> Pending:
        """A consumer's fetch without a session."""
        kind = message("FetchRequest")
        return self.call(
            id,
            "Fetch",
            version,
            kind(
                max_wait_ms=wait_ms,
                min_bytes=1,
                topics=[
                    kind.FetchTopic(
                        topic=topic,
                        partitions=[
                            kind.FetchPartition(
                                partition=number,
                                fetch_offset=offset,
                                partition_max_bytes=1 << 20,
                                current_leader_epoch=epoch,
                            )
                        ],
                    )
                ],
            ),
        )


def outcome(pending: Pending) -> Any:
    """The only partition of a produce or fetch answer."""
    assert pending.done and pending.reply is not None, "no answer yet"
    topic = pending.reply.responses[0]
    return (topic.partition_responses if hasattr(topic, "partition_responses") else topic.partitions)[0]


def code(pending: Pending) -> ErrorCode:
    """Its error."""
    return ErrorCode(outcome(pending).error_code)
