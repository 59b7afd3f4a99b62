"""Writes what is committed in the metadata log back into ZooKeeper: topics, settings, access rules, delegation tokens.

Brokers in ZooKeeper mode read settings, access rules and tokens there and nowhere else, and make topics there. This file
alone decides which znodes a change of metadata becomes (of tokens: `token_changes.py`). Rules:

1. A znode is read before it is written, and written where it says something else. So it may be written again at any
   time.
2. What is written is committed before.
3. Settings and access rules come with a notification in the same transaction. That of settings says that it is rayft's;
   those of rules cannot (`notifications.py`, rule 5). Brokers obey it, and the bridge passes over it.
4. More changes than one transaction has (`claim.made`) need several. A topic's own znode comes first then, as brokers do
   not look at the states of partitions, and it goes with the last of them.
5. A topic that is deleted keeps its znodes, with one in /admin/delete_topics, until every broker in ZooKeeper mode that
   has a replica has answered that it gave it up, as Apache Kafka has it. So the next active controller, and the old one if
   the cluster is handed back, tell those that were away. If its name is in use before, the new topic's znodes take their
   place.
6. A topic that controllers have seen is deleted for a proof only: it is in /admin/delete_topics, or the chain of claims
   is unbroken (`claim.py`, rule 4), so that the log has had it.
7. Leaders and ISRs are written too (KIP-866), after everything else: behind what brokers are told, by a little.
8. What no znode can be named after, or is larger than a request, is told of and left out; the others go on.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from actors.authorization.resources import Pattern
from actors.authorization.resources import Resource as Kind
from actors.bridge import bases, merging, token_changes, tokens, znodes
from actors.bridge import changes as taking
from actors.bridge.asks import End, Here, Job, Look, Settle, Tell, apart, op_groups
from actors.bridge.claim import guarded, made
from actors.bridge.notifications import OURS, PREFIXES, make_noted
from actors.bridge.subjects import rules, settings, topics
from actors.bridge.subjects.rules import Resource
from actors.bridge.znodes import written
from actors.controller.pushes.pushes import Ending
from actors.metadata.image import Image
from actors.metadata.ops import Op, PartitionsChanged, PartitionsSet, TopicGone, TopicSet
from actors.ports.zookeeper import (
    Change,
    Children,
    Create,
    Delete,
    Get,
    Unsendable,
    Write,
    Znode,
    is_path,
)

STATES_AT_ONCE = 100


class Subject(NamedTuple):
    """The part of the metadata that one job writes: a topic by name, an entity path, the rules of a resource, a
    delegation token by id, or some of the states that have changed."""

    kind: str
    name: Any


STATES = Subject("states", "")
NO_NAME = "it cannot have a znode of that name, so brokers in ZooKeeper mode do not know of it"


def subjects(image: Image, op: Op) -> Iterator[Subject]:
    """The subjects of an op that ZooKeeper has to be told of. `image` has the op replayed."""
    if isinstance(op, TopicSet):
        yield Subject("topic", op.name)
    elif isinstance(op, TopicGone):
        yield Subject("gone", op.id)
    elif isinstance(op, PartitionsSet):
        yield from _topic(image, op.topic_id)
    elif isinstance(op, PartitionsChanged):
        for topic_id in {state.topic_id for state in op if state.replicas is not None or state.adding is not None}:
            yield from _topic(image, topic_id)
    elif (entity := settings.entity_of(op)) is not None:
        yield Subject("settings", entity)
    elif (resource := rules.resource_of(op)) is not None:
        yield Subject("rules", resource)
    elif (id := tokens.id_of(op)) is not None:
        yield Subject("token", id)


def job(here: Here, subject: Subject) -> Job:
    """The job that writes a subject as the image has it."""
    return JOBS[subject.kind](here, subject.name)


@apart("topic {}")
def topic(here: Here, name: str) -> Job:
    """Write a topic with its assignments; remove what is there if the topic is gone."""
    yield Settle()
    path, image = topics.path_of(name), here.image
    row = image.topic(name)
    if row < 0:
        yield from _removed(here, name)
        return
    here.names[image.topic_id(row) or b""] = name
    wish = _wish(name)
    known, there, wished = yield Look([Get(path), Children(f"{path}/partitions"), Get(wish)])
    data = topics.topic_data(image, row)
    changes: list[Change] = []
    if known is None:
        changes.append(Create(path, data))
    elif not _same_topic(path, known, data):
        changes.append(Write(path, data, known.version))
    is_other = known is not None and is_another(path, known, image.topic_id(row) or b"")
    if is_other and wished is not None:
        changes.append(Delete(wish))
    if there is None:
        changes.append(Create(f"{path}/partitions"))
    epoch = here.claim.epoch if here.claim is not None else 0
    for partition in list(image.topic_partitions(row)):
        number = image.number(partition)
        if str(number) not in (there or ()):
            state = topics.state_data(image, partition, epoch, image.leader_epoch(partition))
            changes += topics.state_znodes(name, number, state)
    yield from made(here, changes)
    if known is None or is_other:  # what is there are the settings of the topic before
        here.anew.add(f"topics/{name}")
        yield from entity(here, f"topics/{name}")


def moved(op: Op) -> Iterator[tuple[bytes, int]]:
    """The partitions, by topic id and number, whose state an op changes."""
    if isinstance(op, PartitionsSet):
        yield from ((op.topic_id, state.number) for state in op)
    elif isinstance(op, PartitionsChanged):
        yield from ((state.topic_id, state.number) for state in op)


def sweep(here: Here) -> None:
    """Note that the states of all partitions have to be compared with ZooKeeper's, since it is not known what was
    written."""
    here.unswept = deque((id, 0) for row in here.image.topics() if (id := here.image.topic_id(row)))


def states(here: Here, _: Any = None) -> Job:
    """Write leaders and ISRs of a portion of partitions that have changed, so that an old broker that makes itself the
    controller begins where this one was. A partition without a znode gets one with its topic's."""
    portion = list(islice(here.moved, STATES_AT_ONCE))
    for one in portion:
        del here.moved[one]
    try:
        yield Settle()
        yield from _states(here, portion or _swept(here))
    except BaseException:
        here.moved.update(dict.fromkeys(portion))
        raise


