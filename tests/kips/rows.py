"""The rows of docs/kips.md, as they stand there."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
TABLE = ROOT / "docs" / "kips.md"


class Row(NamedTuple):
    """One requirement: `code` holds `path` or `path:name`, `tests` holds node ids and transcripts."""

    id: str
    what: str
    code: tuple[str, ...]
    tests: tuple[str, ...]
    state: str

    def names(self, test: str) -> bool:
        """Whether a test, with or without parameters, is among those of the row."""
        path, _, case = test.partition("[")
        story = re.fullmatch(r"(tests/transcripts/)test_(\w+)\.py::test_story", path)
        return path in self.tests or (story is not None and f"{story[1]}{story[2]}/{case[:-1]}.txt" in self.tests)


def rows() -> list[Row]:
    """Every row of every table whose first cell is an id."""
    found = []
    for line in TABLE.read_text().splitlines():
        if re.match(r"\| R\d{3,4}-\d+ \|", line):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            assert len(cells) == 5, line
            code, tests = (tuple(re.findall(r"`([^`]+)`", cell)) for cell in cells[2:4])
            found.append(Row(cells[0].strip("| "), cells[1], code, tests, cells[4].strip("| ")))
    return found


ROWS = rows()
