"""What a broker that does not pull the metadata log is told, and in which order (KIP-291; push mode, docs/readings.md G-40).

This file alone decides what LeaderAndIsr, UpdateMetadata and StopReplica hold. It reads one image, that of committed
metadata, and knows neither clocks nor connections: `node/roles/controller/pusher.py` sends what `Outbox` wants to be sent.
Rules:

1. First everything, then what has changed. A new process, a new broker epoch and a new controller begin with everything.
2. UpdateMetadata comes before LeaderAndIsr: a broker that is to follow a leader must know where to reach it, and Apache
   Kafka's brokers never ask again. StopReplica comes last, unless a deleted topic's name is in use again: it names topics.
3. One request at a time. It is sent again as it was until it is answered, but to a process that is not registered, which
   may be another one by then (rule 1). What changes meanwhile is gathered as names of partitions, and the state that they
   have when the next request is made is what is told: an outbox grows with the partitions, never with the changes.
4. A partition that has changed again since UpdateMetadata told of it waits for the next round: its new leader may be a
   broker that this one has not heard of.
5. A deletion is told once, and never merged away. A process that was not there to be told, or was told by a controller
   that ended, is told when `end` is called for the deletion.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.controller.pushes.push_versions import RAYFT, Speech
from actors.metadata.image import TOPIC_RESOURCE, Delta, Image
from actors.metadata.ops import EndPoint
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import UpdateMetadataRequest

BROKER_RESOURCE = 4
PARTITIONS_MAX = 2_000
"""The most partitions in one request, except in the first LeaderAndIsr, which names all replicas of a broker."""
RETOLD_MAX = 10
"""How often UpdateMetadata is brought up to date before the first LeaderAndIsr."""
INCREMENTAL, FULL = 1, 2
"""Types of LeaderAndIsr and UpdateMetadata on the wire."""
DELETED = -2
"""Leader and leader epoch of a partition whose topic is deleted."""

Numbers = dict[bytes, set[int]]
"""The partition numbers of each topic, by topic id."""


class Sender(NamedTuple):
    """The controller in whose name brokers are told: the active one, in one epoch of the quorum."""

    controller: int
    epoch: int
    host: str
    """The host of the controller's own listener; empty: the receiver knows it."""
    port: int
    listener: str
    """The name of the brokers' listener at which leaders are reached (LiveLeaders)."""
    endpoints: tuple[EndPoint, ...] = ()
    """The addresses at which brokers in ZooKeeper mode and their clients reach the controller, under the names of the
    brokers' own listeners: they look for the controller among the live brokers. Empty: it is not named there."""


class Request(NamedTuple):
    """One request to a broker."""

    name: str
    version: int
    body: Any


class Changes:
    """What has changed since a broker was told: names, not states."""

    __slots__ = ("brokers", "gone", "topics")

    def __init__(self) -> None:
        self.brokers = False
        """Whether brokers, their settings or levels of features have changed."""
        self.topics: Numbers = {}
        """The partitions that changed. A topic without a partition here has other settings."""
        self.gone: dict[bytes, tuple[str, frozenset[int]]] = {}
        """The topics that were deleted: topic id -> (name, partition numbers)."""

    def __bool__(self) -> bool:
        return self.brokers or bool(self.topics) or bool(self.gone)

    def add(self, other: "Changes") -> None:
        """Add other changes to these."""
        self.brokers |= other.brokers
        for topic_id, numbers in other.topics.items():
            self.topics.setdefault(topic_id, set()).update(numbers)
        for topic_id, gone in other.gone.items():
            self.topics.pop(topic_id, None)
            self.gone[topic_id] = gone


