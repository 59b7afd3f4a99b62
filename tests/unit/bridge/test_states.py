"""Leaders and ISRs in ZooKeeper while the bridge drives, the numbers that brokers compare, and the way out of it."""

import json
from typing import Any

import pytest

from actors.bridge import checks, znodes
from actors.bridge.asks import Look
from actors.bridge.stages import Progress, progress
from actors.bridge.subjects import settings, topics
from actors.metadata.ops import EntitySet, PartitionsSet, TopicGone, TopicSet
from tests.simulator.zookeeper import ZooKeeper
from tests.unit.bridge.played import Bridge, Stage, add_topic, cluster, set_config

pytestmark = pytest.mark.long


def driving(zookeeper: ZooKeeper) -> Bridge:
    bridge = Bridge(zookeeper)
    bridge.take_over()
    bridge.watch()
    assert bridge.stage is Stage.DRIVING, bridge.told
    return bridge


def changed(bridge: Bridge, id: bytes, number: int, isr: tuple[int, ...]) -> int:
    """An ISR changes, and the epochs by one; the partition epoch of which brokers are told."""
    row = bridge.image.partition(bridge.image.topic_by_id(id), number)
    epoch = bridge.image.partition_epoch(row) + 1
    members = tuple(bridge.image.replicas(row))
    bridge.apply(PartitionsSet(id, [number], [members], [isr], [], [], [isr[0]], [epoch], [epoch]))
    return epoch


@pytest.mark.parametrize("before", [0, 3, 6, 40])
@pytest.mark.parametrize("written_each", [True, False])
def test_a_state_s_version_is_never_behind_the_partition_epoch_that_brokers_were_told(
    before: int, written_each: bool
) -> None:
    zookeeper = cluster()
    id = add_topic(zookeeper, "orders", [[1, 2, 3], [2, 3, 1]], leader_epoch=4)
    path = topics.state_path("orders", 0)
    for _ in range(before):
        zookeeper.put(path, zookeeper.get(path) or b"")
    bridge = driving(zookeeper)
    told = 0
    for isr in ((1, 3), (1, 2, 3), (1, 2), (1, 2, 3), (2, 3), (2, 3, 1)):
        told = changed(bridge, id, 0, isr)
        if written_each:
            bridge.write_states()
            assert zookeeper.entries[path].version >= told
    bridge.write_states()
    there = json.loads(zookeeper.get(path) or b"")
    assert (there["leader"], sorted(there["isr"]), there["leader_epoch"]) == (2, [1, 2, 3], told)
    assert zookeeper.entries[path].version >= told
    zookeeper.put(znodes.WANTED, b"back")
    bridge.follow()
    assert bridge.stage is Stage.RETURNED
    assert zookeeper.entries[path].version > told and json.loads(zookeeper.get(path) or b"")["leader_epoch"] > told


def test_a_state_that_says_the_same_already_is_not_written_again() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2]] * 250)
    bridge = driving(zookeeper)
    versions = {path: entry.version for path, entry in zookeeper.entries.items() if path.endswith("/state")}
    assert len(versions) == 250
    zookeeper.end(bridge.session)
    second = Bridge(zookeeper, bridge.image, me=1002)
    second.take_over()
    second.watch()
    assert {path: zookeeper.entries[path].version for path in versions} == versions


def test_an_emergency_controller_begins_where_rayft_was() -> None:
    zookeeper = cluster()
    id = add_topic(zookeeper, "orders", [[1, 2, 3]])
    bridge = driving(zookeeper)
    zookeeper.end(zookeeper.sessions_of_brokers[1])  # type: ignore[attr-defined]
    changed(bridge, id, 0, (2, 3))
    bridge.write_states()
    there = json.loads(zookeeper.get(topics.state_path("orders", 0)) or b"")
    assert (there["leader"], there["isr"], there["controller_epoch"]) == (2, [2, 3], 8)


def test_zookeeper_is_not_let_go_while_a_replica_is_on_a_broker_that_is_down() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[3], [3, 2]], isr=[3])
    bridge = driving(zookeeper)
    for session in zookeeper.sessions_of_brokers.values():  # type: ignore[attr-defined]
        zookeeper.end(session)
    bridge.follow()
    zookeeper.put(znodes.WANTED, b"finish")
    bridge.follow()
    assert bridge.stage is Stage.DRIVING and progress(bridge.image) is Progress.MIGRATION
    refused = (zookeeper.get(znodes.REFUSED) or b"").decode()
    assert "orders-0" in refused and "orders-1" in refused and zookeeper.get(znodes.WANTED) is None


