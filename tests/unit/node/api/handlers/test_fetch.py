"""When a Fetch waits for more bytes, and when it does not: what one answer can have, and what else wakes it."""

from typing import Any

import pytest

from actors.broker.replication.fetch_sessions import SessionPartition
from actors.metadata import ops
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.batch import Builder, headers
from fastpath.records.compression import GZIP, ZSTD
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab, Pending, code, outcome

SEGMENT = {"internal.segment.bytes": "1000"}
WAIT_MS = 60_000


def ask(
    lab: Lab,
    offset: int,
    *,
    min_bytes: int,
    max_bytes: int = 50 << 20,
    partition_bytes: int = 1 << 20,
    numbers: tuple[int, ...] = (0,),
    version: int = 12,
    session: bool = False,
    **more: Any,
) -> Pending:
    kind = message("FetchRequest")
    parts = [
        kind.FetchPartition(partition=one, fetch_offset=offset, partition_max_bytes=partition_bytes) for one in numbers
    ]
    request = kind(
        max_wait_ms=WAIT_MS,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_epoch=0 if session else -1,
        topics=[kind.FetchTopic(topic="t", partitions=parts)],
        **more,
    )
    return lab.call(1, "Fetch", version, request)


def filled(batches: int, partitions: int = 1, size: int = 300, **configs: str) -> Lab:
    lab = Lab(1)
    lab.topic([1], partitions=partitions, configs=configs)
    for number in range(partitions):
        for _ in range(batches):
            lab.produce(1, b"x" * size, number=number)
    return lab


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("session", [False, True])
@pytest.mark.parametrize("isolation", [0, 1])
def test_a_read_that_ends_at_a_segment_does_not_wait(cold: bool, session: bool, isolation: int) -> None:
    lab = filled(12, **SEGMENT)
    assert len(lab.partition(1).log.segments) > 3
    lab.disks[1].cold = lambda path, position, size: cold
    offset = answers = 0
    while offset < 12:
        pending = ask(lab, offset, min_bytes=1_000_000, session=session, isolation_level=isolation)
        lab.settle()
        if not pending.done:
            break
        offset = headers(outcome(pending).records)[-1].last_offset + 1
        answers += 1
    last = lab.partition(1).log.segments[-1].base_offset
    assert offset == last and answers == len(lab.partition(1).log.segments) - 1
    lab.produce(1, b"y" * 800)  # another segment: what was the last one is not any more
    lab.settle()
    assert pending.done and outcome(pending).records


@pytest.mark.parametrize(
    "limits",
    [
        {"max_bytes": 700, "min_bytes": 700},
        {"max_bytes": 700, "min_bytes": 1_000_000},
        {"partition_bytes": 700, "min_bytes": 800},
        {"partition_bytes": 1, "min_bytes": 500},
        {"partition_bytes": 500, "min_bytes": 1_000_000, "numbers": (0, 1)},
    ],
)
def test_nobody_waits_for_more_than_one_answer_can_have(limits: dict[str, Any]) -> None:
    lab = filled(4, partitions=2)
    pending = ask(lab, 0, **limits)
    lab.settle()
    assert pending.done and outcome(pending).records


def test_an_answer_that_is_full_leaves_though_nothing_is_behind_it() -> None:
    lab = filled(1)
    size = lab.partition(1).log.size
    assert not ask(lab, 0, min_bytes=10_000, partition_bytes=size + 1).done
    pending = ask(lab, 0, min_bytes=10_000, partition_bytes=size)
    assert pending.done and outcome(pending).records


def test_who_can_have_more_bytes_waits_for_them() -> None:
    lab = filled(2, partitions=2)
    pending = ask(lab, 0, min_bytes=1600, numbers=(0, 1))
    lab.settle()
    assert not pending.done
    lab.produce(1, b"x" * 300)
    lab.settle()
    assert pending.done


def test_what_an_answer_can_have_is_not_summed_up_over_a_session_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = filled(0, partitions=200)
    looked = []
    whole = SessionPartition.bytes_max
    count = property(lambda entry: (looked.append(entry), whole.__get__(entry))[1], whole.__set__)  # type: ignore[attr-defined]
    monkeypatch.setattr(SessionPartition, "bytes_max", count)
    opened = ask(lab, 0, min_bytes=0, numbers=tuple(range(200)), session=True)
    assert opened.done and opened.reply.session_id
    kind = message("FetchRequest")
    again = kind(
        max_wait_ms=WAIT_MS, min_bytes=1 << 20, max_bytes=50 << 20, session_id=opened.reply.session_id, session_epoch=1
    )
    pending = lab.call(1, "Fetch", 12, again)
    looked.clear()
    for _ in range(10):
        lab.produce(1, b"x" * 300, number=199)
        lab.settle()
    assert not pending.done
    assert 0 < len(looked) <= 50, len(looked)


