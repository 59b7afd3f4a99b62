"""The metrics of a broker's replicas and logs (Apache Kafka's `BrokerTopicMetrics`, `ReplicaManager`, `LogManager`,
`LogCleaner`; KIP-405's are not there, as nothing is tiered).

This file alone decides what is shown of topics, of which at most `TOPICS_SHOWN_MAX` have numbers of their own. All are in
the numbers without a topic, those that are gone among them.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from actors.broker.lifecycle.lifecycle import BrokerState
from actors.node.metrics.family import (
    Row,
    Summary,
    Value,
    counter,
    counters,
    gauge,
    gauges,
    summary,
    summary_of,
)
from actors.node.net.request_channel import RequestChannel
from actors.node.quorum.replica import QuorumReplica
from actors.node.roles.broker.role import BrokerRole
from actors.node.runtime.runtime import Runtime
from fastpath.meters.traffic import Traffic

MS = 1_000_000.0
TOPICS_SHOWN_MAX = 1_000
TOPICS = "kafka.server:type=BrokerTopicMetrics,name="
REPLICAS = "kafka.server:type=ReplicaManager,name="
CLEANER = "kafka.log:type=LogCleaner,name="
CLEANABLE = "kafka.log:type=LogCleanerManager,name="
RELEASED_STATE = {BrokerState.INITIAL: 1, BrokerState.FENCED: 3, BrokerState.ACTIVE: 3, BrokerState.SHUTDOWN: 7}
STOPPING = 6


class OfBroker(NamedTuple):
    """A node with a broker role, as far as its metrics are read."""

    role: BrokerRole
    runtime: Runtime
    quorum: QuorumReplica
    requests: RequestChannel


def _whole(name: str, mbean: str, help: str, part: Callable[[Traffic], int]) -> Row[OfBroker]:
    return counter(name, TOPICS + mbean, help, lambda of: part(of.role.replicas.traffic))


def _traffic(of: OfBroker) -> Iterator[tuple[str, Traffic]]:
    for topic, partitions in islice(of.role.replicas.by_name.items(), TOPICS_SHOWN_MAX):
        for partition in islice(partitions.values(), 1):
            yield topic, partition.traffic


def _by_topic(name: str, mbean: str, help: str, part: Callable[[Traffic], int]) -> Row[OfBroker]:
    """A number of all topics, without a label, and of each of them."""

    def read(of: OfBroker) -> Iterator[tuple[tuple[str, ...], Value]]:
        yield (), part(of.role.replicas.traffic)
        for topic, traffic in _traffic(of):
            yield (topic,), part(traffic)

    return counters(name, TOPICS + mbean, ("topic",), help, read)


BY_TOPIC: tuple[tuple[str, str, str, Callable[[Traffic], int]], ...] = (
    ("messagesin", "MessagesInPerSec", "Records that producers have written.", lambda traffic: traffic.messages_in),
    ("bytesin", "BytesInPerSec", "Bytes that producers have written.", lambda traffic: traffic.bytes_in),
    ("bytesout", "BytesOutPerSec", "Bytes that consumers were sent.", lambda traffic: traffic.bytes_out),
    (
        "bytesrejected",
        "BytesRejectedPerSec",
        "Bytes of batches that were larger than their topic allows.",
        lambda traffic: traffic.bytes_rejected,
    ),
    (
        "totalproducerequests",
        "TotalProduceRequestsPerSec",
        "Partitions in Produce requests.",
        lambda traffic: traffic.produces,
    ),
    (
        "failedproducerequests",
        "FailedProduceRequestsPerSec",
        "Those of them that were answered with an error.",
        lambda traffic: traffic.failed_produces,
    ),
    (
        "totalfetchrequests",
        "TotalFetchRequestsPerSec",
        "Partitions in answers to Fetch requests.",
        lambda traffic: traffic.fetches,
    ),
    (
        "failedfetchrequests",
        "FailedFetchRequestsPerSec",
        "Those of them that were answered with an error.",
        lambda traffic: traffic.failed_fetches,
    ),
)
NAME = "kafka_server_brokertopicmetrics_"


def _state(of: OfBroker) -> float:
    """The state of a broker in Apache Kafka's numbers."""
    lifecycle = of.role.lifecycle
    if lifecycle.stop_at:
        return RELEASED_STATE[BrokerState.SHUTDOWN]
    return STOPPING if lifecycle.stopping else RELEASED_STATE[lifecycle.state]


