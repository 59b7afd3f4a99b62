"""`rayft.read` by address against real brokers: the rows of a foreign consumer, and an end whatever a log ends in."""

import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import rayft
from actors.client.errors import ClientError
from tests.integration.arrow.foreign import consumed
from tests.integration.conftest import everywhere

COMMITTED = {"isolation.level": "read_committed"}
ALL = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


@pytest.fixture
def topic(cluster: "rayft.Cluster", name: str) -> Iterator[str]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(name, 3, 3)])[name].result(30)
    everywhere(cluster, name, 3)
    yield name


def written(cluster: "rayft.Cluster", topic: str, draw: random.Random, codec: str, transactions: bool) -> None:
    """Records of every form; with transactions, some of which are aborted, the log of each partition ends in a marker."""
    more = {"transactional.id": f"{topic}-{uuid.uuid4().hex[:6]}"} if transactions else {}
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "compression.type": codec, "linger.ms": 5, **more}
    )
    if transactions:
        producer.init_transactions(30)
    for _ in range(4):
        if transactions:
            producer.begin_transaction()
        for n in range(150):
            producer.produce(
                topic,
                key=draw.choice([None, b"", b"k%d" % n]),
                value=draw.choice([None, b"", draw.randbytes(draw.randint(1, 300))]),
                partition=draw.randint(0, 2),
                timestamp=1_700_000_000_000 + draw.randint(0, 10_000),
                headers=[("same", b"1"), ("same", None), ("other", b"\xff")][: draw.randint(0, 3)],
            )
        if transactions:
            producer.flush(30)
            (producer.commit_transaction if draw.random() < 0.5 else producer.abort_transaction)(30)
    assert producer.flush(30) == 0


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    found = []
    for row in table.sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist():
        time_ms = round(row["timestamp"].timestamp() * 1000)
        headers = [(one["key"], one["value"]) for one in row["headers"] or []] or None
        found.append((row["key"], row["value"], row["partition"], row["offset"], time_ms, headers))
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("transactions", [False, True], ids=["plain", "transactions"])
def test_the_rows_are_those_of_a_foreign_consumer(
    cluster: "rayft.Cluster", topic: str, codec: str, isolation: str, transactions: bool
) -> None:
    written(cluster, topic, random.Random(f"{codec}{isolation}{transactions}"), codec, transactions)
    table = rayft.read(cluster.bootstrap_servers, topic, columns=ALL, config={"isolation.level": isolation}).read_all()
    assert set(table.column("topic").to_pylist()) <= {topic}
    assert rows(table) == consumed(cluster, topic, isolation)


def test_small_answers_lose_nothing(cluster: "rayft.Cluster", topic: str) -> None:
    """Each answer cuts a batch off, and some hold one only."""
    written(cluster, topic, random.Random(1), "lz4", True)
    config = {"max.partition.fetch.bytes": 2000, "fetch.max.bytes": 3000, **COMMITTED}
    table = rayft.read(cluster.bootstrap_servers, topic, columns=ALL, config=config).read_all()
    assert rows(table) == consumed(cluster, topic, "read_committed")


def test_a_range_of_offsets_and_of_times(cluster: "rayft.Cluster", topic: str) -> None:
    servers = cluster.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers})
    begin = datetime(2026, 11, 1, tzinfo=UTC)
    for n in range(100):
        producer.produce(topic, b"%d" % n, partition=0, timestamp=int(begin.timestamp() * 1000) + n * 1000)
    assert producer.flush(30) == 0

    def values(start: object, end: object) -> list[int]:
        table = rayft.read(servers, topic, start, end, columns=("value", "partition")).read_all()  # type: ignore[arg-type]
        return [int(value) for value in table.column("value").to_pylist()]

    assert values({(topic, 0): 10}, {(topic, 0): 20}) == list(range(10, 20))
    assert values({(topic, 0): 95}, "latest") == list(range(95, 100))
    assert values("earliest", {(topic, 0): 5_000}) == list(range(100)), "an end behind the log is its end"
    moments = begin + timedelta(seconds=30.5), begin + timedelta(seconds=40)
    assert values(*moments) == list(range(31, 40))
    assert values("2026-11-01T00:01:30", "latest") == list(range(90, 100))
    assert values("latest", "latest") == []
    with pytest.raises(ClientError, match="has offsets 0 to 100, and is to be read from 101"):
        values({(topic, 0): 101}, "latest")
    with pytest.raises(ClientError, match="is no place in a log"):
        values("yesterday", "latest")
    with pytest.raises(ClientError, match="is no partition of what is read"):
        values({(topic, 7): 0}, "latest")


def test_what_is_not_there_is_told(cluster: "rayft.Cluster", topic: str) -> None:
    servers = cluster.bootstrap_servers
    with pytest.raises(ClientError, match="topic nowhere-at-all does not exist"):
        rayft.read(servers, "nowhere-at-all")
    with pytest.raises(ValueError, match="no column 'colour'"):
        rayft.read(servers, topic, columns=("colour",))
    assert rayft.read(servers, topic).read_all().num_rows == 0


def test_a_read_ends_where_the_log_ended_when_it_began(cluster: "rayft.Cluster", topic: str) -> None:
    servers = cluster.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers})
    for n in range(1000):
        producer.produce(topic, b"x", partition=n % 3)
    assert producer.flush(30) == 0
    reader = rayft.read(servers, topic)
    for n in range(1000):
        producer.produce(topic, b"y", partition=n % 3)
    assert producer.flush(30) == 0
    assert set(reader.read_all().column("value").to_pylist()) == {b"x"}
