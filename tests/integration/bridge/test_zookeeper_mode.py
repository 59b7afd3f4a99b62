"""What Apache Kafka's brokers in ZooKeeper mode make of a controller of rayft, and of brokers of rayft beside them.

Real ones of 2.8.2 and 3.9.1, taken over by `rayft bridge`. The whole way over is in test_whole_way.py.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ElectionType, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from actors.wire import framing
from actors.wire.messages import message
from tests.integration.bridge.zookeeper_mode import COORDINATORS, RELEASES, ZooKeeper, ZooKeeperBrokers
from tests.integration.conftest import command

pytestmark = pytest.mark.slow
SECONDS_MAX = 90
TOPIC = "t"
PARTITIONS = 3
STOPPED = {
    "2.8.2": "Controlled shutdown succeeded",
    "3.9.1": "Controlled shutdown request returned successfully",
}
"""What a broker of a release writes when the controller has let it go."""
RETRIED = (KafkaError._TRANSPORT, KafkaError.NOT_CONTROLLER, KafkaError.TOPIC_ALREADY_EXISTS)


def until(holds: Callable[[], Any]) -> Any:
    """Wait until something holds; what it is then."""
    end = time.monotonic() + SECONDS_MAX
    while not (found := holds()):
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.1)
    return found


class Load:
    """An idempotent producer of librdkafka that writes all the time."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.acknowledged: list[bytes] = []
        self.failed: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(bootstrap_servers,))
        self._thread.start()

    def _run(self, bootstrap_servers: str) -> None:
        producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )

        def delivered(error: Any, record: Any) -> None:
            if error is None:
                self.acknowledged.append(record.value())
            else:
                self.failed.append(str(error))

        number = 0
        while not self._over.is_set():
            producer.produce(TOPIC, b"%d" % number, on_delivery=delivered)
            number += 1
            producer.poll(0)
            time.sleep(0.005)
        producer.flush(SECONDS_MAX)

    def more(self) -> None:
        """Wait until records are acknowledged that were not before."""
        before = len(self.acknowledged)
        until(lambda: len(self.acknowledged) > before + 20)

    def end(self) -> list[bytes]:
        """Write no more; what was acknowledged."""
        self._over.set()
        self._thread.join()
        assert not self.failed
        return self.acknowledged


class Taken:
    """A cluster that `rayft bridge` has taken over: its old brokers, one controller and perhaps a broker of rayft."""

    def __init__(self, zookeeper: ZooKeeper, old: ZooKeeperBrokers, home: Path, brokers: int) -> None:
        self.old = old
        settings = home.with_suffix(".properties")
        settings.write_text("".join(f"{name}={value}\n" for name, value in COORDINATORS.items()))
        shape = ("--controllers", "1", "--brokers", str(brokers), "--config", str(settings))
        ran = command("bridge", "--zookeeper", zookeeper.address, "--dir", str(home), *shape)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        ran = command("down", "--dir", str(home))
        assert ran.returncode == 0, ran.stderr
        self.rayft = rayft.Cluster(dir=home)
        self.rayft.start()
        self.admin = AdminClient({"bootstrap.servers": old.bootstrap_servers, "log_level": 0})
        named = {*self.rayft.controller_ids, *self.rayft.broker_ids}  # brokers of rayft name themselves
        until(lambda: self.admin.list_topics(timeout=SECONDS_MAX).controller_id in named)

    def partitions(self, topic: str = TOPIC) -> list[tuple[int, list[int], list[int]]]:
        """(leader, ISR sorted, replicas) of each partition."""
        found = self.admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions
        return [(one.leader, sorted(one.isrs), one.replicas) for _, one in sorted(found.items())]

    def make(self, topic: str, replicas: int) -> None:
        """A topic, made by a client that asks the controller which Metadata names."""
        until(lambda: self._made(topic, replicas))
        until(lambda: all(leader >= 0 for leader, _, _ in self.partitions(topic)))

    def _made(self, topic: str, replicas: int) -> bool:
        try:
            self.admin.create_topics([NewTopic(topic, PARTITIONS, replicas)])[topic].result()
        except KafkaException as error:  # its brokers may name the controller before it drives them again
            assert error.args[0].retriable() or error.args[0].code() in RETRIED, error
            return error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
        return True

    def reassign(self, topic: str, replicas: list[int]) -> None:
        """Give all partitions of a topic these replicas, and wait for them."""
        kind = message("AlterPartitionReassignmentsRequest")
        count = len(self.partitions(topic))
        partitions = [kind.ReassignablePartition(partition_index=n, replicas=replicas) for n in range(count)]
        reply = self._ask(
            "AlterPartitionReassignments", kind(topics=[kind.ReassignableTopic(name=topic, partitions=partitions)])
        )
        assert not reply.error_code and not any(p.error_code for t in reply.responses for p in t.partitions), reply
        until(lambda: all(isr == sorted(replicas) and now == replicas for _, isr, now in self.partitions(topic)))

    def _ask(self, name: str, request: Any) -> Any:
        """One request to the node that Metadata names as the controller."""
        cluster = self.admin.list_topics(timeout=SECONDS_MAX)
        controller = cluster.brokers[cluster.controller_id]
        with socket.create_connection((controller.host, controller.port), SECONDS_MAX) as sock:
            sock.sendall(b"".join(framing.encode_request(name, 0, 1, "test", request)))
            stream = sock.makefile("rb")
            frame = stream.read(int.from_bytes(stream.read(4), "big"))
        return framing.decode_response(name, 0, memoryview(frame))

    def close(self) -> None:
        """End the nodes of rayft."""
        self.rayft.stop()


