"""A log knows the epochs of what it holds, and of nothing else: none begins behind its end, and only a leader's own
begins there (KIP-101).

Looked at when a log has got shorter.
"""

from typing import Any

from actors.broker.partition import Partition
from tests.simulator.checkers.hooks import Violation


class LogEpochs:
    name = "epochs_are_of_the_log"

    def __init__(self) -> None:
        self._ends: dict[str, dict[Partition, int]] = {}

    def ended(self, process: Any) -> None:
        """Its disk is read anew."""
        self._ends.pop(process.name, None)

    def turned(self, process: Any) -> None:
        """The log end of every replica here."""
        broker = process.node.broker
        if broker is None:
            return
        ends = self._ends.setdefault(process.name, {})
        for partition in broker.replicas:
            end, starts = partition.log.log_end_offset, partition.log.epochs.starts
            if end < ends.get(partition, end) and starts and starts[-1] >= end + partition.leads:
                raise Violation(
                    self.name,
                    f"{process.name} has cut {partition!r} to {end} and still knows that epoch "
                    f"{partition.log.epochs.latest} began at {starts[-1]}",
                )
            ends[partition] = end
