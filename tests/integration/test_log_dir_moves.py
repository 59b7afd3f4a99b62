"""A replica is moved between the two log directories of a real broker while producers write to it, by Apache Kafka's own
tools; and the broker is killed with -9 in the middle."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

import rayft
from tests.integration.conftest import two_directories, until
from tests.integration.files import size_of_all

CONFIG = {
    "registration.lease.timeout.ms": "3000",
    "registration.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "log.segment.delete.delay.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "300",
}
LIMIT = "replica.alter.log.dirs.io.max.bytes.per.second"
MOVER = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
VALUE_BYTES = 10_000


class Writer(threading.Thread):
    """Writes numbered records until it is stopped, and knows which were acknowledged."""

    def __init__(self, servers: dict[str, Any], topic: str) -> None:
        super().__init__(daemon=True)
        self.topic = topic
        self.acknowledged: set[int] = set()
        self.failed: list[Any] = []
        self.number = 0
        self._ended = threading.Event()
        self._producer = Producer(
            servers | {"acks": "all", "enable.idempotence": True, "message.timeout.ms": "120000", "linger.ms": 5}
        )

    def write(self, count: int) -> None:
        for _ in range(count):
            number = self.number
            self.number += 1
            value = b"%012d" % number + bytes(VALUE_BYTES - 12)
            while True:
                try:
                    self._producer.produce(self.topic, value, on_delivery=self._delivered(number))
                    break
                except BufferError:
                    self._producer.poll(0.1)
            self._producer.poll(0)

    def _delivered(self, number: int) -> Any:
        def delivered(error: Any, record: Any) -> None:
            if error is None:
                self.acknowledged.add(number)
            else:
                self.failed.append(error)

        return delivered

    def run(self) -> None:
        while not self._ended.is_set():
            self.write(10)
            time.sleep(0.02)

    def stop(self) -> None:
        self._ended.set()
        if self.is_alive():
            self.join()
        self.flush()

    def flush(self) -> None:
        assert self._producer.flush(120) == 0 and not self.failed, self.failed[:3]


def read(servers: dict[str, Any], topic: str) -> list[int]:
    """The numbers of all records, in order."""
    consumer = Consumer(servers | {"group.id": "r", "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    end = time.monotonic() + 120
    try:
        while time.monotonic() < end:
            for record in consumer.consume(1000, 0.5):
                if record.error() is not None:
                    return found
                found.append(int(record.value()[:12]))
    finally:
        consumer.close()
    raise AssertionError(f"{len(found)} records, and no end")


class Moved:
    """A broker with two directories and a partition in one of them."""

    def __init__(self, home: Path, cluster: Any) -> None:
        self.directories = [home / "broker-1", home / "second"]
        self.cluster = cluster
        self.servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        self.admin = AdminClient(self.servers)

    def create(self, topic: str) -> None:
        self.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)

    def held(self, topic: str) -> list[list[str]]:
        """Names of the partition in either directory, without unique parts."""
        return [
            sorted(one.name.partition(".")[2][-7:] for one in place.iterdir() if one.name.startswith(f"{topic}-0"))
            for place in self.directories
        ]

    def is_in(self, topic: str, place: int) -> bool:
        return self.held(topic) == [[""] if number == place else [] for number in range(2)]

    def limit(self, value: str | None) -> None:
        change = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry(LIMIT, value or "", incremental_operation=change)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        end = time.monotonic() + 60
        while True:
            try:
                self.admin.incremental_alter_configs([resource])[resource].result(10)
                return
            except KafkaException:
                assert time.monotonic() < end
                time.sleep(0.2)

    def tool(self, java: Any, main: str, *arguments: str) -> str:
        return str(java.run(main, "--bootstrap-server", self.cluster.bootstrap_servers, *arguments))


@pytest.fixture
def moved(tmp_path: Path) -> Iterator[Moved]:
    two_directories(tmp_path, 1, CONFIG)
    with rayft.Cluster(controllers=1, brokers=1, dir=tmp_path, config=CONFIG) as cluster:
        yield Moved(tmp_path, cluster)


def plan(tmp_path: Path, topic: str, directory: Path) -> str:
    """The file with which a reassignment names log directories."""
    wanted = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [str(directory)]}
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
    return str(file)


@pytest.mark.timeout(300)
def test_the_tools_move_a_replica_and_say_when_it_is_there(moved: Moved, java: Any, tmp_path: Path) -> None:
    moved.create("orders")
    writer = Writer(moved.servers, "orders")
    writer.write(3_000)
    writer.flush()
    here = int(moved.held("orders")[1] == [""])
    target = moved.directories[1 - here]
    file = plan(tmp_path, "orders", target)
    writer.start()
    throttled = ("--replica-alter-log-dirs-throttle", "100000")
    said = moved.tool(java, MOVER, "--execute", "--reassignment-json-file", file, *throttled)
    assert f"Successfully started moving log directory to {target} for replica orders-0 with broker 1" in said
    assert moved.held("orders")[1 - here] == ["-future"]
    said = moved.tool(java, LOG_DIRS, "--describe", "--broker-list", "1", "--topic-list", "orders")
    shown = {one["logDir"]: one["partitions"] for one in json.loads(said.splitlines()[-1])["brokers"][0]["logDirs"]}
    (future,), (current,) = shown[str(target)], shown[str(moved.directories[here])]
    assert future["isFuture"] and future["offsetLag"] > 0 and not current["isFuture"]
    assert "is still in progress" in moved.tool(
        java, MOVER, "--verify", "--preserve-throttles", "--reassignment-json-file", file
    )
    moved.limit("1000000000")
    until(lambda: moved.is_in("orders", 1 - here))
    said = moved.tool(java, MOVER, "--verify", "--reassignment-json-file", file)
    assert "Reassignment of replica orders-0-1 completed successfully." in said, said
    writer.stop()
    assert read(moved.servers, "orders") == sorted(writer.acknowledged)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_200_megabytes_are_moved_under_load_and_a_kill_loses_nothing(moved: Moved, java: Any, tmp_path: Path) -> None:
    moved.create("orders")
    writer = Writer(moved.servers, "orders")
    writer.write(20_000)
    writer.flush()
    here = int(moved.held("orders")[1] == [""])
    writer.start()
    throttled = ("--replica-alter-log-dirs-throttle", "40000000")
    file = plan(tmp_path, "orders", moved.directories[1 - here])
    moved.tool(java, MOVER, "--execute", "--reassignment-json-file", file, *throttled)
    for _ in range(2):
        until(lambda: copied(moved.directories[1 - here]) > 20_000_000)
        moved.cluster.kill(1, restart=False)
        moved.cluster.start_node(1)
        until(lambda: served(moved))
    moved.limit(None)
    until(lambda: moved.is_in("orders", 1 - here))
    for place in (here, 1 - here):  # back and forth at full speed, and killed at whatever step that is
        moved.tool(java, MOVER, "--execute", "--additional", "--reassignment-json-file",
                   plan(tmp_path, "orders", moved.directories[place]))  # fmt: skip
        time.sleep(0.3)
        moved.cluster.kill(1, restart=False)
        moved.cluster.start_node(1)
        until(lambda: served(moved))
        until(lambda place=place: moved.is_in("orders", place))  # type: ignore[misc]
    writer.stop()
    found = read(moved.servers, "orders")
    assert set(found) >= writer.acknowledged and found == sorted(set(found))


def copied(directory: Path) -> int:
    """Bytes of future logs."""
    return size_of_all(directory.glob("*-future/*.log"))


def served(moved: Moved) -> bool:
    try:
        return moved.admin.list_topics("orders", timeout=5).topics["orders"].partitions[0].leader == 1
    except (KafkaException, KeyError):
        return False
