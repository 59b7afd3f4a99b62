"""Brokers in ZooKeeper mode and the pusher: when one is told, in which versions, under which epochs, and when no more."""

from typing import Any

import pytest

from actors.controller.brokers.zookeeper_brokers import LiveBroker
from actors.controller.partitions.topics import create_topics
from actors.controller.partitions.zookeeper_alter_partition import AlterPartition
from actors.metadata.ops import EndPoint
from actors.node.net.channels import ChannelError
from actors.node.roles.controller.introductions import AGAIN_MS
from actors.node.roles.controller.role import SILENT_MS
from actors.node.runtime.answers import Done, Held, Parked
from actors.node.runtime.calls import Call, Listener
from actors.wire.messages import message
from tests.served import TABLE
from tests.unit.node.roles.controller.test_role import Host, call, topic

SETTINGS = {
    "listeners": "C://h:1,PLAINTEXT://h:2",
    "listener.security.protocol.map": "C:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "rayft.bridge.listener.names": "PLAINTEXT",
    "rayft.metadata.push.enable": "true",
}
OF_2_8, OF_2_5 = {6: 7, 4: 5, 5: 3}, {6: 6, 4: 4, 5: 2}
ON_THE_BRIDGE = Call(1, Listener.BRIDGE, "PLAINTEXT", 56, 0, None, "h", "User:ANONYMOUS", memoryview(b""))


class Driven:
    """An active controller, and what it asks brokers, in order: (broker, name, version, request, then)."""

    def __init__(self) -> None:
        self.host = Host(more=SETTINGS)
        self.asked: list[tuple[int, str, int, Any, Any]] = []
        self.dropped: list[Any] = []
        channels = self.host.channels
        channels.peer, channels.drop = self._peer, lambda purpose, unsent: self.dropped.append(purpose)
        self.host.lead()
        self.controller = self.host.controller

    def _peer(self, purpose, address, name, request, then, timeout_ms, version, **_) -> None:
        assert address == (f"b{purpose[1]}", 9092)
        self.asked.append((purpose[1], name, version, request, then))

    def znodes(self, **epochs: int) -> None:
        """`b1=100`: what is in /brokers/ids."""
        live = [LiveBroker(int(id[1:]), epoch, (EndPoint("PLAINTEXT", id, 9092),)) for id, epoch in epochs.items()]
        self.controller.follow_zookeeper(live)
        self.turn()

    def turn(self) -> None:
        for _ in range(3):
            self.host.turn()
            self.controller.end()

    def answer(self, reply: Any) -> tuple[int, str, int, Any]:
        """Answer what was asked first; what that was."""
        broker, name, version, request, then = self.asked.pop(0)
        then(reply)
        self.turn()
        return broker, name, version, request

    def introduce(self, served: dict[int, int]) -> None:
        """It is asked what it serves, and says so."""
        kind = message("ApiVersionsResponse")
        keys = [kind.ApiVersion(api_key=key, max_version=newest) for key, newest in served.items()]
        assert self.answer(kind(api_keys=keys))[1:3] == ("ApiVersions", 3)

    def told(self, codes: dict[int, int] | None = None) -> list[tuple[int, str, int, Any]]:
        """Everything that is told now; `codes`: what is said of partitions of the only topic."""
        found = []
        while self.asked:
            name = self.asked[0][1]
            reply = message(f"{name}Response")()
            if name == "LeaderAndIsr" and codes:
                kind, (named,) = message("LeaderAndIsrResponse"), self.asked[0][3].topic_states
                errors = [kind.LeaderAndIsrPartitionError(partition_index=n, error_code=c) for n, c in codes.items()]
                reply.topics = [kind.LeaderAndIsrTopicError(topic_id=named.topic_id, partition_errors=errors)]
            found.append(self.answer(reply))
        return found


def driven() -> Driven:
    """Broker 1 of 2.8 has a znode of czxid 100; the controller's epoch in ZooKeeper is 57."""
    made = Driven()
    made.znodes(b1=100)
    assert not made.asked, "ZooKeeper does not have this controller yet"
    made.controller.soft.zookeeper_epoch = 57
    made.turn()
    made.introduce(OF_2_8)
    return made


