"""A broker with rayft.metadata.source=push: which pushed request it obeys, and what becomes of its replicas (KIP-291)."""

import copy
import errno
import random
from typing import Any

import pytest

from actors.authorization.rights import Right
from actors.broker.replication.replicas import Offline
from actors.metadata.ops import EndPoint
from actors.wire import framing
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.batch import Builder
from tests.simulator.cluster import is_pushed
from tests.unit.node.net.test_request_channel import CONTROL, SETTINGS, Lab, topics, versions
from tests.unit.wire.generator import random_message

A, B = b"A" * 16, b"B" * 16
EPOCH = 5
INTERNAL = "INTERNAL"
PUSHED = {
    **is_pushed(1),
    "listeners": "PLAINTEXT://b1:9000,INTERNAL://b1:9001,CP://b1:9099",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CP:PLAINTEXT",
    "inter.broker.listener.name": INTERNAL,
}
FULL, INCREMENTAL = 2, 1
UPDATE, REPLICAS, STOP = "UpdateMetadata", "LeaderAndIsr", "StopReplica"
VERSIONS = {UPDATE: 8, REPLICAS: 7, STOP: 4}


class Told(Lab):
    """One broker that no controller has a lease for; the test is the controller."""

    def __init__(self) -> None:
        super().__init__(ready=False, **{name: PUSHED.get(name, SETTINGS.get(name)) for name in {*PUSHED, *SETTINGS}})
        self.plane = self.connect(CONTROL)

    def answers(self, conn: int, name: str, body: Any) -> bytes:
        """The bytes of the answer to one request."""
        assert self.send(conn, name, VERSIONS[name], body)
        ((_, parts),) = [pair for pair in self.turn().send if pair[0] == conn]
        return b"".join(parts)[4:]

    def ask(self, name: str, body: Any) -> Any:
        data = memoryview(bytearray(self.answers(self.plane, name, body)))
        return framing.decode_response(name, VERSIONS[name], data)

    def everything(self, *states: Any) -> Any:
        """It is told that this is everything: the answer to LeaderAndIsr."""
        assert self.ask(UPDATE, update(*states, type=FULL)).error_code == 0
        return self.ask(REPLICAS, replicas(*states, type=FULL))

    def begin(self, *states: Any) -> Any:
        """It is told that there is nothing, and then that these partitions are new: the answer to the last request."""
        self.everything()
        assert self.ask(UPDATE, update(*states)).error_code == 0
        return self.ask(REPLICAS, replicas(*states))

    def partition(self, topic_id: bytes = A, number: int = 0) -> Any:
        return self.node.broker.replicas.get(topic_id, number)

    def files(self) -> set[str]:
        return {path.partition("/")[0] for path in self.process.disk.files}


def state(
    number: int = 0,
    leader: int = 1,
    epoch: int = 3,
    version: int | None = None,
    *,
    name: str = "a",
    topic_id: bytes = A,
    replicas: tuple[int, ...] = (1, 2),
    isr: tuple[int, ...] = (1, 2),
) -> Any:
    """One partition: (topic name, topic id, fields)."""
    fields = {
        "partition_index": number, "leader": leader, "leader_epoch": epoch, "isr": list(isr), "replicas": list(replicas),
    }  # fmt: skip
    return name, topic_id, fields, epoch if version is None else version


def update(*states: Any, type: int = INCREMENTAL, epoch: int = EPOCH, broker_epoch: int = -1, offset: int = 100) -> Any:
    kind = message("UpdateMetadataRequest")
    return kind(
        controller_id=1001, controller_epoch=epoch, broker_epoch=broker_epoch, type=type, metadata_offset=offset,
        is_k_raft_controller=True,
        live_brokers=[
            kind.UpdateMetadataBroker(
                id=id, endpoints=[kind.UpdateMetadataEndpoint(port=9000, host=f"b{id}", listener="PLAINTEXT")], epoch=id
            )
            for id in (1, 2)
        ],
        topic_states=[
            kind.UpdateMetadataTopicState(
                topic_name=name,
                topic_id=topic_id,
                partition_states=[kind.UpdateMetadataPartitionState(**fields, zk_version=version)],
            )
            for name, topic_id, fields, version in states
        ],
    )  # fmt: skip


