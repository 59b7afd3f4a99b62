"""Long requests that are read at once have a bound in memory, hosts take turns, and shorter requests pass by."""

from dataclasses import dataclass
from typing import Any

import pytest

from actors.node.net import long_requests
from actors.node.net.long_requests import ENTRY_BYTES, LONG_ENTRIES, LongRequests
from actors.node.runtime.calls import Listener
from actors.wire import framing
from actors.wire.messages import message
from tests.heaviest import heavy
from tests.heavy_nodes import NO_AUTHORIZER, Nodes
from tests.simulator.test_random_bodies import LISTENERS
from tests.unit.node.net.test_request_channel import PLAIN, Lab

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SHORT, LONG, LONGEST = 100, 1_000, 8_000
"""Topics of a Fetch; each has a partition, so there are twice as many entries."""


@dataclass
class Peer:
    """A connection with one request."""

    id: int
    peer_host: str
    entries: int
    replica: bool = False
    read_bytes: int = 0

    def asks(self, requests: LongRequests) -> bool:
        """Whether its request is read."""
        if not requests.may_be_read(self, lambda entries: self.entries > entries):
            return False
        requests.read(self, self.entries)
        return True


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> LongRequests:
    """Two of 10,000 entries fill the memory."""
    monkeypatch.setattr(long_requests, "BYTES_MAX", 20_000 * ENTRY_BYTES)
    return LongRequests()


def test_who_comes_while_the_memory_is_full_waits_and_hosts_take_turns(requests: LongRequests) -> None:
    first, second = Peer(1, "a", 10_000), Peer(2, "a", 10_000)
    assert first.asks(requests) and second.asks(requests)
    waiting = [Peer(3, "a", 10_000), Peer(4, "a", 10_000), Peer(5, "b", 10_000)]
    assert not any(one.asks(requests) for one in waiting)
    assert not list(requests.next()), "there is no room yet"
    requests.over(first)
    called = []
    for _ in range(3):
        (conn,) = requests.next()
        one = next(one for one in waiting if one.id == conn)
        assert one.asks(requests)
        called.append(conn)
        requests.over(one)
    assert called == [3, 5, 4], "the other host's came between those of the first"
    requests.over(second)
    requests.over(second)
    assert requests.bytes == 0


def test_a_newcomer_does_not_overtake_those_that_wait(requests: LongRequests) -> None:
    first, waits, comes = Peer(1, "a", 30_000), Peer(2, "a", 30_000), Peer(3, "b", 6_000)
    assert first.asks(requests) and not waits.asks(requests)
    requests.over(first)
    assert not comes.asks(requests), "there is room, and somebody waits for it"
    assert list(requests.next()) == [2]
    assert waits.asks(requests) and not comes.asks(requests)


def test_who_is_called_and_finds_no_room_is_the_next_one(requests: LongRequests) -> None:
    first, called, other = Peer(1, "a", 30_000), Peer(2, "b", 10_000), Peer(3, "a", 10_000)
    assert first.asks(requests) and not called.asks(requests)
    requests.over(first)
    assert list(requests.next()) == [2]
    takes = Peer(4, "c", 30_000)
    assert takes.asks(requests), "nobody stands in the line"
    assert not called.asks(requests) and not other.asks(requests)
    requests.over(takes)
    assert list(requests.next()) == [2]


def test_shorter_ones_have_room_of_their_own_and_the_shortest_never_wait(requests: LongRequests) -> None:
    assert Peer(1, "a", 40_000).asks(requests)
    assert not Peer(2, "a", LONG_ENTRIES + 1).asks(requests)
    assert Peer(3, "a", LONG_ENTRIES).asks(requests)
    for number in range(4, 40):
        Peer(number, "a", LONG_ENTRIES).asks(requests)
    assert not Peer(50, "a", 301).asks(requests)
    assert Peer(51, "a", 300).asks(requests)
    assert Peer(52, "a", 500_000, replica=True).asks(requests), "a follower's"


