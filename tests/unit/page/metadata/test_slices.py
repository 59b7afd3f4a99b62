"""Rows that are wanted: filtered, searched, sorted, cut, and as JSON."""

import datetime
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.page.metadata.slices import Slices, Wanted, cell, chosen, needed, places, rows

TABLE = pa.table(
    {
        "topic": ["orders", "Payments", None, "orders"],
        "partition": pa.array([2, 0, 7, 1], pa.int32()),
        "isr": pa.array([[1, 2], [3], [], [1]], pa.list_(pa.int32())),
        "at": pa.array([1_000, None, 3_000, 2_000], pa.timestamp("ms", "UTC")),
    }
)


@pytest.mark.parametrize(
    ("wanted", "partitions"),
    [
        (Wanted(), [2, 0, 7, 1]),
        (Wanted(where="isr contains 1"), [2, 1]),
        (Wanted(q="ORDER"), [2, 1]),
        (Wanted(q="7"), [7]),
        (Wanted(q="nothing"), []),
        (Wanted(sort="partition"), [0, 1, 2, 7]),
        (Wanted(sort="-partition"), [7, 2, 1, 0]),
        (Wanted(sort="topic"), [0, 2, 1, 7]),
        (Wanted(sort="-isr"), [2, 0, 1, 7]),
        (Wanted("topic = orders", "orders", "partition"), [1, 2]),
    ],
)
def test_the_rows_that_are_wanted(wanted: Wanted, partitions: list[int]) -> None:
    assert chosen(TABLE, wanted)["partition"].to_pylist() == partitions


def test_nothing_holds_nothing() -> None:
    for wanted in (Wanted(q="7"), Wanted(q="orders"), Wanted("partition = 7"), Wanted(sort="-isr")):
        assert len(chosen(TABLE.slice(0, 0), wanted)) == 0 and len(places(TABLE.slice(0, 0), wanted)) == 0


@pytest.mark.parametrize("wanted", [Wanted(sort="nothing"), Wanted(where="nothing = 1"), Wanted(where="drop table")])
def test_words_that_mean_nothing_are_refused(wanted: Wanted) -> None:
    with pytest.raises(ValueError):
        chosen(TABLE, wanted)


def test_a_table_is_filtered_once_for_many_slices() -> None:
    made: list[int] = []

    def make() -> pa.Table:
        made.append(1)
        return TABLE

    slices = Slices()
    for _ in range(5):
        slices.table(("t", 1), Wanted(sort="partition"), make)
    slices.table(("t", 2), Wanted(sort="partition"), make)
    assert len(made) == 2


def test_cells_are_json() -> None:
    assert rows(TABLE)[0] == ["orders", 2, [1, 2], 1000]
    assert rows(TABLE)[1] == ["Payments", 0, [3], None]
    assert cell(float("nan")) is None and cell(datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)) == 1000


VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.long
@given(VALUES)
def test_any_cell_can_be_said_in_json(value: Any) -> None:
    json.dumps(cell(value), allow_nan=False)


def test_counts_of_a_broker_have_no_order() -> None:
    cells = pa.FixedSizeListArray.from_arrays(pa.array([1, 2, 3], pa.int64()), 3)
    with pytest.raises(ValueError, match="no order"):
        chosen(pa.table({"b1": cells}), Wanted(sort="b1"))


def test_times_beyond_the_calendar_are_told() -> None:
    times = pa.array([1 << 62, -(1 << 62), None], pa.int64())
    table = pa.table({
        "at": times.cast(pa.timestamp("ms", "UTC")),
        "day": pa.array([0, 2**31 - 1, None], pa.int32()).cast(pa.date32()),
    })  # fmt: skip
    (first, day), (last, other), nothing = rows(table)
    assert (first, last, nothing) == (1 << 62, -(1 << 62), [None, None])
    assert day == "1970-01-01" and "out of range" in other


@given(
    st.lists(st.tuples(st.none() | st.integers(-2, 2), st.sampled_from(["a", "b", "B"])), max_size=40),
    st.sampled_from(["number", "-number", "text", "-text"]),
)
def test_rows_that_are_alike_stay_in_order_and_null_is_last(some: list[tuple[int | None, str]], sort: str) -> None:
    table = pa.table({
        "number": pa.array([one for one, _ in some], pa.int32()), "text": pa.array([one for _, one in some], pa.string()),
    })  # fmt: skip
    values = table[sort.removeprefix("-")].to_pylist()
    known = [at for at, one in enumerate(values) if one is not None]
    known.sort(key=lambda at: values[at], reverse=False)
    if sort.startswith("-"):
        known = [at for one in sorted({values[at] for at in known}, reverse=True) for at in known if values[at] == one]
    wanted = known + [at for at, one in enumerate(values) if one is None]
    assert places(table, Wanted(sort=sort)).to_pylist() == wanted


def test_the_columns_that_say_which_rows_are_wanted() -> None:
    assert needed(TABLE.schema, Wanted()) == set()
    assert needed(TABLE.schema, Wanted("isr contains 1 and partition > 0", sort="-at")) == {"isr", "partition", "at"}
    assert needed(TABLE.schema, Wanted(q="x")) == {"topic", "partition"}
    for wrong in (Wanted("no = 1"), Wanted(sort="-no")):
        with pytest.raises(ValueError, match="there is no column 'no', only topic, partition, isr, at"):
            needed(TABLE.schema, wrong)
