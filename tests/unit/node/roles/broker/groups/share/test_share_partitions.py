"""ShareFetch and ShareAcknowledge over the wire: sessions, long polls, what is stored, leaderships that end."""

from typing import Any

import pytest

from actors.broker.groups.share.delivery import share_sessions
from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.broker.groups.share.delivery.share_sessions import EPOCH_MAX, SessionOwner, ShareSessions
from actors.broker.replication.admission import RequestRefused
from actors.broker.replication.reading import look
from actors.metadata import ops
from actors.metadata.features import SHARE_VERSION
from actors.metadata.topic_names import SHARE_STATE_TOPIC
from actors.node.api.share.share_reads import READ_BYTES_MAX
from actors.node.roles.broker.groups.share.share_persister import SharePersister
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.batch import headers
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab, Pending

STATE_ID = b"\x08" * 16
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
GROUP_RESOURCE = 32
LOCK_MS = 30_000
NONE = ErrorCode.NONE


class Consumers:
    """Members of share group `g` at broker 1, which leads `t-0`; broker 2 leads `__share_group_state`."""

    def __init__(self, *, begins: str = "earliest", **settings: str) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.lab = Lab(2, {"share.coordinator.state.topic.num.partitions": "1"} | given)
        self.lab.commit(ops.FeatureSet(SHARE_VERSION, 1))
        self.lab.topic([2], SHARE_STATE_TOPIC, STATE_ID)
        self.lab.topic([1, 2])
        self.set("share.auto.offset.reset", begins)
        told: list[Any] = []  # what the group coordinator does when it gives a member the partition
        self.lab.broker(1).share_persister.initialize(SharePartitionKey("g", TOPIC_ID, 0), 0, -1, told.append)
        self.lab.pass_ms(200)
        assert told[0].error_code == NONE, told
        self.epochs: dict[str, int] = {}
        self.kind = message("ShareFetchRequest")

    def set(self, name: str, value: str, group: str = "g") -> None:
        self.lab.commit(ops.ConfigSet(GROUP_RESOURCE, group, name, value))

    def produce(self, count: int = 10) -> None:
        pending = self.lab.produce(1, *(b"value" for _ in range(count)))
        self.lab.settle()
        assert pending.done

    def begin(self, member: str = "m", acks: Any = (), *, broker: int = 1, connection: int = 7, **more: Any) -> Pending:
        """Send a ShareFetch in the member's session. `acks`: (first, last, type)."""
        given = {
            "max_wait_ms": 100,
            "max_records": 1000,
            "batch_size": 1000,
            "max_bytes": 1 << 20,
            "min_bytes": 1,
        } | more
        epoch = given.pop("epoch", self.epochs.get(member, 0))
        topics = [
            self.kind.FetchTopic(
                topic_id=TOPIC_ID,
                partitions=[self.kind.FetchPartition(partition_index=0, acknowledgement_batches=self.batches(acks))],
            )
        ]
        request = self.kind(
            group_id="g",
            member_id=member,
            share_session_epoch=epoch,
            topics=topics if epoch == 0 or acks else [],
            **given,
        )
        self.epochs[member] = epoch + 1
        return self.lab.call(broker, "ShareFetch", 2, request, connection=connection)

    def batches(self, acks: Any, kind: Any = None) -> list[Any]:
        return [
            (kind or self.kind).AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=types if isinstance(types, list) else [types]
            )
            for first, last, types in acks
        ]

    def fetch(self, member: str = "m", acks: Any = (), **more: Any) -> list[tuple[int, int, int]]:
        """What is acquired. The records that come are those and no others."""
        reply = self.answer(self.begin(member, acks, **more))
        assert reply.error_code == NONE, reply.error_message
        return self.acquired(reply)

    def answer(self, pending: Pending) -> Any:
        self.lab.settle()
        for _ in range(20):
            if pending.done:
                return pending.reply
            self.lab.pass_ms(100)
        raise AssertionError("not answered")

    def acquired(self, reply: Any) -> list[tuple[int, int, int]]:
        found = []
        for topic in reply.responses:
            for one in topic.partitions:
                assert one.error_code == NONE, one.error_message
                assert one.acknowledge_error_code == NONE, one.acknowledge_error_message
                acquired = [(run.first_offset, run.last_offset, run.delivery_count) for run in one.acquired_records]
                if acquired:
                    read = headers(bytes(one.records))
                    assert read[0].base_offset <= acquired[0][0] <= read[0].last_offset
                    assert read[-1].base_offset <= acquired[-1][1] <= read[-1].last_offset
                found += acquired
        return found

    def acknowledge(self, member: str, *acks: Any, version: int = 2, **more: Any) -> Pending:
        kind = message("ShareAcknowledgeRequest")
        epoch = more.pop("epoch", self.epochs.get(member, 0))
        self.epochs[member] = epoch + 1
        part = kind.AcknowledgePartition(partition_index=0, acknowledgement_batches=self.batches(acks, kind))
        request = kind(
            group_id="g",
            member_id=member,
            share_session_epoch=epoch,
            topics=[kind.AcknowledgeTopic(topic_id=TOPIC_ID, partitions=[part])] if acks else [],
            **more,
        )
        return self.lab.call(1, "ShareAcknowledge", version, request)

    def said(self, member: str, *acks: Any, **more: Any) -> ErrorCode:
        """What the acknowledgements come to."""
        reply = self.answer(self.acknowledge(member, *acks, **more))
        if reply.error_code:
            return ErrorCode(reply.error_code)
        return ErrorCode(reply.responses[0].partitions[0].error_code) if acks else NONE


