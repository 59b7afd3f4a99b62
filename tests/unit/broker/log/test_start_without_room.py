"""A start that finds no descriptor for a log leaves nothing of it in memory: it is tried again each second."""

import errno

import pytest

from actors.broker.log.index_cache import IndexCache
from actors.broker.log.producers.transaction_index import CorruptTransactionIndex
from actors.ports import DiskFull
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
