"""Whole clusters, seen from the control plane: registration, dead brokers, failover, conflicts, levels, snapshots."""

from typing import Any

import pytest

from actors.wire.messages import message
from tests.simulator.cluster import Client, Cluster
from tests.simulator.world import World


class Lab:
    """A cluster that is ready, and a client."""

    def __init__(self, seed: int = 1, controllers: int = 3, brokers: int = 3, **more: Any) -> None:
        self.world = World(seed)
        self.cluster = Cluster(self.world, controllers, brokers, **more)
        self.cluster.start()
        assert self.world.run_until(self.cluster.ready, 60_000)
        self.client = Client(self.world, "client")

    @property
    def role(self) -> Any:
        active = self.cluster.active()
        assert active is not None and active.node is not None
        return active.node.controller

    def create(self, name: str, partitions: int = 3, factor: int = 3, broker: str = "b1") -> Any:
        kind = message("CreateTopicsRequest")
        topic = kind.CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor)
        return self.client.call(broker, "CreateTopics", 7, kind(topics=[topic])).topics[0]

    def shape(self, name: str) -> list[tuple[set[int], int]]:
        image = self.role.image
        return [(set(image.isr(row)), image.leader(row)) for row in image.topic_partitions(image.topic(name))]

    def settle(self, condition: Any, milliseconds_max: int = 10_000) -> int:
        """Virtual ms until the condition holds."""
        began = self.world.time_us
        assert self.world.run_until(condition, milliseconds_max)
        return (self.world.time_us - began) // 1000

    def registered(self) -> list[int]:
        return [broker.id for broker in self.role.image.brokers()]


@pytest.mark.parametrize("level", [1, 2])
def test_r631_084_every_node_has_the_same_metadata(level):
    lab = Lab(level=level)
    assert lab.create("t").error_code == 0 and lab.create("t").error_code == 36
    lab.world.run_for(1000)
    images = [process.image for process in (*lab.cluster.controllers.values(), *lab.cluster.brokers.values())]
    seen = {(image.next_offset, str(image.brokers()), str(image.features()), image.topic_count) for image in images}
    assert len(seen) == 1 and lab.role.image.feature("metadata.format") == level
    assert lab.world.errors == []


def test_a_dead_broker_is_noticed_at_once_and_comes_back():
    lab = Lab()
    lab.create("t")
    lab.cluster.brokers[2].crash()
    assert lab.settle(lambda: 2 not in lab.registered()) < 100
    assert all(2 not in isr and leader != 2 and leader > 0 for isr, leader in lab.shape("t"))
    lab.cluster.brokers[2].start()
    lab.settle(lambda: all(isr == {1, 2, 3} for isr, _ in lab.shape("t")), 30_000)


def test_r631_162_a_frozen_broker_is_fenced_when_its_lease_ends():
    lab = Lab()
    lab.create("t")
    lab.cluster.brokers[2].freeze()
    assert 17_000 < lab.settle(lambda: 2 not in lab.registered(), 40_000) < 23_000
    assert sorted(lab.registered()) == [1, 3]
    lab.cluster.brokers[2].thaw()
    lab.settle(lambda: all(isr == {1, 2, 3} for isr, _ in lab.shape("t")), 60_000)


def test_r631_162_what_a_controller_answers_is_not_passed_on_by_a_broker_without_a_lease():
    """The broker is frozen while a client's request is under way. The answer waits in its socket until after the
    lease."""
    lab = Lab()
    kind, replies = message("CreateTopicsRequest"), []
    topic = kind.CreatableTopic(name="t", num_partitions=1, replication_factor=3)
    lab.client.ask("b1", "CreateTopics", 7, kind(topics=[topic]), replies.append)
    broker, end = lab.cluster.brokers[1], lab.role.image.next_offset
    lab.settle(lambda: lab.cluster.active().node.quorum.raft.log_end_offset > end)
    broker.freeze()
    lab.settle(lambda: 1 not in lab.registered(), 40_000)
    assert lab.role.image.topic_count == 1 and not replies
    broker.thaw()
    lab.settle(lambda: bool(replies))
    assert replies == [None], "the connection is closed"


