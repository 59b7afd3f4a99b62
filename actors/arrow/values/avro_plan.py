"""What compiled code does to read a value of one Avro schema into the columns of another (Avro 1.12, Schema Resolution).

This file alone decides how a writer's schema is resolved to the reader's. It is done once a schema, not once a value:

1. Fields are found by name, then by the aliases of the reader's field. What the reader does not have is skipped; what the
   writer does not have is the default, which is kept as bytes and read like a value.
2. An int may become a long, a float or a double, a long a float or a double, a float a double, and a string bytes or the
   other way round. Names of records, enums and fixed have to be the same but for the namespace, or an alias.
3. Logical types of time have to be the same, and decimals of the same digits: numbers of another unit are not reinterpreted.
4. What a union holds is resolved branch by branch: a branch that does not fit is an error of the values that have it.
"""

import struct
from collections.abc import Callable
from typing import Any

from actors.arrow.values.avro_columns import Column, Layout, is_narrow
from actors.arrow.values.avro_schema import DEPTH_MAX, BadSchema, Field, Type
from fastpath.arrow.value_columns import OPS, PLACES

NODES_MAX = 20_000
WORK_MAX = 100_000
"""How much is tried for a schema: branches of unions that do not fit are taken back."""
CONSTANTS_MAX = 64 << 10
SYMBOLS_A_PART = 16
"""How many symbols of an enum cost as much as a part: one enum may be that of many fields."""
CHARS_A_PART = 16
"""How many characters of a default cost as much as a part."""
NUMBERS = {"int": "int32", "long": "int64", "float": "float", "double": "double"}
WIDER = {"int": ("int", "long", "float", "double"), "long": ("long", "float", "double")}
"""What whole numbers of a writer may become."""
DAYS = {"time-millis": "day ms", "time-micros": "day us"}
SKIPPED = {
    "null": ("skip bytes", 0), "boolean": ("skip bytes", 1), "int": ("skip varint", 0), "long": ("skip varint", 0),
    "enum": ("skip varint", 0), "float": ("skip bytes", 4), "double": ("skip bytes", 8), "bytes": ("skip sized", 0),
    "string": ("skip sized", 0), "array": ("skip array", 0), "map": ("skip map", 0), "record": ("skip record", 0),
    "union": ("skip union", 0),
}  # fmt: skip

ODD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error)
"""What encoding raises for a default that is none."""


class TooMuch(BadSchema):
    """A schema that is larger than what is looked at."""


