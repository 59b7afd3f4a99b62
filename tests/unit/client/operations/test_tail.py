"""The tail of the metadata log without controllers: what is given out, held back and dropped, snapshots, leaders, and
answers that make no sense."""

from typing import Any

import pytest

from actors.client.errors import ClientError, NotInTime
from actors.client.operations import tail as module
from actors.client.operations.tail import NEWEST, Slice, Tail
from actors.client.operations.uncommitted import Batches
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.batch import Builder
from tests.unit.client.servers import Server, World

FETCH = message("FetchResponse")
SNAPSHOT = message("FetchSnapshotResponse")
QUORUM = message("DescribeQuorumResponse")
TOPIC_ID = bytes(15) + b"\x01"


def batch(base: int, count: int = 1, epoch: int = 1, size: int = 1) -> bytes:
    builder = Builder(base_offset=base, epoch=epoch)
    for _ in range(count):
        builder.append(None, b"v" * size)
    return bytes(builder.build())


class Quorum:
    """Controllers 1 to N, and a broker that knows them. What the leader answers to a Fetch or FetchSnapshot is told one
    after the other; then that there is nothing new."""

    def __init__(self, *answers: Any, controllers: int = 2, leader: int = 1, epoch: int = 1, **config: Any) -> None:
        self.answers = list(answers)
        self.leader, self.epoch = leader, epoch
        self.high_watermark = 100
        self.asked: list[Any] = []
        """What the leader was asked in its epoch."""
        self.by: list[int] = []
        self.broker = Server("broker", 9, {"DescribeQuorum": self._describe})
        self.controllers = {
            n: Server(f"c{n}", n, {"Fetch": self._fetch(n), "FetchSnapshot": self._fetch(n)})
            for n in range(1, controllers + 1)
        }
        self.world = World(self.broker, *self.controllers.values(), **config)
        self.tail = Tail(self.world.config)

    def wants(self, needed: int) -> "Quorum":
        self.tail = Tail(self.world.config, needed)
        return self

    def _describe(self, server: Server, version: int, request: Any) -> Any:
        part = QUORUM.PartitionData(leader_id=self.leader, leader_epoch=self.epoch, high_watermark=self.high_watermark)
        nodes = [
            QUORUM.Node(node_id=n, listeners=[QUORUM.Listener(name="CONTROLLER", host=one.host, port=one.port)])
            for n, one in self.controllers.items()
        ]
        return QUORUM(topics=[QUORUM.TopicData(topic_name="__cluster_metadata", partitions=[part])], nodes=nodes)

    def _fetch(self, number: int) -> Any:
        def answer(server: Server, version: int, request: Any) -> Any:
            asked = request.topics[0].partitions[0]
            snapshot = hasattr(asked, "snapshot_id")
            if asked.current_leader_epoch != self.epoch or number != self.leader:
                below = asked.current_leader_epoch < self.epoch
                code = ErrorCode.FENCED_LEADER_EPOCH if below else ErrorCode.NOT_LEADER_OR_FOLLOWER
                return self.refusal(code, snapshot)
            self.asked.append(asked)
            self.by.append(number)
            found = self.answers.pop(0) if self.answers else self.records()
            return found() if callable(found) else found

        return answer

    def refusal(self, code: int, snapshot: bool = False) -> Any:
        """The answer of a controller that names the leader."""
        kind = SNAPSHOT if snapshot else FETCH
        led = kind.LeaderIdAndEpoch(leader_id=self.leader, leader_epoch=self.epoch)
        server = self.controllers.get(self.leader)
        ends = [kind.NodeEndpoint(node_id=self.leader, host=server.host, port=server.port)] if server else []
        if snapshot:
            part = SNAPSHOT.PartitionSnapshot(error_code=code, current_leader=led)
            topic = SNAPSHOT.TopicSnapshot(name="__cluster_metadata", partitions=[part])
            return SNAPSHOT(topics=[topic], node_endpoints=ends)
        return self.reply(FETCH.PartitionData(error_code=code, current_leader=led, records=b""), ends)

    def reply(self, part: Any, endpoints: Any = ()) -> Any:
        topic = FETCH.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[part])
        return FETCH(responses=[topic], node_endpoints=list(endpoints))

    def records(self, data: bytes = b"", high_watermark: int | None = None, **fields: Any) -> Any:
        """An answer with batches."""
        mark = self.high_watermark if high_watermark is None else high_watermark
        return self.reply(FETCH.PartitionData(records=data, high_watermark=mark, **fields))

    def diverging(self, offset: int, epoch: int, **fields: Any) -> Any:
        return self.records(diverging_epoch=FETCH.EpochEndOffset(epoch=epoch, end_offset=offset), **fields)

    def snapshot(self, offset: int, epoch: int = 1, start: int = 0, **fields: Any) -> Any:
        """An answer that refers to a snapshot."""
        id = FETCH.SnapshotId(end_offset=offset, epoch=epoch)
        return self.records(snapshot_id=id, log_start_offset=start, **fields)

    def piece(self, data: bytes, position: int, size: int, offset: int = 10, epoch: int = 1, **fields: Any) -> Any:
        """A slice of a snapshot."""
        part = SNAPSHOT.PartitionSnapshot(
            snapshot_id=SNAPSHOT.SnapshotId(end_offset=offset, epoch=epoch),
            size=size,
            position=position,
            unaligned_records=data,
            **fields,
        )
        return SNAPSHOT(topics=[SNAPSHOT.TopicSnapshot(name="__cluster_metadata", partitions=[part])])

    def fetch(self, times: int = 1) -> list[Any]:
        """What comes of so many calls: (first offset, next offset) of batches, (id, position, data) of slices."""
        found: list[Any] = []
        for _ in range(times):
            for one in self.world.run(self.tail.fetch()):
                if isinstance(one, Batches):
                    assert one.headers["position"][0] == 0 and one.headers["size"].sum() == len(one.records)
                    found.append((int(one.headers["base_offset"][0]), one.end.offset))
                else:
                    assert isinstance(one, Slice)
                    found.append((tuple(one.id), one.position, bytes(one.data)))
        return found

    def places(self) -> list[tuple[int, int]]:
        """The offset and the epoch that the leader was asked for each time."""
        return [(one.fetch_offset, one.last_fetched_epoch) for one in self.asked]


