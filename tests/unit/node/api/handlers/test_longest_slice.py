"""The heaviest requests of every API: no slice of any of them grows with the request.

The requests are made from the schemas (`tests/heaviest.py`), for each API, each list in it, and the oldest and the newest
version. They are sent by a peer without rights, and on nodes without an authorizer. What is counted are lines of source that
a turn runs: the machine's speed has no part in it.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from actors.node.runtime.calls import Listener
from actors.settings.node_config import node_config
from actors.wire import framing
from actors.wire.messages import message
from tests.counted import lines_of
from tests.heaviest import heavy, lists
from tests.served import TABLE
from tests.simulator.cluster import Cluster, directory_id
from tests.simulator.test_random_bodies import BRIDGE, LISTENERS, PROTOCOLS, SECURE, settings_of
from tests.simulator.world import World

pytestmark = pytest.mark.long

FEW, MANY = 700, 2800
"""Entries of a request: several slices each."""
LINES_MAX = 40_000
"""A slice of 300 entries takes up to 100 lines each."""
LONG_NS = 1 << 50
HOST = "10.9.9.9"
ON_BROKERS = (Listener.CLIENT, Listener.INTER_BROKER, Listener.CONTROL_PLANE)


class Nodes:
    """A controller and a broker whose turns are counted."""

    def __init__(self, secure: bool) -> None:
        self.principal = "User:alice" if secure else None
        given = SECURE if secure else SECURE | {"authorizer.class.name": ""}
        self.world = World(5)
        places = {"listener.security.protocol.map": PROTOCOLS}
        self.cluster = Cluster(self.world, controllers=1, brokers=0, config={**given, **BRIDGE, **places})
        settings = settings_of(1) | given | {"controller.connect": "1001@c1001:9000"}
        self.broker = self.cluster.brokers[1] = self.cluster._process("b1", node_config(settings), directory_id(1))
        self.cluster.start()
        assert self.world.run_until(self.cluster.ready, 60_000)
        controller = self.cluster.active()
        assert controller is not None
        self.controller = controller
        self._conns = 10_000

    def longest(self, listener: Listener, name: str, version: int, body: Any) -> int:
        """The most lines that a turn ran for a request."""
        return self.handle(listener, name, version, body, lines_of)

    def handle(
        self, listener: Listener, name: str, version: int, body: Any, counted: Callable[[Callable[[], object]], int]
    ) -> int:
        """Handle a request, turn by turn. The most that a turn was, as `counted` runs it."""
        process = self.broker if listener in ON_BROKERS else self.controller
        node: Any = process.node
        self._conns += 1
        conn = self._conns
        node.connected(conn, LISTENERS[listener][0], HOST, 0, self.principal)
        node.turn(process.now(), LONG_NS)
        frame = b"".join(framing.encode_request(name, version, 1, "c", body))[4:]
        node.received(conn, memoryview(bytearray(frame)))
        most = 0
        while True:
            most = max(most, counted(lambda: node.turn(process.now(), LONG_NS)))
            if not node.requests.queue.ready():
                break
        node.closed(conn, False)
        node.turn(process.now(), LONG_NS)
        assert not self.world.errors, self.world.errors[-1]
        return most


def rows() -> list[tuple[Listener, str, range]]:
    """What is served, each handler once."""
    found: dict[Any, tuple[Listener, str, range]] = {}
    for (listener, _), api in TABLE.items():
        if has_schema(api.name):
            found.setdefault(api.handler, (listener, api.name, api.versions))
    return sorted(found.values(), key=lambda row: (row[1], row[0].value))


def has_schema(name: str) -> bool:
    """Whether the request is laid out as in released Kafka."""
    try:
        message(f"{name}Request")
    except KeyError:
        return False
    return True


@pytest.fixture(scope="module", params=["without rights", "without an authorizer"])
def nodes(request: pytest.FixtureRequest) -> Iterator[Nodes]:
    yield Nodes(request.param == "without rights")


@pytest.mark.parametrize(("listener", "name", "versions"), rows(), ids=lambda one: getattr(one, "value", str(one)))
def test_no_slice_grows_with_the_request(nodes: Nodes, listener: Listener, name: str, versions: range) -> None:
    for version in sorted({versions[0], versions[-1]}):
        for path in lists(message(f"{name}Request"), version)[1:]:
            few, many = (
                nodes.longest(listener, name, version, heavy(name, version, path, count)) for count in (FEW, MANY)
            )
            assert many <= max(1.3 * few, 22_000), f"{name} {version}, {path}: {few} lines, then {many}"
            assert many <= LINES_MAX, f"{name} {version}, {path}: {many} lines"
