"""What a peer that is no voter cannot do to a node's quorum, and what a node says whose epoch cannot be counted up."""

import json
from typing import Any

import pytest

from actors.node.quorum.codec.partition import learn
from actors.node.quorum.files import DamagedFile
from actors.raft import EPOCH_MAX
from actors.wire.messages import message
from tests.unit.node.quorum.quorum_cluster import Cluster, Replica


def told(cluster: Cluster, node: Replica, name: str, request: Any) -> Any:
    """The node's answer to a request from outside."""
    outside = next(iter(cluster.nodes.values()))
    return cluster.ask(outside, node, name, request).topics[0].partitions[0]


def begin(cluster: Cluster, leader_id: int, epoch: int, port: int = 9999) -> Any:
    cls = message("BeginQuorumEpochRequest")
    partition = cls.PartitionData(partition_index=0, leader_id=leader_id, leader_epoch=epoch)
    topic = cls.TopicData(topic_name="__kafka_metadata", partitions=[partition])
    places = [cls.LeaderEndpoint(name="CONTROLLER", host="127.0.0.1", port=port)]
    return cls(voter_id=-1, topics=[topic], leader_endpoints=places)


def write_state(cluster: Cluster, node: Replica, **fields: int) -> None:
    state = {"leaderId": -1, "leaderEpoch": 0, "votedId": -1, "data_version": 1} | fields
    node.disk.replace(cluster.path("quorum-state"), json.dumps(state).encode())


@pytest.mark.parametrize("epoch", [EPOCH_MAX, EPOCH_MAX + 1, -1, 1 << 70])
def test_a_controller_whose_epoch_cannot_be_counted_up_says_what_to_do(epoch: int) -> None:
    cluster = Cluster()
    write_state(cluster, cluster.nodes[1], leaderEpoch=epoch)
    with pytest.raises(
        DamagedFile, match=r"quorum-state holds epoch -?\d+, .* the same leaderEpoch, .* start them again"
    ):
        cluster.start(1)


def test_what_the_sentence_says_brings_the_controllers_back() -> None:
    cluster = Cluster()
    cluster.start()
    cluster.elect()
    cluster.append("before")
    assert cluster.run(200, cluster.settled)
    for node in cluster.nodes.values():
        node.kill()
        write_state(cluster, node, leaderEpoch=1000)
    cluster.start()
    assert cluster.elect().quorum.raft.epoch == 1001
    cluster.append("after")
    assert cluster.run(500, cluster.settled)


def test_a_voter_that_comes_to_the_last_epoch_stops_with_the_sentence() -> None:
    cluster = Cluster()
    for node in cluster.nodes.values():
        write_state(cluster, node, leaderEpoch=EPOCH_MAX - 1)
    cluster.start(1, 2)
    leader = cluster.elect()
    assert leader.quorum.raft.epoch == EPOCH_MAX
    leader.kill()
    follower = cluster.nodes[3 - leader.id]
    assert cluster.run(10_000, lambda: follower.stopped is not None)
    assert follower.stopped is not None and "an election needs a higher one" in follower.stopped
    state = json.loads(bytes(follower.disk.files[cluster.path("quorum-state")].data))
    assert state["leaderEpoch"] == EPOCH_MAX


def test_the_address_of_a_leader_that_is_followed_is_not_taken_from_a_request() -> None:
    cluster = Cluster()
    cluster.start()
    leader = cluster.elect()
    assert cluster.run(500, cluster.settled)
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    assert (
        told(cluster, follower, "BeginQuorumEpoch", begin(cluster, leader.id, leader.quorum.raft.epoch)).error_code == 0
    )
    assert told(cluster, follower, "BeginQuorumEpoch", begin(cluster, 77, leader.quorum.raft.epoch)).error_code == 42
    assert follower.quorum.identity.addresses.find(leader.id) == ("127.0.0.1", 9000 + leader.id)
    assert follower.quorum.identity.addresses.find(77) is None


def test_an_answer_teaches_addresses_of_voters_only() -> None:
    cluster = Cluster()
    cluster.start()
    quorum = cluster.elect().quorum
    cls = message("VoteResponse")
    ends = [cls.NodeEndpoint(node_id=id, host="127.0.0.1", port=1) for id in (2, 3, 77)]
    learn(quorum.identity, cls(node_endpoints=ends))
    assert quorum.identity.addresses.find(77) is None
    assert ("127.0.0.1", 1) in (quorum.identity.addresses.find(2), quorum.identity.addresses.find(3))
