"""Schemas of metadata records as column plans for fastpath.arrow.metadata_columns, and its columns as Arrow.

This file alone decides the Arrow type of every field: int32 for ports, strings in Kafka's form for uuids, list and struct
where the schema has them, null where the record's version lacks the field. Secrets are null: salts and keys of SCRAM
credentials and, in tables built on these, values of configurations whose name shows that they are secret.
"""

import dataclasses
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from actors.wire import messages
from actors.wire.messages import message
from actors.wire.schema import Field, Schema, Struct
from fastpath.arrow.metadata_columns import CODES, CONTROL_SLOT, Program

if TYPE_CHECKING:
    from fastpath.arrow.metadata_columns import Column, Plan

SECRETS = frozenset({"Salt", "StoredKey", "ServerKey", "Hmac"})
"""Fields that are never shown, because they are secret."""

CONTROLS = {2: "LeaderChangeMessage", 3: "SnapshotHeaderRecord", 4: "SnapshotFooterRecord", 5: "KRaftVersionRecord",
            6: "VotersRecord"}  # fmt: skip
FOLDERS = {"released": ("metadata",), "drafts": ("v28", "extensions")}
"""Level 2 of the drafts has every record of level 1, in the same form."""
VERSIONS_MAX = 16

WIDTHS = {"bool": 1, "int8": 1, "int16": 2, "uint16": 4, "int32": 4, "uint32": 8, "int64": 8, "float64": 8}
ARROW = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "uint16": pa.int32(),
    "int32": pa.int32(),
    "uint32": pa.int64(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "uuid": pa.string(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "records": pa.binary(),
}
FORMATS = {"bool": ">b", "int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "int64": ">q", "float64": ">d"}


@dataclasses.dataclass
class Tree:
    """The columns of a field's values: its own, and those of nested fields."""

    field: Field
    column: int
    element: int = -1
    """The column of a list's scalars."""
    children: list["Tree"] = dataclasses.field(default_factory=list)
    """The fields of the nested structs."""

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of the field."""
        inner = pa.struct([(one.field.attribute, one.type) for one in self.children]) if self.children else None
        inner = ARROW[self.field.type] if inner is None else inner
        return pa.list_(inner) if self.field.array else inner


class Kind:
    """One record type of a family."""

    def __init__(self, slot: int, name: str, schema: Schema) -> None:
        self.slot = slot
        self.name = name
        """The name of the record's message, such as `TopicRecord` or `LeaderChangeMessage`."""
        self.number = slot - CONTROL_SLOT if slot >= CONTROL_SLOT else slot
        self.schema = schema
        self.trees: list[Tree] = []
        versions = schema.head.versions
        self.versions = range(versions.first, min(versions.last, VERSIONS_MAX - 1) + 1)

    @property
    def type(self) -> pa.DataType:
        """All its fields as one struct."""
        return pa.struct([(tree.field.attribute, tree.type) for tree in self.trees])


class Family:
    """The record types of a family, and the column plans that decode them."""

    def __init__(self, kinds: Sequence[Kind], plans: Program) -> None:
        self.kinds = {kind.slot: kind for kind in kinds}
        self.named = {kind.name: kind for kind in kinds}
        self.plans = plans


@cache
def family(
    name: str, only: frozenset[str] | None = None, fields: frozenset[str] | None = None, secrets: bool = False
) -> Family:
    """The column plans of a family. `only`: names of the records whose fields are built; `fields`: names of their
    top-level attributes that are built; None: all. `secrets`: show secret fields, for tests of the decoder."""
    kinds = [
        Kind(schema.head.number, text.rpartition(":")[2], schema)
        for folder in FOLDERS[name]
        for text in messages.names(folder)
        if text.endswith("Record")
        for schema in [message(text).__schema__]
        if schema.head.kind == "record"
    ]
    kinds += [Kind(CONTROL_SLOT + number, text, message(text).__schema__) for number, text in CONTROLS.items()]
    columns = _Columns(secrets)
    plans: dict[tuple[int, int], Plan] = {}
    for kind in kinds:
        wanted = only is None or kind.name in only
        kind.trees = [
            columns.tree(one)
            for one in kind.schema.root.fields
            if wanted and (fields is None or one.attribute in fields)
        ]
        trees = {tree.field.name: tree for tree in kind.trees}
        for version in kind.versions:
            plans[kind.slot, version] = columns.plan(kind.schema.root, trees, version)
    return Family(kinds, Program(plans, columns.count, name == "released"))


class _Columns:
    """Assigns column numbers and makes plans with them."""

    def __init__(self, secrets: bool) -> None:
        self.count = 0
        self.secrets = secrets

    def _new(self) -> int:
        self.count += 1
        return self.count - 1

    def tree(self, one: Field) -> Tree:
        if one.struct is not None:
            column = self._new() if one.array else -1
            return Tree(one, column, -1, [self.tree(child) for child in one.struct.fields])
        column = self._new()
        return Tree(one, column, self._new() if one.array else -1)

    def plan(self, root: Struct, trees: Mapping[str, Tree], version: int) -> "Plan":
        """The plan of one version of a struct. Fields without a tree are read and dropped."""
        children: list[Plan] = []
        tagged: list[Plan] = []
        for one in root.fields:
            tree = trees.get(one.name)
            if version in one.tagged:
                tagged.append(self._field(one, tree, version, one.tag))
            elif version in one.versions:
                children.append(self._field(one, tree, version, 0))
            elif tree is not None:
                children.append(_nulls(tree))
        return CODES["struct"], -1, False, 0, None, None, tuple(children), tuple(tagged)

    def _field(self, one: Field, tree: Tree | None, version: int, tag: int) -> "Plan":
        nullable = version in one.nullable
        inner: Plan
        if one.struct is not None:
            inner = self.plan(one.struct, {child.field.name: child for child in tree.children} if tree else {}, version)
        else:
            code = "hidden" if one.name in SECRETS and not self.secrets else one.type
            own = -1 if tree is None else tree.element if one.array else tree.column
            inner = (CODES[code], own, nullable and not one.array, tag, None, None, (), ())
        fallback = _fallback(one, nullable) if version in one.tagged else None
        if not one.array:
            return (*inner[:2], inner[2], tag, fallback, *inner[5:])
        return CODES["array"], tree.column if tree else -1, nullable, tag, fallback, inner, (), ()


def _nulls(tree: Tree) -> "Plan":
    """The plan of a field that the version does not have."""
    if tree.field.struct is not None and not tree.field.array:
        raise ValueError(f"{tree.field.name}: structs that come with a version are not supported")
    width = 0 if tree.field.array else WIDTHS.get(tree.field.type, 0)
    return CODES["null"], tree.column, True, width, None, None, (), ()


def _fallback(one: Field, nullable: bool) -> bytes:
    """The bytes of the default of an absent tagged field."""
    if one.array or one.type in ("string", "bytes"):
        return b"\x00" if nullable and one.default == "null" else b"\x01"
    if one.type == "uuid":
        return bytes(16)
    return struct.pack(FORMATS[one.type], int(one.default or 0))


# ---- columns to Arrow ---------------------------------------------------------------------------------------------


def array(tree: Tree, columns: "Mapping[int, Column]", rows: int) -> pa.Array:
    """The Arrow array of a field."""
    if tree.field.array:
        _, nulls, _, offsets, valid = _get(columns, tree.column)
        if offsets is None:
            return pa.nulls(rows, tree.type)
        length = int(offsets[-1])
        if tree.children:
            parts = [array(child, columns, length) for child in tree.children]
            inner: Any = pa.StructArray.from_arrays(parts, names=[child.field.attribute for child in tree.children])
        else:
            inner = _scalar(tree.field.type, columns, tree.element, length)
        return pa.ListArray.from_buffers(
            tree.type, rows, [_bits(valid), pa.py_buffer(offsets)], nulls, children=[inner]
        )
    if tree.children:
        parts = [array(child, columns, rows) for child in tree.children]
        return pa.StructArray.from_arrays(parts, names=[child.field.attribute for child in tree.children])
    return _scalar(tree.field.type, columns, tree.column, rows)


def _get(columns: "Mapping[int, Column]", column: int) -> "Column":
    return columns.get(column) or (0, 0, np.empty(0, dtype=np.uint8), None, None)


def _bits(valid: Any) -> Any:
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _scalar(type_: str, columns: "Mapping[int, Column]", column: int, rows: int) -> pa.Array:
    if column not in columns:
        return pa.nulls(rows, ARROW[type_])
    found, nulls, data, offsets, valid = columns[column]
    if found != rows and type_ != "int32":
        raise AssertionError(f"a column has {found} rows, its record type {rows}")
    if type_ == "bool":
        data = np.packbits(data, bitorder="little")
    buffers = [_bits(valid), pa.py_buffer(data)]
    if ARROW[type_] in (pa.string(), pa.binary()):
        buffers.insert(1, pa.py_buffer(offsets))
    return pa.Array.from_buffers(ARROW[type_], rows, buffers, nulls)
