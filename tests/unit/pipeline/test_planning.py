"""Plans: how ranges are cut, maps that are not complete, and what Spark's conditions make of a plan."""

import random
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from actors.pipeline.planning import Conditions, Slice, complete, cut
from actors.pipeline.query import Place

PARTS = [("orders", 0), ("orders", 1)]


def test_slices_cover_ranges_without_overlap_whatever_is_asked_for() -> None:
    draw = random.Random(3)
    for _ in range(500):
        whole = [
            Slice("t", n, low := draw.randint(0, 50), low + draw.randint(1, 400), bytes(16))
            for n in range(draw.randint(0, 6))
        ]
        least, most = draw.choice([None, 1, 7, 40, 5000]), draw.choice([None, 1, 3, 100, 10_000])
        found = cut(whole, least, most)
        for one in whole:
            own = [piece for piece in found if piece.partition == one.partition]
            assert (own[0].first, own[-1].end) == (one.first, one.end)
            assert all(a.end == b.first for a, b in pairwise(own))
            assert all(piece.first < piece.end for piece in own), "no task without work"
        sizes = [piece.end - piece.first for piece in found]
        assert most is None or max(sizes, default=0) <= most
        assert least is None or len(found) >= min(least, sum(sizes))


def test_a_partition_is_one_slice_unless_more_are_asked_for() -> None:
    whole = [Slice("t", 0, 0, 900, b""), Slice("t", 1, 0, 100, b"")]
    assert cut(whole, None, None) == cut(whole, 2, None) == whole
    assert [(one.partition, one.end - one.first) for one in cut(whole, 10, None)] == [(0, 100)] * 9 + [(1, 100)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({("orders", 0): 1}, "startingOffsets: orders/1 is read and not named"),
        ({("orders", 0): 1, ("orders", 1): 1, ("orders", 2): 1}, "startingOffsets: orders/2 is named and not read"),
        ({("clicks", 0): 1}, "orders/0, orders/1 is read and not named, and clicks/0 is named and not read"),
    ],
)
def test_a_map_names_each_partition_that_is_read_and_no_other(given: dict[Any, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        complete(Place("startingOffsets", offsets=given), PARTS)


def test_conditions_of_spark_make_plans_smaller() -> None:
    spark = pytest.importorskip("actors.pipeline.spark_readers", reason="PySpark is not installed")
    api = spark.api
    if not spark.files.SIGNS:
        pytest.skip("this PySpark hands no filters down")

    def left(*filters: Any) -> tuple[Conditions, list[Any]]:
        conditions, rest = Conditions(), []
        for one in filters:
            conditions, exact = spark.narrowed(conditions, one)
            rest += [] if exact else [one]
        return conditions, rest

    moment = datetime(2026, 11, 1, microsecond=1, tzinfo=UTC)
    later = api.GreaterThan(("timestamp",), moment)
    assert left(api.EqualTo(("topic",), "a"), api.In(("topic",), ("a", "b"))) == (Conditions(frozenset("a")), [])
    assert left(api.In(("partition",), (1, 2)), api.EqualTo(("partition",), 3)) == (
        Conditions(partitions=frozenset()),
        [],
    )
    assert left(api.GreaterThan(("offset",), 4), api.LessThanOrEqual(("offset",), 9)) == (
        Conditions(first=5, end=10),
        [],
    )
    assert left(api.EqualTo(("offset",), 7), api.LessThan(("offset",), 3)) == (Conditions(first=7, end=3), [])
    assert left(later) == (Conditions(since_ms=1793491200001), [later]), "records behind the first may be earlier"
    for one in (
        api.LessThan(("timestamp",), moment), api.EqualTo(("key",), b"x"), api.IsNotNull(("value",)),
        api.Not(api.EqualTo(("topic",), "a")), api.EqualNullSafe(("offset",), 1),
    ):  # fmt: skip
        assert left(one) == (Conditions(), [one])
    assert left(api.IsNotNull(("offset",))) == (Conditions(), [])
