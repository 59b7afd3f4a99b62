"""Whether a cluster is well at a moment: one sentence, and each fault with since when, its cause and what helps.

This file alone decides what the page calls a fault. It looks at the tables of the moment and, for now, at what the quorum
answers. The log does not say who made a change, so no sentence names anybody.
"""

import datetime
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from actors.client.operations.cluster import Quorum
from actors.page.metadata.moments import Knows, Moment
from actors.printable import printable
from actors.replay.columns.as_of import milliseconds

NAMED_MAX = 3
"""The most partitions that a sentence names."""
CAUGHT_UP_MS = 10_000
"""How long a voter may be behind the leader, ms; behind for longer it is a fault."""
CAUSE_MS = 10_000
"""How long before a change its cause may lie, ms."""


class Fault(NamedTuple):
    """Something that is wrong."""

    sentence: str
    since_ms: int | None
    """The time since when it is so, ms; None: not known."""
    cause: str
    """What came before it; empty: nothing that the log has."""
    command: str
    """What to type or to do against it."""
    where: str
    """The condition that finds the partitions in question in the table; empty: there are none."""


class Verdict(NamedTuple):
    """A cluster's health at a moment."""

    is_well: bool
    sentence: str
    faults: list[Fault]


class Asked(NamedTuple):
    """What the quorum answered last, when the page shows a running cluster."""

    quorum: Quorum | None
    problem: str
    """Why there is no answer; empty: there is one."""


def verdict(known: Knows, moment: Moment, asked: Asked | None = None) -> Verdict:
    """The health at a moment. `asked`: what the quorum says now; None: a past moment, or files."""
    partitions, brokers = known.table("partitions", moment), known.table("brokers", moment)
    changes = _until(known.changes(), moment)
    faults = [
        *(_quorum(asked) if asked is not None else ()),
        *_brokers(brokers, changes),
        *_partitions(partitions, brokers, changes),
    ]
    if faults:
        more = f" {len(faults) - 1} more." if len(faults) > 1 else ""
        return Verdict(False, f"Not well: {faults[0].sentence}.{more}", faults)
    return Verdict(True, _well(partitions, brokers, asked), [])


def _well(partitions: pa.Table, brokers: pa.Table, asked: Asked | None) -> str:
    leader = f"controller {asked.quorum.leader} leads, " if asked is not None and asked.quorum is not None else ""
    if not len(brokers):
        return f"Well, and empty: {leader}no broker has registered yet."
    replicas = "no partition yet" if not len(partitions) else f"{_count(len(partitions))} with all replicas in sync"
    return f"Well: {leader}{len(brokers)} {'broker' if len(brokers) == 1 else 'brokers'} active, {replicas}."


def _until(changes: pa.Table, moment: Moment) -> pa.Table:
    return changes if moment.is_now else changes.filter(pc.less(changes["offset"], moment.offset))


def _quorum(asked: Asked) -> Iterator[Fault]:
    quorum = asked.quorum
    if quorum is None:
        if asked.problem:
            yield Fault(asked.problem, None, "", "start controllers until a majority runs, or check the address", "")
        return
    leader = next((one for one in quorum.voters if one.id == quorum.leader), None)
    if leader is None:
        yield Fault("no controller leads the quorum", None, "", "start controllers until a majority runs", "")
        return
    for one in quorum.voters:
        behind_ms = leader.last_caught_up_ms - one.last_caught_up_ms
        if one.id == quorum.leader or leader.last_caught_up_ms < 0:
            continue
        if one.last_caught_up_ms < 0 or behind_ms > CAUGHT_UP_MS:
            since = one.last_caught_up_ms if one.last_caught_up_ms >= 0 else None
            command = f"start it, or read the log of controller {one.id}"
            yield Fault(f"controller {one.id} does not follow the leader", since, "", command, "")


def _last(changes: pa.Table, kind: str, column: str, value: Any) -> dict[str, Any] | None:
    """The last change of a kind of one thing."""
    same = pc.and_(pc.equal(changes["kind"], kind), pc.equal(changes[column], value).fill_null(False))
    at = pc.filter(pa.array(range(len(changes)), pa.int64()), same)
    rows: list[dict[str, Any]] = changes.slice(at[-1].as_py(), 1).to_pylist() if len(at) else []
    return rows[0] if rows else None


def _brokers(brokers: pa.Table, changes: pa.Table) -> Iterator[Fault]:
    for row in brokers.to_pylist():
        if row["leaving"] or row["fenced"]:
            change = _last(changes, "shutdown" if row["leaving"] else "fencing", "broker", row["broker"])
            since = milliseconds(change["timestamp"]) if change is not None else None
            words = "is shutting down" if row["leaving"] and not row["fenced"] else "is fenced"
            led = f"and had {_count(row['replicas'])}" if row["replicas"] else "and has no partition"
            command = f"start broker {row['broker']}, or read its log; rayft status shows its process"
            yield Fault(f"broker {row['broker']} {words} {led}", since, "", command, _of(row["broker"]))


