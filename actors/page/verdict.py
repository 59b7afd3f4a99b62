"""Whether a cluster is well at a moment: one sentence, and what is wrong or worth a look.

What is wrong is decided by `actors/why`. This file alone decides what of the running cluster's answers goes into it, how the
sentence is made of it, and which rows of the table of partitions are meant.
"""

import time
from typing import NamedTuple

from actors.client.operations.cluster import Quorum
from actors.page.metadata.moments import Knows, Moment
from actors.page.metadata.slices import Wanted
from actors.printable import printable
from actors.why.answers import of_quorum
from actors.why.explanations import Explanation
from actors.why.facts import ClusterFacts, GroupFacts, LogDirFacts, TransactionFacts


class Finding(NamedTuple):
    """Something that is wrong, or worth a look."""

    sentence: str
    since_ms: int | None
    """The time since when it is so, ms; None: not known."""
    cause: str
    """What came before it; empty: nothing that is known."""
    command: str
    """What to type or to do against it."""
    where: str
    """The condition that finds the partitions in question in the table; empty: there is none."""
    is_fault: bool


class Verdict(NamedTuple):
    """A cluster's health at a moment."""

    is_well: bool
    sentence: str
    findings: list[Finding]

    @property
    def faults(self) -> list[Finding]:
        """The findings that say that something does not work."""
        return [one for one in self.findings if one.is_fault]


class Asked(NamedTuple):
    """What the quorum answered last, when the page shows a running cluster."""

    quorum: Quorum | None
    problem: str
    """Why there is no answer; empty: there is one."""
    log_dirs: tuple[LogDirFacts, ...] = ()
    transactions: tuple[TransactionFacts, ...] = ()
    groups: tuple[GroupFacts, ...] = ()
    """What else brokers told that is wrong."""
    unseen: str = ""
    """Why the quorum is not told here, which is no fault; empty: it is, or it does not answer."""


def verdict(known: Knows, moment: Moment, asked: Asked | None = None) -> Verdict:
    """The health at a moment. `asked`: what the quorum says now; None: a past moment, or files."""
    findings = [_finding(one) for one in known.explain(moment, _live(asked))]
    if asked is not None and asked.quorum is None and asked.problem:
        findings.insert(0, Finding(asked.problem, None, "", "start controllers until a majority runs", "", True))
    faults = [one for one in findings if one.is_fault]
    if faults:
        more = f" And {len(faults) - 1} more." if len(faults) > 1 else ""
        return Verdict(False, f"Not well: {faults[0].sentence}.{more}", findings)
    return Verdict(True, _well(known, moment, asked), findings)


def _well(known: Knows, moment: Moment, asked: Asked | None) -> str:
    leader = f"controller {asked.quorum.leader} leads, " if asked is not None and asked.quorum is not None else ""
    brokers = len(known.table("brokers", moment))
    if not brokers:
        return f"Well, and empty: {leader}no broker has registered yet."
    found = known.slice("partitions", moment, Wanted(), 0, 0)
    count = found[1] if found is not None else len(known.table("partitions", moment))
    noun = "partition" if count == 1 else "partitions"
    replicas = f"{count:,} {noun} with all replicas in sync" if count else "no partition yet"
    return f"Well: {leader}{brokers:,} {'broker' if brokers == 1 else 'brokers'} active, {replicas}."


def _finding(one: Explanation) -> Finding:
    return Finding(
        printable(one.sentence), one.since_ms if one.since_ms >= 0 else None, printable(one.cause), printable(one.command),
        _where(one), one.is_fault,
    )  # fmt: skip


def _where(one: Explanation) -> str:
    """The condition that finds the partitions of an explanation."""
    if one.topic:
        return f"topic = '{one.topic}' and partition = {one.partition}"
    if one.kind == "offline":
        return "leader is null"
    if one.kind == "under-replicated":
        return f"under_replicated and replicas contains {one.broker}" if one.broker >= 0 else "under_replicated"
    return f"replicas contains {one.broker}" if one.kind == "broker" else ""


def _live(asked: Asked | None) -> ClusterFacts | None:
    """The cluster's answers as facts; None: there are none."""
    if asked is None or (asked.quorum is None and not asked.unseen):
        return None
    quorum = of_quorum(asked.quorum) if asked.quorum is not None else None
    return ClusterFacts(
        int(time.time() * 1000), {}, {}, quorum=quorum, log_dirs=asked.log_dirs, transactions=asked.transactions,
        groups=asked.groups,
    )  # fmt: skip