@pytest.mark.parametrize(
    "value, text", [(300.00000000000006, "300"), (5.0, "5"), (1e15, "1000000000000000"), (1e-9, "1")]
)
def test_a_byte_rate_is_written_as_a_whole_number(value: float, text: str) -> None:
    zookeeper = cluster()
    bridge = driving(zookeeper)
    named = (("user", "alice"),)
    for key in ("producer_byte_rate", "request_percentage"):
        fields = (("entity", named), ("key", key), ("value", value), ("remove", False))
        bridge.apply(EntitySet("quota", (named, key), fields))
    bridge.write("settings", "users/alice")
    found = json.loads(zookeeper.get("/config/users/alice") or b"")["config"]
    assert found["producer_byte_rate"] == text and float(found["request_percentage"]) == value


def test_a_wish_to_delete_is_not_obeyed_where_topics_are_not_deleted() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 2]])
    bridge = driving(zookeeper)
    bridge.here.deletes_topics = False
    zookeeper.put(f"{znodes.DELETE_TOPICS}/orders", b"")
    bridge.follow()
    assert bridge.image.topic("orders") >= 0 and zookeeper.names(znodes.DELETE_TOPICS) == ()
    assert "delete.topic.enable" in bridge.told[-1]


def test_a_user_that_was_deleted_between_two_takeovers_stays_deleted() -> None:
    zookeeper = cluster()
    for entity in ("users/mallory", "clients/app", "users/alice"):
        set_config(zookeeper, entity, notice=False, producer__byte__rate="5")
        zookeeper.put(settings.path_of(entity), settings.data({"producer_byte_rate": "5"}))
    bridge = driving(zookeeper)
    zookeeper.put(znodes.WANTED, b"back")
    bridge.follow()
    assert bridge.stage is Stage.RETURNED
    zookeeper.remove("/config/users/mallory")
    zookeeper.remove("/config/clients/app")
    zookeeper.remove(znodes.WANTED)
    zookeeper.put(znodes.CONTROLLER, b'{"version":1,"brokerid":2,"timestamp":"1"}', zookeeper.sessions_of_brokers[2])  # type: ignore[attr-defined]
    zookeeper.end(bridge.session)
    second = Bridge(zookeeper, bridge.image)
    second.take_over()
    second.watch()
    assert second.stage is Stage.DRIVING
    assert zookeeper.names("/config/users") == ("alice",) and zookeeper.names("/config/clients") == ()
    assert list(settings.every(second.image)) == ["users/alice"]


def test_the_list_of_topics_is_read_in_rounds() -> None:
    zookeeper = cluster()
    for number in range(600):
        add_topic(zookeeper, f"t{number:03d}", [[1, 2]])
    bridge = driving(zookeeper)
    id = b"new" + bytes(13)
    bridge.apply(TopicSet("new", id), PartitionsSet(id, [0], [(1, 2)], [(1, 2)]))
    bridge.write("topic", "new")
    looks: list[Any] = []
    bridge.before = lambda ask: looks.append(ask) if isinstance(ask, Look) else None
    bridge.follow()
    assert len(looks) <= 8, [str(one)[:80] for one in looks]
    bridge.apply(TopicGone(id, "new"))


def test_a_large_cluster_is_judged_and_begun_a_portion_a_turn() -> None:
    zookeeper = cluster()
    for number in range(120):
        add_topic(zookeeper, f"t{number:04d}", [[1, 2]] * 20)
    parsed: list[int] = [0]
    longest = [0]

    def counted(*given: Any) -> Any:
        parsed[0] += 1
        return true(*given)

    def turn(ask: Any) -> None:
        longest[0], parsed[0] = max(longest[0], parsed[0]), 0

    true = checks.partition
    bridge = Bridge(zookeeper)
    bridge.before = turn
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(checks, "partition", counted)
        bridge.take_over()
    assert bridge.stage is Stage.DRIVING
    assert 0 < longest[0] <= checks.AT_ONCE