def test_records_go_to_one_member_and_are_done_once_they_are_accepted() -> None:
    scene = Consumers()
    scene.produce(10)
    assert scene.fetch("a") == [(0, 9, 1)]
    assert scene.fetch("b") == []
    scene.produce(5)
    assert scene.fetch("b") == [(10, 14, 1)]
    assert scene.fetch("a", [(0, 9, ACCEPT)]) == []
    assert scene.said("b", (10, 14, ACCEPT)) is NONE
    (held,) = scene.lab.broker(1).shares._held.values()
    assert held.share.window is not None and held.share.window.start == 15


def test_a_long_poll_is_answered_by_a_record_and_by_one_that_is_given_back() -> None:
    scene = Consumers()
    scene.produce(1)
    assert scene.fetch("a") == [(0, 0, 1)]
    pending = scene.begin("b", max_wait_ms=5_000)
    scene.lab.settle()
    assert not pending.done
    assert scene.said("a", (0, 0, RELEASE)) is NONE
    assert scene.acquired(scene.answer(pending)) == [(0, 0, 2)]
    pending = scene.begin("a", max_wait_ms=5_000)
    scene.lab.settle()
    assert not pending.done
    scene.produce(1)
    assert pending.done and scene.acquired(pending.reply) == [(1, 1, 1)]


def test_many_who_wait_for_one_record_are_left_waiting_but_for_one() -> None:
    scene = Consumers()
    waiting = {member: scene.begin(member, max_wait_ms=5_000) for member in "abcd"}
    scene.lab.settle()
    for number, first in enumerate("abcd"):
        scene.produce(1)
        assert [member for member, pending in waiting.items() if pending.done] == [first]
        assert scene.acquired(waiting.pop(first).reply) == [(number, number, 1)]
    assert scene.said("c", (2, 2, RELEASE)) is NONE
    assert scene.fetch("d") == [(2, 2, 2)]


def test_who_waits_at_a_full_window_goes_on_when_there_is_room() -> None:
    scene = Consumers(group_share_partition_max_record_locks="100")
    scene.produce(100)
    assert scene.fetch("a") == [(0, 99, 1)]
    pending = scene.begin("b", max_wait_ms=5_000)
    scene.lab.settle()
    scene.produce(1)
    assert not pending.done
    assert scene.said("a", (0, 99, ACCEPT)) is NONE
    assert pending.done and scene.acquired(pending.reply) == [(100, 100, 1)]


