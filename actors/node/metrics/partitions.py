"""The metrics of single partitions: their logs, their replicas in sync, how far a follower is behind.

This file alone decides how many are shown, and how they are read: in slices, from what a log keeps, as columns without an
object for each number. Sums over all partitions (the largest lag of a follower, the producer ids) come from the same pass.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from actors.broker.replication.partition import Partition
from actors.broker.replication.replicas import Replicas
from actors.node.metrics.family import GAUGE, Family, Sample
from fastpath.meters.partition_numbers import COLUMNS, read

SLICE = 500
"""Partitions that are read in one go: about a quarter of a millisecond."""
SHOWN_MAX = 10_000
"""Partitions whose numbers are shown, those first that have been here for longest; all are in the sums."""
BY = ("topic", "partition")
REPLICA = ("clientId", "topic", "partition")
LOG = "kafka.log:type=Log,name="
PARTITION = "kafka.cluster:type=Partition,name="
LAGS = "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId=X"
FOLLOWERS = "Replica"
FAMILIES = {
    "size": Family("kafka_log_log_size", GAUGE, "Bytes of the log files of a replica here.", BY, LOG + "Size"),
    "segments": Family("kafka_log_log_numlogsegments", GAUGE, "Its segments.", BY, LOG + "NumLogSegments"),
    "start": Family("kafka_log_log_logstartoffset", GAUGE, "Its first offset.", BY, LOG + "LogStartOffset"),
    "end": Family("kafka_log_log_logendoffset", GAUGE, "The offset of its next record.", BY, LOG + "LogEndOffset"),
    "under_replicated": Family(
        "kafka_cluster_partition_underreplicated",
        GAUGE,
        "1 if a partition that is led here lacks replicas in sync.",
        BY,
        PARTITION + "UnderReplicated",
    ),
    "under_min_isr": Family(
        "kafka_cluster_partition_underminisr",
        GAUGE,
        "1 if a partition that is led here has fewer replicas in sync than min.insync.replicas.",
        BY,
        PARTITION + "UnderMinIsr",
    ),
    "at_min_isr": Family(
        "kafka_cluster_partition_atminisr",
        GAUGE,
        "1 if a partition that is led here has just min.insync.replicas in sync.",
        BY,
        PARTITION + "AtMinIsr",
    ),
    "replicas": Family(
        "kafka_cluster_partition_replicascount",
        GAUGE,
        "Replicas of a partition that is led here; 0 elsewhere.",
        BY,
        PARTITION + "ReplicasCount",
    ),
    "in_sync": Family(
        "kafka_cluster_partition_insyncreplicascount",
        GAUGE,
        "Those of them that are in sync.",
        BY,
        PARTITION + "InSyncReplicasCount",
    ),
}
LAG = Family(
    "kafka_server_fetcherlagmetrics_consumerlag",
    GAUGE,
    "Records that a follower here lacks of what its leader has committed.",
    REPLICA,
    LAGS,
)
MAX_LAG = Family(
    "kafka_server_replicafetchermanager_maxlag",
    GAUGE,
    "The largest of these.",
    ("clientId",),
    "kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica",
)
PRODUCERS = Family(
    "kafka_server_replicamanager_produceridcount",
    GAUGE,
    "Producer ids that the logs here remember.",
    (),
    "kafka.server:type=ReplicaManager,name=ProducerIdCount",
)
EVERY = (*FAMILIES.values(), LAG, MAX_LAG, PRODUCERS)


class Columns(NamedTuple):
    """The numbers of a slice of partitions: `table` has a row for each of them, and a column for each of `COLUMNS`."""

    partitions: Sequence[Any]
    table: NDArray[np.int64]

    def of(self, column: str) -> list[int]:
        """One number of each partition."""
        found: list[int] = self.table[:, COLUMNS.index(column)].tolist()
        return found


def partition_parts(replicas: Replicas) -> Iterator[list[Sample | Columns]]:
    """All partitions, a slice a part; then the sums. Partitions that come or go meanwhile may be missing."""
    shown, lag, producers = 0, 0, 0
    portion: list[Partition] = []
    topics = list(replicas.by_id.values())
    for place, topic in enumerate(topics):
        portion += topic.values()
        while len(portion) >= SLICE or (place == len(topics) - 1 and portion):
            now, portion = portion[:SLICE], portion[SLICE:]
            table, remembered = read(now, 0, len(now))
            producers += remembered
            lag = max(lag, int(table[:, COLUMNS.index("lag")].max()))
            room = max(0, SHOWN_MAX - shown)
            shown += len(now)
            yield [Columns(now[:room], table[:room])] if room else []
    yield [Sample(MAX_LAG, (FOLLOWERS,), lag), Sample(PRODUCERS, (), producers)]