# ---- what is committed


def test_batches_come_in_order_from_the_leader_as_an_observer_without_an_id() -> None:
    quorum = Quorum(leader=2)
    quorum.answers = [quorum.records(batch(0, 3)), quorum.records(batch(3) + batch(4, 2))]
    assert quorum.fetch(2) == [(0, 3), (3, 6)]
    assert quorum.places() == [(0, 0), (3, 1)] and set(quorum.by) == {2}
    requests = [one for name, _, one in quorum.controllers[2].asked if name == "Fetch"]
    assert {(one.replica_state, one.replica_id, one.cluster_id) for one in requests} == {(None, -1, "cluster")}
    assert quorum.tail.offset == 6


def test_what_is_above_the_high_watermark_is_held_back_until_it_is_committed() -> None:
    quorum = Quorum()
    quorum.answers = [
        quorum.records(batch(0, 2) + batch(2, 2) + batch(4), high_watermark=3),
        quorum.records(high_watermark=4),
        quorum.records(batch(5), high_watermark=5),
        quorum.records(high_watermark=6),
    ]
    assert quorum.fetch() == [(0, 2)]  # half of the batch from 2 on is below it
    assert quorum.tail.offset == 2
    assert [quorum.fetch() for _ in range(3)] == [[(2, 4)], [(4, 5)], [(5, 6)]]
    assert [one.fetch_offset for one in quorum.asked] == [0, 5, 5, 6]
    assert [one.high_watermark for one in quorum.asked] == [0, 3, 4, 5]


