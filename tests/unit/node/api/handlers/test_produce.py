"""Produce and Fetch on one broker and on three, through the bytes of their requests."""

import pytest

from actors.metadata import ops
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.batch import Builder, records
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab, Pending, code, outcome


def values(pending: object) -> list[bytes | None]:
    return [record.value for record in records(outcome(pending).records)]  # type: ignore[arg-type]


def test_one_replica_acknowledges_at_once_and_serves_what_it_took() -> None:
    lab = Lab(1)
    lab.topic([1])
    first = lab.produce(1, b"a", b"b")
    assert code(first) is ErrorCode.NONE and outcome(first).base_offset == 0
    assert outcome(lab.produce(1, b"c", acks=1)).base_offset == 2
    assert lab.produce(1, b"d", acks=0).reply is None
    fetched = lab.fetch(1, 0)
    assert values(fetched) == [b"a", b"b"]
    assert outcome(fetched).high_watermark == 4


def test_three_replicas_acknowledge_when_all_have_it() -> None:
    lab = Lab(3)
    lab.topic([1, 2, 3])
    sent = lab.produce(1, b"a")
    assert not sent.done
    lab.settle()
    assert code(sent) is ErrorCode.NONE
    assert [lab.partition(id).log.log_end_offset for id in (1, 2, 3)] == [1, 1, 1]
    assert lab.partition(1).high_watermark == 1


def test_a_consumer_waits_for_data_and_sees_committed_records_only() -> None:
    lab = Lab(3)
    lab.topic([1, 2, 3])
    waiting = lab.fetch(1, 0, wait_ms=5000)
    assert not waiting.done
    lab.split.update(frozenset((1, id)) for id in (2, 3))
    lab.produce(1, b"a")
    lab.settle()
    assert not waiting.done
    lab.split.clear()
    lab.pass_ms(200)
    assert values(waiting) == [b"a"]


def test_a_long_poll_ends_empty_at_its_time() -> None:
    lab = Lab(1)
    lab.topic([1])
    waiting = lab.fetch(1, 0, wait_ms=300)
    lab.pass_ms(299)
    assert not waiting.done
    lab.pass_ms(1)
    assert code(waiting) is ErrorCode.NONE and not outcome(waiting).records


