"""The future logs of replicas that are on their way to another log directory (KIP-113), and the logs whose place they took.

`log_dir_moves.py` decides when a replica is moved and how far its move is. This file alone decides what becomes of the two
logs. Rules:

1. The files of a move that has ended early go. They stay for the next start to go on with when their directory, or that of
   the replica, fails. This process does not make them durable any more, so no stop is marked as clean there.
2. A log whose place was taken goes when the name of the new one is on the disk. If the new one's directory has failed by
   then, the old files are the last ones, and are set aside.
"""

from actors.broker.log.log import PartitionLog
from actors.broker.replication.partition import Partition
from actors.node.roles.broker.log.claims import Claims, Found
from actors.node.roles.broker.log.log_directories import LogDirectories
from actors.node.roles.broker.log.log_loader import LogLoader
from actors.node.roles.broker.log.retired_files import RetiredFiles
from actors.node.runtime.runtime import Runtime
from actors.ports import Disk, DiskFull
from actors.settings.topics import TopicSettings


class FutureLogs:
    """All future logs of a broker."""

    def __init__(
        self, runtime: Runtime, directories: LogDirectories, retired: RetiredFiles, loader: LogLoader, claims: Claims
    ) -> None:
        self._runtime = runtime
        self._directories = directories
        self._retired = retired
        self._loader = loader
        self._claims = claims
        self.by_partition: dict[Partition, PartitionLog] = {}
        """Future logs of replicas that are on their way to another directory."""
        self.resumed: dict[tuple[bytes, int], PartitionLog] = {}
        """The future logs that were opened with their replica, and are to be filled on, by topic id and number."""
        self.superseded: dict[PartitionLog, Partition] = {}
        """Logs whose place a future log has taken, until its name is on the disk."""
        self.held: dict[Partition, int] = {}
        """The monotonic time until which the flushes of a replica wait at most, by replica: its future log is being
        made durable."""

    def begin(self, partition: Partition, disk: Disk, name: str) -> PartitionLog:
        """Make an empty log that a replica is to be copied into."""
        future = self._loader.create(disk, name, partition.settings, partition.topic_id)
        self.by_partition[partition] = future
        return future

    def resume(self, found: Found, topic_id: bytes, settings: TopicSettings) -> None:
        """Open a future log that the start found beside its replica. A damaged one goes, and one that finds no room or no
        descriptor to be opened, or that cannot be read in a directory that this broker goes on with: the move begins
        anew."""
        directory, future = found
        try:
            recovered = self._loader.load(directory, future, topic_id, settings)
        except DiskFull as error:
            self._directories.job_done(directory.disk, error)
            self._claims.retire_futures([found])
            return
        if recovered is None:
            if self._directories.needed(directory.disk):
                self._claims.retire_futures([found])
            return
        if recovered.log.damaged is None:
            self._retired.unlink_what_was_left(directory.disk, recovered.log.left_over())
            self.resumed[topic_id, future.number] = recovered.log
        else:
            self._directories.count(directory.disk, -1)
            recovered.log.forget_indexes()  # one that leaves memory later would be written, in a new directory of that name
            recovered.log.release()
            self._claims.retire_futures([found])

    def adopt(self, partition: Partition) -> PartitionLog | None:
        """The future log that was opened with a replica; None: there is none."""
        future = self.resumed.pop((partition.topic_id, partition.number), None)
        if future is not None:
            self.by_partition[partition] = future
        return future

    def drop(self, partition: Partition, *, keep: bool = False) -> None:
        """Stop the move of a replica, if it is on its way. `keep`: the files stay, for the next start to go on with."""
        future = self.by_partition.pop(partition, None)
        self.held.pop(partition, None)
        if future is None:
            return
        if keep:
            self._directories.doubt(future.disk)
            future.forget_indexes()
            self._directories.count(future.disk, -1)
            future.release()
        else:
            self._retired.drop(partition, future)

    def taken_over(self, partition: Partition, current: PartitionLog) -> None:
        """Make the future log the partition's log. `current`, whose place it has, is still there and counts no
        longer."""
        del self.by_partition[partition]
        self.held.pop(partition, None)
        current.forget_indexes()
        self._directories.count(current.disk, -1)
        self.superseded[current] = partition

    def retire_superseded(self, partition: Partition, current: PartitionLog) -> None:
        """Retire the log `current`, since the log that has taken its place has its name on the disk. If its directory
        has failed instead, what is left stays."""
        del self.superseded[current]
        topic, number = partition.topic, partition.number
        if not self._retired.there(current):
            current.release()
        elif not self._directories.failed(partition.log.disk):
            self._retired.retire(current.disk, current.directory, topic, number, partition.settings, current)
        else:
            path, end_offset = self._directories.path(current.disk), current.log_end_offset

            def told(stray: str) -> None:
                self._runtime.log.error(
                    f"{partition!r} had just been moved from {path} to a directory that has failed: its old files, up to "
                    f"offset {end_offset}, are set aside as {stray}"
                )

            self._retired.stray(current.disk, current.directory, topic, number, told)
            current.release()

    def directory_failed(self, disk: Disk) -> None:
        """Stop the moves to a directory that is offline from now on."""
        for partition in [one for one, future in self.by_partition.items() if future.disk is disk]:
            self._runtime.log.warning(
                f"{partition!r} is not moved to {self._directories.path(disk)}, which has failed: it stays"
            )
            self.drop(partition, keep=True)
        for current, partition in list(self.superseded.items()):
            if partition.log.disk is disk:
                self.retire_superseded(partition, current)
