"""Snapshots of the metadata in whole nodes: where they end, which node takes them, and reads of what they replaced."""

import errno
from typing import Any

import pytest

from actors.node.quorum import log as metadata_log
from actors.ports import DiskFull
from actors.wire.messages import message
from tests.simulator.cluster import Client
from tests.simulator.one_topic import OneTopic
from tests.simulator.test_control_plane import Lab

BETWEEN = "metadata.log.max.record.bytes.between.snapshots"


def filled(lab: Lab, count: int, since: int = 0, partitions: int = 20) -> None:
    """Create topics with about 65 bytes of records for each partition."""
    for number in range(since, since + count):
        assert lab.create(f"filler-{number}", partitions, 1).error_code == 0


def straddled() -> tuple[Lab, Any]:
    """A cluster with one controller, which in one turn gets requests for producer ids (control lane), a snapshot (its
    tick) and a topic (data lane)."""
    lab = Lab(controllers=1, level=2, config={BETWEEN: "30000"})
    active, role = lab.cluster.active(), lab.role
    due_ms = role.heartbeats.deadline_ms()
    lab.settle(lambda: role.heartbeats.deadline_ms() > due_ms)
    filled(lab, 6, partitions=200)  # more than the grain in which bytes are counted: one snapshot, no second one
    assert role.snapshotting.offset <= 0
    epoch = role.image.broker(1).epoch
    other = Client(lab.world, "other")
    hello = message("ApiVersionsRequest")(client_software_name="test", client_software_version="1")
    for client in (lab.client, other):
        client.call("c1001", "ApiVersions", 4, hello)
    active.freeze()
    answers: list[Any] = []
    ids = message("AllocateProducerIdsRequest")(broker_id=1, broker_epoch=epoch)
    lab.client.ask("c1001", "AllocateProducerIds", 0, ids, answers.append)
    kind = message("CreateTopicsRequest")
    topic = kind.CreatableTopic(name="precious", num_partitions=3, replication_factor=3)
    other.ask("c1001", "CreateTopics", 7, kind(topics=[topic]), answers.append)
    lab.world.run_for(2500)
    active.thaw()
    lab.settle(lambda: role.snapshotting.offset > 0 and len(answers) == 2)
    assert role.image.topic("precious") >= 0
    return lab, active


def test_a_snapshot_ends_where_a_batch_does_and_nothing_acknowledged_is_skipped() -> None:
    lab, active = straddled()
    quorum = active.node.quorum
    lab.settle(lambda: quorum.store.checkpoints.latest.end_offset > 0)
    end = quorum.store.checkpoints.latest.end_offset
    assert end < lab.role.image.next_offset, "the turn went on behind the snapshot"
    assert end in {batch.base_offset for batch in quorum.store.log.read(end, 1 << 20)}
    active.crash()
    active.start()
    lab.settle(lambda: lab.cluster.active() is not None)
    assert lab.role.image.topic("precious") >= 0


def test_a_broker_without_metadata_goes_on_behind_such_a_snapshot() -> None:
    lab, _ = straddled()
    broker = lab.cluster.brokers[3]
    broker.crash()
    broker.disk.remove("__kafka_metadata-0")
    broker.start()
    lab.settle(lambda: broker.node.broker.availability.serving, 60_000)
    assert broker.node.broker.cache.image.topic("precious") >= 0


@pytest.mark.parametrize("operation", ["open", "read"])
def test_a_snapshot_for_which_the_leader_has_no_descriptor_is_sent_when_it_has_one(operation: str) -> None:
    lab, active = straddled()
    lab.settle(lambda: active.node.quorum.store.checkpoints.latest.end_offset > 0)
    broker, refused = lab.cluster.brokers[3], []

    def fault(one: str, path: str) -> int:
        if one != operation or not path.endswith(".checkpoint"):
            return 0
        refused.append(path)
        return errno.EMFILE

    broker.crash()
    broker.disk.remove("__kafka_metadata-0")
    active.disk.fault = fault
    broker.start()
    lab.settle(lambda: len(refused) > 3)
    active.disk.fault = None
    lab.settle(lambda: broker.node.broker.availability.serving, 60_000)
    assert active.stopped_with is None and all("until there is a descriptor" in one for one in lab.world.errors)
    assert broker.node.broker.cache.image.topic("precious") >= 0


