"""Nodes that wait do not turn. The checker idle_nodes_rest found these; each test names the wait that kept a core
busy."""

import pytest

from actors.broker.replication.fetchers import Fetcher, FetcherLimits
from tests.simulator.cluster import Cluster
from tests.simulator.world import World


def test_brokers_that_wait_for_a_quorum_rest():
    world = World(1)
    cluster = Cluster(world)
    for process in cluster.brokers.values():
        process.start()
    world.run_for(10_000)
    assert world.turns < 10_000


def test_a_broker_that_lost_its_lease_with_a_proposal_in_hand_rests():
    world = World(1)
    cluster = Cluster(world)
    cluster.start()
    assert world.run_until(cluster.ready, 60_000)
    world.run_for(2_000)
    broker = cluster.brokers[1].node.broker
    broker.replicas.proposals._queued[object()] = None  # a proposal that came up when the lease was over
    broker.lifecycle.lease_until_ms = 0
    now = cluster.brokers[1].now()
    cluster.brokers[1].node.turn(now, 0)
    assert not broker.availability.serving and broker.deadline_ms() > now.mono_ms


class _Partition:
    topic, topic_id, number, leader_epoch = "t", b"t" * 16, 0, 3

    class log:
        log_end_offset = log_start_offset = 0

        class epochs:
            latest = -1


@pytest.mark.parametrize("leave", [False, True])
def test_a_fetcher_whose_first_request_is_out_waits_for_the_answer(leave):
    fetcher = Fetcher(2, 1, FetcherLimits(500, 1, 1 << 20, 1 << 20))
    partition = _Partition()
    fetcher.follow(partition)
    assert fetcher.ask(1000) is not None
    other = _Partition()
    other.number = 1
    fetcher.follow(other)
    if leave:
        fetcher.leave(other)
    assert fetcher.ask(1000) is None and fetcher.deadline_ms(1000) > 1000
