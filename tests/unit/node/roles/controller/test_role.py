"""The controller role around its operations: batches, holding, undo, bulk work in portions, leases, the dead-broker hint."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from actors.controller import portions
from actors.controller.brokers import fencing_passes
from actors.controller.brokers.registration import broker_heartbeat
from actors.controller.brokers.unregistration import unregister_broker
from actors.controller.configs import incremental_alter_configs
from actors.controller.options import options
from actors.controller.partitions.alter_isr import alter_isr
from actors.controller.partitions.reassignments import alter_partition_reassignments
from actors.controller.partitions.topics import create_topics
from actors.controller.producer_ids import allocate_producer_ids
from actors.controller.snapshots import controller_heartbeat
from actors.controller.state import METADATA_FORMAT, Result
from actors.host.security.scram_argument import credentials
from actors.metadata.batches import LeaderChange, control_batch
from actors.metadata.bootstrap import encode as encode_bootstrap
from actors.metadata.dialects import dialect
from actors.metadata.image import RULE_FIELDS, Image
from actors.metadata.ops import (
    BrokerGone,
    ConfigSet,
    EntitySet,
    FeatureSet,
    PartitionsChanged,
    PartitionsSet,
    TopicGone,
    TopicSet,
)
from actors.metadata.snapshot import encode, load
from actors.node.api import handlers as rpc
from actors.node.api.contexts import ControllerContext
from actors.node.api.handlers.envelope import unwrap
from actors.node.metrics.controller import CONTROLLERS, OfController
from actors.node.net.request_queue import RequestQueue
from actors.node.quorum import snapshots as snapshotting
from actors.node.roles.controller.role import AHEAD_BYTES_MAX, SILENT_MS, ControllerRole
from actors.node.runtime.answers import Close, Done, Held, Parked, Sliced
from actors.node.runtime.calls import Call, Lane, Listener
from actors.node.runtime.meters import Idle
from actors.node.runtime.runtime import Runtime
from actors.ports import Batch, Now
from actors.raft import SnapshotId
from actors.settings.node_config import node_config
from actors.wire import framing
from actors.wire.messages import message
from fastpath.meters.spread import Spread
from fastpath.records.batch import records
from tests.numbers import numbers
from tests.served import TABLE
from tests.unit.controller.cluster import Seeded
from tests.unit.node.roles.loading import load_into

rpc.load()


class CommittedSoFar(SimpleNamespace):
    """What a controller reads of raft: nothing that is committed is missing in the log."""

    @property
    def committed_offset(self) -> int:
        return int(self.high_watermark)


class Quorum:
    """A log that commits when told to."""

    def __init__(self) -> None:
        self.raft = CommittedSoFar(
            high_watermark=0, leader_id=1001, overdue=lambda now: False, degraded=False, kraft_version=1
        )
        self.leaders = 1
        self.log: list[Batch] = []
        self.snapshots: list[tuple[int, int, Any]] = []
        self.events: list[str] = []
        """Snapshots and resignations, in their order."""

    identity = SimpleNamespace(voters=SimpleNamespace(ids=lambda: (1001, 1002, 1003)))

    def voters_at(self, end_offset):
        return None

    def snapshot(self, end_offset, epoch, data):
        self.events.append("snapshot")
        self.snapshots.append((end_offset, epoch, b"".join(data)))

    def resign(self):
        self.events.append("resigned")
        self.resigned = True


class Channels:
    def __init__(self) -> None:
        self.probes: list[tuple[Any, Any]] = []
        self.asked: list[tuple[str, Any, Any]] = []

    def probe(self, address, then):
        self.probes.append((address, then))

    def controller(self, name, request, then, timeout_ms=0, **more):
        self.asked.append((name, request, then))


class Host:
    """As much of a node as the role needs."""

    def __init__(self, level: int = 2, bootstrap: bytes = b"", more: dict[str, str] | None = None) -> None:
        config = node_config(
            {
                "process.roles": "controller",
                "controller.id": "1001",
                "controller.connect": "1001@h:1",
                "controller.listeners": "C",
                "listeners": "C://h:1",
                "log.dirs": "/x",
                **(more or {}),
            }
        )
        self.broker = None
        storage: Any = SimpleNamespace(
            cluster_id="c",
            format_level=level,
            family="drafts",
            transaction_version=0,
            group_version=0,
            share_version=0,
            streams_version=0,
            bootstrap=bootstrap,
        )
        self.lines: list[str] = []
        log: Any = SimpleNamespace(info=self.lines.append, warning=self.lines.append, error=self.lines.append)
        self.runtime = Runtime(config, Seeded(), log)
        self.runtime.now = Now(1_000_000, 1_600_000_000_000)
        self.runtime.work = self.work
        self.quorum: Any = Quorum()
        self.channels: Any = Channels()
        self.closing: dict[tuple[int, str], Any] = {}
        self.connections: dict[int, Any] = {}
        requests: Any = self
        self.controller = ControllerRole(self.runtime, requests, self.channels, self.quorum, storage)
        self.context = ControllerContext.of(self.runtime, requests, self.quorum, storage, self.controller)

    @property
    def config(self):
        return self.runtime.config

    @property
    def now(self):
        return self.runtime.now

    @now.setter
    def now(self, now):
        self.runtime.now = now

    @property
    def waiting(self):
        return self.runtime.waiting

    def when_closed(self, conn, name, function):
        self.closing[conn, name] = function

    def work(self, job, then):
        then(job())

    def later(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)

    # the node's turn, cut down

    def turn(self, commit: bool = True) -> list[Batch]:
        self.controller.tick(self.now)
        batches = list(self.controller.flush())
        self.quorum.log += batches
        if commit:
            self.commit()
        while self.waiting.run():
            pass
        return batches

    def commit(self) -> None:
        while self.quorum.log:
            batch = self.quorum.log.pop(0)
            self.controller.replay(batch)
            self.quorum.raft.high_watermark = batch.last_offset + 1
        self.controller.committed(self.quorum.raft.high_watermark)

    def lead(self, epoch: int = 1) -> None:
        end = self.controller.image.next_offset
        self.quorum.log.append(control_batch(end, epoch, self.now.wall_ms, [LeaderChange(1001, (1001,), (1001,))]))
        self.commit()
        self.controller.gained(epoch, end + 1)
        self.turn()


def call(key: int, connection: int = 1, version: int = 0) -> Call:
    return Call(connection, Listener.CONTROLLER, "C", key, version, None, "h", "User:ANONYMOUS", memoryview(b""))


def topic(name: str = "t", partitions: int = 1, replicas: int = -1):
    kind = message("CreateTopicsRequest")
    return kind(topics=[kind.CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)])


def heartbeat(broker: int = 1, epoch: int = -1, target: int = 3, **fields: Any):
    kind = message("v28:BrokerHeartbeatRequest")
    listener = kind.Listener(name="PLAINTEXT", host=f"b{broker}", port=9092)
    return kind(
        target_state=target,
        broker_id=broker,
        broker_epoch=epoch,
        cur_metadata_offset=1 << 40,
        listeners=[listener],
        incarnation_id=bytes([broker]) * 16,
        **fields,
    )


def joined(host: Host, *brokers: int) -> dict[int, int]:
    epochs = {}
    for broker in brokers:
        answer = host.controller.submit(broker_heartbeat, heartbeat(broker), call(50, broker))
        host.turn()
        epochs[broker] = answer.reply.broker_epoch
    return epochs


def test_a_standby_answers_not_controller():
    host = Host()
    host.quorum.raft.leader_id = 1002
    answer = host.controller.submit(create_topics, topic(), call(19))
    assert isinstance(answer, Done) and answer.reply.topics[0].error_code == 41
    beat = host.controller.submit(broker_heartbeat, heartbeat(), call(50)).reply
    assert (beat.error_code, beat.active_controller_id, beat.next_state) == (41, 1002, 0)  # R631-136
    report = message("v28:ControllerHeartbeatRequest")(controller_id=1003, last_snapshot_offset=5)
    beat = host.controller.submit(controller_heartbeat, report, call(51)).reply
    assert (beat.error_code, beat.start_snapshot) == (41, False)  # R631-123
    assert not host.controller.soft.controllers


def test_a07_the_first_leader_writes_the_level():
    for level in (1, 2):
        host = Host(level)
        host.lead()
        assert host.controller.image.feature("metadata.format") == level


@pytest.mark.parametrize("level", [1, 2])
def test_r900_03_the_first_leader_stores_the_credentials_of_the_format_and_no_later_one_does(level: int) -> None:
    (alice,) = credentials(["SCRAM-SHA-256=[name=alice,password=alice-secret]"])
    host = Host(level, encode_bootstrap(level, [alice]))
    host.lead()
    assert host.controller.image.entity("scram", ("alice", 1)) == alice
    host.turn()
    written = len(host.quorum.log)
    host.controller.lost()
    host.controller.gained(9, host.controller.image.next_offset)
    host.turn()
    assert len(host.quorum.log) == written, "a credential that was deleted since does not come back"


def test_r631_100_the_answer_waits_for_the_commit():
    host = Host()
    host.lead()
    joined(host, 1)
    answer = host.controller.submit(create_topics, topic(), call(19))
    assert isinstance(answer, Held) and answer.offset >= host.quorum.raft.high_watermark
    host.turn(commit=False)
    assert answer.offset >= host.quorum.raft.high_watermark
    host.commit()
    assert answer.offset < host.quorum.raft.high_watermark


def test_r631_096_operations_of_a_turn_share_a_batch():
    host = Host()
    host.lead()
    joined(host, 1)
    answers = [host.controller.submit(create_topics, topic(f"t{i}"), call(19)) for i in range(100)]
    batches = host.turn()
    assert len(batches) == 1
    assert [a.offset for a in answers] == sorted({a.offset for a in answers})


@pytest.mark.parametrize("level, expected", [(1, {0, 1}), (2, {6, 7})])
def test_r631_085_the_feature_decides_what_is_written(level, expected):
    """The ends of a broker and of a topic: records of their own at level 2, and those of their beginnings at level 1."""
    host = Host(level)
    host.lead()
    joined(host, 1)
    host.controller.submit(create_topics, topic(), call(19))
    host.turn()
    image = host.controller.image
    gone = [BrokerGone(1, image.broker(1).epoch), TopicGone(image.topic_id(image.topic("t")), "t")]
    host.controller._apply(Result(gone, None))
    (batch,) = host.turn()
    assert {record.value[0] for record in records(batch.data)} == expected


def test_r631_085_a_level_that_is_raised_counts_for_the_next_record_and_for_the_next_snapshot():
    host = Host(1)
    host.lead()
    joined(host, 1)
    written = host.turn()
    image = host.controller.image
    host.controller._apply(Result([FeatureSet(METADATA_FORMAT, 2)], None))
    host.controller._apply(Result([BrokerGone(1, image.broker(1).epoch)], None))
    (batch,) = host.turn()
    assert [record.value[0] for record in records(batch.data)] == [12, 6]  # 6: there is none at level 1
    assert not any(record.value[0] == 6 for batch in written for record in records(batch.data))
    host.controller.snapshot()
    (_, _, data) = host.quorum.snapshots[-1]
    loaded = Image()
    load(data, loaded, image.next_offset)
    assert loaded.feature(METADATA_FORMAT) == 2


def test_r497_28_what_is_granted_in_a_turn_spreads_as_one_batch():
    """So that who fetches learns of all of it at once, however many leaders asked and however many partitions they have."""
    host = Host()
    host.lead()
    epochs = joined(host, 1, 2)
    kind = message("CreateTopicsRequest")
    for name, first in (("a", 1), ("b", 2)):
        row = kind.CreatableReplicaAssignment
        assigned = [row(partition_index=number, broker_ids=[first, 3 - first]) for number in range(20)]
        topic_ = kind.CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assigned)
        assert host.controller.submit(create_topics, kind(topics=[topic_]), call(19)).reply.topics[0].error_code == 0
    host.turn()
    image = host.controller.image
    for leader, name in ((1, "a"), (2, "b")):
        asked = message("AlterIsrRequest")
        rows = [
            asked.PartitionData(
                partition_id=image.number(row), leader=leader, isr=[leader], leader_epoch=image.leader_epoch(row),
                current_zk_version=image.partition_epoch(row),
            )
            for row in image.topic_partitions(image.topic(name))
        ]  # fmt: skip
        request = asked(
            broker_id=leader, broker_epoch=epochs[leader], topics=[asked.TopicData(topic=name, partitions=rows)]
        )
        assert host.controller.submit(alter_isr, request, call(56)).reply.error_code == 0
    (batch,) = host.turn()
    changed = [op for _, op in dialect(2).decode(batch) if isinstance(op, PartitionsChanged)]
    assert sum(len(op) for op in changed) == 40


def test_r631_104_a_topic_is_never_seen_with_part_of_its_partitions():
    """Whoever replays batch by batch meets a topic, its partitions and its settings in one, however full it is by then."""
    host = Host()
    host.lead()
    joined(host, 1)
    kind = message("CreateTopicsRequest")
    setting = kind.CreatableTopicConfig(name="retention.ms", value="5")
    for place in range(4):
        one = kind.CreatableTopic(name=f"t{place}", num_partitions=9_900, replication_factor=1, configs=[setting])
        assert host.controller.submit(create_topics, kind(topics=[one]), call(19)).reply.topics[0].error_code == 0
    batches = host.turn()
    assert len(batches) > 1
    for batch in batches:
        ops = [op for _, op in dialect(2).decode(batch)]
        topics = {op.name: op.id for op in ops if isinstance(op, TopicSet)}
        rows = {topic_id: sum(len(op) for op in ops if isinstance(op, PartitionsSet) and op.topic_id == topic_id)
                for topic_id in topics.values()}  # fmt: skip
        assert rows == dict.fromkeys(topics.values(), 9_900)
        assert {op.topic_id for op in ops if isinstance(op, PartitionsSet)} == set(topics.values())
        assert {op.resource_name for op in ops if isinstance(op, ConfigSet)} == set(topics)


def test_r497_27_what_one_alter_isr_changes_is_one_append():
    """Whoever replays batch by batch meets all of a request's partitions in one, however full it is by then."""
    host = Host()
    host.lead()
    epochs = joined(host, 1, 2)
    kind = message("CreateTopicsRequest")
    topics = [kind.CreatableTopic(name="t", num_partitions=9_000, replication_factor=2)]
    assert host.controller.submit(create_topics, kind(topics=topics), call(19)).reply.topics[0].error_code == 0
    host.turn()
    image = host.controller.image
    led = [image.number(row) for row in image.topic_partitions(image.topic("t")) if image.leader(row) == 1]
    kind = message("AlterIsrRequest")
    for epoch in range(10):  # out and in again
        isr = [1, 2] if epoch % 2 else [1]
        entries = [
            kind.PartitionData(partition_id=one, leader=1, leader_epoch=epoch, isr=isr, current_zk_version=epoch)
            for one in led
        ]
        topic_data = [kind.TopicData(topic="t", partitions=entries)]
        request = kind(broker_id=1, broker_epoch=epochs[1], topics=topic_data)
        reply = host.controller.submit(alter_isr, request, call(56)).reply
        assert not any(one.error_code for one in reply.topics[0].partitions)
    batches = host.turn()
    assert len(batches) > 1
    found = []
    for batch in batches:
        changes = [op for _, op in dialect(2).decode(batch) if isinstance(op, PartitionsChanged)]
        found += Counter(one.leader_epoch for op in changes for one in op.block).items()
    assert sorted(found) == [(epoch, len(led)) for epoch in range(1, 11)]