def _swept(here: Here) -> list[tuple[bytes, int]]:
    found: list[tuple[bytes, int]] = []
    while here.unswept and len(found) < STATES_AT_ONCE:
        id, first = here.unswept.popleft()
        row = here.image.topic_by_id(id)
        count = here.image.partition_count(row) if row >= 0 else 0
        end = min(count, first + STATES_AT_ONCE - len(found))
        found += [(id, number) for number in range(first, end)]
        if end < count:
            here.unswept.appendleft((id, end))
    return found


def _states(here: Here, wanted: Sequence[tuple[bytes, int]]) -> Job:
    image, epoch = here.image, here.claim.epoch if here.claim is not None else 0
    rows: dict[str, int] = {}
    for id, number in wanted:
        topic_row = image.topic_by_id(id)
        if topic_row >= 0 and (row := image.partition(topic_row, number)) >= 0:
            rows[topics.state_path(image.topic_name(topic_row), number)] = row
    found = yield Look([Get(path) for path in rows], watch=False)
    changes: list[Change] = []
    for (path, row), known in zip(rows.items(), found, strict=True):
        if known is not None:
            data = topics.state_data(image, row, epoch, image.leader_epoch(row))
            changes += topics.state_writes(path, known, data, image.partition_epoch(row))
    yield from made(here, changes)


@apart("settings of {}")
def entity(here: Here, name: str) -> Job:
    """Write the settings of one entity."""
    yield Settle()
    path = settings.path_of(name)
    if not is_path(path):
        if settings.here(here.image, name):
            raise Unsendable(NO_NAME)
        return
    parents = list(_parents(path, znodes.CONFIG))
    known, noted, *above = yield Look([Get(path), Get(bases.path_of(path)), *map(Get, parents)], watch=False)
    have = settings.here(here.image, name)
    there = settings.settings(path, known)
    is_merged = name not in here.anew and not taking.is_left_over(here, name)
    base = None if not is_merged else bases.known(here, path, noted, bases.of_settings(have))
    if base is not None and bases.of_settings(there) != base:
        both = merging.of_settings(base, have, there)
        if ops := settings.differences(here.image, name, both):
            noted = yield from bases.announce(here, path, base, bases.of_settings(there), noted)
            yield op_groups([ops])
            yield Settle()
            yield Tell(f"settings of {name} were changed at both sides, and both count")
            have = settings.here(here.image, name)
    wanted = settings.merged(there, have, name)
    if (known is not None and settings.same(there, wanted)) or (known is None and not wanted):
        here.anew.discard(name)
        bases.keep(here, path, bases.of_settings(there))
        yield from bases.write(here)
        return
    changes: list[Change] = [Create(one) for one, found in zip(parents, above, strict=True) if found is None]
    data = settings.data(wanted, by=OURS)
    changes.append(Create(path, data) if known is None else Write(path, data, known.version))
    notice = written(version=2, entity_path=name, by=OURS)
    changes.append(Create(f"{znodes.CONFIG_CHANGES}/config_change_", notice, sequential=True))
    yield guarded(here, bases.noted(here, path, bases.of_settings(wanted), noted, changes))
    here.anew.discard(name)
    here.agreed.pop(path, None)


