"""The metrics of a broker's coordinators: groups of all kinds, transactions, share partitions (KIP-848, KIP-932, KIP-1071).

This file alone decides what of them is shown. How long partitions took to load, and how many there are, is kept; groups and
offsets are counted in slices.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from actors.metadata.topic_names import SHARE_STATE_TOPIC
from actors.node.metrics.broker import OfBroker
from actors.node.metrics.family import GAUGE, Family, Row, Sample, gauge, gauges
from actors.node.runtime.meters import Histogram

GROUPS = "kafka.server:type=group-coordinator-metrics,name="
TRANSACTIONS = "kafka.server:type=transaction-coordinator-metrics,name="
SHARES = "kafka.server:type=share-coordinator-metrics,name="
CLASSIC = "kafka.server:type=GroupMetadataManager,name="
SHARE_PARTITIONS_SHOWN_MAX = 1_000
"""Share partitions whose numbers are shown: groups are as many as clients like."""
GROUPS_A_PART = 300
STATES = {
    "classic": ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty"),
    "consumer": ("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
    "share": ("Empty", "Stable", "Dead"),
    "streams": ("Empty", "NotReady", "Assigning", "Reconciling", "Stable", "Dead"),
}
"""The states that are shown of each kind, with 0 where there is no such group."""

GROUP_COUNT = Family(
    "kafka_server_group_coordinator_metrics_group_count",
    GAUGE,
    "Groups that this broker coordinates, by their kind.",
    ("protocol",),
    GROUPS + "group-count",
)
BY_STATE = {
    kind: Family(
        f"kafka_server_group_coordinator_metrics_{kind}_group_count",
        GAUGE,
        f"Those of the kind {kind}, by state.",
        ("state",),
        f"{GROUPS}{kind}-group-count",
    )
    for kind in ("consumer", "share", "streams")
}
ALL_GROUPS = Family(
    "kafka_server_groupmetadatamanager_numgroups", GAUGE, "Classic groups that this broker coordinates.", (),
    CLASSIC + "NumGroups",
)  # fmt: skip
CLASSIC_BY_STATE = {
    state: Family(
        f"kafka_server_groupmetadatamanager_numgroups{state.lower()}",
        GAUGE,
        f"Those of them in the state {state}.",
        (),
        f"{CLASSIC}NumGroups{state}",
    )
    for state in STATES["classic"]
}
OFFSETS = Family(
    "kafka_server_groupmetadatamanager_numoffsets", GAUGE, "Offsets that groups here have committed.", (),
    CLASSIC + "NumOffsets",
)  # fmt: skip
COUNTED = (GROUP_COUNT, *BY_STATE.values(), ALL_GROUPS, *CLASSIC_BY_STATE.values(), OFFSETS)


def group_parts(of: OfBroker) -> Iterator[list[Sample]]:
    """Groups and offsets, counted `GROUPS_A_PART` at a time. What comes or goes meanwhile may be missing."""
    machine = of.role.groups.machine
    states: dict[str, Counter[str]] = {kind: Counter() for kind in STATES}
    offsets = 0
    for shard in list(machine.shards.values()):
        if not shard.loaded:
            continue
        for kind in machine.kinds:
            groups = list(shard.of(kind.type).values())
            for begin in range(0, len(groups), GROUPS_A_PART):
                states[kind.type].update(kind.listed(group)[1] for group in groups[begin : begin + GROUPS_A_PART])
                yield []
        committed = list(shard.offsets.values())
        for begin in range(0, len(committed), GROUPS_A_PART):
            offsets += sum(map(len, committed[begin : begin + GROUPS_A_PART]))
            yield []
    found = [Sample(GROUP_COUNT, (kind,), sum(of_kind.values())) for kind, of_kind in states.items()]
    for type, family in BY_STATE.items():
        found += [Sample(family, (state,), states[type][state]) for state in STATES[type]]
    found.append(Sample(ALL_GROUPS, (), sum(states["classic"].values())))
    found += [Sample(family, (), states["classic"][state]) for state, family in CLASSIC_BY_STATE.items()]
    found.append(Sample(OFFSETS, (), offsets))
    yield found


def _loading(type: str, source: str, load: "Loaded") -> tuple[Row[OfBroker], ...]:
    name = f"kafka_server_{type}_metrics_partition_load_time_"
    return (
        gauge(
            name + "max",
            source + "partition-load-time-max",
            "How long partitions took to load before they were coordinated here, in ms: the longest.",
            lambda of: load(of).quantile(1.0),
        ),
        gauge(
            name + "avg",
            source + "partition-load-time-avg",
            "How long partitions took to load before they were coordinated here, in ms: the average.",
            lambda of: load(of).mean,
        ),
    )


class Loaded:
    """How long the partitions of one coordinator took to load."""

    def __init__(self, part: str) -> None:
        self._part = part

    def __call__(self, of: OfBroker) -> Histogram:
        found: Histogram = getattr(of.role, self._part).load_ms
        return found


def _by_loading(loaded: list[bool]) -> list[tuple[tuple[str, ...], float]]:
    return [(("active",), sum(loaded)), (("loading",), len(loaded) - sum(loaded))]


def _in_flight(of: OfBroker, batches: bool) -> Iterator[tuple[tuple[str, ...], float]]:
    for held in islice(of.role.shares, SHARE_PARTITIONS_SHOWN_MAX):
        window = held.share.window
        if window is not None:
            key = held.share.key
            labels = (key.group, held.partition.topic, str(key.number))
            yield labels, len(window.batches) if batches else window.records


SHARE = ("group", "topic", "partition")
COORDINATORS: tuple[Row[OfBroker], ...] = (
    *_loading("group_coordinator", GROUPS, Loaded("groups")),
    *_loading("transaction_coordinator", TRANSACTIONS, Loaded("transactions")),
    *_loading("share_coordinator", SHARES, Loaded("share_state")),
    gauges(
        "kafka_server_group_coordinator_metrics_num_partitions",
        GROUPS + "num-partitions",
        ("state",),
        "Partitions of __consumer_offsets that lead here, active or loading.",
        lambda of: _by_loading([shard.loaded for shard in of.role.groups.machine.shards.values()]),
    ),
    gauge(
        "rayft_transactional_ids",
        "",
        "Transactional ids that this broker coordinates.",
        lambda of: sum([len(shard.entries) for shard in of.role.transactions.machine.shards.values()]),
    ),
    gauge(
        "rayft_open_transactions",
        "",
        "Transactions of them that are open.",
        lambda of: sum([len(shard.open) for shard in of.role.transactions.machine.shards.values()]),
    ),
)
"""The rows of coordinators that every broker has."""
SHARE_GROUPS: tuple[Row[OfBroker], ...] = (
    gauge(
        "kafka_server_sharesessioncache_sharesessionscount",
        "KIP-932: ShareSessionCache,name=ShareSessionsCount",
        "Sessions of members of share groups that fetch here.",
        lambda of: len(of.role.shares.sessions.by_owner),
    ),
    gauge(
        "kafka_server_sharesessioncache_sharepartitionscount",
        "KIP-932: ShareSessionCache,name=SharePartitionsCount",
        "Partitions in all of them.",
        lambda of: of.role.shares.sessions.entries,
    ),
    gauges(
        "kafka_server_sharepartitionmetrics_inflightmessagecount",
        "KIP-932: SharePartitionMetrics,name=InFlightMessageCount",
        SHARE,
        "Records between the first that is not done and the last that was given out.",
        lambda of: _in_flight(of, False),
    ),
    gauges(
        "kafka_server_sharepartitionmetrics_inflightbatchcount",
        "KIP-932: SharePartitionMetrics,name=InFlightBatchCount",
        SHARE,
        "In how many batches they are.",
        lambda of: _in_flight(of, True),
    ),
    gauges(
        "kafka_server_share_coordinator_metrics_num_partitions",
        SHARES + "num-partitions",
        ("state",),
        "Partitions of __share_group_state that lead here, active or loading.",
        lambda of: _by_loading([shard.loaded for shard in of.role.share_state.machine.shards.values()]),
    ),
    gauges(
        "kafka_server_share_coordinator_metrics_last_pruned_offset",
        SHARES + "last-pruned-offset",
        ("topic", "partition"),
        "Below which offset their log was deleted last.",
        lambda of: (
            ((SHARE_STATE_TOPIC, str(number)), offset) for number, offset in sorted(of.role.share_state.pruned.items())
        ),
    ),
)
"""The rows of a broker that serves share groups."""
