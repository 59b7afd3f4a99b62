"""What a cleaning leaves in a broker that has no room for it."""

import errno
from typing import Any

from tests.simulator.disk import VirtualFile
from tests.unit.broker.log.cleaning.test_cleaner import keyed
from tests.unit.broker.log.logs import flush, put
from tests.unit.node.roles.broker.lab import Lab

CONFIGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "200",
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "1000",
}


def test_the_files_of_a_cleaning_that_cannot_be_given_up_yet_are_closed() -> None:
    """There is no room for the names by which they stand, or go. Each try left three of them open."""
    lab = Lab(1)
    lab.topic([1], configs=CONFIGS)
    partition = lab.partition(1)
    for _ in range(4):
        put(partition.log, keyed(b"key", bytes(60)))
    flush(partition.log)
    lab.broker(1).replicas.advance(partition, lab.now.mono_ms)
    lab.settle()
    assert partition.high_watermark == 4
    disk, opened = lab.disks[1], list[VirtualFile]()
    open_file = disk.open

    def noted(path: str, **more: Any) -> VirtualFile:
        file = open_file(path, **more)
        if path.endswith(".cleaned"):
            opened.append(file)
        return file

    disk.open = noted  # type: ignore[method-assign]
    disk.fault = lambda operation, path: errno.ENOSPC * (operation == "rename" and path.endswith(".cleaned"))
    lab.pass_ms(40_000, 1000)
    assert len(opened) > 3 and all(one.closed for one in opened)
