"""Committed offsets outlive their coordinator: the next coordinator returns what was committed, or an error."""

import errno

import pytest

from actors.broker.groups.records import CommittedOffset, offset_record
from actors.broker.log.log import PartitionLog
from actors.broker.transactions.records import record as transaction_record
from actors.settings.node_config import node_config
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records import batch as batches
from tests.simulator.coordinated import FILE, OFFSETS, Coordinated, Producer
from tests.unit.broker.log.logs import content

GROUPS = 30


def _filled() -> Coordinated:
    """Several sealed segments of the offsets topic, complete on three brokers."""
    c = Coordinated()
    c.small_segments()
    for number in range(GROUPS):
        c.commit(f"g{number}", 1000 + number)
    c.world.run_for(3_000)
    return c


def _all_known(c: Coordinated) -> bool:
    return [c.committed(f"g{number}") for number in range(GROUPS)] == [1000 + number for number in range(GROUPS)]


@pytest.mark.parametrize("position", [3, 10, 14, 17, 22, 58, 61, 70, 80, 100], ids=lambda position: f"byte {position}")
def test_a_new_coordinator_finds_rot_in_its_offsets_and_another_one_takes_over(position):
    c = _filled()
    heir = c.cluster.brokers[c.heir()]
    heir.disk.corrupt(FILE, position)
    c.cluster.brokers[c.coordinator("g")].crash()
    assert c.world.run_until(lambda: heir.stopped_with is not None, 30_000)
    assert heir.stopped_with[0] == 1 and "fetch it from its leader" in heir.stopped_with[1]
    c.world.run_for(1_000)
    assert c.coordinator("g") != int(heir.name[1:]) and _all_known(c)
    assert c.world.errors == []


def test_a_flipped_bit_of_an_offset_is_told_to_nobody():
    c = _filled()
    first = c.coordinator("g")
    at = bytes(c.cluster.brokers[first].disk.files[FILE].data).index((1000).to_bytes(8, "big"))
    for id, process in c.cluster.brokers.items():
        if id != first:
            process.disk.corrupt(FILE, at + 5, 0x01)
    c.cluster.brokers[first].crash()
    c.world.run_for(5_000)
    assert sum(process.alive for process in c.cluster.brokers.values()) == 1, "the last replica is given up by nobody"
    assert c.committed("g0") is None, "nobody has a sound copy"


def test_a_new_coordinator_whose_disk_fails_hands_over():
    c = _filled()
    heir = c.cluster.brokers[c.heir()]
    heir.disk.cold = heir.disk.unreadable = lambda path, position, size: path == FILE
    c.cluster.brokers[c.coordinator("g")].crash()
    assert c.world.run_until(lambda: heir.stopped_with is not None, 30_000)
    c.world.run_for(1_000)
    assert _all_known(c)


def test_a_read_that_fails_for_want_of_something_else_is_tried_again():
    c = _filled()
    heir = c.heir()
    disk, failed = c.cluster.brokers[heir].disk, []

    def out_of_files(path: str, position: int, size: int) -> bool:
        if path == FILE and len(failed) < 2:
            failed.append(path)
            raise OSError(errno.EMFILE, "too many open files", path)
        return False

    disk.cold = lambda path, position, size: path == FILE
    disk.unreadable = out_of_files
    c.cluster.brokers[c.coordinator("g")].crash()
    c.world.run_for(6_000)
    assert failed and c.coordinator("g") == heir and _all_known(c)


def _restart(c: Coordinated, **config: str) -> None:
    """Restart all brokers, with other settings."""
    for process in c.cluster.brokers.values():
        process.kill()
    for process in c.cluster.brokers.values():
        process.config = node_config({**process.config.given, **config})
        process.start()
    assert c.world.run_until(c.cluster.ready, 60_000)
    c.world.run_for(3_000)


def test_groups_are_where_the_topic_says_whatever_the_configuration_says_since():
    c = Coordinated(**{"offsets.topic.num.partitions": "50"})
    for number in range(GROUPS):
        c.commit(f"g{number}", 1000 + number)
    _restart(c, **{"offsets.topic.num.partitions": "10"})
    assert _all_known(c)


def test_offsets_are_kept_by_a_topic_that_was_made_by_hand():
    c = Coordinated(**{"offsets.topic.num.partitions": "50"})
    c.create(OFFSETS, 1)
    c.commit("g1", 5)
    assert c.committed("g1") == 5


def _offsets_log(c: Coordinated, broker: int) -> PartitionLog:
    return c.cluster.brokers[broker].node.broker.replicas.get(OFFSETS, 0).log


