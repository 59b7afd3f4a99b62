"""A disk that accepts no more writes: the broker stops, and the partition goes on without it."""

import errno

import pytest

from actors.node.roles.broker.log.retired_files import _each
from actors.ports import DiskFailed, DiskFull
from tests.simulator.checkers.blamed_disks import BlamedDisks
from tests.simulator.checkers.hooks import Violation
from tests.simulator.checkers.stopped_nodes import StoppedNodes
from tests.simulator.one_topic import DIRECTORY, OneTopic


@pytest.mark.parametrize("part", ["leader", "follower"])
def test_a_broker_that_cannot_append_stops(part):
    t = OneTopic(settings={})
    t.produce(b"before")
    t.world.run_for(8_000)
    id = t.leader if part == "leader" else t.leader % 3 + 1
    process = t.cluster.brokers[id]
    process.disk.append_fails = lambda path: path.startswith(f"{DIRECTORY}/")
    answer = t.send(b"during", acks=1)
    assert answer is None or answer.error_code == (56 if part == "leader" else 0)
    t.until(lambda: process.stopped_with is not None, 5_000)
    code, sentence = process.stopped_with
    assert code == 1 and sentence.startswith("nothing can be appended to t-0 any more: ")
    t.until(lambda: t.leader not in (id, -1) and id not in t.isr)
    t.world.run_for(1_000)
    t.produce(b"after")
    assert list(t.read().values()) == [b"before", *[b"during"] * (part == "follower"), b"after"]


def test_a_broker_that_cannot_write_an_index_stops():
    """Indexes are brought up to date by a flush."""
    t = OneTopic(settings={"flush.ms": "1000", "index.interval.bytes": "0"})
    process = t.cluster.brokers[t.leader]
    t.produce(b"value")
    process.disk.append_fails = lambda path: path.endswith("index")
    t.produce(b"value")
    t.produce(b"value")
    t.until(lambda: process.stopped_with is not None, 10_000)
    assert process.stopped_with[1].startswith("the logs cannot be made durable: ")


def test_a_file_that_stays_keeps_no_other_from_going():
    """The first of the deleted segments cannot be unlinked. The broker reports it and removes the others."""
    t = OneTopic(settings={"internal.segment.bytes": "500", "file.delete.delay.ms": "1000"})
    for _ in range(20):
        t.produce(bytes(200))
    disk, removed = t.cluster.brokers[t.leader].disk, []
    remove = disk.remove

    def stays(path):
        removed.append(path)
        if len(removed) == 1:
            raise DiskFailed(errno.EIO, "remove failed: Input/output error", path)
        remove(path)

    disk.remove = stays
    t.delete_records(20)
    t.until(lambda: removed)
    t.world.run_for(1_000)
    left = [name for name in disk.names(DIRECTORY) if name.endswith(".deleted")]
    assert len(removed) > 5
    assert [f"{DIRECTORY}/{name}" for name in left if name.endswith(".log.front.deleted")] == removed[:1]


@pytest.mark.parametrize(("number", "stops"), [(errno.ENOSPC, False), (errno.EIO, True)])
def test_a_name_of_the_metadata_log_that_cannot_be_changed_ends_no_node_with_a_traceback(number, stops):
    """A broker waits for room, and says why it ends where the device fails."""
    config = {"metadata.log.max.record.bytes.between.snapshots": "500", "internal.metadata.log.segment.bytes": "2048"}
    t = OneTopic([1], {}, config)
    process = t.cluster.brokers[2]
    renames = []

    def fault(operation, path):
        if operation == "rename" and path.startswith("__kafka_metadata-0/"):
            renames.append(path)
            return number
        return 0

    process.disk.fault = fault
    for _ in range(40):
        if process.stopped_with is None:
            t.drop()
            t.create([1])
            t.world.run_for(200)
    assert renames and (process.stopped_with is not None) is stops
    if stops:
        assert process.stopped_with[1].startswith("the metadata log cannot be ")
        return
    process.disk.fault = None
    for _ in range(10):
        t.drop()
        t.create([1])
        t.world.run_for(200)
    names = process.disk.listed("__kafka_metadata-0")
    assert sum(name.endswith(".log") for name in names) < 6 and sum(name.endswith(".checkpoint") for name in names) < 3


def test_the_directory_of_a_topic_that_went_gets_another_name_as_soon_as_there_is_room():
    """Until then no topic of that name begins there: its log would find the segments of the one before."""
    t = OneTopic([1], {"internal.segment.bytes": "500", "file.delete.delay.ms": "1000"})
    for _ in range(10):
        t.produce(bytes(200))
    process = t.cluster.brokers[1]
    process.disk.fault = lambda operation, path: errno.ENOSPC if operation == "rename" and path == DIRECTORY else 0
    t.drop()
    t.world.run_for(3_000)
    assert process.disk.found(DIRECTORY)
    t.create([1])
    t.world.run_for(3_000)
    broker = process.node.broker
    assert broker.replicas.offline and len(broker.logs.retired.stuck) == 1
    process.disk.fault = None
    t.until(lambda: t.cluster.ready() and t.leader == 1)
    t.world.run_for(1_000)
    assert t.produce(b"first") == 0 and t.read() == {0: b"first"}, "no restart is needed"
    t.stop(1)
    process.start()
    t.until(lambda: t.cluster.ready() and t.leader == 1)
    t.world.run_for(1_000)
    assert t.produce(b"second") == 1 and t.read() == {0: b"first", 1: b"second"}


