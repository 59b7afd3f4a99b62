"""Files that leave a log twice under the same name, or first one way and then the other, within `file.delete.delay.ms`."""

import errno
from collections.abc import Callable
from contextlib import suppress

import pytest

from actors.broker.log.directories.checkpoints import LEADER_EPOCHS
from actors.broker.log.log import PartitionLog, Unsettled
from actors.broker.log.recovery import Mended
from actors.broker.log.retention import drop_segments
from actors.broker.log.truncation import truncate_fully, truncate_to
from actors.ports import DiskFailed, DiskFull, Sync
from fastpath.records import batch
from tests.simulator.disk import Change, VirtualDisk
from tests.unit.broker.log import logs
from tests.unit.broker.log.logs import build, content, flush, put
from tests.unit.broker.log.transactions import aborted, end, write

Job = Callable[[], object]


def grown() -> tuple[PartitionLog, VirtualDisk]:
    """A log of one segment for each of ten batches."""
    log = logs.new(segment_bytes=100)
    grow(log)
    assert isinstance(log.disk, VirtualDisk)
    return log, log.disk


def grow(log: PartitionLog) -> None:
    while log.log_end_offset < 10:
        put(log, build(timestamp_ms=1_000 + log.log_end_offset))
    flush(log)


def short_of(disk: VirtualDisk, *first: str) -> None:
    """From the first of these operations on there is no room for a rename either."""
    begun = False

    def fault(operation: str, path: str) -> int:
        nonlocal begun
        begun = begun or any(operation == one.partition(" ")[0] and one.partition(" ")[2] in path for one in first)
        return errno.ENOSPC if begun and operation in ("rename", *(one.partition(" ")[0] for one in first)) else 0

    disk.fault = fault


CHANGES: dict[str, tuple[Callable[[PartitionLog], list[Job]], str]] = {
    "cut": (lambda log: truncate_to(log, 3), "truncate 00000000000000000003.log"),
    "begin anew": (lambda log: truncate_fully(log, 0), "rename 00000000000000000000.index"),
}


def append_behind_the_flush(log: PartitionLog, offset: int) -> None:
    """Append a batch at an offset, which is refused before the log is flushed."""
    data = build(timestamp_ms=9_000)
    headers = batch.accept(data, 0, len(data), offset, 1, now_ms=1_000).headers
    with pytest.raises(Unsettled):
        log.append(data, headers, 1_000)
    flush(log)
    log.append(data, headers, 1_000)


@pytest.mark.parametrize("name", CHANGES)
def test_a_late_unlink_takes_no_file_that_is_to_have_its_own_name_again(name: str) -> None:
    """There was no room for the second change, nor for the way back: what has left by then is still of the log."""
    change, first = CHANGES[name]
    log, disk = grown()
    jobs = change(log)
    flush(log)
    grow(log)
    before = content(log)
    short_of(disk, first)
    with pytest.raises(DiskFull):
        change(log)
    assert log.names.owed
    for job in jobs:
        job()
    disk.fault = None
    log.settle()
    assert log.torn is None and content(log) == before
    put(log, build())
    flush(log)
    found = content(log)
    disk.crash()
    assert content(logs.reopen(log).log) == found


def test_a_path_is_free_again_when_its_unlinking_has_ended() -> None:
    """The number of names does not grow with the life of a log."""
    log, disk = grown()
    for _ in range(3):
        jobs = truncate_to(log, 3)
        disk.fault = lambda operation, path: (
            errno.EMFILE * (operation == "remove" and path.endswith("4.index.cut.deleted"))
        )
        for job in jobs:
            with pytest.raises(DiskFull):
                job()
        disk.fault = None
        flush(log)
        grow(log)
        again = truncate_to(log, 3)  # some of the first job's have gone, and it is run again
        names = disk.names(log.directory)
        assert f"{5:020d}.log.2.cut.deleted" in names and f"{5:020d}.log.cut.deleted" not in names
        for job in (*jobs, *again):
            job()
        assert not [one for one in disk.names(log.directory) if one.endswith(".deleted")]
        flush(log)
        grow(log)


