"""A leader that stops, is replaced, and cuts its log when it goes on: it answers clients meanwhile."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from tests.integration.conftest import until
from tests.integration.hostile.scene import Scene

CONFIG = {
    "registration.lease.timeout.ms": "3000", "registration.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "2000",
}  # fmt: skip
TOPIC, SEGMENTS = "cut", 64
MIB = 1 << 20


@pytest.fixture
def cluster(tmp_path: Path) -> "Iterator[rayft.Cluster]":
    """One controller, two brokers."""
    with rayft.Cluster(controllers=1, brokers=2, dir=tmp_path / "c", config=CONFIG) as running:
        yield running


def held(cluster: "rayft.Cluster", broker: int) -> int:
    """Bytes of records that a broker has."""
    return sum(path.stat().st_size for path in Path(cluster.dir).glob(f"broker-{broker}/{TOPIC}-0/*.log"))


def leads(cluster: "rayft.Cluster", broker: int) -> bool:
    """Whether the broker says that it leads."""
    admin = AdminClient({"bootstrap.servers": ":".join(map(str, cluster.address(broker))), "log_level": 0})
    return bool(admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[0].leader == broker)


def fill(cluster: "rayft.Cluster", broker: int, records: int) -> None:
    """Records of 10 KB, each a batch of its own in effect, to whoever leads."""
    servers = {"bootstrap.servers": ":".join(map(str, cluster.address(broker))), "log_level": 0}
    producer = Producer(servers | {"acks": "1", "batch.size": "20000", "enable.idempotence": False})
    for _ in range(records):
        producer.produce(TOPIC, os.urandom(100) * 100, partition=0)
        producer.poll(0)
        if len(producer) > 5000:
            producer.flush(60)
    assert producer.flush(60) == 0


@pytest.mark.timeout(180)
def test_a_log_of_many_segments_is_cut_while_others_are_answered(cluster: "rayft.Cluster") -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    settings = {"min.insync.replicas": "1", "segment.bytes": str(MIB), "unclean.leader.election.enable": "true"}
    admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[1, 2]], config=settings)])[TOPIC].result(30)
    fill(cluster, 1, 10)
    until(lambda: held(cluster, 2) == held(cluster, 1))
    cluster.kill(2, restart=False)
    until(lambda: admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[0].isrs == [1])
    fill(cluster, 1, SEGMENTS * 100)
    assert held(cluster, 1) > (SEGMENTS - 5) * MIB
    old = cluster.pids[1]
    os.kill(old, signal.SIGSTOP)
    try:
        cluster.start_node(2)
        until(lambda: leads(cluster, 2))
        fill(cluster, 2, 10)
    finally:
        os.kill(old, signal.SIGCONT)

    def attack() -> None:
        end = time.monotonic() + 60
        while held(cluster, 1) > MIB:
            assert time.monotonic() < end, "the log is not cut"
            time.sleep(0.05)

    cost = Scene(cluster).measured(attack, ping=cluster.address(1))
    print(cost)
    assert not cost.broken, cost
    assert cost.ping_max_ms < 1500
    until(lambda: held(cluster, 1) == held(cluster, 2))
