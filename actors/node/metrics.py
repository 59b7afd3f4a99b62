"""The metrics of a node, each by the name that KIP-631, KIP-291 and Apache Kafka give it.

This file alone decides names, attributes and units. A name is an MBean's (`kafka.controller:type=KafkaController,name=X`),
an attribute is what JMX would show: `Value` of a gauge, `Count` and rates of a meter, percentiles of a histogram (A53).
Sockets belong to the host, which adds its own (`host/metrics.py`).

Rules:

1. Reading changes nothing and costs nothing before somebody asks.
2. What is not there is absent, never 0: no control plane, no controller role, no lead (R291-16, R631-203).
3. Busy time is measured by the host's stopwatch, which decides when a turn ends and nothing else.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import quote

from actors.broker.lifecycle.lifecycle import BrokerState
from actors.broker.telemetry.clients import Clients
from actors.metadata.topic_names import SHARE_STATE_TOPIC
from actors.node.net.request_channel import RequestChannel
from actors.node.quorum.replica import QuorumReplica
from actors.node.roles.broker.role import BrokerRole
from actors.node.roles.controller.role import ControllerRole
from actors.node.runtime.calls import Lane
from actors.node.runtime.meters import Histogram, Meter
from actors.node.runtime.runtime import Runtime
from actors.quotas.accounts import Account
from actors.quotas.levels import CONSUMER, PRODUCER, REQUEST, Charged

CONTROLLER = "kafka.controller:type=KafkaController,name="
BROKER_LAG = "kafka.controller:type=KafkaServer,name=MetadataLag"
"""The domain is the controller's although the node is a broker (R631-202)."""
REPLICAS = "kafka.server:type=ReplicaManager,name="
DIRECTORIES = "kafka.log:type=LogManager,name=OfflineLogDirectoryCount"
CLEANER = "kafka.log:type=LogCleaner,name="
TELEMETRY = "kafka.server:type=ClientMetrics,name="
SHOWN = ("client_id", "client_instance_id", "client_software_name", "client_software_version")
"""Labels of what a client has pushed, besides its own. They win over its own."""
SCRUBBER = "kafka.log:type=LogScrubber,name="
CLEANABLE = "kafka.log:type=LogCleanerManager,name="
REQUESTS = "kafka.network:type=RequestChannel,name="
SOCKETS = "kafka.network:type=SocketServer,name="
PEER_MEMORY = "kafka.server:type=PeerMemory,name=BytesKept"
PEER_REFUSED = "kafka.server:type=PeerMemory,name=RefusedCount"
PEER_OF_PRINCIPAL = "kafka.server:type=PeerMemory,name=BytesOfPrincipal"
PRINCIPALS_SHOWN_MAX = 20
"""How many principals are shown: those for which most is kept."""
HANDLERS = "kafka.server:type=KafkaRequestHandlerPool,name="
SHARE_SESSIONS = "kafka.server:type=ShareSessionCache,name="
SHARE_PARTITIONS = "kafka.server:type=SharePartitionMetrics,name="
GROUP_COORDINATOR = "kafka.server:type=group-coordinator-metrics"
SHARE_COORDINATOR = "kafka.server:type=share-coordinator-metrics"
SHARE_STATES = ("Empty", "Stable", "Dead")
SHARE_PARTITIONS_SHOWN_MAX = 1_000
"""Share partitions whose numbers are shown: groups are as many as clients like."""
BROKER_STATE = "kafka.server:type=KafkaServer,name=BrokerState"
RELEASED_STATE = {BrokerState.INITIAL: 1, BrokerState.FENCED: 3, BrokerState.ACTIVE: 3, BrokerState.SHUTDOWN: 7}
STOPPING = 6
QUOTAS = {PRODUCER: ("Produce", "byte-rate"), CONSUMER: ("Fetch", "byte-rate"), REQUEST: ("Request", "request-time")}
"""Key -> (type of the MBean, attribute)."""
PUSHED_A_PART = 200
ACCOUNTS_SHOWN_MAX = 100
"""How many accounts of each quota are shown: those charged last, since clients choose their ids and there may be many.
"""


class Sample(NamedTuple):
    """One number of a metric."""

    mbean: str
    attribute: str
    value: float
    labels: Sequence[tuple[str, str]] | None = None
    """The labels of a number that a client has pushed: `mbean` is then the name that it gave, and nothing else is in
    it. None: the number is the node's own."""


def gauge(mbean: str, value: float) -> list[Sample]:
    """One number as it is now."""
    return [Sample(mbean, "Value", float(value))]


