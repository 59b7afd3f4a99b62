"""The metrics of a controller (KIP-630, KIP-631; Apache Kafka's `kafka.controller`).

This file alone decides what of the controller role is shown, and on which controllers: what only the active one knows is
absent on the others (R631-203).
"""

from collections.abc import Callable
from typing import NamedTuple

from actors.node.metrics.family import Row, Summary, Value, counter, gauge, gauges, summary, summary_of
from actors.node.net.request_channel import RequestChannel
from actors.node.quorum.replica import QuorumReplica
from actors.node.roles.controller.role import ControllerRole
from actors.node.runtime.calls import Lane
from actors.node.runtime.runtime import Runtime
from actors.quotas.levels import Charged

CONTROLLER = "kafka.controller:type=KafkaController,name="
MS = 1_000_000.0
ACCOUNTS_SHOWN_MAX = 100
"""How many accounts of each quota are shown: those charged last, since clients choose their ids and there may be many."""


class OfController(NamedTuple):
    """A node with a controller role, as far as its metrics are read."""

    role: ControllerRole
    runtime: Runtime
    quorum: QuorumReplica
    requests: RequestChannel


def _number(read: Callable[[OfController], float]) -> Callable[[OfController], float | None]:
    """A number that only the active controller has."""
    return lambda of: read(of) if of.role.active else None


def _fenced(of: OfController) -> int:
    """How many brokers are missed. In the drafts' family a broker that is fenced is registered no more (A32): what tells of
    it is its replicas."""
    image = of.role.image
    known = {broker.id for broker in image.brokers()}
    known |= {id for id, (replicas, _, _) in image.counters.all().items() if replicas}
    return len(known) - len(image.unfenced_brokers())


def _tokens(of: OfController) -> list[tuple[tuple[str, ...], Value]]:
    now_ms = of.runtime.now.mono_ms
    return [
        (labels(name), account.measure.refill(account.bound, now_ms))
        for name, account in of.role.soft.mutations.newest(ACCOUNTS_SHOWN_MAX, now_ms)
    ]


def _throttled(of: OfController) -> list[tuple[tuple[str, ...], Value]]:
    now_ms = of.runtime.now.mono_ms
    return [
        (labels(name), account.throttled.measure(now_ms))
        for name, account in of.role.soft.mutations.newest(ACCOUNTS_SHOWN_MAX, now_ms)
    ]


def labels(name: Charged) -> tuple[str, ...]:
    """The labels of those who share a quota: (user, client id)."""
    return name.user, name.client_id


def _lag_ms(of: OfController) -> float | None:
    """How old the newest record is that a standby has applied; 0 on the active controller, as in Apache Kafka."""
    if of.role.active:
        return 0
    timestamp_ms = of.role.snapshotting.timestamp_ms
    return max(0, of.runtime.now.wall_ms - timestamp_ms) if timestamp_ms else None