def changes(image: Image, touched: Delta) -> Changes:
    """The changes of one op that brokers have to be told. It must be called before the next op is replayed."""
    found = Changes()
    rows = touched.partitions
    if touched.removed:
        (name, topic_id), *_ = touched.removed
        found.gone[topic_id] = (name, frozenset(image.number(int(row)) for row in rows))
    else:
        for row in rows:
            topic_id = image.topic_id(image.topic_of(int(row))) or b""
            found.topics.setdefault(topic_id, set()).add(image.number(int(row)))
    for kind, name in touched.configs:
        if kind == BROKER_RESOURCE:
            found.brokers = True
        elif kind == TOPIC_RESOURCE and (row := image.topic(name)) >= 0:
            found.topics.setdefault(image.topic_id(row) or b"", set())
    found.brokers |= bool(touched.brokers or touched.features)
    return found


class Ending(NamedTuple):
    """A topic that is deleted, and that brokers in ZooKeeper mode may still have."""

    topic_id: bytes
    name: str
    replicas: Mapping[int, Sequence[int]]
    """The replicas by partition number."""
    brokers: frozenset[int]
    """The brokers that have to give the topic up."""


class Outbox:
    """What one process of a broker has been told, and what it has still to be told."""

    def __init__(self, broker: int, incarnation_id: bytes, speech: Speech = RAYFT) -> None:
        self.broker = broker
        self.incarnation_id = incarnation_id
        self.speech = speech
        self.epoch = -1
        """The broker epoch under which the committed metadata has this process; -1: it is not registered."""
        self.in_flight: Request | None = None
        """The request that waits for its answer; None: there is none. Invariant: nothing else is sent before it is
        answered."""
        self.acknowledged = -1
        """Metadata offset below which this process has been told everything, as its answers say; -1: not yet everything."""
        self._fresh = Changes()
        self._everything = True
        """Whether the next round tells everything."""
        self._round: Iterator[Request] | None = None
        self._hosted: Numbers = {}
        """The partitions of which the process was told that it has a replica, and not yet with success that it has
        none."""
        self._names: dict[bytes, str] = {}
        """The names of those topics."""
        self._kept = False
        """Whether something of this round was left for the next (rule 4)."""
        self._void = False
        """Whether the request in flight belongs to a round that was given up, so that it is not repeated."""
        self._ended: set[bytes] = set()
        """Ids of deleted topics that this process is told of, until `forget`. Only a process in ZooKeeper mode has any,
        since it does not find out by itself."""
        self.kept: frozenset[tuple[str, int]] = frozenset()
        """Partitions, by topic name and number, that the answer to the StopReplica just answered says it has kept: their log
        directory is offline. They are told again when the process is registered anew."""
        self._given_up: list[bytes] = []
        """Ids of topics of which the process has just been told, with success, that it has no replica."""

    # ---- what happens

    def changed(self, found: Changes) -> None:
        """Note that committed metadata has changed."""
        self._fresh.add(found)
        if not self.speech.of_quorum:  # before all is told once, it may have what only the controller before told it
            self._ended.update(one for one in found.gone if one in self._hosted or self.acknowledged >= 0)

    def end(self, ending: Ending) -> None:
        """Note that a topic was deleted before this process could be told of it. Nothing happens if it is told already."""
        topic_id = ending.topic_id
        if topic_id in self._ended:
            return
        self._ended.add(topic_id)
        found = Changes()
        found.gone[topic_id] = (ending.name, frozenset(ending.replicas))
        self._fresh.add(found)
        here = {number for number, replicas in ending.replicas.items() if self.broker in replicas}
        if here:
            self._hosted.setdefault(topic_id, set()).update(here)
            self._names[topic_id] = ending.name

    def forget(self, topic_id: bytes) -> None:
        """Drop a deleted topic, of which this process is not told any more."""
        self._ended.discard(topic_id)

    def has_given_up(self, topic_id: bytes) -> bool:
        """Whether this process was told that a topic is deleted, and has answered."""
        return topic_id in self._ended and topic_id not in self._hosted

    def given_up(self) -> list[bytes]:
        """Ids of topics that this process has given up since this was asked last."""
        found, self._given_up = self._given_up, []
        return found

    def restart(self, epoch: int) -> None:
        """Begin anew with everything, since the process is registered anew."""
        self.epoch = epoch
        self._round, self._everything = None, True
        self._void = self.in_flight is not None

    def unregistered(self) -> None:
        """Note that the process is not registered any more; it is told what changes all the same."""
        self.epoch = -1

    def answered(self, code: int) -> None:
        """Note that the request in flight is answered, with an error code or with 0."""
        self.in_flight = None
        void, self._void = self._void, False
        if code and not void:
            self.restart(self.epoch)

    def lost(self) -> bool:
        """Note that the connection, or the time for an answer, is over. False: the request in flight is not to be
        repeated. If the process is not registered, the broker's next one may be there already, which has to hear
        everything first."""
        if self.epoch < 0:
            self.restart(self.epoch)
        if self._void:
            self.in_flight, self._void = None, False
        return self.in_flight is not None

    @property
    def idle(self) -> bool:
        """Whether this process has been told all there is."""
        return self.in_flight is None and self._round is None and not self._everything and not self._fresh

    def told(self, image: Image) -> int:
        """The metadata offset below which this process has been told everything; -1: not yet everything."""
        return image.next_offset if self.idle else self.acknowledged

    # ---- what to send

    def next(self, image: Image, sender: Sender) -> Request | None:
        """The request to send now; None: nothing, or one is in flight."""
        if self.in_flight is not None:
            return None
        while self._round is not None or self._everything or self._fresh:
            if self._round is None:
                self._round = self._tell(image, sender)
            request = next(self._round, None)
            if request is not None:
                self.in_flight = request
                return request
            self._round = None
        return None

    def _tell(self, image: Image, sender: Sender) -> Iterator[Request]:
        """The requests of one round, which tell what there is to tell now; each is made when the one before is
        answered."""
        offset, everything = image.next_offset, self._everything
        batch, self._fresh, self._everything, self._kept = self._fresh, Changes(), False, False
        yield from self._metadata(image, sender, None if everything else batch, batch.gone, offset)
        if everything:
            offset = yield from self._up_to_date(image, sender, offset)
            yield from self._replicas(image, sender, None)
        else:
            in_use = any(image.topic(name) >= 0 for name, _ in batch.gone.values())
            if in_use:
                yield from self._stops(image, sender, batch)
            yield from self._replicas(image, sender, batch)
            if not in_use:
                yield from self._stops(image, sender, batch)
        if not self._kept:
            self.acknowledged = offset

    def _up_to_date(self, image: Image, sender: Sender, offset: int) -> Generator[Request, None, int]:
        """The UpdateMetadata requests, and those that make replicas go, for what changes before the first LeaderAndIsr,
        which cannot leave it out. Returns the metadata offset below which all is told."""
        told = 0
        while True:
            while self._fresh and told < RETOLD_MAX:
                told += 1
                later, self._fresh, offset = self._fresh, Changes(), image.next_offset
                yield from self._metadata(image, sender, later, later.gone, offset)
            yield from self._stops(image, sender, None)
            if not self._fresh or told == RETOLD_MAX:
                return offset

    def _metadata(
        self,
        image: Image,
        sender: Sender,
        batch: Changes | None,
        gone: dict[bytes, tuple[str, frozenset[int]]],
        offset: int,
    ) -> Iterator[Request]:
        """The UpdateMetadata requests for a batch of changes; `batch` None: for everything."""
        kind = message("UpdateMetadataRequest")
        deleted = [
            (kind.UpdateMetadataTopicState(topic_name=name, topic_id=topic_id), _deleted(kind, sender, numbers))
            for topic_id, (name, numbers) in gone.items()
        ]
        shown = _topics(image, kind, sender, _every(image) if batch is None else batch.topics.items())
        states = _portions(deleted, shown)
        portion = next(states, [])
        while True:
            following = next(states, None)
            last = following is None
            yield Request(
                "UpdateMetadata",
                self.speech.update_metadata,
                kind(
                    controller_id=sender.controller,
                    is_k_raft_controller=self.speech.of_quorum,
                    type=FULL if batch is None else INCREMENTAL,
                    metadata_offset=offset if last else -1,
                    controller_host=sender.host,
                    controller_port=sender.port,
                    features=[
                        kind.FinalizedFeature(name=name, level=level)
                        for name, level in sorted(image.features().items())
                    ],
                    broker_settings=_broker_settings(image, kind),
                    controller_epoch=sender.epoch,
                    broker_epoch=self.epoch,
                    topic_states=portion,
                    live_brokers=[*_live_brokers(image, kind), *_controller(image, kind, sender)],
                ),
            )
            if following is None:
                return
            portion = following

    def _replicas(self, image: Image, sender: Sender, batch: Changes | None) -> Iterator[Request]:
        """The LeaderAndIsr requests: for everything in one request, or for what has changed."""
        kind = message("LeaderAndIsrRequest")
        wanted = self._all_here(image) if batch is None else self._still_here(image, batch)
        while True:
            taken = list(wanted if batch is None else islice(wanted, PARTITIONS_MAX))
            if not taken and batch is not None:
                return
            yield self._leader_and_isr(image, kind, sender, taken, FULL if batch is None else INCREMENTAL)
            if batch is None:
                return

    def _all_here(self, image: Image) -> Iterator[int]:
        return (int(row) for row in image.rows_of(self.broker).data)

    def _still_here(self, image: Image, batch: Changes) -> Iterator[int]:
        """Rows of a batch with a replica here, but for those that have changed again (rule 4)."""
        for topic_id, numbers in batch.topics.items():
            topic = image.topic_by_id(topic_id)
            for number in sorted(numbers) if topic >= 0 else ():
                if number in self._fresh.topics.get(topic_id, ()):
                    self._kept = True
                    continue
                row = image.partition(topic, number)
                if row >= 0 and self.broker in image.replicas(row):
                    yield row

    def _leader_and_isr(self, image: Image, kind: Any, sender: Sender, rows: list[int], type: int) -> Request:
        topics: dict[bytes, Any] = {}
        leaders: dict[int, None] = {}
        for row in rows:
            topic = image.topic_of(row)
            topic_id = image.topic_id(topic) or b""
            state = topics.get(topic_id)
            if state is None:
                name = self._names[topic_id] = image.topic_name(topic)
                state = topics[topic_id] = kind.LeaderAndIsrTopicState(topic_name=name, topic_id=topic_id)
            hosted, number, leader = self._hosted.setdefault(topic_id, set()), image.number(row), image.leader(row)
            state.partition_states.append(
                kind.LeaderAndIsrPartitionState(
                    partition_index=number,
                    controller_epoch=sender.epoch,
                    leader=leader,
                    leader_epoch=image.leader_epoch(row),
                    isr=list(image.isr(row)),
                    partition_epoch=image.partition_epoch(row),
                    replicas=list(image.replicas(row)),
                    adding_replicas=list(image.adding(row)),
                    removing_replicas=list(image.removing(row)),
                    is_new=type == INCREMENTAL and number not in hosted,
                    leader_recovery_state=image.recovery(row),
                )
            )
            hosted.add(number)
            leaders[leader] = None
        return Request(
            "LeaderAndIsr",
            self.speech.leader_and_isr,
            kind(
                controller_id=sender.controller,
                is_k_raft_controller=self.speech.of_quorum,
                controller_epoch=sender.epoch,
                broker_epoch=self.epoch,
                type=type,
                topic_states=list(topics.values()),
                live_leaders=[
                    kind.LeaderAndIsrLiveLeader(broker_id=leader, host_name=at.host, port=at.port)
                    for leader in sorted(leaders)
                    if (at := endpoint(image, leader, sender.listener)) is not None
                ],
            ),
        )

    def _stops(self, image: Image, sender: Sender, batch: Changes | None) -> Iterator[Request]:
        """The StopReplica requests for partitions that have left this broker, or whose topic is deleted. `batch` None:
        look at all."""
        kind = message("StopReplicaRequest")
        named = self._hosted if batch is None else [*batch.gone, *batch.topics]
        wanted = iter([one for topic_id in named for one in self._stopped(image, topic_id, batch)])
        while taken := list(islice(wanted, PARTITIONS_MAX)):
            topics: dict[bytes, Any] = {}
            for topic_id, number, epoch in taken:
                if topic_id not in topics:
                    topics[topic_id] = kind.StopReplicaTopicState(topic_name=self._names[topic_id])
                topics[topic_id].partition_states.append(
                    kind.StopReplicaPartitionState(partition_index=number, leader_epoch=epoch, delete_partition=True)
                )
            yield Request(
                "StopReplica",
                self.speech.stop_replica,
                kind(
                    controller_id=sender.controller,
                    is_k_raft_controller=self.speech.of_quorum,
                    controller_epoch=sender.epoch,
                    broker_epoch=self.epoch,
                    topic_states=list(topics.values()),
                ),
            )
            kept, self.kept = self.kept, frozenset()
            for topic_id, number, _ in taken:
                if (self._names.get(topic_id), number) not in kept:
                    self._left(topic_id, number)

    def _stopped(self, image: Image, topic_id: bytes, batch: Changes | None) -> Iterator[tuple[bytes, int, int]]:
        """(topic id, number, leader epoch) of partitions of one topic that this broker has to give up."""
        hosted = self._hosted.get(topic_id, set())
        topic = image.topic_by_id(topic_id)
        named = hosted if topic < 0 or batch is None else hosted & batch.topics.get(topic_id, set())
        for number in sorted(named):
            row = image.partition(topic, number) if topic >= 0 else -1
            if row < 0:
                yield topic_id, number, DELETED
            elif self.broker not in image.replicas(row):
                yield topic_id, number, image.leader_epoch(row)

    def _left(self, topic_id: bytes, number: int) -> None:
        hosted = self._hosted.get(topic_id, set())
        hosted.discard(number)
        if not hosted:
            self._hosted.pop(topic_id, None)
            self._names.pop(topic_id, None)
            if topic_id in self._ended:
                self._given_up.append(topic_id)


