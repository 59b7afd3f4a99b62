"""Explanations (`actors/why`) as `rayft health` and `rayft status` print them, and what `status` asks for them.

This file alone decides how an explanation becomes a line or an object. `status` looks into the metadata log only if
something is wrong, pyarrow is there, and the log is not larger than LOG_BYTES_MAX: it may be asked once a second.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from actors.command.output.listing import BOOL, LONG, TEXT, Listing
from actors.why.explanations import Explanation, explain
from actors.why.facts import ClusterFacts, QuorumFacts, VoterFacts

LOG_BYTES_MAX = 64 << 20
METADATA = ("__kafka_metadata-0", "__cluster_metadata-0")


FAULTS = Listing({"kind": TEXT, "fault": TEXT, "since_ms": LONG, "cause": TEXT, "help": TEXT, "is_fault": BOOL})


def line(one: Explanation) -> str:
    """An explanation in one line."""
    return line_of(row(one))


def line_of(one: Mapping[str, Any]) -> str:
    """The line of an explanation that was made an object. A cause that its sentence tells already is not told twice."""
    known = not one["cause"] or one["cause"].partition(" at ")[0] in one["fault"]
    cause = "" if known else f" ({one['cause']})"
    return f"{'' if one['is_fault'] else 'notice: '}{one['fault']}{cause}: {one['help']}"


def row(one: Explanation) -> dict[str, Any]:
    """An explanation for programs. Its time is in ms since 1970, null where it is not known."""
    since = None if one.since_ms < 0 else one.since_ms
    return {
        "kind": one.kind, "fault": one.sentence, "since_ms": since, "cause": one.cause, "help": one.command,
        "is_fault": one.is_fault,
    }  # fmt: skip


def of_status(directory: Path, found: dict[str, Any], now_ms: int) -> list[Explanation]:
    """What is wrong with a cluster of which `found` is the status, the gravest first."""
    facts = _facts(found, now_ms)
    counts = (found["under_replicated_partitions"], found["offline_partitions"])
    if any(counts) or explain(facts):
        return _with_log(directory, facts) or explain(facts)
    return []


def _facts(found: dict[str, Any], now_ms: int) -> ClusterFacts:
    controllers = [row for row in found["controllers"] if row["state"] != "observer"]
    voters = tuple(VoterFacts(row["id"], -1 if row["lag"] is None else row["lag"], 0) for row in controllers)
    down = tuple(row["id"] for row in controllers if row["state"] == "down")
    return ClusterFacts(
        now_ms=now_ms,
        brokers={row["id"]: row["state"] for row in found["brokers"]},
        replicas={},
        quorum=QuorumFacts(found["leader_id"], found["leader_epoch"], voters, down),
    )


def _with_log(directory: Path, facts: ClusterFacts) -> list[Explanation]:
    """The explanations with times, causes and partitions; none if the log is not looked into, or cannot be."""
    logs = [path for name in METADATA for path in directory.glob(f"**/{name}/*.log")]
    try:
        if not logs or sum(path.stat().st_size for path in logs) > LOG_BYTES_MAX * len({one.parent for one in logs}):
            return []
        from actors.replay.timeline.history import History
        from actors.replay.timeline.why import why

        with History(directory) as history:
            return why(history, live=facts)
    except (ImportError, OSError, ValueError):  # what is wrong is told without it
        return []
