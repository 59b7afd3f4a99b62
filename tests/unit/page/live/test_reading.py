"""Which records a search finds, against a slow search; and how much of an answer is decoded at once."""

import asyncio
from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from actors.arrow.ranges import Range
from actors.arrow.reading import Partition
from actors.client.operations.fetching import Fetched
from actors.client.properties import client_config
from actors.page.live.reading import COLUMNS, FIELDS, PIECE_BYTES, Wish, _decoded, _plan, last, matching
from fastpath.records.batch import OUTPUT_BYTES_MAX, Builder

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


def answer(batches: int, size: int, rows: int = 1) -> tuple[list[Fetched], dict[Any, Partition]]:
    """An answer with batches of records of so many zeros, which compress to nothing, and what decodes it."""
    data = b""
    for at in range(batches):
        builder = Builder(base_offset=at * rows, attributes=4, timestamp_ms=1)
        for _ in range(rows):
            builder.append(None, bytes(size), 1, [])
        data += bytes(builder.build())
    count = batches * rows
    found = Fetched("t", 0, 0, memoryview(data), count, count, count, 0, (), 0)
    return [found], {
        ("t", 0): Partition(("t", 0), Range(0, count), COLUMNS, client_config({"bootstrap.servers": "a:1"}))
    }


def test_a_small_answer_of_many_bytes_is_decoded_piece_by_piece() -> None:
    fetched, decoders = answer(30, 8 << 20)
    assert len(fetched[0].records) < 20_000, "240 MiB"
    offsets: list[int] = []
    for piece in _decoded(fetched, decoders):
        assert piece.nbytes <= PIECE_BYTES + OUTPUT_BYTES_MAX
        offsets += piece["offset"].to_pylist()
    assert offsets == list(range(30)), "and in their order"
    (only,) = _decoded(*answer(50, 100, rows=10))
    assert len(only) == 500, "small ones are one piece"


def test_a_file_of_the_last_records_has_no_others() -> None:
    """A file is written as it is read: of more than are wanted it would have the oldest."""

    class Kafka:
        async def run(self, steps: Any) -> dict[Any, Range]:
            return {("t", 0): Range(0, 1_000), ("t", 1): Range(5, 10), ("t", 2): Range(0, 2_000), ("t", 3): Range(7, 7)}

    wish = Wish("t", number=100)._replace(is_even=True)
    plan = asyncio.run(_plan(Kafka(), wish, 0))  # type: ignore[arg-type]
    assert {part[1]: (one.first, one.end) for part, one in plan.items()} == {
        0: (953, 1_000), 1: (5, 10), 2: (1_952, 2_000), 3: (7, 7),
    }  # fmt: skip
