"""A node stops by itself for a reason only: it was asked to, its disk refused something, or a replica of its was damaged.

Whoever stops is started again, as a supervisor does, so one that stops for nothing would be taken for one that was hurt.
That a directory beside the first one refused something is no reason: the broker goes on with the first one.
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
        """It was killed, or it stopped: why?"""
        refused, process.disk.refused = process.disk.refused, 0
        elsewhere = sum(disk.refused for disk in process.more)
        for disk in process.more:
            disk.refused = 0
        if process.stopped_with is None:
            return
        if elsewhere and process.node._stopping:
            return  # the last flush of a stop in order meets the failure
        code, sentence = process.stopped_with
        well = not process.node._stopping if code == 0 else not refused and not self.was_rotten(process.name)
        if well:
            raise Violation(self.name, f"{process.name} stopped with {code}: {sentence}")
