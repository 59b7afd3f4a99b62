"""`rayft.scan` against both kinds of broker: DuckDB, Polars and pyarrow get the rows that a table has, and fetch only what
they need."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import rayft
from actors.arrow import scanning
from tests.integration.arrow.test_write import made

pytestmark = pytest.mark.timeout(240)
BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
ROWS = 3000


@pytest.fixture(scope="module")
def filled(kafka: Any) -> str:
    """A topic of three partitions: partition, offset and second of each row follow from its number."""
    made(kafka, "scanned", 3)
    rows = pa.table(
        {
            "key": pa.array([b"%d" % n for n in range(ROWS)]),
            "value": pa.array([b"v%d" % (n % 7) for n in range(ROWS)]),
            "partition": pa.array([n % 3 for n in range(ROWS)]),
            "timestamp": pa.array([BEGIN + timedelta(seconds=n) for n in range(ROWS)], pa.timestamp("us", "UTC")),
        }
    )
    rayft.write(kafka.bootstrap_servers, "scanned", rows, config={"batch.size": 2000})
    return "scanned"


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[int, tuple[int, int]], list[str]]]:
    """What is read of which partition, and the columns, scan by scan."""
    found: list[tuple[dict[int, tuple[int, int]], list[str]]] = []
    before = scanning.batches

    def noted(kafka: Any, plan: Mapping[Any, Any], columns: Any, *more: Any) -> Iterator[pa.RecordBatch]:
        found.append(({part[1]: tuple(one) for part, one in plan.items()}, sorted(columns)))
        return before(kafka, plan, columns, *more)

    monkeypatch.setattr(scanning, "batches", noted)
    return found


WHOLE = {0: (0, 1000), 1: (0, 1000), 2: (0, 1000)}
LATE = "TIMESTAMPTZ '2026-11-01 00:40:00+00'"


def each(first: int, end: int) -> dict[int, tuple[int, int]]:
    """The same range of all three partitions."""
    return dict.fromkeys(range(3), (first, end))


QUERIES: list[tuple[str, dict[int, tuple[int, int]], list[str]]] = [
    ("select count(*) from t", WHOLE, ["key"]),
    ("select key from t where partition = 1", {1: (0, 1000)}, ["key", "partition"]),
    (
        'select "offset", key from t where partition in (0, 2) and "offset" between 100 and 104',
        {0: (100, 105), 2: (100, 105)},
        ["key", "offset", "partition"],
    ),
    ('select max("offset") from t where value = \'v3\'::blob and "offset" < 50', each(0, 50), ["offset", "value"]),
    (f"select count(*), min(timestamp) from t where timestamp >= {LATE}", each(800, 1000), ["timestamp"]),
    (
        f'select key from t where timestamp >= {LATE} and partition = 1 and "offset" < 810',
        {1: (800, 810)},
        ["key", "offset", "partition", "timestamp"],
    ),
    (f"select max(timestamp) from t where timestamp < {LATE}", WHOLE, ["timestamp"]),
    ('select key from t where "offset" > 5000', {}, ["key", "offset"]),
    ("select partition, sum(octet_length(key)) from t group by partition", WHOLE, ["key", "partition"]),
]


@pytest.mark.parametrize(("query", "ranges", "columns"), QUERIES, ids=[row[0] for row in QUERIES])
def test_duckdb_fetches_what_a_query_needs(
    kafka: Any, filled: str, fetched: Any, query: str, ranges: Any, columns: list[str]
) -> None:
    t = rayft.scan(kafka.bootstrap_servers, filled)
    found = duckdb.sql(query).fetchall()
    assert fetched == [(ranges, columns)]
    t = rayft.read(kafka.bootstrap_servers, filled, columns=scanning.SCHEMA.names).read_all()  # type: ignore[assignment]
    assert sorted(map(repr, found)) == sorted(map(repr, duckdb.sql(query).fetchall()))
    del t


def test_polars_fetches_what_a_query_needs(kafka: Any, filled: str, fetched: Any) -> None:
    pl = pytest.importorskip("polars")
    lazy = pl.scan_pyarrow_dataset(rayft.scan(kafka.bootstrap_servers, filled))
    found = lazy.filter((pl.col("partition") == 1) & (pl.col("offset") >= 990)).select("offset", "key").collect()
    assert sorted(found.rows()) == [(offset, b"%d" % (3 * offset + 1)) for offset in range(990, 1000)]
    assert fetched == [({1: (990, 1000)}, ["key", "offset", "partition"])]
    late = BEGIN + timedelta(seconds=2400)
    assert lazy.filter(pl.col("timestamp") >= late).select(pl.len()).collect().item() == 600
    assert fetched[1][0] == dict.fromkeys(range(3), (800, 1000))


def test_pyarrow_scans_as_often_as_it_likes(kafka: Any, filled: str, fetched: Any) -> None:
    topic = rayft.scan(kafka.bootstrap_servers, filled, start={(filled, 0): 10, (filled, 2): 0}, end=500)
    assert topic.count_rows() == 490 + 500
    assert topic.count_rows(filter=ds.field("partition") == 2) == 500
    some = topic.filter(ds.field("offset") < 20)
    assert some.to_table(columns={"n": ds.field("offset") + 1}).column("n").to_pylist().count(20) == 2
    assert some.filter(ds.field("partition") == 0).to_table(["offset"]).column(0).to_pylist() == list(range(10, 20))
    assert topic.head(3, columns=["partition"]).num_rows == 3
    assert sum(one.num_rows for one in topic.to_batches(columns=[])) == 990
    assert pa.RecordBatchReader.from_stream(some).read_all().num_rows == 30
    assert [one[0] for one in fetched][:3] == [{0: (10, 500), 2: (0, 500)}, {2: (0, 500)}, {0: (10, 20), 2: (0, 20)}]


def test_a_limit_ends_a_scan_and_its_connections(kafka: Any, filled: str) -> None:
    t = rayft.scan(kafka.bootstrap_servers, filled)
    assert len(duckdb.sql("select key from t limit 2").fetchall()) == 2
    del t
