"""The Spark source `rayft` over files, for `spark.read.format("rayft")` and `spark.readStream`, by PySpark's Python Data
Source API.

    session = rayft.spark.session()                 # or rayft.spark.register(your own session)
    session.read.format("rayft").option("path", "/var/rayft/broker-1").option("topics", "orders").load()

This file and workers.py alone import pyspark. read_options.py decides what a reader reads, follow.py how a directory is
followed, and shared.py where shared batches lie. These facts of PySpark 4.0 to 4.3 shape it:

1. Spark does not prune the columns of Python sources: columns are chosen by the option `columns` or by the caller's
   schema.
2. A reader with pushFilters is refused unless spark.sql.python.filterPushdown.enabled is true, and planning with
   filters runs in a worker program of its own. Hence there are two classes of readers, chosen by the program that runs.
3. Batches must have exactly the schema that Spark announced, names of fields inside lists included.
4. Admission control and Trigger.AvailableNow exist since 4.2. Before that, a trigger reads everything there is.
"""

import gc
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as api
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from actors.replay import follow, shared, source
from actors.replay.read_options import ReadOptions, materialized, narrowed, read_options, scan

PUSHDOWN_PROGRAM = "pyspark.sql.worker.data_source_pushdown_filters"
PUSHDOWN_CONF = "spark.sql.python.filterPushdown.enabled"


class Piece(api.InputPartition):
    """The work of one task: a split of files, or a part of shared batches."""


class Files(api.DataSource):
    """The data source `rayft` of Spark, for files and shared batches. `actors/pipeline/spark.py` has all of it."""

    @classmethod
    def name(cls) -> str:
        """The name in `format("rayft")`."""
        return "rayft"

    def schema(self) -> StructType:
        """The schema of the requested columns, or of those that the table has."""
        handle, options = _handle(self.options)
        if handle is not None:
            return from_arrow_schema(shared.attach(handle).schema)
        return from_arrow_schema(read_options(follow.parted(options)[1]).schema())

    def reader(self, schema: StructType) -> api.DataSourceReader:
        """The reader of one query."""
        handle, options = _handle(self.options)
        if handle is not None:
            return SharedReader(handle, schema)
        read = read_options(options)
        if read.materialized:
            return MaterializedReader(read, schema)
        return chosen(Reader, FilteringReader)(read, schema)

    def streamReader(self, schema: StructType) -> api.DataSourceStreamReader:
        """The reader of a query that follows a directory."""
        return StreamReader(self.options, schema)


def chosen(plain: Any, filtering: Any) -> Any:
    """The class of a reader that this program may use: Spark refuses one that takes filters where it hands none down."""
    return filtering if PUSHDOWN_PROGRAM in sys.modules else plain


def _handle(options: Mapping[str, str]) -> tuple[str | None, dict[str, str]]:
    """The handle of shared batches, if there is one, and the other options."""
    rest = {name: text for name, text in options.items() if name.lower() != "shared"}
    handle = next((text for name, text in options.items() if name.lower() == "shared"), None)
    if handle is not None and rest:
        raise ValueError(f"shared batches were decoded already: leave out {', '.join(sorted(rest))}")
    return handle, rest


def columns_of(schema: StructType, known: pa.Schema) -> tuple[str, ...]:
    """Names of the caller's columns. Raises ValueError when one has another type than the log's."""
    ours = from_arrow_schema(known)
    for field in schema.fields:
        if field.dataType.simpleString() != ours[field.name].dataType.simpleString():
            raise ValueError(
                f"column {field.name} is {ours[field.name].dataType.simpleString()} in the log, not "
                f"{field.dataType.simpleString()}: read it as it is and cast it in Spark"
            )
    return tuple(schema.fieldNames())


