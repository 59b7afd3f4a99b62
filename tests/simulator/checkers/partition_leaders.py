"""One leader an epoch in each partition; leader epochs and high watermarks of a running replica never fall.

The high watermark may fall with the log itself, when a follower is cut below it.
"""

from typing import Any

from actors.broker.partition import Partition
from tests.simulator.checkers.hooks import Hooks, Violation


class PartitionLeaders:
    name = "one_leader_an_epoch_of_a_partition"

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._leaders: dict[tuple[bytes, int, int], str] = {}
        self._seen: dict[str, dict[Partition, tuple[int, int, bool]]] = {}

    def ended(self, process: Any) -> None:
        """A restarted process begins with what its disk has."""
        self._seen.pop(process.name, None)

    def turned(self, process: Any) -> None:
        """Epoch, high watermark and part of every replica here."""
        broker = process.node.broker
        if broker is None:
            return
        seen = self._seen.setdefault(process.name, {})
        for partition in broker.replicas:
            now = partition.leader_epoch, partition.high_watermark, partition.leader == broker.me
            before = seen.get(partition)
            if before == now:
                continue
            seen[partition] = now
            before = before or (-1, -1, False)
            self._moved(process, partition, before, now)
            for function in self._hooks.moved:
                function(process, partition, before[1], before[2])

    def _moved(self, process: Any, partition: Partition, before: tuple[int, int, bool],
               now: tuple[int, int, bool]) -> None:  # fmt: skip
        name = process.name
        if now[0] < before[0]:
            raise Violation("leader_epoch_monotonic", f"{name}: {partition!r} went from epoch {before[0]} to {now[0]}")
        if now[1] < before[1] and now[1] < partition.log.log_end_offset:
            raise Violation("high_watermark_monotonic",
                            f"{name}: {partition!r} went from {before[1]} back to {now[1]}, "
                            f"its log ends at {partition.log.log_end_offset}")  # fmt: skip
        if now[2]:
            other = self._leaders.setdefault((partition.topic_id, partition.number, now[0]), name)
            if other != name:
                raise Violation(self.name, f"{other} and {name} both led {partition!r} under epoch {now[0]}")
