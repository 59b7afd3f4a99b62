"""The Arrow columns of a message of Protobuf, and what compiled code does to read one (proto2 and proto3).

This file alone decides what a type of Protobuf is in Arrow:

- A message is a struct of its fields in the order of their numbers, null where it is not there. A repeated field is a list,
  a map a map; they are never null. What has no presence (proto3 without optional) has its default, what has presence, and
  what is in a oneof, is null where it is not there. Defaults of proto2 are not given.
- An enum is a string: the name, or the digits of a number that has none. uint32 and uint64 are Arrow's own.
- Messages that everybody has, such as Timestamp, are structs as others are.

Values of any version of a schema are read by the numbers of the wanted one, as Protobuf has it: what it does not know is
left out, and so is a field of a value that is of another kind on the wire than both say. A version in which a field means
something else is refused: the field would be its default, or another number, and nobody would be told. A message that refers
to itself cannot be a column and is refused.
"""

from collections.abc import Mapping

import pyarrow as pa

from actors.arrow.values.avro_columns import COLUMNS_MAX, FIELD_NAMES_MAX, NAMES_TOO_LONG, Column
from actors.arrow.values.avro_schema import DEPTH_MAX, BadSchema, Type
from actors.arrow.values.budget import Unreadable
from actors.arrow.values.proto_text import Field, Schema, parsed
from fastpath.arrow.value_columns import KINDS, OPS

PARTS_A_BYTE = 64
NAMES_MAX = 64 << 10
ZEROS_MAX = 256 << 10
"""How many bytes the names of zero may have in all enums of a message: one that is empty has all of them."""
VARINT, FIXED64, SIZED, FIXED32 = 0, 1, 2, 5
SCALARS = {
    "int32": (VARINT, "proto varint", 4, pa.int32()), "int64": (VARINT, "proto varint", 8, pa.int64()),
    "uint32": (VARINT, "proto varint", 4, pa.uint32()), "uint64": (VARINT, "proto varint", 8, pa.uint64()),
    "sint32": (VARINT, "proto zigzag", 4, pa.int32()), "sint64": (VARINT, "proto zigzag", 8, pa.int64()),
    "bool": (VARINT, "proto bool", 1, pa.bool_()), "float": (FIXED32, "proto fixed", 4, pa.float32()),
    "fixed32": (FIXED32, "proto fixed", 4, pa.uint32()), "sfixed32": (FIXED32, "proto fixed", 4, pa.int32()),
    "double": (FIXED64, "proto fixed", 8, pa.float64()), "fixed64": (FIXED64, "proto fixed", 8, pa.uint64()),
    "sfixed64": (FIXED64, "proto fixed", 8, pa.int64()), "string": (SIZED, "proto string", 0, pa.string()),
    "bytes": (SIZED, "proto bytes", 0, pa.binary()),
}  # fmt: skip
"""kind -> (wire type, what reads it, bytes of a value, Arrow's type)."""


MEANINGS = {kind: (wire, op.removeprefix("proto ")) for kind, (wire, op, _, _) in SCALARS.items()} | {
    "bool": (VARINT, "varint"), "string": (SIZED, ""), "bytes": (SIZED, ""), "float": (FIXED32, "float"),
    "double": (FIXED64, "float"),
}  # fmt: skip
"""kind -> what its bytes mean: of kinds that mean the same, values of one may be read as the other (Protobuf's "Updating A
Message Type")."""
ODD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)
"""What a schema raises that is none."""


def _first(text: str, others: Mapping[str, str]) -> tuple[Schema, str]:
    try:
        schema = parsed(text, others)
        return schema, schema.named([0])
    except Unreadable as error:
        raise BadSchema(f"cannot be read: {error}") from None
    except ODD as error:
        raise _none(error) from None


def _none(error: Exception) -> BadSchema:
    return BadSchema(f"is not Protobuf's ({type(error).__name__})")


def _meaning(schema: Schema, kind: str) -> tuple[int, str]:
    if kind in schema.messages:
        return MEANINGS["bytes"]
    return MEANINGS.get("int32" if kind in schema.enums else kind, (-1, ""))


