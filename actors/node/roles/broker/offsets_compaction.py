"""When a partition of `__consumer_offsets` that this broker leads is compacted, and where its log begins then.

This file alone decides about that. Rules:

1. Its turn has come when a segment's worth was committed since the last time began, and twice what counted then: what is
   written once more is no more than what clients write, and a log stays a few segments long.
2. The log begins where it ended when the compaction began, and only once all that was written since is committed.
3. A topic that is not to be compacted (cleanup.policy) is left alone.
"""

from actors.broker.groups.coordinator import Compacted, Coordinator
from actors.broker.partition import Partition
from actors.broker.replicas import Replicas
from actors.node.runtime.runtime import Runtime


class _Length:
    """Of the log of one partition, in one leadership. `bytes`: committed since `start`, where the log is to begin, or does.
    `counting_bytes`: what counted took when it was written last."""

    __slots__ = ("bytes", "counting_bytes", "epoch", "failed", "partition", "start")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.start = partition.log.log_start_offset
        self.bytes = partition.log.size
        self.counting_bytes = 0
        self.failed = False

    @property
    def due(self) -> bool:
        settings = self.partition.log.settings
        return settings.compact and self.bytes >= max(settings.segment_bytes, 2 * self.counting_bytes)


class OffsetsCompaction:
    """Of all partitions that are led and loaded."""

    def __init__(self, runtime: Runtime, replicas: Replicas, machine: Coordinator) -> None:
        self._runtime = runtime
        self._replicas = replicas
        self._machine = machine
        self._lengths: dict[int, _Length] = {}

    def loaded(self, partition: Partition) -> None:
        """The coordinator knows all that the log says."""
        self._lengths[partition.number] = _Length(partition)
        self.committed(partition.number, 0)

    def lost(self, number: int) -> None:
        """The partition is led no more."""
        self._lengths.pop(number, None)

    def committed(self, number: int, size: int) -> None:
        """So many bytes of a partition are committed; told before the coordinator is, so that the last piece of a compaction
        counts as part of it."""
        length = self._lengths.get(number)
        if length is None:
            return
        length.bytes += size
        if length.failed or length.due:
            start = length.partition.log.log_end_offset
            if self._machine.compact(number):
                length.start, length.bytes, length.failed = start, 0, False

    def compacted(self, one: Compacted) -> None:
        """A compaction has ended. One that failed is tried again with what is committed next."""
        length = self._lengths.get(one.partition)
        if length is None or length.epoch != one.epoch:
            return
        length.failed = not one.whole
        if length.failed:
            return
        length.counting_bytes = length.bytes
        partition = length.partition
        start = min(length.start, partition.high_watermark)
        if start > partition.log.log_start_offset:
            partition.log.delete_records(start)
            self._replicas.started(partition)
            self._runtime.log.info(f"wrote what counts in {partition!r} once more: it begins at {start} now")
