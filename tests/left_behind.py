"""What requests leave behind in a node's memory, measured, and what of it the ledger knows.

Requests are made from the schemas (`tests/heaviest.py`), for each API and each list in it, and are sent over connections
that stay open. What the source of rayft has allocated and still holds a second later is compared with what the ledger says
(`actors/ledger.py`). An owner that keeps something and does not say so is found whoever wrote it.
"""

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

from actors.broker.coordinators import java_hash
from actors.node.api import handlers
from actors.node.runtime.calls import Listener
from actors.wire.messages import message, plan
from tests.heaviest import heavy, lists
from tests.heavy_nodes import ON_BROKERS, Nodes
from tests.simulator.strangers import Connection
from tests.simulator.test_random_bodies import LISTENERS

handlers.load()
COUNT = 200
"""Elements of the list in which a request is heavy."""
TEXT = "x" * 200
"""What each name is made longer by: who keeps names keeps that."""
DATA = b"d" * 2_000
"""In place of bytes."""
OF_SOURCE = [tracemalloc.Filter(True, "*/actors/*"), tracemalloc.Filter(True, "*/fastpath/*")]
SETTLE_MS = 300


class Left(NamedTuple):
    """Bytes that are held because of some requests: measured, and as the ledger says. `where`: the lines that hold most."""

    measured: int
    told: int
    where: list[str]

    @property
    def unknown(self) -> int:
        """What the ledger does not know."""
        return self.measured - self.told


def left_behind(nodes: Nodes, listener: Listener, name: str, version: int, salt: int) -> Left:
    """What the requests of an API leave, one for each of its lists. `salt`: makes their names their own."""
    process = nodes.broker if listener in ON_BROKERS else nodes.controller
    node: Any = process.node
    paths = lists(message(f"{name}Request"), version)
    connections = [Connection(nodes.world, process, LISTENERS[listener][0], nodes.principal) for _ in paths]
    nodes.world.run_for(10)
    frames = [
        salted(heavy(name, version, path, COUNT), version, f"{salt}-{place}-") for place, path in enumerate(paths)
    ]
    for kind in ("Request", "Response"):
        plan(message(name + kind), version)  # which is read from the schemas once
    for each in (nodes.broker.node, nodes.controller.node):
        for key in (key for rows in each.requests._served.values() for key in rows):
            assert each.requests.connections.meters[key]  # which is made once an API
    before, told = _held(), sum(size for _, size in node.runtime.ledger.kept())
    for connection, body in zip(connections, frames, strict=True):
        connection.ask(name, version, body)
    frames.clear()
    del body
    nodes.world.run_for(SETTLE_MS)
    for connection in connections:
        connection.answers.clear()
    after, told_after = _held(), sum(size for _, size in node.runtime.ledger.kept())
    where = [str(one) for one in after.compare_to(before, "lineno")[:4]]
    measured = sum(one.size for one in after.traces) - sum(one.size for one in before.traces)
    for connection in connections:
        connection.leave()
    nodes.world.run_for(10)
    return Left(measured, told_after - told, where)


def salted(body: Any, version: int, prefix: str) -> Any:
    """A request whose names nobody else has, and whose bytes are long."""
    for field, child in zip(body.__struct__.fields, body.__layout__.children, strict=True):
        value = getattr(body, field.attribute)
        change: Callable[[Any], Any] | None = None
        if child is not None:
            change = lambda one: salted(one, version, prefix)  # noqa: E731
        elif field.type == "string" and field.attribute not in ("protocol_type", "cluster_id"):
            change = lambda one: f"{prefix}{one}{TEXT}"  # noqa: E731
        elif field.type == "bytes":
            change = lambda one: DATA  # noqa: E731
        elif field.attribute in ("session_epoch", "share_session_epoch") and version in field.versions:
            setattr(body, field.attribute, 0)  # a session begins
        if change is not None and value is not None and version in field.versions:
            setattr(body, field.attribute, [change(one) for one in value] if isinstance(value, list) else change(value))
    return body


def _held() -> tracemalloc.Snapshot:
    java_hash._kept.cache_clear()  # it remembers 4,096 names, whoever asks
    gc.collect()
    return tracemalloc.take_snapshot().filter_traces(OF_SOURCE)
