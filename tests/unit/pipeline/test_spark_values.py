"""Types of Arrow as Spark knows them, and columns that are made such."""

import decimal
from typing import Any

import pyarrow as pa
import pytest

from actors.pipeline.spark_values import cast, plain

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
    found = cast(pa.array([value, None], of))
    found.validate(full=True)
    assert found.type == wanted
    assert found.to_pylist() == [told, None]


def test_nanoseconds_are_cut_and_no_error() -> None:
    found = cast(pa.array([1_700_000_000_123_456_789], pa.timestamp("ns", "UTC")))
    assert found.cast(pa.int64()).to_pylist() == [1_700_000_000_123_456]
