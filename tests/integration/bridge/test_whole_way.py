"""The whole way over, and the way back, with Apache Kafka's own brokers: `rayft bridge` under load.

Three brokers in ZooKeeper mode with topics, settings, a SCRAM user and a consumer group are taken over; brokers of
rayft join; every partition moves to them; the old brokers and ZooKeeper stop. An idempotent producer with acks=all and
a consumer group run all the while: nothing is lost, nothing comes twice, and the group goes on where it was.
"""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from actors import cli
from actors.host import plan, probe, screen, storage
from actors.host.zookeeper_session import Session
from actors.metadata.dialects import dialect
from actors.wire.messages import message
from actors.zookeeper import Children, Get
from tests.integration.bridge.golden import CONFIG, command
from tests.integration.bridge.zookeeper_mode import ZooKeeper, ZooKeeperBrokers

TOPIC = "orders"
PARTITIONS = 6
OFFSETS = "__consumer_offsets"
WAIT_S = 90.0


def until(holds: Callable[[], Any], what: str, seconds: float = WAIT_S) -> Any:
    """Wait for something; its value."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, what
        time.sleep(0.2)
    return found


class Load:
    """An idempotent producer with acks=all, and a member of a consumer group, until `stop`."""

    def __init__(self, servers: str) -> None:
        self.sent = 0
        self.acknowledged: list[int] = []
        self.failed: list[str] = []
        self.read: Counter[int] = Counter()
        self.longest_s = 0.0
        """The longest time between two acknowledgements."""
        self._last = time.monotonic()
        self._stop = threading.Event()
        self._servers = servers
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._produce, self._consume)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the producer, let the consumer read what is left, and end it too."""
        self._stop.set()
        for thread in self._threads:
            thread.join(WAIT_S)
            assert not thread.is_alive(), "a client hangs"

    def _produce(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._servers, "enable.idempotence": True, "acks": "all", "linger.ms": 5,
             "message.timeout.ms": 120_000, "topic.metadata.refresh.interval.ms": 5000}
        )  # fmt: skip
        while not self._stop.is_set():
            producer.produce(TOPIC, b"%d" % self.sent, on_delivery=self._delivered)
            self.sent += 1
            producer.poll(0.002)
        assert producer.flush(WAIT_S) == 0

    def _delivered(self, error: Any, sent: Message) -> None:
        now = time.monotonic()
        self.longest_s, self._last = max(self.longest_s, now - self._last), now
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged.append(int(sent.value() or b""))

    def _consume(self) -> None:
        consumer = Consumer(
            {"bootstrap.servers": self._servers, "group.id": "billing", "auto.offset.reset": "earliest",
             "auto.commit.interval.ms": 500, "topic.metadata.refresh.interval.ms": 5000}
        )  # fmt: skip
        consumer.subscribe([TOPIC])
        quiet_at = time.monotonic() + WAIT_S
        while time.monotonic() < quiet_at:
            found = consumer.poll(0.2)
            if found is not None and found.error() is None:
                self.read[int(found.value() or b"")] += 1
            elif self._stop.is_set() and len(self.read) >= len(self.acknowledged) == self.sent:
                break
            if not self._stop.is_set():
                quiet_at = time.monotonic() + WAIT_S
        consumer.close()


def rayft(*arguments: str) -> None:
    assert cli.main(arguments) == 0, arguments


def lines(directory: Path) -> str:
    """The logs of the cluster, for a failure."""
    return "\n".join(f"== {path.name}\n{path.read_text()[-3000:]}" for path in sorted(directory.glob("*.log")))


@contextmanager
def bridged(zookeeper: ZooKeeper, directory: Path, brokers: int) -> Iterator[plan.Plan]:
    """The cluster taken over; its rayft part is stopped in the end."""
    try:
        rayft("bridge", "--zookeeper", zookeeper.address, "--dir", str(directory), "--brokers", str(brokers))
        found = plan.load(directory)
        assert found is not None
        yield found
    except BaseException:
        print(lines(directory))
        raise
    finally:
        cli.main(["down", "--dir", str(directory)])


def metadata(address: tuple[str, int]) -> Any:
    return probe.ask(address, "Metadata", message("MetadataRequest")(topics=None), 9)


def replicas(address: tuple[str, int]) -> dict[tuple[str, int], tuple[list[int], list[int]]]:
    """(topic, partition) -> replicas, ISR, as a broker shows them."""
    return {
        (topic.name, one.partition_index): (list(one.replica_nodes), list(one.isr_nodes))
        for topic in metadata(address).topics
        for one in topic.partitions
    }


