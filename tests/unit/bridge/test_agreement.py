"""Before the cluster is handed back, and for a new active controller, ZooKeeper is made to say what the log says."""

import json
from typing import Any

import pytest

from actors.authorization.access_rules import Rule
from actors.bridge import agreement, znodes
from actors.bridge.asks import Hold, Look, Make, TellAgain
from actors.bridge.stages import Stage
from actors.bridge.subjects import rules, settings, topics
from actors.bridge.subjects.rules import Resource
from actors.controller.principals.scram_credentials import KIND
from actors.metadata.image import RULE_FIELDS
from actors.metadata.ops import ConfigSet, EntityGone, EntitySet, Op, PartitionsSet, TopicGone, TopicSet
from actors.ports.zookeeper import Create
from tests.unit.bridge.played import Bridge, add_topic, cluster, set_config

ID = b"0123456789abcdef"
USER = (("user", "alice"),)
ABOUT = Resource(2, "orders", 3)


def rule(user: str) -> Rule:
    return Rule(ABOUT.kind, ABOUT.name, ABOUT.pattern, f"User:{user}", "*", 3, 3)


def made(one: Rule) -> EntitySet:
    return EntitySet("acl", tuple(one), tuple(zip(RULE_FIELDS, one, strict=True)))


def quota(value: float) -> EntitySet:
    fields = (("entity", USER), ("key", "producer_byte_rate"), ("value", value), ("remove", False))
    return EntitySet("quota", (USER, "producer_byte_rate"), fields)


CREDENTIAL = EntitySet(
    KIND,
    ("alice", 1),
    (
        ("name", "alice"),
        ("mechanism", 1),
        ("salt", b"s"),
        ("stored_key", b"k"),
        ("server_key", b"v"),
        ("iterations", 4096),
    ),
)
LAST_MOMENT: list[Op] = [
    ConfigSet(2, "orders", "retention.ms", "2"),
    ConfigSet(4, "2", "background.threads", "4"),
    quota(7.0),
    CREDENTIAL,
    made(rule("new")),
    EntityGone("acl", tuple(rule("old"))),
    TopicSet("late", ID),
    PartitionsSet(ID, [0, 1], [(1, 2), (2, 3)], [(1, 2), (2, 3)]),
    TopicGone((b"gone" + bytes(16))[:16]),
]
"""Committed, and not yet written into ZooKeeper."""


def begun() -> Bridge:
    zookeeper = cluster()
    for name in ("orders", "gone", "theirs"):
        add_topic(zookeeper, name, [[1, 2]])
    set_config(zookeeper, "topics/orders", retention_ms="1")
    set_config(zookeeper, "topics/theirs", retention_ms="1")
    zookeeper.put(rules.path_of(ABOUT), rules.data(frozenset({rule("old")})))
    bridge = Bridge(zookeeper)
    bridge.take_over()
    bridge.watch()
    assert bridge.stage is Stage.DRIVING, bridge.told
    return bridge


def config(zookeeper: Any, entity: str) -> dict[str, str]:
    return settings.settings("", znode(zookeeper, settings.path_of(entity)))


def znode(zookeeper: Any, path: str) -> Any:
    from actors.ports.zookeeper import Znode

    data = zookeeper.get(path)
    return None if data is None else Znode(data)


def has_what_was_committed(zookeeper: Any) -> None:
    assert config(zookeeper, "topics/orders") == {"retention.ms": "2"}
    assert config(zookeeper, "brokers/2") == {"background.threads": "4"}
    alice = config(zookeeper, "users/alice")
    assert alice["producer_byte_rate"] == "7" and alice["SCRAM-SHA-256"].endswith("iterations=4096")
    path = rules.path_of(ABOUT)
    assert rules.rules(path, znode(zookeeper, path)) == {rule("new")}
    late = topics.topic("/brokers/topics/late", znode(zookeeper, "/brokers/topics/late"))
    assert (late.id, late.replicas) == (ID, {0: (1, 2), 1: (2, 3)})
    assert zookeeper.get(topics.state_path("late", 1)) is not None
    assert zookeeper.get("/brokers/topics/gone") is None and zookeeper.get(topics.state_path("gone", 0)) is None


def hand_back(bridge: Bridge) -> None:
    bridge.changed = {znodes.CONTROLLER: None}  # nothing else is looked at before
    bridge.zookeeper.put(znodes.WANTED, b"back")
    bridge.follow()


