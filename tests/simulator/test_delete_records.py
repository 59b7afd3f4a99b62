"""Records deleted up to any offset, in the middle of a batch too: all of the rest is read, by followers as well."""

import pytest

from actors.wire.messages import message
from fastpath import batch as batches
from tests.simulator.cluster import Client, Cluster
from tests.simulator.world import World

TOPIC = "t-0"
COUNT = 3
"""Records in a batch."""


def _state(cluster):
    image = cluster.active().node.controller.image
    row = image.topic_partitions(image.topic("t"))[0]
    return image.leader(row), set(image.isr(row))


def _produce(cluster, client):
    kind = message("ProduceRequest")
    builder = batches.Builder(timestamp_ms=1_600_000_000_000)
    for _ in range(COUNT):
        builder.append(None, bytes(60))
    data = kind.TopicProduceData(name="t", partition_data=[kind.PartitionProduceData(index=0, records=builder.build())])
    reply = client.call(f"b{_state(cluster)[0]}", "Produce", 12, kind(acks=-1, timeout_ms=3000, topic_data=[data]))
    assert reply.responses[0].partition_responses[0].error_code == 0


def _delete(cluster, client, offset):
    kind = message("DeleteRecordsRequest")
    wanted = kind.DeleteRecordsPartition(partition_index=0, offset=offset)
    request = kind(topics=[kind.DeleteRecordsTopic(name="t", partitions=[wanted])], timeout_ms=3000)
    reply = client.call(f"b{_state(cluster)[0]}", "DeleteRecords", 2, request)
    assert reply.topics[0].partitions[0].error_code == 0
    assert reply.topics[0].partitions[0].low_watermark == offset


def _fetch(cluster, client, offset):
    kind = message("FetchRequest")
    image = cluster.active().node.controller.image
    wanted = kind.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = kind.FetchTopic(topic_id=image.topic_id(image.topic("t")), partitions=[wanted])
    request = kind(max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1, topics=[topic])
    return client.call(f"b{_state(cluster)[0]}", "Fetch", 16, request).responses[0].partitions[0]


@pytest.mark.parametrize("elections", [0, 1], ids=["one epoch", "two epochs"])
@pytest.mark.parametrize("offset", [3, 4, 20, 31, 35])
def test_what_is_left_is_read_and_replicated(offset, elections):
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
    for number in range(12):
        _produce(cluster, client)
        if elections and number == 6:
            old = cluster.brokers[_state(cluster)[0]]
            old.kill()
            assert world.run_until(lambda: len(_state(cluster)[1]) == 2, 30_000)
            old.start()
            assert world.run_until(lambda: len(_state(cluster)[1]) == 3, 30_000)
    _delete(cluster, client, offset)
    leader = _state(cluster)[0]
    follower = cluster.brokers[leader % 3 + 1]
    follower.kill()
    assert world.run_until(lambda: len(_state(cluster)[1]) == 2, 30_000)
    follower.disk.remove(TOPIC)
    follower.start()
    assert world.run_until(lambda: len(_state(cluster)[1]) == 3, 30_000)
    assert all(process.stopped_with is None for process in cluster.brokers.values())
    _check(cluster, client, offset)
    follower.kill()
    assert world.run_until(lambda: len(_state(cluster)[1]) == 2, 30_000)
    follower.start()  # it opens what it has been given
    assert world.run_until(lambda: len(_state(cluster)[1]) == 3, 30_000)
    world.run_for(1_000)  # the answer to its first fetch tells it where the log begins
    for process in cluster.brokers.values():
        if process is not follower:
            process.kill()
    assert world.run_until(lambda: _state(cluster)[0] == leader % 3 + 1, 30_000)
    world.run_for(1_000)
    _check(cluster, client, offset)


def _check(cluster, client, offset):
    """All batches from the one that holds `offset` on, and nothing before."""
    assert _fetch(cluster, client, offset - 1).error_code == 1
    bases, position = [], offset
    while position < 12 * COUNT:
        found = _fetch(cluster, client, position)
        assert (found.error_code, found.log_start_offset) == (0, offset)
        whole = batches.headers(found.records)
        bases += [header.base_offset for header in whole]
        position = whole[-1].last_offset + 1
    assert bases == list(range(offset // COUNT * COUNT, 12 * COUNT, COUNT))
