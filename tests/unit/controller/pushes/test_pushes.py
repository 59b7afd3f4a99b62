"""What a broker that does not pull is told, and in which order (KIP-291, push mode): the outbox of one process."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from actors.controller.partitions.partition_changes import next_epochs
from actors.controller.pushes import pushes
from actors.controller.pushes.push_versions import Speech, speech
from actors.controller.pushes.pushes import DELETED, Outbox, Request, Sender, changes, dialled
from actors.controller.state import METADATA_FORMAT
from actors.metadata.families import RELEASED
from actors.metadata.image import Image
from actors.metadata.ops import (
    BrokerGone,
    BrokerSet,
    ConfigSet,
    EndPoint,
    FeatureSet,
    Op,
    PartitionsChanged,
    PartitionsSet,
    TopicGone,
    TopicSet,
)
from actors.wire import framing

ME = 1
PROCESS = b"p" * 16
SENDER = Sender(1001, 7, "c1001", 9093, "PLAINTEXT")
A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))


class Cluster:
    """Committed metadata and the outbox of broker 1."""

    def __init__(self) -> None:
        self.image = Image()
        self.outbox = Outbox(ME, PROCESS)
        self.sender = SENDER
        self.commit(FeatureSet(METADATA_FORMAT, 2))
        for id in (1, 2, 3):
            self.commit(broker(id))
        self.topic("a", A, [[1, 2], [2, 3]])
        self.topic("b", B, [[3, 1]])

    def commit(self, op: Op) -> None:
        self.outbox.changed(changes(self.image, self.image.replay(self.image.next_offset, op)))
        self.image.commit(self.image.next_offset)

    def topic(self, name: str, id: bytes, replicas: list[list[int]]) -> None:
        self.commit(TopicSet(name, id))
        self.commit(PartitionsSet(id, range(len(replicas)), replicas, replicas))

    def lead(self, id: bytes, number: int, leader: int, epoch: int, isr: tuple[int, ...] | None = None) -> None:
        self.commit(PartitionsChanged.one(id, number, isr, leader, epoch, epoch))

    def requests(self) -> Iterator[Request]:
        """Everything that it wants to be sent; each is answered without an error."""
        while (request := self.outbox.next(self.image, self.sender)) is not None:
            yield request
            self.outbox.answered(0)

    def told(self) -> "Cluster":
        list(self.requests())
        return self


def broker(id: int, epoch: int | None = None, port: int = 9092) -> BrokerSet:
    return BrokerSet(id, 10 + id if epoch is None else epoch, PROCESS, (EndPoint("PLAINTEXT", f"b{id}", port),), "r")


def partitions(request: Request) -> list[tuple[str, int]]:
    """The (topic, number)s that a request names."""
    return [
        (topic.topic_name, state.partition_index)
        for topic in request.body.topic_states
        for state in topic.partition_states
    ]


def test_r291_63_a_new_process_is_told_everything_first_and_then_what_changes() -> None:
    cluster = Cluster()
    metadata, replicas = cluster.requests()
    assert (metadata.name, replicas.name) == ("UpdateMetadata", "LeaderAndIsr")
    assert metadata.body.type == replicas.body.type == pushes.FULL
    assert partitions(metadata) == [("a", 0), ("a", 1), ("b", 0)]
    assert [one.id for one in metadata.body.live_brokers] == [1, 2, 3]
    assert partitions(replicas) == [("a", 0), ("b", 0)], "those with a replica here"
    cluster.lead(A, 0, 2, 1)
    metadata, replicas = cluster.requests()
    assert metadata.body.type == replicas.body.type == pushes.INCREMENTAL
    assert partitions(metadata) == partitions(replicas) == [("a", 0)]
    state = replicas.body.topic_states[0].partition_states[0]
    assert (state.leader, state.leader_epoch, state.isr, state.replicas) == (2, 1, [1, 2], [1, 2])
    assert not list(cluster.requests())


@pytest.mark.parametrize("what", ["a new broker epoch", "an answer with an error"])
def test_r291_63_it_is_told_everything_again(what: str) -> None:
    cluster = Cluster().told()
    cluster.lead(A, 0, 2, 1)
    assert cluster.outbox.next(cluster.image, SENDER) is not None
    if what == "a new broker epoch":
        cluster.outbox.restart(50)
        assert cluster.outbox.next(cluster.image, SENDER) is None, "the request before is not answered yet"
        cluster.outbox.answered(0)
    else:
        cluster.outbox.answered(42)
    metadata, replicas = cluster.requests()
    assert metadata.body.type == replicas.body.type == pushes.FULL
    assert metadata.body.broker_epoch == (50 if what == "a new broker epoch" else -1)


def test_r291_61_each_request_says_who_tells_and_in_which_epoch() -> None:
    cluster = Cluster()
    cluster.outbox.restart(11)
    found = list(cluster.requests())
    cluster.commit(TopicGone(A, "a"))
    found += cluster.requests()
    assert {one.name for one in found} == {"UpdateMetadata", "LeaderAndIsr", "StopReplica"}
    for _, _, body in found:
        assert (body.controller_id, body.controller_epoch, body.is_k_raft_controller, body.broker_epoch) == (
            1001,
            7,
            True,
            11,
        )


def test_r291_64_update_metadata_comes_before_leader_and_isr_and_stop_replica_last() -> None:
    cluster = Cluster().told()
    cluster.lead(B, 0, 1, 1)
    cluster.commit(TopicGone(A, "a"))
    assert [one.name for one in cluster.requests()] == ["UpdateMetadata", "LeaderAndIsr", "StopReplica"]


def test_r291_64_what_changes_while_everything_is_told_comes_by_update_metadata_first() -> None:
    """While it gives up replicas, too (simulator, `pushed` 6203042)."""
    cluster = Cluster().told()
    cluster.commit(TopicGone(B, "b"))
    cluster.outbox.restart(50)
    told = []
    for request in cluster.requests():
        told.append((request.name, partitions(request)))
        if told[-1] == ("StopReplica", [("b", 0)]):
            cluster.lead(A, 0, 2, 1)
            cluster.topic("c", C, [[1]])
        elif told[-1] == ("UpdateMetadata", [("a", 0), ("c", 0)]):
            cluster.commit(TopicGone(A, "a"))
    assert told[1:] == [
        ("StopReplica", [("b", 0)]),
        ("UpdateMetadata", [("a", 0), ("c", 0)]),
        ("UpdateMetadata", [("a", 0), ("a", 1)]),
        ("StopReplica", [("a", 0)]),
        ("LeaderAndIsr", [("c", 0)]),
    ]


def test_r291_64_a_name_in_use_again_is_stopped_before_it_begins_again() -> None:
    """StopReplica names topics: behind LeaderAndIsr it would delete the new replica."""
    cluster = Cluster().told()
    cluster.commit(TopicGone(A, "a"))
    cluster.topic("a", C, [[1, 2]])
    metadata, stop, replicas = cluster.requests()
    assert [one.name for one in (metadata, stop, replicas)] == ["UpdateMetadata", "StopReplica", "LeaderAndIsr"]
    assert [(one.topic_id, one.partition_states[0].leader) for one in metadata.body.topic_states] == [
        (A, DELETED),
        (C, 1),
    ]
    assert replicas.body.topic_states[0].topic_id == C


def test_r291_65_leader_and_isr_goes_to_replicas_and_update_metadata_to_all() -> None:
    cluster = Cluster().told()
    cluster.lead(A, 1, 3, 1)
    (metadata,) = cluster.requests()
    assert (metadata.name, partitions(metadata)) == ("UpdateMetadata", [("a", 1)])


def test_r291_65_who_leaves_an_assignment_and_who_has_a_deleted_topic_stops() -> None:
    cluster = Cluster().told()
    cluster.commit(PartitionsSet(A, [0], [[2, 3]], [[2, 3]], leader=[2], leader_epoch=[4], partition_epoch=[4]))
    cluster.commit(TopicGone(B, "b"))
    metadata, stop = cluster.requests()
    assert stop.name == "StopReplica"
    found = {
        topic.topic_name: [
            (one.partition_index, one.leader_epoch, one.delete_partition) for one in topic.partition_states
        ]
        for topic in stop.body.topic_states
    }
    assert found == {"a": [(0, 4, True)], "b": [(0, DELETED, True)]}
    deleted = [topic for topic in metadata.body.topic_states if topic.topic_name == "b"]
    assert [(one.leader, one.leader_epoch) for one in deleted[0].partition_states] == [(DELETED, DELETED)]
    cluster.lead(A, 1, 3, 1)
    assert [one.name for one in cluster.requests()] == ["UpdateMetadata"], "it is told once"


def test_r291_36_66_one_request_is_in_flight_and_it_is_repeated_as_it_was() -> None:
    cluster = Cluster()
    cluster.outbox.restart(7)
    first = cluster.outbox.next(cluster.image, SENDER)
    cluster.lead(A, 0, 2, 1)
    assert cluster.outbox.next(cluster.image, SENDER) is None
    assert cluster.outbox.lost() and cluster.outbox.in_flight is first
    assert first is not None and first.body.topic_states[0].partition_states[0].leader == 1
    cluster.outbox.answered(0)
    following = cluster.outbox.next(cluster.image, SENDER)
    assert following is not None and following is not first


def test_r291_63_a_process_that_is_not_registered_hears_everything_anew_over_another_connection() -> None:
    """The process that answers there may be the broker's next one, which has heard nothing (seed 6000318)."""
    cluster = Cluster()
    for name in ("UpdateMetadata", "LeaderAndIsr"):
        request = cluster.outbox.next(cluster.image, SENDER)
        assert request is not None and request.name == name
        if name == "UpdateMetadata":
            cluster.outbox.answered(0)
    assert not cluster.outbox.lost()
    assert [one.name for one in cluster.requests()] == ["UpdateMetadata", "LeaderAndIsr"]