def test_r631_084_a_standby_builds_the_same_image():
    host, standby = Host(), Host()
    log: list[Batch] = []
    replay = host.controller.replay
    host.controller.replay = lambda batch: (log.append(batch), replay(batch))  # type: ignore[method-assign]
    host.lead()
    joined(host, 1, 2, 3)
    for i in range(10):
        host.controller.submit(create_topics, topic(f"t{i}", 5), call(19))
        host.turn()
    for batch in log:
        standby.controller.replay(batch)
    ours, theirs = host.controller.image, standby.controller.image
    assert ours.next_offset == theirs.next_offset and ours.brokers() == theirs.brokers()
    for one in ours.topics():
        name = ours.topic_name(one)
        other = theirs.topic(name)
        assert [ours.replicas(r) for r in ours.topic_partitions(one)] == [
            theirs.replicas(r) for r in theirs.topic_partitions(other)
        ]


def test_r631_102_losing_leadership_undoes_what_was_not_committed():
    host = Host()
    host.lead()
    joined(host, 1)
    end = host.controller.image.next_offset
    host.controller.submit(create_topics, topic(), call(19))
    host.turn(commit=False)
    host.controller.submit(create_topics, topic("u"), call(19))
    host.controller.lost()
    assert host.controller.image.next_offset == end and host.controller.image.topic_count == 0
    assert host.controller.flush() == () and not host.controller.soft.leases
    assert host.controller.submit(create_topics, topic(), call(19)).reply.topics[0].error_code == 41


