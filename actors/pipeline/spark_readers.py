"""Topics by address in Spark: how a plan becomes tasks, what tasks give, and what Spark's conditions make of a plan.

This file alone decides that. Rules:

1. The driver plans, and reads no record. Tasks read from the brokers, as Arrow batches.
2. A batch's conditions make its plan smaller before offsets are asked for; those that are exact are not checked again.
3. A plan has no place for what it does not know: a task has the offsets and the topic id, and asks for the leader itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as api
from pyspark.sql.types import StructType

from actors.arrow.values.asked import BYTES
from actors.host.client.blocking import Kafka
from actors.pipeline import planning, slices, spark_values
from actors.pipeline.query import Query
from actors.replay import spark as files
from actors.replay.columns.record_columns import SCHEMA
from actors.replay.read_options import microseconds


class TopicsReader(api.DataSourceReader):
    """Reads topics by address in slices."""

    def __init__(self, query: Query, schema: StructType) -> None:
        self.query, known = typed(query)
        self.conditions = planning.Conditions()
        self.columns = files.columns_of(schema, known)
        self.fits = files.spark_schema(schema)

    def partitions(self) -> Sequence[api.InputPartition]:
        """The slices of the plan, whose ends are those of now."""
        lost = slices.losses(self.query.fail_on_data_loss)
        with Kafka(self.query.config) as kafka:
            found = kafka.run(planning.batch(self.query, self.conditions, lost))
        return [files.Piece(one) for one in found] or [files.Piece(None)]

    def read(self, partition: api.InputPartition) -> Iterator[pa.RecordBatch]:
        """Arrow batches from the leader of a partition."""
        yield from read(self.query, partition.value, self.columns, self.fits)


def typed(query: Query) -> tuple[Query, pa.Schema]:
    """A query whose schemas are fixed, and all columns that it may have."""
    if query.asked == BYTES:
        return query, SCHEMA
    return spark_values.planned(query)


def read(query: Query, piece: planning.Slice | None, columns: tuple[str, ...], fits: pa.Schema) -> Iterator[Any]:
    """The records of a slice as Spark wants them. Without a slice there is none."""
    files.settle()
    if piece is None:
        return
    if query.asked == BYTES:
        found = slices.read(query.settings, piece, columns, query.fail_on_data_loss)
    else:
        fetched, values = spark_values.columns(query.settings, query.asked, columns, piece.topic)
        records = slices.read(query.settings, piece, fetched, query.fail_on_data_loss)
        found = spark_values.given(values, records, columns, query.asked.on_error)
    for batch in found:
        yield files.fitted(batch, fits)


class FilteringTopicsReader(TopicsReader):
    """Reads topics by address, for programs in which Spark hands conditions down."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """Take the conditions that make the plan smaller, and return those that Spark has to check."""
        for one in filters:
            fewer, exact = narrowed(self.conditions, one)
            self.conditions = fewer
            if not exact:
                yield one


def narrowed(conditions: planning.Conditions, one: Any) -> tuple[planning.Conditions, bool]:
    """Conditions with one of Spark's besides, and whether it needs no check by row."""
    name, sign = ".".join(one.attribute) if hasattr(one, "attribute") else "", files.SIGNS.get(type(one))
    if isinstance(one, api.IsNotNull):
        return conditions, name in NEVER_NULL
    if name in ("topic", "partition") and sign in ("=", "in"):
        wanted: frozenset[Any] = frozenset([one.value] if sign == "=" else one.value)
        if name == "topic":
            return conditions._replace(
                topics=wanted & (wanted if conditions.topics is None else conditions.topics)
            ), True
        both = wanted & (wanted if conditions.partitions is None else conditions.partitions)
        return conditions._replace(partitions=both), True
    if name == "offset" and sign in ORDER and isinstance(one.value, int):
        low, high = (one.value + more if more is not None else None for more in ORDER[sign])
        ends = [end for end in (conditions.end, high) if end is not None]
        return conditions._replace(
            first=max(conditions.first, low if low is not None else 0), end=min(ends) if ends else None
        ), True
    if name == "timestamp" and sign in ("=", ">", ">=") and isinstance(one.value, datetime):
        since_ms = -(-microseconds(one.value) // 1000)
        return conditions._replace(since_ms=max(conditions.since_ms or 0, since_ms)), False
    return conditions, False


NEVER_NULL = ("topic", "partition", "offset", "timestamp", "timestampType")
ORDER: dict[str, tuple[int | None, int | None]] = {
    "=": (0, 1), ">": (1, None), ">=": (0, None), "<": (None, 0), "<=": (None, 1),
}  # fmt: skip
"""Comparison -> what is added to its offset for the first offset and the end; None: it does not say."""
