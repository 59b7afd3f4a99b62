"""What a deleted topic must not leave behind: in memory, and in the directory of a topic that is made under its name."""

import errno

import pytest

from actors.broker.log.retention import drop_segments
from actors.metadata import ops
from actors.ports import DiskFailed, DiskFull
from actors.wire.errors import ErrorCode
from fastpath.records.batch import records
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab, code, outcome

CONFIGS = {"internal.segment.bytes": "200", "index.interval.bytes": "0"}
NAMESAKE = bytes(range(1, 17))


def filled(lab: Lab, topic_id: bytes, batches: int) -> None:
    """Topic `t`, each of its batches in a segment of its own."""
    lab.topic([1], topic_id=topic_id, configs=CONFIGS)
    for _ in range(batches):
        lab.produce(1, bytes(60))
        lab.settle()


def test_its_indexes_go_with_it_and_are_not_written_into_the_files_of_its_namesake() -> None:
    lab = Lab(1)
    filled(lab, TOPIC_ID, 4)
    lab.nodes[1].broker.shutdown()
    lab.settle()
    lab.start(1)
    lab.settle()
    log = lab.partition(1).log
    for offset in range(3):
        log.cold_read(offset, 1)()
        assert log.read(offset, 1).data, "its segment's index is in memory"
    cache = log.indexes
    assert len(cache.segments) == 3 and cache.held_bytes
    lab.commit(ops.TopicGone(TOPIC_ID, "t"))
    lab.pass_ms(61_000, 1000)
    assert (len(cache.segments), cache.held_bytes) == (0, 0)
    cache.bytes_max = 0
    filled(lab, NAMESAKE, 2)
    assert sorted(name for name in lab.disks[1].names("t-0") if name.endswith("index")) == [
        f"{base:020d}.{suffix}" for base in range(2) for suffix in ("index", "timeindex")
    ]


def test_what_was_read_of_it_is_not_given_out_as_its_namesakes() -> None:
    """A consumer that asks by name waits for the disk while the topic is made again and written to."""
    lab = Lab(1)
    lab.topic([1])
    lab.produce(1, b"old")
    disk = lab.disks[1]

    def made_again(path: str, position: int, size: int) -> bool:
        disk.cold = disk.unreadable = None
        lab.commit(ops.TopicGone(TOPIC_ID, "t"))
        lab.topic([1], topic_id=NAMESAKE)
        lab.produce(1, b"new")
        return False

    disk.cold, disk.unreadable = (lambda *_: True), made_again
    data = outcome(lab.fetch(1, 0)).records
    assert [record.value for record in records(data)] == [b"new"]


def test_snapshots_of_producers_that_retention_deletes_later_are_not_its_namesakes() -> None:
    """Files go a minute after retention has chosen them; by then their names may be those of the new topic's."""
    lab = Lab(1)

    def write(topic_id: bytes) -> None:
        configs = {"internal.segment.bytes": "200", "retention.bytes": "300"}
        lab.topic([1], topic_id=topic_id, configs=configs)
        for number in range(5):
            lab.produce(1, bytes(60), producer_id=7, producer_epoch=0, base_sequence=number)
            lab.settle()

    write(TOPIC_ID)
    lab.pass_ms(35_000, 5_000)
    assert lab.partition(1).log.log_start_offset > 1
    lab.commit(ops.TopicGone(TOPIC_ID, "t"))
    write(NAMESAKE)
    lab.pass_ms(61_000, 5_000)
    left = [int(name[:20]) for name in lab.disks[1].names("t-0") if name.endswith(".snapshot")]
    assert left == lab.partition(1).log.snapshots.offsets == [1, 2, 3, 4]


def test_segments_that_retention_has_chosen_of_it_are_not_its_namesakes() -> None:
    """There was no room to take a segment of the new topic out of its log, nor for the way back: its file was unlinked, as
    it had the name that one of the old topic's had."""
    lab = Lab(1)
    for topic_id in (TOPIC_ID, NAMESAKE):
        filled(lab, topic_id, 4)
        log, disk = lab.partition(1).log, lab.disks[1]
        if topic_id == TOPIC_ID:
            lab.broker(1).logs.retired.unlink_later(lab.partition(1), drop_segments(log, 3))
            lab.commit(ops.TopicGone(TOPIC_ID, "t"))
    disk.fault = lambda operation, path: errno.ENOSPC * (operation == "rename" and not path.endswith("0.log"))
    with pytest.raises(DiskFull):
        drop_segments(log, 1)
    assert log.names.owed
    lab.pass_ms(61_000, 1000)
    disk.fault = None
    log.settle()
    lab.pass_ms(61_000, 1000)
    assert log.torn is None and disk.found("t-0/00000000000000000000.log")


def test_nothing_begins_under_a_name_that_could_not_be_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is none of the device, so the directory goes on; the old topic's files are still there."""
    lab = Lab(1)
    lab.topic([1])
    lab.produce(1, b"old")
    lab.settle()
    disk = lab.disks[1]

    def refused(name: str, to: str) -> None:
        raise DiskFailed(errno.EPERM, "rename failed", name)

    monkeypatch.setattr(disk, "rename", refused)
    lab.commit(ops.TopicGone(TOPIC_ID, "t"))
    lab.topic([1], topic_id=NAMESAKE)
    assert code(lab.produce(1, b"new")) is ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    lab.settle()
    lab.nodes[1].broker.shutdown()
    lab.settle()
    lab.start(1)
    lab.pass_ms(2_000)
    assert lab.partition(1).log.log_end_offset == 0
