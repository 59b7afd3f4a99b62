"""The heaviest requests of every API: no slice of any of them grows with the request.

The requests are made from the schemas (`tests/heaviest.py`), for each API, each list in it, and the oldest and the newest
version, also in an Envelope. Every kind of sender sends them (`tests/heavy_nodes.py`). What is counted are lines of source
that a turn runs: the machine's speed has no part in it.
"""

from collections.abc import Callable, Iterator

import pytest

from actors.node.runtime.steps import AT_ONCE_MAX
from actors.wire.messages import message
from tests.counted import lines_of
from tests.heaviest import heavy, lists
from tests.heavy_nodes import NO_AUTHORIZER, SENDERS, Nodes, Row, rows, widest

pytestmark = pytest.mark.long

FEW, MANY = 700, 2800
"""Entries of a request: several slices each."""
LINES_MAX = 40_000
"""A slice of 300 entries takes up to 100 lines each."""


@pytest.fixture(scope="module", params=SENDERS)
def nodes(request: pytest.FixtureRequest) -> Iterator[Nodes]:
    yield Nodes(request.param)


@pytest.mark.parametrize("row", rows(), ids=str)
def test_no_slice_grows_with_the_request(nodes: Nodes, row: Row) -> None:
    for version in sorted({row.versions[0], row.versions[-1]}):
        for path in lists(message(f"{row.name}Request"), version)[1:]:
            few, many = (
                nodes.run(row.listener, [nodes.asked(row, version, heavy(row.name, version, path, count))], lines_of)
                for count in (FEW, MANY)
            )
            assert many <= max(1.3 * few, 22_000), f"{row} {version}, {path}: {few} lines, then {many}"
            assert many <= LINES_MAX, f"{row} {version}, {path}: {many} lines"


@pytest.fixture(scope="module")
def open_nodes() -> Nodes:
    return Nodes(NO_AUTHORIZER)


@pytest.mark.parametrize("row", rows(), ids=str)
def test_no_step_counts_ten_slices_in_one_go(open_nodes: Nodes, row: Row) -> None:
    """What such a step does may be one line. Those that do are found behind the test (`no_step_overruns`)."""

    def uncounted(turn: Callable[[], object]) -> int:
        return bool(turn())

    path, count = widest(row, 1)
    body = heavy(row.name, row.versions[-1], path, min(count, AT_ONCE_MAX + 1000))
    open_nodes.run(row.listener, [open_nodes.asked(row, row.versions[-1], body)], uncounted)
