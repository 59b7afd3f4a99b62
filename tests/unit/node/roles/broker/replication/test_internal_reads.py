"""What a machine inside the broker reads of a log: verified batches to its end, wherever it begins by then."""

import errno
from typing import Any

import pytest

from actors.broker.replication.reading import OwnRead, read_internal
from actors.ports import DiskFailed
from fastpath.records import batch
from tests.unit.node.roles.broker.lab import Lab

ALL = 1 << 20


def filled() -> tuple[Any, Any]:
    """(replicas, a partition that holds the offsets 0 to 5 in batches of one, some of them sealed)."""
    lab = Lab(1)
    lab.topic([1], configs={"internal.segment.bytes": "300"})
    lab.settle()
    for number in range(6):
        lab.produce(1, b"%d" % number * 60)
    return lab.broker(1).replicas, lab.partition(1)


def bases(found: OwnRead) -> list[int]:
    return [header.base_offset for header in batch.headers(found.records)]


def test_a_log_is_read_slice_by_slice_to_its_end() -> None:
    replicas, partition = filled()
    read, offset = [], 0
    while found := bases(read_internal(replicas, partition, offset, ALL)):
        read += found
        offset = found[-1] + 1
    assert read == list(range(6)) and offset == partition.log.log_end_offset


def test_a_log_that_begins_later_by_now_is_read_from_there_and_what_was_read_meanwhile_is_dropped() -> None:
    replicas, partition = filled()
    partition.log.disk.cold = lambda path, position, size: True
    found = read_internal(replicas, partition, 0, ALL)
    assert found.cold is not None and not found.records
    warm = found.cold()
    partition.log.delete_records(3)
    again = read_internal(replicas, partition, found.offset, ALL, warm)
    assert again.offset == 3 and again.cold is not None
    assert bases(read_internal(replicas, partition, again.offset, ALL, again.cold()))[0] in (2, 3)
    gone = read_internal(replicas, partition, 0, ALL, FileNotFoundError("unlinked"))
    assert gone.cold is not None and not partition.unreadable


@pytest.mark.parametrize(
    "failure", [DiskFailed(errno.EIO, "the device"), FileNotFoundError("gone"), batch.CorruptBatch(0, "rot")]
)
def test_a_replica_that_cannot_be_read_is_given_up(failure: Exception) -> None:
    replicas, partition = filled()
    with pytest.raises(DiskFailed):
        read_internal(replicas, partition, 0, ALL, failure)
    assert partition.unreadable and partition in replicas.unreadable
    assert list(replicas.failed_reads) == ([partition.log.disk] if getattr(failure, "errno", None) == errno.EIO else [])


def test_another_failure_says_nothing_about_the_replica() -> None:
    replicas, partition = filled()
    with pytest.raises(OSError, match="too many open files"):
        read_internal(replicas, partition, 0, ALL, OSError(24, "too many open files"))
    assert not partition.unreadable and not replicas.unreadable


def test_what_the_active_segment_gives_is_verified_too() -> None:
    replicas, partition = filled()
    log = partition.log
    path, start = log.active.path(".log"), log.active.base_offset
    log.disk.corrupt(path, 80)
    with pytest.raises(DiskFailed, match="damaged"):
        read_internal(replicas, partition, start, ALL)
    assert partition in replicas.unreadable
