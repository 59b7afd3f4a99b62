"""From an Arrow schema to the columns that become records: which ones there may be, and of which types.

    value      binary, string, their large and view kinds, or binary of one width; null: a tombstone. It has to be there.
    key        the same; null: none
    headers    a list, or a large one, of struct<key, value>, both of the types above; a key that comes twice stays twice
    timestamp  a timestamp of any unit, without a zone in UTC; null: the time at which the record is written
    partition  whole numbers; null: the one of its key, or without a key the one whose turn it is

This file alone decides that. What `rayft.read` gives besides (topic, offset, timestampType) says where a record came from,
and is not written. Any other column is refused: a name with a slip would lose its data in silence. A dictionary's words are
not copied for its rows, which may be many more: each row is a view of its word.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from fastpath.arrow.array_views import Array
from fastpath.arrow.columns_to_batches import Columns

IGNORED = ("topic", "offset", "timestampType")
BYTES = "binary or string"
HEADERS = "list<struct<key: string, value: binary>>"
Readable = Callable[[pa.DataType], bool]
_FORMS: tuple[tuple[str, tuple[Readable, ...]], ...] = (
    ("null", (kinds.is_null,)),
    ("small", (kinds.is_binary, kinds.is_string)),
    ("large", (kinds.is_large_binary, kinds.is_large_string)),
    ("view", (kinds.is_binary_view, kinds.is_string_view)),
    ("fixed", (kinds.is_fixed_size_binary,)),
)
"""How the buffers of a type are read (`fastpath/arrow/array_views.pyx`)."""


def form(kind: pa.DataType) -> str | None:
    """The form of a type of bytes; None: it is another type."""
    return next((name for name, tests in _FORMS if any(test(kind) for test in tests)), None)


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type of what a dictionary stands for."""
    return kind.value_type if kinds.is_dictionary(kind) else kind


def _is_bytes(kind: pa.DataType) -> bool:
    return form(_plain(kind)) is not None


def _is_headers(kind: pa.DataType) -> bool:
    if kinds.is_null(kind):
        return True
    if not (kinds.is_list(kind) or kinds.is_large_list(kind)) or not kinds.is_struct(kind.value_type):
        return False
    pair = kind.value_type
    names = [pair.field(n).name for n in range(pair.num_fields)]
    return sorted(names) == ["key", "value"] and all(form(pair.field(n).type) is not None for n in range(2))


def _is_time(kind: pa.DataType) -> bool:
    return bool(kinds.is_timestamp(kind) or kinds.is_null(kind))


WANTED: dict[str, tuple[Readable, str]] = {
    "value": (_is_bytes, BYTES),
    "key": (_is_bytes, BYTES),
    "headers": (_is_headers, HEADERS),
    "timestamp": (_is_time, "a timestamp"),
    "partition": (lambda kind: bool(kinds.is_integer(kind)), "an integer"),
}
"""What each column must be, and how that is called."""


def check(schema: pa.Schema) -> None:
    """Look whether these columns can be written. Raises ValueError that names the first one that cannot."""
    for field in schema:
        if field.name in IGNORED:
            continue
        if field.name not in WANTED:
            raise ValueError(
                f"column {field.name!r} is none of a record's: leave it out, or call it one of {', '.join(WANTED)}"
            )
        fits, wanted = WANTED[field.name]
        if not fits(field.type):
            raise ValueError(f"column {field.name!r} is of type {field.type}, and has to be {wanted}: cast it")
        if schema.names.count(field.name) > 1:
            raise ValueError(f"there are two columns {field.name!r}: leave one out")
    if "value" not in schema.names:
        raise ValueError(f"there is no column 'value', which has to be {BYTES}: a table of nulls writes tombstones")


def columns(batch: pa.RecordBatch) -> Columns:
    """The columns of a batch whose schema was checked. Raises ValueError for a partition beyond 64 bits."""
    found: dict[str, pa.Array] = {name: batch.column(name) for name in WANTED if name in batch.schema.names}
    times, parts, lists = found.get("timestamp"), found.get("partition"), found.get("headers")
    return Columns(
        batch.num_rows,
        _bytes(found.get("key")),
        _bytes(found["value"]),
        None if parts is None else _numbers(parts.cast(pa.int64())),
        None if times is None or kinds.is_null(times.type) else _numbers(times.cast(pa.int64())),
        "ms" if times is None or kinds.is_null(times.type) else times.type.unit,
        None if lists is None or kinds.is_null(lists.type) else _headers(lists),
    )


def _bytes(array: pa.Array | None) -> Array | None:
    if array is None:
        return None
    return _words(array) if kinds.is_dictionary(array.type) else _plain_bytes(array)


def _plain_bytes(array: pa.Array) -> Array:
    name, held = form(array.type), array.buffers()
    assert name is not None, "the schema was checked"
    if name == "null":
        return Array(name, len(array))
    if name == "fixed":
        return Array(name, len(array), array.offset, held[0], None, held[1:], array.type.byte_width)
    return Array(name, len(array), array.offset, held[0], held[1], held[2:])


def _words(array: pa.DictionaryArray) -> Array:
    """The rows of a dictionary. Raises IndexError if a row has no word."""
    words, valid = array.dictionary, np.asarray(array.indices.is_valid())
    if kinds.is_null(words.type) or not valid.any():
        return Array("null", len(array))
    try:
        words = words.cast(pa.binary_view())
    except (pa.ArrowCapacityError, pa.ArrowNotImplementedError):
        # More than 2 GiB of words, or a pyarrow before this cast.
        return _plain_bytes(array.dictionary_decode())
    held, picks = words.buffers(), np.asarray(array.indices.fill_null(0)).astype(np.int64)
    if int(picks.min()) < 0:
        raise IndexError("a row of a dictionary has a word of a negative number")
    views = np.frombuffer(held[1], np.int64).reshape(-1, 2)[words.offset : words.offset + len(words)]
    valid &= np.asarray(words.is_valid())[picks]
    return Array("view", len(array), 0, np.packbits(valid, bitorder="little").data, views[picks].data, held[2:])


def _numbers(array: pa.Array) -> Array:
    valid, data = array.buffers()
    return Array("fixed", len(array), array.offset, valid, None, [data], 8)


def _headers(array: pa.Array) -> tuple[Array, Array, Array, Array]:
    """The lists, the structs that they hold, and the fields of those."""
    size = "large" if kinds.is_large_list(array.type) else "small"
    valid, offsets = array.buffers()[:2]
    pairs = array.values
    name, content = _bytes(pairs.field("key")), _bytes(pairs.field("value"))
    assert name is not None and content is not None
    return (
        Array(size, len(array), array.offset, valid, offsets),
        Array("fixed", len(pairs), pairs.offset, pairs.buffers()[0], None, [None]),
        name,
        content,
    )


def batches(data: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """The schema and the record batches of a table, a batch, a reader, or of anything that gives Arrow's stream. Raises
    ValueError for anything else."""
    if isinstance(data, pa.Table):
        return data.schema, data.to_batches()
    if isinstance(data, pa.RecordBatch):
        return data.schema, [data]
    if not isinstance(data, pa.RecordBatchReader):
        if not hasattr(data, "__arrow_c_stream__"):
            raise ValueError(
                f"{type(data).__name__} is no Arrow data: give a pyarrow Table, RecordBatch or RecordBatchReader, or "
                f"something with __arrow_c_stream__"
            )
        data = pa.RecordBatchReader.from_stream(data)
    return data.schema, data
