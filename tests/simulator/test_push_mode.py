"""Clusters in which some brokers do not pull the metadata log: controllers push it to them (KIP-291, push mode).

The stories of an operator are here: the two rounds in which the control plane is switched on, brokers of both kinds side by
side, an upgrade from one kind to the other, and the end of push mode.
"""

from typing import Any

import pytest

from actors.settings.node_config import node_config
from actors.wire import framing
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.batch import Builder
from tests.simulator.checkers.metadata_log import partitions
from tests.simulator.cluster import PLANE_PORT, PORT, PUSHES, Client, Cluster, is_pushed
from tests.simulator.world import World

NAMES = {4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata"}
INTERNAL_PORT = 9098


class Lab:
    """A cluster, and every request that controllers push."""

    def __init__(self, pushed: tuple[int, ...] = (1, 2), *, seed: int = 1, start: bool = True, level: int = 2) -> None:
        self.world = World(seed, keep_log=True)
        self.cluster = Cluster(self.world, 3, 3, level, pushed=pushed)
        self.pushed: list[tuple[str, str, str, int, Any]] = []
        """(controller, broker, listener, microsecond, request)"""
        self.open: dict[tuple[str, str], int] = {}
        """(controller, broker) -> requests that are not answered."""
        self.open_max = 0
        self.world.sent.append(self._sent)
        self.client = Client(self.world, "client")
        if start:
            self.cluster.start()
            assert self.world.run_until(self.cluster.ready, 60_000)

    def _sent(self, link: Any, sender: Any, frame: memoryview) -> None:
        other = link.other(sender)
        if link.conns[sender.name] >= 0:
            pair = other.name, sender.name
            if self.open.get(pair, 0):
                self.open[pair] -= 1
            return
        name = NAMES.get(int.from_bytes(frame[:2], "big"))
        if name is not None and sender.name in self.world.processes:
            header, position = framing.decode_request_header(frame)
            request = framing.decode_request(name, header.api_version, frame, position)
            connection = other.node.requests.connections.get(link.conns[other.name])
            listener = connection.listener_name if connection is not None else ""
            self.pushed.append((sender.name, other.name, listener, self.world.time_us, request))
            pair = sender.name, other.name
            self.open[pair] = self.open.get(pair, 0) + 1
            self.open_max = max(self.open_max, self.open[pair])

    @property
    def role(self) -> Any:
        active: Any = self.cluster.active()
        return active.node.controller

    def create(self, name: str, partitions: int = 3, factor: int = 3, broker: str = "b1") -> Any:
        kind = message("CreateTopicsRequest")
        topic = kind.CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor)
        return self.client.call(broker, "CreateTopics", 7, kind(topics=[topic])).topics[0]

    def until(self, condition: Any, milliseconds_max: int = 30_000) -> None:
        assert self.world.run_until(condition, milliseconds_max)

    def agree(self) -> bool:
        """Whether every living broker knows the partitions that are committed, and acts on them."""
        wanted = known(self.role.image)
        for process in self.cluster.brokers.values():
            if process.alive:
                node: Any = process.node
                acts = {(one.topic_id, one.number): (one.leader, one.leader_epoch) for one in node.broker.replicas}
                mine = {key: state[:2] for key, state in wanted.items() if node.config.broker_id in state[3]}
                if known(node.broker.cache.image) != wanted or acts != mine:
                    return False
        return True

    def restart(self, name: str, **settings: str | None) -> None:
        """A new process of a node, with other settings."""
        process = self.world.processes[name]
        process.crash()
        given = {key: value for key, value in ({**process.config.given} | settings).items() if value is not None}
        process.config = node_config(given)
        self.world.add(process)
        process.start()

    def produce(self, topic: str, number: int, leader: int) -> int:
        """The error of a produce to all in-sync replicas."""
        builder = Builder(timestamp_ms=1)
        builder.append(None, b"x")
        kind = message("ProduceRequest")
        data = kind.PartitionProduceData(index=number, records=builder.build())
        topics = [kind.TopicProduceData(name=topic, partition_data=[data])]
        reply = self.client.call(f"b{leader}", "Produce", 9, kind(acks=-1, timeout_ms=20_000, topic_data=topics))
        return int(reply.responses[0].partition_responses[0].error_code)

    def write_everywhere(self, topic: str) -> None:
        """Each partition takes a record, at its leader."""
        image = self.role.image
        for row in image.topic_partitions(image.topic(topic)):
            assert self.produce(topic, image.number(row), image.leader(row)) == 0


