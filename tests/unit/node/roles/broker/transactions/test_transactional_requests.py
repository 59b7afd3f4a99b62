"""Transactions as clients and coordinators meet them: Produce, Fetch and ListOffsets with isolation, markers, producers."""

from typing import Any

import pytest

from actors.broker.groups.coordinator import MarkerPlace
from actors.broker.log.producers.markers import Marker
from actors.broker.log.producers.markers import build as build_marker
from actors.broker.log.truncation import truncate_fully
from actors.node.runtime.calls import Listener
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records import batch
from fastpath.records.batch import Builder
from tests.reference import batch as slow
from tests.served import TABLE
from tests.unit.broker.log.cleaning.test_cleaner import keyed
from tests.unit.broker.log.logs import flush
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab, Pending, code, outcome

GROUPS_ID = bytes(range(16, 32))


def made(brokers: int = 3, **configs: str) -> Lab:
    settings = {"replica.lag.time.max.ms": "2000", "transaction.partition.verification.enable": "false"}
    lab = Lab(brokers, settings)
    lab.topic(list(range(1, brokers + 1)), configs=configs)
    return lab


def send(
    lab: Lab,
    producer: int,
    sequence: int,
    *values: bytes,
    transactional_id: str | None = "x",
    key: bytes | None = None,
    **fields: Any,
) -> Pending:
    """A transactional batch to the leader."""
    header = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence, "attributes": 0x10}
    builder = Builder(**{"timestamp_ms": lab.now.wall_ms, **header, **fields})
    for value in values or (b"v",):
        builder.append(key, value)
    kind = message("ProduceRequest")
    data = kind.PartitionProduceData(index=0, records=builder.build())
    topic = kind.TopicProduceData(name="t", partition_data=[data])
    request = kind(transactional_id=transactional_id, acks=-1, timeout_ms=1000, topic_data=[topic])
    pending = lab.call(1, "Produce", 9, request)
    lab.settle()
    return pending


def markers(
    lab: Lab,
    producer: int,
    commit: bool,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
    topic: str = "t",
    numbers: tuple[int, ...] = (0,),
    broker: int = 1,
    version: int = 2,
) -> Pending:
    """A coordinator's request, which may not be answered yet."""
    kind = message("WriteTxnMarkersRequest")
    marker = kind.WritableTxnMarker(
        producer_id=producer,
        producer_epoch=epoch,
        transaction_result=commit,
        coordinator_epoch=coordinator_epoch,
        topics=[kind.WritableTxnMarkerTopic(name=topic, partition_indexes=list(numbers))],
    )
    if version >= 2:
        marker.transaction_version = transaction_version
    return lab.call(broker, "WriteTxnMarkers", version, kind(markers=[marker]))


def plain(lab: Lab, *values: bytes) -> ErrorCode:
    """A batch of no producer."""
    pending = lab.produce(1, *values)
    lab.settle()
    return code(pending)


def end(lab: Lab, producer: int, commit: bool, **more: Any) -> ErrorCode:
    """The answer for the only partition."""
    pending = markers(lab, producer, commit, **more)
    lab.settle()
    assert pending.done
    return ErrorCode(pending.reply.markers[0].topics[0].partitions[0].error_code)


def fetch(
    lab: Lab,
    offset: int = 0,
    *,
    committed: bool = True,
    wait_ms: int = 0,
    session: tuple[int, int] = (0, -1),
    named: bool = True,
    broker: int = 1,
    bytes_max: int = 1 << 20,
) -> Pending:
    kind = message("FetchRequest")
    wanted = kind.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=bytes_max)
    request = kind(
        max_wait_ms=wait_ms,
        min_bytes=1,
        isolation_level=int(committed),
        session_id=session[0],
        session_epoch=session[1],
        topics=[kind.FetchTopic(topic="t", partitions=[wanted])] if named else [],
    )
    return lab.call(broker, "Fetch", 12, request)


def told(pending: Pending) -> tuple[int, list[int], list[tuple[int, int]] | None]:
    """(last stable offset, base offsets, aborted transactions) of an answer."""
    data = outcome(pending)
    assert data.error_code == 0
    aborted = data.aborted_transactions
    listed = None if aborted is None else [(one.producer_id, one.first_offset) for one in aborted]
    return data.last_stable_offset, [one.base_offset for one in batch.headers(data.records)], listed


def latest(lab: Lab, timestamp: int = -1, committed: bool = True, broker: int = 1) -> int:
    kind = message("ListOffsetsRequest")
    wanted = kind.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = kind.ListOffsetsTopic(name="t", partitions=[wanted])
    request = kind(replica_id=-1, isolation_level=int(committed), topics=[topic])
    reply = lab.call(broker, "ListOffsets", 7, request).reply
    assert reply.topics[0].partitions[0].error_code == 0
    return int(reply.topics[0].partitions[0].offset)


