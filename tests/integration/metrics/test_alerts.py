"""Prometheus itself scrapes a real cluster, and the rules of `ops/` fire when something is killed, and are quiet before.

Needs Debian's package prometheus: its two programs in PATH."""

import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, TopicPartition

import rayft
from actors.wire.errors import ErrorCode
from bench.ports import first_of, free_port
from ops.make import rules
from tests.integration.answers.dialogue import Broker, Dialogue
from tests.integration.answers.stories import batch
from tests.integration.command.test_watching import line, running
from tests.integration.metrics.test_metrics_of_a_load import produce

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs Debian's package prometheus in PATH"),
]
NODES = 6
SECONDS_MAX = 60


class Prometheus:
    """A server that scrapes the nodes every half second."""

    def __init__(self, directory: Path, first_port: int, of_groups: str) -> None:
        self.port = free_port()
        targets = [f"127.0.0.1:{first_port + place}" for place in range(NODES)]
        (directory / "rules.yml").write_text(rules("1s", "5s"))
        (directory / "prometheus.yml").write_text(
            "global: {scrape_interval: 500ms, evaluation_interval: 500ms, scrape_timeout: 500ms}\n"
            "rule_files: [rules.yml]\n"
            "scrape_configs:\n"
            f"- {{job_name: rayft, static_configs: [{{targets: {json.dumps(targets)}}}]}}\n"
            f"- {{job_name: rayft-groups, static_configs: [{{targets: [{json.dumps(of_groups)}]}}]}}\n"
        )
        self._process = subprocess.Popen(
            [
                "prometheus", f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data",
                f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=error",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def get(self, path: str) -> Any:
        with urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}", timeout=10) as answer:
            return json.load(answer)["data"]

    def targets_up(self) -> int:
        return sum(one["health"] == "up" for one in self.get("targets")["activeTargets"])

    def firing(self) -> set[str]:
        """The alerts that fire."""
        return {one["labels"]["alertname"] for one in self.get("alerts")["alerts"] if one["state"] == "firing"}

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(20)


@contextmanager
def scraped(directory: Path, first_port: int, servers: str) -> Iterator[Prometheus]:
    """A server that scrapes the nodes, and the lags of their groups."""
    with running("metrics", "-b", servers, "--listen", "127.0.0.1:0") as exporter:
        server = Prometheus(directory, first_port, urlsplit(line(exporter).split()[3]).netloc)
        yield from _until_end(server)


def _until_end(server: Prometheus) -> Iterator[Prometheus]:
    try:
        yield server
    finally:
        server.end()


def until(server: Prometheus, *names: str) -> None:
    """Wait until alerts of these names fire."""
    end = time.monotonic() + SECONDS_MAX
    while not set(names) <= server.firing():
        assert time.monotonic() < end, f"{set(names) - server.firing()} do not fire, but {server.firing()}"
        time.sleep(0.3)


def quiet(server: Prometheus) -> None:
    """Wait until no alert fires."""
    end = time.monotonic() + SECONDS_MAX
    while server.firing():
        assert time.monotonic() < end, f"{server.firing()} still fire"
        time.sleep(0.3)


def scrapes(server: Prometheus) -> None:
    """Wait until every node is scraped and the rules were evaluated."""
    end = time.monotonic() + SECONDS_MAX
    query = "query?query=max(kafka_controller_kafkacontroller_globalpartitioncount)"
    while True:
        with contextlib.suppress(OSError):
            if server.targets_up() == NODES + 1 and server.get(query)["result"]:
                break
        assert time.monotonic() < end, "Prometheus scrapes nothing"
        time.sleep(0.3)
    time.sleep(4)


def test_alerts_fire_when_nodes_are_harmed_and_neither_before_nor_after(tmp_path: Path) -> None:
    port = first_of(NODES)
    settings = {"rayft.metrics.listen": f"127.0.0.1:{port}", "min.insync.replicas": "2"}
    with rayft.Cluster(3, 3, tmp_path / "c", settings) as cluster:
        dialogue = Dialogue(cluster.bootstrap_servers)
        topic = {"name": "t", "num_partitions": 6, "replication_factor": 2, "assignments": [], "configs": []}
        here = [{"partition_index": 0, "broker_ids": [1]}]
        configs = [{"name": "min.insync.replicas", "value": "1"}]
        alone = {
            "name": "alone",
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": here,
            "configs": configs,
        }
        dialogue.raw("CreateTopics", 5, 1, timeout_ms=10_000, topics=[topic, alone])
        dialogue.settled("t", 6)
        dialogue.settled("alone", 1)
        dialogue.close()
        with scraped(tmp_path, port, cluster.bootstrap_servers) as server:
            scrapes(server)
            assert server.firing() == set(), "all is well"
            cluster.kill(3, restart=False)
            until(server, "RayftNodeDown", "RayftFencedBrokers", "RayftUnderReplicated", "RayftUnderMinIsr")
            assert not {"RayftNoActiveController", "RayftQuorumLacksVoters"} & server.firing()
            cluster.start_node(3)
            quiet(server)
            client = Broker(cluster.address(1))
            stopped = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "stopped"})
            stopped.commit(offsets=[TopicPartition("alone", 0, 0)], asynchronous=False)
            stopped.close()
            end = time.monotonic() + SECONDS_MAX
            while "RayftGroupStopped" not in server.firing():
                assert time.monotonic() < end, "records come, and nobody reads"
                produce(client, "alone", {0: batch(b"x")}, acks=1)
                time.sleep(0.2)
            quiet(server)
            cluster.fill_disk(1)
            error = 0
            while error != ErrorCode.KAFKA_STORAGE_ERROR:
                (error,) = produce(client, "alone", {0: batch(b"x" * 100)}, acks=1)
            until(server, "RayftNoRoom")
            assert server.firing() == {"RayftNoRoom"}
            cluster.free_disk(1)
            produce(client, "alone", {0: batch(b"x")}, acks=1)
            quiet(server)
            client.close()
            active = cluster.leader_id()
            cluster.kill(active, restart=False)
            until(server, "RayftQuorumLacksVoters")
            cluster.kill(next(id for id in cluster.controller_ids if id != active), restart=False)
            until(server, "RayftNoActiveController")