def _of(broker: int) -> str:
    return f"replicas contains {broker}"


def _partitions(partitions: pa.Table, brokers: pa.Table, changes: pa.Table) -> Iterator[Fault]:
    without = partitions.filter(pc.is_null(partitions["leader"]))
    if len(without):
        change = _newest(changes, "leader", without)
        yield Fault(
            f"{_count(len(without))} without a leader ({_few(without)})",
            *_since(change, changes),
            "start one of the replicas; rayft topic describe TOPIC names them",
            "leader is null",
        )
    active = pc.invert(brokers["fenced"]) if len(brokers) else pa.array([], pa.bool_())
    up = brokers["broker"].filter(active)
    short = partitions.filter(partitions["under_replicated"])
    for broker, count in sorted(_lacking(short).items()):
        change = _newest(changes, "isr", short, broker)
        here = pc.is_in(pa.scalar(broker, pa.int32()), value_set=up.combine_chunks()).as_py() if len(up) else False
        words = "do not have" if count > 1 else "does not have"
        command = (
            f"read the log of broker {broker}: it is active and does not catch up" if here else f"start broker {broker}"
        )
        sentence = f"{_count(count)} {words} replica {broker} in the ISR"
        yield Fault(sentence, *_since(change, changes), command, f"under_replicated and {_of(broker)}")


def _lacking(short: pa.Table) -> dict[int, int]:
    """Broker -> how many of the partitions lack it in their ISR."""
    found: dict[int, int] = {}
    replicas, isr = short["replicas"].combine_chunks(), short["isr"].combine_chunks()
    for lists, step in ((replicas, 1), (isr, -1)):
        for one in pc.value_counts(lists.flatten()).to_pylist() if len(lists) else ():
            found[one["values"]] = found.get(one["values"], 0) + step * one["counts"]
    return {broker: count for broker, count in found.items() if count > 0}


def _newest(changes: pa.Table, kind: str, partitions: pa.Table, broker: int | None = None) -> dict[str, Any] | None:
    """The first change that made one of the partitions what it is: the last of that kind of the first of them."""
    rows = changes.filter(pc.equal(changes["kind"], kind))
    for row in partitions.slice(0, 50).select(["topic", "partition", "isr", "replicas"]).to_pylist():
        if broker is not None and (broker not in row["replicas"] or broker in row["isr"]):
            continue
        same = pc.and_(pc.equal(rows["topic"], row["topic"]), pc.equal(rows["partition"], row["partition"]))
        found: list[dict[str, Any]] = rows.filter(same).to_pylist()
        if broker is not None:
            found = [one for one in found if broker in (one["old_ids"] or ()) and broker not in (one["new_ids"] or ())]
        if found:
            return found[-1]
    return None


def _since(change: dict[str, Any] | None, changes: pa.Table) -> tuple[int | None, str]:
    """(since when it is so, ms; what happened to a broker just before)."""
    if change is None:
        return None, ""
    time: datetime.datetime = change["timestamp"]
    began = time - datetime.timedelta(milliseconds=CAUSE_MS)
    near = pc.and_(pc.greater_equal(changes["timestamp"], began), pc.less_equal(changes["offset"], change["offset"]))
    before = changes.filter(pc.and_(near, pc.is_in(changes["kind"], value_set=pa.array(list(CAUSES)))))
    for row in reversed(before.to_pylist()):
        value, words = CAUSES[row["kind"]]
        if (row["new"] == value and row["old"] is not None) or row["new"] == value == "leaving":
            seconds = (time - row["timestamp"]).total_seconds()
            when = f"{seconds:.1f} s before" if seconds else "at the same time"
            return milliseconds(time), f"broker {row['broker']} {words} {when}"
    return milliseconds(time), ""


CAUSES = {
    "fencing": ("fenced", "was fenced"),
    "shutdown": ("leaving", "began to shut down"),
    "registration": (None, "lost its registration"),
}
"""Kind of change -> (the value after it, what it is called) of those that make others."""


def _count(number: int) -> str:
    return f"{number:,} {'partition' if number == 1 else 'partitions'}"


def _few(partitions: pa.Table) -> str:
    names = [f"{row['topic']}-{row['partition']}" for row in partitions.slice(0, NAMED_MAX).to_pylist()]
    more = f" and {len(partitions) - NAMED_MAX:,} more" if len(partitions) > NAMED_MAX else ""
    return printable(", ".join(names) + more)
