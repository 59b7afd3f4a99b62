"""Committed offsets never move back: a fetch returns at least what was acknowledged before it was sent.

Nor is an offset returned that no member has asked to commit for that partition: a group with too high an offset skips
records.
"""

from tests.simulator.checkers.hooks import Violation
from tests.simulator.history import History


class GroupOffsets:
    name = "group_offsets_monotonic"

    def __init__(self, history: History) -> None:
        self._history = history

    def fetched(self, group: str, topic: str, partition: int, offset: int, floor: int) -> None:
        """A member was told the offset of its group."""
        if offset < floor:
            raise Violation(
                self.name, f"{group} is told {offset} for {topic}-{partition}; {floor} was committed before it asked"
            )
        if offset >= 0 and offset not in self._history.tried.get((group, topic, partition), ()):
            raise Violation(
                "group_offsets_were_committed",
                f"{group} is told {offset} for {topic}-{partition}, which nobody committed",
            )