def endpoint(image: Image, broker: int, listener: str) -> EndPoint | None:
    """The endpoint of an unfenced broker on a listener; None: it has none there."""
    registration = image.broker(broker)
    if registration is None or registration.fenced:
        return None
    return next((one for one in registration.endpoints if one.name == listener), None)


def dialled(listeners: Iterable[EndPoint], name: str) -> EndPoint | None:
    """The endpoint of a broker that a controller dials: that of the controller's own setting, and no other in its place
    (R291-25 to R291-27); None: it has not told of one."""
    return next((one for one in listeners if one.name == name), None)


def _every(image: Image) -> Iterator[tuple[bytes, Iterable[int]]]:
    for topic in image.topics():
        yield image.topic_id(topic) or b"", range(len(image.topic_partitions(topic)))


def _topics(
    image: Image, kind: Any, sender: Sender, named: Iterable[tuple[bytes, Iterable[int]]]
) -> Iterator[tuple[Any, Iterator[Any]]]:
    """(a topic's state without partitions, the states of its partitions) for each topic named."""
    for topic_id, numbers in named:
        topic = image.topic_by_id(topic_id)
        if topic >= 0:
            name = image.topic_name(topic)
            settings = [
                kind.Setting(name=key, value=value) for key, value in sorted(image.config(TOPIC_RESOURCE, name).items())
            ]
            state = kind.UpdateMetadataTopicState(topic_name=name, topic_id=topic_id, settings=settings)
            yield state, _partitions(image, kind, sender, topic_id, sorted(numbers))


