"""Opening a log of this broker: one that the start found, or a new one (`LogLoader` is Kafka's name too).

This file alone decides what a broker does with the result of a recovery (`broker/log/recovery.py`): what was cut is said. A
log that cannot be opened is offline, its directory fails, and the next start looks at all logs there. Where only room or a
descriptor is missing for it, the directory is sound, and it is tried again (`log_manager.py`).

No log begins above its high watermark, and the checkpoint of starts is written behind that of high watermarks. So where they
say otherwise a bit has rotted in one of them, and the start is not believed: a log that ends below its start is removed.
"""

from collections.abc import Sequence

from actors.broker.log.directories.checkpoints import LOG_STARTS
from actors.broker.log.directories.directory import LogDirectory, PartitionDirectory
from actors.broker.log.index_cache import IndexCache
from actors.broker.log.log import PartitionLog
from actors.broker.log.recovery import Mended, Recovered, RemovedBytes, recover
from actors.node.roles.broker.log.log_directories import LogDirectories
from actors.node.runtime.runtime import Runtime
from actors.ports import Disk, DiskFailed, DiskFull
from actors.settings.topics import TopicSettings


class LogLoader:
    """Opens the logs of a broker. They share the memory for their indexes."""

    def __init__(self, runtime: Runtime, directories: LogDirectories, indexes: IndexCache) -> None:
        self._runtime = runtime
        self._directories = directories
        self._indexes = indexes
        self._mended: dict[tuple[Disk, str, int], Mended] = {}
        """What was changed of logs that could not be opened yet, by disk, name and instance."""

    def create(self, disk: Disk, name: str, settings: TopicSettings, topic_id: bytes) -> PartitionLog:
        """Make a log without records, in a directory of that name."""
        instance = self._directories.next_instance(disk)
        log = PartitionLog(disk, name, settings, topic_id, indexes=self._indexes, instance=instance)
        self._directories.count(disk, 1)
        return log

    def load(
        self, directory: LogDirectory, found: PartitionDirectory, topic_id: bytes, settings: TopicSettings
    ) -> Recovered | None:
        """Open a log that the start found. Returns None if it cannot be opened, and its directory fails. Raises DiskFull: to
        be called again when there is room and a descriptor for it."""
        known = directory.checkpointed((found.topic, found.number), topic_id, found.instance)
        key = directory.disk, found.name, found.instance
        mended = self._mended.pop(key, None) or Mended()
        start, high_watermark = known.log_start_offset, known.high_watermark
        if directory.names_logs and 0 < high_watermark < start:
            self._runtime.log.error(
                f"{found.name} in {self._directories.path(directory.disk)}: {LOG_STARTS} says that it begins at {start}, "
                f"above its high watermark {high_watermark}. That is not believed: it begins with its first file, and "
                f"records that were deleted may be back"
            )
            start = 0
        try:
            recovered = recover(
                directory.disk,
                found.name,
                settings,
                clean=directory.clean,
                recovery_point=known.recovery_point,
                log_start_offset=start,
                cleaned_offset=known.cleaned_offset,
                topic_id=topic_id,
                now_ms=self._runtime.now.wall_ms,
                indexes=self._indexes,
                instance=found.instance,
                mended=mended,
            )
        except DiskFull:
            if mended:
                self._mended[key] = mended
            raise
        except DiskFailed as error:
            self._runtime.log.error(
                f"{found.name} in {self._directories.path(directory.disk)} is offline, it cannot be opened: {error}"
            )
            self._directories.doubt(directory.disk)
            self._directories.job_failed(directory.disk, error)
            self._tell(mended.cuts, mended.offsets)
            return None
        self._directories.count(directory.disk, 1)
        self._tell(recovered.cuts, recovered.rebuilt)
        return recovered

    def _tell(self, cuts: Sequence[RemovedBytes], reports: Sequence[str]) -> None:
        for cut in cuts:
            self._runtime.log.warning(f"cut {cut.size} bytes of {cut.path} at {cut.position}: {cut.reason}")
        for report in reports:
            self._runtime.log.warning(report)
