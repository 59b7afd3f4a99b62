"""A cluster in a ZooKeeper in memory is taken over, followed, written back, handed back: the jobs of actors/bridge."""

import json
from typing import Any

import pytest

from actors.bridge import znodes
from actors.bridge.asks import Look, Make
from actors.bridge.stages import Progress, Stage, progress
from actors.bridge.subjects import rules, settings, topics
from actors.metadata.image import Image
from actors.metadata.ops import (
    ConfigSet,
    EntityGone,
    EntitySet,
    FeatureSet,
    Op,
    PartitionsChanged,
    PartitionsSet,
    TopicGone,
    TopicSet,
)
from actors.ports.zookeeper import Delete
from tests.unit.bridge.played import Bridge, add_topic, broker, cluster, notify, set_config

TOPIC_ID = b"0123456789abcdef"


def begun(zookeeper: Any = None, **more: Any) -> Bridge:
    bridge = Bridge(cluster() if zookeeper is None else zookeeper, **more)
    bridge.take_over()
    return bridge


def partition(image: Image, name: str, number: int) -> tuple[int, tuple[int, ...], int, tuple[int, ...]]:
    """leader, ISR, epoch, replicas."""
    row = image.partition(image.topic(name), number)
    assert image.leader_epoch(row) == image.partition_epoch(row)
    return image.leader(row), tuple(image.isr(row)), image.leader_epoch(row), tuple(image.replicas(row))


def test_a_cluster_is_taken_over_with_leaders_and_isrs_above_both_of_its_numbers() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2], [2, 3]], leader_epoch=4)
    for _ in range(9):  # the version of a state znode is ahead of its leader epoch: ISRs have changed
        zookeeper.put(topics.state_path("orders", 1), zookeeper.get(topics.state_path("orders", 1)))
    bridge = begun(zookeeper)
    assert bridge.stage is Stage.DRIVING and progress(bridge.image) is Progress.MIGRATION, bridge.told
    assert partition(bridge.image, "orders", 0) == (1, (1, 2), 5, (1, 2))
    assert partition(bridge.image, "orders", 1) == (2, (2, 3), 10, (2, 3))
    assert [one.id for one in bridge.image.brokers()] == [1, 2, 3]
    assert {one.id: one.epoch for one in bridge.image.brokers()} == {
        id: zookeeper.entries[f"/brokers/ids/{id}"].czxid for id in (1, 2, 3)
    }


def test_the_claim_is_one_transaction_with_the_next_epoch_and_stays_when_the_session_ends() -> None:
    bridge = begun()
    zookeeper = bridge.zookeeper
    assert zookeeper.get("/controller_epoch") == b"8" and bridge.epoch == 8
    assert json.loads(zookeeper.get("/controller") or b"")["brokerid"] == 1001
    epochs = [i for i, (_, change) in enumerate(zookeeper.history) if change.path == "/controller_epoch"]
    holders = [i for i, (_, change) in enumerate(zookeeper.history) if change.path == "/controller"]
    assert holders[-2:] == [epochs[1] + 1, epochs[1] + 2], (
        "the epoch, the end of the old holder and the new one are one"
    )
    zookeeper.end(bridge.session)
    assert zookeeper.get("/controller") is not None and zookeeper.get("/brokers/ids/1001") is None


def test_nothing_is_claimed_of_a_cluster_that_cannot_be_taken_over() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "a.b", [[1]])
    add_topic(zookeeper, "a_b", [[1]])
    before = len(zookeeper.history)
    bridge = begun(zookeeper)
    assert bridge.stage is Stage.REFUSED and len(zookeeper.history) == before and bridge.epoch is None
    assert any("differ only in '.' and '_'" in line for line in bridge.told)


