"""Who may import whom: DESIGN, section 3, read out of the source with `ast`.

THE LAYERS ARE THE ARCHITECTURE: a line that has to change here is a decision to talk about first.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
STDLIB = frozenset(sys.stdlib_module_names)
WORLD = frozenset(
    {"time", "random", "socket", "asyncio", "ray", "threading", "subprocess", "select", "signal", "secrets"}
)
"""What only a host may use. `open` is a builtin and is looked for as a call."""

FAST = {"fastpath", "numpy"}
MACHINE = {"actors.ports", "actors.config", "actors.settings", "actors.metadata", "actors.wire"} | FAST
NODE = MACHINE | {"actors.node", "actors.raft", "actors.controller", "actors.broker"}

ALLOWED: dict[str, set[str]] = {
    "fastpath": {"fastpath", "numpy", "lz4", "cramjam", "zstandard"},
    "actors.ports": set(),
    "actors.settings": set(),
    "actors.config": {"actors.settings"},
    "actors.raft": {"actors.raft", "actors.ports"},
    "actors.wire": {"actors.wire", "actors.ports", "fastpath"},
    "actors.metadata": {"actors.metadata", "actors.ports", "actors.wire"} | FAST,
    "actors.controller": {"actors.controller"} | MACHINE,
    "actors.broker": {"actors.broker"} | MACHINE,
    "actors.node": NODE,
    "actors.import_path": set(),
    "actors.replay": {
        "actors.replay",
        "actors.import_path",
        "actors.ports",
        "actors.metadata",
        "actors.wire",
        "pyarrow",
    }
    | FAST,
    "actors.host": {"actors.host", "actors.import_path", "uvloop"} | NODE,
}
"""Package -> what it may import besides the standard library. The longest prefix of a module's name counts."""

MORE: dict[str, set[str]] = {
    "actors.host.metrics": {"prometheus_client"},
    "actors.host.on_ray": {"ray", "yaml"},
    "actors.host.screen": {"rich"},
    "actors.replay.spark": {"pyspark"},
    "actors.replay.workers": {"pyspark"},
    "actors.replay.ray": {"ray"},
    "actors.replay.held": {"ray"},
    "actors.replay.sql": {"duckdb"},
    "actors.replay.command": {"rich"},
}
WITH_WORLD = ("actors.import_path", "actors.host", "actors.replay", "actors.cli")
DOORS = ("actors.cli", "rayft")
"""May import everything, lazily."""


def modules() -> Iterator[tuple[str, Path]]:
    for top in ("actors", "fastpath"):
        for path in sorted((ROOT / top).rglob("*.py*")):
            if path.suffix in (".py", ".pyx", ".pxd") and "schemas" not in path.parts:
                name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                yield name.removesuffix(".__init__"), path


def imported(name: str, path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of every import that happens at run time, those under `if TYPE_CHECKING:` left out."""
    tree = ast.parse(path.read_text(), str(path))
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: write the whole name instead of a relative import"
            assert node.module is not None
            yield node.lineno, node.module
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def within(module: str, names: set[str]) -> bool:
    return any(module == name or module.startswith(name + ".") for name in names)


def rule(name: str) -> set[str] | None:
    """What a module may import; None for a door."""
    if name in DOORS or name == "actors":
        return None
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        found = ALLOWED.get(".".join(parts[:length]))
        if found is not None:
            return found | MORE.get(name, set())
    raise AssertionError(f"{name} has no place in the layers: add it to DESIGN, section 3, and to this table")


SOURCES = [(name, path) for name, path in modules() if path.suffix == ".py"]


@pytest.mark.parametrize(("name", "path"), SOURCES, ids=[name for name, _ in SOURCES])
def test_imports_go_downwards(name: str, path: Path) -> None:
    allowed = rule(name)
    if allowed is None:
        return
    for line, module in imported(name, path):
        top = module.partition(".")[0]
        if top in STDLIB:
            assert top not in WORLD or name.startswith(WITH_WORLD), f"{path}:{line}: {module} belongs to the host"
            continue
        if any(other != module and other.startswith(module + ".") for other in allowed) and module.count(".") == 0:
            continue  # `from actors import ports`: the names after it are checked one by one
        assert within(module, allowed), f"{path}:{line}: {name} must not import {module}"


@pytest.mark.parametrize(("name", "path"), SOURCES, ids=[name for name, _ in SOURCES])
def test_files_are_opened_by_hosts_only(name: str, path: Path) -> None:
    if name.startswith(WITH_WORLD) or name.startswith("actors.wire"):
        return  # wire reads its own schema files, which are source
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "open", f"{path}:{node.lineno}: open() belongs to the host"


def test_doors_import_lazily() -> None:
    for name, path in (("actors.cli", ROOT / "actors" / "cli.py"), ("rayft", ROOT / "rayft.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
                assert str(module).partition(".")[0] in STDLIB, f"{name} imports {module} before it is needed"


COMPILED = [path for _, path in modules() if path.suffix == ".pyx"]


@pytest.mark.parametrize("path", COMPILED, ids=[path.stem for path in COMPILED])
def test_compiled_modules_have_a_face(path: Path) -> None:
    assert path.parent == ROOT / "fastpath"
    assert path.with_suffix(".pyi").exists(), f"{path.name} has no .pyi"
    inside = any(f"from fastpath.{path.stem} cimport" in other.read_text() for other in COMPILED if other != path)
    assert path.with_suffix(".pxd").exists() or not inside, f"others cimport {path.stem}, which has no .pxd"


def test_the_door_and_a_node_load_nothing_heavy() -> None:
    code = (
        "import sys, rayft, actors.node.node, actors.host.serve\n"
        "print([name for name in ('ray', 'pyspark', 'pyarrow', 'rich') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "[]", ran.stderr


def test_public_names_are_complete() -> None:
    import rayft

    assert sorted(rayft.__all__) == dir(rayft)
    for name in rayft.__all__:
        assert getattr(rayft, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        rayft.nothing  # noqa: B018
