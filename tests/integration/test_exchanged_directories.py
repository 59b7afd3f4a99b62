"""Partitions' directories that Apache Kafka 4.3.1 has written below a rayft broker, and ours below Apache Kafka: readers of
committed records are given the same records under the same offsets, and the producers are known as before."""

import random
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

import rayft
from actors.broker.log.directories import checkpoints
from bench import apache
from tests.integration.answers.dialogue import Broker, request
from tests.integration.conftest import until

CONFIG = {
    "log.cleaner.backoff.ms": "100",
    "log.segment.delete.delay.ms": "200",
    "log.retention.check.interval.ms": "500",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
SMALL = {"internal.segment.bytes": "20000"}
COMPACT = SMALL | {"cleanup.policy": "compact", "delete.retention.ms": "600000", "min.cleanable.dirty.ratio": "1.0"}
"""It is cleaned only when the ratio is lowered: what a reader finds has to stay the same while both are compared."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPICS = {
    "plain": SMALL,
    "cut": SMALL,
    "codecs": SMALL,
    "compacted": COMPACT,
    "transactions": SMALL,
    "compacted-transactions": COMPACT,
}
OFFSETS = (
    checkpoints.RECOVERY_POINTS,
    checkpoints.HIGH_WATERMARKS,
    checkpoints.LOG_STARTS,
    checkpoints.CLEANED_OFFSETS,
)
CLEAN_MARK = ".kafka_cleanshutdown"


class Read(NamedTuple):
    """One record, as a client sees it."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    time: tuple[int, int]


class System:
    """One broker of either software, which can be stopped, changed below and started again."""

    def __init__(
        self, prefix: str, servers: Callable[[], str], data: Path, stop: Callable[[], None], start: Callable[[], Any]
    ):
        self.prefix, self.data, self.stop, self.start = prefix, data, stop, start
        self._servers = servers
        self.open: list[Producer] = []
        """Those whose transactions do not end."""

    @property
    def client(self) -> dict[str, Any]:
        return {"bootstrap.servers": self._servers(), "log_level": 0}

    def topics(self) -> list[str]:
        """The topics that are written here."""
        return [f"{self.prefix}-{name}" for name in TOPICS]

    def create(self, prefix: str) -> None:
        admin = AdminClient(self.client)
        wanted = [NewTopic(f"{prefix}-{name}", 1, 1, config=config) for name, config in TOPICS.items()]
        for future in admin.create_topics(wanted).values():
            future.result(30)
        # A partition of rayft has a file with its topic's id once it has records.
        producer = Producer(self.client)
        for topic in wanted:
            producer.produce(topic.topic, "one", "one")
        assert producer.flush(60) == 0

    def read(self, topic: str, isolation: str = "read_committed") -> list[Read]:
        """All that a reader is given, from the beginning up to what it may see."""
        found: list[Read] = []
        consumer = Consumer(
            self.client
            | {
                "group.id": "nobody",
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 10,
            }
        )
        consumer.assign([TopicPartition(topic, 0, 0)])
        end = time.monotonic() + 60
        try:
            while time.monotonic() < end:
                for one in consumer.consume(1000, 0.05):
                    if one.error() is not None:
                        assert one.error().name() == "_PARTITION_EOF", one.error()
                        return found
                    found.append(
                        Read(one.offset(), one.key(), one.value(), tuple(one.headers() or ()), one.timestamp())
                    )
        finally:
            consumer.close()
        raise AssertionError(f"{topic} is not read to its end")

    def producers(self, topic: str) -> list[tuple[int, int, int, int, int]]:
        """What the broker knows of the producers of a topic: id, epoch, last sequence, epoch of the coordinator, where the
        present transaction began. A producer that only ever wrote control batches may have no sequence."""
        host, _, port = self._servers().split(",")[0].partition(":")
        broker = Broker((host, int(port)))
        asked = request("DescribeProducers", topics=[{"name": topic, "partition_indexes": [0]}])
        (partition,) = broker.ask("DescribeProducers", 0, asked).topics[0].partitions
        broker.close()
        assert partition.error_code == 0, partition
        return sorted(
            (
                one.producer_id,
                one.producer_epoch,
                one.last_sequence,
                one.coordinator_epoch,
                one.current_txn_start_offset,
            )
            for one in partition.active_producers
        )

    def fill(self) -> None:
        """Write all topics, and wait until the compacted ones are compacted."""
        choose = random.Random(6)
        self._plain(f"{self.prefix}-plain", 600, choose, "none")
        self._plain(f"{self.prefix}-cut", 900, choose, "none")
        admin = AdminClient(self.client)
        for future in admin.delete_records([TopicPartition(f"{self.prefix}-cut", 0, 700)]).values():
            future.result(30)
        for codec in CODECS:
            self._plain(f"{self.prefix}-codecs", 150, choose, codec)
        for codec in CODECS:
            self._plain(f"{self.prefix}-compacted", 300, choose, codec, keys=40)
        self._transactions(f"{self.prefix}-transactions", choose, 60)
        self._transactions(f"{self.prefix}-compacted-transactions", choose, 150, keys=40)
        for topic in (f"{self.prefix}-compacted", f"{self.prefix}-compacted-transactions"):
            self.compact(topic)

    def overwrite(self, topic: str) -> None:
        """Write newer values to the keys of a compacted topic."""
        for codec in ("zstd", "none"):
            self._plain(topic, 700, random.Random(7), codec, keys=40)

    def compact(self, topic: str) -> None:
        """Let a topic be cleaned until more than half of its records are gone, and then no more."""
        before = self.read(topic)
        self._change(topic, "min.cleanable.dirty.ratio", "0.01")
        until(lambda: len(self.read(topic)) < len(before) / 2)
        self._change(topic, "min.cleanable.dirty.ratio", "1.0")
        time.sleep(1)  # what has begun ends
        after = self.read(topic)
        assert {one.key: one for one in after} == {one.key: one for one in before}
        assert set(after) <= set(before)

    def _change(self, topic: str, name: str, value: str) -> None:
        admin = AdminClient(self.client)
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(30)

    def append(self, topic: str) -> None:
        """Write one record more."""
        producer = Producer(self.client | {"enable.idempotence": True})
        producer.produce(topic, "one more", "key")
        assert producer.flush(60) == 0

    def _plain(self, topic: str, count: int, choose: random.Random, codec: str, keys: int = 0) -> None:
        settings = {
            "compression.type": codec,
            "enable.idempotence": codec != "gzip",
            "linger.ms": 5,
            "batch.size": 4000,
        }
        producer = Producer(self.client | settings)
        for number in range(count):
            key = f"key{choose.randrange(keys)}".encode() if keys else choose.choice((None, b"", b"some"))
            value = None if choose.random() < 0.1 else choose.randbytes(30).hex().encode() * 2
            headers = [("number", b"%d" % number), ("nothing", b"")] if choose.random() < 0.3 else []
            producer.produce(topic, value, key, headers=headers, timestamp=self._at(number))
            producer.poll(0)
        assert producer.flush(60) == 0

    @staticmethod
    def _at(number: int) -> int:
        return int(time.time() * 1000) - 60_000 + number * 7 % 5000

    def _transactions(self, topic: str, choose: random.Random, count: int, keys: int = 0) -> None:
        """Three producers, whose transactions overlap; each third is aborted. The last one of the third does not end."""
        producers = [
            Producer(
                self.client
                | {"transactional.id": f"{topic}-{number}", "linger.ms": 1, "compression.type": choose.choice(CODECS)}
            )
            for number in range(3)
        ]
        for producer in producers:
            producer.init_transactions(30)
        begun: dict[int, Producer] = {}
        for number in range(count):
            place = choose.randrange(2 if number > count // 2 else 3)
            producer = producers[place]
            if place in begun:
                del begun[place]
                if choose.randrange(3):
                    producer.commit_transaction(30)
                else:
                    producer.abort_transaction(30)
            producer.begin_transaction()
            begun[place] = producer
            for _ in range(choose.randrange(1, 8)):
                key = f"key{choose.randrange(keys)}" if keys else None
                producer.produce(topic, choose.randbytes(30).hex(), key)
            producer.flush(30)
        for place, producer in begun.items():
            if place == 2 and not keys:
                self.open.append(producer)
            else:
                producer.commit_transaction(30)
        if not keys:
            producers[0].begin_transaction()
            producers[0].produce(topic, "behind an open one")
            producers[0].commit_transaction(30)


def put(source: System, target: System) -> None:
    """Lay the partitions of one system below the other, under the topic ids that it gave them, with their entries in the
    checkpoints."""
    for topic in source.topics():
        place = target.data / f"{topic}-0"
        identity = (place / "partition.metadata").read_bytes()
        shutil.rmtree(place)
        shutil.copytree(source.data / f"{topic}-0", place)
        (place / "partition.metadata").write_bytes(identity)
    for name in OFFSETS:
        ours = _offsets(source.data / name)
        theirs = _offsets(target.data / name)
        moved = {(topic, 0) for topic in source.topics()}
        merged = {key: value for key, value in theirs.items() if key not in moved}
        merged |= {key: value for key, value in ours.items() if key in moved}
        if merged:
            (target.data / name).write_bytes(checkpoints.encode_offsets(merged))


def _offsets(path: Path) -> dict[tuple[str, int], int]:
    return checkpoints.parse_offsets(path.read_bytes()) if path.exists() else {}


@pytest.fixture
def systems(tmp_path: Path) -> Iterator[tuple[System, System]]:
    """A broker of rayft, and one of Apache Kafka."""
    if apache.libs() is None:
        pytest.skip("no Apache Kafka to exchange directories with: `make kafka` fetches it where it can")
    cluster = rayft.Cluster(controllers=1, brokers=1, dir=tmp_path / "c", config=CONFIG)
    with apache.ApacheKafka(config=CONFIG, heap="512m") as kafka, cluster:
        ours = System(
            "ours", lambda: cluster.bootstrap_servers, tmp_path / "c" / "broker-1", cluster.stop, cluster.start
        )
        (data,) = kafka.log_directories()
        yield ours, System("theirs", lambda: kafka.bootstrap_servers, data, kafka.stop_all, kafka.start_all)


def both(one: Callable[[], Any], two: Callable[[], Any]) -> None:
    """Do two things at a time."""
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(one), pool.submit(two)]:
            done.result()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "recovered"])
