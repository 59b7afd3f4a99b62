"""Spark's batches by address against real brokers: the rows of a foreign consumer, and what is told instead of rows."""

import json
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

pytest.importorskip("pyspark", reason="PySpark is not installed")

from pyspark.errors import PySparkException

from actors.host.client.blocking import Kafka
from actors.pipeline import planning, slices
from actors.pipeline.query import query
from actors.replay import spark
from tests.integration.arrow.test_read import consumed, written
from tests.integration.pipeline.conftest import Topics

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
SLOW = pytest.mark.slow
EVERYTHING = planning.Conditions()


def frame(session: Any, servers: str, **options: str) -> Any:
    """A frame of `format("rayft")`. In names of options, `__` stands for a dot."""
    reader = session.read.format("rayft").option("kafka.bootstrap.servers", servers)
    return reader.options(**{name.replace("__", "."): text for name, text in options.items()}).load()


def rows(found: Any) -> list[tuple[Any, ...]]:
    """The rows of a frame, as `consumed` has them."""
    made = []
    for row in found.collect():
        headers = [(one["key"], one["value"] and bytes(one["value"])) for one in row["headers"] or []] or None
        key, value = (None if row[name] is None else bytes(row[name]) for name in ("key", "value"))
        made.append((key, value, row["partition"], row["offset"], round(row["timestamp"].timestamp() * 1000), headers))
    return sorted(made, key=lambda row: (row[2], row[3]))


def numbered(topics: Topics, name: str, records: int, partitions: int = 1, first: int = 0) -> None:
    """Records whose values are their numbers, a second apart, round robin over the partitions."""
    producer = Producer({"bootstrap.servers": topics.servers})
    for n in range(first, first + records):
        time_ms = 1_700_000_000_000 + n * 1000
        producer.produce(name, b"%d" % n, partition=n % partitions, timestamp=time_ms)
    assert producer.flush(30) == 0


def values(found: Any) -> list[int]:
    return sorted(int(row[0]) for row in found.selectExpr("cast(value as string)").collect())


def refused(make: Callable[[], Any]) -> str:
    with pytest.raises(PySparkException) as caught:
        make()
    return str(caught.value)


@pytest.mark.parametrize(
    "codec", ["none", "lz4", "zstd", *(pytest.param(one, marks=SLOW) for one in ("gzip", "snappy"))]
)
@pytest.mark.parametrize("transactions", [False, True], ids=["plain", "transactions"])
def test_the_rows_are_those_of_a_foreign_consumer(
    session: Any, topics: Topics, name: str, codec: str, transactions: bool
) -> None:
    """With transactions, each log ends in a marker, and slices begin and end inside transactions."""
    topics.make(name)
    written(topics.cluster, name, random.Random(5), codec, transactions)
    for isolation in ("read_committed", "read_uncommitted") if transactions else ("read_committed",):
        cut = frame(
            session, topics.servers, subscribe=name, includeHeaders="true", maxRecordsPerPartition="37",
            kafka__isolation__level=isolation,
        )  # fmt: skip
        expected = consumed(topics.cluster, name, isolation)
        assert rows(cut) == expected
        assert cut.rdd.getNumPartitions() >= 12, "slices are smaller than partitions"


def test_columns_types_and_times_are_sparks_own(session: Any, topics: Topics, name: str) -> None:
    topics.make(name, 1, message_timestamp_type="LogAppendTime")
    numbered(topics, name, 3)
    found = frame(session, topics.servers, subscribe=name, includeHeaders="true")
    assert [(field.name, field.dataType.simpleString()) for field in found.schema] == [
        ("key", "binary"), ("value", "binary"), ("topic", "string"), ("partition", "int"), ("offset", "bigint"),
        ("timestamp", "timestamp"), ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]  # fmt: skip
    rows = found.collect()
    assert [row["timestampType"] for row in rows] == [1, 1, 1]
    assert all(abs(row["timestamp"].timestamp() - time.time()) < 3600 for row in rows), "the broker's time"
    assert frame(session, topics.servers, subscribe=name, columns="offset,key").columns == ["offset", "key"]
    reader = session.read.format("rayft").schema("offset long, value binary")
    narrow = reader.options(**{"kafka.bootstrap.servers": topics.servers, "subscribe": name}).load()
    assert [(row["offset"], bytes(row["value"])) for row in narrow.collect()] == [(0, b"0"), (1, b"1"), (2, b"2")]