CLEANER = {
    "log.cleaner.backoff.ms": "150",
    "log.cleaner.io.buffer.size": "4096",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "log.segment.delete.delay.ms": "500",
}


def _cleaned(**config: str) -> Coordinated:
    c = Coordinated(**CLEANER, **{name.replace("_", "."): value for name, value in config.items()})
    c.small_segments("compact")
    return c


def _records(c: Coordinated, broker: int) -> list[tuple[bytes, bytes | None]]:
    """All that a replica has, key and value."""
    return _contents(_offsets_log(c, broker))


def _contents(log: PartitionLog) -> list[tuple[bytes, bytes | None]]:
    data = content(log)
    return [
        (bytes(record.key), None if record.value is None else bytes(record.value))
        for head in batches.headers(data)
        if not head.attributes & 0x20
        for record in batches.records(data, head.position)
    ]


def _fill(c: Coordinated, count: int = 40) -> None:
    """Commits that are over with the next one; what was before is in segments that can be cleaned."""
    for offset in range(count):
        c.commit("filler", offset)
    c.world.run_for(5_000)


def _move(c: Coordinated, coordinator: int | None = None) -> None:
    """Another broker becomes the coordinator, that of group `g` if none is named, and the one before comes back."""
    c.cluster.brokers[c.coordinator("g") if coordinator is None else coordinator].crash()
    c.world.run_for(5_000)
    for process in c.cluster.brokers.values():
        if not process.alive:
            process.start()
    c.world.run_for(5_000)


def _batch(*records: tuple[bytes, bytes | None]) -> bytearray:
    builder = batches.Builder(timestamp_ms=5)
    for key, value in records:
        builder.append(key, value)
    return builder.build()


def _say(c: Coordinated, *records: tuple[bytes, bytes | None]) -> None:
    """What a coordinator of another version has written."""
    node, told = c.cluster.brokers[c.coordinator("g")].node, list[ErrorCode]()
    node.broker.appends.append_internal(OFFSETS, 0, _batch(*records), told.append)
    assert c.world.run_until(lambda: bool(told), 5_000) and told == [ErrorCode.NONE]


@pytest.mark.parametrize("committed", [True, False])
def test_what_a_transaction_has_committed_is_neither_lost_nor_found_by_the_cleaner(committed: bool) -> None:
    """Below an open transaction the partition is cleaned as ever, and above it nothing."""
    c = _cleaned()
    c.commit("g", 3)
    _fill(c)
    producer = Producer(c)
    producer.commit("g", 5)
    first = _offsets_log(c, c.coordinator("g")).log_end_offset - 1
    _fill(c)
    for broker in c.cluster.brokers:
        assert 20 < _offsets_log(c, broker).cleaned_offset <= first
    producer.end(committed)
    _fill(c)
    for _ in range(2):
        _move(c)
        _fill(c)
        assert c.committed("g") == (5 if committed else 3) and c.committed("filler") == 39
    for broker in c.cluster.brokers:
        assert _offsets_log(c, broker).cleaned_offset > first
    assert c.world.errors == []


def test_transactional_ids_are_cleaned_and_what_another_version_has_written_of_them_is_not() -> None:
    transactions = "__transaction_state"
    c = Coordinated(**CLEANER, **{"transaction.state.log.num.partitions": "1"})
    producer = Producer(c)
    c.small_segments("compact", transactions)
    foreign = transaction_record("later", None, 0)[0], b"\x00\x63a value of a later version"

    def leader() -> int:
        brokers = c.cluster.brokers.items()
        return next(id for id, one in brokers if one.node.broker.replicas.get(transactions, 0).leads)

    appends = c.cluster.brokers[leader()].node.broker.appends
    appends.append_internal(transactions, 0, _batch(foreign), lambda error: None)
    for offset in range(20):
        producer.commit("g", offset)
        producer.end(True)
    c.world.run_for(5_000)
    for process in c.cluster.brokers.values():
        log = process.node.broker.replicas.get(transactions, 0).log
        assert log.cleaned_offset > 40 and log.size < 3_000
        assert foreign in _contents(log)
    for _ in range(2):
        led = leader()
        _move(c, led)
        assert leader() != led
        before, producer = producer, Producer(c)
        assert producer.id == before.id and producer.epoch > before.epoch, "the producer before is fenced"
    machines = [one.node.broker.transactions.machine for one in c.cluster.brokers.values()]
    assert [one.describe("later") for one in machines if one.shards] == [ErrorCode.UNSUPPORTED_VERSION]


