"""What a broker shows of share groups, by the names of Apache Kafka 4.3."""

from typing import Any

from actors.node.metrics import samples
from tests.unit.node.roles.broker.groups.share.cluster import Member, made
from tests.unit.node.roles.broker.groups.share.test_share_fetching import ACCEPT, Consumers
from tests.unit.node.roles.broker.lab import Lab

COORDINATOR = "kafka.server:type=group-coordinator-metrics"
PARTITION = "kafka.server:type=SharePartitionMetrics,name={},group=g,topic=t,partition=0"


def shown(lab: Lab, broker: int) -> dict[tuple[str, str], float]:
    """Of share groups and of coordinators."""
    node: Any = lab.nodes[broker].node
    found = samples(node.runtime, node.requests, node.quorum, node.controller, node.broker)
    return {(one.mbean, one.attribute): one.value for one in found if "hare" in one.mbean or "coordinator" in one.mbean}


def test_share_groups_and_the_partitions_of_both_coordinators() -> None:
    lab = made(share_coordinator_state_topic_prune_interval_ms="60000")
    member = Member(lab, "a")
    member.settle()
    found = shown(lab, 1)
    assert found[COORDINATOR + ",protocol=share", "group-count"] == 1
    assert found[COORDINATOR + ",state=Stable", "share-group-count"] == 1
    assert found[COORDINATOR + ",state=Empty", "share-group-count"] == 0
    assert found["kafka.server:type=share-coordinator-metrics,state=active", "num-partitions"] == 0
    assert shown(lab, 2)["kafka.server:type=share-coordinator-metrics,state=active", "num-partitions"] == 1
    member.leave()
    found = shown(lab, 1)
    assert found[COORDINATOR + ",state=Stable", "share-group-count"] == 0
    assert found[COORDINATOR + ",state=Empty", "share-group-count"] == 1


def test_without_share_groups_nothing_is_shown_of_them() -> None:
    found = shown(made(version=0), 1)
    assert not [mbean for mbean, _ in found if "PeerMemory" not in mbean], "the ledger shows all who may keep something"


def test_sessions_and_what_is_in_flight() -> None:
    c = Consumers()
    c.produce(10)
    c.fetch()
    found = shown(c.lab, 1)
    assert found["kafka.server:type=ShareSessionCache,name=ShareSessionsCount", "Value"] == 1
    assert found["kafka.server:type=ShareSessionCache,name=SharePartitionsCount", "Value"] == 1
    assert found[PARTITION.format("InFlightMessageCount"), "Value"] == 10
    assert found[PARTITION.format("InFlightBatchCount"), "Value"] == 1
    c.fetch(acks=[(0, 9, ACCEPT)])
    assert shown(c.lab, 1)[PARTITION.format("InFlightMessageCount"), "Value"] == 0
