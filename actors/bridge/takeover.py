"""The takeover as one job, from the beginning of a session until brokers are told.

This file alone decides its order (docs/readings.md G-44): look, claim, read again, write into the log, wait until that
is committed, drive. Rules:

1. What forbids a takeover is found before anything is claimed. What is found later, since something changed in between,
   gives the claim back.
2. Before the log says MIGRATION, ZooKeeper has the truth, and all of it is written (again): what it no longer has, a
   user for example, goes. From then on the log has it.
3. Brokers are registered before partitions are written, and watched from then on: one that dies meanwhile is fenced like any
   other.
4. In every session it is looked at whether this is the cluster still (`checks.fits`). One that does not fit is refused:
   it is not claimed, and no broker is fenced or told anything.
5. Where another controller has led since, what it has made and changed is taken over beside what the log has. What one
   side alone has stays: absence proves no deletion.
6. A topic with its partitions and settings is one batch; a portion has PARTITIONS_A_PORTION partitions.
"""

from collections.abc import Iterator

from actors.bridge import bases, changes, checks, following, notifications, token_changes, tokens, znodes
from actors.bridge.agreement import agree
from actors.bridge.asks import Apply, Become, Here, Hold, Job, Look, Pause, Settle, Tell, op_groups
from actors.bridge.claim import (
    absent,
    claim,
    guarded,
    is_ours,
    is_unbroken,
    last_claimed,
    look,
    mended,
    present,
    wanted,
)
from actors.bridge.notifications import PREFIXES, recall, remembered
from actors.bridge.reading import Snapshot, everything, read
from actors.bridge.returning import handed_back
from actors.bridge.stages import Happens, Progress, progress, reached
from actors.bridge.subjects import rules, settings, topics
from actors.metadata.image import Image
from actors.metadata.ops import Op, ProducerIdsSet, TopicGone, TopicSet
from actors.ports.zookeeper import Delete, Get, Rejected, is_path

AGAIN_MS = 1000
REFUSED_AGAIN_MS = 15_000
PARTITIONS_A_PORTION = 500
TOPICS_A_TURN = 250
PRODUCER_IDS_APART = 1 << 40
"""The distance between the last producer id of ZooKeeper and the first of rayft: brokers in ZooKeeper mode go on taking
blocks there, and the two must never meet."""


def take_over(here: Here) -> Job:
    """Lead to DRIVING, whatever the log says was done before."""
    while True:
        known = progress(here.image) == Progress.MIGRATION
        snapshot = yield from (look() if known else read(everything()))
        if known and not (reasons := list(checks.fits(snapshot, here))):
            here.unbroken = is_unbroken(snapshot)
            claimed = snapshot.get(znodes.CLAIMED)
            here.since = 0 if claimed is None else claimed.mzxid
            if not here.unbroken:
                snapshot = yield from read(everything())
                reasons = (yield from _judged(here, snapshot, again=True)).refusals
        if known and reasons:
            yield from _refused(reasons)
            continue
        if not known and wanted(snapshot) == "back":
            yield from _stay_back(here, snapshot)
            continue
        if not known and (refusals := _refusals(here, (yield from _judged(here, snapshot)))):
            yield from _refused(refusals)
            continue
        yield Become(Happens.KNOWN if known else Happens.SEEN)
        try:
            if not (known and is_ours(here, snapshot)):
                yield from claim(here, snapshot, chained=not known or here.unbroken)
        except Rejected:
            yield Become(Happens.TAKEN)
            yield Pause(AGAIN_MS)
            continue
        yield Become(Happens.CLAIMED)
        assert here.claim is not None
        yield Tell(f"this controller is the one of the ZooKeeper cluster, in controller epoch {here.claim.epoch}")
        if known:
            (noted,) = yield Look([Get(znodes.BRIDGE)], watch=False)  # the one before may have written until the claim
            recall(here, noted)
            if not here.unbroken:
                yield from _again(here, snapshot)
            yield from _go_on(here)
        else:
            yield from _begin(here)
        return


def stay_back(here: Here) -> Job:
    """Wait and look again whether the operator still wants the cluster handed back."""
    yield Pause(REFUSED_AGAIN_MS)
    yield Become(Happens.AGAIN)
    yield from take_over(here)