def test_r291_67_ten_thousand_changes_become_one_set_with_the_newest_state() -> None:
    cluster = Cluster().told()
    frozen = cluster.outbox
    cluster.lead(A, 0, 2, 1)
    assert frozen.next(cluster.image, SENDER) is not None
    for epoch in range(2, 10_000):
        cluster.lead(A, 0, 1 + epoch % 2, epoch)
        cluster.commit(ConfigSet(2, "b", "retention.ms", str(epoch)))
    assert sum(map(len, frozen._fresh.topics.values())) == 1, "it grows with the partitions"
    frozen.answered(0)
    metadata, replicas = cluster.requests()
    assert partitions(metadata) == partitions(replicas) == [("a", 0)]
    assert replicas.body.topic_states[0].partition_states[0].leader_epoch == 9_999
    (settings,) = [topic.settings for topic in metadata.body.topic_states if topic.topic_name == "b"]
    assert [(one.name, one.value) for one in settings] == [("retention.ms", "9999")]


def test_r291_67_a_deletion_is_never_merged_away() -> None:
    cluster = Cluster().told()
    cluster.lead(B, 0, 1, 1)
    assert cluster.outbox.next(cluster.image, SENDER) is not None
    cluster.lead(A, 0, 2, 1)
    cluster.commit(TopicGone(A, "a"))
    cluster.topic("a", C, [[1]])
    cluster.outbox.answered(0)
    stops = [one for one in cluster.requests() if one.name == "StopReplica"]
    assert [partitions(one) for one in stops] == [[("a", 0)]]


