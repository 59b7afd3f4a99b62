"""What becomes of the replicas when a log directory fails (KIP-112), or when their files are gone.

Rules:

1. A directory whose device fails goes offline, and its replicas with it; the broker goes on with the others. Where it cannot
   (`LogDirectories.take_offline`) the caller decides what ends.
2. A replica that is offline is not flushed any more. Its future log stays for the next start.
"""

from actors.broker.replication.partition import Partition
from actors.broker.replication.replicas import Offline, Replicas
from actors.node.roles.broker.log.future_logs import FutureLogs
from actors.node.roles.broker.log.log_directories import LogDirectories
from actors.node.runtime.runtime import Runtime
from actors.ports import Disk, DiskFailed


class DirectoryFailures:
    """Takes directories and replicas offline."""

    def __init__(self, runtime: Runtime, directories: LogDirectories, futures: FutureLogs) -> None:
        self._runtime = runtime
        self._directories = directories
        self._futures = futures

    def fail(self, replicas: Replicas, disk: Disk, error: Exception) -> bool:
        """Take a directory and all replicas in it offline, since its device has failed. Returns False if this broker
        cannot go on without it."""
        if self._directories.failed(disk):
            return True
        if not self._directories.take_offline(disk):
            return False
        self._futures.directory_failed(disk)
        here = [partition for partition in replicas if partition.log.disk is disk]
        for partition in here:
            self.take_offline(replicas, partition, Offline.FAILED)
        self._runtime.log.error(
            f"log directory {self._directories.path(disk)} is offline with {len(here)} partitions: {error}. Repair or "
            f"replace the disk and start this broker again; the other directories are served"
        )
        return True

    def append_failed(self, replicas: Replicas, partition: Partition, error: DiskFailed) -> None:
        """Take the directory of a partition offline to which nothing can be appended any more, or stop this broker."""
        if not self.fail(replicas, error.disk or partition.log.disk, error):
            self._runtime.stop(1, f"nothing can be appended to {partition!r} any more: {error}")

    def take_offline(self, replicas: Replicas, partition: Partition, why: Offline) -> None:
        """Take one replica offline whose files cannot be used any more (rule 2)."""
        partition.log.forget_indexes()
        self._futures.drop(partition, keep=True)
        replicas.take_offline(partition, why)