def test_offsets_and_times_say_where_a_batch_begins_and_ends(session: Any, topics: Topics, name: str) -> None:
    topics.make(name, 2)
    numbered(topics, name, 200, 2)

    def read(**options: str) -> list[int]:
        return values(frame(session, topics.servers, subscribe=name, **options))

    def each(**numbers: int) -> str:
        return json.dumps({name: {part.removeprefix("p"): number for part, number in numbers.items()}})

    assert read() == list(range(200))
    assert read(startingOffsets=each(p0=90, p1=-2), endingOffsets=each(p0=-1, p1=5)) == sorted(
        [*range(180, 200, 2), *range(1, 11, 2)]
    )
    base_ms = 1_700_000_000_000
    assert read(startingTimestamp=str(base_ms + 150_500)) == list(range(151, 200))
    assert read(startingTimestamp=str(base_ms + 20_000), endingTimestamp=str(base_ms + 30_000)) == list(range(20, 30))
    at = each(p0=base_ms + 100_000, p1=base_ms)
    assert read(startingOffsetsByTimestamp=at, endingTimestamp=str(base_ms + 9**9)) == sorted(
        [*range(100, 200, 2), *range(1, 200, 2)]
    )
    late = str(base_ms + 9**9)
    assert "has no record at or behind" in refused(lambda: read(startingTimestamp=late))
    assert read(startingTimestamp=late, startingOffsetsByTimestampStrategy="latest") == []
    assert "/1 is read and not named" in refused(lambda: read(startingOffsets=each(p0=1)))
    assert "/2 is named and not read" in refused(lambda: read(startingOffsets=each(p0=1, p1=1, p2=1)))
    assert "ends at 5, in front of 9" in refused(
        lambda: read(startingOffsets=each(p0=9, p1=0), endingOffsets=each(p0=5, p1=-1))
    )


def test_topics_are_chosen_by_names_a_pattern_or_partitions(session: Any, topics: Topics, name: str) -> None:
    one, two = topics.make(f"{name}-one", 2), topics.make(f"{name}-two", 1)
    numbered(topics, one, 10, 2)
    numbered(topics, two, 10, 1, first=100)
    by_names = frame(session, topics.servers, subscribe=f"{one}, {two}")
    by_pattern = frame(session, topics.servers, subscribePattern=f"{name}-(one|two|three)")
    assert values(by_names) == values(by_pattern) == [*range(10), *range(100, 110)]
    assert values(frame(session, topics.servers, subscribePattern=f"{name}-tw")) == [], "a whole name is meant"
    assigned = json.dumps({one: [1], two: [0]})
    assert values(frame(session, topics.servers, assign=assigned)) == [1, 3, 5, 7, 9, *range(100, 110)]
    assert "has 2 partitions and no partition 5" in refused(
        lambda: values(frame(session, topics.servers, assign=json.dumps({one: [5]})))
    )
    assert f"topic {name}-none does not exist" in refused(
        lambda: values(frame(session, topics.servers, subscribe=f"{name}-none"))
    )


def test_conditions_make_the_plan_smaller_and_stay_true(session: Any, topics: Topics, name: str) -> None:
    topics.make(name, 3)
    numbered(topics, name, 300, 3)
    found = frame(session, topics.servers, subscribe=name)
    some = found.where("partition in (0, 2) and offset >= 10 and offset < 12")
    assert values(some) == [30, 32, 33, 35]
    if spark.SIGNS:
        plan = some._jdf.queryExecution().executedPlan().toString()
        assert "Filter (" not in plan, "what is exact is not checked by row"
    later = datetime.fromtimestamp(1_700_000_290.5, UTC)
    by_time = found.where(found.timestamp >= later)
    assert values(by_time) == list(range(291, 300))
    conditions = planning.Conditions(since_ms=round(later.timestamp() * 1000))
    pieces = planned(topics, Kept(), conditions, subscribe=name)
    assert [(one.first, one.end) for one in pieces] == [(97, 100)] * 3, "what lies in front of a time is not read"