def test_offsets_that_are_committed_again_and_again_take_little_room() -> None:
    """The log cleaner compacts them on every replica. A coordinator that takes over loads little, and finds all."""
    c = _cleaned()
    c.commit("resting", 7)
    for offset in range(60):
        c.commit("g", offset)
    c.world.run_for(10_000)
    for broker in c.cluster.brokers:
        log = _offsets_log(c, broker)
        assert log.log_end_offset > 60 and log.log_start_offset == 0, "nobody but the cleaner takes anything away"
        assert log.cleaned_offset > 50 and log.size < 3_000
    for _ in range(3):
        _move(c)
        assert (c.committed("g"), c.committed("resting")) == (59, 7)
    assert c.world.errors == []


def test_nothing_is_left_of_a_deleted_group() -> None:
    c = _cleaned()
    c.small_segments("compact")
    kind = message("IncrementalAlterConfigsRequest")
    config = kind.AlterableConfig(name="delete.retention.ms", config_operation=0, value="1000")
    resource = kind.AlterConfigsResource(resource_type=2, resource_name=OFFSETS, configs=[config])
    assert c.ask("IncrementalAlterConfigs", 1, kind(resources=[resource])).responses[0].error_code == 0
    c.commit("gone", 5)
    reply = c.call("gone", "DeleteGroups", 2, message("DeleteGroupsRequest")(groups_names=["gone"]))
    assert [one.error_code for one in reply.results] == [0]
    _fill(c)
    _fill(c)
    for broker in c.cluster.brokers:
        assert not [key for key, _ in _records(c, broker) if b"gone" in key]
    _move(c)
    assert c.committed("gone") == -1 and c.committed("filler") == 39


def test_a_tombstone_is_written_for_an_offset_that_expires() -> None:
    c = _cleaned(offsets_retention_minutes="1", offsets_retention_check_interval_ms="1000")
    c.commit("old", 5)
    c.world.run_for(90_000)
    key = offset_record("old", "t", 0, None)[0]
    assert {value for found, value in _records(c, c.coordinator("g")) if found == key} >= {None}
    _move(c)
    assert c.committed("old") == -1


FOREIGN = [
    (b"\x00\x03\x00\x05later", b"\x00\x00a group of a protocol that is not known here"),
    (b"\x00\x05\x00\x05later\x00\x01m", b"\x00\x00its member"),
    (b"\x01\x00no group", b"of a kind that nobody knows"),
    (offset_record("newer", "t", 0, None)[0], b"\x00\x63a value of a later version"),
]


def test_what_another_version_has_written_outlives_cleaner_and_coordinators() -> None:
    """A cluster that goes back to this version, and forward again, has its groups as they were."""
    c = _cleaned(offsets_retention_minutes="1", offsets_retention_check_interval_ms="1000")
    _say(c, *FOREIGN, offset_record("later", "t", 0, CommittedOffset(77, -1, "", 5)))
    _fill(c)
    for _ in range(3):
        _move(c)
        _fill(c)
        assert c.committed("later") == 77, "what can be read of it is told"
        assert c.committed("newer") is None
        kind = message("DeleteGroupsRequest")
        reply = c.call("later", "DeleteGroups", 2, kind(groups_names=["later", "newer"]))
        assert [one.error_code for one in reply.results] == [ErrorCode.UNSUPPORTED_VERSION] * 2
    c.world.run_for(120_000)
    _fill(c)
    for broker in c.cluster.brokers:
        assert _offsets_log(c, broker).cleaned_offset > 60
        assert dict(_records(c, broker)).items() >= dict(FOREIGN).items()
    _say(c, *((key, None) for key, _ in FOREIGN))
    _move(c)
    c.world.run_for(120_000)
    assert c.committed("newer") == c.committed("later") == -1, "it expires as any group, now that nothing is foreign"


def test_a_log_that_begins_behind_what_was_written_once_more_is_loaded_and_cleaned() -> None:
    """Until this version the coordinator itself wrote what counts once more, and let the log begin there."""
    c = _cleaned()
    for number in range(GROUPS):
        c.commit(f"g{number}", 1)
    c.world.run_for(2_000)
    start = _offsets_log(c, c.coordinator("g")).log_end_offset
    for number in range(GROUPS):
        c.commit(f"g{number}", 1000 + number)
    leader = c.cluster.brokers[c.coordinator("g")].node.broker
    partition = leader.replicas.get(OFFSETS, 0)
    partition.log.delete_records(start)
    leader.replicas.started(partition)
    c.world.run_for(70_000)
    _move(c)
    assert _all_known(c)
    _fill(c)
    _restart(c)
    _fill(c)
    for broker in c.cluster.brokers:
        log = _offsets_log(c, broker)
        assert log.log_start_offset == start and log.cleaned_offset > start
    assert _all_known(c)
