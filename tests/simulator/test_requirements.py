"""Requirements of KIP-631 and KIP-500 that only a whole cluster shows: which node leads, which is fenced and by which
clock, what a client sees of it, which node dials which. They run in virtual time; each test is one cluster.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from actors.broker.log.log import PartitionLog
from actors.metadata.ops import CorruptMetadata
from actors.node.net.channels import ChannelError, Channels
from actors.node.node import BEHIND_MS
from actors.ports import Batch
from actors.raft import Role
from actors.wire.messages import message
from fastpath.records.batch import Builder
from tests.numbers import numbers
from tests.simulator.cluster import Client, Cluster
from tests.simulator.test_control_plane import Lab
from tests.simulator.world import World

LEASE_MS = 20_000
ACTIVE, FENCED = 3, 2


def asks_nothing(name: str, node: Any) -> Callable[[], None]:
    """Lose this node's requests of one kind to the controller from now on. Returns the function that ends this."""
    whole = node.channels.controller

    def controller(asked: str, request: Any, then: Any, *rest: Any, **more: Any) -> None:
        if asked == name:
            node.runtime.waiting.timers.at(
                node.runtime.now.mono_ms + 100, lambda: then(ChannelError("timeout", "lost"))
            )
        else:
            whole(asked, request, then, *rest, **more)

    node.channels.controller = controller

    def end() -> None:
        node.channels.controller = whole

    return end


def state(lab: Lab, broker: int) -> int:
    node = lab.cluster.brokers[broker].node
    assert node is not None and node.broker is not None
    return int(node.broker.lifecycle.state)


def metadata(lab: Lab, broker: str, client: str = "other") -> Any:
    """Send a client's Metadata request on a new connection. None: refused or closed."""
    return Client(lab.world, client).call(broker, "Metadata", 9, message("MetadataRequest")(topics=None))


@pytest.mark.parametrize("controllers, survive", [(1, 0), (3, 1), (5, 2)])
def test_r631_005_r500_17_18_a_majority_works_and_less_commits_nothing(controllers: int, survive: int) -> None:
    lab = Lab(controllers=controllers, brokers=1)
    processes = list(lab.cluster.controllers.values())
    for process in processes[:survive]:
        process.crash()
    lab.world.run_for(3000)
    assert lab.create("a", factor=1).error_code == 0
    processes[survive].crash()
    lab.world.run_for(3000)
    assert not lab.cluster.active()
    high_watermarks = [one.node.quorum.raft.high_watermark for one in processes if one.node is not None]
    box: list[Any] = []
    kind = message("CreateTopicsRequest")
    request = kind(topics=[kind.CreatableTopic(name="b", num_partitions=1, replication_factor=1)])
    lab.client.ask("b1", "CreateTopics", 7, request, box.append)
    lab.world.run_for(10_000)
    assert not box and high_watermarks == [
        one.node.quorum.raft.high_watermark for one in processes if one.node is not None
    ]
    processes[survive].start()
    lab.world.run_for(5000)
    assert {lab.create(name, factor=1).error_code for name in "a"} == {36}


def test_r631_004_r500_34_no_broker_ever_leads_and_r500_25_it_comes_up_alone_but_fenced() -> None:
    lab = Lab()
    lab.create("t")
    broker: Any = lab.cluster.brokers[1]
    lab.settle(lambda: broker.node.quorum.raft.durable_offset == lab.role.image.next_offset)
    for process in lab.cluster.controllers.values():
        process.crash()
    end = broker.node.quorum.raft.durable_offset
    broker.crash()
    broker.start()
    turns = lab.world.turns
    lab.world.run_for(10_000)
    assert lab.world.turns - turns < 10_000  # it waits, it does not spin
    assert broker.node.quorum.raft.log_end_offset == end  # what it had fetched, from its own disk
    assert not broker.node.broker.availability.serving and broker.listening == set()
    assert not any(
        one.node.quorum.raft.role is Role.LEADER for one in lab.cluster.brokers.values() if one.node is not None
    )
    for process in lab.cluster.controllers.values():
        process.start()
    asked: list[int] = []
    request = broker.node.quorum.transport.send

    def note(target: int, message: Any) -> None:
        asked.extend([message.offset] if type(message).__name__ == "FetchRequest" else [])
        request(target, message)

    broker.node.quorum.transport.send = note
    lab.settle(lambda: broker.node.broker.availability.serving, 30_000)
    assert asked and min(asked) >= end  # R500-22, R500-24, R500-26: newer records only