def known(image: Any) -> dict[Any, Any]:
    return {
        key: (image.leader(row), image.leader_epoch(row), image.isr(row), image.replicas(row))
        for key, row in partitions(image)
    }


def test_r291_62_brokers_that_do_not_pull_are_told_and_others_are_not() -> None:
    lab = Lab()
    assert lab.create("t").error_code == 0
    lab.until(lab.agree)
    assert {broker for _, broker, *_ in lab.pushed} == {"b1", "b2"}
    for id in (1, 2):
        node: Any = lab.cluster.brokers[id].node
        assert node.quorum.raft.log_end_offset == 0, "it has fetched nothing of the metadata log"


def test_r291_62_a_broker_is_registered_only_when_it_has_answered_everything_and_is_told_before_that() -> None:
    lab = Lab(start=False)
    lab.cluster.start()
    seen: list[tuple[str, int]] = []

    def registered(process: Any) -> None:
        for _, broker, _, _, request in lab.pushed[len(seen) :]:
            seen.append((broker, request.broker_epoch))
        active = lab.cluster.active()
        if active is not None and active.node is not None:
            for id in (1, 2):
                broker = lab.cluster.brokers[id]
                if active.node.controller.image.broker(id) is not None and broker.alive:
                    assert broker.image.features(), f"broker {id} is registered and knows nothing"

    lab.world.turned.append(registered)
    lab.until(lab.cluster.ready)
    assert {("b1", -1), ("b2", -1)} <= set(seen)
    lab.cluster.brokers[2].crash()
    lab.until(lambda: lab.role.image.broker(2) is None)
    lab.create("t", factor=2)
    lab.cluster.brokers[2].start()
    lab.until(lab.cluster.ready)
    lab.until(lab.agree)


@pytest.mark.parametrize("level", [1, 2])
def test_r291_62_a_new_process_takes_the_id_over_at_either_level_before_the_lease_of_the_old_one_ends(
    level: int,
) -> None:
    """The new process is refused until it is told everything, and stays in its first phase meanwhile."""
    lab = Lab((1, 2, 3), level=level)
    lab.create("t")
    lab.until(lab.agree)
    epoch = lab.role.image.broker(2).epoch
    lab.role.broker_link_lost = lambda broker: None  # the controller does not notice that the process is gone
    lab.cluster.brokers[2].crash()
    lab.cluster.brokers[2].start()
    lab.until(lambda: (found := lab.role.image.broker(2)) is not None and found.epoch != epoch, 5_000)
    lab.until(lambda: lab.cluster.ready() and lab.agree())


def test_r291_61_only_the_active_controller_tells_and_the_next_one_tells_everything() -> None:
    lab = Lab()
    lab.create("t")
    lab.until(lab.agree)
    assert len({name for name, *_ in lab.pushed}) == 1
    first: Any = lab.cluster.active()
    before = len(lab.pushed)
    first.node.quorum.resign()
    first.wake()
    lab.until(lambda: lab.cluster.active() not in (None, first))
    at_us = lab.world.time_us
    lab.until(lambda: len({broker for name, broker, *_ in lab.pushed[before:] if name != first.name}) == 2)
    lab.create("u")
    lab.until(lab.agree)
    later = [(name, request) for name, _, _, us, request in lab.pushed[before:] if us >= at_us]
    assert first.name not in {name for name, _ in later}
    for broker in ("b1", "b2"):
        kinds = [request.type for _, to, _, us, request in lab.pushed[before:] if to == broker and us >= at_us]
        assert kinds[:2] == [2, 2]
    assert {request.controller_epoch for _, request in later} == {lab.role.epoch}


