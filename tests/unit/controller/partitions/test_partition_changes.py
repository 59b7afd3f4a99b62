"""What holds for every change of a partition, whoever asks for it: the end of a reassignment, and who may not lead."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.controller.brokers import fencing_passes, heartbeat_leases
from actors.controller.partitions.alter_isr import alter_isr
from actors.controller.partitions.elect_leaders import elect_leaders
from actors.controller.partitions.reassignments import alter_partition_reassignments
from actors.controller.state import Result
from actors.metadata.ops import ConfigSet
from actors.wire.messages import message
from tests.unit.controller.cluster import ACTIVE, FENCED, Cluster


def gone(c: Cluster, *brokers: int) -> None:
    for broker in brokers:
        heartbeat_leases.revoke(c.soft, broker, "test")
        c.settle()


def reassign(c: Cluster, replicas: list[int] | None, number: int = 0) -> int:
    kind = message("AlterPartitionReassignmentsRequest")
    part = kind.ReassignablePartition(partition_index=number, replicas=replicas)
    request = kind(topics=[kind.ReassignableTopic(name="t", partitions=[part])])
    code: int = c.run(alter_partition_reassignments, request).responses[0].partitions[0].error_code
    return code


def moved(c: Cluster, number: int = 0) -> tuple[Any, Any, Any]:
    row = c.image.partition(c.image.topic("t"), number)
    return c.image.replicas(row), c.image.adding(row), c.image.removing(row)


def elect(c: Cluster, kind: int, number: int = 0) -> int:
    asked = message("ElectLeadersRequest")
    request = asked(election_type=kind, topic_partitions=[asked.TopicPartitions(topic="t", partitions=[number])])
    code: int = c.run(elect_leaders, request).replica_election_results[0].partition_result[0].error_code
    return code


def allow(c: Cluster) -> None:
    c.image.replay(c.image.next_offset, ConfigSet(2, "t", "unclean.leader.election.enable", "true"))


def back(c: Cluster, broker: int) -> None:
    """A broker that has fenced itself serves again, under a new epoch."""
    assert c.beat(broker, incarnation_id=bytes([broker]) * 16).next_state == ACTIVE
    c.settle()


def cannot_read(c: Cluster, broker: int, *numbers: int) -> None:
    topic = SimpleNamespace(topic_id=c.image.topic_id(c.image.topic("t")), partitions=list(numbers))
    c.apply(Result(fencing_passes.unreadable(c.state, broker, [topic] if numbers else []), None, atomic=False))


def propose(c: Cluster, sender: int, isr: list[int]) -> int:
    kind = message("AlterIsrRequest")
    row = c.image.partition(c.image.topic("t"), 0)
    data = kind.PartitionData(
        partition_id=0, leader=sender, leader_epoch=c.image.leader_epoch(row), isr=isr,
        current_zk_version=c.image.partition_epoch(row),
    )  # fmt: skip
    request = kind(
        broker_id=sender, broker_epoch=c.epochs[sender], topics=[kind.TopicData(topic="t", partitions=[data])]
    )
    code: int = c.run(alter_isr, request).topics[0].partitions[0].error_code
    return code


# ---- the end of a reassignment


def _asked_for(c: Cluster) -> None:
    gone(c, 1, 2)
    assert reassign(c, [3]) == 0 and moved(c) == ((3, 1, 2), (3,), (1, 2))
    assert elect(c, 1) == 0


def _allowed_later(c: Cluster) -> None:
    """As the controller's role does where the topic's setting changes."""
    gone(c, 1, 2)
    assert reassign(c, [3]) == 0
    allow(c)
    c.soft.allowing[c.image.topic_id(c.image.topic("t")) or b""] = None
    c.settle()


def _left(c: Cluster) -> None:
    """The last member of the ISR goes, and the topic allows that another one leads."""
    allow(c)
    assert reassign(c, [3]) == 0
    gone(c, 2, 1)


def _damaged(c: Cluster) -> None:
    allow(c)
    assert reassign(c, [3]) == 0
    cannot_read(c, 2, 0)
    cannot_read(c, 1, 0)


@pytest.mark.parametrize("happens", [_asked_for, _allowed_later, _left, _damaged])
@pytest.mark.parametrize("level", [1, 2])
def test_whatever_brings_in_the_last_adding_replica_ends_the_reassignment(happens: Any, level: int) -> None:
    c = Cluster(level, brokers=3)
    c.topic("t", (1, 2))
    happens(c)
    assert moved(c) == ((3,), (), ())
    assert c.partition("t")[:2] == ((3,), 3)


def test_a_member_of_the_target_that_can_lead_again_ends_a_reassignment_and_leads() -> None:
    c = Cluster(brokers=3)
    c.topic("t", (1, 2))
    gone(c, 1)
    cannot_read(c, 2, 0)
    assert reassign(c, [2]) == 0 and c.partition("t")[:2] == ((2,), -1) and moved(c) == ((2, 1), (), (1,))
    cannot_read(c, 2)
    c.settle()
    assert moved(c) == ((2,), (), ()) and c.partition("t")[:2] == ((2,), 2)


def test_a_reassignment_goes_on_while_nobody_of_its_target_could_lead() -> None:
    c = Cluster(brokers=4)
    c.topic("t", (1, 2))
    cannot_read(c, 4, 0)
    assert reassign(c, [4]) == 0
    gone(c, 2)
    assert propose(c, 1, [1, 4]) != 0, "who cannot read its replica does not join"
    assert moved(c) == ((4, 1, 2), (4,), (1, 2))


# ---- who may not lead


@pytest.mark.parametrize("replicas", [[3, 1], [1, 3], [1], None])
def test_no_reassignment_makes_a_leader_of_who_cannot_read_its_replica(replicas: list[int] | None) -> None:
    c = Cluster(brokers=3)
    c.topic("t", (1, 2))
    if replicas is None:
        assert reassign(c, [3]) == 0
    cannot_read(c, 2, 0)
    cannot_read(c, 1, 0)
    assert c.partition("t")[:2] == ((1,), -1)
    reassign(c, replicas)
    assert c.partition("t")[:2] == ((1,), -1)
    cannot_read(c, 1)
    c.settle()
    assert c.partition("t")[:2] == ((1,), 1), "it can again"


def test_who_goes_leaves_its_leadership_to_nobody_who_cannot_read_its_replica() -> None:
    c = Cluster(brokers=3)
    c.topic("t", (1, 2, 3), (1, 2, 3), (1, 2, 3))
    topic_id = c.image.topic_id(c.image.topic("t")) or b""
    c.soft.unreadable = {2: frozenset({(topic_id, 1)}), 9: frozenset({(b"\xff" * 16, 0), (topic_id, 70)})}
    gone(c, 1)
    assert [c.partition("t", number)[1] for number in range(3)] == [2, 3, 2]


def test_who_has_fenced_itself_gets_nothing_and_keeps_what_it_has() -> None:
    c = Cluster(brokers=3)
    c.topic("t", (1, 2, 3))
    assert c.beat(2, target=FENCED, incarnation_id=bytes([2]) * 16).next_state == FENCED
    assert c.partition("t") == ((1, 2, 3), 1, 0)
    c.topic("new", num_partitions=6, replication_factor=1)
    assert 2 not in {c.partition("new", number)[1] for number in range(6)}
    assert propose(c, 1, [1, 2]) == 0, "its leader may keep it in the ISR"
    assert propose(c, 1, [1]) == 0 and propose(c, 1, [1, 2]) != 0, "but not bring it back"
    assert propose(c, 1, [1, 3]) == 0
    gone(c, 1)
    assert c.partition("t")[:2] == ((3,), 3)
    back(c, 2)
    c.topic("newer", num_partitions=6, replication_factor=1)
    assert 2 in {c.partition("newer", number)[1] for number in range(6)}


def test_the_last_who_have_fenced_themselves_lead_again_when_they_are_back() -> None:
    c = Cluster(brokers=2)
    c.topic("t", (1, 2))
    for broker in (2, 1):
        c.beat(broker, target=FENCED, incarnation_id=bytes([broker]) * 16)
    assert c.partition("t")[:2] == ((1, 2), 1)
    gone(c, 1)
    assert c.partition("t")[:2] == ((2,), -1)
    back(c, 2)
    assert c.partition("t")[:2] == ((2,), 2)


# ---- searches


@pytest.mark.parametrize("brokers", [2, 6])
def test_a_search_looks_at_each_partition_once_whoever_has_come_back(
    monkeypatch: pytest.MonkeyPatch, brokers: int
) -> None:
    monkeypatch.setattr(fencing_passes, "SLICE_COST", 7 * 50)
    c = Cluster(brokers=brokers + 1, unclean_default=True)
    c.topic("own", *[(broker,) for broker in range(1, brokers + 1)])
    c.topic("t", *[(brokers + 1,)] * 30)
    gone(c, brokers + 1)
    looked: list[int] = []
    elect = fencing_passes.elect
    monkeypatch.setattr(
        fencing_passes, "elect", lambda state, row, unclean: looked.append(row) or elect(state, row, unclean)
    )
    c.soft.electing = dict.fromkeys(range(1, brokers + 1))
    slices = []
    while c.soft.electing or c.soft.search is not None:
        before = len(looked)
        c.run(fencing_passes.come_back, None)
        slices.append(len(looked) - before)
    assert slices == [7, 7, 7, 7, 2] and len(looked) == len(set(looked)) == 30


def test_a_search_passes_over_a_topic_that_is_deleted_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    from actors.controller.partitions.topics import delete_topics

    monkeypatch.setattr(fencing_passes, "SLICE_COST", 2)
    c = Cluster(brokers=3)
    c.topic("u", (3,), (3,), (3,))
    c.topic("t", (3, 1))
    gone(c, 1, 3)
    c.soft.electing = {2: None}
    c.run(fencing_passes.come_back, None)
    c.run(delete_topics, message("DeleteTopicsRequest")(topic_names=["u"]))
    c.settle()
    c.join(3)
    assert c.partition("t")[:2] == ((3,), 3)


def test_a_setting_of_one_topic_looks_at_its_own_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    c = Cluster(brokers=3, unclean_default=True)
    c.topic("t", (1, 2), (1, 2))
    c.topic("other", *[(1, 2)] * 20)
    gone(c, 2, 1)
    looked: list[int] = []
    elect = fencing_passes.elect
    monkeypatch.setattr(
        fencing_passes, "elect", lambda state, row, unclean: looked.append(row) or elect(state, row, unclean)
    )
    topic = c.image.topic("t")
    c.soft.allowing = {c.image.topic_id(topic) or b"": None, b"\xee" * 16: None}
    c.settle()
    assert looked == list(c.image.topic_partitions(topic)) and not c.soft.allowing
