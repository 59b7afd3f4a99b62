"""Clusters of both kinds for the tests of the client, which are the same for both."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import rayft
from bench import apache
from tests.integration.bridge.zookeeper_mode import RELEASES, ZooKeeper, ZooKeeperBrokers

CONFIG = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "log.retention.ms": "-1",  # records have times of long ago
    "group.initial.rebalance.delay.ms": "0",
}


@contextmanager
def started(kind: str) -> Iterator[Any]:
    """A running cluster of three brokers: `.bootstrap_servers`, `.kill(node)`. The test is skipped if it cannot be. `kind`:
    rayft, apache, or one of RELEASES, which have ZooKeeper."""
    if kind == "rayft":
        with rayft.Cluster(controllers=1, brokers=3, config=CONFIG) as cluster:
            yield cluster
    elif kind in RELEASES:
        with ZooKeeper() as zookeeper, ZooKeeperBrokers(zookeeper, kind, brokers=3, config=CONFIG) as cluster:
            yield cluster
    else:
        if apache.libs() is None:
            pytest.skip("Apache Kafka's jars are not there")
        with apache.ApacheKafka(controllers=1, brokers=3, config=CONFIG, heap="320m") as cluster:
            yield cluster


@pytest.fixture(scope="package", params=["rayft", "apache"])
def kafka(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A running cluster of each kind."""
    with started(request.param) as cluster:
        yield cluster