@pytest.mark.parametrize("name", ["transaction.version", "group.version", "share.version", "streams.version"])
def test_nothing_is_claimed_by_a_quorum_whose_coordinators_write_what_old_brokers_cannot_read(name: str) -> None:
    zookeeper, image = cluster(), Image()
    image.replay(0, FeatureSet(name, 1))
    bridge = begun(zookeeper, image=image)
    assert bridge.stage is Stage.REFUSED and zookeeper.get("/controller_epoch") == b"7"
    assert any(f"{name} is 1" in line for line in bridge.told)


def test_what_forbids_it_only_after_the_claim_gives_the_claim_back() -> None:
    zookeeper = cluster()
    bridge = Bridge(zookeeper)

    def later(ask: Any) -> None:
        if isinstance(ask, Make) and any(change.path == "/brokers/ids/1001" for change in ask.changes):
            zookeeper.put("/admin/reassign_partitions", b"{}")

    bridge.before = later
    bridge.take_over()
    assert bridge.stage is Stage.REFUSED and bridge.epoch is None and bridge.here.claim is None
    assert zookeeper.get("/controller") is None and bridge.image.topic_count == 0


def test_of_two_that_claim_one_is_refused_and_looks_again() -> None:
    zookeeper = cluster()
    bridge = Bridge(zookeeper)

    def faster(ask: Any) -> None:
        if isinstance(ask, Make):
            bridge.before = lambda ask: None
            zookeeper.put("/controller_epoch", b"30")

    bridge.before = faster
    bridge.take_over()
    assert bridge.stage is Stage.LOOKING and bridge.here.claim is None
    bridge.take_over()
    assert bridge.epoch == 31


def test_a_new_active_controller_claims_and_goes_on_without_losing_what_the_log_has() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2]])
    set_config(zookeeper, "topics/orders", retention_ms="1000")
    first = begun(zookeeper)
    first.watch()
    first.apply(ConfigSet(2, "orders", "retention.ms", "2000"))  # committed, and not written back before it ended
    first.apply(TopicSet("late", TOPIC_ID), PartitionsSet(TOPIC_ID, [0], [(1, 2)], [(1, 2)]))
    zookeeper.end(first.session)
    set_config(zookeeper, "topics/orders2", notice=False)
    add_topic(zookeeper, "made-by-a-broker", [[2, 1]], states=False)
    second = begun(zookeeper, image=first.image, me=1002)
    second.watch()
    assert second.epoch == 9 and second.stage is Stage.DRIVING
    assert json.loads(zookeeper.get("/config/topics/orders") or b"")["config"] == {"retention.ms": "2000"}
    assert json.loads(zookeeper.get("/brokers/topics/late") or b"")["partitions"] == {"0": [1, 2]}
    assert partition(second.image, "made-by-a-broker", 0) == (2, (2, 1), 0, (2, 1))


def test_a_setting_that_a_broker_changed_while_nobody_looked_is_not_overwritten() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2]])
    first = begun(zookeeper)
    first.watch()
    zookeeper.end(first.session)
    set_config(zookeeper, "topics/orders", retention_ms="7")
    second = begun(zookeeper, image=first.image)
    assert second.image.config(2, "orders") == {"retention.ms": "7"}
    assert json.loads(zookeeper.get("/config/topics/orders") or b"")["config"] == {"retention.ms": "7"}


def test_a_takeover_that_ended_half_way_begins_anew_with_what_zookeeper_has_now() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "gone", [[1]])
    add_topic(zookeeper, "orders", [[1, 2]])
    first = Bridge(zookeeper)
    applied = []

    def ended(ask: Any) -> None:
        applied.append(ask)
        if first.image.topic("orders") >= 0:
            raise KeyboardInterrupt

    first.before = ended
    with pytest.raises(KeyboardInterrupt):
        first.take_over()
    assert progress(first.image) is Progress.PRE_MIGRATION
    zookeeper.end(first.session)
    zookeeper.remove("/brokers/topics/gone")
    add_topic(zookeeper, "orders", [[1, 2], [2, 1]])
    second = begun(zookeeper, image=first.image, me=1002)
    assert second.stage is Stage.DRIVING and second.image.topic("gone") < 0
    assert second.image.partition_count(second.image.topic("orders")) == 2


