"""The broker of a node: it has the parts of `parts.py` and those that only its turn needs, and fixes the order in which they
act. What happens in each step is decided in the file of the part.

replay what was committed -> replicas follow -> heartbeat, lag, retention, groups, transactions -> (requests) -> flushes,
what cannot be read -> AlterIsr -> fetches
"""

from collections.abc import Iterator

from actors.metadata.batches import is_control
from actors.metadata.dialects import FORMAT, dialect
from actors.metadata.image import let_go
from actors.metadata.snapshot import InPieces
from actors.node.net.channels import Channels
from actors.node.net.request_channel import RequestChannel
from actors.node.quorum.replica import QuorumReplica
from actors.node.roles.broker.lifecycle.heartbeats import BrokerHeartbeats
from actors.node.roles.broker.log.log_cleaner import LogCleaner
from actors.node.roles.broker.log.scrubber import Scrubber
from actors.node.roles.broker.metadata.image_deltas import ImageDeltas
from actors.node.roles.broker.metadata.metadata_publisher import MetadataApplier
from actors.node.roles.broker.metadata.metadata_snapshots import BrokerSnapshots
from actors.node.roles.broker.metadata.pushed_metadata import PushedMetadata
from actors.node.roles.broker.metadata.unreadable_storage import Unreadable
from actors.node.roles.broker.parts import BrokerParts
from actors.node.roles.broker.quotas.client_quotas import KIND
from actors.node.roles.broker.quotas.replication_throttles import Throttles
from actors.node.roles.broker.replication.alter_isr import AlterIsr
from actors.node.roles.broker.replication.partition_effects import PartitionEffects
from actors.node.roles.broker.replication.replication import Replication
from actors.node.runtime.calls import Listener
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.storage import Storage
from actors.ports import Batch, Buffer, Now
from actors.raft import SnapshotId

FAR_MS = 1 << 62
END = object()