def replicas(*states: Any, type: int = INCREMENTAL, epoch: int = EPOCH, broker_epoch: int = -1) -> Any:
    kind = message("LeaderAndIsrRequest")
    return kind(
        controller_id=1001, controller_epoch=epoch, broker_epoch=broker_epoch, type=type, is_k_raft_controller=True,
        topic_states=[
            kind.LeaderAndIsrTopicState(
                topic_name=name,
                topic_id=topic_id,
                partition_states=[kind.LeaderAndIsrPartitionState(**fields, partition_epoch=version)],
            )
            for name, topic_id, fields, version in states
        ],
    )  # fmt: skip


def stop(epoch: int, *, name: str = "a", number: int = 0, delete: bool = True, controller_epoch: int = EPOCH) -> Any:
    kind = message("StopReplicaRequest")
    one = kind.StopReplicaPartitionState(partition_index=number, leader_epoch=epoch, delete_partition=delete)
    return kind(
        controller_id=1001, controller_epoch=controller_epoch, broker_epoch=-1, is_k_raft_controller=True,
        topic_states=[kind.StopReplicaTopicState(topic_name=name, partition_states=[one])],
    )  # fmt: skip


def records() -> bytearray:
    """A batch of one record."""
    builder = Builder()
    builder.append(b"k", b"v", 0)
    return bytearray(builder.build())


def codes(reply: Any) -> list[int]:
    """Errors by partition."""
    entries = reply.topics[0].partition_errors if hasattr(reply, "topics") else reply.partition_errors
    return [one.error_code for one in entries]


BODIES = {UPDATE: update(), REPLICAS: replicas(), STOP: stop(3)}


def test_everything_comes_first_and_then_changes() -> None:
    lab = Told()
    for name in (UPDATE, REPLICAS):
        assert lab.ask(name, BODIES[name]).error_code == ErrorCode.INVALID_REQUEST
    assert codes(lab.begin(state())) == [0]
    assert lab.partition().replicas == (1, 2) and lab.node.broker.cache.image.next_offset == 100
    assert lab.ask(UPDATE, update(state(1))).error_code == 0
    assert codes(lab.ask(REPLICAS, replicas(state(1)))) == [0] and lab.partition(number=1) is not None


def test_everything_in_several_requests_counts_when_the_last_has_come() -> None:
    lab = Told()
    assert lab.ask(UPDATE, update(state(), type=FULL, offset=-1)).error_code == 0
    assert lab.node.broker.cache.image.topic("a") < 0
    assert lab.ask(REPLICAS, replicas(state(), type=FULL)).error_code == ErrorCode.INVALID_REQUEST
    assert lab.ask(UPDATE, update(state(name="b", topic_id=B), type=FULL)).error_code == 0
    image = lab.node.broker.cache.image
    assert [image.topic_name(row) for row in image.topics()] == ["a", "b"]


@pytest.mark.parametrize("name", [UPDATE, REPLICAS, STOP])
def test_r291_68_checks_of_the_request(name: str) -> None:
    lab = Told()
    lab.begin(state())
    lab.node.broker.lifecycle.epoch = 40
    body = BODIES[name]
    for broker_epoch, epoch, wanted in (
        (39, EPOCH + 9, ErrorCode.STALE_BROKER_EPOCH),
        (-1, EPOCH - 1, ErrorCode.STALE_CONTROLLER_EPOCH),
        (39, EPOCH - 1, ErrorCode.STALE_BROKER_EPOCH),
        (-1, EPOCH, ErrorCode.NONE),
        (40, EPOCH, ErrorCode.NONE),
        (41, EPOCH + 1, ErrorCode.NONE),
        (41, EPOCH, ErrorCode.STALE_CONTROLLER_EPOCH),
    ):
        body.broker_epoch, body.controller_epoch = broker_epoch, epoch
        assert lab.ask(name, body).error_code == wanted, (broker_epoch, epoch)
    body.broker_epoch, body.controller_epoch = -1, EPOCH


@pytest.mark.parametrize("name", [UPDATE, REPLICAS, STOP])
def test_what_was_late_on_an_older_connection_changes_nothing(name: str) -> None:
    """Its controller has connected anew and has said more since: a broker went back to metadata of before its own broker
    epoch, and served nobody any more (seed 6000022)."""
    told = Told()
    told.begin(state())
    older, told.plane = told.plane, told.connect(CONTROL)
    assert told.ask(UPDATE, update(state(1), offset=120)).error_code == 0
    late = {UPDATE: update(offset=110), REPLICAS: replicas(state(leader=2, epoch=9)), STOP: stop(9)}[name]
    told.send(older, name, VERSIONS[name], late)
    effects = told.turn()
    assert older in effects.close and not any(conn == older for conn, _ in effects.send)
    assert told.node.broker.cache.image.next_offset == 120 and told.partition().leader_epoch == 3
    assert told.ask(UPDATE, update(offset=130)).error_code == 0, "the newer one goes on"
    next_one = told.connect(CONTROL)
    told.plane = next_one
    assert told.ask(UPDATE, update(type=FULL, epoch=EPOCH + 1)).error_code == 0, "and so does another controller"