def test_it_is_told_in_its_versions_under_the_epochs_of_zookeeper() -> None:
    made = driven()
    (metadata, replicas) = made.told()
    assert (metadata[:3], replicas[:3]) == ((1, "UpdateMetadata", 7), (1, "LeaderAndIsr", 5))
    for _, _, _, request in (metadata, replicas):
        assert (request.controller_id, request.controller_epoch, request.broker_epoch) == (1001, 57, 100)
        assert not request.is_k_raft_controller
    assert [(one.id, one.endpoints[0].port) for one in metadata[3].live_brokers] == [(1, 9092), (1001, 2)]
    made.controller.submit(create_topics, topic(), call(19, version=7))
    made.turn()
    assert [(name, request.controller_epoch) for _, name, _, request in made.told()] == [
        ("UpdateMetadata", 57),
        ("LeaderAndIsr", 57),
    ]


def test_another_znode_is_fenced_first_and_introduced_anew() -> None:
    made = driven()
    made.told()
    made.znodes(b1=120)
    made.turn()
    assert made.controller.image.broker(1).epoch == 120 and ("push", 1) in made.dropped
    made.introduce({6: 8, 4: 7, 5: 4})
    assert [(name, version, request.broker_epoch) for _, name, version, request in made.told()] == [
        ("UpdateMetadata", 8, 120),
        ("LeaderAndIsr", 7, 120),
    ]


def test_one_that_is_too_old_or_does_not_answer_is_told_nothing_and_asked_again() -> None:
    made = Driven()
    made.controller.soft.zookeeper_epoch = 57
    made.znodes(b1=100)
    made.introduce(OF_2_5)
    assert not made.asked and any("too old" in line for line in made.host.lines)
    made.host.later(AGAIN_MS)
    made.host.waiting.expire(made.host.now.mono_ms)
    made.turn()
    made.answer(ChannelError("lost", ""))
    assert not made.asked
    made.host.later(AGAIN_MS)
    made.host.waiting.expire(made.host.now.mono_ms)
    made.turn()
    made.introduce(OF_2_8)
    assert made.asked[0][1] == "UpdateMetadata"


def test_where_zookeeper_has_another_controller_nobody_is_told_and_nobody_is_answered() -> None:
    made = driven()
    made.told()
    made.controller.soft.zookeeper_epoch = None
    made.controller.submit(create_topics, topic(), call(19, version=7))
    made.turn()
    assert not made.asked and ("push", 1) in made.dropped
    request = message("AlterPartitionRequest")(broker_id=1, broker_epoch=100)
    refused = made.controller.submit(AlterPartition(0), request, ON_THE_BRIDGE)
    assert isinstance(refused, Done) and refused.reply.error_code == 41
    made.controller.soft.zookeeper_epoch = 58
    made.turn()
    made.introduce(OF_2_8)
    (_, _, _, metadata), *_ = made.told()
    assert (metadata.type, metadata.controller_epoch) == (2, 58), "everything, under the new epoch"


def test_no_clock_and_no_connection_fences_it() -> None:
    made = driven()
    made.told()
    made.host.later(SILENT_MS + 3_600_000)
    made.host.waiting.expire(made.host.now.mono_ms)
    made.turn()
    assert made.controller.image.is_unfenced(1) and not made.host.channels.probes


@pytest.mark.parametrize(("code", "leader"), [(0, 1), (56, -1)])
def test_a_replica_that_it_cannot_read_is_led_by_nobody(code: int, leader: int) -> None:
    made = driven()
    made.told()
    made.controller.submit(create_topics, topic(), call(19, version=7))
    made.turn()
    made.told({0: code})
    image = made.controller.image
    assert image.leader(image.partition(image.topic("t"), 0)) == leader


class Leader:
    """Broker 1 of 2.8, which leads a topic's only partition with a replica on broker 2 that is not there."""

    def __init__(self) -> None:
        self.made = made = driven()
        self.follows(b1=100, b2=101)
        made.controller.submit(create_topics, topic(replicas=2), call(19, version=7))
        made.turn()
        self.follows(b1=100)
        self.image = made.controller.image
        assert self.partition == (1, (1,))

    def follows(self, **epochs: int) -> None:
        """The controller follows the znodes, and everything that it asks is answered."""
        self.made.znodes(**epochs)
        while self.made.asked:
            if self.made.asked[0][1] == "ApiVersions":
                self.made.introduce(OF_2_8)
            else:
                self.made.answer(message(f"{self.made.asked[0][1]}Response")())

    @property
    def partition(self) -> tuple[int, tuple[int, ...]]:
        """leader, ISR"""
        return self.image.leader(0), tuple(self.image.isr(0))

    @property
    def epoch(self) -> int:
        return self.image.leader_epoch(0)

    def asks(self, version: int) -> Any:
        """That broker 2 may join; the answer."""
        kind = message("AlterPartitionRequest")
        asked = kind.PartitionData(new_isr=[1, 2], leader_epoch=self.epoch, partition_epoch=self.epoch)
        topics = [kind.TopicData(topic_name="t", topic_id=self.image.topic_id(0), partitions=[asked])]
        request = kind(broker_id=1, broker_epoch=100, topics=topics)
        of_version = ON_THE_BRIDGE._replace(api_version=version)
        return TABLE[Listener.BRIDGE, 56].handler(self.made.host.context, request, of_version)


