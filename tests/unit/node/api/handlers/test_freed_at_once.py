"""What a request was read into is freed when it is answered, and not when Python looks for cycles: half a million entries
would stay until then, and idle nodes do not look.

The requests are the heaviest of every API (`tests/heaviest.py`), as in `test_longest_slice.py`.
"""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from actors.wire.messages import message
from tests.heaviest import Path as ListPath
from tests.heaviest import heavy, lists
from tests.heavy_nodes import NO_AUTHORIZER, Nodes, Row, rows

pytestmark = pytest.mark.long

MANY = 350
"""Entries of a list: more than a slice."""
OBJECTS_MAX = 100
"""A few of a request may wait for that. Any list of it has more elements."""


@pytest.fixture(scope="module")
def nodes() -> Nodes:
    return Nodes(NO_AUTHORIZER)


@pytest.fixture(scope="module", autouse=True)
def _thawed_behind_them() -> Iterator[None]:
    """What the rows have set aside goes with them."""
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@pytest.mark.parametrize("row", rows(), ids=str)
def test_nothing_of_a_request_is_in_a_cycle(nodes: Nodes, row: Row) -> None:
    def handle(version: int, path: ListPath, many: int) -> None:
        nodes.run(row.listener, [nodes.asked(row, version, heavy(row.name, version, path, many))], _uncounted)

    for version in sorted({row.versions[0], row.versions[-1]}):
        handle(version, (), 1)  # what is made once is there
        gc.collect()
        gc.freeze()  # so that only what comes now is looked at, by the next row too
        for path in lists(message(f"{row.name}Request"), version)[1:]:
            gc.disable()
            try:
                left: list[Any] = []
                for _ in range(2):  # what only the first one finds is of tests before
                    handle(version, path, MANY)
                    left = _left()
            finally:
                gc.enable()
            assert len(left) <= OBJECTS_MAX, f"{row} {version}, {path}: {_named(left)}"


def _uncounted(turn: Callable[[], object]) -> int:
    turn()
    return 0


def _left() -> list[Any]:
    """What is only held by itself."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return list(gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def _named(left: list[Any]) -> dict[str, int]:
    names = [type(one).__name__ for one in left]
    return {name: names.count(name) for name in sorted(set(names))}
