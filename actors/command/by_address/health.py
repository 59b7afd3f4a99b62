"""`rayft health`, once it runs: what is wrong with a cluster, a sentence for each fault and the command that helps.

This file alone decides what a fault is. It asks only what every client may ask, so that it works on Apache Kafka too.
"""

import argparse
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from actors.client.errors import ClientError
from actors.client.metadata import Topic
from actors.client.operations import cluster as operations
from actors.client.operations import topics
from actors.client.operations.cluster import Cluster, Quorum
from actors.command.by_address.connection import connected
from actors.command.output import listing
from actors.command.output.listing import TEXT, Listing
from actors.printable import printable

UNWELL = 2
FAULTS = Listing({"fault": TEXT, "help": TEXT})
NAMED_MAX = 3
"""The most partitions that are named in a sentence."""
CAUGHT_UP_MS = 10_000
"""How long a voter may be behind the leader, ms; behind for longer it is a fault."""


class HealthFault(NamedTuple):
    """Something that is wrong."""

    fault: str
    """A sentence without its stop."""
    help: str
    """What to type or to do against it."""


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code. Raises ClusterError if no broker answers."""
    with connected(options) as kafka:
        cluster = kafka.run(operations.describe_cluster())
        found = kafka.run(topics.describe())
        quorum: Quorum | None = None
        why = ""
        try:
            quorum = kafka.run(operations.describe_quorum())
        except ClientError as error:
            why = str(error)
    faults = [*_of_quorum(quorum), *_of_partitions(cluster, found)]
    if options.output == "table":
        for one in faults:
            print(printable(f"{one.fault}: {one.help}"))
        print(f"{len(faults)} {'fault' if len(faults) == 1 else 'faults'}" if faults else _well(cluster, quorum, found))
    else:
        rows: list[dict[str, Any]] = [one._asdict() for one in faults]
        listing.show(rows, FAULTS, options.output)
    if why:
        print(f"rayft: the quorum of controllers is not looked at: {why}", file=sys.stderr)
    return UNWELL if faults else 0


def _well(cluster: Cluster, quorum: Quorum | None, found: dict[str, Topic]) -> str:
    leader = f"controller {quorum.leader} leads, epoch {quorum.leader_epoch}, " if quorum is not None else ""
    count = sum(len(one.partitions) for one in found.values())
    return f"well: {leader}{len(cluster.brokers)} brokers, {count} partitions with all their replicas"


def _of_quorum(quorum: Quorum | None) -> Iterator[HealthFault]:
    if quorum is None:
        return
    leader = next((one for one in quorum.voters if one.id == quorum.leader), None)
    if leader is None:
        yield HealthFault("no controller leads", "start controllers until a majority runs")
        return
    for one in quorum.voters:
        if one.id == quorum.leader or leader.last_caught_up_ms < 0:
            continue
        behind_ms = leader.last_caught_up_ms - one.last_caught_up_ms
        if one.last_caught_up_ms < 0 or behind_ms > CAUGHT_UP_MS:
            since = f" for {behind_ms // 1000} s" if one.last_caught_up_ms >= 0 else ""
            yield HealthFault(
                f"controller {one.id} does not follow the leader{since}",
                f"start it, or read the log of controller {one.id}",
            )


def _of_partitions(cluster: Cluster, found: dict[str, Topic]) -> Iterator[HealthFault]:
    rows = [(one.name, part) for one in found.values() for part in one.partitions.values()]
    missing: dict[int, int] = {}
    for _, part in rows:
        for replica in part.replicas:
            if replica not in cluster.brokers:
                missing[replica] = missing.get(replica, 0) + 1
    for broker, count in sorted(missing.items()):
        yield HealthFault(f"broker {broker} is away and has replicas of {_count(count)}", f"start broker {broker}")
    without = [f"{topic}/{part.number}" for topic, part in rows if part.leader < 0]
    if without:
        yield HealthFault(
            f"{_count(len(without))} without a leader ({_few(without)})",
            "rayft topic describe TOPIC names the replicas; start one",
        )
    behind = [
        f"{topic}/{part.number}" for topic, part in rows
        if part.leader >= 0 and len(part.isr) < len(part.replicas) and all(one in cluster.brokers for one in part.replicas)
    ]  # fmt: skip
    if behind:
        yield HealthFault(
            f"{_count(len(behind))} with replicas that do not follow ({_few(behind)})",
            "rayft topic describe TOPIC names the brokers that the ISR lacks; read their logs",
        )


def _count(number: int) -> str:
    return f"{number} {'partition' if number == 1 else 'partitions'}"


def _few(names: list[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more
