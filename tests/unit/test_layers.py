"""Who may import whom: DESIGN, section 3, read out of the source with `ast`; and no files that import each other.

THE LAYERS ARE THE ARCHITECTURE: a line that has to change here is a decision to talk about first.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.rows import rows

ROOT = Path(__file__).parent.parent.parent
STDLIB = frozenset(sys.stdlib_module_names)
WORLD = frozenset(
    {
        "time",
        "random",
        "socket",
        "asyncio",
        "ray",
        "threading",
        "subprocess",
        "select",
        "signal",
        "secrets",
        "logging",
    }
)
"""What only a host may use. `open` is a builtin and is looked for as a call."""

FAST = {"fastpath", "numpy"}
NODE_CONFIG = {
    "actors.settings.keys",
    "actors.settings.listeners",
    "actors.settings.node_config",
    "actors.settings.nodes",
    "actors.settings.topics",
}
SETTINGS = NODE_CONFIG | {
    "actors.settings.client_metrics",
    "actors.settings.groups",
    "actors.settings.kept",
    "actors.settings.properties",
    "actors.settings.tables",
}
"""All but how a listener asks its peers who they are, and which values are shown."""
MACHINE = (
    SETTINGS
    | {
        "actors.ports",
        "actors.ledger",
        "actors.authentication",
        "actors.authorization",
        "actors.metadata",
        "actors.quotas",
        "actors.wire",
    }
    | FAST
)
RUNTIME = {
    "actors.node.runtime",
    "actors.ledger",
    "actors.ports",
    "actors.ports.zookeeper",
    "actors.authorization",
} | NODE_CONFIG
NET = RUNTIME | {"actors.node.net", "actors.authentication", "actors.wire"} | FAST
QUORUM = NET | {"actors.node.quorum", "actors.raft", "actors.metadata"}
CONTROLLER = QUORUM | {
    "actors.node.roles.controller",
    "actors.controller",
    "actors.quotas",
    "actors.bridge",
    "actors.ports.zookeeper",
}
BROKER = QUORUM | {"actors.node.roles.broker", "actors.broker", "actors.quotas"} | SETTINGS
API = (
    CONTROLLER
    | BROKER
    | {
        "actors.node.api",
        "actors.settings.oauthbearer",
    }
    | SETTINGS
)
NODE = MACHINE | {
    "actors.node",
    "actors.raft",
    "actors.controller",
    "actors.broker",
    "actors.bridge",
    "actors.ports.zookeeper",
}

ALLOWED: dict[str, set[str]] = {
    "fastpath": {"fastpath", "numpy", "lz4", "cramjam", "isal", "zstandard"},
    "actors.ports": set(),
    "actors.ledger": set(),
    "actors.settings": {"actors.settings", "actors.authorization.addresses"},
    "actors.raft": {"actors.raft", "actors.ports"},
    "actors.wire": {"actors.wire", "actors.ports", "fastpath"},
    "actors.authentication": {"actors.authentication"},
    "actors.authorization": {"actors.authorization"},
    "actors.metadata": {"actors.metadata", "actors.authorization", "actors.ports", "actors.wire"} | FAST,
    "actors.quotas": {"actors.authorization", "actors.quotas", "actors.metadata"},
    "actors.controller": {"actors.controller"} | MACHINE,
    "actors.ports.zookeeper": set(),
    "actors.bridge": {"actors.bridge", "actors.controller", "actors.ports.zookeeper"} | MACHINE,
    "actors.broker": {"actors.broker"} | MACHINE,
    "actors.node": set(),
    "actors.node.runtime": RUNTIME,
    "actors.node.net": NET,
    "actors.node.quorum": QUORUM,
    "actors.node.roles": set(),
    "actors.node.roles.controller": CONTROLLER,
    "actors.node.roles.broker": BROKER,
    "actors.node.api": API,
    "actors.node.metrics": API | {"actors.node.metrics"},
    "actors.node.node": API | {"actors.node.metrics"},
    "actors.client": {
        "actors.client",
        "actors.authentication",
        "actors.authorization.resources",
        "actors.authorization.access_rules",
        "actors.ports",
        "actors.settings.jaas",
        "actors.settings.keys",
        "actors.settings.properties",
        "actors.settings.tls",
        "actors.wire",
    }
    | FAST,
    "actors.import_path": set(),
    "actors.printable": set(),
    "actors.why": {"actors.why"},
    "actors.replay": {
        "actors.replay",
        "actors.why",
        "actors.import_path",
        "actors.ports",
        "actors.printable",
        "actors.settings.secret",
        "actors.metadata",
        "actors.wire",
        "pyarrow",
    }
    | FAST,
    "actors.host": {
        "actors.host",
        "actors.import_path",
        "actors.printable",
        "actors.settings.listener_security",
        "actors.settings.secret",
        "uvloop",
    }
    | NODE,
    "actors.arrow": {
        "actors.arrow",
        "actors.client",
        "actors.host.client",
        "actors.ports",
        "actors.replay",
        "actors.wire",
        "pyarrow",
    }
    | FAST,
    "actors.pipeline": {
        "actors.arrow",
        "actors.client",
        "actors.host.client",
        "actors.import_path",
        "actors.pipeline",
        "actors.replay",
        "actors.settings.keys",
        "actors.wire",
        "pyarrow",
    },
    "actors.page": {
        "actors.why",
        "actors.page",
        "actors.arrow",
        "actors.client",
        "actors.host.client",
        "actors.import_path",
        "actors.printable",
        "actors.replay",
        "actors.wire.errors",
        "pyarrow",
        "starlette",
    }
    | FAST,
    "actors.command": {
        "actors.command",
        "actors.why",
        "actors.host",
        "actors.import_path",
        "actors.printable",
        "actors.replay",
        "actors.settings",
        "pyarrow",
    }
    | NODE,
    "actors.testing": {
        "actors.testing",
        "actors.client",
        "actors.host.client.blocking",
        "actors.host.cluster",
        "fastpath.bytes",
        "fastpath.records",
    },
    "actors.command.by_address": {
        "actors.authentication.scram",
        "actors.authorization.resources",
        "actors.authorization.access_rules",
        "actors.client",
        "actors.why",
        "actors.command",
        "actors.host.client.blocking",
        "actors.host.client.reading",
        "actors.host.cluster",
        "actors.host.cluster_error",
        "actors.host.work.system_random",
        "actors.printable",
        "actors.settings.keys",
        "actors.wire",
        "fastpath",
    },
}
"""Package -> what it may import besides the standard library. The longest prefix of a module's name counts."""

