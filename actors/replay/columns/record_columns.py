"""The records of topics as Arrow: the columns of Spark's own kafka source, from the bytes of segments.

    key binary, value binary, topic string, partition int32, offset int64, timestamp timestamp[us, UTC],
    timestampType int32, headers list<struct<key string, value binary>>

This file alone decides these columns. All but key, value and headers are never null and are declared so: a reader that
goes by row, such as Spark's, then need not check each value. Control batches (transaction markers) are not records.
Records of an aborted transaction are included, as for a consumer that reads uncommitted.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from actors.replay.columns.arrow import Uniform, plain, repeated, texts, varied
from actors.replay.logs.chunks import CONTROL, Chunk, ChunkReading, chunks
from actors.replay.logs.files import Headers, Partition
from fastpath.arrow import batches_to_columns
from fastpath.bytes.byte_builder import Rooms
from fastpath.records.batch import CorruptBatch

HEADER = pa.struct([pa.field("key", pa.string(), False), pa.field("value", pa.binary())])
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        pa.field("topic", pa.string(), False),
        pa.field("partition", pa.int32(), False),
        pa.field("offset", pa.int64(), False),
        pa.field("timestamp", pa.timestamp("us", "UTC"), False),
        pa.field("timestampType", pa.int32(), False),
        ("headers", pa.list_(HEADER)),
    ]
)
COLUMNS = tuple(SCHEMA.names[:-1])
"""The columns that are built by default. Headers are built only on request, as with Spark's own source."""
WANT = {
    "key": batches_to_columns.KEY,
    "value": batches_to_columns.VALUE,
    "offset": batches_to_columns.OFFSET,
    "timestamp": batches_to_columns.TIMESTAMP,
    "timestampType": batches_to_columns.TIMESTAMP_TYPE,
    "headers": batches_to_columns.HEADERS,
}

NAMES_BYTES_MAX = 64 << 20
"""The most bytes of the topic's name over all rows of an Arrow batch, whose offsets have 32 bits. A small compressed
batch can hold millions of empty records."""

ROOMS = Rooms()
"""The memory in which all logs' columns are built, so that a process that reads many pieces, such as a Spark worker,
allocates it once."""


def schema(columns: Sequence[str] = COLUMNS) -> pa.Schema:
    """The Arrow schema of some columns. Raises ValueError for one that does not exist."""
    unknown = [name for name in columns if name not in SCHEMA.names]
    if unknown:
        raise ValueError(f"a topic's log has no column {unknown[0]!r}, only {', '.join(SCHEMA.names)}")
    return pa.schema([SCHEMA.field(name) for name in columns])


def log(
    partition: Partition,
    columns: Sequence[str] = COLUMNS,
    reading: ChunkReading | None = None,
    first_offset: int = 0,
    end_offset: int = -1,
) -> Iterator[pa.RecordBatch]:
    """The records of one partition with offsets in `[first_offset, end_offset)`, a chunk at a time, in order."""
    reading = reading or ChunkReading()
    decoder = Decoder(partition.topic, partition.number, columns, reading, first_offset, end_offset)
    for segment in partition.segments:
        if 0 <= segment.next_offset <= first_offset or 0 <= end_offset <= segment.base_offset:
            continue
        for chunk in chunks(segment.path, reading, keep=keep(first_offset, end_offset)):
            yield from decoder.batches(chunk)


def keep(first_offset: int, end_offset: int) -> Any:
    """Choose the batches that hold data of `[first_offset, end_offset)`; -1: no end."""

    def chosen(headers: Headers) -> Any:
        good = (
            (headers["attributes"] & CONTROL == 0) & (headers["last_offset"] >= first_offset) & (headers["count"] > 0)
        )
        return good & (headers["base_offset"] < end_offset) if end_offset >= 0 else good

    return chosen


