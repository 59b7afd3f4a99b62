"""Keys or values of a read as typed columns: which schema they are given by, and what becomes of those that cannot be read.

    typed = Typed("value", Wanted("avro", schemas, None, "null"), ["orders"])
    for batch in batches: yield from typed.batches(batch)

This file alone decides that. Rules:

1. The reader's schema is one for the whole read: the one that the user names, else the latest version of the subject
   `topic-value` or `topic-key`. Values that were written with another one are resolved to it (`avro_plan.py`,
   `protobuf_plan.py`, `json_plan.py`), in the order of their rows.
2. Null is null. A value that cannot be read is null too (`null`), or null with its bytes in `value_raw` and the reason in
   `value_error` (`raw`), or an error that names topic, partition, offset, schema and reason (`fail`).
3. No more than PLANS_MAX plans of PLAN_BYTES_MAX bytes are kept: a registry may have another schema for each value. The one
   that was made first goes, and is made again when a value needs it.
4. A registry that is away is an error of the read in all three cases (`host/client/schemas.py`): it is no bad value.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actors.arrow.values.avro_columns import Layout, array
from actors.arrow.values.avro_plan import Plan
from actors.arrow.values.avro_schema import BadSchema, Type, parsed
from actors.arrow.values.header_ids import HeaderIds
from actors.arrow.values.json_plan import PARTS_A_BYTE as JSON_PARTS_A_BYTE
from actors.arrow.values.json_plan import JsonPlan
from actors.arrow.values.protobuf_plan import PARTS_A_BYTE, ProtobufPlan
from actors.client.errors import ClientError
from actors.host.client.schema_registry import Unknown, Written
from actors.host.client.schemas import Schemas
from actors.replay.columns.arrow import texts
from fastpath.arrow.value_columns import NO_ID, NO_SCHEMA, REASONS, ValueColumns

FORMATS = {"avro": "AVRO", "protobuf": "PROTOBUF", "json": "JSON"}
"""What is offered -> what a registry calls it."""
PLANS_MAX, PLAN_BYTES_MAX = 1_000, 64 << 20
ON_ERROR = ("fail", "null", "raw")
MORE = ("raw", "error")
"""What the columns are called that `raw` adds, behind the column's name."""
PLACE = ("topic", "partition", "offset")
"""The columns that an error names."""
NEEDED = (*PLACE, "headers")
"""The columns that a batch has to have beside the one that is read."""


class Wanted(NamedTuple):
    """How one of the columns is to be read."""

    format: str
    schemas: Schemas
    schema: int | str | None
    """The reader's schema: an id, a subject (its latest version), or subject:version. None: the topic's own subject."""
    on_error: str