def test_nothing_is_given_out_while_a_new_leader_does_not_know_the_high_watermark() -> None:
    quorum = Quorum()
    quorum.answers = [quorum.records(batch(0), high_watermark=-1), quorum.records(high_watermark=1)]
    assert quorum.fetch() == [] and quorum.tail.offset == 0 and not quorum.tail.is_caught_up
    assert quorum.fetch() == [(0, 1)] and quorum.tail.is_caught_up


def test_a_high_watermark_that_goes_back_takes_nothing_back() -> None:
    quorum = Quorum()
    quorum.answers = [quorum.records(batch(0), high_watermark=2), quorum.records(batch(1), high_watermark=1)]
    assert quorum.fetch(2) == [(0, 1), (1, 2)]


@pytest.mark.parametrize(("version", "waits"), [(17, 10), (18, 500)])
def test_while_batches_are_held_back_a_leader_that_tells_no_commits_is_asked_often(version: int, waits: int) -> None:
    quorum = Quorum()
    for one in quorum.controllers.values():
        one.versions = {"Fetch": (13, version)}
    quorum.answers = [quorum.records(batch(0), high_watermark=0), quorum.records(high_watermark=1)]
    quorum.fetch(3)
    requests = [one for _, _, one in quorum.controllers[1].asked if one.__class__.__name__ == "FetchRequest"]
    assert [one.max_wait_ms for one in requests] == [500, waits, 500]


def test_not_more_than_a_bound_is_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_BYTES_MAX", 300)
    quorum = Quorum()
    quorum.answers = [
        quorum.records(batch(0, 1, size=400), high_watermark=0),
        quorum.records(batch(1), high_watermark=0),
        quorum.records(batch(1), high_watermark=1),
        quorum.records(batch(1), high_watermark=2),
    ]
    assert [quorum.fetch() for _ in range(4)] == [[], [], [(0, 1)], [(1, 2)]]
    assert quorum.places() == [(0, 0), (1, 1), (1, 1), (1, 1)]  # what there was no room for is asked for again


# ---- other leaders


def test_a_new_leader_is_followed_and_what_it_lacks_is_dropped() -> None:
    quorum = Quorum()

    def moved() -> Any:
        quorum.leader, quorum.epoch = 2, 3
        return ConnectionError("reset")

    quorum.answers = [
        quorum.records(batch(0, 2) + batch(2) + batch(3), high_watermark=2),
        moved,
        quorum.diverging(3, 1, high_watermark=9),
        quorum.records(batch(3, 1, 3), high_watermark=4),
    ]
    assert quorum.fetch(5) == [(0, 2), (2, 3), (3, 4)]
    assert quorum.places() == [(0, 0), (4, 1), (4, 1), (3, 1), (4, 3)] and quorum.by == [1, 1, 2, 2, 2]
    assert quorum.tail.quorum.leader is not None and quorum.tail.quorum.leader.epoch == 3


def test_batches_of_an_epoch_that_the_new_leader_never_saw_are_dropped_whatever_their_offsets() -> None:
    quorum = Quorum(epoch=2)
    quorum.answers = [
        quorum.records(batch(0, 2, 1) + batch(2, 1, 2) + batch(3, 1, 2), high_watermark=1),
        quorum.diverging(50, 1),
        quorum.records(batch(2, 5, 2)),
    ]
    assert quorum.fetch(3) == [(0, 2), (2, 7)]
    assert quorum.places()[1:] == [(4, 2), (2, 1)]


def test_a_leader_that_lacks_what_was_committed_is_an_error() -> None:
    quorum = Quorum()
    quorum.answers = [quorum.records(batch(0, 5)), quorum.diverging(4, 1)]
    quorum.fetch()
    with pytest.raises(
        ClientError, match=r"^controller 1 \(c1:1\) does not have the records before offset 5, which were"
    ):
        quorum.fetch()


