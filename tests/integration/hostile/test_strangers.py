"""Quorum messages with the largest epochs from a peer that is no voter: the quorum keeps its epoch, and can be
restarted.

Before the fix one request of 56 bytes ended all three controllers, also at every later start.
"""

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from actors.node.quorum.files import TOPIC_ID, TOPICS
from actors.wire.messages import message
from tests.integration.answers.dialogue import Broker, Closed, request
from tests.integration.hostile.scene import Scene

LARGEST, LARGEST_LONG = (1 << 31) - 1, (1 << 63) - 1
STRANGER = 77
EPOCHS = (LARGEST, LARGEST - 1, 1 << 30, 1_000_000, -1, -(1 << 31))
PATIENCE_S = 3.0


@pytest.fixture
def cluster(tmp_path: Path) -> "Iterator[rayft.Cluster]":
    """Three controllers and one broker for this test alone, because they are restarted."""
    made = rayft.Cluster(controllers=3, brokers=1, dir=tmp_path / "c")
    with made:
        yield made
    assert not made.running


def announcements(topic: str, epoch: int, leader: int) -> "Iterator[tuple[str, int, Any]]":
    """Messages of a leader that begins and ends an epoch."""
    ended = {"partition_index": 0, "leader_id": leader, "leader_epoch": epoch}
    topics = [{"topic_name": topic, "partitions": [ended]}]
    yield "EndQuorumEpoch", 1, request("EndQuorumEpoch", topics=topics)
    yield "EndQuorumEpoch", 0, request("EndQuorumEpoch", topics=topics)
    places = [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 1}]
    yield "BeginQuorumEpoch", 1, request("BeginQuorumEpoch", voter_id=-1, topics=topics, leader_endpoints=places)
    yield "BeginQuorumEpoch", 0, request("BeginQuorumEpoch", topics=topics)


def questions(topic: str, epoch: int, asker: int) -> "Iterator[tuple[str, int, Any]]":
    """All other messages that carry an epoch."""
    for pre_vote in (False, True):
        stood = {
            "partition_index": 0, "replica_epoch": epoch, "replica_id": asker, "replica_directory_id": b"s" * 16,
            "last_offset_epoch": epoch, "last_offset": LARGEST_LONG, "pre_vote": pre_vote,
        }  # fmt: skip
        topics = [{"topic_name": topic, "partitions": [stood]}]
        yield "Vote", 2, request("Vote", voter_id=-1, topics=topics)
    for offset in (LARGEST_LONG, -(1 << 63)):
        fetched = {
            "partition": 0, "current_leader_epoch": epoch, "fetch_offset": offset, "last_fetched_epoch": epoch,
            "replica_directory_id": b"s" * 16,
        }  # fmt: skip
        topics = [{"topic_id": TOPIC_ID, "partitions": [fetched]}]
        yield "Fetch", 17, request("Fetch", replica_state={"replica_id": asker}, max_wait_ms=-1, topics=topics)
        part = {
            "partition": 0, "current_leader_epoch": epoch, "position": offset,
            "snapshot_id": {"end_offset": offset, "epoch": epoch},
        }  # fmt: skip
        topics = [{"name": topic, "partitions": [part]}]
        yield "FetchSnapshot", 1, request("FetchSnapshot", replica_id=asker, max_bytes=-1, topics=topics)


def attack(cluster: "rayft.Cluster", voters: list[int]) -> None:
    """Send every message with every epoch to every controller, with an id that no voter has, and with a voter's on
    another disk."""
    for number in cluster.controller_ids:
        peer = Broker(cluster.address(number), PATIENCE_S)
        for epoch in EPOCHS:
            for topic in TOPICS.values():
                messages = [*announcements(topic, epoch, STRANGER), *announcements(topic, epoch, -1)]
                for asker in (STRANGER, -1, *voters):
                    messages += questions(topic, epoch, asker)
                for name, version, body in messages:
                    with contextlib.suppress(Closed):
                        peer.ask(name, version, body)
        peer.close()


def epochs(cluster: "rayft.Cluster") -> list[int]:
    """The content of every controller's quorum-state."""
    found = sorted(Path(cluster.dir).glob("controller-*/*/quorum-state"))
    assert len(found) == 3
    return [json.loads(path.read_text())["leaderEpoch"] for path in found]


def created(cluster: "rayft.Cluster", name: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(name, 1, 1)], request_timeout=20)[name].result(30)


@pytest.mark.timeout(300)
def test_strangers_move_no_epoch(cluster: "rayft.Cluster") -> None:
    message("VoteRequest")
    created(cluster, "before")
    leader, before = cluster.leader_id(), epochs(cluster)
    scene = Scene(cluster)

    cost = scene.measured(lambda: attack(cluster, cluster.controller_ids), settle_s=3)

    assert not cost.lost and not cost.broken, cost
    assert (cluster.leader_id(), epochs(cluster)) == (leader, before)
    created(cluster, "after")
    cluster.stop()
    cluster.start()
    created(cluster, "again")
    assert max(epochs(cluster)) <= max(before) + 5


@pytest.mark.timeout(300)
def test_one_message_ends_nobody(cluster: "rayft.Cluster") -> None:
    """The smallest attack: one EndQuorumEpoch to each controller, then the next election."""
    for number in cluster.controller_ids:
        for topic in TOPICS.values():
            name, version, body = next(announcements(topic, LARGEST, STRANGER))
            with contextlib.suppress(Closed):
                Broker(cluster.address(number), PATIENCE_S).ask(name, version, body)
    time.sleep(4)
    assert all(-1 < epoch < 100 for epoch in epochs(cluster)), epochs(cluster)
    created(cluster, "after")
