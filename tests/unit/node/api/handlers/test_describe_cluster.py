"""Controllers are described by controllers (KIP-919)."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.node.api import handlers as rpc
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Listener
from actors.wire.messages import message
from tests.served import TABLE

rpc.load()
PLACES = {1001: ("h1", 9093), 1002: ("h2", 9093)}


def asked(listener: Listener, endpoint_type: int) -> Any:
    context: Any = SimpleNamespace(
        cluster_id="c",
        quorum=SimpleNamespace(
            leader_id=1002,
            identity=SimpleNamespace(
                voters=SimpleNamespace(ids=lambda: (1001, 1002, 1003)), addresses=SimpleNamespace(find=PLACES.get)
            ),
        ),
    )
    request = message("DescribeClusterRequest")(endpoint_type=endpoint_type)
    call = Call(1, listener, "L", 60, 2, None, "h", "User:ANONYMOUS", memoryview(b""))
    answer = TABLE[listener, 60].handler(context, request, call)
    assert isinstance(answer, Done)
    return answer.reply


def test_any_controller_names_all_that_can_be_reached_and_who_is_active() -> None:
    reply = asked(Listener.CONTROLLER, 2)
    assert (reply.error_code, reply.endpoint_type, reply.cluster_id, reply.controller_id) == (0, 2, "c", 1002)
    assert {one.broker_id: (one.host, one.port) for one in reply.brokers} == PLACES


@pytest.mark.parametrize(
    ("listener", "kind", "code"),
    [
        (Listener.CONTROLLER, 1, 114),
        (Listener.CLIENT, 2, 114),
        (Listener.CONTROLLER, 3, 115),
        (Listener.CLIENT, 0, 115),
    ],
)
def test_who_asks_the_wrong_kind_of_node_is_told_so(listener: Listener, kind: int, code: int) -> None:
    reply = asked(listener, kind)
    assert reply.error_code == code and not reply.brokers
