"""Explanations: what is wrong with a cluster, since when, why, and what to do.

This file alone decides what is wrong. A cluster without faults has no explanation. Kinds, the gravest first:

| kind | what | needs |
|---|---|---|
| `no quorum` | no controller leads | the cluster's answer |
| `voter` | a controller does not follow the leader for CAUGHT_UP_MS | the cluster's answer |
| `broker` | a broker that has replicas is fenced, leaving or gone | |
| `flapping` | a broker was fenced FLAPS times in FLAPPING_MS | the log |
| `disk` | a log directory cannot be used | |
| `offline` | partitions without a leader | |
| `under-replicated` | ISRs lack a replica | |
| `transaction` | a transaction is open for longer than its timeout | the cluster's answer |
| `prepared` | a transaction of a two-phase commit is open for long (a notice) | the cluster's answer |
| `group` | a group is behind and does not commit (a notice) | the cluster's answer |
| `preferred` | partitions are not led by their preferred leader, though it is in sync (a notice) | |
| `settings` | a setting differs between brokers (a notice) | |

Of partitions in the same trouble, EXAMPLES_MAX get a sentence each; more get one together, which names some. What is not
known is left out of a sentence: without a log there is no time and no cause. No log says who made a change. Names of
groups and transactional ids are anybody's texts: in a command they are quoted, as somebody will paste it into a shell.
"""

from collections.abc import Callable, Iterator, Mapping
from shlex import quote
from typing import NamedTuple

from actors.why.facts import (
    EXAMPLES_MAX,
    NO_TIMEOUT_MS,
    ClusterFacts,
    GroupFacts,
    TransactionFacts,
    Trouble,
    TroubledPartition,
    VoterFacts,
)
from actors.why.past import NO_PAST, Past, PastEvent
from actors.why.phrases import NOBODY, apart, clock, counted, few, partitions, since, span

CAUGHT_UP_MS = 10_000
FLAPS, FLAPPING_MS = 3, 600_000


class Explanation(NamedTuple):
    """Something that is wrong."""

    kind: str
    """One of KINDS."""
    sentence: str
    """What is wrong, without the stop at its end."""
    since_ms: int
    """ms since 1970; -1: not known."""
    cause: str
    """Why; empty: not known."""
    command: str
    """What to type, or to do."""
    topic: str = ""
    partition: int = -1
    broker: int = -1
    """What it is about, as far as it is one thing: topic and partition, a broker or a controller."""
    until_ms: int = -1
    """When it was over; -1: it is not."""

    @property
    def is_fault(self) -> bool:
        """Whether something does not work; else it is worth a look."""
        return self.kind not in NOTICES


NOTICES = ("prepared", "group", "preferred", "settings")


def explain(facts: ClusterFacts, past: Past = NO_PAST) -> list[Explanation]:
    """What is wrong with a cluster, the gravest first; nothing, if nothing is."""
    return [one for kind in EXPLAINED.values() for one in kind(facts, past)]


# ---- controllers --------------------------------------------------------------------------------------------------


def _no_quorum(facts: ClusterFacts, past: Past) -> Iterator[Explanation]:
    quorum = facts.quorum
    if quorum is None or quorum.leader >= 0:
        return
    down = f": {_names('controller', quorum.down)} not running" if quorum.down else ""
    needed = len(quorum.voters) // 2 + 1
    command = f"start controllers until {needed} of {len(quorum.voters)} run" if quorum.voters else START_CONTROLLERS
    yield Explanation("no quorum", f"no controller leads{down}", -1, "", command)


START_CONTROLLERS = "start controllers until a majority runs"


def _names(noun: str, ids: tuple[int, ...]) -> str:
    plural = len(ids) > 1
    return f"{noun}{'s' if plural else ''} {', '.join(map(str, ids))} {'are' if plural else 'is'}"


