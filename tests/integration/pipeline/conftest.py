"""A cluster of either kind, for the tests of Spark and Ray by address, which are the same for both; Spark's session."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from actors.client.operations.offsets import list_offsets
from actors.client.operations.topics import describe
from actors.client.properties import READ_COMMITTED
from actors.host.client.blocking import connect
from bench import apache
from tests.integration.conftest import everywhere
from tests.unit.replay.conftest import session

__all__ = ["session"]
CONFIG = {
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "default.replication.factor": "2",
    "log.retention.ms": "-1",  # records have times of long ago
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "100",
    "log.segment.delete.delay.ms": "200",
}


class Topics:
    """Makes, grows and deletes topics of a cluster."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.servers: str = cluster.bootstrap_servers
        self.admin = AdminClient({"bootstrap.servers": self.servers})

    def make(self, name: str, partitions: int = 3, **config: str) -> str:
        """Make a topic, known to every broker. Returns its name."""
        given = {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create_topics([NewTopic(name, partitions, 2, config=given)])[name].result(30)
        everywhere(self.cluster, name, partitions)
        return name

    def delete(self, name: str) -> None:
        """Delete a topic."""
        self.admin.delete_topics([name])[name].result(30)


def settled(servers: str, *names: str) -> None:
    """Wait until no transaction is open in topics: brokers write markers a moment after they have answered a commit. It
    waits no longer than half a minute: what is open then stays so."""
    with connect(servers) as kafka:
        found = kafka.run(describe(names))
        parts = [(name, number) for name in names for number in found[name].partitions]
        for _ in range(300):
            ends, stable = (kafka.run(list_offsets(parts, isolation=one)) for one in (0, READ_COMMITTED))
            if all(ends[part].offset == stable[part].offset for part in parts):
                return
            time.sleep(0.1)


@pytest.fixture(scope="package", params=["rayft", pytest.param("apache", marks=pytest.mark.slow)])
def kafka(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A running cluster of two brokers: `.bootstrap_servers`."""
    if request.param == "rayft":
        two_phase = {"transaction.two.phase.commit.enable": "true"}
        with rayft.Cluster(controllers=1, brokers=2, config=CONFIG | two_phase) as cluster:
            yield cluster
    else:
        if apache.libs() is None:
            pytest.skip("Apache Kafka's jars are not there")
        with apache.ApacheKafka(controllers=1, brokers=2, config=CONFIG, heap="320m") as cluster:
            yield cluster


@pytest.fixture
def topics(kafka: Any) -> Topics:
    """The topics of the cluster."""
    return Topics(kafka)
