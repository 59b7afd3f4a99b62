"""The records of a topic as a file: JSON lines, or Parquet.

This file alone decides what stands in them. Parquet has the bytes as they are, in row groups of GROUP_ROWS or GROUP_BYTES,
and is made while it is sent. JSON lines have text as text, and by its schema what has one. A reading that fails in the
middle ends JSON lines with a line {"error": sentence}, and breaks Parquet off, so that nobody takes it for the whole.
"""

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from starlette.requests import Request
from starlette.responses import Response

from actors.client.errors import ClientError
from actors.page.decoding.decoded import Decoder
from actors.page.live.reading import Found, Wish, read
from actors.page.routes.asking import text
from actors.page.routes.records import dicts, live, reader, streamed, wish_of
from actors.page.routes.streams import BrokenOff
from actors.page.watched import Live

EXPORT_MAX = 1_000_000
HEADERS_MAX = 100_000
"""How many headers become lines of JSON at once, and how many a record may have: a hundred MB can be 25 million of them."""
GROUP_ROWS, GROUP_BYTES = 100_000, 16 << 20
SCHEMA = pa.schema([
    ("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.timestamp("ms", "UTC")), ("key", pa.binary()),
    ("value", pa.binary()), ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
])  # fmt: skip
FORMS = {"jsonl": "application/x-ndjson", "parquet": "application/vnd.apache.parquet"}


async def export(request: Request) -> Response:
    """Records as JSON lines or Parquet, to be kept."""
    wish, form = wish_of(request, EXPORT_MAX)._replace(is_tail=False, is_even=True), text(request, "format", "jsonl")
    if form not in FORMS:
        raise ValueError(f"format={form} is none: write {' or '.join(FORMS)}.")
    name = "".join(one if (one.isalnum() and one.isascii()) or one in "-_." else "_" for one in wish.topic)
    headers = {"content-disposition": f'attachment; filename="{name}.{form}"'}
    made = _parquet(live(request), wish) if form == "parquet" else _lines(live(request), wish)
    return streamed(request, made, FORMS[form], headers, is_file=True)


async def _tables(live: Live, wish: Wish) -> AsyncIterator[pa.Table]:
    """The records that are wanted, and no more."""
    left = wish.number
    async with aclosing(read(live.config, wish)) as found:
        async for one in found:
            if isinstance(one, Found):
                few = one.table.slice(0, left)
                left -= len(few)
                yield few
            if not left:
                return


# ---- JSON lines


async def _lines(live: Live, wish: Wish) -> AsyncIterator[bytes]:
    try:
        async for few in _tables(live, wish):
            decoder = await reader(live, few, is_whole=True)
            yield await asyncio.to_thread(_joined, few, decoder)
    except (ClientError, ValueError) as error:
        yield json.dumps({"error": str(error)}).encode() + b"\n"


def _joined(table: pa.Table, decoder: Decoder | None) -> bytes:
    counts = pc.list_value_length(table["headers"])
    most, total = pc.max(counts).as_py() or 0, pc.sum(counts).as_py() or 0
    if most > HEADERS_MAX:
        raise ValueError(f"a record has {most:,} headers, too many for JSON Lines: export Parquet")
    rows = max(1, len(table)) if total <= HEADERS_MAX else 1
    return b"".join(line(row, decoder) for at in range(0, len(table), rows) for row in dicts(table.slice(at, rows)))


def line(row: dict[str, Any], decoder: Decoder | None = None) -> bytes:
    """A record as a line of JSON."""
    made = {
        "partition": row["partition"],
        "offset": row["offset"],
        "timestamp": row["timestamp"],
        "key": _whole(row["key"], decoder),
        "value": _whole(row["value"], decoder),
        "headers": [{"key": one["key"], "value": _whole(one["value"])} for one in row["headers"] or ()],
    }
    return json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def _whole(data: bytes | None, decoder: Decoder | None = None) -> Any:
    """Bytes as `rayft consume --json` has them, or what they say by their schema."""
    if data is None:
        return None
    decoded = decoder.read(data) if decoder is not None else None
    if decoded is not None and decoded.text:
        return json.loads(decoded.text)
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


# ---- Parquet


class _Sent(io.RawIOBase):
    """What a writer has written and nobody has sent yet."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        """Returns True: a writer asks before it begins."""
        return True

    def write(self, data: Any) -> int:
        """Keep some bytes until they are taken."""
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def taken(self) -> bytes:
        """All of it, once."""
        found, self._parts = b"".join(self._parts), []
        return found


async def _parquet(live: Live, wish: Wish) -> AsyncIterator[bytes]:
    from pyarrow import parquet

    sent = _Sent()
    writer = parquet.ParquetWriter(pa.PythonFile(sent, mode="w"), SCHEMA, compression="zstd")
    held: list[pa.Table] = []
    try:
        async for few in _tables(live, wish):
            held.append(few)
            if sum(map(len, held)) >= GROUP_ROWS or sum(one.nbytes for one in held) >= GROUP_BYTES:
                await asyncio.to_thread(writer.write_table, _typed(held))
                held = []
                yield sent.taken()
        if held:
            await asyncio.to_thread(writer.write_table, _typed(held))
    except (ClientError, ValueError) as error:
        raise BrokenOff(str(error)) from None
    writer.close()
    yield sent.taken()


def _typed(tables: list[pa.Table]) -> pa.Table:
    """Some tables as one, with the types of the file. A time beyond the calendar stays the number that it is."""
    whole = pa.concat_tables(tables).select(SCHEMA.names)
    return whole.cast(SCHEMA, safe=False)
