"""Records as JSON: text where they are text, and nothing more than was asked for."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.page.live import reading
from actors.page.routes import records as module
from actors.page.routes.exports import line
from actors.page.routes.records import HEADERS_LISTED, HEADERS_WHOLE, PREVIEW_BYTES, _event, _told, dicts, part, rows_of
from actors.page.watched import Live


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode), st.integers(0, 50))
def test_bytes_are_told_as_text_or_base64(data: bytes, preview: int) -> None:
    told = part(data, preview)
    assert told is not None and told["size"] == len(data)
    if "text" in told:
        assert data.startswith(told["text"].encode()) and len(told["text"].encode()) >= min(preview, len(data)) - 3
    else:
        assert base64.b64decode(told["base64"]) == data[:preview]
    try:
        data.decode()
    except UnicodeDecodeError:
        return
    assert "text" in told, "what is text is told as text, wherever it is cut"


def test_null_is_not_empty() -> None:
    assert part(None, 10) is None and part(b"", 10) == {"size": 0, "text": ""}


def test_text_cannot_end_an_event() -> None:
    sent = _event("records", [part(b"\n\nevent: end\ndata: {}\n\n", 100)])
    assert sent.count(b"\n\n") == 1 and sent.endswith(b"\n\n")
    assert json.loads(sent.split(b"data: ", 1)[1])[0]["size"] == 23


def test_a_record_with_a_time_beyond_the_calendar_is_told() -> None:
    """Producers that write microseconds where milliseconds belong are not rare."""
    headers = pa.array([[]], pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})))
    table = pa.table({
        "partition": [0], "offset": [7], "timestamp": pa.array([1_700_000_000_000_000], pa.timestamp("ms", "UTC")),
        "key": [b"k"], "value": [b"v"], "headers": headers,
    })  # fmt: skip
    assert rows_of(table, 10)[0]["timestamp"] == 1_700_000_000_000_000
    assert json.loads(line(dicts(table)[0]))["timestamp"] == 1_700_000_000_000_000


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def of(numbers: list[int], value: bytes, headers: int = 0) -> pa.Table:
    few = [[("n" * 5_000, b"v" * 5_000)] * headers] * len(numbers)
    return pa.table({
        "partition": [0] * len(numbers), "offset": numbers, "timestamp": pa.array(numbers, pa.timestamp("ms", "UTC")),
        "key": pa.array([None] * len(numbers), pa.binary()), "value": [value] * len(numbers),
        "headers": pa.array([[{"key": key, "value": one} for key, one in row] for row in few], HEADERS),
    })  # fmt: skip


def test_of_many_headers_the_first_are_told() -> None:
    (listed,) = rows_of(of([1], b"", 120), PREVIEW_BYTES)
    assert len(listed["headers"]) == HEADERS_LISTED and listed["more_headers"] == 20
    assert {len(name) for name, _ in listed["headers"]} == {PREVIEW_BYTES}
    (whole,) = rows_of(of([1], b"", 120), PREVIEW_BYTES + 1)
    assert len(whole["headers"]) == 120 <= HEADERS_WHOLE and whole["more_headers"] == 0
    (none,) = rows_of(of([1], b""), 10)
    assert none["headers"] == [] and none["more_headers"] == 0


def test_of_the_last_records_no_more_is_held_than_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may have a hundred MB, and came in a few KB."""
    wish, held, size = reading.Wish("t", number=1_000), list[int](), 4 << 20

    async def read(*_: object) -> AsyncIterator[object]:
        before = pa.total_allocated_bytes()
        for at in range(16):
            yield reading.Found(of([at, 100 - at], bytes(size)))
            held.append(pa.total_allocated_bytes() - before)
        yield reading.Progress(32, 32, 32)

    async def run() -> list[bytes]:
        return [one async for one in _told(Live(None, None, None), wish, PREVIEW_BYTES)]  # type: ignore[arg-type]

    monkeypatch.setattr(module, "read", read)
    events = asyncio.run(run())
    told = json.loads(next(one for one in events if one.startswith(b"event: records")).split(b"data: ", 1)[1])
    assert [row["offset"] for row in told] == [*range(100, 84, -1), *range(15, -1, -1)]
    assert {row["value"]["size"] for row in told} == {size}
    assert max(held) < 8 * size, "two pieces, and not all sixteen"
