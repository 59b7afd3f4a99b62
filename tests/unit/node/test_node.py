"""How the parts of a node are put together, for each role and for both in one process."""

from typing import Any

import pytest

from actors.metadata import snapshot as snapshots
from actors.node.quorum.files import TOPIC_ID
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.simulator.cluster import OPERATOR, STOLEN, Client, Cluster, node_principal
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


def test_a_node_that_a_rule_shuts_out_stays_out_while_a_controller_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of a node was stolen. The rule that says so is in the snapshot, and its name among the super users."""
    world = World(3)
    cluster = Cluster(world, 1, 1, guarded=True)
    cluster.start()
    assert world.run_until(cluster.ready, 60_000)
    controller, go = cluster.controllers[1001], True
    node: Any = controller.node

    def asked(who: str, target: str, name: str, version: int, request: Any) -> Any:
        client = Client(world, f"client-{world.time_us}")
        client.principal = who
        return client.call(target, name, version, request)

    def stolen() -> Any:
        """How much of the metadata log the thief is given, or the code; None: nobody is there."""
        kind = message("FetchRequest")
        part = kind.FetchPartition(
            partition=0, current_leader_epoch=node.quorum.raft.epoch, fetch_offset=1, last_fetched_epoch=1,
            partition_max_bytes=1 << 20,
        )  # fmt: skip
        topic = kind.FetchTopic(topic_id=TOPIC_ID, topic="__kafka_metadata", partitions=[part])
        state = kind.ReplicaState(replica_id=-1)
        told = asked(node_principal(STOLEN), "c1001", "Fetch", 17, kind(replica_state=state, topics=[topic]))
        return told if told is None else told.error_code or len(told.responses[0].partitions[0].records)

    assert stolen() > 100, "nobody knows yet"
    kind = message("CreateAclsRequest")
    rule = kind.AclCreation(
        resource_type=4, resource_name="kafka-cluster", resource_pattern_type=3, principal=node_principal(STOLEN), host="*",
        operation=9, permission_type=2,
    )  # fmt: skip
    assert asked(OPERATOR, "b1", "CreateAcls", 3, kind(creations=[rule])).results[0].error_code == 0
    refused = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert stolen() == refused
    role = node.controller
    controller.input(lambda: role.snapshotting.take(role.image, role.epoch, role.written_ms))
    assert world.run_until(lambda: role.snapshotting.offset > 0, 3_000)
    world.run_for(1_000)

    whole = snapshots.loading

    def slow(*given: Any) -> Any:
        while not go:
            yield
        return (yield from whole(*given))

    monkeypatch.setattr(snapshots, "loading", slow)
    controller.crash()
    go = False
    controller.start()
    node = controller.node
    assert world.run_until(lambda: node.quorum.leader_id == 1001, 20_000) and node.quorum.loads
    assert stolen() is None
    go = True
    assert world.run_until(lambda: not node.quorum.loads and "CONTROLLER" in controller.listening, 1_000)
    assert stolen() == refused
