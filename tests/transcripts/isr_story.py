"""The commands of the stories in `isr/`: three real brokers, a real controller, and a network between them that can be
held.

Real are `BrokerRole` with its logs and fetchers, `controller/partitions/alter_isr.py` and the rest of the controller's
operations, and the rule of the newest connection in the handler of AlterIsr. The story decides when a request, an
answer or an update gets through, when something is committed, which node is frozen, and which fails.
"""

from collections.abc import Callable
from itertools import groupby
from types import SimpleNamespace
from typing import Any

from actors.broker.replication.followers import Position
from actors.broker.replication.partition import Assignment
from actors.controller.brokers import heartbeat_leases
from actors.controller.brokers.registration import broker_heartbeat
from actors.controller.producer_ids import allocate_producer_ids
from actors.controller.soft_state import Soft
from actors.metadata.dialects import dialect
from actors.metadata.image import Image
from actors.metadata.ops import BrokerGone, BrokerSet, PartitionsChanged, PartitionsSet, TopicGone, TopicSet
from actors.metadata.snapshot import encode
from actors.node.api.handlers import alter_isr as rpc
from actors.node.net.channels import ChannelError
from actors.node.runtime.answers import Close, Held
from actors.node.runtime.calls import Call, Listener
from actors.raft import SnapshotId
from actors.wire.errors import ErrorCode
from tests.unit.controller.cluster import Cluster
from tests.unit.node.roles.broker.lab import Facade, Lab, code
from tests.unit.node.roles.loading import load_into

SETTINGS = {"replica.lag.time.max.ms": "3000"}
GRACE_MS = 4000


class Flight:
    """One AlterIsr in flight between a broker and a controller."""

    def __init__(self, number: int, sender: Facade, connection: int, request: Any, then: Callable[[Any], None]) -> None:
        self.number = number
        self.sender = sender
        self.connection = connection
        self.request = request
        self.then: Callable[[Any], None] | None = then
        self.reply: Any = None
        self.arrived = False