@pytest.mark.parametrize("operation", ["settle", "read"])
def test_a_received_snapshot_for_which_there_is_no_room_is_taken_in_when_there_is_some(operation: str) -> None:
    """It is on the disk under another name; what fails is that it is made durable, or that it is read back."""
    lab, active = straddled()
    lab.settle(lambda: active.node.quorum.store.checkpoints.latest.end_offset > 0)
    broker = lab.cluster.brokers[3]
    broker.crash()
    broker.disk.remove("__kafka_metadata-0")
    broker.start()
    runtime, refused = broker.node.runtime, []
    sync, work = runtime.sync, runtime.work

    def short(files: Any, replacements: Any, then: Any, *rest: Any, **more: Any) -> None:
        if operation == "settle" and any(file.path.endswith(".part") for file in files) and len(refused) < 3:
            refused.append(files)
            then(DiskFull(errno.ENOSPC, "no room"))
        else:
            sync(files, replacements, then, *rest, **more)

    def unread(job: Any, then: Any, *rest: Any) -> None:
        if operation == "read" and "verify" in job.__qualname__ and len(refused) < 3:
            refused.append(job)
            then(DiskFull(errno.EMFILE, "no descriptor"))
        else:
            work(job, then, *rest)

    runtime.sync, runtime.work = short, unread
    lab.settle(lambda: broker.node.broker.availability.serving, 60_000)
    assert len(refused) == 3 and broker.stopped_with is None
    assert broker.node.broker.cache.image.topic("precious") >= 0


def test_a48_a_broker_bounds_its_log_by_itself() -> None:
    lab = Lab(controllers=1, level=2, config={BETWEEN: "3000", "internal.metadata.log.segment.bytes": "1024"})
    filled(lab, 12)
    broker = lab.cluster.brokers[1]
    quorum = broker.node.quorum
    lab.settle(lambda: quorum.store.log.start_offset > 0)
    bound = 4 * 3000
    for since in (12, 24):
        filled(lab, 12, since)
        lab.settle(lambda: quorum.store.log.size < bound)
    names = set(lab.role.image.topics())
    broker.crash()
    broker.start()
    assert broker.node.broker.cache.image.next_offset > 0, "it begins with its own snapshot"
    lab.settle(lambda: broker.node.broker.availability.serving, 30_000)
    assert set(broker.node.broker.cache.image.topics()) == names


def test_a_read_that_waits_for_the_disk_while_the_log_is_cut_gets_the_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_log, "TAIL_BYTES_MAX", 200)
    lab = Lab(controllers=1, level=2, config={BETWEEN: "3000", "internal.metadata.log.segment.bytes": "1024"})
    active, follower = lab.cluster.active(), lab.cluster.brokers[3]
    node, quorum = active.node, active.node.quorum

    def snapshot(since: int) -> None:
        before = quorum.store.checkpoints.latest.end_offset
        filled(lab, 8, since)
        lab.settle(lambda: quorum.store.checkpoints.latest.end_offset > before, 20_000)

    snapshot(0)
    lab.world.run_for(500)
    follower.freeze()
    snapshot(8)
    behind = follower.node.quorum.raft.log_end_offset
    reads: list[Any] = []
    work = node.runtime.work

    def late(job: Any, then: Any, *rest: Any) -> None:
        if quorum._upkeep._reading and not reads:
            reads.append(lambda: work(job, then, *rest))  # the disk takes its time
        else:
            work(job, then, *rest)

    active.disk.cold = lambda path, position, size: path.endswith(".log") and "metadata" in path
    node.runtime.work = late
    filled(lab, 8, 16)
    due_ms = lab.role.heartbeats.deadline_ms()
    lab.settle(lambda: active.now().mono_ms > due_ms - 50)
    follower.thaw()
    lab.settle(lambda: reads)
    assert quorum.store.log.start_offset <= behind, "it is read from the log"
    lab.settle(lambda: quorum.store.log.start_offset > behind, 20_000)
    node.runtime.work = work
    active.disk.cold = None
    for read in reads:
        active.input(read)
    lab.settle(lambda: follower.node.quorum.raft.log_end_offset == lab.role.image.next_offset, 20_000)
    assert active.stopped_with is None


def test_a_broker_with_a_snapshot_waits_for_what_was_committed_behind_it() -> None:
    """The broker's directories are newer than the snapshot: a topic may have been created again under its name."""
    t = OneTopic([1], {}, {BETWEEN: "3000"})
    quorum = t.cluster.brokers[1].node.quorum
    client = message("CreateTopicsRequest")
    number = 0
    while quorum.store.checkpoints.latest is None or not quorum.store.checkpoints.latest.end_offset:
        number += 1
        topic = client.CreatableTopic(name=f"filler-{number}", num_partitions=20, replication_factor=1)
        assert t.client.call("b2", "CreateTopics", 7, client(topics=[topic])).topics[0].error_code == 0
        t.world.run_for(100)
    behind = t.image.next_offset
    t.drop()
    t.create([1])
    assert t.produce(b"precious") == 0
    assert quorum.store.checkpoints.latest.end_offset <= behind
    t.stop(1)
    t.cluster.brokers[1].start()
    t.until(lambda: t.leader == 1)
    t.world.run_for(1_000)
    assert t.read() == {0: b"precious"}
