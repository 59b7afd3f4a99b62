"""compression.type (KIP-390): what a leader makes of produced batches, in the turn or in a thread, and what it refuses."""

from typing import Any

import pytest

from actors.metadata import ops
from actors.node.roles.broker.replication import batch_inspections
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records import compression
from fastpath.records.batch import Builder, header, records, verify
from tests.unit.node.roles.broker.lab import Lab, Pending, code, outcome
from tests.unit.node.roles.broker.replication.test_batch_inspections import Held, built, lab_with, sent

NAMES = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
CODECS = tuple(NAMES.values())
TEXT = b"a word and another word " * 200


def stored(lab: Lab, offset: int = 0, id: int = 1) -> Any:
    return lab.partition(id).log.read(offset, 1 << 22).data


@pytest.mark.parametrize("wanted", NAMES)
@pytest.mark.parametrize("codec", CODECS)
def test_the_log_has_every_batch_in_the_codec_of_its_topic(wanted: str, codec: int) -> None:
    lab = lab_with(compression_type=wanted)
    values = [b"%d " % n + TEXT for n in range(10)]
    fields = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 0}
    assert code(sent(lab, built(lab, *values, codec=codec, **fields))) is ErrorCode.NONE
    data = stored(lab)
    head = verify(data)
    assert head.attributes & 7 == NAMES[wanted] and head.size == len(data)
    assert (head.producer_id, head.producer_epoch, head.base_sequence, head.count) == (7, 2, 0, 10)
    assert [record.value for record in records(data)] == values
    fields["base_sequence"] = 10
    assert outcome(sent(lab, built(lab, b"x", codec=codec, **fields))).base_offset == 10, "the sequence is known"
    assert outcome(sent(lab, built(lab, b"x", codec=codec, **fields))).base_offset == 10, "and so is a repetition"
    assert lab.partition(1).log.log_end_offset == 11


@pytest.mark.parametrize("codec", CODECS)
def test_producer_keeps_the_codec_and_every_byte(codec: int) -> None:
    lab = lab_with(compression_type="producer")
    data = built(lab, b"a", b"b", codec=codec)
    assert code(sent(lab, data)) is ErrorCode.NONE
    assert bytes(stored(lab))[61:] == bytes(data[61:]) and not lab.broker(1).cluster.recompresses


def test_all_brokers_can_ask_for_a_codec_and_a_topic_for_another() -> None:
    lab = lab_with()
    lab.commit(ops.ConfigSet(4, "", "compression.type", "gzip"))
    assert code(sent(lab, built(lab, b"a", codec=0))) is ErrorCode.NONE
    lab.commit(ops.ConfigSet(2, "t", "compression.type", "snappy"))
    assert code(sent(lab, built(lab, b"a", codec=0))) is ErrorCode.NONE
    lab.commit(ops.ConfigSet(2, "t", "compression.type", "producer"))
    assert code(sent(lab, built(lab, b"a", codec=0))) is ErrorCode.NONE
    assert [header(stored(lab, offset)).attributes & 7 for offset in range(3)] == [1, 2, 0]


@pytest.mark.parametrize(
    ("wanted", "setting", "low", "high"),
    [
        ("gzip", "compression_gzip_level", "1", "9"),
        ("lz4", "compression_lz4_level", "9", "12"),
        ("zstd", "compression_zstd_level", "1", "9"),
    ],
)
def test_a_level_of_the_topic_counts(wanted: str, setting: str, low: str, high: str) -> None:
    value = b" ".join(b"w%d" % (n * n % 997) for n in range(5_000))
    sizes = []
    for level in (low, high):
        lab = lab_with(compression_type=wanted, **{setting: level})
        assert code(sent(lab, built(lab, value, codec=0))) is ErrorCode.NONE
        sizes.append(len(stored(lab)))
    assert sizes[1] < sizes[0]


def test_log_append_time_is_written_into_the_new_batch() -> None:
    lab = lab_with(compression_type="lz4", message_timestamp_type="LogAppendTime")
    answer = outcome(sent(lab, built(lab, b"a", codec=1, timestamp_ms=5)))
    head = verify(stored(lab))
    assert answer.log_append_time_ms == head.max_timestamp == lab.now.wall_ms
    assert head.attributes & 0xF == 0x8 | compression.LZ4


@pytest.mark.parametrize("codec", CODECS)
def test_records_are_refused_as_without_it(codec: int) -> None:
    lab = lab_with(compression_type="zstd" if codec != 4 else "lz4", cleanup_policy="compact")
    builder = Builder(timestamp_ms=lab.now.wall_ms, attributes=codec)
    for key in (b"k", None):
        builder.append(key, b"v")
    answer = outcome(sent(lab, builder.build()))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in answer.record_errors] == [1]
    assert lab.partition(1).log.log_end_offset == 0