@pytest.mark.parametrize("name", [UPDATE, REPLICAS, STOP])
def test_r291_68_the_right_comes_before_all_other_checks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Told()
    asked: list[Right] = []
    broker = lab.node.dispatch.broker
    monkeypatch.setattr(type(broker.authorizer), "allowed", lambda *given: asked.append(given[2]))
    assert lab.ask(name, BODIES[name]).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert lab.node.broker.pushed_metadata.controller_epoch == -1 and asked[0].name == "CLUSTER_ACTION"


def test_r291_37_of_two_controllers_the_older_is_refused_and_they_are_answered_in_order() -> None:
    lab = Told()
    lab.begin(state())
    old, new = lab.connect(CONTROL), lab.connect(CONTROL)
    for step in range(1, 4):  # each has one request in flight
        lab.send(old, REPLICAS, 7, replicas(state(epoch=20 + step if step > 1 else 4), epoch=EPOCH))
        lab.send(new, REPLICAS, 7, replicas(state(epoch=10 + step), epoch=EPOCH + 1))
        found = []
        while len(found) < 2:
            for conn, parts in lab.turn(0).send:
                if conn in (old, new):
                    reply = framing.decode_response(REPLICAS, 7, memoryview(bytearray(b"".join(parts)[4:])))
                    found.append((conn, reply.error_code))
        if step == 1:
            assert found == [(old, 0), (new, 0)], "as they came"
        else:
            assert dict(found) == {old: ErrorCode.STALE_CONTROLLER_EPOCH, new: 0}
    assert lab.partition().leader_epoch == 13


LEADER_AND_ISR = [
    ("higher leader epoch", state(epoch=4), 0, 4),
    ("equal, higher version", state(epoch=3, version=4), 0, 4),
    ("equal, equal version", state(epoch=3, leader=2), 0, 3),
    ("lower leader epoch", state(epoch=2, version=9), ErrorCode.STALE_CONTROLLER_EPOCH, 3),
    (
        "not a replica here",
        state(epoch=4, leader=2, replicas=(2, 3), isr=(2, 3)),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        3,
    ),
    ("the name is another topic's", state(epoch=4, topic_id=B), ErrorCode.INCONSISTENT_TOPIC_ID, 3),
    ("half newer", state(epoch=4, version=3), ErrorCode.INVALID_REQUEST, 3),
    ("no partition", state(number=-1, epoch=4), ErrorCode.INVALID_REQUEST, 3),
    ("no name of a topic", state(name="../a", topic_id=B), ErrorCode.INVALID_REQUEST, 3),
    ("a leader outside the ISR", state(epoch=4, leader=3), ErrorCode.INVALID_REQUEST, 3),
]


@pytest.mark.parametrize(
    ("pushed", "code", "version"), [row[1:] for row in LEADER_AND_ISR], ids=[row[0] for row in LEADER_AND_ISR]
)
def test_r291_69_leader_and_isr_by_partition(pushed: Any, code: int, version: int) -> None:
    lab = Told()
    lab.begin(state())
    assert codes(lab.ask(REPLICAS, replicas(pushed))) == [code]
    assert lab.partition().isr.partition_epoch == version


def test_r291_69_an_offline_replica_is_answered_with_a_storage_error() -> None:
    lab = Told()
    lab.begin(state())
    lab.node.broker.replicas.take_offline(lab.partition(), Offline.FAILED)
    assert codes(lab.ask(REPLICAS, replicas(state(epoch=4)))) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert codes(lab.ask(STOP, stop(4))) == [ErrorCode.KAFKA_STORAGE_ERROR]


@pytest.mark.parametrize(("epoch", "code"), [(-2, 0), (-1, 0), (3, 0), (4, 0), (2, ErrorCode.FENCED_LEADER_EPOCH)])
def test_r291_70_stop_replica_by_partition(epoch: int, code: int) -> None:
    lab = Told()
    lab.begin(state())
    assert codes(lab.ask(STOP, stop(epoch))) == [code]
    assert (lab.partition() is None) == (code == 0)


