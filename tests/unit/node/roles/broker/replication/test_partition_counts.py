"""The counts of partitions that a broker shows, and its traffic by topic, as the metadata changes: against a walk."""

from typing import Any

from actors.broker.replication.census import Census
from actors.metadata import ops
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab


def walked(lab: Lab, broker: int) -> dict[str, int]:
    here = list(lab.nodes[broker].broker.replicas)
    led = [one for one in here if one.leads]
    return {
        "here": len(here),
        "led": len(led),
        "under_replicated": sum(len(one.isr.isr) < len(one.replicas) - one.adding for one in led),
        "under_min_isr": sum(len(one.isr.isr) < one.min_insync for one in led),
        "at_min_isr": sum(len(one.isr.isr) == one.min_insync for one in led),
        "moving": sum(one.moving for one in led),
    }


def same(lab: Lab, broker: int = 1) -> dict[str, int]:
    """The counts, which are those of a walk."""
    census: Census = lab.nodes[broker].broker.replicas.census
    assert vars(census) == walked(lab, broker)
    return dict(vars(census))


def test_the_counts_follow_the_metadata() -> None:
    lab = Lab()
    lab.topic((1, 2, 3), partitions=4, configs={"min.insync.replicas": "2"})
    whole = {"here": 4, "led": 4, "under_replicated": 0, "under_min_isr": 0, "at_min_isr": 0, "moving": 0}
    assert same(lab) == whole
    lab.change((1, 2), 1, 0)
    lab.change((1,), 1, 1)
    lab.change((2, 3), 2, 2)
    assert same(lab) == whole | {"led": 3, "under_replicated": 2, "under_min_isr": 1, "at_min_isr": 1}
    assert same(lab, 2)["led"] == 1
    lab.commit(ops.ConfigSet(2, "t", "min.insync.replicas", "3"))
    assert same(lab) == whole | {"led": 3, "under_replicated": 2, "under_min_isr": 2, "at_min_isr": 1}
    lab.settle()
    assert same(lab)["under_replicated"] == 0, "they have come back"
    lab.commit(ops.TopicGone(TOPIC_ID))
    lab.settle()
    assert set(same(lab).values()) == {0}


def test_a_replica_that_is_being_added_is_not_missed() -> None:
    lab = Lab()
    lab.topic((1, 2), partitions=1)
    assert same(lab)["under_replicated"] == 0
    lab.commit(ops.PartitionsSet.one(TOPIC_ID, 0, [1, 2, 3], [1, 2], 1, 1, 1, adding=[3]))
    found = same(lab)
    assert found["moving"] == 1 and found["under_replicated"] == 0, "as in Apache Kafka"
    lab.commit(ops.PartitionsSet.one(TOPIC_ID, 0, [1, 2, 3], [1], 1, 2, 2, adding=[3]))
    assert same(lab)["under_replicated"] == 1, "2 is missed"


def test_traffic_of_a_topic_is_shared_by_its_partitions_and_stays_in_the_sum() -> None:
    lab = Lab()
    lab.topic((1,), partitions=2)
    replicas: Any = lab.nodes[1].broker.replicas
    first, second = replicas.get("t", 0), replicas.get("t", 1)
    assert first.traffic is second.traffic and first.traffic.whole is replicas.traffic
    first.traffic.produced(10, 1)
    lab.commit(ops.TopicGone(TOPIC_ID))
    lab.settle()
    lab.topic((1,), topic_id=bytes([9]) * 16)
    again = replicas.get("t", 0)
    assert again.traffic.bytes_in == 0 and replicas.traffic.bytes_in == 10