def test_a22_a_new_leader_grants_a_full_lease_and_more():
    host = Host()
    host.lead()
    joined(host, 1)
    host.controller.lost()
    host.lead(2)
    assert host.controller.soft.leases[1].expires_ms == host.now.mono_ms + 20_000 + host.controller.options.grace_ms


@pytest.mark.parametrize("learned", ["by itself", "from the log", "from a snapshot"])
def test_r631_147_a_new_leader_counts_leases_of_the_level_before(learned):
    """A lease of level 1 lasts 30 seconds, one of level 2 twenty; brokers may still hold the longer ones, as their
    registrations say."""
    host, successor = Host(1), Host(1)
    log: list[Batch] = []
    replay = host.controller.replay
    host.controller.replay = lambda batch: (log.append(batch), replay(batch))  # type: ignore[method-assign]
    host.lead()
    joined(host, 1)
    host.controller._apply(Result([FeatureSet(METADATA_FORMAT, 2)], None))
    host.turn()
    if learned == "by itself":
        host.controller.lost()
        successor = host
    elif learned == "from a snapshot":
        newest = SnapshotId(host.controller.image.next_offset, 1)
        load_into(successor.controller, b"".join(encode(host.controller.image.pin(), 1, 2, 5, None)), newest)
        successor.quorum.raft.high_watermark = newest.end_offset
    else:
        for batch in log:
            successor.controller.replay(batch)
        successor.quorum.raft.high_watermark = host.quorum.raft.high_watermark
    since_ms = host.now.mono_ms
    successor.later(5000)
    successor.lead(2)
    options = successor.controller.options
    assert successor.controller.soft.leases[1].expires_ms == since_ms + 5_000 + 30_000 + options.grace_ms
    successor.controller.lost()
    successor.later(15_000)
    successor.lead(3)
    assert successor.controller.soft.leases[1].expires_ms == since_ms + 20_000 + 30_000 + options.grace_ms


