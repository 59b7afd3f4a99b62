"""No membership is looked up in a list where requests are handled: a list as long as a request makes its square of it.

What is a list, mypy knows. It reads the whole source for that, so this test is a slow one.
"""

import gc
from pathlib import Path
from typing import Any

import pytest
from mypy import build
from mypy.config_parser import parse_config_file
from mypy.find_sources import create_source_list
from mypy.nodes import Block, ComparisonExpr, Expression, FuncDef, Node, Statement
from mypy.options import Options
from mypy.types import Instance, UnionType, get_proper_type

ROOT = Path(__file__).parents[2]
HANDLED = ("actors.node.api", "actors.controller", "actors.broker.groups", "actors.broker.groups.share.delivery")
SHORT = {
    "actors/node/api/handlers/sasl_handshake.py": "mechanisms of a listener",
    "actors/controller/pushes/pushes.py": "racks of a partition's replicas",
}
"""Files in which the list is short whatever a request says."""
PASSED_OVER = {"node", "info", "type", "names", "analyzed", "unanalyzed_type", "original_def"}
"""Attributes of mypy's tree that lead elsewhere."""


@pytest.mark.slow
def test_nothing_is_looked_up_in_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = in_lists(ROOT, ["actors"], monkeypatch)
    assert not [one for one in found if one.partition(":")[0] not in SHORT], (
        "a set, or a dict, is looked up in one step"
    )
    planted = "def f(names: list[str]) -> list[str]:\n    return [n for n in 'ab' if n not in names]\n"
    (tmp_path / "planted.py").write_text(planted)
    assert in_lists(tmp_path, ["planted.py"], monkeypatch, ("planted",)) == ["planted.py:2"]


def in_lists(
    root: Path, sources: list[str], monkeypatch: pytest.MonkeyPatch, modules: tuple[str, ...] = HANDLED
) -> list[str]:
    """`path:line` of each `in` and `not in` with a list behind it."""
    monkeypatch.chdir(root)
    options = Options()
    parse_config_file(options, lambda: None, str(ROOT / "pyproject.toml"))
    options.export_types = options.preserve_asts = True
    options.incremental = False
    thresholds = gc.get_threshold()
    try:
        result = build.build(create_source_list(sources, options), options)
    finally:
        gc.set_threshold(*thresholds)  # mypy sets its own
    assert not result.errors
    return sorted(
        f"{tree.path}:{one.line}"
        for name, tree in result.files.items()
        if name.startswith(modules)
        for one in nodes(tree)
        if isinstance(one, ComparisonExpr)
        for operator, right in zip(one.operators, one.operands[1:], strict=True)
        if operator in ("in", "not in") and is_list(result.types.get(right))
    )


def is_list(type: Any) -> bool:
    found = get_proper_type(type)
    if isinstance(found, UnionType):
        return any(map(is_list, found.items))
    return isinstance(found, Instance) and found.type.fullname == "builtins.list"


def nodes(root: Any) -> list[Node]:
    """Every expression and statement of a file."""
    seen: dict[int, Any] = {}
    left: list[Any] = [root]
    while left:
        one = left.pop()
        if isinstance(one, list | tuple):
            left += one
        elif id(one) not in seen and (one is root or isinstance(one, Expression | Statement | Block | FuncDef)):
            seen[id(one)] = one
            left += [
                getattr(one, name, None) for name in dir(one) if not name.startswith("_") and name not in PASSED_OVER
            ]
    return list(seen.values())