@pytest.mark.parametrize("seed", range(5))
def test_r631_153_failover_costs_no_lease_and_r631_095_no_topic(seed):
    lab = Lab(seed)
    for number in range(3):
        assert lab.create(f"t{number}").error_code == 0
        epochs = {broker.id: broker.epoch for broker in lab.role.image.brokers()}
        old = lab.cluster.active()
        old.crash()
        lab.settle(lambda: lab.cluster.active() is not None)
        lab.world.run_for(5000)
        assert {broker.id: broker.epoch for broker in lab.role.image.brokers()} == epochs
        old.start()
        lab.world.run_for(500)
    assert lab.role.image.topic_count == 3


def test_r631_147_a_controller_that_stood_still_renews_no_lease():
    """Fetches that waited in its sockets meanwhile do not show that a majority follows it now."""
    lab = Lab()
    world, cluster = lab.world, lab.cluster
    old, broker = cluster.active(), cluster.brokers[1]
    others = [one for one in cluster.controllers.values() if one is not old]
    world.run_for(5000)
    for other in others:
        world.block(broker.name, other.name)
        world.block(other.name, broker.name)
    kind = message("CreateTopicsRequest")
    topic = kind.CreatableTopic(name="t", num_partitions=1, replication_factor=3)
    lab.client.ask("b1", "CreateTopics", 7, kind(topics=[topic]), lambda reply: None)
    end = old.node.quorum.raft.log_end_offset
    lab.settle(lambda: old.node.quorum.raft.log_end_offset > end)
    old.freeze()
    world.run_for(10)
    assert len(old._inbox) >= 2, "the fetches that follow the record wait"
    for other in others:
        world.block(old.name, other.name)
        world.block(other.name, old.name)
    new = []

    def elected():
        new[:] = [one for one in others if one.node.controller.active]
        return bool(new)

    lab.settle(elected)
    world.run_for(12_000)
    assert broker.node.broker.availability.serving
    old.thaw()
    lab.settle(lambda: new[0].node.controller.image.broker(1) is None, 30_000)
    assert not broker.node.broker.availability.serving


def test_r631_173_a_rolling_restart_leaves_no_partition_without_a_leader():
    lab = Lab()
    lab.create("t", 6)
    leaderless: list[Any] = []

    def watch() -> None:
        active = lab.cluster.active()
        if active is not None and any(leader < 0 for _, leader in lab.shape("t")):
            leaderless.append(lab.world.time_us)

    lab.world.checks.append(watch)
    for process in lab.cluster.brokers.values():
        process.node.shutdown()
        process.wake()
        lab.settle(lambda process=process: process.stopped_with is not None)
        assert process.stopped_with[0] == 0
        process.stopped_with = None
        process.start()
        lab.settle(lambda: lab.cluster.ready() and all(isr == {1, 2, 3} for isr, _ in lab.shape("t")), 30_000)
    assert leaderless == []


def test_r631_217_the_level_is_raised_on_a_running_cluster():
    lab = Lab(level=1)
    lab.create("t")
    lab.world.run_for(5000)
    epochs = {broker.id: broker.epoch for broker in lab.role.image.brokers()}
    connections = {id: lease.connection for id, lease in lab.role.soft.leases.items()}
    kind = message("UpdateFeaturesRequest")
    update = kind.FeatureUpdateKey(feature="metadata.format", max_version_level=2, upgrade_type=1)
    assert lab.client.call("b1", "UpdateFeatures", 1, kind(feature_updates=[update])).error_code == 0
    lab.world.run_for(30_000)
    assert {broker.id: broker.epoch for broker in lab.role.image.brokers()} == epochs
    kept = {id: lease.connection for id, lease in lab.role.soft.leases.items()}
    assert kept == connections, "a broker closes a connection on which it cannot read an answer"
    kind = message("DeleteTopicsRequest")
    reply = lab.client.call("b2", "DeleteTopics", 6, kind(topics=[kind.DeleteTopicState(name="t")]))
    assert reply.responses[0].error_code == 0
    down = kind = message("UpdateFeaturesRequest")
    update = kind.FeatureUpdateKey(feature="metadata.format", max_version_level=1, upgrade_type=3)
    assert lab.client.call("b1", "UpdateFeatures", 1, down(feature_updates=[update])).error_code == 95
    assert lab.world.errors == []