def write_what_is_lost(lab: Lab, broker: str) -> Any:
    """The active controller and the others hear nothing of each other, and it makes a topic; it."""
    active: Any = lab.cluster.active()
    for other in lab.cluster.controllers.values():
        if other is not active:
            lab.world.block(active.name, other.name)
            lab.world.block(other.name, active.name)
    kind = message("CreateTopicsRequest")
    topic = kind.CreatableTopic(name="lost", num_partitions=1, replication_factor=2)
    asked = Client(lab.world, "other")
    asked.ask(broker, "CreateTopics", 7, kind(topics=[topic], timeout_ms=500), lambda reply: None)
    lab.until(lambda: active.node.controller.image.topic("lost") >= 0, 1_000)
    return active


def told_topics(lab: Lab) -> set[str]:
    return {topic.topic_name for *_, request in lab.pushed for topic in request.topic_states}


def test_r291_60_what_is_not_committed_is_not_told_nor_taken_back() -> None:
    lab = Lab()
    lab.create("t")
    active = write_what_is_lost(lab, "b1")
    lab.until(lambda: not active.node.controller.active, 10_000)
    assert told_topics(lab) == {"t"}


def test_r291_60_who_comes_first_is_not_told_of_it_either() -> None:
    lab = Lab((1,), start=False)
    for process in (*lab.cluster.controllers.values(), lab.cluster.brokers[2], lab.cluster.brokers[3]):
        process.start()
    lab.until(lambda: lab.cluster.active() is not None and len(lab.role.image.brokers()) == 2)
    lab.until(
        lambda: "PLAINTEXT" in lab.cluster.brokers[2].listening and "PLAINTEXT" in lab.cluster.brokers[3].listening
    )
    lab.create("t", factor=2, broker="b2")
    active = write_what_is_lost(lab, "b2")
    lab.cluster.brokers[1].start()
    lab.until(lambda: 1 in active.node.controller.soft.legacy, 1_000)
    lab.until(lambda: not active.node.controller.active, 10_000)
    lab.world.heal()
    assert "lost" not in told_topics(lab)
    lab.until(lambda: lab.cluster.ready() and lab.agree(), 60_000)
    assert told_topics(lab) == {"t"}


def test_r291_36_66_one_request_is_in_flight_and_it_is_sent_again_until_it_is_answered() -> None:
    lab = Lab()
    lab.until(lab.agree)
    lab.pushed.clear()
    active: Any = lab.cluster.active()
    frozen: Any = lab.cluster.brokers[2]
    planes = [one.id for one in frozen.node.requests.connections.all() if one.listener_name == "CP"]
    (link,) = [frozen.peers[conn] for conn in planes]
    assert link.other(frozen) is active
    frozen.freeze()
    lab.create("t", broker="b1")
    lab.until(lambda: any(broker == "b2" for _, broker, *_ in lab.pushed))
    for number in range(5):
        lab.create(f"t{number}", broker="b1")
    told = [(us, request) for _, broker, _, us, request in lab.pushed if broker == "b2"]
    assert len(told) == 1, "what changes meanwhile waits"
    lost_us = lab.world.time_us
    link.cut(frozen)
    frozen.thaw()
    lab.until(lab.agree)
    told = [(us, request) for _, broker, _, us, request in lab.pushed if broker == "b2"]
    assert told[1][1] == told[0][1] and told[1][0] - lost_us >= 100_000
    assert [topic.topic_name for topic in told[2][1].topic_states] == ["t"]
    assert {topic.topic_name for topic in told[3][1].topic_states} == {f"t{number}" for number in range(5)}
    assert lab.open_max == 1


def test_r291_36_one_request_is_in_flight_to_each_broker_under_load() -> None:
    lab = Lab((1, 2, 3))
    for number in range(10):
        lab.client.ask("b1", "CreateTopics", 7, _topics(f"t{number}"), lambda reply: None)
    lab.until(lambda: lab.role.image.topic_count == 10)
    lab.until(lab.agree)
    assert lab.open_max == 1 and len(lab.pushed) > 12


def _topics(name: str) -> Any:
    kind = message("CreateTopicsRequest")
    return kind(topics=[kind.CreatableTopic(name=name, num_partitions=3, replication_factor=3)])


