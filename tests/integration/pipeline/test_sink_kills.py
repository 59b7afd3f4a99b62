"""Exactly once with kills: a query from topic to topic whose driver, executors and tasks die at any step of its sink."""

import json
import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

import rayft
from actors.client.operations import transactions
from actors.host.client.blocking import connect
from tests.integration.pipeline.conftest import Topics, settled

pytestmark = [pytest.mark.long, pytest.mark.slow]
ROOT = Path(__file__).parents[3]


def committed(servers: str, topic: str) -> Counter[bytes]:
    """The rows that readers of committed records see."""
    found = rayft.read(servers, topic, columns=["value"], config={"isolation.level": "read_committed"}).read_all()
    return Counter(found["value"].to_pylist())


def rounds(
    topics: Topics, name: str, folder: Path, first: int, end: int, kill: bool, kind: str = "copy"
) -> list[dict[str, Any]]:
    """Run some rounds in a driver of their own. Returns what it tells of each."""
    word = "kill" if kill else "end"
    command = [sys.executable, "-m", "tests.integration.pipeline.killed_driver"]
    done = subprocess.run(
        [*command, topics.servers, name, str(folder), str(first), str(end), word, kind],
        cwd=ROOT, capture_output=True, text=True, timeout=3000, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    errors = [one for one in told if "error" in one and not kill]
    assert not errors and (kill or len(told) == end - first), (told, done.stderr[-3000:])
    return told


@pytest.mark.timeout(7200)
def test_each_row_is_there_once_after_rounds_of_kills(topics: Topics, name: str, tmp_path: Path) -> None:
    blocks, size = (8, 25) if isinstance(topics.cluster, rayft.Cluster) else (4, 12)
    topics.make(f"{name}-in", 3)
    topics.make(name, 3)
    told: list[dict[str, Any]] = []
    for block in range(blocks):
        told += rounds(topics, name, tmp_path, block * size, (block + 1) * size, kill=block % 2 == 0)
        wanted, found = committed(topics.servers, f"{name}-in"), committed(topics.servers, name)
        assert not [row for row, count in found.items() if count > 1], "rows are there twice"
        assert set(found) <= set(wanted)
    told += rounds(topics, name, tmp_path, blocks * size, blocks * size + 1, kill=False)
    settled(topics.servers, name)
    wanted, found = committed(topics.servers, f"{name}-in"), committed(topics.servers, name)
    assert found == wanted, (wanted - found, found - wanted)
    with connect(topics.servers) as kafka:
        left = {id for id in kafka.run(transactions.listed()) if f"/{name}/" in id}
    assert not left, "transactions are left open"
    killed = sum(one.get("failed", 0) for one in told)
    print(f"{len(told)} rounds, {killed} queries ended by kills, {found.total()} rows, each once")
    assert killed > len(told) // 4


class Killing(threading.Thread):
    """Kills brokers with -9, one after the other, which come back."""

    def __init__(self, cluster: Any) -> None:
        super().__init__()
        self.cluster, self.killed = cluster, 0
        self.over = threading.Event()
        self.chance = random.Random(1)

    def run(self) -> None:
        is_rayft = isinstance(self.cluster, rayft.Cluster)
        brokers = sorted(self.cluster.broker_ids if is_rayft else self.cluster.broker_ports)
        while not self.over.wait(self.chance.uniform(1, 8)):
            node = self.chance.choice(brokers)
            self.cluster.kill(node)
            self.killed += 1
            if is_rayft:
                self.cluster.wait_ready(node)
            else:
                self.cluster.start(node)
                self.cluster.wait()

    def __enter__(self) -> "Killing":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()


@pytest.mark.timeout(3600)
def test_each_row_is_there_once_when_brokers_die(topics: Topics, name: str, tmp_path: Path) -> None:
    """Leaders, and the coordinators of the driver's and of the tasks' transactions."""
    topics.make(f"{name}-in", 3)
    topics.make(name, 3)
    with Killing(topics.cluster) as killing:
        told = rounds(topics, name, tmp_path, 0, 10, False, "brokers")
    settled(topics.servers, name)
    wanted, found = committed(topics.servers, f"{name}-in"), committed(topics.servers, name)
    assert found == wanted, (wanted - found, found - wanted)
    failed = sum(one["failed"] for one in told)
    print(f"{killing.killed} brokers killed, {failed} queries failed, {found.total()} rows, each once")
    assert killing.killed > 5


@pytest.mark.timeout(3600)
def test_each_window_is_there_once_after_kills(topics: Topics, name: str, tmp_path: Path) -> None:
    """From topic to topic through an aggregation, which Spark restores with the batch that it repeats."""
    topics.make(f"{name}-in", 2)
    topics.make(name, 2)
    rounds(topics, name, tmp_path, 0, 6, True, "windows")
    told = rounds(topics, name, tmp_path, 6, 12, False, "windows")
    assert told
    settled(topics.servers, name)
    keys = rayft.read(topics.servers, f"{name}-in", columns=["value"]).read_all()["value"].to_pylist()
    wanted = Counter(int(key.partition(b".")[0]) * 10 for key in keys)
    found = rayft.read(topics.servers, name, columns=["key", "value"], config={"isolation.level": "read_committed"})
    windows = [(int(one["key"]), int(one["value"])) for one in found.read_all().to_pylist()]
    assert len(windows) == len(dict(windows)), "a window is there twice"
    assert len(windows) >= 10, "all but those that may still grow"
    assert all(wanted[start] == count for start, count in windows)


@pytest.mark.timeout(3600)
def test_each_row_is_there_once_when_executors_die_and_tasks_run_twice(
    topics: Topics, name: str, tmp_path: Path
) -> None:
    """Real executors, which are killed with their tasks, and speculation."""
    topics.make(f"{name}-in", 3)
    topics.make(name, 3)
    rounds(topics, name, tmp_path, 0, 12, False, "executors")
    settled(topics.servers, name)
    wanted, found = committed(topics.servers, f"{name}-in"), committed(topics.servers, name)
    assert found == wanted, (wanted - found, found - wanted)
