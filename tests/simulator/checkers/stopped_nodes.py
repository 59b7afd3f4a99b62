"""A node stops by itself only for a reason: it was asked to, its disk failed, or one of its replicas was damaged.

A stopped node is started again, as a supervisor does, so a node that stops without a reason would be mistaken for one
that was hit by a fault. A failure of a second directory is no reason: the broker goes on with the first one.
"""

from collections.abc import Callable
from typing import Any

from tests.simulator.checkers.hooks import Violation


class StoppedNodes:
    name = "nodes_stop_for_a_reason"

    def __init__(self) -> None:
        self.was_rotten: Callable[[str], bool] = lambda process: False
        """Whether rot was ever put on a process's disk."""

    def ended(self, process: Any) -> None:
        """A process was killed, or it stopped: then it must have a reason."""
        refused, process.disk.refused = process.disk.refused, 0
        lacked, process.disk.lacked = process.disk.lacked, 0
        elsewhere = sum(disk.refused for disk in process.more)
        for disk in process.more:
            disk.refused = disk.lacked = 0
        if process.stopped_with is None:
            return
        if elsewhere and process.node._stopping:
            return  # the last flush of a controlled shutdown failed
        if lacked and process.node.controller is not None:
            return  # a controller does not wait for room
        code, sentence = process.stopped_with
        well = not process.node._stopping if code == 0 else not refused and not self.was_rotten(process.name)
        if well:
            raise Violation(self.name, f"{process.name} stopped with {code}: {sentence}")
