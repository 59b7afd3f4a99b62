"""Apache Kafka's kafka-metadata-quorum.sh adds, describes and removes controllers of running nodes (KIP-853)."""

import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from actors.host import storage
from actors.host.cluster import probe
from actors.wire.messages import message
from bench.ports import free_ports
from tests.integration.conftest import ROOT, command, until

TOOL = "org.apache.kafka.tools.MetadataQuorumCommand"
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


class Nodes:
    """Node processes on loopback. Controllers know where to ask by `controller.quorum.bootstrap.servers` alone."""

    def __init__(self, home: Path, controllers: int) -> None:
        self.home = home
        ports = free_ports(controllers + 1)
        self.bootstrap_servers = f"127.0.0.1:{ports.pop()}"
        self.controllers = {1001 + place: port for place, port in enumerate(ports)}
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def file(self, id: int) -> Path:
        return self.home / f"{id}.properties"

    def make(self, id: int, known: list[int], *words: str, **settings: str) -> None:
        """Write the file of a node, and format its directory. `known`: the controllers that it can ask."""
        connect = ",".join(f"127.0.0.1:{self.controllers[one]}" for one in known)
        role, name, place = "broker", "PLAINTEXT", self.bootstrap_servers
        if id in self.controllers:
            role, name, place = "controller", "CONTROLLER", f"127.0.0.1:{self.controllers[id]}"
        lines = {
            "process.roles": role,
            "node.id": str(id),
            "listeners": f"{name}://{place}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": connect,
            "log.dirs": str(self.home / str(id)),
            "offsets.topic.replication.factor": "1",
        } | {key.replace("_", "."): value for key, value in settings.items()}
        self.file(id).write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        done = command("format", "--config", str(self.file(id)), "--cluster-id", CLUSTER_ID, *words)
        assert done.returncode == 0, done.stderr

    def start(self, id: int) -> None:
        words = [sys.executable, "-m", "actors.command.cli", "node", "--config", str(self.file(id))]
        with (self.home / f"{id}.log").open("ab") as log:
            self._running[id] = subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=log)

    def stop(self, id: int) -> None:
        process = self._running.pop(id)
        process.terminate()
        process.wait(60)

    def kill(self, id: int) -> None:
        process = self._running.pop(id)
        process.kill()
        process.wait(60)

    def close(self) -> None:
        for id in list(self._running):
            self.stop(id)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """A quorum of one controller that was formatted with --standalone, and a broker; another controller that waits."""
    made = Nodes(tmp_path, 5)
    made.make(1001, [1001], "--standalone")
    made.make(1, [1001, 1002])
    made.make(1002, [1001], "--no-initial-controllers")
    try:
        for id in (1001, 1, 1002):
            made.start(id)
        yield made
    finally:
        made.close()


def _voters(nodes: Nodes, leader: int) -> list[Any]:
    cls = message("DescribeQuorumRequest")
    topic = cls.TopicData(topic_name="__cluster_metadata", partitions=[cls.PartitionData(partition_index=0)])
    try:
        reply = probe.ask(("127.0.0.1", nodes.controllers[leader]), "DescribeQuorum", cls(topics=[topic]), 2, 5)
    except probe.NoAnswer:
        return []
    return list(reply.topics[0].partitions[0].current_voters)


def voters(nodes: Nodes, leader: int) -> list[int]:
    """The voters as their leader sees them; empty: it does not lead."""
    return sorted(one.replica_id for one in _voters(nodes, leader))


def _directories(nodes: Nodes, leader: int) -> list[bytes]:
    return [bytes(one.replica_directory_id) for one in _voters(nodes, leader)]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_controllers_are_added_and_removed_while_topics_are_made(java: Any, nodes: Nodes) -> None:
    """The first controller is replaced by the second one, by Kafka's own commands; the broker follows."""
    brokers = ("--bootstrap-server", nodes.bootstrap_servers)
    admin = AdminClient({"bootstrap.servers": nodes.bootstrap_servers, "log_level": 0})
    until(lambda: _made(admin, "before"))
    added = java.run(
        TOOL,
        "--bootstrap-controller",
        f"127.0.0.1:{nodes.controllers[1001]}",
        "--command-config",
        str(nodes.file(1002)),
        "add-controller",
    )
    assert "Added controller 1002 with directory id" in added
    features = java.run("org.apache.kafka.tools.FeatureCommand", *brokers, "describe")
    assert re.search(
        r"kraft.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 1\s+FinalizedVersionLevel: 1", features
    )
    status = java.run(TOOL, *brokers, "describe", "--status")
    assert re.search(r"LeaderId:\s+1001", status)
    for id in (1001, 1002):
        assert re.search(
            rf'"id": {id}, "directoryId": "[\w-]{{22}}", "endpoints": \["CONTROLLER://127.0.0.1:{nodes.controllers[id]}"',
            status,
        )
    directory = re.search(r'"id": 1001, "directoryId": "([\w-]{22})"', status)
    assert directory is not None
    wrong = java.run(
        TOOL,
        *brokers,
        "remove-controller",
        "--controller-id",
        "1001",
        "--controller-directory-id",
        CLUSTER_ID,
        check=False,
    )
    assert "Removed" not in wrong
    assert voters(nodes, 1001) == [1001, 1002]
    removed = java.run(
        TOOL,
        *brokers,
        "remove-controller",
        "--controller-id",
        "1001",
        "--controller-directory-id",
        directory[1],
    )
    assert "KRaft controller 1001 with directory id" in removed
    until(lambda: voters(nodes, 1002) == [1002])
    nodes.stop(1001)
    until(lambda: _made(admin, "after"))
    assert re.search(r"LeaderId:\s+1002", java.run(TOOL, *brokers, "describe", "--status"))