def test_producer_ids_of_both_sides_never_meet() -> None:
    zookeeper = cluster()
    zookeeper.put("/latest_producer_id_block", b'{"version":1,"broker":2,"block_start":"4000","block_end":"4999"}')
    bridge = begun(zookeeper)
    assert bridge.image.next_producer_id == 5000 + (1 << 40)


def test_a_dead_broker_leads_nothing_after_the_takeover() -> None:
    zookeeper = cluster(brokers=2)
    add_topic(zookeeper, "orders", [[3, 1], [3]])
    bridge = begun(zookeeper)
    assert partition(bridge.image, "orders", 0)[:2] == (1, (1,))
    assert partition(bridge.image, "orders", 1)[:2] == (-1, (3,)), "its last member stays in the ISR, and nobody leads"


# ---- following


def test_a_topic_that_a_broker_places_on_the_controller_while_it_takes_over_is_no_obstacle() -> None:
    zookeeper = cluster()
    bridge = Bridge(zookeeper)

    def meanwhile(ask: Any) -> None:
        if isinstance(ask, Look) and zookeeper.get("/brokers/ids/1001") and not zookeeper.get("/brokers/topics/new"):
            add_topic(zookeeper, "new", [[1001, 2], [2, 3]], states=False)

    bridge.before = meanwhile
    bridge.take_over()
    assert bridge.stage is Stage.DRIVING, bridge.told
    image = bridge.image
    assert all(set(image.replicas(row)) <= {1, 2, 3} for row in image.topic_partitions(image.topic("new")))


def test_a_topic_that_a_broker_makes_gets_its_states_and_no_replica_on_a_controller() -> None:
    bridge = begun()
    bridge.watch()
    id = add_topic(bridge.zookeeper, "auto", [[1001, 2], [2, 3]], states=False)
    bridge.follow()
    assert bridge.image.topic_id(bridge.image.topic("auto")) == id
    for number in (0, 1):
        leader, isr, _, replicas = partition(bridge.image, "auto", number)
        assert 1001 not in replicas and len(set(replicas)) == 2 and isr == replicas and leader == replicas[0]
        assert bridge.zookeeper.get(topics.state_path("auto", number)) is not None
    written = json.loads(bridge.zookeeper.get("/brokers/topics/auto") or b"")["partitions"]
    assert written["0"] == list(partition(bridge.image, "auto", 0)[3])
    assert bridge.follow() == [] or bridge.follow() == [], "what the bridge writes itself is no endless work"


def test_a_broker_that_is_gone_is_followed_and_one_that_is_new() -> None:
    bridge = begun()
    bridge.watch()
    bridge.zookeeper.end(bridge.zookeeper.sessions_of_brokers[2])
    bridge.follow()
    assert [one.id for one in bridge.image.brokers()] == [1, 3]
    session = bridge.zookeeper.begin(lambda event: None)
    czxid = bridge.zookeeper.put("/brokers/ids/2", broker(2), session)
    bridge.follow()
    registered = bridge.image.broker(2)
    assert registered is not None and registered.epoch == czxid


def test_a_topic_that_a_tool_wants_deleted_goes_on_both_sides() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1], [2]])
    set_config(zookeeper, "topics/orders", retention_ms="1000")
    bridge = begun(zookeeper)
    bridge.watch()
    zookeeper.put("/admin/delete_topics/orders", b"")
    bridge.follow()
    assert bridge.image.topic("orders") < 0
    left = [path for path in zookeeper.entries if "/orders" in path]
    assert left == []


def test_a_topic_that_the_log_has_deleted_does_not_come_back() -> None:
    zookeeper = cluster()
    id = add_topic(zookeeper, "orders", [[1]])
    first = begun(zookeeper)
    first.watch()
    first.apply(TopicGone(id))  # committed; the controller ends before it is written back
    zookeeper.end(first.session)
    second = begun(zookeeper, image=first.image)
    second.watch()
    assert second.image.topic("orders") < 0 and zookeeper.get("/brokers/topics/orders") is None


