"""What goes, what stays, and when."""

import errno

import pytest

from actors.broker.log.log import PartitionLog
from actors.broker.log.retention import A_CHECK, Retained, retain
from actors.ports import DiskFull
from tests.simulator.disk import VirtualDisk
from tests.unit.broker.log.logs import (
    DIRECTORY,
    build,
    content,
    flush,
    new,
    offsets,
    prepare,
    put,
    reopen,
    retained,
    settings,
    stop,
)

DAY = 86_400_000


def _filled(**changes: object) -> PartitionLog:
    """Ten segments of one batch, at 0, 1000, ... ms."""
    log = new(**{"segment_bytes": 100, "retention_ms": -1, "retention_bytes": -1, **changes})
    for number in range(10):
        put(log, build(1, 20, timestamp_ms=number * 1000), epoch=number // 4)
    return log


def _run(log: PartitionLog, now_ms: int, high_watermark: int = 1 << 60) -> Retained:
    return retained(log, now_ms, high_watermark)


def test_segments_go_when_their_newest_record_is_too_old() -> None:
    log = _filled(retention_ms=5000)
    assert _run(log, 5000).deleted == 0
    result = _run(log, 7001)
    assert (result.deleted, result.log_start_offset) == (3, 3)
    assert offsets(content(log)) == list(range(3, 10))
    assert log.epochs.starts[0] == 3


def test_files_are_renamed_first_and_unlinked_by_the_jobs() -> None:
    log = _filled(retention_ms=5000)
    result = _run(log, 7001)
    gone = [name for name in log.disk.names(DIRECTORY) if name.endswith(".deleted")]
    assert gone == [f"{n:020d}.log.front.deleted" for n in range(3)]
    for job in result.jobs:
        job()
    assert [name for name in log.disk.names(DIRECTORY) if name.endswith(".deleted")] == []


def test_the_oldest_go_while_the_rest_is_large_enough() -> None:
    log = _filled()
    size = log.segments[0].size
    log.settings = settings(retention_ms=-1, retention_bytes=4 * size + 1)
    assert _run(log, 0).log_start_offset == 5
    log.settings = settings(retention_ms=-1, retention_bytes=5 * size)
    assert _run(log, 0).deleted == 0


def test_nothing_goes_beyond_the_high_watermark() -> None:
    log = _filled(retention_ms=0)
    assert _run(log, DAY, high_watermark=4).log_start_offset == 4
    assert log.log_end_offset == 10


def test_a_log_that_is_too_old_as_a_whole_keeps_its_end() -> None:
    log = _filled(retention_ms=1)
    result = _run(log, DAY)
    assert (result.deleted, log.log_start_offset, log.log_end_offset) == (10, 10, 10)
    assert _run(log, 2 * DAY).deleted == 0
    assert reopen(log, log_start_offset=0).log.log_end_offset == 10
    put(log, build())
    assert offsets(content(log)) == [10]


@pytest.mark.parametrize("checks", [1, 2, 3])
@pytest.mark.parametrize("segments", [1, 10])
def test_a_power_cut_behind_the_retention_of_a_whole_log_keeps_its_end(segments: int, checks: int) -> None:
    """It may keep that the last segment has left, and not that the empty one has come: the log began at 0, and offsets were
    given to other records."""
    log = _filled(retention_ms=1, **({"segment_bytes": 10_000} if segments == 1 else {}))
    assert len(log.segments) == segments
    flush(log)
    for _ in range(checks):
        prepare(log, retain(log, DAY, 10))
    assert log.log_start_offset == (10 if checks > 1 else 9 if segments == 10 else 0)
    assert isinstance(log.disk, VirtualDisk)
    log.disk.crash(None, keeps=lambda change: True)
    again = reopen(log, recovery_point=10, log_start_offset=0).log
    assert again.log_end_offset == 10 and again.damaged is None


@pytest.mark.parametrize("flushed", [False, True])
def test_records_that_were_deleted_behind_a_roll_go_when_the_new_file_is_durable(flushed: bool) -> None:
    """An append has begun it, and DeleteRecords deletes all that was before."""
    log = _filled()
    flush(log)
    put(log, build(1, 20, timestamp_ms=20_000))
    if flushed:
        flush(log)
    log.delete_records(10)
    result = retain(log, 0, 11)
    assert [one.base_offset for one in log.segments] == ([10] if flushed else [9, 10])
    assert [one.base_offset for one in result.behind] == ([] if flushed else [10])
    assert isinstance(log.disk, VirtualDisk)
    log.disk.crash(None, keeps=lambda change: True)
    assert reopen(log, recovery_point=10, log_start_offset=10).log.log_end_offset == (11 if flushed else 10)


@pytest.mark.parametrize("clean", [False, True])
def test_what_a_killed_process_has_begun_is_made_durable_before_what_is_in_front_goes(clean: bool) -> None:
    """Its name alone is not enough: behind a power cut the log began at 0, and gave its offsets to other records."""
    log = _filled(retention_ms=1)
    flush(log)
    for job in retain(log, DAY, 10).warm:
        job()
    retain(log, DAY, 10)
    assert [one.base_offset for one in log.segments] == [9, 10]
    if clean:
        stop(log)
    log = reopen(log, clean=clean, recovery_point=10).log
    first = retain(log, DAY, 10)
    for job in first.warm:
        job()
    assert [one.base_offset for one in retain(log, DAY, 10).behind] == ([] if clean else [10])
    assert _run(log, DAY).log_start_offset == 10
    assert isinstance(log.disk, VirtualDisk)
    log.disk.crash(None, keeps=lambda change: True)
    again = reopen(log, recovery_point=10).log
    assert again.log_end_offset == 10 and again.damaged is None


def test_a_compacted_topic_loses_nothing() -> None:
    log = _filled(retention_ms=1, retention_bytes=1, cleanup_policy=("compact",))
    assert _run(log, DAY).deleted == 0
    log.settings = settings(retention_ms=1, cleanup_policy=("compact", "delete"))
    assert _run(log, DAY).deleted == 10


def test_deleted_records_take_their_segments_with_them() -> None:
    log = _filled(cleanup_policy=("compact",))
    log.delete_records(4)
    assert len(log.segments) == 10
    assert _run(log, 0).deleted == 4
    assert [segment.base_offset for segment in log.segments] == list(range(4, 10))


def test_a_segment_without_timestamps_counts_from_its_last_append() -> None:
    log = new(retention_ms=1000)
    put(log, build(timestamp_ms=-1), now_ms=50)
    put(log, build(timestamp_ms=-1), now_ms=1040)
    assert _run(log, 1060).deleted == 0
    assert _run(log, 2040).deleted == 0
    assert _run(log, 2041).deleted == 1


def test_segments_without_timestamps_go_one_by_one() -> None:
    log = new(segment_bytes=100, retention_ms=1000)
    put(log, build(1, 20, timestamp_ms=-1), now_ms=50)
    put(log, build(1, 20, timestamp_ms=-1), now_ms=60)
    assert _run(log, 1050).deleted == 0
    assert _run(log, 1055).deleted == 1


def test_what_is_not_in_memory_is_read_by_a_job_first() -> None:
    log = _filled(retention_ms=5000)
    stop(log)
    log = reopen(log, clean=True).log
    log.disk.cold = lambda path, position, size: True  # type: ignore[attr-defined]
    first = retain(log, 7001, 1 << 60)
    assert first.deleted == 0 and len(first.warm) == 1
    assert _run(log, 7001).log_start_offset == 3


def test_snapshots_of_deleted_segments_go() -> None:
    log = new(segment_bytes=120, retention_ms=5000)
    for number in range(10):
        put(log, build(1, 20, timestamp_ms=number * 1000, producer_id=3, producer_epoch=0, base_sequence=number))
    stop(log)
    for job in _run(log, 9001).jobs:
        job()
    left = [int(name[:20]) for name in log.disk.names(DIRECTORY) if name.endswith(".snapshot")]
    assert left == log.snapshots.offsets == [5, 6, 7, 8, 9, 10]


def test_a_full_disk_keeps_nothing_but_the_last_segment_of_what_is_too_old() -> None:
    """A new file finds no room until something has gone."""
    log = _filled(retention_ms=5000)
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    disk.fault = lambda operation, path: errno.ENOSPC if operation == "create" else 0
    result = _run(log, 1_000_000)
    assert result.deleted == 9 and offsets(content(log)) == [9]
    with pytest.raises(DiskFull):
        retain(log, 1_000_000, 1 << 60)
    for job in result.jobs:
        job()
    assert not [name for name in disk.names(DIRECTORY) if name.endswith(".deleted")]
    disk.fault = None
    assert _run(log, 1_000_000).deleted == 1 and log.log_start_offset == log.log_end_offset == 10


def test_a_rename_without_room_leaves_what_has_not_gone_in_the_log() -> None:
    log = _filled(retention_ms=5000)
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    third = log.segments[2].log.path
    disk.fault = lambda operation, path: errno.ENOSPC if operation == "rename" and path == third else 0
    with pytest.raises(DiskFull):
        _run(log, 7001)
    assert log.log_start_offset == log.segments[0].base_offset == 2
    assert offsets(content(log)) == list(range(2, 10))
    disk.fault = None
    result = _run(log, 7001)
    assert result.deleted == 1
    for job in result.jobs:
        job()
    assert not [name for name in disk.names(DIRECTORY) if name.endswith(".deleted")], "of the first check too"


@pytest.mark.parametrize("operation", ["rename", "exists"])
def test_what_a_failed_check_has_come_to_makes_room_all_the_same(operation: str) -> None:
    """It may be the only room on a full disk, and the next check may find nothing to delete."""
    log = _filled(retention_ms=5000)
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    third = log.segments[2].log.path
    disk.fault = lambda asked, path: errno.ENOSPC if asked == operation and path == third else 0
    with pytest.raises(DiskFull):
        _run(log, 7001)
    disk.fault = None
    gone = [name for name in disk.names(DIRECTORY) if name.endswith(".deleted")]
    assert len([name for name in gone if ".log" in name]) == 2
    for job in log.left_over():
        job()
    assert not [name for name in disk.names(DIRECTORY) if name.endswith(".deleted")]
    assert log.left_over() == []


def test_records_without_a_time_are_as_old_as_their_file_after_a_restart() -> None:
    log = new(segment_bytes=100, retention_ms=7 * DAY)
    for _ in range(3):
        put(log, build(1, 20, timestamp_ms=-1), now_ms=DAY)
    stop(log)
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    for path, inode in disk.files.items():
        inode.modified_ms = DAY if path.endswith(".log") else None
    log = reopen(log, clean=True, now_ms=7 * DAY).log
    assert _run(log, 8 * DAY).deleted == 0
    assert _run(log, 8 * DAY + 1).log_start_offset == 3
    future = new(segment_bytes=100, retention_ms=7 * DAY)
    put(future, build(1, 20, timestamp_ms=-1), now_ms=DAY)
    stop(future)
    assert isinstance(future.disk, VirtualDisk)
    for inode in future.disk.files.values():
        inode.modified_ms = 1 << 50  # a clock that went wrong
    assert reopen(future, clean=True, now_ms=7 * DAY).log.segments[0].appended_ms == 7 * DAY


@pytest.mark.parametrize("clean", [False, True])
def test_what_the_process_before_has_done_is_made_durable_by_a_job(clean: bool) -> None:
    """Each of 10,000 logs waited for the disk inside the loop, in the turn of the first check behind a start."""
    log = _filled(retention_ms=5000)
    stop(log)
    log = reopen(log, clean=clean).log
    disk, settled = log.disk, list[str]()
    assert isinstance(disk, VirtualDisk)
    disk.fault = lambda operation, path: settled.append(path) or 0 if operation == "settle" else 0  # type: ignore[func-returns-value]
    assert _run(log, 1).deleted == 0 and not settled
    for segment in log.segments:
        segment.max_timestamp(cold=True)
    first = retain(log, 7001, 1 << 60)
    assert (first.deleted, len(first.warm), settled) == (0, 1, [])
    first.warm[0]()
    assert settled == [DIRECTORY]
    assert retain(log, 7001, 1 << 60).deleted == 3 and settled == [DIRECTORY]


def test_a_check_deletes_some_of_thousands_of_segments() -> None:
    """A check of a log with 4,000 segments that are too old took 0.8 s of a turn."""
    log = new(segment_bytes=100, retention_ms=1)
    for _ in range(A_CHECK + 10):
        put(log, build(1, 20))
    flush(log)
    first = retain(log, DAY, 1 << 60)
    assert (first.deleted, first.log_start_offset, first.more) == (A_CHECK, A_CHECK, True)
    second = retain(log, DAY, 1 << 60)
    assert (second.deleted, second.more, len(second.behind)) == (9, False, 1)
    assert _run(log, DAY).log_start_offset == A_CHECK + 10


def test_behind_a_start_thousands_of_segments_go_in_few_checks() -> None:
    """The time of each was read by a job of its own, between two checks: each segment went alone, with a sync of the
    directory and a line in the log of the node."""
    log = new(segment_bytes=100, retention_ms=DAY)
    for number in range(2 * A_CHECK + 10):
        put(log, build(1, 20, timestamp_ms=DAY + (DAY if number >= 2 * A_CHECK else 0)))
    stop(log)
    log = reopen(log, clean=True).log
    checks = []
    while not checks or checks[-1].warm or checks[-1].more:
        checks.append(retain(log, 2 * DAY + 1, 1 << 60))
        prepare(log, checks[-1])
    assert log.log_start_offset == 2 * A_CHECK
    assert len([one for one in checks if one.deleted]) == 2 and len(checks) < 8
    assert len([one for one in log.segments if one.max_timestamp() is None]) >= 8, "those behind are not looked at"
