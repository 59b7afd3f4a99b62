"""What brokers pass on to the active controller, and what they do not."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.node.api.forwarding import ALL_BYTES_MAX, Forwarder
from actors.node.net.channels import ChannelError
from actors.node.net.connections import Connection, Connections, Slot
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
        self.connections = self
        self.asked: list[Any] = []
        self.closed: list[str] = []

    def give_back(self, slot: Slot) -> None:
        slot.bytes_held = 0

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
        self.config = SimpleNamespace(value={"socket.request.max.bytes": 100 << 20}.__getitem__)
        self.connections = Connections(1 << 40)
        self.there = False
        self.asked: list[int] = []
        self.answered: list[Slot] = []
        self.closed: list[Connection] = []
        self.slots: list[Slot] = []
        self.pending: list[Any] = []
        anything: Any = self
        self.forwarder = Forwarder(anything, anything, anything, lambda connection, key: True)
        for _ in range(requests):
            self.forward()

    def forward(self, host: str = "::1", size: int = 4, connection: Connection | None = None) -> Slot:
        """Pass on a request, of a connection of its own if none is given."""
        number = len(self.slots)
        if connection is None:
            connection = Connection(number, Listener.CLIENT, "PLAINTEXT", host)
            self.connections.opened(connection)
        frame = memoryview(number.to_bytes(4, "big") + bytes(size - 4))
        slot = self.connections.begin(connection, frame)
        assert slot is not None
        self.slots.append(slot)
        call = Call(connection.id, Listener.CLIENT, "PLAINTEXT", 19, 7, None, host, "User:ANONYMOUS", frame)
        self.forwarder.forward(slot, call, lambda data: data)
        self.settle()
        return slot

    def controller(self, name: str, request: Any, then: Any, timeout_ms: int, **more: Any) -> None:
        self.asked.append(int.from_bytes(request.request_data[:4], "big"))
        reply = SimpleNamespace(error_code=0, response_data=b"answer")
        self.pending.append(lambda: then(reply if self.there else ChannelError("no controller", "nobody")))

    def when_closed(self, conn: int, name: str, function: Any) -> None:
        connection = self.connections.get(conn)
        assert connection is not None
        connection.when_closed[name] = function

    def settle(self) -> None:
        while self.pending:
            self.pending.pop(0)()

    def answer(self, slot: Slot, parts: Any) -> None:
        self.answered.append(slot)
        self.connections.answer(slot, parts)

    def close(self, connection: Connection, why: str) -> None:
        self.connections.close(connection)
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
    broker.connections.gone(0)
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
    broker.connections.gone(0)
    broker.settle = hold  # type: ignore[method-assign]
    broker.pass_ms(20)
    assert broker.answered == broker.slots[1:]


def test_a_request_that_takes_long_does_not_keep_the_others_from_the_controller() -> None:
    """The first of the line is taken, and not answered: another one asks after half a second, and no swarm."""
    broker = Without(200)
    broker.pass_ms(30)
    broker.settle = lambda: None  # type: ignore[method-assign]
    broker.pass_ms(20)
    first = broker.pending.pop()
    asked = len(broker.asked)
    broker.pass_ms(489)
    assert len(broker.asked) == asked
    broker.pass_ms(2)
    assert len(broker.asked) == asked + 1
    broker.there = True
    del broker.settle  # type: ignore[attr-defined]
    broker.pass_ms(5)
    assert len(broker.answered) == 199
    first()
    assert sorted(slot.connection.id for slot in broker.answered) == list(range(200))
    assert broker.forwarder.bytes_held == 0


def test_a_request_that_loses_the_connection_each_time_keeps_nobody_else_from_the_controller() -> None:
    """A controller may take less than this broker, or be of another release."""
    broker = Without(0)
    pending: list[tuple[int, Any]] = []

    def controller(name: str, request: Any, then: Any, timeout_ms: int, **more: Any) -> None:
        pending.append((int.from_bytes(request.request_data[:4], "big"), then))

    def settle() -> None:
        """What is sent before the connection breaks has its answer only if that left."""
        while pending:
            sent = pending[:]
            pending.clear()
            breaks = any(number == 0 for number, _ in sent)
            for _, then in sent:
                answer: Any = SimpleNamespace(error_code=0, response_data=b"answer")
                then(ChannelError("lost", "it broke") if breaks else answer)

    broker.controller = controller  # type: ignore[method-assign]
    broker.settle = settle  # type: ignore[method-assign]
    broker.forward()
    for _ in range(5):
        broker.forward("10.0.0.2")
        broker.forward()
        broker.pass_ms(7)
    broker.pass_ms(1000)
    assert sorted(slot.connection.id for slot in broker.answered) == list(range(1, 11))
    broker.pass_ms(30_000)
    assert broker.closed == [broker.slots[0].connection]
    assert broker.forwarder.bytes_held == 0


def test_hosts_take_turns_when_a_controller_is_there_again() -> None:
    broker = Without(500)
    late = broker.forward("10.0.0.2")
    broker.pass_ms(50)
    broker.there = True
    broker.pass_ms(22)
    assert late in broker.answered[:3] and len(broker.answered) == 501


def test_what_is_on_its_way_to_a_controller_holds_no_room_of_others() -> None:
    broker = Without(0)
    for _ in range(3):
        broker.forward(size=5 << 20)
    assert broker.connections.bytes_held == 0 and broker.forwarder.bytes_held == 15 << 20
    refused = broker.forward(size=5 << 20)
    assert broker.closed == [refused.connection]
    other = broker.forward("10.0.0.2", size=7 << 20)
    assert not other.connection.closed and broker.forwarder.bytes_held == 22 << 20
    broker.there = True
    broker.pass_ms(50)
    assert len(broker.answered) == 4
    assert broker.forwarder.bytes_held == 0 and not broker.forwarder._bytes


@pytest.mark.parametrize("hosts", [7, 40])
def test_all_hosts_together_have_a_bound_too_and_each_may_have_one(hosts: int) -> None:
    broker = Without(0)
    for host in range(hosts):
        for _ in range(10):
            broker.forward(f"10.0.0.{host}", size=7 << 20)
    assert all(any(not slot.connection.closed for slot in broker.slots[10 * host :][:10]) for host in range(hosts))
    assert broker.forwarder.bytes_held <= ALL_BYTES_MAX + hosts * (7 << 20)


def test_connections_that_close_take_what_they_have_in_the_line_with_them() -> None:
    broker = Without(1)
    for round in range(50):
        slot = broker.forward(size=7 << 20)
        broker.forward(size=7 << 20, connection=slot.connection)
        assert not broker.closed
        assert broker.connections.gone(slot.connection.id)
        assert broker.forwarder.bytes_held == 4, round
    broker.connections.gone(0)
    broker.pass_ms(30)
    assert broker.forwarder.bytes_held == 0 and not broker.forwarder._bytes
