"""Settings and access rules that were changed at both sides, or while nobody watched."""

import itertools
import json

import pytest

from actors.authorization.access_rules import Rule
from actors.bridge import bases, merging, znodes
from actors.bridge.subjects import rules, settings
from actors.controller.principals.acls import KIND
from actors.metadata.image import RULE_FIELDS
from actors.metadata.ops import ConfigSet, EntityGone, EntitySet
from actors.ports.zookeeper import Create, Delete, Znode
from tests.simulator.zookeeper import ZooKeeper
from tests.unit.bridge.played import Bridge, Stage, add_topic, cluster, set_config

ABOUT = rules.Resource(2, "orders", 3)
PATH = rules.path_of(ABOUT)


def rule(name: str, permission: int = 3) -> Rule:
    return Rule(2, "orders", 3, f"User:{name}", "*", 3, permission)


def put(zookeeper: ZooKeeper, *given: Rule) -> None:
    """An old broker has written the rules of a topic."""
    zookeeper.put(PATH, rules.data(frozenset(given)))
    if zookeeper.get(znodes.RULE_CHANGES) is None:
        zookeeper.put(znodes.RULE_CHANGES, b"")
    zookeeper.multi(0, [Create(f"{znodes.RULE_CHANGES}/acl_changes_", b"TOPIC:orders", sequential=True)])


def held(bridge: Bridge) -> tuple[set[Rule], set[Rule]]:
    """Rules of the log and of ZooKeeper."""
    data = bridge.zookeeper.get(PATH)
    there = rules.rules(PATH, None if data is None else Znode(data))
    return set(rules.by_resource(bridge.image).get(ABOUT, frozenset())), set(there)


def driving(zookeeper: ZooKeeper, before: Bridge | None = None) -> Bridge:
    bridge = Bridge(zookeeper) if before is None else Bridge(zookeeper, before.image, me=1002)
    bridge.take_over()
    bridge.watch()
    assert bridge.stage is Stage.DRIVING, bridge.told
    return bridge


def set_rule(bridge: Bridge, one: Rule, there: bool = True) -> None:
    fields = tuple(zip(RULE_FIELDS, one, strict=True))
    bridge.apply(EntitySet(KIND, tuple(one), fields) if there else EntityGone(KIND, tuple(one)))


@pytest.mark.parametrize("written_first", [True, False])
@pytest.mark.parametrize("removed", [True, False])
def test_rules_that_both_sides_change_at_once_are_both_kept(written_first: bool, removed: bool) -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2, 3]])
    alice, mallory, bob, carol = rule("alice"), rule("mallory", 2), rule("bob"), rule("carol")
    put(zookeeper, alice, carol)
    bridge = driving(zookeeper)
    put(zookeeper, *(() if removed else (alice,)), carol, mallory)
    set_rule(bridge, bob)
    set_rule(bridge, carol, there=False)
    for step in ("write", "follow") if written_first else ("follow", "write"):
        bridge.follow() if step == "follow" else bridge.write("rules", ABOUT)
    expected = {mallory, bob} | (set() if removed else {alice})
    assert held(bridge) == (expected, expected)
    set_rule(bridge, mallory, there=False)  # what was agreed is known: it does not come back
    bridge.write("rules", ABOUT)
    bridge.follow()
    assert held(bridge) == (expected - {mallory}, expected - {mallory})


def test_a_quota_here_and_another_there_are_both_kept() -> None:
    zookeeper = cluster()
    set_config(zookeeper, "users/alice", producer_byte_rate="1")
    zookeeper.put("/config/users/alice", settings.data({"producer_byte_rate": "1"}))
    bridge = driving(zookeeper)
    zookeeper.put("/config/users/alice", settings.data({"producer_byte_rate": "1", "consumer_byte_rate": "7"}))
    named = (("user", "alice"),)
    fields = (("entity", named), ("key", "producer_byte_rate"), ("value", 2.0), ("remove", False))
    bridge.apply(EntitySet("quota", (named, "producer_byte_rate"), fields))
    bridge.write("settings", "users/alice")
    expected = {"producer_byte_rate": "2", "consumer_byte_rate": "7"}
    assert settings.here(bridge.image, "users/alice") == expected
    assert json.loads(zookeeper.get("/config/users/alice") or b"")["config"] == expected


@pytest.mark.parametrize("same_controller", [True, False])
def test_what_old_brokers_changed_while_nobody_watched_stays_though_its_notification_is_gone(
    same_controller: bool,
) -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2, 3]])
    set_config(zookeeper, "topics/orders", retention_ms="1000")
    put(zookeeper, rule("alice"), rule("mallory"))
    bridge = driving(zookeeper)
    zookeeper.end(bridge.session)
    set_config(zookeeper, "topics/orders", retention_ms="777000")
    put(zookeeper, rule("alice"))
    for folder in (znodes.CONFIG_CHANGES, znodes.RULE_CHANGES):
        for name in zookeeper.names(folder) or ():
            zookeeper.multi(0, [Delete(f"{folder}/{name}")])
    if same_controller:
        bridge.session, bridge.stage = zookeeper.begin(bridge._happened), Stage.LOOKING
        bridge.take_over()
    else:
        bridge = driving(zookeeper, bridge)
    assert held(bridge) == ({rule("alice")}, {rule("alice")})
    assert settings.here(bridge.image, "topics/orders") == {"retention.ms": "777000"}
    assert json.loads(zookeeper.get("/config/topics/orders") or b"")["config"] == {"retention.ms": "777000"}


def test_what_rayft_wrote_itself_since_its_claim_does_not_undo_what_the_log_has() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2, 3]])
    bridge = driving(zookeeper)
    for value in ("1", "2"):
        bridge.apply(ConfigSet(2, "orders", "retention.ms", value))
        set_rule(bridge, rule(value))
        if value == "1":
            bridge.write("settings", "topics/orders")
            bridge.write("rules", ABOUT)
    zookeeper.end(bridge.session)
    second = driving(zookeeper, bridge)
    assert settings.here(second.image, "topics/orders") == {"retention.ms": "2"}
    assert json.loads(zookeeper.get("/config/topics/orders") or b"")["config"] == {"retention.ms": "2"}
    assert held(second) == ({rule("1"), rule("2")}, {rule("1"), rule("2")})


def test_every_merge_of_one_member_or_key() -> None:
    for base, here, there in itertools.product([False, True], repeat=3):
        expected = here if there == base else there
        one: frozenset[Rule] = frozenset({rule("k")})
        sides = [one if side else frozenset[Rule]() for side in (base, here, there)]
        merged = merging.of_rules(bases.of_rules(sides[0]), *sides[1:])
        assert merged == (one if expected else frozenset())
    for given in itertools.product([None, "1", "2"], repeat=3):
        maps: list[dict[str, str]] = [{} if value is None else {"k": value} for value in given]
        base_value, here_value, there_value = given
        wanted = here_value if there_value == base_value else there_value
        assert merging.of_settings(bases.of_settings(maps[0]), *maps[1:]).get("k") == wanted
