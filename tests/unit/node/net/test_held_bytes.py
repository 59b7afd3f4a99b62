"""What a connection may hold behind a request that waits: neither the frame of that one, nor answers without end."""

from typing import Any

import pytest

from actors.broker.replication.partition import Partition
from actors.node.api.dispatch import PARKED_KEY_BYTES
from actors.node.net import connections
from actors.node.net.connections import IN_FLIGHT_MAX, LET_GO_FROM
from actors.node.runtime.calls import Listener
from actors.node.runtime.waiting import WAIT_MS_MAX
from actors.ports import Now
from actors.wire import framing
from actors.wire.messages import message
from fastpath.bytes.frame_pool import Pool
from tests.numbers import numbers
from tests.simulator.cluster import Client
from tests.unit.node.net.test_request_channel import PLAIN, Lab

FOREVER_MS = (1 << 31) - 1
WAIT_MS = 1500


def parked_fetch(fields: int = 0, wait_ms: int = FOREVER_MS) -> bytes:
    """A Fetch of an empty partition that waits for so long, with `fields` bytes in a tagged field that nobody knows."""
    kind = message("FetchRequest")
    one = kind.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = kind(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[kind.FetchTopic(topic="t", partitions=[one])],
    )
    frame = b"".join(framing.encode_request("Fetch", 12, 7, "c", request))[4:]
    if not fields:
        return frame
    assert frame[-1:] == b"\0"
    return frame[:-1] + b"\1" + uvarint(99) + uvarint(fields) + bytes(fields)


def uvarint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


class Host:
    """Hands frames over as the host does: in blocks of a pool."""

    def __init__(self, **settings: str | None) -> None:
        self.lab = Lab(**settings)
        kind = message("CreateTopicsRequest")
        topic = kind.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        client = Client(self.lab.world, "client")
        assert client.call("b1", "CreateTopics", 7, kind(topics=[topic])).topics[0].error_code == 0
        self.lab.world.run_for(1000)
        self.pool = Pool(0)

    def send(self, conn: int, data: bytes) -> bool:
        frame = self.pool.take(len(data))
        frame[:] = data
        return bool(self.lab.node.received(conn, frame))

    @property
    def held(self) -> Any:
        return self.lab.node.requests.connections

    def configs(self, conn: int) -> None:
        """Ask for all settings of the broker, which is a long answer."""
        kind = message("DescribeConfigsRequest")
        resource = kind.DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
        self.send(
            conn,
            b"".join(
                framing.encode_request(
                    "DescribeConfigs", 4, 8, "c", kind(resources=[resource], include_documentation=True)
                )
            )[4:],
        )


@pytest.mark.parametrize("size", [5_000, 40_000, 700_000])
def test_a_request_that_waits_gives_the_bytes_of_its_frame_back(size: int) -> None:
    host = Host(**{"queued.max.request.bytes": "1000000"})
    lab, other = host.lab, host.lab.connect(PLAIN)
    waiting = [lab.connect(PLAIN) for _ in range(3)]
    before = host.held.bytes_held
    for conn in waiting:
        host.send(conn, parked_fetch(size))
    for _ in waiting:
        lab.turn()
    assert [len(host.held.get(conn).slots) for conn in waiting] == [1, 1, 1], "they wait"
    assert host.held.bytes_held == before and host.pool.bytes_lent == 0
    assert not any(connection.paused for connection in host.held.all())
    assert host.lab.send(other, "ApiVersions", 3, message("ApiVersionsRequest")())
    assert lab.answered(lab.turn()) == [other]


def test_the_longest_wait_has_an_end() -> None:
    host = Host()
    host.send(host.lab.connect(PLAIN), parked_fetch())
    host.lab.turn()
    longest_ms = max(at_ms for at_ms, _, entry in host.lab.node.runtime.waiting._deadlines.heap if entry.connection)
    assert longest_ms <= host.lab.process.now().mono_ms + WAIT_MS_MAX


def test_a_peer_that_has_closed_leaves_its_place_though_it_is_not_read() -> None:
    host = Host()
    conn = host.lab.connect(PLAIN)
    for _ in range(IN_FLIGHT_MAX):
        host.send(conn, parked_fetch())
    assert not host.send(conn, parked_fetch()), "it is not read any more"
    host.lab.turn()
    host.lab.node.left(conn)
    effects = host.lab.turn()
    assert effects.resume == [conn] and not effects.send, "so that its end is read"
    host.lab.node.closed(conn, False)
    host.lab.turn()
    assert host.held.get(conn) is None


