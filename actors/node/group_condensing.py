"""When a partition of `__consumer_offsets` that this broker leads is condensed, and where its log begins then.

This file alone decides about that. Rules:

1. Its turn has come when a segment's worth was committed since the last time began, and twice what counted then: what is
   written once more is no more than what clients write, and a log stays a few segments long.
2. The log begins where it ended when the condensing began, and only once all that was written since is committed.
3. A topic that is not to be compacted (cleanup.policy) is left alone.
"""

from typing import TYPE_CHECKING

from actors.broker.groups.coordinator import Condensed, Coordinator
from actors.broker.partition import Partition

if TYPE_CHECKING:
    from actors.node.node import Node


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


class GroupCondensing:
    """Of all partitions that are led and loaded."""

    def __init__(self, node: "Node", machine: Coordinator) -> None:
        self._node = node
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
        """So many bytes of a partition are committed; told before the coordinator is, so that the last piece of a condensing
        counts as part of it."""
        length = self._lengths.get(number)
        if length is None:
            return
        length.bytes += size
        if length.failed or length.due:
            start = length.partition.log.log_end_offset
            if self._machine.condense(number):
                length.start, length.bytes, length.failed = start, 0, False

    def condensed(self, one: Condensed) -> None:
        """A condensing has ended. One that failed is tried again with what is committed next."""
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
            assert self._node.broker is not None
            partition.log.delete_records(start)
            self._node.broker.replicas.started(partition)
            self._node.log.info(f"wrote what counts in {partition!r} once more: it begins at {start} now")
