"""Buffers that C code opens are closed when the call ends, whether it returns or raises: a bytearray can grow again."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from actors.wire.messages import encode, message
from fastpath.arrow import batches_to_columns
from fastpath.records import batch, record_stream, scan, zstd_frames
from tests.reference.batch import Row, build

SOUND = build([Row(b"key", b"value", 1_000), Row(None, b"other", 1_001)])
BROKEN = SOUND[:-1] + bytes([SOUND[-1] ^ 1])


def unpacked(data: Any) -> Any:
    heads, end, _ = scan.scan(bytes(SOUND), 0, len(SOUND))
    first, last = np.array([61], np.int64), np.array([end], np.int64)
    return batches_to_columns.unpack(data, heads, first, last)


CALLS: dict[str, Callable[[Any], Any]] = {
    "headers": batch.headers,
    "columns": batch.columns,
    "claimed": batch.claimed,
    "accept": lambda data: batch.accept(data, 0, len(data), 5, 1),
    "patch": lambda data: batch.patch(data, 0, 7, 2),
    "retime": lambda data: batch.retime(data, 0, 9_000),
    "scan": lambda data: scan.scan(data, 0, len(data), into=bytearray(len(data))),
    "resync": lambda data: scan.resync(data, 0, len(data)),
    "stream": lambda data: record_stream.Walk(2, 1, 1_000, strict=False).feed(data),
    "zstd": zstd_frames.ends,
    "unpack": unpacked,
    "encode": lambda data: encode(message("SaslAuthenticateRequest")(auth_bytes=data), 0),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    "content", [SOUND, BROKEN, SOUND[:30], b"", b"\xff" * 100], ids=["sound", "bad", "cut", "none", "ff"]
)
def test_what_was_opened_is_closed(name: str, content: bytes) -> None:
    data = bytearray(content)
    for _ in range(50):  # more than the objects that are kept to be used again
        try:
            CALLS[name](data)
        except (ValueError, OverflowError) as error:
            del error
        data.append(0)
        data.pop()


def test_the_buffer_into_which_is_copied_is_closed_too() -> None:
    room = bytearray(len(SOUND))
    scan.scan(SOUND, 0, len(SOUND), into=room)
    room.append(0)
    with pytest.raises(ValueError, match="not inside"):
        scan.scan(SOUND, 5, 1, into=room)
    room.append(0)


@pytest.mark.parametrize("name", [name for name in CALLS if name != "encode"])
@pytest.mark.parametrize("wrong", [7, "text", memoryview(bytes(200))[::2]], ids=["int", "str", "strided"])
def test_what_is_no_contiguous_buffer_is_refused(name: str, wrong: Any) -> None:
    with pytest.raises((TypeError, BufferError)):
        CALLS[name](wrong)


@pytest.mark.parametrize("name", ["accept", "patch", "retime"])
def test_bytes_are_not_written_to(name: str) -> None:
    with pytest.raises(BufferError):
        CALLS[name](bytes(SOUND))


def test_an_object_is_kept_as_long_as_it_is_open_and_no_longer() -> None:
    """The objects that stand for open buffers are used again: none of them may hold what it stood for before."""
    data = bytearray(SOUND)
    before = sys.getrefcount(data)
    for name in CALLS:
        CALLS[name](data)
    assert sys.getrefcount(data) == before
