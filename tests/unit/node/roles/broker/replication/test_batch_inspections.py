"""Compressed batches of clients at a broker: judged before they are appended, in the order of their connection."""

from collections.abc import Callable
from typing import Any

import pytest

from actors.node.roles.broker.replication.batch_inspections import BATCH_COST_MAX
from actors.node.runtime.answers import Later
from actors.ports import to_end
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records import compression
from fastpath.records.batch import Builder, header
from tests.reference import batch as slow
from tests.unit.node.roles.broker.lab import Lab, Pending, code, outcome

CODECS = (compression.GZIP, compression.SNAPPY, compression.LZ4, compression.ZSTD)
LARGE = bytes(2 * BATCH_COST_MAX)


class Held(Lab):
    """A lab whose jobs outside the loop wait until they are let go, in any order."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], None]] = []
        super().__init__(1)

    def _settle(self, node: Any, pending: Pending, name: str, version: int, answer: Any) -> None:
        if isinstance(answer, Later):
            job, then = answer.job, answer.then
            settle = super()._settle
            self.jobs.append(lambda: settle(node, pending, name, version, then(to_end(job))))
        else:
            super()._settle(node, pending, name, version, answer)

    def go_on(self) -> None:
        job = self.jobs.pop(0)
        job()
        self.settle()


def sent(lab: Lab, data: bytes | bytearray, connection: int = 7) -> Pending:
    kind = message("ProduceRequest")
    part = kind.PartitionProduceData(index=0, records=bytes(data))
    topic = kind.TopicProduceData(name="t", partition_data=[part])
    return lab.call(1, "Produce", 9, kind(acks=1, timeout_ms=1000, topic_data=[topic]), connection)


def built(lab: Lab, *values: bytes | None, codec: int = compression.LZ4, **fields: int) -> bytearray:
    builder = Builder(**{"timestamp_ms": lab.now.wall_ms, "attributes": codec, **fields})
    for value in values:
        builder.append(None, value)
    return builder.build()


def lab_with(**configs: str) -> Lab:
    lab = Lab(1)
    lab.topic([1], configs={name.replace("_", "."): value for name, value in configs.items()})
    return lab


@pytest.mark.parametrize("codec", CODECS)
def test_bytes_that_are_not_of_their_codec_are_refused(codec: int) -> None:
    lab = lab_with()
    head = slow.fields(bytes(built(lab, b"a", codec=codec)))
    assert code(sent(lab, slow.sealed(head, b"garbage"))) is ErrorCode.INVALID_RECORD
    claims = head._replace(count=(1 << 31) - 1, last_offset_delta=(1 << 31) - 2)
    assert code(sent(lab, slow.sealed(claims, b""))) is ErrorCode.INVALID_RECORD
    assert lab.partition(1).log.log_end_offset == 0
    assert code(sent(lab, built(lab, b"a", b"b", codec=codec))) is ErrorCode.NONE
    assert lab.partition(1).log.log_end_offset == 2


@pytest.mark.parametrize("codec", (compression.NONE, *CODECS))
def test_the_answer_names_the_records_that_are_refused(codec: int) -> None:
    lab = lab_with(cleanup_policy="compact")
    builder = Builder(timestamp_ms=lab.now.wall_ms, attributes=codec)
    for key in (b"k", None, b"k", None):
        builder.append(key, b"v")
    answer = outcome(sent(lab, builder.build()))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    assert [one.batch_index for one in answer.record_errors] == [1, 3]
    assert all("key" in one.batch_index_error_message for one in answer.record_errors)


@pytest.mark.parametrize("codec", (compression.NONE, *CODECS))
def test_each_record_has_a_time_that_the_topic_accepts(codec: int) -> None:
    """The largest time of the header and the first record say nothing about those between."""
    lab = lab_with(message_timestamp_before_max_ms="1000")
    now_ms = lab.now.wall_ms
    builder = Builder(timestamp_ms=now_ms, attributes=codec)
    for time in (now_ms, now_ms - 5000, -1, now_ms):
        builder.append(b"k", b"v", time)
    answer = outcome(sent(lab, builder.build()))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [one.batch_index for one in answer.record_errors] == [1]


@pytest.mark.parametrize("codec", (compression.NONE, *CODECS))
def test_the_largest_time_in_the_log_is_that_of_the_records(codec: int) -> None:
    lab = lab_with()
    data = bytes(built(lab, b"a", b"b", codec=codec))
    head = slow.fields(data)
    false = slow.sealed(head._replace(max_timestamp=head.max_timestamp + 5), data[61:])
    assert code(sent(lab, false)) is ErrorCode.NONE
    read = lab.partition(1).log.read(0, 1 << 20)
    assert header(read.data).max_timestamp == head.max_timestamp


@pytest.mark.parametrize("codec", (compression.NONE, *CODECS))
@pytest.mark.parametrize("wanted", ["producer", "gzip", "uncompressed"])
def test_a_batch_that_claims_one_time_for_its_records_is_taken_and_they_keep_their_own(codec: int, wanted: str) -> None:
    """Mirrors that pass batches on send such from topics where the log sets the time."""
    lab = lab_with(compression_type=wanted, message_timestamp_before_max_ms="1000")
    now_ms = lab.now.wall_ms
    builder = Builder(timestamp_ms=now_ms - 9000, attributes=codec)
    for time in (now_ms - 9000, now_ms - 7000, now_ms - 8000):
        builder.append(b"k", b"v", time)
    data = bytes(builder.build())
    head = slow.fields(data)
    for claimed, told in (
        (now_ms, ErrorCode.NONE),
        (now_ms - 2000, ErrorCode.INVALID_TIMESTAMP),
        (-1, ErrorCode.INVALID_TIMESTAMP),
    ):
        answer = outcome(sent(lab, slow.sealed(head._replace(attributes=codec | 8, max_timestamp=claimed), data[61:])))
        assert answer.error_code == told, claimed
        assert [one.batch_index for one in answer.record_errors] == ([] if told is ErrorCode.NONE else [0, 1, 2])
    read = lab.partition(1).log.read(0, 1 << 20)
    kept = header(read.data)
    assert kept.attributes & 8 == 0 and kept.max_timestamp == now_ms - 7000 and kept.base_timestamp == now_ms - 9000


@pytest.mark.parametrize("codec", (compression.NONE, *CODECS))
@pytest.mark.parametrize("wanted", ["producer", "gzip", "uncompressed"])
def test_a_claim_of_one_time_lets_no_record_into_the_future(codec: int, wanted: str) -> None:
    """The largest time of the records goes into the log, and nothing is deleted by time before that has come."""
    lab = lab_with(compression_type=wanted, message_timestamp_after_max_ms="1000")
    now_ms = lab.now.wall_ms
    for late_ms, told in (
        (1000, ErrorCode.NONE),
        (1001, ErrorCode.INVALID_TIMESTAMP),
        (1 << 61, ErrorCode.INVALID_TIMESTAMP),
    ):
        builder = Builder(timestamp_ms=now_ms, attributes=codec)
        for time in (now_ms, now_ms + late_ms, -1):
            builder.append(b"k", b"v", time)
        data = bytes(builder.build())
        claim = slow.fields(data)._replace(attributes=codec | 8, max_timestamp=now_ms)
        answer = outcome(sent(lab, slow.sealed(claim, data[61:])))
        assert answer.error_code == told, late_ms
        assert [one.batch_index for one in answer.record_errors] == ([] if told is ErrorCode.NONE else [1])
    assert header(lab.partition(1).log.read(0, 1 << 20).data).max_timestamp == now_ms + 1000


@pytest.mark.parametrize("codec", (compression.NONE, *CODECS))
def test_where_the_log_sets_the_time_no_producer_says_that_it_has(codec: int) -> None:
    lab = lab_with(message_timestamp_type="LogAppendTime")
    data = bytes(built(lab, b"a", b"b", codec=codec))
    answer = outcome(sent(lab, slow.sealed(slow.fields(data)._replace(attributes=codec | 8), data[61:])))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [one.batch_index for one in answer.record_errors] == [0, 1]


def test_more_than_the_records_of_a_batch_may_be_is_too_large() -> None:
    lab = lab_with()
    answer = outcome(sent(lab, built(lab, bytes(100 << 20), codec=compression.ZSTD)))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE, "Kafka's producers split such a batch"


def test_a_batch_behind_one_that_a_thread_looks_at_does_not_overtake_it() -> None:
    """KIP-98: sequences of one producer arrive in order."""
    lab = Held()
    lab.topic([1])
    values = (LARGE, b"b", LARGE, b"d")
    batches = [
        built(lab, value, producer_id=9, producer_epoch=0, base_sequence=number) for number, value in enumerate(values)
    ]
    answers = [sent(lab, batch) for batch in batches]
    other = sent(lab, built(lab, b"other"), connection=8)
    assert code(other) is ErrorCode.NONE, "another connection does not wait"
    assert not any(one.done for one in answers)
    lab.go_on()
    assert [one.done for one in answers] == [True, True, False, False]
    lab.go_on()
    assert [code(one) for one in answers] == [ErrorCode.NONE] * 4
    assert [outcome(one).base_offset for one in answers] == [1, 2, 3, 4]


def test_a_leader_that_is_none_any_more_does_not_append_what_a_thread_has_judged() -> None:
    lab = Held()
    lab.topic([1])
    answer = sent(lab, built(lab, LARGE))
    partition = lab.partition(1)
    partition.leader = -1
    lab.go_on()
    assert code(answer) is ErrorCode.NOT_LEADER_OR_FOLLOWER and partition.log.log_end_offset == 0


def offsets(lab: Lab, replica: int, timestamp: int, node: int = 1) -> Any:
    kind = message("ListOffsetsRequest")
    asked = kind.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    body = kind(replica_id=replica, topics=[kind.ListOffsetsTopic(name="t", partitions=[asked])])
    pending = lab.call(node, "ListOffsets", 7, body)
    assert pending.done
    return pending.reply.topics[0].partitions[0]


def test_the_debugging_consumer_sees_the_log_end_and_may_ask_a_follower() -> None:
    lab = Lab(2)
    lab.topic([1, 2])
    lab.split.add(frozenset((1, 2)))
    lab.produce(1, b"a", b"b", acks=1)
    assert offsets(lab, -1, -1).offset == 0 and offsets(lab, -2, -1).offset == 2
    assert offsets(lab, -1, -1, node=2).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert offsets(lab, -2, -1, node=2).error_code == ErrorCode.NONE


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_in_the_log_that_cannot_be_read_spoils_no_search(codec: int) -> None:
    """An older version accepted it; followers have it too."""
    lab = Lab(1)
    lab.topic([1])
    now_ms = lab.now.wall_ms
    head = slow.fields(bytes(built(lab, b"a", codec=codec)))
    bad = bytearray(slow.sealed(head._replace(max_timestamp=now_ms + 1000), b"garbage"))
    lab.partition(1).append(bad, now_ms, client=False)
    assert code(sent(lab, built(lab, b"good", codec=codec))) is ErrorCode.NONE
    partition = lab.partition(1)
    partition.advance(lab.now.mono_ms)
    for timestamp in (now_ms, -3):
        found = offsets(lab, -1, timestamp)
        assert (found.error_code, found.offset, found.timestamp) == (0, 1, now_ms)
    assert (offsets(lab, -1, now_ms + 1).error_code, offsets(lab, -1, now_ms + 1).offset) == (0, -1)
