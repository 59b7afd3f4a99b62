"""Requests whose connection is closed behind them: none without an answer, and no leave of a group, is lost."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.broker.replication.partition import Partition
from actors.node.net import farewell
from actors.node.net.farewell import without_answer
from actors.node.roles.broker.replication.batch_inspections import BATCH_COST_MAX
from actors.node.runtime.slices import ENTRIES_A_SLICE
from actors.ports import to_end
from actors.wire import framing
from actors.wire.messages import message
from fastpath.records import compression
from fastpath.records.batch import Builder
from tests.simulator.cluster import Client
from tests.unit.node.net.test_request_channel import LONG_NS, PLAIN, Lab, topics

PRODUCE = message("ProduceRequest")
LARGE = bytes(2 * BATCH_COST_MAX)


def produced(value: bytes, acks: int = 0, partition: int = 0, codec: int = 0, timeout_ms: int = 1000) -> Any:
    builder = Builder(timestamp_ms=1, attributes=codec)
    builder.append(None, value)
    data = PRODUCE.PartitionProduceData(index=partition, records=bytes(builder.build()))
    topic = PRODUCE.TopicProduceData(name="t", partition_data=[data])
    return PRODUCE(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])


def waiting() -> Any:
    """A Fetch that waits for weeks."""
    kind = message("FetchRequest")
    wanted = kind.FetchTopic(topic="t", partitions=[kind.FetchPartition(partition=0, partition_max_bytes=1)])
    return kind(max_wait_ms=(1 << 31) - 1, min_bytes=1 << 20, max_bytes=1 << 20, topics=[wanted])


class Scene:
    """A broker that leads partition 0 of topic t, and a connection to it."""

    def __init__(self) -> None:
        self.lab = lab = Lab()
        kind = message("CreateTopicsRequest")
        topic = kind.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        made = Client(lab.world, "client").call("b1", "CreateTopics", 7, kind(topics=[topic]))
        assert made.topics[0].error_code == 0
        lab.world.run_for(1_000)
        self.conn = lab.connect(PLAIN)

    def send(self, *requests: Any) -> bool:
        """Whether the node reads on."""
        return [self.lab.send(self.conn, "Produce", 9, request) for request in requests][-1]

    def close(self) -> None:
        self.lab.node.closed(self.conn, False)

    def turns(self, count: int = 1, budget: int = 0) -> None:
        """Turns of the node; what it wants done outside the loop is done at once."""
        for _ in range(count):
            for work in self.lab.turn(budget).work:
                self.lab.node.done(work.token, to_end(work.job))

    @property
    def end(self) -> int:
        """How many records the partition has."""
        return int(self.lab.node.broker.replicas.get("t", 0).log.log_end_offset)

    @property
    def left(self) -> bool:
        """Whether anything of the connection is left."""
        node = self.lab.node
        queued = any(line._queues.get(self.conn) for line in node.requests.queue._all)
        return (
            node.requests.connections.get(self.conn) is not None or queued or node.requests.connections.bytes_held != 0
        )


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_whatever_has_arrived_is_appended_one_request_a_turn(scene: Scene) -> None:
    count = 1
    while scene.send(produced(b"v")):
        count += 1
    assert count == 17, "one waits for a place"
    scene.close()
    scene.turns()
    assert scene.end == 1 and scene.left
    scene.turns(16)
    assert scene.end == 17 and not scene.left
    assert scene.lab.node.deadline_ms() > scene.lab.node.runtime.now.mono_ms


def test_requests_that_are_answered_are_dropped_and_delay_nothing(scene: Scene) -> None:
    scene.lab.send(scene.conn, "Fetch", 11, waiting())
    scene.turns()
    assert scene.lab.node.requests.connections.get(scene.conn).slots[0].parked is not None
    scene.lab.send(scene.conn, "Metadata", 9, topics())
    scene.send(produced(b"a"), produced(b"never looked at", acks=1), produced(b"b"))
    while scene.send(produced(b"c", acks=1)):
        pass
    scene.close()
    scene.turns(3)
    assert scene.end == 2 and not scene.left


def test_one_behind_a_request_that_writes_for_long_does_not_wait_for_it(scene: Scene) -> None:
    kind = message("CreateTopicsRequest")
    topic = kind.CreatableTopic(name="new", num_partitions=1, replication_factor=1)
    scene.lab.send(scene.conn, "CreateTopics", 7, kind(topics=[topic], timeout_ms=60_000))
    scene.turns()
    scene.send(produced(b"a"))
    scene.turns()
    assert scene.end == 0, "it is behind the topic"
    scene.close()
    scene.turns(2)
    assert scene.end == 1 and not scene.left


@pytest.mark.parametrize("acks", [0, 1])
def test_batches_that_a_thread_looks_at_are_appended_too(scene: Scene, acks: int) -> None:
    scene.send(produced(LARGE, acks=acks, codec=compression.LZ4), produced(b"behind", codec=compression.LZ4))
    effects = scene.lab.turn()
    assert scene.end == 0 and len(effects.work) == 1
    scene.close()
    scene.turns(2)
    assert scene.end == 0 and scene.left
    scene.lab.node.done(effects.work[0].token, to_end(effects.work[0].job))
    scene.turns(3)
    assert scene.end == 2 and not scene.left


def test_one_behind_a_long_request_that_has_begun_is_appended_behind_it(scene: Scene) -> None:
    long = produced(b"long", acks=1, codec=compression.LZ4)
    absent = [PRODUCE.PartitionProduceData(index=number, records=b"") for number in range(1, 2 * ENTRIES_A_SLICE)]
    long.topic_data[0].partition_data += absent
    scene.send(produced(LARGE, acks=1, codec=compression.LZ4), long, produced(b"behind", codec=compression.LZ4))
    scene.turns(2, LONG_NS)
    assert scene.end == 1
    slots = list(scene.lab.node.requests.connections.get(scene.conn).slots)
    assert slots[0].sliced is not None, "the long one has begun"
    scene.close()
    scene.turns(8)
    assert scene.end == 3 and not scene.left


@pytest.mark.parametrize("name", ["Fetch", "Produce"])
def test_nothing_is_kept_of_requests_that_wait_for_long(
    scene: Scene, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "Fetch":
        scene.lab.send(scene.conn, "Fetch", 11, waiting())
    else:
        monkeypatch.setattr(Partition, "verdict", lambda *_: None)
        scene.send(produced(b"never committed", acks=-1, timeout_ms=(1 << 31) - 1))
    scene.turns()
    (slot,) = scene.lab.node.requests.connections.get(scene.conn).slots
    assert slot.parked is not None
    scene.send(produced(b"a"))
    scene.close()
    scene.turns(2)
    assert not scene.left and slot.parked is None


def test_a_peer_that_did_not_read_is_no_longer_waited_for(scene: Scene) -> None:
    scene.lab.node.congested(scene.conn, True)
    scene.send(produced(b"a"), produced(b"b"))
    scene.turns(2)
    assert scene.end == 0
    scene.close()
    scene.turns(3)
    assert scene.end == 2 and not scene.left


def test_a_request_that_fails_takes_the_later_ones_with_it(scene: Scene) -> None:
    scene.send(produced(b"a"), produced(b"b", partition=9), produced(b"c"))
    scene.close()
    scene.turns(4)
    assert scene.end == 1 and not scene.left


@pytest.mark.parametrize("bound", ["connections", "bytes"])
def test_nothing_stays_where_too_much_is_held(scene: Scene, bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if bound == "connections":
        monkeypatch.setattr(farewell, "CLOSED_MAX", 0)
    else:
        scene.lab.node.requests.connections.bytes_max = 1
    scene.send(produced(b"a"), produced(b"b"))
    scene.close()
    scene.turns()
    assert scene.end == 0 and not scene.left


def test_a_member_that_leaves_and_closes_has_left(scene: Scene) -> None:
    client = Client(scene.lab.world, "member")
    protocol = message("JoinGroupRequest").JoinGroupRequestProtocol(name="range", metadata=b"")
    joining = message("JoinGroupRequest")(
        group_id="g",
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[protocol],
    )
    while client.call("b1", "FindCoordinator", 1, message("FindCoordinatorRequest")(key="g")).error_code:
        scene.lab.world.run_for(100)
    while (joined := client.call("b1", "JoinGroup", 3, joining)).error_code:
        scene.lab.world.run_for(100)

    def members() -> int:
        told = client.call("b1", "DescribeGroups", 5, message("DescribeGroupsRequest")(groups=["g"]))
        return len(told.groups[0].members)

    assert members() == 1
    leaving = message("LeaveGroupRequest")(group_id="g", member_id=joined.member_id)
    scene.lab.send(scene.conn, "LeaveGroup", 1, leaving)
    scene.close()
    scene.lab.world.run_for(1_000)
    assert members() == 0 and not scene.left


@given(st.integers(3, 12), st.sampled_from([-1, 0, 1]), st.none() | st.text(max_size=300), st.none() | st.text())
def test_acks_are_read_from_the_frame(
    version: int, acks: int, transactional_id: str | None, client: str | None
) -> None:
    request = PRODUCE(acks=acks, timeout_ms=0, transactional_id=transactional_id, topic_data=[])
    frame = b"".join(framing.encode_request("Produce", version, 0, client, request))[4:]
    assert without_answer(memoryview(frame)) is (acks == 0)


@given(st.binary(max_size=40), st.integers(-3, 20))
def test_what_cannot_be_read_is_no_such_request(rest: bytes, version: int) -> None:
    frame = bytes(2) + version.to_bytes(2, "big", signed=True) + rest
    assert without_answer(memoryview(frame)) in (False, True)
    assert not without_answer(memoryview(b"\0\3" + rest))