class Plan:
    """How values of a writer's schema are read into the columns of a layout: what `ValueColumns.add` takes."""

    def __init__(self, writer: Type, layout: Layout) -> None:
        """Raises BadSchema if it cannot be resolved."""
        self._nodes: list[list[int]] = []
        self._left = WORK_MAX
        self.kids: list[int] = []
        self.table: list[int] = []
        self._constants = bytearray()
        self._resolved(writer, layout.root, 0)

    @property
    def nodes(self) -> list[tuple[int, int, int, int, int, int]]:
        """The nodes, the root first."""
        return [(op, column, first, count, size, at) for op, column, first, count, size, at in self._nodes]

    @property
    def constants(self) -> bytes:
        """The bytes of defaults and the limits of decimals."""
        return bytes(self._constants)

    def _spend(self, parts: int = 1) -> None:
        self._left -= parts
        if self._left < 0:
            raise TooMuch("cannot be resolved with so much work as is allowed")

    def _node(self, op: str, column: int = -1, size: int = 0, at: int = 0) -> int:
        self._spend()
        if len(self._nodes) >= NODES_MAX:
            raise TooMuch(f"has more than {NODES_MAX} parts with its references")
        self._nodes.append([OPS[op], column, 0, 0, size, at])
        return len(self._nodes) - 1

    def _inside(self, node: int, inner: list[int]) -> int:
        self._nodes[node][2:4] = len(self.kids), len(inner)
        self.kids += inner
        return node

    def _constant(self, data: bytes) -> int:
        if len(self._constants) + len(data) > CONSTANTS_MAX:
            raise TooMuch(f"has defaults of more than {CONSTANTS_MAX} bytes")
        self._constants += data
        return len(self._constants) - len(data)

    # ---- what is kept

    def _resolved(self, writer: Type, column: Column, depth: int) -> int:
        """The node that reads a writer's type into a column. Raises BadSchema."""
        if depth > 2 * DEPTH_MAX:
            raise BadSchema(f"is nested deeper than {DEPTH_MAX}")
        if writer.kind == "union":
            return self._union(writer, column, depth)
        if writer.kind == "null":
            if not column.nullable:
                raise BadSchema(f"has null where {_named(column.type)} is wanted")
            return self._node("null", column.place)
        if column.type.kind == "union":
            return self._branch(writer, column, depth)
        return self._plain(writer, column, depth)

    def _union(self, writer: Type, column: Column, depth: int) -> int:
        node = self._node("union")
        inner, faults = [], []
        for one in writer.inner:
            try:
                inner.append(self._resolved(one, column, depth + 1))
            except TooMuch:
                raise
            except BadSchema as error:
                faults.append(error)
                inner.append(self._node("refused"))
        if len(faults) == len(inner):
            raise faults[0] if faults else BadSchema("has a union of no types")
        return self._inside(node, inner)

    def _branch(self, writer: Type, column: Column, depth: int) -> int:
        """Read a type that is no union into the branch that fits best."""
        fits = sorted(range(len(column.inner)), key=lambda at: not _same(writer, column.inner[at].type))
        for at in fits:
            nodes, kids, table, constants = len(self._nodes), len(self.kids), len(self.table), len(self._constants)
            node = self._node("branch", column.place, at)
            try:
                return self._inside(node, [self._resolved(writer, column.inner[at], depth + 1)])
            except TooMuch:
                raise
            except BadSchema:
                del self._nodes[nodes:], self.kids[kids:], self.table[table:], self._constants[constants:]
        raise BadSchema(f"has {_named(writer)}, which no branch of a union takes")

    def _plain(self, writer: Type, column: Column, depth: int) -> int:
        kind, wanted = writer.kind, column.type
        if wanted.logical != writer.logical and wanted.logical and writer.logical:
            raise BadSchema(f"has {writer.logical} where {wanted.logical} is wanted")
        if kind in WIDER and wanted.kind in WIDER[kind]:
            return self._node(kind, column.place, PLACES[DAYS.get(wanted.logical, NUMBERS[wanted.kind])])
        if kind == "float" and wanted.kind == "double":
            return self._node("float wide", column.place)
        if kind in ("bytes", "string") and wanted.logical != "decimal" and wanted.kind in ("bytes", "string"):
            return self._node(wanted.kind, column.place)
        if kind != wanted.kind:
            raise BadSchema(f"has {_named(writer)} where {_named(wanted)} is wanted")
        if writer.name and not _is_named(writer, wanted):
            raise BadSchema(f"has {_named(writer)} where {_named(wanted)} is wanted, and no alias says that it is one")
        if wanted.logical == "decimal":
            return self._decimal(writer, column)
        if kind == "fixed":
            if writer.size != wanted.size:
                raise BadSchema(f"has {writer.size} bytes of {_named(writer)} where {wanted.size} are wanted")
            return self._node("fixed" if is_narrow(wanted) else "fixed bytes", column.place, writer.size)
        if kind == "enum":
            return self._enum(writer, column)
        if kind == "record":
            return self._record(writer, column, depth)
        if kind in ("array", "map"):
            return self._inside(
                self._node(kind, column.place), [self._resolved(writer.inner[0], column.inner[0], depth + 1)]
            )
        return self._node(kind, column.place)

    def _decimal(self, writer: Type, column: Column) -> int:
        wanted = column.type
        if writer.logical and (writer.precision, writer.scale) != (wanted.precision, wanted.scale):
            raise BadSchema("has a decimal of other digits than are wanted")
        limit = self._constant((10**wanted.precision).to_bytes(32, "little"))
        if writer.kind == "bytes":
            return self._node("decimal", column.place, at=limit)
        if writer.size != wanted.size:
            raise BadSchema(f"has {writer.size} bytes of {_named(writer)} where {wanted.size} are wanted")
        return self._node("decimal fixed", column.place, writer.size, limit)

    def _enum(self, writer: Type, column: Column) -> int:
        wanted = column.type
        self._spend((len(writer.symbols) + len(wanted.symbols)) // SYMBOLS_A_PART)
        places = {symbol: at for at, symbol in enumerate(wanted.symbols)}
        other = places[wanted.default] if wanted.default is not None else -1
        at = len(self.table)
        self.table += [places.get(symbol, other) for symbol in writer.symbols]
        return self._node("enum", column.place, len(writer.symbols), at)

    def _record(self, writer: Type, column: Column, depth: int) -> int:
        node = self._node("record", column.place)
        places = {one.name: at for at, one in enumerate(writer.fields)}
        found: dict[int, int] = {}  # place of a writer's field -> of the reader's
        wanted = column.type.fields
        for at, one in enumerate(wanted):
            if one.name in places:
                found[places[one.name]] = at
        missing = []
        for at, one in enumerate(wanted):
            if one.name in places:
                continue
            free = [places[name] for name in one.aliases if name in places and places[name] not in found]
            if free:
                found[free[0]] = at
            else:
                missing.append(at)
        inner = []
        for at, field in enumerate(writer.fields):
            if at in found:
                inner.append(self._resolved(field.type, column.inner[found[at]], depth + 1))
            else:
                inner.append(self._skipped(field.type, depth + 1))
        inner += [self._default(wanted[at], column.inner[at], depth + 1) for at in missing]
        return self._inside(node, inner)

    def _default(self, field: Field, column: Column, depth: int) -> int:
        if not field.has_default:
            raise BadSchema(f"has no field {field.name[:100]!r}, for which there is no default")
        try:
            data = encoded(field.type, field.default, self._spend)
        except TooMuch:
            raise
        except ODD:
            raise BadSchema(f"has no field {field.name[:100]!r}, whose default is none of its type") from None
        node = self._node("default", size=len(data), at=self._constant(data))
        return self._inside(node, [self._resolved(field.type, column, depth + 1)])

    # ---- what is not

    def _skipped(self, writer: Type, depth: int) -> int:
        """The node that reads a type and keeps nothing of it."""
        if depth > 2 * DEPTH_MAX:
            raise BadSchema(f"is nested deeper than {DEPTH_MAX}")
        op, size = SKIPPED.get(writer.kind, ("skip bytes", writer.size))
        node = self._node(op, size=size)
        inner = [*writer.inner, *(one.type for one in writer.fields)]
        return self._inside(node, [self._skipped(one, depth + 1) for one in inner])


def _named(one: Type) -> str:
    return f"{one.kind} {one.name[:100]}" if one.name else one.logical or one.kind


def _is_named(writer: Type, reader: Type) -> bool:
    return _short(writer.name) == _short(reader.name) or writer.name in reader.aliases


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _same(writer: Type, reader: Type) -> bool:
    return (writer.kind, writer.name, writer.logical) == (reader.kind, reader.name, reader.logical)


def encoded(schema: Type, value: Any, spend: Callable[[int], None]) -> bytes:
    """A default in Avro's binary encoding. `spend`: called with the cost of each part before it is made, as the default
    of a field may be used many times. Raises ODD for one that is none of the type."""
    spend(1 + len(value) // CHARS_A_PART if isinstance(value, str) else 1)
    kind = schema.kind
    if kind == "null" and value is None:
        return b""
    if kind == "union":
        for at, one in enumerate(schema.inner):
            try:
                return _long(at) + encoded(one, value, spend)
            except TooMuch:
                raise
            except ODD:
                continue
    elif kind == "boolean" and isinstance(value, bool):
        return bytes([value])
    elif kind in ("int", "long") and type(value) is int and -(1 << (31 if kind == "int" else 63)) <= value:
        return _long(value)
    elif kind in ("float", "double") and type(value) in (int, float):
        return struct.pack("<f" if kind == "float" else "<d", value)
    elif kind in ("bytes", "string") and isinstance(value, str):
        data = value.encode("latin-1" if kind == "bytes" else "utf-8")
        return _long(len(data)) + data
    elif kind == "fixed" and len(value) == schema.size:
        return bytes(value.encode("latin-1"))
    elif kind == "enum":
        return _long(schema.symbols.index(value))
    elif kind == "array" and isinstance(value, list):
        items = b"".join(encoded(schema.inner[0], one, spend) for one in value)
        return (_long(len(value)) + items if value else b"") + b"\0"
    elif kind == "map" and isinstance(value, dict):
        pairs = b"".join(
            encoded(Type("string"), name, spend) + encoded(schema.inner[0], one, spend) for name, one in value.items()
        )
        return (_long(len(value)) + pairs if value else b"") + b"\0"
    elif kind == "record" and isinstance(value, dict):
        return b"".join(encoded(one.type, _given(one, value), spend) for one in schema.fields)
    raise ValueError(f"no {kind}")


def _given(field: Field, value: dict[str, Any]) -> Any:
    if field.name not in value and not field.has_default:
        raise ValueError(field.name)
    return value.get(field.name, field.default)


def _long(number: int) -> bytes:
    """A whole number: zigzag, in at most ten bytes."""
    left = (number << 1) ^ (number >> 63)
    if not 0 <= left < 1 << 64:
        raise OverflowError
    data = bytearray()
    while left >= 0x80:
        data.append(left & 0x7F | 0x80)
        left >>= 7
    data.append(left)
    return bytes(data)
