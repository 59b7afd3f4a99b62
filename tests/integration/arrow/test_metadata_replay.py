"""The metadata log by address, of rayft and of Apache Kafka: the tables that the leader's directory gives, changes through a
failover, and snapshots where the beginning of the log is gone."""

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rayft
from actors import replay
from actors.client.errors import ClientError
from actors.client.operations import cluster as clusters
from actors.client.operations import configs, topics
from actors.host.client.blocking import connect
from actors.replay.logs.copies import metadata_log
from bench import apache
from tests.integration.conftest import ROOT, command, until

OFFSETS = 20
APACHE = {"default.replication.factor": "1"}
CUT = {"metadata.log.max.record.bytes.between.snapshots": "1500", "internal.metadata.log.segment.bytes": "1024"}
"""Settings with which a node writes a snapshot after few records, and a node of rayft deletes the log before it."""
RETENTION = CUT | {"metadata.max.retention.bytes": "1000"}


class Running:
    """A cluster, and where its controllers' directories are."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.bootstrap = cluster.bootstrap_servers

    def leader(self) -> int:
        with connect(self.bootstrap) as kafka:
            return kafka.run(clusters.describe_quorum()).leader

    def directory(self, node: int) -> Path:
        if isinstance(self.cluster, rayft.Cluster):
            return self.cluster.dir / f"controller-{node}"
        return Path(self.cluster.directory) / f"data-{node}"

    def kill(self, node: int) -> None:
        """End a controller with kill -9, for good."""
        if isinstance(self.cluster, rayft.Cluster):
            self.cluster.kill(node, restart=False)
        else:
            self.cluster.kill(node)

    def start(self, node: int) -> None:
        if isinstance(self.cluster, rayft.Cluster):
            self.cluster.start_node(node)
        else:
            self.cluster.start(node)


@contextmanager
def apache_kafka(config: dict[str, str], **count: int) -> Iterator[Running]:
    if apache.libs() is None:
        pytest.skip("Apache Kafka's jars are not there: `make kafka` fetches them where it can")
    with apache.ApacheKafka(brokers=1, config=APACHE | config, heap="320m", **count) as kafka:
        yield Running(kafka)


@pytest.fixture(scope="module", params=["rayft", pytest.param("apache", marks=pytest.mark.slow)])
def running(request: pytest.FixtureRequest) -> Iterator[Running]:
    if request.param == "apache":
        with apache_kafka({}, controllers=3) as kafka:
            yield kafka
    else:
        with rayft.Cluster(controllers=3, brokers=1) as cluster:
            yield Running(cluster)


@contextmanager
def load(bootstrap: str) -> Iterator[None]:
    """Topics come, change and go all the time."""
    stop = threading.Event()

    def run() -> None:
        with connect(bootstrap) as kafka:
            for number in range(1 << 30):
                if stop.is_set():
                    return
                name = f"load-{time.monotonic_ns()}"
                kafka.run(topics.create([topics.NewTopic(name, 4, 1, {"retention.ms": "5000"})]))
                changed(kafka, name, str(number))
                if number % 2:
                    kafka.run(topics.delete([name]))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def changed(kafka: Any, topic: str, value: str) -> None:
    resource = configs.Kind.TOPIC, topic
    assert kafka.run(configs.alter({resource: {"retention.ms": (configs.Op.SET, value)}})) == {resource: None}


def same(one: dict[str, pa.Table], other: dict[str, pa.Table]) -> None:
    assert set(one) == set(other) == set(replay.TABLES)
    for name in replay.TABLES:
        assert one[name].equals(other[name]), name


def agree(
    running: Running, log: "rayft.Replay", choose: random.Random, times: int, lowest: Callable[[Path], int]
) -> None:
    """Compare what the cluster and its leader's directory say of random offsets."""
    while times:
        path = running.directory(running.leader())
        log.state(tables=["topics"])
        offset = choose.randint(lowest(path), log._tail.offset)
        try:
            same(log.state(as_of=offset), replay.state(path, as_of=offset))
        except replay.NothingToRead:
            assert lowest(path) > offset, "it was not deleted meanwhile"
            continue
        times -= 1


def test_at_random_offsets_under_load_the_tables_are_those_of_the_leaders_directory(running: Running) -> None:
    choose = random.Random(44)
    with load(running.bootstrap), rayft.Replay(running.bootstrap) as log:
        time.sleep(1)
        agree(running, log, choose, OFFSETS, lambda path: 1)
        some = log.state(tables=["topics"])["topics"].num_rows
        assert some > 3


