"""The mutations of this folder's `*.toml`, and which of them are the sample of a day."""

import tomllib
from collections.abc import Iterator
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent
EQUIVALENT = FOLDER / "equivalent.toml"
"""Not mutations: the list of `second.py`."""


class Edit(NamedTuple):
    """`before` stands once in `file`; `after` takes its place."""

    file: str
    before: str
    after: str


class Mutation(NamedTuple):
    """What takes a row's behaviour out, and the one test that must fail then."""

    id: str
    about: str
    test: str
    edits: tuple[Edit, ...]
    slow: bool
    """The test takes more than 20 s: not for the sample."""
    beside: str = ""
    """Why it touches no file that its row names. Empty: it touches one."""
    one_with: str = ""
    """The row of which this one asks for the same, so that the same edit and the same test prove both. Empty: none."""

    @property
    def row(self) -> str:
        """The row that it is of: further mutations of one have a letter behind its id."""
        return self.id.rstrip("bcdef")


KEYS = {"about", "test", "file", "before", "after", "edits", "same_as", "slow", "beside", "one_with"}


def mutations() -> dict[str, Mutation]:
    """All of them by id. Raises ValueError for a table that is not as the package's docstring says."""
    tables: dict[str, dict[str, Any]] = {}
    for path in sorted(set(FOLDER.glob("*.toml")) - {EQUIVALENT}):
        for id, table in tomllib.loads(path.read_text()).items():
            if id in tables:
                raise ValueError(f"{path.name}: {id} has a mutation in another place already")
            if not isinstance(table, dict) or not table.keys() <= KEYS or not table.keys() >= {"about", "test"}:
                raise ValueError(f"{path.name}: {id} wants about, test and an edit, and takes {sorted(KEYS)}")
            tables[id] = table
    return {
        id: Mutation(
            id,
            t["about"],
            t["test"],
            _edits(id, tables),
            t.get("slow", False),
            t.get("beside", ""),
            t.get("one_with", ""),
        )
        for id, t in tables.items()
    }


def _edits(id: str, tables: dict[str, dict[str, Any]]) -> tuple[Edit, ...]:
    table = tables[id]
    places = [name for name in ("file", "edits", "same_as") if name in table]
    if len(places) != 1:
        raise ValueError(f"{id} wants one of file (with before and after), edits and same_as, and has {places}")
    if "same_as" in table:
        if "same_as" in tables.get(table["same_as"], {"same_as": ""}):
            raise ValueError(f"{id} is the same as {table['same_as']}, which has no edit of its own")
        return _edits(table["same_as"], tables)
    edits = tuple(Edit(e["file"], e["before"], e["after"]) for e in table.get("edits", [table]))
    for edit in edits:
        if edit.before == edit.after or not edit.before or edit.file.startswith("tests/"):
            raise ValueError(f"{id}: an edit changes some text of a file that is no test")
    return edits


MUTATIONS = mutations()


def sample(count: int, day: date) -> list[Mutation]:
    """The quick mutations of a day: every day others, the same all day."""
    quick = (m for m in MUTATIONS.values() if not m.slow)
    return sorted(quick, key=lambda m: sha256(f"{day} {m.id}".encode()).digest())[:count]


def chosen(words: list[str]) -> Iterator[Mutation]:
    """Those whose id begins with one of the words; all without words."""
    return (m for m in MUTATIONS.values() if not words or m.id.startswith(tuple(words)))