def _voters(facts: ClusterFacts, past: Past) -> Iterator[Explanation]:
    quorum = facts.quorum
    if quorum is None or quorum.leader < 0:
        return
    for one in quorum.voters:
        if one.id == quorum.leader:
            continue
        if one.id in quorum.down:
            yield _voter(one, f"controller {one.id} is not running", -1, f"start controller {one.id}")
        elif one.behind_ms > CAUGHT_UP_MS:
            records = f", it is {counted(one.lag, 'record')} behind" if one.lag > 0 else ""
            sentence = f"controller {one.id} does not follow the leader for {span(one.behind_ms)}{records}"
            yield _voter(
                one, sentence, facts.now_ms - one.behind_ms, f"start it, or read the log of controller {one.id}"
            )
        elif one.behind_ms < 0 and one.lag != 0:
            sentence = f"controller {one.id} does not follow the leader"
            yield _voter(one, sentence, -1, f"start it, or read the log of controller {one.id}")


def _voter(one: VoterFacts, sentence: str, since_ms: int, command: str) -> Explanation:
    return Explanation("voter", sentence, since_ms, "", command, broker=one.id)


# ---- brokers ------------------------------------------------------------------------------------------------------

STATES = {
    "fenced": "is fenced",
    "leaving": "is shutting down",
    "away": "is away",
    "down": "is not running",
}


def _brokers(facts: ClusterFacts, past: Past) -> Iterator[Explanation]:
    for broker, state in sorted(facts.brokers.items()):
        if state == "active" or (state == "away" and not facts.replicas.get(broker)):
            continue
        event = past.away(broker)
        at = event.time_ms if event else -1
        has = facts.replicas.get(broker, 0)
        held = f" and has replicas of {partitions(has)}" if has else ""
        sentence = f"broker {broker} {STATES[state]}{since(at, facts.now_ms)}{held}"
        yield Explanation(
            "broker", sentence, at, CAUSES[event.how] if event else "", f"start broker {broker}", broker=broker
        )


CAUSES = {
    "fenced": "no controller has heard of it within its lease",
    "shut down": "it asked for its shutdown",
    "unregistered": f"it was unregistered; {NOBODY}",
    "gone": "it was shut down, or no controller has heard of it within its lease; the log does not say which",
    "registered": "it has registered and is not ready yet",
}


def _flapping(facts: ClusterFacts, past: Past) -> Iterator[Explanation]:
    for broker in sorted(facts.brokers):
        count = past.fencings(broker, facts.now_ms - FLAPPING_MS)
        if count >= FLAPS:
            yield Explanation(
                "flapping",
                f"broker {broker} was fenced {count} times within {span(FLAPPING_MS)}",
                facts.now_ms - FLAPPING_MS,
                "its heartbeats come too late, again and again",
                f"read the log of broker {broker}: it stands still, restarts, or its network drops packets",
                broker=broker,
            )


def _disks(facts: ClusterFacts, past: Past) -> Iterator[Explanation]:
    for one in facts.log_dirs:
        named = f"log directory {one.path}" if one.path else "a log directory"
        yield Explanation(
            "disk",
            f"{named} of broker {one.broker} is offline{since(one.since_ms, facts.now_ms)}",
            one.since_ms,
            one.reason,
            f"repair its disk, then restart broker {one.broker}",
            broker=one.broker,
        )


# ---- partitions ---------------------------------------------------------------------------------------------------


def _offline(facts: ClusterFacts, past: Past) -> Iterator[Explanation]:
    trouble = facts.leaderless
    for part in trouble.examples if trouble.number <= EXAMPLES_MAX else trouble.examples[:1]:
        event = past.lost(part)
        at = event.time_ms if event else -1
        together = trouble.number > EXAMPLES_MAX
        what = f"{partitions(trouble.number)} have no leader" if together else f"{part.name} has no leader"
        which = f" ({_shown(trouble)})" if together else ""
        last = part.isr or part.replicas
        cause = "; ".join(filter(None, (_away_since(facts, past, one) for one in last)))
        yield Explanation(
            "offline",
            f"{what}{since(at, facts.now_ms)}{which}",
            at,
            cause,
            f"start {_any_broker(last)}: only {'it has' if len(last) == 1 else 'they have'} all records",
            *(("", -1) if together else (part.topic, part.number)),
        )


def _any_broker(ids: tuple[int, ...]) -> str:
    if len(ids) == 1:
        return f"broker {ids[0]}"
    return f"one of the brokers {', '.join(map(str, ids))}" if ids else "its brokers"


