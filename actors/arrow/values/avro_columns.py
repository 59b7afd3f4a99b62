"""The Arrow columns of an Avro schema: the types, and the arrays out of the memory that compiled code has filled.

This file alone decides what an Avro type is in Arrow:

- A union of null and one type is that type, with nulls. A union of several types is a struct of one field a branch, of
  which one at most is not null: Parquet, Spark and most readers of Arrow know no unions. A field has the name of its type,
  without a namespace unless two branches would have one name.
- An enum is a dictionary of strings, in the order of its symbols. A map is a map; a key that is there twice stays twice.
- date32, time32[ms], time64[us], timestamp[ms, us, ns] (in UTC unless it is local), decimal128 and decimal256. A uuid stays
  the string or the bytes that it is, and a duration its twelve bytes.
- A fixed of more than FIXED_MAX bytes is binary: a null of it costs nothing then.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from actors.arrow.values.avro_schema import DEPTH_MAX, BadSchema, Type
from actors.replay.columns.arrow import texts
from fastpath.arrow.value_columns import KINDS
from fastpath.bytes.byte_builder import Owned

COLUMNS_MAX = 4_000
FIELD_NAMES_MAX = 1 << 20
"""How many characters the names of all fields may have: a type that many fields have brings its names with each."""
NAMES_TOO_LONG = f"has fields whose names have more than {FIELD_NAMES_MAX} characters"
FIXED_MAX = 64
KINDS_OF = {
    "null": ("null", 0, pa.null()), "boolean": ("bool", 1, pa.bool_()), "int": ("fixed", 4, pa.int32()),
    "long": ("fixed", 8, pa.int64()), "float": ("fixed", 4, pa.float32()), "double": ("fixed", 8, pa.float64()),
    "bytes": ("bytes", 0, pa.binary()), "string": ("bytes", 0, pa.string()),
    "enum": ("fixed", 4, pa.dictionary(pa.int32(), pa.string())),
}  # fmt: skip
"""kind -> (how its values lie, bytes of one, Arrow's type)."""
LOGICAL = {
    "date": pa.date32(), "time-millis": pa.time32("ms"), "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"), "timestamp-micros": pa.timestamp("us", "UTC"),
    "timestamp-nanos": pa.timestamp("ns", "UTC"), "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"), "local-timestamp-nanos": pa.timestamp("ns"),
}  # fmt: skip


Filled = tuple[int, Owned | None, Owned | None, Owned | None]
"""(rows, validity as a byte a row, offsets int32, data) of a column; None: it has none."""


class Column(NamedTuple):
    """A column, with those below it."""

    place: int
    """Among the columns of a layout."""
    type: Type
    """Without null; a union, if it is a struct of branches."""
    arrow: pa.DataType
    nullable: bool
    inner: "tuple[Column, ...]" = ()
    """The fields of a record, the branches of a union, what an array holds, the values of a map."""
    keys: "Column | None" = None
    """The keys of a map."""


class Layout:
    """The columns of a schema, the first of which is that of a value as a whole."""

    def __init__(self, schema: Type) -> None:
        """Raises BadSchema for one of too many columns."""
        self.columns: list[tuple[int, int, bool, int, int]] = []
        self.kids: list[int] = []
        self._names_left = FIELD_NAMES_MAX
        self.root = self._column(schema, True, 0)

    def _take(self, kind: str, width: int, nullable: bool) -> int:
        if len(self.columns) >= COLUMNS_MAX:
            raise BadSchema(f"has more than {COLUMNS_MAX} columns")
        self.columns.append((KINDS[kind], width, nullable, 0, 0))
        return len(self.columns) - 1

    def _inside(self, index: int, inner: list[int]) -> None:
        self.columns[index] = (*self.columns[index][:3], len(self.kids), len(inner))
        self.kids += inner

    def _column(self, schema: Type, nullable: bool, depth: int) -> Column:
        if depth > DEPTH_MAX:
            raise BadSchema(f"is nested deeper than {DEPTH_MAX}")
        if schema.kind == "union":
            branches = [one for one in schema.inner if one.kind != "null"]
            nullable = nullable or len(branches) < len(schema.inner)
            if not schema.inner or any(one.kind == "union" for one in branches):
                raise BadSchema("has a union of no types, or of unions")
            if len(branches) > 1:
                return self._struct(schema, _names(branches), branches, nullable, depth, True)
            return self._column(branches[0] if branches else Type("null"), nullable, depth + 1)
        if schema.kind == "record":
            types = [one.type for one in schema.fields]
            return self._struct(schema, [one.name for one in schema.fields], types, nullable, depth, False)
        if schema.kind == "array":
            index = self._take("list", 0, nullable)
            item = self._column(schema.inner[0], False, depth + 1)
            self._inside(index, [item.place])
            arrow = pa.list_(pa.field("item", item.arrow, item.nullable))
            return Column(index, schema, arrow, nullable, (item,))
        if schema.kind == "map":
            index, entries = self._take("list", 0, nullable), self._take("struct", 0, False)
            keys = Column(self._take("bytes", 0, False), Type("string"), pa.string(), False)
            value = self._column(schema.inner[0], False, depth + 1)
            self._inside(index, [entries])
            self._inside(entries, [keys.place, value.place])
            arrow = pa.map_(pa.string(), pa.field("value", value.arrow, value.nullable))
            return Column(index, schema, arrow, nullable, (value,), keys)
        kind, width, arrow = _plain(schema)
        return Column(self._take(kind, width, nullable), schema, arrow, nullable or kind == "null")

    def _struct(
        self, schema: Type, names: list[str], types: list[Type], nullable: bool, depth: int, is_union: bool
    ) -> Column:
        self._names_left -= sum(map(len, names))
        if self._names_left < 0:
            raise BadSchema(NAMES_TOO_LONG)
        index = self._take("struct", 0, nullable)
        inner = [self._column(one, is_union, depth + 1) for one in types]
        self._inside(index, [one.place for one in inner])
        fields = [pa.field(name, one.arrow, one.nullable) for name, one in zip(names, inner, strict=True)]
        return Column(index, schema, pa.struct(fields), nullable, tuple(inner))