def code(answer: Any) -> int:
    """The error of the only partition in an answer."""
    assert isinstance(answer, Held)
    (one,) = [one for topic in answer.reply.topics for one in topic.partitions]
    return int(one.error_code)


def test_a_leader_names_a_member_which_may_not_join_and_may_ask_again() -> None:
    assert code(Leader().asks(version=2)) == 107


def test_a_leader_of_2_8_begins_anew_where_a_member_may_not_join() -> None:
    """After an error that it does not know it waits for that member for ever; without a pause it asks on and on."""
    leader = Leader()
    before, answer = leader.epoch, leader.asks(version=0)
    assert isinstance(answer, Parked) and not answer.keys and answer.deadline_ms > leader.made.host.now.mono_ms
    assert leader.epoch == before, "the member has a moment's time"
    assert code(answer.again(True)) == 74
    assert leader.epoch == before + 1 and leader.partition == (1, (1,))
    leader.made.turn()
    (told,) = [request for _, name, _, request in leader.made.told() if name == "LeaderAndIsr"]
    (state,) = told.topic_states[0].partition_states
    assert (state.leader, state.leader_epoch, state.isr) == (1, before + 1, [1])


def test_a_member_that_may_join_by_then_joins() -> None:
    leader = Leader()
    answer = leader.asks(version=0)
    leader.follows(b1=100, b2=102)
    assert isinstance(answer, Parked) and code(answer.again(True)) == 0
    assert leader.partition == (1, (1, 2))


def test_a_controller_that_drives_no_more_by_then_says_so() -> None:
    leader = Leader()
    answer, before = leader.asks(version=0), leader.epoch
    leader.made.controller.soft.zookeeper_epoch = None
    assert isinstance(answer, Parked)
    refused = answer.again(True)
    assert isinstance(refused, Done) and refused.reply.error_code == 41 and leader.epoch == before


@pytest.mark.parametrize("committed", [False, True])
def test_a_grant_that_was_undone_while_another_member_had_its_moment_is_not_told(committed: bool) -> None:
    """The leader commits by the ISR that it is told: without broker 3 in it, what broker 3 lacks counts as committed."""
    leader = Leader()
    made, image, kind = leader.made, leader.image, message("AlterPartitionRequest")
    leader.follows(b1=100, b2=102, b3=103)
    asked = topic("u")
    asked.topics[0].num_partitions = asked.topics[0].replication_factor = -1
    asked.topics[0].assignments = [
        message("CreateTopicsRequest").CreatableReplicaAssignment(partition_index=number, broker_ids=[1, 2, 3])
        for number in range(2)
    ]
    made.controller.submit(create_topics, asked, call(19, version=7))
    made.turn()
    leader.follows(b1=100, b3=103)
    rows = [image.partition(image.topic("u"), number) for number in range(2)]
    assert [(image.leader(row), set(image.isr(row))) for row in rows] == [(1, {1, 3})] * 2
    partitions = [
        kind.PartitionData(
            partition_index=image.number(row), new_isr=isr, leader_epoch=image.leader_epoch(row),
            partition_epoch=image.partition_epoch(row),
        )
        for row, isr in zip(rows, ([1], [1, 2, 3]), strict=True)
    ]  # fmt: skip
    topics = [kind.TopicData(topic_name="u", partitions=partitions)]
    request = kind(broker_id=1, broker_epoch=100, topics=topics)
    parked = TABLE[Listener.BRIDGE, 56].handler(made.host.context, request, ON_THE_BRIDGE)
    assert isinstance(parked, Parked) and set(image.isr(rows[0])) == {1}
    made.host.turn(commit=committed)
    made.host.quorum.log.clear()
    made.controller.lost()
    made.host.lead(epoch=2)
    made.controller.soft.zookeeper_epoch = 58
    leader.follows(b1=100, b3=103)
    answer = parked.again(True)
    assert isinstance(answer, Held) and answer.reply.error_code == 0
    said = {one.partition_index: one for entry in answer.reply.topics for one in entry.partitions}
    assert said[1].error_code == 74, "the member that may not join has had its moment"
    assert (said[0].error_code, set(said[0].isr)) == ((95, set()) if committed else (0, {1}))
    assert set(image.isr(rows[0])) == {1}
