"""How what others change in ZooKeeper while the bridge drives is taken into the metadata log.

Brokers register in ZooKeeper, make topics there, and write the settings, access rules and delegation tokens that their
clients send them; tools of Apache Kafka 2.x with --zookeeper do the same. This file alone decides what becomes of brokers
and topics (of settings and rules: `changes.py`; of tokens: `token_changes.py`), and which job reads what. Rules:

1. Each job reads one folder with a watch, so that the next change is heard of, and can be run again at any time.
2. A topic that the log does not have is new if no controller has seen it: it has no states of partitions. Otherwise the
   log had it and has deleted it, and its znodes are what is left.
3. Partitions that a tool has added are taken over; any other difference in a topic's znode is written back as the log
   has it.
4. A znode that cannot be read is told of (`asks.taken`), and nothing else waits for it.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from actors.bridge import bases, changes, token_changes, writing, znodes
from actors.bridge.agreement import TOPICS_AT_ONCE, differs
from actors.bridge.asks import Apply, Become, Follow, Here, Job, Look, Tell, TellAgain, op_groups, taken
from actors.bridge.claim import guarded, is_ours, look, present, wanted
from actors.bridge.returning import ENDS
from actors.bridge.stages import Happens
from actors.bridge.subjects import brokers, settings, topics
from actors.bridge.znodes import BadZnode, fields
from actors.controller.brokers.zookeeper_brokers import LiveBroker
from actors.metadata.ops import Op, TopicGone, TopicSet
from actors.metadata.topic_names import rival
from actors.ports.zookeeper import Children, Delete, Get, Znode


def live(here: Here) -> Job:
    """Read which brokers are there: /brokers/ids and each znode in it."""
    here.reads_broker_ids = True
    try:
        yield from _live(here)
    finally:
        here.reads_broker_ids = False


def _live(here: Here) -> Job:
    (names,) = yield Look([Children(znodes.BROKER_IDS)])
    paths = [f"{znodes.BROKER_IDS}/{name}" for name in names or ()]
    found = yield Look([Get(path) for path in paths])
    there: list[LiveBroker] = []
    for path, znode in zip(paths, found, strict=True):
        try:
            if znode is not None:
                there.append(brokers.broker(path, znode))
        except BadZnode as error:
            yield Tell(f"a broker is not driven: {error}", error=True)
    if here.endpoints and here.me not in {one.id for one in there}:
        yield from present(here)
    yield Follow(sorted(one for one in there if one.id not in here.controllers))


def controller(here: Here) -> Job:
    """Check whether ZooKeeper still has this controller as the controller, and read what the operator asks for."""
    snapshot = yield from look()
    if not is_ours(here, snapshot):
        yield Tell("another controller is in /controller: this one claims it again", error=True)
        yield Become(Happens.USURPED)
    elif wanted(snapshot) in ENDS:
        yield from ENDS[wanted(snapshot)](here)


def every_topic(here: Here) -> Job:
    """Read all topics, for those that are new or gone; each znode is watched."""
    (names,) = yield Look([Children(znodes.TOPICS)])
    every = iter(names or ())
    while portion := list(islice(every, TOPICS_AT_ONCE)):
        paths = [topics.path_of(name) for name in portion]
        found = yield Look([*map(Get, paths), *(Children(f"{path}/partitions") for path in paths)])
        for name, znode, numbers in zip(portion, found, found[len(portion) :], strict=False):
            if not _is_known(here, name, znode, numbers or ()):
                yield from topic(here, name)


def _is_known(here: Here, name: str, znode: Znode | None, numbers: Sequence[str]) -> bool:
    """Whether the log says the same of a topic."""
    row = here.image.topic(name)
    if znode is None or row < 0:
        return False
    try:
        there = topics.topic(topics.path_of(name), znode)
        return len(there.replicas) <= here.image.partition_count(row) and not differs(here, name, znode, numbers)
    except BadZnode:
        return False


@taken("topic {}")
def topic(here: Here, name: str) -> Job:
    """Take over one topic's znode, as rules 2 and 3 have it."""
    path, image = topics.path_of(name), here.image
    znode, states = yield Look([Get(path), Children(f"{path}/partitions")])
    if znode is None:
        return
    row = image.topic(name)
    found = topics.topic(path, znode)
    if row < 0 and not states:
        yield from _new(here, found)
    elif row < 0:
        yield from writing.topic(here, name)
    elif len(found.replicas) > image.partition_count(row) and found.id in (b"", image.topic_id(row)):
        yield from _more(here, found, row)
    else:
        yield from writing.topic(here, name)


def deletions(here: Here) -> Job:
    """Delete the topics that brokers and tools name in /admin/delete_topics. If the log has made a topic of the same
    name since, it is another topic and stays."""
    (names,) = yield Look([Children(znodes.DELETE_TOPICS)])
    for name in names or ():
        path = topics.path_of(name)
        if not here.deletes_topics and here.image.topic(name) >= 0:
            yield Tell(f"topic {name} is not deleted: delete.topic.enable is false", error=True)
            yield guarded(here, [Delete(f"{znodes.DELETE_TOPICS}/{name}")])
            continue
        (znode,) = yield Look([Get(path)], watch=False)
        row = here.image.topic(name)
        if row >= 0 and (znode is None or not writing.is_another(path, znode, here.image.topic_id(row) or b"")):
            yield Apply([TopicGone(here.image.topic_id(row) or b"", name)])
        yield from writing.topic(here, name)