def meter(mbean: str, of: Meter, mono_ms: int) -> list[Sample]:
    """Events and their rates a second."""
    return [
        Sample(mbean, "Count", float(of.count)),
        Sample(mbean, "MeanRate", of.mean_rate(mono_ms)),
        Sample(mbean, "OneMinuteRate", of.rate(1, mono_ms)),
        Sample(mbean, "FiveMinuteRate", of.rate(5, mono_ms)),
        Sample(mbean, "FifteenMinuteRate", of.rate(15, mono_ms)),
    ]


def histogram(mbean: str, of: Histogram) -> list[Sample]:
    """How many values, and how large."""
    return [
        Sample(mbean, "Count", float(of.count)),
        Sample(mbean, "50thPercentile", of.quantile(0.5)),
        Sample(mbean, "99thPercentile", of.quantile(0.99)),
        Sample(mbean, "Max", of.quantile(1.0)),
    ]


def parts(
    runtime: Runtime,
    requests: RequestChannel,
    quorum: QuorumReplica,
    controller: ControllerRole | None,
    broker: BrokerRole | None,
) -> Iterator[list[Sample]]:
    """Everything that a node knows, part by part: between two parts the node may go on."""
    yield _requests(runtime, requests)
    if controller is not None:
        yield _controller(controller, runtime, quorum)
    if broker is not None:
        yield _broker(broker, runtime, quorum)
        if broker.telemetry.on:
            yield _telemetry(broker.telemetry.clients)
            yield from _pushed(broker.telemetry.clients)


def samples(
    runtime: Runtime,
    requests: RequestChannel,
    quorum: QuorumReplica,
    controller: ControllerRole | None,
    broker: BrokerRole | None,
) -> list[Sample]:
    """All of it at once."""
    return [one for part in parts(runtime, requests, quorum, controller, broker) for one in part]


def _requests(runtime: Runtime, requests: RequestChannel) -> list[Sample]:
    now_ns, mailbox, idle = runtime.stopwatch(), requests.mailbox, requests.idle
    found = gauge(REQUESTS + "RequestQueueSize", mailbox.size(Lane.DATA))
    found += gauge(HANDLERS + "RequestHandlerAvgIdlePercent", idle[Lane.DATA].share(now_ns))
    connections = requests.connections
    found += gauge(REQUESTS + "RequestBytesHeld", connections.bytes_held)
    found += gauge(REQUESTS + "ResponseBytesBehindEarlierOnes", connections.behind_bytes)
    found += gauge(REQUESTS + "UnreadRecordBytes", connections.unread_bytes)
    of_data, of_control_plane = requests.expired
    found += gauge(SOCKETS + "FailedAuthenticationCount", requests.failed_logins)
    found += gauge(SOCKETS + "ExpiredConnectionsKilledCount", of_data)
    found += gauge(SOCKETS + "ControlPlaneExpiredConnectionsKilledCount", of_control_plane)
    for owner, size in runtime.ledger.kept():
        found += gauge(f"{PEER_MEMORY},owner={owner}", size)
    for owner, times in runtime.ledger.refused():
        found += gauge(f"{PEER_REFUSED},owner={owner}", times)
    for principal, size in runtime.ledger.largest(PRINCIPALS_SHOWN_MAX):
        found += gauge(f"{PEER_OF_PRINCIPAL},principal={quote(principal or 'brokers of the cluster')}", size)
    found += gauge(HANDLERS + "LongestTurnMs", runtime.steps.longest_turn_ns / 1_000_000)
    for name, long in runtime.steps.long.items():
        step = f",step={quote(name)}"
        found += gauge(HANDLERS + "LongStepCount" + step, long.times)
        found += gauge(HANDLERS + "LongStepMaxMs" + step, long.longest_ns / 1_000_000)
    if runtime.config.control_plane_listener:
        found += gauge(REQUESTS + "ControlPlaneRequestQueueSize", mailbox.control_requests)
        found += gauge(HANDLERS + "ControlPlaneRequestHandlerAvgIdlePercent", idle[Lane.CONTROL].share(now_ns))
    return found


