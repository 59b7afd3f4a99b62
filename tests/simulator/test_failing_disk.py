"""A disk that accepts no more writes: the broker stops, and the partition goes on without it."""

import errno

import pytest

from actors.ports import DiskFailed
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
