"""A node stops by itself for a reason only: it was asked to, its disk refused something, or a replica of its was damaged.

Whoever stops is started again, as a supervisor does, so one that stops for nothing would be taken for one that was hurt.
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
        if process.stopped_with is None:
            return
        code, sentence = process.stopped_with
        well = not process.node._stopping if code == 0 else not refused and not self.was_rotten(process.name)
        if well:
            raise Violation(self.name, f"{process.name} stopped with {code}: {sentence}")
