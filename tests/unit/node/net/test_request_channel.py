"""KIP-291 in a node: a control plane with an entrance, a queue and a handler of its own, ahead of whatever clients do."""

import gc
import weakref
from typing import Any

import pytest

from actors.node.net.connections import Connection, Slot
from actors.node.net.request_channel import LARGE_BYTES
from actors.node.node import TALK_MS
from actors.node.runtime.calls import Lane
from actors.ports import Now
from actors.settings.node_config import node_config
from actors.wire import framing
from actors.wire.messages import message
from tests.numbers import numbers
from tests.simulator.cluster import Client, Cluster, directory_id
from tests.simulator.world import World

LONG_NS = 1 << 50
PLAIN, CONTROL = "PLAINTEXT", "CP"
PORT, CONTROL_PORT = 9000, 9099
SETTINGS = {
    "process.roles": "broker",
    "broker.id": "1",
    "controller.connect": "1001@c1001:9000",
    "listeners": f"PLAINTEXT://b1:{PORT},CP://b1:{CONTROL_PORT}",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CP:PLAINTEXT",
    "control.plane.listener.name": "CP",
    "queued.max.requests": "500",
    "log.dirs": "data",
}


class Lab:
    """One controller, one broker with a control plane; frames go straight into the broker's node."""

    def __init__(self, ready: bool = True, **settings: str | None) -> None:
        self.world = World(1, keep_log=True)
        self.cluster = Cluster(self.world, 1, 1)
        given = {name: value for name, value in (SETTINGS | settings).items() if value is not None}
        self.process = self.cluster._process("b1", node_config(given), directory_id(1))
        self.cluster.brokers[1] = self.process
        if ready:
            self.cluster.start()
            assert self.world.run_until(self.cluster.ready, 60_000)
        else:
            self.process.start()
        assert self.process.node is not None
        self.node: Any = self.process.node
        self.conns = 10_000

    def connect(self, listener: str) -> int:
        self.conns += 1
        self.node.connected(self.conns, listener, "127.0.0.1")
        return self.conns

    def send(self, conn: int, name: str, version: int, request: Any) -> bool:
        """Whether the node reads on from that connection."""
        frame = b"".join(framing.encode_request(name, version, 1, "c", request))[4:]
        return bool(self.node.received(conn, memoryview(bytearray(frame))))

    def turn(self, budget: int = LONG_NS) -> Any:
        """One turn of the node; its effects, which nobody carries out."""
        return self.node.turn(self.process.now(), budget)

    def answered(self, effects: Any) -> list[int]:
        return [conn for conn, _ in effects.send if conn > 10_000]

    def metrics(self) -> dict[str, float]:
        return numbers(self.node.metrics())


def versions() -> Any:
    return message("ApiVersionsRequest")(client_software_name="c", client_software_version="1")


def topics() -> Any:
    return message("MetadataRequest")(topics=None)


def test_r291_02_03_a_control_request_is_read_and_handled_while_the_data_queue_is_full() -> None:
    lab = Lab()
    data = [lab.connect(PLAIN) for _ in range(99)]
    for place in range(510):
        lab.send(data[place % 99], "Metadata", 9, topics())
    assert lab.node.requests.queue.size(Lane.DATA) == 510
    control = lab.connect(CONTROL)
    paused = lab.turn(0)
    assert set(paused.pause) >= set(data) and control not in paused.pause
    assert len(lab.answered(paused)) == 1
    assert lab.send(control, "ApiVersions", 3, versions()), "it is read on"
    after = lab.turn(0)
    assert lab.answered(after) == [control]
    assert len(lab.answered(lab.turn(0))) == 1
    assert lab.node.requests.queue.size(Lane.DATA) == 508