class ProtobufPlan:
    """The columns of the first message of a schema, and the plan that reads it: what `ValueColumns` takes."""

    def __init__(self, text: str, others: Mapping[str, str]) -> None:
        """The plan of a schema as text, and of those that it imports by name. Raises BadSchema."""
        self.columns: list[tuple[int, int, bool, int, int]] = []
        self.column_kids: list[int] = []
        self.nodes: list[tuple[int, int, int, int, int, int]] = []
        self.kids: list[int] = []
        self.table: list[int] = [0]  # the place of the message in its file
        self.constants = b""
        self.places = 0
        self._enums: dict[str, tuple[int, int]] = {}
        """(number of names, place in the table) of each that was used."""
        self._zeros = 0
        self._field_names_left = FIELD_NAMES_MAX
        self._schema, self.name = _first(text, others)
        try:
            file = self._node("file", size=1, at=0)
            root, node = self._message(self.name, True, ())
        except BadSchema:
            raise
        except ODD as error:
            raise _none(error) from None
        self._inside(file, [node])
        self.root: Column = root

    # ---- other versions of the schema

    def check(self, text: str, others: Mapping[str, str]) -> None:
        """Raise BadSchema for a schema whose values are not to be read by this plan."""
        schema, name = _first(text, others)
        if name != self.name:
            raise BadSchema(f"has message {name[:100]} where {self.name[:100]} is wanted")
        self._agree(schema, name, name)

    def _agree(self, schema: Schema, name: str, wanted: str) -> None:
        """Raise BadSchema where a message has a field that means something else than that of the wanted one."""
        for number, ours in self._schema.messages[wanted].items():
            theirs = schema.messages[name].get(number)
            if theirs is None:
                continue
            pairs = [(theirs.kind, ours.kind)]
            if theirs.key and ours.key:
                pairs.append((theirs.key, ours.key))
            elif theirs.key or ours.key:  # an entry is a message
                pairs = [("bytes" if theirs.key else theirs.kind, "bytes" if ours.key else ours.kind)]
            for kind, other in pairs:
                meaning = _meaning(schema, kind)
                is_one = theirs.is_repeated and not ours.is_repeated and meaning[0] != SIZED
                if is_one or meaning != _meaning(self._schema, other):
                    many = "repeated " if is_one else ""
                    raise BadSchema(
                        f"has {many}{kind[:100]} where {other[:100]} is wanted, in the field {number} of {name[:100]}"
                    )
                if kind in schema.messages and other in self._schema.messages:
                    self._agree(schema, kind, other)

    # ---- the lists

    def _take(self, kind: str, width: int, nullable: bool) -> int:
        if len(self.columns) >= COLUMNS_MAX:
            raise BadSchema(f"has more than {COLUMNS_MAX} columns")
        self.columns.append((KINDS[kind], width, nullable, 0, 0))
        return len(self.columns) - 1

    def _below(self, place: int, inner: list[int]) -> None:
        self.columns[place] = (*self.columns[place][:3], len(self.column_kids), len(inner))
        self.column_kids += inner

    def _node(self, op: str, column: int = -1, size: int = 0, at: int = 0) -> int:
        self.nodes.append((OPS[op], column, 0, 0, size, at))
        return len(self.nodes) - 1

    def _inside(self, node: int, inner: list[int]) -> None:
        op, column, _, _, size, at = self.nodes[node]
        self.nodes[node] = (op, column, len(self.kids), len(inner), size, at)
        self.kids += inner

    # ---- the types

    def _message(self, name: str, nullable: bool, around: tuple[str, ...]) -> tuple[Column, int]:
        """The column of a message and the node that reads it."""
        if name in around:
            raise BadSchema(f"refers to itself ({name[:100]}), and an Arrow column cannot")
        fields = sorted(self._schema.messages[name].items())
        return self._struct(fields, nullable, (*around, name))

    def _struct(self, fields: list[tuple[int, Field]], nullable: bool, around: tuple[str, ...]) -> tuple[Column, int]:
        if len(around) > DEPTH_MAX:
            raise BadSchema(f"is nested deeper than {DEPTH_MAX}")
        if len({field.name for _, field in fields}) < len(fields):
            raise BadSchema("has two fields of one name in a message")
        self._field_names_left -= sum(len(field.name) for _, field in fields)
        if self._field_names_left < 0:
            raise BadSchema(NAMES_TOO_LONG)
        place = self._take("struct", 0, nullable)
        at = len(self.table)
        self.table += [self.places] + [0] * (5 * len(fields))
        self.places += 2 * len(fields)
        node = self._node("message", place, at=at)
        oneofs: dict[str, int] = {}
        columns, inner = [], []
        for n, (number, field) in enumerate(fields):
            if not 0 < number < 1 << 29:
                raise BadSchema(f"has a field with the number {str(number)[:20]}")
            column, kid, wire, is_packed = self._field(field, around)
            oneof = oneofs.setdefault(field.oneof, len(oneofs) + 1) if field.oneof else 0
            self.table[at + 1 + 5 * n : at + 6 + 5 * n] = [number, wire, int(column.nullable), int(is_packed), oneof]
            columns.append(column)
            inner.append(kid)
        self._inside(node, inner)
        self._below(place, [one.place for one in columns])
        arrow = pa.struct(
            [pa.field(field.name, one.arrow, one.nullable) for (_, field), one in zip(fields, columns, strict=True)]
        )
        return Column(place, Type("record"), arrow, nullable, tuple(columns)), node

    def _field(self, field: Field, around: tuple[str, ...]) -> tuple[Column, int, int, bool]:
        """(column, node, wire type, whether many may stand in one) of a field."""
        if not field.is_repeated:
            column, node, wire = self._one(
                field.kind, field.has_presence or field.kind in self._schema.messages, around
            )
            return column, node, wire, False
        place = self._take("list", 0, False)
        node = self._node("repeated", place)
        if field.key:
            pair = [(1, Field("key", field.key)), (2, Field("value", field.kind))]
            entry, kid = self._entry(pair, around)
            self._inside(node, [kid])
            self._below(place, [entry.place])
            keys, value = entry.inner
            arrow = pa.map_(keys.arrow, pa.field("value", value.arrow, value.nullable))
            return Column(place, Type("map"), arrow, False, (value,), keys), node, SIZED, False
        item, kid, wire = self._one(field.kind, False, around)
        self._inside(node, [kid])
        self._below(place, [item.place])
        arrow = pa.list_(pa.field("item", item.arrow, False))
        return Column(place, Type("array"), arrow, False, (item,)), node, wire, wire != SIZED

    def _entry(self, pair: list[tuple[int, Field]], around: tuple[str, ...]) -> tuple[Column, int]:
        """The column of a map's entries and the node that reads one: a message whose key and value are always there."""
        place = self._take("struct", 0, False)
        at = len(self.table)
        self.table += [self.places] + [0] * 10
        self.places += 4
        node = self._node("message", place, at=at)
        made = [self._one(field.kind, False, around) for _, field in pair]
        for n, ((number, _), (_, _, wire)) in enumerate(zip(pair, made, strict=True)):
            self.table[at + 1 + 5 * n : at + 6 + 5 * n] = [number, wire, 0, 0, 0]
        self._inside(node, [kid for _, kid, _ in made])
        self._below(place, [column.place for column, _, _ in made])
        return Column(place, Type("record"), pa.null(), False, tuple(column for column, _, _ in made)), node

    def _one(self, kind: str, nullable: bool, around: tuple[str, ...]) -> tuple[Column, int, int]:
        """(column, node, wire type) of a value."""
        if kind in self._schema.messages:
            column, node = self._message(kind, nullable, around)
            return column, node, SIZED
        if kind in self._schema.enums:
            place = self._take("bytes", 0, nullable)
            size, at = self._names(kind)
            self._zeros += len(self._schema.enums[kind].get(0, "").encode())
            if self._zeros > ZEROS_MAX:
                raise BadSchema(f"has enums whose names of zero have more than {ZEROS_MAX} bytes")
            return (
                Column(place, Type("string"), pa.string(), nullable),
                self._node("proto enum", place, size, at),
                VARINT,
            )
        wire, op, width, arrow = SCALARS[kind]
        place = self._take("bool" if kind == "bool" else "fixed" if width else "bytes", width, nullable)
        made = Type("boolean" if kind == "bool" else "long" if width else "bytes")
        return Column(place, made, arrow, nullable), self._node(op, place), wire

    def _names(self, kind: str) -> tuple[int, int]:
        """(number of names, place in the table) of an enum: they are there once, however many fields have them."""
        if kind in self._enums:
            return self._enums[kind]
        names = self._schema.enums[kind]
        at = len(self.table)
        for number, name in sorted(names.items()):
            data = name.encode()
            if len(self.constants) + len(data) > NAMES_MAX or not -(1 << 31) <= number < 1 << 31:
                raise BadSchema(
                    f"has enums with names of more than {NAMES_MAX} bytes, or a number of more than 32 bits"
                )
            self.table += [number, len(self.constants), len(data)]
            self.constants += data
        self._enums[kind] = len(names), at
        return self._enums[kind]
