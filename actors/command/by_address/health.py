"""`rayft health`, once it runs: what is wrong with a cluster, a sentence for each fault and the command that helps.

What a fault is, is decided in `actors/why`. This file alone decides what is asked for it: what every client may ask, so that
it works on Apache Kafka too. A question that is not allowed or not known there is left out, and that is said. With `--why`
the metadata log is read as well, and says since when and why.
"""

import argparse
import datetime
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from actors.client.asks import Steps
from actors.client.errors import ClientError, NotInTime
from actors.client.metadata import Topic
from actors.client.operations import cluster as operations
from actors.client.operations import topics
from actors.client.operations.cluster import Cluster, Quorum
from actors.client.operations.transactions import (
    CoordinatedTransaction,
    OpenTransaction,
    coordinated,
    open_transactions,
)
from actors.command.by_address.connection import connected, wrong
from actors.command.options import require_pyarrow
from actors.command.output import colours, listing
from actors.command.output.explained import FAULTS, line, row
from actors.command.output.listing import BOOL, TEXT, Listing
from actors.command.output.pipe import open_pipe
from actors.host.client.blocking import Kafka
from actors.printable import printable
from actors.why.answers import hanging, of_quorum, offline, silent
from actors.why.explanations import Explanation, explain
from actors.why.facts import (
    EXAMPLES_MAX,
    ClusterFacts,
    Trouble,
    TroubledPartition,
)
from actors.why.phrases import counted, partitions

UNWELL = 2
CHANGES = Listing({"time": TEXT, "well": BOOL, "faults": [FAULTS.kinds]})
ANSWER_S = 30.0
"""How long each answer may take, s."""
WATCH_S = 1.0
"""The time between two looks, s."""
ASKED_S = 10.0
"""How long an answer may take without which the others are shown, s."""
QUORUM_S = 5.0
NO_QUORUM = Quorum(-1, -1, -1, [], [], {})
T = TypeVar("T")


