"""What brokers pass on to the active controller, and what they do not."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.node.api.forwarding import Forwarder
from actors.node.net.connections import Connection, Slot
from actors.node.runtime.calls import Call, Listener
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