# ---- reads


def test_committed_reads_end_where_a_transaction_is_open() -> None:
    lab = made()
    lab.produce(1, b"before")
    lab.settle()
    assert code(send(lab, 9, 0, b"a", b"b")) == ErrorCode.NONE
    assert plain(lab, b"behind") == ErrorCode.NONE
    assert told(fetch(lab)) == (1, [0], [])
    assert told(fetch(lab, committed=False)) == (1, [0, 1, 3], None)
    assert (latest(lab), latest(lab, committed=False)) == (1, 4)
    assert latest(lab, lab.now.wall_ms) == 0
    assert latest(lab, timestamp=-3) == 0
    assert end(lab, 9, True) == ErrorCode.NONE
    assert told(fetch(lab)) == (5, [0, 1, 3, 4], [])
    assert latest(lab) == 5


def test_aborted_transactions_are_named_to_those_who_read_committed_records() -> None:
    lab = made()
    send(lab, 9, 0)
    send(lab, 8, 0)
    send(lab, 9, 1)
    assert end(lab, 9, False) == ErrorCode.NONE
    assert told(fetch(lab)) == (1, [0], [(9, 0)])
    assert end(lab, 8, True) == ErrorCode.NONE
    assert told(fetch(lab)) == (5, [0, 1, 2, 3, 4], [(9, 0)])
    assert told(fetch(lab, 2)) == (5, [2, 3, 4], [(9, 0)])
    assert told(fetch(lab, 4)) == (5, [4], [])
    assert told(fetch(lab, committed=False)) == (5, [0, 1, 2, 3, 4], None)


def test_a_long_list_of_aborted_transactions_is_made_in_slices() -> None:
    lab = made(1)
    for producer in range(700):
        send(lab, producer, 0)
    for producer in range(700):
        assert end(lab, producer, False) == ErrorCode.NONE
    before = lab.slices
    _, bases, aborted = told(fetch(lab, 350))
    assert bases[0] == 350 and aborted == [(producer, producer) for producer in range(700)]
    assert lab.slices == before + 2


def test_a_marker_counts_when_it_is_committed() -> None:
    lab = made()
    send(lab, 9, 0)
    lab.dead |= {2, 3}
    pending = markers(lab, 9, False)
    lab.settle()
    assert not pending.done
    assert lab.partition(1).log.producers.by_id[9].transaction_offset == -1
    assert told(fetch(lab)) == (0, [], [])
    assert latest(lab) == 0
    lab.pass_ms(6_000)
    assert pending.done and not lab.partition(1).isr.isr - {1}
    assert told(fetch(lab)) == (2, [0, 1], [(9, 0)])


