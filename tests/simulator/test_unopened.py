"""A broker that is asked to stop before a quorum has told it which logs to open."""

import pytest

from actors.broker.log.directories.checkpoints import LOG_STARTS
from actors.broker.log.directories.directory import CLEAN_SHUTDOWN
from tests.simulator.cluster import Cluster
from tests.simulator.one_topic import OneTopic
from tests.simulator.world import World


@pytest.mark.parametrize("clean", [True, False])
def test_it_leaves_the_mark_of_the_stop_before(clean):
    """A mark after a kill would make the next start trust logs that were not checked, and forget their producers."""
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


def test_it_leaves_the_checkpoints():
    """Deleted records would come back: nothing else on the disk says that a log begins inside its first segment."""
    t = OneTopic(settings={})
    for _ in range(10):
        t.produce(b"value")
    t.delete_records(6)
    brokers, controllers = t.cluster.brokers, t.cluster.controllers.values()
    for id in brokers:
        t.until(lambda id=id: b"t 0 6" in t.file(id, LOG_STARTS))
    for process in (*brokers.values(), *controllers):
        process.kill()
    for process in brokers.values():
        process.start()
    t.world.run_for(3_000)
    assert all(b"t 0 6" in t.file(id, LOG_STARTS) for id in brokers)
    for process in brokers.values():
        process.kill()
    for process in (*controllers, *brokers.values()):
        process.start()
    t.until(lambda: t.cluster.ready() and len(t.isr) == 3)
    t.world.run_for(3_000)
    assert [t.log(id).log_start_offset for id in brokers] == [6] * 3
