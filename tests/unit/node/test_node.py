"""How the parts of a node are put together, for each role and for both in one process."""

from typing import Any

import pytest

from actors.wire.messages import message
from tests.simulator.cluster import Cluster
from tests.simulator.world import World


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    world = World(3)
    found = Cluster(world, 1, 1)
    found.start()
    assert world.run_until(found.ready, 60_000)
    return found


def test_a_broker_asks_itself_and_is_answered(cluster: Cluster) -> None:
    """What a coordinator asks of partitions that its own broker leads goes through no connection."""
    node: Any = cluster.brokers[1].node
    answers: list[Any] = []
    node.channels.itself("WriteTxnMarkers", message("WriteTxnMarkersRequest")(markers=[]), answers.append)
    cluster.world.run_for(100)
    assert [one.markers for one in answers] == [[]]


def test_a_controller_without_a_broker_has_nobody_to_ask_in_its_own_process(cluster: Cluster) -> None:
    node: Any = cluster.controllers[1001].node
    assert node.broker is None and node.channels.ask_itself is None
    with pytest.raises(AssertionError, match="WriteTxnMarkers"):
        node.channels.itself("WriteTxnMarkers", message("WriteTxnMarkersRequest")(markers=[]), print)
    assert node.controller is not None and node.id == 1001
