"""A node that has nothing to do rests: it does not ask for one turn after the other in which nothing happens. One that
loads a snapshot has something to do."""

from typing import Any

from tests.simulator.checkers.hooks import Violation

TURNS_MAX = 300
WITHIN_US = 300_000


class IdleNodes:
    name = "idle_nodes_rest"

    def turned(self, process: Any) -> None:
        """Count turns without effect: too many of them in too short a time are a violation."""
        if process.node.quorum.loading:
            process.fruitless = 0
        if process.fruitless > TURNS_MAX:
            if process.world.time_us - process.fruitless_since_us < WITHIN_US:
                node = process.node
                due = {type(role).__name__: role.deadline_ms() for role in node._roles}
                due["timers"], due["quorum"] = node.runtime.waiting.deadline_ms(), node.quorum.deadline_ms()
                raise Violation(self.name, f"{process.name} turns without end at {process.now().mono_ms} ms: due {due}")
            process.fruitless = 0