def move_everything(address: tuple[str, int], to: list[int]) -> None:
    """Reassign each partition to these brokers, and wait until that has happened."""
    kind = message("AlterPartitionReassignmentsRequest")
    topics: dict[str, list[Any]] = {}
    for (name, number), (have, _) in replicas(address).items():
        wanted = [to[(number + place) % len(to)] for place in range(min(len(have), len(to)))]
        topics.setdefault(name, []).append(kind.ReassignablePartition(partition_index=number, replicas=wanted))
    request = kind(
        timeout_ms=30_000,
        topics=[kind.ReassignableTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )
    reply = probe.ask(address, "AlterPartitionReassignments", request, 0, 30.0)
    assert reply.error_code == 0, reply
    assert {one.error_code for topic in reply.responses for one in topic.partitions} == {0}, reply

    def moved() -> bool:
        return all(set(have) <= set(to) and set(isr) == set(have) for have, isr in replicas(address).values())

    until(moved, "all partitions move")


@pytest.mark.slow
@pytest.mark.parametrize("release", ["2.8.2", "3.9.1"])
def test_the_whole_way_over(release: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ZooKeeper() as zookeeper, ZooKeeperBrokers(zookeeper, release, brokers=3) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        wanted = [NewTopic(TOPIC, PARTITIONS, 3, config={"retention.ms": "86400000"}), NewTopic("quiet", 2, 2)]
        for future in admin.create_topics(wanted).values():
            future.result(30)
        servers = ["--bootstrap-server", kafka.bootstrap_servers]
        user = "--alter --entity-type users --entity-name alice --add-config SCRAM-SHA-256=[iterations=4096,password=a]"
        command(release, CONFIG, [*servers, *user.split()])
        load = Load(kafka.bootstrap_servers)
        until(lambda: len(load.read) > 500, "the group reads before the takeover")
        with bridged(zookeeper, tmp_path / "rayft", 3) as cluster:
            taken = len(load.acknowledged)
            until(lambda: len(load.acknowledged) > taken + 500, "produced under the new controller")
            at = cluster.brokers[0].address("client")
            new = [member.config.broker_id for member in cluster.brokers]
            assert new == [4, 5, 6]
            move_everything(at, new)
            moved = len(load.acknowledged)
            until(lambda: len(load.acknowledged) > moved + 500, "produced to the new brokers")
            for id in (1, 2, 3):
                assert kafka.terminate(id) in (0, 143)
            rayft("bridge", "--zookeeper", zookeeper.address, "--dir", str(tmp_path / "rayft"), "--finish")
            zookeeper.terminate(0)
            alone = len(load.acknowledged)
            until(lambda: len(load.acknowledged) > alone + 500, "produced without ZooKeeper")
            load.stop()
            assert load.failed == []
            assert sorted(load.acknowledged) == list(range(load.sent))
            assert sorted(load.read) == list(range(load.sent)), "nothing is lost"
            twice = sum(times - 1 for times in load.read.values())
            with capsys.disabled():
                print(
                    f"\n{release}: {load.sent} records, {twice} read twice, the producer stopped for {load.longest_s:.2f} s"
                )
            assert records_in(cluster, TOPIC) == load.sent, "nothing is written twice"
            image_has_everything(cluster)


def records_in(cluster: plan.Plan, topic: str) -> int:
    """How many records the brokers have of a topic, by the ends of its partitions."""
    at = {node.node_id: (node.host, node.port) for node in metadata(cluster.brokers[0].address("client")).brokers}
    leaders = {
        one.partition_index: one.leader_id
        for found in metadata(cluster.brokers[0].address("client")).topics
        if found.name == topic
        for one in found.partitions
    }
    total = 0
    kind = message("ListOffsetsRequest")
    for number, leader in leaders.items():
        request = kind(
            replica_id=-1,
            topics=[kind.ListOffsetsTopic(name=topic, partitions=[
                kind.ListOffsetsPartition(partition_index=number, timestamp=-1)
            ])],
        )  # fmt: skip
        total += probe.ask(at[leader], "ListOffsets", request, 4).topics[0].partitions[0].offset
    return total


def image_has_everything(cluster: plan.Plan) -> None:
    """Settings and credentials are in the metadata log."""
    directory = Path(storage.check(cluster.controllers[0].config)[0].path) / "__kafka_metadata-0"
    from fastpath.records import batch as batches

    names: Counter[str] = Counter()
    for log in sorted(directory.glob("*.log")):
        data = memoryview(log.read_bytes())
        for header in batches.headers(data):
            from actors.metadata.batches import is_control
            from actors.ports import Batch

            part = data[header.position : header.position + header.size]
            if not is_control(part):
                found = Batch(header.base_offset, header.base_offset + header.count - 1, 0, part)
                names.update(type(op).__name__ + getattr(op, "kind", "") for _, op in dialect(2).decode(found))
    assert names["EntitySetscram"] == 1 and names["ConfigSet"] >= 1


@pytest.mark.slow
def test_the_way_back_half_way(tmp_path: Path) -> None:
    with ZooKeeper() as zookeeper, ZooKeeperBrokers(zookeeper, "2.8.2", brokers=3) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)]).values():
            future.result(30)
        load = Load(kafka.bootstrap_servers)
        until(lambda: len(load.read) > 200, "the group reads before the takeover")
        with bridged(zookeeper, tmp_path / "rayft", 0):
            taken = len(load.acknowledged)
            until(lambda: len(load.acknowledged) > taken + 300, "produced under the new controller")
            kafka.terminate(3)
            kafka.start(3)
            until(lambda: 3 in brokers_of(zookeeper), "a broker comes back under the new controller")
            rayft("bridge", "--zookeeper", zookeeper.address, "--dir", str(tmp_path / "rayft"), "--back")
            until(lambda: controller_of(zookeeper) in (1, 2, 3), "an old broker is the controller")
        back = len(load.acknowledged)
        until(lambda: len(load.acknowledged) > back + 300, "produced after the way back")
        kafka.kill(2)
        kafka.start(2)
        more = len(load.acknowledged)
        until(lambda: len(load.acknowledged) > more + 300, "the old controller elects leaders")
        load.stop()
        assert load.failed == [] and sorted(load.read) == list(range(load.sent))


