"""Records as JSON: text where they are text, and nothing more than was asked for."""

import base64
import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from actors.page.routes.exports import line
from actors.page.routes.records import _event, dicts, part, rows_of


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