def _plain(schema: Type) -> tuple[str, int, pa.DataType]:
    """(how values of a type that holds no other lie, bytes of one, Arrow's type)."""
    if schema.logical == "decimal":
        if schema.precision <= 38:
            return "fixed", 16, pa.decimal128(schema.precision, schema.scale)
        return "fixed", 32, pa.decimal256(schema.precision, schema.scale)
    if schema.kind == "fixed":
        return ("fixed", schema.size, pa.binary(schema.size)) if is_narrow(schema) else ("bytes", 0, pa.binary())
    kind, width, arrow = KINDS_OF[schema.kind]
    return kind, width, LOGICAL.get(schema.logical, arrow)


def is_narrow(schema: Type) -> bool:
    """Whether a fixed has a column of fixed width."""
    return 0 < schema.size <= FIXED_MAX


def _names(branches: list[Type]) -> list[str]:
    """The names of the fields of a union."""
    short = [(one.name or one.kind).rpartition(".")[2] for one in branches]
    names = short if len(set(short)) == len(short) else [one.name or one.kind for one in branches]
    if len(set(names)) < len(names):
        raise BadSchema("has a union with one type twice")
    return names


def array(column: Column, filled: list[Filled]) -> pa.Array:
    """The Arrow array of a column."""
    rows, valid, offsets, data = filled[column.place]
    bits, nulls = None, 0
    if valid is not None and len(valid):
        set_ = np.asarray(memoryview(valid))
        nulls = rows - int(np.count_nonzero(set_))
        bits = pa.py_buffer(np.packbits(set_, bitorder="little")) if nulls else None
    kind = column.type.kind
    if kind == "null":
        return pa.nulls(rows)
    if kind in ("record", "union"):
        inner = [array(one, filled) for one in column.inner]
        return pa.Array.from_buffers(column.arrow, rows, [bits], nulls, children=inner)
    if kind == "array":
        return pa.Array.from_buffers(
            column.arrow, rows, [bits, _buffer(offsets)], nulls, children=[array(column.inner[0], filled)]
        )
    if column.keys is not None:
        pairs = [array(column.keys, filled), array(column.inner[0], filled)]
        entries = pa.StructArray.from_arrays(pairs, fields=[column.arrow.key_field, column.arrow.item_field])
        return pa.Array.from_buffers(column.arrow, rows, [bits, _buffer(offsets)], nulls, children=[entries])
    if kind == "boolean":
        values = np.packbits(np.asarray(memoryview(data)), bitorder="little") if data and rows else b""
        return pa.Array.from_buffers(column.arrow, rows, [bits, _buffer(values)], nulls)
    if kind == "enum":
        places = pa.Array.from_buffers(pa.int32(), rows, [bits, _buffer(data)], nulls)
        return pa.DictionaryArray.from_arrays(places, texts(column.type.symbols), safe=False)
    if offsets is not None:
        return pa.Array.from_buffers(column.arrow, rows, [bits, _buffer(offsets), _buffer(data)], nulls)
    return pa.Array.from_buffers(column.arrow, rows, [bits, _buffer(data)], nulls)


def _buffer(of: Any) -> pa.Buffer:
    return pa.py_buffer(of) if of is not None and len(of) else pa.py_buffer(b"")
