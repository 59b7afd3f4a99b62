"""A change of the metadata as a line for people: when, at which offset, what, and from which value to which.

2026-11-29 06:14:02.123   18231  isr          orders/3: 1,2,3 -> 1,3
"""

from typing import Any

from actors.command.output.tables import cell
from actors.printable import printable


def line(row: dict[str, Any]) -> str:
    """One row of the table `changes`, whole."""
    what = row["topic"] or row["resource"] or (f"broker {row['broker']}" if row["broker"] is not None else "")
    if row["partition"] is not None:
        what = f"{what}/{row['partition']}"
    of = " ".join(one for one in (what, row["name"]) if one)
    values = f"{cell(row['old'])} -> {cell(row['new'])}"
    return printable(f"{cell(row['timestamp'])} {row['offset']:>9}  {row['kind']:<12} {of}: {values}")


def part(row: dict[str, Any]) -> str:
    """A row of which only some columns are shown."""
    return printable("  ".join(cell(one) for one in row.values()))
