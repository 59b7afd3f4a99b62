"""What the source says of look-ups in loops: what is as long as a request is a set or a dict, not a list that is gone
through each time. Counting lines does not find that: a look-up is one line, however long the list."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path
    for folder in ("actors/node/api", "actors/node/roles", "actors/node/net", "actors/controller", "actors/broker")
    for path in (ROOT / folder).rglob("*.py")
)
LISTS = (ast.List, ast.ListComp)
MAKERS = {"list", "sorted"}
SEARCHES = {"index", "remove", "count"}
SHORT: dict[str, str] = {}
"""What is found, and why it is not long."""
FILES_MIN = 200


def searched(source: str) -> list[str]:
    """The lists that are made in a function, or come with its request, and are gone through in a loop of it, with lines."""
    found: dict[str, None] = {}
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            made = {name for one in ast.walk(function) for name in _lists_made(one)}
            for loop in ast.walk(function):
                if isinstance(loop, ast.For | ast.While):
                    parts: list[ast.AST] = [*loop.body, *loop.orelse]
                elif isinstance(loop, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
                    parts = [loop]
                else:
                    continue
                for part in parts:
                    for one in ast.walk(part):
                        where = _searched_in(one)
                        if isinstance(where, ast.Name) and where.id in made:
                            found[f"{function.name}: {where.id}"] = None
                        if isinstance(where, ast.Attribute) and ast.unparse(where.value) == "request":
                            found[f"{function.name}: {ast.unparse(where)}"] = None
    return list(found)


def _lists_made(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Assign) and _is_list(node.value):
        return [one.id for one in node.targets if isinstance(one, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        return [node.target.id] if _is_list(node.value) else []
    return []


def _is_list(value: ast.AST) -> bool:
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func.id in MAKERS
    return isinstance(value, LISTS)


def _searched_in(node: ast.AST) -> ast.AST | None:
    """What a look-up goes through, if it is one."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        return node.comparators[0]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SEARCHES:
        return node.func.value
    return None


def test_no_list_is_gone_through_for_each_entry() -> None:
    assert len(FILES) >= FILES_MIN
    found = {f"{path.relative_to(ROOT)} {one}" for path in FILES for one in searched(path.read_text())}
    assert found == set(SHORT), "look it up in a set or a dict, or say here why it is short"


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("seen = []\n    for name in names:\n        if name not in seen:\n            seen.append(name)", ["f: seen"]),
        ("seen: list[str] = list(names)\n    return [one for one in names if one in seen]", ["f: seen"]),
        ("for name in names:\n        if name in request.topics:\n            yield", ["f: request.topics"]),
        ("kept = sorted(names)\n    while names:\n        kept.remove(names.pop())", ["f: kept"]),
        ("seen = set()\n    for name in names:\n        if name not in seen:\n            seen.add(name)", []),
        ("kept = sorted(names)\n    return names[0] in kept", []),
    ],
)
def test_such_look_ups_are_found(planted: str, found: list[str]) -> None:
    assert searched(f"def f(names, request):\n    {planted}\n") == found