def test_a_frame_of_which_a_view_is_left_counts_until_that_is_gone() -> None:
    host = Host()
    conn = host.lab.connect(PLAIN)
    before = host.held.bytes_held
    data = parked_fetch(100_000)
    frame = host.pool.take(len(data))
    frame[:] = data
    view = frame[10:20]
    host.lab.node.received(conn, frame)
    del frame
    host.lab.turn()
    assert host.held.bytes_held == before + len(data)
    del view
    host.lab.turn()
    assert host.held.bytes_held == before and host.pool.bytes_lent == 0


def test_answers_behind_one_that_is_not_known_have_a_bound_and_leave_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BEHIND_BYTES_MAX", 200_000)
    host = Host()
    lab, conn = host.lab, host.lab.connect(PLAIN)
    host.send(conn, parked_fetch(wait_ms=WAIT_MS))
    for _ in range(IN_FLIGHT_MAX - 1):
        host.configs(conn)
    for _ in range(40):
        assert conn not in lab.answered(lab.turn())
    connection = host.held.get(conn)
    answer = connection.slots[1].behind_bytes
    known = sum(slot.parts is not None for slot in connection.slots)
    assert answer > 20_000 and connection.behind == known * answer == host.held.behind_bytes
    assert 200_000 <= connection.behind < 200_000 + answer
    other = lab.connect(PLAIN)
    host.configs(other)
    assert sum(other in lab.answered(lab.turn()) for _ in range(9)) == 1, "another connection is not held back"

    now = lab.process.now()
    sent = 0
    for _ in range(40):
        effects = lab.node.turn(Now(now.mono_ms + WAIT_MS, now.wall_ms), 1 << 50)
        sent += sum(len(b"".join(map(bytes, parts))) for one, parts in effects.send if one == conn)
    assert sent > (IN_FLIGHT_MAX - 1) * answer and not connection.slots
    assert (connection.behind, host.held.behind_bytes, host.held.held_back) == (0, 0, {})


def test_while_all_hold_too_much_each_connection_has_one_request_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    lab = host.lab
    several = [lab.connect(PLAIN) for _ in range(20)]
    monkeypatch.setattr(connections, "ALL_BEHIND_BYTES_MAX", 100_000)
    for conn in several:
        host.send(conn, parked_fetch(wait_ms=WAIT_MS))
        host.configs(conn)
        host.configs(conn)
    good = lab.connect(PLAIN)
    for _ in range(9):
        host.configs(good)
    answered = 0
    for _ in range(200):
        answered += sum(len(parts) for conn, parts in lab.turn().send if conn == good)
    assert answered >= 9, "its first request leaves at once, each time"
    one = max(connection.behind for connection in host.held.all())
    assert 100_000 <= host.held.behind_bytes <= 100_000 + 2 * one
    now = lab.process.now()
    for _ in range(200):
        lab.node.turn(Now(now.mono_ms + WAIT_MS, now.wall_ms), 1 << 50)
    assert host.held.behind_bytes == 0 and not any(host.held.get(conn).slots for conn in several)


def test_a_connection_that_is_closed_takes_what_it_held_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BEHIND_BYTES_MAX", 100_000)
    host = Host()
    lab, conn = host.lab, host.lab.connect(PLAIN)
    host.send(conn, parked_fetch(100_000))
    for _ in range(IN_FLIGHT_MAX - 1):
        host.configs(conn)
    for _ in range(20):
        lab.turn()
    assert host.held.behind_bytes and host.held.held_back
    lab.node.closed(conn, False)
    lab.turn()
    assert (host.held.behind_bytes, host.held.held_back, host.held.bytes_held) == (0, {}, 0)


@pytest.mark.parametrize("by_peer", [True, False])
def test_when_a_connection_goes_with_what_it_held_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, by_peer: bool
) -> None:
    monkeypatch.setattr(connections, "ALL_BEHIND_BYTES_MAX", 20_000)
    host = Host()
    lab = host.lab
    greedy, other = lab.connect(PLAIN), lab.connect(PLAIN)
    for conn in (greedy, other):
        host.send(conn, parked_fetch())
        host.configs(conn)
        for _ in range(9):
            lab.turn()
    assert host.held.crammed and list(host.held.held_back) == [other]
    if by_peer:
        lab.node.closed(greedy, False)
    else:
        lab.node.requests.close(host.held.get(greedy), "it is over")
    for _ in range(9):
        lab.turn()
    assert host.held.get(other).slots[1].parts is not None, "its second request does not wait for its first"