def test_a_broker_that_died_with_the_last_controller_is_found_by_the_next():
    """It broke no connection to this one; without a look its lease would have to end, and the grace with it."""
    host = Host()
    host.lead()
    epochs = joined(host, 1, 2, 3)
    host.controller.lost()
    host.lead(2)
    host.controller.heard(2, call(50, 22))
    host.controller.submit(broker_heartbeat, heartbeat(2, epochs[2]), call(50, 22))
    host.later(2000 + SILENT_MS - 1)
    host.waiting.expire(host.now.mono_ms)
    assert not host.channels.probes
    host.later(1)
    host.waiting.expire(host.now.mono_ms)
    assert [address for address, _ in host.channels.probes] == [("b1", 9092), ("b3", 9092)]
    host.channels.probes[0][1](True)
    host.channels.probes[1][1](False)
    host.turn()
    assert [broker.id for broker in host.controller.image.brokers()] == [2, 3]
    host.controller.lost()
    host.lead(3)
    host.controller.lost()
    host.later(2000 + SILENT_MS)
    host.waiting.expire(host.now.mono_ms)
    assert len(host.channels.probes) == 2, "a deposed leader looks after nobody"


def test_a_broker_that_was_heard_since_its_listener_refused_is_there():
    """It opens its listener when it has its lease: a look that came before that says nothing of what it does now."""
    host = Host()
    host.lead()
    joined(host, 1)
    host.controller.broker_link_lost(1)
    ((_, then),) = host.channels.probes
    host.controller.heard(1, call(50, 22))
    then(True)
    host.turn()
    assert 1 in host.controller.soft.leases


def test_the_lease_ends_and_the_broker_is_fenced():
    host = Host()
    host.lead()
    epochs = joined(host, 1, 2)
    host.controller.submit(create_topics, topic(replicas=2), call(19))
    host.turn()
    for _ in range(30):
        host.later(1000)
        host.controller.submit(broker_heartbeat, heartbeat(2, epochs[2]), call(50, 2))
        host.turn()
    image = host.controller.image
    assert image.broker(1) is None and image.leader(image.partition(image.topic("t"), 0)) == 2


def test_time_in_which_the_loop_stood_still_is_credited():
    host = Host()
    host.lead()
    joined(host, 1)
    host.turn()
    host.later(60_000)
    host.turn()
    assert 1 in host.controller.soft.leases


def test_bulk_work_goes_in_portions(monkeypatch):
    monkeypatch.setattr(fencing_passes, "SLICE_COST", 10)
    host = Host()
    host.lead()
    joined(host, 1, 2, 3)
    host.controller.submit(create_topics, topic("t", 45, 3), call(19))
    host.turn()
    image = host.controller.image
    first = image.counts(1)[2]
    host.controller.broker_link_lost(1)
    ((address, then),) = host.channels.probes
    assert address == ("b1", 9092)
    then(False)
    host.turn()
    assert image.counts(1)[2] == first  # a timeout or a success says nothing
    then(True)
    left = []
    while image.broker(1) is not None:
        assert host.controller.deadline_ms() == 0
        host.turn()
        left.append(image.counts(1)[2])
    assert left == [*range(first - 10, 0, -10), 0] and len(left) > 3


@pytest.mark.parametrize(("resource", "looked"), [((2, "t"), 6), ((4, ""), 45 + 6), ((2, "none"), 0)])
def test_what_a_setting_makes_the_controller_look_at_counts_in_its_turns(monkeypatch, resource, looked):
    monkeypatch.setattr(fencing_passes, "SLICE_COST", 500)
    host = Host()
    host.lead()
    epochs = joined(host, 1, 2)
    for name, count in (("t", 6), ("u", 45)):
        host.controller.submit(create_topics, topic(name, count, 2), call(19))
        host.turn()
    for broker in epochs:
        host.controller.broker_link_lost(broker)
        host.channels.probes.pop()[1](True)
        host.turn()
    found = []
    elect = fencing_passes.elect
    monkeypatch.setattr(fencing_passes, "unclean_allowed", lambda state, topic: True)
    monkeypatch.setattr(fencing_passes, "elect", lambda *given: found.append(given[1]) or elect(*given))
    host.controller.soft.leases = {1: None, 2: None} if resource[0] == 4 else {}
    host.controller._look_for_unclean(ConfigSet(*resource, "unclean.leader.election.enable", "true"))
    host.controller.soft.leases = {}
    slices = []
    while host.controller._pending():
        assert host.controller.deadline_ms() == 0
        before = len(found)
        host.turn()
        slices.append(len(found) - before)
    assert sum(slices) == looked and max(slices, default=0) <= 10