class World(Lab):
    """Brokers 1, 2 and 3, and the controller to which they send requests."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.options = self.cluster.options._replace(cluster_id="cluster", grace_ms=GRACE_MS)
        self.old: Cluster | None = None
        """A controller that was deposed and does not know it."""
        self.to_old = False
        self.held: set[str] = set()
        """The kinds of messages that do not get through: requests, answers, updates, commits."""
        self.silent: set[int] = set()
        """Brokers whose heartbeats are lost."""
        self.uncommitted: list[Any] = []
        self.flights: list[Flight] = []
        self.connections = {1: 1, 2: 2, 3: 3}
        self.lines: list[str] = []
        self.seen_isr: dict[int, tuple[int, tuple[int, ...]]] = {}
        super().__init__(3, SETTINGS)

    # ---- between brokers and controller

    def pull(self, node: Facade) -> None:
        """Let a broker pull updates. A hold of updates stops only the leader's."""
        if not ("updates" in self.held and node.id == 1):
            super().pull(node)

    def answer_controller(self, node: Facade, name: str, request: Any, then: Callable[[Any], None]) -> None:
        if name == "AlterIsr":
            flight = Flight(len(self.flights) + 1, node, self.connections[node.id], request, then)
            self.flights.append(flight)
            self.lines.append(f"{node.id} asks: request {flight.number} {_proposals(request)}")
            if "requests" not in self.held:
                self.arrive(flight)
        elif name == "BrokerHeartbeat" and node.id in self.silent:
            then(ChannelError("timeout", "lost"))
        elif name == "BrokerHeartbeat":
            then(self.heartbeat(request))
        else:
            assert name == "AllocateProducerIds", name
            reply = self.cluster.run(allocate_producer_ids, request)
            self.publish()
            then(reply)

    def heartbeat(self, request: Any) -> Any:
        self.cluster.mono_ms = self.now.mono_ms
        reply = self.cluster.run(broker_heartbeat, request)
        self.publish()
        while self.cluster.result.wait is not None:
            self.settle_controller()
            reply = self.cluster.run(broker_heartbeat, request)
            self.publish()
        return reply

    def arrive(self, flight: Flight) -> None:
        """A request reaches a controller."""
        flight.arrived = True
        cluster = self.old if self.to_old and self.old is not None else self.cluster
        who = "the old controller" if cluster is self.old else "controller"
        cluster.mono_ms = self.now.mono_ms
        closed: list[int] = []
        role = SimpleNamespace(
            active=True, soft=cluster.soft, submit=lambda op, request, call, cut: Held(0, cluster.run(op, request))
        )
        requests = SimpleNamespace(
            connections=SimpleNamespace(get=lambda conn: conn if conn in self.connections.values() else None),
            close=lambda conn, why: closed.append(conn),
        )
        context: Any = SimpleNamespace(role=role, requests=requests)
        before = cluster.image.next_offset
        call = Call(flight.connection, Listener.CONTROLLER, "C", 56, 0, None, "h", "User:ANONYMOUS", memoryview(b""))
        answer = rpc.decide(context, flight.request, call)
        if isinstance(answer, Close):
            self.lines.append(f"{who} drops request {flight.number}: it came on an older connection")
            return
        assert isinstance(answer, Held)
        flight.reply = answer.reply
        self.lines.append(f"{who} on request {flight.number}: {_errors(answer.reply)}")
        if cluster is self.old:
            if cluster.image.next_offset == before and not answer.reply.topics:
                self.tell(flight)  # such a refusal depends on nothing uncommitted
            return
        self.publish()
        if "commits" not in self.held and "answers" not in self.held:
            self.tell(flight)

    def tell(self, flight: Flight) -> None:
        """An answer reaches the broker."""
        then, flight.then = flight.then, None
        if then is not None and flight.sender.id not in self.dead:
            self.lines.append(f"{flight.sender.id} hears of request {flight.number}: {_errors(flight.reply)}")
            then(flight.reply)

    def lose(self, flight: Flight) -> None:
        """The broker's connection is lost: no answer will come, whatever happens to the request."""
        then, flight.then = flight.then, None
        if then is not None:
            self.connections[flight.sender.id] += 10
            self.lines.append(f"{flight.sender.id} loses the connection of request {flight.number}")
            then(ChannelError("lost", "reset"))

    # ---- the log

    def publish(self) -> None:
        """Commit what the controller has just written, unless commits are held."""
        self.uncommitted += self.cluster.ops
        for op in self.cluster.ops:
            self.lines += _written(self.cluster.image, op)
        self.cluster.ops = []
        if "commits" not in self.held and self.uncommitted:
            changes, self.uncommitted = self.uncommitted, []
            self.commit(*changes)
            self.notice()

    def settle_controller(self) -> None:
        self.cluster.settle()
        self.publish()

    def notice(self) -> None:
        """Show what the present leaders have learned since the last call."""
        for id in self.nodes:
            partition = self.partition(id)
            if id in self.dead or partition is None:
                continue
            now = partition.isr.partition_epoch, tuple(sorted(partition.isr.isr))
            if partition.leads and self.seen_isr.get(id) not in (None, now):
                self.lines.append(f"{id} learns: isr={_ids(now[1])} version={now[0]}")
            self.seen_isr[id] = now

    def replica(self, cluster: Cluster) -> None:
        """Let another controller replay what is committed so far."""
        for batch in self.log:
            for offset, op in dialect(2).decode(batch):
                cluster.image.replay(offset, op)
        cluster.mono_ms = self.now.mono_ms
        cluster.soft.commits.begin(self.now.mono_ms, cluster.image.next_offset)
        heartbeat_leases.take_over(cluster.soft, cluster.image, cluster.now, cluster.options.lease_ms(2), GRACE_MS)