def test_r631_038_one_good_entry_among_the_controllers_to_contact_is_enough() -> None:
    world = World(3)
    cluster = Cluster(world, 3, 1)
    process = cluster.brokers[1]
    process.config = type(process.config)(
        **{**vars(process.config), "controller_connect": ((None, "gone", 9000), (None, "c1002", 9000))}
    )
    cluster.start()
    assert world.run_until(cluster.ready, 60_000)
    assert world.errors == []


def test_r631_040_r291_46_no_controller_sends_a_broker_anything() -> None:
    lab = Lab()
    dials: list[tuple[str, str]] = []
    whole = lab.world.dial

    def dial(source: Any, conn: int, host: str, port: int) -> None:
        dials.append((source.name, host))
        whole(source, conn, host, port)

    lab.world.dial = dial  # type: ignore[method-assign]
    assert lab.create("t").error_code == 0
    lab.cluster.brokers[2].crash()
    lab.world.run_for(5000)
    lab.cluster.brokers[2].start()
    assert lab.world.run_until(lab.cluster.ready, 30_000)
    lab.cluster.active().crash()  # type: ignore[union-attr]
    lab.world.run_for(5000)
    towards = [
        (source, host)
        for source, host in dials
        if source.startswith("c") and host.startswith("b") and source != "client"
    ]
    assert {host for _, host in towards} <= {"b2"}  # the bare connect to a broker whose link was lost, and nothing else
    assert len(towards) <= 3


@pytest.mark.parametrize("seed", [1, 2])
def test_r631_146_159_161_an_isolated_broker_fences_itself_by_its_own_clock(seed: int) -> None:
    lab = Lab(seed)
    lab.create("t", partitions=1)
    lab.world.run_for(1000)
    ((isr, leader),) = lab.shape("t")
    assert len(isr) == 3
    victim: Any = lab.cluster.brokers[leader]
    acknowledged: list[Any] = []
    produce(lab, f"b{leader}", acknowledged, 60_000)
    lab.world.run_for(500)
    assert len(acknowledged) == 1 and code(acknowledged[0]) == 0
    for other in lab.world.processes.values():
        if other is not victim:
            lab.world.block(victim.name, other.name)
            lab.world.block(other.name, victim.name)
    since_ms = victim.node.runtime.now.mono_ms
    produce(lab, f"b{leader}", acknowledged, 60_000)
    until_ms = victim.node.broker.lifecycle.lease_until_ms
    assert until_ms - since_ms <= LEASE_MS
    lab.settle(lambda: victim.node.broker.lifecycle.state == FENCED, LEASE_MS + 1000)
    assert until_ms <= victim.node.runtime.now.mono_ms <= until_ms + 100
    assert victim.listening == set()
    lab.world.run_for(5000)
    assert acknowledged[1] is None  # the connection was closed, nothing was acknowledged
    lab.world.heal()
    epoch = victim.node.broker.lifecycle.epoch
    lab.settle(lambda: victim.node.broker.availability.serving, 10_000)
    assert victim.node.broker.lifecycle.epoch > epoch  # R631-185


def produce(lab: Lab, broker: str, then: list[Any], timeout_ms: int) -> None:
    builder = Builder(timestamp_ms=1)
    builder.append(None, b"x")
    kind = message("ProduceRequest")
    data = kind.PartitionProduceData(index=0, records=builder.build())
    request = kind(acks=-1, timeout_ms=timeout_ms, topic_data=[kind.TopicProduceData(name="t", partition_data=[data])])
    lab.client.ask(broker, "Produce", 9, request, then.append)


def code(reply: Any) -> int:
    return int(reply.responses[0].partition_responses[0].error_code)


def test_r631_149_a_fetch_renews_no_lease_and_r631_155_156_a_fenced_broker_serves_nobody() -> None:
    lab = Lab()
    lab.create("t")
    node: Any = lab.cluster.brokers[3].node
    restore = asks_nothing("BrokerHeartbeat", node)
    assert metadata(lab, "b3") is not None
    lab.settle(lambda: state(lab, 3) == FENCED, LEASE_MS + 5000)
    before = node.broker.cache.image.next_offset
    lab.settle(lambda: 3 not in lab.registered(), 10_000)
    lab.world.run_for(2000)
    assert node.broker.cache.image.next_offset > before  # it goes on fetching metadata (R631-164)
    assert metadata(lab, "b3", "second") is None
    named = metadata(lab, "b1", "third")
    assert [one.node_id for one in named.brokers] == [1, 2]  # R631-162, R500-39
    partition = next(one for topic in named.topics for one in topic.partitions)
    assert 3 in partition.replica_nodes and list(partition.offline_replicas) == [3]
    restore()
    lab.settle(lambda: lab.cluster.ready(), 10_000)
    lab.settle(lambda: all(len(isr) == 3 for isr, _ in lab.shape("t")), 30_000)


