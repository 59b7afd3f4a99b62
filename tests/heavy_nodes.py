"""A controller and a broker for the heaviest requests of every API, from every kind of sender, turn by turn.

The senders: a login without any right; one with all rights on names that begin with a prefix, as some of a heavy request do;
and anybody, where there is no authorizer. Requests are handled by the node's own turns, so that what each of them does can
be counted. What a turn wants done outside is dropped.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from actors.node.api.table import ENVELOPED
from actors.node.net.envelopes import principal_bytes
from actors.node.runtime.calls import Listener
from actors.settings.node_config import node_config
from actors.wire import framing
from actors.wire.messages import message
from tests.counted import lines_of
from tests.heaviest import Path, elements, lists
from tests.served import TABLE
from tests.simulator.cluster import Client, Cluster, directory_id
from tests.simulator.test_random_bodies import BRIDGE, LISTENERS, PROTOCOLS, SECURE, settings_of
from tests.simulator.world import World

NO_RIGHTS, SOME_RIGHTS, NO_AUTHORIZER = SENDERS = ("without rights", "with rights on a prefix", "without an authorizer")
USER, PREFIX, TOPIC = "User:alice", "name-1", "name-1-1"
"""The topic is there, and has a name that a heavy request says."""
LONG_NS = 1 << 50
HOST = "10.9.9.9"
ON_BROKERS = (Listener.CLIENT, Listener.INTER_BROKER, Listener.CONTROL_PLANE)
WAITS_MS = 60_000
TOPICS, GROUPS, TRANSACTIONAL_IDS = 2, 3, 5
"""Kinds of resources that a rule may have a prefix of."""
ALL, ALLOW, PREFIXED = 2, 3, 4

Counted = Callable[[Callable[[], object]], int]


class Row(NamedTuple):
    """A handler, and where it is reached."""

    listener: Listener
    name: str
    versions: range
    enveloped: bool = False
    """Whether it is asked in an Envelope."""

    def __str__(self) -> str:
        return f"{self.listener.value}-{self.name}{'-enveloped' * self.enveloped}"


class Nodes:
    """A controller and a broker whose turns are counted."""

    def __init__(self, sender: str) -> None:
        secure = sender != NO_AUTHORIZER
        self.principal = USER if secure else None
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
        self._prepare(sender == SOME_RIGHTS)

    def longest(self, listener: Listener, name: str, version: int, body: Any) -> int:
        """The most lines that a turn ran for a request."""
        return self.handle(listener, name, version, body, lines_of)

    def handle(self, listener: Listener, name: str, version: int, body: Any, counted: Counted) -> int:
        """Handle a request, turn by turn. The most that a turn was, as `counted` runs it."""
        return self.run(listener, [frame_of(name, version, body)], counted)

    def run(self, listener: Listener, frames: Sequence[bytes], counted: Counted) -> int:
        """Handle requests that come in a row on one connection. The most that a turn was, as `counted` runs it."""
        process = self.process(listener)
        node: Any = process.node
        self._conns += 1
        conn = self._conns
        node.connected(conn, LISTENERS[listener][0], HOST, 0, self.principal)
        node.turn(process.now(), LONG_NS)
        for frame in frames:
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

    def process(self, listener: Listener) -> Any:
        """The process that has the listener."""
        return self.broker if listener in ON_BROKERS else self.controller

    def asked(self, row: Row, version: int, body: Any) -> bytes:
        """A request as the sender's frame, or a broker's that asks in its name."""
        frame = frame_of(row.name, version, body)
        if not row.enveloped:
            return frame
        outer = message("EnvelopeRequest")(
            request_data=frame,
            request_principal=None if self.principal is None else principal_bytes(self.principal, False),
            client_host_address=bytes((10, 9, 9, 9)),
        )
        return frame_of("Envelope", 0, outer)

    def waiting_fetch(self) -> bytes:
        """A Fetch that waits for records of the topic, where the sender may read it."""
        kind = message("FetchRequest")
        part = kind.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = [kind.FetchTopic(topic=TOPIC, partitions=[part])]
        body = kind(max_wait_ms=WAITS_MS, min_bytes=1 << 20, max_bytes=1 << 20, session_epoch=-1, topics=topics)
        return frame_of("Fetch", 11, body)

    def _prepare(self, rights: bool) -> None:
        client = Client(self.world, "admin")
        kind = message("CreateTopicsRequest")
        topic = kind.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        reply = client.call("b1", "CreateTopics", 7, kind(topics=[topic], timeout_ms=20_000))
        assert reply.topics[0].error_code == 0, reply
        if rights:
            cls = message("CreateAclsRequest")
            rules = [
                cls.AclCreation(
                    resource_type=one,
                    resource_name=PREFIX,
                    resource_pattern_type=PREFIXED,
                    principal=USER,
                    host="*",
                    operation=ALL,
                    permission_type=ALLOW,
                )
                for one in (TOPICS, GROUPS, TRANSACTIONAL_IDS)
            ]
            reply = client.call("b1", "CreateAcls", 3, cls(creations=rules))
            assert not any(one.error_code for one in reply.results), reply
        self.world.run_for(1000)


def rows() -> list[Row]:
    """What is served, each handler once, and what a controller does for clients of brokers."""
    found: dict[Any, Row] = {}
    for (listener, _), api in TABLE.items():
        if has_schema(api.name):
            found.setdefault(api.handler, Row(listener, api.name, api.versions))
    enveloped = [Row(Listener.CONTROLLER, api.name, api.versions, True) for api in ENVELOPED.values()]
    return [*sorted(found.values(), key=lambda row: (row.name, row.listener.value)), *enveloped]


def widest(row: Row, part: int) -> tuple[Path, int]:
    """The list of the newest version in which a request has most elements, and how many these are."""
    version = row.versions[-1]
    found = [
        (elements(row.name, version, path, part), path) for path in lists(message(f"{row.name}Request"), version)[1:]
    ]
    count, path = max(found, default=(0, ()))
    return path, count


def has_schema(name: str) -> bool:
    """Whether the request is laid out as in released Kafka."""
    try:
        message(f"{name}Request")
    except KeyError:
        return False
    return True


def frame_of(name: str, version: int, body: Any) -> bytes:
    """A request as a frame without its length."""
    return b"".join(framing.encode_request(name, version, 1, "c", body))[4:]
