"""Nodes that may open few files: bursts to many partitions, strangers at every door, clean stops and kills."""

import contextlib
import json
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.ports import free_port

PARTITIONS = 400
SCRIPT = """
import socket, sys, time
from contextlib import ExitStack
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
import rayft

directory, partitions, metrics = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for start in range(2):
    config = {"rayft.metrics.listen": f"127.0.0.1:{metrics}"}
    with rayft.Cluster(1, 1, directory, None if start else config, combined=True) as cluster, ExitStack() as strangers:
        for _ in range(60):
            sock = strangers.enter_context(socket.create_connection(("127.0.0.1", metrics), timeout=5))
            sock.sendall(b"GET /metrics")
        servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        if not start:
            admin = AdminClient(servers)
            admin.create_topics([NewTopic("t", partitions, 1)])["t"].result(60)
            time.sleep(2)
        producer, refused = Producer({**servers, "acks": "all"}), []
        for _ in range(3):
            for number in range(partitions):
                note = lambda error, message: refused.append(error) if error else None
                producer.produce("t", b"x" * 100, partition=number, on_delivery=note)
            assert producer.flush(60) == 0 and not refused, refused[:3]
"""

CLUSTER = """
import json, sys
import rayft
directory, metrics = sys.argv[1], int(sys.argv[2])
with rayft.Cluster(1, 1, directory, {"rayft.metrics.listen": f"127.0.0.1:{metrics}"}) as cluster:
    def told():
        doors = {"broker": cluster.bootstrap_servers, "controller": cluster.bootstrap_controllers}
        print(json.dumps({"doors": doors, "pids": dict(cluster.pids)}), flush=True)
    told()
    for word in sys.stdin:
        if word.strip() == "kill":
            cluster.kill(1, restart=False)
            cluster.start_node(1)
            cluster.wait_ready(1, 120)
        elif word.strip() == "restart":
            cluster.restart(1, 240)
            cluster.wait_ready(1, 120)
        told()
    cluster.stop(240)
"""
"""A clean stop syncs some files of each partition: thousands, which is as fast as the disk."""
MANY = 2_000
"""Partitions, each with a log that is written to."""
HALF_OPEN = 5_000
"""Connections at each door that say nothing."""
PRESSURE_S = 6.0
BACK_S = 10.0
"""A generous deadline; about a second is what it takes."""