def test_r631_158_a_broker_that_does_not_apply_its_metadata_is_fenced() -> None:
    lab = Lab()
    node: Any = lab.cluster.brokers[3].node
    node.broker.replay = lambda batch: None
    began = lab.world.time_us
    for number in range(40):
        assert lab.create(f"t{number}", factor=2, broker="b1").error_code == 0
        lab.world.run_for(1000)
        if state(lab, 3) == FENCED:
            break
    assert state(lab, 3) == FENCED and lab.world.time_us - began >= LEASE_MS * 1000


def test_r631_158_who_cannot_hear_that_it_is_refused_is_not_fenced_while_it_serves() -> None:
    lab = Lab()
    node: Any = lab.cluster.brokers[3].node
    node.broker.replay = lambda batch: None

    def check() -> None:
        active: Any = lab.cluster.active()
        if active is not None and active.node.controller.image.broker(3) is None:
            assert state(lab, 3) != ACTIVE

    lab.world.checks.append(check)
    for number in range(60):
        if number == 20:  # the last heartbeat but one was granted, the next one will be refused
            for name in [name for name in lab.world.processes if name.startswith("c")]:
                lab.world.block(name, "b3")
        assert lab.create(f"t{number}", factor=2, broker="b1").error_code == 0
        lab.world.run_for(1000)
        active: Any = lab.cluster.active()
        if active.node.controller.image.broker(3) is None:
            break
    assert 39 <= number < 59, "when the lease ended that was granted at 20"


def test_r631_048_098_nobody_but_the_active_controller_is_ahead_of_what_is_committed() -> None:
    lab = Lab()

    def check() -> None:
        for process in (*lab.cluster.controllers.values(), *lab.cluster.brokers.values()):
            node: Any = process.node
            if node is not None:
                active = node.controller is not None and node.controller.active
                assert active or process.image.next_offset <= node.quorum.raft.high_watermark

    lab.world.checks.append(check)
    for number in range(5):
        assert lab.create(f"t{number}").error_code == 0
    lab.cluster.active().crash()  # type: ignore[union-attr]
    lab.settle(lambda: lab.cluster.active() is not None, 10_000)
    assert lab.create("t9").error_code == 0


