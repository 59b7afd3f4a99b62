"""Where a file lies: few loose ones in a folder, one name a subject, and a test where its code is.

A newcomer looks for a thing by its name, and for its test in the same place below `tests/unit`. What is counted here is what
makes that search short. A folder that needs an exception says why in the table.
"""

import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "tests" / "unit"
LOOSE_MAX = 20
"""Files of one folder, besides those in folders below it."""

LONG = {
    "actors/command": "a file for each word of the command: the directory is the table of what can be typed",
    "actors/node/api/handlers": "a file for each API of Kafka: the directory is the table of what is served",
}
PARALLEL = {"classic", "consumer", "share", "streams"}
"""Kinds of groups: a file of the same name in each of them is the same part of another kind."""

FLOORS = (
    "actors/broker", "actors/controller", "actors/host", "actors/node/api", "actors/node/roles/broker", "actors/replay",
)  # fmt: skip
"""Whose folders are subjects. Elsewhere a package is one subject."""


DRAWN = 3
"""How deep the tree in the architecture is drawn: `actors/broker/log`."""


def files(top: str) -> list[Path]:
    """Every source file below a folder of the repository, as a path in it."""
    return sorted(
        path.relative_to(ROOT)
        for suffix in ("*.py", "*.pyx")
        for path in (ROOT / top).rglob(suffix)
        if path.name != "__init__.py" and "schemas" not in path.parts
    )


def subject(path: Path) -> str:
    """The floor and the folder on it in which a file lies, or its package."""
    floor = max((floor for floor in FLOORS if path.is_relative_to(floor)), key=len, default="")
    if floor:
        below = path.relative_to(floor).parts
        return "/".join((floor, *below[: len(below) > 1]))
    return "/".join(path.parent.parts[:3])


def alike(path: Path) -> str:
    """A file's name, and its folder where that is one of several kinds."""
    return next((f"{part}/{path.name}" for part in path.parent.parts if part in PARALLEL), path.name)


@pytest.mark.parametrize("top", ["actors", "fastpath"])
def test_a_folder_has_few_loose_files(top: str) -> None:
    counted = Counter(str(path.parent) for path in files(top))
    crowded = {folder: number for folder, number in counted.items() if number > LOOSE_MAX and folder not in LONG}
    assert not crowded, "divide it into rooms, or say in LONG why not"
    assert all(counted[folder] > LOOSE_MAX for folder in LONG if folder.startswith(top)), "LONG holds what is short"


def test_a_name_stands_for_one_file_of_a_subject() -> None:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in files("actors") + files("fastpath"):
        found[subject(path), alike(path)].append(str(path))
    assert not [paths for paths in found.values() if len(paths) > 1]


def mirrored(folder: Path) -> str:
    """The folder of the code whose tests a folder below tests/unit has."""
    below = folder.relative_to(UNIT).as_posix()
    return below if below.startswith("fastpath") else f"actors/{below}".removesuffix("/.")


FOLDERS = sorted({path.parent for path in UNIT.rglob("*.py")})


@pytest.mark.parametrize("folder", FOLDERS, ids=[str(folder.relative_to(UNIT)) for folder in FOLDERS])
def test_the_tests_have_the_tree_of_the_code(folder: Path) -> None:
    assert (ROOT / mirrored(folder)).is_dir(), "no folder of the code has this name"


def test_a_test_with_the_name_of_a_module_lies_where_that_is() -> None:
    modules: dict[str, set[str]] = defaultdict(set)
    for path in files("actors") + files("fastpath"):
        modules[path.stem].add(path.parent.as_posix())
    strays = {
        str(path.relative_to(ROOT)): sorted(places)
        for path in UNIT.glob("*/**/test_*.py")  # what lies in tests/unit itself is about the whole repository
        if (places := modules.get(path.stem.removeprefix("test_"))) and mirrored(path.parent) not in places
    }
    assert not strays


NAMED = re.compile(r"(?<![\w/.*{<-])((?:[\w.-]+/)*[\w-]+\.(?:py|pyx|pyi|pxd))(?![\w*])")
ELSEWHERE = {"rayft/__init__.py"}
"""A file that a page says is not there."""


def ends_of(paths: list[Path]) -> set[str]:
    """Every way in which a text may name one of them: by its name, or with some of the folders in front of it."""
    return {"/".join(path.parts[at:]) for path in paths for at in range(len(path.parts))}


def test_a_file_that_a_page_names_is_there() -> None:
    tops = ("actors", "fastpath", "tests", "bench")
    there = [path.relative_to(ROOT) for top in tops for path in (ROOT / top).rglob("*.p*") if path.is_file()]
    there += [path.relative_to(ROOT) for path in (*ROOT.glob("*.py"), *ROOT.glob(".ci/*.py"))]
    known = ends_of(there) | ELSEWHERE
    missing = {
        f"{page.name}: {name}"
        for page in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"))
        for name in NAMED.findall(page.read_text())
        if name not in known
    }
    assert not missing


def test_the_tree_in_the_architecture_has_every_folder() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    tree = page[page.index("## The tree") : page.index("`tests/unit/test_layers.py` reads")]
    folders = [path for top in ("actors", "fastpath") for path in sorted((ROOT / top).rglob("*/__init__.py"))]
    missing = [
        folder
        for path in folders
        if len((folder := path.parent.relative_to(ROOT)).parts) <= DRAWN and f"{folder.name}/" not in tree
    ]
    assert not missing, "a newcomer looks for them there"
    named = re.findall(r"([a-z_]+)/  ", tree.split("```")[1])
    known = {path.name for top in ("actors", "fastpath", "") for path in (ROOT / top).glob("**/" if top else "*")}
    assert not [name for name in named if name not in known], "no folder has this name"