def _away_since(facts: ClusterFacts, past: Past, broker: int) -> str:
    state = facts.brokers.get(broker, "away")
    event = past.away(broker)
    if state == "active":
        return ""
    return f"broker {broker} {STATES[state]}{since(event.time_ms, facts.now_ms) if event else ''}"


def _shown(trouble: Trouble) -> str:
    return few([one.name for one in trouble.examples], trouble.number)


def _under_replicated(facts: ClusterFacts, past: Past) -> Iterator[Explanation]:
    for broker, trouble in sorted(facts.lacking.items()):
        if past is NO_PAST and facts.brokers.get(broker) != "active":
            continue  # without a past, what is said of the broker says it all
        if trouble.number > EXAMPLES_MAX:
            yield _lacking(facts, past, broker, trouble, trouble.examples[0])
        else:
            yield from (_lacking(facts, past, broker, None, part) for part in trouble.examples)


def _lacking(
    facts: ClusterFacts, past: Past, broker: int, together: Trouble | None, part: TroubledPartition
) -> Explanation:
    left = past.left(part, broker)
    away = past.near(broker, left.time_ms) if left else None
    words, cause = absence(facts.now_ms, broker, left, away)
    is_active = facts.brokers.get(broker) == "active"
    if together is not None:
        many = f"{partitions(together.number)} lack replica {broker} in their ISR ({_shown(together)})"
        sentence = f"{many}: that of {part.name} {words}"
    else:
        sentence = f"{part.name}: replica {broker} {words}"
    command = f"start broker {broker}"
    if is_active:
        command = f"read the log of broker {broker}; `rayft topic describe {part.topic}` shows when it has caught up"
        cause = cause or f"broker {broker} is active and has not caught up; the log does not say why"
    where = ("", -1) if together is not None else (part.topic, part.number)
    return Explanation("under-replicated", sentence, left.time_ms if left else -1, cause, command, *where, broker)


def absence(now_ms: int, broker: int, left: PastEvent | None, away: PastEvent | None) -> tuple[str, str]:
    """How a replica has come to be outside its ISR: the end of a sentence, and the cause. `away`: what became of its broker
    around that time."""
    if left is None:
        return "is not in the ISR", ""
    if left.how == "made":
        return f"has not been in the ISR since the partition was made at {clock(left.time_ms, now_ms)}", ""
    words = f"left the ISR at {clock(left.time_ms, now_ms)}"
    if away is None:
        return words, ""
    became = "was fenced" if away.how == "gone" else f"was {away.how}"
    cause = f"broker {broker} {became} at {clock(away.time_ms, now_ms)}"
    return f"{words}, {apart(left.time_ms, away.time_ms)} broker {broker} {became}", cause


def _preferred(facts: ClusterFacts, past: Past) -> Iterator[Explanation]:
    for broker, trouble in sorted(facts.led_elsewhere.items()):
        first = trouble.examples[0]
        event = past.moved(first)
        at = event.time_ms if event else -1
        is_one = trouble.number == 1
        led = (
            f"{first.name} is led by broker {first.leader}"
            if is_one
            else f"{partitions(trouble.number)} are led by others"
        )
        which = "" if is_one else f" ({_shown(trouble)})"
        yield Explanation(
            "preferred",
            f"{led}{since(at, facts.now_ms)}{which}, though broker {broker} is the preferred leader and in sync",
            at,
            "",
            ELECT,
            *((first.topic, first.number) if is_one else ("", -1)),
            broker,
        )


ELECT = (
    "wait for leader.imbalance.check.interval.seconds, or "
    "kafka-leader-election.sh --bootstrap-server HOST:9092 --election-type PREFERRED --all-topic-partitions"
)


# ---- clients and settings -----------------------------------------------------------------------------------------


def _transactions(facts: ClusterFacts, past: Past) -> Iterator[Explanation]:
    for one in facts.transactions:
        if one.timeout_ms == NO_TIMEOUT_MS:
            continue
        named = _named(one)
        open_ms = facts.now_ms - one.started_ms
        limit = ", longer than its timeout of" if open_ms > one.timeout_ms else "; its timeout is"
        limit = f"{limit} {span(one.timeout_ms)}" if one.timeout_ms >= 0 else ""
        yield Explanation(
            "transaction",
            f"the transaction of {named} is open since {clock(one.started_ms, facts.now_ms)}, for {span(open_ms)}{limit}",
            one.started_ms,
            _waited_for(one),
            "kafka-transactions.sh --bootstrap-server HOST:9092 find-hanging --broker-id ID, then abort",
        )