def test_what_a_controller_asks_is_answered_before_a_request_of_clients_is_begun_but_not_twice_in_a_row() -> None:
    lab = Lab()
    control, data = lab.connect(CONTROL), [lab.connect(PLAIN) for _ in range(3)]
    lab.turn()
    for conn in data:
        lab.send(conn, "Metadata", 9, topics())
    for expected in ([control], [control, *data], [control], [control], [control]):
        lab.send(control, "ApiVersions", 3, versions())
        assert lab.node.controlled
        assert lab.answered(lab.turn()) == expected
        assert not lab.node.controlled
    lab.send(data[0], "Metadata", 9, topics())
    assert lab.node.deadline_ms() == 0 and lab.answered(lab.turn()) == data[:1]


def test_while_a_controller_talks_clients_have_a_quarter_of_their_time() -> None:
    lab = Lab()
    reading_ns = 1_000
    at_ns = 0

    def stopwatch() -> int:
        nonlocal at_ns
        at_ns += reading_ns
        return at_ns

    lab.node.runtime.stopwatch = stopwatch
    control, data = lab.connect(CONTROL), [lab.connect(PLAIN) for _ in range(9)]
    lab.send(control, "ApiVersions", 3, versions())
    lab.turn()
    for waited_ms, handled in ((0, 2), (TALK_MS - 1, 2), (TALK_MS, 8)):
        now = lab.process.now()
        for conn in data:
            lab.send(conn, "Metadata", 9, topics())
        effects = lab.node.turn(Now(now.mono_ms + waited_ms, now.wall_ms + waited_ms), 8 * reading_ns)
        assert len(lab.answered(effects)) == handled
        while lab.node.requests.queue.size(Lane.DATA):
            lab.turn()


