"""The broker of a node: it has the parts that are in the files beside this one, and fixes the order in which they act. What
happens in each step is decided there.

replay what was committed -> replicas follow -> heartbeat, lag, retention, groups, transactions -> (requests) -> flushes,
what cannot be read -> AlterIsr -> fetches
"""

from typing import Any

from actors.broker.lifecycle.driving import Driving
from actors.broker.lifecycle.lifecycle import Lifecycle
from actors.broker.lifecycle.recently_fenced import RecentlyFenced
from actors.broker.replication.fetchers import Limits
from actors.broker.replication.isr_proposals import IsrProposals
from actors.broker.replication.partition import Cluster
from actors.broker.replication.replicas import Replicas
from actors.broker.replication.sessions import ENTRIES_MAX, ENTRY_BYTES, Sessions
from actors.broker.replication.suspected_leaders import SuspectedLeaders
from actors.metadata.batches import is_control
from actors.metadata.dialects import FORMAT, dialect
from actors.metadata.image import Image
from actors.node.net.channels import Channels
from actors.node.net.request_channel import RequestChannel
from actors.node.quorum.replica import Quorum
from actors.node.roles.broker.availability import Lookups
from actors.node.roles.broker.coordinators.coordinator_loading import Loadings
from actors.node.roles.broker.groups.group_coordinator import GroupCoordinator
from actors.node.roles.broker.groups.share.share_coordinator import ShareCoordinator
from actors.node.roles.broker.groups.share.share_partitions import SharePartitions
from actors.node.roles.broker.groups.share.share_persister import SharePersister
from actors.node.roles.broker.groups.streams.streams_topics import StreamsTopics
from actors.node.roles.broker.lifecycle.heartbeats import BrokerHeartbeats
from actors.node.roles.broker.lifecycle.topic_creation import TopicCreation
from actors.node.roles.broker.log.log_cleaner import LogCleaner
from actors.node.roles.broker.log.log_dir_moves import LogDirMoves
from actors.node.roles.broker.log.log_manager import LogManager
from actors.node.roles.broker.log.scrubber import Scrubber
from actors.node.roles.broker.metadata.image_deltas import ImageDeltas
from actors.node.roles.broker.metadata.metadata_publisher import MetadataApplier
from actors.node.roles.broker.metadata.metadata_snapshots import BrokerSnapshots
from actors.node.roles.broker.metadata.pushed_metadata import PushedMetadata
from actors.node.roles.broker.metadata.unreadable_storage import Unreadable
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.roles.broker.quotas.client_quotas import KIND, ClientQuotas
from actors.node.roles.broker.quotas.replication_throttles import Throttles
from actors.node.roles.broker.replication.alter_isr import AlterIsr
from actors.node.roles.broker.replication.appends import Appends
from actors.node.roles.broker.replication.delayed_fetch import Fetches
from actors.node.roles.broker.replication.end_offsets import EndOffsets
from actors.node.roles.broker.replication.partition_effects import Gathered
from actors.node.roles.broker.replication.record_validation import Order
from actors.node.roles.broker.replication.replication import Replication
from actors.node.roles.broker.telemetry.client_telemetry import ClientTelemetry
from actors.node.roles.broker.transactions.producer_id_blocks import ProducerIdBlocks
from actors.node.roles.broker.transactions.transaction_coordinator import TransactionCoordinator
from actors.node.roles.broker.transactions.transaction_verification import TransactionVerification
from actors.node.runtime.calls import Listener
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.storage import Storage
from actors.ports import Batch, Buffer, Now

FAR_MS = 1 << 62