class Story:
    """Each method is a command. Its output is what happened, in order."""

    def __init__(self) -> None:
        self.world = World()
        self.world.lines.clear()
        self.produced: dict[str, Any] = {}

    def commands(self) -> dict[str, Callable[..., str]]:
        names = (
            "topic topics produce wait hold release lose late again fetched reload freeze thaw fence unfence expire elect"
            " depose route fail delete crash start show count"
        )
        return {name: self._told(getattr(self, name)) for name in names.split()}

    def _told(self, command: Callable[..., str | None]) -> Callable[..., str]:
        def run(*words: str, **fields: str) -> str:
            world = self.world
            said = command(*words, **fields)
            world.settle()
            world.notice()
            for value, pending in list(self.produced.items()):
                if pending.done:
                    del self.produced[value]
                    world.lines.append(f"produce {value}: {code(pending).name}")
            lines, world.lines = _counted(world.lines), []
            return "\n".join(lines + ([said] if said else []))

        return run

    # ---- clients and time

    def topic(self, replicas: str, isr: str = "", minimum: str = "1") -> None:
        """`topic 1,2,3 isr=1,2`: topic t with one partition."""
        world = self.world
        members = tuple(map(int, replicas.split(",")))
        assert world.cluster.topic("t", members, configs={"min.insync.replicas": minimum}).error_code == 0
        if isr:
            op = next(op for op in world.cluster.ops if isinstance(op, PartitionsSet))
            wanted = [int(one) for one in isr.split(",")]
            topic_id = next(iter(op)).topic_id
            changed = PartitionsChanged.one(topic_id, 0, wanted, wanted[0], 1, 1)
            world.cluster.image.replay(world.cluster.image.next_offset, changed)
            world.cluster.ops.append(changed)
        world.publish()

    def topics(self, partitions: str, replicas: str, isr: str) -> None:
        """`topics 40 1,2,3 isr=1,2`: topic t with this many partitions, all alike."""
        world, members = self.world, [int(one) for one in isr.split(",")]
        count = int(partitions)
        assert world.cluster.topic("t", *[tuple(map(int, replicas.split(",")))] * count).error_code == 0
        image = world.cluster.image
        topic_id = image.topic_id(image.topic("t"))
        for number in range(count):
            op = PartitionsChanged.one(topic_id, number, members, members[0], 1, 1)
            image.replay(image.next_offset, op)
            world.cluster.ops.append(op)
        world.publish()
        world.lines = [f"+ {count} partitions leader={members[0]} isr={isr} version=1"]

    def produce(self, value: str, broker: str = "1", acks: str = "-1") -> None:
        """Produce one record. Its outcome is shown once it is known."""
        self.produced[value] = self.world.produce(int(broker), value.encode(), acks=int(acks), timeout_ms=600_000)

    def wait(self, seconds: str) -> None:
        """Let time pass. Leases that are not renewed end."""
        world = self.world
        for _ in range(int(float(seconds) * 10)):
            world.pass_ms(100)
            world.cluster.mono_ms = world.now.mono_ms
            world.cluster.expire()
            world.publish()

    # ---- the network

    def hold(self, *what: str) -> None:
        """Stop requests, answers, updates or commits from getting through."""
        self.world.held.update(what)

    def release(self, *what: str) -> None:
        """Let them through again, those that wait first."""
        world = self.world
        world.held.difference_update(what)
        if "commits" in what:
            world.publish()
            for flight in world.flights:
                if flight.reply is not None and "answers" not in world.held:
                    world.tell(flight)
        if "updates" in what:
            world.pull(world.nodes[1])
            world.settle()
            world.notice()
        if "requests" in what:
            for flight in world.flights:
                if not flight.arrived and flight.then is not None:
                    world.arrive(flight)
        if "answers" in what:
            for flight in world.flights:
                if flight.reply is not None:
                    world.tell(flight)

    def lose(self, number: str) -> None:
        """Lose the connection with that request. The broker's next request uses another one."""
        self.world.lose(self.world.flights[int(number) - 1])

    def late(self, number: str) -> None:
        """A copy of a request arrives late."""
        self.world.arrive(self.world.flights[int(number) - 1])

    def again(self) -> None:
        """The leader gets an update that it has already."""
        partition, mono_ms = self.world.partition(1), self.world.now.mono_ms
        now = Assignment(
            partition.replicas,
            tuple(sorted(partition.isr.isr)),
            partition.leader,
            partition.leader_epoch,
            partition.isr.partition_epoch,
        )
        self.world.broker(1).replicas.assign("t", partition.topic_id, 0, now, mono_ms)

    def reload(self) -> None:
        """The leader loads a snapshot of everything that is committed."""
        world, pin = self.world, self.world.cluster.image.pin()
        data = b"".join(encode(pin, 1, 2, 0, None))
        pin.release()
        world.seen[1] = len(world.log)
        load_into(world.broker(1), data, SnapshotId(world.next_offset, 1))

    def fetched(self, broker: str, offset: str, epoch: str) -> None:
        """A fetch of a broker's old or new process reaches the leader."""
        world, id = self.world, int(broker)
        partition = world.partition(1)
        carried = world.cluster.image.broker(id).epoch if epoch == "new" else id
        end = partition.log.log_end_offset
        partition.followers[id].fetched(Position(int(offset), 0, carried, end, world.now.mono_ms))
        world.broker(1).replicas.fetched(partition, world.now.mono_ms)

    def route(self, where: str) -> None:
        """`route old`: requests go to the deposed controller; `route new`: to the active one."""
        self.world.to_old = where == "old"

    # ---- brokers

    def freeze(self, broker: str) -> None:
        """A broker's links to the others stop working."""
        id = int(broker)
        self.world.split.update(frozenset((id, other)) for other in (1, 2, 3) if other != id)

    def thaw(self, broker: str) -> None:
        """The links work again."""
        self.world.split = {pair for pair in self.world.split if int(broker) not in pair}

    def crash(self, broker: str) -> None:
        """A broker's process dies, and what it had not synced is lost."""
        self.world.crash(int(broker))

    def start(self, broker: str) -> None:
        """Start a new process of a broker."""
        self.world.start(int(broker))

    # ---- the controller

    def fence(self, broker: str) -> None:
        """The controller's lease of a broker ends, and the broker does not know it."""
        world = self.world
        world.silent.add(int(broker))
        heartbeat_leases.revoke(world.cluster.soft, int(broker), "told by the story")
        world.settle_controller()

    def unfence(self, broker: str) -> None:
        """The broker's heartbeats get through again."""
        self.world.silent.discard(int(broker))
        self.wait("2")

    def expire(self, broker: str) -> None:
        """The controller's lease of a broker ends. Its heartbeats go on, and the next one restores it."""
        heartbeat_leases.revoke(self.world.cluster.soft, int(broker), "told by the story")
        self.world.settle_controller()

    def elect(self, leader: str) -> None:
        """The controller moves the leadership."""
        world, image = self.world, self.world.cluster.image
        row = image.partition(image.topic("t"), 0)
        epoch = image.partition_epoch(row) + 1
        op = PartitionsChanged.one(image.topic_id(image.topic("t")), 0, image.isr(row), int(leader), epoch, epoch)
        image.replay(image.next_offset, op)
        world.cluster.ops = [op]
        world.publish()

    def delete(self) -> None:
        """Delete the topic t."""
        image = self.world.cluster.image
        op = TopicGone(image.topic_id(image.topic("t")) or b"")
        image.replay(image.next_offset, op)
        self.world.cluster.ops = [op]
        self.world.publish()

    def depose(self) -> None:
        """Another controller is elected. The old one goes on with what it knew."""
        world = self.world
        world.old = world.cluster
        world.cluster = Cluster()
        world.cluster.image, world.cluster.soft, world.cluster.options = Image(), Soft(), world.old.options
        world.replica(world.cluster)

    def fail(self) -> None:
        """The active controller dies: uncommitted changes are lost, connections break, and another controller takes
        over."""
        world = self.world
        world.uncommitted.clear()
        world.held.discard("commits")
        cluster = world.cluster
        cluster.image.undo(world.next_offset)
        cluster.soft = Soft()
        cluster.soft.commits.begin(world.now.mono_ms, world.next_offset)
        heartbeat_leases.take_over(cluster.soft, cluster.image, cluster.now, cluster.options.lease_ms(2), GRACE_MS)
        for flight in world.flights:
            world.lose(flight)
        self.wait("0.1")

    # ---- the state

    def show(self) -> str:
        """The controller's view and the leader's."""
        world, image = self.world, self.world.cluster.image
        topic = image.topic("t")
        if topic < 0:
            return "controller: no topic t"
        row = image.partition(topic, 0)
        lines = [
            f"controller: leader={image.leader(row)} isr={_ids(image.isr(row))} version={image.partition_epoch(row)}"
        ]
        for id in world.nodes:
            partition = world.partition(id)
            if id not in world.dead and partition is not None and partition.leads:
                isr = partition.isr
                proposal = f" proposal={_ids(sorted(isr.proposal.want))}" if isr.proposal else ""
                lines.append(
                    f"leader {id}: {isr.stage.value}{proposal} isr={_ids(sorted(isr.isr))} version={isr.partition_epoch} "
                    f"maximal={_ids(sorted(isr.maximal))} high watermark {partition.high_watermark} of "
                    f"{partition.log.log_end_offset}"
                )
        return "\n".join(lines)

    def count(self) -> str:
        """The number of partitions in each state at the controller and at the leader."""
        world, image = self.world, self.world.cluster.image
        found: dict[str, int] = {}
        for row in image.topic_partitions(image.topic("t")):
            isr = world.partition(1, image.number(row)).isr
            key = f"isr={_ids(image.isr(row))}; at the leader isr={_ids(sorted(isr.isr))} {isr.stage.value}"
            found[key] = found.get(key, 0) + 1
        return "\n".join(f"{number} partitions: {key}" for key, number in sorted(found.items()))


