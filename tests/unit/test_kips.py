"""docs/kips.md is true: every requirement has a row, and what a row names is there.

The requirements of the first four KIPs are kept here by their ranges; ids are stable and only ever added. That the
tests of a row would notice is held by tests/kips/.
"""

import ast
import re
from functools import cache
from pathlib import Path

from tests import counts
from tests.kips.rows import ROOT, ROWS, TABLE, Row
from tests.rows import rows

REQUIRED = (
    [f"R631-{n:03d}" for n in range(1, 220)]
    + [f"R291-{n:02d}" for n in (*range(1, 51), *range(60, 77))]
    + [f"R497-{n:02d}" for n in range(1, 54)]
    + [f"R500-{n:02d}" for n in range(1, 46)]
)
ADDED = {
    "R013": 5,
    "R124": 2,
    "R219": 3,
    "R257": 3,
    "R546": 5,
    "R599": 4,
    "R612": 2,
    "R073": 5,
    "R390": 5,
    "R392": 6,
    "R113": 8,
    "R827": 1,
    "R714": 8,
    "R048": 8,
    "R373": 2,
    "R255": 4,
    "R768": 7,
    "R421": 4,
    "R900": 4,
    "R098": 9,
    "R360": 5,
    "R447": 4,
    "R588": 3,
    "R664": 4,
    "R890": 8,
    "R939": 14,
    "R058": 8,
    "R354": 2,
    "R534": 5,
    "R467": 3,
    "R112": 3,
    "R858": 2,
    "R848": 17,
    "R932": 25,
    "R1071": 16,
    "R595": 14,
    "R630": 5,
    "R996": 3,
    "R836": 3,
    "R584": 3,
    "R380": 1,
    "R482": 2,
    "R903": 3,
    "R919": 2,
    "R853": 14,
    "R866": 19,
}
"""KIPs of which the project chose what matters to a user, in the order of the page -> how many rows there are."""
THEMES = ("done", "not planned", "open")
"""How a state begins. Only `done` may stand without a reason, and only `done` needs a test."""


@cache
def names(path: Path) -> frozenset[str]:
    """Names at the top of a module, and `Class.name` of what a class holds."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        found |= set(_bound(node))
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{name}" for inner in node.body for name in _bound(inner)}
    return frozenset(found)


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]


def test_every_requirement_has_one_row_and_no_row_is_invented() -> None:
    assert len(REQUIRED) == 384
    required = sorted(REQUIRED, key=lambda id: ("R631 R291 R497 R500".index(id[:4]), id))
    required += [f"{kip}-{n:02d}" for kip, count in ADDED.items() for n in range(1, count + 1)]
    assert [row.id for row in ROWS] == required


@rows(((row,) for row in ROWS), ids=lambda row: row.id)
def test_what_a_row_names_is_there(row: Row) -> None:
    assert row.what and row.state.startswith(THEMES), row
    if row.state == "done":
        assert row.code and row.tests, "done needs code and a test"
    else:
        assert row.state.split(":")[0] in THEMES[1:], row.state
    for place in row.code:
        path, _, symbol = place.partition(":")
        assert (ROOT / path).is_file(), place
        assert not symbol or symbol in names(ROOT / path), place
    for place in row.tests:
        path, _, test = place.partition("::")
        assert (ROOT / path).is_file(), place
        assert (
            path.startswith("tests/transcripts/") and path.endswith(".txt") if not test else test in names(ROOT / path)
        ), place


def test_pages_count_rows_and_readings_as_they_are() -> None:
    readings = (ROOT / "docs" / "readings.md").read_text()
    for letter in ("A", "G"):
        found = sorted(int(number) for number in re.findall(rf"^### {letter}-?(\d+)$", readings, re.MULTILINE))
        assert found == list(range(1, len(found) + 1)), letter
    for page in counts.PAGES:
        text = page.read_text()
        assert counts.counted(text) == text, f"{page.name} counts otherwise: python -m tests.counts"
        assert "A01 to" in text and "G-01 to" in text, f"{page.name} says how far the readings go"
    assert re.search(list(counts.phrases())[-1], TABLE.read_text()), "the page says how many rows there are"