@pytest.mark.parametrize("size", [LET_GO_FROM, 3 << 20])
@pytest.mark.parametrize("read", [False, True])
def test_bytes_are_given_back_once_whether_the_end_or_the_wait_comes_first(size: int, read: bool) -> None:
    """A handler may close the connection of the request that it lets wait. `read`: somebody still has the memory."""
    for closes_first in (True, False):
        held = connections.Connections(1 << 30)
        connection = connections.Connection(1, Listener.CLIENT, "PLAINTEXT", "10.0.0.1")
        held.opened(connection)
        frame = memoryview(bytearray(size)) if size == LET_GO_FROM else Pool(0).take(size)
        reader = memoryview(frame.obj) if read else None
        slot = held.begin(connection, frame)
        assert slot is not None and held.bytes_held == size
        if closes_first:
            held.close(connection)
        held.let_go(slot, frame)
        held.throttle(0, 1)
        held.close(connection)
        del reader, frame
        held.throttle(0, 1)
        assert held.bytes_held == 0


BOUNDS = {"bytes": {"queued.max.request.bytes": "1000000"}, "requests": {"queued.max.requests": "16"}}


def waits(lab: Lab, conn: int, why: str, *, over: bool = False) -> None:
    """A connection waits for its own client, or no longer."""
    if why == "congested":
        lab.node.congested(conn, not over)
    elif not over:
        connection = lab.node.requests.connections.get(conn)
        assert connection is not None
        lab.node.requests.mute(connection, WAIT_MS)
    else:
        lab.world.run_for(2 * WAIT_MS)
        lab.turn()


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("why", ["congested", "over its quota"])
@pytest.mark.parametrize("end", ["goes on", "closes", "is closed"])
def test_what_waits_for_its_own_client_keeps_nobody_from_sending(bound: str, why: str, end: str) -> None:
    """Whole requests of clients that are over their quotas, or do not read, with more bytes than all may hold."""
    host = Host(**BOUNDS[bound])
    lab, held, other = host.lab, host.held, host.lab.connect(PLAIN)
    crowd = [lab.connect(PLAIN) for _ in range(3)]
    for conn in crowd:
        for _ in range(IN_FLIGHT_MAX + 1):
            host.send(conn, parked_fetch(50_000))
        waits(lab, conn, why)
    lab.turn()
    size = 50_000 * (IN_FLIGHT_MAX + 1) * len(crowd)
    assert held.bytes_apart >= size and held.bytes_held < 10_000
    assert held.queued_apart == IN_FLIGHT_MAX * len(crowd)
    shown = numbers(lab.node.metrics())
    kept = 'rayft_peer_memory_bytes{{owner="{}"}}'.format
    assert shown[kept("ForwardedRequests")] == lab.node.dispatch.forwarder.bytes_held == 0
    assert shown[kept("RequestsOfWaitingClients")] == held.bytes_apart and shown[kept("Requests")] == held.bytes_held
    assert not held.get(other).paused
    for _ in range(3):
        assert lab.send(other, "ApiVersions", 3, message("ApiVersionsRequest")()) or bound == "bytes"
        assert lab.answered(lab.turn()) == [other]
        assert not held.get(other).paused, "it is read again when that is answered"
    if end == "closes":
        for conn in crowd:
            lab.node.closed(conn, False)
    elif end == "is closed":
        for conn in crowd:
            lab.node.requests.close(held.get(conn), "as a test wants")
    else:
        for conn in crowd:
            waits(lab, conn, why, over=True)
        for _ in range(10):
            lab.turn()
        assert all(len(held.get(conn).slots) == IN_FLIGHT_MAX for conn in crowd)
    lab.turn()
    assert held.bytes_apart == held.queued_apart == 0
    assert held.bytes_held <= (51_000 * len(crowd) if end == "goes on" else 0)
    assert not held._crowded and not held._throttled


def test_above_the_same_bound_each_connection_has_one_request_at_a_time() -> None:
    """So that what is apart grows no more."""
    host = Host(**BOUNDS["bytes"])
    lab, held = host.lab, host.held
    for _ in range(60):
        conn = lab.connect(PLAIN)
        for _ in range(IN_FLIGHT_MAX):
            if not host.send(conn, parked_fetch(50_000)):
                break
        waits(lab, conn, "congested")
        lab.turn()
    assert 1_000_000 <= held.bytes_apart <= 1_000_000 + (IN_FLIGHT_MAX + 60) * 51_000