class BrokerRole(BrokerParts):
    """The broker of a node. Its methods are what the quorum and the node call: each says in which order the parts
    act."""

    def __init__(
        self, runtime: Runtime, requests: RequestChannel, channels: Channels, quorum: QuorumReplica, storage: Storage
    ) -> None:
        super().__init__(runtime, requests, channels, storage)
        self._runtime = runtime
        self._requests = requests
        self._family = storage.family
        self._coordinators = (self.groups, self.transactions, self.share_state)
        self._gathering = (*self._coordinators, self.share_persister, self.shares)
        self.cleaner = LogCleaner(runtime, self.logs, self.cache, self.replicas)
        self.scrubber = Scrubber(runtime, channels, self.logs, self.cache, self.replicas, self.cleaner)
        self.partition_effects = PartitionEffects(
            runtime,
            self.replicas,
            self.logs,
            self.lifecycle,
            self.appends,
            (*self._coordinators, self.shares),
        )
        self.replication = Replication(
            runtime,
            channels,
            self.cache,
            self.replicas,
            self.logs,
            self.lifecycle,
            self.suspected_leaders,
            self.partition_effects,
        )
        self.alter_isr = AlterIsr(
            runtime, channels, self.replicas, self.lifecycle, self.availability, self.partition_effects
        )
        self.heartbeats = BrokerHeartbeats(
            runtime,
            requests,
            channels,
            quorum,
            storage.cluster_id,
            self.cache,
            self.lifecycle,
            self.availability,
            self.replicas,
            self.logs,
            self.producer_id_blocks,
            self.driving,
        )
        self.logs.directories.life = self._life
        self._image_deltas = ImageDeltas(self.cache, self.replicas, self.logs)
        self.applier = MetadataApplier(
            runtime,
            runtime.config.broker_id,
            self.replicas,
            self.logs,
            self.heartbeats,
            self.replication,
            self.groups,
            self.share_state,
            self.recently_fenced,
            self.partition_effects,
            Throttles(self.cache, self.cluster),
        )
        if quorum.told_leader is not None:
            self.pushed_metadata = PushedMetadata(
                runtime,
                self.cache,
                self.lifecycle,
                self.replicas,
                self.logs,
                self.applier,
                self.partition_effects,
                quorum.told_leader,
                self._count_partitions,
            )
        if self.pushed_metadata is None:
            self.applier.crowded = self._image_deltas.crowded
            self.replicas.arrive = self._arrive
            self.logs.may_begin = self.logs.retired.freed = self.replicas.may_begin
        else:
            self.logs.may_begin = self.logs.retired.freed = self.pushed_metadata.may_begin
        self._unreadable = Unreadable(runtime, self.cache, self.lifecycle, self.replicas, self.logs, self.applier)
        self._snapshots = BrokerSnapshots(runtime, quorum, storage)
        self._started = False
        self._lag_check_ms = 0
        self._lag_check: Iterator[None] | None = None
        """The look for followers that lag, while it is under way."""

    @property
    def metadata_timestamp_ms(self) -> int:
        """The time of the newest metadata record that was replayed, by its writer's clock; 0: none was."""
        return self._snapshots.timestamp_ms

    @property
    def full(self) -> bool:
        """Whether what was replayed in this turn keeps this broker busy enough."""
        return self.applier.caught_up and self._image_deltas.full

    # ---- what the quorum and the node call

    def start(self) -> None:
        """Open what is on the disk, and begin to ask for a lease, after the quorum has recovered."""
        self.heartbeats.previous_epoch = self.logs.recover()
        self._started = True
        self._catch_up()

    def listen(self) -> None:
        """Let other brokers come."""
        for listener in self._runtime.config.listeners:
            if Listener(listener.kind) is Listener.INTER_BROKER:
                self._requests.listen(listener.name)

    def loading(self, data: Buffer | InPieces, snapshot: SnapshotId) -> Iterator[None]:
        """Begin to load a snapshot beside the image: the slices."""
        return self._snapshots.loading(data, snapshot)

    def loaded(self) -> Iterator[None]:
        """Replace the image by the snapshot that is loaded, and begin to compare everything. The slices in which the old one
        is freed."""
        old, self.cache.image = self.cache.image, self._snapshots.loaded()
        self.quotas.changed()
        self._count_partitions()
        deltas = self._image_deltas
        self.applier.replaced(deltas.brokers(), deltas.slices, deltas)
        return let_go(old)

    def replay(self, batch: Batch) -> None:
        """Replay one committed batch of the metadata log."""
        image = self.cache.image
        if batch.last_offset < image.next_offset:
            return
        if not is_control(batch.data):
            which = (image.feature(FORMAT) or self._family) if self._family == "drafts" else self._family
            follows, replay = self.applier.caught_up, image.replay
            for offset, op in dialect(which).decode(batch, together=not follows):
                touched = replay(offset, op)
                if KIND in touched.entities:
                    self.quotas.changed()
                if follows:
                    self.applier.apply(self._image_deltas.of(touched))
        if image.next_offset <= batch.last_offset:
            image.advance(batch.last_offset + 1)
        image.commit(image.next_offset)
        self._snapshots.replayed(batch)

    def committed(self, high_watermark: int) -> None:
        """Carry out what follows when the replays of this turn are done."""
        self._snapshots.committed(high_watermark)
        self.quotas.refresh()
        self._count_partitions()
        if self._started and not self.applier.caught_up:
            self._catch_up()
        self.partition_effects.run()

    def gained(self, epoch: int, next_offset: int) -> None:
        """Do nothing when this node leads the quorum: that is the controller's."""

    def lost(self) -> None:
        """Do nothing when another node leads the quorum."""

    def tick(self, now: Now) -> None:
        """Handle timers: lease, heartbeat, lag, retention, checkpoints, groups."""
        if not self._started:
            return
        if not self.logs.in_use:
            self._catch_up()
        caught_up = self.logs.in_use
        self._image_deltas.begin_turn()
        if self.replicas.arriving and not self.logs.closing:
            self.applier.apply(self._image_deltas.arrived())
        self.applier.tick()
        if not self.logs.closing:
            self.applier.go_on()
        self.heartbeats.tick(now)
        if caught_up and self.heartbeats.was_serving and not (self.logs.claims.settled or self.applier.compares):
            self.logs.claims.retire_unclaimed(self.replicas.offline)
        if self.replicas.look_again is not None:
            self.replicas.go_on(now.mono_ms)
        if now.mono_ms >= self._lag_check_ms and self._lag_check is None:
            # One that is under way goes on: begun anew by many short turns, it would never come to the last partitions.
            self._lag_check = self.replicas.check_lag(lambda: self._runtime.now.mono_ms)
        if self._lag_check is not None and next(self._lag_check, END) is END:
            self._lag_check = None
            self._lag_check_ms = now.mono_ms + self.cluster.lag_ms_max // 2
        if caught_up:
            self.logs.tick(now, self.replicas)
            self.cleaner.tick(now)
            self.scrubber.tick(now)
            if self.logs.futures.resumed:
                self.moves.tick()
            self._snapshots.tick(self.cache.image, now)
        for one in self._coordinators:
            one.tick(now)
        self.shares.tick(now)
        self.partition_effects.run()

    def append(self) -> None:
        """Append what the requests of the turn have the coordinators write, when they are done."""
        for one in self._coordinators:
            one.append()

    def end(self) -> None:
        """End the turn: what has gathered leaves."""
        if not self._started:
            return
        self.append()
        self.logs.end(self.replicas)
        self._unreadable.give_up()
        self.partition_effects.run()
        self.shares.end_turn()
        self.share_persister.end_turn()
        self.alter_isr.end_turn()
        self.replication.end_turn()

    def deadline_ms(self) -> int:
        """The monotonic time at which `tick` is due; 0: at once."""
        if not self._started:
            return FAR_MS
        if self._lag_check is not None or self.replicas.look_again is not None or self.replicas.leaving:
            return 0
        if (self.replicas.arriving or self.applier.compares) and not self.logs.closing:
            return 0
        for one in self._gathering:
            if one.gathers:
                return 0
        due = min(self.heartbeats.deadline_ms(), self._lag_check_ms, self.groups.deadline_ms(), self.replication.due_ms)
        due = min(due, self.transactions.deadline_ms(), self.share_state.deadline_ms(), self.shares.deadline_ms())
        if self.logs.in_use:
            due = min(due, self.logs.deadline_ms(), self.cleaner.deadline_ms(), self.scrubber.deadline_ms())
        if not self.replicas.proposals.idle and self.availability.serving:
            due = min(due, self.replicas.proposals.deadline_ms())
        return due

    def _life(self) -> int:
        """What is above the broker epochs of all lives before: before this one has any, the end of the metadata, since an
        epoch is the offset of a registration there."""
        epoch = self.lifecycle.epoch
        return epoch if epoch >= 0 else self.cache.image.next_offset

    def _catch_up(self) -> None:
        if self.pushed_metadata is None:
            self.applier.catch_up(self._image_deltas.whole)

    def _arrive(self, topic: bytes | str, number: int) -> None:
        delta = self._image_deltas.one(topic, number)
        if delta is not None:
            self.applier.apply(delta)

    def _count_partitions(self) -> None:
        for one in self._coordinators:
            one.count_partitions()

    def shutdown(self) -> None:
        """Begin to end the process: controlled shutdown, then the quorum hands over."""
        self.lifecycle.stop(self._runtime.now, ask=self._runtime.config.value("controlled.shutdown.enable"))
