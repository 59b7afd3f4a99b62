"""What a type checker is told of the messages is what they are."""

import ast
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from actors.wire.messages import FOLDERS, decode_exact, encode, find, message, names
from actors.wire.schema import FOLDER
from actors.wire.stubs import NAMED, stubs
from tests.rows import rows
from tests.unit.wire.generator import random_message

ROOT = Path(__file__).parent.parent.parent.parent
NAMES = sorted({name for prefix in FOLDERS for name in names(prefix)})
KINDS = {"int": int, "bool": bool, "float": float, "str": str, "bytes": bytes}


def test_each_stub_is_made_from_its_schema() -> None:
    wanted = stubs()
    kept = {path: path.read_text() for path in (*FOLDER.rglob("*.pyi"), NAMED)}
    assert {str(path) for path in kept} == {str(path) for path in wanted}
    stale = [str(path.relative_to(ROOT)) for path in wanted if kept[path] != wanted[path]]
    assert not stale, f"run `make schemas`: {stale}"


def _typed(node: ast.ClassDef, fields: dict[str, dict[str, str]], path: str) -> None:
    """Class -> field -> type, as a stub has them."""
    here = fields.setdefault(path, {})
    for one in node.body:
        if isinstance(one, ast.ClassDef):
            _typed(one, fields, f"{path}.{one.name}")
        elif isinstance(one, ast.AnnAssign):
            assert isinstance(one.target, ast.Name)
            here[one.target.id] = ast.unparse(one.annotation)


def _fits(value: Any, kind: str, fields: dict[str, dict[str, str]]) -> bool:
    """Whether a value is of a type as a stub words it."""
    bare = kind.removesuffix(" | None")
    if value is None:
        return bare != kind or bare == "Records"
    if bare == "Records":
        return isinstance(value, memoryview | bytes)
    if bare.startswith("list["):
        return type(value) is list and all(_fits(one, bare[5:-1], fields) for one in value)
    if bare in KINDS:
        return type(value) is KINDS[bare]
    return type(value).__qualname__ == bare and _fields_fit(value, fields)


def _fields_fit(value: Any, fields: dict[str, dict[str, str]]) -> bool:
    kinds = fields[type(value).__qualname__]
    attributes = value.__layout__.names
    return set(kinds) == set(attributes) and all(
        _fits(getattr(value, name), kinds[name], fields) for name in attributes
    )


@rows((name,) for name in NAMES)
def test_what_is_decoded_has_the_types_of_the_stub(name: str) -> None:
    cls = message(name)
    tree = ast.parse(find(name).with_suffix(".pyi").read_text())
    fields: dict[str, dict[str, str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            _typed(node, fields, node.name)
    rng = Random(name)
    head = cls.__schema__.head
    for version in range(head.versions.first, head.versions.last + 1):
        for _ in range(10):
            sent = random_message(cls, version, rng)
            assert _fields_fit(decode_exact(cls, version, encode(sent, version)), fields), (version, sent)


PLANTED = """
from typing import TYPE_CHECKING

from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import CreateTopicsRequest


def answered(request: "CreateTopicsRequest") -> int:
    kind = message("CreateTopicsResponse")
    reply = kind({reply})
    return sum(topic.{partitions} for topic in request.topics) + len(reply.topics)
"""


@pytest.mark.parametrize(
    ("reply", "partitions", "said"),
    [
        ("throttle_time_ms=0, topics=[]", "num_partitions", "Success"),
        ("throttle_ms=0, topics=[]", "num_partitions", 'Unexpected keyword argument "throttle_ms"'),
        ("throttle_time_ms=0, topics=None", "num_partitions", "incompatible type"),
        ("throttle_time_ms=0, topics=[]", "partitions", '"CreatableTopic" has no attribute "partitions"'),
    ],
)
def test_a_wrong_field_is_found_by_the_type_checker(tmp_path: Path, reply: str, partitions: str, said: str) -> None:
    pytest.importorskip("mypy")
    planted = tmp_path / "planted.py"
    planted.write_text(PLANTED.format(reply=reply, partitions=partitions))
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(planted)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert said in found.stdout, found.stdout + found.stderr
