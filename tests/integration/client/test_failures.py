"""Brokers that are killed while the client writes and reads: nothing is lost, and nothing is there twice."""

import threading
import time
from typing import Any

import pytest

from actors.client.errors import ClientError, NotInTime
from actors.client.operations import topics
from actors.client.operations.fetching import Fetcher
from actors.client.operations.producing import Placed, Producer
from actors.host.client.blocking import connect
from bench.apache import ApacheKafka
from tests.integration.client.batches import batch, values

pytestmark = pytest.mark.timeout(240)
PARTITIONS, BATCHES, AT_ONCE = 3, 600, 12


def test_nothing_is_lost_and_nothing_twice_over_kills(kafka: Any, name: str) -> None:
    parts = [(name, n) for n in range(PARTITIONS)]
    failed: list[BaseException] = []
    with connect(kafka.bootstrap_servers) as client:
        client.run(topics.create([topics.NewTopic(name, PARTITIONS, 3)]))
        first = client.metadata.leader(name, 0)

    written = threading.Event()

    def write() -> None:
        try:
            with connect(kafka.bootstrap_servers) as client:
                producer = Producer(client.config)
                for start in range(0, BATCHES, AT_ONCE):
                    some = [(parts[n % PARTITIONS], batch(b"%d" % n)) for n in range(start, start + AT_ONCE)]
                    placed = client.run(producer.send(some), timeout_s=90)
                    assert all(isinstance(one, Placed) for one in placed), placed
                    time.sleep(0.05)
                    if start >= BATCHES // 4:
                        written.set()
        except BaseException as error:
            failed.append(error)
        finally:
            written.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with connect(kafka.bootstrap_servers) as client:
            fetcher = Fetcher(client.config, dict.fromkeys(parts, 0))
            found: dict[Any, list[bytes]] = {part: [] for part in parts}
            killed = False
            while sum(map(len, found.values())) < BATCHES and not failed:
                for one in client.run(fetcher.fetch(), timeout_s=90):
                    found[one.topic, one.partition] += values(one)
                if written.is_set() and not killed:
                    killed = True
                    kafka.kill(first)
                    if isinstance(kafka, ApacheKafka):
                        kafka.start(first)
    finally:
        writer.join()
    assert not failed, failed
    assert found == {parts[p]: [b"%d" % n for n in range(p, BATCHES, PARTITIONS)] for p in range(PARTITIONS)}


def test_nobody_there_says_so_in_time() -> None:
    with connect("127.0.0.1:1") as client:
        begun = time.monotonic()
        with pytest.raises(NotInTime, match=r"127.0.0.1:1: nothing listens there \(connection refused\)"):
            client.run(topics.describe(), timeout_s=0.7)
        assert 0.6 < time.monotonic() - begun < 3


def test_a_second_bootstrap_server_helps(kafka: Any) -> None:
    for servers in (f"127.0.0.1:1,{kafka.bootstrap_servers}", f"{kafka.bootstrap_servers},127.0.0.1:1"):
        with connect(servers) as client:
            client.run(topics.describe(), timeout_s=10)


def test_tls_where_there_is_none(kafka: Any) -> None:
    with connect(kafka.bootstrap_servers, {"security.protocol": "SSL"}) as client, pytest.raises(ClientError):
        client.run(topics.describe(), timeout_s=8)


def test_a_login_where_there_is_none(kafka: Any) -> None:
    config = {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "hush",
    }  # fmt: skip
    with connect(kafka.bootstrap_servers, config) as client:
        with pytest.raises(ClientError, match=r"asks for no login there|SaslHandshake") as raised:
            client.run(topics.describe(), timeout_s=8)
        assert "hush" not in str(raised.value)