CONTROLLERS: tuple[Row[OfController], ...] = (
    gauge(
        "kafka_controller_kafkacontroller_activecontrollercount",
        CONTROLLER + "ActiveControllerCount",
        "1 on the active controller, 0 on the others.",
        lambda of: int(of.role.active),
    ),
    gauge(
        "kafka_controller_kafkacontroller_metadatalag",
        "KIP-631: " + CONTROLLER + "MetadataLag",
        "Committed metadata records that this controller has not replayed.",
        lambda of: max(0, of.quorum.raft.committed_offset - of.role.image.next_offset),
    ),
    gauge(
        "kafka_controller_kafkacontroller_metadatasnapshotlag",
        "KIP-631: " + CONTROLLER + "MetadataSnapshotLag",
        "Records behind the newest snapshot; all records while there is none.",
        lambda of: max(0, of.quorum.raft.high_watermark - max(0, of.role.snapshotting.offset)),
    ),
    summary(
        "kafka_controller_kafkacontroller_controllerrequestsrate",
        "KIP-631: " + CONTROLLER + "ControllerRequestsRate",
        "Requests of brokers and tools.",
        lambda of: Summary(of.role.requests.count),
    ),
    summary(
        "kafka_controller_kafkacontroller_metadatacommitrate",
        "KIP-631: " + CONTROLLER + "MetadataCommitRate",
        "Metadata records that the active controller has committed.",
        lambda of: Summary(of.role.commits.count) if of.role.active else None,
    ),
    summary(
        "kafka_controller_kafkacontroller_metadatacommitlatencyms",
        "KIP-631: " + CONTROLLER + "MetadataCommitLatencyMs",
        "From the append of a batch to its commit, in ms.",
        lambda of: summary_of(of.role.commit_latency_ms) if of.role.active else None,
    ),
    gauge(
        "kafka_server_raftmetrics_commit_latency_avg",
        "kafka.server:type=raft-metrics,name=commit-latency-avg",
        "From the append of a batch to its commit, in ms: the average of the newest thousand. On the leader.",
        _number(lambda of: of.role.commit_latency_ms.mean),
    ),
    gauge(
        "kafka_server_raftmetrics_commit_latency_max",
        "kafka.server:type=raft-metrics,name=commit-latency-max",
        "The same: the longest.",
        _number(lambda of: of.role.commit_latency_ms.quantile(1.0)),
    ),
    gauge(
        "kafka_controller_kafkacontroller_activebrokercount",
        CONTROLLER + "ActiveBrokerCount",
        "Brokers that are not fenced.",
        _number(lambda of: len(of.role.soft.leases)),
    ),
    gauge(
        "kafka_controller_kafkacontroller_fencedbrokercount",
        CONTROLLER + "FencedBrokerCount",
        "Brokers that are registered or have replicas, and are fenced or gone.",
        _number(_fenced),
    ),
    gauge(
        "kafka_controller_kafkacontroller_globaltopiccount",
        CONTROLLER + "GlobalTopicCount",
        "Topics.",
        _number(lambda of: of.role.image.topic_count),
    ),
    gauge(
        "kafka_controller_kafkacontroller_globalpartitioncount",
        CONTROLLER + "GlobalPartitionCount",
        "Partitions.",
        _number(lambda of: of.role.image.counters.partitions),
    ),
    gauge(
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        CONTROLLER + "OfflinePartitionsCount",
        "Partitions without a leader.",
        _number(lambda of: of.role.image.counters.leaderless),
    ),
    gauge(
        "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
        CONTROLLER + "PreferredReplicaImbalanceCount",
        "Partitions that are not led by the first of their replicas.",
        _number(lambda of: of.role.image.counters.unpreferred),
    ),
    gauge(
        "kafka_controller_kafkacontroller_lastappliedrecordoffset",
        CONTROLLER + "LastAppliedRecordOffset",
        "The newest metadata record that this controller has applied.",
        lambda of: of.role.image.next_offset - 1,
    ),
    gauge(
        "kafka_controller_kafkacontroller_lastcommittedrecordoffset",
        CONTROLLER + "LastCommittedRecordOffset",
        "The newest metadata record that is committed.",
        lambda of: of.quorum.raft.high_watermark - 1,
    ),
    gauge(
        "kafka_controller_kafkacontroller_lastappliedrecordtimestamp",
        CONTROLLER + "LastAppliedRecordTimestamp",
        "When the newest record was written that is committed and applied, in ms since 1970.",
        lambda of: of.role.snapshotting.timestamp_ms or None,
    ),
    gauge(
        "kafka_controller_kafkacontroller_lastappliedrecordlagms",
        CONTROLLER + "LastAppliedRecordLagMs",
        "How long ago the newest applied record was written, in ms; 0 on the active controller.",
        _lag_ms,
    ),
    gauge(
        "kafka_controller_kafkacontroller_timedoutbrokerheartbeatcount",
        CONTROLLER + "TimedOutBrokerHeartbeatCount",
        "How often the lease of a broker has ended because no heartbeat came.",
        lambda of: of.role.expired_leases,
    ),
    gauge(
        "kafka_controller_kafkacontroller_newactivecontrollerscount",
        CONTROLLER + "NewActiveControllersCount",
        "How often this controller has found another one active than before.",
        lambda of: of.quorum.leaders,
    ),
    gauge(
        "kafka_controller_kafkacontroller_eventqueueoperationsstartedcount",
        CONTROLLER + "EventQueueOperationsStartedCount",
        "Operations that controllers were asked for.",
        lambda of: of.role.requests.count,
    ),
    gauges(
        "kafka_controller_kafkacontroller_lastsnapshotoffset",
        "KIP-631: " + CONTROLLER + "LastSnapshotOffset",
        ("controller",),
        "The newest snapshot that each controller has last reported; -1: none.",
        lambda of: (
            [((str(id),), report.snapshot_offset) for id, report in sorted(of.role.soft.controllers.items())]
            if of.role.active
            else ()
        ),
    ),
    gauge(
        "kafka_controller_controllereventmanager_eventqueuesize",
        "kafka.controller:type=ControllerEventManager,name=EventQueueSize",
        "Requests of controllers and brokers that wait for their turn.",
        lambda of: of.requests.queue.size(Lane.CONTROL),
    ),
    summary(
        "kafka_controller_controllereventmanager_eventqueuetimems",
        "kafka.controller:type=ControllerEventManager,name=EventQueueTimeMs",
        "How long they waited, in ms.",
        lambda of: summary_of(of.requests.control_waits, of.runtime.stopwatch(), MS),
    ),
    summary(
        "kafka_controller_controllereventmanager_eventqueueprocessingtimems",
        "kafka.controller:type=ControllerEventManager,name=EventQueueProcessingTimeMs",
        "How long they were worked on, in ms.",
        lambda of: summary_of(of.requests.control_works, of.runtime.stopwatch(), MS),
    ),
    counter(
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        "kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec",
        "How often a replica that was not in sync was made leader while this controller was active.",
        lambda of: of.role.elections[1],
    ),
    summary(
        "kafka_controller_controllerstats_leaderelectionrateandtimems",
        "kafka.controller:type=ControllerStats,name=LeaderElectionRateAndTimeMs",
        "How often a partition got another leader while this controller was active.",
        lambda of: Summary(of.role.elections[0]),
    ),
    gauges(
        "kafka_server_controllermutation_tokens",
        "KIP-599",
        ("user", "client_id"),
        "What clients with a quota have left of their changes; below 0 they wait.",
        lambda of: _tokens(of) if of.role.active else (),
    ),
    gauges(
        "kafka_server_controllermutation_throttle_time",
        "KIP-599",
        ("user", "client_id"),
        "How long they were made to wait on average, in ms.",
        lambda of: _throttled(of) if of.role.active else (),
    ),
    gauge(
        "kafka_server_metadataloader_currentmetadataversion",
        "kafka.server:type=MetadataLoader,name=CurrentMetadataVersion",
        "The level of metadata.format that is committed.",
        lambda of: of.role.committed_level,
    ),
    gauge(
        "kafka_server_snapshotemitter_latestsnapshotgeneratedbytes",
        "kafka.server:type=SnapshotEmitter,name=LatestSnapshotGeneratedBytes",
        "The size of the newest snapshot that this process has taken; 0: none.",
        lambda of: of.role.snapshotting.bytes_generated,
    ),
    gauge(
        "kafka_server_snapshotemitter_latestsnapshotgeneratedagems",
        "kafka.server:type=SnapshotEmitter,name=LatestSnapshotGeneratedAgeMs",
        "How long ago that was, in ms.",
        lambda of: (
            of.runtime.now.mono_ms - of.role.snapshotting.generated_ms
            if of.role.snapshotting.generated_ms >= 0
            else None
        ),
    ),
)
"""The rows of a controller."""