@pytest.mark.parametrize("count", [1, 149, 150, 151, 300])
def test_a_deletion_that_ends_between_two_transactions_is_finished_by_the_next_session(count: int) -> None:
    """Whichever of its transactions is the last one that was made."""
    places = 0
    while True:
        zookeeper = cluster()
        id = add_topic(zookeeper, "wide", [[1, 2]] * count)
        bridge = begun(zookeeper)
        bridge.watch()
        bridge.apply(TopicGone(id))
        left = [places]

        def ended(ask: Any, left: list[int] = left) -> None:
            if isinstance(ask, Make):
                left[0] -= 1
                if left[0] < 0:
                    raise KeyboardInterrupt

        bridge.before = ended
        try:
            bridge.write("topic", "wide")
        except KeyboardInterrupt:
            zookeeper.end(bridge.session)
            bridge = begun(zookeeper, image=bridge.image, me=1002)
            bridge.watch()
        assert bridge.image.topic("wide") < 0 and zookeeper.get("/brokers/topics/wide") is None, places
        if left[0] >= 0:
            break
        places += 1
    assert places == -(-2 * (count - 1) // 300) + 1


def test_a_topic_that_the_tool_of_2_8_has_made_gets_an_id() -> None:
    zookeeper = cluster()
    bridge = begun(zookeeper)
    bridge.watch()
    zookeeper.put("/brokers/topics/tool", znodes.written(version=2, partitions={"0": [1, 2]}, adding_replicas={}))
    bridge.follow()
    row = bridge.image.topic("tool")
    assert row >= 0 and partition(bridge.image, "tool", 0)[1] == (1, 2), bridge.told
    there = json.loads(zookeeper.get("/brokers/topics/tool") or b"")
    assert there["topic_id"] == topics.id_text(bridge.image.topic_id(row) or b"") and len(there["topic_id"]) == 22
    zookeeper.put("/brokers/topics/other", znodes.written(version=2, partitions={"0": [1, 2]}, adding_replicas={}))
    bridge.follow()
    assert bridge.image.topic_id(bridge.image.topic("other")) != bridge.image.topic_id(row)


def test_partitions_that_a_tool_adds_are_taken_over() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2]])
    bridge = begun(zookeeper)
    bridge.watch()
    add_topic(zookeeper, "orders", [[1, 2], [3, 1]], states=False)
    bridge.follow()
    assert partition(bridge.image, "orders", 1) == (3, (3, 1), 0, (3, 1))
    assert zookeeper.get(topics.state_path("orders", 1)) is not None


def test_assignments_of_a_tool_are_written_over_as_the_log_has_them() -> None:
    zookeeper = cluster()
    id = add_topic(zookeeper, "orders", [[1, 2]])
    bridge = begun(zookeeper)
    bridge.watch()
    add_topic(zookeeper, "orders", [[3, 2]], id=id, states=False)
    bridge.follow()
    assert json.loads(zookeeper.get("/brokers/topics/orders") or b"")["partitions"] == {"0": [1, 2]}


def test_only_new_notifications_of_others_are_obeyed() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1]])
    set_config(zookeeper, "topics/orders", retention_ms="1000")
    bridge = begun(zookeeper)
    bridge.watch()
    bridge.apply(ConfigSet(2, "orders", "retention.ms", "3000"))
    bridge.write("settings", "topics/orders")
    bridge.follow()
    assert bridge.image.config(2, "orders") == {"retention.ms": "3000"}
    set_config(zookeeper, "topics/orders", retention_ms="4000", cleanup_policy="compact")
    set_config(zookeeper, "users/alice", producer_byte_rate="1024")
    notify(zookeeper, "topics/a/b/c")
    bridge.follow()
    assert bridge.image.config(2, "orders") == {"retention.ms": "4000", "cleanup.policy": "compact"}


