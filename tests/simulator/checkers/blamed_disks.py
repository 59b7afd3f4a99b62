"""Only a disk that has failed is given up: in a directory that is offline something has failed in this life of its broker,
or in the start before it. Where room or descriptors were short, nothing has.

`StoppedNodes` says the same of the first directory, without which a node ends.
"""

from typing import Any

from tests.simulator.checkers.hooks import Violation


class BlamedDisks:
    """Compares the directories that brokers have given up with what their disks have done."""

    name = "no_sound_disk_is_blamed"

    def turned(self, process: Any) -> None:
        """Check a broker after its turn."""
        broker = process.node.broker if process.node is not None else None
        if broker is None or not broker.logs.directories.offline_count:
            return
        for number, disk in enumerate(process.disks):
            if broker.logs.directories.failed(disk) and not disk.refused:
                raise Violation(self.name, f"{process.name} has given up directory {number}, in which nothing failed")
