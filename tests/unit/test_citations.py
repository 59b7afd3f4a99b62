"""What the tree cites is in it: readings (docs/readings.md) and sections of the design (docs/design.md).

Rules:

1. A reading is cited by its id, `A19` or `G-06`. The document has a heading for each.
2. The design is cited as `DESIGN section 6`. The document has a heading with that number.
3. A link from one document to another names a file, and a heading if it has a fragment, that exist.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
CITING = ("actors", "bench", "docs", "fastpath", "tests")
"""Where citations are looked for, besides the files beside setup.py."""
KINDS = {".md", ".pxd", ".py", ".pyi", ".pyx", ".schema", ".toml", ".txt"}

READING = re.compile(r"(?<![\w-])(A\d\d|G-\d\d)(?![\w-])")
SECTION = re.compile(r"\bDESIGN(?:\.md)?(?:,?[ ]section[ ](\d+))?")
IN_A_NAME = re.compile(r"\btest_(?:design|a|g)_?\d+_\w+")
LINK = re.compile(r"\]\(([\w./-]*)(?:#([\w-]+))?\)")

DOCUMENTS = sorted(path for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def sources() -> Iterator[Path]:
    """Every text of the project in which something may be cited."""
    for path in [*ROOT.glob("*.md"), *ROOT.glob("*.py"), *(path for top in CITING for path in (ROOT / top).rglob("*"))]:
        if path.suffix in KINDS and "__pycache__" not in path.parts and "golden" not in path.parts:
            yield path


def joined(text: str) -> str:
    """The text with its line ends, and the marks of comments behind them, taken out: a citation may be broken there."""
    return re.sub(r"\s*\n\s*(?:#\s*)?", " ", text)


def readings() -> set[str]:
    """The readings that the document has."""
    return set(re.findall(r"^### (A\d\d|G-\d\d)$", (ROOT / "docs/readings.md").read_text(), re.MULTILINE))


def sections() -> set[str]:
    """The numbers of the sections that the design has."""
    return set(re.findall(r"^## (\d+)\. ", (ROOT / "docs/design.md").read_text(), re.MULTILINE))


def cited_readings(text: str) -> set[str]:
    """Ids in the text, and in the names of tests: test_a49_..., test_g_06_..."""
    found = set(READING.findall(text))
    for name in IN_A_NAME.findall(text):
        kind, number = re.match(r"test_(design|a|g)_?(\d+)_", name).groups()  # type: ignore[union-attr]
        if kind != "design" and len(number) == 2:
            found.add(f"A{number}" if kind == "a" else f"G-{number}")
    return found


def cited_sections(text: str) -> set[str]:
    """Sections in the text, `none` for a citation without a number, and those in names: test_design_6_..."""
    found = {number or "none" for number in SECTION.findall(joined(text))}
    return found | set(re.findall(r"\btest_design_(\d+)_", text))


def headings(document: Path) -> set[str]:
    """Fragments that a link into the document may have."""
    titles = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_every_reading_that_is_cited_is_in_the_document() -> None:
    known = readings()
    others = [path for path in sources() if path != Path(__file__)]
    unknown = {(str(path.relative_to(ROOT)), id) for path in others for id in cited_readings(path.read_text()) - known}
    assert not unknown, f"docs/readings.md has no such reading: {sorted(unknown)}"


def test_every_section_that_is_cited_is_in_the_document() -> None:
    known = sections()
    others = [path for path in sources() if path != Path(__file__)]
    unknown = {(str(path.relative_to(ROOT)), id) for path in others for id in cited_sections(path.read_text()) - known}
    assert not unknown, f"docs/design.md has no such section: {sorted(unknown)}"


def test_the_readings_are_complete() -> None:
    assert readings() == {f"A{n:02}" for n in range(1, 57)} | {f"G-{n:02}" for n in range(1, 52)}


def test_every_reading_has_a_question_a_decision_and_a_reason() -> None:
    text = (ROOT / "docs/readings.md").read_text()
    for entry in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        parts = re.findall(r"^- \*\*(\w+)\.\*\* \S", entry, re.MULTILINE)
        assert parts == ["Question", "Decision", "Reason"], entry[:80]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for name, fragment in LINK.findall(document.read_text()):
        target = (document.parent / name).resolve() if name else document
        assert target.exists(), f"{document.name}: {name} does not exist"
        if fragment:
            assert fragment in headings(target), f"{document.name}: {name}#{fragment} has no such heading"


@pytest.mark.parametrize(
    ("text", "cites"),
    [
        ("as DESIGN section 6 says", {"6"}),
        ("# known to be committed (DESIGN,\n# section 7)", {"7"}),
        ("(DESIGN.md section 12: aim 75 bytes)", {"12"}),
        ("def test_design_6_a_crash", {"6"}),
        ("see DESIGN, hosts", {"none"}),
        ("a design decision", set()),
    ],
)
def test_how_a_section_is_cited(text: str, cites: set[str]) -> None:
    assert cited_sections(text) == cites


@pytest.mark.parametrize(
    ("text", "cites"),
    [
        ("(R631-185, A23)", {"A23"}),
        ("A43 to A48", {"A43", "A48"}),
        ("rule G-06, and G-99", {"G-06", "G-99"}),
        ("def test_a49_initial_stops_at_once", {"A49"}),
        ("0xA12, SHA-256, KAFKA-A01-x, A1, A001", set()),
    ],
)
def test_how_a_reading_is_cited(text: str, cites: set[str]) -> None:
    assert cited_readings(text) == cites
