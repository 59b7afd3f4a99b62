"""`rayft health`, once it runs: what is wrong with a cluster, a sentence for each fault and the command that helps.

This file alone decides what a fault is. It asks only what every client may ask, so that it works on Apache Kafka too.
"""

import argparse
import datetime
import re
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

from actors.client.errors import ClientError
from actors.client.metadata import Topic
from actors.client.operations import cluster as operations
from actors.client.operations import topics
from actors.client.operations.cluster import Cluster, Quorum
from actors.command.by_address.connection import connected, wrong
from actors.command.output import colours, listing
from actors.command.output.listing import BOOL, TEXT, Listing
from actors.command.output.pipe import open_pipe
from actors.host.client.blocking import Kafka
from actors.printable import printable

UNWELL = 2
FAULTS = Listing({"fault": TEXT, "help": TEXT})
CHANGES = Listing({"time": TEXT, "well": BOOL, "faults": [FAULTS.kinds]})
ANSWER_S = 30.0
"""How long each answer may take, s."""
WATCH_S = 1.0
"""The time between two looks, s."""
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


class SeenCluster(NamedTuple):
    """A cluster as it was seen once."""

    faults: list[HealthFault]
    well: str
    """The sentence about it if there is no fault."""
    unseen: str = ""
    """Why the quorum could not be looked at; empty: it was."""


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code. Raises ClusterError if no broker answers."""
    if options.watch and options.output in ("json", "arrow"):
        wrong(f"--watch has no end, and {options.output} has one: write -o jsonl, or leave --watch out")
    with connected(options) as kafka:
        seen = _look(kafka)
        if options.watch:
            return _watch(kafka, options.output, seen)
    if options.output == "table":
        _say(seen, "")
    else:
        listing.show([one._asdict() for one in seen.faults], FAULTS, options.output)
    _tell_unseen(seen)
    return UNWELL if seen.faults else 0


def _look(kafka: Kafka) -> SeenCluster:
    """Look at the cluster. Raises ClientError if no broker answers."""
    cluster = kafka.run(operations.describe_cluster(), ANSWER_S)
    found = kafka.run(topics.describe(), ANSWER_S)
    quorum: Quorum | None = None
    why = ""
    try:
        quorum = kafka.run(operations.describe_quorum(), ANSWER_S)
    except ClientError as error:
        why = str(error)
    return SeenCluster([*_of_quorum(quorum), *_of_partitions(cluster, found)], _well(cluster, quorum, found), why)


def _say(seen: SeenCluster, when: str) -> None:
    for one in seen.faults:
        colours.say(printable(f"{when}{one.fault}: {one.help}"), "red")
    count = len(seen.faults)
    if not seen.faults:
        colours.say(printable(f"{when}{seen.well}"), "green")
    elif not when:
        print(f"{count} {'fault' if count == 1 else 'faults'}")


def _tell_unseen(seen: SeenCluster) -> None:
    if seen.unseen:
        print(f"rayft: the quorum of controllers is not looked at: {seen.unseen}", file=sys.stderr)


# ---- --watch


def _watch(kafka: Kafka, how: str, seen: SeenCluster) -> int:
    """Print what there is, and then each change of it, until Ctrl-C. Returns the exit code."""
    _tell_unseen(seen)
    shown = None
    try:
        while True:
            if _lasting(seen) != shown:
                shown = _lasting(seen)
                _print_change(seen, how)
            open_pipe()
            time.sleep(WATCH_S)
            seen = _look_again(kafka)
    except KeyboardInterrupt:
        return 0


def _look_again(kafka: Kafka) -> SeenCluster:
    try:
        return _look(kafka)
    except ClientError as error:
        return SeenCluster([HealthFault(f"no broker answers ({error})", "start brokers, or look at the network")], "")


def _lasting(seen: SeenCluster) -> list[str]:
    """What stays the same while nothing happens: without the seconds for which it has lasted."""
    return [re.sub(r"\d+ s\b", "", one.fault) for one in seen.faults]


def _print_change(seen: SeenCluster, how: str) -> None:
    now = datetime.datetime.now(datetime.UTC)
    if how == "table":
        _say(seen, now.strftime("%H:%M:%S "))
    else:
        faults = [one._asdict() for one in seen.faults]
        listing.show(
            [{"time": now.isoformat(timespec="milliseconds"), "well": not faults, "faults": faults}], CHANGES, how
        )
    sys.stdout.flush()


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
