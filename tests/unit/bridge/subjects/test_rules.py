"""Access rules between ZooKeeper and the log while the bridge drives: what is taken over, and what comes back never."""

import json
from typing import Any

import pytest

from actors.authorization.access_rules import Rule
from actors.authorization.resources import Pattern
from actors.authorization.resources import Resource as Kind
from actors.bridge import bases, znodes
from actors.bridge.asks import Make
from actors.bridge.stages import Stage
from actors.bridge.subjects import rules
from actors.bridge.subjects.rules import Resource
from actors.metadata.image import RULE_FIELDS
from actors.metadata.ops import EntityGone, EntitySet
from actors.ports.zookeeper import Create, Rejected, Znode
from tests.unit.bridge.played import Bridge, cluster

LITERAL, PREFIXED = int(Pattern.LITERAL), int(Pattern.PREFIXED)
PATTERNS = pytest.mark.parametrize("pattern", [LITERAL, PREFIXED])


def orders(pattern: int) -> Resource:
    return Resource(int(Kind.TOPIC), "orders", pattern)


def allow(user: str, pattern: int) -> Rule:
    return Rule(int(Kind.TOPIC), "orders", pattern, f"User:{user}", "*", 3, 3)


def made(user: str, pattern: int) -> EntitySet:
    one = allow(user, pattern)
    return EntitySet("acl", tuple(one), tuple(zip(RULE_FIELDS, one, strict=True)))


def gone(user: str, pattern: int) -> EntityGone:
    return EntityGone("acl", tuple(allow(user, pattern)))


def put(zookeeper: Any, pattern: int, *users: str, notice: bool = True) -> None:
    """What a broker does: the znode, which goes with its last rule, and then the notification."""
    path = rules.path_of(orders(pattern))
    if users:
        zookeeper.put(path, rules.data(frozenset(allow(user, pattern) for user in users)))
    else:
        zookeeper.remove(path)
    folder = znodes.RULE_CHANGES if pattern == LITERAL else znodes.PREFIXED_CHANGES
    if zookeeper.get(folder) is None:
        zookeeper.put(folder, b"")
    data = b"TOPIC:orders"
    if pattern == PREFIXED:
        data = znodes.written(version=1, resourceType="TOPIC", name="orders", patternType="PREFIXED")
    if notice:
        zookeeper.multi(0, [Create(f"{folder}/acl_changes_", data, sequential=True)])


def begun(zookeeper: Any = None, **more: Any) -> Bridge:
    bridge = Bridge(cluster() if zookeeper is None else zookeeper, **more)
    bridge.take_over()
    assert bridge.stage is Stage.DRIVING, bridge.told
    bridge.watch()
    return bridge


def users(found: frozenset[Rule]) -> set[str]:
    return {one.principal.removeprefix("User:") for one in found}


def have(bridge: Bridge, pattern: int) -> set[str]:
    """Who has a rule in the log."""
    return users(rules.by_resource(bridge.image).get(orders(pattern), frozenset()))


def there(bridge: Bridge, pattern: int) -> set[str]:
    """Who has a rule in ZooKeeper."""
    path = rules.path_of(orders(pattern))
    data = bridge.zookeeper.get(path)
    return users(rules.rules(path, None if data is None else Znode(data)))


NOTICES = {
    Resource(int(Kind.TOPIC), "orders", LITERAL): b"TOPIC:orders",
    Resource(int(Kind.TRANSACTIONAL_ID), "a:b", LITERAL): b"TRANSACTIONAL_ID:a:b",
    Resource(int(Kind.DELEGATION_TOKEN), "x", LITERAL): b"DELEGATION_TOKEN:x",
    Resource(int(Kind.TRANSACTIONAL_ID), "a", PREFIXED): (
        b'{"version":1,"resourceType":"TRANSACTIONAL_ID","name":"a","patternType":"PREFIXED"}'
    ),
}
"""What ZkAclChangeStore of Apache Kafka 2.8.2 and 3.9.1 makes of a resource."""


@pytest.mark.parametrize("about", NOTICES)
def test_notifications_of_rules_are_those_of_apache_kafka(about: Resource) -> None:
    bridge = begun()
    one = Rule(about.kind, about.name, about.pattern, "User:a", "*", 3, 3)
    bridge.apply(EntitySet("acl", tuple(one), tuple(zip(RULE_FIELDS, one, strict=True))))
    bridge.write("rules", about)
    folder = rules.changes_of(about)
    assert bridge.zookeeper.get(f"{folder}/acl_changes_0000000000") == NOTICES[about]
    bridge.follow()
    bridge.zookeeper.remove(rules.path_of(about))  # as a broker does it
    bridge.zookeeper.multi(0, [Create(f"{folder}/acl_changes_", NOTICES[about], sequential=True)])
    bridge.follow()
    assert rules.by_resource(bridge.image) == {} and not any("passed over" in line for line in bridge.told)