def test_r291_67_what_was_not_answered_when_it_begins_anew_is_deleted_all_the_same() -> None:
    cluster = Cluster().told()
    cluster.commit(TopicGone(A, "a"))
    cluster.outbox.restart(50)
    assert [one.name for one in cluster.requests()] == ["UpdateMetadata", "StopReplica", "LeaderAndIsr"]


def test_a_leader_is_not_named_before_it_is_known_where_it_is() -> None:
    """A partition that changes again between UpdateMetadata and LeaderAndIsr may be led by a broker that was not told of."""
    cluster = Cluster().told()
    cluster.lead(A, 0, 2, 1)
    first = cluster.outbox.next(cluster.image, SENDER)
    assert first is not None and first.name == "UpdateMetadata"
    cluster.commit(broker(4))
    cluster.commit(PartitionsSet(A, [0], [[1, 4]], [[1, 4]], leader=[4], leader_epoch=[2], partition_epoch=[2]))
    cluster.outbox.answered(0)
    metadata, replicas = cluster.requests()
    assert metadata.name == "UpdateMetadata" and 4 in [one.id for one in metadata.body.live_brokers]
    assert replicas.body.topic_states[0].partition_states[0].leader == 4
    assert [(one.broker_id, one.host_name, one.port) for one in replicas.body.live_leaders] == [(4, "b4", 9092)]


def test_brokers_that_go_and_levels_are_told_and_what_it_knows_is_counted_when_it_has_answered() -> None:
    cluster = Cluster()
    assert cluster.outbox.told(cluster.image) == -1
    cluster.told()
    assert cluster.outbox.told(cluster.image) == cluster.image.next_offset
    known = cluster.image.next_offset
    cluster.commit(BrokerGone(3, 13))
    assert cluster.outbox.told(cluster.image) == known
    metadata, replicas = cluster.requests()
    assert [one.id for one in metadata.body.live_brokers] == [1, 2]
    assert metadata.body.metadata_offset == cluster.image.next_offset == cluster.outbox.told(cluster.image)
    assert partitions(replicas) == [("b", 0)] and replicas.body.topic_states[0].partition_states[0].isr == [1]
    assert [(one.name, one.level) for one in metadata.body.features] == [(METADATA_FORMAT, 2)]


