"""Keys and values as typed columns in Spark: which schema a job has, fixed when it is planned, and which types Spark gets.

This file alone decides both. The driver asks the schema registry for the schema of the columns, whose id each task is told;
a task asks for those that values were written with. Types that Spark does not know become the nearest that it does: enums
strings, times of day whole numbers of their unit, unsigned ones wider, timestamps microseconds, decimals of more than 38
digits strings. A time beyond what Spark's microseconds reach, as the largest number of milliseconds, which some write for
never, is a value that cannot be read.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from actors.arrow.values.asked import Asked, Reading, needed, reading
from actors.arrow.values.far_times import far
from actors.client.errors import ClientError
from actors.pipeline.query import Query
from actors.replay.columns.record_columns import schema

DIGITS_MAX = 38
TOO_FAR = "it has a time that is further away than Spark's microseconds reach"


def planned(query: Query) -> tuple[Query, pa.Schema]:
    """A query whose schemas are fixed, and the Arrow schema of its columns as Spark knows types. Asks the registry. Raises
    ClientError and ValueError."""
    topics = list(query.topics.names) or sorted({topic for topic, _ in query.topics.parts})
    values: Reading = reading(query.columns, topics, query.asked, query.settings)
    typed = values.schema(schema(query.columns))
    known = pa.schema([pa.field(one.name, plain(one.type), one.nullable) for one in typed])
    return query._replace(asked=values.pinned(query.asked)), known


def columns(settings: Mapping[str, Any], asked: Asked, names: tuple[str, ...], topic: str) -> tuple[list[str], Reading]:
    """(the columns of records that a task fetches, what makes those of a job of them). Asks the registry. Raises
    ClientError."""
    records = needed(names)
    values = reading(records, [topic], asked.of(records), settings)
    return values.decoded, values


def given(
    values: Reading, batches: Iterator[pa.RecordBatch], names: tuple[str, ...], on_error: str
) -> Iterator[pa.RecordBatch]:
    """The batches of a job, with its columns as Spark knows types. Raises ClientError."""
    for batch in values.batches(batches):
        columns = {name: batch.column(name) for name in names}
        for name in names:
            columns[name], lost = cast(columns[name])
            if lost is None:
                continue
            if on_error == "fail":
                raise ClientError(f"a {name} cannot be read: {TOO_FAR}")
            if (why := columns.get(f"{name}_error")) is not None:
                columns[f"{name}_error"] = pc.if_else(lost, TOO_FAR, why)
        yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(names))


def plain(of: pa.DataType) -> pa.DataType:
    """The type that Spark has for a type of Arrow."""
    if pa.types.is_struct(of):
        return pa.struct([pa.field(one.name, plain(one.type), one.nullable) for one in of])
    if pa.types.is_map(of):
        return pa.map_(plain(of.key_type), pa.field("value", plain(of.item_type), of.item_field.nullable))
    if pa.types.is_list(of):
        return pa.list_(pa.field("item", plain(of.value_type), of.value_field.nullable))
    if pa.types.is_dictionary(of):
        return of.value_type
    if pa.types.is_timestamp(of):
        return pa.timestamp("us", of.tz)
    if pa.types.is_decimal(of) and of.precision > DIGITS_MAX:
        return pa.string()
    if pa.types.is_fixed_size_binary(of):
        return pa.binary()
    return PLAIN.get(of, of)


PLAIN = {
    pa.null(): pa.string(), pa.time32("ms"): pa.int32(), pa.time64("us"): pa.int64(), pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}  # fmt: skip
"""Type -> the type of Spark, where there is no such one."""


def cast(column: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """(a column as Spark knows types, which rows of it are null since they have a time that is too far away; None: none)."""
    wanted = plain(column.type)
    if column.type.equals(wanted):
        return column, None
    lost = far(column)
    if not lost.true_count:
        return column.cast(wanted, safe=False), None
    kept = column.take(pc.if_else(lost, None, pa.array(range(len(column)))))
    return kept.cast(wanted, safe=False), lost
