"""A start that finds no descriptor for a log leaves nothing of it in memory: it is tried again each second. What it has
changed in the files is known to the next try."""

import errno
import random

import pytest

from actors.broker.log.index_cache import IndexCache
from actors.broker.log.log import PartitionLog, Unsettled
from actors.broker.log.producers.transaction_index import CorruptTransactionIndex
from actors.broker.log.recovery import Mended, Recovered
from actors.ports import DiskFull
from fastpath.records import batch
from tests.simulator.disk import VirtualDisk, VirtualFile
from tests.unit.broker.log.cleaning.test_cleaner import COMPACT, filled
from tests.unit.broker.log.logs import build, content, flush, new, put, reopen
from tests.unit.broker.log.test_failing_disk import clean
from tests.unit.broker.log.transactions import end, write


def test_no_index_of_it_stays_in_the_cache_that_all_logs_share() -> None:
    log, cache = new(segment_bytes=400), IndexCache()
    for number in range(20):
        put(log, build(timestamp_ms=1_000 + number))
    flush(log)
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    disk.fault = lambda operation, path: (
        errno.EMFILE * (operation == "open" and path.endswith("leader-epoch-checkpoint"))
    )
    for _ in range(3):
        with pytest.raises(DiskFull):
            reopen(log, recovery_point=0, indexes=cache)
        assert not cache.segments and not cache.held_bytes
    disk.fault = None
    assert content(reopen(log, recovery_point=0, indexes=cache).log) == content(log)
    assert len(cache.segments) == len(log.segments) - 1


def test_no_file_of_it_stays_open_where_a_cleaned_segment_was_to_take_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = filled(**COMPACT)
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    named = False

    def short(operation: str, path: str) -> int:
        nonlocal named
        named = named or (operation == "rename" and ".log.swap" in path)
        return errno.ENOSPC * (operation == "rename" and path.endswith(".swap"))

    disk.fault = short
    with pytest.raises(DiskFull):
        clean(log)
    opened, reading = list[VirtualFile](), VirtualDisk.open

    def noted(disk: VirtualDisk, path: str, *, create: bool = False) -> VirtualFile:
        opened.append(reading(disk, path, create=create))
        return opened[-1]

    monkeypatch.setattr(VirtualDisk, "open", noted)
    with pytest.raises(DiskFull):
        reopen(log, recovery_point=0)
    assert opened and all(file.closed for file in opened)


def test_an_index_of_files_that_are_gone_is_given_up() -> None:
    """A late flush has written over it, and somebody has removed the log's files meanwhile: that ends no broker."""
    log = new(segment_bytes=400)
    for number in range(8):
        write(log, 7, number)
        end(log, 7, commit=False)
    flush(log)
    segment, disk = log.segments[0], log.disk
    assert isinstance(disk, VirtualDisk) and segment.aborted.exists and not segment.aborted.in_memory
    log.aborted._overwritten.append(segment)
    segment.close()
    disk.remove(segment.log.path)
    log.aborted.settle()
    with pytest.raises(CorruptTransactionIndex):
        segment.aborted.candidates(0, 10, 10, cold=True)


def rotted(place: int, at: int = 60, size: int = 10, segment_bytes: int = 400) -> PartitionLog:
    """A log, as a killed process has left it: a bit of one batch has rotted."""
    log = new(segment_bytes=segment_bytes)
    for number in range(16):
        put(log, build(size=size, timestamp_ms=1_000 + number))
    flush(log)
    head, disk = batch.headers(content(log))[place], log.disk
    assert isinstance(disk, VirtualDisk)
    segment = log.segments[log.segment_of(place)]
    begin = next(one.position for one in batch.headers(content(log)) if one.base_offset == segment.base_offset)
    disk.corrupt(segment.path(".log"), head.position - begin + at, 1)
    return log


def opened_in_the_second_try(log: PartitionLog) -> Recovered:
    """The first one has cut it, and then there was no descriptor."""
    disk, mended = log.disk, Mended()
    assert isinstance(disk, VirtualDisk)
    disk.fault = lambda operation, path: (
        errno.EMFILE * (operation == "open" and path.endswith("leader-epoch-checkpoint"))
    )
    with pytest.raises(DiskFull):
        reopen(log, recovery_point=0, mended=mended)
    disk.fault = None
    return reopen(log, recovery_point=0, mended=mended)


@pytest.mark.parametrize("place", [2, 6, 15])
def test_what_a_try_in_vain_has_cut_is_told_and_durable_before_anything_is_appended(place: int) -> None:
    wanted, again = reopen(rotted(place), recovery_point=0), opened_in_the_second_try(rotted(place))
    assert again.cuts == wanted.cuts and again.cuts and again.log.log_end_offset == place
    assert isinstance(again.log.refusing, Unsettled) and isinstance(wanted.log.refusing, Unsettled)
    flush(again.log)
    assert again.log.refusing is None


def test_a_first_offset_that_a_try_in_vain_has_put_back_is_told() -> None:
    wanted = reopen(rotted(3, at=7), recovery_point=0)
    assert opened_in_the_second_try(rotted(3, at=7)).rebuilt == wanted.rebuilt != ()


def test_no_power_cut_brings_back_what_a_try_in_vain_has_cut_behind_what_was_written_since() -> None:
    size = next(size for size in range(512) if len(build(size=size)) == 512)
    for seed in range(20):
        log = opened_in_the_second_try(rotted(2, size=size, segment_bytes=1 << 20)).log
        put(log, build(size=size, timestamp_ms=9_000))
        disk = log.disk
        assert isinstance(disk, VirtualDisk)
        disk.crash(random.Random(seed))
        heads = batch.headers(content(reopen(log, recovery_point=0).log))
        assert [one.max_timestamp for one in heads] in ([1_000, 1_001], [1_000, 1_001, 9_000]), seed
