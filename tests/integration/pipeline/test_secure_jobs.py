"""A job on a cluster that asks who it is: the client's settings, TLS and SCRAM among them, come through to the tasks."""

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from pyspark.errors import PySparkException

import rayft
from actors.client.operations import topics
from actors.client.operations.producing import Producer
from actors.host.client.blocking import connect
from tests.integration.client.batches import batch

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


def test_a_job_logs_in_on_the_driver_and_in_its_tasks(session: Any, name: str) -> None:
    with rayft.Cluster(controllers=1, brokers=1, secure=True) as cluster:
        given = cluster.client_settings
        config = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": given["security.protocol"],
            "sasl.mechanism": given["sasl.mechanism"],
            "sasl.username": given["sasl.username"],
            "sasl.password": given["sasl.password"],
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": given["ssl.ca.location"],
        }
        with connect(config=config) as client:
            assert client.run(topics.create([topics.NewTopic(name, 2, 1)])) == {name: None}
            client.run(Producer(client.config).send([((name, n), batch(b"a", b"b")) for n in range(2)]))
        options = {f"kafka.{key}": value for key, value in config.items()} | {"subscribe": name}
        read = session.read.format("rayft").options(**options).load()
        assert sorted(bytes(row["value"]) for row in read.collect()) == [b"a", b"a", b"b", b"b"]
        wrong = session.read.format("rayft").options(**{**options, "kafka.sasl.password": "hush"}).load()
        with pytest.raises(PySparkException, match="the name or the password is wrong") as raised:
            wrong.collect()
        assert "hush" not in str(raised.value)