class SeenCluster(NamedTuple):
    """A cluster as it was seen once."""

    explanations: list[Explanation]
    """What is wrong, and what is worth a look."""
    well: str
    """The sentence about it if there is no fault."""
    unseen: tuple[str, ...] = ()
    """What could not be looked at, and why: sentences."""
    topics: Mapping[str, Topic] = {}
    """All topics, as they were told."""

    @property
    def faults(self) -> list[Explanation]:
        """What is wrong."""
        return [one for one in self.explanations if one.is_fault]


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code. Raises ClusterError if no broker answers."""
    if options.watch and options.output in ("json", "arrow"):
        wrong(f"--watch has no end, and {options.output} has one: write -o jsonl, or leave --watch out")
    if options.watch and options.why:
        wrong("--why reads the metadata log, which is too much for each second: leave it or --watch out")
    if options.why:
        require_pyarrow()
    with connected(options) as kafka:
        seen = _look(kafka, options.why)
        if options.watch:
            return _watch(kafka, options.output, seen)
    if options.output == "table":
        _say(seen, "")
    else:
        listing.show([row(one) for one in seen.explanations], FAULTS, options.output)
    _tell_unseen(seen)
    return UNWELL if seen.faults else 0


def _look(kafka: Kafka, why: bool = False, most: int = sys.maxsize) -> SeenCluster:
    """Look at the cluster. `why`: into its metadata log too. `most`: as in `look_again`. Raises ClientError if no broker
    answers."""
    cluster = kafka.run(operations.describe_cluster(), ANSWER_S)
    found = kafka.run(topics.describe(), ANSWER_S)
    unseen: list[str] = []
    quorum = _asked_quorum(kafka, unseen)
    log_dirs: dict[int, Any] = {}
    open_: list[OpenTransaction] = []
    if quorum is not NO_QUORUM:  # brokers without a controller are busy with finding one
        log_dirs = _asked(kafka, operations.describe_log_dirs(sizes=False), "log directories are", unseen) or {}
        led = _led(found)
        if len(led) <= most:
            open_ = _asked(kafka, open_transactions(led), "transactions are", unseen) or []
        else:
            unseen.append(f"transactions are not looked at: {len(led)} partitions are more than {most}")
    now_ms = int(time.time() * 1000)
    quiet, known = silent(now_ms, open_), dict[int, CoordinatedTransaction]()
    if quiet:
        told = _asked(kafka, coordinated(quiet), "coordinators of transactions are", unseen)
        open_, known = (open_, told) if told is not None else ([], known)
    facts = facts_of(now_ms, cluster, found, quorum, log_dirs, open_, known)
    explanations = _why(kafka, facts) if why else explain(facts)
    return SeenCluster(explanations, _well(cluster, quorum, found), tuple(unseen), found)


def _led(found: dict[str, Topic]) -> list[tuple[str, int]]:
    """The partitions that have a leader to ask."""
    return [(name, one.number) for name, topic in found.items() for one in topic.partitions.values() if one.leader >= 0]


def _asked(kafka: Kafka, steps: Steps[T], what: str, unseen: list[str]) -> T | None:
    """The answer to a question; None, and one more sentence in `unseen`, if there is none."""
    try:
        return kafka.run(steps, ASKED_S)
    except ClientError as error:
        unseen.append(f"{what} not looked at: {error}")
        return None


def _asked_quorum(kafka: Kafka, unseen: list[str]) -> Quorum | None:
    """The quorum of controllers. A broker that answers everything else and not this knows no controller that leads."""
    try:
        return kafka.run(operations.describe_quorum(), QUORUM_S)
    except NotInTime:
        return NO_QUORUM
    except ClientError as error:
        unseen.append(f"the quorum of controllers is not looked at: {error}")
        return None


def _why(kafka: Kafka, facts: ClusterFacts) -> list[Explanation]:
    """The explanations with the times and causes of the metadata log. Raises ClientError if it may not be read."""
    from actors.command.by_address.metadata_log.private_copy import private_copy
    from actors.replay.timeline.history import History
    from actors.replay.timeline.why import why

    with private_copy(kafka, 0) as path, History(path) as history:
        return why(history, live=facts)


def _say(seen: SeenCluster, when: str) -> None:
    for one in seen.explanations:
        text = printable(f"{when}{line(one)}")
        colours.say(text, "red") if one.is_fault else print(text)
    count = len(seen.faults)
    if not seen.faults:
        colours.say(printable(f"{when}{seen.well}"), "green")
    elif not when:
        print(counted(count, "fault"))


def _tell_unseen(seen: SeenCluster) -> None:
    for sentence in seen.unseen:
        print(f"rayft: {printable(sentence)}", file=sys.stderr)


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
            seen = look_again(kafka)
    except KeyboardInterrupt:
        return 0


def look_again(kafka: Kafka, most: int = sys.maxsize) -> SeenCluster:
    """Look at the cluster; that no broker answers is a fault too. `most`: how many partitions are asked for open
    transactions; where there are more, none is."""
    try:
        return _look(kafka, most=most)
    except ClientError as error:
        silent = Explanation("broker", f"no broker answers ({error})", -1, "", "start brokers, or look at the network")
        return SeenCluster([silent], "")


def _lasting(seen: SeenCluster) -> list[str]:
    """What stays the same while nothing happens: without the time for which it has lasted, and how far behind it is."""
    return [re.sub(r"[\d.,]+ (s|min|h|days|records?)\b", "", one.sentence) for one in seen.explanations]


def _print_change(seen: SeenCluster, how: str) -> None:
    now = datetime.datetime.now(datetime.UTC)
    if how == "table":
        _say(seen, now.strftime("%H:%M:%S "))
    else:
        told = {
            "time": now.isoformat(timespec="milliseconds"), "well": not seen.faults,
            "faults": [row(one) for one in seen.explanations],
        }  # fmt: skip
        listing.show([told], CHANGES, how)
    sys.stdout.flush()


def _well(cluster: Cluster, quorum: Quorum | None, found: dict[str, Topic]) -> str:
    leader = f"controller {quorum.leader} leads, epoch {quorum.leader_epoch}, " if quorum is not None else ""
    count = sum(len(one.partitions) for one in found.values())
    return f"well: {leader}{counted(len(cluster.brokers), 'broker')}, {partitions(count)} with all their replicas"


# ---- answers as facts


def facts_of(
    now_ms: int,
    cluster: Cluster,
    found: dict[str, Topic],
    quorum: Quorum | None,
    log_dirs: dict[int, Any],
    open_: Iterable[OpenTransaction],
    known: Mapping[int, CoordinatedTransaction] = {},
) -> ClusterFacts:
    """What a cluster has answered, as facts. `known`: producer id -> what its coordinator knows."""
    parts = [
        TroubledPartition(name, one.number, one.replicas, one.isr, one.leader)
        for name, topic in sorted(found.items()) for _, one in sorted(topic.partitions.items())
    ]  # fmt: skip
    away = sorted({replica for one in parts for replica in one.replicas} - set(cluster.brokers))
    return ClusterFacts(
        now_ms=now_ms,
        brokers=dict.fromkeys(cluster.brokers, "active") | dict.fromkeys(away, "away"),
        replicas={broker: sum(broker in one.replicas for one in parts) for broker in away},
        leaderless=_trouble(one for one in parts if one.leader < 0),
        lacking=_by_broker(parts, lambda one: [replica for replica in one.replicas if replica not in one.isr]),
        led_elsewhere=_by_broker(parts, _not_leading),
        quorum=None if quorum is None else of_quorum(quorum),
        log_dirs=tuple(offline(log_dirs)),
        transactions=tuple(hanging(now_ms, open_, known)),
    )


def _not_leading(one: TroubledPartition) -> list[int]:
    """The preferred leader, if it could lead and does not."""
    first = one.replicas[0] if one.replicas else -1
    return [first] if one.leader not in (-1, first) and first in one.isr else []


def _by_broker(
    parts: Iterable[TroubledPartition], of: Callable[[TroubledPartition], Iterable[int]]
) -> dict[int, Trouble]:
    some: dict[int, list[TroubledPartition]] = {}
    for one in parts:
        for broker in of(one):
            some.setdefault(broker, []).append(one)
    return {broker: _trouble(those) for broker, those in some.items()}


def _trouble(parts: Iterable[TroubledPartition]) -> Trouble:
    those = list(parts)
    return Trouble(len(those), tuple(those[:EXAMPLES_MAX]))