@PATTERNS
def test_notifications_of_rayft_bring_no_rule_back_and_take_none_away(pattern: int) -> None:
    bridge = begun()
    bridge.apply(made("a", pattern))
    bridge.write("rules", orders(pattern))
    bridge.apply(gone("a", pattern), made("b", pattern))  # in the log, and not yet in ZooKeeper
    bridge.follow()
    assert have(bridge, pattern) == {"b"}
    bridge.write("rules", orders(pattern))
    bridge.apply(gone("b", pattern))
    bridge.write("rules", orders(pattern))
    bridge.apply(made("c", pattern))  # ZooKeeper has none now, and a notification that says so
    bridge.follow()
    assert have(bridge, pattern) == {"c"} and there(bridge, pattern) == set()
    assert bridge.here.wrote == {}


def none(*_: Any) -> Any:
    """A job that knows no base."""
    return {}
    yield


@PATTERNS
@pytest.mark.parametrize("has_bases", [True, False])
def test_the_next_active_controller_brings_no_rule_back_and_takes_none_away(
    pattern: int, has_bases: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_bases:  # as where there are more rules than a base has room for
        monkeypatch.setattr(bases, "known", lambda *_: None)
        monkeypatch.setattr(bases, "read", none)
    first = begun()
    first.apply(made("a", pattern))
    first.write("rules", orders(pattern))
    first.apply(gone("a", pattern), made("b", pattern))  # committed, and not written back before it ended
    first.zookeeper.end(first.session)
    second = begun(first.zookeeper, image=first.image, me=1002)
    assert have(second, pattern) == there(second, pattern) == {"b"}


@PATTERNS
def test_a_brokers_change_of_rules_behind_one_of_rayft_is_taken_over(pattern: int) -> None:
    bridge = begun()
    bridge.apply(made("a", pattern))
    bridge.write("rules", orders(pattern))
    put(bridge.zookeeper, pattern)  # with its last rule the znode goes, and the next one begins with version 0 again
    put(bridge.zookeeper, pattern, "b")
    bridge.follow()
    assert have(bridge, pattern) == {"b"}
    bridge.apply(made("a", pattern))
    bridge.write("rules", orders(pattern))
    bridge.follow()
    put(bridge.zookeeper, pattern, "b", "c")
    bridge.follow()
    assert have(bridge, pattern) == {"b", "c"}
    put(bridge.zookeeper, pattern, "a", "b")  # what rayft has written once, and not last
    second = begun(bridge.zookeeper, image=bridge.image, me=1002)
    assert have(second, pattern) == there(second, pattern) == {"a", "b"}


def test_what_was_refused_is_not_taken_for_a_write_of_rayft() -> None:
    bridge = begun()
    bridge.apply(made("a", LITERAL))

    def faster(ask: Any) -> None:
        if isinstance(ask, Make):
            bridge.before = lambda ask: None
            put(bridge.zookeeper, LITERAL, "b")

    bridge.before = faster
    with pytest.raises(Rejected):
        bridge.write("rules", orders(LITERAL))
    bridge.follow()
    assert have(bridge, LITERAL) == {"a", "b"}, "rules that both sides add are both kept"
    bridge.write("rules", orders(LITERAL))
    path = rules.path_of(orders(LITERAL))
    found = rules.rules(path, Znode(bridge.zookeeper.get(path) or b""))
    assert {one.principal for one in found} == {"User:a", "User:b"}


def test_what_was_written_before_the_cluster_was_handed_back_counts_no_more() -> None:
    zookeeper = cluster()
    bridge = begun(zookeeper)
    bridge.apply(made("a", LITERAL))
    zookeeper.put(znodes.WANTED, b"back")
    bridge.follow()
    assert bridge.stage is Stage.RETURNED
    zookeeper.remove(znodes.WANTED)
    put(zookeeper, LITERAL, "a", "b")
    bridge.stage = Stage.LOOKING
    bridge.take_over()
    put(zookeeper, LITERAL, "a")
    bridge.watch()
    assert have(bridge, LITERAL) == {"a"}


def test_a_note_of_rules_with_long_names_stays_small() -> None:
    bridge = begun()
    for number in range(150):
        one = allow("a", LITERAL)._replace(resource=int(Kind.GROUP), name=f"{number}" * 10_000)
        bridge.apply(EntitySet("acl", tuple(one), tuple(zip(RULE_FIELDS, one, strict=True))))
        bridge.write("rules", Resource(one.resource, one.name, one.pattern))
    data = bridge.zookeeper.get(znodes.BRIDGE) or b""
    assert len(json.loads(data)["wrote"][znodes.RULE_CHANGES]) == 100 and len(data) < 10_000