def test_errors_of_produce() -> None:
    lab = Lab(2)
    lab.topic([1])
    assert code(lab.produce(2, b"a")) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code(lab.produce(1, b"a", topic="nobody")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(lab.produce(1, b"a", number=9)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(lab.produce(1, b"a", acks=2)) is ErrorCode.INVALID_REQUIRED_ACKS
    assert code(lab.produce(1, b"a" * 2_000_000)) is ErrorCode.MESSAGE_TOO_LARGE
    assert lab.produce(2, b"a", acks=0).closed is not None


def test_a_damaged_batch_is_refused_and_leaves_nothing() -> None:
    lab = Lab(1)
    lab.topic([1])
    from actors.wire.messages import message
    from fastpath.records.batch import Builder

    builder = Builder()
    builder.append(None, b"value")
    data = builder.build()
    data[-1] ^= 1
    kind = message("ProduceRequest")
    sent = lab.call(
        1,
        "Produce",
        9,
        kind(
            acks=-1,
            timeout_ms=1,
            topic_data=[
                kind.TopicProduceData(name="t", partition_data=[kind.PartitionProduceData(index=0, records=data)])
            ],
        ),
    )
    assert code(sent) is ErrorCode.CORRUPT_MESSAGE
    assert lab.partition(1).log.log_end_offset == 0


def test_a_repeated_batch_is_answered_with_its_first_offset_when_that_is_committed() -> None:
    lab = Lab(2)
    lab.topic([1, 2])
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    lab.split.add(frozenset((1, 2)))
    lab.settle()
    first = lab.produce(1, b"a", timeout_ms=60_000, **producer)
    again = lab.produce(1, b"a", timeout_ms=60_000, acks=1, **producer)
    lab.settle()
    assert not first.done and not again.done
    lab.split.clear()
    lab.pass_ms(200)
    assert outcome(first).base_offset == outcome(again).base_offset == 0
    assert lab.partition(1).log.log_end_offset == 1


def test_a_repeated_batch_is_answered_with_the_time_that_its_records_have() -> None:
    lab = Lab(1)
    lab.topic([1], configs={"message.timestamp.type": "LogAppendTime"})
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    at_ms = lab.now.wall_ms
    assert outcome(lab.produce(1, b"a", timestamp_ms=5, **producer)).log_append_time_ms == at_ms
    lab.pass_ms(1000)
    assert outcome(lab.produce(1, b"a", timestamp_ms=5, **producer)).log_append_time_ms == at_ms


def test_a_produce_that_nobody_replicates_times_out() -> None:
    lab = Lab(2)
    lab.topic([1, 2])
    lab.split.add(frozenset((1, 2)))
    lab.settle()
    sent = lab.produce(1, b"a", timeout_ms=500)
    lab.pass_ms(500)
    assert code(sent) is ErrorCode.REQUEST_TIMED_OUT


def test_fetch_below_and_above_the_log_is_out_of_range() -> None:
    lab = Lab(1)
    lab.topic([1])
    lab.produce(1, b"a")
    assert code(lab.fetch(1, 2)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert code(lab.fetch(1, 1)) is ErrorCode.NONE
    assert code(lab.fetch(1, 0, epoch=5)) is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_full_disk_answers_storage_error_and_recovers_when_there_is_room() -> None:
    lab = Lab(1)
    lab.topic([1])
    lab.produce(1, b"a")
    lab.disks[1].room = 0
    sent = lab.produce(1, b"b" * 100)
    assert code(sent) is ErrorCode.KAFKA_STORAGE_ERROR
    assert outcome(sent).error_message == "the leader of t-0 has no room on its disk", "and no path of the broker's"
    lab.disks[1].room = None
    assert outcome(lab.produce(1, b"c")).base_offset == 1


def test_what_is_in_flight_behind_a_batch_without_room_is_not_out_of_order() -> None:
    """librdkafka begins a new producer epoch when it hears OUT_OF_ORDER_SEQUENCE_NUMBER. Under that epoch it repeats
    what another broker has appended and could not acknowledge, and those records are there twice."""
    lab = Lab(1)
    lab.topic([1])

    def sent(sequence: int, producer: int = 7) -> ErrorCode:
        return code(lab.produce(1, b"x" * 50, producer_id=producer, producer_epoch=0, base_sequence=sequence))

    assert sent(0) is sent(0, producer=8) is ErrorCode.NONE
    lab.disks[1].room = 0
    assert sent(1) is ErrorCode.KAFKA_STORAGE_ERROR
    lab.disks[1].room = None
    assert sent(2) is sent(3) is ErrorCode.KAFKA_STORAGE_ERROR
    assert sent(2, producer=8) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, (
        "nothing of this one was refused for want of room"
    )
    assert sent(1) is sent(2) is sent(3) is ErrorCode.NONE
    assert sent(9) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_partitions_of_a_session_take_turns_when_an_answer_has_no_room_for_all() -> None:
    lab = Lab(1)
    lab.topic([1], partitions=3)
    for number in range(3):
        for value in (b"a", b"b"):
            lab.produce(1, value, number=number)
    kind = message("FetchRequest")
    session, positions, seen = 0, [0, 0, 0], []
    wanted = {0, 1, 2}
    for epoch in range(6):
        places = [
            kind.FetchPartition(partition=number, fetch_offset=positions[number], partition_max_bytes=1 << 20)
            for number in sorted(wanted)
        ]
        topics = [kind.FetchTopic(topic="t", partitions=places)]
        # Room for one batch and no more.
        request = kind(max_wait_ms=0, max_bytes=1, session_id=session, session_epoch=epoch, topics=topics)
        reply = lab.call(1, "Fetch", 12, request).reply
        assert reply is not None and reply.error_code == 0
        session = reply.session_id
        wanted = {one.partition_index for topic in reply.responses for one in topic.partitions if one.records}
        for number in wanted:
            positions[number] += 1
            seen.append(number)
    assert seen == [0, 1, 2, 0, 1, 2]


def test_a_request_that_waits_in_a_session_that_is_over_leaves_nothing_behind() -> None:
    lab = Lab(1)
    lab.topic([1])
    lab.produce(1, b"a")
    kind = message("FetchRequest")

    def ask(session: int, epoch: int, wait_ms: int) -> Pending:
        one = kind.FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1 << 20)
        topics = [kind.FetchTopic(topic="t", partitions=[one])]
        request = kind(max_wait_ms=wait_ms, min_bytes=1, session_id=session, session_epoch=epoch, topics=topics)
        return lab.call(1, "Fetch", 12, request)

    opened = ask(0, 0, 0).reply.session_id
    waiting = ask(opened, 1, 1000)
    following = ask(opened, 0, 0).reply.session_id
    assert following not in (0, opened) and not waiting.done
    lab.pass_ms(1500)
    assert waiting.done and waiting.reply.error_code == ErrorCode.NONE
    assert [entry.session.id for entry in lab.partition(1).watchers] == [following]


@pytest.mark.parametrize(("replica", "again"), [(-1, []), (2, [1])])
def test_a_broker_that_names_a_partition_again_is_told_its_high_watermark_again(replica: int, again: list[int]) -> None:
    """A fetcher takes in no answer to what it has asked anew meanwhile, under another epoch or from another offset. A client
    hears of a partition when there is something new, as from Apache Kafka."""
    lab = Lab(2)
    lab.topic([1, 2])
    lab.produce(1, b"a")
    kind = message("FetchRequest")
    session, marks = 0, []
    for epoch in range(3):
        place = kind.FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1 << 20)
        topics = [kind.FetchTopic(topic="t", partitions=[place])] if epoch < 2 else []
        request = kind(
            max_wait_ms=0, max_bytes=1000, session_id=session, session_epoch=epoch, topics=topics, replica_id=replica
        )
        reply = lab.call(1, "Fetch", 12, request).reply
        session = reply.session_id
        marks.append([one.high_watermark for topic in reply.responses for one in topic.partitions])
    assert marks[1:] == [[lab.partition(1).high_watermark] if again else [], []]


def test_what_was_read_for_one_offset_is_not_given_out_at_another() -> None:
    """The fetcher asks from elsewhere, in the same session, while the disk is still at it."""
    lab = Lab(1)
    lab.topic([1])
    for value in (b"a", b"b", b"c"):
        lab.produce(1, value)
    disk, kind = lab.disks[1], message("FetchRequest")
    session = 0

    def ask(epoch: int, offset: int) -> list[bytes | None]:  # of the first batch
        nonlocal session
        place = kind.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [kind.FetchTopic(topic="t", partitions=[place])]
        request = kind(max_wait_ms=0, max_bytes=1000, session_id=session, session_epoch=epoch, topics=topics)
        pending = lab.call(1, "Fetch", 12, request)
        session = pending.reply.session_id
        return values(pending) if pending.reply.responses else []

    def elsewhere(path: str, position: int, size: int) -> bool:
        disk.cold = disk.unreadable = None
        assert ask(2, 0) == [b"a"]
        return False

    assert ask(0, 0) == [b"a"]
    disk.cold, disk.unreadable = (lambda *_: True), elsewhere
    assert ask(1, 2) == []
    assert ask(3, 0) == [b"a"]


def test_a_device_that_failed_is_given_up_also_where_its_reader_has_gone_on() -> None:
    lab = Lab(1)
    lab.topic([1])
    for value in (b"a", b"b", b"c"):
        lab.produce(1, value)
    disk, kind = lab.disks[1], message("FetchRequest")
    session = 0

    def ask(epoch: int, offset: int) -> None:
        nonlocal session
        place = kind.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [kind.FetchTopic(topic="t", partitions=[place])]
        request = kind(max_wait_ms=0, max_bytes=1000, session_id=session, session_epoch=epoch, topics=topics)
        session = lab.call(1, "Fetch", 12, request).reply.session_id

    def fails(path: str, position: int, size: int) -> bool:
        disk.cold = disk.unreadable = None
        ask(2, 0)
        return True

    ask(0, 0)
    disk.cold, disk.unreadable = (lambda *_: True), fails
    ask(1, 2)
    assert list(lab.broker(1).replicas.failed_reads) == [disk]


def test_kip_207_the_end_is_known_while_a_leader_stays_and_not_at_once_after_a_change() -> None:
    """An ISR that shrinks below the minimum holds the high watermark where it is, under a new leader epoch here."""
    lab = Lab(3)
    lab.topic([1, 2, 3], configs={"min.insync.replicas": "2"})
    lab.produce(1, b"a")
    lab.settle()
    lab.split.update((frozenset((1, 2)), frozenset((1, 3)), frozenset((2, 3))))
    lab.pass_ms(1_000)
    lab.produce(1, b"b", acks=1)
    kind = message("ListOffsetsRequest")

    def end(id: int, timestamp: int = -1) -> tuple[ErrorCode, int]:
        wanted = kind.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topic = kind.ListOffsetsTopic(name="t", partitions=[wanted])
        found = lab.call(id, "ListOffsets", 7, kind(replica_id=-1, topics=[topic])).reply.topics[0].partitions[0]
        return ErrorCode(found.error_code), found.offset

    assert end(1) == (ErrorCode.NONE, 1)
    lab.change([1], 1)
    assert end(1) == (ErrorCode.NONE, 1)
    lab.change([1, 2], 2)
    lab.change([1, 2], 1)
    assert end(1) == end(1, -3) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    assert end(1, -2) == (ErrorCode.NONE, 0)
    lab.split.clear()
    lab.pass_ms(1_000)
    assert end(1) == (ErrorCode.NONE, 2)


def test_r631_074_a_partition_without_a_leader_is_shown_so() -> None:
    lab = Lab(2)
    lab.topic([1, 2])
    lab.change([1], -1)
    shown = lab.call(1, "Metadata", 9, message("MetadataRequest")(topics=None)).reply.topics[0].partitions[0]
    assert (shown.error_code, shown.leader_id, list(shown.isr_nodes)) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, [1])
    assert code(lab.produce(1, b"a")) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_r631_049_clients_cannot_write_to_the_metadata_topic() -> None:
    lab = Lab(1)
    assert code(lab.produce(1, b"a", topic="__kafka_metadata")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_times_too_far_from_now_are_refused_where_records_bring_their_own() -> None:
    lab = Lab(1)
    lab.topic([1], configs={"message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "2000"})
    now_ms = lab.now.wall_ms

    def produced(at_ms: int) -> ErrorCode:
        builder = Builder(timestamp_ms=at_ms)
        builder.append(None, b"a", timestamp_ms=at_ms)
        kind = message("ProduceRequest")
        data = kind.PartitionProduceData(index=0, records=builder.build())
        return code(
            lab.call(1, "Produce", 9, kind(acks=1, topic_data=[kind.TopicProduceData(name="t", partition_data=[data])]))
        )

    end = lab.partition(1).log.log_end_offset
    assert {produced(at) for at in (now_ms - 1001, now_ms + 2001)} == {ErrorCode.INVALID_TIMESTAMP}
    assert lab.partition(1).log.log_end_offset == end
    assert {produced(at) for at in (now_ms - 1000, now_ms, now_ms + 2000)} == {ErrorCode.NONE}
    lab.commit(ops.ConfigSet(2, "t", "message.timestamp.type", "LogAppendTime"))
    assert produced(0) is ErrorCode.NONE


def test_kip_951_a_client_is_told_where_the_leader_is_on_its_own_listener() -> None:
    lab = Lab(
        1,
        {
            "listeners": "PLAINTEXT://outside:9001,INTERNAL://inside:9002",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
        },
    )
    lab.topic([1])
    lab.change([1], -1)
    lab.change([1], 1)
    kind = message("FetchRequest")
    one = kind.FetchPartition(partition=0, partition_max_bytes=1 << 20, current_leader_epoch=0)
    asked = lab.call(1, "Fetch", 16, kind(topics=[kind.FetchTopic(topic_id=TOPIC_ID, partitions=[one])]))
    assert code(asked) is ErrorCode.FENCED_LEADER_EPOCH
    assert [(node.node_id, node.host, node.port) for node in asked.reply.node_endpoints] == [(1, "outside", 9001)]


def test_what_was_read_for_one_position_is_not_taken_for_another() -> None:
    lab = Lab(1)
    lab.topic([1], configs={"internal.segment.bytes": "600"})
    for number in range(20):
        lab.produce(1, b"%d" % number * 100)
    kind = message("FetchRequest")
    disk, first = lab.disks[1], "t-0/00000000000000000000.log"

    def ask(session: int, epoch: int, offset: int) -> Pending:
        one = kind.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1)
        topics = [kind.FetchTopic(topic="t", partitions=[one])]
        return lab.call(1, "Fetch", 12, kind(session_id=session, session_epoch=epoch, min_bytes=0, topics=topics))

    session = ask(0, 0, 20).reply.session_id
    disk.cold = lambda path, position, size: path == first

    def read(path: str, position: int, size: int) -> bool:
        disk.unreadable = None
        assert values(ask(session, 2, 10)) == [b"10" * 100]
        return False

    disk.unreadable = read
    assert ask(session, 1, 0).done and disk.unreadable is None
    assert values(ask(session, 3, 10)) == [b"10" * 100]
    assert not lab.partition(1).unreadable


def test_what_was_read_of_a_topic_that_is_gone_is_not_taken_for_its_namesakes() -> None:
    lab = Lab(1)
    lab.topic([1])
    lab.produce(1, b"old")
    disk, again = lab.disks[1], b"\7" * 16
    disk.cold = lambda path, position, size: path.endswith(".log")

    def read(path: str, position: int, size: int) -> bool:
        disk.cold = disk.unreadable = None
        lab.commit(ops.TopicGone(TOPIC_ID), ops.TopicSet("t", again), ops.PartitionsSet(again, range(1), [[1]], [[1]]))
        assert code(lab.produce(1, b"new")) is ErrorCode.NONE
        return False

    disk.unreadable = read
    assert values(lab.fetch(1, 0)) == [b"new"]


def test_partitions_that_no_cache_holds_are_read_once_each() -> None:
    lab = Lab(1)
    lab.topic([1], partitions=8)
    for number in range(8):
        lab.produce(1, b"%d" % number, number=number)
    disk, read = lab.disks[1], []
    disk.cold = lambda path, position, size: path.endswith(".log")
    disk.unreadable = lambda path, position, size: read.append(path)
    kind = message("FetchRequest")
    parts = [kind.FetchPartition(partition=number, partition_max_bytes=1 << 20) for number in range(8)]
    asked = lab.call(1, "Fetch", 12, kind(topics=[kind.FetchTopic(topic="t", partitions=parts)]))
    found = [[record.value for record in records(one.records)] for one in asked.reply.responses[0].partitions]
    assert found == [[b"%d" % number] for number in range(8)]
    assert len(read) == 8


@pytest.mark.parametrize("cold", [False, True])
def test_a_batch_that_finds_no_room_is_not_passed_over_for_a_smaller_one_in_the_next_segment(cold: bool) -> None:
    lab = Lab(1)
    lab.topic([1], partitions=2, configs={"internal.segment.bytes": "600"})
    lab.produce(1, b"a" * 100, number=0)
    lab.produce(1, b"b" * 500, number=1)
    lab.produce(1, b"c", number=1)
    assert len(lab.partition(1, 1).log.segments) == 2
    lab.disks[1].cold = lambda path, position, size: cold
    kind = message("FetchRequest")
    parts = [kind.FetchPartition(partition=number, partition_max_bytes=1 << 20) for number in (0, 1)]
    request = kind(max_bytes=300, min_bytes=0, topics=[kind.FetchTopic(topic="t", partitions=parts)])
    first, second = lab.call(1, "Fetch", 12, request).reply.responses[0].partitions
    assert [record.value for record in records(first.records)] == [b"a" * 100]
    assert second.error_code == ErrorCode.NONE and not second.records
    assert not lab.partition(1, 1).unreadable


@pytest.mark.parametrize("acks", [0, 1])
def test_a_lease_that_ends_between_two_slices_ends_a_produce(acks: int) -> None:
    """Nothing is appended or acknowledged behind it (R631-161)."""
    lab = Lab(3)
    lab.topic([2, 3, 1], partitions=700)
    kind = message("ProduceRequest")
    builder = Builder(timestamp_ms=lab.now.wall_ms)
    builder.append(None, b"v")
    data = builder.build()
    parts = [kind.PartitionProduceData(index=number, records=data) for number in range(700)]
    request = kind(acks=acks, timeout_ms=1000, topic_data=[kind.TopicProduceData(name="t", partition_data=parts)])

    def late() -> None:
        lab.between_slices = lambda: None
        lab.cut.add(2)
        lab.pass_ms(40_000, 1_000)

    lab.between_slices = late
    pending = lab.call(2, "Produce", 9, request)
    lab.settle()
    assert pending.closed == "this broker is fenced"
    assert [lab.partition(2, number).log.log_end_offset for number in (0, 699)] == [1, 0]