@pytest.mark.parametrize("level", [1, 2])
def test_r631_114_snapshots_take_turns(level):
    small = {"metadata.log.max.record.bytes.between.snapshots": "2000"}
    lab = Lab(level=level, config=small)
    epoch = lab.role.epoch
    for number in range(150):
        lab.create(f"t{number}", 1)
    running: list[int] = []

    def watch() -> None:
        busy = [process for process in lab.cluster.controllers.values() if process.node.controller.snapshotting.busy]
        running.append(len(busy))

    lab.world.checks.append(watch)
    controllers = [process.node.controller for process in lab.cluster.controllers.values()]
    lab.settle(lambda: all(role.snapshotting.offset > 100 for role in controllers), 60_000)
    assert max(running) <= 1
    assert (lab.role.epoch == epoch) == (level == 2)  # R631-115, R631-116: only level 1 hands over first
    lab.cluster.controllers[1002].crash()
    lab.cluster.controllers[1002].start()
    lab.world.run_for(5000)
    assert lab.cluster.controllers[1002].node.controller.image.topic_count == 150


def test_kip_919_any_controller_names_the_active_one():
    lab = Lab()
    for controller in lab.cluster.controllers:
        request = message("DescribeClusterRequest")(endpoint_type=2)
        reply = lab.client.call(f"c{controller}", "DescribeCluster", 2, request)
        assert reply.controller_id == lab.role.me and [b.broker_id for b in reply.brokers] == [1001, 1002, 1003]
        wrong = message("DescribeClusterRequest")(endpoint_type=1)
        assert lab.client.call(f"c{controller}", "DescribeCluster", 2, wrong).error_code == 114


def test_kip_919_any_controller_shows_its_settings_and_those_of_topics():
    lab = Lab(config={"log.retention.bytes": "77"})
    lab.create("t")
    kind = message("DescribeConfigsRequest")
    for controller in lab.cluster.controllers:
        named = [(2, "t"), (4, str(controller)), (4, "1"), (2, "absent")]
        resources = [kind.DescribeConfigsResource(resource_type=what, resource_name=name) for what, name in named]
        topic, mine, other, absent = lab.client.call(
            f"c{controller}", "DescribeConfigs", 4, kind(resources=resources)
        ).results
        assert [one.error_code for one in (topic, mine, other, absent)] == [0, 0, 42, 3]
        shown = [
            (one.name, one.value) for one in (*topic.configs, *mine.configs) if one.name.endswith("retention.bytes")
        ]
        assert {("retention.bytes", "77"), ("log.retention.bytes", "77")} <= set(shown)


def test_r500_14_a_standby_refuses_and_names_nobodys_work_done():
    lab = Lab()
    standby = next(id for id in lab.cluster.controllers if id != lab.role.me)
    kind = message("CreateTopicsRequest")
    topics = [kind.CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
    assert lab.client.call(f"c{standby}", "CreateTopics", 7, kind(topics=topics)).topics[0].error_code == 41
    assert lab.client.call(f"c{lab.role.me}", "CreateTopics", 7, kind(topics=topics)).topics[0].error_code == 0
    envelope = message("EnvelopeRequest")(
        request_data=b"\0\0", request_principal=None, client_host_address=b"\x7f\0\0\1"
    )
    assert lab.client.call(f"c{standby}", "Envelope", 0, envelope).error_code == 41
    assert lab.client.call(f"c{lab.role.me}", "Envelope", 0, envelope).error_code == 42


def test_g12_a_broker_that_came_back_is_unregistered_again_though_the_first_asker_hung_up():
    lab = Lab()
    lab.create("t", 6)
    request = message("UnregisterBrokerRequest")(broker_id=3)
    first, replies = Client(lab.world, "first"), []
    active = lab.cluster.active()
    lab.cluster.brokers[3].freeze()

    def hang_up():
        if 3 in lab.role.soft.unregistered:
            for id, link in active.peers.items():
                if link.other(active) is first:
                    active.node.closed(id, False)

    lab.world.checks.append(hang_up)
    first.ask(active.name, "UnregisterBroker", 0, request, replies.append)
    lab.settle(lambda: 3 not in lab.registered())
    lab.world.checks.remove(hang_up)
    lab.cluster.brokers[3].thaw()
    lab.settle(lambda: 3 in lab.registered() and lab.cluster.ready(), 60_000)
    assert not replies, "nobody heard of the first time"
    lab.cluster.brokers[3].freeze()
    assert lab.client.call("b1", "UnregisterBroker", 0, request).error_code == 0
    assert lab.registered() == [1, 2]
