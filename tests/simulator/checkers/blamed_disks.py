"""Only a disk that has failed is given up: a directory that is offline has refused something in this life of its broker, or
in the start before it.

`StoppedNodes` says the same of the first directory, without which a node ends.
"""

from typing import Any

from tests.simulator.checkers.hooks import Violation

TORN = 2
"""How often room has to be short in the middle of a change, and of its way back, to leave a log half changed: until the next
start its directory is not used either."""


class BlamedDisks:
    """Compares the directories that brokers have given up with what their disks have done."""

    name = "no_sound_disk_is_blamed"

    def turned(self, process: Any) -> None:
        """Check a broker after its turn."""
        broker = process.node.broker if process.node is not None else None
        if broker is None or not broker.logs.directories.offline_count:
            return
        for number, disk in enumerate(process.disks):
            if broker.logs.directories.failed(disk) and not disk.refused and disk.lacked < TORN:
                raise Violation(self.name, f"{process.name} has given up directory {number}, in which nothing failed")
