"""A request that works in slices: what runs between them, what stays behind it, and what ends it."""

from collections.abc import Callable
from typing import Any

import pytest

from actors.node.runtime.answers import Answer, Done, Sliced, mapped
from actors.node.runtime.calls import Call, Listener
from actors.wire.messages import message
from tests.served import SERVED
from tests.unit.node.net.test_request_channel import PLAIN, Lab, topics, versions

METADATA = (Listener.CLIENT, 3)
SLICES = 5


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Metadata takes five slices; (connection, slice) of each that ran."""
    ran: list[tuple[int, int]] = []

    def handler(node: Any, request: Any, call: Call) -> Answer:
        def piece(number: int) -> Answer:
            ran.append((call.connection, number))
            if number == SLICES:
                return Done(message("MetadataResponse")())
            return Sliced(lambda: piece(number + 1))

        return piece(1)

    listener, key = METADATA
    monkeypatch.setitem(SERVED[listener], key, SERVED[listener][key]._replace(handler=handler))
    return ran


def test_one_slice_a_turn_and_another_connection_is_answered_in_between(done: list[tuple[int, int]]) -> None:
    lab = Lab()
    long, other = lab.connect(PLAIN), lab.connect(PLAIN)
    lab.send(long, "Metadata", 9, topics())
    lab.send(long, "ApiVersions", 3, versions())
    for number in range(1, SLICES):
        assert lab.answered(lab.turn()) == ([] if number == 1 else [other])
        assert done == [(long, one) for one in range(1, number + 1)]
        assert lab.node.deadline_ms() == 0
        lab.send(other, "ApiVersions", 3, versions())
    assert sorted(lab.answered(lab.turn())) == [long, long, other]


def test_timers_run_between_slices(done: list[tuple[int, int]]) -> None:
    lab = Lab()
    lab.send(lab.connect(PLAIN), "Metadata", 9, topics())
    seen: list[int] = []

    def tick() -> None:
        seen.append(len(done))
        lab.node.runtime.waiting.timers.at(0, tick)

    tick()
    while len(done) < SLICES:
        lab.turn()
    assert seen == [0, 0, 1, 2, 3, 4]


def test_a_closed_connection_takes_the_rest_with_it(done: list[tuple[int, int]]) -> None:
    lab = Lab()
    long = lab.connect(PLAIN)
    lab.send(long, "Metadata", 9, topics())
    lab.send(long, "Metadata", 9, topics())
    lab.turn()
    lab.node.closed(long, False)
    for _ in range(3):
        lab.turn()
    # the turn that hears of the end may run no slice: it hears before the data lane
    assert done == [(long, 1)]
    assert lab.node.requests.connections.bytes_held == 0


def test_the_slices_of_an_envelope_are_slices_too() -> None:
    steps: list[Callable[[], Answer]] = [lambda: Sliced(lambda: Done(20))]
    first = mapped(steps[0](), lambda reply: reply + 1)
    assert isinstance(first, Sliced)
    assert first.again() == Done(21)
