"""Raft's answers to a peer: which call they answer, in which order they leave, and what becomes of one that has none."""

from typing import Any

import pytest

from actors.node.quorum.files import TOPIC_ID
from actors.node.quorum.transport import ANSWER_MS
from actors.raft.messages import FetchResponse
from actors.wire.messages import message
from tests.simulator.cluster import PORT, Client
from tests.unit.node.quorum.quorum_cluster import Cluster, Replica


class Peer:
    """Somebody who asks one controller over a connection."""

    def __init__(self, cluster: Cluster, node: Replica) -> None:
        self.cluster = cluster
        self.node = node
        self.client = Client(cluster.world, "peer")
        self.came: list[str] = []
        cluster.world.addresses[node.name, PORT] = (node, "CONTROLLER")

    def fetch(self, wait_ms: int) -> None:
        """As an observer that has everything."""
        cls, raft = message("FetchRequest"), self.node.quorum.raft
        partition = cls.FetchPartition(
            partition=0,
            current_leader_epoch=raft.epoch,
            fetch_offset=raft.log_end_offset,
            last_fetched_epoch=raft.epoch,
            high_watermark=raft.high_watermark,
        )
        self._ask("Fetch", 18, cls(
            replica_state=cls.ReplicaState(replica_id=77),
            max_wait_ms=wait_ms,
            max_bytes=1 << 20,
            topics=[cls.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
        ))  # fmt: skip

    def vote(self) -> None:
        """For nobody in particular; raft refuses at once."""
        cls = message("VoteRequest")
        partition = cls.PartitionData(partition_index=0, replica_epoch=0, replica_id=77, last_offset=0)
        topics = [cls.TopicData(topic_name="__kafka_metadata", partitions=[partition])]
        self._ask("Vote", 2, cls(voter_id=-1, topics=topics))

    def _ask(self, name: str, version: int, request: Any) -> None:
        then = f"{name} lost"

        def heard(reply: Any) -> None:
            self.came.append(then if reply is None else name)

        self.client.ask(self.node.name, name, version, request, heard)

    def hang_up(self) -> None:
        """Close the connection."""
        for link in list(self.client.peers.values()):
            link.cut(self.client)
        self.client.peers.clear()


@pytest.fixture
def peer() -> Peer:
    cluster = Cluster(controllers=1)
    cluster.start()
    leader = cluster.elect()
    cluster.run(100)
    return Peer(cluster, leader)


def asked(node: Replica) -> int:
    """Calls that wait for raft."""
    return len(node.waiting._asked)


def test_answers_of_a_connection_leave_in_the_order_of_its_requests(peer: Peer) -> None:
    """Raft answers the vote at once and the fetch when its time is up."""
    peer.fetch(wait_ms=300)
    peer.vote()
    peer.cluster.run(200)
    assert peer.came == [] and asked(peer.node) == 1, "the vote is answered, and stands behind the fetch"
    assert peer.cluster.run(200, lambda: len(peer.came) == 2)
    assert peer.came == ["Fetch", "Vote"] and asked(peer.node) == 0


def test_a_new_record_answers_a_fetch_in_the_turn_in_which_raft_says_so(peer: Peer) -> None:
    peer.fetch(wait_ms=2000)
    peer.cluster.run(50)
    assert asked(peer.node) == 1
    peer.cluster.append("x")
    assert peer.cluster.run(5, lambda: peer.came == ["Fetch"])


def test_a_call_whose_connection_is_gone_is_forgotten_when_raft_answers_it(peer: Peer) -> None:
    peer.fetch(wait_ms=300)
    peer.cluster.run(50)
    peer.hang_up()
    peer.cluster.run(50)
    assert asked(peer.node) == 1, "raft still has the request"
    peer.cluster.run(400)
    assert asked(peer.node) == 0 and peer.node.stopped is None


def test_a_call_that_raft_does_not_answer_closes_its_connection(peer: Peer) -> None:
    raft: Any = peer.node.quorum.raft
    step, raft.step = raft.step, lambda *args: None
    peer.vote()
    peer.cluster.run(ANSWER_MS - 1000)
    assert peer.came == []
    assert peer.cluster.run(2000, lambda: peer.came == ["Vote lost"])
    assert asked(peer.node) == 0
    assert any("the quorum did not answer" in line for line in peer.node.lines)
    raft.step = step
    call = peer.node.quorum.transport._calls
    late = FetchResponse(0, 0, -1, 1)  # type: ignore[arg-type]
    peer.node.input(lambda: peer.node.quorum.transport.answer(call, late))
    peer.cluster.run(100)
    assert peer.node.stopped is None, "an answer for which nobody waits any more is dropped"