def test_records_that_are_deleted_wake_a_reader_of_committed_records() -> None:
    lab = filled(1)
    fields = {"attributes": 0x10, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    kind = message("ProduceRequest")
    builder = Builder(timestamp_ms=lab.now.wall_ms, **fields)
    builder.append(None, b"t")
    part = kind.PartitionProduceData(index=0, records=builder.build())
    topic = kind.TopicProduceData(name="t", partition_data=[part])
    partition = lab.partition(1)
    lab.broker(1).appends.append(partition, topic.partition_data[0].records, client=True)
    lab.broker(1).appends.grown(partition)
    lab.produce(1, b"behind")
    lab.settle()
    assert partition.last_stable_offset == 1 and partition.high_watermark == 3
    pending = ask(lab, 1, min_bytes=1, isolation_level=1)
    lab.settle()
    assert not pending.done
    kind = message("DeleteRecordsRequest")
    part = kind.DeleteRecordsPartition(partition_index=0, offset=2)
    lab.call(1, "DeleteRecords", 2, kind(topics=[kind.DeleteRecordsTopic(name="t", partitions=[part])], timeout_ms=10))
    lab.settle()
    assert pending.done and code(pending) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_old_client_gets_what_stands_before_zstd_and_then_an_error() -> None:
    """KIP-110."""
    lab = filled(2)
    for codec in (GZIP, ZSTD):
        builder = Builder(timestamp_ms=lab.now.wall_ms, attributes=codec)
        builder.append(None, b"c")
        kind = message("ProduceRequest")
        part = kind.PartitionProduceData(index=0, records=builder.build())
        topic = kind.TopicProduceData(name="t", partition_data=[part])
        pending = lab.call(1, "Produce", 9, kind(acks=-1, timeout_ms=1000, topic_data=[topic]))
        lab.settle()
        assert code(pending) is ErrorCode.NONE
    lab.produce(1, b"d")
    got = outcome(ask(lab, 0, min_bytes=1, version=9)).records
    assert [one.last_offset for one in headers(got)] == [0, 1, 2]
    assert code(ask(lab, 3, min_bytes=1, version=9)) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert [one.last_offset for one in headers(outcome(ask(lab, 3, min_bytes=1, version=10)).records)] == [3, 4]
    assert outcome(ask(lab, 4, min_bytes=1, version=9)).records


@pytest.mark.parametrize("version", [12, 16])
def test_a_broker_without_a_replica_says_who_leads(version: int) -> None:
    """KIP-951."""
    lab = Lab(3)
    lab.topic([2])
    lab.change([2], 2)
    named = {"topic": "t"} if version < 13 else {"topic_id": TOPIC_ID}
    kind = message("FetchRequest")
    one = kind.FetchPartition(partition=0, partition_max_bytes=1 << 20)
    asked = lab.call(1, "Fetch", version, kind(topics=[kind.FetchTopic(**named, partitions=[one])]))
    assert code(asked) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader = outcome(asked).current_leader
    assert (leader.leader_id, leader.leader_epoch) == (2, 1)
    if version >= 16:
        assert [node.node_id for node in asked.reply.node_endpoints] == [2]
    kind = message("ProduceRequest")
    builder = Builder(timestamp_ms=lab.now.wall_ms)
    builder.append(None, b"v")
    part = kind.PartitionProduceData(index=0, records=builder.build())
    topic = kind.TopicProduceData(name="t", partition_data=[part])
    sent = lab.call(1, "Produce", 10, kind(acks=1, timeout_ms=1000, topic_data=[topic]))
    leader = outcome(sent).current_leader
    assert code(sent) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (leader.leader_id, leader.leader_epoch) == (2, 1)
    assert [node.node_id for node in sent.reply.node_endpoints] == [2]


def test_no_consumer_is_given_a_batch_of_an_epoch_that_it_does_not_know() -> None:
    """At levels 1 and 2 each change of an ISR moves the leader epoch (A33), and what is written behind it has that epoch."""
    lab = Lab(3)
    lab.topic([1, 2, 3])
    lab.produce(1, b"a")
    lab.settle()
    known = lab.partition(1).leader_epoch
    lab.change([1, 2], 1)
    lab.produce(1, b"b")
    lab.settle()
    present = lab.partition(1).leader_epoch
    assert present > known
    for offset in (0, 1):
        assert code(lab.fetch(1, offset, epoch=known)) is ErrorCode.FENCED_LEADER_EPOCH
        assert code(lab.fetch(1, offset, epoch=present)) is ErrorCode.NONE


@pytest.mark.parametrize("acks", [0, 1])
def test_a_topic_without_a_right_keeps_nothing_of_the_others_back(acks: int) -> None:
    lab = Lab(1, {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"})
    lab.topic([1])
    lab.topic([1], "secret", b"\2" * 16)
    fields = {
        "resource_type": 2, "resource_name": "t", "pattern_type": 3, "principal": "User:ANONYMOUS", "host": "*",
        "operation": 4, "permission_type": 3,
    }  # fmt: skip
    lab.commit(ops.EntitySet("acl", tuple(fields.values()), tuple(fields.items())))
    kind = message("ProduceRequest")
    topics = []
    for name in ("secret", "t"):
        builder = Builder(timestamp_ms=lab.now.wall_ms)
        builder.append(None, b"v")
        part = kind.PartitionProduceData(index=0, records=builder.build())
        topics.append(kind.TopicProduceData(name=name, partition_data=[part]))
    pending = lab.call(1, "Produce", 9, kind(acks=acks, timeout_ms=1000, topic_data=topics))
    lab.settle()
    ends = [lab.partition(1, 0, name).log.log_end_offset for name in ("t", "secret")]
    assert ends == [1, 0]
    if acks == 0:
        assert pending.closed == "a produce request without acknowledgement failed"
    else:
        codes = {topic.name: topic.partition_responses[0].error_code for topic in pending.reply.responses}
        assert codes == {"t": ErrorCode.NONE, "secret": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
