"""Power cuts at the worst moments."""

from actors.wire.messages import message
from fastpath.records import batch as batches
from tests.simulator import world as world_of
from tests.simulator.cluster import Client, Cluster
from tests.simulator.one_topic import OneTopic
from tests.simulator.world import World


def test_a_leader_that_asks_to_be_alone_has_what_it_acknowledged_on_its_disk():
    """The controller commits the proposal after the leader has lost power. Without a sync before the proposal, the ISR
    would be a broker that has lost the record."""
    world = World(1)
    cluster = Cluster(world, brokers=2, config={"replica.lag.time.max.ms": "3000"})
    cluster.start()
    assert world.run_until(cluster.ready, 60_000)
    client = Client(world, "client")
    kind = message("CreateTopicsRequest")
    topics = [kind.CreatableTopic(name="t", num_partitions=1, replication_factor=2)]
    assert client.call("b1", "CreateTopics", 7, kind(topics=topics)).topics[0].error_code == 0
    world.run_for(1_000)

    def state():
        active = cluster.active()
        image = active.node.controller.image
        row = image.topic_partitions(image.topic("t"))[0]
        return image.leader(row), image.isr(row)

    leader = state()[0]

    def produce(value: bytes, acks: int) -> int:
        kind = message("ProduceRequest")
        builder = batches.Builder(timestamp_ms=1_600_000_000_000)
        builder.append(None, value)
        part = kind.PartitionProduceData(index=0, records=builder.build())
        request = kind(acks=acks, timeout_ms=3000, topic_data=[kind.TopicProduceData(name="t", partition_data=[part])])
        reply = client.call(f"b{leader}", "Produce", 12, request)
        return reply.responses[0].partition_responses[0].error_code

    assert produce(b"promised", -1) == 0
    cluster.brokers[3 - leader].freeze()
    assert produce(b"the follower lags from here on", 1) == 0
    hurt: list[int] = []

    def cut() -> None:
        if not hurt and state()[1] == (leader,):
            hurt.append(world.time_us)
            cluster.brokers[leader].kill()
            cluster.brokers[leader].disk.crash()  # all that was not synced is gone

    world.checks.append(cut)
    assert world.run_until(lambda: bool(hurt), 10_000)
    cluster.brokers[3 - leader].thaw()
    cluster.brokers[leader].start()
    assert world.run_until(lambda: state()[0] >= 0 and len(state()[1]) == 2, 60_000)
    ends = [process.node.broker.replicas.get("t", 0).log.log_end_offset for process in cluster.brokers.values()]
    assert ends == [2, 2]


def test_a_log_that_was_emptied_by_retention_keeps_its_end():
    """Retention by age removed all of it, long ago, and nothing was written since."""
    t = OneTopic([1], {"retention.ms": "1000"}, {"log.retention.check.interval.ms": "5000"})
    for number in range(10):
        assert t.produce(b"value") == number
    t.until(lambda: t.log(1).log_start_offset == 10, 120_000)
    t.world.run_for(70_000)
    process = t.cluster.brokers[1]
    process.kill()
    process.disk.crash()
    process.start()
    t.until(lambda: t.cluster.ready() and t.leader == 1)
    t.world.run_for(1_000)
    assert (t.log(1).log_start_offset, t.log(1).log_end_offset) == (10, 10)
    assert t.produce(b"next") == 10


def test_what_was_acknowledged_before_a_kill_is_read_after_it_where_every_record_is_flushed():
    """The kill came between the answer and the next checkpoint, and nothing is written any more."""
    t = OneTopic([1], {"flush.messages": "1"})
    for number in range(10):
        assert t.produce(b"value") == number
    process = t.cluster.brokers[1]
    process.kill()
    process.start()
    t.until(lambda: t.cluster.ready() and t.leader == 1)
    t.world.run_for(1_000)
    assert t.read() == dict.fromkeys(range(10), b"value")


def test_what_acks_1_has_acknowledged_outlives_a_power_cut_where_every_record_is_flushed(monkeypatch):
    """With three replicas the answer does not wait for the high watermark. The disk is slow."""
    monkeypatch.setattr(world_of, "SYNC_US", (50_000, 60_000))
    t = OneTopic([1, 2, 3], {"flush.messages": "1"})
    process = t.cluster.brokers[t.leader]
    for number in range(5):
        assert t.produce(b"value", acks=1) == number
    process.kill()
    process.disk.crash()
    log = process.disk.files["t-0/00000000000000000000.log"].data
    assert len(batches.headers(bytes(log))) == 5


def test_no_follower_is_waited_for_with_acks_1_where_every_record_is_flushed():
    t = OneTopic([1, 2, 3], {"flush.messages": "1"})
    for id in {1, 2, 3} - {t.leader}:
        t.cluster.brokers[id].freeze()
    assert t.produce(b"value", acks=1) == 0