def test_r497_50_after_its_commit_an_isr_goes_to_replicas_and_to_all_that_are_told() -> None:
    lab = Lab((1, 2, 3))
    lab.create("t", 1, 2)
    lab.until(lab.agree)
    image = lab.role.image
    row = image.partition(image.topic("t"), 0)
    replicas = image.replicas(row)
    lab.pushed.clear()
    lab.cluster.brokers[replicas[1]].freeze()
    builder = lab.client
    kind = message("ProduceRequest")
    batch = Builder(timestamp_ms=1)
    batch.append(None, b"x")
    data = kind.PartitionProduceData(index=0, records=batch.build())
    builder.ask(
        f"b{replicas[0]}", "Produce", 9,
        kind(acks=1, timeout_ms=9_000, topic_data=[kind.TopicProduceData(name="t", partition_data=[data])]),
        lambda reply: None,
    )  # fmt: skip
    lab.until(lambda: image.isr(row) == (replicas[0],), 60_000)
    version = image.partition_epoch(row)
    lab.world.run_for(500)
    said: dict[str, set[str]] = {}
    for _, broker, _, _, request in lab.pushed:
        for topic in request.topic_states:
            for one in topic.partition_states:
                if getattr(one, "zk_version", getattr(one, "partition_epoch", -1)) == version:
                    said.setdefault(type(request).__name__, set()).add(broker)
    living = {f"b{id}" for id in (1, 2, 3) if id != replicas[1]}
    assert said["UpdateMetadataRequest"] >= living and said["LeaderAndIsrRequest"] >= {f"b{replicas[0]}"}
    assert said["LeaderAndIsrRequest"] <= {f"b{id}" for id in replicas}


def test_r291_72_a_broker_that_asks_to_stop_is_told_what_it_leads_until_it_leads_nothing() -> None:
    lab = Lab((1, 2, 3))
    lab.create("t", 6)
    lab.create("alone", 1, 1)
    lab.until(lab.agree)
    image = lab.role.image
    stops = image.leader(image.partition(image.topic("alone"), 0))
    active: Any = lab.cluster.active()
    kind = message("ControlledShutdownRequest")
    other = next(name for name in ("c1001", "c1002", "c1003") if name != active.name)
    refused = lab.client.call(other, "ControlledShutdown", 3, kind(broker_id=stops, broker_epoch=1))
    assert refused.error_code == ErrorCode.NOT_CONTROLLER
    old = lab.client.call(active.name, "ControlledShutdown", 3, kind(broker_id=stops, broker_epoch=1))
    assert old.error_code == ErrorCode.STALE_BROKER_EPOCH
    epoch = image.broker(stops).epoch
    asked = lab.client.call(active.name, "ControlledShutdown", 3, kind(broker_id=stops, broker_epoch=epoch))
    assert asked.error_code == 0
    left = [(one.topic_name, one.partition_index) for one in asked.remaining_partitions]
    assert left in ([], [("alone", 0)])  # the only replica leads no more, and stays in its ISR
    assert image.counts(stops)[1] == len(left)
    nothing = lab.client.call(active.name, "ControlledShutdown", 3, kind(broker_id=stops, broker_epoch=epoch))
    assert (nothing.error_code, list(nothing.remaining_partitions)) == (0, [])
    lab.until(lab.agree)


def test_a_broker_that_is_told_stops_in_order_and_loses_its_place_to_nobody() -> None:
    lab = Lab()
    lab.create("t", 6)
    lab.until(lab.agree)
    process: Any = lab.cluster.brokers[2]
    process.node.shutdown()
    process.wake()
    lab.until(lambda: process.stopped_with is not None)
    assert process.stopped_with[0] == 0 and lab.role.image.counts(2)[1] == 0
    lab.write_everywhere("t")
    process.start()
    lab.until(lambda: lab.cluster.ready() and lab.agree() and lab.role.image.counts(2)[2] == 6)


def test_r291_73_brokers_of_both_kinds_replicate_from_each_other() -> None:
    lab = Lab((1, 2))
    lab.create("t", 6)
    lab.until(lab.agree)
    image = lab.role.image
    rows = image.topic_partitions(image.topic("t"))
    assert {image.leader(row) for row in rows} == {1, 2, 3}
    assert all(set(image.isr(row)) == {1, 2, 3} for row in rows)
    lab.write_everywhere("t")
    ends = {process.name: sum(one.log.log_end_offset for one in process.node.broker.replicas)  # type: ignore[union-attr]
            for process in lab.cluster.brokers.values()}  # fmt: skip
    assert set(ends.values()) == {6}
    lab.cluster.brokers[3].crash()
    lab.until(lambda: lab.role.image.broker(3) is None and lab.agree())
    lab.write_everywhere("t")
    lab.cluster.brokers[3].start()
    lab.until(lambda: lab.agree() and all(len(image.isr(row)) == 3 for row in rows), 60_000)


