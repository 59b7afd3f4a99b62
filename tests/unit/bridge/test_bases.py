"""What both sides agreed on last outlives the controller that knew it, and the sessions of all of them."""

import json
from typing import Any

import pytest

from actors.bridge import bases, znodes
from actors.bridge.asks import Apply, Make
from actors.bridge.stages import Progress, progress
from actors.bridge.subjects import settings
from actors.metadata.ops import ConfigSet, EntitySet, TopicGone, TopicSet
from actors.ports.zookeeper import Create, Delete, Rejected, Write, Znode
from tests.simulator.zookeeper import ZooKeeper
from tests.unit.bridge.played import Bridge, Stage, add_topic, cluster, set_config
from tests.unit.bridge.test_merging import ABOUT, PATH, driving, held, put, rule, set_rule

ENTITY = "topics/orders"


class Ended(Exception):
    """The controller is gone."""


def next_of(bridge: Bridge) -> Bridge:
    """Another controller is the active one."""
    bridge.zookeeper.end(bridge.session)
    return driving(bridge.zookeeper, bridge)


def there(zookeeper: ZooKeeper, entity: str) -> dict[str, str]:
    data = zookeeper.get(settings.path_of(entity))
    return {} if data is None else json.loads(data)["config"]


def unnoticed(zookeeper: ZooKeeper) -> None:
    """The notifications have expired."""
    for folder in (znodes.CONFIG_CHANGES, znodes.RULE_CHANGES):
        for name in zookeeper.names(folder) or ():
            zookeeper.multi(0, [Delete(f"{folder}/{name}")])


def claimed_by_an_old_broker(zookeeper: ZooKeeper) -> None:
    zookeeper.put(znodes.CONTROLLER_EPOCH, b"%d" % (int(zookeeper.get(znodes.CONTROLLER_EPOCH) or b"") + 1))


def quota(key: str, value: float) -> EntitySet:
    named = (("user", "alice"),)
    return EntitySet("quota", (named, key), (("entity", named), ("key", key), ("value", value), ("remove", False)))


@pytest.mark.parametrize("emergency", [False, True])
@pytest.mark.parametrize("written", [False, True], ids=["taken over", "written since"])
def test_the_next_controller_merges_what_both_sides_changed(written: bool, emergency: bool) -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2, 3]])
    set_config(zookeeper, ENTITY, retention_ms="1", segment_ms="1", flush_ms="1")
    alice, mallory, bob, carol = rule("alice"), rule("mallory", 2), rule("bob"), rule("carol")
    put(zookeeper, alice, carol)
    bridge = driving(zookeeper)
    if written:
        bridge.apply(ConfigSet(2, "orders", "segment.ms", "2"))
        set_rule(bridge, rule("dave"))
        bridge.write("settings", ENTITY)
        bridge.write("rules", ABOUT)
    dave = {rule("dave")} if written else set()
    zookeeper.end(bridge.session)
    put(zookeeper, carol, mallory, *dave)  # alice's right is revoked, and mallory is denied
    set_config(zookeeper, ENTITY, retention_ms="7", segment_ms="2" if written else "1", flush_ms="1")
    set_rule(bridge, bob)
    set_rule(bridge, carol, there=False)
    bridge.apply(ConfigSet(2, "orders", "flush.ms", None), ConfigSet(2, "orders", "segment.bytes", "3"))
    if emergency:
        claimed_by_an_old_broker(zookeeper)
    unnoticed(zookeeper)
    second = driving(zookeeper, bridge)
    assert held(second) == ({bob, mallory} | dave, {bob, mallory} | dave)
    expected = {"retention.ms": "7", "segment.ms": "2" if written else "1", "segment.bytes": "3"}
    assert settings.here(second.image, ENTITY) == there(zookeeper, ENTITY) == expected
    third = next_of(second)  # nobody has changed anything since
    assert held(third) == ({bob, mallory} | dave, {bob, mallory} | dave)
    assert settings.here(third.image, ENTITY) == there(zookeeper, ENTITY) == expected


def test_a_right_that_a_broker_has_given_or_taken_is_a_base_too() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2, 3]])
    bridge = driving(zookeeper)
    alice, bob = rule("alice"), rule("bob")
    put(zookeeper, alice, bob)
    set_config(zookeeper, ENTITY, retention_ms="1", segment_ms="1")
    bridge.follow()
    assert held(bridge) == ({alice, bob}, {alice, bob})
    zookeeper.end(bridge.session)
    put(zookeeper, bob)
    set_config(zookeeper, ENTITY, segment_ms="1")
    unnoticed(zookeeper)
    set_rule(bridge, bob, there=False)
    bridge.apply(ConfigSet(2, "orders", "segment.ms", None))
    second = driving(zookeeper, bridge)
    assert held(second) == (set(), set())
    assert settings.here(second.image, ENTITY) == there(zookeeper, ENTITY) == {}


