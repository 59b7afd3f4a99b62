"""The parts of a broker that a handler may reach. This file alone makes them, and names each of them once.

`role.py` makes the others, which only the broker's turn needs, and decides in which order all of them act. A handler finds
each part in its context under the name that it has here (`node/api/contexts.py`).
"""

from actors.broker.lifecycle.driving import Driving
from actors.broker.lifecycle.lifecycle import Lifecycle
from actors.broker.lifecycle.recently_fenced import RecentlyFenced
from actors.broker.replication.alter_isr_requests import IsrProposals
from actors.broker.replication.fetch_sessions import ENTRIES_MAX, ENTRY_BYTES, Sessions
from actors.broker.replication.fetchers import FetcherLimits
from actors.broker.replication.partition import Cluster
from actors.broker.replication.replicas import Replicas
from actors.broker.replication.suspected_leaders import SuspectedLeaders
from actors.node.net.channels import Channels
from actors.node.net.request_channel import RequestChannel
from actors.node.roles.broker.availability import Availability
from actors.node.roles.broker.coordinators.coordinator_loading import Loadings
from actors.node.roles.broker.groups.group_coordinator import GroupCoordinator
from actors.node.roles.broker.groups.share.share_coordinator import ShareCoordinator
from actors.node.roles.broker.groups.share.share_partitions import SharePartitions
from actors.node.roles.broker.groups.share.share_persister import SharePersister
from actors.node.roles.broker.groups.streams.streams_topics import StreamsTopics
from actors.node.roles.broker.lifecycle.topic_creation import TopicCreation
from actors.node.roles.broker.log.log_dir_moves import LogDirMoves
from actors.node.roles.broker.log.log_manager import LogManager
from actors.node.roles.broker.metadata.pushed_metadata import PushedMetadata
from actors.node.roles.broker.metadata.topic_lists import TopicLists
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.roles.broker.quotas.client_quotas import ClientQuotas
from actors.node.roles.broker.replication.appends import Appends
from actors.node.roles.broker.replication.batch_inspections import Order
from actors.node.roles.broker.replication.delayed_fetch import Fetches
from actors.node.roles.broker.replication.end_offsets import EndOffsets
from actors.node.roles.broker.replication.produced_batches import Produces
from actors.node.roles.broker.replication.transaction_verification import TransactionVerification
from actors.node.roles.broker.telemetry.client_telemetry import ClientTelemetry
from actors.node.roles.broker.transactions.producer_id_blocks import ProducerIdBlocks
from actors.node.roles.broker.transactions.transaction_coordinator import TransactionCoordinator
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.storage import Storage
from actors.settings.node_config import NodeConfig


class BrokerParts:
    """The parts of a broker, as public attributes, from the ground up: each is given what stands above it."""

    def __init__(self, runtime: Runtime, requests: RequestChannel, channels: Channels, storage: Storage) -> None:
        config, value = runtime.config, runtime.config.value
        self.cache = MetadataCache(config)
        self.topic_lists = TopicLists(runtime, requests)
        self.lifecycle = Lifecycle(config.heartbeat_interval_ms(None), config.lease_ms(2))
        self.recently_fenced = RecentlyFenced()
        self.driving = Driving()
        self.quotas = ClientQuotas(runtime, requests, self.cache)
        self.telemetry = ClientTelemetry(runtime, requests, self.cache)
        self.topics = TopicCreation(runtime, channels, self.cache)
        self.producer_id_blocks = ProducerIdBlocks(runtime, channels, self.lifecycle)
        self.producer_ids = self.producer_id_blocks.ids

        self.cluster = _cluster(config)
        self.logs = LogManager(runtime, storage, self.cache)
        self.replicas = Replicas(
            self.cluster, IsrProposals(config.broker_id, self.cluster.lag_ms_max // 2), _limits(config), self.logs.open
        )
        self.availability = Availability(runtime, requests.connections, self.cache, self.lifecycle, self.replicas)
        self.moves = LogDirMoves(runtime, self.logs, self.cache, self.replicas, self.availability)
        self.appends = Appends(runtime, self.replicas, self.logs, self.lifecycle, self.availability)
        self.sessions = Sessions(
            runtime.random.below,
            value("max.incremental.fetch.session.cache.slots"),
            runtime.ledger.account("FetchSessions", ENTRIES_MAX * ENTRY_BYTES),
        )
        self.fetches = Fetches(
            runtime, requests.connections, self.replicas, self.availability, self.appends, self.sessions, self.quotas
        )
        self.suspected_leaders = SuspectedLeaders(self.cluster.unfenced)
        self.end_offsets = EndOffsets(runtime, channels, self.cache)

        loadings = Loadings(runtime, self.replicas)
        self.share_persister = SharePersister(runtime, channels, self.cache, self.topics.create)
        self.groups = GroupCoordinator(
            runtime, requests, self.cache, self.replicas, self.appends, loadings, self.share_persister
        )
        self.transactions = TransactionCoordinator(
            runtime, requests, channels, self.cache, self.replicas, self.appends, loadings, self.producer_ids
        )
        self.verification = TransactionVerification(runtime, channels, self.cache, self.transactions)
        self.produces = Produces(
            runtime, self.replicas, self.availability, self.appends, Order(runtime, requests), self.verification
        )
        self.share_state = ShareCoordinator(runtime, requests, self.cache, self.replicas, self.appends, loadings)
        self.shares = SharePartitions(runtime, requests, self.replicas, self.share_persister, self.groups.settings_of)
        self.streams_topics = StreamsTopics(runtime, channels)
        self.pushed_metadata: PushedMetadata | None = None
        """The metadata that controllers push; None: this broker pulls the metadata log."""
        self.reachable = tuple(vars(self))
        """The names of the parts."""


def _cluster(config: NodeConfig) -> Cluster:
    value = config.value
    cluster = Cluster(
        config.broker_id,
        value("replica.lag.time.max.ms"),
        value("replication.quota.window.num"),
        1_000 * value("replication.quota.window.size.seconds"),
    )
    cluster.rack_aware = bool(value("replica.selector.class"))
    return cluster


def _limits(config: NodeConfig) -> FetcherLimits:
    value = config.value
    return FetcherLimits(
        value("replica.fetch.wait.max.ms"),
        value("replica.fetch.min.bytes"),
        value("replica.fetch.response.max.bytes"),
        value("replica.fetch.max.bytes"),
    )
