"""Whose cluster this is, asked in every session: another one is left alone, and nothing is deleted by absence."""

import json
from typing import Any

import pytest

from actors.authorization.access_rules import Rule
from actors.bridge import znodes
from actors.bridge.asks import Apply, Settle
from actors.bridge.subjects import rules, settings, topics
from actors.controller.principals.acls import KIND
from actors.metadata.image import RULE_FIELDS
from actors.metadata.ops import ConfigSet, EntitySet, PartitionsSet, TopicGone, TopicSet
from actors.ports.zookeeper import is_path
from tests.simulator.zookeeper import ZooKeeper
from tests.unit.bridge.played import Bridge, Stage, add_topic, broker, cluster, set_config


def driving(zookeeper: ZooKeeper) -> Bridge:
    bridge = Bridge(zookeeper)
    bridge.take_over()
    bridge.watch()
    assert bridge.stage is Stage.DRIVING, bridge.told
    return bridge


def another(zookeeper: ZooKeeper) -> None:
    zookeeper.put(znodes.CLUSTER_ID, b'{"version":"1","id":"AnotherClusterAltogeth"}')


def no_brokers_were_here(zookeeper: ZooKeeper) -> None:
    for path in (znodes.CLUSTER_ID, znodes.TOPICS, znodes.BROKER_IDS, "/rayft_bridge"):
        zookeeper.remove(path)


def migrated_by_another(zookeeper: ZooKeeper) -> None:
    zookeeper.put(znodes.MIGRATION, b"{}")


def other_listeners(zookeeper: ZooKeeper) -> None:
    for name in zookeeper.names(znodes.BROKER_IDS) or ():
        zookeeper.put(f"{znodes.BROKER_IDS}/{name}", broker(int(name), "INTERNAL"))


@pytest.mark.parametrize("change", [another, no_brokers_were_here, migrated_by_another, other_listeners])
def test_what_does_not_fit_is_refused_before_anything_is_claimed_or_told(change: Any) -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2]])
    first = driving(zookeeper)
    zookeeper.end(first.session)
    change(zookeeper)
    before = {path: entry.data for path, entry in zookeeper.entries.items()}
    second = Bridge(zookeeper, first.image, me=1002)
    second.take_over()
    assert second.stage is Stage.REFUSED and second.epoch is None
    assert {path: entry.data for path, entry in zookeeper.entries.items()} == before
    assert len(second.image.brokers()) == 3 and len(second.told) == 1, second.told


def emergency(zookeeper: ZooKeeper, epoch: int = 9) -> None:
    """Rayft's controllers are gone, and an old broker has made itself the controller."""
    zookeeper.remove(znodes.CONTROLLER)
    zookeeper.put(znodes.CONTROLLER_EPOCH, str(epoch).encode())
    session = zookeeper.sessions_of_brokers[2]  # type: ignore[attr-defined]
    zookeeper.put(znodes.CONTROLLER, b'{"version":1,"brokerid":2,"timestamp":"1"}', session)


def state(leader: int, isr: list[int], leader_epoch: int, controller_epoch: int = 9) -> bytes:
    return znodes.written(
        controller_epoch=controller_epoch, leader=leader, version=1, leader_epoch=leader_epoch, isr=isr
    )


def test_what_was_made_and_changed_in_an_emergency_is_taken_over_and_nothing_is_deleted() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2], [2, 1]])
    add_topic(zookeeper, "kept", [[1, 2]])
    first = driving(zookeeper)
    kept, row = first.image.topic_id(first.image.topic("kept")), first.image.topic("orders")
    told = first.image.partition_epoch(first.image.partition(row, 0))
    zookeeper.end(first.session)
    emergency(zookeeper)
    zookeeper.remove(topics.path_of("kept"))
    add_topic(zookeeper, "invoices", [[1, 2, 3]], leader_epoch=0)
    set_config(zookeeper, "topics/invoices", notice=False, retention_ms="9")
    zookeeper.put(topics.state_path("orders", 0), state(2, [2], 5))
    second = Bridge(zookeeper, first.image, me=1002)
    second.hosting = {1, 2, 3}
    second.take_over()
    second.watch()
    image = second.image
    assert second.stage is Stage.DRIVING and "another controller has led" in second.told[1]
    assert settings.here(image, "topics/invoices") == {"retention.ms": "9"}
    assert set(zookeeper.names(znodes.TOPICS) or ()) == {"orders", "invoices", "kept"}
    assert zookeeper.names(znodes.DELETE_TOPICS) == () and image.topic_id(image.topic("kept")) == kept
    row = image.partition(image.topic("orders"), 0)
    assert (image.leader(row), tuple(image.isr(row))) == (2, (2,)) and image.partition_epoch(row) > told
    other = image.partition(image.topic("orders"), 1)
    assert image.leader(other) == 2 and tuple(image.isr(other)) == (2, 1)