def _controller(role: ControllerRole, runtime: Runtime, quorum: QuorumReplica) -> list[Sample]:
    high_watermark, now_ms = quorum.raft.high_watermark, runtime.now.mono_ms
    found = gauge(CONTROLLER + "MetadataLag", max(0, high_watermark - role.image.next_offset))
    found += gauge(CONTROLLER + "MetadataSnapshotLag", max(0, high_watermark - max(0, role.snapshotting.offset)))
    found += meter(CONTROLLER + "ControllerRequestsRate", role.requests, now_ms)
    found += gauge(CONTROLLER + "ActiveControllerCount", int(role.active))
    if role.active:
        found += histogram(CONTROLLER + "MetadataCommitLatencyMs", role.commit_latency_ms)
        found += meter(CONTROLLER + "MetadataCommitRate", role.commits, now_ms)
        found += gauge(CONTROLLER + "ActiveBrokerCount", len(role.soft.leases))
        found += gauge(CONTROLLER + "GlobalTopicCount", role.image.topic_count)
        found += _mutations(role, now_ms)
        for controller, report in sorted(role.soft.controllers.items()):
            found += gauge(f"{CONTROLLER}LastSnapshotOffset,controller={controller}", report.snapshot_offset)
    return found


def _broker(role: BrokerRole, runtime: Runtime, quorum: QuorumReplica) -> list[Sample]:
    replicas, now_ms = role.replicas, runtime.now.mono_ms
    led = [partition for partition in replicas if partition.leads]
    found = gauge(BROKER_LAG, max(0, quorum.raft.high_watermark - role.cache.image.next_offset))
    state = STOPPING if role.lifecycle.stopping else RELEASED_STATE[role.lifecycle.state]
    found += gauge(BROKER_STATE, RELEASED_STATE[BrokerState.SHUTDOWN] if role.lifecycle.stop_at else state)
    found += gauge(DIRECTORIES, role.logs.directories.offline_count)
    found += gauge(REPLICAS + "OfflineReplicaCount", len(replicas.offline))
    found += gauge(REPLICAS + "PartitionCount", sum(1 for _ in replicas))
    found += gauge(REPLICAS + "LeaderCount", len(led))
    found += gauge(REPLICAS + "UnderReplicatedPartitions", sum(len(p.isr.isr) < len(p.replicas) for p in led))
    found += gauge(REPLICAS + "UnderMinIsrPartitionCount", sum(len(p.isr.isr) < p.min_insync for p in led))
    found += _cleaner(role, now_ms)
    found += _scrubber(role, runtime.now.wall_ms)
    for name, of in role.alter_isr.meters.items():
        found += meter(REPLICAS + name, of, now_ms)
    found += _quotas(role, now_ms)
    if role.groups.serves_share_groups():
        found += _share_groups(role)
    stages = [partition.isr.stage for partition in led]
    for stage in sorted({stage.value for stage in stages}):
        found += gauge(f"{REPLICAS}IsrProposals,stage={stage}", sum(one.value == stage for one in stages))
    return found


def _quotas(role: BrokerRole, now_ms: int) -> list[Sample]:
    found: list[Sample] = []
    for key, (type, attribute) in QUOTAS.items():
        for name, account in role.quotas.accounts[key].newest(ACCOUNTS_SHOWN_MAX, now_ms):
            found.append(Sample(_of_client(type, name), attribute, account.measure.measure(now_ms)))
            found.append(_throttled(type, name, account, now_ms))
    return found


def _share_groups(role: BrokerRole) -> list[Sample]:
    """The metrics of share groups (KIP-932): sessions and share partitions of those that fetch here, and what both
    coordinators have."""
    sessions = role.shares.sessions
    found = gauge(SHARE_SESSIONS + "ShareSessionsCount", len(sessions.by_owner))
    found += gauge(SHARE_SESSIONS + "SharePartitionsCount", sessions.entries)
    for held in islice(role.shares, SHARE_PARTITIONS_SHOWN_MAX):
        window = held.share.window
        if window is not None:
            key = held.share.key
            of = f",group={quote(key.group)},topic={held.partition.topic},partition={key.number}"
            found += gauge(f"{SHARE_PARTITIONS}InFlightMessageCount{of}", window.records)
            found += gauge(f"{SHARE_PARTITIONS}InFlightBatchCount{of}", len(window.batches))
    machine = role.groups.machine
    states = Counter(
        group.state()
        for shard in machine.shards.values()
        if shard.loaded
        for group in machine.kinds.share.groups(shard).values()
    )
    found.append(Sample(GROUP_COORDINATOR + ",protocol=share", "group-count", float(sum(states.values()))))
    for state in SHARE_STATES:
        found.append(Sample(f"{GROUP_COORDINATOR},state={state}", "share-group-count", float(states[state])))
    loaded = [shard.loaded for shard in role.share_state.machine.shards.values()]
    for state, count in (("active", sum(loaded)), ("loading", len(loaded) - sum(loaded))):
        found.append(Sample(f"{SHARE_COORDINATOR},state={state}", "num-partitions", float(count)))
    for number, offset in sorted(role.share_state.pruned.items()):
        found.append(
            Sample(
                f"{SHARE_COORDINATOR},topic={SHARE_STATE_TOPIC},partition={number}", "last-pruned-offset", float(offset)
            )
        )
    return found


