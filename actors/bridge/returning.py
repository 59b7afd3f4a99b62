"""The two ends of a bridge: the cluster is handed back to a broker of the old kind, or goes on without ZooKeeper.

This file alone decides when either is possible and in which order it happens. Rules:

1. Back: only where brokers in ZooKeeper mode have everything. No broker of rayft lives or has a replica, and each
   partition has one of them in its ISR that is alive. Else the operator is told what to do, and the bridge drives on.
2. Brokers are told nothing more before the first state is written, so that what is written is the newest.
3. A state is written under a leader epoch one above ours: the next controller repeats the number that it reads, and a
   broker obeys only a higher one.
4. What ZooKeeper has of the rest is what the log has, up to what was changed in the last moment. That is written before
   the states: a state needs the znode of its topic.
5. /controller goes last, in a transaction of its own. A controller that ends before that leaves it to the next one.
6. ZooKeeper is let go when no broker in ZooKeeper mode is registered, and no partition has a replica on a broker that is
   not there: one that is down for a moment looks the same as one that is gone. /controller stays: a broker of the old
   cluster that is started by mistake makes itself the controller of nothing.
7. What the side that goes on cannot have is tried once more, and listed: back, what no znode can hold and what is of a
   kind that old brokers do not know; without ZooKeeper, what is there and could not be taken over.
8. What the operator no longer asks for is not done: the operator's request goes with the session that made it, and the
   transaction that cannot be undone asks for it once more. So does the step before the log says that ZooKeeper has the
   truth: a takeover from the beginning may be forbidden then, and no controller would drive. The request stays once the
   cluster is handed back.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from actors.bridge import checks, znodes
from actors.bridge.agreement import agree
from actors.bridge.asks import Apply, Become, Here, Hold, Job, Look, Settle, Tell, again
from actors.bridge.claim import absent, guarded, made
from actors.bridge.notifications import remembered
from actors.bridge.reading import Snapshot
from actors.bridge.stages import Happens, Progress, reached
from actors.bridge.subjects import settings, topics
from actors.metadata.image import Image
from actors.ports.zookeeper import Change, Check, Create, Delete, Get, Write, Znode

PARTITIONS_AT_ONCE = 100
REASONS_MAX = 10
OTHER_KINDS = {8: "the logger of broker", 16: "the metrics subscription", 32: "group"}
"""The kinds of resources that have settings in the log only, by number."""


def give_back(here: Here) -> Job:
    """Hand the cluster back, or tell the operator why not."""
    (wish,) = yield Look([Get(znodes.WANTED)], watch=False)
    if wish is None:
        return
    if reasons := (yield from _kept_from_old_brokers(here)):
        yield from _not_yet(here, "the cluster is not handed back", reasons)
        return
    yield from _absent_replicas(here)
    yield Become(Happens.WANTED_BACK)
    yield Hold(None)
    yield Settle()
    yield from agree(here)
    here.given_back = 0
    for portion in _portions(here.image):
        yield from _states(here, portion)
        here.given_back += len(portion)
        yield from remembered(here)  # the command waits as long as it sees progress
    yield from _producer_ids(here)
    yield guarded(here, [Check(znodes.WANTED, wish.version)])
    yield Apply([reached(Progress.PRE_MIGRATION)])
    yield Settle()
    yield from absent(here)
    yield guarded(here, [Delete(znodes.CONTROLLER), *handed_back(wish)])
    here.claim = None
    yield Tell("the cluster is handed back: one of its brokers is the controller now")
    yield Become(Happens.GIVEN_UP)


def let_go(here: Here) -> Job:
    """Go on without ZooKeeper, or tell the operator why not."""
    yield from again(here, here.untaken)
    (wish,) = yield Look([Get(znodes.WANTED)], watch=False)
    if wish is None:
        return
    left = [broker.id for broker in here.image.brokers() if broker.zookeeper]  # now: one may have come meanwhile
    reasons = [f"brokers {', '.join(map(str, left))} live with it: stop them first"] if left else []
    if not reasons:
        reasons = list(islice(chain(_lost(here.image), _still(here.untaken)), REASONS_MAX))
    if reasons:
        yield from _not_yet(here, "ZooKeeper is not let go", reasons)
        return
    yield guarded(here, [Delete(znodes.WANTED, wish.version)])  # from here on it is too late not to want it
    yield Apply([reached(Progress.POST_MIGRATION)])
    yield Settle()
    yield guarded(here, [Write(znodes.BRIDGE, znodes.written(version=1, state="let go"))])
    yield Tell(
        "ZooKeeper is let go: it can be stopped, and zookeeper.connect be taken out of the controllers' settings"
    )
    yield Become(Happens.UNNEEDED)


def handed_back(wish: Znode) -> list[Change]:
    """The changes that note for good that the cluster is handed back. They fail if the operator no longer asks for it."""
    return [
        Delete(znodes.WANTED, wish.version),
        Create(znodes.WANTED, wish.data),
        Write(znodes.BRIDGE, znodes.written(version=1, state="handed back")),
    ]


ENDS: Mapping[str, Callable[[Here], Job]] = {"back": give_back, "finish": let_go}
"""The job of each thing that the operator can ask for."""


def _kept_from_old_brokers(here: Here) -> Job:
    """Reasons against handing the cluster back: what brokers in ZooKeeper mode would not have (rules 1 and 7)."""
    reasons = list(islice(_obstacles(here.image), REASONS_MAX))
    if not reasons:
        yield from again(here, here.unwritten)
        unknown = chain(_still(here.unwritten), _of_other_kinds(here.image), checks.unreadable(here.image))
        reasons = list(islice(unknown, REASONS_MAX))
    return reasons


def _still(kept: Mapping[Any, str]) -> Iterator[str]:
    for sentence in kept.values():
        yield f"{sentence}: remove it, or change it so that both sides can have it"


def _of_other_kinds(image: Image) -> Iterator[str]:
    for (kind, name), values in image.configs.items():
        if kind not in settings.TYPES.values() and values:
            what = OTHER_KINDS.get(kind, "a resource")
            yield f"{what} {name} has settings, which brokers of the old kind do not have: remove them"


def _absent_replicas(here: Here) -> Job:
    """Tell of replicas on brokers that are not there: no records are lost by them, but the replicas cannot be used
    until such a broker is back."""
    there, away = {broker.id for broker in here.image.brokers()}, Counter[int]()
    for topic in here.image.topics():
        for row in here.image.topic_partitions(topic):
            away.update(id for id in here.image.replicas(row) if id not in there)
    for id, count in sorted(away.items())[:REASONS_MAX]:
        yield Tell(
            f"broker {id} is not there, and has replicas of {count} partitions: they come back with it, or never"
        )


def _obstacles(image: Image) -> Iterator[str]:
    ours = [broker.id for broker in image.unfenced_brokers() if not broker.zookeeper]
    if ours:
        yield f"brokers {', '.join(map(str, ours))} are rayft's: stop them first"
        return
    alive = {broker.id for broker in image.unfenced_brokers()}
    stopped = {broker.id for broker in image.brokers() if not broker.zookeeper}
    for topic in image.topics():
        for row in image.topic_partitions(topic):
            name = f"{image.topic_name(topic)}-{image.number(row)}"
            if not alive & set(image.isr(row)):
                held = ", ".join(map(str, image.isr(row)))
                yield f"{name} is in sync at {held} only, and none of them is a broker of the old kind that is there"
            elif left := [str(id) for id in image.replicas(row) if id in stopped]:
                yield f"{name} has a replica on broker {', '.join(left)} of rayft: move it to a broker of the old kind first"


def _lost(image: Image) -> Iterator[str]:
    """Reasons why replicas would be lost without the old brokers: one that is down for a moment is not registered, and
    never will be."""
    there = {broker.id for broker in image.brokers()}
    for topic in image.topics():
        for row in image.topic_partitions(topic):
            if away := [str(id) for id in image.replicas(row) if id not in there]:
                name = f"{image.topic_name(topic)}-{image.number(row)}"
                alone = "the only copy in sync" if not there & set(image.isr(row)) else "a replica"
                yield f"{name} has {alone} on broker {', '.join(away)}, which is not there: move it to rayft's brokers first"


def _not_yet(here: Here, what: str, reasons: list[str]) -> Job:
    for reason in reasons:
        yield Tell(f"{what}: {reason}", error=True)
    text = f"{what}: {'; '.join(reasons)}".encode()
    (known,) = yield Look([Get(znodes.REFUSED)], watch=False)
    yield guarded(here, [Delete(znodes.WANTED), znodes.put(znodes.REFUSED, text, known)])


def _portions(image: Image) -> Iterator[list[int]]:
    rows = iter([int(row) for topic in image.topics() for row in image.topic_partitions(topic)])
    while portion := list(islice(rows, PARTITIONS_AT_ONCE)):
        yield portion


def _states(here: Here, rows: list[int]) -> Job:
    image = here.image
    assert here.claim is not None
    named = [(image.topic_name(image.topic_of(row)), image.number(row)) for row in rows]
    paths = [topics.state_path(*one) for one in named]
    above = [path.rpartition("/")[0] for path in paths]
    known = yield Look([*map(Get, paths), *map(Get, above)], watch=False)
    changes: list[Change] = []
    for place, (row, path) in enumerate(zip(rows, paths, strict=True)):
        data = topics.state_data(image, row, here.claim.epoch, image.leader_epoch(row) + 1)
        if known[place] is not None:
            changes += topics.state_writes(path, known[place], data, image.partition_epoch(row) + 1)
            continue
        changes += [Create(above[place])] if known[len(rows) + place] is None else []
        changes.append(Create(path, data))
    yield from made(here, changes)


def _producer_ids(here: Here) -> Job:
    """Move the block in ZooKeeper behind all producer ids that the log has given out, so that no broker gives one of
    them out again."""
    path = znodes.PRODUCER_IDS
    (known,) = yield Look([Get(path)], watch=False)
    there = checks.next_producer_id(Snapshot({} if known is None else {path: known}, {}))
    end = max(there, here.image.next_producer_id) - 1
    data = znodes.written(version=1, broker=here.me, block_start=str(end), block_end=str(end))
    if end >= 0:
        yield guarded(here, [Create(path, data) if known is None else Write(path, data, known.version)])
