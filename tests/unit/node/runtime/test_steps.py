"""Steps that take too long are told by name: those that are measured, and those that count more than a slice."""

from collections.abc import Iterator
from typing import Any

import pytest

from actors.node.runtime import steps
from actors.node.runtime.answers import Done, Sliced
from actors.node.runtime.slices import ENTRIES_A_SLICE, SliceCount, Steps, go_on, put_in_order
from actors.node.runtime.steps import AT_ONCE_MAX, COUNTED, LONG_NS, TOLD_NS, Counted
from actors.wire.messages import message
from tests.numbers import numbers
from tests.simulator.cluster import Client
from tests.unit.node.net.test_request_channel import Lab


@pytest.fixture(autouse=True)
def nothing_counted() -> Iterator[None]:
    COUNTED.overruns.clear()
    yield
    COUNTED.overruns.clear()


def done(answer: Any) -> Any:
    while isinstance(answer, Sliced):
        answer = answer.again()
    return answer


def works(entries: int, *, gives_up: bool) -> Steps:
    pace = SliceCount()
    for _ in range(entries):
        if pace.over() and gives_up:
            yield
    yield
    return Done(None)


@pytest.mark.parametrize("entries", [10, ENTRIES_A_SLICE, 2 * ENTRIES_A_SLICE - 1, 10 * ENTRIES_A_SLICE])
def test_a_step_that_does_not_give_up_its_slice_is_found(entries: int) -> None:
    done(go_on(works(entries, gives_up=True)))
    assert not COUNTED.overruns
    done(go_on(works(entries, gives_up=False)))
    assert list(COUNTED.overruns) == ([] if entries < 2 * ENTRIES_A_SLICE else ["works"])


@pytest.mark.parametrize("names", [1, ENTRIES_A_SLICE, 10 * ENTRIES_A_SLICE])
def test_steps_within_steps_are_found_to_give_up_theirs(names: int) -> None:
    def within() -> Steps:
        pace = SliceCount()
        for _ in range(2):
            found = yield from put_in_order([str(number % 999) for number in range(names)], pace)
            if pace.over(len(found)):
                yield
        return Done(found)

    assert done(go_on(within())).reply == sorted({str(number % 999) for number in range(names)})
    assert not COUNTED.overruns


@pytest.mark.parametrize("entries", [AT_ONCE_MAX, AT_ONCE_MAX + 1])
def test_too_much_in_one_go_is_found(entries: int) -> None:
    assert SliceCount().over(entries)
    assert bool(COUNTED.overruns) == (entries > AT_ONCE_MAX)


def test_what_takes_long_is_counted_by_name_and_told_once() -> None:
    lines: list[str] = []
    of = steps.Steps(lines.append, counted := Counted())
    for spent_ns in (LONG_NS, TOLD_NS - 1, TOLD_NS, 3 * TOLD_NS, LONG_NS):
        of.took("Metadata", spent_ns)
        of.turn_took(None, spent_ns + 1)
    of.took("Fetch", LONG_NS)
    assert of.long == {"Metadata": (5, 3 * TOLD_NS), "Fetch": (1, LONG_NS)}
    assert of.longest_turn_ns == 3 * TOLD_NS + 1
    assert len(lines) == 1 and "Metadata took 100 ms in one step" in lines[0]
    of.turn_took(print, LONG_NS)
    of.turn_took(print, LONG_NS)
    of.turn_took(None, LONG_NS)
    assert of.long["Turn:print"] == (1, LONG_NS) and of.long["Turn"] == (1, LONG_NS)
    counted.overran("some_handler", 900)
    counted.overran("some_handler", 600)
    for _ in range(3):
        of.look()
    assert len(lines) == 2 and "some_handler looked at 900 entries in one step" in lines[1]


class Watch:
    """A stopwatch on which each reading takes so long."""

    def __init__(self, ns: int) -> None:
        self.ns = ns
        self.now_ns = 0

    def __call__(self) -> int:
        self.now_ns += self.ns
        return self.now_ns


@pytest.mark.parametrize("ns", [LONG_NS - 1, LONG_NS, TOLD_NS])
def test_a_node_tells_which_api_took_long(ns: int) -> None:
    lab = Lab()
    process = lab.world.processes["b1"]
    node: Any = process.node
    client = Client(lab.world, "client")
    kind = message("MetadataRequest")
    client.call("b1", "Metadata", 9, kind(topics=[]))
    node.runtime.steps.long.clear()
    node.runtime.stopwatch = Watch(ns)
    for _ in range(2):
        client.call("b1", "Metadata", 9, kind(topics=[]))
    told = [line for line in lab.world.lines if "Metadata took" in line]
    assert len(told) == (ns >= TOLD_NS)
    if ns < LONG_NS:
        assert not node.runtime.steps.long
        return
    assert node.runtime.steps.long["Metadata"] == (2, ns)
    node.took(5 * ns)
    shown = numbers(node.metrics())
    assert shown['rayft_long_steps_total{step="Metadata"}'] == 2
    assert shown['rayft_long_step_max_ms{step="Metadata"}'] == ns / 1_000_000
    assert shown["rayft_longest_turn_ms"] == 5 * ns / 1_000_000
