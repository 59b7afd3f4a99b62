"""Who is a broker is known from the listener and the rights, never from what a request says of itself."""

from typing import Any

import pytest

from actors.node.api.throttling import _exempt
from actors.node.runtime.calls import Call, Listener
from actors.wire import framing
from actors.wire.messages import message
from tests.heavy_nodes import LONG_NS, NO_AUTHORIZER, NO_RIGHTS, Nodes
from tests.served import TABLE


@pytest.fixture(scope="module", params=[NO_RIGHTS, NO_AUTHORIZER])
def nodes(request: pytest.FixtureRequest) -> Nodes:
    return Nodes(request.param)


def call(listener: str, principal: str, key: int, version: int) -> Call:
    return Call(1, Listener.CLIENT, listener, key, version, None, "10.9.9.9", principal, memoryview(b""))


@pytest.mark.parametrize(("key", "version"), [(24, 4), (24, 5), (27, 1), (24, 3), (3, 13)])
def test_a_version_makes_nobody_a_broker(nodes: Nodes, key: int, version: int) -> None:
    node: Any = nodes.broker.node
    context = node.dispatch.broker
    api = TABLE[Listener.CLIENT, key]
    secure = nodes.principal is not None
    for listener, principal in (
        ("PLAINTEXT", "User:ANONYMOUS"),
        ("INTERNAL", "User:alice"),
        ("INTERNAL", "User:ANONYMOUS"),
    ):
        plain = type("Plain", (), {"replica": False})()
        broker = listener == "INTERNAL" and not (secure and principal == "User:alice")
        exempt = _exempt(context, plain, api, call(listener, principal, key, version))
        assert exempt is (broker and (key, version) in ((24, 4), (24, 5), (27, 1))), (listener, principal)
        replica = type("Replica", (), {"replica": True})()
        assert _exempt(context, replica, api, call(listener, principal, key, version)), "a broker has fetched on it"


@pytest.mark.parametrize("listener", ["PLAINTEXT", "INTERNAL"])
def test_a_fetch_in_a_brokers_name_is_none_of_a_broker_on_a_clients_listener(nodes: Nodes, listener: str) -> None:
    node: Any = nodes.broker.node
    epoch = nodes.controller.node.controller.image.broker(1).epoch  # type: ignore[union-attr]
    kind = message("FetchRequest")
    body = kind(
        replica_state=kind.ReplicaState(replica_id=1, replica_epoch=epoch),
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        topics=[],
    )
    nodes._conns += 1
    conn = nodes._conns
    node.connected(conn, listener, "10.9.9.9", 0, None)
    node.turn(nodes.broker.now(), LONG_NS)
    frame = b"".join(framing.encode_request("Fetch", 17, 1, "c", body))[4:]
    node.received(conn, memoryview(bytearray(frame)))
    node.turn(nodes.broker.now(), LONG_NS)
    assert node.requests.connections.get(conn).replica is (listener == "INTERNAL")
