"""Indexes that leave memory."""

import errno

import pytest

from actors.broker.log.indexes import IndexCache
from actors.broker.log.log import PartitionLog
from actors.broker.log.recovery import recover
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
