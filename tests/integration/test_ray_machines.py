"""A cluster on a Ray of three machines, each an address of the loopback network: it is spread, killed, and loses its
head."""

import contextlib
import json
import os
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.ports import free_port
from tests.integration import rays

pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
MACHINES = ("127.0.0.2", "127.0.0.3")
"""The machines beside the head. Ray knows the head by this machine's own address."""
WITHOUT_HEAD_S = 90
"""Longer than Ray's nodes wait for a head by default (cluster.yaml, rays.environment)."""
RECORDS = 500


def create(bootstrap_servers: str, topic: str, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(topic, 3, replicas)], operation_timeout=30)[topic].result(40)


def produce(bootstrap_servers: str, topic: str, first: int) -> None:
    """Produce RECORDS records, all acknowledged by every replica in the ISR."""
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "acks": "all", "enable.idempotence": True, "log_level": 0}
    )
    errors: list[object] = []
    for number in range(first, first + RECORDS):
        producer.produce(topic, str(number).encode(), on_delivery=lambda error, _: error and errors.append(error))
    assert producer.flush(60) == 0 and not errors


def consumed(bootstrap_servers: str, topic: str, count: int) -> list[int]:
    """The values in the topic, sorted, once there are `count` of them."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "g", "log_level": 0})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(3)])
    found: list[int] = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        found += [int(one.value()) for one in consumer.consume(1000, 1.0) if not one.error()]
    consumer.close()
    return sorted(found)


def test_machines_heads_and_actors_may_fail(tmp_path: Path) -> None:
    """Nodes are spread over the machines, and a killed actor comes back with its data. Without the head's GCS, and thus
    without the head's machine, the quorum commits and brokers serve for longer than Ray waits for a head by default."""
    around = rays.environment(tmp_path / "home")
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(rays.started(around))
        for ip in MACHINES:
            stack.enter_context(rays.joined(around, address, ip))
        directory = tmp_path / "cluster"
        ran = rays.rayft(around, address, directory, "up", "--port", str(free_port()))
        assert ran.returncode == 0, ran.stderr
        described = json.loads((directory / "cluster.json").read_text())
        for kind in ("controllers", "brokers"):
            assert len({row["host"] for row in described[kind]}) == 1 + len(MACHINES), f"{kind} are spread"
        servers = ",".join(f"{row['host']}:{row['port']}" for row in described["brokers"])
        create(servers, "kept", 3)
        produce(servers, "kept", 0)

        log = directory / "broker-2.log"
        served = log.read_text().count("serves clients")
        os.kill(next(row["pid"] for row in described["brokers"] if row["id"] == 2), signal.SIGKILL)
        deadline = time.monotonic() + 90
        while log.read_text().count("serves clients") == served:
            assert time.monotonic() < deadline, "Ray did not start the broker again"
            time.sleep(0.2)
        assert "starts anew" not in log.read_text()
        produce(servers, "kept", RECORDS)
        assert consumed(servers, "kept", 2 * RECORDS) == list(range(2 * RECORDS))

        os.kill(rays.gcs(address), signal.SIGKILL)
        ends = time.monotonic() + WITHOUT_HEAD_S
        number = 0
        while time.monotonic() < ends:
            create(servers, f"without-head-{number}", 2)
            number += 1
            time.sleep(5)
        produce(servers, "kept", 2 * RECORDS)
        assert consumed(servers, "kept", 3 * RECORDS) == list(range(3 * RECORDS))