def test_a_name_that_waits_for_room_is_tried_once_a_second_however_many_wait_for_it():
    """Nobody's wait makes another one's tries more, and a topic that goes again while it waits does not come."""
    t = OneTopic([1], {})
    t.produce(b"before")
    process = t.cluster.brokers[1]
    tries = []

    def fault(operation, path):
        if operation != "rename" or path != DIRECTORY:
            return 0
        tries.append(path)
        return errno.ENOSPC

    process.disk.fault = fault
    t.drop()
    for _ in range(20):
        t.create([1])
        t.world.run_for(300)
        t.drop()
        t.world.run_for(300)
    tries.clear()
    t.world.run_for(10_000)
    assert len(tries) in range(8, 13)
    process.disk.fault = None
    t.until(lambda: not process.disk.found(DIRECTORY))
    t.world.run_for(3_000)
    replicas = process.node.broker.replicas
    assert not process.disk.found(DIRECTORY) and not replicas.offline and not replicas.arriving
    t.create([1])
    t.until(lambda: t.cluster.ready() and t.leader == 1)
    assert t.produce(b"first") == 0 and t.read() == {0: b"first"}


@pytest.mark.parametrize("operation", ["remove", "settle"])
def test_what_finds_no_descriptor_to_be_unlinked_goes_when_there_is_one(operation):
    """Segments, and the directory of a topic, stayed until the next start."""
    t = OneTopic([1], {"internal.segment.bytes": "500", "file.delete.delay.ms": "1000"})
    for _ in range(20):
        t.produce(bytes(200))
    process = t.cluster.brokers[1]
    hits = []

    def fault(name, path):
        if name != operation or not path.startswith("t-0"):
            return 0
        hits.append(path)
        return errno.EMFILE

    process.disk.fault = fault
    t.delete_records(20)
    t.until(lambda: hits)
    t.world.run_for(3_000)
    assert [name for name in process.disk.listed(DIRECTORY) if name.endswith(".deleted")]
    process.disk.fault = None
    t.until(lambda: not [name for name in process.disk.listed(DIRECTORY) if name.endswith(".deleted")])
    process.disk.fault = lambda name, path: errno.ENOSPC if name == "remove" and path.startswith("t-0") else 0
    t.drop()
    t.world.run_for(5_000)
    assert [name for name in process.disk.listed("") if name.startswith("t-0")]
    process.disk.fault = None
    t.until(lambda: not [name for name in process.disk.listed("") if name.startswith("t-0")])


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO])
def test_a_file_of_the_metadata_log_that_stays_keeps_no_other_from_going(number):
    """And is unlinked later, if all that was missing was a descriptor."""
    config = {"metadata.log.max.record.bytes.between.snapshots": "500", "internal.metadata.log.segment.bytes": "2048"}
    t = OneTopic([1], {}, config)
    process, kept = t.cluster.brokers[2], []

    def fault(operation, path):
        if operation != "remove" or not path.startswith("__kafka_metadata-0/"):
            return 0
        if not kept:
            kept.append(path)
        return number if path == kept[0] else 0

    process.disk.fault = fault
    for _ in range(30):
        t.drop()
        t.create([1])
        t.world.run_for(200)
    t.world.run_for(1_000)

    def left():
        return [name for name in process.disk.listed("__kafka_metadata-0") if name.endswith(".deleted")]

    assert [f"__kafka_metadata-0/{name}" for name in left()] == kept and kept
    process.disk.fault = None
    t.world.run_for(15_000)
    assert bool(left()) is (number == errno.EIO) and process.stopped_with is None


def test_of_several_errors_of_a_job_the_one_of_the_device_is_told():
    def refuses(error):
        def job():
            raise error

        return job

    full, failed = DiskFull(errno.EMFILE, "no descriptor"), DiskFailed(errno.EIO, "remove failed")
    with pytest.raises(DiskFailed):
        _each([refuses(full), refuses(failed)])
    with pytest.raises(DiskFull):
        _each([refuses(full), lambda: None])


def test_what_a_disk_lacked_in_an_earlier_life_is_no_reason_to_give_it_up():
    """The checker took two shortages of a second directory for a reason for ever."""
    t = OneTopic([1], {}, directories=2)
    process = t.cluster.brokers[1]
    disk = process.more[0]
    disk.fault = lambda operation, path: errno.ENOSPC
    for _ in range(2):
        with pytest.raises(DiskFull):
            disk.rename("a", "b")
    disk.fault = None
    assert disk.lacked == 2
    process.kill()
    StoppedNodes().ended(process)
    process.start()
    t.until(t.cluster.ready)
    logs = process.node.broker.logs
    assert logs.directories.take_offline(disk)
    with pytest.raises(Violation, match="has given up directory 1, in which nothing failed"):
        BlamedDisks().turned(process)
    disk.fault = lambda operation, path: errno.EIO
    with pytest.raises(DiskFailed):
        disk.rename("a", "b")
    BlamedDisks().turned(process)


def test_a_device_that_fails_behind_a_flush_is_given_up(monkeypatch):
    """A flush that came late behind a cut has written what cannot be removed: the error came out of the turn."""
    t = OneTopic([1, 2, 3], {"flush.messages": "1"})
    t.produce(b"value")
    process, log = t.cluster.brokers[2], t.log(2)
    flushed = type(log).flushed

    def fails(one, flush):
        if one is log:
            raise process.disk.error(errno.EIO, "remove failed", "t-0/00000000000000000001.snapshot")
        flushed(one, flush)

    monkeypatch.setattr(type(log), "flushed", fails)
    t.send(b"value", acks=1)
    t.world.run_for(2_000)
    assert process.stopped_with is not None and "remove failed" in process.stopped_with[1]
