"""The rule that a last stable offset is at most the high watermark, and falls only where that falls (KIP-98).

It may fall where a log is cut, too. What a process had known before it began anew is gone then: a marker that it had found
replicated once, and that lies behind the high watermark with which it began, counts as open again until that has passed it.
"""

from typing import Any

from actors.broker.replication.partition import Partition
from tests.simulator.checkers.changed_replicas import Standing
from tests.simulator.checkers.hooks import Violation


class StableOffsets:
    name = "stable_offsets_rise"

    def __init__(self) -> None:
        self._seen: dict[str, dict[Partition, int]] = {}

    def ended(self, process: Any) -> None:
        """A new process begins with the high watermark of its checkpoint."""
        self._seen.pop(process.name, None)

    def changed(self, process: Any, partition: Partition, before: Standing) -> None:
        """Check the last stable offset of a replica, which moves only when the high watermark does, or the log's end."""
        stable, high_watermark = partition.last_stable_offset, partition.high_watermark
        seen = self._seen.setdefault(process.name, {})
        known = seen.get(partition, 0)
        seen[partition] = stable
        was_cut = partition.log.log_end_offset < before.log_end_offset
        falls = stable < known and high_watermark >= before.high_watermark and not was_cut
        if stable > high_watermark or falls:
            raise Violation(
                self.name,
                f"{process.name} calls {stable} the last stable offset of {partition!r} after {known}, with the high "
                f"watermark {high_watermark}",
            )