def second_of(*bases: int) -> Callable[[Change], bool]:
    """A power cut that keeps the changes of the names of these segments alone."""
    return lambda change: any(change.old.rpartition("/")[2].startswith(f"{base:020d}") for base in bases)


@pytest.mark.parametrize("unlinked", [False, True])
@pytest.mark.parametrize("restarted", ["", "killed", "stopped"])
def test_what_an_earlier_cut_has_left_tells_no_start_that_the_log_was_being_cut(unlinked: bool, restarted: str) -> None:
    """The log's start was moving, and a power cut has kept the name of the second segment that went, and not of the first:
    all that was to stay was dropped."""
    log, disk = grown()
    jobs = truncate_to(log, 5)
    flush(log)
    grow(log)
    if restarted:
        log = logs.reopen(log, clean=restarted == "stopped").log
    for job in jobs if unlinked else ():
        job()  # a power cut may bring back what is removed
    before = content(log)
    drop_segments(log, 2)
    disk.crash(None, keeps=second_of(1))
    again = logs.reopen(log, recovery_point=10, log_start_offset=0)
    assert again.log.log_start_offset == 2 and not again.cuts and again.log.damaged is None
    assert before.endswith(content(again.log)) and again.log.log_end_offset == 10


def test_a_log_that_becomes_shorter_at_both_ends_keeps_what_is_between() -> None:
    """A power cut keeps some names of each: nobody can tell which way the segments went that are gone."""
    for cut_first in (False, True):
        log, disk = grown()
        before = content(log)
        if cut_first:
            truncate_to(log, 6)
            drop_segments(log, 2)
        else:
            drop_segments(log, 2)
            truncate_to(log, 6)
        disk.crash(None, keeps=second_of(1, 8))
        again = logs.reopen(log, recovery_point=10, log_start_offset=0).log
        assert again.damaged is None and content(again) in before
        assert again.log_start_offset <= 2 and again.log_end_offset >= 6


def test_a_power_cut_that_keeps_the_cut_of_a_file_keeps_that_those_behind_have_gone() -> None:
    """A start found offsets missing in front of segments that were back, and called the log damaged."""
    log = logs.new(segment_bytes=200)
    for number in range(10):
        put(log, build(timestamp_ms=1_000 + number))
    flush(log)
    before, disk = content(log), log.disk
    assert isinstance(disk, VirtualDisk)
    assert [one.base_offset for one in log.segments] == [0, 2, 4, 6, 8]
    truncate_to(log, 3)
    disk.sync(Sync(0, [log.segments[1].log], []))  # as a kernel may that writes back what it has
    disk.crash(None, keeps=lambda change: False)
    again = logs.reopen(log, recovery_point=10)
    assert again.log.damaged is None and not again.cuts
    assert again.log.log_end_offset == 3 and before.startswith(content(again.log))


@pytest.mark.parametrize("end", [3, 0])
def test_a_file_that_there_was_no_room_to_begin_or_to_remove_goes_before_the_log_is_cut(end: int) -> None:
    """A start took it for the place up to which the log had come: it called the log damaged, or began too far behind."""
    log = logs.new(segment_bytes=200)
    for number in range(8):
        put(log, build(timestamp_ms=1_000 + number))
    flush(log)
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    disk.fault = lambda operation, path: (
        errno.EMFILE * (operation == "remove" or (operation == "open" and path.endswith("8.index")))
    )
    with pytest.raises(DiskFull):
        put(log, build())
    assert log.names.owed
    with suppress(DiskFull):
        truncate_to(log, end) if end else truncate_fully(log, end)
    disk.fault = None
    again = logs.reopen(log, recovery_point=8).log
    ends = log.log_start_offset, log.log_end_offset
    assert again.damaged is None and (again.log_start_offset, again.log_end_offset) == ends
    truncate_to(log, end) if end else truncate_fully(log, end)
    again = logs.reopen(log, recovery_point=8).log
    assert again.damaged is None and (again.log_start_offset, again.log_end_offset) == (0, end)


