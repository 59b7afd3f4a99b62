"""How ZooKeeper is made to say what the metadata log says: by a new active controller, and before the cluster is handed
back.

What was committed in the last moment of a controller, or just before the way back, is in the log and not yet in
ZooKeeper. This file alone decides what is compared, and in which order. Rules:

1. What ZooKeeper says is read first. Then what notifications name is taken over. Then what was read is compared with the
   log. So what a broker changes in between is not taken for something that the log has changed since.
2. A topic that ZooKeeper has and the log does not have was deleted if a controller has seen it: it has states of
   partitions. Otherwise it is a broker's, like partitions that were added to a topic: they stay (`following.py`).
3. Where both differ, `merging.py` says which side counts.
4. A znode that cannot be read is told of and left as it is; nothing else waits for it.
5. Nothing here tells a broker anything, but that a topic is deleted.
"""

from collections.abc import Sequence
from itertools import islice

from actors.bridge import bases, changes, merging, token_changes, writing, znodes
from actors.bridge.asks import Here, Job, Look, Tell
from actors.bridge.reading import Snapshot, read, settings_and_rules
from actors.bridge.subjects import rules, settings, topics
from actors.bridge.znodes import BadZnode
from actors.ports.zookeeper import Children, Get, Znode, is_path

TOPICS_AT_ONCE = 250


def agree(here: Here) -> Job:
    """Take over what brokers have changed, then write what differs: topics, settings, access rules, delegation tokens."""
    if not here.has_bases:
        yield from bases.forget(here)
    snapshot = yield from read(settings_and_rules())
    yield from changes.changed_settings(here)
    yield from changes.changed_rules(here)
    yield from _topics(here)
    yield from _settings(here, snapshot)
    yield from _rules(here, snapshot)
    yield from bases.complete(here)
    yield from token_changes.agree(here)


def _topics(here: Here) -> Job:
    image = here.image
    (names,) = yield Look([Children(znodes.TOPICS)], watch=False)
    every = iter(dict.fromkeys([*(image.topic_name(row) for row in image.topics()), *(names or ())]))
    while portion := list(islice(every, TOPICS_AT_ONCE)):
        paths = [topics.path_of(name) for name in portion]
        found = yield Look([*map(Get, paths), *(Children(f"{path}/partitions") for path in paths)], watch=False)
        for name, znode, numbers in zip(portion, found, found[len(portion) :], strict=False):
            try:
                if differs(here, name, znode, numbers or ()):
                    yield from writing.topic(here, name)
            except BadZnode as error:
                why = f"topic {name} is left as it is in ZooKeeper: {error}"
                if here.image.topic(name) >= 0:
                    here.unwritten[writing.topic, name] = why
                yield Tell(why, error=True)


def differs(here: Here, name: str, znode: Znode | None, numbers: Sequence[str]) -> bool:
    """Whether a topic has to be written to ZooKeeper, or removed there."""
    path, image = topics.path_of(name), here.image
    row = image.topic(name)
    if znode is None:
        return row >= 0 or bool(numbers)
    there = topics.topic(path, znode)
    if row < 0:
        return bool(numbers)  # whether it was deleted here is asked where it is removed
    if len(there.replicas) > image.partition_count(row) and there.id in (b"", image.topic_id(row)):
        return False
    have = topics.topic(path, Znode(topics.topic_data(image, row)))
    return there != have or bool(set(map(str, have.replicas)) - set(numbers))


def _settings(here: Here, snapshot: Snapshot) -> Job:
    every = dict.fromkeys([*settings.every(here.image), *snapshot.entities()])
    entities = [one for one in every if not changes.is_left_over(here, one)]
    kept = yield from bases.read(here, [path for one in entities if is_path(path := settings.path_of(one))])
    for entity in entities:
        path = settings.path_of(entity)
        if not is_path(path):
            yield from writing.entity(here, entity)
            continue
        try:
            there = settings.settings(path, snapshot.get(path))
            base = bases.of_settings(there)
            if not settings.same(there, settings.merged(there, settings.here(here.image, entity), entity)):
                if path not in kept and merging.is_anothers(here, path, snapshot.get(path)):
                    yield from changes.take_settings(here, entity)
                else:
                    yield from writing.entity(here, entity)
            elif kept.get(path) != base:
                bases.keep(here, path, base)
        except BadZnode:  # whichever job it is tells of it
            yield from (writing.entity if settings.here(here.image, entity) else changes.take_settings)(here, entity)


def _rules(here: Here, snapshot: Snapshot) -> Job:
    ruled = rules.by_resource(here.image)
    every = dict.fromkeys([*ruled, *(rules.resource(path) for path, _ in snapshot.rule_znodes())])
    kept = yield from bases.read(here, [rules.path_of(about) for about in every if rules.is_written(about)])
    for about in every:
        path = rules.path_of(about)
        try:
            there = rules.rules(path, snapshot.get(path))
            if there != ruled.get(about, frozenset()):
                if path not in kept and merging.is_anothers(here, path, snapshot.get(path)):
                    yield from changes.take_rules(here, about)
                else:
                    yield from writing.resource(here, about)
            elif kept.get(path) != bases.of_rules(there):
                bases.keep(here, path, bases.of_rules(there))
        except BadZnode:
            yield from (writing.resource if about in ruled else changes.take_rules)(here, about)