class Typed:
    """The key or the value of the records of a read, as a typed column."""

    def __init__(self, column: str, wanted: Wanted, topics: Sequence[str]) -> None:
        """`column`: key or value. Asks for the reader's schema. Raises ValueError for what is not offered, and ClientError
        for a schema that there is not, or that cannot be used."""
        if wanted.format not in FORMATS:
            raise ValueError(f"{column}_format has to be one of {', '.join(FORMATS)}, not {wanted.format!r}")
        if wanted.on_error not in ON_ERROR:
            raise ValueError(f"on_error has to be one of {', '.join(ON_ERROR)}, not {wanted.on_error!r}")
        self.column = column
        self._on_error = wanted.on_error
        self._schemas = wanted.schemas
        self.id = id = self._reader_id(wanted.schema, topics)
        """The id of the schema that the column has."""
        written = self._schemas.schema(id)
        if isinstance(written, Unknown):
            raise ClientError(f"{written}, by which the {column}s of {', '.join(topics)} are to be read")
        self._format = wanted.format
        try:
            _check(written, wanted.format)
            self._json = JsonPlan(written.text, written.others) if wanted.format == "json" else None
            self._plan = ProtobufPlan(written.text, written.others) if wanted.format == "protobuf" else None
            layout = Layout(_avro(written)) if wanted.format == "avro" else self._json.layout if self._json else None
        except BadSchema as error:
            raise ClientError(
                f"schema {id}, by which the {column}s of {', '.join(topics)} are to be read, {error}"
            ) from None
        self._layout = layout
        if layout is not None:
            self._root, self._columns = layout.root, ValueColumns(layout.columns, layout.kids)
        elif self._plan is not None:
            self._root, self._columns = self._plan.root, ValueColumns(self._plan.columns, self._plan.column_kids)
        self._planned: dict[int, int] = {}
        """Schema id -> about how many bytes its plan has, in the order in which they were made."""
        self._headers = HeaderIds(column)
        """The ids that stand in headers."""
        self._plan_bytes = 0
        self._refused: dict[int, str] = {}
        """Schema id -> why its values cannot be read. Of ids without a plan only until the values of a batch are told."""
        self._unknown: set[int] = set()
        """The ids that the registry does not have: it is asked again in a while."""

    def _reader_id(self, named: int | str | None, topics: Sequence[str]) -> int:
        if isinstance(named, int):
            return named
        if named is not None:
            subject, colon, version = named.rpartition(":")
            subject, version = (subject, version) if colon and version.isdecimal() else (named, "latest")
        elif len(topics) == 1:
            subject, version = f"{topics[0]}-{self.column}", "latest"
        else:
            raise ValueError(
                f"name {self.column}_schema: there is one schema for all records of a read of several topics"
            )
        id = self._schemas.version(subject, version)
        if id is None:
            raise ClientError(
                f"the schema registry {self._schemas.name} has no {subject}, version {version}: name {self.column}_schema, "
                f"an id or a subject"
            )
        return id

    def schema(self, of: pa.Schema) -> pa.Schema:
        """The Arrow schema of a batch, from that of one whose column is binary."""
        at = of.get_field_index(self.column)
        found = of.set(at, pa.field(self.column, self._root.arrow))
        if self._on_error == "raw":
            found = found.append(pa.field(f"{self.column}_raw", pa.binary()))
            found = found.append(pa.field(f"{self.column}_error", pa.string()))
        return found

    def batches(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """A batch with the typed column: in pieces, where that would be very large. Raises ClientError; what was read of the
        batch until then is forgotten."""
        try:
            yield from self._batches(batch)
        except BaseException:
            self._columns.taken()
            raise

    def _batches(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for id in [id for id in self._unknown if self._schemas.may_be_known(self._headers.name(id))]:
            self._forget(id)
            self._unknown.discard(id)
        for id in self._refused.keys() - self._planned.keys():
            del self._refused[id]
        given, has_guids = self._headers.before(batch)
        valid, offsets, data = given.buffers()
        first, rows = given.offset, len(given)
        if not rows:
            return
        places = np.frombuffer(offsets, dtype=np.int32)
        bytes_: Any = memoryview(data).cast("B") if data is not None else b""
        present = None
        if given.null_count:
            present = np.unpackbits(np.frombuffer(valid, dtype=np.uint8), count=first + rows, bitorder="little")
        columns = self._columns
        start = at = first
        while start < first + rows:
            after = columns.decode(places, bytes_, present, at, first + rows, has_guids)
            if columns.missing >= 0:
                self._learn(columns.missing)
                at = after
                continue
            if after == start:
                raise ClientError(f"the {self.column}s of a batch are damaged")
            filled, bad, whys = columns.taken()
            made = array(self._root, filled)
            piece = batch.slice(start - first, after - start)
            yield self._with(piece, given.slice(start - first, after - start), made, bad - start, whys)
            start = at = after

    def _forget(self, id: int) -> None:
        """Have no plan of a schema any more."""
        self._columns.forget(id)
        self._plan_bytes -= self._planned.pop(id)

    def _plan_for(
        self, id: int, nodes: Sequence[Any], kids: Sequence[int], table: Sequence[int], constants: bytes, *more: int
    ) -> None:
        """Keep a plan, in place of those that were made first."""
        self._columns.add(id, nodes, kids, table, constants, *more)
        self._planned[id] = (len(nodes) + 1) * NODE_BYTES + 4 * (len(kids) + len(table)) + len(constants)
        self._plan_bytes += self._planned[id]
        while len(self._planned) > PLANS_MAX or (self._plan_bytes > PLAN_BYTES_MAX and len(self._planned) > 1):
            first = next(iter(self._planned))
            self._forget(first)
            self._unknown.discard(first)

    def _learn(self, id: int) -> None:
        """Ask for a schema, and plan how values of it are read. Raises ClientError."""
        written = self._schemas.schema(self._headers.name(id))
        if isinstance(written, Unknown):
            self._refused[id] = str(written)
            self._unknown.add(id)
        else:
            try:
                _check(written, self._format)
                return self._add(id, written)
            except BadSchema as error:
                self._refused[id] = f"its schema {error}"
        self._plan_for(id, [], [], [], b"")

    def _add(self, id: int, written: Written) -> None:
        """Plan how values of a schema are read. Raises BadSchema."""
        if (of := self._json) is not None:
            self._plan_for(id, of.nodes, of.kids, of.table, of.constants, JSON_PARTS_A_BYTE, of.places)
        elif self._layout is not None:
            plan = Plan(_avro(written), self._layout)
            self._plan_for(id, plan.nodes, plan.kids, plan.table, plan.constants)
        elif (one := self._plan) is not None:
            one.check(written.text, written.others)
            self._plan_for(id, one.nodes, one.kids, one.table, one.constants, PARTS_A_BYTE, one.places)

    # ---- values that cannot be read

    def _with(
        self, piece: pa.RecordBatch, read: pa.Array, made: pa.Array, bad: NDArray[np.int32], whys: NDArray[np.int32]
    ) -> pa.RecordBatch:
        """A batch with its column, and what there is to say of the rows that are `bad`. `read`: the bytes with the id in
        front. Raises ClientError."""
        if len(bad) and self._on_error == "fail":
            row = int(bad[0])
            raw = read[row].as_py()
            topic, number, offset = (piece.column(name)[row].as_py() for name in PLACE)
            why = self._sentence(_id(raw), int(whys[0]))
            raise ClientError(f"partition {topic}/{number}, offset {offset}: the {self.column} cannot be read: {why}")
        arrays = piece.columns
        at = piece.schema.get_field_index(self.column)
        raws = arrays[at]
        arrays[at] = made
        if self._on_error == "raw":
            arrays += self._raw(raws, read, bad, whys) if len(bad) else [pa.nulls(len(made), kind) for kind in RAW]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema(piece.schema))

    def _raw(self, raws: pa.Array, read: pa.Array, bad: NDArray[np.int32], whys: NDArray[np.int32]) -> list[pa.Array]:
        """The bytes of the rows that are bad, and why they are."""
        place = np.full(len(raws), -1, dtype=np.int64)
        place[bad] = np.arange(len(bad))
        rows = pa.Array.from_buffers(
            pa.int64(), len(raws), [pa.py_buffer(np.packbits(place >= 0, bitorder="little")), pa.py_buffer(place)]
        )
        those, looked_at = raws.take(_int32(bad)), read.take(_int32(bad))
        begin = looked_at.offset
        places = np.frombuffer(looked_at.buffers()[1], dtype=np.int32)[begin : begin + len(looked_at) + 1]
        data = np.frombuffer(looked_at.buffers()[2] or b"", dtype=np.uint8)
        ids = _ids(places, data)
        told, which = np.unique(np.where(whys == NO_ID, -1, ids) * 64 + whys, return_inverse=True)
        sentences = texts([self._sentence(int(one) >> 6, int(one) & 63) for one in told])
        errors = sentences.take(_int32(which.astype(np.int32)))
        return [those.take(rows), errors.take(rows)]

    def _sentence(self, id: int, why: int) -> str:
        if why == NO_ID:
            return REASONS[why]
        told = self._refused.get(id, REASONS[why]) if why == NO_SCHEMA else REASONS[why]
        return f"{told} (schema {self._headers.name(id)})"


RAW = (pa.binary(), pa.string())
NODE_BYTES = 48


def _check(written: Written, format: str) -> None:
    """Raise BadSchema for a schema of another format."""
    if written.kind != FORMATS[format]:
        raise BadSchema(f"is one of {written.kind[:20]}, not of {FORMATS[format]}")


def _avro(written: Written) -> Type:
    """The schema of Avro that a registry gives. Raises BadSchema."""
    return parsed(written.text, written.others.values())


def _id(raw: bytes) -> int:
    return int.from_bytes(raw[1:5], "big")


def _int32(values: NDArray[np.int32]) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def _ids(places: NDArray[np.int32], data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The schema ids of values, where they have some."""
    has = np.diff(places) >= 5
    found = np.zeros(len(has), dtype=np.int64)
    at = places[:-1][has].astype(np.int64)
    for byte in range(1, 5):
        found[has] = found[has] << 8 | data[at + byte]
    return found