def test_names_that_a_change_in_vain_has_given_back_are_durable_with_the_next_flush() -> None:
    """A power cut kept that a segment had left, and not that it was back."""
    log = logs.new(segment_bytes=400)
    for number in range(9):
        put(log, build(timestamp_ms=1_000 + number))
    flush(log)
    disk, before = log.disk, content(log)
    assert isinstance(disk, VirtualDisk) and len(log.segments) > 2
    disk.fault = lambda operation, path: errno.ENOSPC * (operation == "rename" and path.endswith("0.index"))
    with pytest.raises(DiskFull):
        drop_segments(log, 1)
    disk.fault = None
    flush(log)
    disk.crash(None, keeps=lambda change: str(change.new).endswith(".deleted"))
    assert content(logs.reopen(log, recovery_point=9).log) == before


@pytest.mark.parametrize(("begin", "kept", "start", "end"), [(3, (3,), 0, 3), (3, (3, 6), 0, 3), (12, (), 0, 10)])
def test_a_log_that_was_to_begin_anew_is_sound_with_what_a_power_cut_brings_back(
    begin: int, kept: tuple[int, ...], start: int, end: int
) -> None:
    """The new file, which is empty, stood beside old ones: a start found offsets missing, and called the log damaged."""
    log, disk = grown()
    truncate_fully(log, begin)
    name = f"{begin:020d}.log"
    disk.crash(None, keeps=second_of(*kept))
    disk.open(f"{logs.DIRECTORY}/{name}", create=True).truncate(0)
    again = logs.reopen(log, recovery_point=10, log_start_offset=0).log
    assert again.damaged is None and (again.log_start_offset, again.log_end_offset) == (start, end)
    put(again, build())
    flush(again)
    assert content(logs.reopen(again).log) == content(again)


def test_what_a_killed_process_has_cut_is_durable_before_anything_is_appended() -> None:
    """A power cut brought it back later, below a high watermark that had passed it meanwhile."""
    log = logs.new()
    for number in range(8):
        put(log, build(timestamp_ms=1_000 + number))
    flush(log)
    truncate_to(log, 3)
    again = logs.reopen(log, recovery_point=8).log
    data = build(timestamp_ms=9_000)
    headers = batch.accept(data, 0, len(data), 3, 0, now_ms=1_000).headers
    with pytest.raises(Unsettled):
        again.append(data, headers, 1_000)
    flush(again)
    disk, before = again.disk, content(again)
    assert isinstance(disk, VirtualDisk) and again.append(data, headers, 1_000)
    disk.crash()
    assert content(logs.reopen(again, recovery_point=8).log) == before


@pytest.mark.parametrize("cut", [False, True])
def test_names_that_a_change_in_vain_has_given_back_ask_for_a_flush(cut: bool) -> None:
    """Nothing else asks for one of a log that rests: a power cut an hour later kept that a segment had left, and not that it
    was back."""
    log, disk = grown()
    before = content(log)
    disk.fault = lambda operation, path: (
        errno.ENOSPC * (operation == "rename" and path.endswith("0.log" if cut else "0.index"))
    )
    assert not log.flush_due(1 << 40)
    with pytest.raises(DiskFull):
        truncate_fully(log, 0) if cut else drop_segments(log, 1)
    disk.fault = None
    assert log.flush_due(1 << 40) and content(log) == before
    flush(log)
    assert not log.flush_due(1 << 40)
    disk.crash(None, keeps=lambda change: str(change.new).endswith(".deleted"))
    assert content(logs.reopen(log, recovery_point=10, log_start_offset=0).log) == before


def test_names_that_a_killed_process_has_given_are_durable_with_the_first_flush() -> None:
    """A change in vain had given them back. A power cut kept that a segment had left, and not that it was back."""
    log, disk = grown()
    before = content(log)
    disk.fault = lambda operation, path: errno.ENOSPC * (operation == "rename" and path.endswith("0.index"))
    with pytest.raises(DiskFull):
        drop_segments(log, 1)
    disk.fault = None
    again = logs.reopen(log, recovery_point=10).log
    flush(again)
    disk.crash(None, keeps=lambda change: str(change.new).endswith(".deleted"))
    assert content(logs.reopen(again).log) == before


