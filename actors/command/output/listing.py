"""Rows of things, for people and for programs: `-o table`, `json`, `jsonl` and `arrow`.

A table has a line for each row, numbers to the right, a list's values with spaces between, and `-` where there is nothing;
on a terminal its head is bold, and what is in trouble red. In JSON a row is an object with the same names and more. Arrow is
one IPC stream, with types that do not depend on the rows. Names of others hold nothing that a terminal obeys (`printable`).
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from actors.command.output import colours
from actors.printable import printable, unguarded

GAP = "  "
TEXT, INT, LONG, FLOAT, BOOL = "string", "int32", "int64", "double", "bool"
INTS, TEXTS = [INT], [TEXT]
Kind = Any
"""The kind of a column: one of the words above, a list with the kind of its values, or a mapping with those of fields."""


class Listing(NamedTuple):
    """A kind of rows."""

    kinds: Mapping[str, Kind]
    """All that a row has, by name, in the order of Arrow's columns."""
    table: Sequence[str] = ()
    """The columns of a table; empty: all."""
    trouble: Mapping[str, Callable[[Any], bool]] = {}
    """Column -> whether a value in it is one to look at."""

    @property
    def columns(self) -> Sequence[str]:
        """The names of a table's columns."""
        return self.table or tuple(self.kinds)


def show(rows: Sequence[Mapping[str, Any]], listing: Listing, how: str) -> None:
    """Print rows in one of the four forms."""
    if how == "arrow":
        _stream(rows, listing)
    elif how == "json":
        whole(list(rows))
    elif how == "jsonl":
        for row in rows:
            sys.stdout.write(json.dumps(row) + "\n")
    else:
        colours.write(table(rows, listing, colours.are_shown()))


def whole(value: Any) -> None:
    """Print one value as JSON."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def _stream(rows: Sequence[Mapping[str, Any]], listing: Listing) -> None:
    import pyarrow as pa

    schema = pa.schema([(name, _arrow(kind)) for name, kind in listing.kinds.items()])
    out = unguarded(sys.stdout)
    out.flush()
    with pa.ipc.new_stream(out.buffer, schema) as writer:
        writer.write_table(pa.Table.from_pylist(list(rows), schema))


def _arrow(kind: Kind) -> Any:
    import pyarrow as pa

    if isinstance(kind, list):
        return pa.list_(_arrow(kind[0]))
    if isinstance(kind, dict):
        return pa.struct([(name, _arrow(one)) for name, one in kind.items()])
    return pa.type_for_alias(kind)


def table(rows: Sequence[Mapping[str, Any]], listing: Listing, coloured: bool = False) -> str:
    """A table as text, with an end of a line behind each row."""
    columns = listing.columns
    cells = [[cell(row.get(name)) for name in columns] for row in rows]
    widths = [max([len(name), *(len(one[at]) for one in cells)]) for at, name in enumerate(columns)]
    right = [bool(rows) and all(_is_number(row.get(name)) for row in rows) for name in columns]
    lines = [_line(line, widths, right) for line in (columns, *cells)]
    if coloured:
        head, *rest = lines
        lines = [_painted(head, "bold")]
        lines += [_marked(line, row, listing) for line, row in zip(rest, rows, strict=True)]
    return "".join(GAP.join(line).rstrip() + "\n" for line in lines)


def _line(line: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    return [_aligned(*one) for one in zip(line, widths, right, strict=True)]


def _marked(line: list[str], row: Mapping[str, Any], listing: Listing) -> list[str]:
    in_trouble = [name in listing.trouble and listing.trouble[name](row.get(name)) for name in listing.columns]
    return [*(_painted([one], "red")[0] if bad else one for one, bad in zip(line, in_trouble, strict=True))]


def _painted(line: list[str], colour: str) -> list[str]:
    return [colours.painted(one, colour) for one in line]


def cell(value: Any) -> str:
    """One value in a table."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " ".join(map(cell, value)) or "-"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return printable(str(value))


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _aligned(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)
