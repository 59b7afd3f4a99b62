"""A failed sync is final: a node that was told that a log file could not be made durable stops, or does without the
directory.
"""

from typing import Any

from tests.simulator.checkers.hooks import Violation


class FailedSyncs:
    name = "failed_sync_is_final"

    def turned(self, process: Any) -> None:
        """The turn in which the node learned of it has ended, and the node still runs."""
        if process.disk.failed_syncs:
            raise Violation(self.name, f"{process.name} goes on after {process.disk.failed_syncs} failed syncs")
        for disk in process.more:
            if disk.failed_syncs and not process.node.broker.logs.directories.failed(disk):
                raise Violation(
                    self.name, f"{process.name} goes on with a directory after {disk.failed_syncs} failed syncs"
                )

    def ended(self, process: Any) -> None:
        """The next process starts again from what is on the disk."""
        for disk in process.disks:
            disk.failed_syncs = 0
