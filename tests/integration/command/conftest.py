"""Clusters of both kinds for the commands by address: one with access rules, and one of two brokers, of which one goes."""

import signal
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

import rayft
from bench import apache
from tests.integration.command.typed import APACHE

KINDS = ["rayft", pytest.param("kafka", marks=pytest.mark.slow)]
RULES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def require_apache() -> None:
    """Skip the test if Apache Kafka cannot be started."""
    if apache.libs() is None:
        pytest.skip("no java, or Apache Kafka's jars are not in .kafka/libs: `make kafka` fetches them")


@pytest.fixture(scope="module", params=KINDS)
def ruled(request: pytest.FixtureRequest) -> Iterator[str]:
    """host:port of the broker of a cluster with access rules, in which anonymous is a super user."""
    if request.param == "rayft":
        with rayft.Cluster(controllers=1, brokers=1, config=RULES) as cluster:
            yield cluster.bootstrap_servers
        return
    require_apache()
    with apache.ApacheKafka(controllers=1, brokers=1, config=APACHE | RULES, heap="320m") as kafka:
        yield kafka.bootstrap_servers


class Two(NamedTuple):
    """A cluster of two brokers."""

    servers: str
    freeze: Callable[[], None]
    """A function after which broker 2 copies nothing, and is still there for the controller for a while."""
    end: Callable[[], None]
    """A function that ends broker 2 for good."""


@pytest.fixture(params=KINDS)
def two(request: pytest.FixtureRequest) -> Iterator[Two]:
    """A cluster of two brokers that elects preferred leaders only when it is asked to."""
    if request.param == "rayft":
        with rayft.Cluster(controllers=1, brokers=2) as cluster:
            yield Two(
                cluster.bootstrap_servers,
                lambda: cluster.kill(2, signal.SIGSTOP),
                lambda: cluster.kill(2, restart=False),
            )
        return
    require_apache()
    config = APACHE | {"auto.leader.rebalance.enable": "false"}
    with apache.ApacheKafka(controllers=1, brokers=2, config=config, heap="320m") as kafka:
        yield Two(kafka.bootstrap_servers, lambda: kafka.kill(2), lambda: kafka.kill(2))
