"""A job of the bridge, run against a ZooKeeper in memory and an image: what a node does, without the node."""

import json
from collections.abc import Callable
from typing import Any

from actors.bridge import following, znodes
from actors.bridge.asks import Apply, Become, End, Follow, Here, Hold, Job, Look, Make, Pause, Settle, Tell, TellAgain
from actors.bridge.stages import NEXT, Happens, Progress, Stage, progress
from actors.bridge.subjects import settings, topics
from actors.bridge.takeover import take_over
from actors.bridge.writing import STATES, Subject, moved, sweep
from actors.bridge.writing import job as write
from actors.metadata.image import Image
from actors.metadata.ops import BrokerGone, BrokerSet, EndPoint, Op, records
from actors.ports.zookeeper import Changed, Event, Multi, Reads, Rejected, unsendable
from tests.simulator.zookeeper import ZooKeeper

CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
ME = 1001


class Paused(Exception):
    """The job waits: nothing more happens by itself."""


class Bridge:
    """One active controller's bridge."""

    def __init__(self, zookeeper: ZooKeeper, image: Image | None = None, me: int = ME) -> None:
        self.zookeeper = zookeeper
        self.image = Image() if image is None else image
        self.session = zookeeper.begin(self._happened)
        endpoints = (EndPoint("PLAINTEXT", "127.0.0.1", 9500),)
        self.here = Here(self.image, me, CLUSTER, frozenset({1001, 1002}), endpoints, new_id=self._new_id)
        self.stage = Stage.LOOKING
        self.epoch: int | None = None
        self.told: list[str] = []
        self.again: list[int] = []
        self.hosting: set[int] = set()
        """Brokers that do not give up what is deleted."""
        self.changed: dict[str, None] = {}
        self.ids = 0
        self.before: Callable[[Any], None] = lambda ask: None
        """Is called before an ask is answered: another's move."""

    def _new_id(self) -> bytes:
        self.ids += 1
        return b"made" + self.ids.to_bytes(12, "big")

    def take_over(self) -> None:
        """Run the takeover until it drives, or pauses."""
        self.run(take_over(self.here))

    def follow(self) -> list[str]:
        """Work off what has changed in ZooKeeper. Returns the paths."""
        worked = []
        while self.changed and self.stage is Stage.DRIVING:
            path = next(iter(self.changed))
            del self.changed[path]
            if name := following.job_of(path):
                worked.append(path)
                self.run(following.job(self.here, name))
        self.changed = {}
        return worked

    def watch(self) -> None:
        """What a bridge that drives does first."""
        self.changed.update(dict.fromkeys(following.FOLLOWED))
        self.follow()
        sweep(self.here)
        self.write_states()

    def write_states(self) -> None:
        """Write leaders and ISRs, as a bridge does that has nothing else to do."""
        while self.here.moved or self.here.unswept:
            self.run(write(self.here, STATES))

    def write(self, kind: str, name: Any) -> None:
        """Write a subject back."""
        self.run(write(self.here, Subject(kind, name)))

    def apply(self, *ops: Op) -> None:
        """Something has changed in the metadata, and is committed."""
        for op in ops:
            self.here.moved.update(dict.fromkeys(moved(op)))
            self.image.replay(self.image.next_offset, op)
        self.image.commit(self.image.next_offset)

    def run(self, job: Job) -> None:
        """Run a job to its end, or until it pauses."""
        answer: Any = None
        while True:
            try:
                ask = job.throw(answer) if isinstance(answer, Exception) else job.send(answer)
            except StopIteration:
                return
            self.before(ask)
            try:
                answer = self._answer(ask)
            except Paused:
                return

    def _answer(self, ask: Any) -> Any:
        if isinstance(ask, Look):
            return self.zookeeper.answer(self.session, Reads(0, ask.reads, ask.watch))
        if isinstance(ask, Make):
            return unsendable(ask.changes) or self.zookeeper.answer(self.session, Multi(0, ask.changes))
        if isinstance(ask, Apply):
            self.apply(*(op for item in ask.ops for op in (item if isinstance(item, list) else [item])))
        elif isinstance(ask, Become):
            self.stage = NEXT[self.stage, ask.what]
        elif isinstance(ask, Follow):
            self._registered(ask)
        elif isinstance(ask, Hold):
            self.epoch = ask.epoch
        elif isinstance(ask, Tell):
            self.told.append(ask.text)
        elif isinstance(ask, TellAgain):
            self.again.append(ask.broker)
        elif isinstance(ask, End):
            return not ask.what.brokers & self.hosting
        elif isinstance(ask, Pause):
            raise Paused
        else:
            assert isinstance(ask, Settle)
        return None

    def _registered(self, ask: Follow) -> None:
        there = {one.id for one in ask.brokers}
        self.apply(*(BrokerGone(one.id) for one in self.image.brokers() if one.id not in there))
        self.apply(*(registration(one.id, one.epoch, one.endpoints) for one in ask.brokers))

    def _happened(self, event: Event) -> None:
        assert isinstance(event, Changed)
        self.changed[event.path] = None