def test_who_waits_at_a_full_window_goes_on_when_its_records_are_deleted() -> None:
    scene = Consumers(group_share_partition_max_record_locks="100")
    scene.produce(100)
    assert scene.fetch("a") == [(0, 99, 1)]
    pending = scene.begin("b", max_wait_ms=5_000)
    scene.produce(10)
    assert not pending.done
    kind = message("DeleteRecordsRequest")
    partitions = [kind.DeleteRecordsPartition(partition_index=0, offset=100)]
    topics = [kind.DeleteRecordsTopic(name="t", partitions=partitions)]
    scene.lab.call(1, "DeleteRecords", 2, kind(topics=topics, timeout_ms=1000))
    scene.lab.settle()
    assert pending.done and scene.acquired(pending.reply) == [(100, 109, 1)]


def test_partitions_behind_one_that_has_enough_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Consumers()
    other = b"\x02" * 16
    scene.lab.topic([1, 2], "u", other)
    scene.lab.broker(1).share_persister.initialize(SharePartitionKey("g", other, 0), 0, -1, lambda told: None)
    scene.lab.pass_ms(200)
    scene.produce(10)
    scene.lab.produce(1, b"v", topic="u")
    scene.lab.settle()
    partition = scene.kind.FetchPartition(partition_index=0)
    topics = [scene.kind.FetchTopic(topic_id=id, partitions=[partition]) for id in (TOPIC_ID, other)]
    sizes = _reads(monkeypatch)

    def acquired(records: int, epoch: int) -> list[bytes]:
        request = scene.kind(
            group_id="g", member_id="m", share_session_epoch=epoch, topics=[] if epoch else topics, min_bytes=1,
            max_wait_ms=100, max_records=records, batch_size=records, max_bytes=1 << 20,
        )  # fmt: skip
        reply = scene.answer(scene.lab.call(1, "ShareFetch", 2, request))
        return [topic.topic_id for topic in reply.responses if topic.partitions[0].acquired_records]

    assert acquired(10, 0) == [TOPIC_ID] and len(sizes) == 1
    assert acquired(10, 1) == [other] and len(sizes) == 2
    scene.produce(4)
    scene.lab.produce(1, b"v", topic="u")
    scene.lab.settle()
    assert set(acquired(10, 2)) == {TOPIC_ID, other} and len(sizes) == 4