def _uncleanable(of: OfBroker, sized: bool) -> Iterator[tuple[tuple[str, ...], Value]]:
    for path, disk in of.role.logs.directories.paths():
        aside = list(of.role.cleaner.uncleanable_in(disk))
        yield (path,), sum(partition.log.size for partition in aside) if sized else len(aside)


def _cleaned(read: Callable[[OfBroker], float]) -> Callable[[OfBroker], float | None]:
    """A number of the last cleaning: absent before there was one."""
    return lambda of: read(of) if of.role.cleaner.stats.cleaned_ms >= 0 else None


def _applied_ms(of: OfBroker) -> int:
    return of.role.metadata_timestamp_ms


BROKERS: tuple[Row[OfBroker], ...] = (
    *(_by_topic(f"{NAME}{name}_total", mbean, help, part) for name, mbean, help, part in BY_TOPIC),
    _whole(
        NAME + "replicationbytesin_total",
        "ReplicationBytesInPerSec",
        "Bytes that this broker has taken in from leaders.",
        lambda traffic: traffic.replication_bytes_in,
    ),
    _whole(
        NAME + "replicationbytesout_total",
        "ReplicationBytesOutPerSec",
        "Bytes that followers were sent.",
        lambda traffic: traffic.replication_bytes_out,
    ),
    _whole(
        NAME + "reassignmentbytesin_total",
        "ReassignmentBytesInPerSec",
        "Those of the bytes from leaders that were for replicas that are being added.",
        lambda traffic: traffic.reassignment_bytes_in,
    ),
    _whole(
        NAME + "reassignmentbytesout_total",
        "ReassignmentBytesOutPerSec",
        "Those of the bytes to followers that were for replicas that are being added.",
        lambda traffic: traffic.reassignment_bytes_out,
    ),
    _whole(
        NAME + "invalidmagicnumberrecords_total",
        "InvalidMagicNumberRecordsPerSec",
        "Batches that were refused for their magic.",
        lambda traffic: traffic.wrong_magic,
    ),
    _whole(
        NAME + "invalidmessagecrcrecords_total",
        "InvalidMessageCrcRecordsPerSec",
        "Batches that were refused as damaged.",
        lambda traffic: traffic.wrong_crc,
    ),
    _whole(
        NAME + "invalidoffsetorsequencerecords_total",
        "InvalidOffsetOrSequenceRecordsPerSec",
        "Batches that were refused for their sequence number.",
        lambda traffic: traffic.wrong_sequence,
    ),
    gauge(
        "kafka_controller_kafkaserver_metadatalag",
        "KIP-631: kafka.controller:type=KafkaServer,name=MetadataLag",
        "Committed metadata records that this broker has not replayed. The domain is the controller's (R631-202).",
        lambda of: max(0, of.quorum.raft.committed_offset - of.role.cache.image.next_offset),
    ),
    gauge(
        "kafka_server_kafkaserver_brokerstate",
        "kafka.server:type=KafkaServer,name=BrokerState",
        "1 starting, 3 running or fenced, 6 stopping, 7 stopped.",
        _state,
    ),
    gauge(
        "kafka_server_brokermetadatametrics_last_applied_record_offset",
        "kafka.server:type=broker-metadata-metrics,name=last-applied-record-offset",
        "The newest metadata record that this broker has applied.",
        lambda of: of.role.cache.image.next_offset - 1,
    ),
    gauge(
        "kafka_server_brokermetadatametrics_last_applied_record_timestamp",
        "kafka.server:type=broker-metadata-metrics,name=last-applied-record-timestamp",
        "When it was written, in ms since 1970.",
        lambda of: _applied_ms(of) or None,
    ),
    gauge(
        "kafka_server_brokermetadatametrics_last_applied_record_lag_ms",
        "kafka.server:type=broker-metadata-metrics,name=last-applied-record-lag-ms",
        "How long ago that was, in ms.",
        lambda of: max(0, of.runtime.now.wall_ms - _applied_ms(of)) if _applied_ms(of) else None,
    ),
    gauge(
        "kafka_server_replicamanager_partitioncount",
        REPLICAS + "PartitionCount",
        "Replicas here.",
        lambda of: of.role.replicas.census.here,
    ),
    gauge(
        "kafka_server_replicamanager_leadercount",
        REPLICAS + "LeaderCount",
        "Partitions that this broker leads.",
        lambda of: of.role.replicas.census.led,
    ),
    gauge(
        "kafka_server_replicamanager_underreplicatedpartitions",
        REPLICAS + "UnderReplicatedPartitions",
        "Those of them that lack replicas in sync.",
        lambda of: of.role.replicas.census.under_replicated,
    ),
    gauge(
        "kafka_server_replicamanager_underminisrpartitioncount",
        REPLICAS + "UnderMinIsrPartitionCount",
        "Those of them that have fewer than min.insync.replicas in sync: producers with acks=all are refused.",
        lambda of: of.role.replicas.census.under_min_isr,
    ),
    gauge(
        "kafka_server_replicamanager_atminisrpartitioncount",
        REPLICAS + "AtMinIsrPartitionCount",
        "Those of them that have just min.insync.replicas in sync.",
        lambda of: of.role.replicas.census.at_min_isr,
    ),
    gauge(
        "kafka_server_replicamanager_reassigningpartitions",
        REPLICAS + "ReassigningPartitions",
        "Those of them whose replicas are being changed.",
        lambda of: of.role.replicas.census.moving,
    ),
    gauge(
        "kafka_server_replicamanager_offlinereplicacount",
        REPLICAS + "OfflineReplicaCount",
        "Replicas here whose files cannot be used.",
        lambda of: len(of.role.replicas.offline),
    ),
    gauges(
        "rayft_log_directory_without_room",
        "",
        ("logDirectory",),
        "1 since the first append that found no room there, until one finds room and none is refused for 5 s; else 0.",
        lambda of: (
            ((path,), int(disk in of.role.logs.directories.full.lacks))
            for path, disk in of.role.logs.directories.paths()
        ),
    ),
    gauge(
        "rayft_partitions_without_room",
        "",
        "Partitions led here that another member of their ISR is asked to lead, since they find no room on this disk.",
        lambda of: len(of.role.replicas.full),
    ),
    counter(
        "kafka_server_replicamanager_isrexpands_total",
        REPLICAS + "IsrExpandsPerSec",
        "Committed changes with which a replica came into an ISR.",
        lambda of: of.role.alter_isr.meters["IsrExpandsPerSec"].count,
    ),
    counter(
        "kafka_server_replicamanager_isrshrinks_total",
        REPLICAS + "IsrShrinksPerSec",
        "Committed changes with which a replica left an ISR.",
        lambda of: of.role.alter_isr.meters["IsrShrinksPerSec"].count,
    ),
    counter(
        "kafka_server_replicamanager_failedisrupdates_total",
        REPLICAS + "FailedIsrUpdatesPerSec",
        "Changes of an ISR that were refused.",
        lambda of: of.role.alter_isr.meters["FailedIsrUpdatesPerSec"].count,
    ),
    gauges(
        "rayft_isr_proposals",
        "KIP-497",
        ("stage",),
        "Changes of ISRs that wait to be sent, are sent, or are to be sent again.",
        lambda of: (((stage,), count) for stage, count in of.role.replicas.proposals.counts()),
    ),
    gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
        "Log directories whose disk has failed.",
        lambda of: of.role.logs.directories.offline_count,
    ),
    summary(
        "kafka_log_logflushstats_logflushrateandtimems",
        "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
        "How long flushes of logs took, in ms.",
        lambda of: summary_of(of.role.logs.flushes.spent, of.runtime.stopwatch(), MS),
    ),
    gauge(
        "kafka_log_logcleanermanager_max_dirty_percent",
        CLEANABLE + "max-dirty-percent",
        "Of the compacted log that is dirtiest, how much of it, 0 to 100.",
        lambda of: int(100 * of.role.cleaner.stats.max_dirty_ratio),
    ),
    gauge(
        "kafka_log_logcleaner_max_compaction_delay_secs",
        CLEANER + "max-compaction-delay-secs",
        "How long max.compaction.lag.ms is over somewhere, in s.",
        lambda of: of.role.cleaner.stats.max_delay_ms // 1000,
    ),
    gauges(
        "kafka_log_logcleanermanager_uncleanable_partitions_count",
        CLEANABLE + "uncleanable-partitions-count",
        ("logDirectory",),
        "Logs that the cleaner has set aside.",
        lambda of: _uncleanable(of, False),
    ),
    gauges(
        "kafka_log_logcleanermanager_uncleanable_bytes",
        CLEANABLE + "uncleanable-bytes",
        ("logDirectory",),
        "Their size in bytes.",
        lambda of: _uncleanable(of, True),
    ),
    gauge(
        "kafka_log_logcleanermanager_time_since_last_run_ms",
        CLEANABLE + "time-since-last-run-ms",
        "How long ago the last cleaning ended, in ms.",
        _cleaned(lambda of: of.runtime.now.mono_ms - of.role.cleaner.stats.cleaned_ms),
    ),
    gauge(
        "kafka_log_logcleaner_max_clean_time_secs",
        CLEANER + "max-clean-time-secs",
        "How long the last cleaning took, in s.",
        _cleaned(lambda of: of.role.cleaner.stats.clean_ms // 1000),
    ),
    gauge(
        "kafka_log_logcleaner_cleaner_recopy_percent",
        CLEANER + "cleaner-recopy-percent",
        "Bytes that the last cleaning wrote, of those that it read, 0 to 100.",
        _cleaned(lambda of: int(100 * of.role.cleaner.stats.recopied_ratio)),
    ),
    gauge(
        "kafka_log_logcleaner_max_buffer_utilization_percent",
        CLEANER + "max-buffer-utilization-percent",
        "How full the map of keys of the last cleaning was, 0 to 100.",
        _cleaned(lambda of: int(100 * of.role.cleaner.stats.map_used_ratio)),
    ),
    counter(
        "rayft_scrubber_bytes_read_total",
        "",
        "Bytes at rest that were read again since the start.",
        lambda of: of.role.scrubber.bytes_read,
    ),
    counter(
        "rayft_scrubber_faults_found_total",
        "",
        "Faults that were found in them.",
        lambda of: of.role.scrubber.faults_found,
    ),
    counter(
        "rayft_scrubber_faults_repaired_total",
        "",
        "Faults that were mended.",
        lambda of: of.role.scrubber.faults_repaired,
    ),
    gauge(
        "rayft_scrubber_damaged_files",
        "",
        "Files with damage that could not be mended.",
        lambda of: len(of.role.scrubber.damaged),
    ),
    gauge(
        "rayft_scrubber_time_since_last_complete_pass_ms",
        "",
        "How long ago every directory was read whole, in ms; absent before.",
        lambda of: (
            max(0, of.runtime.now.wall_ms - of.role.scrubber.completed_ms) if of.role.scrubber.completed_ms else None
        ),
    ),
    summary(
        "kafka_server_addpartitionstotxnmanager_verificationtimems",
        "kafka.server:type=AddPartitionsToTxnManager,name=VerificationTimeMs",
        "How long coordinators took to say whether a partition is in a transaction, in ms.",
        lambda of: summary_of(of.role.verification.spent_ms),
    ),
    summary(
        "kafka_server_addpartitionstotxnmanager_verificationfailurerate",
        "kafka.server:type=AddPartitionsToTxnManager,name=VerificationFailureRate",
        "How often it was not, or they could not say.",
        lambda of: Summary(of.role.verification.refusals),
    ),
)
"""The rows of a broker, besides those of its coordinators and of single partitions."""