def test_a_leader_that_never_agrees_is_an_error_in_the_end() -> None:
    quorum = Quorum()
    quorum.answers = [quorum.records(batch(0, 5))] + [quorum.diverging(9, 1)] * 20
    quorum.fetch()
    with pytest.raises(ClientError, match="does not agree to offset 5 in epoch 1, again and again"):
        quorum.fetch(20)
    assert len(quorum.asked) == 1 + module.FRUITLESS_MAX + 1


def test_a_leader_that_loses_its_epoch_says_who_leads_now() -> None:
    quorum = Quorum()

    def deposed() -> Any:
        quorum.leader, quorum.epoch = 2, 2
        return quorum.refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    quorum.answers = [quorum.records(batch(0)), deposed, quorum.records(batch(1, 1, 2))]
    before = quorum.world.now_us
    assert quorum.fetch(3) == [(0, 1), (1, 2)] and quorum.by == [1, 1, 2]
    assert quorum.world.now_us == before  # nobody was asked who leads, and nothing was waited for


def test_an_answer_of_a_newer_epoch_is_not_taken_for_one_of_the_old() -> None:
    quorum = Quorum()

    def again() -> Any:
        quorum.epoch = 4
        led = FETCH.LeaderIdAndEpoch(leader_id=1, leader_epoch=4)
        return quorum.records(batch(1), current_leader=led)

    quorum.answers = [quorum.records(batch(0)), again, quorum.records(batch(1, 1, 4))]
    assert quorum.fetch(3) == [(0, 1), (1, 2)]
    assert quorum.places() == [(0, 0), (1, 1), (1, 1)]


def test_a_leader_that_is_gone_is_looked_for_among_the_controllers_until_one_leads() -> None:
    quorum = Quorum(controllers=3)

    def dead() -> Any:
        quorum.controllers[1].refuses = quorum.broker.refuses = True
        quorum.leader, quorum.epoch = -1, 1
        quorum.world.cut(quorum.broker)
        return ConnectionError("reset")

    quorum.answers = [quorum.records(batch(0)), dead]
    quorum.fetch(2)
    task = quorum.world.client.start(quorum.tail.fetch(), quorum.world.now_us)
    for _ in range(40):
        quorum.world.step()
    assert not task.done
    quorum.leader, quorum.epoch, quorum.answers = 3, 2, [quorum.records(batch(1, 1, 2))]
    (found,) = quorum.world.wait(task)
    assert found.end.offset == 2 and quorum.by[-1] == 3


def test_controllers_that_were_reached_are_awaited_to_the_deadline() -> None:
    quorum = Quorum()
    quorum.answers = [quorum.records(batch(0)), ConnectionError("reset")]
    quorum.fetch(2)
    for one in quorum.controllers.values():
        one.refuses = True
    quorum.leader = -1
    with pytest.raises(NotInTime, match="nothing listens there"):
        quorum.fetch()


def test_of_any_number_of_controllers_only_some_are_remembered() -> None:
    quorum = Quorum()
    listener = QUORUM.Listener(name="CONTROLLER", host="nowhere", port=1)
    part = QUORUM.PartitionData(leader_id=-1, leader_epoch=1)
    quorum.broker.answers["DescribeQuorum"] = QUORUM(
        topics=[QUORUM.TopicData(topic_name="__cluster_metadata", partitions=[part])],
        nodes=[QUORUM.Node(node_id=n, listeners=[listener]) for n in range(10, 1000)],
    )
    with pytest.raises(ClientError, match="no controller can be reached") as told:
        quorum.fetch()
    assert str(told.value).count("nowhere:1") == 100


def test_an_older_leader_is_not_believed() -> None:
    quorum = Quorum(controllers=3, epoch=5)
    quorum.answers = [quorum.records(batch(0, 1, 5)), ConnectionError("reset")]
    quorum.fetch(2)
    quorum.controllers[1].refuses = True
    old = FETCH.LeaderIdAndEpoch(leader_id=3, leader_epoch=4)
    quorum.controllers[2].answers["Fetch"] = quorum.reply(FETCH.PartitionData(error_code=6, current_leader=old))
    quorum.leader, quorum.epoch = 3, 6
    quorum.answers = [quorum.records(batch(1, 1, 6))]
    assert quorum.fetch(1) == [(1, 2)] and quorum.asked[-1].current_leader_epoch == 6


