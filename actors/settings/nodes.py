"""Every setting of a node, in its properties file or in a BROKER config resource, joined from the tables of its subjects."""

from itertools import chain

from actors.settings.keys import ConfigKey
from actors.settings.tables import (
    groups,
    log,
    metadata,
    network,
    node,
    offsets,
    replication,
    security,
    share,
    streams,
    transactions,
)

BROKER_CONFIGS: dict[str, ConfigKey] = {
    row.name: row
    for row in chain(
        node.ROWS,
        security.ROWS,
        metadata.ROWS,
        log.ROWS,
        replication.ROWS,
        network.ROWS,
        groups.ROWS,
        share.ROWS,
        streams.ROWS,
        offsets.ROWS,
        transactions.ROWS,
    )
}
"""The settings of a node, in the order in which the tables of docs/operations.md and an answer to DescribeConfigs have
them."""

FLUSH_MS = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
ROLL = ("log.roll.ms", "log.roll.hours")
JITTER = ("log.roll.jitter.ms", "log.roll.jitter.hours")

BROKER_SYNONYMS = {name: names for names in (FLUSH_MS, RETENTION, ROLL, JITTER) for name in names}
"""The names of node settings that say the same in other units, the strongest first."""

UNIT_MS = {"ms": 1, "minutes": 60_000, "hours": 3_600_000}
"""The milliseconds of a unit in which node settings count whose name ends in that word."""

UNSHOWN = frozenset({
    "leader.replication.throttled.rate", "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
})  # fmt: skip
"""The settings of a broker that are shown only where they have been set: kafka-reassign-partitions.sh takes one that is
shown for a throttle that is still there."""
