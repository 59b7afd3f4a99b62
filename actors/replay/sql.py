"""SQL over the tables, by duckdb.

This file alone decides what a query sees: the tables whose names stand in it. A long table (`records`, `changes`, `log`)
streams through when it is named once, and is held in memory when it is named again.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

ROWS = 100_000


def query(text: str, tables: Mapping[str, Callable[[], pa.Table | pa.RecordBatchReader]]) -> Iterator[pa.RecordBatch]:
    """What a query gives, by batch; `tables`: name -> what makes it. Raises ValueError with duckdb's sentence."""
    try:
        import duckdb
    except ImportError:
        raise ValueError("SQL needs duckdb: pip install 'rayft[sql]'.") from None
    connection: Any
    with duckdb.connect() as connection:
        for name, make in tables.items():
            times = len(re.findall(rf"\b{name}\b", text, re.IGNORECASE))
            if times:
                made: Any = make()
                held = times > 1 and not isinstance(made, pa.Table)
                connection.register(name, made.read_all() if held else made)
        try:
            found = connection.sql(text)
            if found is None:
                raise ValueError("the query gives no rows: write one that begins with SELECT.")
            stream = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader  # by version
            yield from stream(ROWS)
        except duckdb.Error as error:
            raise ValueError(f"{error}") from error