def failed_directories(here: Here) -> Job:
    """Tell brokers again that have lost a directory, by /log_dir_event_notification. Such a broker names the partitions
    when it is told of all again."""
    (names,) = yield Look([Children(znodes.LOG_DIR_EVENTS)])
    paths = [f"{znodes.LOG_DIR_EVENTS}/{name}" for name in names or ()]
    for path, znode in zip(paths, (yield Look([Get(path) for path in paths], watch=False)), strict=True):
        if znode is None:
            continue
        try:
            yield TellAgain(znodes.number(path, fields(path, znode).get("broker"), "broker"))
        except BadZnode as error:
            yield Tell(str(error), error=True)
        yield guarded(here, [Delete(path)])


def old_tools(here: Here) -> Job:
    """Tell the operator of what tools with --zookeeper ask of a controller through znodes that rayft does not read."""
    paths = (znodes.REASSIGN, znodes.PREFERRED)
    for path, znode in zip(paths, (yield Look([Get(path) for path in paths])), strict=True):
        if znode is not None:
            yield Tell(f"{path} is not obeyed: use the tool with --bootstrap-server instead of --zookeeper", error=True)
            yield guarded(here, [Delete(path, znode.version)])


FOLLOWED: Mapping[str, Callable[[Here], Job]] = {
    znodes.CONTROLLER: controller,
    znodes.BROKER_IDS: live,
    znodes.CONFIG_CHANGES: changes.changed_settings,
    znodes.RULE_CHANGES: changes.changed_rules,
    znodes.TOKEN_CHANGES: token_changes.changed,
    znodes.DELETE_TOPICS: deletions,
    znodes.TOPICS: every_topic,
    znodes.LOG_DIR_EVENTS: failed_directories,
    znodes.REASSIGN: old_tools,
}
"""Path -> the job that reads it and leaves a watch on it, in the order in which a session begins."""
ALSO = {
    znodes.CONTROLLER_EPOCH: znodes.CONTROLLER,
    znodes.WANTED: znodes.CONTROLLER,
    znodes.PREFIXED_CHANGES: znodes.RULE_CHANGES,
    znodes.PREFERRED: znodes.REASSIGN,
}
"""Paths that are watched as well, each with the path whose job reads it."""


def job_of(path: str) -> str:
    """The key of the job for a path whose watch has fired: a path of FOLLOWED, a topic's path, or nothing."""
    if path in FOLLOWED or path in ALSO:
        return ALSO.get(path, path)
    if path.startswith(znodes.BROKER_IDS + "/"):
        return znodes.BROKER_IDS
    if path.startswith(znodes.TOPICS + "/"):
        return "/".join(path.split("/")[:4])
    return ""


def job(here: Here, path: str) -> Job:
    """The job for a key that `job_of` has returned."""
    if path in FOLLOWED:
        return FOLLOWED[path](here)
    return topic(here, path.removeprefix(znodes.TOPICS + "/"))


# ---- topics


def _new(here: Here, found: topics.Topic) -> Job:
    other = rival(found.name, here.image)
    if not found.id:  # the tool of 2.8 makes none: a controller does, when it first sees the topic
        found = found._replace(id=here.new_id())
    if not found.id or other is not None or any(found.adding.values()) or any(found.removing.values()):
        raise BadZnode(
            topics.path_of(found.name),
            f"topic {other} differs from it only in '.' and '_'" if other is not None else "it is being reassigned",
        )
    entity = f"topics/{found.name}"
    path = settings.path_of(entity)
    # A broker writes them first, without a notification.
    configured, noted = yield Look([Get(path), Get(bases.path_of(path))], watch=False)
    given: list[Op] = []
    readable = True
    try:
        there = settings.settings(path, configured)
        given = settings.differences(here.image, entity, there)
        yield from bases.announce(here, path, {}, bases.of_settings(there), noted)
        bases.keep(here, path, bases.of_settings(there))
    except BadZnode:
        readable = False
    placed = found._replace(replicas=without_controllers(here, found))  # by the brokers that are there now
    yield op_groups([[TopicSet(found.name, found.id), topics.taken_over(placed, {}, here.usable()), *given]])
    yield from bases.write(here)
    if not readable:
        yield from changes.take_settings(here, entity)  # which tells of it
    yield Tell(f"topic {found.name} was made in ZooKeeper and is taken over: {len(placed.replicas)} partitions")
    yield from writing.topic(here, found.name)


def _more(here: Here, found: topics.Topic, row: int) -> Job:
    numbers = range(here.image.partition_count(row), len(found.replicas))
    placed = found._replace(id=here.image.topic_id(row) or b"", replicas=without_controllers(here, found))
    yield op_groups([[topics.taken_over(placed, {}, here.usable(), numbers)]])
    yield from writing.topic(here, found.name)


def without_controllers(here: Here, found: topics.Topic) -> Mapping[int, tuple[int, ...]]:
    """The replicas of a topic without controllers: a broker that has seen a controller's id in /brokers/ids may have
    placed some on it, and another broker takes its place."""
    usable = sorted(here.usable())
    placed: dict[int, tuple[int, ...]] = {}
    for number, replicas in found.replicas.items():
        kept = [id for id in replicas if id not in here.controllers]
        others = [id for id in usable if id not in kept]
        others = others[number % len(others) :] + others[: number % len(others)] if others else []
        placed[number] = tuple(kept + others[: len(replicas) - len(kept)]) or replicas
    return placed
