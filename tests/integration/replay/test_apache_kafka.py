"""The directories of Apache Kafka 4.3.1, as it and kill -9 leave them: what the command, Spark and Ray show of them are the
records that its own brokers give to a consumer.

Two brokers with two disks each and two replicas of most partitions; codecs, transactions that were committed, aborted and
never ended, compaction, topics that were deleted and made again while a broker was down.
"""

import random
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from actors.command import cli
from bench import apache
from tests.integration import rays
from tests.integration.conftest import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
CONFIG = {
    "log.cleaner.backoff.ms": "100",
    "log.segment.delete.delay.ms": "200",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "broker.session.timeout.ms": "18000",
}
SMALL = {"internal.segment.bytes": "15000"}
COMPACT = SMALL | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
TOPICS = {
    "plain": (3, SMALL),
    "codecs": (2, SMALL),
    "compacted": (2, COMPACT),
    "transactions": (1, SMALL),
    "again": (2, SMALL),
    "gone": (1, SMALL),
}
COLUMNS = ("partition", "offset", "key", "value", "timestamp", "headers")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
KILLS = 6
COMPACTED = 2000
"""Records that are produced to the compacted topic."""


class Row(NamedTuple):
    """A record, as a consumer or a reader shows it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    time_ms: int
    headers: tuple[tuple[str, bytes | None], ...]


def client(kafka: apache.ApacheKafka) -> dict[str, Any]:
    return {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0}


def create(kafka: apache.ApacheKafka, names: tuple[str, ...], replicas: int) -> None:
    admin = AdminClient(client(kafka))
    wanted = [NewTopic(name, TOPICS[name][0], replicas, config=TOPICS[name][1]) for name in names]
    for done in admin.create_topics(wanted).values():
        done.result(180)


def consumed(kafka: apache.ApacheKafka, topic: str, isolation: str = "read_uncommitted") -> list[Row]:
    """All that a consumer is given of a topic."""
    consumer = Consumer(
        client(kafka)
        | {"group.id": "nobody", "isolation.level": isolation, "enable.partition.eof": True, "enable.auto.commit": False,
           "auto.offset.reset": "earliest"}
    )  # fmt: skip
    left = set(range(TOPICS[topic][0]))
    consumer.assign([TopicPartition(topic, number, 0) for number in left])
    rows: list[Row] = []
    end = time.monotonic() + 280
    try:
        while left and time.monotonic() < end:
            for one in consumer.consume(1000, 0.1):
                if one.error() is None:
                    headers = tuple(one.headers() or ())
                    rows.append(Row(one.partition(), one.offset(), one.key(), one.value(), one.timestamp()[1], headers))
                elif one.error().name() == "_PARTITION_EOF":
                    left.discard(one.partition())
    finally:
        consumer.close()
    assert not left, f"{topic} is not read to its end"
    return sorted(rows)


def produced(
    kafka: apache.ApacheKafka, topic: str, count: int, choose: random.Random, codec: str = "none", keys: int = 0
) -> None:
    producer = Producer(client(kafka) | {"compression.type": codec, "linger.ms": 3, "batch.size": 3000})
    for number in range(count):
        key = b"key%d" % choose.randrange(keys) if keys else choose.choice((None, b"", b"some"))
        value = None if choose.random() < 0.1 else choose.randbytes(20).hex().encode()
        headers = [("number", b"%d" % number), ("nothing", None)] if choose.random() < 0.3 else []
        producer.produce(topic, value, key, partition=choose.randrange(TOPICS[topic][0]), headers=headers)
        producer.poll(0)
    assert producer.flush(280) == 0


def transactions(kafka: apache.ApacheKafka, choose: random.Random, name: str, *, open_ends: bool) -> list[Producer]:
    """Two producers whose transactions overlap, some of them aborted; a third one whose transaction does not end."""
    settings = client(kafka) | {"linger.ms": 1}
    producers = [Producer(settings | {"transactional.id": f"{name}-{number}"}) for number in range(3)]
    for one in producers:
        one.init_transactions(180)
    for _ in range(12):
        for one in producers[:2]:
            one.begin_transaction()
            for _ in range(choose.randint(1, 8)):
                one.produce("transactions", choose.randbytes(20).hex(), b"key")
            one.flush(280)
        for one in producers[:2]:
            if choose.randrange(3):
                one.commit_transaction(180)
            else:
                one.abort_transaction(180)
    if not open_ends:
        return []
    producers[2].begin_transaction()
    producers[2].produce("transactions", b"never ends", b"key")
    producers[2].flush(280)
    return producers[2:]


# ---- what is shown ----------------------------------------------------------------------------------------------


def rows(found: pa.Table) -> list[Row]:
    stamps = [one.timestamp() * 1000 for one in found["timestamp"].to_pylist()]
    headers = [tuple((one["key"], one["value"]) for one in some or ()) for some in found["headers"].to_pylist()]
    columns = [found[name].to_pylist() for name in COLUMNS[:4]]
    return [Row(*row, round(stamp), some) for *row, stamp, some in zip(*columns, stamps, headers, strict=True)]


def by_command(root: Path, topic: str, room: Path) -> list[Row]:
    out = room / f"{topic}-{time.monotonic_ns()}.arrow"
    words = ["replay", str(root), "--table", "log", "--topic", topic, "--columns", ",".join(COLUMNS), "--out", str(out)]
    assert cli.main(words) == 0
    return rows(pa.ipc.open_file(str(out)).read_all())


def by_spark(session: Any, root: Path, topic: str) -> list[Row]:
    options = {"topics": topic, "columns": ",".join(COLUMNS), "splitBytes": "20000"}
    return sorted(rows(session.read.format("rayft").options(**options).load(str(root)).toArrow()))


def by_ray(root: Path, topic: str) -> list[Row]:
    import ray

    from actors.replay import ray as door

    dataset = door.read(path=str(root), topics=topic, columns=",".join(COLUMNS), splitBytes="20000")
    tables = [table for table in ray.get(dataset.to_arrow_refs()) if table.num_rows]
    return sorted(rows(pa.concat_tables(tables)))


def shown(session: Any, root: Path, topic: str, room: Path) -> list[Row]:
    """What all three ways show, which is the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of copies that differ
        found = by_command(root, topic, room)
        assert found == sorted(set(found)), "each once, in order"
        assert by_spark(session, root, topic) == found
        assert by_ray(root, topic) == found
    return found


