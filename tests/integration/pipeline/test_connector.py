"""Spark's own kafka source beside rayft's: equal rows over codecs, transactions, gaps, headers and times, and a query that
changes from the one to the other with its checkpoint."""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

pytest.importorskip("pyspark", reason="PySpark is not installed")

from bench import spark_kafka
from tests.integration.arrow.test_read import written
from tests.integration.pipeline.conftest import Topics
from tests.integration.pipeline.test_streams import produce

ROOT = Path(__file__).parents[3]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


class Both:
    """A process with both sources."""

    def __init__(self, folder: Path) -> None:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(folder / "pyspark"), str(ROOT)]),
            "SPARK_HOME": str(folder / "pyspark" / "pyspark"),
            "RAYFT_CONNECTOR": str(folder / "libs"),
        }
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed in close
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.pipeline.connector"],
            env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
        )  # fmt: skip

    def ask(self, word: str, **more: Any) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"word": word, **more}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            raise AssertionError(self.errors.read()[-3000:])
        return json.loads(line)

    def close(self) -> None:
        self.process.communicate()
        self.errors.close()


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    folder = spark_kafka.fetched(ROOT / ".kafka" / "spark")
    if folder is None:
        pytest.skip("Spark's kafka source cannot be fetched")
    made = Both(folder)
    yield made
    made.close()


def equal(both: Both, topics: Topics, rows: int | None = None, **options: str) -> int:
    """Check that both sources give the same rows. Returns their number."""
    given = {name.replace("__", "."): text for name, text in options.items()}
    given |= {"kafka.bootstrap.servers": topics.servers, "includeHeaders": "true"}
    found = both.ask("compared", options=given)
    assert "error" not in found, found
    assert found["only"] == [0, 0] and found["types"] and found["rows"][0] == found["rows"][1], found
    assert rows is None or found["rows"][0] == rows
    return int(found["rows"][0])


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("transactions", [False, True], ids=["plain", "transactions"])
def test_the_rows_are_those_of_sparks_own_source(
    both: Both, topics: Topics, name: str, codec: str, transactions: bool
) -> None:
    topics.make(name)
    written(topics.cluster, name, random.Random(5), codec, transactions)
    levels = ("read_committed", "read_uncommitted") if transactions else ("read_committed",)
    counts = [equal(both, topics, subscribe=name, minPartitions="5", kafka__isolation__level=one) for one in levels]
    assert counts[-1] == 600 and (not transactions or 0 < counts[0] < 600)


def test_places_are_understood_as_by_sparks_own_source(both: Both, topics: Topics, name: str) -> None:
    topics.make(name, 2)
    written_at(topics, name)
    part = TopicPartition(name, 1, 10)
    topics.admin.delete_records([part])[TopicPartition(name, 1)].result(30)
    base_ms = 1_700_000_000_000

    def each(low: int, high: int) -> str:
        return json.dumps({name: {"0": low, "1": high}})

    for rows, options in (
        (190, {"subscribe": name}),
        (60, {"subscribe": name, "startingOffsets": each(70, -2), "endingOffsets": each(-1, 40)}),
        (50, {"subscribe": name, "startingTimestamp": str(base_ms + 150_500 - 500)}),
        (10, {"subscribe": name, "startingTimestamp": str(base_ms + 20_000), "endingTimestamp": str(base_ms + 30_000)}),
        (None, {"subscribe": name, "startingOffsetsByTimestamp": each(base_ms + 90_500, base_ms)}),
        (None, {"subscribe": name, "endingOffsetsByTimestamp": each(base_ms + 90_500, base_ms + 10**9)}),
        (None, {"subscribePattern": f"{name[:-2]}.*", "maxRecordsPerPartition": "7"}),
        (100, {"assign": json.dumps({name: [0]})}),
        (0, {"subscribe": name, "startingTimestamp": str(base_ms + 10**9),
             "startingOffsetsByTimestampStrategy": "latest"}),
    ):  # fmt: skip
        equal(both, topics, rows, **options)


def written_at(topics: Topics, name: str) -> None:
    """200 records, a second apart, in two partitions."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": topics.servers})
    for n in range(200):
        producer.produce(name, b"%d" % n, partition=n % 2, timestamp=1_700_000_000_000 + n * 1000)
    assert producer.flush(30) == 0


def test_a_query_goes_on_from_the_checkpoint_of_sparks_own_source(
    both: Both, topics: Topics, name: str, tmp_path: Path
) -> None:
    topics.make(name, 2)
    options = {"kafka.bootstrap.servers": topics.servers, "subscribe": name, "startingOffsets": "earliest"}
    for source, last in (("kafka", 50), ("rayft", 90), ("rayft", 130)):
        produce(topics, name, {50: 0, 90: 50, 130: 90}[last], last, 2)
        found = both.ask("streamed", name=source, options=options, folder=str(tmp_path))
        assert found == {"values": list(range(last))}, (source, found)