def test_r631_100_r497_41_the_controllers_answer_leaves_only_once_a_majority_has_the_record() -> None:
    lab = Lab()
    active: Any = lab.cluster.active()
    others = [one.name for one in lab.cluster.controllers.values() if one is not active]
    for name in others:
        lab.world.block(name, active.name)
        lab.world.block(active.name, name)
    box: list[Any] = []
    kind = message("CreateTopicsRequest")
    request = kind(topics=[kind.CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    lab.client.ask(active.name, "CreateTopics", 7, request, box.append)
    lab.settle(lambda: active.node.controller.image.topic("t") >= 0, 500)
    lab.world.run_for(1000)
    assert active.node.controller.active and not box
    lab.world.heal()
    lab.settle(lambda: bool(box), 20_000)
    assert active.node.quorum.raft.role is Role.LEADER and box[0].topics[0].error_code == 0


def _changes(lab: Lab) -> dict[str, tuple[int, Any]]:
    """API -> (version, a request that changes the metadata). Each does so whichever came before it."""
    image, build = lab.role.image, message
    row = image.topic_partitions(image.topic("t"))[0]
    leader = image.leader(row)
    topics, parts, settings = (
        build("CreateTopicsRequest"),
        build("CreatePartitionsRequest"),
        build("AlterConfigsRequest"),
    )
    one_setting, quotas = build("IncrementalAlterConfigsRequest"), build("AlterClientQuotasRequest")
    isr, moved = build("v28:AlterIsrRequest"), build("AlterPartitionReassignmentsRequest")
    entry = quotas.EntryData(
        entity=[quotas.EntityData(entity_type="user", entity_name="u")],
        ops=[quotas.OpData(key="producer_byte_rate", value=1000.0)],
    )
    replicas = list(image.replicas(row))
    return {
        "CreateTopics": (7, topics(topics=[topics.CreatableTopic(name="n", num_partitions=1, replication_factor=1)])),
        "CreatePartitions": (3, parts(topics=[parts.CreatePartitionsTopic(name="t", count=9, assignments=None)])),
        "AlterConfigs": (2, settings(resources=[settings.AlterConfigsResource(
            resource_type=2, resource_name="u", configs=[settings.AlterableConfig(name="retention.ms", value="5")])])),
        "IncrementalAlterConfigs": (1, one_setting(resources=[one_setting.AlterConfigsResource(
            resource_type=4, resource_name="1",
            configs=[one_setting.AlterableConfig(name="log.retention.ms", config_operation=0, value="5")])])),
        "AlterClientQuotas": (1, quotas(entries=[entry])),
        "AllocateProducerIds": (0, build("AllocateProducerIdsRequest")(
            broker_id=1, broker_epoch=image.broker(1).epoch)),
        "AlterIsr": (0, isr(broker_id=leader, broker_epoch=image.broker(leader).epoch, topics=[isr.TopicData(
            topic="t", partitions=[isr.PartitionData(
                partition_id=0, leader=leader, leader_epoch=image.leader_epoch(row), isr=[leader],
                current_zk_version=image.partition_epoch(row))])])),
        "AlterPartitionReassignments": (0, moved(timeout_ms=1000, topics=[moved.ReassignableTopic(
            name="t", partitions=[moved.ReassignablePartition(partition_index=1, replicas=replicas[::-1])])])),
        "DeleteTopics": (5, build("DeleteTopicsRequest")(topic_names=["gone"], timeout_ms=1000)),
        "UnregisterBroker": (0, build("UnregisterBrokerRequest")(broker_id=3)),
    }  # fmt: skip


def test_r631_100_no_change_of_any_kind_is_answered_before_a_majority_has_it() -> None:
    lab = Lab()
    for name in ("t", "u", "gone"):
        lab.create(name)
    lab.world.run_for(2000)
    active: Any = lab.cluster.active()
    for other in lab.cluster.controllers.values():
        if other is not active:
            lab.world.block(other.name, active.name)
            lab.world.block(active.name, other.name)
    answers: dict[str, Any] = {}
    asked = _changes(lab)
    for number, (api, (version, request)) in enumerate(asked.items()):
        end = active.node.controller.image.next_offset
        client = Client(lab.world, f"client-{number}")
        client.ask(active.name, api, version, request, partial(answers.setdefault, api))
        lab.world.run_for(60)
        assert active.node.controller.image.next_offset > end, f"{api} has changed nothing"
    assert active.node.controller.active
    assert answers == {}, "before the commit"
    lab.world.heal()
    lab.settle(lambda: len(answers) == len(asked), 20_000)


def test_r631_102_103_what_was_not_committed_is_gone_everywhere_and_was_never_acknowledged() -> None:
    lab = Lab()
    old: Any = lab.cluster.active()
    others = [one.name for one in lab.world.processes.values() if one is not old and one.name.startswith("c")]
    for name in others:
        lab.world.block(name, old.name)
        lab.world.block(old.name, name)
    box: list[Any] = []
    kind = message("CreateTopicsRequest")
    request = kind(topics=[kind.CreatableTopic(name="lost", num_partitions=1, replication_factor=1)])
    lab.client.ask("b1", "CreateTopics", 7, request, box.append)
    lab.settle(lambda: old.node.controller.image.topic("lost") >= 0, 1000)
    lab.settle(lambda: not old.node.controller.active, 10_000)
    assert old.node.controller.image.topic("lost") < 0
    lab.settle(lambda: lab.cluster.active() is not None, 10_000)
    lab.world.heal()
    lab.world.run_for(5000)
    # The broker asked again: created once by the new controller, and known to all alike.
    found = {one.node.controller.image.topic_count for one in lab.cluster.controllers.values() if one.node}
    assert found == {1} and box and box[0].topics[0].error_code == 0


def shown(process: Any) -> dict[str, float]:
    return numbers(process.node.metrics())


def test_r631_110_r631_201_202_205_metrics_of_standbys_and_brokers() -> None:
    lab = Lab()
    active: Any = lab.cluster.active()
    standby: Any = next(one for one in lab.cluster.controllers.values() if one is not active)
    broker: Any = lab.cluster.brokers[1]

    controller, server = "kafka_controller_kafkacontroller_", "kafka_controller_kafkaserver_"
    lab.world.run_for(5000)
    assert shown(active)[controller + "metadatalag"] == shown(standby)[controller + "metadatalag"] == 0
    assert shown(broker)[server + "metadatalag"] == 0
    for one, name in ((active, "applied"), (active, "committed"), (standby, "applied"), (standby, "committed")):
        assert shown(one)[f"{controller}last{name}recordoffset"] == one.node.quorum.raft.high_watermark - 1
    applied = "kafka_server_brokermetadatametrics_last_applied_record_"
    found, written_ms = shown(broker), broker.node.broker.metadata_timestamp_ms
    assert found[applied + "offset"] == broker.node.broker.cache.image.next_offset - 1
    assert found[applied + "timestamp"] == written_ms > 0
    assert found[applied + "lag_ms"] == broker.node.runtime.now.wall_ms - written_ms > 0
    before = standby.node.quorum.raft.high_watermark
    standby.node.controller.replay = lambda batch: None
    broker.node.broker.replay = lambda batch: None
    lab.create("t", broker="b2")
    lab.world.run_for(1000)
    behind = standby.node.quorum.raft.high_watermark - before
    assert behind >= 4
    assert shown(standby)[controller + "metadatalag"] == shown(broker)[server + "metadatalag"] == behind
    assert shown(standby)[controller + "metadatasnapshotlag"] == standby.node.quorum.raft.high_watermark  # A52
    reported = {name for name in shown(active) if "lastsnapshotoffset" in name}
    assert len(reported) == 3 and not any("zookeeper" in name for name in shown(broker))  # R631-207
    assert not any("metadatacommitlatencyms" in name for name in shown(standby))
    for process, name in ((standby, controller), (broker, server)):
        core = process.node.quorum.raft._core
        core.told_high_watermark += 1_000  # the leader has told it more than its log has by now
        assert shown(process)[name + "metadatalag"] == behind + 1_000


def test_r595_r853_metrics_of_the_quorum_are_those_of_each_replicas_part() -> None:
    lab = Lab()
    lab.world.run_for(3000)
    active: Any = lab.cluster.active()
    standby: Any = next(one for one in lab.cluster.controllers.values() if one is not active)
    broker: Any = lab.cluster.brokers[1]
    raft = "kafka_server_raftmetrics_"

    def at(process: Any, *names: str) -> list[float | None]:
        found = shown(process)
        return [found.get(raft + name) for name in names]

    for process, state in ((active, "leader"), (standby, "follower"), (broker, "observer")):
        assert [name for name in shown(process) if "current_state" in name] == [
            f'{raft}current_state{{current_state="{state}"}}'
        ]
        assert at(process, "current_leader", "current_epoch") == [active.node.id, 1]
        assert at(process, "number_of_voters", "number_unknown_voter_connections") == [3, 0]
        assert shown(process)[raft + "election_latency_max"] > 0
    assert at(active, "current_vote") == at(standby, "current_vote") == [active.node.id]
    assert at(broker, "current_vote") == [-1]
    assert at(active, "number_of_observers", "pending_add_voter") == [len(lab.cluster.brokers), 0]
    assert at(standby, "number_of_observers", "pending_add_voter") == [None, None], "only the leader knows"
    before = at(active, "log_end_offset")[0]
    lab.world.block(active.name, standby.name)
    lab.world.block(standby.name, active.name)
    lab.create("t", broker="b2")
    lab.world.run_for(500)
    ends = [shown(one)[raft + "log_end_offset"] for one in (active, standby, broker)]
    assert ends[0] == ends[2] > before == ends[1], "the standby is cut off"
    assert at(active, "high_watermark") == [ends[0]] and at(standby, "high_watermark") == [before]
    for process, name, other in ((active, "append", "fetch"), (broker, "fetch", "append")):
        assert shown(process)[f"{raft}{name}_records_rate"] > 0 == shown(process)[f"{raft}{other}_records_rate"]


def test_a_controller_is_ready_while_it_lacks_only_the_newest_records() -> None:
    lab = Lab()
    active: Any = lab.cluster.active()
    standby: Any = next(one for one in lab.cluster.controllers.values() if one is not active)
    lab.world.run_for(5000)
    assert standby.node.lacks() == active.node.lacks() == ""
    assert shown(active)["rayft_quorum_voters_caught_up"] == 3
    replay = standby.node.controller.replay
    held: list[Any] = []
    standby.node.controller.replay = held.append
    lab.create("t", broker="b2")
    assert lab.world.run_until(lambda: bool(held), 5000)
    assert standby.node.lacks() == "", "records may come at any moment"
    lab.world.run_for(BEHIND_MS + 1000)
    assert "metadata records behind" in standby.node.lacks() and active.node.lacks() == ""
    standby.node.controller.replay = replay
    for batch in held:
        replay(batch)
    assert standby.node.lacks() == ""
    for other in (*lab.cluster.controllers.values(), *lab.cluster.brokers.values()):
        lab.world.block(other.name, standby.name)
        lab.world.block(standby.name, other.name)
    lab.world.run_for(10_000)
    found = set()
    for _ in range(50):  # it stands for election again and again, and names its last leader all the time
        lab.world.run_for(100)
        found.add((standby.node.lacks(), shown(active)["rayft_quorum_voters_caught_up"]))
    assert found == {("its controller hears nothing of the active one", 2)}


def test_r500_35_a_broker_recovers_its_logs_before_anybody_hears_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline is also the work of a start: no heartbeat and no port of clients before the logs are open."""
    lab = Lab()
    lab.create("t", partitions=5)
    lab.world.run_for(2_000)
    broker: Any = lab.cluster.brokers[1]
    broker.crash()
    events: list[str] = []
    opened, asked = PartitionLog.__init__, Channels.controller

    def open_log(log: Any, *given: Any, **named: Any) -> None:
        if broker.alive and not events:
            assert not broker.listening
        events.append("log")
        opened(log, *given, **named)

    def ask(channels: Any, name: str, request: Any, *given: Any, **named: Any) -> None:
        if name == "BrokerHeartbeat" and request.broker_id == 1:
            events.append("heartbeat")
        asked(channels, name, request, *given, **named)

    monkeypatch.setattr(PartitionLog, "__init__", open_log)
    monkeypatch.setattr(Channels, "controller", ask)
    broker.start()
    lab.settle(lambda: broker.node is not None and broker.node.broker.availability.serving, 30_000)
    assert events.index("heartbeat") == events.count("log") == 5


def test_r631_202_what_is_not_committed_is_no_lag_of_a_broker() -> None:
    lab = Lab()
    active: Any = lab.cluster.active()
    broker: Any = lab.cluster.brokers[1]
    lab.world.run_for(2_000)
    for other in lab.cluster.controllers.values():
        if other is not active:
            lab.world.block(other.name, active.name)
    kind = message("CreateTopicsRequest")
    topic = kind.CreatableTopic(name="t", num_partitions=5, replication_factor=1)
    lab.client.ask("b1", "CreateTopics", 7, kind(topics=[topic]), lambda reply: None)
    raft = broker.node.quorum.raft
    assert lab.world.run_until(lambda: raft.log_end_offset > raft.high_watermark + 4, 1_500)
    assert numbers(broker.node.metrics())["kafka_controller_kafkaserver_metadatalag"] == 0


def test_r631_028_a_broker_with_a_controllers_id_is_refused() -> None:
    lab = Lab(brokers=1)
    other: Any = lab.cluster._process("b1001", _renamed(lab.cluster.brokers[1].config, 1002), b"\7" * 16)
    other.start()
    lab.world.run_for(5000)
    assert lab.registered() == [1] and not other.node.broker.availability.serving


def _renamed(config: Any, id: int) -> Any:
    host = f"b{id - 1}"
    listeners = tuple(one._replace(host=host) for one in config.listeners)
    return type(config)(**{**vars(config), "broker_id": id, "listeners": listeners, "advertised": listeners})


def test_r631_057_a_record_that_nobody_knows_stops_every_node_that_meets_it() -> None:
    lab = Lab()
    active: Any = lab.cluster.active()
    lab.world.run_for(1000)
    images = [one.image for one in everybody(lab)]
    end = active.node.quorum.raft.log_end_offset
    builder = Builder(end, active.node.quorum.raft.epoch)
    builder.append(None, b"\x63\x00")
    active.node.quorum.append(Batch(end, end, active.node.quorum.raft.epoch, builder.build()))
    active.wake()
    raised = 0
    for _ in range(20):  # a broken turn ends a real process; here the others go on
        try:
            lab.world.run_for(1000)
        except CorruptMetadata as error:
            assert str(error).startswith(f"offset {end}: record type 99 version 0 is not known")
            raised += 1
    assert raised and {image.next_offset for image in images} == {end}


def everybody(lab: Lab) -> list[Any]:
    """The processes that run."""
    processes: list[Any] = [*lab.cluster.controllers.values(), *lab.cluster.brokers.values()]
    return [one for one in processes if one.node is not None]