def _begin(here: Here) -> Job:
    """Take the cluster over for the first time, while ZooKeeper has the truth."""
    yield from present(here)
    snapshot = yield from read(everything())
    found = yield from _judged(here, snapshot)
    if refusals := _refusals(here, found):
        yield from _given_back(here, refusals)
        return
    yield Become(Happens.READ)
    yield Apply([reached(Progress.PRE_MIGRATION)])
    yield from following.live(here)
    count = 0
    for group in groups(here, snapshot):
        yield op_groups(group)
        count += sum(len(part) for part in group)
    yield from bases.forget(here)  # those of a takeover before, which are not to be merged with
    yield Apply([_producer_ids(here.image, snapshot), reached(Progress.MIGRATION)])
    yield Settle()
    here.unbroken = True
    here.names.update({here.image.topic_id(row) or b"": here.image.topic_name(row) for row in here.image.topics()})
    here.wrote = {}
    here.handled = {folder: notifications.newest(snapshot.children(folder), folder) for folder in PREFIXES}
    yield from remembered(here)
    for path, base in _agreed(snapshot):
        bases.keep(here, path, base)
    yield Tell(f"{here.image.topic_count} topics are taken over; brokers are told from now on")
    yield from token_changes.usable(here)
    assert here.claim is not None
    yield Hold(here.claim.epoch)
    yield from bases.complete(here)
    yield Become(Happens.COMMITTED)


def _again(here: Here, before: Snapshot) -> Job:
    """Take over what another controller has made and changed since rayft's last claim (`before`: what was read before
    this one). What the log has beside that stays. Nothing is deleted."""
    last = last_claimed(before)
    yield Tell(
        f"another controller has led since rayft's controller epoch {last}: what it has made and changed is taken over, "
        f"and nothing is deleted",
        error=True,
    )
    yield from present(here)
    snapshot = yield from read(everything())
    for group in returned(here, snapshot, last):
        yield op_groups(group)
    yield Settle()
    yield from mended(here)


def _go_on(here: Here) -> Job:
    """Go on with a cluster that was taken over before: the log has the truth, brokers are told at once, and both sides
    are compared."""
    assert here.claim is not None
    yield Hold(here.claim.epoch)
    yield from following.live(here)
    yield Become(Happens.READ)
    yield from agree(here)
    here.unbroken = True
    yield from token_changes.usable(here)
    yield from remembered(here)
    yield Become(Happens.COMMITTED)


def _agreed(snapshot: Snapshot) -> Iterator[tuple[str, bases.Base]]:
    """The bases of what was taken over: all that ZooKeeper has."""
    names = set(snapshot.children(znodes.TOPICS))
    for entity in snapshot.entities():
        if not settings.is_left_over(entity, names):
            path = settings.path_of(entity)
            yield path, bases.of_settings(settings.settings(path, snapshot.get(path)))
    for path, znode in snapshot.rule_znodes():
        yield path, bases.of_rules(rules.rules(path, znode))


def groups(here: Here, snapshot: Snapshot) -> Iterator[list[list[Op]]]:
    """The ops that make the image say what was read: portions, each a list of groups that become visible at once."""
    image = here.image
    found: dict[str, topics.Topic] = {}
    for where, one in snapshot.below(znodes.TOPICS):
        topic = topics.topic(where, one)
        found[topic.name] = topic
        if len(found) % TOPICS_A_TURN == 0:
            yield []
    gone = [row for row in image.topics() if _is_another(image, row, found)]
    yield [[TopicGone(image.topic_id(row) or b"", image.topic_name(row))] for row in gone]
    portion: list[list[Op]] = []
    room = PARTITIONS_A_PORTION
    for topic in found.values():
        states = {
            number: topics.partition(path, znode, replicas)
            for number, replicas in topic.replicas.items()
            if (znode := snapshot.get(path := topics.state_path(topic.name, number))) is not None
        }
        placed = topic._replace(replicas=following.without_controllers(here, topic))
        portion.append([TopicSet(topic.name, topic.id), topics.taken_over(placed, states, here.usable())])
        room -= len(topic.replicas)
        if room <= 0:
            yield portion
            portion, room = [], PARTITIONS_A_PORTION
    yield portion
    for entity in dict.fromkeys(
        [*snapshot.entities(), *(one for one in settings.every(image) if is_path(settings.path_of(one)))]
    ):
        path = settings.path_of(entity)
        there = settings.settings(path, None if settings.is_left_over(entity, found) else snapshot.get(path))
        if ops := settings.differences(image, entity, there):
            yield [ops]
    ruled = rules.by_resource(image)
    for about in dict.fromkeys([*ruled, *(rules.resource(path) for path, _ in snapshot.rule_znodes())]):
        path = rules.path_of(about)
        if more := list(rules.differences(ruled.get(about, frozenset()), rules.rules(path, snapshot.get(path)))):
            yield [more]
    yield from tokens.taken_over(image, snapshot)


