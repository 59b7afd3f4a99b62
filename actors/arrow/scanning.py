"""`rayft.scan`: topics as a dataset of pyarrow, of which only what a query needs is fetched.

    orders = rayft.scan("localhost:9092", "orders")
    duckdb.sql('select max("offset") from orders where partition = 3 and timestamp > now() - interval 1 hour')
    polars.scan_pyarrow_dataset(orders).filter(polars.col("offset") < 1000).select("value").collect()
    orders.to_table(columns=["key"], filter=pyarrow.dataset.field("partition") == 3)

DuckDB and Polars take a `pyarrow.dataset.Dataset` with a projection and a filter, and so does this class, which is one
for them and has nothing of C++'s behind it: every method that would ask there is replaced. Rules:

1. Each scan is a read of its own (`reading.py`), with offsets that are asked when it begins. Nothing is connected before.
2. Columns that neither the projection nor the filter names are not built. Partitions, offsets and the beginning of a time
   that the filter excludes are not fetched (`pruning.py`). The end of a time is not: a record of an earlier time may come
   behind one of a later time, so all up to the end has to be looked at.
3. All rows that come are filtered by Arrow.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from actors.arrow import pruning
from actors.arrow.ranges import Place, Range, ranges
from actors.arrow.reading import LARGE, batches
from actors.arrow.values.asked import BYTES, Asked, Reading, needed, reading
from actors.client.asks import Steps
from actors.client.errors import ClientError
from actors.client.operations.leaders import Part
from actors.client.operations.offsets import Found, list_offsets
from actors.client.properties import ClientConfig, client_config
from actors.host.client.blocking import Kafka, given
from actors.replay.columns.record_columns import SCHEMA

Projection = list[str] | dict[str, pc.Expression] | None


def scan(
    bootstrap: str | None,
    topics: str | Sequence[str],
    start: Place = "earliest",
    end: Place = "latest",
    *,
    value_format: str | None = None,
    key_format: str | None = None,
    schema_registry: str | None = None,
    value_schema: int | str | None = None,
    key_schema: int | str | None = None,
    on_error: str = "fail",
    config: Mapping[str, Any] | str | None = None,
) -> "Topics":
    """Topics as a dataset of pyarrow with the columns key, value, topic, partition, offset, timestamp, timestampType and
    headers, which DuckDB and Polars read by what they need. Arguments as of `rayft.read`; nothing is asked before a scan,
    but the schema registry for the schema of the columns. Raises ConfigError, OSError; a scan raises ClientError."""
    names = [topics] if isinstance(topics, str) else list(topics)
    asked = Asked(value_format, key_format, schema_registry, value_schema, key_schema, on_error)
    return Topics(bootstrap, names, start, end, config, asked=asked)


class Topics(ds.Dataset):  # type: ignore[misc]
    """A dataset of topics. It may be scanned any number of times, and sees what the topics have then."""

    def __init__(
        self,
        bootstrap: str | None,
        topics: list[str],
        start: Place,
        end: Place,
        config: Mapping[str, Any] | str | None,
        wanted: pc.Expression | None = None,
        asked: Asked = BYTES,
    ) -> None:
        self._made_of = bootstrap, topics, start, end, config
        self._given = given(bootstrap, config, LARGE)
        self._config: ClientConfig = client_config(self._given)
        self._wanted = wanted
        self._asked = asked
        self._schema: pa.Schema | None = None

    def __reduce__(self) -> Any:
        return Topics, (*self._made_of, self._wanted, self._asked)

    def __repr__(self) -> str:
        return f"<rayft.scan of {', '.join(self._made_of[1])}>"

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of all columns. Raises ClientError where it is in a schema registry, and cannot be had."""
        if self._schema is None:
            values = self._reading(SCHEMA.names)
            self._schema, self._asked = values.schema(SCHEMA), values.pinned(self._asked)
        return self._schema

    def _reading(self, columns: Sequence[str]) -> Reading:
        return reading(columns, self._made_of[1], self._asked.of(columns), self._given)

    @property
    def partition_expression(self) -> pc.Expression:
        """The filter that all rows fulfil."""
        return pc.scalar(True) if self._wanted is None else self._wanted

    # ---- scans

    def scanner(self, columns: Projection = None, filter: pc.Expression | None = None, **options: Any) -> ds.Scanner:
        """A scan of some columns and rows. `columns`: names, or expressions by name; `options`: those of
        `pyarrow.dataset.Scanner.from_batches`. Raises ValueError for a column that does not exist."""
        wanted = _both(self._wanted, filter)
        found = pruning.referenced(self.schema, columns, wanted) or ["offset"]
        read = pa.schema([self.schema.field(name) for name in found])
        return ds.Scanner.from_batches(
            self._batches(found, wanted), schema=read, columns=columns, filter=wanted, **options
        )

    def _batches(self, columns: list[str], wanted: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        _, topics, start, end, _ = self._made_of
        values = self._reading(needed(columns))
        kafka = Kafka(self._config)
        try:
            plan = kafka.run(ranges(topics, start, end, self._config.isolation))
            if wanted is not None:
                plan = kafka.run(narrowed(plan, wanted, self._config.isolation, self.schema))
        except BaseException:
            kafka.close()
            raise
        for batch in values.batches(batches(kafka, plan, values.decoded)):
            yield batch.select(columns)

    def to_table(self, columns: Projection = None, filter: pc.Expression | None = None, **options: Any) -> pa.Table:
        """The rows as a table."""
        return self.scanner(columns, filter, **options).to_table()

    def to_batches(
        self, columns: Projection = None, filter: pc.Expression | None = None, **options: Any
    ) -> Iterator[pa.RecordBatch]:
        """The rows as they come."""
        return self.scanner(columns, filter, **options).to_batches()  # type: ignore[no-any-return]

    def head(
        self, num_rows: int, columns: Projection = None, filter: pc.Expression | None = None, **options: Any
    ) -> pa.Table:
        """The first rows that come."""
        return self.scanner(columns, filter, **options).head(num_rows)

    def count_rows(self, filter: pc.Expression | None = None, **options: Any) -> int:
        """The number of rows. Raises ClientError."""
        return sum(one.num_rows for one in self.scanner([], filter, **options).to_batches())

    def filter(self, expression: pc.Expression) -> "Topics":
        """The dataset of those rows that fulfil a filter as well."""
        return Topics(*self._made_of, _both(self._wanted, expression), self._asked)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All rows, for whatever takes Arrow's stream."""
        return self.scanner().to_reader().__arrow_c_stream__(requested_schema)

    # ---- what a topic cannot do

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError("topics have no files or rows by number: read them with to_table() first")

    get_fragments = _get_fragments = take = replace_schema = sort_by = join = join_asof = _refuse
    _scanner_options = _scan_options = _refuse


def _both(one: pc.Expression | None, other: pc.Expression | None) -> pc.Expression | None:
    return other if one is None else one if other is None else one & other


def narrowed(
    plan: Mapping[Part, Range], wanted: pc.Expression, isolation: int, schema: pa.Schema = SCHEMA
) -> Steps[dict[Part, Range]]:
    """The ranges of a plan without what a filter excludes. `schema`: of all columns. Raises ClientError."""
    ranges = _of_offsets(plan, wanted, schema)
    since = pruning.lowest(schema, wanted, pruning.times, -pruning.US_MAX, pruning.US_MAX)
    if ranges and since > 0:
        told = yield from list_offsets(dict.fromkeys(ranges, since // 1000), isolation=isolation)
        for part, one in told.items():
            if isinstance(one, ClientError):
                raise ClientError(f"partition {part[0]}/{part[1]}: {one}")
            first = one.offset if isinstance(one, Found) and one.offset >= 0 else ranges[part].end
            ranges[part] = Range(max(first, ranges[part].first), ranges[part].end)
    return {part: one for part, one in ranges.items() if one.first < one.end}


def _of_offsets(plan: Mapping[Part, Range], wanted: pc.Expression, schema: pa.Schema = SCHEMA) -> dict[Part, Range]:
    """What is left of the ranges by topic, partition and offset."""
    held = {part: (one.first, one.end - 1) for part, one in plan.items() if one.first < one.end}
    parts = pruning.partitions(schema, wanted, held)
    if not parts:
        return {}
    low, high = min(held[part][0] for part in parts), max(held[part][1] for part in parts)
    first = pruning.lowest(schema, wanted, pruning.offsets, low, high)
    last = pruning.highest(schema, wanted, pruning.offsets, first, high)
    return {part: Range(max(plan[part].first, first), min(plan[part].end, last + 1)) for part in parts}
