"""Records are deleted up to any offset, also inside a batch: consumers and followers read all of the rest."""

import pytest

from fastpath.records import batch as batches
from tests.simulator.one_topic import DIRECTORY, OneTopic

BATCHES, COUNT = 12, 3
"""The number of batches, and of records in each."""


def _check(t, offset):
    """The log holds all batches from the one with `offset` on, and none before."""
    assert t.fetch(offset - 1).error_code == 1
    bases, position = [], offset
    while position < BATCHES * COUNT:
        found = t.fetch(position)
        assert (found.error_code, found.log_start_offset) == (0, offset)
        whole = batches.headers(found.records)
        bases += [header.base_offset for header in whole]
        position = whole[-1].last_offset + 1
    assert bases == list(range(offset // COUNT * COUNT, BATCHES * COUNT, COUNT))


def _down(t, process):
    """Kill a broker, and wait until it is out of the ISR."""
    process.kill()
    assert t.world.run_until(lambda: len(t.isr) == 2, 30_000)


def _up(t, process):
    """Start a broker, and wait until it is back in the ISR."""
    process.start()
    assert t.world.run_until(lambda: len(t.isr) == 3, 30_000)


@pytest.mark.parametrize("elections", [0, 1], ids=["one epoch", "two epochs"])
@pytest.mark.parametrize("offset", [3, 4, 20, 31, 35])
def test_what_is_left_is_read_and_replicated(offset, elections):
    t = OneTopic()
    brokers = t.cluster.brokers
    for number in range(BATCHES):
        t.produce(*[bytes(60)] * COUNT)
        if elections and number == 6:
            old = brokers[t.leader]
            _down(t, old)
            _up(t, old)
    t.delete_records(offset)
    id = t.leader % 3 + 1
    follower = brokers[id]
    _down(t, follower)
    follower.disk.remove(DIRECTORY)
    _up(t, follower)
    assert all(process.stopped_with is None for process in brokers.values())
    _check(t, offset)
    _down(t, follower)
    _up(t, follower)  # it opens what it has been given
    t.world.run_for(1_000)  # the answer to its first fetch tells it where the log begins
    for process in brokers.values():
        if process is not follower:
            process.kill()
    assert t.world.run_until(lambda: t.leader == id, 30_000)
    t.world.run_for(1_000)
    _check(t, offset)


def test_a_follower_that_is_cut_inside_a_batch_begins_again_at_it():
    """The new leader's first epoch begins where its log begins, and the old leader's own batches have an end there."""
    t = OneTopic([1, 2, 3], {})
    brokers = t.cluster.brokers
    old = t.leader
    others = [id for id in brokers if id != old]
    for _ in range(4):
        t.produce(*[b"both"] * 3)
    t.world.run_for(1_000)
    for id in others:
        brokers[id].freeze()
    for _ in range(4):
        t.produce(*[b"old"] * 2, acks=1)
    brokers[old].kill()
    for id in others:
        brokers[id].thaw()
    t.until(lambda: t.leader in others)
    t.world.run_for(1_000)
    base = t.produce(*[b"new"] * 5)
    t.produce(*[b"new"] * 5)
    t.delete_records(base + 2)
    t.world.run_for(1_000)
    brokers[old].start()
    t.until(lambda: t.isr == {1, 2, 3})
    t.world.run_for(1_000)
    for id in others:
        brokers[id].kill()
    t.until(lambda: t.leader == old)
    t.world.run_for(1_000)
    assert t.read() == dict.fromkeys(range(base, base + 10), b"new")
    assert t.fetch(base + 1).error_code == 1


def test_a_follower_that_begins_at_the_batch_keeps_its_high_watermark():
    """A leader that has just started does not know yet what was committed."""
    t = OneTopic()
    for _ in range(BATCHES):
        t.produce(*[bytes(60)] * COUNT)
    t.delete_records(4)
    id, third = (id for id in t.cluster.brokers if id != t.leader)
    follower = t.cluster.brokers[id]
    _down(t, follower)
    follower.disk.remove(DIRECTORY)
    t.cluster.brokers[third].freeze()
    t.world.run_for(1_000)
    partition = t.partition(t.leader)
    partition.high_watermark = 0
    partition.followers[third].log_end = 0
    marks = []

    def note(process):
        if process is follower and process.node.broker.replicas.get("t", 0) is not None:
            marks.append(t.partition(id).high_watermark)

    t.world.turned.append(note)
    follower.start()
    t.until(lambda: marks and t.log(id).log_end_offset == BATCHES * COUNT)
    assert 4 in marks and marks == sorted(marks)
