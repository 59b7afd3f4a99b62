"""What a handler may reach: a broker's parts, or a controller's. Which of the two a request gets, its listener decides.

A handler is a function `(context, request, call) -> Answer`. What it does is its answer; the parts that it
may set going besides are listed here, and it has no other way to the node.
"""

from dataclasses import dataclass

from actors.authorization.rights import Node
from actors.broker.lifecycle.driving import Driving
from actors.broker.lifecycle.recently_fenced import RecentlyFenced
from actors.broker.replication.partition import Cluster
from actors.broker.replication.replicas import Replicas
from actors.broker.replication.sessions import Sessions
from actors.broker.replication.suspected_leaders import SuspectedLeaders
from actors.broker.transactions.producer_ids import ProducerIds
from actors.node.api.security.authorizer import Authorizer
from actors.node.api.security.logins import Logins
from actors.node.api.security.speakers import kind
from actors.node.net.request_channel import RequestChannel
from actors.node.quorum.replica import Quorum
from actors.node.roles.broker.availability import Lookups
from actors.node.roles.broker.groups.group_coordinator import GroupCoordinator
from actors.node.roles.broker.groups.share.share_coordinator import ShareCoordinator
from actors.node.roles.broker.groups.share.share_partitions import SharePartitions
from actors.node.roles.broker.groups.share.share_persister import SharePersister
from actors.node.roles.broker.groups.streams.streams_topics import StreamsTopics
from actors.node.roles.broker.lifecycle.topic_creation import TopicCreation
from actors.node.roles.broker.log.log_dir_moves import LogDirMoves
from actors.node.roles.broker.log.log_manager import LogManager
from actors.node.roles.broker.metadata.pushed_metadata import PushedMetadata
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.roles.broker.quotas.client_quotas import ClientQuotas
from actors.node.roles.broker.replication.appends import Appends
from actors.node.roles.broker.replication.delayed_fetch import Fetches
from actors.node.roles.broker.replication.end_offsets import EndOffsets
from actors.node.roles.broker.replication.record_validation import Order
from actors.node.roles.broker.role import BrokerRole
from actors.node.roles.broker.telemetry.client_telemetry import ClientTelemetry
from actors.node.roles.broker.transactions.transaction_coordinator import TransactionCoordinator
from actors.node.roles.broker.transactions.transaction_verification import TransactionVerification
from actors.node.roles.controller.role import ControllerRole
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.storage import Storage
from actors.settings.node_config import NodeConfig


@dataclass(slots=True)
class Context:
    """What both have."""

    runtime: Runtime
    config: NodeConfig
    cluster_id: str
    family: str
    """`drafts` or `released`: which rows of the table this node serves."""
    quorum: Quorum
    authorizer: Authorizer
    requests: RequestChannel
    logins: Logins

    @property
    def pushed(self) -> bool:
        """Whether this node tells, or is told, of metadata by LeaderAndIsr and its like."""
        raise NotImplementedError

    def kind(self, id: int) -> Node:
        """What a node id is to the cluster, as far as this node knows."""
        raise NotImplementedError


@dataclass(slots=True)
class BrokerContext(Context):
    """Of requests to a broker: on listeners of clients and of other brokers."""

    cache: MetadataCache
    lookups: Lookups
    cluster: Cluster
    replicas: Replicas
    logs: LogManager
    moves: LogDirMoves
    appends: Appends
    produced: Order
    sessions: Sessions
    fetches: Fetches
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    share_state: ShareCoordinator
    shares: SharePartitions
    share_persister: SharePersister
    end_offsets: EndOffsets
    verification: TransactionVerification
    topics: TopicCreation
    streams_topics: StreamsTopics
    producer_ids: ProducerIds
    suspected_leaders: SuspectedLeaders
    recently_fenced: RecentlyFenced
    driving: Driving
    quotas: ClientQuotas
    telemetry: ClientTelemetry
    pushed_metadata: PushedMetadata | None = None
    """None: this broker pulls the metadata log."""

    @property
    def pushed(self) -> bool:
        return self.pushed_metadata is not None

    def kind(self, id: int) -> Node:
        return kind(id, self.quorum.identity.voters.ids(), self.cache.image.is_registered, late=True)

    @staticmethod
    def of(
        runtime: Runtime,
        requests: RequestChannel,
        quorum: Quorum,
        storage: Storage,
        role: BrokerRole | None,
    ) -> "BrokerContext | None":
        """That of a node; None: it is no broker."""
        if role is None:
            return None
        return BrokerContext(
            runtime,
            runtime.config,
            storage.cluster_id,
            storage.family,
            quorum,
            Authorizer(runtime, runtime.config, lambda: role.cache.image.rules),
            requests,
            Logins(runtime, lambda: role.cache.image),
            role.cache,
            role.lookups,
            role.cluster,
            role.replicas,
            role.logs,
            role.moves,
            role.appends,
            role.produced,
            role.sessions,
            role.fetches,
            role.groups,
            role.transactions,
            role.share_state,
            role.shares,
            role.share_persister,
            role.end_offsets,
            role.verification,
            role.topics,
            role.streams_topics,
            role.producer_ids.ids,
            role.suspected_leaders,
            role.recently_fenced,
            role.driving,
            role.quotas,
            role.telemetry,
            role.pushed_metadata,
        )


@dataclass(slots=True)
class ControllerContext(Context):
    """Of requests to a controller: on its own listener."""

    role: ControllerRole

    @property
    def pushed(self) -> bool:
        return self.role.pusher is not None

    def kind(self, id: int) -> Node:
        return kind(id, self.role.controllers, self.role.image.is_registered, late=not self.role.active)

    @staticmethod
    def of(
        runtime: Runtime,
        requests: RequestChannel,
        quorum: Quorum,
        storage: Storage,
        role: ControllerRole | None,
    ) -> "ControllerContext | None":
        """That of a node; None: it is no controller."""
        if role is None:
            return None
        authorizer = Authorizer(runtime, runtime.config, lambda: role.image.rules)
        return ControllerContext(
            runtime,
            runtime.config,
            storage.cluster_id,
            storage.family,
            quorum,
            authorizer,
            requests,
            Logins(runtime, lambda: role.image),
            role,
        )
