"""Kafka Streams with processing.guarantee=exactly_once_v2, while brokers and the program are killed with -9: a word count
and a windowed join. Each record of the output is there once, and none is missing. With groups of either protocol."""

import random
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

import rayft
from tests.integration.applications.programs import PATIENCE_SECONDS, Program, Reader, compiled, properties
from tests.integration.conftest import everywhere

CONFIG = {
    "registration.lease.timeout.ms": "4000",
    "registration.heartbeat.interval.ms": "800",
    "replica.lag.time.max.ms": "4000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.heartbeat.interval.ms": "1000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
INPUT = ("lines", "left", "right")
OUTPUT = ("counts", "pairs")
PARTITIONS = 2
WORDS = [f"word{number}" for number in range(25)]
KEYS = 20
STEP_MS = 40
"""From a record of the join to the next, by its own time. The records of a key are some 800 ms apart."""
WINDOW_MS = 1000


class Input:
    """Writes lines and both sides of the join at a steady pace, and knows what has to come of it."""

    def __init__(self, servers: str, seed: int, a_second: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "linger.ms": 20,
                "message.timeout.ms": 120_000,
                "log_level": 0,
            }
        )
        self._random = random.Random(seed)
        self._pause_s = 1 / a_second
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._failed: list[object] = []
        self._sides: dict[str, list[tuple[str, int, str]]] = {"left": [], "right": []}
        self.counts: Counter[str] = Counter()

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Stop writing, and wait until all is acknowledged."""
        self._stop.set()
        self._thread.join(60)
        assert self._producer.flush(120) == 0 and not self._failed, self._failed

    def pairs(self) -> list[tuple[str, str]]:
        """The key and value of each record that the join has to give."""
        left: dict[str, list[tuple[int, str]]] = {}
        for key, at_ms, value in self._sides["left"]:
            left.setdefault(key, []).append((at_ms, value))
        return sorted(
            (key, f"{beside}+{value}")
            for key, at_ms, value in self._sides["right"]
            for beside_ms, beside in left.get(key, [])
            if abs(at_ms - beside_ms) <= WINDOW_MS
        )

    def _run(self) -> None:
        begin_ms = int(time.time() * 1000) - 3_600_000
        number = 0
        while not self._stop.wait(self._pause_s):
            number += 1
            words = self._random.choices(WORDS, k=3)
            self.counts.update(words)
            self._produce("lines", None, " ".join(words), 0)
            side = self._random.choice(("left", "right"))
            key, at_ms = f"key{self._random.randrange(KEYS)}", begin_ms + number * STEP_MS
            self._sides[side].append((key, at_ms, f"{side[0]}{number}"))
            self._produce(side, key, f"{side[0]}{number}", at_ms)
            self._producer.poll(0)

    def _produce(self, topic: str, key: str | None, value: str, at_ms: int) -> None:
        self._producer.produce(topic, value, key, timestamp=at_ms, on_delivery=self._delivered)

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._failed.append(error)


def check(reader: Reader, source: Input) -> None:
    """Every record of the output is right: of each word the counts 1, 2, 3 ... in this order; each pair once."""
    found: dict[bytes, list[int]] = {}
    for _, _, key, value in reader.read["counts"]:
        assert key is not None and value is not None
        found.setdefault(key, []).append(int(value))
    for word, count in source.counts.items():
        assert found.pop(word.encode()) == list(range(1, count + 1)), word
    assert not found
    assert source.pairs() == sorted(
        (key.decode(), value.decode()) for _, _, key, value in reader.read["pairs"] if key and value
    )


def complete(reader: Reader, source: Input) -> bool:
    """Whether as many records have come as have to."""
    return len(reader.read["counts"]) >= source.counts.total() and len(reader.read["pairs"]) >= len(source.pairs())


def stuck(admin: AdminClient, reader: Reader, source: Input) -> str:
    """What is missing, and where each partition of the cluster stands: its end, its last stable offset, and what the
    application has committed."""
    found: dict[bytes, list[int]] = {}
    for _, _, key, value in reader.read["counts"]:
        found.setdefault(key or b"", []).append(int(value or 0))
    missing = {
        word: sorted(set(range(1, count + 1)) - set(found.get(word.encode(), ())))[:5]
        for word, count in source.counts.items()
        if len(found.get(word.encode(), ())) < count
    }
    topics = admin.list_topics(timeout=30).topics
    places = [TopicPartition(topic, number) for topic in sorted(topics) for number in topics[topic].partitions]
    ends = {
        level: admin.list_offsets({place: OffsetSpec.latest() for place in places}, isolation_level=level)
        for level in IsolationLevel
    }
    group = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("words-and-pairs")])["words-and-pairs"]
    committed = {(one.topic, one.partition): one.offset for one in group.result(30).topic_partitions}
    lines = [
        f"read { ({topic: len(read) for topic, read in reader.read.items()}) } of {source.counts.total()}",
        f"{missing}",
    ]
    for place in places:
        told = [ends[level][place].result(30).offset for level in (*IsolationLevel,)]
        names = [level.name for level in IsolationLevel]
        of_group = committed.get((place.topic, place.partition))
        lines.append(f"{place.topic}-{place.partition}: {dict(zip(names, told, strict=True))}, committed {of_group}")
    return "\n".join(lines) + "\n"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("protocol", ["classic", pytest.param("streams", marks=pytest.mark.slow)])
@pytest.mark.parametrize("rounds", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_the_output_is_exact_while_all_are_killed(tmp_path: Path, rounds: int, protocol: str) -> None:
    (tmp_path / "classes").mkdir()
    path = compiled(Path(__file__).with_name("WordsAndPairs.java"), tmp_path / "classes")
    choose = random.Random(rounds)
    with rayft.Cluster(controllers=1, brokers=3, dir=tmp_path / "c", config=CONFIG) as cluster:
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        for future in admin.create_topics([NewTopic(one, PARTITIONS, 3) for one in (*INPUT, *OUTPUT)]).values():
            future.result(30)
        for one in (*INPUT, *OUTPUT):
            everywhere(cluster, one, PARTITIONS)
        settings = properties(
            tmp_path / "streams.properties",
            {
                "application.id": "words-and-pairs",
                "group.protocol": protocol,
                "bootstrap.servers": servers,
                "processing.guarantee": "exactly_once_v2",
                "state.dir": tmp_path / "state",
                "num.stream.threads": 2,
                "replication.factor": 3,
                "commit.interval.ms": 100,
                "statestore.cache.max.bytes": 0,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 1000,
                "auto.offset.reset": "earliest",
            },
        )
        source = Input(servers, rounds, 150)
        with (
            Program(path, "WordsAndPairs", str(settings), log=tmp_path / "streams.log") as streams,
            Reader(servers, OUTPUT) as reader,
        ):
            source.start()
            assert reader.until(lambda: bool(reader.read["counts"] and reader.read["pairs"]), PATIENCE_SECONDS), (
                streams.said()[-4000:]
            )
            for number in range(rounds):
                victim = choose.choice(cluster.broker_ids)
                cluster.kill(victim)
                cluster.wait_ready(victim)
                before = len(reader.read["counts"])
                reader.until(lambda before=before: len(reader.read["counts"]) > before + 200, 30)
                if number % 2 == 0:
                    streams.kill()
                    streams.start()
                    before = len(reader.read["counts"])
                    goes_on = reader.until(lambda before=before: len(reader.read["counts"]) > before, PATIENCE_SECONDS)
                    assert goes_on, streams.said()[-4000:]
            source.finish()
            if not reader.until(lambda: complete(reader, source), PATIENCE_SECONDS):
                pytest.fail(stuck(admin, reader, source) + streams.said()[-4000:])
            reader.quiet()
        check(reader, source)
        assert source.counts.total() > 500 and len(source.pairs()) > 100