def test_the_old_cluster_gets_back_what_was_committed_in_the_last_moment() -> None:
    bridge = begun()
    asked: list[Any] = []
    bridge.before = asked.append
    bridge.apply(*LAST_MOMENT)
    hand_back(bridge)
    assert bridge.stage is Stage.RETURNED, bridge.told
    has_what_was_committed(bridge.zookeeper)
    first = next(i for i, ask in enumerate(asked) if isinstance(ask, Hold))
    assert asked[first] == Hold(None) and not any(isinstance(ask, Hold | TellAgain) for ask in asked[first + 1 :])


def test_what_a_broker_changed_in_the_last_moment_is_not_written_over() -> None:
    bridge = begun()
    zookeeper = bridge.zookeeper
    zookeeper.put(rules.path_of(ABOUT), rules.data(frozenset({rule("old"), rule("b")})))
    zookeeper.put(znodes.RULE_CHANGES, b"")
    zookeeper.multi(0, [Create(f"{znodes.RULE_CHANGES}/acl_changes_", b"TOPIC:orders", sequential=True)])
    set_config(zookeeper, "topics/theirs", retention_ms="9")
    add_topic(zookeeper, "on-demand", [[2, 3]], states=False)
    add_topic(
        zookeeper,
        "orders",
        [[1, 2], [2, 1]],
        id=bridge.image.topic_id(bridge.image.topic("orders")) or b"",
        states=False,
    )
    hand_back(bridge)
    assert bridge.stage is Stage.RETURNED, bridge.told
    assert config(zookeeper, "topics/theirs") == {"retention.ms": "9"}
    path = rules.path_of(ABOUT)
    assert rules.rules(path, znode(zookeeper, path)) == {rule("old"), rule("b")}
    assert zookeeper.get("/brokers/topics/on-demand") is not None
    assert set(json.loads(zookeeper.get("/brokers/topics/orders") or b"")["partitions"]) == {"0", "1"}


def test_the_next_active_controller_writes_what_was_committed_in_the_last_moment() -> None:
    first = begun()
    first.apply(*LAST_MOMENT)
    first.zookeeper.end(first.session)
    second = Bridge(first.zookeeper, image=first.image, me=1002)
    second.take_over()
    assert second.stage is Stage.DRIVING, second.told
    has_what_was_committed(second.zookeeper)
    second.run(agreement.agree(second.here))  # also its own notifications are handled now
    before = len(second.zookeeper.history)
    second.run(agreement.agree(second.here))
    assert len(second.zookeeper.history) == before, "what agrees is not written again"


def test_what_a_broker_changes_while_both_sides_are_compared_is_not_written_over() -> None:
    first = begun()
    zookeeper = first.zookeeper
    zookeeper.end(first.session)
    second = Bridge(zookeeper, image=first.image, me=1002)

    def changed(ask: Any) -> None:
        # behind the notifications, the last of which are those of tokens: nothing that was read says so
        if isinstance(ask, Look) and [read.path for read in ask.reads] == [znodes.PREFIXED_CHANGES]:
            second.before = lambda ask: None
            set_config(zookeeper, "topics/theirs", retention_ms="9")

    second.before = changed
    second.take_over()
    second.watch()
    assert config(zookeeper, "topics/theirs") == second.image.config(2, "theirs") == {"retention.ms": "9"}


def test_a_znode_that_cannot_be_read_is_left_and_nothing_waits_for_it() -> None:
    bridge = begun()
    zookeeper = bridge.zookeeper
    bad = ["/config/topics/theirs", f"{znodes.RULES}/Group/bad", "/brokers/topics/theirs"]
    for path in bad:
        zookeeper.put(path, b"?")
    bridge.apply(*LAST_MOMENT)
    hand_back(bridge)
    assert bridge.stage is Stage.RETURNED, bridge.told
    has_what_was_committed(zookeeper)
    assert [zookeeper.get(path) for path in bad] == [b"?"] * 3
    assert [sum(path in line for line in bridge.told) for path in bad] == [1, 1, 1]


def test_many_topics_are_compared_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = begun()
    monkeypatch.setattr(agreement, "TOPICS_AT_ONCE", 2)
    asked: list[Any] = []
    bridge.before = asked.append
    bridge.apply(*LAST_MOMENT)
    bridge.run(agreement.agree(bridge.here))
    has_what_was_committed(bridge.zookeeper)
    of_topics = [
        ask
        for ask in asked
        if isinstance(ask, Look) and all(read.path.startswith("/brokers/topics/") for read in ask.reads)
    ]
    assert of_topics and max(len(ask.reads) for ask in of_topics) == 4
    assert any(isinstance(ask, Make) for ask in asked)