def test_r291_74_an_upgraded_broker_pulls_and_is_told_nothing_from_before_it_serves() -> None:
    lab = Lab()
    lab.create("t")
    lab.until(lab.agree)
    lab.restart("b2", **{"rayft.metadata.source": "log"})
    heard: list[int] = []
    lab.world.asked.append(
        lambda link, process, frame: (
            heard.append(lab.world.time_us)
            if process is lab.cluster.active()
            and int.from_bytes(frame[:2], "big") == 50
            and link.other(process).name == "b2"
            else None
        )
    )
    lab.until(lambda: bool(heard) and lab.cluster.ready() and lab.agree(), 60_000)
    first = heard[0]
    told = [us for _, broker, _, us, request in lab.pushed if broker == "b2" and us > first]
    assert not told and list(lab.role.soft.legacy) == [1]
    lab.create("u")
    lab.until(lab.agree)
    assert not [us for _, broker, _, us, _ in lab.pushed if broker == "b2" and us > first]
    node: Any = lab.cluster.brokers[2].node
    assert node.quorum.raft.log_end_offset > 0


def test_r291_75_without_such_brokers_the_pusher_holds_nothing_and_switching_it_off_changes_nothing() -> None:
    lab = Lab((1,))
    lab.create("t")
    lab.until(lab.agree)
    pusher = lab.role.pusher
    assert pusher.image is not None and pusher._outboxes
    lab.restart("b1", **{"rayft.metadata.source": "log"})
    lab.until(lambda: lab.cluster.ready() and lab.agree(), 60_000)
    assert pusher.image is None and not pusher._outboxes and not pusher._waiting and not lab.role.soft.legacy
    active: Any = lab.cluster.active()
    assert not [purpose for purpose in active.node.channels._by_purpose if purpose[0] == "push"]
    before = known(lab.role.image)
    for name in ("c1001", "c1002", "c1003"):
        lab.restart(name, **{"rayft.metadata.push.enable": "false", "control.plane.listener.name": None})
        lab.until(lab.cluster.ready, 60_000)
    lab.until(lab.agree)
    assert {key: state[2:] for key, state in known(lab.role.image).items()} == {
        key: state[2:] for key, state in before.items()
    }


def test_a_broker_that_wants_to_be_told_where_nobody_tells_is_refused_and_the_log_says_why() -> None:
    lab = Lab((1,), start=False)
    for id in (1001, 1002, 1003):
        process = lab.cluster.controllers[id]
        given = {**process.config.given, "rayft.metadata.push.enable": "false"}
        process.config = node_config({key: text for key, text in given.items() if key != "control.plane.listener.name"})
    lab.cluster.start()
    lab.world.run_for(10_000)
    assert lab.role.image.broker(1) is None and lab.role.image.broker(3) is not None
    told = [line for line in lab.world.lines if "rayft.metadata.push.enable is not true" in line]
    assert len(told) == 1


INTERNAL = {
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CP:PLAINTEXT,INTERNAL:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
}


def internal(id: int, *, plane: bool, setting: bool) -> dict[str, str]:
    """A broker that is told, with a listener between brokers. `plane`: it has the control plane's endpoint. `setting`: it
    names it."""
    listeners = f"PLAINTEXT://b{id}:{PORT},INTERNAL://b{id}:{INTERNAL_PORT}"
    found = {**is_pushed(id), **INTERNAL, "listeners": listeners + (f",CP://b{id}:{PLANE_PORT}" if plane else "")}
    if not setting:
        del found["control.plane.listener.name"]
    return found


