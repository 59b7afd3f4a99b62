"""Retention in a broker: when a log is looked at, and what becomes of segments that it gives up.

`broker/log/retention.py` decides which segments go. This file alone decides the rest: what is not in memory is read in a
thread, what has to be durable is synced, and the log is looked at again; files are unlinked when nobody can be reading them
any more; a check that fails makes what room it can.
"""

from actors.broker.log import retention
from actors.broker.log.segment import Segment
from actors.broker.replication.partition import Partition
from actors.node.roles.broker.log.log_directories import LogDirectories
from actors.node.roles.broker.log.retired_files import RetiredFiles
from actors.node.roles.broker.log.written_logs import WrittenLogs
from actors.node.runtime.runtime import Runtime
from actors.ports import DiskFailed, DiskFull


class LogRetention:
    """Deletes what the logs of a broker need not keep."""

    def __init__(
        self, runtime: Runtime, directories: LogDirectories, retired: RetiredFiles, written: WrittenLogs
    ) -> None:
        self._runtime = runtime
        self._directories = directories
        self._retired = retired
        self._written = written

    def retain(self, partition: Partition) -> None:
        """Delete the segments that one log need not keep."""
        log, retired = partition.log, self._retired
        retired.unlink_later(partition, log.left_over())
        if not log.segments:
            return
        try:
            retained = retention.retain(log, self._runtime.now.wall_ms, partition.high_watermark)
        except (DiskFull, DiskFailed, FileNotFoundError) as error:
            self._runtime.log.warning(f"retention of {partition!r} failed: {error}")
            self._directories.job_failed(log.disk, error)
            # On a full disk what it has come to makes room for the rest.
            retired.unlink_later(partition, log.left_over())
            self._written.look_again(partition)
            return
        if retained.deleted:
            self._written.add(partition)  # if it has rolled, nothing but the new file says where the log ends
            self._runtime.log.info(
                f"deleted {retained.deleted} segments of {partition!r}, which begins at {log.log_start_offset} now"
            )
            retired.unlink_later(partition, retained.jobs)
        if retained.warm:
            self._runtime.work(lambda: [job() for job in retained.warm], lambda result: self._again(partition, result))
        elif retained.behind:
            files = [segment.log for segment in retained.behind]
            self._runtime.sync(files, [], lambda result: self._synced(partition, retained.behind, result))

    def _synced(self, partition: Partition, behind: list[Segment], result: object) -> None:
        if not isinstance(result, Exception):
            retention.synced(behind)
        self._again(partition, result)

    def _again(self, partition: Partition, result: object) -> None:
        self._directories.job_done(partition.log.disk, result)
        if not isinstance(result, Exception) and not partition.removed:
            self.retain(partition)
