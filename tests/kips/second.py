"""A second mutation for a tenth of the rows of each day: mechanical, where those of the `*.toml` are by hand.

A mutation by hand is a mistake that its author thought of, and so is the test beside it. Here the date draws the rows, and
for each of them one small change in what the row's code column names. All tests of the row run, and if they pass, those that
know the same file (`tests_beside`). A change that none of them notices is a survivor: it wants a test, or, when no behaviour
differs, an entry with a reason in `equivalent.toml`.

Which text is changed:

1. Of `path:name` the function, class or constant of that name. Of a `path` alone the functions that the row's own mutation
   edits there; all of them would be hundreds that have little to do with the row.
2. A condition is negated; a comparison takes its edge in or leaves it out; a statement that only has an effect is removed;
   an integer becomes the next one; True and False change places.
3. Docstrings, assertions (as a zip's `strict`), what is only written into errors and the log, and Cython are left alone.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tests.kips.mutations import EQUIVALENT, MUTATIONS, Edit
from tests.kips.rows import ROOT, ROWS, Row

EDGES = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">")}
TEXT = {"debug", "info", "warning", "error", "exception", "log", "say_once", "print"}
"""Calls whose words a person reads."""


class Site(NamedTuple):
    """One place that can be changed, and how. Lines count from 1."""

    file: str
    function: str
    """`Class.name`, or the name of a constant."""
    line: int
    kind: str
    begin: int
    end: int
    """Bytes of the file that `after` replaces."""
    after: str

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def name(self) -> tuple[str, str, str, str]:
        """What `equivalent.toml` calls it. It holds while lines move."""
        return (
            self.file,
            self.function,
            (ROOT / self.file).read_text().splitlines()[self.line - 1].strip(),
            self.shown(),
        )

    def whole(self) -> Edit:
        """The file before and after, as one edit."""
        before = (ROOT / self.file).read_bytes()
        after = before[: self.begin] + self.after.encode() + before[self.end :]
        return Edit(self.file, before.decode(), after.decode())

    def shown(self) -> str:
        """The changed text and what it becomes, in one line."""
        before = (ROOT / self.file).read_bytes()[self.begin : self.end].decode()
        return f"{' '.join(before.split())} -> {' '.join(self.after.split())}"


def drawn(day: date) -> list[tuple[Row, Site]]:
    """The rows of a day, a tenth of those that are done, and of each the change that the day draws."""
    done = [row for row in ROWS if row.state == "done"]
    first = sorted(done, key=lambda row: _number(day, row.id))[: -(-len(done) // 10)]
    return [(row, sites[_number(day, row.id, "site") % len(sites)]) for row in first if (sites := list(sites_of(row)))]


def tests_of(row: Row) -> list[str]:
    """The node ids of all of a row's tests."""
    story = re.compile(r"tests/transcripts/(\w+)/(\w+)\.txt")
    return [story.sub(r"tests/transcripts/test_\1.py::test_story[\2]", test) for test in row.tests]


def tests_beside(row: Row, site: Site) -> list[str]:
    """Tests that may know the changed line when the row's own do not, since a function does more than one row asks for: the
    unit tests that are named after its module or import it, and those of other rows that name its file."""
    top, package, *_ = Path(site.file).parts
    below = ROOT / "tests" / "unit" / (package if top == "actors" else top)
    imports = _imports(site.file)
    named = f"test_{Path(site.file).stem}.py"
    units = sorted(
        unit for unit in below.rglob("test_*.py") if unit.name == named or imports.search(unit.read_text()) is not None
    )
    found = {str(unit.relative_to(ROOT)): None for unit in units}
    for other in ROWS:
        if any(place.partition(":")[0] == site.file for place in other.code):
            found |= dict.fromkeys(test for test in tests_of(other) if test.partition("::")[0] not in found)
    return [test for test in found if test not in tests_of(row)]


