"""What the heaviest requests of every API take in memory: alone, and sixteen in a row behind a Fetch that waits.

The requests are made from the schemas (`tests/heaviest.py`), have a hundredth of what is let in, and a tenth from every kind
of sender (`tests/heavy_nodes.py`). What is counted are the bytes that Python has given out while a turn runs.
"""

import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from actors.node.net import long_requests
from actors.node.net.long_requests import ENTRY_BYTES
from actors.wire import limits
from tests.heaviest import heavy
from tests.heavy_nodes import NO_AUTHORIZER, SENDERS, Nodes, Row, rows, widest

pytestmark = pytest.mark.long

IN_A_ROW = 16
PER_MESSAGE_BYTES = 1 << 19
"""What a turn takes besides, and what is made once an API."""
ANSWERS_BYTES = 1 << 20
"""Answers behind one that waits, of a connection; one more may come."""


class Peak:
    """The most bytes that Python had given out in a turn, above what it had before."""

    def __init__(self) -> None:
        tracemalloc.start(1)
        self.bytes = 0
        self._before = tracemalloc.get_traced_memory()[0]

    def __call__(self, turn: Callable[[], object]) -> int:
        tracemalloc.reset_peak()
        turn()
        self.bytes = max(self.bytes, tracemalloc.get_traced_memory()[1] - self._before)
        return self.bytes


SIZES = [
    pytest.param((NO_AUTHORIZER, 100), id=f"{NO_AUTHORIZER}-100"),
    *(pytest.param((sender, 10), id=f"{sender}-10", marks=pytest.mark.slow) for sender in SENDERS),
]
"""Who sends which part of what is let in."""


@pytest.fixture(scope="module", params=SIZES)
def nodes(request: pytest.FixtureRequest) -> Iterator[tuple[Nodes, int]]:
    sender, part = request.param
    yield Nodes(sender), part


@pytest.fixture
def traced() -> Iterator[type[Peak]]:
    yield Peak
    tracemalloc.stop()


@pytest.mark.parametrize("row", rows(), ids=str)
def test_a_request_takes_no_more_than_it_counts_for(nodes: tuple[Nodes, int], row: Row, traced: type[Peak]) -> None:
    (lab, part), version = nodes, row.versions[-1]
    path, count = widest(row, part)
    frame = lab.asked(row, version, heavy(row.name, version, path, count))
    lab.run(row.listener, [lab.asked(row, version, heavy(row.name, version, (), 1))], lambda turn: 0 * bool(turn()))
    peak = traced()
    lab.run(row.listener, [frame], peak)
    entries = limits.entries_max(row.name) // part
    most = 2 * len(frame) + entries * ENTRY_BYTES + PER_MESSAGE_BYTES
    assert peak.bytes <= most, f"{row} {path}: {peak.bytes / 1e6:.1f} MB of {most / 1e6:.1f}, {count} elements"


@pytest.mark.parametrize("row", rows(), ids=str)
def test_sixteen_in_a_row_take_no_more_than_the_bound_and_one(
    nodes: tuple[Nodes, int], row: Row, traced: type[Peak], monkeypatch: pytest.MonkeyPatch
) -> None:
    (lab, part), version = nodes, row.versions[-1]
    path, count = widest(row, part)
    count = max(1, count // IN_A_ROW)
    bound = long_requests.BYTES_MAX // part // IN_A_ROW
    monkeypatch.setattr(long_requests, "BYTES_MAX", bound)
    frame = lab.asked(row, version, heavy(row.name, version, path, count))
    waits = [lab.waiting_fetch()] if lab.process(row.listener) is lab.broker else []
    lab.run(row.listener, [lab.asked(row, version, heavy(row.name, version, (), 1))], lambda turn: 0 * bool(turn()))
    held = lab.process(row.listener).node.requests.connections
    before = (held.long_requests.bytes, held.bytes_held, held.behind_bytes)
    assert not before[0]
    peak = traced()
    lab.run(row.listener, [*waits, *[frame] * IN_A_ROW], peak)
    one = limits.entries_max(row.name) // part // IN_A_ROW * ENTRY_BYTES
    most = 2 * IN_A_ROW * len(frame) + 2 * (bound + one) + ANSWERS_BYTES + one + PER_MESSAGE_BYTES
    assert peak.bytes <= most, f"{row} {path}: {peak.bytes / 1e6:.1f} MB of {most / 1e6:.1f}, {count} elements each"
    assert (held.long_requests.bytes, held.bytes_held, held.behind_bytes) == before, "it is given back"