def registration(id: int, epoch: int, endpoints: tuple[EndPoint, ...]) -> BrokerSet:
    """A broker in ZooKeeper mode, as the controller registers it."""
    return BrokerSet(id, epoch, bytes(16), endpoints, zookeeper=True)


def cluster(brokers: int = 3) -> ZooKeeper:
    """A small cluster of Apache Kafka 2.8, whose controller is broker 1 in epoch 7."""
    zookeeper = ZooKeeper()
    for path in (
        znodes.TOPICS, znodes.CONFIG_CHANGES, znodes.DELETE_TOPICS, znodes.LOG_DIR_EVENTS, znodes.ISR_CHANGES,
        *(f"{znodes.CONFIG}/{kind}" for kind in ("topics", "brokers", "clients", "users", "ips")),
    ):  # fmt: skip
        zookeeper.put(path, b"")
    zookeeper.put(znodes.CLUSTER_ID, b'{"version":"1","id":"%s"}' % CLUSTER.encode())
    zookeeper.put(znodes.CONTROLLER_EPOCH, b"7")
    sessions = {}
    for id in range(1, brokers + 1):
        sessions[id] = zookeeper.begin(lambda event: None)
        zookeeper.put(f"{znodes.BROKER_IDS}/{id}", broker(id), sessions[id])
    zookeeper.put(znodes.CONTROLLER, b'{"version":1,"brokerid":1,"timestamp":"1"}', sessions[1])
    zookeeper.sessions_of_brokers = sessions  # type: ignore[attr-defined]
    return zookeeper


def broker(id: int, listener: str = "PLAINTEXT") -> bytes:
    """A broker's znode as 2.8 writes it."""
    return json.dumps(
        {
            "features": {},
            "listener_security_protocol_map": {listener: "PLAINTEXT"},
            "endpoints": [f"{listener}://127.0.0.1:{9090 + id}"],
            "jmx_port": -1,
            "port": 9090 + id,
            "host": "127.0.0.1",
            "version": 5,
            "timestamp": "1637700000000",
        }
    ).encode()


def add_topic(
    zookeeper: ZooKeeper,
    name: str,
    replicas: list[list[int]],
    *,
    id: bytes = b"",
    states: bool = True,
    leader_epoch: int = 4,
    isr: list[int] | None = None,
) -> bytes:
    """A topic, by its controller or, without states, by a broker; its id."""
    id = id or (name.encode() + bytes(16))[:16]
    data = znodes.written(
        removing_replicas={}, partitions={str(n): members for n, members in enumerate(replicas)},
        topic_id=topics.id_text(id), adding_replicas={}, version=3,
    )  # fmt: skip
    zookeeper.put(topics.path_of(name), data)
    for number, members in enumerate(replicas) if states else ():
        state = znodes.written(
            controller_epoch=7, leader=(isr or members)[0], version=1, leader_epoch=leader_epoch, isr=isr or members
        )
        zookeeper.put(topics.state_path(name, number), state)
    return id


def driving() -> Bridge:
    """A bridge that has taken over a cluster with the topic `orders`."""
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2]])
    bridge = Bridge(zookeeper)
    bridge.take_over()
    bridge.watch()
    return bridge


def set_config(zookeeper: ZooKeeper, entity: str, notice: bool = True, **found: str) -> None:
    """Settings, as a broker writes them."""
    given = {name.replace("__", "-").replace("_", "."): value for name, value in found.items()}
    zookeeper.put(settings.path_of(entity), settings.data(given))
    if notice:
        notify(zookeeper, entity)


def notify(zookeeper: ZooKeeper, entity: str) -> None:
    """A notification of changed settings, as a broker writes it."""
    from actors.ports.zookeeper import Create

    data = znodes.written(version=2, entity_path=entity)
    result = zookeeper.multi(0, [Create(f"{znodes.CONFIG_CHANGES}/config_change_", data, sequential=True)])
    assert not isinstance(result, Rejected)


__all__ = [
    "CLUSTER", "ME", "Bridge", "Happens", "Progress", "Stage", "add_topic", "broker", "cluster", "driving", "notify",
    "progress", "records", "registration", "set_config",
]  # fmt: skip
