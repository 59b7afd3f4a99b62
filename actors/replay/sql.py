"""Runs SQL over the tables, by duckdb.

This file alone decides what a query sees: the tables that duckdb says it reads. A table's name inside a text or as an
alias does not count. A long table (`records`, `changes`, `log`) is streamed if its name occurs once. It is held in
memory if its name occurs again, if duckdb makes several statements of the query (PIVOT), each of which may read it, or
if the query is recursive.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

ROWS = 100_000


def query(text: str, tables: Mapping[str, Callable[[], pa.Table | pa.RecordBatchReader]]) -> Iterator[pa.RecordBatch]:
    """The result of a query, in batches. `tables`: name -> function that makes it. Raises ValueError with duckdb's
    sentence."""
    try:
        import duckdb
    except ImportError:
        raise ValueError("SQL needs duckdb: pip install 'rayft[sql]'.") from None
    connection: Any
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")  # not that of the machine: 14:02 is the same moment everywhere
        once = _read_once(connection, text)
        again = once is None or re.search(r"\brecursive\b", text, re.IGNORECASE)
        for name, make in tables.items():
            times = len(re.findall(rf"\b{name}\b", text, re.IGNORECASE))
            if times and (once is None or name in once):
                made: Any = make()
                held = (times > 1 or again) and not isinstance(made, pa.Table)
                connection.register(name, made.read_all() if held else made)
        try:
            found = connection.sql(text)
            if found is None:
                raise ValueError("the query gives no rows: write one that begins with SELECT.")
            stream = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader  # by version
            yield from stream(ROWS)
        except duckdb.Error as error:
            raise ValueError(f"{error}") from error


def _read_once(connection: Any, text: str) -> frozenset[str] | None:
    """Names of the tables that one statement reads, in lower case; None if the text is not one statement."""
    import duckdb

    try:
        return frozenset(name.lower() for name in connection.get_table_names(text))
    except duckdb.Error:
        return None
