"""Replicas are identical below the high watermark, and every later leader has what was below it once.

This file keeps, for each partition, every batch that was below a high watermark on any broker, byte for byte as it was
first seen there. A broker that later has committed the same offsets must have the same bytes (replicas_identical). A
broker that leads under a newer epoch must have them all (leader_completeness; I8 of KIP-497). The file also reports
every record that is committed for the first time to other checkers.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from actors.broker.log.producers import markers
from actors.broker.log.producers.markers import CONTROL, TRANSACTIONAL
from actors.broker.replication.partition import Partition
from fastpath.records import batch as batches
from tests.simulator.checkers.changed_replicas import NEW, Standing
from tests.simulator.checkers.hooks import Hooks, Violation

READ_BYTES = 1 << 20
Key = tuple[bytes, int]
WithoutRot = Callable[[str, str], AbstractContextManager[bool]]


class Committed:
    """The committed batches of one partition."""

    __slots__ = ("batches", "end", "ends", "unseen")

    def __init__(self) -> None:
        self.batches: dict[int, tuple[int, bytes]] = {}
        """First offset -> (offset after the last, bytes)."""
        self.end = 0
        """The highest high watermark that was seen on any broker."""
        self.ends: dict[int, int] = {}
        """Leader epoch -> the high watermark of the first replica that committed in that epoch. A leader must have what
        was committed in older epochs. A leader that learns late of its leadership may lack what others have committed
        since."""
        self.unseen: list[tuple[int, int]] = []
        """[first, end) of offsets that could not be read where they were committed first, because of rot, or because
        the log now begins after them. The next replica that shows them counts."""

    def hides(self, offset: int) -> bool:
        """Whether an offset is one of those that could not be read."""
        return any(first <= offset < behind for first, behind in self.unseen)

    def end_before(self, epoch: int) -> int:
        """The end of what was committed under epochs older than this."""
        return max((end for one, end in self.ends.items() if one < epoch), default=0)


class CommittedData:
    name = "replicas_identical"

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self.without_rot: WithoutRot = lambda process, directory: nullcontext(False)
        """(process, directory of a partition) -> what rotted there is whole for the while, and whether anything had."""
        self.elsewhere: frozenset[str] = frozenset()
        """Topics whose replicas need not be identical: they are compacted, each replica when its own cleaner comes to it."""
        self.partitions: dict[Key, Committed] = {}
        self._checked: dict[str, dict[Partition, int]] = {}
        """The offset up to which a replica was compared in the present life of its process."""

    def ended(self, process: Any) -> None:
        """Forget what was compared: the disk may have lost something."""
        self._checked.pop(process.name, None)

    def changed(self, process: Any, partition: Partition, before: Standing) -> None:
        """Compare what this replica says is committed."""
        if partition.topic in self.elsewhere:
            return
        checked = self._checked.setdefault(process.name, {})
        offset = checked.get(partition, partition.log.log_start_offset)
        same = (partition.leader_epoch, partition.high_watermark) == before[:2]
        if not same or partition.log.log_end_offset < offset:
            checked[partition] = self._moved(process, partition, before, offset)

    def replaced(self, process: Any, partition: Partition) -> None:
        """Another log has taken the place of the one that was compared: all that is committed must be in it, too."""
        if partition.topic not in self.elsewhere:
            standing = NEW._replace(leader_epoch=partition.leader_epoch, high_watermark=partition.high_watermark)
            checked = self._checked.setdefault(process.name, {})
            checked[partition] = self._moved(process, partition, standing, partition.log.log_start_offset)

    def _moved(self, process: Any, partition: Partition, before: Standing, offset: int) -> int:
        """The offset up to which it is compared now; `offset`: the one before."""
        key = partition.topic_id, partition.number
        committed = self.partitions.get(key)
        if committed is None:
            committed = self.partitions[key] = Committed()
        log = partition.log
        offset = max(min(offset, log.log_end_offset), log.log_start_offset)
        end = partition.high_watermark
        if log.log_start_offset > committed.end:
            committed.unseen.append((committed.end, log.log_start_offset))
        if partition.leads and partition.leader_epoch != before.leader_epoch:
            wanted = committed.end_before(partition.leader_epoch)
            end = max(end, wanted)
            if log.log_end_offset < wanted:
                raise Violation(
                    "leader_completeness",
                    f"{process.name} leads {partition!r} under epoch {partition.leader_epoch} and ends at "
                    f"{log.log_end_offset}, but {wanted} was committed",
                )
        if offset < end:
            offset = self._compare(process, partition, committed, offset, end)
        if partition.high_watermark > committed.end:
            committed.end = committed.ends[partition.leader_epoch] = partition.high_watermark
        return offset

    def _compare(self, process: Any, partition: Partition, committed: Committed, offset: int, end: int) -> int:
        with self.without_rot(process.name, partition.log.directory) as rotten, partition.log.disk.readable():
            while offset < end:
                try:
                    read = partition.log.read(offset, READ_BYTES, end)
                    if read is None:
                        read = partition.log.cold_read(offset, READ_BYTES, end)()
                    found = batches.headers(read.data)
                except batches.CorruptBatch:
                    if not rotten:
                        raise
                    break
                if not found:
                    break
                for header in found:
                    if header.base_offset > offset:  # logs in a world have no gaps
                        break
                    self._batch(process, partition, committed, header, read.data)
                    offset = header.last_offset + 1
                if offset < read.next_offset:
                    break
                offset = read.next_offset
        if rotten and offset < end:  # what was cached of the segment while it was rotten is wrong
            committed.unseen.append((offset, end))
        elif offset < min(end, partition.log.log_end_offset) and not _begins_inside(partition, offset, end):
            raise Violation(
                self.name, f"{process.name} has nothing at {offset} of {partition!r}, committed up to {end}"
            )
        return offset

    def _batch(self, process: Any, partition: Partition, committed: Committed, header: Any, data: memoryview) -> None:
        content = bytes(data[header.position : header.position + header.size])
        known = committed.batches.get(header.base_offset)
        if known is not None:
            if known[1] != content:
                raise Violation(self.name, self._differs(process, partition, header))
            return
        if header.base_offset < committed.end and not committed.hides(header.base_offset):
            raise Violation(self.name, self._differs(process, partition, header))
        committed.batches[header.base_offset] = header.last_offset + 1, content
        if header.attributes & TRANSACTIONAL:
            marker = markers.read(content, 0) if header.attributes & CONTROL else None
            for function in self._hooks.batch:
                function(partition.topic_id, partition.number, header, marker)
        if self._hooks.record and not partition.topic.startswith("__") and not header.attributes & CONTROL:
            for record in batches.records(content):
                for function in self._hooks.record:
                    function(partition.topic, partition.topic_id, partition.number, header, record)

    @staticmethod
    def _differs(process: Any, partition: Partition, header: Any) -> str:
        return (
            f"{process.name} has another batch at {header.base_offset} of {partition!r} (its epoch {header.epoch}, "
            f"producer {header.producer_id}) than what was committed there before"
        )


def _begins_inside(partition: Partition, offset: int, end: int) -> bool:
    """Whether `offset` is in the first batch of a log, which ends beyond the high watermark `end`: a follower began inside
    it, as records were deleted up to there, and lost the start that it had learned to a power cut."""
    log = partition.log
    first = batches.headers(log.cold_read(log.log_start_offset, 1, log.log_end_offset)().data)[0]
    return log.segments[0].base_offset == first.base_offset <= offset and end <= first.last_offset