class BrokerRole:
    """The parts of a broker. Its methods are what the quorum and the node call: each says in which order the parts act."""

    def __init__(
        self, runtime: Runtime, requests: RequestChannel, channels: Channels, quorum: Quorum, storage: Storage
    ) -> None:
        self._runtime = runtime
        self._requests = requests
        self._family = storage.family
        config, value = runtime.config, runtime.config.value
        lag_ms_max = value("replica.lag.time.max.ms")
        self.cache = MetadataCache(config)
        self.cluster = Cluster(
            config.broker_id,
            lag_ms_max,
            value("replication.quota.window.num"),
            1_000 * value("replication.quota.window.size.seconds"),
        )
        self.cluster.rack_aware = bool(value("replica.selector.class"))
        self.lifecycle = Lifecycle(config.heartbeat_interval_ms(None), config.lease_ms(2))
        self.logs = LogManager(runtime, storage, self.cache)
        self.replicas = Replicas(
            self.cluster,
            IsrProposals(config.broker_id, lag_ms_max // 2),
            Limits(
                value("replica.fetch.wait.max.ms"),
                value("replica.fetch.min.bytes"),
                value("replica.fetch.response.max.bytes"),
                value("replica.fetch.max.bytes"),
            ),
            self.logs.open,
        )
        self.cleaner = LogCleaner(runtime, self.logs, self.cache, self.replicas)
        self.scrubber = Scrubber(runtime, channels, self.logs, self.cache, self.replicas, self.cleaner)
        self.lookups = Lookups(runtime, requests.connections, self.cache, self.lifecycle, self.replicas)
        self.moves = LogDirMoves(runtime, self.logs, self.cache, self.replicas, self.lookups)
        self.appends = Appends(runtime, self.replicas, self.logs, self.lifecycle, self.lookups)
        self.produced = Order(runtime, requests)
        self.sessions = Sessions(
            runtime.random.below,
            value("max.incremental.fetch.session.cache.slots"),
            runtime.ledger.account("FetchSessions", ENTRIES_MAX * ENTRY_BYTES),
        )
        self.suspected_leaders = SuspectedLeaders(self.cluster.unfenced)
        self.recently_fenced = RecentlyFenced()
        self.driving = Driving()
        self.quotas = ClientQuotas(runtime, requests, self.cache)
        self.fetches = Fetches(
            runtime, requests.connections, self.replicas, self.lookups, self.appends, self.sessions, self.quotas
        )
        self.topics = TopicCreation(runtime, channels, self.cache)
        self.streams_topics = StreamsTopics(runtime, channels)
        self.share_persister = SharePersister(runtime, channels, self.cache, self.topics.create)
        loadings = Loadings(runtime, self.replicas)
        self.groups = GroupCoordinator(
            runtime, requests, self.cache, self.replicas, self.appends, loadings, self.share_persister
        )
        self.end_offsets = EndOffsets(runtime, channels, self.cache)
        self.producer_ids = ProducerIdBlocks(runtime, channels, self.lifecycle)
        self.transactions = TransactionCoordinator(
            runtime, requests, channels, self.cache, self.replicas, self.appends, loadings, self.producer_ids.ids
        )
        self.share_state = ShareCoordinator(runtime, requests, self.cache, self.replicas, self.appends, loadings)
        self.telemetry = ClientTelemetry(runtime, requests, self.cache)
        self.verification = TransactionVerification(runtime, channels, self.cache, self.transactions)
        self._coordinators = (self.groups, self.transactions, self.share_state)
        self.shares = SharePartitions(runtime, requests, self.replicas, self.share_persister, self.groups.settings_of)
        self._gathering = (*self._coordinators, self.share_persister, self.shares)
        self.gathered = Gathered(
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
            self.gathered,
        )
        self.alter_isr = AlterIsr(runtime, channels, self.replicas, self.lifecycle, self.lookups, self.gathered)
        self.heartbeats = BrokerHeartbeats(
            runtime,
            requests,
            channels,
            quorum,
            storage.cluster_id,
            self.cache,
            self.lifecycle,
            self.lookups,
            self.replicas,
            self.logs,
            self.producer_ids,
            self.driving,
        )
        self._image_deltas = ImageDeltas(self.cache, self.replicas)
        self.applier = MetadataApplier(
            runtime,
            config.broker_id,
            self.replicas,
            self.logs,
            self.heartbeats,
            self.replication,
            self.groups,
            self.share_state,
            self.recently_fenced,
            self.gathered,
            Throttles(self.cache, self.cluster),
        )
        told_leader = quorum.told_leader
        self.pushed_metadata = (
            None
            if told_leader is None
            else PushedMetadata(
                runtime,
                self.cache,
                self.lifecycle,
                self.replicas,
                self.logs,
                self.applier,
                self.gathered,
                told_leader,
                self._count_partitions,
            )
        )
        """What controllers push; None: this broker pulls the metadata log."""
        self._unreadable = Unreadable(runtime, self.cache, self.lifecycle, self.replicas, self.logs, self.applier)
        self._snapshots = BrokerSnapshots(runtime, quorum, storage)
        self._started = False
        self._lag_check_ms = 0

    # ---- what the quorum and the node call

    def start(self) -> None:
        """After the quorum has recovered: open what is on the disk, and begin to ask for a lease."""
        self.heartbeats.previous_epoch = self.logs.recover()
        self._started = True
        self._catch_up()
        for listener in self._runtime.config.listeners:
            if Listener(listener.kind) is Listener.INTER_BROKER:
                self._requests.listen(listener.name)

    def load(self, data: Buffer, snapshot: Any) -> None:
        """Replace the image by a snapshot and compare everything."""
        self.cache.image = Image()
        self._snapshots.load(self.cache.image, data, snapshot)
        self.quotas.changed()
        self._count_partitions()
        self.applier.loaded(self._image_deltas.whole)

    def replay(self, batch: Batch) -> None:
        """One committed batch."""
        image = self.cache.image
        if batch.last_offset < image.next_offset:
            return
        if not is_control(batch.data):
            which = (image.feature(FORMAT) or self._family) if self._family == "drafts" else self._family
            for offset, op in dialect(which).decode(batch):
                touched = image.replay(offset, op)
                if KIND in touched.entities:
                    self.quotas.changed()
                if self.applier.caught_up:
                    self.applier.apply(self._image_deltas.of(touched))
        if image.next_offset <= batch.last_offset:
            image.advance(batch.last_offset + 1)
        image.commit(image.next_offset)
        self._snapshots.replayed(batch)

    def committed(self, high_watermark: int) -> None:
        """The replays of this turn are done."""
        self._snapshots.committed(high_watermark)
        self.quotas.refresh()
        self._count_partitions()
        if self._started and not self.applier.caught_up:
            self._catch_up()
        self.gathered.run()

    def gained(self, epoch: int, next_offset: int) -> None:
        """This node leads the quorum: that is the controller's."""

    def lost(self) -> None:
        """Another node leads the quorum; nothing to do here."""

    def tick(self, now: Now) -> None:
        """Timers: lease, heartbeat, lag, retention, checkpoints, groups."""
        if not self._started:
            return
        if not self.logs.in_use:
            self._catch_up()
        caught_up = self.logs.in_use
        self.heartbeats.tick(now)
        if caught_up and self.heartbeats.was_serving and not self.logs.claims.settled:
            self.logs.claims.retire_unclaimed(self.replicas.offline)
        if now.mono_ms >= self._lag_check_ms:
            self._lag_check_ms = now.mono_ms + self.cluster.lag_ms_max // 2
            self.replicas.check_lag(now.mono_ms)
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
        self.gathered.run()

    def append(self) -> None:
        """The requests of the turn are done: what they have its coordinators write goes into the logs."""
        for one in self._coordinators:
            one.append()

    def end(self) -> None:
        """End of the turn: what has gathered leaves."""
        if not self._started:
            return
        self.append()
        self.logs.end(self.replicas)
        self._unreadable.give_up()
        self.gathered.run()
        self.shares.end_turn()
        self.share_persister.end_turn()
        self.alter_isr.end_turn()
        self.replication.end_turn()

    def deadline_ms(self) -> int:
        """When `tick` is due; 0: at once."""
        if not self._started:
            return FAR_MS
        for one in self._gathering:
            if one.gathers:
                return 0
        due = min(self.heartbeats.deadline_ms(), self._lag_check_ms, self.groups.deadline_ms(), self.replication.due_ms)
        due = min(due, self.transactions.deadline_ms(), self.share_state.deadline_ms(), self.shares.deadline_ms())
        if self.logs.in_use:
            due = min(due, self.logs.deadline_ms(), self.cleaner.deadline_ms(), self.scrubber.deadline_ms())
        if not self.replicas.proposals.idle and self.lookups.serving:
            due = min(due, self.replicas.proposals.deadline_ms())
        return due

    def _catch_up(self) -> None:
        if self.pushed_metadata is None:
            self.applier.catch_up(self._image_deltas.whole)

    def _count_partitions(self) -> None:
        for one in self._coordinators:
            one.count_partitions()

    def shutdown(self) -> None:
        """The process is to end: controlled shutdown, then the quorum hands over."""
        self.lifecycle.stop(self._runtime.now, ask=self._runtime.config.value("controlled.shutdown.enable"))
