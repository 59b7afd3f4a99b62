"""Each partition has one leader in an epoch; leader epochs and high watermarks of a running replica never fall.

The high watermark may fall with the log itself, when a follower is truncated below it.
"""

from typing import Any

from actors.broker.replication.partition import Partition
from tests.simulator.checkers.changed_replicas import Standing
from tests.simulator.checkers.hooks import Violation


class PartitionLeaders:
    name = "one_leader_an_epoch_of_a_partition"

    def __init__(self) -> None:
        self._leaders: dict[tuple[bytes, int, int], str] = {}

    def changed(self, process: Any, partition: Partition, before: Standing) -> None:
        """Check epoch, high watermark and role of a replica."""
        name, epoch, mark = process.name, partition.leader_epoch, partition.high_watermark
        if epoch < before.leader_epoch:
            raise Violation(
                "leader_epoch_monotonic", f"{name}: {partition!r} went from epoch {before.leader_epoch} to {epoch}"
            )
        if mark < before.high_watermark and mark < partition.log.log_end_offset:
            raise Violation(
                "high_watermark_monotonic",
                f"{name}: {partition!r} went from {before.high_watermark} back to {mark}, "
                f"its log ends at {partition.log.log_end_offset}",
            )
        if partition.leader == process.node.broker.cache.me:
            other = self._leaders.setdefault((partition.topic_id, partition.number, epoch), name)
            if other != name:
                raise Violation(self.name, f"{other} and {name} both led {partition!r} under epoch {epoch}")