def _ids(members: Any) -> str:
    return ",".join(map(str, members)) or "nobody"


def _counted(lines: list[str]) -> list[str]:
    """Equal lines that follow each other, once and with their number."""
    groups = [(line, len(list(group))) for line, group in groupby(lines)]
    return [line if count == 1 else f"{line} ({count} times)" for line, count in groups]


def _proposals(request: Any) -> str:
    proposals = [
        f"isr={_ids(one.isr)} version={one.current_zk_version}" for topic in request.topics for one in topic.partitions
    ]
    return ", ".join(_counted(proposals))


def _errors(reply: Any) -> str:
    if reply.error_code or not reply.topics:
        return ErrorCode(reply.error_code).name
    return ", ".join(_counted([ErrorCode(one.error_code).name for topic in reply.topics for one in topic.partitions]))


def _written(image: Any, op: Any) -> list[str]:
    if isinstance(op, PartitionsSet | PartitionsChanged):
        word = "Partition" if isinstance(op, PartitionsSet) else "IsrChange"
        return [f"+ {word} leader={one.leader} isr={_ids(one.isr)} version={one.partition_epoch}" for one in op]
    if isinstance(op, BrokerSet):
        return [f"+ Broker {op.id}"]
    if isinstance(op, BrokerGone):
        return [f"+ DeleteBroker {op.id}"]
    return (
        [f"+ {'DeleteTopic' if isinstance(op, TopicGone) else 'Topic'}"] if isinstance(op, TopicGone | TopicSet) else []
    )