def test_size_counts_before_and_after() -> None:
    """As in Apache Kafka: what comes may not be larger than max.message.bytes, and not what it becomes either."""
    lab = lab_with(compression_type="uncompressed", max_message_bytes="2000")
    assert code(sent(lab, built(lab, bytes(1_900), codec=compression.GZIP))) is ErrorCode.NONE
    answer = outcome(sent(lab, built(lab, bytes(2_000), codec=compression.GZIP)))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE and "compression.type=uncompressed" in answer.error_message
    lab = lab_with(compression_type="gzip", max_message_bytes="2000")
    assert code(sent(lab, built(lab, bytes(2_000), codec=0))) is ErrorCode.MESSAGE_TOO_LARGE
    assert code(sent(lab, built(lab, bytes(1_900), codec=0))) is ErrorCode.NONE
    lab = lab_with(compression_type="uncompressed", internal_segment_bytes="2000")
    assert code(sent(lab, built(lab, bytes(2_000), codec=1))) is ErrorCode.RECORD_LIST_TOO_LARGE
    assert lab.partition(1).log.log_end_offset == 0


class Slow(Held):
    """Jobs wait, and two topics: one asks for a codec."""

    def __init__(self, codec: str = "zstd") -> None:
        super().__init__()
        self.topic([1], configs={"compression.type": codec})
        self.topic([1], "u", bytes(reversed(range(16))))


def plain(lab: Lab, topic: str, connection: int = 7) -> Pending:
    kind = message("ProduceRequest")
    part = kind.PartitionProduceData(index=0, records=bytes(built(lab, b"now", codec=0)))
    data = kind.TopicProduceData(name=topic, partition_data=[part])
    return lab.call(1, "Produce", 9, kind(acks=1, timeout_ms=1000, topic_data=[data]), connection)


def test_long_work_is_done_in_a_thread_and_keeps_the_order_of_its_connection() -> None:
    lab = Slow()
    first = sent(lab, built(lab, bytes(500_000), codec=0))
    second = sent(lab, built(lab, b"small", codec=0))
    other, later = plain(lab, "u", connection=8), plain(lab, "u")
    lab.settle()
    assert len(lab.jobs) == 1 and other.done and not first.done and not second.done and not later.done
    lab.go_on()
    assert [outcome(one).base_offset for one in (first, second)] == [0, 1] and later.done
    assert [len(stored(lab, offset)) < 1_000 for offset in (0, 1)] == [True, True]


def test_an_expensive_level_is_never_for_the_turn() -> None:
    lab = Slow("zstd")
    lab.commit(ops.ConfigSet(2, "t", "compression.zstd.level", "22"))
    waits = sent(lab, built(lab, b"small", codec=0))
    assert not waits.done and len(lab.jobs) == 1
    lab.go_on()
    assert code(waits) is ErrorCode.NONE


def test_requests_that_grow_wait_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_inspections, "WAITING_BYTES_MAX", 1_500_000)
    lab = Slow("uncompressed")
    lab.commit(ops.ConfigSet(2, "t", "max.message.bytes", "1000000"))
    waits = [sent(lab, built(lab, bytes(900_000), codec=1), connection) for connection in (7, 8, 9)]
    assert len(lab.jobs) == 1, "one alone may have as much as it needs, and there is no room for two"
    for left in (3, 2, 1):
        assert sum(not one.done for one in waits) == left
        lab.go_on()
    assert sorted(outcome(one).base_offset for one in waits) == [0, 1, 2] and not lab.jobs
    assert not lab.broker(1).produces.order._reserved


def test_room_of_a_connection_that_closes_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_inspections, "WAITING_BYTES_MAX", 1_500_000)
    lab = Slow("uncompressed")
    sent(lab, built(lab, bytes(900_000), codec=1), 7)
    second = sent(lab, built(lab, bytes(900_000), codec=1), 8)
    lab.nodes[1].node.closed(7, False)
    lab.settle()
    assert len(lab.jobs) == 2
    lab.go_on()
    lab.go_on()
    assert code(second) is ErrorCode.NONE and not lab.broker(1).produces.order._reserved


def test_a_request_holds_no_more_than_so_much_in_new_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_inspections, "REQUEST_BYTES_MAX", 2_000_000)
    lab = Lab(1)
    lab.topic([1], partitions=5, configs={"compression.type": "uncompressed"})
    kind = message("ProduceRequest")
    data = bytes(built(lab, bytes(900_000), codec=1))
    parts = [kind.PartitionProduceData(index=number, records=data) for number in range(5)]
    topic = kind.TopicProduceData(name="t", partition_data=parts)
    reply = lab.call(1, "Produce", 9, kind(acks=1, timeout_ms=1000, topic_data=[topic])).reply
    codes = [one.error_code for one in reply.responses[0].partition_responses]
    assert codes == [0, 0, *[ErrorCode.MESSAGE_TOO_LARGE] * 3]


def test_followers_store_what_the_leader_has() -> None:
    lab = Lab(2)
    lab.topic([1, 2], configs={"compression.type": "gzip"})
    assert code(sent(lab, built(lab, TEXT, codec=0))) is ErrorCode.NONE
    lab.settle()
    assert stored(lab) == stored(lab, id=2) and header(stored(lab)).attributes & 7 == 1