def spark_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that batches must have exactly."""
    zone = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}  # always UTC before 4.1
    return to_arrow_schema(schema, **zone)


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with the same buffers, and Spark's names and nullability."""
    if batch.schema.equals(schema):
        return batch
    columns = [batch.column(field.name) for field in schema]
    fit = [
        one if one.type.equals(field.type) else one.cast(field.type) for one, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(fit, schema=schema)


@cache
def settle() -> None:
    """Called once in every worker. Its imported objects are excluded from garbage collection, which PySpark runs after
    every task. Without this, collection took 7% of the time."""
    gc.freeze()


class Reader(api.DataSourceReader):
    """Reads files in splits."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        found = options.open()
        self.options = options._replace(table=found.table, family=found.family or None)
        self.columns = columns_of(schema, source.schema(found.table, found.family, schema.fieldNames()))
        self.fits = spark_schema(schema)

    def partitions(self) -> Sequence[api.InputPartition]:
        """Splits on batch boundaries, enough for every core."""
        return [Piece(split) for split in self.options.planned()] or [Piece(None)]

    def read(self, partition: api.InputPartition) -> Iterator[pa.RecordBatch]:
        """Arrow batches straight from the reader."""
        settle()
        if partition.value is not None:
            for batch in scan(self.options, partition.value, self.columns):
                yield fitted(batch, self.fits)


SIGNS = {
    api.EqualTo: "=",
    api.In: "in",
    api.LessThan: "<",
    api.LessThanOrEqual: "<=",
    api.GreaterThan: ">",
    api.GreaterThanOrEqual: ">=",
} if hasattr(api, "EqualTo") else {}  # fmt: skip


class FilteringReader(Reader):
    """Reads files in splits, for programs in which Spark hands filters down. Filters that read_options.py can express
    exactly are not checked again."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Apply the filters that can be applied, and return the others."""
        for one in filters:
            sign = SIGNS.get(type(one))
            fewer = narrowed(self.options, ".".join(one.attribute), sign, one.value) if sign else None
            if fewer is None and not _always(one, str(self.options.table)):
                yield one
            self.options = fewer or self.options


NEVER_NULL = {"log": ("topic", "partition", "offset", "timestamp"), "records": ("type", "offset", "timestamp")}


def _always(one: Any, table: str) -> bool:
    """Whether a filter always holds: `offset is not null` and the like, which Spark adds to every comparison."""
    return isinstance(one, api.IsNotNull) and ".".join(one.attribute) in NEVER_NULL[table]


class MaterializedReader(api.DataSourceReader):
    """Reads the state as of an offset or a time, or changes, in one task that reads the whole log."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.columns = columns_of(schema, options._replace(columns=tuple(schema.fieldNames())).schema())
        self.fits = spark_schema(schema)

    def partitions(self) -> Sequence[api.InputPartition]:
        """The single partition that reads the whole log."""
        return [Piece(0)]

    def read(self, partition: api.InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of the table."""
        for batch in materialized(self.options, self.columns):
            yield fitted(batch, self.fits)


class SharedReader(api.DataSourceReader):
    """Reads batches that were decoded before."""

    def __init__(self, handle: str, schema: StructType) -> None:
        self.handle = handle
        self.columns = columns_of(schema, shared.attach(handle).schema)
        self.fits = spark_schema(schema)

    def partitions(self) -> Sequence[api.InputPartition]:
        """One partition for each part of the shared batches."""
        return [Piece(index) for index in range(shared.attach(self.handle).parts)] or [Piece(None)]

    def read(self, partition: api.InputPartition) -> Iterator[pa.RecordBatch]:
        """The shared buffers, without a copy."""
        settle()
        if partition.value is not None:
            for batch in shared.attach(self.handle).batches(partition.value):
                yield fitted(batch.select(list(self.columns)), self.fits)


# ---- streams ------------------------------------------------------------------------------------------------------

try:
    from pyspark.sql.streaming import datasource as limits
except ImportError:  # before 4.2
    limits = None  # type: ignore[assignment]

_Now: Any = limits.SupportsTriggerAvailableNow if limits else object


class _Stream(api.DataSourceStreamReader):
    """The methods that every version of PySpark calls."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.followed = follow.Followed(options)
        found = self.followed.opened()
        self.columns = columns_of(schema, source.schema(found.table, found.family, schema.fieldNames()))
        self.fits = spark_schema(schema)

    def initialOffset(self) -> follow.Position:
        """The position at which a new query begins."""
        return self.followed.beginning()

    def partitions(self, start: follow.Position, end: follow.Position) -> Sequence[api.InputPartition]:
        """The splits between two positions."""
        return [Piece(split) for split in self.followed.splits(start, end)]

    def read(self, partition: api.InputPartition) -> Iterator[pa.RecordBatch]:
        """Arrow batches straight from the reader."""
        settle()
        for batch in self.followed.read(partition.value, self.columns):
            yield fitted(batch, self.fits)


class _Unlimited(_Stream):
    """The stream before PySpark 4.2, which does not pass the start of a turn. It is remembered, because a position
    never goes back."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        self.reached: follow.Position = {}

    def initialOffset(self) -> follow.Position:
        """The position at which a new query begins."""
        self.reached = self.followed.beginning()
        return self.reached

    def latestOffset(self) -> follow.Position:  # type: ignore[override]
        """The position after everything there is."""
        self.reached = self.followed.latest(self.reached, None, None)
        return self.reached

    def partitions(self, start: follow.Position, end: follow.Position) -> Sequence[api.InputPartition]:
        """The splits between two positions."""
        self.reached = follow.further(self.reached, end)
        return super().partitions(start, end)


class _Limited(_Stream, _Now):
    """Admission control, and Trigger.AvailableNow."""

    def getDefaultReadLimit(self) -> Any:
        """The limit that the options maxRecordsPerTrigger and maxBytesPerTrigger give."""
        if self.followed.records_max is not None:
            return limits.ReadMaxRows(self.followed.records_max)
        if self.followed.bytes_max is not None:
            return limits.ReadMaxBytes(self.followed.bytes_max)
        return limits.ReadAllAvailable()

    def latestOffset(self, start: follow.Position, limit: Any) -> follow.Position:
        """The furthest position that the limit allows for a trigger."""
        return self.followed.latest(start, getattr(limit, "max_rows", None), getattr(limit, "max_bytes", None))

    def prepareForTriggerAvailableNow(self) -> None:
        """Let the query end after the records that exist now."""
        self.followed.freeze()

    def reportLatestOffset(self) -> follow.Position:
        """The newest position, for the progress of the query."""
        return self.followed.now()


StreamReader = _Limited if limits else _Unlimited
