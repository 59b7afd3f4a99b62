"""The facts of a moment of the metadata log: which brokers are away, and which partitions are in trouble.

This file alone decides how a moment is read as facts (`actors/why/facts.py`). It makes one pass over the partitions, and
looks closer only at those in trouble. A broker that has replicas and is not registered is away: in the drafts' family
fencing ends a registration.
"""

import numpy as np
from numpy.typing import NDArray

from actors.replay.columns.moment import Moment
from actors.why.facts import EXAMPLES_MAX, ClusterFacts, Trouble, TroubledPartition
from fastpath.image import troubled_rows

Rows = NDArray[np.int64]


def facts_of(moment: Moment) -> ClusterFacts:
    """What the metadata say of the cluster at a moment."""
    ranks = _ranks(moment)
    leaderless, short, elsewhere = (_visible(moment, ranks, rows) for rows in troubled_rows.troubled(moment.columns))
    lacking_rows, lacking = troubled_rows.missing(moment.columns, short)
    _, _, firsts = troubled_rows.places(moment.columns, elsewhere)
    brokers = _brokers(moment)
    return ClusterFacts(
        now_ms=moment.time_ms,
        brokers=brokers,
        replicas={broker: moment.counts(broker)[0] for broker, state in brokers.items() if state != "active"},
        leaderless=_trouble(moment, ranks, leaderless),
        lacking=_by_broker(moment, ranks, lacking_rows, lacking),
        led_elsewhere=_by_broker(moment, ranks, elsewhere, firsts),
    )


def _brokers(moment: Moment) -> dict[int, str]:
    found = {broker: "away" for broker, (replicas, _, _) in moment.counters.all().items() if replicas}
    for one in moment.brokers():
        found[one.id] = "fenced" if one.fenced else "leaving" if one.in_controlled_shutdown else "active"
    return found


def _ranks(moment: Moment) -> NDArray[np.int64]:
    """Row of a topic -> its place among the names; -1: it is being deleted."""
    ranks = np.full(moment.topic_rows_end + 1, -1, dtype=np.int64)
    ranks[moment.topics] = np.arange(len(moment.topics))
    return ranks


def _visible(moment: Moment, ranks: NDArray[np.int64], rows: Rows) -> Rows:
    """Rows without those of topics that are being deleted."""
    return rows[ranks[troubled_rows.places(moment.columns, rows)[0]] >= 0]


def _by_broker(moment: Moment, ranks: NDArray[np.int64], rows: Rows, brokers: NDArray[np.int32]) -> dict[int, Trouble]:
    return {broker: _trouble(moment, ranks, rows[brokers == broker]) for broker in np.unique(brokers).tolist()}


def _trouble(moment: Moment, ranks: NDArray[np.int64], rows: Rows) -> Trouble:
    """The number of some partitions, and the first of them by topic and number."""
    if not len(rows):
        return Trouble()
    topics, numbers, _ = troubled_rows.places(moment.columns, rows)
    keys = ranks[topics] << 32 | numbers
    first = np.argpartition(keys, min(EXAMPLES_MAX, len(keys)) - 1)[:EXAMPLES_MAX]
    first = first[np.argsort(keys[first])]
    return Trouble(len(rows), tuple(_partition(moment, row) for row in rows[first].tolist()))


def _partition(moment: Moment, row: int) -> TroubledPartition:
    columns = moment.columns
    return TroubledPartition(
        moment.topic_name(columns.topic_of(row)),
        columns.number(row),
        columns.replicas(row),
        columns.isr(row),
        columns.leader(row),
    )