def test_a_log_that_found_no_room_to_begin_has_its_file_with_the_next_flush() -> None:
    """Nothing else says where an empty log begins: a start began it at 0."""
    log, disk = grown()
    disk.fault = lambda operation, path: errno.ENOSPC * (operation == "create")
    truncate_fully(log, 50)
    assert not log.segments and log.log_start_offset == 50
    with pytest.raises(DiskFull):
        log.flush()
    disk.fault = None
    flush(log)
    disk.crash()
    again = logs.reopen(log, recovery_point=0, log_start_offset=0).log
    assert (again.log_start_offset, again.log_end_offset) == (50, 50)


@pytest.mark.parametrize("begin", [20, 0])
def test_a_log_without_a_file_that_begins_anew_in_front_of_its_end_waits_for_the_checkpoints(begin: int) -> None:
    """There was no room for its file. A start trusted what came then, as the checkpoints said that all was durable up to
    where it had been to begin."""
    disk = VirtualDisk()
    disk.fault = lambda operation, path: errno.ENOSPC * (operation == "create")
    log = logs.reopen(PartitionLog(disk, logs.DIRECTORY, logs.settings()), recovery_point=50, log_start_offset=50).log
    with pytest.raises(DiskFull):
        truncate_fully(log, begin)
    assert (log.log_start_offset, log.log_end_offset, log.segments) == (50, 50, [])
    disk.fault = None
    truncate_fully(log, begin)
    log.check()
    append_behind_the_flush(log, begin)
    assert log.log_end_offset == begin + 1


@pytest.mark.parametrize("change", ["flush", "cut", "cut to nothing"])
def test_a_file_that_no_clock_has_begun_is_as_old_as_its_first_record(change: str) -> None:
    """Records without a time: the second one rolled the log, as if the file were of 1970."""
    log, disk = grown()
    now_ms = 1 << 41
    if change == "flush":
        disk.fault = lambda operation, path: errno.ENOSPC * (operation == "create")
        truncate_fully(log, 50, now_ms)
        disk.fault = None
        assert not log.segments
    elif change == "cut":
        drop_segments(log, 4)
        truncate_to(log, 3)
    else:
        truncate_to(log, 0)
    flush(log)
    log.settings = logs.settings(segment_ms=1_000)
    for _ in range(3):
        put(log, build(timestamp_ms=-1), now_ms=now_ms)
    assert len(log.segments) == 1


def test_a_recovery_point_within_what_has_gone_hides_no_hole() -> None:
    """The last segments were not durable to their end, and one of them has gone. Readers found a gap."""
    log = logs.new(segment_bytes=400)
    for number in range(16):
        put(log, build(timestamp_ms=1_000 + number))
        if number == 6:
            flush(log)
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    disk.sync(Sync(0, [segment.log for segment in log.segments], []))
    assert [one.base_offset for one in log.segments] == [0, 4, 8, 12] and log.recovery_point == 7
    drop_segments(log, 2)
    disk.crash(None, keeps=second_of(4))
    again = logs.reopen(log, log_start_offset=0).log
    assert (again.log_start_offset, again.log_end_offset, again.damaged) == (8, 16, None)


@pytest.mark.parametrize("kept", [(1,), (1, 3), (2, 3)])
@pytest.mark.parametrize("point", [0, 1, 10])
def test_a_log_whose_start_was_moving_keeps_what_no_checkpoint_says_is_durable(
    kept: tuple[int, ...], point: int
) -> None:
    """It was flushed, and retention came before the checkpoint did: what was to stay was dropped."""
    log, disk = grown()
    before = content(log)
    drop_segments(log, 4)
    disk.crash(None, keeps=second_of(*kept))
    again = logs.reopen(log, recovery_point=point, log_start_offset=0)
    assert again.log.log_start_offset == kept[-1] + 1 and not again.cuts and again.log.damaged is None
    assert again.log.log_end_offset == 10 and before.endswith(content(again.log))


@pytest.mark.parametrize("kept", [(9,), (8, 9), (0, 9), (2, 3, 9)])
@pytest.mark.parametrize("point", [0, 9, 10])
def test_a_log_of_which_all_was_too_old_ends_where_it_did_though_some_of_it_is_back(
    kept: tuple[int, ...], point: int
) -> None:
    """The empty file that says so was taken for one of a log that was to begin anew there: offsets were given again."""
    log, disk = grown()
    log.roll(1_000)
    flush(log)
    drop_segments(log, 10)
    disk.crash(None, keeps=second_of(*kept))
    again = logs.reopen(log, recovery_point=point, log_start_offset=0)
    assert (again.log.log_start_offset, again.log.log_end_offset) == (10, 10) and again.log.damaged is None


