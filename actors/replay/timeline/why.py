"""`replay.why`: what was wrong with a cluster at any moment of its metadata log, since when, and why.

    replay.why(history)                            -> [Explanation, ...] now; [] if nothing is wrong
    replay.why(history, at=time)                   the same at a moment of the past
    replay.why(history, live=facts)                with what the running cluster has answered (actors/why/facts.py)
    replay.why_partition(history, "orders", 3)     what has happened to one partition, what is over too, the last first

This file alone decides what a log adds to the answers of a running cluster: the log knows brokers and partitions better, the
cluster alone knows its quorum, disks, groups and transactions.
"""

from actors.replay.columns.as_of import AsOf
from actors.replay.columns.moment import Moment
from actors.replay.timeline.history import History
from actors.replay.timeline.past import HistoryPast, PartitionChange
from actors.replay.timeline.troubles import facts_of
from actors.settings.secret import shown
from actors.why.explanations import Explanation, absence, explain
from actors.why.facts import ClusterFacts, LogDirFacts, TroubledPartition
from actors.why.past import PastEvent
from actors.why.phrases import clock

BROKER_RESOURCE = 4
OWN_SETTINGS = ("advertised.listeners", "broker.id", "broker.rack", "listeners", "log.dir", "log.dirs", "node.id")
"""Settings that should differ between brokers; and all of one listener."""
LIFE_MAX = 100
"""How many changes of a partition are looked at."""


def why(history: History, at: AsOf = None, live: ClusterFacts | None = None) -> list[Explanation]:
    """What is wrong at a moment (an offset, a time, or now), the gravest first. `live`: what the cluster has answered just
    now; it counts only for now. Raises as `History.at`."""
    moment = history.at(at)
    past = HistoryPast(history, moment)
    facts = facts_of(moment)._replace(settings=_settings(moment), log_dirs=_log_dirs(history, moment))
    if live is not None and at is None:
        facts = facts._replace(
            now_ms=max(facts.now_ms, live.now_ms),
            brokers={**facts.brokers, **{broker: state for broker, state in live.brokers.items() if state == "down"}},
            replicas={broker: moment.counts(broker)[0] for broker in (*facts.brokers, *live.brokers)},
            quorum=live.quorum,
            log_dirs=live.log_dirs or facts.log_dirs,
            groups=live.groups,
            transactions=live.transactions,
            settings=live.settings or facts.settings,
        )
    return explain(facts, past)


def why_partition(history: History, topic: str, partition: int, at: AsOf = None) -> list[Explanation]:
    """What has happened to a partition up to a moment: each replica that left the ISR, each time without a leader, and when
    that was over; the last first, LIFE_MAX changes at most. Empty for a partition that does not exist. Raises as
    `History.at`."""
    moment = history.at(at)
    past = HistoryPast(history, moment)
    row = moment.partition(topic, partition)
    replicas = moment.columns.replicas(row) if row >= 0 else ()
    found: list[Explanation] = []
    back: dict[int, int] = {}
    led_ms = -1
    for count, one in enumerate(past.life(topic, partition)):
        if one.kind == "made" or count >= LIFE_MAX:
            break
        if one.kind == "isr":
            found += [
                _absence(past, moment.time_ms, topic, partition, broker, one, back.pop(broker, -1), broker in replicas)
                for broker in one.old if broker not in one.new
            ]  # fmt: skip
            back.update(dict.fromkeys(set(one.new) - set(one.old), one.time_ms))
        elif not one.new:
            found.append(_leaderless(moment.time_ms, topic, partition, one, led_ms))
        if one.kind == "leader" and one.new:
            led_ms = one.time_ms
    return found


def _absence(
    past: HistoryPast,
    now_ms: int,
    topic: str,
    partition: int,
    broker: int,
    left: PartitionChange,
    back_ms: int,
    is_replica: bool,
) -> Explanation:
    part = TroubledPartition(topic, partition, (), (), -1)
    event = past.near(broker, left.time_ms)
    words, cause = absence(now_ms, broker, PastEvent(left.time_ms, "left", left.offset), event)
    over = f"; it came back at {clock(back_ms, now_ms)}" if back_ms >= 0 else ""
    command = f"start broker {broker}" if back_ms < 0 else ""
    if back_ms < 0 and not is_replica:
        over, command = "; it is no replica any more", ""
    return Explanation(
        "under-replicated", f"{part.name}: replica {broker} {words}{over}", left.time_ms, cause, command, topic, partition,
        broker, back_ms,
    )  # fmt: skip


def _leaderless(now_ms: int, topic: str, partition: int, lost: PartitionChange, led_ms: int) -> Explanation:
    over = f" until {clock(led_ms, now_ms)}" if led_ms >= 0 else ""
    since = f"since {clock(lost.time_ms, now_ms)}" if led_ms < 0 else f"from {clock(lost.time_ms, now_ms)}"
    had = "has" if led_ms < 0 else "had"
    return Explanation(
        "offline", f"{topic}-{partition} {had} no leader {since}{over}", lost.time_ms, "", "", topic, partition,
        until_ms=led_ms,
    )  # fmt: skip


def _settings(moment: Moment) -> dict[int, dict[str, str | None]]:
    """What was set for single brokers that should be the same for all."""
    active = [one.id for one in moment.brokers()]
    given = {broker: moment.configs.get((BROKER_RESOURCE, str(broker))) or {} for broker in active}
    names = sorted({name for those in given.values() for name in those if _alike(name)})
    return (
        {broker: {name: shown(name, given[broker].get(name)) for name in names} for broker in active} if names else {}
    )


def _alike(setting: str) -> bool:
    """Whether a setting should be the same for all brokers."""
    return setting not in OWN_SETTINGS and not setting.startswith("listener.")


def _log_dirs(history: History, moment: Moment) -> tuple[LogDirFacts, ...]:
    """The log directories that registered brokers have lost since."""
    found: dict[int, list[LogDirFacts]] = {}
    for one in history.newest_marks("broker", moment):
        _, broker, word = one.about.split(" ", 2)
        if word in ("registered", "gone"):
            found.pop(int(broker), None)
        elif word == "lost a log directory":
            found.setdefault(int(broker), []).append(LogDirFacts(int(broker), "", "", one.time_ms))
    return tuple(one for those in found.values() for one in those)
