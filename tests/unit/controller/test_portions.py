"""Long requests in portions: nothing is lost, nothing named twice gets through, and the replies are those in one go."""

import random
from functools import partial

import pytest

from actors.controller import portions
from actors.controller.partitions.alter_isr import alter_isr
from actors.controller.partitions.elect_leaders import elect_leaders
from actors.controller.partitions.reassignments import alter_partition_reassignments, list_partition_reassignments
from actors.controller.partitions.topics import create_topics, delete_topics
from actors.controller.partitions.zookeeper_alter_partition import AlterPartition
from actors.metadata.ops import PartitionsSet, TopicSet
from actors.wire.messages import message
from tests.unit.controller.cluster import Cluster


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(portions, "ENTRIES_A_PORTION", 2)
    monkeypatch.setattr(portions, "LOOKED_AT_ONCE", 3)
    for name in ("REASSIGNED", "PROPOSED", "PROPOSED_BY_LEGACY"):
        monkeypatch.setattr(portions, name, getattr(portions, name)._replace(times=1))


def in_portions(c, operation, request, cut):
    """The reply, and how many requests there were."""
    assert cut.is_long(request, c.image)
    reply, count = None, 0
    for portion in cut.portions(request, c.image):
        if portion is None:
            continue
        count += 1
        reply = portions.added(cut, reply, cut.shown(request, c.run(operation, portion)))
        if cut.ends(reply):
            break
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


# ---- a leader's proposals (G-51)

ASKED = message("AlterIsrRequest")
NO_ID, OTHER = bytes(16), b"\x55" * 16


def led():
    """Brokers 1 to 4, and two topics of six partitions that broker 1 leads."""
    c = Cluster(brokers=4)
    for name in ("t", "u"):
        c.topic(name, *[(1, 2, 3)] * 6)
    return c


def proposed(c, *topics, epoch=None):
    """A request of broker 1. `topics`: (name, topic id, [(number, ISR, partition epoch)])."""
    kind = ASKED.PartitionData
    return ASKED(
        broker_id=1,
        broker_epoch=c.epochs[1] if epoch is None else epoch,
        topics=[
            ASKED.TopicData(
                topic=name,
                topic_id=topic_id,
                partitions=[
                    kind(partition_id=number, leader=1, leader_epoch=version, isr=list(isr), current_zk_version=version)
                    for number, isr, version in entries
                ],
            )
            for name, topic_id, entries in topics
        ],
    )


def decided(reply):
    """The codes of a reply by partition, sorted."""
    return sorted((topic.topic, one.partition_id, one.error_code) for topic in reply.topics for one in topic.partitions)


def state_of(c):
    return [
        (c.image.topic_name(topic), c.image.isr(row), c.image.leader(row), c.image.partition_epoch(row))
        for topic in c.image.topics()
        for row in c.image.topic_partitions(topic)
    ]


@pytest.mark.parametrize("seed", range(40))
def test_g_51_proposals_in_portions_are_decided_as_those_in_one_go(seed):
    choose = random.Random(seed)
    whole, cut = led(), led()
    ids = {name: whole.image.topic_id(whole.image.topic(name)) for name in ("t", "u")} | {"x": OTHER}
    assert all(cut.image.topic_by_id(ids[name]) >= 0 for name in ("t", "u"))
    for _ in range(3):
        topics, named = [], set()
        for name, topic_id in ((n, choose.choice((NO_ID, ids[n], OTHER))) for n in choose.sample("tux", 3)):
            rows = whole.image.topic_partitions(whole.image.topic(name)) if name != "x" else [None] * 6
            entries = []
            for number in choose.choices(range(8), k=choose.randrange(6)):
                if (name, number) in named and choose.randrange(3):
                    continue  # a partition may be named twice
                known = whole.image.partition_epoch(rows[number]) if number < 6 and name != "x" else 0
                isr = choose.choice(((1,), (1, 2), (1, 2, 3), (2, 3), (1, 4), ()))
                entries.append((number, isr, known - (choose.randrange(8) == 0)))
                named.add((name, number))
            counts = {number: sum(one[0] == number for one in entries) for number, *_ in entries}
            topics.append((name, topic_id, [one for one in entries if counts[one[0]] <= 2]))
        request = proposed(whole, *topics)
        if not portions.PROPOSED.is_long(request, cut.image):
            continue
        there = whole.run(alter_isr, request)
        here, _ = in_portions(cut, alter_isr, proposed(cut, *topics), portions.PROPOSED)
        assert decided(here) == decided(there) and state_of(cut) == state_of(whole)