class Cluster:
    """A controller and a broker in a process tree that may have so many files, and what was acknowledged there."""

    def __init__(self, limit: int, directory: Path) -> None:
        self.metrics = free_port()
        self._process = subprocess.Popen(
            [sys.executable, "-c", CLUSTER, str(directory), str(self.metrics)],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        self.directory = directory
        self.acknowledged: set[bytes] = set()
        self._sent = 0
        self.pids = self._told()

    def tell(self, word: str) -> None:
        """Have something done, and wait for it."""
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()
        self.pids = self._told()

    def stop(self) -> None:
        """Stop all nodes cleanly."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(300) == 0

    def end(self) -> None:
        """End what is still there."""
        if self._process.poll() is None:
            with contextlib.suppress(OSError, ValueError):
                self.stop()
            self._process.kill()

    def _told(self) -> dict[str, int]:
        assert self._process.stdout is not None
        told = json.loads(self._process.stdout.readline())
        self.doors = [
            *((host, int(port)) for host, _, port in (one.rpartition(":") for one in told["doors"].values())),
            ("127.0.0.1", self.metrics),
        ]
        self.servers = {"bootstrap.servers": told["doors"]["broker"], "log_level": 0}
        pids: dict[str, int] = told["pids"]
        return pids

    def create(self) -> None:
        """Make a topic of many partitions."""
        admin = AdminClient(self.servers)
        admin.create_topics([NewTopic("t", MANY, 1)])["t"].result(120)
        time.sleep(2)

    def burst(self, seconds: float) -> int:
        """Send a record to each partition; how many were acknowledged in that time."""
        before = len(self.acknowledged)
        producer = Producer({**self.servers, "acks": "all", "linger.ms": 5, "message.timeout.ms": int(1000 * seconds)})

        def told(error: Any, sent: Any) -> None:
            if error is None:
                self.acknowledged.add(sent.value())

        for number in range(MANY):
            producer.produce("t", b"%d" % self._sent, partition=number, on_delivery=told)
            self._sent += 1
        producer.flush(seconds + 5)
        return len(self.acknowledged) - before

    def back_after_s(self) -> float:
        """How long it takes until a new client's record is acknowledged."""
        began = time.monotonic()
        producer = Producer({**self.servers, "acks": "all", "message.timeout.ms": 60_000})
        sent = b"%d" % self._sent
        self._sent += 1
        producer.produce("t", sent, partition=0, on_delivery=lambda error, _: error or self.acknowledged.add(sent))
        assert producer.flush(60) == 0 and sent in self.acknowledged
        return time.monotonic() - began

    def read(self) -> set[bytes]:
        """All records that are there."""
        consumer = Consumer({**self.servers, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.assign([TopicPartition("t", number, 0) for number in range(MANY)])
        found: set[bytes] = set()
        quiet = time.monotonic()
        while time.monotonic() < quiet + 60 and not self.acknowledged <= found:
            for record in consumer.consume(1000, 1):
                if record.error() is None:
                    found.add(record.value())
                    quiet = time.monotonic()
        consumer.close()
        return found


@contextlib.contextmanager
def half_open(doors: list[tuple[str, int]]) -> Iterator[int]:
    """Connections that say nothing, at each door; how many."""
    opened = []
    try:
        for place in range(HALF_OPEN):
            for door in doors:
                one = socket.socket()
                one.setblocking(False)
                opened.append(one)
                with contextlib.suppress(OSError):
                    one.bind((f"127.0.{1 + place % 50}.{1 + place % 200}", 0))
                    one.connect(door)
        yield len(opened)
    finally:
        for one in opened:
            one.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("limit", [256, 1024])
def test_with_many_partitions_and_strangers_at_every_door_nothing_is_lost(limit: int, tmp_path: Path) -> None:
    cluster = Cluster(limit, tmp_path / "c")
    try:
        cluster.create()
        assert [cluster.burst(60) for _ in range(2)] == [MANY] * 2
        pids, waited = cluster.pids, []
        with half_open(cluster.doors):
            under = cluster.burst(PRESSURE_S)
        waited.append(cluster.back_after_s())
        assert cluster.burst(60) == MANY
        cluster.tell("")
        assert cluster.pids == pids, "no process has ended"
        for word in ("kill", "restart"):
            cluster.tell(word)
            waited.append(cluster.back_after_s())
            assert cluster.burst(60) == MANY
        missing = cluster.acknowledged - cluster.read()
        assert not missing, f"{len(missing)} of {len(cluster.acknowledged)} acknowledged records are lost"
        print(f"{limit}: {under} of {MANY} under pressure, back after {[round(one, 2) for one in waited]} s")
        assert max(waited) < BACK_S
        cluster.stop()
    finally:
        cluster.end()
    logs = [path for path in (tmp_path / "c").glob("*.log") if path.name != "supervisor.log"]
    lines = [line for path in logs for line in path.read_text().splitlines()]
    assert sum("ends: stopped as asked" in line for line in lines) == 3, "a restart and the end of two nodes"
    assert sum("ends: " in line for line in lines) == 3, "no process has ended by itself"
    assert not [line for line in lines if " ERROR " in line]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("limit", [256, 1024])
def test_a_burst_to_many_partitions_ends_no_node_and_it_stops_cleanly(limit: int, tmp_path: Path) -> None:
    port = free_port()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "c"), str(PARTITIONS), str(port)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
        capture_output=True,
        text=True,
        timeout=280,
        cwd=Path(__file__).parents[3],
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (log,) = [path for path in (tmp_path / "c").glob("*.log") if path.name != "supervisor.log"]
    lines = log.read_text().splitlines()
    assert sum("ends: stopped as asked" in line for line in lines) == 2, lines[-20:]
    assert sum("ends: " in line for line in lines) == 2, "no process has ended by itself"
    assert not [line for line in lines if " ERROR " in line or "no clean stop" in line]
    assert sum(f"this process may have {limit} files" in line for line in lines) == 2, "an operator is told"