class Kept:
    """The asked-for sentences about loss."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def __call__(self, sentence: str) -> None:
        self.sentences.append(sentence)


def planned(
    topics: Topics,
    lost: Callable[[str], None],
    conditions: planning.Conditions = EVERYTHING,
    **options: str,
) -> list[planning.Slice]:
    asked = query({"kafka.bootstrap.servers": topics.servers, **options}, False)
    with Kafka(asked.config) as kafka:
        return kafka.run(planning.batch(asked, conditions, lost))


def test_deleted_records_are_a_loss_and_gaps_are_none(session: Any, topics: Topics, name: str) -> None:
    topics.make(name, 1)
    numbered(topics, name, 100)
    (piece,) = planned(topics, Kept(), subscribe=name)
    topics.admin.delete_records([TopicPartition(name, 0, 40)])[TopicPartition(name, 0)].result(30)
    settings = query({"kafka.bootstrap.servers": topics.servers, "subscribe": name}, False).settings
    with pytest.raises(
        slices.DataLoss, match=r"no offset 0 any more: its records up to 39 were .*failOnDataLoss=false"
    ):
        list(slices.read(settings, piece, ("offset",)))
    with pytest.warns(slices.RecordsLost, match="up to 39 were deleted"):
        read = list(slices.read(settings, piece, ("offset",), fail=False))
    assert [offset for batch in read for offset in batch.column(0).to_pylist()] == list(range(40, 100))

    from_zero = {"subscribe": name, "startingOffsets": json.dumps({name: {"0": 0}})}
    assert "offsets 0 to 39 were deleted" in refused(lambda: values(frame(session, topics.servers, **from_zero)))
    assert values(frame(session, topics.servers, failOnDataLoss="false", **from_zero)) == list(range(40, 100))
    assert values(frame(session, topics.servers, subscribe=name)) == list(range(40, 100)), "earliest is no loss"
    behind = {"subscribe": name, "endingOffsets": json.dumps({name: {"0": 170}})}
    assert "the log ends at 100, and is to be read to 170" in refused(
        lambda: values(frame(session, topics.servers, **behind))
    )
    assert values(frame(session, topics.servers, failOnDataLoss="false", **behind)) == list(range(40, 100))


def test_a_compacted_log_loses_nothing_though_offsets_are_missing(session: Any, topics: Topics, name: str) -> None:
    topics.make(
        name, 1, cleanup_policy="compact", segment_bytes="1048576", min_cleanable_dirty_ratio="0.01", segment_ms="100"
    )
    producer = Producer({"bootstrap.servers": topics.servers, "linger.ms": 1})
    for n in range(600):
        producer.produce(name, b"%d" % n, key=b"%d" % (n % 7))
        if n % 60 == 0:
            producer.flush(30)
            time.sleep(0.15)
    assert producer.flush(30) == 0
    found = frame(session, topics.servers, subscribe=name, maxRecordsPerPartition="50")
    end = time.monotonic() + 60
    while len(left := values(found)) > 200:
        assert time.monotonic() < end, "the log is not compacted"
        time.sleep(0.5)
    assert left[-7:] == list(range(593, 600))
    expected = consumed_values(topics, name)
    assert set(left) >= set(expected) and set(expected) >= set(range(593, 600))


def consumed_values(topics: Topics, name: str) -> list[int]:
    """What librdkafka reads of the one partition."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": topics.servers,
            "group.id": name,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(name, 0, 0)])
    found = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        found.append(int(message.value()))
    consumer.close()
    return found


def test_a_topic_that_was_made_again_is_not_read_for_the_one_that_was_planned(topics: Topics, name: str) -> None:
    topics.make(name, 1)
    numbered(topics, name, 10)
    (piece,) = planned(topics, Kept(), subscribe=name)
    topics.delete(name)
    settings = query({"kafka.bootstrap.servers": topics.servers, "subscribe": name}, False).settings
    settings["default.api.timeout.ms"] = "20000"
    with pytest.raises(slices.DataLoss, match="does not exist"):
        list(slices.read(settings, piece, ("offset",)))
    topics.make(name, 1)
    numbered(topics, name, 20)
    with pytest.raises(slices.DataLoss, match="deleted and made anew"):
        list(slices.read(settings, piece, ("offset",)))
    with pytest.warns(slices.RecordsLost, match="deleted and made anew"):
        assert list(slices.read(settings, piece, ("offset",), fail=False)) == []


def test_options_that_contradict_or_are_unknown_reach_the_user_as_a_sentence(
    session: Any, topics: Topics, name: str
) -> None:
    sentence = refused(lambda: frame(session, topics.servers, subscribe=name, minPartition="3"))
    assert "did you mean minPartitions?" in sentence
    sentence = refused(lambda: frame(session, topics.servers, subscribe=name, kafka__auto__offset__reset="earliest"))
    assert "option kafka.auto.offset.reset is not supported" in sentence
    sentence = refused(
        lambda: session.read.format("rayft").option("subscribe", name).option("path", "/tmp").load().collect()
    )
    assert "leave one of them out" in sentence
