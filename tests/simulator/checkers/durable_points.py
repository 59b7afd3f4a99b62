"""What a broker calls durable is durable: the segments below a log's recovery point are on the device."""

from typing import Any

from actors.broker.log.log import PartitionLog
from actors.broker.replication.partition import Partition
from tests.simulator.checkers.hooks import Violation


class DurablePoints:
    name = "recovery_point_is_durable"

    def __init__(self) -> None:
        self._known: dict[str, dict[Partition, tuple[int, int]]] = {}
        """Which log's recovery point was compared last, of each replica."""

    def ended(self, process: Any) -> None:
        """The next process takes its recovery points from files."""
        self._known.pop(process.name, None)

    def turned(self, process: Any) -> None:
        """Check a broker after its turn."""
        broker = process.node.broker if process.node is not None else None
        if broker is None:
            return
        known = self._known.setdefault(process.name, {})
        for partition in broker.replicas:
            log = partition.log
            now = id(log), log.recovery_point
            if known.get(partition) != now:
                known[partition] = now
                self._compare(process, partition, log)

    def _compare(self, process: Any, partition: Partition, log: PartitionLog) -> None:
        for segment in () if log.blank or log.torn is not None else log.segments:
            size = segment.size
            if log.end_of(segment) > log.recovery_point:  # the index says how much of it at least lies below
                if segment.index is None or segment.base_offset >= log.recovery_point:
                    break
                size = min(size, segment.index.offsets.lookup(log.recovery_point)[1])
            inode = segment.log.inode  # type: ignore[attr-defined]
            if size and len(inode.durable or b"") < size:
                raise Violation(
                    self.name,
                    f"{process.name} has {partition!r} durable below {log.recovery_point}, but of {inode.path} not more "
                    f"than {len(inode.durable or b'')} of {size} bytes",
                )