MORE: dict[str, set[str]] = {
    "actors.authentication.access_tokens": {"jwt"},
    "actors.authentication.key_set": {"jwt"},
    "actors.broker.groups.patterns": {"re2"},
    "actors.host.client.asynchronous": {"actors.client"},
    "actors.host.client.blocking": {"actors.client"},
    "actors.host.client.contexts": {"actors.client"},
    "actors.host.client.reading": {"actors.client"},
    "actors.host.client.schemas": {"actors.client"},
    "actors.host.metrics.otlp": {"google.protobuf", "opentelemetry"},
    "actors.host.net.tls": {"cryptography", "actors.settings.tls"},
    "actors.host.security.certificates": {"cryptography"},
    "actors.host.cluster.on_ray": {"ray", "yaml"},
    "actors.command.by_address.metadata_log.moment": {
        "actors.arrow",
        "actors.replay",
        "actors.settings.secret",
        "pyarrow",
    },
    "actors.command.by_address.exporter": {"actors.host.metrics", "actors.host.net", "actors.node.metrics"},
    "actors.command.by_address.health": {"actors.replay"},
    "actors.command.by_address.metadata_log.private_copy": {"actors.arrow"},
    "actors.command.by_address.metadata_log.replaying": {"actors.arrow", "actors.replay", "pyarrow"},
    "actors.command.by_address.page": {"actors.host.client.schema_registry", "actors.page"},
    "actors.command.by_address.page_process": {"actors.host.work.kernel", "actors.import_path"},
    "actors.command.output.completions": {"shtab"},
    "actors.command.output.screen": {"rich"},
    "actors.command.status": {"rich"},
    "actors.host.net.zookeeper_connection": {"kazoo"},
    "actors.replay.spark": {"pyspark"},
    "actors.replay.workers": {"pyspark"},
    "actors.replay.ray": {"ray"},
    "actors.replay.ray_cache": {"ray"},
    "actors.page.query.answerer": {"duckdb"},
    "actors.page.serve": {"uvicorn"},
    "actors.replay.sql": {"duckdb"},
    "actors.testing.plugin": {"pytest"},
    "actors.pipeline.ray": {"ray"},
    "actors.pipeline.ray_sink": {"ray"},
    "actors.pipeline.spark": {"pyspark"},
    "actors.pipeline.spark_readers": {"pyspark"},
    "actors.pipeline.spark_streams": {"pyspark"},
    "actors.pipeline.spark_writers": {"pyspark"},
    "actors.command.output.tables": {"rich"},
}
PAGE = ROOT / "docs" / "design.md"
HEADING = "| package | may import |"