def test_who_waits_hears_that_the_share_partition_is_over() -> None:
    scene = Consumers()
    pending = scene.begin("a", max_wait_ms=60_000)
    scene.lab.settle()
    shares = scene.lab.broker(1).shares
    (held,) = shares
    shares._fence(held, ErrorCode.GROUP_ID_NOT_FOUND)
    scene.lab.settle()
    assert pending.done and pending.reply.responses[0].partitions[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_who_waits_hears_that_its_session_is_over() -> None:
    scene = Consumers()
    pending = scene.begin("a", max_wait_ms=60_000)
    scene.lab.settle()
    scene.begin("a", epoch=0, max_wait_ms=60_000)
    scene.produce(1)
    assert pending.done and pending.reply.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


def _reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what is read for share groups from now on."""
    sizes: list[int] = []

    def noting(*arguments: Any, **named: Any) -> Any:
        found = look(*arguments, **named)
        sizes.append(found.size)
        return found

    monkeypatch.setattr("actors.node.api.share.share_reads.look", noting)
    return sizes


def test_as_much_is_read_as_the_records_that_are_wanted_are_likely_to_take(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Consumers()
    for _ in range(300):
        scene.lab.produce(1, *(b"v" * 1000 for _ in range(10)))
    scene.lab.settle()
    sizes = _reads(monkeypatch)
    assert scene.fetch("a", max_records=50, batch_size=50) == [(0, 49, 1)]
    assert 900_000 < sizes[0] <= READ_BYTES_MAX, "nothing is known of the records yet"
    for number in range(1, 4):
        assert scene.fetch("a", max_records=50, batch_size=50) == [(50 * number, 50 * number + 49, 1)]
        assert 50_000 < sizes[number] < 110_000


def test_what_a_member_waits_for_need_not_be_read() -> None:
    scene = Consumers()
    for _ in range(10):
        scene.lab.produce(1, *(b"v" * 1000 for _ in range(10)))
    scene.lab.settle()
    assert scene.fetch("a", max_records=10) == [(0, 9, 1)]
    pending = scene.begin("a", max_records=10, min_bytes=80_000, max_wait_ms=60_000)
    scene.lab.settle()
    assert pending.done and scene.acquired(pending.reply) == [(10, 19, 1)]
    pending = scene.begin("a", max_records=10, min_bytes=100_000, max_wait_ms=60_000)
    scene.lab.settle()
    assert not pending.done
    for _ in range(3):
        scene.lab.produce(1, *(b"v" * 1000 for _ in range(10)))
    scene.lab.settle()
    assert pending.done and scene.acquired(pending.reply) == [(20, 29, 1)]


def test_records_that_grow_are_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Consumers()
    scene.produce(100)
    assert scene.fetch("a", max_records=100) == [(0, 99, 1)]
    for _ in range(6):
        scene.lab.produce(1, b"v" * 100_000, b"v" * 100_000)
    scene.lab.settle()
    sizes = _reads(monkeypatch)
    assert scene.fetch("a", max_records=8, batch_size=8) == [(100, 101, 1)], "a batch comes in any case"
    assert scene.fetch("a", max_records=8, batch_size=8)[0][0] == 102 and sizes[-1] > 600_000


def test_what_lies_in_the_window_is_read_too_for_a_member_that_wants_more(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Consumers()
    for _ in range(20):
        scene.lab.produce(1, *(b"v" * 1000 for _ in range(10)))
    scene.lab.settle()
    assert scene.fetch("a", max_records=100, batch_size=10)[-1] == (90, 99, 1)
    assert scene.said("a", (0, 9, RELEASE), (90, 99, RELEASE)) is NONE
    sizes = _reads(monkeypatch)
    found = scene.fetch("b", max_records=100, batch_size=10)
    assert (found[0], found[1], found[-1]) == ((0, 9, 2), (90, 99, 2), (170, 179, 1)), found
    assert len(sizes) == 1


def test_a_lock_that_ends_gives_the_record_to_who_waits() -> None:
    scene = Consumers(group_share_record_lock_duration_ms="1000", group_share_min_record_lock_duration_ms="1000")
    scene.produce(1)
    reply = scene.answer(scene.begin("a"))
    assert reply.acquisition_lock_timeout_ms == 1000
    pending = scene.begin("b", max_wait_ms=3_000)
    scene.lab.pass_ms(900)
    assert not pending.done
    assert scene.said("a", (0, 0, RENEW), is_renew_ack=True) is NONE
    scene.lab.pass_ms(900)
    assert not pending.done
    scene.lab.pass_ms(200)
    assert pending.done and scene.acquired(pending.reply) == [(0, 0, 2)]
    assert scene.said("a", (0, 0, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE


def test_the_next_leader_goes_on_where_the_state_says() -> None:
    scene = Consumers()
    scene.produce(10)
    scene.fetch("a")
    assert scene.said("a", (0, 3, ACCEPT), (4, 4, REJECT), (5, 5, RELEASE)) is NONE
    assert scene.fetch("b") == [(5, 5, 2)]
    pending = scene.begin("d", max_wait_ms=60_000)
    scene.lab.settle()
    assert not pending.done
    scene.lab.change([1, 2], 2)
    scene.lab.settle()
    assert pending.done and pending.reply.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert pending.reply.responses[0].partitions[0].current_leader.leader_id == 2
    assert [one.node_id for one in pending.reply.node_endpoints] == [2]
    assert scene.said("a", (6, 9, ACCEPT)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert scene.fetch("c", broker=2) == [(5, 5, 2), (6, 9, 1)]


def test_a_leader_whose_successor_has_read_the_state_is_fenced() -> None:
    scene = Consumers()
    scene.produce(10)
    scene.fetch("a")
    scene.lab.cut.add(1)
    scene.lab.change([2], 2)
    scene.lab.settle()
    assert scene.fetch("c", broker=2) == [(0, 9, 1)]
    assert scene.said("a", (0, 9, ACCEPT)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    refused = scene.answer(scene.begin("e", broker=1))
    assert refused.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert scene.fetch("d", broker=2) == []


def test_acknowledgements_wait_until_they_are_stored() -> None:
    scene = Consumers()
    scene.produce(10)
    scene.fetch("a")
    scene.lab.lost.add("WriteShareGroupState")
    pending = scene.acknowledge("a", (0, 9, ACCEPT))
    scene.lab.pass_ms(2_000)
    assert not pending.done
    assert scene.said("a", (0, 9, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE
    scene.lab.lost.clear()
    scene.lab.pass_ms(2_000)
    assert pending.done and pending.reply.responses[0].partitions[0].error_code == NONE


def test_what_cannot_be_stored_for_long_fails_and_the_record_comes_again() -> None:
    scene = Consumers()
    scene.produce(1)
    scene.fetch("a")
    scene.lab.lost.add("WriteShareGroupState")
    pending = scene.acknowledge("a", (0, 0, ACCEPT))
    scene.lab.pass_ms(31_000)
    code = pending.reply.responses[0].partitions[0].error_code
    assert code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert scene.fetch("b") == [(0, 0, 2)]


def test_a_connection_that_closes_gives_back_what_its_member_has() -> None:
    scene = Consumers()
    scene.produce(10)
    assert scene.fetch("a", connection=8) == [(0, 9, 1)]
    scene.lab.nodes[1].node.closed(8, False)
    scene.lab.settle()
    assert not scene.lab.broker(1).shares.sessions.by_owner
    assert scene.fetch("b") == [(0, 9, 2)]
    scene.lab.nodes[1].node.closed(7, False)
    scene.lab.settle()
    shares = scene.lab.broker(1).shares
    assert (len(shares), shares.sessions.uses, shares.sessions._entries) == (0, {}, 0)


def test_the_last_request_of_a_session_acknowledges_and_gives_back_the_rest() -> None:
    scene = Consumers()
    scene.produce(10)
    scene.fetch("a")
    assert scene.fetch("a", [(0, 4, ACCEPT)], epoch=-1) == []
    assert scene.fetch("b") == [(5, 9, 2)]
    assert scene.said("a", epoch=-1) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert scene.said("b", (5, 9, ACCEPT), epoch=-1) is NONE
    assert scene.said("b", epoch=-1) is ErrorCode.SHARE_SESSION_NOT_FOUND


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"epoch": 5}, ErrorCode.SHARE_SESSION_NOT_FOUND),
        ({"epoch": -1}, ErrorCode.SHARE_SESSION_NOT_FOUND),
        ({"epoch": 0, "acks": [(0, 0, 1)]}, ErrorCode.INVALID_REQUEST),
        ({"member": ""}, ErrorCode.INVALID_REQUEST),
        ({"member": "m" * 37}, ErrorCode.INVALID_REQUEST),
        ({"is_renew_ack": True}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_requests_that_make_no_sense(given: dict[str, Any], code: ErrorCode) -> None:
    scene = Consumers()
    assert scene.answer(scene.begin(**given)).error_code == code


def test_an_epoch_that_does_not_follow() -> None:
    scene = Consumers()
    scene.fetch("a")
    for epoch in (0, 2, 3):
        assert scene.said("a", epoch=epoch) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert scene.fetch("a", epoch=1) == []


def test_sessions_are_limited_and_who_gets_none_waits() -> None:
    scene = Consumers(group_share_max_share_sessions="1")
    assert scene.fetch("a") == []
    pending = scene.begin("b", max_wait_ms=500)
    scene.lab.pass_ms(400)
    assert not pending.done
    scene.lab.pass_ms(100)
    assert pending.reply.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert scene.fetch("a", epoch=0) == []


def test_a_cluster_without_share_groups() -> None:
    scene = Consumers()
    scene.lab.commit(ops.FeatureSet(SHARE_VERSION, 0))
    assert scene.answer(scene.begin()).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert scene.said("m") is ErrorCode.UNSUPPORTED_VERSION


def test_a_group_begins_where_its_settings_say() -> None:
    scene = Consumers(begins="latest")
    scene.produce(10)
    assert scene.fetch("a") == []
    scene.produce(3)
    assert scene.fetch("a") == [(10, 12, 1)]
    scene = Consumers(begins="by_duration:PT3S")
    scene.produce(4)
    scene.lab.pass_ms(4_000)
    scene.produce(2)
    assert scene.fetch("a") == [(4, 5, 1)]


@pytest.mark.parametrize("said", [False, True])
def test_where_a_group_began_outlives_the_leader_once_something_is_stored(said: bool) -> None:
    """As with Apache Kafka, whose share partition writes with an acknowledgement, a release or a lock that ends, and not
    when it begins: a group that reads from the latest record on begins anew with the next leader until then."""
    scene = Consumers(begins="latest")
    assert scene.fetch("a") == []
    scene.produce(3)
    assert scene.fetch("a") == [(0, 2, 1)]
    if said:
        assert scene.said("a", (0, 0, ACCEPT)) is NONE
    scene.lab.change([1, 2], 2)
    scene.lab.settle()
    assert scene.fetch("b", broker=2) == ([(1, 2, 1)] if said else [])


def test_the_state_of_a_gone_topic_is_let_go() -> None:
    scene = Consumers()
    scene.produce(1)
    scene.fetch("a")
    pending = scene.begin("b", max_wait_ms=60_000)
    scene.lab.commit(ops.TopicGone(TOPIC_ID))
    scene.lab.settle()
    assert pending.done and pending.reply.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert len(scene.lab.broker(1).shares) == 0


def test_the_first_answer_names_every_partition_and_later_ones_what_is_new() -> None:
    scene = Consumers()
    first, second = scene.answer(scene.begin()), scene.answer(scene.begin())
    assert [one.partition_index for one in first.responses[0].partitions] == [0]
    assert second.responses == []


def test_a_strict_limit_and_the_number_of_bytes() -> None:
    scene = Consumers()
    scene.produce(10)
    scene.produce(10)
    assert scene.fetch("a", max_records=3, share_acquire_mode=1) == [(0, 2, 1)]
    assert scene.fetch("a", max_records=4) == [(3, 9, 1)]
    assert scene.fetch("a", max_bytes=1) == [(10, 19, 1)]


FAR = (1 << 63) - 1


@pytest.mark.parametrize(
    ("acks", "code"),
    [
        ([(0, FAR, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(0, 10, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(FAR, FAR, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(5, 4, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(0, 9, [ACCEPT] * 9)], ErrorCode.INVALID_REQUEST),
        ([(0, 9, [])], ErrorCode.INVALID_REQUEST),
        ([(0, 9, 99)], ErrorCode.INVALID_REQUEST),
        ([(0, 9, -1)], ErrorCode.INVALID_REQUEST),
        ([(0, 4, ACCEPT), (2, 9, ACCEPT)], ErrorCode.INVALID_REQUEST),
        ([(10, 19, ACCEPT)], ErrorCode.INVALID_RECORD_STATE),
        ([(0, 19, ACCEPT)], ErrorCode.INVALID_RECORD_STATE),
    ],
)
def test_a_member_that_lies_of_its_records_changes_nothing(acks: Any, code: ErrorCode) -> None:
    """Records behind the end, types that do not fit, and records of another member: nothing of the request holds."""
    scene = Consumers()
    scene.produce(10)
    assert scene.fetch("a") == [(0, 9, 1)]
    if acks[0][1] == 19:
        scene.produce(10)
        assert scene.fetch("b") == [(10, 19, 1)]
    assert scene.said("a", *acks) is code
    (held,) = scene.lab.broker(1).shares._held.values()
    assert held.share.idle and held.share.window is not None and held.share.window.start == 0
    held.share.window.check()
    assert scene.said("a", (0, 9, ACCEPT)) is NONE
    if acks[0][1] == 19:
        assert scene.said("b", (10, 19, ACCEPT)) is NONE


def test_partitions_of_all_sessions_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member may name a quarter of a million partitions, and so may the next one."""
    monkeypatch.setattr(share_sessions, "ENTRIES_MAX", 3)
    found = ShareSessions(10)
    first = found.begin(SessionOwner("g", "a"), 1)
    assert found.add(first, [(TOPIC_ID, 0), (TOPIC_ID, 1), (TOPIC_ID, 1)]) == [(TOPIC_ID, 0), (TOPIC_ID, 1)]
    second = found.begin(SessionOwner("g", "b"), 1)
    with pytest.raises(RequestRefused) as refused:
        found.add(second, [(TOPIC_ID, 0), (TOPIC_ID, 7)])
    assert refused.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED and not second.partitions
    assert found.add(second, [(TOPIC_ID, 0)]) == [(TOPIC_ID, 0)]
    with pytest.raises(RequestRefused):
        found.begin(SessionOwner("g", "c"), 1)
    found.end(first)
    assert found.add(second, [(TOPIC_ID, 8), (TOPIC_ID, 9)]) and found.uses.keys() == {
        SharePartitionKey("g", TOPIC_ID, number) for number in (0, 8, 9)
    }


@pytest.mark.parametrize(
    "stored",
    [
        [(5, 4, 2, 1)],
        [(0, 5, 2, 1), (3, 9, 2, 1)],
        [(5, 9, 2, 1), (0, 3, 2, 1)],
        [(-7, -1, 2, 1)],
        [(0, 4, 1, 1)],
        [(0, 4, 77, 1)],
    ],
)
def test_a_stored_state_that_makes_no_sense_ends_that_share_partition_alone(
    monkeypatch: pytest.MonkeyPatch, stored: list[tuple[int, int, int, int]]
) -> None:
    """What a share coordinator tells was read from a log: batches that overlap, run backwards or have states that are
    none. Once it is right again the group goes on."""
    scene = Consumers()
    scene.produce(10)
    persister, read = scene.lab.broker(1).share_persister, SharePersister.read
    batch = message("ReadShareGroupStateResponse").StateBatch

    def damaged(self: Any, key: SharePartitionKey, leader_epoch: int, then: Any) -> None:
        def told(result: Any) -> None:
            result.start_offset = 0
            result.state_batches = [
                batch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
                for first, last, state, count in stored
            ]
            then(result)

        read(self, key, leader_epoch, told)

    with monkeypatch.context() as patched:
        patched.setattr(type(persister), "read", damaged)
        reply = scene.answer(scene.begin("a"))
        assert [one.error_code for one in reply.responses[0].partitions] == [ErrorCode.UNKNOWN_SERVER_ERROR]
        assert any("its state makes no sense" in line for line in scene.lab.nodes[1].log.lines)
        assert len(scene.lab.broker(1).shares) == 0
    assert scene.fetch("a") == [(0, 9, 1)]


def test_a_group_that_is_none_or_has_not_begun_gets_nothing_and_leaves_nothing() -> None:
    """Whoever may read the topic may name any group: of one that has not begun nothing is remembered."""
    scene = Consumers()
    scene.produce(10)
    kind = scene.kind
    topics = [kind.FetchTopic(topic_id=TOPIC_ID, partitions=[kind.FetchPartition(partition_index=0)])]
    request = kind(group_id="other", member_id="m", max_wait_ms=100, max_records=9, max_bytes=99, topics=topics)
    reply = scene.answer(scene.lab.call(1, "ShareFetch", 2, request, connection=8))
    (one,) = reply.responses[0].partitions
    assert one.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_SERVER_ERROR) and not one.acquired_records
    scene.lab.nodes[1].node.closed(8, False)
    scene.lab.settle()
    shares = scene.lab.broker(1).shares
    assert (len(shares), shares.sessions.uses, shares.sessions._entries) == (0, {}, 0)
    assert scene.fetch("a") == [(0, 9, 1)]


def test_the_epoch_of_a_share_session_behind_the_last_one_is_the_first() -> None:
    found = ShareSessions(10)
    owner = SessionOwner("g", "m")
    session = found.begin(owner, 1)
    session.epoch = EPOCH_MAX
    for epoch in (EPOCH_MAX, 1, 2):
        assert found.follow(owner, epoch) is session
    assert session.epoch == 3
    with pytest.raises(RequestRefused):
        found.follow(owner, EPOCH_MAX)
