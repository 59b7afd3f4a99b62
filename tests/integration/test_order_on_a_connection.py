"""A client that does not wait for its answers: a read on a connection sees what was written there before.

Before requests waited for earlier writes, an OffsetFetch after an OffsetCommit returned the offset before it.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest

import rayft
from actors.wire import framing
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.batch import Builder
from tests.integration.hostile.scene import Peer, Scene, encoded

ROUNDS = 200
NOT_YET_OR_NO_LONGER = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """Two brokers, so that a produce waits for a follower."""
    config = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "2"}
    with rayft.Cluster(controllers=1, brokers=2, config=config) as running:
        scene = Scene(running)
        kind = message("CreateTopicsRequest")
        topic = kind.CreatableTopic(name="t", num_partitions=1, replication_factor=2)
        with Peer(scene.brokers()[0]) as peer:
            assert ask(peer, ("CreateTopics", 5, kind(topics=[topic])))[0].topics[0].error_code == 0
        yield scene


def ask(peer: Peer, *requests: tuple[str, int, Any]) -> list[Any]:
    """Send all requests at once. Returns the replies."""
    peer.send(b"".join(encoded(name, version, body, place) for place, (name, version, body) in enumerate(requests)))
    return [framing.decode_response(name, version, memoryview(peer.read())) for name, version, _ in requests]


def broker_of(scene: Scene, id: int) -> Peer:
    return Peer(scene.cluster.address(id))


def leader_of(scene: Scene) -> int:
    metadata = message("MetadataRequest")
    with Peer(scene.brokers()[0]) as peer:
        (reply,) = ask(peer, ("Metadata", 9, metadata(topics=[metadata.MetadataRequestTopic(name="t")])))
    return int(reply.topics[0].partitions[0].leader_id)


def coordinator_of(scene: Scene) -> Peer:
    find = message("FindCoordinatorRequest")(key_type=0, coordinator_keys=["g"])
    with Peer(scene.brokers()[0]) as peer:
        while (found := ask(peer, ("FindCoordinator", 4, find))[0].coordinators[0]).error_code:
            time.sleep(0.01)
    return broker_of(scene, found.node_id)


@pytest.mark.timeout(120)
def test_a_committed_offset_is_fetched_by_the_request_behind_it(scene: Scene) -> None:
    kind, other = message("OffsetCommitRequest"), message("OffsetFetchRequest")
    wanted = other.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    fetch = "OffsetFetch", 7, other(group_id="g", topics=[wanted])
    told: list[int] = []
    while len(told) < ROUNDS:
        with coordinator_of(scene) as peer:
            while len(told) < ROUNDS:
                partition = kind.OffsetCommitRequestPartition(partition_index=0, committed_offset=len(told))
                topic = kind.OffsetCommitRequestTopic(name="t", partitions=[partition])
                commit = "OffsetCommit", 7, kind(group_id="g", generation_id_or_member_epoch=-1, topics=[topic])
                wrote, read = ask(peer, commit, fetch)
                if (code := wrote.topics[0].partitions[0].error_code) in NOT_YET_OR_NO_LONGER:
                    break  # a busy machine: the broker has not heard that it coordinates, or another does meanwhile
                assert not code
                told.append(read.topics[0].partitions[0].committed_offset)
    assert told == list(range(ROUNDS))


@pytest.mark.timeout(120)
def test_the_end_of_a_partition_is_behind_the_records_produced_before_it(scene: Scene) -> None:
    kind, other = message("ProduceRequest"), message("ListOffsetsRequest")
    builder = Builder(timestamp_ms=1_700_000_000_000)
    builder.append(None, b"x")
    data = kind.PartitionProduceData(index=0, records=builder.build())
    produce = kind(acks=-1, timeout_ms=5000, topic_data=[kind.TopicProduceData(name="t", partition_data=[data])])
    asked = other.ListOffsetsTopic(name="t", partitions=[other.ListOffsetsPartition(partition_index=0, timestamp=-1)])
    latest = "ListOffsets", 5, other(replica_id=-1, topics=[asked])
    with broker_of(scene, leader_of(scene)) as peer:
        for _ in range(ROUNDS):
            first, wrote, end = ask(peer, ("Produce", 9, produce), ("Produce", 9, produce), latest)
            offsets = [one.responses[0].partition_responses[0].base_offset for one in (first, wrote)]
            assert end.topics[0].partitions[0].offset == offsets[1] + 1 == offsets[0] + 2


@pytest.mark.timeout(120)
def test_what_is_produced_without_acknowledgement_is_there_though_the_connection_was_closed_at_once(
    scene: Scene,
) -> None:
    """Before, up to 16 requests of each connection were dropped."""
    kind, other = message("ProduceRequest"), message("ListOffsetsRequest")
    builder = Builder(timestamp_ms=1_700_000_000_000)
    builder.append(None, b"x")
    data = kind.PartitionProduceData(index=0, records=builder.build())
    produce = kind(acks=0, timeout_ms=5000, topic_data=[kind.TopicProduceData(name="t", partition_data=[data])])
    asked = other.ListOffsetsTopic(name="t", partitions=[other.ListOffsetsPartition(partition_index=0, timestamp=-1)])
    latest = "ListOffsets", 5, other(replica_id=-2, topics=[asked])
    leader = leader_of(scene)

    def end() -> int:
        with broker_of(scene, leader) as peer:
            return int(ask(peer, latest)[0].topics[0].partitions[0].offset)

    frames = encoded("Produce", 9, produce) * 25
    before = end()
    for _ in range(ROUNDS):
        with broker_of(scene, leader) as peer:
            peer.send(frames)
    deadline = time.monotonic() + 30
    while (found := end() - before) < 25 * ROUNDS and time.monotonic() < deadline:
        time.sleep(0.1)
    assert found == 25 * ROUNDS