def test_r291_70_without_deletion_the_replica_stays_and_follows_nobody() -> None:
    lab = Told()
    lab.begin(state(leader=2))
    assert len(lab.node.broker.replicas.fetchers[2]) == 1
    assert codes(lab.ask(STOP, stop(3, delete=False))) == [0]
    assert lab.partition() is not None and lab.partition().leader == -1
    assert len(lab.node.broker.replicas.fetchers[2]) == 0


def test_r291_70_an_unknown_partition_is_no_error_and_its_files_go_if_it_is_deleted() -> None:
    lab = Told()
    lab.begin()
    assert codes(lab.ask(STOP, stop(-2, name="none"))) == [0]
    removed: list[tuple[str, int]] = []
    lab.node.broker.logs.claims.remove_unclaimed = lambda *named: removed.append(named)
    lab.ask(STOP, stop(-1, name="x", delete=False))
    lab.ask(STOP, stop(-2, name="x"))
    assert removed == [("x", 0)]


def test_r291_71_update_metadata_is_what_clients_are_told_and_touches_no_replica() -> None:
    lab = Told()
    lab.begin(state())
    assert lab.ask(UPDATE, update(state(leader=2, epoch=9), state(name="b", topic_id=B))).error_code == 0
    image = lab.node.broker.cache.image
    row = image.partition(image.topic("a"), 0)
    assert (image.leader(row), image.leader_epoch(row)) == (2, 9) and image.topic("b") >= 0
    assert lab.partition().leader_epoch == 3 and lab.partition(B) is None
    gone = update(state(leader=-2, epoch=-2))
    assert lab.ask(UPDATE, gone).error_code == 0
    assert lab.node.broker.cache.image.topic("a") < 0 and lab.partition() is not None, "StopReplica has not come yet"


def test_r291_71_what_cannot_be_is_refused_as_a_whole() -> None:
    lab = Told()
    lab.begin(state())
    bad = update(state(name="b", topic_id=B), state(number=-1))
    assert lab.ask(UPDATE, bad).error_code == ErrorCode.INVALID_REQUEST
    image = lab.node.broker.cache.image
    assert image.topic("b") < 0 and image.next_offset == 100
    assert lab.ask(UPDATE, update(state(epoch=4))).error_code == 0


@pytest.mark.parametrize("opened", [False, True])
def test_r291_76_what_everything_does_not_name_is_set_aside_and_not_deleted(opened: bool) -> None:
    """Nor is what there was no descriptor to open."""
    lab = Told()
    lab.begin(state(leader=1, isr=(1,), replicas=(1,)), state(name="b", topic_id=B, isr=(1,), replicas=(1,)))
    for topic_id in (A, B):
        partition = lab.partition(topic_id)
        partition.append(records(), 0, client=False)
    assert {"a-0", "b-0"} <= lab.files()
    if not opened:
        role = lab.node.broker
        (directory,) = role.logs.directories
        (found,) = [one for one in directory.partitions() if one.topic == "b"]
        role.replicas.take_offline(lab.partition(B), Offline.FAILED)
        role.logs.claims.give_back((directory, found._replace(topic_id=B)), [])
    lab.everything(state(leader=1, isr=(1,), replicas=(1,)))
    assert not lab.node.broker.logs.claims.unopened
    assert lab.partition(B) is None and lab.partition() is not None
    aside = [name for name in lab.files() if name.startswith("b-0.") and name.endswith("-stray")]
    assert len(aside) == 1 and "b-0" not in lab.files() and "a-0" in lab.files()


def test_a_replica_that_waits_for_a_name_begins_when_it_is_free() -> None:
    """The files of the topic that had the name before find no room for another one, for a while."""
    lab, here = Told(), {"leader": 1, "isr": (1,), "replicas": (1,)}
    lab.begin(state(**here))
    lab.partition().append(records(), 0, client=False)
    full = True
    lab.process.disk.fault = lambda operation, path: errno.ENOSPC * (full and operation == "rename" and path == "a-0")
    assert codes(lab.ask(STOP, stop(-2))) == [0]
    again = state(**here, topic_id=B)
    assert lab.ask(UPDATE, update(state(leader=-2, epoch=-2), again)).error_code == 0
    lab.ask(REPLICAS, replicas(again))
    assert lab.partition(B) is None and (B, 0) in lab.node.broker.replicas.offline
    full = False
    for _ in range(4):
        lab.world.time_us += 1_000_000
        lab.turn()
    assert lab.partition(B) is not None and not lab.node.broker.replicas.offline
    assert (lab.partition(B).leader_epoch, lab.partition(B).log.log_end_offset) == (3, 0)