@apart("access rules of {}")
def resource(here: Here, about: Resource) -> Job:
    """Write the access rules of one resource."""
    yield Settle()
    path = rules.path_of(about)
    if not rules.is_written(about):
        if about in rules.by_resource(here.image):
            raise Unsendable(NO_NAME)
        return
    folder = rules.changes_of(about)
    parents = [*_parents(path, ""), *_parents(f"{folder}/x", "")]
    wanted = [Get(path), Get(bases.path_of(path)), Get(znodes.BRIDGE)]
    known, noted, bridge, *above = yield Look([*wanted, *map(Get, parents)], watch=False)
    have = rules.by_resource(here.image).get(about, frozenset())
    there = rules.rules(path, known)
    base = bases.known(here, path, noted, bases.of_rules(have))
    if base is not None and bases.of_rules(there) != base:
        both = merging.of_rules(base, have, there)
        if ops := list(rules.differences(have, both)):
            noted = yield from bases.announce(here, path, base, bases.of_rules(there), noted)
            yield op_groups([ops])
            yield Settle()
            yield Tell(f"access rules of {about.name} were changed at both sides, and both count")
            have = both
    if there == have:
        bases.keep(here, path, bases.of_rules(there))
        yield from bases.write(here)
        return
    changes: list[Change] = [Create(one) for one, found in zip(parents, above, strict=True) if found is None]
    if known is None:
        changes.append(Create(path, rules.data(have, by=OURS)))
    else:
        changes.append(Write(path, rules.data(have, by=OURS), known.version) if have else Delete(path, known.version))
    changes.append(Create(f"{folder}/{PREFIXES[folder]}", _rule_notice(about), sequential=True))
    changes = bases.noted(here, path, bases.of_rules(have), noted, changes)
    yield from make_noted(here, bridge, changes, folder, rules.key_of(about), rules.mark_of(have))
    here.agreed.pop(path, None)


def _topic(image: Image, topic_id: bytes) -> Iterator[Subject]:
    row = image.topic_by_id(topic_id)
    if row >= 0:
        yield Subject("topic", image.topic_name(row))


def _rule_notice(about: Resource) -> bytes:
    """The content of a notification of a resource's rules. Brokers of 2.8 to 3.9 know kinds here by the names of their
    enum, and not by those of the paths."""
    kind = Kind(about.kind).name
    if about.pattern == Pattern.LITERAL:
        return f"{kind}:{about.name}".encode()
    return written(version=1, resourceType=kind, name=about.name, patternType="PREFIXED")


def _same_topic(path: str, known: Any, data: bytes) -> bool:
    try:
        return topics.topic(path, known) == topics.topic(path, known._replace(data=data))
    except znodes.BadZnode:
        return False


def is_another(path: str, znode: Znode, id: bytes) -> bool:
    """Whether a topic's znode is known to be that of another topic than the one with this id."""
    try:
        return topics.topic(path, znode).id not in (b"", id)
    except znodes.BadZnode:
        return False


def _removed(here: Here, name: str) -> Job:
    """Delete what ZooKeeper has of a topic: partitions first, and last the znode that says that the topic is to be
    deleted. As long as a broker has a replica, only the settings are deleted."""
    path = topics.path_of(name)
    config, wish = f"{znodes.CONFIG}/topics/{name}", _wish(name)
    known, there, configured, wished, noted = yield Look(
        [Get(path), Children(f"{path}/partitions"), Get(config), Get(wish), Get(bases.path_of(config))], watch=False
    )
    gone = [*([Delete(config)] if configured is not None else []), *bases.change(here, config, {}, noted)]
    numbers = there or ()
    if known is not None and numbers and wished is None and not here.unbroken:
        yield Tell(
            f"topic {name} is in ZooKeeper and not in the log, and stays: nothing proves that it was deleted here"
        )
        return
    if known is not None and numbers and not (yield from _given_up(here, path, known)):
        marks: list[Change] = [Create(wish)] if wished is None else []
        marks += gone
        if marks:
            here.agreed.pop(config, None)
            yield guarded(here, marks)
        return
    below = yield Look([Children(f"{path}/partitions/{number}") for number in numbers], watch=False)
    states = [
        [
            *(Delete(f"{path}/partitions/{number}/{one}") for one in children or ()),
            Delete(f"{path}/partitions/{number}"),
        ]
        for number, children in zip(numbers, below, strict=True)
    ]
    last: list[Change] = list(states.pop()) if states else []
    last += [Delete(f"{path}/partitions")] if there is not None else []
    last += [Delete(one) for one, found in ((path, known), (wish, wished)) if found is not None]
    last += gone
    here.agreed.pop(config, None)
    yield from made(here, [one for some in states for one in some])
    if last:  # a topic without states would be a new one, if the session ended before the rest goes
        yield guarded(here, last)


def _given_up(here: Here, path: str, znode: Znode) -> Job:
    """Ask whether no broker in ZooKeeper mode has a replica of a deleted topic any more (rule 5)."""
    try:
        found = topics.topic(path, znode)
    except znodes.BadZnode:
        return True
    ours = {*here.controllers, *(one.id for one in here.image.brokers() if not one.zookeeper)}
    brokers = frozenset(id for replicas in found.replicas.values() for id in replicas) - ours
    return (yield End(Ending(found.id, found.name, found.replicas, brokers)))


def _wish(name: str) -> str:
    return f"{znodes.DELETE_TOPICS}/{name}"


def _parents(path: str, root: str) -> Iterator[str]:
    """The znodes above a path, from the top, that may be missing."""
    names = path.removeprefix(root + "/").split("/")[:-1]
    for end in range(1, len(names) + 1):
        yield "/".join((root, *names[:end]))


JOBS: Mapping[str, Callable[[Here, Any], Job]] = {
    "topic": topic,
    "settings": entity,
    "rules": resource,
    "token": token_changes.write,
    "states": states,
}
"""The job of each kind of subject."""