def test_a_topic_made_by_a_broker_brings_the_base_of_its_settings() -> None:
    zookeeper = cluster()
    bridge = driving(zookeeper)
    set_config(zookeeper, "topics/late", notice=False, retention_ms="1", segment_ms="1")
    add_topic(zookeeper, "late", [[1, 2]], states=False)
    bridge.follow()
    assert settings.here(bridge.image, "topics/late") == {"retention.ms": "1", "segment.ms": "1"}
    set_config(zookeeper, "topics/late", notice=False, segment_ms="1")
    bridge.apply(ConfigSet(2, "late", "segment.ms", "2"))
    second = next_of(bridge)
    assert settings.here(second.image, "topics/late") == there(zookeeper, "topics/late") == {"segment.ms": "2"}


@pytest.mark.parametrize("before", ["50.0", "50"])
def test_a_number_written_in_another_way_was_changed_by_nobody(before: str) -> None:
    zookeeper = cluster()
    set_config(zookeeper, "users/alice", request_percentage=before)
    zookeeper.put("/config/users/alice", settings.data({"request_percentage": before}))
    bridge = driving(zookeeper)
    bridge.apply(quota("request_percentage", 60.0))
    bridge.write("settings", "users/alice")
    assert settings.here(bridge.image, "users/alice") == there(zookeeper, "users/alice") == {"request_percentage": "60"}


def test_a_release_that_kept_no_bases_has_driven_since() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2, 3]])
    alice, bob = rule("alice"), rule("bob")
    put(zookeeper, alice)
    bridge = driving(zookeeper)
    epoch = b"%d" % (int(zookeeper.get(znodes.CONTROLLER_EPOCH) or b"") + 1)
    zookeeper.multi(0, [Write(znodes.CONTROLLER_EPOCH, epoch), Write(znodes.CLAIMED, epoch)])
    put(zookeeper, alice, bob)  # which that release has written, and its log has it
    set_rule(bridge, bob)
    zookeeper.put(PATH, json.dumps({"version": 1, "by": "rayft"} | json.loads(zookeeper.get(PATH) or b"")).encode())
    second = next_of(bridge)
    assert held(second) == ({alice, bob}, {alice, bob})
    set_rule(second, bob, there=False)
    third = next_of(second)
    assert held(third) == ({alice}, {alice}), "what that release agreed on counts, and no base from before it"
    assert zookeeper.get(znodes.AGREED) == zookeeper.get(znodes.CLAIMED)


def test_a_second_takeover_begins_with_no_bases_of_the_first() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2, 3]])
    put(zookeeper, rule("alice"))
    bridge = driving(zookeeper)
    assert zookeeper.get(bases.path_of(PATH)) is not None
    zookeeper.put(znodes.WANTED, b"back")
    bridge.follow()
    assert bridge.stage is Stage.RETURNED, bridge.told
    zookeeper.remove(PATH)
    zookeeper.remove(znodes.WANTED)
    second = next_of(bridge)
    assert zookeeper.get(bases.path_of(PATH)) is None and held(second) == (set(), set())
    set_rule(second, rule("alice"))
    second.write("rules", ABOUT)
    assert held(second) == ({rule("alice")}, {rule("alice")})


def test_a_second_takeover_that_ends_as_soon_as_the_log_has_the_truth_leaves_no_bases_of_the_first() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2, 3]])
    set_config(zookeeper, ENTITY, retention_ms="1")
    bridge = driving(zookeeper)
    zookeeper.put(znodes.WANTED, b"back")
    bridge.follow()
    assert bridge.stage is Stage.RETURNED, bridge.told
    zookeeper.remove(znodes.WANTED)
    set_config(zookeeper, ENTITY, retention_ms="2")
    zookeeper.end(bridge.session)
    second = Bridge(zookeeper, bridge.image)

    def ends(ask: Any) -> None:
        if progress(second.image) == Progress.MIGRATION:
            raise Ended

    second.before = ends
    with pytest.raises(Ended):
        second.take_over()
    set_config(zookeeper, ENTITY, retention_ms="1")
    third = next_of(second)
    assert settings.here(third.image, ENTITY) == there(zookeeper, ENTITY) == {"retention.ms": "1"}


def test_what_is_left_of_a_deleted_topic_is_not_the_settings_of_a_new_one() -> None:
    zookeeper = cluster()
    set_config(zookeeper, "topics/late", notice=False, retention_ms="1")
    bridge = driving(zookeeper)
    set_config(zookeeper, "topics/late", retention_ms="2")
    bridge.follow()
    second = next_of(bridge)
    second.apply(TopicSet("late", b"l" * 16))
    assert settings.here(second.image, "topics/late") == {}
    second.write("topic", "late")
    assert there(zookeeper, "topics/late") == {}


