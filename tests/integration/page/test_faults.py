"""What the page says is wrong, of faults that are really made in running nodes, and nothing where nothing is wrong.

Here is each kind of `actors/why/explanations.py` but `no quorum`, `voter` and `under-replicated`, which
`tests/integration/command/test_health.py` makes.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

import rayft
from actors.client.operations import topics
from actors.host.client.blocking import connect
from fastpath.records.batch import Builder
from tests.integration.answers.dialogue import Dialogue
from tests.integration.conftest import everywhere, two_directories
from tests.integration.page.opened import Page, page, until
from tests.integration.transactions.preparing import prepared

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
CONFIG = {
    "registration.lease.timeout.ms": "3000", "registration.heartbeat.interval.ms": "500",
    "leader.imbalance.check.interval.seconds": "3600", "transaction.partition.verification.enable": "false",
    "transaction.two.phase.commit.enable": "true", "replica.lag.time.max.ms": "5000",
}  # fmt: skip
TRANSACTIONAL = 0x10
"""The bit of a batch's attributes."""
LONG_AGO_S = 1_200
"""Longer than a transaction may be open, s."""


@pytest.fixture
def cluster() -> Iterator[rayft.Cluster]:
    with rayft.Cluster(controllers=1, brokers=3, config=CONFIG) as made:
        yield made


@pytest.fixture
def opened(cluster: rayft.Cluster) -> Iterator[Page]:
    with page("-b", cluster.bootstrap_servers) as found:
        until(lambda: found.get("/now")["quorum"]["source"] == "quorum")
        yield found


def made(cluster: rayft.Cluster, name: str, *, partitions: int = 1, replicas: int = 3) -> None:
    """A topic that every broker knows."""
    with connect(cluster.bootstrap_servers) as kafka:
        kafka.run(topics.create([topics.NewTopic(name, partitions, replicas)]))
    everywhere(cluster, name, partitions)


def found(opened: Page, words: str) -> dict[str, object] | None:
    """What is found now with these words in its sentence."""
    return next((one for one in opened.get("/now")["findings"] if words in one["sentence"]), None)


def well(opened: Page) -> bool:
    """Whether nothing at all is found."""
    return opened.get("/now")["findings"] == []


def test_a_cluster_without_faults_has_none(cluster: rayft.Cluster, opened: Page) -> None:
    made(cluster, "orders", partitions=6)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    until(lambda: well(opened))
    end = time.monotonic() + 20
    while time.monotonic() < end:
        producer.produce("orders", b"x")
        producer.flush(10)
        consumer.consume(10, 0.1)
        assert well(opened), opened.get("/now")["findings"]
    consumer.close()


def test_a_partition_whose_only_replica_is_gone(cluster: rayft.Cluster, opened: Page) -> None:
    made(cluster, "alone", partitions=3, replicas=1)
    (row,) = opened.rows("partitions", where="topic = alone and leader = 2")
    cluster.kill(2, restart=False)
    offline = until(lambda: found(opened, f"alone-{row['partition']} has no leader since "), 60)
    assert offline["is_fault"] and "broker 2 is away since " in offline["cause"]
    assert offline["command"] == "start broker 2: only it has all records"
    assert found(opened, "broker 2 is away since ")["cause"].startswith("it was shut down, or no controller has heard")
    cluster.start_node(2)
    until(lambda: well(opened), 60)


def test_a_broker_that_comes_and_goes(cluster: rayft.Cluster, opened: Page) -> None:
    made(cluster, "orders")
    for _ in range(3):
        cluster.freeze(3)
        until(lambda: found(opened, "broker 3 is away since "), 60)
        cluster.thaw(3)
        until(lambda: not found(opened, "broker 3 is away since "), 60)
    flapping = until(lambda: found(opened, "broker 3 was fenced 3 times within 10 min"))
    assert flapping["is_fault"] and "heartbeats come too late" in flapping["cause"]


def test_a_partition_that_its_preferred_leader_does_not_lead(cluster: rayft.Cluster, opened: Page) -> None:
    made(cluster, "orders", partitions=3)
    cluster.kill(1, restart=False)
    until(lambda: found(opened, "broker 1 is away since "), 60)
    cluster.start_node(1)
    notice = until(lambda: found(opened, "though broker 1 is the preferred leader and in sync"), 60)
    assert not notice["is_fault"] and opened.get("")["well"]


