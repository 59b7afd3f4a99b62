"""Clients push their metrics (KIP-714), unmodified: librdkafka and Apache Kafka's own; the broker shows them."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from actors.host.cluster import probe
from actors.wire.messages import message
from bench.ports import free_port
from tests.integration.answers.dialogue import Broker
from tests.integration.conftest import Java, until

Observed = tuple[Any, tuple[str, int]]


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    """A broker that shows metrics, and where."""
    port = free_port()
    directory = tmp_path_factory.mktemp("telemetry")
    config = {"rayft.metrics.listen": f"127.0.0.1:{port}"}
    with rayft.Cluster(1, 1, directory / "c", config, combined=True) as cluster:
        yield cluster, ("127.0.0.1", port)


def subscribe(cluster: Any, name: str, **values: str) -> None:
    kind = message("IncrementalAlterConfigsRequest")
    configs = [
        kind.AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
        for key, value in values.items()
    ]
    resource = kind.AlterConfigsResource(resource_type=16, resource_name=name, configs=configs)
    host, _, port = cluster.bootstrap_servers.partition(":")
    broker = Broker((host, int(port)))
    reply = broker.ask("IncrementalAlterConfigs", 1, kind(resources=[resource]))
    broker.close()
    assert reply.responses[0].error_code == 0, reply.responses[0].error_message


def shown(page: tuple[str, int], client: str) -> dict[str, float]:
    """What the page has of a client, by client id."""
    return {name: value for name, value in probe.metrics(page).items() if f'client_id="{client}"' in name}


def test_librdkafka(observed: Observed) -> None:
    cluster, page = observed
    match = "client_id=c-.*,client_software_name=(confluent-kafka-python|librdkafka)"
    subscribe(cluster, "librdkafka", metrics="*", interval_ms="500", match=match)
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "enable.metrics.push": True}
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(30)
    asked, other = Producer(servers | {"client.id": "c-1"}), Producer(servers | {"client.id": "d-1"})

    def pushed() -> bool:
        for producer in (asked, other):
            producer.produce("t", b"x")
            producer.poll(0.1)
        return any(name.startswith("org_apache_kafka_producer_") for name in shown(page, "c-1"))

    until(pushed)
    found = shown(page, "c-1")
    assert all('client_software_name="confluent-kafka-python"' in name for name in found)
    assert not shown(page, "d-1"), "no subscription matches it"
    assert probe.metrics(page)["kafka_server_clientmetrics_clientmetricsinstancecount"] >= 2
    asked.flush(10)


def test_apache_kafkas_clients(observed: Observed, java: Java) -> None:
    """They ask by themselves: enable.metrics.push is true unless somebody says otherwise."""
    cluster, page = observed
    subscribe(cluster, "java", metrics="org.apache.kafka.producer.", interval_ms="300", match="client_id=perf")
    seen: dict[str, float] = {}
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            java.run, "org.apache.kafka.tools.ProducerPerformance", "--topic", "p", "--num-records", "20000",
            "--record-size", "10", "--throughput", "5000", "--producer-props",
            f"bootstrap.servers={cluster.bootstrap_servers}", "client.id=perf",
        )  # fmt: skip
        while not running.done():
            seen |= shown(page, "perf")
            time.sleep(0.1)
        running.result()
    names = {name.partition("{")[0] for name in seen}
    assert "org_apache_kafka_producer_record_send_total" in names, sorted(names)
    assert all(name.startswith("org_apache_kafka_producer_") for name in names), "what it was asked for, and no more"
    assert all('client_software_name="apache-kafka-java"' in name for name in seen)
    sent = [value for name, value in seen.items() if name.startswith("org_apache_kafka_producer_record_send_total{")]
    assert 0 < max(sent) <= 20_000
    until(lambda: not shown(page, "perf"))
    assert "cannot" not in cluster.log(1)