def test_the_data_lane_handles_so_many_bytes_in_a_turn() -> None:
    lab = Lab()
    conns = [lab.connect(PLAIN) for _ in range(7)]
    for conn, size in zip(conns, [10, LARGE_BYTES // 2, LARGE_BYTES // 2, 10, LARGE_BYTES, 10, 10], strict=True):
        lab.send(conn, "ListGroups", 4, message("ListGroupsRequest")(states_filter=["x" * 100] * (size // 100)))
    assert lab.answered(lab.turn()) == conns[:3]
    assert lab.answered(lab.turn()) == conns[3:5]
    assert lab.answered(lab.turn()) == conns[5:]


def test_r291_09_14_33_the_queue_holds_twenty_and_nothing_is_dropped() -> None:
    lab = Lab()
    controls = [lab.connect(CONTROL) for _ in range(25)]
    for count, conn in enumerate(controls, 1):
        lab.send(conn, "ApiVersions", 3, versions())
        shown = lab.metrics()
        assert shown["kafka_network_requestchannel_controlplanerequestqueuesize"] == min(count, 20)
        assert shown["kafka_network_requestchannel_requestqueuesize"] == 0
    assert lab.answered(lab.turn()) == controls
    assert lab.metrics()["kafka_network_requestchannel_controlplanerequestqueuesize"] == 0


def test_r291_32_33_beyond_twenty_nothing_is_read_and_everything_is_answered() -> None:
    lab = Lab()
    controls = [lab.connect(CONTROL) for _ in range(50)]
    frame = b"".join(framing.encode_request("ApiVersions", 3, 1, "c", versions()))[4:]
    left = dict.fromkeys(controls, 10)
    """Requests that are still in the sockets: a link hands over frames until it is told to stop."""
    reading = dict.fromkeys(controls)
    answered: list[int] = []
    for _ in range(1000):
        for conn in list(reading):
            while left[conn]:
                left[conn] -= 1
                if not lab.node.received(conn, memoryview(bytearray(frame))):
                    del reading[conn]
                    break
        waiting = [lab.node.requests.connections.get(conn).waiting for conn in controls]
        assert lab.node.requests.queue.control_requests <= 20
        assert max(map(len, waiting)) <= 1, "a connection holds one request that has no place"
        effects = lab.turn(0)
        answered += [conn for conn, _ in effects.send if conn in left]
        for conn in effects.pause:
            reading.pop(conn, None)
        reading.update(dict.fromkeys(effects.resume))
        if len(answered) == 500:
            break
    assert sorted(answered) == sorted(controls * 10)
    assert not any(waiting)


def test_r291_33_one_connection_with_more_requests_than_may_be_under_way_is_answered_to_the_end() -> None:
    lab = Lab()
    conn = lab.connect(CONTROL)
    frame = b"".join(framing.encode_request("ApiVersions", 3, 1, "c", versions()))[4:]
    left, answered, reading = 40, 0, True
    for _ in range(100):
        while left and reading:
            left -= 1
            reading = lab.node.received(conn, memoryview(bytearray(frame)))
        effects = lab.turn()
        answered += lab.answered(effects).count(conn)
        reading = reading or conn in effects.resume
    assert (left, answered) == (0, 40)


def test_r291_33_a_closed_connection_leaves_the_line_before_the_queue() -> None:
    lab = Lab()
    controls = [lab.connect(CONTROL) for _ in range(23)]
    for conn in controls:
        lab.send(conn, "ApiVersions", 3, versions())
    lab.node.closed(controls[20], False)
    lab.node.closed(controls[0], False)
    assert sorted([*lab.answered(lab.turn(0)), *lab.answered(lab.turn())]) == controls[:20] + controls[21:]


def test_r291_33_peers_that_do_not_read_their_answers_leave_the_queue_to_others_and_are_answered_when_they_read() -> (
    None
):
    lab = Lab()
    deaf = [lab.connect(CONTROL) for _ in range(3)]
    frame = b"".join(framing.encode_request("ApiVersions", 3, 1, "c", versions()))[4:]
    for _ in range(16):
        for conn in deaf:
            lab.node.received(conn, memoryview(bytearray(frame)))
    assert lab.node.requests.queue.control_requests == 20
    for conn in deaf:
        lab.node.congested(conn, True)
    lab.turn()
    other = lab.connect(CONTROL)
    for _ in range(3):
        lab.send(other, "ApiVersions", 3, versions())
        assert lab.answered(lab.turn()) == [other]
    connections = lab.node.requests.connections
    assert connections.bytes_held == 0 and connections.bytes_apart == sum(
        len(one) for conn in deaf for one in connections.get(conn).waiting
    )
    assert lab.node.deadline_ms() != 0, "nothing can be done"
    answered: list[int] = []
    for conn in deaf:
        lab.node.congested(conn, False)
    for _ in range(200):
        effects = lab.turn(0)
        assert lab.node.requests.queue.control_requests <= 20
        answered += lab.answered(effects)
    assert sorted(answered) == sorted(conn for conn in deaf for _ in range(len(answered) // 3))
    assert len(answered) == 3 * 16 and lab.node.requests.connections.bytes_held == 0


def test_a_peer_that_does_not_read_and_leaves_takes_its_requests_with_it() -> None:
    lab = Lab()
    deaf = lab.connect(CONTROL)
    for _ in range(16):
        lab.send(deaf, "ApiVersions", 3, versions())
    lab.node.congested(deaf, True)
    lab.turn()
    lab.node.closed(deaf, False)
    assert not lab.answered(lab.turn())
    assert lab.node.requests.connections.bytes_held == lab.node.requests.queue.control_requests == 0
    assert lab.node.deadline_ms() != 0


def test_r291_14_data_requests_count_in_their_own_queue() -> None:
    lab = Lab()
    lab.send(lab.connect(PLAIN), "Metadata", 9, topics())
    shown = lab.metrics()
    assert shown["kafka_network_requestchannel_requestqueuesize"] == 1
    assert shown["kafka_network_requestchannel_controlplanerequestqueuesize"] == 0


def test_r291_12_15_each_handler_has_its_own_idle_share() -> None:
    lab = Lab()
    clock = [0]
    lab.node.runtime.stopwatch = lambda: clock[0]
    for handler in (lab.node.requests.idle[Lane.CONTROL], lab.node.requests.idle[Lane.DATA]):
        handler.__init__()
    lab.node.requests.idle[Lane.CONTROL].note(0)
    lab.node.requests.idle[Lane.DATA].note(0)
    run = lab.node.dispatch.run

    def slow(connection: Connection, slot: Slot, frame: memoryview) -> None:
        clock[0] += 25_000_000
        run(connection, slot, frame)

    lab.node.dispatch.run = slow
    lab.send(lab.connect(CONTROL), "ApiVersions", 3, versions())
    lab.turn()
    clock[0] = 100_000_000
    shown = lab.metrics()
    prefix = "kafka_server_kafkarequesthandlerpool_"
    assert shown[prefix + "controlplanerequesthandleravgidle_percent"] == 0.75
    assert shown[prefix + "requesthandleravgidle_percent"] == 1.0


def test_r291_16_38_without_a_control_plane_there_is_nothing_of_it() -> None:
    lab = Lab(**{
        "control.plane.listener.name": None,
        "listeners": f"PLAINTEXT://b1:{PORT}",
        "listener.security.protocol.map": None,
    })  # fmt: skip
    killed = "kafka_network_socketserver_controlplaneexpiredconnectionskilledcount"
    assert {name: value for name, value in lab.metrics().items() if "controlplane" in name} == {killed: 0}
    assert lab.process.listening == {PLAIN}


def test_r291_35_what_is_not_the_control_planes_closes_the_connection() -> None:
    lab = Lab()
    control = lab.connect(CONTROL)
    kind = message("ProduceRequest")
    lab.send(control, "Produce", 9, kind(acks=1, timeout_ms=1))
    effects = lab.turn()
    assert effects.close == [control] and lab.answered(effects) == []
    assert "API 0 is not served on listener CP" in lab.world.lines[-1]


def test_r291_35_api_versions_there_lists_what_is_served_there() -> None:
    lab = Lab()
    lab.send(lab.connect(CONTROL), "ApiVersions", 3, versions())
    ((_, parts),) = [pair for pair in lab.turn().send if pair[0] > 10_000]
    reply = framing.decode_response("ApiVersions", 3, memoryview(bytearray(b"".join(parts)))[4:])
    assert [one.api_key for one in reply.api_keys] == [17, 18, 36]


@pytest.mark.parametrize("key", [4, 5, 6, 7])
@pytest.mark.parametrize("listener", [PLAIN, CONTROL])
def test_r291_46_r631_208_pushed_requests_close_the_connection(key: int, listener: str) -> None:
    lab = Lab()
    conn = lab.connect(listener)
    frame = key.to_bytes(2, "big") + b"\0\1" + b"\0\0\0\1" + b"\xff\xff" + bytes(64)
    lab.node.received(conn, memoryview(bytearray(frame)))
    assert lab.turn().close == [conn]


def test_r291_48_the_control_plane_answers_while_the_broker_is_fenced() -> None:
    lab = Lab(ready=False)
    assert lab.process.listening == {CONTROL}
    lab.send(control := lab.connect(CONTROL), "ApiVersions", 3, versions())
    assert lab.answered(lab.turn()) == [control]


def test_r291_24_28_all_endpoints_are_registered_and_clients_see_their_own() -> None:
    lab = Lab()
    registered = lab.node.broker.cache.image.broker(1)
    assert [(one.name, one.port) for one in registered.endpoints] == [(PLAIN, PORT), (CONTROL, CONTROL_PORT)]
    for name, version, request in (
        ("Metadata", 9, topics()),
        ("DescribeCluster", 0, message("DescribeClusterRequest")()),
        ("FindCoordinator", 4, message("FindCoordinatorRequest")(key_type=0, coordinator_keys=["g"])),
    ):
        lab.send(conn := lab.connect(PLAIN), name, version, request)
        for _ in range(2000):
            found = [b"".join(parts) for to, parts in lab.turn().send if to == conn]
            if found:
                break
        assert not found or CONTROL_PORT.to_bytes(4, "big") not in found[0]
        if name != "FindCoordinator":  # that one waits for its topic, which nobody makes here
            assert PORT.to_bytes(4, "big") in found[0]


def test_r291_07_a_pulled_change_is_seen_by_every_metadata_request_behind_it() -> None:
    lab = Lab()
    data = [lab.connect(PLAIN) for _ in range(50)]
    for conn in data:
        lab.send(conn, "Metadata", 9, topics())
    batches = []
    replay = lab.node.broker.replay
    lab.node.broker.replay = lambda batch: (batches.append(batch), replay(batch))
    kind = message("CreateTopicsRequest")
    active = lab.cluster.active()
    assert active is not None
    request = kind(topics=[kind.CreatableTopic(name="new", num_partitions=1, replication_factor=1)])
    frame = b"".join(framing.encode_request("CreateTopics", 7, 1, "c", request))[4:]
    active.node.connected(77, "CONTROLLER", "h")
    active.node.received(77, memoryview(bytearray(frame)))
    active.wake()
    # No turn of the broker handles data meanwhile.
    kept, lab.node.requests.queue.take = lab.node.requests.queue.take, None
    lab.node.requests.queue.take = lambda lane: kept(lane) if lane is Lane.CONTROL else None
    lab.world.run_until(lambda: lab.node.broker.cache.image.topic("new") >= 0, 5000)
    lab.node.requests.queue.take = kept
    sent = [b"".join(parts) for conn, parts in lab.turn().send if conn in data]
    assert batches and len(sent) == 50 and all(b"new" in answer for answer in sent)


def test_r291_07_r497_04_a_turn_applies_what_it_has_pulled_before_it_answers_clients() -> None:
    """A client asks in every turn, so also in the one whose fetch brings the new topic."""
    lab = Lab()
    conn, whole = lab.connect(PLAIN), lab.node.turn
    seen: set[tuple[bool, bool]] = set()

    def turn(now: Any, budget: int) -> Any:
        lab.send(conn, "Metadata", 9, topics())
        effects = whole(now, LONG_NS)
        for answer in [b"".join(parts) for to, parts in effects.send if to == conn]:
            seen.add((lab.node.broker.cache.image.topic("new") >= 0, b"new" in answer))
        if effects.send:
            effects.send[:] = [pair for pair in effects.send if pair[0] != conn]
        return effects

    lab.node.turn = turn
    kind = message("CreateTopicsRequest")
    request = kind(topics=[kind.CreatableTopic(name="new", num_partitions=1, replication_factor=1)])
    created: list[Any] = []
    Client(lab.world, "client").ask("c1001", "CreateTopics", 7, request, created.append)
    assert lab.world.run_until(lambda: len(seen) > 1, 5000)
    assert seen == {(False, False), (True, True)}


def test_a_request_that_waits_is_let_go_with_its_connection() -> None:
    """A client says how long it may wait, and how long a request is: what it leaves behind counts in no budget."""
    lab = Lab()
    kind = message("CreateTopicsRequest")
    topic = kind.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    assert Client(lab.world, "client").call("b1", "CreateTopics", 7, kind(topics=[topic])).topics[0].error_code == 0
    lab.world.run_for(1_000)
    kind = message("FetchRequest")
    wanted = kind.FetchTopic(topic="t", partitions=[kind.FetchPartition(partition=0, partition_max_bytes=1)])
    request = kind(max_wait_ms=(1 << 31) - 1, min_bytes=1, max_bytes=1, topics=[wanted])
    conn = lab.connect(PLAIN)
    frame = memoryview(bytearray(b"".join(framing.encode_request("Fetch", 12, 1, "c", request))[4:]))
    kept = weakref.ref(frame)
    lab.node.received(conn, frame)
    del frame
    assert not lab.answered(lab.turn()) and kept() is not None
    lab.node.closed(conn, False)
    lab.turn()
    gc.collect()
    assert kept() is None