def _mutations(role: ControllerRole, now_ms: int) -> list[Sample]:
    found: list[Sample] = []
    for name, account in role.soft.mutations.newest(ACCOUNTS_SHOWN_MAX, now_ms):
        tokens = account.measure.refill(account.bound, now_ms)
        found.append(Sample(_of_client("ControllerMutation", name), "tokens", tokens))
        found.append(_throttled("ControllerMutation", name, account, now_ms))
    return found


def _throttled(type: str, name: Charged, account: Account[Any], now_ms: int) -> Sample:
    return Sample(_of_client(type, name), "throttle-time", account.throttled.measure(now_ms))


def _of_client(type: str, name: Charged) -> str:
    """The MBean of those who share a quota. Signs that mean something in such a name are written as in a URL."""
    return f"kafka.server:type={type},user={quote(name.user)},client-id={quote(name.client_id)}"


def _telemetry(clients: Clients) -> list[Sample]:
    """How it goes with what clients push (KIP-714)."""
    found = gauge(TELEMETRY + "ClientMetricsInstanceCount", len(clients))
    found += gauge(TELEMETRY + "ClientMetricsUnknownSubscriptionRequestCount", clients.unknown_subscriptions)
    found += gauge(TELEMETRY + "ClientMetricsThrottleCount", clients.throttled)
    found += gauge(TELEMETRY + "ClientMetricsPluginErrorCount", clients.malformed)
    found += gauge(TELEMETRY + "SeriesPassedOverCount", clients.passed_over)
    return found


def _pushed(clients: Clients) -> Iterator[list[Sample]]:
    """What they push, `PUSHED_A_PART` numbers at a time. A client that comes or goes meanwhile may be missing."""
    for client in clients.known():
        own = [(key, client.attributes.get(key, "")) for key in SHOWN]
        series = list(client.series.items())
        for begin in range(0, len(series), PUSHED_A_PART):
            portion = series[begin : begin + PUSHED_A_PART]
            yield [Sample(name, "", value, (*labels, *own)) for (name, labels), value in portion]


def _cleaner(role: BrokerRole, now_ms: int) -> list[Sample]:
    """Percentages are whole numbers, times seconds, as Apache Kafka has them."""
    cleaner, stats = role.cleaner, role.cleaner.stats
    found = gauge(CLEANABLE + "max-dirty-percent", int(100 * stats.max_dirty_ratio))
    found += gauge(CLEANER + "max-compaction-delay-secs", stats.max_delay_ms // 1000)
    for path, disk in role.logs.directories.paths():
        aside = list(cleaner.uncleanable_in(disk))
        found += gauge(f'{CLEANABLE}uncleanable-partitions-count,logDirectory="{path}"', len(aside))
        size = sum(partition.log.size for partition in aside)
        found += gauge(f'{CLEANABLE}uncleanable-bytes,logDirectory="{path}"', size)
    if stats.cleaned_ms >= 0:
        found += gauge(CLEANABLE + "time-since-last-run-ms", now_ms - stats.cleaned_ms)
        found += gauge(CLEANER + "max-clean-time-secs", stats.clean_ms // 1000)
        found += gauge(CLEANER + "cleaner-recopy-percent", int(100 * stats.recopied_ratio))
        found += gauge(CLEANER + "max-buffer-utilization-percent", int(100 * stats.map_used_ratio))
    return found


def _scrubber(role: BrokerRole, wall_ms: int) -> list[Sample]:
    """How the reading of what is at rest goes."""
    scrubber = role.scrubber
    found = gauge(SCRUBBER + "BytesRead", scrubber.bytes_read)
    found += gauge(SCRUBBER + "FaultsFound", scrubber.faults_found)
    found += gauge(SCRUBBER + "FaultsRepaired", scrubber.faults_repaired)
    found += gauge(SCRUBBER + "DamagedFiles", len(scrubber.damaged))
    if scrubber.completed_ms:
        found += gauge(SCRUBBER + "TimeSinceLastCompletePassMs", max(0, wall_ms - scrubber.completed_ms))
    return found