def test_a_notification_that_one_active_controller_has_handled_is_not_handled_by_the_next() -> None:
    zookeeper = cluster()
    first = begun(zookeeper)
    first.watch()
    zookeeper.put("/config/changes/config_change_0000000007", b"?")
    first.follow()
    assert [line for line in first.told if line.startswith("a notification is passed over")]
    zookeeper.end(first.session)
    second = begun(zookeeper, image=first.image, me=1002)
    second.watch()
    second.follow()
    assert not [line for line in second.told if line.startswith("a notification is passed over")]


def test_a_failed_directory_is_asked_about_and_forgotten() -> None:
    bridge = begun()
    bridge.watch()
    bridge.zookeeper.put("/log_dir_event_notification/log_dir_event_0000000000", b'{"version":1,"broker":2,"event":1}')
    bridge.zookeeper.put("/log_dir_event_notification/log_dir_event_0000000001", b"?")
    bridge.follow()
    assert bridge.again == [2] and bridge.zookeeper.names("/log_dir_event_notification") == ()


def test_another_controller_is_answered_by_a_higher_claim() -> None:
    bridge = begun()
    bridge.watch()
    bridge.zookeeper.remove("/controller")
    bridge.zookeeper.put("/controller_epoch", b"9")
    bridge.zookeeper.put("/controller", b'{"version":1,"brokerid":2,"timestamp":"1"}', 3)
    bridge.follow()
    assert bridge.stage is Stage.LOOKING
    bridge.take_over()
    assert bridge.epoch == 10 and json.loads(bridge.zookeeper.get("/controller") or b"")["brokerid"] == 1001


def test_a_controller_whose_claim_is_over_changes_nothing() -> None:
    first = begun()
    second = begun(first.zookeeper, image=first.image, me=1002)
    assert second.epoch == 9
    before = dict(first.zookeeper.entries)
    first.apply(TopicSet("late", TOPIC_ID), PartitionsSet(TOPIC_ID, [0], [(1, 2)], [(1, 2)]))
    with pytest.raises(Exception, match="version"):
        first.write("topic", "late")
    assert first.zookeeper.entries == before


# ---- writing


def test_a_topic_is_written_with_its_states_and_again_writes_nothing() -> None:
    bridge = begun()
    bridge.apply(TopicSet("new", TOPIC_ID), PartitionsSet(TOPIC_ID, [0, 1], [(1, 2), (2, 3)], [(1, 2), (2, 3)]))
    bridge.write("topic", "new")
    zookeeper = bridge.zookeeper
    assert topics.topic("/brokers/topics/new", znode(zookeeper, "/brokers/topics/new")) == topics.Topic(
        "new", TOPIC_ID, {0: (1, 2), 1: (2, 3)}, {}, {}
    )
    assert json.loads(zookeeper.get(topics.state_path("new", 1)) or b"")["leader"] == 2
    before = len(zookeeper.history)
    bridge.write("topic", "new")
    assert len(zookeeper.history) == before


def test_a_topic_of_many_partitions_needs_several_transactions() -> None:
    bridge = begun()
    many = range(400)
    bridge.apply(TopicSet("wide", TOPIC_ID), PartitionsSet(TOPIC_ID, many, [(1, 2)] * 400, [(1, 2)] * 400))
    bridge.write("topic", "wide")
    assert len(bridge.zookeeper.names("/brokers/topics/wide/partitions") or ()) == 400
    bridge.apply(TopicGone(TOPIC_ID))
    bridge.write("topic", "wide")
    assert bridge.zookeeper.get("/brokers/topics/wide") is None