def test_with_a_topic_its_base_goes() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2]])
    set_config(zookeeper, ENTITY, retention_ms="1")
    bridge = driving(zookeeper)
    kept = bases.path_of(settings.path_of(ENTITY))
    assert zookeeper.get(kept) is not None
    zookeeper.put(f"{znodes.DELETE_TOPICS}/orders", b"")
    bridge.follow()
    assert zookeeper.get(kept) is None and zookeeper.get("/brokers/topics/orders") is None


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("here_too", [True, False])
def test_a_controller_that_ends_before_it_notes_what_it_takes_loses_nothing(taken: bool, here_too: bool) -> None:
    """Before it was committed or behind that, by the job that follows or by the one that writes."""
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2, 3]])
    alice, bob, mallory = rule("alice"), rule("bob"), rule("mallory", 2)
    put(zookeeper, alice)
    set_config(zookeeper, ENTITY, retention_ms="1")
    bridge = driving(zookeeper)

    def ends(ask: Any) -> None:
        announces = isinstance(ask, Make) and any(
            isinstance(one, Create | Write) and one.data.startswith(bases.ANNOUNCED) for one in ask.changes
        )
        if isinstance(ask, Apply if not taken else Make) and not announces:
            raise Ended

    bridge.before = ends
    put(zookeeper, alice, mallory)
    set_config(zookeeper, ENTITY, retention_ms="1", segment_ms="2")
    for kind, name in (("rules", ABOUT), ("settings", ENTITY)):
        with pytest.raises(Ended):
            bridge.write(kind, name) if here_too else bridge.follow()
    assert held(bridge)[0] == ({alice, mallory} if taken else {alice})
    put(zookeeper, mallory)  # what was taken in stays, and alice's right is revoked
    set_config(zookeeper, ENTITY, retention_ms="1")
    set_rule(bridge, bob)
    unnoticed(zookeeper)
    second = next_of(bridge)
    assert held(second) == ({mallory, bob}, {mallory, bob})
    assert settings.here(second.image, ENTITY) == there(zookeeper, ENTITY) == {"retention.ms": "1"}


def test_a_base_says_nothing_of_what_is_secret_and_has_a_bound() -> None:
    zookeeper = cluster()
    bridge = driving(zookeeper)
    path = "/config/brokers/1"
    secret = {"listener.name.a.ssl.key.password": "hunter2" * 100}
    base = bases.of_settings(secret)
    (made,) = bases.change(bridge.here, path, base, None)
    data: bytes = made.data  # type: ignore[union-attr]
    assert len(data) == 1 + bases.PAIR_BYTES and b"hunter" not in data
    assert bases.known(bridge.here, path, Znode(data), {}) == base
    bridge.here.request_bytes = 40
    (large,) = bases.change(bridge.here, path, bases.of_settings({"a": "1"}), None)
    assert bases.known(bridge.here, path, Znode(large.data), {}) is None  # type: ignore[union-attr]
    for damaged in (b"", b"?", data[:-1], b"\x02" + data[1:], b"\x02" + bytes(4) + b"?", b"\xff"):
        assert bases.known(bridge.here, path, Znode(damaged), {}) is None
    assert bases.known(bridge.here, path, None, {}) == {}


def test_a_write_that_zookeeper_refuses_has_changed_no_base() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2, 3]])
    put(zookeeper, rule("alice"))
    bridge = driving(zookeeper)
    before = zookeeper.get(bases.path_of(PATH))

    def faster(ask: Any) -> None:
        if isinstance(ask, Make):
            bridge.before = lambda ask: None
            put(zookeeper, rule("mallory", 2))

    set_rule(bridge, rule("bob"))
    bridge.before = faster
    with pytest.raises(Rejected):
        bridge.write("rules", ABOUT)
    assert zookeeper.get(bases.path_of(PATH)) == before
    bridge.write("rules", ABOUT)
    assert held(bridge) == ({rule("bob"), rule("mallory", 2)},) * 2


def test_the_first_rules_of_both_sides_need_no_second_try() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2, 3]])
    bridge = driving(zookeeper)
    put(zookeeper, rule("mallory", 2))
    set_config(zookeeper, ENTITY, retention_ms="1")
    set_rule(bridge, rule("bob"))
    bridge.apply(ConfigSet(2, "orders", "segment.ms", "2"))
    bridge.write("rules", ABOUT)
    bridge.write("settings", ENTITY)
    assert held(bridge) == ({rule("bob"), rule("mallory", 2)},) * 2
    assert there(zookeeper, ENTITY) == {"retention.ms": "1", "segment.ms": "2"}


def test_settings_of_a_topic_that_is_gone_are_not_merged_into_the_log() -> None:
    zookeeper = cluster()
    id = add_topic(zookeeper, "orders", [[1, 2, 3]])
    set_config(zookeeper, ENTITY, retention_ms="1")
    bridge = driving(zookeeper)
    bridge.apply(ConfigSet(2, "orders", "segment.ms", "2"), TopicGone(id))
    set_config(zookeeper, ENTITY, retention_ms="7")
    bridge.write("settings", ENTITY)
    assert settings.here(bridge.image, ENTITY) == {}
