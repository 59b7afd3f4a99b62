"""Metadata records as Arrow: typed columns in one table for each record type, or all records in one table.

    offset int64, epoch int32, timestamp timestamp[us, UTC], type string, version int16, <record type> struct ...

This file alone decides the `records` table and its JSON (the form of Kafka's own dump: field names in camelCase, tagged
fields at their default left out). Values of configurations that hold secrets are replaced by HIDDEN.
"""

import base64
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.replay.columns.arrow import Uniform, plain, spread, texts
from actors.replay.columns.column_plans import Family, Kind, Tree, array, family
from actors.replay.logs.chunks import Chunk, ChunkReading, chunks
from actors.replay.logs.files import Partition
from actors.settings.secret import HIDDEN, is_secret
from actors.wire.schema import snake_case
from fastpath.arrow import metadata_columns
from fastpath.arrow.metadata_columns import CONTROL_SLOT
from fastpath.bytes.byte_builder import Rooms

TIME = pa.timestamp("us", "UTC")
COMMON = pa.schema(
    [
        ("offset", pa.int64()),
        ("epoch", pa.int32()),
        ("timestamp", TIME),
        ("type", pa.string()),
        ("version", pa.int16()),
    ]
)


class Decoded:
    """The typed columns of one chunk: `rows` by slot, and `columns` as the Family describes them. `rooms`: memory for
    them."""

    def __init__(self, found: Family, chunk: Chunk, reading: ChunkReading, rooms: Rooms | None = None) -> None:
        good = np.ones(len(chunk.headers), dtype=bool)
        first, rest = 0, chunk
        while True:
            try:
                self.rows, self.columns = metadata_columns.decode(
                    found.plans, rest.data, rest.headers, rest.starts, rest.ends, rooms
                )
            except metadata_columns.BadRecord as error:
                bad = rest.headers[error.batch]
                position = int(bad["position"])
                reading.damaged(chunk.path, position, position + int(bad["size"]), str(error))
                good[first + error.batch] = False
                first += error.batch + 1
                rest = chunk.part(slice(first, None))  # the batches before it have been decoded already
                continue
            if not first:
                break
            first, rest = 0, chunk.part(good)
        self.family = found

    def fields(self, kind: Kind) -> list[pa.Array]:
        """The columns of a record type, in its schema's order. Secrets are hidden."""
        count = len(self.rows[kind.slot][0])
        arrays = [array(tree, self.columns, count) for tree in kind.trees]
        names = [tree.field.attribute for tree in kind.trees]
        if kind.name == "ConfigRecord" and "value" in names and "name" in names:
            secret = _secret(arrays[names.index("name")])
            at = names.index("value")
            if pc.any(secret).as_py():
                hidden = pc.and_(secret, pc.is_valid(arrays[at]))
                arrays[at] = pc.if_else(hidden, HIDDEN, arrays[at])
        return arrays

    def table(self, kind: Kind) -> pa.RecordBatch:
        """The records of one type: offset, epoch, timestamp, version, and its fields."""
        offset, time, epoch, version = self.rows[kind.slot]
        arrays = [plain(offset), plain(epoch), plain(time, TIME), plain(version), *self.fields(kind)]
        return pa.RecordBatch.from_arrays(arrays, schema=kind_schema(kind))


def _secret(names: pa.Array) -> pa.Array:
    """Which of these names are those of secret settings; each name is judged once."""
    found = names.dictionary_encode()
    judged = np.array([name is not None and is_secret(name) for name in found.dictionary.to_pylist()], dtype=bool)
    return plain(judged).take(found.indices)


def kind_schema(kind: Kind) -> pa.Schema:
    """Columns of the table of one record type. A field with the name of a common column gets `_` at its end."""
    common = [COMMON.field(name) for name in ("offset", "epoch", "timestamp", "version")]
    taken = {one.name for one in common}
    return pa.schema(
        common
        + [
            pa.field(tree.field.attribute + ("_" if tree.field.attribute in taken else ""), tree.type)
            for tree in kind.trees
        ]
    )


