"""The procedure of docs/operations.md for a replaced disk of a broker that was the last in-sync member: with the
election first, the data of another replica is kept.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

import rayft
from actors.controller.partitions import elect_leaders
from actors.host.cluster import probe
from actors.wire.messages import message
from tests.integration.conftest import command, until

CONFIG = {
    "registration.lease.timeout.ms": "3000", "registration.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "2000",
}  # fmt: skip
RECORDS = 100
PLACE = TopicPartition("orders", 0)


@pytest.fixture
def cluster(tmp_path: Path) -> rayft.Cluster:
    """One controller, three brokers."""
    return rayft.Cluster(controllers=1, brokers=3, dir=tmp_path / "c", config=CONFIG)


@pytest.mark.timeout(300)
def test_an_election_before_the_format_keeps_the_copies(cluster: rayft.Cluster) -> None:
    with cluster:
        servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        admin = AdminClient(servers)
        _filled(admin, servers)
        for follower in (2, 3):
            cluster.kill(follower, restart=False)
        until(lambda: _partition(admin).isrs == [1])
        cluster.kill(1, restart=False)
        for follower in (2, 3):
            cluster.start_node(follower)
        until(lambda: _partition(admin).leader == -1)

        until(lambda: _elected(admin, cluster.address(2)))
        _disk_replaced(cluster, "broker-1")
        cluster.start_node(1)

        until(lambda: sorted(_partition(admin).isrs) == [1, 2, 3])
        consumer = Consumer(servers | {"group.id": "none"})
        assert consumer.get_watermark_offsets(PLACE, 20) == (0, RECORDS)
        consumer.close()


def _filled(admin: AdminClient, servers: dict[str, Any]) -> None:
    """A topic that broker 1 leads and of which all three brokers have all records."""
    topic = NewTopic(PLACE.topic, 1, replica_assignment=[[1, 2, 3]], config={"min.insync.replicas": "1"})
    admin.create_topics([topic])[PLACE.topic].result(30)
    producer = Producer(servers | {"acks": "all"})
    for number in range(RECORDS):
        producer.produce(PLACE.topic, b"%d" % number)
    assert producer.flush(60) == 0


def _partition(admin: AdminClient) -> PartitionMetadata:
    return admin.list_topics(PLACE.topic, timeout=10).topics[PLACE.topic].partitions[0]


def _elected(admin: AdminClient, address: tuple[str, int]) -> bool:
    kind = message("ElectLeadersRequest")
    wanted = [kind.TopicPartitions(topic=PLACE.topic, partitions=[PLACE.partition])]
    request = kind(election_type=elect_leaders.UNCLEAN, topic_partitions=wanted, timeout_ms=5000)
    probe.ask(address, "ElectLeaders", request, 2, 10)
    return _partition(admin).leader in (2, 3)


def _disk_replaced(cluster: rayft.Cluster, node: str) -> None:
    """Replace a node's data by an empty directory, formatted for the cluster."""
    identity = cluster.cluster_id
    shutil.rmtree(cluster.dir / node)
    ran = command("format", "--config", str(cluster.dir / f"{node}.properties"), "--cluster-id", identity)
    assert ran.returncode == 0, ran.stderr
