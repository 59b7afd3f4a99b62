"""Indexes that leave memory."""

import errno

import pytest

from actors.broker.log.index_cache import IndexCache
from actors.broker.log.log import PartitionLog
from actors.broker.log.recovery import recover
from actors.broker.log.truncation import truncate_to
from tests.simulator.disk import VirtualDisk
from tests.unit.broker.log.logs import build, content, put, settings, stop


def sealed(disk: VirtualDisk, cache: IndexCache) -> PartitionLog:
    """A log with indexes in the cache that no file has."""
    log = PartitionLog(disk, "t-0", settings(segment_bytes=400, index_interval_bytes=1), bytes(16))
    for _ in range(40):
        put(log, build())
    stop(log)
    for name in [name for name in disk.files if name.endswith("index")]:
        disk.remove(name)
    return recover(disk, "t-0", log.settings, clean=True, recovery_point=40, topic_id=bytes(16), indexes=cache).log


def test_one_that_was_made_to_know_a_time_is_not_kept() -> None:
    """Retention asks each segment for its largest time, and the index files are lost: no cache would count them."""
    log = sealed(VirtualDisk(), IndexCache())
    times = [segment.max_timestamp(cold=True) for segment in log.segments[:-1]]
    assert len(times) > 5 and None not in times and -1 not in times
    assert not any(segment.offered or segment.index for segment in log.segments[:-1])


def test_one_for_which_there_is_no_descriptor_is_read_by_a_job() -> None:
    disk = VirtualDisk()
    log = sealed(disk, IndexCache())
    for segment in log.segments[:-1]:
        index = segment.load_index(cold=True)
        assert index is not None
        segment.keep_index(index)
        segment.drop_index()
    disk.fault = lambda operation, path: errno.EMFILE if operation == "open" and path.endswith("index") else 0
    assert log.read(log.segments[1].base_offset, 100) is None
    disk.fault = None
    read = log.read(log.segments[1].base_offset, 100)
    assert read is not None and read.data


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.ENOENT])
def test_one_that_cannot_be_written_is_the_fault_of_its_own_disk(number: int) -> None:
    """The reader of another one is served, and nobody calls that one's disk failed."""
    cache = IndexCache(bytes_max=100)
    sound, broken = VirtualDisk(), VirtualDisk()
    one, other = sealed(sound, cache), sealed(broken, cache)
    wanted = content(one)
    other.cold_read(other.segments[1].base_offset, 100)()
    other.read(other.segments[1].base_offset, 100)
    broken.fault = lambda operation, path: number if operation in ("create", "append") else 0
    assert content(one) == wanted
    assert list(cache.failing) == [broken]
    error = cache.failing[broken]
    assert error.disk is broken and error.errno == number


def test_an_index_that_a_thread_builds_does_not_replace_that_of_a_segment_which_takes_appends_again() -> None:
    """The log is cut into the segment while the thread reads it, and grows."""
    log = sealed(VirtualDisk(), IndexCache())
    disk, segment = log.disk, log.segments[2]
    assert isinstance(disk, VirtualDisk)
    for name in [name for name in disk.files if name.endswith("index")]:
        disk.remove(name)
    segment.index = None
    begun, kept = False, None

    def meanwhile(operation: str, path: str) -> int:
        nonlocal begun, kept
        if not begun and operation == "read" and path == segment.log.path:
            begun = True
            truncate_to(log, segment.base_offset + 1)
            put(log, build(1, 30))
            kept = segment.index
        return 0

    job = log.cold_read(segment.base_offset, 100)
    disk.fault = meanwhile
    job()
    disk.fault = None
    assert begun and log.active is segment
    assert kept is not None and log.read(segment.base_offset, 1) is not None
    assert segment.index is kept, "the thread's index knows batches that are gone"
    offset = put(log, build(1, 30)).base_offset
    assert content(log, offset)[:8] == offset.to_bytes(8, "big")


def test_an_index_that_a_thread_had_to_build_is_kept() -> None:
    log = sealed(VirtualDisk(), IndexCache())
    segment = log.segments[2]
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    for name in [name for name in disk.files if name.endswith("index")]:
        disk.remove(name)
    segment.index = None
    assert log.read(segment.base_offset, 100) is None
    assert log.cold_read(segment.base_offset, 100)().data
    assert log.read(segment.base_offset, 100) is not None and segment.index is not None


@pytest.mark.parametrize("operation", ["append", "create"])
def test_indexes_that_find_no_room_count_until_there_is_some(operation: str) -> None:
    """Else a full disk would fill the memory: what is not counted is never dropped."""
    disk, cache = VirtualDisk(), IndexCache(bytes_max=1)
    disk.fault = lambda asked, path: errno.ENOSPC if asked == operation and path.endswith("index") else 0
    log = PartitionLog(disk, "t-0", settings(segment_bytes=120), bytes(16), indexes=cache)
    for _ in range(30):
        put(log, build())
    held = [one for one in log.segments if one.index is not None and one is not log.active]
    assert len(held) > 10 and set(held) == set(cache.segments)
    assert cache.held_bytes == sum(cache.segments.values()) > cache.bytes_max
    before = disk.steps
    put(log, build())
    assert disk.steps - before < 20, "not all are tried with each append"
    disk.fault = None
    for _ in range(4):
        put(log, build())
    assert len(cache.segments) == 1 and cache.held_bytes == sum(cache.segments.values())
    assert [one for one in log.segments if one.index is not None and one is not log.active] == list(cache.segments)


def test_a_full_disk_keeps_no_indexes_of_another_in_memory() -> None:
    full, other, cache = VirtualDisk(), VirtualDisk(), IndexCache(bytes_max=1)
    full.fault = lambda asked, path: errno.ENOSPC if asked == "append" and path.endswith("index") else 0
    for disk in (full, other):
        log = PartitionLog(disk, "t-0", settings(segment_bytes=120), bytes(16), indexes=cache)
        for _ in range(30):
            put(log, build())
    held = [one for one in log.segments if one.index is not None and one is not log.active]
    assert len(held) < 10 and cache.held_bytes == sum(cache.segments.values())
