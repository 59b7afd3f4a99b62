"""Rows of things, for people and for programs: `-o table`, `json` and `jsonl`.

A table has a line for each row, numbers to the right, a list's values with spaces between, and `-` where there is nothing.
In JSON a row is an object with the same names. Names of others hold nothing that a terminal obeys (`printable`).
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from actors.printable import printable

GAP = "  "


def show(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], how: str) -> None:
    """Print rows of things in one of the three forms. `columns`: those of a table; JSON has all that a row has."""
    if how == "json":
        whole(list(rows))
    elif how == "jsonl":
        for row in rows:
            sys.stdout.write(json.dumps(row) + "\n")
    else:
        sys.stdout.write(table(rows, columns))


def whole(value: Any) -> None:
    """Print one value as JSON."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """A table as text."""
    cells = [[cell(row.get(name)) for name in columns] for row in rows]
    widths = [max([len(name), *(len(one[at]) for one in cells)]) for at, name in enumerate(columns)]
    right = [bool(rows) and all(_is_number(row.get(name)) for row in rows) for name in columns]
    lines = [list(columns), *cells]
    return "".join(
        GAP.join(_aligned(*one) for one in zip(line, widths, right, strict=True)).rstrip() + "\n" for line in lines
    )


def cell(value: Any) -> str:
    """One value in a table."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " ".join(map(cell, value)) or "-"
    return printable(str(value))


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool))


def _aligned(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)
