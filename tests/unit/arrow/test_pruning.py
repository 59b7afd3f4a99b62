"""What a filter excludes: never a row that fulfils it, and all that plain conditions say."""

import random
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from actors.arrow import pruning
from actors.arrow.ranges import Range
from actors.arrow.scanning import _of_offsets
from actors.replay.columns.record_columns import SCHEMA

F = ds.field
PLAN = {("t", n): Range(10 * n, 100 + 10 * n) for n in range(4)} | {("u", 0): Range(0, 50), ("u", 1): Range(7, 7)}


def left(wanted: pc.Expression) -> dict[tuple[str, int], tuple[int, int]]:
    return {part: tuple(one) for part, one in _of_offsets(PLAN, wanted).items() if one.first < one.end}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (F("partition") == 2, {("t", 2): (20, 120)}),
        ((F("topic") == "u") & (F("offset") >= 40), {("u", 0): (40, 50)}),
        (F("offset") < 15, {("t", 0): (0, 15), ("t", 1): (10, 15), ("u", 0): (0, 15)}),
        ((F("offset") > 104) & (F("offset") <= 115), {("t", 1): (105, 110), ("t", 2): (105, 116), ("t", 3): (105, 116)}),
        (F("offset") == 25, dict.fromkeys([("t", 0), ("t", 1), ("t", 2), ("u", 0)], (25, 26))),
        (F("partition").isin([3, 9]) & (F("topic") == "t"), {("t", 3): (30, 130)}),
        (((F("partition") == 0) & (F("offset") >= 500)) | (F("partition") == 1), {("t", 1): (10, 110)}),
        (F("offset") >= 1000, {}),
        (F("partition") == 7, {}),
        ((F("partition") == 0) & (F("offset") < 0), {}),
        (~(F("partition") < 3), {("t", 3): (30, 130)}),
        (F("key") == b"k", {part: tuple(one) for part, one in PLAN.items() if one.first < one.end}),
        (pc.scalar(False), {}),
    ],
    ids=str,
)  # fmt: skip
def test_plain_conditions_are_pushed_down_as_they_are(wanted: pc.Expression, expected: object) -> None:
    assert left(wanted) == expected


def drawn(draw: random.Random, depth: int = 0) -> pc.Expression:
    """A filter of any form over topic, partition, offset and key."""
    if depth < 3 and draw.random() < 0.6:
        one, other = drawn(draw, depth + 1), drawn(draw, depth + 1)
        return draw.choice([one & other, one | other, ~one])
    name, low, high = draw.choice([("partition", -1, 5), ("offset", -5, 140)])
    value = draw.randint(low, high)
    field = F(name)
    return draw.choice([
        field < value, field <= value, field > value, field >= value, field == value, field != value,
        field.isin([value, value + 2]), (field + 1) > value, F("topic") == draw.choice(["t", "u", "v"]),
        F("key").is_null(), field.is_valid(),
    ])  # fmt: skip


ROWS = pa.table(
    {
        "topic": [part[0] for part, one in PLAN.items() for _ in range(one.first, one.end)],
        "partition": pa.array([part[1] for part, one in PLAN.items() for _ in range(one.first, one.end)], pa.int32()),
        "offset": [offset for one in PLAN.values() for offset in range(one.first, one.end)],
    }
).append_column("key", pa.nulls(450, pa.binary()))


@pytest.mark.parametrize("seed", range(60))
def test_no_row_that_fulfils_a_filter_is_left_out(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(5):
        wanted = drawn(draw)
        found = left(wanted)
        for row in ROWS.filter(wanted).to_pylist():
            first, end = found.get((row["topic"], row["partition"]), (0, 0))
            assert first <= row["offset"] < end, (str(wanted), row, found)


def us(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.timestamp("us", "UTC"))


@pytest.mark.parametrize(
    ("wanted", "first"),
    [
        (F("timestamp") >= us(1_700_000_000_123_456), 1_700_000_000_123_456),
        (F("timestamp") > us(5), 6),
        ((F("timestamp") > us(5)) & (F("partition") == 1), 6),
        (F("timestamp") >= pa.scalar(datetime(2026, 11, 1, tzinfo=UTC), pa.timestamp("us", "UTC")), 1793491200000000),
        ((F("timestamp") > us(5)) | (F("partition") == 1), -pruning.US_MAX),
        (F("timestamp") < us(5), -pruning.US_MAX),
    ],
    ids=str,
)
def test_the_earliest_time(wanted: pc.Expression, first: int) -> None:
    assert pruning.lowest(SCHEMA, wanted, pruning.times, -pruning.US_MAX, pruning.US_MAX) == first


def test_edges_of_ranges() -> None:
    def edges(wanted: pc.Expression, first: int, last: int) -> tuple[int, int]:
        return (
            pruning.lowest(SCHEMA, wanted, pruning.offsets, first, last),
            pruning.highest(SCHEMA, wanted, pruning.offsets, first, last),
        )

    for last in (0, 1, 31, 32, 33, 1000, (1 << 62) - 1):
        assert edges(F("offset") >= 0, 0, last) == (0, last)
        for value in {0, last // 3, last}:
            assert edges(F("offset") == value, 0, last) == (value, value)
        assert edges(F("offset") > last, 0, last) == (last + 1, -1)
    assert edges((F("offset") > 5) & (F("offset") < 9), 0, 100) == (6, 8)


def test_the_columns_that_are_needed() -> None:
    def needed(columns: object, wanted: pc.Expression | None = None) -> set[str]:
        return set(pruning.referenced(SCHEMA, columns, wanted))  # type: ignore[arg-type]

    assert needed(None) == set(SCHEMA.names)
    assert needed([]) == set()
    assert needed(["key"]) == {"key"}
    assert needed(["key"], F("offset") > 3) == {"key", "offset"}
    assert needed({"x": F("partition") + 1, "value": F("value")}) == {"partition", "value"}
    assert needed([], (F("timestamp") > us(3)) & F("headers").is_null()) == {"timestamp", "headers"}
    with pytest.raises(ValueError, match="colour"):
        needed(["colour"])
    with pytest.raises(ValueError, match="colour"):
        needed(["key"], F("colour") == 1)