def _prepared(facts: ClusterFacts, past: Past) -> Iterator[Explanation]:
    for one in facts.transactions:
        if one.timeout_ms == NO_TIMEOUT_MS:
            open_ms = facts.now_ms - one.started_ms
            yield Explanation(
                "prepared",
                f"the transaction of {_named(one)} takes part in a two-phase commit and is open since "
                f"{clock(one.started_ms, facts.now_ms)}, for {span(open_ms)}: it has no timeout, and waits for the decision",
                one.started_ms,
                _waited_for(one),
                "look whether the application that decides still runs; only if nobody decides any more, "
                "kafka-transactions.sh --bootstrap-server HOST:9092 forceTerminateTransaction --transactionalId "
                f"{quote(one.id)}",
            )


def _named(one: TransactionFacts) -> str:
    return f"transactional id {one.id}" if one.id else f"producer {one.producer_id}"


def _waited_for(one: TransactionFacts) -> str:
    if not one.partitions:
        return ""
    return f"readers of committed records wait at it in {few(one.partitions[:EXAMPLES_MAX], len(one.partitions))}"


def _groups(facts: ClusterFacts, past: Past) -> Iterator[Explanation]:
    for one in facts.groups:
        stands = f" and has committed nothing for {span(one.stands_ms)}" if one.stands_ms >= 0 else ""
        which = f" ({few(one.partitions[:EXAMPLES_MAX], len(one.partitions))})" if one.partitions else ""
        yield Explanation(
            "group",
            f"group {one.group} is {counted(one.lag, 'record')} behind{stands}{which}",
            facts.now_ms - one.stands_ms if one.stands_ms >= 0 else -1,
            _members(one),
            "start its consumers"
            if not one.members
            else f"rayft group describe {quote(one.group)}; read its consumers' logs",
        )


def _members(one: GroupFacts) -> str:
    """Why a group stands still, as far as its members say it."""
    if one.members < 0:
        return ""
    commit = "commits" if one.members == 1 else "commit"
    return f"its {counted(one.members, 'member')} {commit} nothing" if one.members else "it has no members"


def _settings(facts: ClusterFacts, past: Past) -> Iterator[Explanation]:
    names = sorted({name for values in facts.settings.values() for name in values})
    for name in names:
        values = {broker: those.get(name) for broker, those in sorted(facts.settings.items())}
        if len(set(values.values())) < 2:
            continue
        changed = [(event, broker) for broker in values if (event := past.set(broker, name)) is not None]
        event, broker = max(changed, default=(None, -1))
        at = event.time_ms if event else -1
        cause = f"it was last changed for broker {broker} at {clock(at, facts.now_ms)}; {NOBODY}" if event else ""
        yield Explanation(
            "settings",
            f"{name} differs between brokers: {_by_value(values)}",
            at,
            cause,
            f"kafka-configs.sh --bootstrap-server HOST:9092 --describe --entity-type brokers --all, then set {name} alike",
        )


def _by_value(values: Mapping[int, str | None]) -> str:
    brokers: dict[str | None, list[int]] = {}
    for broker, value in values.items():
        brokers.setdefault(value, []).append(broker)
    parts = [
        f"{'not set' if value is None else value} on {few([str(one) for one in those[:EXAMPLES_MAX]], len(those))}"
        for value, those in brokers.items()
    ]
    more = f"; {len(parts) - EXAMPLES_MAX} more values" if len(parts) > EXAMPLES_MAX else ""
    return "; ".join(parts[:EXAMPLES_MAX]) + more


EXPLAINED: Mapping[str, Callable[[ClusterFacts, Past], Iterator[Explanation]]] = {
    "no quorum": _no_quorum,
    "voter": _voters,
    "broker": _brokers,
    "flapping": _flapping,
    "disk": _disks,
    "offline": _offline,
    "under-replicated": _under_replicated,
    "transaction": _transactions,
    "prepared": _prepared,
    "group": _groups,
    "preferred": _preferred,
    "settings": _settings,
}
KINDS = tuple(EXPLAINED)