def brokers_of(zookeeper: ZooKeeper) -> set[int]:
    with Session(zookeeper.address) as session:
        return {int(name) for name in session.read([Children("/brokers/ids")])[0] or ()}


def controller_of(zookeeper: ZooKeeper) -> int:
    import json

    with Session(zookeeper.address) as session:
        (znode,) = session.read([Get("/controller")])
    return -1 if znode is None else int(json.loads(znode.data)["brokerid"])


@pytest.mark.slow
def test_what_fails_half_way_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """kill -9 of the active controller and of an old broker, and a ZooKeeper that is away for half a minute."""
    with ZooKeeper() as zookeeper, ZooKeeperBrokers(zookeeper, "2.8.2", brokers=3) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        for future in admin.create_topics(
            [NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})]
        ).values():
            future.result(30)
        load = Load(kafka.bootstrap_servers)
        until(lambda: len(load.read) > 200, "the group reads before the takeover")

        def produced(what: str) -> None:
            have = len(load.acknowledged)
            until(lambda: len(load.acknowledged) > have + 300, what)

        with bridged(zookeeper, tmp_path / "rayft", 0):
            produced("under the new controller")
            before = screen.state(tmp_path / "rayft")
            assert before["bridge"]["state"] == "driving" and before["bridge"]["controller"] == before["leader_id"]
            (pid,) = [row["pid"] for row in before["controllers"] if row["id"] == before["leader_id"]]
            os.kill(pid, signal.SIGKILL)
            until(lambda: controller_of(zookeeper) not in (-1, before["leader_id"]), "another controller claims")
            produced("under the next controller")
            kafka.kill(2)
            produced("without an old broker")
            kafka.start(2)
            until(lambda: 2 in brokers_of(zookeeper), "it is back")
            zookeeper.kill(0)
            away = time.monotonic() + 30
            while time.monotonic() < away:
                produced("while ZooKeeper is away")
            zookeeper.start()
            fresh = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
            for future in fresh.create_topics([NewTopic("later", 2, 2)]).values():
                future.result(60)
            until(lambda: "later" in topics_of(zookeeper), "a topic that was made after that is in ZooKeeper")
            load.stop()
            assert load.failed == [] and sorted(load.read) == list(range(load.sent))
            with capsys.disabled():
                print(f"\nfailures: {load.sent} records, the producer stopped for {load.longest_s:.2f} s")


def topics_of(zookeeper: ZooKeeper) -> tuple[str, ...]:
    with Session(zookeeper.address) as session:
        (names,) = session.read([Children("/brokers/topics")])
    return names or ()
