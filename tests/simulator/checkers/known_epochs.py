"""Leader epochs as consumers see them (KIP-320): they meet no batch of an epoch that they do not know, and what they have
read is never said to be cut off.

A client compares its position with the leader's epochs whenever it hears of a new one. Behind a batch of an epoch that it
does not know it may compare with the end of the epoch before, take the log for truncated, and throw away what it has
fetched.
"""

from tests.simulator.checkers.hooks import Violation
from tests.simulator.history import History


class KnownEpochs:
    name = "epochs_are_known"

    def __init__(self, history: History) -> None:
        self._history = history

    def served(self, consumer: str, topic_id: bytes, partition: int, stated: int, epoch: int, offset: int) -> None:
        """A consumer that stated a leader epoch was given a batch."""
        if epoch > stated:
            raise Violation(
                self.name,
                f"{consumer} stated leader epoch {stated} of {partition} and was given a batch of epoch {epoch} at {offset}",
            )

    def compared(self, consumer: str, topic_id: bytes, partition: int, position: int, epoch: int, end: int) -> None:
        """A consumer has read up to `position`, last a batch of `epoch`, and was told where that epoch ends; -1: it is not
        known, which is possible where everything was deleted."""
        if end < 0 and self._history.purged.get((topic_id, partition), 0) >= position:
            return
        if end < position:
            raise Violation(
                "what_is_read_stays",
                f"{consumer} has read {partition} up to {position}, and was told that epoch {epoch} ends at {end}",
            )
