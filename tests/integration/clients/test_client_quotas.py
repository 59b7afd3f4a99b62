"""Client quotas with clients that know nothing of them beforehand: librdkafka's producer and consumer, Java's tools.

The rates are taken over three samples instead of eleven, so that a few seconds suffice.
"""

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

import rayft
from tests.integration.answers.dialogue import Dialogue
from tests.integration.conftest import until

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

SECONDS = 6
RATE = 200_000
CONFIG = {"quota.window.num": "3", "controller.quota.window.num": "3", "num.partitions": "1"}


@pytest.fixture(scope="module")
def limited() -> Iterator[rayft.Cluster]:
    """A cluster of its own."""
    with rayft.Cluster(controllers=1, brokers=1, config=CONFIG) as running:
        yield running


def limit(cluster: rayft.Cluster, key: str, value: float | None, **entity: str | None) -> None:
    """Set a quota, or remove it, and wait until the broker knows."""
    parts = {type.replace("_", "-"): name for type, name in entity.items()}
    dialogue = Dialogue(cluster.bootstrap_servers)
    try:
        op = {"key": key, "value": value or 0.0, "remove": value is None}
        entry = {"entity": [{"entity_type": type, "entity_name": name} for type, name in parts.items()], "ops": [op]}
        assert dialogue.raw("AlterClientQuotas", 1, entries=[entry]).entries[0].error_code == 0
        dialogue.quotas_shown([(parts, set() if value is None else {key})])
    finally:
        dialogue.close()


def producer(cluster: rayft.Cluster, client_id: str) -> Any:
    return confluent_kafka.Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers, "client.id": client_id, "acks": "all", "linger.ms": 5,
            "batch.size": 20_000, "queue.buffering.max.messages": 400,
        }
    )  # fmt: skip


def produced(cluster: rayft.Cluster, topic: str, client_id: str, seconds: float) -> float:
    """Acknowledged bytes a second of a producer that sends what it can, after what it may save up is used."""
    client, done = producer(cluster, client_id), list[float]()

    def acknowledged(error: Any, _: Any) -> None:
        assert error is None, error
        done.append(time.monotonic())

    began, warm = time.monotonic(), seconds / 2
    while time.monotonic() < began + warm + seconds:
        try:
            client.produce(topic, bytes(1000), on_delivery=acknowledged)
        except BufferError:
            client.poll(0.02)
        client.poll(0)
    client.flush(30)
    return 1000 * sum(began + warm <= at < began + warm + seconds for at in done) / seconds


def test_a_producer_gets_what_its_quota_gives_it_and_another_one_is_not_slowed(
    limited: rayft.Cluster, name: str
) -> None:
    limit(limited, "producer_byte_rate", RATE, client_id="slow")
    assert RATE * 0.75 < produced(limited, name, "slow", SECONDS) < RATE * 1.25
    assert produced(limited, name, "fast", 0.5) > RATE * 5


def test_a_consumer_reads_at_its_quota(limited: rayft.Cluster, name: str) -> None:
    source = producer(limited, "fast")
    for number in range(3500):
        source.produce(name, bytes(1000))
        if number % 300 == 0:
            source.flush(30)
    source.flush(30)
    limit(limited, "consumer_byte_rate", RATE, user="ANONYMOUS", client_id="reader")
    reader = confluent_kafka.Consumer(
        {
            "bootstrap.servers": limited.bootstrap_servers, "client.id": "reader", "group.id": name,
            "auto.offset.reset": "earliest", "fetch.message.max.bytes": 50_000, "queued.max.messages.kbytes": 100,
        }
    )  # fmt: skip
    reader.assign([confluent_kafka.TopicPartition(name, 0, 0)])
    came: list[float] = []
    began = time.monotonic()
    while time.monotonic() < began + 3 + SECONDS:
        message = reader.poll(0.5)
        if message is not None and message.error() is None:
            came.append(time.monotonic())
    reader.close()
    rate = 1000 * sum(at >= began + 3 for at in came) / SECONDS
    assert RATE * 0.75 < rate < RATE * 1.25


def test_an_admin_client_that_makes_too_many_topics_waits(limited: rayft.Cluster, name: str) -> None:
    limit(limited, "controller_mutation_rate", 5, client_id="maker")
    maker = admin.AdminClient({"bootstrap.servers": limited.bootstrap_servers, "client.id": "maker"})

    def make(suffix: str, partitions: int) -> float:
        began = time.monotonic()
        for future in maker.create_topics([admin.NewTopic(f"{name}-{suffix}", partitions, 1)]).values():
            future.result(30)
        return time.monotonic() - began

    make("a", 25)
    assert make("b", 1) > 1, "ten tokens are owed, and five come back in a second"


def test_kafka_configs_sets_shows_and_removes_quotas(java: Any, limited: rayft.Cluster, name: str) -> None:
    def configs(*arguments: str) -> str:
        servers = ("--bootstrap-server", limited.bootstrap_servers)
        return str(java.run("kafka.admin.ConfigCommand", *servers, *arguments))

    both = ("--entity-type", "users", "--entity-name", name, "--entity-type", "clients", "--entity-default")
    user, address = (
        ("--entity-type", "users", "--entity-name", name),
        ("--entity-type", "ips", "--entity-name", "10.1.2.3"),
    )
    configs("--alter", *user, "--add-config", "producer_byte_rate=1024,request_percentage=12.5")
    configs("--alter", *both, "--add-config", "consumer_byte_rate=2048")
    configs("--alter", *address, "--add-config", "connection_creation_rate=7")
    until(lambda: "connection_creation_rate=7.0" in configs("--describe", *address))
    shown = configs("--describe", "--entity-type", "users", "--entity-name", name)
    assert "producer_byte_rate=1024.0" in shown and "request_percentage=12.5" in shown
    shown = configs("--describe", *both)
    assert re.search(rf"user-principal '{name}', the default client-id are.*consumer_byte_rate=2048.0", shown), shown
    configs("--alter", *user, "--delete-config", "producer_byte_rate,request_percentage")
    until(lambda: "producer_byte_rate" not in configs("--describe", "--entity-type", "users", "--entity-name", name))
