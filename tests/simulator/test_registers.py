"""A broker that registers: its ports answer before it asks, as one that refuses tells of a dead process (KIP-631)."""

from typing import Any

from actors.wire.framing import rpc
from tests.simulator.cluster import Cluster
from tests.simulator.world import World

HEARTBEAT = rpc("BrokerHeartbeat").key


def _frozen_as_it_registers() -> tuple[World, Cluster, Any]:
    """A broker that is registered and does not know it: it was frozen while its request was on the way."""
    world = World(1)
    cluster = Cluster(world, 1, 1)
    broker, links = cluster.brokers[1], []

    def asked(link: Any, process: Any, frame: memoryview) -> None:
        if link.other(process) is broker and int.from_bytes(frame[:2], "big") == HEARTBEAT:
            links.append(link)
            broker.freeze()

    world.asked.append(asked)
    cluster.start()
    controller = cluster.controllers[1001]
    assert world.run_until(lambda: bool(links), 10_000)
    assert world.run_until(lambda: controller.image.broker(1) is not None, 10_000)
    world.asked.remove(asked)
    return world, cluster, links[0]


def test_its_lease_does_not_end_with_its_connection():
    """Otherwise it would serve, when it goes on, under a lease that the controller has ended."""
    world, cluster, link = _frozen_as_it_registers()
    broker, controller = cluster.brokers[1], cluster.controllers[1001]
    link.cut(broker)
    world.run_for(1_000)
    assert 1 in controller.node.controller.soft.leases
    broker.thaw()
    assert world.run_until(cluster.ready, 10_000)


def test_if_the_process_is_dead_it_does():
    world, cluster, _ = _frozen_as_it_registers()
    cluster.brokers[1].kill()
    leases = cluster.controllers[1001].node.controller.soft.leases
    assert world.run_until(lambda: 1 not in leases, 1_000)
