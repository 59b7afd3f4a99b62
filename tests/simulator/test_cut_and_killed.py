"""A follower is truncated, grows past its old end, and is killed before the next checkpoints are due.

What lies after the cut comes from another leader than what the last checkpoints cover. A recovery that trusts their
recovery point would give it the old leader's epoch.
"""

from actors.broker.log import truncation
from actors.broker.log.producers.producers import Producers
from actors.broker.log.truncation import Preparation
from actors.wire.messages import message
from fastpath.records import batch as batches
from tests.simulator.one_topic import DIRECTORY, OneTopic


def prefer(t):
    """Have the first replica lead."""
    kind = message("ElectLeadersRequest")
    topic = kind.TopicPartitions(topic="t", partitions=[0])
    t.client.call("b2", "ElectLeaders", 2, kind(election_type=0, topic_partitions=[topic], timeout_ms=3_000))


def _cut_and_grown():
    """Broker 2 led, was truncated to 9 by broker 1, and follows it past its own old end. Broker 3 is down and has what
    was cut. Returns what broker 1 has acknowledged since."""
    t = OneTopic([1, 2, 3], {"flush.ms": "1000"})
    first, second, third = (t.cluster.brokers[id] for id in (1, 2, 3))
    first.kill()
    t.until(lambda: t.leader == 2)
    first.start()
    t.until(lambda: t.isr == {1, 2, 3})
    t.world.run_for(2_000)
    for number in range(8):
        t.produce(b"%d" % number * 20)
    t.world.run_for(12_000)
    first.freeze()
    for number in range(12):
        t.produce(b"tail%d" % number * 5, acks=1)
    t.until(lambda: t.log(3).log_end_offset == 20)
    third.kill()
    t.until(lambda: b"t 0 20" in t.file(2, "recovery-point-offset-checkpoint"))
    prefer(t)
    assert t.leader == 1
    t.world.run_for(100)
    first.thaw()
    t.world.run_for(300)
    acknowledged = {}
    for number in range(20):
        value = b"new%d" % number * 5
        acknowledged[t.produce(value, leader=1)] = value
    assert t.isr == {1, 2} and t.log(2).log_end_offset > 20
    second.kill()
    return t, acknowledged


def test_its_epochs_are_those_of_its_batches():
    t, _ = _cut_and_grown()
    t.cluster.brokers[2].start()
    t.world.run_for(30_000)
    begins = {}
    for header in batches.headers(t.file(2, f"{DIRECTORY}/00000000000000000000.log")):
        begins.setdefault(header.epoch, header.base_offset)
    known = t.log(2).epochs
    assert begins.items() <= dict(zip(known.epochs, known.starts, strict=True)).items()


def test_what_is_acknowledged_outlives_the_next_leaders():
    t, acknowledged = _cut_and_grown()
    first, second, third = (t.cluster.brokers[id] for id in (1, 2, 3))
    second.start()
    t.until(lambda: t.isr == {1, 2})
    t.world.run_for(2_000)
    first.kill()
    t.until(lambda: t.leader == 2)
    third.start()
    t.until(lambda: t.isr == {2, 3})
    t.world.run_for(2_000)
    second.kill()
    t.until(lambda: t.leader == 3)
    t.world.run_for(1_000)
    assert acknowledged.items() <= t.read().items()


def test_a_follower_is_cut_when_a_thread_has_read_what_that_takes(monkeypatch):
    """A thread reads when much lies between the newest producer snapshot and the cut."""
    prepared = []
    call = Preparation.__call__
    monkeypatch.setattr(truncation, "INSIDE_BYTES_MAX", -1)
    monkeypatch.setattr(Producers, "can_truncate", lambda producers, offset: False)
    monkeypatch.setattr(Preparation, "__call__", lambda job: prepared.append(job) or call(job))
    t, _ = _cut_and_grown()
    assert [job.end_offset for job in prepared] == [20]
    t.cluster.brokers[2].start()
    t.world.run_for(30_000)
    assert t.isr == {1, 2}
    assert t.log(2).log_end_offset == t.log(1).log_end_offset