class Ended(Exception):
    """The controller is gone."""


@pytest.mark.parametrize("same", [True, False], ids=["its next session", "the next controller"])
@pytest.mark.parametrize("end", [Apply, Settle])
def test_what_was_made_in_an_emergency_outlives_who_ends_while_it_is_taken_over(end: type[Any], same: bool) -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2, 3]])
    first = driving(zookeeper)
    zookeeper.end(first.session)
    emergency(zookeeper)
    id = add_topic(zookeeper, "invoices", [[1, 2]])
    set_config(zookeeper, "topics/invoices", notice=False, retention_ms="9")
    second = Bridge(zookeeper, first.image, me=1002)

    def ends(ask: Any) -> None:
        if isinstance(ask, end) and second.here.claim is not None:
            raise Ended

    second.before = ends
    with pytest.raises(Ended):
        second.take_over()
    assert zookeeper.get(znodes.CONTROLLER_EPOCH) == b"10", "it had claimed"
    zookeeper.end(second.session)
    third = Bridge(zookeeper, first.image)
    if same:
        third.here.me, third.here.claim, third.here.has_bases = 1002, second.here.claim, second.here.has_bases
    third.take_over()
    third.watch()
    assert third.stage is Stage.DRIVING and set(zookeeper.names(znodes.TOPICS) or ()) == {"orders", "invoices"}
    assert third.image.topic_id(third.image.topic("invoices")) == id
    assert settings.here(third.image, "topics/invoices") == {"retention.ms": "9"}
    epochs = [zookeeper.get(path) for path in (znodes.CONTROLLER_EPOCH, znodes.CLAIMED, znodes.AGREED)]
    assert epochs == [b"10" if same else b"11"] * 3, "the chain of claims is whole again, and so are the bases"


def test_a_topic_that_was_made_anew_in_an_emergency_is_the_one_that_counts() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2], [2, 1]])
    first = driving(zookeeper)
    zookeeper.end(first.session)
    emergency(zookeeper)
    zookeeper.remove(topics.path_of("orders"))
    id = add_topic(zookeeper, "orders", [[2, 3]], id=b"new" + bytes(13))
    second = Bridge(zookeeper, first.image, me=1002)
    second.take_over()
    row = second.image.topic("orders")
    assert second.image.topic_id(row) == id and second.image.partition_count(row) == 1


def test_what_the_chain_of_claims_proves_deleted_is_deleted_by_the_next_controller() -> None:
    zookeeper = cluster()
    id = add_topic(zookeeper, "orders", [[1, 2]])
    first = driving(zookeeper)
    first.apply(TopicGone(id, "orders"))
    zookeeper.end(first.session)
    second = Bridge(zookeeper, first.image, me=1002)
    second.take_over()
    assert zookeeper.names(znodes.TOPICS) == ()


def test_what_is_doomed_in_an_emergency_is_not_taken_over() -> None:
    zookeeper = cluster()
    driving(zookeeper)
    add_topic(zookeeper, "doomed", [[1, 2]])
    zookeeper.put(f"{znodes.DELETE_TOPICS}/doomed", b"")
    emergency(zookeeper)
    second = Bridge(zookeeper, me=1002)
    second.image.replay(second.image.next_offset, EntitySet("zk_migration", (), (("zk_migration_state", 2),)))
    second.take_over()
    second.watch()
    assert second.image.topic("doomed") < 0 and zookeeper.names(znodes.TOPICS) == ()