def typed_chunks(
    log: Partition, which: str, reading: ChunkReading, only: Sequence[str] | None = None, end_offset: int = -1
) -> Iterator[tuple[Family, Decoded]]:
    """Every chunk of a metadata log's files as typed columns. `only`: names of the record types whose fields are
    built."""
    found, rooms = family(which, None if only is None else frozenset(only)), Rooms()
    for path in log.files if not log.segments else [one.path for one in log.segments]:
        for chunk in chunks(path, reading, keep=_within(0, end_offset)):
            yield found, Decoded(found, chunk, reading, rooms)


def tables(
    log: Partition, which: str, reading: ChunkReading | None = None, only: Sequence[str] | None = None
) -> dict[str, pa.Table]:
    """One table for each record type, by name: every record of the log in typed columns."""
    parts: dict[str, list[pa.RecordBatch]] = {}
    for found, decoded in typed_chunks(log, which, reading or ChunkReading(), only):
        for slot in decoded.rows:
            kind = found.kinds[slot]
            if only is None or kind.name in only:
                parts.setdefault(kind.name, []).append(decoded.table(kind))
    return {name: pa.Table.from_batches(batches) for name, batches in parts.items()}


# ---- all records in one table -------------------------------------------------------------------------------------


def struct_name(kind: Kind) -> str:
    """The name of the column with a record type's fields: `PartitionChangeRecord` -> `partition_change`."""
    return snake_case(kind.name).removesuffix("_record").removesuffix("_message")


def records_schema(which: str, columns: Sequence[str] | None = None) -> pa.Schema:
    """The schema of `records`: the common columns, and a struct for each record type that has fields; or the given
    columns, out of these and `json`. Raises ValueError for a column that does not exist."""
    structs = [pa.field(struct_name(kind), kind.type) for kind in family(which).kinds.values() if kind.trees]
    if columns is None:
        return pa.schema([*COMMON, *structs])
    known = {one.name: one for one in (*COMMON, *structs, pa.field("json", pa.string()))}
    unknown = [name for name in columns if name not in known]
    if unknown:
        raise ValueError(f"a metadata log's records have no column {unknown[0]!r}, only {', '.join(known)}")
    return pa.schema([known[name] for name in columns])


def records_of(
    path: Path,
    which: str,
    reading: ChunkReading | None = None,
    columns: Sequence[str] | None = None,
    begin: int = 0,
    end: int | None = None,
    first_offset: int = 0,
    end_offset: int = -1,
    data: memoryview | None = None,
) -> Iterator[pa.RecordBatch]:
    """Records with offsets in `[first_offset, end_offset)` of the batches that begin in `[begin, end)` of a file, in order.
    Structs of record types are null in rows of another type. `columns`: as for records_schema. `data`: the file, if it is
    mapped already."""
    reading = reading or ChunkReading()
    schema = records_schema(which, columns)
    only = frozenset(kind.name for kind in family(which).kinds.values() if struct_name(kind) in schema.names)
    found = family(which, None if columns is None or "json" in schema.names else only)
    nulls, rooms = Uniform(pa.nulls), Rooms()
    for chunk in chunks(path, reading, begin, end, _within(first_offset, end_offset), data):
        made = _merged(found, Decoded(found, chunk, reading, rooms), schema, first_offset, end_offset, nulls)
        if made.num_rows:
            yield made


def records(
    log: Partition,
    which: str,
    reading: ChunkReading | None = None,
    columns: Sequence[str] | None = None,
    first_offset: int = 0,
    end_offset: int = -1,
) -> Iterator[pa.RecordBatch]:
    """The records of a whole log with offsets in `[first_offset, end_offset)`; of its checkpoints if it has no segment.
    As `records_of`."""
    for path in log.files if not log.segments else [one.path for one in log.segments]:
        yield from records_of(path, which, reading, columns, 0, None, first_offset, end_offset)


def _within(first_offset: int, end_offset: int) -> Any:
    def chosen(headers: Any) -> Any:
        good = headers["last_offset"] >= first_offset
        return good & (headers["base_offset"] < end_offset) if end_offset >= 0 else good

    return chosen


