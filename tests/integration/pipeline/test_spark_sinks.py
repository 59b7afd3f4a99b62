"""Spark's sinks by address against real brokers: jobs and queries, repeated batches, and what is refused."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from pyspark.errors import StreamingQueryException

import rayft
from tests.integration.pipeline.conftest import Topics, settled
from tests.integration.pipeline.test_streams import produce
from tests.integration.pipeline.whole_query import run_to_its_end

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


def rows(topics: Topics, topic: str, column: str = "value") -> Counter[Any]:
    """The rows that readers of committed records see."""
    settled(topics.servers, topic)
    config = {"isolation.level": "read_committed"}
    return Counter(rayft.read(topics.servers, topic, columns=[column], config=config).read_all()[column].to_pylist())


def options(topics: Topics, topic: str, **more: str) -> dict[str, str]:
    own = {"kafka.bootstrap.servers": topics.servers, "topic": topic, "sinkId": topic}
    return own | {name.replace("__", "."): text for name, text in more.items()}


def write(frame: Any, given: dict[str, str]) -> None:
    frame.write.format("rayft").options(**given).mode("append").save()


def frame(session: Any, count: int, cut: int = 3) -> Any:
    return session.range(0, count, 1, cut).selectExpr(
        "cast(id as string) key", "cast(cast(id as string) as binary) value"
    )


def test_a_job_writes_its_rows_once_and_a_batch_of_the_same_number_no_rows(
    session: Any, topics: Topics, name: str
) -> None:
    topics.make(name, 3)
    write(frame(session, 90), options(topics, name, batchId="7"))
    assert sorted(rows(topics, name, "key").values()) == [1] * 90
    write(frame(session, 90, cut=5), options(topics, name, batchId="7"))
    with pytest.raises(Exception, match="batch 6 comes behind batch 7, which is written"):
        write(frame(session, 50, cut=5), options(topics, name, batchId="6"))
    assert sorted(rows(topics, name, "key").values()) == [1] * 90
    write(frame(session, 10), options(topics, name))
    write(frame(session, 10), options(topics, name, batchId="9"))
    write(frame(session, 0), options(topics, name))
    assert rows(topics, name, "key").total() == 110
    write(frame(session, 10), {"kafka.bootstrap.servers": topics.servers, "topic": name, "delivery": "at-least-once"})
    assert rows(topics, name, "key").total() == 120


@pytest.mark.slow
def test_columns_are_those_of_sparks_own_sink(session: Any, topics: Topics, name: str) -> None:
    topics.make(name, 3)
    other = topics.make(f"{name}-b", 1)
    made = session.createDataFrame(
        [(name, 2, "k", "v", [("h", bytearray(b"1")), ("h", None)], None), (other, None, None, None, None, None)],
        "topic string, partition int, key string, value string, headers array<struct<key:string,value:binary>>, "
        "timestamp timestamp",
    )
    given = options(topics, name)
    del given["topic"]
    write(made, given)
    settled(topics.servers, name, other)
    names = ["topic", "partition", "key", "value", "headers"]
    found = rayft.read(topics.servers, [name, other], columns=names).read_all().to_pylist()
    assert sorted(found, key=lambda one: one["partition"]) == [
        {"topic": other, "partition": 0, "key": None, "value": None, "headers": None},
        {
            "topic": name, "partition": 2, "key": b"k", "value": b"v",
            "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
        },
    ] or found[0]["headers"] == []  # fmt: skip


@pytest.mark.slow
def test_bad_input_is_one_error_of_a_job_and_leaves_nothing(session: Any, topics: Topics, name: str) -> None:
    topics.make(name, 3)
    good = frame(session, 30)
    for made, more, words in (
        (good, {"Topic": "there-is-none"}, "topic there-is-none does not exist"),
        (good.selectExpr("value", "3 partition"), {}, "column 'partition' says 3"),
        (good.selectExpr("key"), {}, "there is no column 'value'"),
        (good, {"kafka__transactional__id": "t"}, "kafka.transactional.id is not supported: it is made of sinkId"),
        (good, {"kafka__acks": "1"}, "kafka.acks=1 contradicts delivery=exactly-once"),
    ):
        with pytest.raises(Exception, match=words):
            given = options(topics, name, **more)
            write(made, given | ({"topic": given.pop("Topic")} if "Topic" in given else {}))
    given = options(topics, name)
    del given["sinkId"]
    with pytest.raises(Exception, match="option sinkId is missing"):
        write(good, given)
    with pytest.raises(Exception, match=r"mode\('append'\)"):
        good.write.format("rayft").options(**options(topics, name)).mode("overwrite").save()
    assert not rows(topics, name)
    write(good, options(topics, name))
    assert rows(topics, name, "key").total() == 30


class Job:
    """A query from one topic to another."""

    def __init__(self, session: Any, topics: Topics, name: str, folder: Path, **more: str) -> None:
        self.session, self.topics, self.folder = session, topics, folder
        self.source, self.name = topics.make(f"{name}-in", 3), topics.make(name, 2)
        self.sink = options(topics, name, **more)

    def start(self, checkpoint: str = "checkpoint", **trigger: Any) -> Any:
        given = {
            "kafka.bootstrap.servers": self.topics.servers,
            "subscribe": self.source,
            "startingOffsets": "earliest",
        }
        made = self.session.readStream.format("rayft").options(**given).load().select("key", "value")
        writer = made.writeStream.format("rayft").options(**self.sink)
        return writer.option("checkpointLocation", str(self.folder / checkpoint)).trigger(**trigger).start()

    def available(self, checkpoint: str = "checkpoint") -> None:
        """Write what is available now."""
        run_to_its_end(lambda: self.start(checkpoint, availableNow=True))

    def record(self) -> dict[str, Any]:
        """What the ledger says of the sink."""
        found = rayft.read(self.topics.servers, "rayft-sinks", columns=["key", "value"]).read_all().to_pylist()
        told: dict[str, Any] = json.loads([one["value"] for one in found if one["key"] == self.name.encode()][-1])
        return told


def test_a_query_writes_each_row_once_also_when_spark_repeats_a_batch(
    session: Any, topics: Topics, name: str, tmp_path: Path
) -> None:
    job = Job(session, topics, name, tmp_path)
    produce(topics, job.source, 0, 100, 3)
    job.available()
    produce(topics, job.source, 100, 150, 3)
    job.available()
    assert sorted(rows(topics, name).values()) == [1] * 150
    assert (job.record()["state"], job.record()["batch"]) == ("done", 1)
    (tmp_path / "checkpoint" / "commits" / "1").unlink()  # as a driver that ends behind the decision leaves it
    (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)
    produce(topics, job.source, 150, 160, 3)
    job.available()
    assert sorted(rows(topics, name).values()) == [1] * 160
    assert job.record()["query"], "tasks know their query"


@pytest.mark.slow
def test_a_sink_of_one_query_refuses_another_and_tells_it(
    session: Any, topics: Topics, name: str, tmp_path: Path
) -> None:
    job = Job(session, topics, name, tmp_path)
    produce(topics, job.source, 0, 20, 3)
    job.available()
    with pytest.raises(
        StreamingQueryException, match=f"sink {name} has batches up to 0 of query .* give it another sinkId"
    ):
        job.available("another")
    with pytest.raises(Exception, match="this is jobs without a query"):
        write(frame(session, 5), job.sink)
    assert sorted(rows(topics, name).values()) == [1] * 20
    produce(topics, job.source, 20, 30, 3)
    job.available()
    assert sorted(rows(topics, name).values()) == [1] * 30


@pytest.mark.slow
def test_a_query_whose_batches_are_not_in_the_ledger_says_where_it_begins(
    session: Any, topics: Topics, name: str, tmp_path: Path
) -> None:
    job = Job(session, topics, name, tmp_path)
    produce(topics, job.source, 0, 20, 3)
    job.available()
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "older")
    for first in (20, 40):
        produce(topics, job.source, first, first + 20, 3)
        job.available()
    with pytest.raises(
        StreamingQueryException, match="batch 1 comes behind batch 2, which is written: is this an older"
    ):
        job.available("older")
    job.sink["sinkId"] = f"{name}-b"
    produce(topics, job.source, 60, 80, 3)
    with pytest.raises(
        StreamingQueryException, match=r"batch 3 follows no batch in the ledger, .* go on with firstBatch=3"
    ):
        job.available()
    job.sink["firstBatch"] = "3"
    job.available()
    produce(topics, job.source, 80, 100, 3)
    job.available()
    assert sorted(rows(topics, name).values()) == [1] * 100


@pytest.mark.slow
def test_the_second_run_of_a_query_overtakes_the_first(session: Any, topics: Topics, name: str, tmp_path: Path) -> None:
    """Two drivers from one checkpoint, as when a scheduler takes the first for dead."""
    job = Job(session, topics, name, tmp_path)
    produce(topics, job.source, 0, 20, 3)
    job.available()
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "second")
    produce(topics, job.source, 20, 40, 3)
    job.available()
    job.available("second")
    assert sorted(rows(topics, name).values()) == [1] * 40
