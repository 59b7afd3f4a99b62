"""Columns out of records whose CRC is right and whose numbers are not. Sound ones are in tests/unit/replay."""

import itertools

import numpy as np
import pytest

from fastpath.arrow import batches_to_columns
from fastpath.bytes.varint import encode_varint
from fastpath.records.batch import HEADER_DTYPE, CorruptBatch


def record(delta: int) -> bytes:
    body = b"\0" + encode_varint(0) + encode_varint(delta) + encode_varint(-1) + encode_varint(-1) + encode_varint(0)
    return encode_varint(len(body)) + body


def offsets(*deltas: int, last: int) -> list[int]:
    """The offsets of a batch with these deltas, that begins at offset 10."""
    data = b"".join(map(record, deltas))
    header = np.zeros(1, HEADER_DTYPE)
    header["base_offset"], header["count"], header["last_offset_delta"] = 10, len(deltas), last
    places = np.array([0], np.int64), np.array([len(data)], np.int64)
    found: list[int] = batches_to_columns.unpack(data, header, *places, batches_to_columns.OFFSET)["offset"].tolist()
    return found


def test_offsets_rise_and_stay_in_their_batch() -> None:
    """What reads a range, or goes on behind a batch, relies on it."""
    for deltas in itertools.product(range(-2, 5), repeat=3):
        if -1 < deltas[0] < deltas[1] < deltas[2] < 4:
            assert offsets(*deltas, last=3) == [10 + one for one in deltas]
        else:
            with pytest.raises(CorruptBatch, match="offset delta is out of order"):
                offsets(*deltas, last=3)
