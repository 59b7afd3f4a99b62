"""Rot in a sealed segment: nobody is given a rotten byte, and the replica is fetched anew from a sound one."""

import pytest

from actors.wire.messages import message
from fastpath import batch as batches
from tests.simulator.cluster import Client, Cluster
from tests.simulator.world import World

TOPIC = "t-0"


def _cluster():
    world = World(1)
    cluster = Cluster(world)
    cluster.start()
    assert world.run_until(cluster.ready, 60_000)
    client = Client(world, "client")
    kind = message("CreateTopicsRequest")
    small = kind.CreatableTopicConfig(name="internal.segment.bytes", value="500")
    topic = kind.CreatableTopic(name="t", num_partitions=1, replication_factor=3, configs=[small])
    assert client.call("b1", "CreateTopics", 7, kind(topics=[topic])).topics[0].error_code == 0
    world.run_for(1_000)
    return world, cluster, client


def _state(cluster):
    image = cluster.active().node.controller.image
    row = image.topic_partitions(image.topic("t"))[0]
    return image.leader(row), set(image.isr(row))


def _produce(cluster, client, number):
    kind = message("ProduceRequest")
    builder = batches.Builder(timestamp_ms=1_600_000_000_000)
    builder.append(None, b"%d" % number * 60)
    data = kind.TopicProduceData(name="t", partition_data=[kind.PartitionProduceData(index=0, records=builder.build())])
    request = kind(acks=-1, timeout_ms=3000, topic_data=[data])
    reply = client.call(f"b{_state(cluster)[0]}", "Produce", 12, request)
    assert reply.responses[0].partition_responses[0].error_code == 0


def _fetch(cluster, client):
    kind = message("FetchRequest")
    image = cluster.active().node.controller.image
    topic_id = image.topic_id(image.topic("t"))
    wanted = kind.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = kind(max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1,
                   topics=[kind.FetchTopic(topic_id=topic_id, partitions=[wanted])])  # fmt: skip
    reply = client.call(f"b{_state(cluster)[0]}", "Fetch", 16, request)
    return reply.responses[0].partitions[0] if reply is not None else None


@pytest.mark.parametrize("position", [3, 10, 14, 100, 120], ids=["offset", "length", "epoch", "attributes", "record"])
@pytest.mark.parametrize("reader", ["consumer", "replica"])
def test_rot_on_the_leader_moves_leadership_and_is_fetched_anew(position, reader):
    world, cluster, client = _cluster()
    for number in range(12):
        _produce(cluster, client, number)
    world.run_for(3_000)
    leader, isr = _state(cluster)
    assert isr == {1, 2, 3}
    sound = bytes(cluster.brokers[leader % 3 + 1].disk.files[f"{TOPIC}/00000000000000000000.log"].data)
    process = cluster.brokers[leader]
    process.disk.corrupt(f"{TOPIC}/00000000000000000000.log", position)
    if reader == "consumer":
        answer = _fetch(cluster, client)
        assert answer is None or answer.error_code == 56, "KAFKA_STORAGE_ERROR, not a rotten byte"
    else:
        follower = cluster.brokers[leader % 3 + 1]
        follower.kill()
        follower.disk.remove(TOPIC)
        world.run_for(500)
        follower.start()
    assert world.run_until(lambda: process.stopped_with is not None, 20_000)
    assert process.stopped_with[0] == 1 and _state(cluster)[0] not in (leader, -1)
    process.start()
    assert world.run_until(lambda: _state(cluster)[1] == {1, 2, 3}, 30_000)
    world.run_for(2_000)
    assert bytes(process.disk.files[f"{TOPIC}/00000000000000000000.log"].data) == sound
    found = _fetch(cluster, client)
    assert found.error_code == 0 and batches.verify(found.records, 0).base_offset == 0


def test_a_damaged_leader_that_is_alone_lets_whole_followers_catch_up():
    """They have what it cannot read; what was written since they left lies behind the damage."""
    world, cluster, client = _cluster()
    for number in range(12):
        _produce(cluster, client, number)
    world.run_for(3_000)
    leader = _state(cluster)[0]
    process = cluster.brokers[leader]
    followers = [other for id, other in cluster.brokers.items() if id != leader]
    for follower in followers:
        follower.kill()
    assert world.run_until(lambda: _state(cluster)[1] == {leader}, 30_000)
    world.run_for(1_000)
    _produce(cluster, client, 12)
    process.disk.corrupt(f"{TOPIC}/00000000000000000000.log", 100)
    _fetch(cluster, client)
    for follower in followers:
        follower.start()
    assert world.run_until(lambda: process.stopped_with is not None, 20_000)
    assert _state(cluster)[0] not in (leader, -1)
