"""What the source says of loops over the entries of a request: each turn of such a loop is counted, whether or not something
is kept or said of its entry."""

import ast
from pathlib import Path

import pytest

from actors.node.runtime.slices import SliceCount

ROOT = Path(__file__).parents[2]
COUNT = SliceCount.__name__
FILES = sorted(
    path
    for folder in ("actors/node/api", "actors/node/roles", "actors/controller")
    for path in (ROOT / folder).rglob("*.py")
    if COUNT in path.read_text()
)
FILES_MIN = 30
"""With fewer the files are looked for under a name that is gone: nothing was looked at for days once."""


def uncounted(source: str) -> list[int]:
    """Lines of each `continue` in front of which its loop, which counts elsewhere, has counted nothing."""
    return [line for loop in ast.walk(ast.parse(source)) if isinstance(loop, ast.For) for line in _uncounted(loop)]


def own_pace(source: str) -> list[int]:
    """Lines of loops in which each turn begins to count anew: a generator of the same file is called that has a count of its
    own, so that many short turns are never counted together."""
    tree = ast.parse(source)
    makers = {
        one.name
        for one in ast.walk(tree)
        if isinstance(one, ast.FunctionDef) and any(_makes_pace(inner) for inner in ast.walk(one))
    }
    left = {id(inner) for one in ast.walk(tree) if isinstance(one, ast.Return) for inner in ast.walk(one)}
    return [
        call.lineno
        for loop in ast.walk(tree)
        if isinstance(loop, ast.For)
        for call in ast.walk(loop)
        if id(call) not in left
        and isinstance(call, ast.YieldFrom)
        and isinstance(call.value, ast.Call)
        and isinstance(call.value.func, ast.Name)
        and call.value.func.id in makers
    ]


def _uncounted(loop: ast.For) -> list[int]:
    if not any(_counts(one) for one in ast.walk(loop)):
        return []
    found: list[int] = []
    _look(loop.body, False, found)
    return found


def _look(body: list[ast.stmt], counted: bool, found: list[int]) -> bool:
    for one in body:
        if isinstance(one, ast.Continue) and not counted:
            found.append(one.lineno)
        if isinstance(one, ast.For | ast.While):
            counted = counted or any(_counts(inner) for inner in ast.walk(one))
        elif isinstance(one, ast.If):
            counted = counted or any(_counts(inner) for inner in ast.walk(one.test))
            _look(one.body, counted, found)
            _look(one.orelse, counted, found)
        elif isinstance(one, ast.Try):
            _look(one.body, counted, found)
            for handler in one.handlers:
                _look(handler.body, counted, found)
        else:
            counted = counted or any(_counts(inner) or isinstance(inner, ast.YieldFrom) for inner in ast.walk(one))
    return counted


def _counts(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "over"


def _makes_pace(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == COUNT


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_entry_that_is_looked_at_is_counted(path: Path) -> None:
    source = path.read_text()
    assert not uncounted(source), f"{path}: a `continue` in front of everything that counts"
    assert not own_pace(source), f"{path}: a count for each turn of a loop"


def test_files_are_looked_at() -> None:
    assert len(FILES) >= FILES_MIN


def test_such_mistakes_are_found() -> None:
    kept = """
def steps(names, pace):
    for name in names:
        if name.bad:
            continue
        yield name
        if pace.over():
            yield
"""
    assert uncounted(kept) == [5]
    assert not uncounted(
        kept.replace("        if name.bad", "        if pace.over():\n            yield\n        if name.bad")
    )
    anew = """
def steps(groups):
    for group in groups:
        yield from one(group)

def one(group):
    pace = SliceCount()
    for member in group:
        if pace.over():
            yield
"""
    assert own_pace(anew) == [4]
    assert not own_pace(anew.replace("one(group)", "one(group, pace)").replace("    pace = SliceCount()\n", ""))
