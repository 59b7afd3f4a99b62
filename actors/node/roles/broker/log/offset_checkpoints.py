"""What the checkpoints of a broker's log directories hold, and when they have changed.

This file alone decides that. Rules:

1. A replica is in the checkpoints of the directory that it is in. One that is on its way is in those of both: its future
   log has a recovery point and a start of its own (KIP-113).
2. A replica that is known to be lost is listed with its topic id in every directory, and without offsets.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from actors.broker.log.directories.checkpoints import identity
from actors.broker.log.directories.directory import LogDirectory, Replacement
from actors.broker.log.directories.losses import Losses
from actors.broker.log.log import PartitionLog
from actors.broker.replication.partition import Partition
from actors.broker.replication.replicas import Replicas


class OffsetCheckpoints:
    """The content of the checkpoints."""

    def __init__(
        self, directories: Sequence[LogDirectory], ids: Sequence[bytes], futures: Mapping[Partition, PartitionLog]
    ) -> None:
        """Start-up only; raises DiskFailed. `ids`: of the directories. `futures`: of replicas on their way, as they are at
        any time."""
        self._directories = directories
        self._futures = futures
        self._losses = Losses(directories, ids)
        self._lost: dict[tuple[str, int], bytes] = {}
        """Topic ids by (topic, number) of replicas that are lost."""
        self._written: object = None

    # ---- what is lost

    def lost(self, topic: str, topic_id: bytes, number: int, *, before: bool) -> bool:
        """Whether a replica without files had some, which is noted then. `before`: it was assigned before this process
        began."""
        if not (self._losses.listed(topic, number, topic_id) or (before and self._losses.anything)):
            return False
        if (topic, number) not in self._lost:
            self.note_lost(topic, topic_id, number)
        return True

    def note_lost(self, topic: str, topic_id: bytes, number: int) -> None:
        """A replica is lost."""
        self._lost[topic, number] = topic_id
        self._written = None

    def give_up_lost(self, topic: str, number: int) -> None:
        """What was lost there counts no longer."""
        if self._lost.pop((topic, number), None) is not None:
            self._written = None

    # ---- what is written

    def changed(self, replicas: Replicas) -> bool:
        """Whether there is something to write since the last call."""
        state = [
            (
                topic_id,
                log.disk,
                log.instance,
                log.recovery_point,
                high_watermark,
                log.log_start_offset,
                log.cleaned_offset,
            )
            for _, topic_id, log, high_watermark in self._logs(replicas)
        ]
        if state == self._written:
            return False
        self._written = state
        return True

    def changes(self) -> None:
        """What was written last may not be what there is now."""
        self._written = None

    def forget(self) -> None:
        """What was to be written may not have been."""
        self._written = None
        self._losses.forget_written()
        for directory in self._directories:
            directory.forget_written()

    def replacements(self, replicas: Replicas, directories: Iterable[LogDirectory]) -> list[Replacement]:
        """The files of these directories."""
        found: list[Replacement] = []
        for directory in directories:
            points, marks, starts, ids, cleaned = {}, {}, {}, {}, {}
            for key, topic_id, log, high_watermark in self._logs(replicas):
                if log.disk is directory.disk and log.segments:
                    points[key], marks[key] = log.recovery_point, high_watermark
                    ids[key] = identity(topic_id, log.instance)
                    if log.log_start_offset > log.segments[0].base_offset:
                        starts[key] = log.log_start_offset
                    if log.sparse:
                        cleaned[key] = log.cleaned_offset
            for key, topic_id in self._lost.items():
                ids.setdefault(key, topic_id)
            found += directory.checkpoints(points, marks, starts, ids, cleaned)
            found += self._losses.replacements([directory.disk])
        return found

    def _logs(self, replicas: Replicas) -> Iterator[tuple[tuple[str, int], bytes, PartitionLog, int]]:
        for one in replicas:
            yield (one.topic, one.number), one.topic_id, one.log, one.high_watermark
        for one, log in self._futures.items():
            yield (one.topic, one.number), one.topic_id, log, min(one.high_watermark, log.log_end_offset)