def test_many_partitions_go_in_portions_and_the_last_one_says_what_it_shows() -> None:
    cluster = Cluster()
    cluster.topic("c", C, [[1]] * (pushes.PARTITIONS_MAX + 5))
    *metadata, replicas = cluster.requests()
    assert [len(partitions(one)) for one in metadata] == [pushes.PARTITIONS_MAX, 8]
    assert [one.body.metadata_offset for one in metadata] == [-1, cluster.image.next_offset]
    assert len(partitions(replicas)) == pushes.PARTITIONS_MAX + 7, "all at once: what is not in it is no replica"


def test_a_broker_of_apache_kafka_is_told_in_the_versions_that_it_understands() -> None:
    of_2_8 = speech({4: 5, 5: 3, 6: 7, 18: 3})
    assert of_2_8 is not None
    cluster = Cluster()
    cluster.outbox = Outbox(ME, PROCESS, of_2_8)
    for name, version, body in cluster.requests():
        assert b"".join(framing.encode_request(name, version, 1, "c", body))
        assert (name, version, body.is_k_raft_controller) in {("UpdateMetadata", 7, False), ("LeaderAndIsr", 5, False)}


@pytest.mark.parametrize(
    ("served", "spoken"),
    [
        ({6: 6, 4: 4, 5: 3}, Speech(6, 4, 3, False)),  # 2.6 and 2.7
        ({6: 7, 4: 5, 5: 3}, Speech(7, 5, 3, False)),  # 2.8
        ({6: 8, 4: 7, 5: 4}, Speech(8, 7, 4, False)),  # 3.9
        ({6: 9, 4: 8, 5: 5}, Speech(8, 7, 4, False)),
        ({6: 6, 4: 4, 5: 2}, None),
        ({18: 3}, None),
    ],
)
def test_what_a_broker_serves_decides_what_it_is_told_in(served: dict[int, int], spoken: Speech | None) -> None:
    assert speech(served) == spoken


def test_to_a_broker_in_zookeeper_mode_the_controller_is_one_of_the_live_brokers() -> None:
    cluster = Cluster()
    cluster.outbox = Outbox(ME, PROCESS, Speech(7, 5, 3, False))
    own = (EndPoint("PLAINTEXT", "c", 9192), EndPoint("INTERNAL", "c", 9193, 2))
    cluster.sender = Sender(3001, 57, "", 0, "PLAINTEXT", own)
    metadata, *_ = cluster.requests()
    *brokers, controller = metadata.body.live_brokers
    assert [broker.id for broker in brokers] == [1, 2, 3]
    assert (metadata.body.controller_id, metadata.body.controller_epoch) == (controller.id, 57) == (3001, 57)
    assert controller.rack == "r", "brokers that make a topic fail where not all of them have racks"
    cluster.commit(broker(2)._replace(rack=None))
    assert next(cluster.requests()).body.live_brokers[-1].rack is None
    assert [(one.listener, one.host, one.port, one.security_protocol) for one in controller.endpoints] == [
        ("PLAINTEXT", "c", 9192, 0),
        ("INTERNAL", "c", 9193, 2),
    ]


def test_r291_25_27_the_endpoint_is_that_of_the_controllers_own_setting_and_no_other_in_its_place() -> None:
    own: Any = [EndPoint("INTERNAL", "b", 9092), EndPoint("CONTROLLER", "broker1.example.com", 9091)]
    assert dialled(own, "CONTROLLER") == EndPoint("CONTROLLER", "broker1.example.com", 9091)
    assert dialled(own, "CP") is None


@pytest.mark.parametrize(("told", "epochs"), [(False, (4, 10)), (True, (5, 10))])
def test_where_brokers_are_told_each_change_is_a_new_leader_epoch(told: bool, epochs: tuple[int, int]) -> None:
    """Also in the family of metadata in which the two epochs are two numbers."""
    image = Image()
    image.replay(0, TopicSet("a", A))
    image.replay(1, PartitionsSet(A, [0], [[1, 2]], [[1, 2]], leader_epoch=[4], partition_epoch=[9]))
    state: Any = SimpleNamespace(image=image, soft=SimpleNamespace(legacy={1: None} if told else {}), family=RELEASED)
    assert next_epochs(state, image.partition(image.topic("a"), 0), leadership_moves=False) == epochs