# ---- snapshots


def test_where_the_log_begins_with_a_snapshot_it_comes_first_in_slices() -> None:
    quorum = Quorum()
    quorum.answers = [
        quorum.snapshot(10, 3, start=10),
        quorum.piece(b"abc", 0, 5, 10, 3),
        quorum.piece(b"de", 3, 5, 10, 3),
        quorum.records(batch(10, 2, 3), high_watermark=12),
    ]
    quorum.epoch = 3
    assert quorum.fetch(4) == [((10, 3), 0, b"abc"), ((10, 3), 3, b"de"), (10, 12)]
    assert [(one.position, one.snapshot_id.end_offset, one.snapshot_id.epoch) for one in quorum.asked[1:3]] == [
        (0, 10, 3),
        (3, 10, 3),
    ]
    assert (quorum.asked[3].fetch_offset, quorum.asked[3].last_fetched_epoch) == (10, 3)


def test_a_batch_in_which_a_snapshot_ends_is_given_whole() -> None:
    quorum = Quorum()
    quorum.answers = [
        quorum.snapshot(10),
        quorum.piece(b"s", 0, 1),
        quorum.records(batch(8, 4)),
        quorum.records(batch(11)),
    ]
    assert quorum.fetch(3) == [((10, 1), 0, b"s"), (8, 12)]
    with pytest.raises(ClientError, match="do not continue the log at offset 12"):
        quorum.fetch()


@pytest.mark.parametrize("needed", [10, 11, NEWEST])
def test_the_newest_snapshot_does_if_it_ends_where_the_state_is_needed(needed: int) -> None:
    quorum = Quorum().wants(needed)
    quorum.answers = [quorum.snapshot(10, start=0), quorum.piece(b"abc", 0, 3), quorum.records(batch(10))]
    assert quorum.fetch(3) == [((10, 1), 0, b"abc"), (10, 11)]


@pytest.mark.parametrize("needed", [0, 9])
def test_a_log_that_begins_at_0_is_read_whole_but_for_its_first_record(needed: int) -> None:
    quorum = Quorum(epoch=7).wants(needed)
    quorum.answers = [quorum.snapshot(10, start=0), quorum.records(batch(1, 4, 2)), quorum.records(batch(5, 1, 7))]
    assert quorum.fetch(3) == [(1, 5), (5, 6)]
    assert quorum.places() == [(0, 0), (1, 7), (5, 2)]  # any offset may be asked for in the leader's own epoch


def test_a_first_batch_that_began_before_the_offset_is_taken_whole() -> None:
    quorum = Quorum().wants(0)
    quorum.answers = [quorum.snapshot(10, start=0), quorum.records(batch(0, 4)), quorum.records(batch(4))]
    assert quorum.fetch(3) == [(0, 4), (4, 5)]


@pytest.mark.parametrize("refers", ["diverging", "snapshot"])
def test_the_oldest_snapshot_is_found_where_the_log_begins(refers: str) -> None:
    quorum = Quorum(epoch=9).wants(0)
    if refers == "diverging":  # the record behind the snapshot is of a later epoch than the snapshot
        found = [quorum.snapshot(10, 3, start=5), quorum.diverging(5, 1)]
        id = (5, 1)
    else:
        found, id = [quorum.records(batch(5, 3, 3))], (5, 3)
    quorum.answers = [
        quorum.snapshot(10, 8, start=5),
        quorum.records(batch(5, 3, 3)),
        *found,
        quorum.piece(b"s", 0, 1, *id),
        quorum.records(batch(5, 3, 3)),
    ]
    assert quorum.fetch(3) == [(id, 0, b"s"), (5, 8)]
    asked = [(one.fetch_offset, one.last_fetched_epoch) for one in quorum.asked if hasattr(one, "fetch_offset")]
    assert asked == [(0, 0), (6, 9), (5, 3), *([(6, 2)] if refers == "diverging" else []), id]


