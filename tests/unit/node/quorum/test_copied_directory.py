"""A directory of a controller that was copied, and both copies run."""

from functools import partial
from typing import Any

import pytest

from actors.raft import ReplicaKey, Role, following, twins
from actors.raft.messages import VoteRequest
from actors.raft.state import ReplicaProgress
from tests.simulator.world import Link
from tests.unit.node.quorum.quorum_cluster import HOST, PORT, Cluster, Replica

SENTENCE = "another process with the id {} and the directory id of this node takes part in the cluster"


def running() -> Cluster:
    """Three controllers that have agreed on something."""
    cluster = Cluster(controllers=3)
    cluster.start()
    cluster.elect()
    cluster.append("before")
    assert cluster.run(5000, cluster.settled)
    cluster.run(1500)
    return cluster


def goes_on(cluster: Cluster, *others: Replica) -> bool:
    """Whether a leader commits what it is told, and all that run learn it."""
    cluster.elect()
    cluster.append("goes on")
    return cluster.run(10_000, cluster.settled) and all(node.stopped is not None for node in others)


@pytest.mark.parametrize("stands_elsewhere", [True, False])
def test_a_copy_of_a_follower_is_refused_and_the_quorum_goes_on(stands_elsewhere: bool) -> None:
    """It says that it has moved, or it says the same address as the first one; the first one goes on."""
    cluster = running()
    leader = cluster.elect()
    first = next(node for node in cluster.nodes.values() if node is not leader)
    twin = cluster.copy(first.id, PORT + 60)
    if not stands_elsewhere:
        twin.settings["advertised.listeners"] = f"CONTROLLER://{HOST}:{PORT + first.id}"
    twin.start()
    assert cluster.run(10_000, lambda: twin.stopped is not None)
    assert twin.stopped is not None and twin.stopped.startswith(SENTENCE.format(first.id))
    assert first.alive and goes_on(cluster, twin)


def test_a_copy_of_the_leader_is_refused_when_it_asks_for_votes() -> None:
    cluster = running()
    leader = cluster.elect()
    epoch = leader.quorum.raft.epoch
    twin = cluster.copy(leader.id, PORT + 60)
    twin.start()
    assert cluster.run(20_000, lambda: twin.stopped is not None)
    assert twin.stopped is not None and twin.stopped.startswith(SENTENCE.format(leader.id))
    assert cluster.elect() is leader and leader.quorum.raft.epoch == epoch
    assert goes_on(cluster, twin)


def test_of_brokers_with_one_id_the_registration_decides() -> None:
    """A broker in its first phase wins, and the other one is fenced (R631-175): here neither is refused."""
    cluster = Cluster(controllers=3, brokers=2)
    cluster.start()
    cluster.elect()
    assert cluster.run(5000, cluster.settled)
    twin = cluster.copy(101, PORT + 60)
    twin.settings["listeners"] = f"PLAINTEXT://{HOST}:{PORT + 60}"
    twin.start()
    cluster.run(10_000)
    assert twin.stopped is None and goes_on(cluster)


def test_who_restarts_reconnects_or_stands_for_election_is_no_twin() -> None:
    """Processes end and come back, leaders resign, links are cut and heal: nobody is refused."""
    cluster = running()
    for round in range(12):
        leader = cluster.elect()
        other = next(node for node in cluster.nodes.values() if node is not leader)
        if round % 4 == 0:
            leader.crash()
            cluster.run(700 * (round % 3))
            leader.start()
        elif round % 4 == 1:
            leader.input(leader.quorum.resign)
        elif round % 4 == 2:
            other.crash()
            other.start()
        else:
            cluster.world.block(leader.name, other.name)
            cluster.run(2500)
            cluster.world.heal()
        cluster.run(1500)
        assert goes_on(cluster)
        assert all(node.stopped is None for node in cluster.nodes.values())


