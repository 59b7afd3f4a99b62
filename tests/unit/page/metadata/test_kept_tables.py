"""Tables that were made lately: the last ones, within a bound of memory."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from actors.page.metadata.kept_tables import COUNT_MAX, KeptTables


def table(key: int, size: int) -> pa.Table:
    return pa.table({"key": pa.array([key] * size, pa.int64())})


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30)), max_size=30), st.integers(0, 400))
def test_what_is_kept_is_what_was_asked_for_last_within_the_bound(asked: list[tuple[int, int]], bytes_max: int) -> None:
    kept, sizes, order = KeptTables(bytes_max), {}, []
    for key, size in asked:
        size = sizes.setdefault(key, size)
        made: list[int] = []
        found = kept.table(key, lambda key=key, size=size, made=made: (made.append(1), table(key, size))[1])  # type: ignore[misc]
        assert found.equals(table(key, size))
        assert bool(made) == (key not in order), "a table is made when it is not kept, and only then"
        if 8 * size <= bytes_max:
            order = [one for one in order if one != key] + [key]
        while sum(8 * sizes[one] for one in order) > bytes_max:
            del order[0]
        assert kept.bytes == sum(8 * sizes[one] for one in order)


def test_tables_without_a_row_are_bounded_too() -> None:
    kept, made = KeptTables(), []
    for key in [*range(COUNT_MAX + 1), COUNT_MAX, 0]:
        kept.table(key, lambda key=key: (made.append(key), table(key, 0))[1])  # type: ignore[misc]
    assert made == [*range(COUNT_MAX + 1), 0]