def test_a_client_that_asks_and_goes_again_and_again_leaves_nothing() -> None:
    """Its Fetch would wait for ten minutes, and each of them under every partition that it names."""
    host = Host()
    waiting = host.lab.node.runtime.waiting
    for _ in range(30):
        conn = host.lab.connect(PLAIN)
        host.send(conn, parked_fetch())
        host.lab.turn()
        assert len(waiting._parked) == 1
        host.lab.node.closed(conn, False)
        for _ in range(2):
            host.lab.turn()
        assert not waiting._parked


def many(wait_ms: int = FOREVER_MS) -> bytes:
    """A Fetch of all partitions of a topic of twenty, outside a session, that waits."""
    kind = message("FetchRequest")
    parts = [kind.FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20) for number in range(20)]
    request = kind(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[kind.FetchTopic(topic="wide", partitions=parts)],
    )
    return b"".join(framing.encode_request("Fetch", 12, 7, "c", request))[4:]


def test_what_requests_keep_that_wait_for_many_partitions_is_charged_and_bounded() -> None:
    host = Host()
    kind = message("CreateTopicsRequest")
    topic = kind.CreatableTopic(name="wide", num_partitions=20, replication_factor=1)
    assert Client(host.lab.world, "maker").call("b1", "CreateTopics", 7, kind(topics=[topic])).topics[0].error_code == 0
    host.lab.world.run_for(1000)
    account = host.lab.node.dispatch.parked
    account.bytes_max = 2 * 20 * PARKED_KEY_BYTES
    conns = [host.lab.connect(PLAIN) for _ in range(3)]
    for conn in conns:
        host.send(conn, many())
    answered = host.lab.answered(host.lab.turn())
    assert account.bytes == 2 * 20 * PARKED_KEY_BYTES and account.refused == 1
    assert answered == [conns[2]], "who finds no room is answered at once"
    host.lab.node.closed(conns[0], False)
    host.lab.turn()
    assert account.bytes == 20 * PARKED_KEY_BYTES
    host.lab.node.left(conns[1])
    host.lab.turn()
    assert account.bytes == 0


def test_what_must_not_be_answered_early_waits_where_there_is_no_room_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction's markers for twenty partitions, which another broker writes and which are not replicated yet."""
    host = Host()
    topic = message("CreateTopicsRequest").CreatableTopic(name="wide", num_partitions=20, replication_factor=1)
    request = message("CreateTopicsRequest")(topics=[topic])
    assert Client(host.lab.world, "maker").call("b1", "CreateTopics", 7, request).topics[0].error_code == 0
    host.lab.world.run_for(1000)
    account = host.lab.node.dispatch.parked
    account.bytes_max = 0
    kind = message("WriteTxnMarkersRequest")
    marker = kind.WritableTxnMarker(
        producer_id=7,
        producer_epoch=0,
        transaction_result=True,
        coordinator_epoch=0,
        topics=[kind.WritableTxnMarkerTopic(name="wide", partition_indexes=list(range(20)))],
    )
    frame = b"".join(framing.encode_request("WriteTxnMarkers", 1, 7, "c", kind(markers=[marker])))[4:]
    conn = host.lab.connect(PLAIN)
    with monkeypatch.context() as behind:
        behind.setattr(Partition, "verdict", lambda *given: None)
        host.send(conn, frame)
        effects = host.lab.turn()
        assert conn not in effects.close and conn not in host.lab.answered(effects)
        assert account.refused == 1 and account.bytes == 0 and host.held.bytes_held == len(frame)
    for partition in host.lab.node.broker.replicas:
        host.lab.node.runtime.waiting.signal(partition.committed)
    assert host.lab.answered(host.lab.turn()) == [conn] and host.held.bytes_held == 0
    assert not any("Traceback" in line for line in host.lab.world.lines)


@pytest.mark.parametrize("step", ["framing.decode_request", "framing.encode_response", "perform"])
def test_a_request_for_which_no_memory_is_left_costs_its_own_connection(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is noticed: when it is read, in its handler, or when its answer is written."""
    lab = Lab()
    lab.turn()
    conn, other = lab.connect(PLAIN), lab.connect(PLAIN)
    request = message("MetadataRequest")(topics=None)

    def lacks(*given: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as short:
        short.setattr(f"actors.node.api.dispatch.{step}", lacks)
        lab.send(conn, "Metadata", 9, request)
        closed = lab.turn().close
    lab.send(other, "Metadata", 9, request)
    assert conn in closed and lab.answered(lab.turn()) == [other]
    assert any("no memory is left" in line and "give the process more" in line for line in lab.world.lines)
    assert not any("Traceback" in line for line in lab.world.lines)