def rolled(*, plane: bool, setting: bool, controllers: bool) -> Lab:
    """A cluster of three brokers that are told. `controllers`: they name the control plane."""
    lab = Lab((1, 2, 3), start=False)
    for id, process in lab.cluster.brokers.items():
        process.config = node_config({**_without(process.config.given), **internal(id, plane=plane, setting=setting)})
        lab.world.add(process)
    for process in lab.cluster.controllers.values():
        given = {**_without(process.config.given), **PUSHES, **INTERNAL}
        if not controllers:
            del given["control.plane.listener.name"]
        process.config = node_config(given)
    lab.cluster.start()
    return lab


def _without(given: Any) -> dict[str, str]:
    return {key: text for key, text in given.items() if key != "control.plane.listener.name"}


def test_r291_26_39_40_round_one_the_endpoint_is_there_and_nothing_is_sent_to_it() -> None:
    """In round 1 brokers have the endpoint, and no node's setting names it: what is pushed takes the one between
    brokers."""
    lab = rolled(plane=True, setting=False, controllers=False)
    lab.until(lab.cluster.ready, 60_000)
    lab.create("t")
    lab.until(lab.agree)
    assert {listener for _, _, listener, _, _ in lab.pushed} == {"INTERNAL"}


def test_r291_41_42_round_two_takes_the_new_endpoint_node_by_node_without_an_outage() -> None:
    """In round 2 every node is restarted with the setting. Restarted controllers use the control plane at once; those
    that do not know it yet, and brokers that do, go together."""
    lab = rolled(plane=True, setting=False, controllers=False)
    lab.until(lab.cluster.ready, 60_000)
    lab.create("t", 3)
    lab.until(lab.agree)
    for id in (1, 2, 3):
        lab.restart(f"b{id}", **internal(id, plane=True, setting=True))
        lab.until(lambda: lab.cluster.ready() and lab.agree(), 60_000)
        lab.write_everywhere("t")
    lab.until(lambda: all(len(state[2]) == 3 for state in known(lab.role.image).values()), 60_000)
    for name in ("c1001", "c1002", "c1003"):
        lab.restart(name, **{"control.plane.listener.name": "CP"})
        lab.until(lambda: lab.cluster.active() is not None, 60_000)
        lab.create(f"after-{name}")
        lab.until(lambda: lab.cluster.ready() and lab.agree(), 60_000)
        lab.write_everywhere("t")
    knows = {process.name for process in lab.cluster.controllers.values()}
    assert {(listener, name in knows) for name, _, listener, us, _ in lab.pushed if us > 0} >= {
        ("INTERNAL", True),
        ("CP", True),
    }
    lab.pushed.clear()
    lab.create("last")
    lab.until(lab.agree)
    assert {listener for _, _, listener, _, _ in lab.pushed} == {"CP"}


def test_r291_27_a_broker_without_the_endpoint_is_told_nothing_until_it_registers_again_and_one_line_says_so() -> None:
    lab = rolled(plane=False, setting=False, controllers=True)
    lab.world.run_for(10_000)
    assert not lab.pushed and not lab.cluster.ready()
    said = [line for line in lab.world.lines if "is told nothing: it has no listener CP" in line]
    assert len(said) == 3 and all("PLAINTEXT, INTERNAL" in line for line in said)
    for id in (1, 2, 3):
        lab.restart(f"b{id}", **internal(id, plane=True, setting=True))
    lab.until(lab.cluster.ready, 60_000)
    assert {listener for _, _, listener, _, _ in lab.pushed} == {"CP"}


@pytest.mark.parametrize("seed", range(3))
def test_a_frozen_controller_that_is_deposed_tells_nothing_when_it_goes_on(seed: int) -> None:
    lab = Lab((1, 2, 3), seed=seed)
    lab.create("t")
    lab.until(lab.agree)
    old: Any = lab.cluster.active()
    old.freeze()
    lab.until(
        lambda: any(one.node.controller.active for one in lab.cluster.controllers.values() if one is not old), 60_000
    )  # type: ignore[union-attr]
    new = next(one for one in lab.cluster.controllers.values() if one is not old and one.node.controller.active)  # type: ignore[union-attr]
    lab.until(lambda: {broker for name, broker, *_ in lab.pushed if name == new.name} == {"b1", "b2", "b3"}, 60_000)
    lab.pushed.clear()
    old.thaw()
    lab.world.run_for(3_000)
    assert old.name not in {name for name, *_ in lab.pushed}
