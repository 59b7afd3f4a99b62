"""What brokers pass on to the active controller, and what they do not."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.node.api.forwarding import Forwarder
from actors.node.net.channels import ChannelError
from actors.node.net.connections import Connection, Slot
from actors.node.runtime.calls import Call, Listener
from actors.node.runtime.waiting import Waiting
from actors.ports import Now
from actors.wire import framing

FRAME_BYTES_MAX = 100_000


class Broker:
    """As much of a node as forwarding needs."""

    def __init__(self) -> None:
        self.runtime: Any = self
        self.now = Now(0, 0)
        self.config = SimpleNamespace(value={"socket.request.max.bytes": FRAME_BYTES_MAX}.__getitem__)
        self.channels = self
        self.asked: list[Any] = []
        self.closed: list[str] = []

    def controller(self, name: str, request: Any, then: Any, timeout_ms: int, **more: Any) -> None:
        self.asked.append(request)

    def close(self, connection: Connection, why: str) -> None:
        self.closed.append(why)


def forward(size: int) -> Broker:
    broker = Broker()
    connection = Connection(1, Listener.CLIENT, "PLAINTEXT", "::1")
    call = Call(1, Listener.CLIENT, "PLAINTEXT", 19, 7, None, "::1", "User:ANONYMOUS", memoryview(bytes(size)))
    anything: Any = broker
    Forwarder(anything, anything, anything, lambda connection, key: True).forward(
        Slot(connection, size), call, lambda data: data
    )
    return broker


@pytest.mark.parametrize("short", [0, 50, 100, 1000, 2000])
def test_what_does_not_fit_into_an_envelope_is_not_tried_again_and_again(short: int) -> None:
    broker = forward(FRAME_BYTES_MAX - short)
    assert len(broker.asked) + len(broker.closed) == 1
    for envelope in broker.asked:
        frame = framing.encode_request("Envelope", 0, 1, "rayft-1", envelope)
        assert sum(map(len, frame)) - 4 <= FRAME_BYTES_MAX
    assert bool(broker.closed) == (short < 1024)


class Without:
    """A broker that knows no controller, until it does."""

    def __init__(self, requests: int) -> None:
        self.runtime: Any = self
        self.now = Now(0, 0)
        self.waiting = Waiting()
        self.config = SimpleNamespace(value={"socket.request.max.bytes": FRAME_BYTES_MAX}.__getitem__)
        self.there = False
        self.asked: list[bytes] = []
        self.answered: list[Slot] = []
        self.closed: list[Connection] = []
        self.slots: list[Slot] = []
        self.pending: list[Any] = []
        anything: Any = self
        self.forwarder = Forwarder(anything, anything, anything, lambda connection, key: True)
        for _ in range(requests):
            self.forward()

    def forward(self) -> None:
        number = len(self.slots)
        slot = Slot(Connection(number, Listener.CLIENT, "PLAINTEXT", "::1"), 4)
        self.slots.append(slot)
        frame = memoryview(number.to_bytes(4, "big"))
        call = Call(number, Listener.CLIENT, "PLAINTEXT", 19, 7, None, "::1", "User:ANONYMOUS", frame)
        self.forwarder.forward(slot, call, lambda data: data)
        self.settle()

    def controller(self, name: str, request: Any, then: Any, timeout_ms: int, **more: Any) -> None:
        self.asked.append(bytes(request.request_data))
        reply = SimpleNamespace(error_code=0, response_data=b"answer")
        self.pending.append(lambda: then(reply if self.there else ChannelError("no controller", "nobody")))

    def settle(self) -> None:
        while self.pending:
            self.pending.pop(0)()

    def answer(self, slot: Slot, parts: Any) -> None:
        self.answered.append(slot)

    def close(self, connection: Connection, why: str) -> None:
        connection.closed = True
        self.closed.append(connection)

    def pass_ms(self, ms: int) -> None:
        for _ in range(ms):
            self.now = Now(self.now.mono_ms + 1, 0)
            self.waiting.begin_turn(1 << 62)
            self.waiting.expire(self.now.mono_ms)
            self.settle()


def test_without_a_controller_one_request_asks_for_all() -> None:
    """3,200 requests that each ask every 20 ms take a whole processor."""
    broker = Without(1000)
    first = len(broker.asked)
    assert first <= 2, "those that come later wait at once"
    broker.pass_ms(2000)
    assert 90 <= len(broker.asked) - first <= 101
    broker.there = True
    broker.pass_ms(60)
    assert broker.answered == broker.slots, "each once, in order"
    broker.forward()
    assert broker.answered == broker.slots


def test_a_request_that_waits_for_a_controller_has_an_end_and_takes_nobody_along() -> None:
    broker = Without(3)
    broker.slots[0].connection.closed = True
    broker.pass_ms(29_000)
    broker.forward()
    broker.pass_ms(1_100)
    assert broker.closed == [slot.connection for slot in broker.slots[1:3]]
    broker.there = True
    broker.pass_ms(40)
    assert broker.answered == broker.slots[3:]


def test_a_first_request_whose_connection_closes_while_it_asks_keeps_nobody_waiting() -> None:
    broker = Without(3)
    broker.there = True
    hold, broker.settle = broker.settle, lambda: None  # type: ignore[method-assign]
    broker.pass_ms(20)
    assert len(broker.pending) == 1
    broker.slots[0].connection.closed = True
    broker.settle = hold  # type: ignore[method-assign]
    broker.pass_ms(20)
    assert broker.answered == broker.slots[1:]