def test_a_setting_that_differs_between_brokers(cluster: rayft.Cluster, opened: Page) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for broker, value in (("1", "2"), ("2", "3")):
        entry = ConfigEntry("log.cleaner.threads", value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.BROKER, broker, incremental_configs=[entry])
        for one in admin.incremental_alter_configs([resource]).values():
            one.result(30)
    notice = until(lambda: found(opened, "log.cleaner.threads differs between brokers: 2 on 1; 3 on 2; not set on 3"))
    assert not notice["is_fault"] and notice["cause"].endswith("the log does not say who changed it")


def test_a_transaction_that_no_coordinator_ends(cluster: rayft.Cluster, opened: Page) -> None:
    """A batch that came after its transaction had ended, of a producer that no coordinator knows any more (KIP-890)."""
    made(cluster, "orders")
    builder = Builder(
        attributes=TRANSACTIONAL, producer_id=4711, producer_epoch=0, base_sequence=0,
        timestamp_ms=int((time.time() - LONG_AGO_S) * 1000),
    )  # fmt: skip
    builder.append(b"k", b"v")
    dialogue = Dialogue(cluster.bootstrap_servers)
    data = [{"name": "orders", "partition_data": [{"index": 0, "records": bytes(builder.build())}]}]
    leader = dialogue.leader("orders")
    answer = dialogue.raw("Produce", 9, leader, transactional_id="gone", acks=-1, timeout_ms=10_000, topic_data=data)
    dialogue.close()
    assert answer.responses[0].partition_responses[0].error_code == 0
    hanging = until(lambda: found(opened, "the transaction of producer 4711 is open since "), 60)
    assert hanging["is_fault"] and hanging["cause"] == "readers of committed records wait at it in orders-0"
    assert "find-hanging" in hanging["command"]


def test_a_transaction_that_waits_for_its_decision(cluster: rayft.Cluster, opened: Page) -> None:
    made(cluster, "orders")
    settings = {"transaction.two.phase.commit.enable": "true", "transactional.id": "two"}
    with connect(cluster.bootstrap_servers, settings) as kafka:
        prepared(kafka, "orders", 1, "v", age_s=LONG_AGO_S)
    waiting = until(lambda: found(opened, "transactional id two takes part in a two-phase commit"), 60)
    assert not waiting["is_fault"] and "forceTerminateTransaction" in waiting["command"] and opened.get("")["well"]


def test_a_group_that_stands_still(cluster: rayft.Cluster, opened: Page) -> None:
    servers = cluster.bootstrap_servers
    made(cluster, "orders")
    producer = Producer({"bootstrap.servers": servers})
    for _ in range(10):
        producer.produce("orders", b"x")
    assert producer.flush(30) == 0
    group = {"bootstrap.servers": servers, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    stands, reads = (Consumer({**group, "group.id": name}) for name in ("stands", "reads"))
    for one in (stands, reads):
        one.subscribe(["orders"])
        assert one.consume(1, 60)
    stands.commit(offsets=[TopicPartition("orders", 0, 3)], asynchronous=False)
    reads.commit(offsets=[TopicPartition("orders", 0, 10)], asynchronous=False)
    notice = until(lambda: found(opened, "group stands is 7 records behind and has committed nothing for "), 120)
    assert not notice["is_fault"] and notice["cause"] == "its 1 member commits nothing"
    assert not found(opened, "group reads ") and opened.get("")["well"]
    stands.close()
    until(lambda: (one := found(opened, "group stands ")) and one["cause"] == "it has no members", 120)
    reads.close()


def test_a_log_directory_that_is_gone(tmp_path: Path) -> None:
    home = tmp_path / "c"
    two_directories(home, 2, {"replica.lag.time.max.ms": "5000"})
    with rayft.Cluster(dir=home) as cluster, page("-b", cluster.bootstrap_servers) as opened:
        made(cluster, "orders", partitions=4, replicas=2)
        until(lambda: well(opened))
        (home / "second").rename(home / "gone")
        (home / "second").touch()
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "message.timeout.ms": 60_000})

        def told() -> object:
            for number in range(4):
                producer.produce("orders", b"x", partition=number)
            producer.flush(10)
            return found(opened, f"log directory {home / 'second'} of broker 1 is offline")

        disk = until(told, 120)
        assert disk["is_fault"] and disk["command"] == "repair its disk, then restart broker 1"
