"""What of this broker's storage is given up because it cannot be read.

This file alone decides when: a directory whose device has failed in a read or in a job goes offline at the end of the
turn; a damaged replica is thrown away whole when it has left the ISR and another broker leads it.
"""

from actors.broker.lifecycle.lifecycle import Lifecycle
from actors.broker.replication.partition import NO_LEADER, Partition
from actors.broker.replication.replicas import Replicas
from actors.node.roles.broker.log.log_manager import LogManager
from actors.node.roles.broker.metadata.metadata_publisher import MetadataApplier
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.runtime.runtime import Runtime


class Unreadable:
    """Directories and replicas of one broker that cannot be read."""

    def __init__(
        self,
        runtime: Runtime,
        cache: MetadataCache,
        lifecycle: Lifecycle,
        replicas: Replicas,
        logs: LogManager,
        applier: MetadataApplier,
    ) -> None:
        self._runtime = runtime
        self._cache = cache
        self._lifecycle = lifecycle
        self._replicas = replicas
        self._logs = logs
        self._applier = applier
        self._reported: dict[Partition, None] = {}
        """Damaged partitions for which a heartbeat was sent at once."""

    def give_up(self) -> None:
        """Give up, at the end of a turn, what cannot be read since then, or may be thrown away now."""
        if self._replicas.failed_reads or self._logs.directories.failing:
            self._directories()
        if self._replicas.unreadable:
            self._damaged()

    def _directories(self) -> None:
        """Take directories offline whose device fails in reads or in jobs, like those in which nothing can be written.
        Where this broker cannot go on without one, it gives up only the replicas that it cannot read."""
        failed = self._replicas.failed_reads | self._logs.directories.failing
        self._replicas.failed_reads = {}
        self._logs.directories.failing.clear()
        for disk, error in failed.items():
            self._logs.failures.fail(self._replicas, disk, error)

    def _damaged(self) -> None:
        """Throw a damaged replica away whole once it has left the ISR; a new process fetches it anew.

        A new one, because the leader still knows how far this replica was: only another broker epoch, under which
        nothing was fetched yet, keeps the empty log from being taken for that one.
        """
        me = self._cache.me
        for partition in list(self._replicas.unreadable):
            if partition not in self._reported:
                self._reported[partition] = None
                self._lifecycle.hurry(self._runtime.now)
            if partition.leader not in (me, NO_LEADER) and me not in partition.isr.isr:
                self._applier.drop(partition)
                self._runtime.stop(
                    1, f"{partition!r} is damaged here and was given up: start again to fetch it from its leader"
                )
