"""A log knows the epochs of the records that it holds, and no others: none begins after its end, and only a leader's
own begins at it (KIP-101).

This is checked when a log has become shorter.
"""

from typing import Any

from actors.broker.replication.partition import Partition
from tests.simulator.checkers.changed_replicas import Standing
from tests.simulator.checkers.hooks import Violation


class LogEpochs:
    name = "epochs_are_of_the_log"

    def changed(self, process: Any, partition: Partition, before: Standing) -> None:
        """The replica's log may have become shorter."""
        end, starts = partition.log.log_end_offset, partition.log.epochs.starts
        if end < before.log_end_offset and starts and starts[-1] >= end + partition.leads:
            raise Violation(
                self.name,
                f"{process.name} has cut {partition!r} to {end} and still knows that epoch "
                f"{partition.log.epochs.latest} began at {starts[-1]}",
            )
