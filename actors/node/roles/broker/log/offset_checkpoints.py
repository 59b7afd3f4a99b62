"""What the checkpoints of a broker's log directories hold, and when they are written.

This file alone decides that. Rules:

1. A replica is in the checkpoints of the directory that it is in. One that is on its way is in those of both: its future
   log has a recovery point and a start of its own (KIP-113). One that is leaving is there until its files go: it may be
   assigned again before that, to the next process. One that could not be opened yet keeps what the start has read of it.
2. A replica that is known to be lost is listed with its topic id in every directory, and without offsets.
3. They are written to every directory that is online once something in them has changed, each by itself. With several
   directories, one in which that fails goes offline.
"""

from collections.abc import Iterator

from actors.broker.log.directories.checkpoints import identity
from actors.broker.log.directories.directory import Replacement
from actors.broker.log.directories.losses import Losses
from actors.broker.log.log import PartitionLog
from actors.broker.replication.replicas import Replicas
from actors.node.roles.broker.log.claims import Claims
from actors.node.roles.broker.log.directory_failures import DirectoryFailures
from actors.node.roles.broker.log.future_logs import FutureLogs
from actors.node.roles.broker.log.log_directories import LogDirectories
from actors.node.runtime.runtime import Runtime
from actors.ports import Disk, DiskFailed


class OffsetCheckpoints:
    """The checkpoints of all log directories of a broker."""

    def __init__(
        self,
        runtime: Runtime,
        directories: LogDirectories,
        claims: Claims,
        futures: FutureLogs,
        failures: DirectoryFailures,
    ) -> None:
        self._runtime = runtime
        self._directories = directories
        self._claims = claims
        self._futures = futures
        self._failures = failures
        self._losses: Losses
        self._lost: dict[tuple[str, int], bytes] = {}
        """The topic ids of replicas that are lost, by (topic, number)."""
        self._written: object = None

    def read(self) -> None:
        """Read what the directories say of replicas that they had. Start-up only. Raises DiskFailed."""
        self._losses = Losses(list(self._directories), self._directories.ids)

    # ---- what is lost

    def lost(self, topic: str, topic_id: bytes, number: int, *, before: bool) -> bool:
        """Whether a replica without files had some. If so, it is noted as lost. `before`: it was assigned before this
        process began."""
        if not self.had(topic, topic_id, number, before=before):
            return False
        if (topic, number) not in self._lost:
            self.note_lost(topic, topic_id, number)
        return True

    def had(self, topic: str, topic_id: bytes, number: int, *, before: bool) -> bool:
        """Whether the start has found that this broker had files of a replica, or may have had. `before`: as for `lost`."""
        return (before and self._losses.anything) or self._losses.listed(topic, number, topic_id)

    def note_lost(self, topic: str, topic_id: bytes, number: int) -> None:
        """Note that a replica is lost."""
        self._lost[topic, number] = topic_id
        self._written = None

    def give_up_lost(self, topic: str, number: int) -> None:
        """Forget a lost replica: it is fetched anew, or has no replica here any more."""
        if self._lost.pop((topic, number), None) is not None:
            self._written = None

    def known_lost(self) -> list[tuple[str, bytes, int]]:
        """(topic, topic id, number) of the replicas that are lost."""
        return [(topic, topic_id, number) for (topic, number), topic_id in self._lost.items()]

    # ---- when it is written

    def write(self, replicas: Replicas) -> None:
        """Write the checkpoints of the directories that are online, if something has changed since the last call."""
        if self._changed(replicas):
            for directory in self._directories:
                if not self._directories.failed(directory.disk):
                    self._write_one(replicas, directory.disk)

    def _changed(self, replicas: Replicas) -> bool:
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
        unopened = dict(self._claims.unopened)
        if (state, unopened) == self._written:
            return False
        self._written = state, unopened
        return True

    def _write_one(self, replicas: Replicas, disk: Disk) -> None:
        logs = [one.log for one in replicas.written() if one.log.disk is disk]
        points = [(log, log.generation, log.recovery_point) for log in logs if log.sparse]

        def written(result: object) -> None:
            several = len(self._directories) > 1
            if several and isinstance(result, DiskFailed) and self._failures.fail(replicas, disk, result):
                return
            self._directories.noted(result)
            if isinstance(result, Exception):
                self.forget()
                return
            for log, generation, point in points:
                if log.generation == generation:
                    log.checkpointed_offset = point

        self._runtime.sync([], self.replacements(replicas, disk), written)

    def behind_a_cut(self, replicas: Replicas, disk: Disk) -> list[Replacement]:
        """The checkpoint files of one directory, to be written behind a cut of a log in it."""
        self._written = None
        return self.replacements(replicas, disk)

    def forget(self) -> None:
        """Note that what was to be written may not have been."""
        self._written = None
        self._losses.forget_written()
        for directory in self._directories:
            directory.forget_written()

    # ---- what is written

    def replacements(self, replicas: Replicas, only: Disk | None = None) -> list[Replacement]:
        """The checkpoint files of the directories that are online, or of one of them."""
        found: list[Replacement] = []
        for directory in self._directories.online():
            if only not in (None, directory.disk):
                continue
            points, marks, starts, ids, cleaned = {}, {}, {}, {}, {}
            for key, topic_id, log, high_watermark in self._logs(replicas):
                if log.disk is directory.disk and log.segments:
                    points[key], marks[key] = log.recovery_point, high_watermark
                    ids[key] = identity(topic_id, log.instance)
                    if log.log_start_offset > log.segments[0].base_offset:
                        starts[key] = log.log_start_offset
                    if log.sparse:
                        cleaned[key] = log.cleaned_offset
            for key, (place, one) in self._claims.unopened.items():
                if place is directory and one.topic_id is not None:
                    known = directory.checkpointed(key, one.topic_id, one.instance)
                    points[key], marks[key] = known.recovery_point, known.high_watermark
                    ids[key] = identity(one.topic_id, one.instance)
                    if known.log_start_offset:
                        starts[key] = known.log_start_offset
                    if known.cleaned_offset >= 0:
                        cleaned[key] = known.cleaned_offset
            for key, topic_id in self._lost.items():
                ids.setdefault(key, topic_id)
            found += directory.checkpoints(points, marks, starts, ids, cleaned)
            found += self._losses.replacements([directory.disk])
        return found

    def _logs(self, replicas: Replicas) -> Iterator[tuple[tuple[str, int], bytes, PartitionLog, int]]:
        for one in replicas.still_leaving():  # first: another replica of the name may be here already, and it counts
            if not one.log.blank and not self._directories.failed(one.log.disk):
                yield (one.topic, one.number), one.topic_id, one.log, one.high_watermark
        for one in replicas.written():
            yield (one.topic, one.number), one.topic_id, one.log, one.high_watermark
        for one, log in self._futures.by_partition.items():
            yield (one.topic, one.number), one.topic_id, log, min(one.high_watermark, log.log_end_offset)