def filled(host, partitions, factor):
    """Topics of 5,000 partitions on the brokers that have joined."""
    for number in range(partitions // 5_000):
        host.controller.submit(create_topics, topic(f"t{number}", 5_000, factor), call(19))
        host.turn()
    assert host.controller.image.row_end == partitions


def lost_together(host, *brokers):
    for broker in brokers:
        host.controller.broker_link_lost(broker)
        host.channels.probes.pop()[1](True)


def test_bulk_work_waits_for_what_it_has_written_to_be_committed():
    host = Host()
    host.lead()
    joined(host, 1, 2, 3)
    filled(host, 100_000, 3)
    image, role = host.controller.image, host.controller
    lost_together(host, 1, 2, 3)
    ahead, turns = 0, 0
    while role.deadline_ms() == 0:
        turns += 1
        ahead += sum(len(batch.data) for batch in host.turn(commit=False))
        assert turns < 100
    slice_bytes = 70 * fencing_passes.SLICE_COST
    assert AHEAD_BYTES_MAX <= ahead < AHEAD_BYTES_MAX + slice_bytes and role.soft.leaving
    before = image.next_offset
    assert host.turn(commit=False) == [] and image.next_offset == before, "it goes on when something is committed"
    host.commit()
    host.turn()
    assert image.next_offset > before
    while role.soft.leaving:
        assert role.deadline_ms() == 0
        host.turn()
    assert image.counters.leaderless == 100_000 and image.unfenced_brokers() == []


def test_brokers_are_fenced_while_what_requests_write_is_not_committed(monkeypatch):
    monkeypatch.setattr("actors.node.roles.controller.role.AHEAD_BYTES_MAX", 1000)
    host = Host()
    host.lead()
    joined(host, 1, 2, 3)
    role, image = host.controller, host.controller.image
    role.submit(create_topics, topic("t", 500, 3), call(19))
    assert sum(len(batch.data) for batch in host.turn(commit=False)) > 1000
    lost_together(host, 1)
    host.turn(commit=False)
    assert not role.soft.leaving and not image.is_registered(1)
    lost_together(host, 2)
    before = image.next_offset
    host.turn(commit=False)
    assert 2 in role.soft.leaving and image.next_offset == before, "what bulk work has written counts"
    role.submit(create_topics, topic("u", 1, 1), call(19))
    host.turn(commit=False)
    host.commit()
    assert role.deadline_ms() == 0
    host.turn()
    assert not role.soft.leaving and role._ahead_bytes == 0


def test_what_bulk_work_has_written_is_forgotten_with_the_leadership(monkeypatch):
    monkeypatch.setattr("actors.node.roles.controller.role.AHEAD_BYTES_MAX", 1000)
    host = Host()
    host.lead()
    joined(host, 1, 2)
    filled(host, 5_000, 2)
    lost_together(host, 1)
    host.turn(commit=False)
    host.quorum.log.clear()
    host.controller.lost()
    host.lead(epoch=2)
    lost_together(host, 1)
    while host.controller.soft.leaving:
        assert host.controller.deadline_ms() == 0
        host.turn()
    assert not host.controller.image.is_registered(1) and host.controller._ahead_bytes == 0


def test_many_topics_with_new_settings_are_searched_in_several_turns(monkeypatch):
    host = Host()
    host.lead()
    joined(host, 1)
    many = 3 * fencing_passes.SLICE_COST // fencing_passes.SLICE_COST_MIN
    host.controller.soft.allowing = {number.to_bytes(16, "big"): None for number in range(many)}
    searches, come_back = [0], fencing_passes.come_back

    def searched(*given):
        searches[-1] += 1
        return come_back(*given)

    monkeypatch.setattr(fencing_passes, "come_back", searched)
    while host.controller.soft.allowing:
        assert host.controller.deadline_ms() == 0
        host.turn()
        searches.append(0)
    assert searches == [many // 3] * 3 + [0]


def test_all_brokers_of_20000_partitions_that_are_lost_at_once_cost_one_record_a_partition_in_bounded_turns():
    host = Host()
    host.lead()
    joined(host, 1, 2, 3)
    filled(host, 20_000, 3)
    begin = host.controller.image.next_offset
    lost_together(host, 1, 2, 3)
    written = []
    while host.controller.soft.leaving:
        before = host.controller.image.next_offset
        host.turn()
        written.append(host.controller.image.next_offset - before)
    assert host.controller.image.next_offset - begin == 20_000 + 3
    assert max(written) <= fencing_passes.SLICE_COST and host.controller.image.counters.leaderless == 20_000


def test_a_takeover_with_20000_partitions_without_a_leader_looks_at_each_of_them_once_in_bounded_turns(monkeypatch):
    host = Host()
    host.lead()
    joined(host, *range(1, 41))
    filled(host, 20_000, 2)
    joined(host, *range(41, 141))
    host.controller.submit(create_topics, topic("u", 1_000, 1), call(19))
    host.turn()
    lost_together(host, *range(1, 41))
    while host.controller.soft.leaving:
        host.turn()
    looked = []
    search = fencing_passes.elections
    monkeypatch.setattr(fencing_passes, "SLICE_COST", 20)

    def searched(*given):
        found = search(*given)
        looked.append((given[2], found[2], found[3]))
        return found

    monkeypatch.setattr(fencing_passes, "elections", searched)
    host.controller.lost()
    host.lead(epoch=2)
    while host.controller._pending():
        assert host.controller.deadline_ms() == 0
        host.turn()
    assert [row for row, _, _ in looked] == [0, *(after for _, after, _ in looked[:-1])] and looked[-1][1] == -1
    assert max(cost for _, _, cost in looked) <= 20 and len(looked) > 3


def test_a_takeover_with_20000_reassignments_and_150_brokers_goes_in_bounded_turns(monkeypatch):
    host = Host()
    host.lead()
    joined(host, *range(1, 151))
    filled(host, 20_000, 1)
    image, kind = host.controller.image, message("AlterPartitionReassignmentsRequest")
    for row in list(image.topics()):
        moved = [
            kind.ReassignablePartition(
                partition_index=image.number(one), replicas=[(image.replicas(one)[0] + 70) % 150 + 1]
            )
            for one in image.topic_partitions(row)
        ]
        topics = [kind.ReassignableTopic(name=image.topic_name(row), partitions=moved)]
        host.controller._run(alter_partition_reassignments, kind(topics=topics))
    host.turn()
    assert sum(image.is_moving(one) for row in image.topics() for one in image.topic_partitions(row)) == 20_000
    spent = []
    come_back = fencing_passes.come_back

    def searched(*given):
        found = come_back(*given)
        spent.append(found.reply.cost)
        return found

    monkeypatch.setattr(fencing_passes, "come_back", searched)
    host.controller.lost()
    host.lead(epoch=2)
    while host.controller._pending():
        host.turn()
    assert len(spent) > 1 and max(spent) <= 1.1 * fencing_passes.SLICE_COST
    assert sum(spent) <= 3 * 20_000, "all brokers that have a lease share one look"


@pytest.mark.parametrize("validate_only", [False, True])
def test_two_new_names_of_one_request_may_not_collide_in_whatever_portions_they_are(monkeypatch, validate_only):
    monkeypatch.setattr(portions, "ENTRIES_A_PORTION", 2)
    host = Host()
    host.lead()
    joined(host, 1)
    kind = message("CreateTopicsRequest")
    names = ["a.b", "twice", "x", "twice", "y", "a_b", "z", "x.y"]
    topics = [kind.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    request = kind(topics=topics, validate_only=validate_only)
    answer, slices = TABLE[Listener.CONTROLLER, 19].handler(host.context, request, call(19)), 0
    while isinstance(answer, Sliced):
        answer, slices = answer.again(), slices + 1
    assert isinstance(answer, Held) and slices > 2
    codes = {one.name: one.error_code for one in answer.reply.topics}
    assert codes == {"a.b": 0, "twice": 42, "x": 0, "y": 0, "a_b": 17, "z": 0, "x.y": 0}
    assert (host.controller.image.topic("x") >= 0) is not validate_only


@pytest.mark.parametrize("forwarded", [False, True])
def test_who_gives_a_broker_up_hears_at_once_of_the_lost_leadership(forwarded):
    host = Host()
    host.lead()
    joined(host, 1)
    request = message("UnregisterBrokerRequest")(broker_id=1)
    if forwarded:
        frame = b"".join(framing.encode_request("UnregisterBroker", 0, 1, "c", request))[4:]
        envelope = message("EnvelopeRequest")(request_data=frame, client_host_address=bytes(4), request_principal=None)
        answer = unwrap(host.context, envelope, call(58))
    else:
        answer = host.controller.submit(unregister_broker, request, call(64))
    assert isinstance(answer, Parked)
    told = []
    host.waiting.park(answer.keys, answer.deadline_ms, lambda expired: told.append(answer.again(expired)))
    host.controller.lost()
    while host.waiting.run():
        pass
    assert [one.reply.error_code for one in told] == [41]  # of an Envelope: the broker asks the next controller


def test_a_newcomer_waits_until_the_old_registration_has_left():
    host = Host()
    host.lead()
    epochs = joined(host, 1, 2)
    host.controller.submit(create_topics, topic("t", 4), call(19))
    host.turn()
    request = heartbeat(1)
    request.incarnation_id = b"\x99" * 16
    answer = host.controller.submit(broker_heartbeat, request, call(50, 7))
    assert isinstance(answer, Parked)
    told = []
    host.waiting.park(answer.keys, answer.deadline_ms, lambda expired: told.append(answer.again(expired)))
    host.turn()
    assert isinstance(told[0], Held) and told[0].reply.broker_epoch > epochs[1]
    assert answer.again(True).reply.next_state == 1  # it took too long: still INITIAL, asks again


def test_r631_115_at_level_1_the_active_controller_hands_over_and_has_begun_no_snapshot():
    kind = message("v28:ControllerHeartbeatRequest")
    host = Host(1)
    host.lead()
    joined(host, 1)
    end = host.controller.image.next_offset
    host.controller.options = host.controller.options._replace(snapshot_bytes=(1, 1))
    for _ in range(4):
        for id in (1002, 1003):
            report = kind(controller_id=id, last_snapshot_offset=end)
            assert not host.controller.submit(controller_heartbeat, report, call(51)).reply.start_snapshot
        host.later(2000)
        host.turn()
    assert host.quorum.events[:1] == ["resigned"]


def test_r631_111_snapshots_are_told_and_soft():
    host = Host()
    host.lead()
    joined(host, 1)
    end = host.controller.image.next_offset
    options = host.controller.options._replace(snapshot_bytes=(1, 1))
    host.controller.options = options

    kind = message("v28:ControllerHeartbeatRequest")

    def report(id, offset):
        answer = host.controller.submit(
            controller_heartbeat, kind(controller_id=id, last_snapshot_offset=offset), call(51)
        )
        assert answer.offset == -1
        return answer.reply

    host.later(2000)
    assert not report(1002, -1).start_snapshot
    host.turn()
    assert not report(1003, -1).start_snapshot  # until all have reported
    host.later(2000)
    host.turn()
    slots = {id: report(id, -1).start_snapshot for id in (1002, 1003)}
    assert sorted(slots.values()) == [False, True]  # R631-114: one at a time
    busy = next(id for id, start in slots.items() if start)
    other = 1002 + 1003 - busy
    assert not report(busy, end).start_snapshot  # done
    host.later(2000)
    host.turn()
    assert report(other, -1).start_snapshot
    report(other, end)
    host.later(2000)
    host.turn()
    # R631-116: the active one, without resigning.
    assert [(one[0], one[1]) for one in host.quorum.snapshots] == [(end, 1)]
    image = Image()
    load(host.quorum.snapshots[0][2], image, end)
    assert image.broker(1) is not None and host.controller.image.next_offset == end
    assert report(1009, -1).error_code == 42


def test_r631_119_a_snapshot_is_written_at_the_finalized_level(monkeypatch):
    """Until there is one, at the level for which the directory was formatted."""
    levels: list[int] = []
    whole = snapshotting.snapshots.encode

    def noted(pin, epoch, level, timestamp_ms, voters):
        levels.append(level)
        return whole(pin, epoch, level, timestamp_ms, voters)

    monkeypatch.setattr(snapshotting.snapshots, "encode", noted)
    host = Host(1)
    host.lead()
    for level in (1, 2):
        host.controller._apply(Result([FeatureSet(METADATA_FORMAT, level)], None))
        joined(host, level)
        host.controller.snapshot()
        host.turn()
    assert levels == [1, 2] and len(host.quorum.snapshots) == 2


def test_r631_121_a_snapshot_from_before_a_received_one_is_not_the_newest():
    host, standby = Host(), Host()
    log: list[Batch] = []
    replay = host.controller.replay
    host.controller.replay = lambda batch: (log.append(batch), replay(batch))  # type: ignore[method-assign]
    host.lead()
    for batch in log:
        standby.controller.replay(batch)
    encoding: list[Any] = []
    standby.work = lambda job, then: encoding.append((job, then))  # type: ignore[method-assign]
    taker = standby.controller.snapshotting
    taker.take(standby.controller.image)
    joined(host, 1)
    newest = SnapshotId(host.controller.image.next_offset, 1)
    pin = host.controller.image.pin()
    standby.quorum.raft.high_watermark = newest.end_offset
    load_into(standby.controller, b"".join(encode(pin, 1, 2, host.now.wall_ms, None)), newest)
    for job, then in encoding:
        then(job())
    standby.controller.committed(newest.end_offset)
    assert (taker.offset, standby.quorum.snapshots, taker.busy) == (newest.end_offset, [], False)


def test_a02_level_1_answers_have_no_throttle_time():
    host = Host(1)
    host.lead()
    answer = TABLE[Listener.CONTROLLER, 50].handler(host.context, heartbeat(), call(50))
    assert type(answer.reply) is message("v19:BrokerHeartbeatResponse") and answer.reply.next_state == 3
    assert TABLE[Listener.CONTROLLER, 50].lane is Lane.CONTROL


def finalized(host: Host, connection: int) -> int:
    """The level that ApiVersions shows on a connection."""
    request = message("ApiVersionsRequest")(client_software_name="test", client_software_version="1")
    answer = TABLE[Listener.CONTROLLER, 18].handler(host.context, request, call(18, connection, 4))
    assert answer.reply.finalized_features_epoch < host.quorum.raft.high_watermark
    return next(one.max_version_level for one in answer.reply.finalized_features if one.name == METADATA_FORMAT)


def layout(host: Host, broker: int, epoch: int, connection: int) -> int:
    """The level in which a heartbeat is answered."""
    reply = TABLE[Listener.CONTROLLER, 50].handler(host.context, heartbeat(broker, epoch), call(50, connection)).reply
    return 1 if type(reply) is message("v19:BrokerHeartbeatResponse") else 2


def test_r631_099_a_level_that_is_not_committed_is_shown_to_nobody():
    host = Host(1)
    host.lead()
    host.controller._apply(Result([FeatureSet(METADATA_FORMAT, 2)], None))
    host.turn(commit=False)
    assert finalized(host, 1) == 1
    host.commit()
    assert finalized(host, 2) == 2


def test_a02_the_level_that_a_connection_was_told_is_that_of_its_answers():
    host = Host(1)
    host.lead()
    epoch = joined(host, 1)[1]
    assert finalized(host, 5) == 1
    host.controller._apply(Result([FeatureSet(METADATA_FORMAT, 2)], None))
    host.turn()
    assert (finalized(host, 6), layout(host, 1, epoch, 5), layout(host, 1, epoch, 6)) == (2, 1, 2)


def test_a02_the_same_while_there_is_always_something_uncommitted():
    host = Host(1)
    host.lead()
    epoch = joined(host, 1)[1]
    host.controller._apply(Result([FeatureSet(METADATA_FORMAT, 2)], None))
    host.turn(commit=False)
    host.controller.submit(create_topics, topic(), call(19))
    host.quorum.log += host.controller.flush()
    first = host.quorum.log.pop(0)
    host.controller.replay(first)
    host.quorum.raft.high_watermark = first.last_offset + 1
    host.controller.committed(first.last_offset + 1)
    assert host.quorum.raft.high_watermark < host.controller.image.next_offset
    assert (finalized(host, 7), layout(host, 1, epoch, 7)) == (2, 2)


def test_a_heartbeat_that_was_stuck_on_an_older_connection_fences_nobody():
    """Its sender has been granted its lease again since, on a newer one; a loser of the id has a connection of its own."""
    handler = TABLE[Listener.CONTROLLER, 50].handler
    host = Host()
    host.lead()
    epoch = handler(host.context, heartbeat(), call(50, 1)).reply.broker_epoch
    host.turn()
    assert handler(host.context, heartbeat(epoch=epoch), call(50, 3)).reply.next_state == 3
    stuck = heartbeat(epoch=epoch)
    stuck.target_state = 2
    assert isinstance(handler(host.context, stuck, call(50, 2)), Close)
    assert 1 in host.controller.soft.leases and not host.controller.soft.leases[1].given_up
    before = heartbeat()
    assert isinstance(handler(host.context, before, call(50, 2)), Close)
    other = heartbeat(epoch=epoch + 1)
    other.incarnation_id = bytes([9]) * 16
    assert handler(host.context, other, call(50, 2)).reply.error_code == 77


def test_metrics_have_the_drafts_names():
    host = Host()
    host.lead()
    joined(host, 1)
    host.controller.submit(create_topics, topic(), call(19))
    host.turn(commit=False)
    host.later(50)
    host.commit()
    shown = metrics_of(host)
    prefix = "kafka_controller_kafkacontroller_"
    assert shown[prefix + "metadatalag"] == 0
    assert shown[prefix + "metadatasnapshotlag"] == host.quorum.raft.high_watermark  # A52
    assert shown[prefix + 'metadatacommitlatencyms{quantile="0.999"}'] == 50  # R631-203
    assert shown["kafka_server_raftmetrics_commit_latency_max"] == 50
    assert shown[prefix + "controllerrequestsrate_count"] > 0
    assert shown[prefix + "globalpartitioncount"] == shown[prefix + "globaltopiccount"] == 1
    assert shown[prefix + "offlinepartitionscount"] == shown[prefix + "fencedbrokercount"] == 0
    records = shown[prefix + "metadatacommitrate_count"]
    assert records == host.quorum.raft.high_watermark - 1  # records, not batches: all but the quorum's own
    host.controller.lost()
    still = metrics_of(host)
    assert prefix + "metadatalag" in still and prefix + "metadatacommitlatencyms_count" not in still


def test_r631_206_every_request_to_a_controller_counts_once():
    """Taken, refused, and on a standby."""
    host = Host()
    host.lead()
    joined(host, 1)
    before = host.controller.requests.count
    kind = message("v28:BrokerHeartbeatRequest")
    for _ in range(20):
        host.controller.submit(broker_heartbeat, kind(broker_id=1, broker_epoch=0, target_state=9), call(50))
        host.later(50)
    assert host.controller.requests.count == before + 20
    host.controller.lost()
    for _ in range(5):
        host.controller.submit(broker_heartbeat, kind(broker_id=1), call(50))
    assert host.controller.requests.count == before + 25
    assert metrics_of(host)["kafka_controller_kafkacontroller_controllerrequestsrate_count"] == before + 25


def metrics_of(host):
    idle = {Lane.DATA: Idle(), Lane.CONTROL: Idle()}
    requests: Any = SimpleNamespace(queue=RequestQueue(1), idle=idle, control_waits=Spread(), control_works=Spread())
    of = OfController(host.controller, host.runtime, host.quorum, requests)
    return numbers(one for row in CONTROLLERS for one in row.samples(of))


def test_producer_ids_are_never_given_twice():
    host = Host()
    host.lead()
    epochs = joined(host, 1)
    kind = message("AllocateProducerIdsRequest")
    starts = [
        host.controller.submit(allocate_producer_ids, kind(broker_id=1, broker_epoch=epochs[1]), call(67)).reply
        for _ in range(3)
    ]
    assert [(r.producer_id_start, r.producer_id_len) for r in starts] == [(0, 1000), (1000, 1000), (2000, 1000)]
    stale = host.controller.submit(allocate_producer_ids, kind(broker_id=1, broker_epoch=0), call(67)).reply
    assert stale.error_code == 77


@pytest.mark.parametrize("key", [19, 20, 33, 37, 43, 44, 45, 46, 57, 64])
def test_clients_requests_are_forwarded_by_brokers(key):
    from actors.node.runtime.answers import Forward

    assert TABLE[Listener.CLIENT, key].handler(Host(), None, call(key)) == Forward()
    assert TABLE[Listener.CLIENT, key].versions == TABLE[Listener.CONTROLLER, key].versions


def test_r631_101_the_duplicates_error_leaves_only_once_the_first_is_committed():
    host = Host()
    host.lead()
    joined(host, 1)
    first = host.controller.submit(create_topics, topic(), call(19))
    again = host.controller.submit(create_topics, topic(), call(19))
    assert again.reply.topics[0].error_code == 36 and again.offset == first.offset >= host.quorum.raft.high_watermark
    host.turn()
    assert again.offset < host.quorum.raft.high_watermark


def test_leaderships_are_given_back_at_the_interval_and_only_where_it_is_wanted():
    for given, expected in (({}, 1), ({"auto.leader.rebalance.enable": "false"}, 2)):
        host = Host()
        host.controller.options = options(node_config(dict(host.config.given) | given), "c")
        host.lead()
        joined(host, 1, 2)
        kind = message("CreateTopicsRequest")
        chosen = [kind.CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])]
        request = kind(
            topics=[kind.CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=chosen)]
        )
        host.controller.submit(create_topics, request, call(19))
        host.turn()
        image = host.controller.image
        row = image.partition(image.topic("t"), 0)
        host.controller._apply(
            Result([PartitionsChanged.one(image.topic_id(image.topic("t")), 0, [1, 2], 2, 1, 1)], None)
        )
        host.turn()
        assert image.leader(row) == 2
        for _ in range(31):
            for broker in (1, 2):
                lease = host.controller.soft.leases[broker]
                lease.expires_ms = host.now.mono_ms + 60_000
            host.later(10_000)
            host.turn()
        assert image.leader(row) == expected