def test_a_connection_that_goes_leaves_the_line(requests: LongRequests) -> None:
    first, waits, called = Peer(1, "a", 30_000), Peer(2, "b", 10_000), Peer(3, "c", 10_000)
    assert first.asks(requests) and not waits.asks(requests) and not called.asks(requests)
    requests.forget(waits)
    requests.over(first)
    assert list(requests.next()) == [3]
    requests.forget(called)
    assert not list(requests.next())
    assert Peer(4, "d", 10_000).asks(requests)


class Node:
    """A node whose memory is full with one of the longest requests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: str) -> None:
        monkeypatch.setattr(long_requests, "BYTES_MAX", 10_000 * ENTRY_BYTES)
        self.lab = Lab(**settings)
        self.held: Any = self.lab.node.requests.connections

    def ask(self, topics: int, conn: int | None = None) -> int:
        conn = self.lab.connect(PLAIN) if conn is None else conn
        self.lab.send(conn, "Fetch", 4, heavy("Fetch", 4, ("topics",), topics))
        return conn

    def until(self, *wanted: int) -> list[int]:
        """The connections that are answered, in order, until all that are wanted have been."""
        answered: list[int] = []
        for _ in range(3_000):
            answered += self.lab.answered(self.lab.turn(0))
            assert self.held.long_requests.bytes <= (10_000 + 2 * LONGEST) * ENTRY_BYTES
            if set(wanted) <= set(answered):
                return answered
        raise AssertionError(f"{wanted} are not all answered, but {answered}")


@pytest.mark.long
def test_a_node_reads_one_after_the_other_and_serves_others_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch)
    asked = [node.ask(LONGEST) for _ in range(5)]
    behind = asked[-1]
    node.lab.send(behind, "ApiVersions", 3, message("ApiVersionsRequest")())
    shorter, short = node.ask(LONG), node.ask(SHORT)
    answered = node.until(*asked, shorter, short)
    assert answered.index(short) < answered.index(shorter) < answered.index(asked[0])
    assert [one for one in answered if one in asked and one != behind] == asked[:-1], "first come, first served"
    if answered.count(behind) == 1:
        node.until(behind)
    assert node.held.long_requests.bytes == 0


def test_a_connection_that_ends_in_the_middle_gives_its_room_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch)
    first, second, third = (node.ask(LONGEST) for _ in range(3))
    for _ in range(3):
        node.lab.turn(0)
    assert node.held.long_requests.bytes == 2 * LONGEST * ENTRY_BYTES, "one is read"
    node.lab.node.closed(first, False)
    node.lab.node.closed(second, False)
    assert node.until(third) == [third]
    assert node.held.long_requests.bytes == 0


def test_a_request_with_too_many_entries_is_refused_also_when_it_had_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch)
    first = node.ask(LONGEST)
    node.lab.turn(0)
    many = node.lab.connect(PLAIN)
    node.lab.send(many, "JoinGroup", 5, heavy("JoinGroup", 5, ("protocols",), 20_000))
    node.until(first)
    for _ in range(5):
        node.lab.turn(0)
    assert node.held.get(many) is None
    assert node.held.long_requests.bytes == 0


@pytest.mark.long
def test_one_for_which_no_memory_is_left_while_it_is_looked_at_costs_its_own_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether it has to wait is asked before it is read: as many entries as that takes are built for it."""
    node = Node(monkeypatch)
    first = node.ask(LONGEST)
    node.lab.turn(0)
    looked_at = node.ask(LONGEST)

    def lacks(*given: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as short:
        short.setattr("actors.node.api.dispatch.framing.is_longer", lacks)
        for _ in range(4):
            node.lab.turn(0)
    assert node.held.get(looked_at) is None
    later = node.ask(LONGEST)
    assert node.until(first, later) == [first, later]
    assert node.held.long_requests.bytes == 0
    assert any("no memory is left to read a Fetch" in line for line in node.lab.world.lines)


@pytest.mark.parametrize("is_broker", [True, False])
def test_the_first_fetch_of_a_broker_does_not_wait_where_rights_tell_who_is_one(
    is_broker: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower begins its session with all its partitions: no later Fetch of it is as long."""
    node = Node(monkeypatch, **{"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS;User:1"})
    first = node.ask(LONGEST)
    if not is_broker:
        monkeypatch.setattr("actors.node.api.dispatch.from_broker", lambda *given: False)
    node.lab.turn(0)
    rest = node.held.long_requests.bytes
    node.ask(LONGEST)
    for _ in range(3):
        node.lab.turn(0)
    assert first and rest > 0
    assert (node.held.long_requests.bytes > rest) is is_broker


class Enveloped:
    """A controller whose memory is full with one of the longest requests, and brokers that pass clients' on to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(long_requests, "BYTES_MAX", LONGEST * ENTRY_BYTES)
        self.nodes = Nodes(NO_AUTHORIZER)
        self.process: Any = self.nodes.controller
        self.held: Any = self.process.node.requests.connections
        self.sent: list[int] = []

    def ask(self, names: int) -> int:
        """A broker passes on a DeleteTopics of so many names that are not there."""
        conn = 20_000 + len(self.sent)
        self.sent.append(conn)
        listener, host = LISTENERS[Listener.CONTROLLER][0], f"10.9.9.{len(self.sent)}"
        self.process.node.connected(conn, listener, host, 0, None)
        body = message("DeleteTopicsRequest")(topic_names=[f"none-{number}" for number in range(names)])
        inner = b"".join(framing.encode_request("DeleteTopics", 5, 7, "c", body))[4:]
        outer = envelope(inner)
        frame = b"".join(framing.encode_request("Envelope", 0, 1, "c", outer))[4:]
        self.process.node.received(conn, memoryview(bytearray(frame)))
        return conn

    def until(self, *wanted: int) -> list[int]:
        """The connections that are answered, in order, until all that are wanted have been."""
        answered: list[int] = []
        for _ in range(3_000):
            answered += [conn for conn, _ in self.process.node.turn(self.process.now(), 0).send if conn in self.sent]
            assert self.held.long_requests.bytes <= LONGEST * ENTRY_BYTES
            if set(wanted) <= set(answered):
                return answered
        raise AssertionError(f"{wanted} are not all answered, but {answered}")


def envelope(inner: bytes) -> Any:
    return message("EnvelopeRequest")(request_data=inner, client_host_address=bytes(4), request_principal=None)


def test_a_request_in_an_envelope_counts_as_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of each of six brokers, which took 75 MB."""
    node = Enveloped(monkeypatch)
    asked = [node.ask(LONGEST) for _ in range(6)]
    short = node.ask(SHORT)
    node.process.node.turn(node.process.now(), 0)
    assert node.held.long_requests.bytes == LONGEST * ENTRY_BYTES, "one is read"
    answered = node.until(*asked, short)
    assert answered.index(short) < answered.index(asked[1])
    assert [one for one in answered if one in asked] == asked, "first come, first served"
    assert node.held.long_requests.bytes == 0


@pytest.mark.parametrize("damaged", [b"", b"\0" * 2000, b"\0\x14\0\x05\0\0\0\7\xff\xff" + b"\xff" * 2000])
def test_an_envelope_around_something_else_is_answered_also_when_others_wait(
    damaged: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Enveloped(monkeypatch)
    first, waits = node.ask(LONGEST), node.ask(LONGEST)
    node.process.node.turn(node.process.now(), 0)
    conn = 30_000
    node.sent.append(conn)
    node.process.node.connected(conn, LISTENERS[Listener.CONTROLLER][0], "10.9.8.1", 0, None)
    filled = envelope(damaged)
    filled.request_principal = bytes(long_requests.COUNTED_FROM)
    frame = b"".join(framing.encode_request("Envelope", 0, 1, "c", filled))[4:]
    node.process.node.received(conn, memoryview(bytearray(frame)))
    answered = node.until(first, waits, conn)
    assert conn in answered
