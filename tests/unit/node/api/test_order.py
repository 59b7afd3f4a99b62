"""What starts behind what on one connection: Apache Kafka takes one request of a connection at a time."""

from typing import Any

import pytest

from actors.node.runtime.answers import Answer, Done, Parked
from actors.node.runtime.calls import Call, Listener, Subject
from actors.wire.messages import message
from tests.served import SERVED, TABLE
from tests.unit.node.net.test_request_channel import PLAIN, Lab

PRODUCE, LIST_OFFSETS, OFFSET_COMMIT, OFFSET_FETCH, HEARTBEAT, METADATA = 0, 2, 8, 9, 12, 3
REQUESTS = {
    PRODUCE: ("Produce", 9, message("ProduceRequest")(acks=-1, timeout_ms=1000, topic_data=[])),
    LIST_OFFSETS: ("ListOffsets", 5, message("ListOffsetsRequest")(replica_id=-1, topics=[])),
    OFFSET_COMMIT: ("OffsetCommit", 7, message("OffsetCommitRequest")(group_id="g", member_id="", topics=[])),
    OFFSET_FETCH: ("OffsetFetch", 5, message("OffsetFetchRequest")(group_id="g", topics=[])),
    HEARTBEAT: ("Heartbeat", 3, message("HeartbeatRequest")(group_id="g", generation_id=1, member_id="m")),
    METADATA: ("Metadata", 9, message("MetadataRequest")(topics=[])),
}
ANSWERS = {key: message(f"{name}Response") for key, (name, _, _) in REQUESTS.items()}


class Scene:
    """A broker whose writers wait until they are told to answer; `started` shows what ran, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lab = Lab()
        self.conn = self.lab.connect(PLAIN)
        self.started: list[int] = []
        for key in REQUESTS:
            row = TABLE[Listener.CLIENT, key]
            monkeypatch.setitem(SERVED[Listener.CLIENT], key, row._replace(handler=self.handler))

    def handler(self, node: Any, request: Any, call: Call) -> Answer:
        key = call.api_key
        self.started.append(key)
        answer = Done(ANSWERS[key]())
        if TABLE[Listener.CLIENT, key].writes is Subject.NOTHING:
            return answer
        return Parked([("test", key)], node.runtime.now.mono_ms + 60_000, lambda expired: answer)

    def send(self, *keys: int) -> list[int]:
        for key in keys:
            self.lab.send(self.conn, *REQUESTS[key])
        self.lab.turn()
        return self.started

    def answer(self, key: int) -> list[int]:
        """Let the writers of an API answer."""
        self.lab.node.runtime.waiting.signal(("test", key))
        self.lab.turn()
        self.lab.turn()
        return self.started


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


@pytest.mark.parametrize(("writer", "reader"), [(OFFSET_COMMIT, OFFSET_FETCH), (PRODUCE, LIST_OFFSETS)])
def test_a_reader_starts_when_the_writer_before_it_is_answered(scene: Scene, writer: int, reader: int) -> None:
    assert scene.send(writer, reader) == [writer]
    assert scene.lab.node.deadline_ms() > scene.lab.node.runtime.now.mono_ms, (
        "nothing to do until the writer is answered"
    )
    assert scene.answer(writer) == [writer, reader]


@pytest.mark.parametrize("writer", [PRODUCE, OFFSET_COMMIT])
def test_writers_that_keep_their_order_themselves_start_behind_one_another(scene: Scene, writer: int) -> None:
    assert scene.send(writer, writer, writer) == [writer] * 3


def test_a_writer_of_another_kind_waits_too(scene: Scene) -> None:
    conn = scene.lab.connect(PLAIN)
    delete = message("DeleteRecordsRequest")(topics=[], timeout_ms=1000)
    scene.send(PRODUCE)
    scene.lab.send(scene.conn, "DeleteRecords", 1, delete)
    scene.lab.send(conn, "DeleteRecords", 1, delete)
    assert scene.lab.answered(scene.lab.turn()) == [conn]
    scene.answer(PRODUCE)
    assert not scene.lab.node.requests.connections.get(scene.conn).slots


def test_what_depends_on_no_write_overtakes_and_is_answered_in_its_place(scene: Scene) -> None:
    assert scene.send(OFFSET_COMMIT, HEARTBEAT, METADATA, LIST_OFFSETS) == [
        OFFSET_COMMIT,
        HEARTBEAT,
        METADATA,
        LIST_OFFSETS,
    ]


def test_what_is_behind_a_request_that_waits_stays_behind_it(scene: Scene) -> None:
    assert scene.send(OFFSET_COMMIT, OFFSET_FETCH, HEARTBEAT) == [OFFSET_COMMIT]
    assert scene.answer(OFFSET_COMMIT) == [OFFSET_COMMIT, OFFSET_FETCH, HEARTBEAT]


def test_another_connection_does_not_wait(scene: Scene) -> None:
    scene.send(OFFSET_COMMIT, OFFSET_FETCH)
    scene.conn = scene.lab.connect(PLAIN)
    assert scene.send(OFFSET_FETCH) == [OFFSET_COMMIT, OFFSET_FETCH]


def test_a_connection_that_closes_takes_what_waits_with_it(scene: Scene) -> None:
    scene.send(OFFSET_COMMIT, OFFSET_FETCH)
    scene.lab.node.closed(scene.conn, False)
    scene.lab.turn()
    assert scene.answer(OFFSET_COMMIT) == [OFFSET_COMMIT]
    assert scene.lab.node.requests.connections.bytes_held == 0


def test_requests_of_a_peer_that_does_not_read_wait_until_it_does(scene: Scene) -> None:
    scene.lab.node.congested(scene.conn, True)
    assert scene.send(HEARTBEAT, HEARTBEAT) == []
    assert scene.lab.node.deadline_ms() > scene.lab.node.runtime.now.mono_ms
    scene.lab.node.congested(scene.conn, False)
    assert scene.send() == [HEARTBEAT, HEARTBEAT]
