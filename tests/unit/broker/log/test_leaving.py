"""Files that leave a log twice under the same name, within `file.delete.delay.ms`."""

import errno
from collections.abc import Callable

import pytest

from actors.broker.log.log import PartitionLog
from actors.broker.log.truncation import truncate_fully, truncate_to
from actors.ports import DiskFull
from tests.simulator.disk import VirtualDisk
from tests.unit.broker.log import logs
from tests.unit.broker.log.logs import build, content, flush, put

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