def test_a_topic_that_a_broker_makes_keeps_the_settings_that_it_wrote_first() -> None:
    zookeeper = cluster()
    bridge = driving(zookeeper)
    set_config(zookeeper, "topics/__consumer_offsets", notice=False, cleanup_policy="compact")
    add_topic(zookeeper, "__consumer_offsets", [[1, 2, 3]] * 3, states=False)
    bridge.follow()
    assert settings.here(bridge.image, "topics/__consumer_offsets") == {"cleanup.policy": "compact"}
    zookeeper.end(bridge.session)
    second = Bridge(zookeeper, bridge.image, me=1002)
    second.take_over()
    found = json.loads(zookeeper.get("/config/topics/__consumer_offsets") or b"")
    assert found["config"] == {"cleanup.policy": "compact"}


def test_settings_that_an_older_topic_of_that_name_has_left_are_not_those_of_a_new_one() -> None:
    zookeeper = cluster()
    set_config(zookeeper, "topics/new", notice=False, retention_ms="1")
    bridge = driving(zookeeper)
    bridge.apply(*(ConfigSet(2, "new", key, None) for key in settings.here(bridge.image, "topics/new")))
    id = b"new" + bytes(13)
    bridge.apply(TopicSet("new", id), PartitionsSet(id, [0], [(1, 2)], [(1, 2)]))
    bridge.write("topic", "new")
    assert json.loads(zookeeper.get("/config/topics/new") or b"")["config"] == {}


# ---- what ZooKeeper cannot hold


@pytest.mark.parametrize(
    "name", [".", "..", "./x", "a/", "a", "team/billing", "\x00", "\ud800", "\uf000", "é", "x" * 40]
)
def test_rules_of_any_name_end_nothing(name: str) -> None:
    zookeeper = cluster()
    bridge = driving(zookeeper)
    for one in (Rule(3, name, 3, "User:mallory", "*", 3, 2), Rule(3, "sound", 3, "User:alice", "*", 3, 3)):
        bridge.apply(EntitySet(KIND, tuple(one), tuple(zip(RULE_FIELDS, one, strict=True))))
        bridge.write("rules", rules.Resource(3, one.name, 3))
    written = name in ("a", "é", "x" * 40)
    held = {"sound", name} if written else {"sound"}
    assert set(zookeeper.names("/kafka-acl/Group") or ()) == held
    assert bool([line for line in bridge.told if "cannot have a znode of that name" in line]) != written
    assert all(is_path(path) for path in zookeeper.entries if path)


@pytest.mark.parametrize("name", [".", "..", "plain", "a/b"])
def test_quotas_of_any_user_and_client_end_nothing(name: str) -> None:
    zookeeper = cluster()
    bridge = driving(zookeeper)
    for kind in ("user", "client-id"):
        named = ((kind, name),)
        fields = (("entity", named), ("key", "producer_byte_rate"), ("value", 5.0), ("remove", False))
        bridge.apply(EntitySet("quota", (named, "producer_byte_rate"), fields))
    zookeeper.end(bridge.session)
    second = Bridge(zookeeper, bridge.image, me=1002)
    second.take_over()
    assert second.stage is Stage.DRIVING
    sound = name not in (".", "..")
    assert (zookeeper.names("/config/users") != ()) == sound and all(
        is_path(path) for path in zookeeper.entries if path
    )


def test_one_subject_that_is_larger_than_a_request_leaves_the_others_alone() -> None:
    zookeeper = cluster()
    bridge = driving(zookeeper)
    for number in range(12_000):
        one = Rule(2, "many", 3, f"User:service-account-{number:06d}", "*", 3, 3)
        bridge.apply(EntitySet(KIND, tuple(one), tuple(zip(RULE_FIELDS, one, strict=True))))
    one = Rule(2, "one", 3, "User:alice", "*", 3, 3)
    bridge.apply(EntitySet(KIND, tuple(one), tuple(zip(RULE_FIELDS, one, strict=True))))
    id = b"large" + bytes(11)
    members = [tuple(range(10_000, 10_100))] * 2_000
    bridge.apply(TopicSet("large", id), PartitionsSet(id, range(2_000), members, members))
    zookeeper.end(bridge.session)
    second = Bridge(zookeeper, bridge.image, me=1002)
    second.take_over()
    assert second.stage is Stage.DRIVING and zookeeper.names(znodes.TOPICS) == ()
    assert zookeeper.names("/kafka-acl/Topic") == ("one",)
    assert len([line for line in second.told if "jute.maxbuffer" in line]) == 2, second.told
