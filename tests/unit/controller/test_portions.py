"""Long requests in portions: nothing is lost, nothing named twice gets through, and the replies are those in one go."""

from functools import partial

import pytest

from actors.controller import portions
from actors.controller.partitions.elect_leaders import elect_leaders
from actors.controller.partitions.reassignments import alter_partition_reassignments, list_partition_reassignments
from actors.controller.partitions.topics import create_topics, delete_topics
from actors.metadata.ops import PartitionsSet, TopicSet
from actors.wire.messages import message
from tests.unit.controller.cluster import Cluster


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(portions, "ENTRIES_A_PORTION", 2)
    monkeypatch.setattr(portions, "LOOKED_AT_ONCE", 3)
    monkeypatch.setattr(portions, "REASSIGNED", portions.REASSIGNED._replace(times=1))


def in_portions(c, operation, request, cut):
    """The reply, and how many requests there were."""
    assert cut.is_long(request, c.image)
    reply, count = None, 0
    for portion in cut.portions(request, c.image):
        if portion is None:
            continue
        count += 1
        shown = cut.shown(request, c.run(operation, portion))
        if reply is None:
            reply = shown
        else:
            cut.join(reply, shown)
    return reply, count


def new(kind, name):
    return kind.CreatableTopic(name=name, num_partitions=2, replication_factor=1)


def test_topics_are_made_and_what_is_named_twice_or_collides_is_refused():
    c = Cluster(brokers=1)
    kind = message("CreateTopicsRequest")
    names = ["twice", "a.b", "x", "y", "a_b", "z", "twice", "twice"]
    request = kind(topics=[new(kind, name) for name in names])
    reply, count = in_portions(c, create_topics, request, portions.TOPICS_MADE)
    codes = {one.name: one.error_code for one in reply.topics}
    assert codes == {"twice": 42, "a.b": 0, "x": 0, "y": 0, "a_b": 17, "z": 0}
    assert len(reply.topics) == 6 and count >= 3
    assert [c.image.topic_name(row) for row in c.image.topics()] == ["a.b", "x", "y", "z"]
    delete = message("DeleteTopicsRequest")
    reply, _ = in_portions(c, delete_topics, delete(topic_names=["x", "y", "y", "z", "no"]), portions.TOPICS_GONE)
    assert {one.name: one.error_code for one in reply.responses} == {"x": 0, "y": 42, "z": 0, "no": 3}
    assert [c.image.topic_name(row) for row in c.image.topics()] == ["a.b", "y"]


def test_partitions_of_one_topic_are_cut_and_come_back_under_one_name():
    c = Cluster(brokers=3)
    c.topic("t", *[(1, 2)] * 7)
    kind = message("AlterPartitionReassignmentsRequest")
    entries = [kind.ReassignablePartition(partition_index=number, replicas=[2, 3]) for number in (0, 1, 2, 3, 4, 4, 9)]
    request = kind(topics=[kind.ReassignableTopic(name="t", partitions=entries)])
    reply, count = in_portions(c, alter_partition_reassignments, request, portions.REASSIGNED)
    (topic,) = reply.responses
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [
        (0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (4, 42), (9, 3),
    ]  # fmt: skip
    assert count >= 3
    running, count = in_portions(
        c,
        list_partition_reassignments,
        message("ListPartitionReassignmentsRequest")(topics=None),
        portions.REASSIGNMENTS,
    )
    assert [one.partition_index for one in running.topics[0].partitions] == [0, 1, 2, 3, 4]
    assert len(running.topics) == 1 and count >= 3


def test_an_election_everywhere_says_nothing_of_partitions_that_needed_none():
    c = Cluster(brokers=2)
    c.topic("t", *[(1, 2)] * 6)
    kind = message("ElectLeadersRequest")
    reply, count = in_portions(c, elect_leaders, kind(election_type=0, topic_partitions=None), portions.ELECTED)
    assert reply.replica_election_results == [] and count >= 3
    named = kind(election_type=0, topic_partitions=[kind.TopicPartitions(topic="t", partitions=[0, 1, 2])])
    reply, _ = in_portions(c, elect_leaders, named, portions.ELECTED)
    assert [one.error_code for one in reply.replica_election_results[0].partition_result] == [84, 84, 84]


def test_nothing_at_all_is_one_empty_portion():
    c = Cluster(brokers=1)
    request = message("ListPartitionReassignmentsRequest")(topics=None)
    found = list(portions.REASSIGNMENTS.portions(request, c.image))
    assert [one.topics for one in found] == [[]]


def test_short_requests_stay_whole(monkeypatch):
    monkeypatch.undo()
    kind = message("CreateTopicsRequest")
    is_long = partial(portions.TOPICS_MADE.is_long, image=Cluster().image)
    assert not is_long(kind(topics=[new(kind, "t")] * portions.ENTRIES_A_PORTION))
    assert is_long(kind(topics=[new(kind, "t")] * (portions.ENTRIES_A_PORTION + 1)))


def test_20000_reassignments_are_few_turns_and_one_op_a_topic_in_each(monkeypatch):
    monkeypatch.undo()
    c = Cluster(brokers=3)
    for number in range(20):
        topic_id = number.to_bytes(16, "big")
        c.image.replay(c.image.next_offset, TopicSet(f"t{number}", topic_id))
        c.image.replay(c.image.next_offset, PartitionsSet(topic_id, range(1_000), [[1, 2]] * 1_000, [[1, 2]] * 1_000))
    kind = message("AlterPartitionReassignmentsRequest")
    partitions = [kind.ReassignablePartition(partition_index=number, replicas=[2, 3]) for number in range(1_000)]
    request = kind(topics=[kind.ReassignableTopic(name=f"t{number}", partitions=partitions) for number in range(20)])
    turns, ops, records = 0, 0, 0
    for portion in portions.REASSIGNED.portions(request, c.image):
        if portion is not None:
            result = alter_partition_reassignments(c.state, portion, c.now, c.random)
            turns, ops, records = turns + 1, ops + len(result.ops), records + sum(len(op) for op in result.ops)
            assert len(result.ops) <= len(portion.topics) and records <= 250 * turns
    assert (turns, ops, records) == (80, 80, 20_000)


def test_many_partitions_of_a_topic_are_reassigned_as_each_alone():
    together, alone = Cluster(brokers=4), Cluster(brokers=4)
    kind = message("AlterPartitionReassignmentsRequest")
    wanted = [[3, 1], [1, 2], [4], [2, 2], [], [3, 4], [2, 1]]
    entries = [kind.ReassignablePartition(partition_index=n, replicas=replicas) for n, replicas in enumerate(wanted)]
    for c in (together, alone):
        c.topic("t", *[(1, 2)] * 7)
    reply = together.run(
        alter_partition_reassignments, kind(topics=[kind.ReassignableTopic(name="t", partitions=entries)])
    )
    codes = [one.error_code for one in reply.responses[0].partitions]
    one_by_one = []
    for entry in entries:
        request = kind(topics=[kind.ReassignableTopic(name="t", partitions=[entry])])
        one_by_one.append(alone.run(alter_partition_reassignments, request).responses[0].partitions[0].error_code)
    assert codes == one_by_one == [0, 0, 0, 39, 39, 0, 0]
    for number in range(7):
        rows = [c.image.partition(c.image.topic("t"), number) for c in (together, alone)]
        shown = [
            (
                c.image.replicas(row),
                c.image.isr(row),
                c.image.leader(row),
                c.image.extra(row),
                c.image.leader_epoch(row),
            )
            for c, row in zip((together, alone), rows, strict=True)
        ]
        assert shown[0] == shown[1]
