"""A full disk, on which the broker waits for room, and then makes durable what it could not before."""

from errno import ENOSPC

import pytest

from actors.broker.log.truncation import note_cut
from actors.ports import DiskFull
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.batch import Builder
from tests.simulator.disk import VirtualDisk
from tests.simulator.one_topic import DIRECTORY, OneTopic
from tests.unit.broker.log.logs import flush


def test_a_flush_waits_for_room_for_the_small_files_beside_a_log():
    t = OneTopic()
    process = t.cluster.brokers[t.leader]
    process.disk.replace_full = lambda path: path.startswith(f"{DIRECTORY}/")
    for number in range(12):
        t.produce(b"value" * 12, producer_id=77, producer_epoch=0, base_sequence=number)
    t.world.run_for(5_000)
    log = t.log(t.leader)
    assert process.stopped_with is None
    assert len(log.segments) > 1 and log.recovery_point == 0 and not log.snapshots.offsets
    process.disk.replace_full = None
    t.world.run_for(2_000)
    assert log.recovery_point >= log.segments[-1].base_offset == log.snapshots.offsets[-1]
    assert t.file(t.leader, f"{DIRECTORY}/leader-epoch-checkpoint") == log.epochs.encode()


@pytest.mark.parametrize("full", [True, False])
def test_a_leader_without_room_is_led_elsewhere_and_one_that_was_just_cut_is_not(full: bool):
    t = OneTopic()
    leader, process = t.leader, t.cluster.brokers[t.leader]
    t.produce(b"before", producer_id=77, producer_epoch=0, base_sequence=0)
    log = t.log(leader)
    if full:
        process.disk.room = 0
    else:
        assert log.active is not None
        note_cut(log, log.active)
    for sequence in (1, 2):
        answer = t.send(b"value", leader=leader, producer_id=77, producer_epoch=0, base_sequence=sequence)
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    if not full:
        flush(log)
        answer = t.send(b"value", leader=leader, producer_id=77, producer_epoch=0, base_sequence=2)
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR, "the first one has not come again yet"
    t.world.run_for(3_000)
    assert (t.leader != leader) is full
    if not full:
        assert [t.produce(b"value", producer_id=77, producer_epoch=0, base_sequence=one) for one in (1, 2)] == [1, 2]


def test_room_that_is_kept_back_is_for_what_makes_room() -> None:
    """Records never have it: checkpoints, names and the metadata log do, and a deletion brings it back."""
    t = OneTopic([1], settings={"file.delete.delay.ms": "100", "internal.segment.bytes": "500"})
    process = t.cluster.brokers[1]
    for _ in range(20):
        t.produce(bytes(200))
    process.disk.keep_room(300, 4_000)
    answers = [t.send(bytes(200), leader=1) for _ in range(3)]
    assert answers[-1].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    t.world.run_for(6_000)
    assert process.disk.lacks_room and not process.disk.kept, "checkpoints have it"
    assert process.stopped_with is None and len(t.read()) >= 20, "what is there is served"
    t.drop()
    t.world.run_for(3_000)
    assert not process.disk.lacks_room and process.disk.kept == 4_000, "the deletion has brought it back"
    t.create([1])
    t.produce(b"again")


def test_records_take_no_room_that_is_kept_back() -> None:
    disk = VirtualDisk()
    disk.keep_room(100, 1_000)
    records, index = (disk.open(f"t-0/{'0' * 20}.{end}", create=True) for end in ("log", "index"))
    with pytest.raises(DiskFull):
        records.append([bytes(101)])
    assert disk.kept == 1_000, "they do not make it be given up"
    index.append([bytes(101)])
    assert (disk.kept, disk.room) == (0, 999)
    with pytest.raises(DiskFull):
        records.append([b"small"])
    index.truncate(0)
    disk.replace("t-0/snapshot", bytes(500))
    with pytest.raises(DiskFull):
        records.append([b"small"])
    disk.room = 2_000
    records.append([b"small"])
    assert (disk.kept, disk.room) == (1_000, 995)


def create(t: OneTopic, name: str, replicas: list[int], **settings: str) -> None:
    """Create another topic of one partition."""
    kind = message("CreateTopicsRequest")
    assignment = kind.CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
    configs = [kind.CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()]
    topic = kind.CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=[assignment], configs=configs
    )
    assert t.client.call("b1", "CreateTopics", 7, kind(topics=[topic])).topics[0].error_code == 0
    t.world.run_for(2_000)


