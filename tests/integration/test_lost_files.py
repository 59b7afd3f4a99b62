"""Real brokers that lose files: those of one partition, and those of one of two log directories."""

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from tests.integration.conftest import two_directories, until

CONFIG = {"registration.lease.timeout.ms": "3000", "registration.heartbeat.interval.ms": "500"}


def created(servers: dict[str, object], name: str, assignment: list[list[int]]) -> AdminClient:
    admin = AdminClient(servers)
    topic = NewTopic(name, len(assignment), replica_assignment=assignment, config={"min.insync.replicas": "1"})
    admin.create_topics([topic])[name].result(30)
    return admin


def produced(servers: dict[str, object], name: str, partitions: int) -> int:
    """Produce a hundred records. Returns how many are not acknowledged by all in-sync replicas.

    The producer is idempotent: if a leader's directory fails after it appended and before it answered, the producer
    sends the batch again to the next leader, which may have it already.
    """
    producer = Producer(servers | {"acks": "all", "enable.idempotence": True, "message.timeout.ms": "30000"})
    for number in range(100):
        producer.produce(name, b"%d" % number, partition=number % partitions)
    return int(producer.flush(60))


@pytest.mark.timeout(200)
def test_a_partition_that_is_removed_under_its_broker_does_not_come_back_empty(tmp_path: Path) -> None:
    with rayft.Cluster(controllers=1, brokers=1, dir=tmp_path / "c", config=CONFIG) as cluster:
        servers: dict[str, object] = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        admin = created(servers, "orders", [[1]])
        assert produced(servers, "orders", 1) == 0

        def leader() -> int:
            return admin.list_topics("orders", timeout=20).topics["orders"].partitions[0].leader

        until(lambda: "orders 0 100" in (tmp_path / "c/broker-1/replication-offset-checkpoint").read_text())
        shutil.rmtree(tmp_path / "c" / "broker-1" / "orders-0")
        until(lambda: "ERROR orders-0 is offline" in cluster.log(1))
        until(lambda: leader() == -1)
        cluster.restart(1)
        until(lambda: "this broker had files of it, and they are not there" in cluster.log(1))
        assert leader() == -1
        admin.delete_topics(["orders"])["orders"].result(30)
        created(servers, "orders", [[1]])
        assert produced(servers, "orders", 1) == 0


@pytest.mark.timeout(200)
def test_a_broker_goes_on_without_one_of_its_directories(tmp_path: Path) -> None:
    home = tmp_path / "c"
    two_directories(home, 2, CONFIG)
    with rayft.Cluster(dir=home) as cluster:
        servers: dict[str, object] = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        admin = created(servers, "orders", [[1, 2]] * 4)
        assert produced(servers, "orders", 4) == 0
        here = [path.name for path in (home / "second").glob("orders-*")]
        assert len(here) == 2
        pid = cluster.pids[1]
        (home / "second").rename(home / "gone")
        while True:
            try:
                (home / "second").write_bytes(b"")  # so that every name in it is an error
                break
            except IsADirectoryError:  # a checkpoint was written meanwhile, and made the directory anew
                shutil.rmtree(home / "second", ignore_errors=True)
        assert produced(servers, "orders", 4) == 0
        until(lambda: f"log directory {home / 'second'} is offline" in cluster.log(1))

        def leaders() -> list[int]:
            topic = admin.list_topics("orders", timeout=20).topics["orders"]
            return [topic.partitions[number].leader for number in range(4)]

        wanted = [2 if f"orders-{number}" in here else 1 for number in range(4)]
        until(lambda: leaders() == wanted)
        assert produced(servers, "orders", 4) == 0
        assert cluster.pids[1] == pid, "it is the same process"
        offsets = admin.list_offsets({TopicPartition("orders", number): _latest() for number in range(4)})
        assert [one.result(30).offset for one in offsets.values()] == [75] * 4


def _latest() -> object:
    from confluent_kafka.admin import OffsetSpec

    return OffsetSpec.latest()
