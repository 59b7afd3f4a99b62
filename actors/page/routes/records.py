"""The answers about one topic: its partitions with their offsets, and its records as they are read."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from starlette.requests import Request
from starlette.responses import Response

from actors.client.errors import ClientError
from actors.client.operations import configs
from actors.client.operations.leaders import Part
from actors.client.operations.offsets import EARLIEST, LATEST, TRIES_SAMPLED, Found, list_offsets
from actors.client.operations.topics import describe
from actors.page.decoding.decoded import Decoder, decoder
from actors.page.live.reading import FIELDS, READERS_MAX, Progress, Wish, last, read
from actors.page.metadata.slices import countable
from actors.page.routes.asking import number, place, text, told
from actors.page.routes.streams import Places, Streamed
from actors.page.watched import Live

PREVIEW_BYTES = 4 << 10
"""How much of a value is told in a list."""
WHOLE_BYTES = 4 << 20
HEADERS_LISTED, HEADERS_WHOLE = 100, 1_000
"""How many headers of a record are told in a list, and where more than the beginning of its value is wanted."""
COUNT_MAX = 1_000
OFFSETS_S = 5.0


def live(request: Request) -> Live:
    """The connections to the cluster. Raises KeyError for files."""
    found = place(request).watched.live
    if found is None:
        raise KeyError(
            "These are files of a metadata log: records, groups and settings of nodes need a running cluster."
        )
    return found


async def topic(request: Request) -> Response:
    """A topic now: its partitions with their offsets, and its settings."""
    name, kafka = request.path_params["topic"], live(request).kafka
    found = (await kafka.run(describe([name])))[name]
    parts = [(name, one) for one in sorted(found.partitions)]
    led = [part for part in parts if found.partitions[part[1]].leader >= 0]
    begins, ends, settings = await asyncio.gather(
        _offsets(request, led, EARLIEST), _offsets(request, led, LATEST), _settings(request, name)
    )
    rows = [
        [one.number, one.leader, list(one.replicas), list(one.isr), begins.get(part), ends.get(part)]
        for part in parts
        for one in [found.partitions[part[1]]]
    ]
    columns = ["partition", "leader", "replicas", "isr", "begin", "end"]
    return told({"topic": name, "internal": found.internal, "columns": columns, "rows": rows, "settings": settings})


async def _offsets(request: Request, parts: list[Part], at: int) -> dict[Part, int]:
    try:
        found = await live(request).kafka.run(list_offsets(parts, at, tries=TRIES_SAMPLED), OFFSETS_S)
    except ClientError:
        return {}
    return {part: one.offset for part, one in found.items() if isinstance(one, Found)}


async def _settings(request: Request, name: str) -> list[list[Any]] | None:
    """[name, value, source] of each setting; None: they are not told."""
    resource = configs.Kind.TOPIC, name
    try:
        found = (await live(request).kafka.run(configs.describe([resource]), OFFSETS_S))[resource]
    except ClientError:
        return None
    if isinstance(found, ClientError):
        return None
    return [[one.name, "(hidden)" if one.sensitive else one.value, one.source] for _, one in sorted(found.items())]


# ---- records


def wish_of(request: Request, most: int) -> Wish:
    """What a request wants to read. Raises ValueError."""
    given = text(request, "from") or "latest"
    asked: int | str = int(given) if given.isascii() and given.isdecimal() and len(given) < 19 else given
    parts = [one for one in text(request, "partition").split(",") if one]
    if not all(one.isascii() and one.isdecimal() and len(one) < 10 for one in parts):
        raise ValueError("partition takes numbers, as in partition=0,3")
    field = text(request, "field") or "any"
    if field not in FIELDS:
        raise ValueError(f"field={field} is none: write {', '.join(FIELDS)}.")
    return Wish(
        request.path_params["topic"], frozenset(map(int, parts)), asked, number(request, "n", 50, most, 1),
        text(request, "q").encode(), field, text(request, "committed") == "1", text(request, "tail") == "1",
    )  # fmt: skip


async def records(request: Request) -> Response:
    """Records as server-sent events: `progress`, `records`, and `end` or `failed`."""
    wish, preview = wish_of(request, COUNT_MAX), number(request, "bytes", PREVIEW_BYTES, WHOLE_BYTES)
    return streamed(request, _told(live(request), wish, preview), "text/event-stream", {"x-accel-buffering": "no"})


def streamed(
    request: Request, body: AsyncIterator[bytes], kind: str, headers: dict[str, str], is_file: bool = False
) -> Response:
    readers: Places = request.app.state.readers
    if readers.is_full:
        return told({"error": f"{READERS_MAX} readings are under way already: stop one, then try again."}, 503)
    return Streamed(readers, body, kind, headers, is_file)


async def _told(live: Live, wish: Wish, preview: int) -> AsyncIterator[bytes]:
    async def rows(table: pa.Table) -> list[dict[str, Any]]:
        read = await reader(live, table, preview > PREVIEW_BYTES)
        return await asyncio.to_thread(rows_of, table, preview, read)

    best: list[dict[str, Any]] = []  # and not the records themselves, of which each may be large
    shown = 0
    is_last = wish.place == "latest" and not wish.is_tail
    try:
        async for one in read(live.config, wish):
            if isinstance(one, Progress):
                yield _event("progress", one._asdict())
            elif is_last:
                best = newest([*best, *await rows(last([one.table], wish.number))], wish.number)
            else:
                few = one.table.slice(max(0, len(one.table) - wish.number) if wish.is_tail else 0, wish.number - shown)
                shown += 0 if wish.is_tail else len(few)
                yield _event("records", await rows(few))
        if best:
            yield _event("records", best)
        yield _event("end", {})
    except (ClientError, ValueError) as error:
        yield _event("failed", {"error": str(error)})


def _event(name: str, value: Any) -> bytes:
    made = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return b"event: " + name.encode() + b"\ndata: " + made + b"\n\n"


async def reader(live: Live, table: pa.Table, is_whole: bool) -> Decoder | None:
    """What reads the values of records by their schemas; None: there is no registry."""
    if live.registry is None:
        return None
    return await decoder(live.registry, (*table["key"].to_pylist(), *table["value"].to_pylist()), is_whole)


def newest(found: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """The last of some records, the newest first."""
    return sorted(found, key=lambda row: (row["timestamp"], row["offset"]), reverse=True)[:count]


def rows_of(table: pa.Table, preview: int, read: Decoder | None = None) -> list[dict[str, Any]]:
    """Records as JSON has them, with the beginnings of their values, and what those say that have a schema. Of headers the
    first ones, and how many there are behind them."""
    most = HEADERS_LISTED if preview <= PREVIEW_BYTES else HEADERS_WHOLE
    headers = table["headers"]
    counts = pc.list_value_length(headers).to_pylist()
    table = table.set_column(table.column_names.index("headers"), "headers", pc.list_slice(headers, 0, most))
    return [
        {
            "partition": row["partition"],
            "offset": row["offset"],
            "timestamp": row["timestamp"],
            "key": part(row["key"], preview, read),
            "value": part(row["value"], preview, read),
            "headers": [[one["key"][:preview], part(one["value"], preview)] for one in row["headers"] or ()],
            "more_headers": max(0, (count or 0) - most),
        }
        for row, count in zip(dicts(table), counts, strict=True)
    ]


def dicts(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table of records, with their times as ms since 1970."""
    found: list[dict[str, Any]] = pa.table({name: countable(table[name]) for name in table.column_names}).to_pylist()
    return found


def part(data: bytes | None, preview: int, read: Decoder | None = None) -> dict[str, Any] | None:
    """Bytes as text if they are UTF-8, else as base64: the beginning, and how many there are; `decoded` and `schema` where
    they have a schema. None stays none."""
    if data is None:
        return None
    found = _shown(data, preview)
    decoded = read.read(data) if read is not None else None
    if decoded is not None:
        found |= {"schema": decoded.schema, **({"decoded": decoded.text} if decoded.text else {})}
    return found


def _shown(data: bytes, preview: int) -> dict[str, Any]:
    size, shown = len(data), data[:preview]
    for cut in range(4 if size > preview else 1):  # a character may be cut
        try:
            return {"size": size, "text": str(shown[: len(shown) - cut], "utf-8")}
        except UnicodeDecodeError:
            continue
    return {"size": size, "base64": base64.b64encode(shown).decode()}