def test_a_follower_that_waits_for_room_behind_a_cut_is_in_sync_with_all_else() -> None:
    """It asked the leader for nothing until there was room, also not for what is in other directories: that left the ISR."""
    t = OneTopic(config={"replica.lag.time.max.ms": "5000"})
    leader = t.leader
    me = next(id for id in t.cluster.brokers if id != leader)
    create(t, "u", [leader, me])
    t.produce(b"value")
    t.world.run_for(1_000)
    process = t.cluster.brokers[me]
    assert process.node is not None and process.node.broker is not None
    partition = process.node.broker.replicas.here("t", 0)
    assert partition is not None and partition.log.active is not None
    note_cut(partition.log, partition.log.active)
    partition.log.generation += 1
    process.disk.replace_full = lambda path: True
    durable: list[bool] = []
    process.node.broker.partition_effects.sync([partition], lambda: durable.append(True))
    for _ in range(8):
        assert produced(t, "u") == [ErrorCode.NONE]
        t.send(b"value", acks=1)
        t.world.run_for(1_000)
    assert not durable and partition.log.log_end_offset == 1, "its leader is not asked for it"
    process.disk.replace_full = None
    t.until(lambda: len(t.isr) == 3 and partition.log.log_end_offset == 9)
    assert durable and produced(t, "u") == [ErrorCode.NONE]


def test_a_follower_that_waits_for_room_in_one_directory_goes_on_in_the_other() -> None:
    """What one answer had cut in both directories was not asked for in either, until there was room in both."""
    t = OneTopic(config={"replica.lag.time.max.ms": "5000"}, directories=2)
    leader = t.leader
    me = next(id for id in t.cluster.brokers if id != leader)
    create(t, "u", [leader, me])
    assert produced(t, "u") == [ErrorCode.NONE]
    t.produce(b"value")
    t.world.run_for(1_000)
    process = t.cluster.brokers[me]
    assert process.node is not None and process.node.broker is not None
    partitions = [one for one in map(process.node.broker.replicas.here, "tu", (0, 0)) if one is not None]
    full, other = partitions
    assert isinstance(full.log.disk, VirtualDisk) and full.log.disk is not other.log.disk
    for partition in partitions:
        assert partition.log.active is not None
        note_cut(partition.log, partition.log.active)
        partition.log.generation += 1
    full.log.disk.replace_full = lambda path: True
    durable: list[bool] = []
    process.node.broker.partition_effects.sync(partitions, lambda: durable.append(True))
    for _ in range(8):
        assert produced(t, "u") == [ErrorCode.NONE]
        t.world.run_for(1_000)
    assert (full.log.log_end_offset, other.log.log_end_offset, durable) == (1, 9, [True])
    full.log.disk.replace_full = None
    t.until(lambda: len(durable) == 2)
    t.produce(b"value")


def test_what_is_durable_in_one_directory_is_acknowledged_while_another_has_no_room() -> None:
    """It had to wait until both were flushed that had something in the same turn: a full directory held the others up."""
    t = OneTopic([2], {"flush.messages": "1"}, directories=2)
    create(t, "u", [2], flush_messages="1")
    process = t.cluster.brokers[2]
    assert process.node is not None and process.node.broker is not None
    full, other = (process.node.broker.replicas.here(name, 0) for name in "tu")
    assert full is not None and other is not None and full.log.disk is not other.log.disk
    assert (produced(t, "t", "u"), produced(t, "t", "u")) == ([ErrorCode.NONE] * 2, [ErrorCode.NONE] * 2)
    assert isinstance(full.log.disk, VirtualDisk)
    full.log.disk.fault = lambda operation, path: ENOSPC if operation == "sync" else 0
    assert produced(t, "t", "u") == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]
    assert (full.high_watermark, other.high_watermark) == (2, 3)
    full.log.disk.fault = None
    t.until(lambda: full.high_watermark == 3)


def produced(t: OneTopic, *topics: str) -> list[int]:
    """Produce to topics in one request, which all of each ISR must take. Returns Kafka's codes."""
    kind = message("ProduceRequest")
    builder = Builder(timestamp_ms=1_600_000_000_000)
    builder.append(None, b"value")
    partition = kind.PartitionProduceData(index=0, records=builder.build())
    data = [kind.TopicProduceData(name=topic, partition_data=[partition]) for topic in topics]
    reply = t.client.call(f"b{t.leader}", "Produce", 12, kind(acks=-1, timeout_ms=1_000, topic_data=data))
    return [int(one.partition_responses[0].error_code) for one in reply.responses]
