"""What the partitions have gathered becomes effects: syncs, hand-overs to the coordinators, reports, signals.

`broker/replication/replicas.py` sends and signals nothing itself. It runs after each change of partitions.
This file alone decides in which order that happens. It counts the syncs of followed partitions, for `replication.py`.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from actors.broker.lifecycle.lifecycle import Lifecycle
from actors.broker.replication.partition import Became, Partition
from actors.broker.replication.replicas import Flush, Replicas
from actors.node.roles.broker.log.flushes import by_directory
from actors.node.roles.broker.log.log_manager import LogManager
from actors.node.roles.broker.replication.appends import Appends
from actors.node.runtime.runtime import Runtime
from actors.ports import DiskFailed


class Leaderships(Protocol):
    """The coordinators, which are told what partitions this broker leads."""

    def became_leader(self, topic: str, partition: int, epoch: int) -> None: ...
    def resigned(self, topic: str, partition: int) -> None: ...


class PartitionEffects:
    """Effects of one broker's partitions."""

    def __init__(
        self,
        runtime: Runtime,
        replicas: Replicas,
        logs: LogManager,
        lifecycle: Lifecycle,
        appends: Appends,
        coordinators: Sequence[Leaderships],
    ) -> None:
        self._runtime = runtime
        self._replicas = replicas
        self._logs = logs
        self._lifecycle = lifecycle
        self._appends = appends
        self._coordinators = coordinators
        self._told_offline = 0
        """The number of partitions that were offline when a heartbeat was hurried last."""
        self._syncing: dict[Partition, int] = {}
        """The number of syncs under way of each followed partition: its leader is asked after the last."""

    def run(self) -> None:
        """Carry out everything that has gathered."""
        replicas = self._replicas
        if len(replicas.offline) != self._told_offline:
            self._told_offline = len(replicas.offline)
            self._lifecycle.hurry(self._runtime.now)
        if replicas.opened:
            self._sync_opened()
        while replicas.moved:  # what the coordinators ask for may arrive then, and become something too
            moved, replicas.moved = replicas.moved, []
            for partition, part in moved:
                self._became(partition, part)
        if replicas.flushes:
            flushes, replicas.flushes = replicas.flushes, []
            for flush in flushes:
                self._flush(flush)
        if replicas.reports:
            reports, replicas.reports = replicas.reports, []
            for report in reports:
                self._runtime.log.warning(report)
        if replicas.signals:
            self._appends.signal()

    def _became(self, partition: Partition, part: Became) -> None:
        if part is Became.LEADER:
            for one in self._coordinators:
                one.became_leader(partition.topic, partition.number, partition.leader_epoch)
        elif not partition.removed or self._replicas.here(partition.topic, partition.number) is None:
            # A snapshot tells of a namesake before it tells that this one is gone.
            for one in self._coordinators:
                one.resigned(partition.topic, partition.number)

    def sync(self, partitions: list[Partition], then: Callable[[], object]) -> None:
        """Make replicas durable; until they are, their leaders are asked for nothing more. While some wait for room their
        leaders are not asked for those alone: what is in other directories goes on. `then` is called for each directory."""
        for partition in partitions:  # of all, since a directory that fails may do so at once
            self._syncing[partition] = self._syncing.get(partition, 0) + 1
        for here in by_directory(partitions):
            self._sync(here, then)

    def _sync(self, partitions: list[Partition], then: Callable[[], object]) -> None:
        def synced(result: object) -> None:
            if isinstance(result, DiskFailed):
                self._runtime.stop(1, f"replicated data cannot be made durable: {result}")
                return
            for partition in partitions:
                self._syncing[partition] -= 1
                if not self._syncing[partition]:
                    del self._syncing[partition]
                    self._replicas.made_durable(partition)
            then()

        self._logs.flushes.flush(self._replicas, partitions, synced, self._replicas.waiting_for_room.update)

    def syncs_from(self, leader: int) -> bool:
        """Whether something that a broker leads is being synced here, and not for want of room."""
        waiting = self._replicas.waiting_for_room
        return any(one.leader == leader and one not in waiting for one in self._syncing)

    def _flush(self, flush: Flush) -> None:
        def durable(result: object) -> None:
            if isinstance(result, DiskFailed):
                self._runtime.stop(1, f"{flush.partition!r} cannot be made durable: {result}")
            elif flush.asks:
                self._replicas.flushed(flush.partition, self._runtime.now.mono_ms)

        self._logs.flushes.flush(self._replicas, [flush.partition], durable)

    def _sync_opened(self) -> None:
        """Sync partitions that were opened. What the process before this one had not synced may be in memory only, and
        counts where the settings want it on the disk. What the start has cut is durable before anything is appended."""
        opened, self._replicas.opened = self._replicas.opened, []
        behind = [
            one
            for one in opened
            if not one.log.blank
            and (
                one.log.shortened
                or one.log.reach
                or (one.durable_first and one.log.recovery_point < one.log.log_end_offset)
            )
        ]

        def durable() -> None:
            for partition in behind:
                self._replicas.advance(partition, self._runtime.now.mono_ms)
            self.run()

        if behind:
            self.sync(behind, durable)
