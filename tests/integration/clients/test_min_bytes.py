"""Consumers that ask for more bytes than a segment or an answer holds are not made to wait while there is more to read."""

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.conftest import everywhere, kafka_libs

WAIT_MS = 60_000
"""How long one answer may wait. A reading takes several dozen answers, and must be over before one wait is."""
RECORDS, RECORD_BYTES = 6_000, 1_000
READ = 4_000
"""So many are read: behind them is more than an answer holds."""
MIN_BYTES = (900_000, 3_000_000, 50_000_000)


@pytest.fixture(scope="module")
def topic(cluster: Any) -> str:
    """One of small segments."""
    name = "small-segments"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    new = NewTopic(name, 1, 1, config={"segment.bytes": str(1 << 20)})
    admin.create_topics([new])[name].result(30)
    everywhere(cluster, name, 1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "batch.size": 50_000})
    for _ in range(RECORDS):
        producer.produce(name, b"x" * RECORD_BYTES, partition=0)
    assert producer.flush(60) == 0
    return name


@pytest.mark.parametrize("min_bytes", MIN_BYTES)
def test_librdkafka_waits_for_no_more_than_an_answer_holds(cluster: Any, topic: str, min_bytes: int) -> None:
    settings: dict[str, Any] = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "nobody",
        "enable.auto.commit": False,
        "fetch.min.bytes": min_bytes,
        "fetch.wait.max.ms": WAIT_MS,
        "socket.timeout.ms": 2 * WAIT_MS,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    end, read = time.monotonic() + WAIT_MS / 1000, 0
    while read < READ and time.monotonic() < end:
        read += sum(1 for one in consumer.consume(1_000, 0.5) if one.error() is None)
    consumer.close()
    assert read >= READ, f"{read} records within the time of one answer that waits"


@pytest.mark.parametrize("min_bytes", MIN_BYTES[1:2])
def test_java_waits_for_no_more_than_an_answer_holds(cluster: Any, topic: str, min_bytes: int, tmp_path: Path) -> None:
    libs = kafka_libs()
    if libs is None:
        pytest.skip("no jars of Apache Kafka: `make kafka` fetches them where it can")
    settings = tmp_path / "consumer.properties"
    settings.write_text(
        f"fetch.min.bytes={min_bytes}\nfetch.max.wait.ms={WAIT_MS}\nrequest.timeout.ms={2 * WAIT_MS}\n"
        "auto.offset.reset=earliest\nenable.auto.commit=false\n"
    )
    command = [
        "java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{libs}/*", "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "--bootstrap-server", cluster.bootstrap_servers, "--topic", topic, "--max-messages", str(READ),
        "--command-config", str(settings),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_MS / 1000)
    assert done.returncode == 0 and done.stdout.count("\n") == READ, done.stderr[-2000:]
