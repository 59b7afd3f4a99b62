"""Disk errors that a client meets: no answer names a path or a file of the server. Those belong into the server's log.

Before, a Produce answer contained the path of the log file that had no room.
"""

import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rayft
from actors.wire import framing
from actors.wire.errors import ErrorCode
from tests.integration.answers.dialogue import request
from tests.integration.conftest import two_directories
from tests.integration.hostile.conftest import CONFIG
from tests.integration.hostile.produced import (
    LIST_OFFSETS,
    MEBIBYTE,
    PRODUCE,
    bomb,
    create,
    offsets_request,
    produce_request,
)
from tests.integration.hostile.scene import Peer, Scene, encoded

USED, PARTITIONS = 4, 8
"""The number of partitions with files when their directory is lost, and the number of all partitions."""
FILE_BYTES_MAX = 2 * MEBIBYTE
"""No file of the broker can grow beyond this size: the kernel returns EFBIG, which counts as a full disk."""


@pytest.fixture
def directories(tmp_path: Path) -> Iterator[Scene]:
    """A controller and a broker with a second log directory."""
    home = tmp_path / "c"
    two_directories(home, 1, CONFIG)
    with rayft.Cluster(dir=home) as cluster:
        yield Scene(cluster)


class Client:
    """Sends requests, and keeps every answer as it came."""

    def __init__(self, scene: Scene) -> None:
        self.address = scene.brokers()[0]
        self.frames: list[tuple[str, bytes]] = []

    def ask(self, name: str, version: int, body: Any) -> Any:
        """Send a request. Returns its answer."""
        with Peer(self.address) as peer:
            peer.send(encoded(name, version, body))
            frame = peer.read()
        self.frames.append((name, frame))
        return framing.decode_response(name, version, memoryview(bytearray(frame)))

    def produce(self, topic: str, partition: int, batch: bytes) -> Any:
        """Produce a batch. Returns the partition's part of the answer."""
        answer = self.ask("Produce", PRODUCE, produce_request(topic, [(partition, batch)]))
        return answer.responses[0].partition_responses[0]

    def named(self, *texts: str) -> list[tuple[str, bytes]]:
        """The answers that contain one of these texts."""
        return [(name, frame) for name, frame in self.frames if any(text.encode() in frame for text in texts)]


@pytest.mark.skipif(sys.platform != "linux", reason="a running process is given a limit")
def test_an_answer_of_a_full_disk_names_no_file(directories: Scene) -> None:
    client, home, pid = Client(directories), Path(directories.cluster.dir), directories.cluster.pids[1]
    create(client.address, "full", 1)
    batch = bomb(0, 900_000, time.time_ns() // 1_000_000)
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, before[1]))
    answers = [client.produce("full", 0, batch) for _ in range(4)]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
    assert [one.error_code for one in answers] == [0, 0] + [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert answers[-1].error_message
    assert client.produce("full", 0, batch).error_code == 0, "there is room again"
    assert client.named(str(home), "full-0/", ".log") == []


def test_an_answer_of_a_lost_directory_names_no_path(directories: Scene) -> None:
    client, home = Client(directories), Path(directories.cluster.dir)
    second, topic, now_ms = home / "second", "lost", time.time_ns() // 1_000_000
    create(client.address, topic, PARTITIONS)
    batch = bomb(0, 1000, now_ms)

    def ask(numbers: range) -> set[int]:
        """Everything that meets the files; the codes of Produce."""
        codes = {client.produce(topic, number, batch).error_code for number in numbers}
        fetched = [{"partition": number, "partition_max_bytes": 1 << 20} for number in numbers]
        client.ask("Fetch", 12, request("Fetch", max_bytes=1 << 22, topics=[{"topic": topic, "partitions": fetched}]))
        for timestamp in (now_ms - 1, -1, -2):
            client.ask("ListOffsets", LIST_OFFSETS, offsets_request(topic, numbers, timestamp))
        cut = [{"partition_index": number, "offset": 1} for number in numbers]
        topics = [{"name": topic, "partitions": cut}]
        client.ask("DeleteRecords", 2, request("DeleteRecords", topics=topics, timeout_ms=5000))
        for path in (home / "broker-1", second, home):
            moved = {"path": str(path), "topics": [{"name": topic, "partitions": list(numbers)}]}
            client.ask("AlterReplicaLogDirs", 2, request("AlterReplicaLogDirs", dirs=[moved]))
        return codes

    assert ask(range(USED)) == {0}
    second.rename(home / "gone")
    second.write_bytes(b"")  # so that every name in it is an error
    client.frames.clear()
    assert len(ask(range(PARTITIONS - 1, -1, -1))) > 1, "first those whose file has to be made"
    ask(range(PARTITIONS))
    assert f"log directory {second} is offline" in directories.cluster.log(1), "the log names it"
    assert client.named(str(home), f"{topic}-0/", f"/{topic}-", ".log", "second") == []
