"""Kafka Connect in distributed mode, with its file connectors and exactly-once sources (KIP-618), while workers and brokers
are killed with -9: the topic has each line of the source file once and in order, and the sink file what the topic has."""

import json
import random
import re
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

import rayft
from bench.ports import free_ports
from tests.integration.applications.programs import PATIENCE_SECONDS, Program, Reader, classes, properties
from tests.integration.applications.test_streams import CONFIG
from tests.integration.conftest import everywhere

CLEANER = {"log.cleaner.backoff.ms": "200", "log.segment.delete.delay.ms": "500"}
LINES = 2000
MORE = 500
OFFSETS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "5000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}
"""The topic of offsets is compacted while workers write and read it."""
INTERNAL = ("connect-configs", "connect-offsets", "connect-status")
FILE = "org.apache.kafka.connect.file.FileStream"


class Worker:
    """One worker: a process and its REST address."""

    def __init__(self, servers: str, folder: Path, number: int) -> None:
        (self._port,) = free_ports(1)
        settings = {
            "bootstrap.servers": servers,
            "group.id": "connect",
            "listeners": f"http://127.0.0.1:{self._port}",
            "exactly.once.source.support": "enabled",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "plugin.discovery": "service_load",
            "config.storage.topic": "connect-configs",
            "offset.storage.topic": "connect-offsets",
            "status.storage.topic": "connect-status",
            "config.storage.replication.factor": 3,
            "offset.storage.replication.factor": 3,
            "status.storage.replication.factor": 3,
            "status.storage.partitions": 2,
            "offset.flush.interval.ms": 500,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 1000,
            "scheduled.rebalance.max.delay.ms": 0,
            # A worker that starts reads what was committed of its offsets, and waits for a transaction that was left open.
            "producer.transaction.timeout.ms": 5000,
        }
        file = properties(folder / f"worker-{number}.properties", settings)
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        self.program = Program(classes(), main, str(file), log=folder / f"worker-{number}.log")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One request: the decoded answer, None while the worker cannot answer it."""
        asked = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}",
            json.dumps(body).encode() if body is not None else None,
            {"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(asked, timeout=10) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            if error.code in (404, 409, 500, 503):  # it has just started, or its group is rebalancing
                return None
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from None
        except OSError:
            return None

    def give(self, name: str, config: dict[str, str]) -> None:
        """Create a connector, and wait until its task runs."""
        self.program.until(lambda: self.ask("PUT", f"/connectors/{name}/config", config))
        self.program.until(lambda: self.runs(name))

    def runs(self, name: str) -> bool:
        """Whether the connector has a task that runs."""
        status = self.ask("GET", f"/connectors/{name}/status") or {}
        failed = [one["trace"] for one in (status.get("connector", {}), *status.get("tasks", ())) if "trace" in one]
        assert not failed, failed
        return [one["state"] for one in status.get("tasks", ())] == ["RUNNING"]


def lines(first: int, count: int) -> list[str]:
    return [f"line {number} {'x' * (number % 50)}" for number in range(first, first + count)]


def _append(file: Path, first: int) -> list[str]:
    """Write more lines into the source's file."""
    more = lines(first, MORE)
    with file.open("a") as end:
        end.writelines(f"{line}\n" for line in more)
    return more


def values(reader: Reader) -> list[str]:
    return [value.decode() for _, _, _, value in reader.read["lines"] if value is not None]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("workers", "rounds"), [(1, 1), pytest.param(2, 8, marks=pytest.mark.slow)])
def test_each_line_once_while_workers_are_killed(tmp_path: Path, workers: int, rounds: int) -> None:
    choose = random.Random(rounds)
    classes()
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    written = lines(0, LINES * rounds)
    source.write_text("".join(f"{line}\n" for line in written))
    with rayft.Cluster(controllers=1, brokers=3, dir=tmp_path / "c", config=CONFIG | CLEANER) as cluster:
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        wanted = [NewTopic("lines", 1, 3), NewTopic("connect-offsets", 1, 3, config=OFFSETS)]
        for future in admin.create_topics(wanted).values():
            future.result(30)
        everywhere(cluster, "lines", 1)
        group = [Worker(servers, tmp_path, number) for number in range(workers)]
        try:
            for worker in group:
                worker.program.start()
            with Reader(servers, ["lines"]) as reader:
                group[0].give(
                    "source",
                    {
                        "connector.class": f"{FILE}SourceConnector",
                        "file": str(source),
                        "topic": "lines",
                        "batch.size": "10",
                        "exactly.once.support": "required",
                    },
                )
                for number in range(rounds):
                    before = len(values(reader)) + 300
                    goes_on = reader.until(lambda before=before: len(values(reader)) > before, PATIENCE_SECONDS)
                    assert goes_on, group[0].program.said()[-4000:]
                    victim = choose.choice(cluster.broker_ids)
                    cluster.kill(victim)
                    victims = group[number % workers].program
                    victims.kill()
                    cluster.wait_ready(victim)
                    victims.start()
                # It keeps the last lines of a file until there are more.
                written += _append(source, len(written))
                enough = len(written) - MORE
                assert reader.until(lambda: len(values(reader)) >= enough, PATIENCE_SECONDS), group[0].program.said()[
                    -4000:
                ]
                reader.quiet(1)
                assert values(reader) == written[: len(values(reader))]
                group[0].give(
                    "sink",
                    {
                        "connector.class": f"{FILE}SinkConnector",
                        "topics": "lines",
                        "file": str(sink),
                        "consumer.override.isolation.level": "read_committed",
                        "consumer.override.auto.offset.reset": "earliest",
                    },
                )
                written += _append(source, len(written))
                enough = len(written) - MORE
                assert reader.until(lambda: len(values(reader)) >= enough, PATIENCE_SECONDS), group[0].program.said()[
                    -4000:
                ]
                reader.quiet(1)
                assert values(reader) == written[: len(values(reader))]
                group[0].program.until(
                    lambda: sink.exists() and len(sink.read_text().splitlines()) >= len(values(reader))
                )
                assert sink.read_text().splitlines() == values(reader)
        finally:
            for worker in group:
                worker.program.kill()
        _compacted(admin)
        # There was an offset a transaction, of ten lines at most; the cleaner comes when it finds enough to do.
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(offsets := _offsets(servers)) >= len(written) / 10 / 2:
            assert time.monotonic() < deadline, offsets
        assert max(json.loads(one)["position"] for one in offsets) > source.stat().st_size * 0.8
        with Reader(servers, INTERNAL) as reader:
            reader.quiet(1)
            keys = {key.decode() for _, _, key, _ in reader.read["connect-configs"] if key is not None}
            assert {"connector-source", "connector-sink", "task-source-0", "session-key"} <= keys
            assert any(
                re.match("status-task-sink-0", (key or b"").decode()) for _, _, key, _ in reader.read["connect-status"]
            )


def _offsets(servers: str) -> list[bytes]:
    """What the topic of the source's offsets has now."""
    with Reader(servers, ["connect-offsets"]) as reader:
        reader.quiet(1)
        return [value for _, _, _, value in reader.read["connect-offsets"] if value is not None]


def _compacted(admin: AdminClient) -> None:
    """Connect made its topics as it needs them."""
    asked = [ConfigResource(ResourceType.TOPIC, name) for name in INTERNAL]
    for future in admin.describe_configs(asked).values():
        assert future.result(30)["cleanup.policy"].value == "compact"