@pytest.fixture(scope="module")
def rayed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Ray runs."""
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    with rays.started(rays.environment(tmp_path_factory.mktemp("home"))) as address:
        ray.init(address=address, log_to_driver=False)
        yield
        ray.shutdown()


@pytest.fixture(autouse=True)
def jars() -> None:
    if apache.libs() is None:
        pytest.skip("no Apache Kafka whose directories could be read: `make kafka` fetches it where it can")


def settled(kafka: apache.ApacheKafka, topic: str) -> None:
    """Let a compacted topic be cleaned, and then no more."""
    until(lambda: len(consumed(kafka, topic)) < COMPACTED * 0.8)
    changed(kafka, topic, "min.compaction.lag.ms", str(10**9))
    counts = [0]
    until(lambda: len(set(counts[-3:])) == 1 < len(counts) or counts.append(len(consumed(kafka, topic))))  # type: ignore[func-returns-value]


def changed(kafka: apache.ApacheKafka, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient(client(kafka))
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(180)


def test_a_cluster_of_which_a_broker_was_down(
    session: Any, rayed: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    choose = random.Random(42)
    counts: Counter[str] = Counter()
    with apache.ApacheKafka(controllers=0, brokers=2, config=CONFIG, heap="256m", disks=2) as kafka:
        create(kafka, tuple(TOPICS), 2)
        for topic in ("plain", "again", "gone"):
            produced(kafka, topic, 600, choose)
        for codec in CODECS:
            produced(kafka, "codecs", 120, choose, codec)
            produced(kafka, "compacted", 300, choose, codec, keys=40)
        transactions(kafka, choose, "first", open_ends=False)
        kafka.kill(2)  # it keeps what it has of each topic
        admin = AdminClient(client(kafka))
        until(lambda: set(admin.list_topics(timeout=30).brokers) == {1})  # else clients ask the dead one
        for done in admin.delete_topics(["again", "gone"]).values():
            done.result(180)
        until(lambda: not {"again", "gone"} & set(admin.list_topics(timeout=30).topics))
        again = NewTopic("again", TOPICS["again"][0], replica_assignment=[[1], [1]], config=SMALL)
        admin.create_topics([again])["again"].result(180)
        for topic, count in (("again", 90), ("plain", 400), ("codecs", 100), ("compacted", 500)):
            produced(kafka, topic, count, choose, keys=40 if topic == "compacted" else 0)
        left_open = transactions(kafka, choose, "second", open_ends=True)
        settled(kafka, "compacted")
        there = [topic for topic in TOPICS if topic != "gone"]
        wanted = {topic: consumed(kafka, topic) for topic in there}
        committed = {topic: consumed(kafka, topic, "read_committed") for topic in there}
        kafka.kill(1)
        for topic in there:
            found = shown(session, kafka.directory, topic, tmp_path)
            assert found == wanted[topic], topic
            assert set(committed[topic]) <= set(found), topic
            assert topic == "transactions" or committed[topic] == found, topic
            counts[topic] = len(found)
        assert counts["again"] == 90 and len(committed["transactions"]) < counts["transactions"]
        capsys.readouterr()
        assert cli.main(["replay", str(kafka.directory), "--topic", "gone", "--table", "log"]) in (0, 1)
        said = capsys.readouterr().err
        assert "gone-0" in said and "deleted" in said, said
        kafka.start_all()  # the broker that was down follows, and deletes what is not a topic's any more
        until(lambda: not list(kafka.directory.glob("data-2*/gone-0")))
        produced(kafka, "plain", 100, choose)
        wanted = {topic: consumed(kafka, topic) for topic in ("plain", "codecs", "again")}
        kafka.stop_all()
        for topic, expected in wanted.items():
            assert shown(session, kafka.directory, topic, tmp_path) == expected, topic
        del left_open
    with capsys.disabled():
        print(f"\nrows shown: {dict(counts)}")


def test_a_broker_that_is_killed_in_the_middle_of_cleanings(
    session: Any, rayed: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is shown of the directory of a killed broker is what the broker gives once it has started again, but for what
    it has cleaned meanwhile."""
    choose = random.Random(43)
    counts: Counter[str] = Counter()
    with apache.ApacheKafka(controllers=0, brokers=1, config=CONFIG, heap="256m", disks=2) as kafka:
        create(kafka, ("plain", "compacted"), 1)
        for _ in range(KILLS):
            for codec in choose.sample(CODECS, 2):
                produced(kafka, "compacted", 500, choose, codec, keys=40)
                produced(kafka, "plain", 200, choose, codec)
            time.sleep(choose.random() * 0.5)
            kafka.kill(1)
            counts["unfinished cleanings"] += len(
                [*kafka.directory.glob("*/*/*.swap"), *kafka.directory.glob("*/*/*.cleaned")]
            )
            before = {topic: shown(session, kafka.directory, topic, tmp_path) for topic in ("plain", "compacted")}
            kafka.start(1)
            kafka.wait()
            assert consumed(kafka, "plain") == before["plain"]
            now = consumed(kafka, "compacted")
            assert set(now) <= set(before["compacted"])
            for some in (now, before["compacted"]):  # of each key the last one stays; a deletion goes, later
                last = {(row.partition, row.key): row for row in some}
                counts["keys"] = max(counts["keys"], len(last))
                assert {row for row in last.values() if row.value is not None} <= set(before["compacted"]) & set(now)
            counts["rows"] += len(before["plain"]) + len(before["compacted"])
    capsys.readouterr()
    with capsys.disabled():
        print(f"\n{dict(counts)}")
