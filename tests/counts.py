"""`python -m tests.counts`: write into the pages how many rows and readings there are. `tests/unit/test_kips.py` fails
where a page says something else."""

import re
from collections import Counter
from pathlib import Path

from tests.kips.mutations import MUTATIONS
from tests.kips.rows import ROOT, ROWS

PAGES = (ROOT / "README.md", ROOT / "docs" / "kips.md", ROOT / "docs" / "readings.md")
READINGS = ROOT / "docs" / "readings.md"


def phrases() -> dict[str, str]:
    """What a page says, as a pattern -> what is so."""
    found = {}
    text = READINGS.read_text()
    for letter, form in (("A", "A{:02d}"), ("G", "G-{:02d}")):
        last = max(int(number) for number in re.findall(rf"^### {letter}-?(\d+)$", text, re.MULTILINE))
        found[rf"{form.format(1)} to {letter}-?\d+"] = f"{form.format(1)} to {form.format(last)}"
    states = Counter(row.state.split(":")[0] for row in ROWS)
    done, left = states["done"], len(ROWS) - states["done"]
    found[r"\d+ rows, \d+ of them done with \d+ mutations, \d+ not"] = (
        f"{len(ROWS)} rows, {done} of them done with {len(MUTATIONS)} mutations, {left} not"
    )
    return found


def counted(text: str) -> str:
    """A page with the numbers as they are."""
    for pattern, right in phrases().items():
        text = re.sub(pattern, right, text)
    return text


def main() -> None:
    for page in PAGES:
        before = page.read_text()
        if (after := counted(before)) != before:
            page.write_text(after)
            print(f"{Path(page).relative_to(ROOT)} is counted anew")


if __name__ == "__main__":
    main()