class Decoder:
    """Arrow batches of one log, chunk by chunk."""

    def __init__(
        self,
        topic: str,
        number: int,
        columns: Sequence[str],
        reading: ChunkReading,
        first_offset: int = 0,
        end_offset: int = -1,
    ) -> None:
        self._topic = topic
        self._number = number
        self._columns = columns
        self._schema = schema(columns)
        self._reading = reading
        self._first_offset = first_offset
        self._end_offset = end_offset
        self._want = sum(WANT.get(name, 0) for name in columns)
        self._rows_max = NAMES_BYTES_MAX // max(len(topic.encode()), 1)
        self._texts = Uniform(repeated)
        self._numbers = Uniform(lambda rows, number: plain(np.full(rows, number, dtype=np.int32)))

    def batches(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """The Arrow batches of a chunk. It is one, unless a batch has a valid CRC but invalid records, and is left out;
        or unless one Arrow batch cannot hold the topic's name in every row."""
        first, end = self._first_offset, self._end_offset
        cut = chunk.headers[0]["base_offset"] < first or 0 <= end <= chunk.headers[-1]["last_offset"]
        want = self._want | batches_to_columns.OFFSET if cut else self._want
        while len(chunk.headers):
            try:
                found = batches_to_columns.unpack(chunk.data, chunk.headers, chunk.starts, chunk.ends, want, ROOMS)
            except CorruptBatch as error:
                bad = chunk.headers[error.position]
                position = int(bad["position"])
                self._reading.damaged(chunk.path, position, position + int(bad["size"]), error.reason)
                if error.position:
                    yield from self.batches(chunk.part(slice(0, error.position)))
                chunk = chunk.part(slice(error.position + 1, None))
                continue
            low, high = 0, int(chunk.headers["count"].sum())
            columns = self._built(found, high)
            if cut:
                low = int(np.searchsorted(found["offset"], first))
                high = int(np.searchsorted(found["offset"], end)) if end >= 0 else high
            for at in range(low, high, self._rows_max):
                yield self._batch(columns, at, min(self._rows_max, high - at))
            return

    def _batch(self, columns: dict[str, pa.Array], at: int, rows: int) -> pa.RecordBatch:
        arrays = []
        for name in self._columns:
            if name == "topic":
                arrays.append(self._texts(self._topic, rows))
            elif name == "partition":
                arrays.append(self._numbers(self._number, rows))
            else:
                arrays.append(columns[name].slice(at, rows))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _built(self, found: dict[str, Any], rows: int) -> dict[str, pa.Array]:
        """The columns that differ from row to row."""
        made: dict[str, pa.Array] = {}
        for name in self._columns:
            if name == "offset":
                made[name] = plain(found["offset"])
            elif name == "timestamp":
                kind = pa.timestamp("us", "UTC")
                made[name] = pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(found["timestamp"])])
            elif name == "timestampType":
                made[name] = plain(found["timestamp_type"])
            elif name == "headers":
                made[name] = _headers(found["headers"], rows)
            elif name in found:
                made[name] = varied(pa.binary(), rows, *found[name])
        return made


def _headers(found: Any, rows: int) -> Any:
    ends, name_ends, names, value_ends, values, absent = found
    count = len(absent)
    bits = np.packbits(absent == 0, bitorder="little")
    nulls = int(absent.sum())
    keys = pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(name_ends), pa.py_buffer(names)])
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:  # not UTF-8: readers of a text would fail on it, so it becomes what Java makes of it
        keys = texts([raw.decode(errors="replace") for raw in keys.view(pa.binary()).to_pylist()])
    inner = varied(pa.binary(), count, value_ends, values, bits, nulls)
    structs = pa.StructArray.from_arrays([keys, inner], fields=list(HEADER))
    some = np.diff(ends) > 0  # a record without headers has null, as in Spark's own source
    valid = pa.py_buffer(np.packbits(some, bitorder="little"))
    kind = pa.list_(HEADER)
    return pa.ListArray.from_buffers(
        kind, rows, [valid, pa.py_buffer(ends)], rows - int(some.sum()), children=[structs]
    )