def test_each_serves_what_the_other_has_written(systems: tuple[System, System], clean: bool) -> None:
    ours, theirs = systems
    for system in systems:
        for prefix in ("ours", "theirs"):
            system.create(prefix)
    both(ours.fill, theirs.fill)
    before = {topic: system.read(topic) for system in systems for topic in system.topics()}
    producers = {topic: system.producers(topic) for system in systems for topic in system.topics()}
    both(ours.stop, theirs.stop)
    put(ours, theirs)
    put(theirs, ours)
    for system in systems:
        if not clean:
            # As after a crash before the first flush.
            (system.data / CLEAN_MARK).unlink()
            (system.data / checkpoints.RECOVERY_POINTS).unlink()
            for topic in (*ours.topics(), *theirs.topics()):
                for path in (system.data / f"{topic}-0").iterdir():
                    if path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
                        path.unlink()
    both(ours.start, theirs.start)
    for source, target in ((ours, theirs), (theirs, ours)):
        for topic in source.topics():
            found = target.read(topic)
            assert found == before[topic], topic
            assert found, topic
            assert target.producers(topic) == producers[topic], topic
            if not topic.endswith("-transactions") or "compacted" in topic:
                target.append(topic)
                assert target.read(topic)[:-1] == found, topic
        # The log goes on being compacted from where the other has left it.
        target.overwrite(f"{source.prefix}-compacted")
        target.compact(f"{source.prefix}-compacted")
        assert before[f"{source.prefix}-cut"][0].offset == 700
        stable = before[f"{source.prefix}-transactions"]
        assert 0 < len(stable) < len(target.read(f"{source.prefix}-transactions", "read_uncommitted"))