def _partitions(image: Image, kind: Any, sender: Sender, topic_id: bytes, numbers: Iterable[int]) -> Iterator[Any]:
    for number in numbers:
        topic = image.topic_by_id(topic_id)  # it may be deleted between two portions, and its row another topic's
        row = image.partition(topic, number) if topic >= 0 else -1
        if row >= 0:
            replicas = image.replicas(row)
            yield kind.UpdateMetadataPartitionState(
                partition_index=number,
                controller_epoch=sender.epoch,
                leader=image.leader(row),
                leader_epoch=image.leader_epoch(row),
                isr=list(image.isr(row)),
                zk_version=image.partition_epoch(row),
                replicas=list(replicas),
                offline_replicas=[broker for broker in replicas if not image.is_unfenced(broker)],
            )


def _deleted(kind: Any, sender: Sender, numbers: Iterable[int]) -> Iterator[Any]:
    for number in sorted(numbers):
        yield kind.UpdateMetadataPartitionState(
            partition_index=number, controller_epoch=sender.epoch, leader=DELETED, leader_epoch=DELETED
        )


def _portions(*sources: Iterable[tuple[Any, Iterator[Any]]]) -> Iterator[list[Any]]:
    """Topics with their partitions, `PARTITIONS_MAX` partitions at once; a topic without any counts as one."""
    portion: list[Any] = []
    room = PARTITIONS_MAX
    for source in sources:
        for state, partitions in source:
            while True:
                if room <= 0:
                    yield portion
                    portion, room = [], PARTITIONS_MAX
                taken = list(islice(partitions, room))
                portion.append(_with(state, taken))
                room -= max(1, len(taken))
                if room > 0:
                    break
    if portion:
        yield portion