@pytest.mark.parametrize("place", [0, 2, 5])
@pytest.mark.parametrize("above", ["leader epoch", "version"])
def test_g_51_r497_42_nothing_of_a_long_request_is_applied_if_its_sender_knows_more_of_any_partition(place, above):
    c = led()
    request = proposed(c, ("t", NO_ID, [(number % 6, (1, 2), 0) for number in range(4, 10)]))
    entry = request.topics[0].partitions[place]
    entry.leader_epoch, entry.current_zk_version = (1, 0) if above == "leader epoch" else (0, 1)
    before = state_of(c)
    reply, count = in_portions(c, alter_isr, request, portions.PROPOSED)
    assert (reply.error_code, reply.topics, count) == (41, [], 1) and state_of(c) == before


def test_g_51_the_error_of_a_later_portion_is_the_answer():
    """The lease of the leader ends between two portions: nobody is told that partitions were decided that were not."""
    c = led()
    request = proposed(c, ("t", NO_ID, [(number, (1, 2), 0) for number in range(6)]))
    found = [one for one in portions.PROPOSED.portions(request, c.image) if one is not None]
    assert len(found) == 3
    first = c.run(alter_isr, found[0])
    assert not portions.PROPOSED.ends(first) and [code for *_, code in decided(first)] == [0, 0]
    c.later(60_000)
    for broker in (2, 3, 4):
        c.beat(broker)
    c.expire()
    second = c.run(alter_isr, found[1])
    assert portions.PROPOSED.ends(second) and (second.error_code, second.topics, c.ops) == (77, [], [])


@pytest.mark.parametrize("version", [1, 2])
def test_g_51_proposals_of_leaders_in_zookeeper_mode_are_cut_by_name_and_by_id(version):
    kind = message("AlterPartitionRequest")
    c = led()
    topics = []
    for name in ("t", "u"):
        known = {"topic_name": name} if version < 2 else {"topic_id": c.image.topic_id(c.image.topic(name))}
        entries = [kind.PartitionData(partition_index=number, new_isr=[1, 3], partition_epoch=0) for number in range(5)]
        topics.append(kind.TopicData(**known, partitions=entries))
    request = kind(broker_id=1, broker_epoch=c.epochs[1], topics=topics)
    reply, count = in_portions(c, AlterPartition(version), request, portions.PROPOSED_BY_LEGACY)
    assert count == 5 and [len(topic.partitions) for topic in reply.topics] == [5, 5]
    assert {(one.error_code, tuple(one.isr)) for topic in reply.topics for one in topic.partitions} == {(0, (1, 3))}
    topics[1].partitions[4].partition_epoch = 9
    before = state_of(c)
    reply, count = in_portions(c, AlterPartition(version), request, portions.PROPOSED_BY_LEGACY)
    assert (reply.error_code, reply.topics, count) == (41, [], 1) and state_of(c) == before


def test_g_51_20000_proposals_are_few_turns_and_one_op_in_each(monkeypatch):
    monkeypatch.undo()
    c = Cluster(brokers=3)
    topic_ids = [number.to_bytes(16, "big") for number in range(1, 21)]
    for topic_id in topic_ids:
        c.image.replay(c.image.next_offset, TopicSet(f"t{topic_id[-1]}", topic_id))
        c.image.replay(c.image.next_offset, PartitionsSet(topic_id, range(1_000), [[1, 2]] * 1_000, [[1, 2]] * 1_000))
    request = proposed(c, *[(f"t{one[-1]}", one, [(number, (1,), 0) for number in range(1_000)]) for one in topic_ids])
    turns, records = 0, 0
    for portion in portions.PROPOSED.portions(request, c.image):
        if portion is not None:
            result = alter_isr(c.state, portion, c.now, c.random)
            turns, records = turns + 1, records + sum(len(op) for op in result.ops)
            assert len(result.ops) == 1 and records == 250 * turns
    assert (turns, records) == (80, 20_000)
