"""Arrow arrays read row by row from C: every layout of bytes, slices, nulls, and offsets that lead elsewhere."""

import random

import numpy as np
import pyarrow as pa
import pytest

from actors.arrow.written_columns import _bytes
from fastpath.arrow.array_views import Array
from tests.unit.fastpath.arrow.columns import BYTES, column, plain


@pytest.mark.parametrize("kind", BYTES, ids=str)
@pytest.mark.parametrize("nulls", [0.0, 0.4])
def test_the_values_are_those_that_pyarrow_reads(kind: pa.DataType, nulls: float) -> None:
    draw = random.Random(f"{kind}{nulls}")
    for rows in (0, 1, 8, 65, 300):
        array = column(draw, kind, rows, nulls)
        read = _bytes(array)
        assert read is not None and len(read) == rows
        assert [read.bytes_at(n) for n in range(rows)] == [plain(one) for one in array.to_pylist()]
        for outside in (-1, rows):
            with pytest.raises(IndexError):
                read.bytes_at(outside)


def test_an_array_keeps_its_memory() -> None:
    values = [b"x" * 40, b"y" * 40]
    read = _bytes(pa.array(values))
    assert read is not None
    for _ in range(100):
        pa.array([b"z" * 40] * 100)
    assert [read.bytes_at(n) for n in range(2)] == values


def test_a_view_may_lie_in_any_of_many_buffers() -> None:
    whole = pa.concat_arrays([pa.array([b"%d" % n * 20], pa.binary_view()) for n in range(30)])
    assert len(whole.buffers()) > 10
    read = _bytes(whole)
    assert read is not None
    assert [read.bytes_at(n) for n in range(30)] == whole.to_pylist()


BITS = bytes(8)
SHORT = [
    ("small", 4, bytes(4 * 4), [b""], 0),
    ("large", 4, bytes(8 * 4), [b""], 0),
    ("view", 4, bytes(16 * 3), [b""], 0),
    ("fixed", 4, None, [bytes(31)], 8),
    ("small", 4, None, [b""], 0),
    ("fixed", 4, None, [None], 8),
]


@pytest.mark.parametrize(("form", "rows", "places", "pieces", "width"), SHORT)
def test_a_buffer_that_is_too_short_is_refused(form, rows, places, pieces, width) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="fewer"):
        Array(form, rows, 0, None, places, pieces, width)
    with pytest.raises(ValueError, match="fewer"):
        Array(form, rows - 1, 1, None, places, pieces, width)
    Array(form, 0, 0, None, places, pieces, width)


def test_validity_bits_that_are_too_few_are_refused() -> None:
    Array("fixed", 13, 3, bytes(2), None, [bytes(8 * 16)], 8)
    with pytest.raises(ValueError, match="fewer validity bits"):
        Array("fixed", 14, 3, bytes(2), None, [bytes(8 * 17)], 8)


@pytest.mark.parametrize("numbers", [(-1, 0), (-1, 8), (4, 9), (5, 4), (9, 9), (2**31 - 1, 2**31 - 1)])
@pytest.mark.parametrize("form", ["small", "large"])
def test_offsets_that_lead_out_of_the_bytes_are_told(form: str, numbers: tuple[int, int]) -> None:
    places = np.array(numbers, np.int32 if form == "small" else np.int64)
    with pytest.raises(ValueError, match="lies outside"):
        Array(form, 1, 0, None, places, [b"12345678"]).bytes_at(0)
    # a null is not read, so its offsets do not matter
    assert Array(form, 1, 0, bytes(1), places, [b"12345678"]).bytes_at(0) is None


@pytest.mark.parametrize(
    "view", [(-1, 0, 0, 0), (13, 0, 1, 0), (13, 0, -1, 0), (13, 0, 5, 0), (13, 0, 0, -1), (13, 0, 0, 4), (17, 0, 0, 0)]
)
def test_views_that_lead_out_of_the_bytes_are_told(view: tuple[int, ...]) -> None:
    places = np.array(view, np.int32)
    with pytest.raises(ValueError, match="lies outside"):
        Array("view", 1, 0, None, places, [bytes(16)]).bytes_at(0)
    assert Array("view", 1, 0, None, np.array((13, 0, 0, 3), np.int32), [bytes(16)]).bytes_at(0) == bytes(13)


def test_what_cannot_be_an_array() -> None:
    for rows, first, width in ((-1, 0, 0), (1, -1, 0), (1, 0, -1), (2**62, 2**62, 8)):
        with pytest.raises(ValueError, match="cannot be"):
            Array("fixed", rows, first, None, None, [b""], width)
    with pytest.raises(KeyError):
        Array("other", 1)
    with pytest.raises(TypeError):
        Array("small", 1, 0, None, "text", [b""])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="already"):
        Array("null", 1).__init__("null", 1)  # type: ignore[misc]
