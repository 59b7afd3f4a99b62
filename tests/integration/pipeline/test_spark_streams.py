"""Spark's streams by address against real brokers: checkpoints, limits, what is available now, groups, and loss."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

pytest.importorskip("pyspark", reason="PySpark is not installed")

from pyspark.errors import StreamingQueryException

from actors.pipeline import spark_streams
from tests.integration.pipeline.conftest import Topics
from tests.integration.pipeline.test_streams import produce
from tests.integration.pipeline.whole_query import WAIT_S, run_to_its_end

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


class Job:
    """A query into a folder, which may be run again from its checkpoint."""

    def __init__(self, session: Any, topics: Topics, folder: Path, **options: str) -> None:
        self.session, self.folder = session, folder
        self.options = {"kafka.bootstrap.servers": topics.servers, "startingOffsets": "earliest"}
        self.options |= {name.replace("__", "."): text for name, text in options.items()}
        self.progress: list[Any] = []

    def start(self, **trigger: Any) -> Any:
        frame = self.session.readStream.format("rayft").options(**self.options).load()
        writer = frame.selectExpr("partition", "offset", "cast(value as string) value").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        return writer.trigger(**trigger).start(str(self.folder / "out"))

    def available(self) -> None:
        """Read what is available now."""
        self.progress = []
        run_to_its_end(lambda: self.start(availableNow=True), self._note)

    def _note(self, query: Any) -> None:
        self.progress += [one.numInputRows for one in query.recentProgress if one.numInputRows]

    def values(self) -> list[int]:
        """The values that were written, sorted."""
        if not list((self.folder / "out").glob("_spark_metadata/[0-9]*")):
            return []
        return sorted(int(row["value"]) for row in self.session.read.parquet(str(self.folder / "out")).collect())

    def last(self) -> dict[str, Any]:
        """The newest position in the checkpoint."""
        newest = max((self.folder / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        found: dict[str, Any] = json.loads(newest.read_text().splitlines()[-1])
        return found


@pytest.mark.skipif(spark_streams.limits is None, reason="PySpark before 4.2 has no limits")
def test_what_is_available_now_comes_in_turns_and_once_over_restarts(
    session: Any, topics: Topics, name: str, tmp_path: Path
) -> None:
    topics.make(name, 3)
    produce(topics, name, 0, 100, 3)
    job = Job(session, topics, tmp_path, subscribe=name, maxOffsetsPerTrigger="40", kafka__group__id=name)
    job.available()
    assert job.values() == list(range(100))
    assert job.progress == [40, 40, 20]
    produce(topics, name, 100, 130, 3)
    job.available()
    job.available()
    assert job.values() == list(range(130))
    assert {topic: rows for topic, rows in job.last().items() if topic == name} == {name: {"0": 44, "1": 43, "2": 43}}
    consumer = Consumer({"bootstrap.servers": topics.servers, "group.id": name})
    committed = consumer.committed([TopicPartition(name, n) for n in range(3)], 30)
    consumer.close()
    assert sum(part.offset for part in committed) == 130, "a monitor sees that nothing is left"


def test_a_running_query_sees_records_as_they_come(session: Any, topics: Topics, name: str, tmp_path: Path) -> None:
    topics.make(name, 2)
    produce(topics, name, 0, 10, 2)
    job = Job(session, topics, tmp_path, subscribe=name, minPartitions="4")
    query = job.start(processingTime="100 milliseconds")
    try:
        for last in (10, 500, 600):
            if last > 10:
                produce(topics, name, len(job.values()), last, 2)
            end = time.monotonic() + WAIT_S
            while len(job.values()) < last:
                assert query.exception() is None and time.monotonic() < end, query.exception()
                time.sleep(0.2)
    finally:
        query.stop()
    assert job.values() == list(range(600))


def test_a_topic_that_was_made_again_ends_a_query_with_a_sentence(
    session: Any, topics: Topics, name: str, tmp_path: Path
) -> None:
    topics.make(name, 1)
    produce(topics, name, 0, 10)
    job = Job(session, topics, tmp_path, subscribe=name)
    job.available()
    topics.delete(name)
    topics.make(name, 1)
    produce(topics, name, 50, 70)  # longer than the old one, so offsets alone would not tell
    with pytest.raises(StreamingQueryException, match="was deleted and made again"):
        job.available()
    job.options["failOnDataLoss"] = "false"
    job.available()
    assert job.values() == [*range(10), *range(50, 70)]


def test_a_checkpoint_of_files_is_refused(session: Any, topics: Topics, name: str, tmp_path: Path) -> None:
    topics.make(name, 1)
    produce(topics, name, 0, 10)
    job = Job(session, topics, tmp_path, subscribe=name)
    job.available()
    for path in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*"):
        lines = path.read_text().splitlines()
        path.write_text("\n".join([*lines[:-1], json.dumps({f"{name}-0@AAAA": 10})]))
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    produce(topics, name, 10, 20)
    with pytest.raises(StreamingQueryException, match="does not hold positions of topics by address"):
        job.available()