@pytest.mark.parametrize(
    ("entity", "op", "expected"),
    [
        ("topics/orders", ConfigSet(2, "orders", "retention.ms", "5"), {"retention.ms": "5"}),
        ("brokers/<default>", ConfigSet(4, "", "log.retention.ms", "6"), {"log.retention.ms": "6"}),
        (
            "users/a%7Eb",
            EntitySet(
                "quota",
                ((("user", "a~b"),), "consumer_byte_rate"),
                (
                    ("entity", (("user", "a~b"),)), ("key", "consumer_byte_rate"), ("value", 5.0), ("remove", False),
                ),
            ),
            {"consumer_byte_rate": "5"},
        ),
        ("brokers/2", ConfigSet(4, "2", "background.threads", "4"), {"background.threads": "4"}),
        (
            "users/o%3Db/clients/<default>",
            EntitySet(
                "quota",
                ((("client-id", None), ("user", "o=b")), "producer_byte_rate"),
                (
                    ("entity", (("client-id", None), ("user", "o=b"))), ("key", "producer_byte_rate"),
                    ("value", 1000.0), ("remove", False),
                ),
            ),
            {"producer_byte_rate": "1000"},
        ),
    ],
)  # fmt: skip
def test_settings_are_written_with_a_notification(entity: str, op: Op, expected: dict[str, str]) -> None:
    bridge = begun()
    bridge.apply(op)
    assert settings.entity_of(op) == entity
    bridge.write("settings", entity)
    assert json.loads(bridge.zookeeper.get(f"/config/{entity}") or b"")["config"] == expected
    notices = bridge.zookeeper.names("/config/changes") or ()
    newest = json.loads(bridge.zookeeper.get(f"/config/changes/{notices[-1]}") or b"")
    assert newest["entity_path"] == entity and newest["version"] == 2


def test_a_users_znode_keeps_what_is_not_taken_over() -> None:
    zookeeper = cluster()
    zookeeper.put("/config/users/alice", settings.data({"some.plugin": "x"}))
    bridge = begun(zookeeper)
    entity = (("user", "alice"),)
    fields = (("entity", entity), ("key", "request_percentage"), ("value", 12.5), ("remove", False))
    bridge.apply(EntitySet("quota", (entity, "request_percentage"), fields))
    bridge.write("settings", "users/alice")
    written = json.loads(zookeeper.get("/config/users/alice") or b"")["config"]
    assert written == {"some.plugin": "x", "request_percentage": "12.5"}
    bridge.apply(EntityGone("quota", (entity, "request_percentage")))
    bridge.write("settings", "users/alice")
    assert json.loads(zookeeper.get("/config/users/alice") or b"")["config"] == {"some.plugin": "x"}


def znode(zookeeper: Any, path: str) -> Any:
    from actors.ports.zookeeper import Znode

    entry = zookeeper.entries[path]
    return Znode(entry.data, entry.version, entry.czxid)


# ---- the ends


def test_a_cluster_is_handed_back_with_states_above_what_brokers_have() -> None:
    zookeeper = cluster()
    id = add_topic(zookeeper, "orders", [[1, 2]])
    bridge = begun(zookeeper)
    bridge.watch()
    bridge.apply(PartitionsChanged.one(id, 0, [2], 2, 8, 8))
    zookeeper.put(znodes.WANTED, b"back")
    bridge.follow()
    assert bridge.stage is Stage.RETURNED and bridge.epoch is None, bridge.told
    assert zookeeper.get("/controller") is None and progress(bridge.image) is Progress.PRE_MIGRATION
    state = json.loads(zookeeper.get(topics.state_path("orders", 0)) or b"")
    assert (state["leader"], state["isr"], state["leader_epoch"]) == (2, [2], 9)
    block = json.loads(zookeeper.get(znodes.PRODUCER_IDS) or b"")
    assert int(block["block_end"]) >= bridge.image.next_producer_id - 1
    bridge.stage = Stage.LOOKING
    bridge.take_over()
    assert bridge.stage is Stage.RETURNED and zookeeper.get("/controller") is None, "it stays back while that is wanted"