def test_changes_are_printed_once_each_through_the_death_of_the_active_controller(running: Running) -> None:
    name = f"followed-{time.monotonic_ns()}"
    with connect(running.bootstrap) as kafka:
        kafka.run(topics.create([topics.NewTopic(name, 1, 1)]))
        with rayft.Replay(running.bootstrap) as begun:
            begun.state(tables=["topics"])
            begin = begun._tail.offset
        words = ["replay", "-b", running.bootstrap, "--follow", "-o", "jsonl", "--since", str(begin)]
        with subprocess.Popen(
            [sys.executable, "-m", "actors.command.cli", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as follower:
            assert follower.stdout is not None
            lines: list[dict[str, Any]] = []
            reader = threading.Thread(target=lambda: lines.extend(map(json.loads, follower.stdout or ())))
            reader.start()
            for number in range(20):
                changed(kafka, name, str(number))
            leader = running.leader()
            running.kill(leader)
            for number in range(20, 40):
                changed(kafka, name, str(number))
            until(lambda: any(row["new"] == "39" for row in lines))
            follower.terminate()
            reader.join()
    found = [row["new"] for row in lines if row["kind"] == "config"]
    assert found == [str(number) for number in range(40)]
    until(lambda: running.leader() not in (-1, leader))
    (directory,) = [running.directory(running.leader())]
    wanted = [row for batch in replay.changes(directory, since=begin) for row in batch.to_pylist()]
    offsets = [row["offset"] for row in wanted if row["offset"] <= lines[-1]["offset"]]
    assert [row["offset"] for row in lines] == offsets
    with rayft.Replay(running.cluster.bootstrap_controllers) as log:
        changes = [row for batch in log.changes(since=begin) for row in batch.to_pylist()]
    assert changes[: len(wanted)] == wanted
    running.start(leader)


def test_a_rayft_whose_log_was_cut_gives_its_snapshot_and_what_is_behind_it() -> None:
    choose = random.Random(7)
    with rayft.Cluster(controllers=1, brokers=1, config=CUT | {"registration.heartbeat.interval.ms": "300"}) as cluster:
        running = Running(cluster)
        with connect(running.bootstrap) as kafka, rayft.Replay(running.bootstrap) as log:
            directory, before = running.directory(running.leader()), 0
            for _ in range(2):
                while oldest(directory) <= before:  # the log begins where the snapshot before the newest ends
                    kafka.run(topics.create([topics.NewTopic(f"t-{time.monotonic_ns()}", 3, 1)]))
                    time.sleep(0.02)
                time.sleep(0.2)
                agree(running, log, choose, 5, oldest)
                before = log._tail.offset
        told = command("replay", "-b", running.bootstrap, "--table", "topics", "--as-of", "3")
        assert told.returncode == 1 and "ask for a later moment" in told.stderr


def oldest(directory: Path) -> int:
    """Where the oldest snapshot ends; 0: there is none."""
    return min((one.end_offset for one in metadata_log(directory).checkpoints), default=0)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_apache_kafka_whose_log_was_cut_gives_its_oldest_snapshot_and_what_is_behind_it() -> None:
    choose = random.Random(8)
    with apache_kafka(RETENTION, controllers=3) as running, connect(running.bootstrap) as kafka:
        first = running.leader()
        for number in range(20):
            kafka.run(topics.create([topics.NewTopic(f"t-{number}", 3, 1)]))
        running.kill(first)  # so that there are epochs in front of the log and in it
        kafka.run(topics.create([topics.NewTopic("between", 3, 1)]))
        running.start(first)
        end = time.monotonic() + 200
        while not begins_with_a_snapshot(running):
            assert time.monotonic() < end, "Apache Kafka does not delete its log"
            kafka.run(topics.create([topics.NewTopic(f"t-{time.monotonic_ns()}", 1, 1)]))
            time.sleep(2)
        with load(running.bootstrap), rayft.Replay(running.bootstrap) as log:
            next(iter(log.changes()), None)
            begin = oldest(log._filled(0))
            assert begin > 1
            agree(running, log, choose, OFFSETS, lambda path: begin)


def begins_with_a_snapshot(running: Running) -> bool:
    with rayft.Replay(running.bootstrap) as log:
        return oldest(log._filled(0)) > 0


def test_what_cannot_be_read_is_told_in_one_sentence(running: Running) -> None:
    with rayft.Replay("127.0.0.1:1", {"default.api.timeout.ms": 2000}) as log, pytest.raises(ClientError):
        log.state()