def _made(admin: AdminClient, topic: str) -> bool:
    try:
        admin.create_topics([NewTopic(topic, 1, 1)], request_timeout=5)[topic].result(6)
    except Exception as error:
        return "already exists" in str(error)
    return True


@contextmanager
def _topics(nodes: Nodes) -> Iterator[list[str]]:
    """Topics that were made, one after another, while the block ran."""
    admin = AdminClient({"bootstrap.servers": nodes.bootstrap_servers, "log_level": 0})
    made: list[str] = []
    over = threading.Event()

    def make() -> None:
        while not over.is_set():
            name = f"made-{len(made)}"
            if _made(admin, name):
                made.append(name)

    thread = threading.Thread(target=make)
    thread.start()
    try:
        yield made
    finally:
        over.set()
        thread.join()


@pytest.mark.timeout(300)
def test_a_quorum_grows_from_one_to_five_and_shrinks_to_three_under_load(java: Any, nodes: Nodes) -> None:
    """Growth and failover in one: Kafka's tool adds four controllers and removes the first leader and a dead one, the active
    controller is killed at five, and topics are made all the time."""
    for id in (1003, 1004, 1005):
        nodes.make(id, [1001], "--no-initial-controllers")
        nodes.start(id)
    brokers = ("--bootstrap-server", nodes.bootstrap_servers)
    with _topics(nodes) as made:

        def go_on() -> None:
            before = len(made)
            until(lambda: len(made) > before)

        for count, id in enumerate((1002, 1003, 1004, 1005), 2):
            go_on()
            words = ("--bootstrap-controller", f"127.0.0.1:{nodes.controllers[1001]}")
            words += ("--command-config", str(nodes.file(id)), "add-controller")
            assert f"Added controller {id} with directory id" in java.run(TOOL, *words)
            assert voters(nodes, 1001) == [*range(1001, 1001 + count)]

        nodes.kill(1001)
        go_on()
        nodes.start(1001)
        status = java.run(TOOL, *brokers, "describe", "--status")
        leader = int(re.search(r"LeaderId:\s+(\d+)", status)[1])  # type: ignore[index]
        assert leader != 1001 and voters(nodes, leader) == [1001, 1002, 1003, 1004, 1005]

        other = next(id for id in (1002, 1003) if id != leader)
        nodes.kill(other)
        for id in (leader, other):
            directory = re.search(rf'"id": {id}, "directoryId": "([\w-]{{22}})"', status)
            assert directory is not None
            words = ("remove-controller", "--controller-id", str(id), "--controller-directory-id", directory[1])
            assert f"KRaft controller {id} with directory id" in java.run(TOOL, *brokers, *words)
            go_on()
        rest = sorted({1001, 1002, 1003, 1004, 1005} - {leader, other})
        nodes.stop(leader)
        until(lambda: any(voters(nodes, id) == rest for id in rest))
        go_on()

    found = AdminClient({"bootstrap.servers": nodes.bootstrap_servers}).list_topics(timeout=30).topics
    assert set(made) <= set(found)
    print(f"{len(made)} topics were made while the quorum changed")


@pytest.mark.timeout(240)
def test_a_controller_that_lost_its_disk_votes_again(java: Any, nodes: Nodes) -> None:
    """Its directory is formatted anew, and with `controller.quorum.auto.join.enable` its start brings it back."""
    nodes.make(1003, [1001, 1002], "--no-initial-controllers", controller_quorum_auto_join_enable="true")
    nodes.start(1003)
    until(lambda: voters(nodes, 1001) == [1001, 1003])
    add = ("--bootstrap-controller", f"127.0.0.1:{nodes.controllers[1001]}", "--command-config", str(nodes.file(1002)))
    until(lambda: "Added controller" in java.run(TOOL, *add, "add-controller", check=False))
    nodes.stop(1003)
    before = storage.read(str(nodes.home / "1003"))
    shutil.rmtree(nodes.home / "1003")
    nodes.make(1003, [1001, 1002], "--no-initial-controllers", controller_quorum_auto_join_enable="true")
    after = storage.read(str(nodes.home / "1003"))
    assert before is not None
    assert after is not None
    assert before.directory_id != after.directory_id
    nodes.start(1003)
    until(lambda: after.directory_id in _directories(nodes, 1001))
    assert voters(nodes, 1001) == [1001, 1002, 1003]
    assert before.directory_id not in _directories(nodes, 1001)
