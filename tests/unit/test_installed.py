"""What a wheel installs, as `setup.py` lays it out: everything below `rayft`, with the lines of the repository."""

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
TREE = (
    ROOT / "rayft.py",
    ROOT / "pyspark_rayft.py",
    *(ROOT / "actors").rglob("*.py"),
    *(ROOT / "fastpath").rglob("*.py"),
)
IMPORTING = re.compile(r"^\s*(?:from|c?import)\s+(?:actors|fastpath)\b", re.MULTILINE)
NAMING = re.compile(r"(actors|fastpath)(\.[a-z_]\w*)*\.?")
MADE = (".so", ".c", ".pyc")
OF_THE_TREE = {
    "actors/wire/stubs.py": "writes files of the repository (`make schemas`)",
}
"""Whose texts may name modules, and why."""


@pytest.fixture(scope="module")
def setup() -> ModuleType:
    spec = importlib.util.spec_from_file_location("setup", ROOT / "setup.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture(scope="module")
def installed(setup: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("installed")
    setup.lay_out(ROOT, where)
    return where


def test_only_rayft_and_the_module_that_spark_looks_for_are_there(installed: Path) -> None:
    assert sorted(path.name for path in installed.iterdir()) == ["pyspark_rayft.py", "rayft"]
    assert not [path for path in installed.rglob("*") if path.suffix in MADE]
    assert not [path for path in (installed / "rayft" / "fastpath").rglob("*.html")], "what RAYFT_ANNOTATE=1 made"


def test_each_file_keeps_its_lines_and_imports_what_lies_below_rayft(installed: Path) -> None:
    counted = 0
    for path in installed.rglob("*.p[yx]*"):
        text, below = path.read_text(), path.relative_to(installed)
        assert not IMPORTING.search(text), below
        origin = below.relative_to("rayft") if below.parts[0] == "rayft" else below
        original = (
            ROOT / ("rayft.py" if origin.name == "__init__.py" and len(origin.parts) == 1 else origin)
        ).read_text()
        assert text.count("\n") == original.count("\n"), below
        counted += len(re.findall(r"^\s*(?:from|c?import) +rayft\.(?:actors|fastpath)[. ]", text, re.MULTILINE))
    assert counted > 5000, "the imports are not found any more"


def test_everything_that_the_tree_has_is_there(installed: Path) -> None:
    for top in ("actors", "fastpath"):
        for path in (ROOT / top).rglob("*"):
            if path.is_file() and path.suffix not in MADE and not (top == "fastpath" and path.suffix == ".html"):
                assert (installed / "rayft" / path.relative_to(ROOT)).is_file(), path


def words(tree: ast.Module) -> Iterator[ast.Constant]:
    """Every text of a module, but for docstrings and texts that stand below a name to describe it."""
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node


def quoting(path: Path) -> str:
    """A file's text, if it may quote the name of a module: to parse all of them takes ten seconds."""
    text = path.read_text()
    return text if re.search(r"[\"'](actors|fastpath)\.", text) else ""


def test_no_text_names_a_module_by_the_name_that_only_a_checkout_has() -> None:
    """`python -m`, `import_module` and the like: such a name has to come from `__package__` or `import_path.PACKAGE`."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value!r}"
        for path in TREE
        if str(path.relative_to(ROOT)) not in OF_THE_TREE
        for node in words(ast.parse(quoting(path)))
        if "." in node.value and NAMING.fullmatch(node.value)
    ]
    assert not found
    assert all(NAMING.search((ROOT / name).read_text()) for name in OF_THE_TREE), (
        "OF_THE_TREE has what needs no exception"
    )


def test_no_expression_goes_through_the_name_of_a_package() -> None:
    """`import actors.x` gives the name `actors` to a checkout alone; it may be there to load a module, not to use it."""
    for path in TREE:
        text = path.read_text()
        if not re.search(r"^\s*import (actors|fastpath)", text, re.MULTILINE):
            continue
        tree = ast.parse(text)
        bound = {
            alias.name.partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
            if alias.asname is None and alias.name.partition(".")[0] in ("actors", "fastpath")
        }
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & bound
        assert not used, f"{path.relative_to(ROOT)}: write `from {used} import`"