HISTORIES: dict[str, Callable[[PartitionLog], object]] = {
    "anew": lambda log: truncate_fully(log, 3),
    "anew behind retention": lambda log: (drop_segments(log, 7), truncate_fully(log, 3)),
    "anew by an earlier version": lambda log: (truncate_fully(log, 3), said_by_an_earlier_version(log)),
    "cut behind retention": lambda log: (drop_segments(log, 1), truncate_to(log, 3)),
}
"""How a log comes to end at 3, with names of what was before."""


def said_by_an_earlier_version(log: PartitionLog) -> None:
    """It took what a log had that began anew for files in front of its start."""
    for name in log.disk.names(log.directory):
        if name.endswith(".cut.deleted"):
            old = f"{log.directory}/{name}"
            log.disk.rename(old, old.replace(".cut.", ".front."))


@pytest.mark.parametrize("name", HISTORIES)
def test_what_has_left_earlier_does_not_say_that_a_lost_tail_was_in_front(name: str) -> None:
    """The old segments would fill the hole: what was durable in front of it, and acknowledged, was to go."""
    log, disk = grown()
    HISTORIES[name](log)
    flush(log)
    log.settings = logs.settings(segment_bytes=400)
    epoch = int(name == "anew by an earlier version")
    for number in range(4, 10):
        put(log, build(timestamp_ms=9_000), epoch=epoch)
        if number == 5:
            flush(log)
    assert [one.base_offset for one in log.segments][-2:] == [3, 7] and log.log_end_offset == 9
    disk.sync(Sync(0, [log.segments[-1].log], []))
    disk.crash()
    again = logs.reopen(log, recovery_point=log.log_start_offset).log
    assert (again.log_start_offset, again.log_end_offset) == (log.log_start_offset, 5) and again.damaged is None


def test_a_segment_that_cannot_be_read_was_not_in_front_of_the_log() -> None:
    """An older one of its name has left, as it was cleaned."""
    log = logs.new(segment_bytes=400)
    for number in range(16):
        put(log, build(timestamp_ms=1_000 + number))
    flush(log)
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    disk.open(f"{logs.DIRECTORY}/{4:020d}.log.front.deleted", create=True)
    disk.remove(log.segments[1].path(".index"))
    disk.corrupt(log.segments[1].path(".log"), 16)  # its magic
    again = logs.reopen(log, log_start_offset=0).log
    assert again.damaged is not None and (again.log_start_offset, again.log_end_offset) == (0, 16)


def test_what_a_new_segment_has_passed_does_not_come_back_beside_it() -> None:
    """The log began anew within what it had. A power cut has kept the new file, and not that the old one has left: a reader
    got old records in the place of new ones."""
    log = logs.new()
    for number in range(4):
        put(log, build(timestamp_ms=1_000 + number))
    flush(log)
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    truncate_fully(log, 1)
    disk.crash(None, keeps=lambda change: False)
    disk.sync(Sync(0, [disk.open(f"{logs.DIRECTORY}/{1:020d}.log", create=True)], []))
    again = logs.reopen(log, recovery_point=4, log_start_offset=0)
    assert again.log.log_end_offset == 4 and again.log.damaged is None and not again.cuts
    for _ in range(5):
        put(again.log, build(timestamp_ms=9_000))
    times = [one.max_timestamp for one in batch.headers(content(again.log))]
    assert times == [*range(1_000, 1_004), *[9_000] * 5]
    flush(again.log)
    assert content(logs.reopen(again.log).log) == content(again.log)