def returned(here: Here, snapshot: Snapshot, last: int) -> Iterator[list[list[Op]]]:
    """The ops that add to the image what another controller has made and changed after rayft's epoch `last`: portions,
    as those of `groups`. A topic in /admin/delete_topics is left to the deletion that is under way. Where it is known
    what was agreed on (`bases.py`), settings and rules are left to the comparison that follows, which merges them;
    those of new topics are taken as they are."""
    image = here.image
    new: set[str] = set()
    doomed = set(snapshot.children(znodes.DELETE_TOPICS))
    for path, znode in snapshot.below(znodes.TOPICS):
        topic = topics.topic(path, znode)
        row, group = image.topic(topic.name), list[Op]()
        if topic.name in doomed:
            continue
        if row >= 0 and topic.id != image.topic_id(row):
            group.append(TopicGone(image.topic_id(row) or b"", topic.name))
            row = -1
        if row < 0:
            group.append(TopicSet(topic.name, topic.id))
            new.add(f"topics/{topic.name}")
        rows = {} if row < 0 else {image.number(one): one for one in image.topic_partitions(row)}
        states = {
            number: topics.partition(one, known, replicas)
            for number, replicas in topic.replicas.items()
            if (known := snapshot.get(one := topics.state_path(topic.name, number))) is not None
        }
        numbers = [
            number
            for number in topic.replicas
            if number not in rows or (number in states and states[number].controller_epoch > last)
        ]
        if numbers:
            placed = topic._replace(replicas=following.without_controllers(here, topic))
            told = {number: image.partition_epoch(one) for number, one in rows.items()}
            group.append(topics.taken_over(placed, states, here.usable(), numbers, told))
        if group:
            here.names[topic.id] = topic.name
            yield [group]
    for entity in snapshot.entities():
        path = settings.path_of(entity)
        if (here.has_bases and entity not in new) or changes.is_left_over(here, entity):
            continue
        if ops := settings.differences(image, entity, settings.settings(path, snapshot.get(path))):
            yield [ops]
    ruled = rules.by_resource(image)
    for path, znode in snapshot.rule_znodes() if not here.has_bases else ():
        have = ruled.get(rules.resource(path), frozenset())
        if more := list(rules.differences(have, rules.rules(path, znode))):
            yield [more]


def _is_another(image: Image, row: int, found: dict[str, topics.Topic]) -> bool:
    topic = found.get(image.topic_name(row))
    return topic is None or topic.id != image.topic_id(row) or len(topic.replicas) < image.partition_count(row)


def _producer_ids(image: Image, snapshot: Snapshot) -> ProducerIdsSet:
    first = max(image.next_producer_id, checks.next_producer_id(snapshot) + PRODUCER_IDS_APART)
    return ProducerIdsSet(-1, -1, first)


def _judged(here: Here, snapshot: Snapshot, again: bool = False) -> Job:
    """Find what forbids a takeover, a portion of it a turn: a large cluster takes seconds."""
    steps = checks.judged(snapshot, here.controllers, again)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        yield Apply([])


def _refusals(here: Here, found: checks.Findings) -> list[str]:
    refusals = list(found.refusals)
    if found.cluster_id not in ("", here.cluster_id):
        refusals.append(
            f"the ZooKeeper cluster has the id {found.cluster_id} and this quorum {here.cluster_id}: format it with that id."
        )
    if progress(here.image) == Progress.NONE and here.image.topic_count:
        refusals.append("this quorum has topics of its own: take over with a new one.")
    refusals += checks.unreadable(here.image)
    missing = set(found.listeners[:1]) - {one.name for one in here.endpoints}
    if missing and here.endpoints:
        refusals.append(f"the controllers have no listener {missing.pop()}, by which the brokers reach a controller.")
    return refusals


def _refused(refusals: list[str]) -> Job:
    for reason in refusals:
        yield Tell(f"the cluster is not taken over: {reason}", error=True)
    yield Become(Happens.FORBIDDEN)
    yield Pause(REFUSED_AGAIN_MS)
    yield Become(Happens.AGAIN)


def _given_back(here: Here, refusals: list[str]) -> Job:
    """Give the claim back, since something that forbids the takeover was found only now: a broker becomes the
    controller again."""
    yield from absent(here)
    yield guarded(here, [Delete(znodes.CONTROLLER)])
    here.claim = None
    yield Become(Happens.FORBIDDEN)
    for reason in refusals:
        yield Tell(f"the cluster is given back: {reason}", error=True)
    yield Pause(REFUSED_AGAIN_MS)
    yield Become(Happens.AGAIN)
    yield from take_over(here)


def _stay_back(here: Here, snapshot: Snapshot) -> Job:
    """Leave the cluster to the old controller, as the operator wants. A controller that ended while it gave the cluster
    back may have left itself in /controller, and the note that says that it drives."""
    wish = snapshot.get(znodes.WANTED)
    if checks.holder(snapshot) in here.controllers and wish is not None:
        yield from claim(here, snapshot)
        yield guarded(here, [Delete(znodes.CONTROLLER), *handed_back(wish)])
        here.claim = None
    yield Become(Happens.WANTED_BACK)
    yield Pause(REFUSED_AGAIN_MS)
    yield Become(Happens.AGAIN)
