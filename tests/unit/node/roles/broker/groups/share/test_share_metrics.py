"""What a broker shows of share groups, by the names of Apache Kafka 4.3."""

from typing import Any

from actors.node.metrics import broker_parts
from actors.node.metrics.broker import OfBroker
from tests.numbers import numbers
from tests.unit.node.roles.broker.groups.share.cluster import Member, made
from tests.unit.node.roles.broker.groups.share.test_share_partitions import ACCEPT, Consumers
from tests.unit.node.roles.broker.lab import Lab

STATE = 'kafka_server_group_coordinator_metrics_share_group_count{{state="{}"}}'.format
PARTITIONS = 'kafka_server_share_coordinator_metrics_num_partitions{state="active"}'
PARTITION = 'kafka_server_sharepartitionmetrics_{}{{group="g",topic="t",partition="0"}}'.format


def shown(lab: Lab, broker: int) -> dict[str, float]:
    """What a broker shows."""
    node: Any = lab.nodes[broker].node
    of = OfBroker(node.broker, node.runtime, node.quorum, node.requests)
    return numbers(one for part in broker_parts(of) for one in part)


def test_share_groups_and_the_partitions_of_both_coordinators() -> None:
    lab = made(share_coordinator_state_topic_prune_interval_ms="60000")
    member = Member(lab, "a")
    member.settle()
    found = shown(lab, 1)
    assert found['kafka_server_group_coordinator_metrics_group_count{protocol="share"}'] == 1
    assert found[STATE("Stable")] == 1 and found[STATE("Empty")] == 0
    assert found[PARTITIONS] == 0 and shown(lab, 2)[PARTITIONS] == 1
    member.leave()
    found = shown(lab, 1)
    assert found[STATE("Stable")] == 0 and found[STATE("Empty")] == 1


def test_without_share_groups_nothing_is_shown_of_them() -> None:
    found = shown(made(version=0), 1)
    assert not [name for name in found if "share" in name and found[name] and "peer_memory" not in name]
    assert PARTITIONS not in found


def test_sessions_and_what_is_in_flight() -> None:
    c = Consumers()
    c.produce(10)
    c.fetch()
    found = shown(c.lab, 1)
    assert found["kafka_server_sharesessioncache_sharesessionscount"] == 1
    assert found["kafka_server_sharesessioncache_sharepartitionscount"] == 1
    assert found[PARTITION("inflightmessagecount")] == 10
    assert found[PARTITION("inflightbatchcount")] == 1
    c.fetch(acks=[(0, 9, ACCEPT)])
    assert shown(c.lab, 1)[PARTITION("inflightmessagecount")] == 0