def _with(
    state: "UpdateMetadataRequest.UpdateMetadataTopicState",
    partitions: list["UpdateMetadataRequest.UpdateMetadataPartitionState"],
) -> "UpdateMetadataRequest.UpdateMetadataTopicState":
    return type(state)(
        topic_name=state.topic_name, topic_id=state.topic_id, settings=state.settings, partition_states=partitions
    )


def _endpoints(kind: Any, endpoints: Iterable[EndPoint]) -> list["UpdateMetadataRequest.UpdateMetadataEndpoint"]:
    return [
        kind.UpdateMetadataEndpoint(
            port=one.port, host=one.host, listener=one.name, security_protocol=one.security_protocol
        )
        for one in endpoints
    ]


def _controller(image: Image, kind: Any, sender: Sender) -> list["UpdateMetadataRequest.UpdateMetadataBroker"]:
    """The controller as one of the live brokers. Those brokers make topics by themselves, and fail if some brokers have
    a rack and others have none, so the controller is in the rack of one of them."""
    if not sender.endpoints:
        return []
    racks = [broker.rack for broker in image.unfenced_brokers()]
    rack = racks[0] if racks and None not in racks else None
    return [kind.UpdateMetadataBroker(id=sender.controller, endpoints=_endpoints(kind, sender.endpoints), rack=rack)]


def _live_brokers(image: Image, kind: Any) -> list["UpdateMetadataRequest.UpdateMetadataBroker"]:
    return [
        kind.UpdateMetadataBroker(
            id=broker.id,
            endpoints=_endpoints(kind, broker.endpoints),
            rack=broker.rack,
            epoch=broker.epoch,
            incarnation_id=broker.incarnation_id,
        )
        for broker in image.unfenced_brokers()
    ]


def _broker_settings(image: Image, kind: Any) -> list[Any]:
    names = ["", *(str(broker.id) for broker in image.brokers())]
    return [
        kind.BrokerSettings(
            broker=name, settings=[kind.Setting(name=key, value=value) for key, value in sorted(values.items())]
        )
        for name in names
        if (values := image.config(BROKER_RESOURCE, name))
    ]
