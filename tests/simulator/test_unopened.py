"""A broker that is asked to end before a quorum has told it which logs to open."""

import pytest

from actors.broker.log.directory import CLEAN_SHUTDOWN
from tests.simulator.cluster import Cluster
from tests.simulator.world import World


@pytest.mark.parametrize("clean", [True, False])
def test_it_leaves_the_mark_of_the_stop_before(clean):
    """A mark after a kill would let the next start believe logs that nobody has looked at, and forget their producers."""
    world = World(1)
    cluster = Cluster(world, 1, 1)
    cluster.start()
    assert world.run_until(cluster.ready, 60_000)
    broker = cluster.brokers[1]
    if clean:
        broker.input(broker.node.shutdown)
        assert world.run_until(lambda: not broker.alive, 60_000)
        assert broker.disk.exists(CLEAN_SHUTDOWN)
    else:
        broker.kill()
    before = broker.disk.files[CLEAN_SHUTDOWN].data if clean else None
    for controller in cluster.controllers.values():
        controller.kill()
    broker.start()
    world.run_for(1_000)
    broker.input(broker.node.shutdown)
    assert world.run_until(lambda: not broker.alive, 60_000)
    assert broker.disk.exists(CLEAN_SHUTDOWN) == clean
    if clean:
        assert broker.disk.files[CLEAN_SHUTDOWN].data == before
