"""What the tests of the way over share: load by librdkafka, a cluster taken over, partitions that move."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, Producer

from actors.command import cli
from actors.host.cluster import plan, probe
from actors.host.cluster.access import Access, node_access
from actors.wire.messages import message
from tests.integration.bridge.golden import CONFIG, command
from tests.integration.bridge.zookeeper_mode import ZooKeeper

TOPIC = "orders"
PARTITIONS = 6
WAIT_S = 90.0
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"
CLIENTS = ("CLIENTS", "SASL_PLAINTEXT")
PASSWORDS = {"admin": "admin-secret", "alice": "alice-secret"}
ALICE = {
    "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "alice",
    "sasl.password": PASSWORDS["alice"],
}  # fmt: skip
FOR_CLIENTS = {
    "listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "listener.name.clients.scram-sha-256.sasl.jaas.config": f"{MODULE};",
}


def until(holds: Callable[[], Any], what: str, seconds: float = WAIT_S) -> Any:
    """Wait for something; its value."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, what
        time.sleep(0.2)
    return found


class Load:
    """An idempotent producer with acks=all, and a member of a consumer group, until `stop`."""

    def __init__(self, servers: str, login: Mapping[str, str] | None = None) -> None:
        """`login`: settings by which clients get in."""
        self.sent = 0
        self.acknowledged: list[int] = []
        self.failed: list[str] = []
        self.read: Counter[int] = Counter()
        self.longest_s = 0.0
        """The longest time between two acknowledgements."""
        self._longest_s = 0.0
        self._last = time.monotonic()
        self._stop = threading.Event()
        self._reach = {"bootstrap.servers": servers, **(login or {})}
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._produce, self._consume)]
        for thread in self._threads:
            thread.start()

    def goes_on(self, records: int, when: str) -> None:
        """Wait until so many records more are acknowledged."""
        before = len(self.acknowledged)
        until(lambda: len(self.acknowledged) > before + records, f"produced {when}")

    def stopped_s(self) -> float:
        """The longest time between two acknowledgements since this was asked last."""
        longest, self._longest_s = max(self._longest_s, time.monotonic() - self._last), 0.0
        return longest

    def stop(self) -> None:
        """End the producer, let the consumer read what is left, and end it too."""
        self._stop.set()
        for thread in self._threads:
            thread.join(WAIT_S)
            assert not thread.is_alive(), "a client hangs"

    def _produce(self) -> None:
        producer = Producer(
            self._reach | {"enable.idempotence": True, "acks": "all", "linger.ms": 5, "message.timeout.ms": 120_000,
                           "topic.metadata.refresh.interval.ms": 5000}
        )  # fmt: skip
        while not self._stop.is_set():
            producer.produce(TOPIC, b"%d" % self.sent, on_delivery=self._delivered)
            self.sent += 1
            producer.poll(0.002)
        assert producer.flush(WAIT_S) == 0

    def _delivered(self, error: Any, sent: Message) -> None:
        now = time.monotonic()
        self.longest_s = max(self.longest_s, now - self._last)
        self._longest_s, self._last = max(self._longest_s, now - self._last), now
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged.append(int(sent.value() or b""))

    def _consume(self) -> None:
        consumer = Consumer(
            self._reach | {"group.id": "billing", "auto.offset.reset": "earliest", "auto.commit.interval.ms": 500,
                           "topic.metadata.refresh.interval.ms": 5000}
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


def written(path: Path, settings: Mapping[str, str]) -> str:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)


def add_users(zookeeper: ZooKeeper, release: str) -> None:
    """Everybody of PASSWORDS, with SCRAM: before there is a broker, as brokers that log in with SCRAM need it."""
    for name, password in PASSWORDS.items():
        add = f"--alter --entity-type users --entity-name {name} --add-config SCRAM-SHA-256=[password={password}]"
        command(release, CONFIG, ["--zookeeper", zookeeper.address, *add.split()])


def rayft(*arguments: str) -> None:
    assert cli.main(arguments) == 0, arguments


def lines(directory: Path) -> str:
    """The logs of the cluster, for a failure."""
    return "\n".join(f"== {path.name}\n{path.read_text()[-3000:]}" for path in sorted(directory.glob("*.log")))


@contextmanager
def bridged(zookeeper: ZooKeeper, directory: Path, brokers: int, *options: str) -> Iterator[plan.Plan]:
    """The cluster taken over; its rayft part is stopped in the end."""
    try:
        rayft("bridge", "--zookeeper", zookeeper.address, "--dir", str(directory), "--brokers", str(brokers), *options)
        found = plan.load(directory)
        assert found is not None
        yield found
    except BaseException:
        print(lines(directory))
        raise
    finally:
        cli.main(["down", "--dir", str(directory)])


def door(cluster: plan.Plan, id: int) -> Access:
    """Where a broker of rayft is asked as another node."""
    return node_access(cluster.member(id).config, controller=False)


def metadata(address: Access) -> Any:
    return probe.ask(address, "Metadata", message("MetadataRequest")(topics=None), 9)


def replicas(address: Access) -> dict[tuple[str, int], tuple[list[int], list[int]]]:
    """(topic, partition) -> replicas, ISR, as a broker shows them."""
    return {
        (topic.name, one.partition_index): (list(one.replica_nodes), list(one.isr_nodes))
        for topic in metadata(address).topics
        for one in topic.partitions
    }


def move_everything(address: Access, to: list[int]) -> None:
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


def records_in(cluster: plan.Plan, topic: str) -> int:
    """How many records the brokers have of a topic, by the ends of its partitions."""
    leaders = {
        one.partition_index: one.leader_id
        for found in metadata(door(cluster, cluster.brokers[0].config.broker_id)).topics
        if found.name == topic
        for one in found.partitions
    }
    total = 0
    kind = message("ListOffsetsRequest")
    for leader in set(leaders.values()):
        wanted = [
            kind.ListOffsetsPartition(partition_index=number, timestamp=-1)
            for number, one in leaders.items()
            if one == leader
        ]
        request = kind(replica_id=-1, topics=[kind.ListOffsetsTopic(name=topic, partitions=wanted)])
        reply = probe.ask(door(cluster, leader), "ListOffsets", request, 4, 10.0)
        assert {one.error_code for one in reply.topics[0].partitions} == {0}, reply
        total += sum(one.offset for one in reply.topics[0].partitions)
    return total