@pytest.mark.parametrize("cut", [False, True])
def test_an_index_of_aborted_transactions_that_has_left_alone_is_built_again(cut: bool) -> None:
    """A power cut has kept its new name, and not that of its segment. Readers of what was committed got aborted records."""
    log = logs.new(segment_bytes=400)
    for number in range(8):
        write(log, 7, number)
        end(log, 7, commit=False)
    flush(log)
    wanted = aborted(log, 0, log.log_end_offset)
    assert len(wanted) == 8 and len(log.segments) > 3
    if cut:
        truncate_to(log, log.segments[1].base_offset)
    else:
        drop_segments(log, 2)
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    disk.crash(None, keeps=lambda change: ".txnindex" in change.old)
    disk.fault = lambda operation, path: (
        errno.EMFILE * (operation == "open" and path.endswith("leader-epoch-checkpoint"))
    )
    mended = Mended()
    with pytest.raises(DiskFull):  # nor does a try in vain forget it
        logs.reopen(log, recovery_point=16, log_start_offset=0, mended=mended)
    disk.fault = None
    again = logs.reopen(log, recovery_point=16, log_start_offset=0, mended=mended).log
    kept = [one for one in wanted if one[1] < again.log_end_offset]
    assert aborted(again, 0, again.log_end_offset) == kept and len(kept) > 1 and again.log_start_offset == 0
    flush(again)
    assert aborted(logs.reopen(again).log, 0, again.log_end_offset) == kept


@pytest.mark.parametrize("back", range(3))
def test_a_start_removes_what_has_left_once_that_is_durable(back: int) -> None:
    """A process was killed when it had taken segments out in front, and the power was cut in the start behind it: one was
    back, those behind it were not, and nothing said any more that they had been in front."""
    log, disk = grown()
    drop_segments(log, 3)
    disk.fault = lambda operation, path: errno.EIO * (operation == "remove" and "2.timeindex" in path)
    for job in logs.reopen(log, recovery_point=10, log_start_offset=0).log.left_over():
        with pytest.raises(DiskFailed):
            job()
    disk.fault = None
    disk.crash(None, keeps=lambda change: f"{back:020d}" not in change.old)
    again = logs.reopen(log, recovery_point=10, log_start_offset=0).log
    assert again.damaged is None and again.log_start_offset <= 3 and again.log_end_offset == 10


@pytest.mark.parametrize("begin", [0, 4, 20])
def test_nothing_comes_into_a_log_that_began_anew_before_that_is_durable(begin: int) -> None:
    """A power cut brought its old segments back behind the new records."""
    log, disk = grown()
    truncate_fully(log, begin)
    append_behind_the_flush(log, begin)
    flush(log)
    disk.crash(None, keeps=lambda change: False)
    again = logs.reopen(log, log_start_offset=0).log
    assert (again.log_start_offset, again.log_end_offset, again.damaged) == (begin, begin + 1, None)


def test_a_snapshot_of_a_flush_in_vain_does_not_outlive_a_new_beginning() -> None:
    """A start began with it, though other records had come to its offset meanwhile."""
    log = logs.new(segment_bytes=400)
    put(log, build())
    flush(log)
    write(log, 7, 0)
    while log.log_end_offset < 6:
        put(log, build())
    log.roll(1_000)
    wanted, disk = log.flush(), log.disk
    assert isinstance(disk, VirtualDisk) and wanted.snapshots
    disk.replace_full = lambda path: path.endswith(LEADER_EPOCHS)
    wanted = wanted._replace(replacements=[*wanted.replacements, (disk, f"{log.directory}/{LEADER_EPOCHS}", b"")])
    with pytest.raises(DiskFull):
        logs.sync(log, wanted)
    disk.replace_full = None
    truncate_fully(log, 3)
    for _ in range(8):
        put(log, build())
    again = logs.reopen(log, recovery_point=3, log_start_offset=0).log
    assert again.log_end_offset == 11 and again.producers.transactions.first_unstable > 11


@pytest.mark.parametrize("cut", [truncate_to, truncate_fully], ids=["cut", "anew"])
def test_the_checkpoints_go_with_the_first_flush_behind_a_cut_that_a_kill_has_interrupted(
    cut: Callable[..., object],
) -> None:
    """The log reached the old recovery point again, and a power cut left of it what nobody checked."""
    log, _ = grown()
    cut(log, 0)
    again = logs.reopen(log, recovery_point=10, log_start_offset=0).log
    assert again.log_end_offset == 0 and again.flush().cut
