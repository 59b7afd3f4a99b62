"""Committed offsets never move back: whoever asks gets at least what was acknowledged before it asked."""

from tests.simulator.checkers.hooks import Violation


class GroupOffsets:
    name = "group_offsets_monotonic"

    def fetched(self, group: str, topic: str, partition: int, offset: int, floor: int) -> None:
        """The offset of a group, as a member was told it."""
        if offset < floor:
            raise Violation(
                self.name, f"{group} is told {offset} for {topic}-{partition}; {floor} was committed before it asked"
            )