def _imports(file: str) -> re.Pattern[str]:
    """What a test has in it that imports names from a module, or the module from its package."""
    package, _, name = file.removesuffix(".py").replace("/", ".").rpartition(".")
    listed = rf"from {re.escape(package)} import (?:\([^)]*|[^\n(]*)\b{name}\b"
    return re.compile(rf"^from {re.escape(f'{package}.{name}')} import |^{listed}", re.MULTILINE)


def equivalent() -> dict[tuple[str, str, str, str], str]:
    """(file, function, line, the change as it is shown) -> why no behaviour differs."""
    listed = tomllib.loads(EQUIVALENT.read_text())["change"]
    return {(one["file"], one["function"], one["line"], one["change"]): one["reason"] for one in listed}


def sites_of(row: Row) -> Iterator[Site]:
    """Every place of a row that can be changed, in the order of the row and of the files."""
    for place in row.code:
        file, _, name = place.partition(":")
        if not file.endswith(".py"):
            continue
        source = (ROOT / file).read_bytes()
        for function, node in _definitions(ast.parse(source)):
            if function == name or (name and function.startswith(f"{name}.")) or (not name and _edits(row, file, node)):
                yield from _sites(file, function, node, source)


def _number(*words: object) -> int:
    return int.from_bytes(sha256(" ".join(map(str, words)).encode()).digest()[:8])


def _definitions(module: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{node.name}.{inner.name}", inner
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node


def _edits(row: Row, file: str, node: ast.stmt) -> bool:
    """Whether the mutation by hand of a row is inside this definition."""
    text = (ROOT / file).read_text()
    for edit in MUTATIONS[row.id].edits if row.id in MUTATIONS else ():
        if edit.file == file:
            at = text.index(edit.before) + len(edit.before) - len(edit.before.lstrip())
            if node.lineno <= text.count("\n", 0, at) + 1 <= (node.end_lineno or 0):
                return True
    return False


def _sites(file: str, function: str, top: ast.stmt, source: bytes) -> Iterator[Site]:
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def site(node: ast.expr | ast.stmt, kind: str, after: str, end: int = 0) -> Site:
        begin = starts[node.lineno - 1] + node.col_offset
        last = end or starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        return Site(file, function, node.lineno, kind, begin, last, after)

    def text(node: ast.expr) -> str:
        whole = site(node, "", "")
        return source[whole.begin : whole.end].decode()

    for node in _behaviour(top):
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            yield site(node.test, "condition", f"(not ({text(node.test)}))")
        elif isinstance(node, ast.comprehension):
            for condition in node.ifs:
                yield site(condition, "condition", f"(not ({text(condition)}))")
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in EDGES:
            before, after = EDGES[type(node.ops[0])]
            left = site(node.left, "edge", "")
            right = site(node.comparators[0], "edge", "")
            between = source[left.end : right.begin].decode()
            yield left._replace(begin=left.end, end=right.begin, after=between.replace(before, after, 1))
        elif isinstance(node, ast.stmt) and _only_acts(node):
            yield site(node, "statement", "pass")
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield site(node, "constant", str(not node.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, int):
            yield site(node, "constant", f"({node.value} + 1)")


def _only_acts(node: ast.stmt) -> bool:
    """Whether it is a statement without which no name is missing."""
    if isinstance(node, ast.Assign):
        return not any(isinstance(one, ast.Name | ast.Tuple) for one in node.targets)
    calls = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.YieldFrom)
    return calls or isinstance(node, ast.AugAssign | ast.Delete)


def _behaviour(node: ast.AST) -> Iterator[ast.AST]:
    """What stands in a definition, without what only people read or only types say."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params") or (name == "keywords" and _zips(node)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _said(child):
                yield from _behaviour(child)


def _zips(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "zip"


def _said(node: ast.AST) -> bool:
    if isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        called = node.value.func
        return isinstance(called, ast.Attribute | ast.Name) and _called(called) in TEXT
    return False


def _called(node: ast.Attribute | ast.Name) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id
