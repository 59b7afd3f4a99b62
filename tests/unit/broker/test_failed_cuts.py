"""A follower's cut that the disk does not let happen, or only in part: what is committed here never lies behind the log."""

import errno

import pytest

from actors.broker.partition import Cluster, Partition
from actors.ports import DiskFailed, DiskFull
from tests.simulator.disk import VirtualDisk
from tests.unit.broker.log import logs
from tests.unit.broker.log.logs import build, flush, put


def replica() -> Partition:
    log = logs.new(segment_bytes=400)
    for number in range(16):
        put(log, build(), epoch=number // 6)
    flush(log)
    return Partition("topic", bytes(range(16)), 0, log, Cluster(1, 30_000), log.settings, 16)


@pytest.mark.parametrize("how", ["cut", "restart"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("step", range(1, 14))
def test_the_high_watermark_is_at_most_the_end_of_a_log_that_was_cut_in_part(how: str, number: int, step: int) -> None:
    partition, steps = replica(), 0
    disk = partition.log.disk
    assert isinstance(disk, VirtualDisk)

    def fault(operation: str, path: str) -> int:
        nonlocal steps
        steps += operation == "rename"
        return number if operation == "rename" and steps == step else 0

    disk.fault = fault
    failed = False
    try:
        if how == "cut":
            partition.truncate_for(0, 3)
        else:
            partition.restart(100, 1_000)
    except (DiskFull, DiskFailed):
        failed = True
    disk.fault = None
    assert failed == (steps >= step)
    assert partition.high_watermark <= partition.log.log_end_offset
    assert failed or partition.high_watermark == (100 if how == "restart" else 3)
