"""An upgrade with real processes: brokers that are told of metadata get a control plane, and then pull (KIP-291).

The walk is that of docs/operations.md. librdkafka writes all the time, idempotently; in the end every record that was
delivered is there, once, in its order.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.ports import free_ports
from tests.integration.conftest import command

ROOT = Path(__file__).parent.parent.parent
CONTROLLER = 1001
BROKERS = (1, 2, 3)
TOLD = (1, 2)
PARTITIONS = 4
PROTOCOLS = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CP:PLAINTEXT"


class Nodes:
    """A controller and three brokers, of which two are told; each with a properties file that may be changed."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.ports = free_ports(1 + 3 * len(BROKERS))
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        common = {
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{CONTROLLER}@127.0.0.1:{self.ports[0]}",
            "listener.security.protocol.map": PROTOCOLS,
            "inter.broker.listener.name": "INTERNAL",
            "offsets.topic.replication.factor": "1",
        }
        self.settings: dict[int, dict[str, str]] = {
            CONTROLLER: common
            | {
                "process.roles": "controller",
                "controller.id": str(CONTROLLER),
                "listeners": f"CONTROLLER://127.0.0.1:{self.ports[0]}",
                "rayft.metadata.push.enable": "true",
            }
        }
        for id in BROKERS:
            data, internal, plane = self.of(id)
            listeners = f"PLAINTEXT://127.0.0.1:{data},INTERNAL://127.0.0.1:{internal},CP://127.0.0.1:{plane}"
            self.settings[id] = common | {
                "process.roles": "broker",
                "broker.id": str(id),
                "listeners": listeners,
                "rayft.metadata.source": "push" if id in TOLD else "log",
            }
        identity = command("random-id").stdout.strip()
        for id in (CONTROLLER, *BROKERS):
            self.write(id)
            alone = ["--standalone"] if id == CONTROLLER else []
            ran = command("format", "--config", str(self.file(id)), "--cluster-id", identity, *alone)
            assert ran.returncode == 0, ran.stderr
            self.start(id)
        for id in BROKERS:
            self.serves(id, 1)

    def of(self, id: int) -> list[int]:
        """Ports of a broker: clients, brokers, control plane."""
        return self.ports[3 * id - 2 : 3 * id + 1]

    def file(self, id: int) -> Path:
        return self.home / f"{id}.properties"

    def log(self, id: int) -> str:
        return (self.home / f"{id}.log").read_text()

    def write(self, id: int) -> None:
        values = self.settings[id] | {"log.dirs": str(self.home / f"data-{id}")}
        self.file(id).write_text("".join(f"{name}={value}\n" for name, value in values.items()))

    def start(self, id: int) -> None:
        with (self.home / f"{id}.log").open("ab") as out:
            node = [sys.executable, "-m", "actors.command.cli", "node", "--config", str(self.file(id))]
            self.processes[id] = subprocess.Popen(node, cwd=ROOT, stdout=out, stderr=out)

    def restart(self, id: int, **settings: str | None) -> None:
        """Stop a node in order, and start it with other settings."""
        before = self.log(id).count("serves clients")
        self.processes[id].terminate()
        assert self.processes[id].wait(60) == 0, self.log(id)[-2000:]
        for name, value in settings.items():
            if value is None:
                self.settings[id].pop(name, None)
            else:
                self.settings[id][name] = value
        self.write(id)
        self.start(id)
        if id in BROKERS:
            self.serves(id, before + 1)

    def serves(self, id: int, times: int) -> None:
        deadline = time.monotonic() + 60
        while self.log(id).count("serves clients") < times:
            assert time.monotonic() < deadline, self.log(id)[-3000:]
            time.sleep(0.05)

    def bytes_on(self, id: int) -> bool:
        """Whether a connection is open on the control plane of a broker."""
        port = f"{self.of(id)[2]:04X}"
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return any(row[1].endswith(":" + port) and row[3] == "01" for row in rows)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self.of(id)[0]}" for id in BROKERS)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    found = Nodes(tmp_path)
    try:
        yield found
    finally:
        for process in found.processes.values():
            process.kill()
            process.wait()


class Writer:
    """A producer that never stops, and what it was told is written."""

    def __init__(self, bootstrap: str) -> None:
        self.delivered: list[tuple[int, int, bytes]] = []
        """(partition, offset, value)"""
        self.failed: list[Any] = []
        self._producer = Producer({
            "bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all", "linger.ms": 1,
            "message.timeout.ms": 120_000, "socket.timeout.ms": 10_000, "topic.metadata.refresh.interval.ms": 1_000,
        })  # fmt: skip
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            value = str(number).encode()
            self._producer.produce("t", value, partition=number % PARTITIONS, on_delivery=self._told)
            number += 1
            self._producer.poll(0.002)
        assert self._producer.flush(120) == 0

    def _told(self, error: Any, record: Any) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            self.delivered.append((record.partition(), record.offset(), record.value()))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def read_all(bootstrap: str, counts: dict[int, int]) -> dict[int, list[bytes]]:
    """Every record by partition, at least so many."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "r", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("t", number, 0) for number in range(PARTITIONS)])
    found: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
    deadline = time.monotonic() + 60
    while any(len(found[number]) < counts[number] for number in counts):
        assert time.monotonic() < deadline, {number: len(values) for number, values in found.items()}
        record = consumer.poll(1)
        if record is not None and record.error() is None:
            found[record.partition()].append(record.value())
    consumer.close()
    return found


@pytest.mark.slow
def test_r291_40_41_73_74_an_upgrade_from_told_to_pulling_loses_nothing(nodes: Nodes) -> None:
    admin = AdminClient({"bootstrap.servers": nodes.bootstrap})
    topic = NewTopic("t", PARTITIONS, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([topic])["t"].result(30)
    writer = Writer(nodes.bootstrap)
    try:
        time.sleep(1)
        assert not any(nodes.bytes_on(id) for id in BROKERS), "round 1: the endpoints are there, and nobody uses them"
        for id in TOLD:
            nodes.restart(id, **{"control.plane.listener.name": "CP"})
        assert not any(nodes.bytes_on(id) for id in BROKERS), "controllers do not know the setting yet"
        nodes.restart(CONTROLLER, **{"control.plane.listener.name": "CP"})
        deadline = time.monotonic() + 30
        while not all(nodes.bytes_on(id) for id in TOLD):
            assert time.monotonic() < deadline, "round 2: controllers use the control plane"
            time.sleep(0.05)
        assert not nodes.bytes_on(3), "who pulls is told nothing"
        for id in TOLD:
            nodes.restart(id, **{"rayft.metadata.source": "log"})
        assert not any(nodes.bytes_on(id) for id in BROKERS), "round 3: nobody has to be told any more"
        nodes.restart(CONTROLLER, **{"rayft.metadata.push.enable": "false", "control.plane.listener.name": None})
        before = len(writer.delivered)
        while len(writer.delivered) < before + 100:
            assert time.monotonic() < deadline + 60
            time.sleep(0.05)
    finally:
        writer.stop()
    assert not writer.failed and len(writer.delivered) > 1000
    counts = {number: sum(one[0] == number for one in writer.delivered) for number in range(PARTITIONS)}
    found = read_all(nodes.bootstrap, counts)
    for number, values in found.items():
        assert len(values) == counts[number], "nothing is there twice"
        assert values == sorted(values, key=int), "and all in order"
        assert all(values[offset] == value for partition, offset, value in writer.delivered if partition == number)
    for id in (CONTROLLER, *BROKERS):
        assert "Traceback" not in nodes.log(id)
