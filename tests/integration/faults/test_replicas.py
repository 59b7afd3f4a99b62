"""Directories made by hand: equal ones, and ones whose differences must be reported."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fastpath.records.batch import Builder
from tests.integration.faults import replicas

METADATA = "__kafka_metadata-0/00000000000000000000.log"
DATA = "t-0/00000000000000000000.log"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "SETTLE_S", 0.0)


def cluster(root: Path) -> Any:
    """One controller and two brokers, with nothing on their disks."""

    def member(node: int) -> Any:
        directory = str(root / str(node))
        return SimpleNamespace(config=SimpleNamespace(log_dirs=[directory], metadata_log_dir=directory))

    return SimpleNamespace(brokers=[1, 2], controllers=[1001], member=member)


def log(*values: bytes, first: int = 0) -> bytes:
    """A batch for each value."""
    data = b""
    for offset, value in enumerate(values, first):
        builder = Builder(offset, 1)
        builder.append(None, value)
        data += builder.build()
    return data


def write(root: Path, name: str, contents: Sequence[bytes]) -> None:
    for node, content in zip((1, 2, 1001), contents, strict=False):
        path = root / str(node) / name
        path.parent.mkdir(parents=True)
        path.write_bytes(content)


def test_equal_replicas(tmp_path: Path) -> None:
    write(tmp_path, DATA, [log(b"a"), log(b"a")])
    assert replicas.differences(cluster(tmp_path), "t", 1) == []


@pytest.mark.parametrize("contents", [[], [log(b"a"), log(b"b")], [log(b"a", b"b"), log(b"a")]])
def test_replicas_that_differ_or_are_nowhere(tmp_path: Path, contents: Sequence[bytes]) -> None:
    write(tmp_path, DATA, contents)
    assert len(replicas.differences(cluster(tmp_path), "t", 1)) == 1


@pytest.mark.parametrize(
    "contents",
    [
        [log(b"a", b"b", b"c")] * 3,
        [log(b"b", b"c", first=1), log(b"a", b"b"), log(b"a", b"b", b"c")],
        [log(b"a", b"b"), log(b"a", b"b") + log(b"torn")[:-1], b""],
    ],
    ids=["equal", "behind or begun later", "torn or empty"],
)
def test_equal_metadata(tmp_path: Path, contents: Sequence[bytes]) -> None:
    write(tmp_path, METADATA, contents)
    assert replicas.metadata_differences(cluster(tmp_path)) == []


@pytest.mark.parametrize(
    "contents",
    [
        [log(b"a", b"b"), log(b"a", b"x"), log(b"a")],
        [log(b"a", b"b", b"c"), log(b"a") + log(b"c", first=2), b""],
        [],
    ],
    ids=["another batch", "a hole", "nothing"],
)
def test_metadata_that_differs_or_is_nowhere(tmp_path: Path, contents: Sequence[bytes]) -> None:
    write(tmp_path, METADATA, contents)
    assert len(replicas.metadata_differences(cluster(tmp_path))) == 1
