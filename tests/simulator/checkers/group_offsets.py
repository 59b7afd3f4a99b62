"""Committed offsets never move back: whoever asks gets at least what was acknowledged before it asked.

And nothing that no member has asked to commit for that partition: a group that is told a higher offset passes records over.
"""

from tests.simulator.checkers.hooks import Violation
from tests.simulator.history import History


class GroupOffsets:
    name = "group_offsets_monotonic"

    def __init__(self, history: History) -> None:
        self._history = history

    def fetched(self, group: str, topic: str, partition: int, offset: int, floor: int) -> None:
        """The offset of a group, as a member was told it."""
        if offset < floor:
            raise Violation(
                self.name, f"{group} is told {offset} for {topic}-{partition}; {floor} was committed before it asked"
            )
        if offset >= 0 and offset not in self._history.tried.get((group, topic, partition), ()):
            raise Violation(
                "group_offsets_were_committed",
                f"{group} is told {offset} for {topic}-{partition}, which nobody committed",
            )