def listed() -> str:
    """The table of imports in the design, as ALLOWED and MORE have it."""
    lines = [HEADING, "|---|---|"]
    for name, allowed in (*ALLOWED.items(), *MORE.items()):
        short = sorted(other.removeprefix("actors.") for other in allowed - {name})
        also = "besides: " if name in MORE else ""
        lines.append(f"| `{name}` | {also}{', '.join(short) or 'nothing'} |")
    return "\n".join(lines)


def with_table(text: str) -> str:
    """The page, with the table as it is here."""
    return re.sub(re.escape(HEADING) + r"\n(?:\|.*\n)+", lambda _: listed() + "\n", text)


WITH_WORLD = (
    "actors.import_path", "actors.host", "actors.replay", "actors.pipeline.ray", "actors.pipeline.ray_sink",
    "actors.pipeline.spark", "actors.page", "actors.command", "actors.testing",
)  # fmt: skip
DOORS = ("actors.command.cli", "rayft")
"""May import everything, lazily."""


def modules() -> Iterator[tuple[str, Path]]:
    for top in ("actors", "fastpath"):
        for path in sorted((ROOT / top).rglob("*.p*")):
            if path.suffix in (".py", ".pyx", ".pxd") and "schemas" not in path.parts:
                name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                yield name.removesuffix(".__init__"), path


@cache
def statements(text: str) -> tuple[tuple[ast.Import | ast.ImportFrom, ...], tuple[int, ...]]:
    """The imports of a source, those under `if TYPE_CHECKING:` too, and the lines that call `open`."""
    nodes = list(ast.walk(ast.parse(text)))
    opened = [
        one for one in nodes if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == "open"
    ]
    imports_ = [one for one in nodes if isinstance(one, ast.Import | ast.ImportFrom)]
    return tuple(imports_), tuple(one.lineno for one in opened)


