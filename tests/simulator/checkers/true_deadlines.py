"""A node that names a time for its next turn has nothing to do before it: a turn at once, at the same time, has no effect.
What a turn leaves undone without a time waits for whatever comes next from outside: a client's answer was late by 100 ms."""

from typing import Any

from tests.simulator.checkers.hooks import Violation

TRIED_EACH = 2
"""One turn of so many is followed by another one."""
BUDGET_NS = 1 << 40


class TrueDeadlines:
    name = "deadlines_are_true"

    def __init__(self) -> None:
        self._turns = 0

    def turned(self, process: Any) -> None:
        """Turn once more, where the node says that it has nothing to do. Not where a disk fails: what was refused a moment
        ago and waits for a job may be had at once now."""
        self._turns += 1
        node, now = process.node, process.now()
        if self._turns % TRIED_EACH or node.deadline_ms() <= now.mono_ms:
            return
        if any(disk.fault is not None for disk in process.disks):
            return
        effects = node.turn(now, BUDGET_NS)
        if any(effects):
            raise Violation(self.name, f"{process.name} had {effects} to do at {now.mono_ms} ms, and no time for it")