def _merged(
    found: Family, decoded: Decoded, schema: pa.Schema, first_offset: int, end_offset: int, nulls: Uniform
) -> pa.RecordBatch:
    as_json = "json" in schema.names
    slots = sorted(decoded.rows)
    counts = [len(decoded.rows[slot][0]) for slot in slots]
    together = [np.concatenate([decoded.rows[slot][i] for slot in slots] or [np.empty(0, np.int64)]) for i in range(4)]
    order = np.argsort(together[0], kind="stable")
    offset, time, epoch, version = (column[order] for column in together)
    which = np.repeat(np.arange(len(slots), dtype=np.int32), counts)[order]
    names = texts([found.kinds[slot].name for slot in slots]).take(plain(which))
    arrays: dict[str, Any] = {
        "offset": plain(offset),
        "epoch": plain(epoch.astype(np.int32)),
        "timestamp": plain(time, TIME),
        "type": names,
        "version": plain(version.astype(np.int16)),
    }
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    shown: list[str] = [""] * len(order) if as_json else []
    begin = 0
    for slot, count in zip(slots, counts, strict=True):
        kind = found.kinds[slot]
        own = place[begin : begin + count]
        begin += count
        if not kind.trees or not (as_json or struct_name(kind) in schema.names):
            continue
        values = pa.StructArray.from_arrays(decoded.fields(kind), fields=list(kind.type))
        if struct_name(kind) in schema.names:
            arrays[struct_name(kind)] = spread(values, own, len(order))
        if as_json:
            for at, row, number in zip(own.tolist(), values.to_pylist(), decoded.rows[slot][3].tolist(), strict=True):
                shown[at] = json_text(kind, number, row)
    if as_json:
        for slot in slots:
            if not found.kinds[slot].trees:
                for at in np.flatnonzero(np.isin(offset, decoded.rows[slot][0])).tolist():
                    shown[at] = shown[at] or json_text(found.kinds[slot], int(version[at]), {})
        arrays["json"] = texts(shown)
    rows = len(order)
    made = pa.RecordBatch.from_arrays(
        [arrays[one.name] if one.name in arrays else nulls(one.type, rows) for one in schema], schema=schema
    )
    low = int(np.searchsorted(offset, first_offset))
    high = int(np.searchsorted(offset, end_offset)) if end_offset >= 0 else rows
    return made if high - low == rows else made.slice(low, max(high - low, 0))


# ---- JSON ---------------------------------------------------------------------------------------------------------


def json_text(kind: Kind, version: int, row: Mapping[str, Any]) -> str:
    """A record as Kafka's dump writes it: {"type", "version", "data"}. A control record is written without that
    frame."""
    data = value(kind.trees, version, row)
    if kind.slot >= CONTROL_SLOT:
        return json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    name = snake_case(kind.name).upper()
    return json.dumps({"type": name, "version": version, "data": data}, separators=(",", ":"), ensure_ascii=False)


def value(trees: Sequence[Tree], version: int, row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a version of a record has. A tagged field is left out at its default."""
    shown = {}
    for tree in trees:
        one = tree.field
        if version not in one.versions and version not in one.tagged:
            continue
        found = row[one.attribute]
        if version in one.tagged and found == _default(tree):
            continue
        shown[one.name[0].lower() + one.name[1:]] = _json(tree, version, found)
    return shown


def _default(tree: Tree) -> Any:
    one = tree.field
    if one.default == "null":
        return None
    if one.array:
        return []
    plain = {"string": "", "bytes": b"", "uuid": "AAAAAAAAAAAAAAAAAAAAAA", "bool": False}
    if one.type in plain:
        return plain[one.type]
    return int(one.default or 0)


def _json(tree: Tree, version: int, found: Any) -> Any:
    if found is None:
        return None
    if tree.children:
        if tree.field.array:
            return [value(tree.children, version, row) for row in found]
        return value(tree.children, version, found)
    if isinstance(found, bytes):
        return base64.b64encode(found).decode()
    if isinstance(found, float) and not math.isfinite(found):
        return str(found)
    return found
