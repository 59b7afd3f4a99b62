"""A cluster of an earlier release is rolled to this one node by node while it serves, and back: nothing is lost and nothing
is there twice.

Nothing has been released yet. What stands for the last release is a wheel of EARLIER, a commit of this repository; where the
history is not there, as in a shallow checkout, the test is skipped.
"""

import os
import signal
import subprocess
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

import rayft
from bench.ports import free_port
from tests.integration.installed.conftest import ROOT, Environment, build

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]
EARLIER = "0bfe3c6e110b40e6046abc76fe816933ee23944a"
"""The last commit of 27 November 2026: 500 commits ago, and before what is installed lay below `rayft`."""
PARTITIONS = 6
WELL_S = 180
"""How long a cluster may take to be well again after a node was exchanged, on a machine that may be busy."""
END_S = 60
PAUSE_S = 0.002


@pytest.fixture(scope="session")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of EARLIER."""
    if made := os.environ.get("RAYFT_EARLIER_WHEEL"):
        return Path(made)
    tree = tmp_path_factory.mktemp("earlier")
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "-o", str(tree / "tree.tar"), EARLIER], capture_output=True
    )
    if packed.returncode != 0:
        pytest.skip(f"the commit {EARLIER[:8]} is not here: {packed.stderr.decode().strip()}")
    with tarfile.open(tree / "tree.tar") as tar:
        tar.extractall(tree / "rayft", filter="data")
    return build(tree / "rayft", tree)


class Nodes:
    """Three controllers and three brokers, each a process that `rayft node` of one of two releases runs."""

    def __init__(self, directory: Path) -> None:
        self.files = sorted(directory.glob("*-*.properties"))
        self._running: dict[Path, subprocess.Popen[bytes]] = {}

    def start(self, file: Path, release: Environment) -> None:
        with file.with_suffix(".log").open("ab") as log:
            words = [str(release.programs / "rayft"), "node", "--config", str(file)]
            self._running[file] = subprocess.Popen(words, env=release.variables, stdout=log, stderr=log)

    def exchange(self, file: Path, release: Environment) -> None:
        """End a node in order, and start it in another release."""
        running = self._running.pop(file)
        running.send_signal(signal.SIGTERM)
        assert running.wait(END_S) == 0, file.with_suffix(".log").read_text()[-2000:]
        self.start(file, release)

    def end(self) -> None:
        for running in self._running.values():
            running.terminate()
        for running in self._running.values():
            try:
                running.wait(END_S)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


def well(release: Environment, servers: str) -> None:
    """Wait until `rayft health` has nothing to say; EARLIER has no such word yet."""
    until = time.monotonic() + WELL_S
    while True:
        words = [str(release.programs / "rayft"), "health", "-b", servers]
        done = subprocess.run(words, env=release.variables, capture_output=True, text=True, timeout=120)
        if done.returncode == 0:
            return
        assert time.monotonic() < until, done.stdout + done.stderr
        time.sleep(0.3)


class Load:
    """An idempotent producer that numbers its records, and a copier that carries them on in transactions."""

    def __init__(self, servers: str) -> None:
        self._common = {"bootstrap.servers": servers, "metadata.max.age.ms": 5000}
        self.acknowledged: list[bytes] = []
        self.failed: list[KafkaError] = []
        self.copied = self.aborted = self._sent = 0
        self.errors: list[BaseException] = []
        self._stop = threading.Event()
        self._written = threading.Event()
        self._threads = [threading.Thread(target=self._kept, args=(one,)) for one in (self._write, self._copy)]

    def __enter__(self) -> "Load":
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for one in self._threads:
            one.join(300)
        assert not [one for one in self._threads if one.is_alive()], "a client waits without an end"

    def _kept(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.errors.append(error)
        finally:
            self._written.set()

    def _write(self) -> None:
        producer = Producer(self._common | {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 280_000})

        def told(error: KafkaError | None, record: Message) -> None:
            if error is None:
                self.acknowledged.append(record.value())
            else:
                self.failed.append(error)

        while not self._stop.is_set():
            producer.produce("orders", b"%d" % self._sent, partition=self._sent % PARTITIONS, on_delivery=told)
            self._sent += 1
            producer.poll(0)
            time.sleep(PAUSE_S)
        assert producer.flush(280) == 0

    def _copy(self) -> None:
        """Until everything that was acknowledged is carried on."""
        reading = {"group.id": "copier", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        consumer = Consumer(self._common | reading | {"isolation.level": "read_committed"})
        consumer.subscribe(["orders"])
        producer = self._transactional()
        until = None
        while until is None or self.copied < len(self.acknowledged):
            if until is None and self._written.is_set():
                until = time.monotonic() + 120
            assert until is None or time.monotonic() < until, "the copier does not come to the end"
            records = [one for one in consumer.consume(500, 0.5) if one.error() is None]
            if not records:
                continue
            try:
                producer.begin_transaction()
                for one in records:
                    producer.produce("copies", one.value(), partition=one.partition())
                position = consumer.position(consumer.assignment())
                producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), 60)
                self._committed(producer)
                self.copied += len(records)
            except KafkaException as error:
                self.aborted += 1
                if error.args[0].txn_requires_abort():
                    producer.abort_transaction(60)
                else:
                    producer = self._transactional()
                for one in consumer.committed(consumer.assignment(), 60):
                    consumer.seek(TopicPartition(one.topic, one.partition, max(one.offset, 0)))
        consumer.close()

    def _committed(self, producer: Producer) -> None:
        """Commit; what may be asked again is asked again, since its outcome is not known."""
        until = time.monotonic() + 120
        while True:
            try:
                return producer.commit_transaction(60)
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > until:
                    raise

    def _transactional(self) -> Producer:
        producer = Producer(self._common | {"transactional.id": "copier", "transaction.timeout.ms": 60_000})
        producer.init_transactions(120)
        return producer


@pytest.fixture
def nodes(
    environment: Callable[[str], Environment], earlier: Path, wheel: Path, tmp_path: Path
) -> Iterator[tuple[Nodes, Environment, Environment, str]]:
    """The nodes of a cluster that the earlier release has made, the environments of both releases, and the address."""
    old, new = environment("earlier"), environment("present")
    for one, file in ((old, earlier), (new, wheel)):
        one.install("--only-binary", ":all:", str(file))
    assert (old.packages / "actors").is_dir() and (new.packages / "rayft" / "actors").is_dir()
    port, where = free_port(), ("--dir", str(tmp_path / "data"))
    old.run("rayft", "up", "--port", str(port), "--set", "min.insync.replicas=2", *where, "--detach")
    servers = ",".join(f"127.0.0.1:{port + place}" for place in range(3))
    for topic in ("orders", "copies"):
        new.run("rayft", "topic", "create", topic, "-p", str(PARTITIONS), "-b", servers)
    old.run("rayft", "down", *where)
    made = Nodes(tmp_path / "data")
    assert len(made.files) == 6
    for file in made.files:
        made.start(file, old)
    try:
        well(new, servers)
        yield made, old, new, servers
    finally:
        made.end()


def test_a_cluster_rolls_to_this_release_and_back_under_load(
    nodes: tuple[Nodes, Environment, Environment, str],
) -> None:
    cluster, old, new, servers = nodes
    brokers_first = [file for kind in ("broker", "controller") for file in cluster.files if file.name.startswith(kind)]
    with Load(servers) as load:
        for release, order in ((new, brokers_first), (old, brokers_first[::-1])):
            before = len(load.acknowledged)
            for file in order:
                cluster.exchange(file, release)
                well(new, servers)
                assert not load.errors, load.errors
            assert len(load.acknowledged) > before, "the load goes on"
    assert not load.errors and not load.failed, (load.errors, load.failed[:3])
    print(f"{len(load.acknowledged)} records, {load.aborted} transactions aborted")

    committed = {"isolation.level": "read_committed"}
    for topic in ("orders", "copies"):
        table = rayft.read(servers, topic, config=committed).read_all()
        found = [
            (partition, int(value))
            for partition, value in zip(table["partition"].to_pylist(), table["value"].to_pylist(), strict=True)
        ]
        numbers = Counter(number for _, number in found)
        assert not [number for number, times in numbers.items() if times > 1], f"{topic} has records twice"
        assert set(numbers) == {int(value) for value in load.acknowledged}, f"{topic} lacks records"
        for partition in range(PARTITIONS):
            there = [number for place, number in found if place == partition]
            assert there == sorted(there) and {number % PARTITIONS for number in there} == {partition}
    assert "copier" in new.run("rayft", "group", "list", "-b", servers)