def test_a_marker_that_is_not_committed_in_time_is_told_so_and_may_be_sent_again() -> None:
    lab = made()
    send(lab, 9, 0)
    lab.dead |= {2, 3}
    pending = markers(lab, 9, True)
    lab.alter = lambda request: message("AlterIsrResponse")(error_code=ErrorCode.NOT_CONTROLLER)
    lab.pass_ms(30_100, 1_000)
    assert pending.done and pending.reply.markers[0].topics[0].partitions[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    lab.alter = None
    lab.pass_ms(5_000)
    assert end(lab, 9, True) == ErrorCode.NONE
    assert told(fetch(lab)) == (3, [0, 1, 2], [])


@pytest.mark.parametrize("in_session", [True, False])
def test_a_long_poll_of_committed_records_waits_for_the_last_stable_offset(in_session: bool) -> None:
    lab = made()
    send(lab, 9, 0)
    session = (0, 0) if in_session else (0, -1)
    first = fetch(lab, wait_ms=0 if in_session else 5_000, session=session)
    waiting = first
    if in_session:
        waiting = fetch(lab, wait_ms=5_000, session=(first.reply.session_id, 1), named=False)
    lab.settle()
    assert not waiting.done
    assert plain(lab, b"more") == ErrorCode.NONE
    lab.settle()
    assert not waiting.done, "the high watermark has moved, the last stable offset has not"
    end(lab, 9, True)
    assert waiting.done
    assert told(waiting) == (3, [0, 1, 2], [])


def test_a_session_may_change_its_isolation() -> None:
    """What a reader of committed records has seen all of may have more for another."""
    lab = made()
    send(lab, 9, 0)
    opened = fetch(lab, session=(0, 0))
    assert told(opened) == (0, [], [])
    id = opened.reply.session_id
    assert fetch(lab, session=(id, 1), named=False).reply.responses == []
    assert told(fetch(lab, session=(id, 2), named=False, committed=False)) == (0, [0], None)


def test_followers_get_what_is_not_stable_and_tell_the_same() -> None:
    lab = made()
    send(lab, 9, 0)
    end(lab, 9, False)
    send(lab, 9, 1)
    lab.settle()
    follower = lab.partition(2)
    assert follower.log.log_end_offset == 3
    assert follower.log.producers.equals(lab.partition(1).log.producers)
    lab.change([1, 2, 3], 2)
    lab.settle()
    assert told(fetch(lab, broker=2)) == (2, [0, 1], [(9, 0)])
    assert latest(lab, broker=2) == 2


def compacted() -> Lab:
    """Two brokers, one batch an answer."""
    lab = Lab(2, {"replica.fetch.max.bytes": "1", "transaction.partition.verification.enable": "false"})
    lab.topic([1, 2], configs={"cleanup.policy": "compact"})
    return lab


@pytest.mark.parametrize("marker", ["gone", "emptied"])
@pytest.mark.parametrize("data", ["gone", "there"])
def test_a_follower_begins_anew_where_its_leader_has_cleaned_away_how_a_transaction_ended(
    marker: str, data: str
) -> None:
    """Once: a leader that has the data all the same has no better copy. An empty marker tells by itself; where it is gone,
    the epoch of the producer has risen, as it does in transaction version 2."""
    epoch = 0 if marker == "emptied" else 1
    lab = compacted()
    leader, follower = lab.partition(1), lab.partition(2)
    new = keyed(b"k", b"new", producer_id=9, producer_epoch=epoch, base_sequence=1 - epoch, attributes=0x10)
    whole = bytes(build_marker(9, epoch, Marker(False, 0), 1_000))
    emptied = slow.sealed(slow.fields(whole)._replace(count=0, base_timestamp=-1), b"")

    def write(*rows: tuple[int, bytes | bytearray]) -> None:
        for offset, row in rows:
            own = bytearray(row)
            batch.accept(own, 0, len(own), offset, 0, client=False)
            leader.log.append(own, batch.headers(own), 0, client=False)

    assert code(send(lab, 9, 0, key=b"k")) == ErrorCode.NONE
    assert follower.log.log_end_offset == 1 and follower.log.producers.transactions.open
    lab.split.add(frozenset((1, 2)))
    lab.change([1], 1)
    copied = leader.log.read(0, 1 << 20).data
    truncate_fully(leader.log, 0)
    flush(leader.log)
    write(*[(0, copied)] * (data == "there"), *[(1, emptied)] * (marker == "emptied"), (2, new))
    leader.high_watermark = leader.log.log_end_offset
    lab.split.clear()
    lab.pass_ms(3_000, 50)
    assert bytes(follower.log.read(0, 1 << 20).data) == bytes(leader.log.read(0, 1 << 20).data)
    assert sum("begins anew at 0" in line for line in lab.nodes[2].log.lines) == 1
    assert end(lab, 9, True, epoch=epoch) == ErrorCode.NONE
    lab.pass_ms(1_000, 50)
    assert (follower.last_stable_offset, leader.last_stable_offset) == (4, 4)


def test_a_member_of_the_isr_keeps_its_log_whatever_the_leader_lacks() -> None:
    """A transaction that nobody will end: a batch came late, and its producer went on with a higher epoch."""
    lab = compacted()
    assert code(send(lab, 9, 0, key=b"k")) == ErrorCode.NONE
    assert code(send(lab, 9, 0, key=b"k", producer_epoch=1)) == ErrorCode.NONE
    follower = lab.partition(2).log
    assert [line for line in lab.nodes[2].log.lines if "begins anew" in line] == []
    assert [head.producer_epoch for head in batch.headers(follower.read(0, 1 << 20).data)] == [0, 1]


def test_a_file_that_is_not_in_memory_is_read_outside_the_loop() -> None:
    lab = made(1, **{"segment.bytes": "1048576"})
    send(lab, 9, 0)
    end(lab, 9, False)
    partition = lab.partition(1)
    partition.log.roll(lab.now.wall_ms)
    wanted = partition.log.flush()
    lab.nodes[1].sync(wanted.files, wanted.replacements, lambda result: partition.log.flushed(wanted))
    lab.settle()
    index = partition.log.segments[0].aborted
    assert not index.in_memory
    lab.disks[1].cold = lambda path, position, size: True
    read: list[str] = []
    lab.disks[1].unreadable = lambda path, position, size: read.append(path) is not None
    assert told(fetch(lab)) == (2, [0, 1], [(9, 0)])
    assert read == [partition.log.segments[0].log.path, index.path], "each once"
    lab.disks[1].files[index.path].data[0] = 1
    assert told(fetch(lab)) == (2, [0, 1], [(9, 0)])
    assert [line for line in lab.nodes[1].log.lines if "is damaged, and is built again" in line] == [
        "t-0/00000000000000000000.txnindex is damaged, and is built again: an entry has a version other than 0"
    ]
    assert told(fetch(lab)) == (2, [0, 1], [(9, 0)])
    wanted = partition.log.flush()
    lab.nodes[1].sync(wanted.files, wanted.replacements, lambda result: partition.log.flushed(wanted))
    lab.settle()
    assert lab.disks[1].files[index.path].data[0] == 0 and not partition.log.aborted.rebuilt


def test_deleted_records_carry_the_last_stable_offset_along() -> None:
    lab = made()
    send(lab, 9, 0)
    lab.produce(1, b"x", b"y")
    lab.settle()
    kind = message("DeleteRecordsRequest")
    wanted = kind.DeleteRecordsPartition(partition_index=0, offset=2)
    topic = kind.DeleteRecordsTopic(name="t", partitions=[wanted])
    lab.call(1, "DeleteRecords", 2, kind(topics=[topic], timeout_ms=1000))
    lab.settle()
    assert lab.partition(1).last_stable_offset == 2
    assert latest(lab) == 2
    assert end(lab, 9, True) == ErrorCode.NONE
    assert latest(lab) == 4


# ---- markers


def test_whom_a_marker_fences() -> None:
    lab = made()
    send(lab, 9, 0, producer_epoch=3)
    assert end(lab, 9, True, epoch=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(lab, 9, True, epoch=3, coordinator_epoch=5) == ErrorCode.NONE
    send(lab, 9, 1, producer_epoch=3)
    assert end(lab, 9, True, epoch=3, coordinator_epoch=4) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert end(lab, 9, False, epoch=4, coordinator_epoch=5) == ErrorCode.NONE
    assert code(send(lab, 9, 2, producer_epoch=3)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(send(lab, 9, 2, producer_epoch=4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(send(lab, 9, 0, producer_epoch=4)) == ErrorCode.NONE


def test_in_transaction_version_2_the_epoch_rises_with_each_end() -> None:
    """KIP-890, part 2: a marker that comes late must not end the next transaction."""
    lab = made()
    send(lab, 9, 0)
    assert end(lab, 9, True, epoch=0, transaction_version=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(lab, 9, True, epoch=1, transaction_version=2) == ErrorCode.NONE
    assert end(lab, 9, True, epoch=1, transaction_version=2) == ErrorCode.NONE, "a repetition"
    assert code(send(lab, 9, 0, producer_epoch=1)) == ErrorCode.NONE
    assert end(lab, 9, True, epoch=1, transaction_version=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert end(lab, 9, False, epoch=1, transaction_version=1) == ErrorCode.NONE
    send(lab, 7, 0, producer_epoch=32767)
    assert end(lab, 7, True, epoch=32767, transaction_version=2) == ErrorCode.NONE, "it cannot rise"


def test_version_1_of_the_request_knows_no_transaction_version() -> None:
    lab = made()
    send(lab, 9, 0)
    assert end(lab, 9, True, version=1) == ErrorCode.NONE


def test_a_marker_of_no_open_transaction_is_written() -> None:
    lab = made()
    assert end(lab, 9, False, epoch=2, coordinator_epoch=3) == ErrorCode.NONE
    assert told(fetch(lab)) == (1, [0], [])
    assert end(lab, 9, False, epoch=2, coordinator_epoch=2) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert code(send(lab, 9, 0, producer_epoch=1)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_markers_that_cannot_be_written() -> None:
    lab = made(3, **{"min.insync.replicas": "2"})
    assert end(lab, 9, True, topic="other") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert end(lab, 9, True, numbers=(5,)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert end(lab, 9, True, broker=2) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert end(lab, -1, True) == ErrorCode.INVALID_REQUEST
    assert end(lab, 9, True, epoch=-1) == ErrorCode.INVALID_REQUEST
    lab.change([1], 1)
    lab.settle()
    lab.alter = lambda request: message("AlterIsrResponse")(error_code=ErrorCode.NOT_CONTROLLER)
    lab.dead |= {2, 3}
    lab.change([1], 1)
    lab.settle()
    assert end(lab, 9, True) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert lab.partition(1).log.log_end_offset == 0


def test_without_room_a_marker_is_not_written_and_nothing_has_changed() -> None:
    lab = made(1)
    send(lab, 9, 0)
    lab.disks[1].room = 10
    assert end(lab, 9, False) == ErrorCode.KAFKA_STORAGE_ERROR
    lab.disks[1].room = None
    assert told(fetch(lab)) == (0, [], [])
    assert end(lab, 9, False) == ErrorCode.NONE


def test_a_partition_named_twice_gets_one_marker() -> None:
    lab = made()
    pending = markers(lab, 9, True, numbers=(0,) * 1000)
    lab.settle()
    assert [one.partition_index for one in pending.reply.markers[0].topics[0].partitions] == [0]
    assert lab.partition(1).log.log_end_offset == 1


def test_the_group_coordinator_hears_of_a_committed_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(3, {"replica.lag.time.max.ms": "2000"})
    lab.topic([1, 2, 3], name="__consumer_offsets", topic_id=GROUPS_ID, partitions=2)
    lab.topic([1, 2, 3])
    heard: list[tuple[Any, ...]] = []
    groups = lab.broker(1).groups
    monkeypatch.setattr(groups, "transaction_ended", lambda *told: heard.append(told), raising=True)
    lab.dead |= {2, 3}
    pending = markers(lab, 9, True, topic="__consumer_offsets", numbers=(1,))
    markers(lab, 9, True)
    lab.settle()
    assert not pending.done and heard == []
    lab.pass_ms(6_000)
    assert pending.done and heard == [(1, 9, True, MarkerPlace(0, 0))]


def test_many_markers_are_written_in_slices() -> None:
    lab = Lab(1)
    lab.topic([1], partitions=1000)
    pending = markers(lab, 9, True, numbers=tuple(range(1000)))
    lab.settle()
    answers = pending.reply.markers[0].topics[0].partitions
    assert {one.error_code for one in answers} == {0} and len(answers) == 1000
    assert lab.slices >= 3


def test_clients_and_brokers_may_write_markers() -> None:
    """kafka-transactions.sh is a client (KIP-664)."""
    for listener in (Listener.CLIENT, Listener.INTER_BROKER):
        assert TABLE[listener, 27].versions == range(1, 3)
    assert (Listener.CONTROLLER, 27) not in TABLE and (Listener.CONTROL_PLANE, 27) not in TABLE


# ---- produce


def test_what_a_transactional_batch_must_have() -> None:
    lab = made(1)
    assert code(send(lab, 9, 0, transactional_id=None)) == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert code(send(lab, -1, -1, producer_epoch=-1)) == ErrorCode.INVALID_RECORD
    assert code(send(lab, 9, 0, attributes=0x30)) == ErrorCode.INVALID_RECORD
    assert code(send(lab, 9, 0, attributes=0x20)) == ErrorCode.INVALID_RECORD
    assert lab.partition(1).log.log_end_offset == 0
    assert code(send(lab, 9, 0)) == ErrorCode.NONE
    assert code(send(lab, 9, 1, attributes=0)) == ErrorCode.INVALID_TXN_STATE
    assert outcome(send(lab, 9, 0)).base_offset == 0, "a repetition"
    assert code(send(lab, 8, 0, attributes=0)) == ErrorCode.NONE


# ---- producers


def test_producers_are_described_by_any_replica() -> None:
    lab = made()
    send(lab, 9, 4, b"a", b"b", producer_epoch=2)
    end(lab, 8, True, epoch=1, coordinator_epoch=6)
    kind = message("DescribeProducersRequest")
    topics = [
        kind.TopicRequest(name="t", partition_indexes=[0, 0, 7]),
        kind.TopicRequest(name="other", partition_indexes=[0]),
    ]
    for broker in (1, 2):
        reply = lab.call(broker, "DescribeProducers", 0, kind(topics=topics)).reply
        found, missing = reply.topics[0].partitions
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert reply.topics[1].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [
            (
                one.producer_id,
                one.producer_epoch,
                one.last_sequence,
                one.last_timestamp,
                one.coordinator_epoch,
                one.current_txn_start_offset,
            )
            for one in found.active_producers
        ] == [(9, 2, 5, lab.now.wall_ms, -1, 0), (8, 1, -1, lab.now.wall_ms, 6, -1)]


def test_no_replica_no_producers() -> None:
    lab = Lab(2)
    lab.topic([1])
    kind = message("DescribeProducersRequest")
    request = kind(topics=[kind.TopicRequest(name="t", partition_indexes=[0])])
    reply = lab.call(2, "DescribeProducers", 0, request).reply
    assert reply.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert TOPIC_ID in lab.broker(1).replicas.by_id
