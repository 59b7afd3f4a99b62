"""Schema ids in headers: in front of the value they belong to, whatever else the headers have."""

import uuid
from typing import Any

import pyarrow as pa
import pytest

from actors.arrow.values import header_ids as module
from actors.arrow.values.header_ids import FIRST, HeaderIds
from actors.client.errors import ClientError
from actors.replay.columns.record_columns import HEADER

NAME = "__value_schema_id"
ONE, OTHER = uuid.UUID(int=5).bytes, uuid.UUID(int=6).bytes
ROWS: list[tuple[bytes | None, Any, bytes | None]] = [
    (b"a", None, b"a"), (b"b", [], b"b"), (b"c", [("x", b"\1" + ONE)], b"c"),
    (b"d", [("x", None), (NAME, b"\1" + ONE)], b"\0\x80\0\0\0d"), (None, [(NAME, b"\1" + ONE)], None),
    (b"", [(NAME, b"\1" + OTHER + b"\2\4")], b"\0\x80\0\0\1\2\4"), (b"g", [(NAME, b"\0\0\0\0\7")], b"\0\0\0\0\7g"),
    (b"h", [(NAME, b"\1" + OTHER), ("y", b""), (NAME, b"\1" + ONE), ("__key_schema_id", b"")], b"\0\x80\0\0\0h"),
    (b"i", [(NAME, None)], b"\1i"), (b"j", [(NAME, b"\1short")], b"\1j"), (b"k", [(NAME, b"\2" + ONE)], b"\1k"),
    (b"l", [(NAME, b"")], b"\1l"), (b"m", [(NAME, b"\0\0\0")], b"\1m"), (b"n", [(NAME, b"\0\x80\0\0\0")], b"\1n"),
    (b"\0\x80\0\0\0o", None, b"\1\0\x80\0\0\0o"), (b"\0\xff\xff\xff\xffp", [], b"\1\0\xff\xff\xff\xffp"),
    (b"\0\x7f\xff\xff\xffq", None, b"\0\x7f\xff\xff\xffq"), (b"\0\x80", None, b"\0\x80"), (b"\1", None, b"\1"),
    (b"\0\x80\0\0\0r", [(NAME, b"\0\0\0\0\7")], b"\0\0\0\0\7\0\x80\0\0\0r"),
]  # fmt: skip


def batch(rows: list[tuple[bytes | None, Any, bytes | None]]) -> pa.RecordBatch:
    headers = [row[1] and [{"key": name, "value": content} for name, content in row[1]] for row in rows]
    return pa.record_batch(
        {"value": pa.array([row[0] for row in rows], pa.binary()), "headers": pa.array(headers, pa.list_(HEADER))}
    )


def test_what_is_in_the_header_stands_in_front_of_the_value() -> None:
    found, has_guids = HeaderIds("value").before(batch(ROWS))
    assert has_guids
    found.validate(full=True)
    assert found.to_pylist() == [row[2] for row in ROWS]


def test_of_a_piece_of_a_batch_too() -> None:
    whole = batch(ROWS)
    ids = HeaderIds("value")
    ids.before(whole)
    for first in range(len(ROWS)):
        told, has_guids = ids.before(whole.slice(first, 4))
        assert told.to_pylist() == [row[2 if has_guids else 0] for row in ROWS[first : first + 4]]
    assert [ids.name(FIRST), ids.name(FIRST + 1), ids.name(7)] == [str(uuid.UUID(int=5)), str(uuid.UUID(int=6)), 7]


@pytest.mark.parametrize("rows", [ROWS[:1], ROWS[:3], []])
def test_without_such_headers_nothing_is_made(rows: Any) -> None:
    given = batch(rows)
    for one in (given, given.drop_columns("headers")):
        found, has_guids = HeaderIds("value").before(one)
        assert not has_guids
        assert found.buffers()[2:] == given.column("value").buffers()[2:]
        assert found.to_pylist() == [row[2] for row in rows]


def test_headers_of_ever_new_guids_end_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GUIDS_MAX", 10)
    ids = HeaderIds("value")
    with pytest.raises(ClientError, match="more than 10 GUIDs"):
        ids.before(batch([(b"a", [(NAME, b"\1" + uuid.UUID(int=n).bytes)], b"") for n in range(11)]))
