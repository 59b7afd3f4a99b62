"""What a start knows of producers when a log was cut, or a process was killed, before their files were durable."""

import errno

import pytest

from actors.broker.log.log import PartitionLog
from actors.broker.log.retention import drop_segments
from actors.broker.log.truncation import truncate_fully, truncate_to
from actors.ports import DiskFull
from tests.simulator.disk import VirtualDisk
from tests.unit.broker.log import logs
from tests.unit.broker.log.logs import build, flush, put, reopen
from tests.unit.broker.log.transactions import aborted, end, write


def grow(log: PartitionLog, end_offset: int) -> None:
    while log.log_end_offset < end_offset:
        put(log, build())


def killed(log: PartitionLog, recovery_point: int) -> PartitionLog:
    """The log after a kill and a start."""
    return reopen(log, recovery_point=recovery_point, log_start_offset=0).log


def undecided() -> PartitionLog:
    """A log whose first segment has the beginning of a transaction, and whose only snapshot is that of the last one: a kill
    has lost those that the rolls before it had kept."""
    log = logs.new(segment_bytes=400)
    write(log, 7, 0)
    grow(log, 14)
    log = killed(log, 0)
    flush(log)
    assert len(log.segments) > 3 and log.snapshots.offsets == [log.segments[-1].base_offset]
    return log


@pytest.mark.parametrize("how", ["flushed", "killed", "power", "short", "anew"])
def test_a_cut_that_takes_the_last_snapshot_forgets_no_producer(how: str) -> None:
    """A start took the log for one without producers until then: the transaction was forgotten, its data counted as
    committed, and was shown when it was aborted later."""
    log = undecided()
    disk, point, end_offset = log.disk, log.recovery_point, log.segments[-2].base_offset + 1
    assert isinstance(disk, VirtualDisk)
    if how == "short":
        disk.fault = lambda operation, path: errno.ENOSPC * (operation == "rename" and path.endswith(".snapshot"))
    jobs = truncate_to(log, end_offset) if how != "anew" else truncate_fully(log, 0)
    disk.fault = None
    if how == "flushed":
        for job in jobs:
            job()
        flush(log)
        point = log.recovery_point
        grow(log, end_offset + 1)
    elif how == "power":
        disk.crash()
    elif how == "anew":  # a power cut keeps of the names only that the snapshot has gone
        disk.crash(None, keeps=lambda change: ".snapshot" in change.old)
    for _ in range(3):
        log = killed(log, point)
        if log.log_end_offset:
            assert log.producers.transactions.first_unstable == 0
    if not log.log_end_offset:
        return
    flush(log)
    end(log, 7, commit=False)
    assert aborted(log, 0, log.log_end_offset) == [(7, 0)]
    flush(log)
    put(log, build())
    flush(log)
    for job in log.left_over():
        job()
    assert not [name for name in disk.names(log.directory) if name.endswith(".deleted")]
    assert aborted(killed(log, log.recovery_point), 0, log.log_end_offset) == [(7, 0)]


def test_a_snapshot_of_a_flush_that_found_no_room_for_the_rest_does_not_outlive_a_cut() -> None:
    """It was written, and nobody knew: the next start began with it, though the log had grown again otherwise."""
    log = logs.new(segment_bytes=400)
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    grow(log, 1)
    flush(log)
    write(log, 7, 0)
    log.roll(1_000)
    wanted = log.flush()
    disk.replace_full = lambda path: path.endswith("leader-epoch-checkpoint")
    wanted = wanted._replace(replacements=[*wanted.replacements, (disk, "topic-0/leader-epoch-checkpoint", b"0\n0\n")])
    with pytest.raises(DiskFull):
        logs.sync(log, wanted)
    disk.replace_full = None
    assert disk.found(log.snapshots.path(2))
    truncate_to(log, 1)
    flush(log)
    grow(log, 6)
    assert killed(log, 1).producers.transactions.first_unstable > 6


def test_an_index_of_aborted_transactions_that_a_killed_process_has_emptied_stays_empty() -> None:
    """Nobody synced it after the start, and a power cut brought its entries back beside other records."""
    log = logs.new(segment_bytes=400)
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    grow(log, 1)
    write(log, 7, 0)
    end(log, 7, commit=False)
    flush(log)
    truncate_to(log, 1)
    log = killed(log, 3)
    flush(log)
    write(log, 8, 0)
    end(log, 8, commit=True)
    grow(log, 9)
    flush(log)
    disk.crash()
    again = killed(log, log.recovery_point)
    assert again.log_end_offset == 9 and not aborted(again, 0, 9)


def test_what_a_start_has_cut_and_unlinked_tells_the_next_one_nothing() -> None:
    """A power cut brought its name back beside one of those that had left in front, and kept another's: all that was to
    stay was dropped as if the log had been cut."""
    log = logs.new(segment_bytes=100)
    grow(log, 7)
    flush(log)
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    log.segments[-1].log.truncate(20)  # a power cut has lost the rest
    log.segments[-2].log.truncate(20)
    log = killed(log, 5)
    assert log.log_end_offset == 5
    log = killed(log, 5)
    drop_segments(log, 2)
    disk.crash(None, keeps=lambda change: "1.log" in change.old)
    again = killed(log, 5)
    assert again.damaged is None and again.log_start_offset <= 2 and again.log_end_offset >= 5


@pytest.mark.parametrize("short", [False, True])
def test_a_snapshot_of_a_log_of_which_all_files_are_lost_says_nothing_of_what_comes_in_their_place(short: bool) -> None:
    """A transaction that was lost was open again behind the next start, and readers of what was committed waited for it."""
    log = undecided()
    disk, end_offset = log.disk, log.log_end_offset
    assert isinstance(disk, VirtualDisk)
    for path in [one for one in disk.files if one.endswith(".log")]:
        disk.remove(path)
    disk.fault = lambda operation, path: errno.EMFILE * (short and operation == "remove" and path.endswith(".snapshot"))
    log = killed(log, log.recovery_point)
    assert not log.producers.by_id
    disk.fault = None
    flush(log)
    grow(log, end_offset + 1)
    log = killed(log, 0)
    assert log.log_end_offset == end_offset + 1 and not log.producers.by_id
    assert log.producers.transactions.first_unstable > end_offset