def read(bootstrap_servers: str, count: int, topic: str = TOPIC) -> list[bytes]:
    """All records of a topic, once as many have come, and a moment after."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "reader", "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: list[bytes] = []
    end = time.monotonic() + SECONDS_MAX
    while time.monotonic() < end:
        record = consumer.poll(1)
        if record is not None and record.error() is None:
            found.append(record.value())
        elif record is None and len(found) >= count:
            break
    consumer.close()
    return found


@pytest.fixture(params=RELEASES)
def zookeeper(request: pytest.FixtureRequest) -> Iterator[tuple[ZooKeeper, str]]:
    """ZooKeeper, and the release of the brokers."""
    with ZooKeeper() as running:
        yield running, request.param


def test_they_follow_lead_shrink_and_stop_as_the_controller_says(
    zookeeper: tuple[ZooKeeper, str], tmp_path: Path
) -> None:
    """A broker is killed and comes back, another stops in order and comes back; what was acknowledged is there once."""
    with ZooKeeperBrokers(*zookeeper, brokers=3) as old:
        cluster = Taken(zookeeper[0], old, tmp_path / "rayft", brokers=0)
        try:
            cluster.make(TOPIC, 3)
            load = Load(old.bootstrap_servers)
            load.more()
            old.kill(2)
            until(lambda: all(leader != 2 and isr == [1, 3] for leader, isr, _ in cluster.partitions()))
            load.more()
            old.start(2)
            until(lambda: all(isr == [1, 2, 3] for _, isr, _ in cluster.partitions()))
            old.terminate(3)
            assert STOPPED[zookeeper[1]] in old.log(3)
            until(lambda: all(leader in (1, 2) and isr == [1, 2] for leader, isr, _ in cluster.partitions()))
            load.more()
            old.start(3)
            until(lambda: all(isr == [1, 2, 3] for _, isr, _ in cluster.partitions()))
            sent = load.end()
            found = read(old.bootstrap_servers, len(sent))
            assert (sorted(found), len(set(found))) == (sorted(sent), len(sent))
        finally:
            cluster.close()


def test_they_replicate_from_brokers_of_rayft_and_the_other_way(
    zookeeper: tuple[ZooKeeper, str], tmp_path: Path
) -> None:
    """Leaders here and there while it is written, a leader of rayft is killed, groups move with their offsets, and the old
    broker stops in the end."""
    with ZooKeeperBrokers(*zookeeper, brokers=1) as old:
        admin = AdminClient({"bootstrap.servers": old.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic("before", 1, 1)])["before"].result()
        committed = _commit(old.bootstrap_servers)
        cluster = Taken(zookeeper[0], old, tmp_path / "rayft", brokers=1)
        try:
            (new,) = cluster.rayft.broker_ids
            both = f"{old.bootstrap_servers},{cluster.rayft.bootstrap_servers}"
            cluster.make(TOPIC, 1)
            load = Load(both)
            load.more()
            cluster.reassign(TOPIC, [1, new])
            load.more()
            cluster.reassign(TOPIC, [new, 1])
            cluster.admin.elect_leaders(ElectionType.PREFERRED).result()
            until(lambda: all(leader == new for leader, _, _ in cluster.partitions()))
            load.more()
            until(lambda: all(isr == [1, new] for _, isr, _ in cluster.partitions()))  # it follows while it is written
            cluster.rayft.kill(new, restart=False)
            until(lambda: all(leader == 1 and isr == [1] for leader, isr, _ in cluster.partitions()))
            load.more()
            cluster.rayft.start_node(new)
            until(lambda: all(isr == [1, new] for _, isr, _ in cluster.partitions()))
            for topic in (TOPIC, "before", "__consumer_offsets"):
                cluster.reassign(topic, [new])
            old.terminate(1)
            load.more()
            sent = load.end()
            found = read(cluster.rayft.bootstrap_servers, len(sent))
            assert (sorted(found), len(set(found))) == (sorted(sent), len(sent))
            group = Consumer({"bootstrap.servers": cluster.rayft.bootstrap_servers, "group.id": "g", "log_level": 0})
            (kept,) = group.committed([TopicPartition("before", 0)], timeout=SECONDS_MAX)
            group.close()
            assert kept.offset == committed
        finally:
            cluster.close()


def test_transactions_are_coordinated_here_and_there(zookeeper: tuple[ZooKeeper, str], tmp_path: Path) -> None:
    """Transactions over partitions of both kinds of broker: first an old one coordinates them, then one of rayft, which goes
    on with what the other has written. What was aborted is not read."""
    with ZooKeeperBrokers(*zookeeper, brokers=1) as old:
        before = Producer({"bootstrap.servers": old.bootstrap_servers, "transactional.id": "x", "log_level": 0})
        before.init_transactions(SECONDS_MAX)
        cluster = Taken(zookeeper[0], old, tmp_path / "rayft", brokers=1)
        try:
            (new,) = cluster.rayft.broker_ids
            cluster.make(TOPIC, 1)
            cluster.make("u", 1)
            cluster.reassign(TOPIC, [new])
            cluster.reassign("u", [1])
            producer = Producer(
                {"bootstrap.servers": old.bootstrap_servers, "transactional.id": "x", "linger.ms": 0, "log_level": 0}
            )
            producer.init_transactions(SECONDS_MAX)
            sent = _transactions(producer, "old")
            assert cluster.partitions("__transaction_state")[0][0] == 1
            cluster.reassign("__transaction_state", [new])
            sent += _transactions(producer, "new")
            again = Producer(
                {"bootstrap.servers": cluster.rayft.bootstrap_servers, "transactional.id": "x", "log_level": 0}
            )
            again.init_transactions(SECONDS_MAX)
            sent += _transactions(again, "again")
            both = f"{old.bootstrap_servers},{cluster.rayft.bootstrap_servers}"
            for topic in (TOPIC, "u"):
                assert sorted(read(both, len(sent), topic)) == sorted(sent)
        finally:
            cluster.close()


def _transactions(producer: Producer, name: str) -> list[bytes]:
    """Three that are committed, with one that is aborted between them; the values of the former."""
    sent = []
    for number in range(4):
        value = f"{name}-{number}".encode()
        producer.begin_transaction()
        for topic in (TOPIC, "u"):
            producer.produce(topic, value)
        producer.flush(SECONDS_MAX)
        if number == 1:
            producer.abort_transaction(SECONDS_MAX)
        else:
            producer.commit_transaction(SECONDS_MAX)
            sent.append(value)
    return sent


def _commit(bootstrap_servers: str) -> int:
    """Records in a topic of the old brokers, and what a group has committed of them."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for number in range(100):
        producer.produce("before", b"%d" % number)
    producer.flush(SECONDS_MAX)
    group = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0}
    )
    group.subscribe(["before"])
    read = 0
    while read < 42:
        record = group.poll(SECONDS_MAX)
        assert record is not None and record.error() is None
        read += 1
    group.commit(offsets=[TopicPartition("before", 0, read)], asynchronous=False)
    group.close()
    return read
