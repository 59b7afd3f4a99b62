"""The rows of a table that somebody looks at: filtered, sorted, cut, and as JSON.

This file alone decides what `where`, `q`, `sort`, `first` and `n` of the API mean. Rules:

1. `where` has the conditions of `rayft replay --where`; `q` is a text that some column of the row must hold, in capital or
   small letters; `sort` names a column, with `-` in front for the last value first. Rows that are alike stay in order.
2. A cell becomes a number, a text, true or false, null, or a list of these. A time is ms since 1970, UTC.
3. What was filtered and sorted is kept for the last few questions, so that scrolling costs a slice.
"""

import datetime
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.page.metadata.kept_tables import KeptTables
from actors.replay.columns.as_of import milliseconds
from actors.replay.where import Where

AT = "place of the row"
"""A column's name that no table has."""
ROWS_MAX = 1_000
"""The most rows of an answer in JSON."""


class Wanted(NamedTuple):
    """The rows that are wanted of a table."""

    where: str = ""
    q: str = ""
    sort: str = ""


class Slices:
    """Tables that were filtered and sorted lately."""

    def __init__(self) -> None:
        self._kept = KeptTables()

    def table(self, key: tuple[Any, ...], wanted: Wanted, make: Callable[[], pa.Table]) -> pa.Table:
        """The table of a key with the rows that are wanted, in their order. Raises ValueError for words that mean
        nothing."""
        return self._kept.table((key, wanted), lambda: chosen(make(), wanted))


def chosen(table: pa.Table, wanted: Wanted) -> pa.Table:
    """The wanted rows of a table. Raises ValueError."""
    found = Where(wanted.where)(table)
    if wanted.q:
        found = found.filter(_holds(found, wanted.q))
    return found.take(_order(found, wanted.sort)) if wanted.sort else found


def places(table: pa.Table, wanted: Wanted) -> Any:
    """The places of the wanted rows in a table that has at least the columns which that needs (`needed`), in their order.
    Raises ValueError."""
    found = Where(wanted.where)(table.append_column(AT, pa.array(np.arange(len(table), dtype=np.int32))))
    if wanted.q:
        found = found.filter(_holds(found.drop_columns([AT]), wanted.q))
    return found[AT].take(_order(found, wanted.sort)) if wanted.sort else found[AT]


def needed(schema: pa.Schema, wanted: Wanted) -> set[str]:
    """The columns of a table that it takes to know which rows are wanted. Raises ValueError for one that does not exist."""
    named = {*Where(wanted.where).columns, *([wanted.sort.removeprefix("-")] if wanted.sort else ())}
    for one in named:
        if one not in schema.names:
            raise ValueError(f"there is no column {one!r}, only {', '.join(schema.names)}")
    searched = (one.name for one in schema if pa.types.is_string(one.type) or pa.types.is_integer(one.type))
    return named | (set(searched) if wanted.q else set())


def _holds(table: pa.Table, text: str) -> Any:
    held: Any = pa.array(np.zeros(len(table), dtype=bool))
    for column in table.columns:
        if pa.types.is_string(column.type):
            held = pc.or_(held, pc.match_substring(column, text, ignore_case=True).fill_null(False))
        elif pa.types.is_integer(column.type) and text.isdecimal() and len(text) < 10:
            held = pc.or_(held, pc.equal(column, int(text)).fill_null(False))
    return held


def _order(table: pa.Table, sort: str) -> pa.Array:
    name, order = sort.removeprefix("-"), "descending" if sort.startswith("-") else "ascending"
    if name not in table.column_names:
        raise ValueError(f"there is no column {name!r} to sort by, only {', '.join(table.column_names)}")
    column = table[name]
    if pa.types.is_list(column.type):
        column = pc.list_value_length(column)
    if pa.types.is_nested(column.type):
        raise ValueError(f"{name} has no order to sort by: choose another column.")
    return pc.array_sort_indices(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column, order)


def rows(table: pa.Table) -> list[list[Any]]:
    """The rows of a table as lists of cells."""
    columns = [[cell(one) for one in countable(column).to_pylist()] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def countable(column: Any) -> Any:
    """A column with times as ms since 1970, and days as texts. Any client may write times that no calendar has."""
    if pa.types.is_timestamp(column.type):
        return pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    return column.cast(pa.string()) if pa.types.is_date(column.type) else column


def cell(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, datetime.datetime):
        return milliseconds(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list):
        return [cell(one) for one in value]
    if isinstance(value, dict):
        return {name: cell(one) for name, one in value.items()}
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)