def test_access_rules_that_went_while_the_cluster_was_handed_back_do_not_come_back() -> None:
    zookeeper = cluster()
    rule = {"principal": "User:a", "permissionType": "Allow", "operation": "Read", "host": "*"}
    for name in ("kept", "gone"):
        zookeeper.put(f"{znodes.RULES}/Topic/{name}", znodes.written(version=1, acls=[rule]))
    first = begun(zookeeper)
    first.watch()
    zookeeper.put(znodes.WANTED, b"back")
    first.follow()
    assert first.stage is Stage.RETURNED
    zookeeper.remove(znodes.WANTED)
    zookeeper.remove(f"{znodes.RULES}/Topic/gone")
    second = begun(zookeeper, image=first.image, me=1002)
    assert [about.name for about in rules.by_resource(second.image)] == ["kept"]


def test_it_is_not_handed_back_while_brokers_of_rayft_have_data() -> None:
    zookeeper = cluster()
    id = add_topic(zookeeper, "orders", [[1, 2]])
    bridge = begun(zookeeper)
    bridge.watch()
    from actors.metadata.ops import BrokerSet

    bridge.apply(BrokerSet(4, 99, endpoints=bridge.here.endpoints and tuple(bridge.here.endpoints)))
    zookeeper.put(znodes.WANTED, b"back")
    bridge.follow()
    assert bridge.stage is Stage.DRIVING and zookeeper.get(znodes.WANTED) is None
    assert b"brokers 4 are rayft's" in (zookeeper.get(znodes.REFUSED) or b"")
    from actors.metadata.ops import BrokerGone

    bridge.apply(PartitionsSet.one(id, 0, (1, 4), (4,), 4, 9, 9))
    bridge.apply(BrokerGone(4))
    zookeeper.put(znodes.WANTED, b"back")
    bridge.follow()
    assert bridge.stage is Stage.DRIVING and any("orders-0 is in sync at 4 only" in line for line in bridge.told)


def test_a_controller_that_ended_while_it_gave_back_does_not_stay_in_the_way() -> None:
    zookeeper = cluster()
    bridge = begun(zookeeper)
    bridge.watch()

    def ended(ask: Any) -> None:
        if isinstance(ask, Make) and any(isinstance(one, Delete) and one.path == "/controller" for one in ask.changes):
            raise KeyboardInterrupt

    bridge.before = ended
    zookeeper.put(znodes.WANTED, b"back")
    with pytest.raises(KeyboardInterrupt):
        bridge.follow()
    assert zookeeper.get("/controller") is not None
    zookeeper.end(bridge.session)
    second = begun(zookeeper, image=bridge.image, me=1002)
    assert second.stage is Stage.RETURNED and zookeeper.get("/controller") is None


def test_zookeeper_is_let_go_when_no_broker_needs_it() -> None:
    zookeeper = cluster()
    bridge = begun(zookeeper)
    bridge.watch()
    zookeeper.put(znodes.WANTED, b"finish")
    bridge.follow()
    assert bridge.stage is Stage.DRIVING
    for session in zookeeper.sessions_of_brokers.values():
        zookeeper.end(session)
    bridge.follow()
    zookeeper.put(znodes.WANTED, b"finish")
    bridge.follow()
    assert bridge.stage is Stage.LET_GO and progress(bridge.image) is Progress.POST_MIGRATION
    assert zookeeper.get("/controller") is not None


def test_a_refusal_does_not_forget_how_far_notifications_were_handled() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1]])
    set_config(zookeeper, "topics/orders", retention_ms="1")
    first = begun(zookeeper)
    first.watch()
    zookeeper.put(znodes.WANTED, b"finish")
    first.follow()
    first.apply(ConfigSet(2, "orders", "retention.ms", "2"))  # committed, and not written back before it ended
    zookeeper.end(first.session)
    second = begun(zookeeper, image=first.image)
    assert second.image.config(2, "orders") == {"retention.ms": "2"}