def test_a_leader_that_does_not_name_its_oldest_snapshot_gives_its_newest() -> None:
    quorum = Quorum(epoch=9).wants(0)
    quorum.answers = [
        quorum.snapshot(10, 8, start=5),
        quorum.records(batch(5, 3, 3)),
        quorum.snapshot(10, 8, start=5),
        quorum.snapshot(10, 8, start=5),
        quorum.piece(b"s", 0, 1, 10, 8),
    ]
    assert quorum.fetch(2) == [((10, 8), 0, b"s")]


def test_a_snapshot_that_is_gone_is_replaced_by_the_next() -> None:
    quorum = Quorum()
    gone = quorum.refusal(ErrorCode.SNAPSHOT_NOT_FOUND, snapshot=True)
    quorum.answers = [
        quorum.snapshot(10),
        quorum.piece(b"abc", 0, 5),
        gone,
        quorum.snapshot(20),
        quorum.piece(b"xy", 0, 2, 20),
        quorum.records(batch(20)),
    ]
    assert quorum.fetch(6) == [((10, 1), 0, b"abc"), ((20, 1), 0, b"xy"), (20, 21)]


@pytest.mark.parametrize(
    "wrong",
    [
        dict(data=b"de", position=3, size=5, offset=11),
        dict(data=b"de", position=3, size=5, epoch=2),
        dict(data=b"de", position=2, size=5),
        dict(data=b"de", position=3, size=6),
        dict(data=b"def", position=3, size=5),
        dict(data=b"de", position=3, size=-1),
    ],
    ids=["another id", "another epoch", "another position", "another size", "more than its size", "no size"],
)
def test_a_slice_that_does_not_go_on_with_the_snapshot_begins_it_anew(wrong: Any) -> None:
    quorum = Quorum()
    quorum.answers = [
        quorum.snapshot(10),
        quorum.piece(b"abc", 0, 5),
        quorum.piece(**wrong),
        quorum.piece(b"abc", 0, 5),
        quorum.piece(b"de", 3, 5),
    ]
    assert [(position, data) for _, position, data in quorum.fetch(5)] == [(0, b"abc"), (0, b"abc"), (3, b"de")]


def test_a_snapshot_begins_anew_with_another_leader() -> None:
    quorum = Quorum()

    def deposed() -> Any:
        quorum.leader, quorum.epoch = 2, 2
        return quorum.refusal(ErrorCode.FENCED_LEADER_EPOCH, snapshot=True)

    quorum.answers = [
        quorum.snapshot(10),
        quorum.piece(b"abc", 0, 5),
        deposed,
        quorum.piece(b"abcd", 0, 4),
    ]
    assert [(position, data) for _, position, data in quorum.fetch(4)] == [(0, b"abc"), (0, b"abcd")]
    assert quorum.by == [1, 1, 1, 2] and quorum.asked[-1].position == 0


@pytest.mark.parametrize("size", [5, 0])
def test_a_snapshot_of_which_nothing_comes_is_an_error_in_the_end(size: int) -> None:
    quorum = Quorum()
    quorum.answers = [quorum.snapshot(10)] + [quorum.piece(b"", 0, size)] * 20
    with pytest.raises(ClientError, match="sends nothing of the snapshot that ends at offset 10 in epoch 1, again"):
        quorum.fetch(20)


def test_a_slice_larger_than_asked_is_an_error() -> None:
    quorum = Quorum()
    quorum.answers = [quorum.snapshot(10), quorum.piece(bytes(module.SLICE_BYTES + 1), 0, 1 << 40)]
    with pytest.raises(ClientError, match=r"^controller 1 \(c1:1\) sent 4194305 bytes of a snapshot, and 4194304 were"):
        quorum.fetch(2)