def imported(name: str, path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of every import, those under `if TYPE_CHECKING:` too: a file knows what it names, even as a type."""
    for node in statements(path.read_text())[0]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        else:
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


@rows(SOURCES)
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


FLOORS = ("runtime", "net", "quorum", "roles.controller", "api", "node")


@pytest.mark.parametrize("low", FLOORS)
def test_a_floor_of_the_node_knows_none_above_it(low: str) -> None:
    above = FLOORS[FLOORS.index(low) + 1 :]
    allowed = rule(f"actors.node.{low}.file")
    assert allowed is not None
    assert not [high for high in above if within(f"actors.node.{high}.file", allowed)]
    for role, other in (("broker", "controller"), ("controller", "broker")):
        beside = rule(f"actors.node.roles.{role}.file") or set()
        assert not within(f"actors.node.roles.{other}.file", beside) and not within(f"actors.{other}.file", beside)


def test_an_import_for_a_type_counts(tmp_path: Path) -> None:
    file = tmp_path / "file.py"
    file.write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from actors.node.node import Node\n")
    assert "actors.node.node.Node" in [module for _, module in imported("actors.node.net.file", file)]


@rows(SOURCES)
def test_files_are_opened_by_hosts_only(name: str, path: Path) -> None:
    if name.startswith(WITH_WORLD) or name.startswith("actors.wire"):
        return  # wire reads its own schema files, which are source
    for line in statements(path.read_text())[1]:
        pytest.fail(f"{path}:{line}: open() belongs to the host")


def test_the_design_lists_what_is_allowed() -> None:
    text = PAGE.read_text()
    assert HEADING in text
    assert with_table(text) == text, "python -m tests.unit.test_layers writes it anew"


COMMAND = ROOT / "actors" / "command"
DOOR_FILES = [ROOT / "rayft.py", *sorted(path for path in COMMAND.glob("*.py") if path.stem != "bridge_steps")]
"""`rayft X --help` imports them. In `bridge_steps.py` is what only a command that runs imports."""


EMPTY = {"actors", "fastpath"}
"""Packages with nothing but a docstring: where they lie may be asked."""


@pytest.mark.parametrize("top", sorted(EMPTY))
def test_a_package_of_the_top_is_empty(top: str) -> None:
    assert len(ast.parse((ROOT / top / "__init__.py").read_text()).body) <= 1


@pytest.mark.parametrize("path", DOOR_FILES, ids=lambda path: path.stem)
def test_doors_import_lazily(path: Path) -> None:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
            if ast.unparse(node) != "from actors.command import options as common":
                known = module in EMPTY or str(module).partition(".")[0] in STDLIB
                assert known, f"{path} imports {module} before it is needed"


CYTHON_IMPORT = re.compile(r"^[ \t]*(?:from +([\w.]+) +c?import +(\([^)]*\)|.+)|c?import +(.+))", re.MULTILINE)


def names(path: Path) -> Iterator[str]:
    """Every `module` and `module.name` that a file imports or cimports, those under `if TYPE_CHECKING:` too."""
    text = path.read_text()
    if path.suffix == ".py":
        for node in statements(text)[0]:
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            yield from (module + alias.name for alias in node.names)
        return
    for module, those, modules_ in CYTHON_IMPORT.findall(text):
        assert not module.startswith("."), f"{path}: write the whole name instead of a relative import"
        listed = re.sub(r"#.*|[()]", "", those or modules_).split(",")
        yield from (".".join(filter(None, (module, one.split()[0]))) for one in listed if one.strip())


def imports() -> dict[str, set[str]]:
    """Module -> the modules of actors/ and fastpath/ that it imports. A .pyx and its .pxd are one module. To import a module
    out of a package is not to import the package: a package gives out what its modules have and is behind them."""
    files = list(modules())
    found: dict[str, set[str]] = {name: set() for name, _ in files}
    for name, path in files:
        for imported_ in names(path):
            module = imported_ if imported_ in found else imported_.rpartition(".")[0]
            if module in found and module != name:
                found[name].add(module)
    return found


def circle() -> str:
    """One circle of files, if there is one: each imports the next."""
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        return " -> ".join(reversed(error.args[1]))
    return ""


def test_no_files_import_each_other() -> None:
    found = circle()
    assert not found, f"these files import each other, in type imports or others: {found}"


@pytest.mark.parametrize(
    "files",
    [
        {"actors/a.py": "import actors.b", "actors/b.py": "from actors.a import A"},
        {"actors/a.py": "from actors import b", "actors/b.py": "if TYPE_CHECKING:\n    from actors.a import A"},
        {"actors/a.py": "def f():\n    from actors.b import B", "actors/b.py": "from actors import a as other"},
        {
            "fastpath/a.pyx": "from fastpath.b cimport (\n    one,  # first\n    two,\n)",
            "fastpath/b.pxd": "cimport fastpath.a",
        },
        {"fastpath/a.pxd": "from fastpath cimport b as other", "fastpath/b.pyx": "from fastpath.a import One"},
    ],
)
def test_circles_of_all_kinds_are_found(files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    top = next(iter(files)).partition("/")[0]
    assert circle() in (f"{top}.a -> {top}.b -> {top}.a", f"{top}.b -> {top}.a -> {top}.b")
    next(iter(tmp_path.rglob("a.p*"))).write_text("")
    assert circle() == ""


COMPILED = [path for _, path in modules() if path.suffix == ".pyx"]


@pytest.mark.parametrize("path", COMPILED, ids=[path.stem for path in COMPILED])
def test_compiled_modules_have_a_face(path: Path) -> None:
    assert path.is_relative_to(ROOT / "fastpath")
    assert path.with_suffix(".pyi").exists(), f"{path.name} has no .pyi"
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    inside = any(f"from {name} cimport" in other.read_text() for other in COMPILED if other != path)
    assert path.with_suffix(".pxd").exists() or not inside, f"others cimport {path.stem}, which has no .pxd"


def test_the_door_and_a_node_load_nothing_heavy() -> None:
    code = (
        "import sys, rayft, actors.node.node, actors.host.serve\n"
        "print([name for name in ('ray', 'pyspark', 'pyarrow', 'rich', 'starlette', 'uvicorn') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "[]", ran.stderr


def test_the_door_and_a_node_load_nothing_of_the_client() -> None:
    code = (
        "import sys, rayft, actors.node.node, actors.host.serve\n"
        "print([name for name in sys.modules if name.startswith(('actors.client', 'actors.host.client', 'actors.page'))])"
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


def rooms(place: str) -> dict[str, set[str]]:
    """Of the files and folders that lie directly in a folder: which imports which."""
    found: dict[str, set[str]] = {}
    known = {name for name, path in SOURCES if path.name != "__init__.py"}
    for name, path in SOURCES:
        if name.startswith(f"{place}."):
            own = name.removeprefix(f"{place}.").partition(".")[0]
            for _, module in imported(name, path):
                if module in known and module.startswith(f"{place}."):
                    other = module.removeprefix(f"{place}.").partition(".")[0]
                    found.setdefault(own, set()).update({other} - {own})
    return found


PLACES = sorted({name.rpartition(".")[0] for name, _ in SOURCES if "." in name})


@rows((place,) for place in PLACES)
def test_no_rooms_of_a_folder_import_each_other(place: str) -> None:
    """What is beside each other in a folder, files and folders, has an order: each can be read after those it imports."""
    try:
        TopologicalSorter(rooms(place)).prepare()
    except CycleError as error:
        pytest.fail(f"{place}: {' -> '.join(error.args[1])}")


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
