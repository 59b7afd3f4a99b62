"""Settings and access rules that brokers write while the bridge drives, taken into the metadata log.

Brokers write a znode, and then a notification of it. This file alone decides which of these changes are taken over.
Rules:

1. Those that a new notification names which is not rayft's own (`notifications.py`).
2. What a znode says when its notification is read is merged with what the log has (`merging.py`).
3. A znode that cannot be read is told of (`asks.taken`), and nothing else waits for it.
4. Settings of a topic that is not there are left alone.
"""

from actors.authorization.resources import Pattern
from actors.bridge import bases, merging, znodes
from actors.bridge.asks import Here, Job, Look, Tell, op_groups, taken
from actors.bridge.notifications import OURS, mark_of, notified
from actors.bridge.subjects import rules, settings
from actors.bridge.znodes import BadZnode, fields
from actors.ports.zookeeper import Get, Znode


def changed_settings(here: Here) -> Job:
    """Take over the settings, quotas and credentials that brokers have written, by /config/changes."""
    yield from notified(here, znodes.CONFIG_CHANGES, _entity_of, take_settings)


def changed_rules(here: Here) -> Job:
    """Take over the access rules that brokers have written, by /kafka-acl-changes and /kafka-acl-extended-changes."""
    for folder in (znodes.RULE_CHANGES, znodes.PREFIXED_CHANGES):
        yield from notified(here, folder, _resource_of, take_rules)


def _entity_of(path: str, znode: Znode) -> str | None:
    found = fields(path, znode)
    entity = found.get("entity_path")
    if found.get("by") == OURS or not isinstance(entity, str):
        return None
    return entity if settings.is_entity(entity) else None


def is_left_over(here: Here, entity: str) -> bool:
    """Whether `entity` names a topic that is not there, so that its settings are left over: it was deleted, or it is
    not taken over yet, and then its settings are read with it. A topic that is made later under that name does not get
    them."""
    kind, _, name = entity.partition("/")
    return kind == "topics" and here.image.topic(name) < 0


@taken("settings of {}")
def take_settings(here: Here, entity: str) -> Job:
    """Take over what ZooKeeper has of an entity's settings."""
    path = settings.path_of(entity)
    if is_left_over(here, entity):
        return
    znode, noted = yield Look([Get(path), Get(bases.path_of(path))], watch=False)
    there = settings.settings(path, znode)
    have = settings.here(here.image, entity)
    base = bases.known(here, path, noted, bases.of_settings(have))
    wanted = there if base is None else merging.of_settings(base, have, there)
    ops = settings.differences(here.image, entity, wanted)
    if ops:
        yield from bases.announce(here, path, base, bases.of_settings(there), noted)
    bases.keep(here, path, bases.of_settings(there))
    if ops:
        yield op_groups([ops])
        yield Tell(f"settings of {entity} were changed in ZooKeeper and are taken over")


def _resource_of(path: str, znode: Znode) -> rules.Resource:
    """The resource that a notification names: `TOPIC:orders`, or JSON for a prefix. Apache Kafka 1.x wrote
    `Topic:orders`. Raises BadZnode."""
    if znode.data.startswith(b"{"):
        found = fields(path, znode)
        number, name, pattern = _kind(str(found.get("resourceType"))), found.get("name"), Pattern.PREFIXED
    else:
        kind, colon, text = znode.data.decode("utf-8", "replace").partition(":")
        number, name, pattern = _kind(kind), text if colon else None, Pattern.LITERAL
    if number is None or not isinstance(name, str):
        raise BadZnode(path, f"holds {znodes.shown(znode.data)}, which names no resource")
    return rules.Resource(number, name, int(pattern))


def _kind(text: str) -> int | None:
    plain = text.replace("_", "").upper()
    return next((int(kind) for name, kind in rules.KINDS.items() if name.upper() == plain), None)


@taken("access rules of {}")
def take_rules(here: Here, about: rules.Resource) -> Job:
    """Take over what ZooKeeper has of a resource's access rules."""
    path = rules.path_of(about)
    znode, noted = yield Look([Get(path), Get(bases.path_of(path))], watch=False)
    have = rules.by_resource(here.image).get(about, frozenset())
    there = rules.rules(path, znode)
    base = bases.known(here, path, noted, bases.of_rules(have))
    if mark_of(here, rules.changes_of(about), rules.key_of(about)) == rules.mark_of(there):
        bases.keep(here, path, bases.of_rules(there))
        return
    wanted = there if base is None else merging.of_rules(base, have, there)
    if ops := list(rules.differences(have, wanted)):
        yield from bases.announce(here, path, base, bases.of_rules(there), noted)
    bases.keep(here, path, bases.of_rules(there))
    if ops:
        yield op_groups([ops])
        yield Tell(f"access rules of {about.name} were changed in ZooKeeper and are taken over")