def test_a_log_whose_start_has_passed_the_reader_goes_on_with_a_snapshot() -> None:
    quorum = Quorum()
    quorum.answers = [
        quorum.records(batch(0, 3)),
        quorum.snapshot(20, start=20),
        quorum.piece(b"s", 0, 1, 20),
        quorum.records(batch(20)),
    ]
    assert quorum.fetch(4) == [(0, 3), ((20, 1), 0, b"s"), (20, 21)]


def test_a_snapshot_of_what_was_read_already_is_an_error_in_the_end() -> None:
    quorum = Quorum()
    quorum.answers = [quorum.records(batch(0, 5))] + [quorum.snapshot(5)] * 20
    with pytest.raises(ClientError, match="wants offset 5 to be read from the snapshot that ends at offset 5"):
        quorum.fetch(20)


@pytest.mark.parametrize(("end", "epoch", "start"), [(3, 1, 5), (-1, 1, 0), (10, -1, 0)])
def test_a_snapshot_that_cannot_be_is_an_error_in_the_end(end: int, epoch: int, start: int) -> None:
    quorum = Quorum()
    quorum.answers = [quorum.snapshot(end, epoch, start)] * 20
    with pytest.raises(ClientError, match="again and again: its answers make no sense"):
        quorum.fetch(20)


def test_the_drafts_log_has_another_name() -> None:
    quorum = Quorum()
    unknown = quorum.refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, snapshot=True)
    quorum.answers = [quorum.snapshot(10), unknown, quorum.piece(b"s", 0, 1)]
    assert quorum.fetch(3) == [((10, 1), 0, b"s")]
    names = [one.topics[0].name for name, _, one in quorum.controllers[1].asked if name == "FetchSnapshot"]
    assert names == ["__cluster_metadata", "__kafka_metadata"]


# ---- what makes no sense


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"x" * 100, "that are no batch"),
        (batch(0)[:-1] + b"?", "that are no batch"),
        (batch(0)[:40], "and no whole batch"),
        (batch(1), "do not continue the log at offset 0"),
        (batch(0) + batch(2), "do not continue the log at offset 0"),
        (batch(0, 1, 2) + batch(1, 1, 1), "do not continue the log at offset 0"),
        (batch(0, 1, 9), "do not continue the log at offset 0"),
    ],
    ids=["garbage", "a wrong checksum", "cut", "a gap before", "a gap between", "an older epoch", "a later epoch"],
)
def test_batches_that_are_none_are_an_error(data: bytes, why: str) -> None:
    quorum = Quorum(epoch=2)
    quorum.answers = [quorum.records(data)]
    with pytest.raises(ClientError, match=why):
        quorum.fetch()


def test_a_batch_that_the_answer_cuts_off_comes_again() -> None:
    quorum = Quorum()
    quorum.answers = [quorum.records(batch(0) + batch(1)[:-3]), quorum.records(batch(1))]
    assert quorum.fetch(2) == [(0, 1), (1, 2)]


def test_an_answer_larger_than_asked_is_an_error_unless_it_is_one_batch() -> None:
    large = batch(0, 1, size=module.ANSWER_BYTES)
    quorum = Quorum()
    quorum.answers = [quorum.records(large), quorum.records(batch(1, 1, size=1 << 20) * 9)]
    assert quorum.fetch() == [(0, 1)]
    with pytest.raises(ClientError, match="bytes, and 8388608 were asked for"):
        quorum.fetch()


@pytest.mark.parametrize("count", [0, 2])
def test_an_answer_of_another_number_of_partitions_is_an_error(count: int) -> None:
    quorum = Quorum()
    topic = FETCH.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[FETCH.PartitionData(records=b"")] * count)
    quorum.answers = [FETCH(responses=[topic])]
    with pytest.raises(ClientError, match="was asked for one partition, and answers with another number of them"):
        quorum.fetch()


