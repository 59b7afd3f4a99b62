"""Which records a search finds, against a slow search."""

from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from actors.page.live.reading import FIELDS, last, matching

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
BYTES = st.none() | st.binary(max_size=4) | st.sampled_from([b"ab", b"xaby", b"AB"])
ROWS = st.lists(
    st.tuples(BYTES, BYTES, st.lists(st.tuples(st.sampled_from(["ab", "b", ""]), BYTES), max_size=2)), max_size=6
)


def table(rows: list[Any]) -> pa.Table:
    return pa.table({
        "key": pa.array([row[0] for row in rows], pa.binary()),
        "value": pa.array([row[1] for row in rows], pa.binary()),
        "headers": pa.array([[{"key": key, "value": value} for key, value in row[2]] for row in rows], HEADERS),
        "offset": pa.array(range(len(rows)), pa.int64()),
    })  # fmt: skip


@example([(None, None, [("b", b"ab")]), (None, None, [("ab", None)]), (b"", b"", [])], b"ab", "headers")
@given(ROWS, st.sampled_from([b"a", b"ab", b"\x00", b""]), st.sampled_from(FIELDS))
def test_a_search_finds_what_holds_the_bytes(rows: list[Any], text: bytes, field: str) -> None:
    def holds(row: Any) -> bool:
        key, value, headers = row
        names = [one for name, other in headers for one in (name.encode(), other)]
        fields = {"key": [key], "value": [value], "headers": names, "any": [key, value, *names]}
        return not text or any(one is not None and text in one for one in fields[field])

    expected = [at for at, row in enumerate(rows) if holds(row)]
    assert matching(table(rows), text, field)["offset"].to_pylist() == expected


def test_the_last_records_of_all_partitions_are_the_newest_ones() -> None:
    tables = [
        pa.table({"timestamp": [1, 4, 6], "offset": [0, 1, 2]}),
        pa.table({"timestamp": [5, 6], "offset": [7, 8]}),
    ]
    assert last(tables, 3).to_pylist() == [
        {"timestamp": 6, "offset": 8}, {"timestamp": 6, "offset": 2}, {"timestamp": 5, "offset": 7},
    ]  # fmt: skip