def asking(cluster: Cluster) -> tuple[Replica, Any, Any]:
    """The leader; the quorum of a follower of it; what somebody with the leader's key asks there."""
    leader = cluster.elect()
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    core = follower.quorum.raft._core
    assert core.role is Role.FOLLOWER
    key = leader.quorum.identity.me
    return leader, core, VoteRequest(0, key, core.me, core.epoch, core.log.last_epoch, core.log.end_offset, True)


def test_a_leader_that_answers_what_was_sent_after_its_question_did_not_ask() -> None:
    cluster = running()
    leader, core, request = asking(cluster)
    assert not twins.leader_asks(core, request), "it may have stopped and started"
    assert not twins.leader_asks(core, request)
    cluster.run(1200)
    assert twins.leader_asks(core, request)
    assert not twins.leader_asks(core, request), "what is said once is looked at anew"
    cluster.run(1200)
    assert not twins.leader_asks(core, request._replace(replica=ReplicaKey(leader.id, bytes(16)))), "another disk"
    assert not twins.leader_asks(core, request._replace(epoch=core.epoch + 1)), "an epoch that it does not lead"


@pytest.mark.parametrize("lost", [True, False])
def test_a_leader_that_may_have_gone_may_ask(lost: bool) -> None:
    """Its connection broke, or an answer did not come in time."""
    cluster = running()
    leader, core, request = asking(cluster)
    assert not twins.leader_asks(core, request)
    cluster.run(1200)
    assert core.fetching is not None and core.fetching.led_on and core.fetching.serial
    if lost:
        following.link_lost(core, leader.id, False)
    else:
        following.fetch_failed(core, core.fetching.serial)
    assert not twins.leader_asks(core, request)


def test_what_a_candidate_has_asked_may_come_when_it_leads() -> None:
    """Others had elected it before these arrived. The leader then loses its machine, and nobody sees a connection end."""
    cluster = running()
    leader, core, request = asking(cluster)
    follower = next(node for node in cluster.nodes.values() if node.quorum.raft._core is core)
    late = [request._replace(pre_vote=False), request._replace(epoch=core.epoch - 1, last_epoch=0)]
    for one in late:
        follower.input(partial(follower.quorum.raft.step, 99, one, follower.now()))
        follower.input(follower.quorum.advance)
        cluster.run(1200)
        assert core.fetching is not None and not core.fetching.asked_by_leader and not core.fetching.led_on
    for conn, link in list(leader.peers.items()):
        if isinstance(link, Link):
            del leader.peers[conn]
    leader.crash()
    cluster.run(50)
    leader.start()
    cluster.run(5000)
    assert goes_on(cluster)
    assert all(node.stopped is None for node in cluster.nodes.values())


def test_a_leader_that_is_silent_may_ask() -> None:
    cluster = running()
    leader, core, request = asking(cluster)
    leader.crash()
    assert not any(twins.leader_asks(core, request) for _ in range(5))


def test_one_return_to_an_older_connection_is_a_delayed_request() -> None:
    """Two are another process, and the one that came second is refused from then on."""
    progress = ReplicaProgress(0)
    assert not any(twins.fetched(progress, connection) for connection in (1, 1, 2, 1, 2, 2))
    assert not twins.fetched(progress, 1)
    assert twins.fetched(progress, 2)
    assert not twins.fetched(progress, 1)
    assert twins.fetched(progress, 2)
    assert not twins.fetched(progress, 3), "a third connection is looked at anew"
    reconnecting = ReplicaProgress(0)
    assert not any(twins.fetched(reconnecting, connection) for connection in range(1000))


def test_a_fetch_without_a_connection_is_nobodys() -> None:
    progress = ReplicaProgress(0)
    assert not any(twins.fetched(progress, connection) for connection in (-1, 4, -1, 4, -1, 4, -1))


def test_the_sentence_says_what_to_do() -> None:
    assert "format an empty directory" in str(twins.RunsTwice(ReplicaKey(4)))