def test_a_code_that_cannot_pass_is_told() -> None:
    quorum = Quorum()
    quorum.answers = [quorum.reply(FETCH.PartitionData(error_code=ErrorCode.INVALID_REQUEST, records=b""))]
    with pytest.raises(ClientError, match=r"^the metadata log at controller 1 \(c1:1\): .*INVALID_REQUEST"):
        quorum.fetch()


# ---- where it is


def test_without_the_right_one_sentence_says_what_to_grant_and_where_to_look_instead() -> None:
    quorum = Quorum()
    quorum.answers = [FETCH(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]
    with pytest.raises(ClientError) as told:
        quorum.fetch()
    assert str(told.value).startswith(
        "controller 1 (c1:1) does not give this login the metadata log: grant it CLUSTER_ACTION"
    )
    assert "rayft replay" in str(told.value) and "rayft topic" in str(told.value)


def test_without_the_right_to_know_the_quorum_likewise() -> None:
    quorum = Quorum()
    quorum.broker.answers["DescribeQuorum"] = QUORUM(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(ClientError, match=r"^the quorum does not give this login the metadata log: grant it"):
        quorum.fetch()


def test_where_only_brokers_can_be_reached_one_sentence_says_so() -> None:
    quorum = Quorum()
    for one in quorum.controllers.values():
        one.refuses = True
    with pytest.raises(
        ClientError, match=r"^no controller can be reached from here, .* own listener \(c2:2, c1:1\): open"
    ):
        quorum.fetch(5)
    assert [name for name, _, _ in quorum.broker.asked].count("DescribeQuorum") == 3


@pytest.mark.parametrize("leader", [1, -1])
def test_a_controller_with_another_login_than_brokers_is_told_as_such(leader: int) -> None:
    quorum = Quorum(leader=leader)
    if leader < 0:  # the controllers are known from earlier, and asked who leads
        quorum.tail.quorum.answered(1, 1, [FETCH.NodeEndpoint(node_id=1, host="c1", port=1)])
        quorum.tail.quorum.lost()
    quorum.controllers[1].answers["ApiVersions"] = b"HTTP/1.1 400 Bad Request\r\n"
    with pytest.raises(ClientError, match=r"^controller 1 .*controllers may ask for another login or TLS than brokers"):
        quorum.fetch()


def test_a_release_that_does_not_tell_its_controllers_is_told_as_such() -> None:
    quorum = Quorum()
    quorum.broker.versions = {"DescribeQuorum": (0, 1)}
    with pytest.raises(ClientError, match=r"^this Kafka does not tell where its controllers are: that needs Kafka 3.9"):
        quorum.fetch()


def test_a_controller_that_follows_will_do_as_the_bootstrap_server() -> None:
    quorum = Quorum(leader=2)
    part = QUORUM.PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    quorum.broker.answers["DescribeQuorum"] = QUORUM(topics=[QUORUM.TopicData(partitions=[part])])
    quorum.broker.answers["Fetch"] = lambda *_: quorum.refusal(ErrorCode.FENCED_LEADER_EPOCH)
    quorum.answers = [quorum.records(batch(0))]
    assert quorum.fetch() == [(0, 1)] and quorum.by == [2]


def test_a_quorum_without_a_leader_is_awaited_to_the_deadline() -> None:
    quorum = Quorum(leader=-1)
    with pytest.raises(NotInTime):
        quorum.fetch()
    begun = 1_000_000
    assert 55_000_000 < quorum.world.now_us - begun < 65_000_000


def test_what_was_committed_when_the_reading_began_is_known() -> None:
    quorum = Quorum()
    quorum.answers = [
        quorum.records(batch(0, 2), high_watermark=4),
        quorum.records(batch(2, 2), high_watermark=9),
    ]
    assert not quorum.tail.is_caught_up
    quorum.fetch()
    assert not quorum.tail.is_caught_up
    quorum.fetch()
    assert quorum.tail.is_caught_up and quorum.tail.first_high_watermark == 4
