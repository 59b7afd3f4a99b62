"""Types of Arrow as Spark knows them, and columns that are made such."""

import decimal
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from actors.client.errors import ClientError
from actors.pipeline.spark_values import TOO_FAR, cast, given, plain

ENUM = pa.dictionary(pa.int32(), pa.string())
UTC = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("of", "wanted", "value", "told"),
    [
        (ENUM, pa.string(), "a", "a"), (pa.time32("ms"), pa.int32(), None, None), (pa.null(), pa.string(), None, None),
        (pa.uint32(), pa.int64(), (1 << 32) - 1, (1 << 32) - 1),
        (pa.uint64(), pa.decimal128(20, 0), (1 << 64) - 1, decimal.Decimal((1 << 64) - 1)),
        (pa.decimal256(60, 1), pa.string(), decimal.Decimal("1.5"), "1.5"), (pa.date32(), pa.date32(), None, None),
        (pa.binary(3), pa.binary(), b"abc", b"abc"), (pa.timestamp("ms", "UTC"), UTC, None, None),
        (pa.struct([("e", pa.list_(ENUM)), ("m", pa.map_(pa.string(), pa.uint32()))]),
         pa.struct([("e", pa.list_(pa.string())), ("m", pa.map_(pa.string(), pa.int64()))]),
         {"e": ["a", None], "m": [("k", 1)]}, {"e": ["a", None], "m": [("k", 1)]}),
    ],
)  # fmt: skip
def test_a_column_has_the_nearest_type_of_spark(of: pa.DataType, wanted: pa.DataType, value: Any, told: Any) -> None:
    assert plain(of) == wanted
    found, lost = cast(pa.array([value, None], of))
    assert lost is None
    found.validate(full=True)
    assert found.type == wanted
    assert found.to_pylist() == [told, None]


def test_nanoseconds_are_cut_and_no_error() -> None:
    found, _ = cast(pa.array([1_700_000_000_123_456_789], pa.timestamp("ns", "UTC")))
    assert found.cast(pa.int64()).to_pylist() == [1_700_000_000_123_456]


MS = pa.timestamp("ms", "UTC")
FAR, NEAR = (1 << 63) - 1, 253_402_300_799_999
EDGE = (1 << 63) // 1000


@pytest.mark.parametrize(
    ("of", "value"),
    [
        (MS, lambda ms: ms), (pa.timestamp("ms"), lambda ms: ms), (pa.list_(MS), lambda ms: [1, ms]),
        (pa.struct([("a", pa.list_(pa.struct([pa.field("t", MS, False)])))]), lambda ms: {"a": [{"t": 0}, {"t": ms}]}),
        (pa.map_(pa.string(), MS), lambda ms: [("x", ms)]),
    ],
)  # fmt: skip
def test_a_time_that_is_too_far_away_is_no_other_time(of: pa.DataType, value: Any) -> None:
    """The largest number of milliseconds, which some write for never, was a millisecond before 1970."""
    times = [FAR, NEAR, -FAR, None, EDGE, -EDGE, EDGE + 1, -EDGE - 1]
    rows = pa.array([None if one is None else value(one) for one in times], of)
    for first in (0, 1, 3):
        found, lost = cast(rows.slice(first))
        assert lost is not None
        found.validate(full=True)
        assert lost.to_pylist() == [one is not None and abs(one) > EDGE for one in times[first:]]
        assert found.is_null().to_pylist() == [one is None or abs(one) > EDGE for one in times[first:]]
    assert cast(rows.slice(1, 1))[1] is None


class Batches:
    """A reading that gives one batch."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def batches(self, _: Any) -> Iterator[pa.RecordBatch]:
        yield self._batch


def test_such_a_value_is_null_or_an_error_as_it_was_asked_for() -> None:
    columns = {
        "value": pa.array([5, FAR], MS),
        "value_raw": pa.nulls(2, pa.binary()),
        "value_error": pa.nulls(2, pa.string()),
    }
    reading: Any = Batches(pa.record_batch(columns))
    (found,) = given(reading, iter(()), ("value", "value_error"), "raw")
    assert found.column("value").null_count == 1
    assert found.column("value_error").to_pylist() == [None, TOO_FAR]
    assert [one.num_rows for one in given(reading, iter(()), ("value",), "null")] == [2]
    with pytest.raises(ClientError, match="further away"):
        list(given(reading, iter(()), ("value",), "fail"))