def test_settings_of_topics_that_do_nothing_are_warned_of():
    host = Host()
    host.lead()
    joined(host, 1)
    kind = message("CreateTopicsRequest")

    def warned(name: str, **configs: str) -> list[str]:
        host.lines.clear()
        made = [kind.CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
        one = kind.CreatableTopic(name=name, num_partitions=1, replication_factor=-1, configs=made)
        host.controller.submit(create_topics, kind(topics=[one]), call(19))
        return list(host.lines)

    assert warned("a", retention_ms="1", compression_type="producer", cleanup_policy="delete") == []
    assert warned("b", preallocate="true") == [
        "preallocate=true of topic b is accepted, does nothing here: segments grow as they are written"
    ]
    assert warned("c", cleanup_policy="compact") == warned("d", cleanup_policy="compact,delete") == []
    assert warned("__consumer_offsets", cleanup_policy="compact") == []
    change = message("IncrementalAlterConfigsRequest")
    altered = change.AlterableConfig(name="preallocate", config_operation=0, value="true")
    resource = change.AlterConfigsResource(resource_type=2, resource_name="a", configs=[altered])
    host.controller.submit(incremental_alter_configs, change(resources=[resource]), call(44))
    assert len(host.lines) == 1, host.lines


@pytest.mark.parametrize(
    ("topics", "count", "fits"), [(101, 102, False), (101, 100, True), (2, 5_002, False), (2, 5_001, True)]
)
def test_the_limit_of_new_partitions_is_one_of_the_request_and_not_of_its_portions(monkeypatch, topics, count, fits):
    host = Host()
    host.lead()
    joined(host, 1)
    for number in range(topics):
        host.controller.submit(create_topics, topic(f"t{number}", 1, 1), call(19))
    host.turn()
    kind = message("CreatePartitionsRequest")
    wanted = [kind.CreatePartitionsTopic(name=f"t{number}", count=count, assignments=None) for number in range(topics)]
    wanted.append(kind.CreatePartitionsTopic(name="none", count=9_999, assignments=None))
    answer = TABLE[Listener.CONTROLLER, 37].handler(host.context, kind(topics=wanted), call(37, version=3))
    while isinstance(answer, Sliced):
        answer = answer.again()
        host.turn()
    codes = [one.error_code for one in answer.reply.results]
    image = host.controller.image
    made = sum(image.partition_count(row) for row in image.topics()) - topics
    assert codes == ([0] * topics + [3] if fits else [44] * (topics + 1))
    assert made == (topics * (count - 1) if fits else 0)


def test_a_changed_rule_leaves_the_quotas_of_changes_as_they_are():
    host = Host()
    host.lead()
    seen = []
    host.controller.soft.mutations.changed = lambda: seen.append(1)
    rule = (2, "t", 3, "User:a", "*", 3, 3)
    host.controller._apply(Result([EntitySet("acl", rule, tuple(zip(RULE_FIELDS, rule, strict=True)))], None))
    assert not seen
    entity = (("user", "a"),)
    fields = (("entity", entity), ("key", "k"), ("value", 1.5), ("remove", False))
    host.controller._apply(Result([EntitySet("quota", (entity, "k"), fields)], None))
    assert seen == [1]
