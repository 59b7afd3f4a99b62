"""The steps that nobody can undo: what they would lose is listed and refused, and what is wanted no more is not done."""

import json
from typing import Any

import pytest

from actors.authorization.access_rules import Rule
from actors.bridge import znodes
from actors.bridge.asks import Apply, Make
from actors.bridge.stages import Progress, Stage, progress, reached
from actors.bridge.subjects import topics
from actors.controller.principals.acls import KIND
from actors.metadata.image import RULE_FIELDS
from actors.metadata.ops import BrokerSet, ConfigSet, EntityGone, EntitySet, FeatureSet, Op, PartitionsSet
from actors.ports.zookeeper import Delete
from tests.unit.bridge.played import Bridge, add_topic, driving

MANY = 12_000
ORDERS = b"orders" + bytes(10)


def rule(kind: int, name: str, user: str = "User:mallory") -> Op:
    one = Rule(kind, name, 3, user, "*", 3, 2)
    return EntitySet(KIND, tuple(one), tuple(zip(RULE_FIELDS, one, strict=True)))


def no_rule(kind: int, name: str, user: str = "User:mallory") -> Op:
    return EntityGone(KIND, tuple(Rule(kind, name, 3, user, "*", 3, 2)))


def quota(name: str, value: float | None) -> Op:
    named, key = (("user", name),), "producer_byte_rate"
    if value is None:
        return EntityGone("quota", (named, key))
    return EntitySet("quota", (named, key), (("entity", named), ("key", key), ("value", value), ("remove", False)))


def wanted(bridge: Bridge, wish: bytes) -> str:
    """The refusal; empty: there is none."""
    bridge.zookeeper.put(znodes.WANTED, wish)
    bridge.follow()
    return (bridge.zookeeper.get(znodes.REFUSED) or b"").decode()


@pytest.mark.parametrize(
    ("has", "subject", "gone", "named"),
    [
        ([rule(3, "team/billing")], ("rules", 3, "team/billing"), [no_rule(3, "team/billing")], "team/billing"),
        ([rule(3, "..")], ("rules", 3, ".."), [no_rule(3, "..")], "access rules of .."),
        ([quota("..", 5.0)], ("settings", 0, "users/.."), [quota("..", None)], "settings of users/.."),
        (
            [rule(2, "many", f"User:service-account-{n:06d}") for n in range(MANY)],
            ("rules", 2, "many"),
            [no_rule(2, "many", f"User:service-account-{n:06d}") for n in range(MANY)],
            "jute.maxbuffer",
        ),
        (
            [ConfigSet(32, "g", "consumer.session.timeout.ms", "45000")],
            None,
            [ConfigSet(32, "g", "consumer.session.timeout.ms", None)],
            "group g has settings",
        ),
        ([FeatureSet("transaction.version", 2)], None, [FeatureSet("transaction.version", 0)], "transaction.version is 2"),
        (
            [
                BrokerSet(9, 77, endpoints=(), fenced=True),
                PartitionsSet.one(ORDERS, 0, [1, 2, 9], [1, 2], 1, 20, 20),
            ],
            None,
            [PartitionsSet.one(ORDERS, 0, [1, 2], [1, 2], 1, 21, 21)],
            "orders-0 has a replica on broker 9 of rayft",
        ),
    ],
)  # fmt: skip
def test_what_old_brokers_would_not_have_is_named_until_it_is_removed(
    has: list[Any], subject: tuple[str, int, str] | None, gone: list[Any], named: str
) -> None:
    from actors.bridge.subjects import rules

    bridge = driving()

    def changed(ops: list[Any]) -> None:
        bridge.apply(*ops)
        if subject is not None:
            kind, resource, name = subject
            bridge.write(kind, name if kind == "settings" else rules.Resource(resource, name, 3))

    changed(has)
    assert named in wanted(bridge, b"back") and bridge.stage is Stage.DRIVING
    assert bridge.zookeeper.get(znodes.CONTROLLER) is not None
    changed(gone)
    bridge.zookeeper.remove(znodes.REFUSED)
    assert wanted(bridge, b"back") == "" and bridge.stage is Stage.RETURNED, bridge.told


def test_what_cannot_be_read_is_asked_for_again_before_the_way_back() -> None:
    bridge = driving()
    bridge.apply(ConfigSet(2, "orders", "retention.ms", "5"))
    bridge.zookeeper.put("/config/topics/orders", b"?")
    bridge.write("settings", "topics/orders")
    assert "settings of topics/orders" in wanted(bridge, b"back")
    bridge.zookeeper.put("/config/topics/orders", znodes.written(version=1, config={}))
    bridge.zookeeper.remove(znodes.REFUSED)
    assert wanted(bridge, b"back") == "" and bridge.stage is Stage.RETURNED
    assert json.loads(bridge.zookeeper.get("/config/topics/orders") or b"")["config"] == {"retention.ms": "5"}