@pytest.mark.parametrize("name", [UPDATE, REPLICAS, STOP])
def test_r291_34_39_the_listener_between_brokers_gives_the_same_answers(name: str) -> None:
    """Behind the data of clients, without the control plane's priority, and byte for byte what the control plane answers:
    what is obeyed, what comes from an older controller, and what is meant for another process."""
    answers: dict[str, list[Any]] = {CONTROL: [], INTERNAL: []}
    for listener, given in answers.items():
        for epoch, broker_epoch in ((EPOCH, -1), (EPOCH - 1, -1), (EPOCH, 39)):
            lab = Told()
            lab.begin(state())
            lab.node.broker.lifecycle.epoch = 40
            body = copy.deepcopy(BODIES[name])
            body.controller_epoch, body.broker_epoch = epoch, broker_epoch
            lab.send(lab.connect("PLAINTEXT"), "Metadata", 9, topics())
            given.append(lab.answers(lab.connect(listener), name, body))
    assert answers[CONTROL] == answers[INTERNAL]
    assert len({str(one) for one in answers[CONTROL]}) == 3, "three different answers"


def test_where_metadata_is_pushed_api_versions_says_so() -> None:
    lab = Told()
    for listener in (CONTROL, INTERNAL):
        lab.send(conn := lab.connect(listener), "ApiVersions", 3, versions())
        ((_, parts),) = [pair for pair in lab.turn().send if pair[0] == conn]
        reply = framing.decode_response("ApiVersions", 3, memoryview(bytearray(b"".join(parts)))[4:])
        keys = [one.api_key for one in reply.api_keys]
        assert {4, 5, 6, 18} <= set(keys) and (listener == INTERNAL or keys == [4, 5, 6, 17, 18, 36])


def test_settings_of_topics_and_brokers_come_with_update_metadata() -> None:
    lab = Told()
    kind = message("UpdateMetadataRequest")
    lab.everything()
    first = update(state())
    first.topic_states[0].settings = [kind.Setting(name="min.insync.replicas", value="2")]
    assert lab.ask(UPDATE, first).error_code == 0
    lab.ask(REPLICAS, replicas(state()))
    assert lab.partition().settings.min_insync_replicas == 2
    then = update(state(epoch=4))
    then.broker_settings = [
        kind.BrokerSettings(broker="", settings=[kind.Setting(name="min.insync.replicas", value="3")])
    ]
    assert lab.ask(UPDATE, then).error_code == 0
    assert lab.partition().settings.min_insync_replicas == 3, "the topic has no setting of its own any more"
    registered = lab.node.broker.cache.image.broker(2)
    assert registered.endpoints == (EndPoint("PLAINTEXT", "b2", 9000),) and registered.epoch == 2


@pytest.mark.parametrize("name", [UPDATE, REPLICAS, STOP])
def test_whatever_is_pushed_the_broker_answers_and_goes_on(name: str) -> None:
    """Random messages, and messages in which one field is out of place."""
    lab = Told()
    lab.begin(state())
    rng = random.Random(name)
    for number in range(300):
        body = random_message(message(f"{name}Request"), VERSIONS[name], rng)
        body.controller_epoch, body.broker_epoch = EPOCH, -1
        for topic in body.topic_states:
            topic.topic_name = rng.choice(("a", "b", topic.topic_name))
            if name != STOP:
                topic.topic_id = rng.choice((A, B, topic.topic_id))
            for one in topic.partition_states:
                one.partition_index = rng.choice((0, 1, one.partition_index))
                one.leader_epoch = rng.choice((3, 4, 3 + number, one.leader_epoch))
                if name == REPLICAS:
                    one.partition_epoch = rng.choice((3, 4, 3 + number, one.partition_epoch))
                    one.replicas, one.leader = rng.choice(((one.replicas, one.leader), ([1, 2], 1), ([2, 1], 2)))
                    one.isr = rng.choice((one.isr, [1, 2], [2]))
        if name != STOP:
            body.type = rng.choice((FULL, INCREMENTAL, INCREMENTAL))
        lab.ask(name, body)
    assert not [line for line in lab.world.lines if "failed inside the node" in line]
    lab.node.broker.cache.image.check()
    assert codes(lab.begin(state(epoch=100_000))) == [0] and lab.partition().leader_epoch == 100_000
