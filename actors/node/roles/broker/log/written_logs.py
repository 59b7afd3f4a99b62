"""The logs that have grown: which of them are flushed at the end of a turn, and whether there is anything to clean.

This file alone decides when a log is flushed: when its own settings say so (`PartitionLog.flush_due`), or when its leader
waits for what is on the disk here. While a replica's future log is made durable for the last time the replica waits.
"""

from actors.broker.log.log import PartitionLog
from actors.broker.replication.partition import Partition
from actors.node.roles.broker.log.future_logs import FutureLogs
from actors.node.roles.broker.log.log_directories import LogDirectories

FLUSH_NEVER_MS = 1 << 62


class WrittenLogs:
    """Partitions that were appended to, and perhaps are to be flushed."""

    def __init__(self, directories: LogDirectories, futures: FutureLogs) -> None:
        self._full_disks = directories.full
        self._held = futures.held
        self._written: dict[Partition, None] = {}
        self.compacted = False
        """Whether there has been a log that can be cleaned: of a compacted topic, with a segment that is sealed."""

    def add(self, partition: Partition) -> None:
        """Note that a log has grown."""
        self._written[partition] = None
        self.note_compacted(partition.log)
        if self._full_disks.lacks:
            self._full_disks.taken(partition.log.disk)

    def look_again(self, partition: Partition) -> None:
        """Note that a log may have to be flushed, though nothing was appended."""
        self._written[partition] = None

    def note_compacted(self, log: PartitionLog) -> None:
        """Note that a log was opened, has grown or has other settings."""
        if log.settings.compact and not log.blank and len(log.segments) > 1:
            self.compacted = True

    def due(self, now_ms: int) -> list[Partition]:
        """Take out the partitions that are to be flushed now, and those that need no flush."""
        if not self._written:
            return []
        due: list[Partition] = []
        later: dict[Partition, None] = {}
        for one in self._written:
            if one.removed:
                continue
            if self._held and self._held.get(one, 0) > now_ms:
                later[one] = None
            elif one.log.flush_due(now_ms) or one.flush_before_asking:
                due.append(one)
            elif one.settings.flush_ms < FLUSH_NEVER_MS:
                later[one] = None
        self._written = later
        return due