def stopped(bridge: Bridge) -> None:
    """No old broker is left; its replicas are on a broker of rayft."""
    for session in bridge.zookeeper.sessions_of_brokers.values():
        bridge.zookeeper.end(session)
    bridge.follow()
    bridge.apply(BrokerSet(9, 77, endpoints=()), PartitionsSet.one(ORDERS, 0, [9], [9], 9, 30, 30))


@pytest.mark.parametrize("what", ["topic", "settings", "rules"])
def test_zookeeper_is_not_let_go_with_what_was_not_taken_over(what: str) -> None:
    bridge = driving()
    zookeeper = bridge.zookeeper
    if what == "topic":
        add_topic(zookeeper, "or.ders", [[1, 2]], states=False)
        add_topic(zookeeper, "or_ders", [[1, 2]], states=False)
        path, named = "/brokers/topics/or_ders", "topic or_ders"
    elif what == "settings":
        path, named = "/config/topics/orders", "settings of topics/orders"
        zookeeper.put(path, b"?")
        zookeeper.put("/config/changes/config_change_0000000001", b'{"version":2,"entity_path":"topics/orders"}')
    else:
        path, named = "/kafka-acl/Topic/orders", "access rules of orders"
        zookeeper.put("/kafka-acl", b"")
        zookeeper.put("/kafka-acl/Topic", b"")
        zookeeper.put("/kafka-acl-changes", b"")
        bridge.changed["/kafka-acl-changes"] = None
        bridge.follow()
        zookeeper.put(path, b"?")
        zookeeper.put("/kafka-acl-changes/acl_changes_0000000001", b"TOPIC:orders")
    bridge.follow()
    stopped(bridge)
    for name in ("or.ders",) if what == "topic" else ():
        id = bridge.image.topic_id(bridge.image.topic(name)) or b""
        bridge.apply(PartitionsSet.one(id, 0, [9], [9], 9, 30, 30))
    refusal = wanted(bridge, b"finish")
    assert named in refusal and bridge.stage is Stage.DRIVING, refusal
    zookeeper.remove(path)
    zookeeper.remove(znodes.REFUSED)
    assert wanted(bridge, b"finish") == "" and bridge.stage is Stage.LET_GO, bridge.told


@pytest.mark.parametrize("wish", [b"back", b"finish"])
def test_what_is_wanted_no_more_is_not_done(wish: bytes) -> None:
    """The wish is taken back while the controller works on it."""
    bridge = driving()
    if wish == b"finish":
        stopped(bridge)
    session = bridge.zookeeper.begin(lambda event: None)

    def taken_back(ask: Any) -> None:
        ends = wish == b"finish" or any(isinstance(one, Delete) and one.path == "/controller" for one in ask.changes)
        if ends and any(one.path == znodes.WANTED for one in ask.changes):
            bridge.zookeeper.end(session)

    bridge.before = lambda ask: taken_back(ask) if isinstance(ask, Make) else None
    bridge.zookeeper.put(znodes.WANTED, wish, session)
    with pytest.raises(Exception, match="missing"):
        bridge.follow()
    assert bridge.zookeeper.get(znodes.CONTROLLER) is not None and progress(bridge.image) is not Progress.POST_MIGRATION
    assert json.loads(bridge.zookeeper.get(znodes.BRIDGE) or b"")["state"] == "driving"


def test_a_cluster_that_is_handed_back_stays_so_when_the_command_has_ended() -> None:
    bridge = driving()
    session = bridge.zookeeper.begin(lambda event: None)
    bridge.zookeeper.put(znodes.WANTED, b"back", session)
    bridge.follow()
    assert bridge.stage is Stage.RETURNED
    bridge.zookeeper.end(session)
    bridge.stage = Stage.LOOKING
    bridge.take_over()
    assert bridge.stage is Stage.RETURNED and bridge.zookeeper.get(znodes.CONTROLLER) is None


def test_a_controller_that_ends_late_while_it_gives_back_leaves_the_note_to_the_next() -> None:
    bridge = driving()

    def ended(ask: Any) -> None:
        if isinstance(ask, Apply) and reached(Progress.PRE_MIGRATION) in ask.ops:
            bridge.apply(*ask.ops)
            raise KeyboardInterrupt

    bridge.before = ended
    bridge.zookeeper.put(znodes.WANTED, b"back")
    with pytest.raises(KeyboardInterrupt):
        bridge.follow()
    bridge.zookeeper.end(bridge.session)
    second = Bridge(bridge.zookeeper, bridge.image, me=1002)
    second.take_over()
    assert second.stage is Stage.RETURNED and second.zookeeper.get(znodes.CONTROLLER) is None
    assert json.loads(second.zookeeper.get(znodes.BRIDGE) or b"")["state"] == "handed back"
    assert json.loads(second.zookeeper.get(topics.state_path("orders", 0)) or b"")["leader"] == 1
