"""AlterIsr: the table 2.6 of the requirements, row by row, and what an accepted proposal does."""

import pytest

from actors.controller.brokers import heartbeat_leases
from actors.controller.partitions.alter_isr import CHECKS, alter_isr
from actors.controller.partitions.reassignments import alter_partition_reassignments, list_partition_reassignments
from actors.controller.partitions.topics import delete_topics
from actors.metadata.ops import PartitionsChanged, PartitionsSet
from actors.wire.messages import message
from tests.unit.controller.cluster import SHUTDOWN, Cluster

KIND = message("AlterIsrRequest")
OTHER = b"\x55" * 16


def entry(number=0, leader=1, epoch=0, isr=(1, 2), version=None, broker_epochs=()):
    return KIND.PartitionData(
        partition_id=number,
        leader=leader,
        leader_epoch=epoch,
        isr=list(isr),
        current_zk_version=epoch if version is None else version,
        isr_broker_epochs=list(broker_epochs),
    )


def proposal(c, *entries, sender=1, epoch=None, topic="t", topic_id=bytes(16)):
    topics = [KIND.TopicData(topic=topic, topic_id=topic_id, partitions=list(entries))]
    broker_epoch = c.epochs[sender] if epoch is None else epoch
    return c.run(alter_isr, KIND(broker_id=sender, broker_epoch=broker_epoch, topics=topics))


def codes(reply):
    return [(p.partition_id, p.error_code) for topic in reply.topics for p in topic.partitions]


def cluster():
    """Partition 0 led by 1 in epoch 0, partition 1 led by 2, four brokers, the fourth holds nothing."""
    c = Cluster(brokers=4)
    c.topic("t", (1, 2, 3), (2, 3, 1))
    return c


def test_a_shrink_and_an_expand_raise_the_epoch_by_one_each():
    c = cluster()
    assert codes(proposal(c, entry())) == [(0, 0)]
    assert c.partition("t") == ((1, 2), 1, 1) and [type(op) for op in c.ops] == [PartitionsChanged]  # A33
    assert codes(proposal(c, entry(epoch=1, isr=(3, 2, 1)))) == [(0, 0)]
    assert c.partition("t") == ((1, 2, 3), 1, 2)


@pytest.mark.parametrize("epoch", [-1, 0, 1 << 40])
def test_row_3_r497_39_the_broker_epoch_must_be_the_leases(epoch):
    c = cluster()
    reply = proposal(c, entry(), epoch=epoch)
    assert (reply.error_code, reply.topics, c.ops) == (77, [], [])  # R497-12


def test_row_3_a_lease_that_ended():
    c = cluster()
    c.later(60_000)
    for broker in (2, 3, 4):
        c.beat(broker)
    c.expire()
    assert proposal(c, entry()).error_code == 77


ROWS = {
    "4 unknown topic": (dict(topic="x"), entry(), 3),
    "4 recreated topic": (dict(topic_id=OTHER), entry(), 3),
    "5 unknown partition": ({}, entry(number=9), 3),
    "8 not the leader": (dict(sender=3), entry(leader=3, isr=(3, 1)), 74),
    "8 before 10: a former leader with an old version": (dict(sender=3), entry(leader=3, epoch=-1, isr=(3,)), 74),
    "9 another leader named": ({}, entry(leader=2), 42),
    "10 an older version": ({}, entry(version=-1), 95),
    "10 an older leader epoch": ({}, entry(epoch=-1, version=0), 95),
    "11 empty": ({}, entry(isr=()), 42),
    "11 negative": ({}, entry(isr=(1, -2)), 42),
    "11 repeated": ({}, entry(isr=(1, 2, 2)), 42),
    "12 not a replica": ({}, entry(isr=(1, 4)), 42),
    "13 without the leader": ({}, entry(isr=(2, 3)), 42),
    "14 epochs of another number": ({}, entry(isr=(1, 2), broker_epochs=(-1,)), 42),
    "14 race 14: another broker epoch": ({}, entry(isr=(1, 2), broker_epochs=(-1, 999)), 42),
}


@pytest.mark.parametrize("row", ROWS)
def test_refusals(row):
    fields, wanted, code = ROWS[row]
    c = cluster()
    assert codes(proposal(c, wanted, **fields)) == [(wanted.partition_id, code)]
    assert c.ops == [] and c.partition("t") == ((1, 2, 3), 1, 0)
    assert c.result.seen is None  # R497-41: held, a refusal too


@pytest.mark.parametrize("fields", [dict(epoch=1), dict(epoch=1, version=0), dict(version=1)])
def test_rows_6_and_7_r497_42_the_sender_knows_more(fields):
    c = cluster()
    reply = proposal(c, entry(**fields), entry(1, 2), sender=1)
    assert (reply.error_code, reply.topics, c.ops) == (41, [], [])  # nothing of the request is applied


def test_row_5_a_repeated_entry():
    c = cluster()
    assert codes(proposal(c, entry(), entry(isr=(1, 3)))) == [(0, 0), (0, 42)]
    assert c.partition("t") == ((1, 2), 1, 1)


def test_row_5_a_repeated_entry_of_a_topic_that_is_named_in_two_ways():
    c = cluster()
    topic_id = c.image.topic_id(c.image.topic("t"))
    topics = [
        KIND.TopicData(topic="t", topic_id=topic_id, partitions=[entry()]),
        KIND.TopicData(topic="t", partitions=[entry(isr=(1, 3))]),
    ]
    reply = c.run(alter_isr, KIND(broker_id=1, broker_epoch=c.epochs[1], topics=topics))
    assert codes(reply) == [(0, 0), (0, 42)]
    assert c.partition("t") == ((1, 2), 1, 1)


def test_row_14_r497_06_a_fenced_broker_does_not_join():
    c = cluster()
    proposal(c, entry(isr=(1, 2)))
    c.later(15_000)
    for broker in (1, 2, 4):
        c.beat(broker)
    c.later(10_000)
    c.expire()
    here = c.partition("t")
    assert codes(proposal(c, entry(epoch=here[2], isr=(1, 2, 3)))) == [(0, 42)]  # proposed_replica_is_fenced.txt


def test_row_14_a_stopping_broker_does_not_join_and_may_stay():
    c = cluster()
    proposal(c, entry(isr=(1, 2)))
    c.beat(3, target=SHUTDOWN)
    c.beat(2, target=SHUTDOWN)
    assert codes(proposal(c, entry(epoch=1, isr=(1, 2, 3)))) == [(0, 42)]
    assert codes(proposal(c, entry(epoch=1, isr=(1,)))) == [(0, 0)]


def test_row_14_a_replica_that_its_broker_cannot_use_does_not_join():
    c = cluster()
    kind = message("v28:BrokerHeartbeatRequest")
    offline = [kind.UnreadableTopic(topic_id=c.image.topic_id(c.image.topic("t")), partitions=[0])]
    c.beat(3, unreadable=offline)
    assert c.partition("t") == ((1, 2), 1, 1)
    assert codes(proposal(c, entry(epoch=1, isr=(1, 2, 3)))) == [(0, 42)] and c.ops == []
    assert codes(proposal(c, entry(number=1, leader=2, isr=(2, 3)), sender=2)) == [(1, 0)], "another partition"
    c.beat(3)
    assert codes(proposal(c, entry(epoch=1, isr=(1, 2, 3)))) == [(0, 0)]


def test_row_14_matching_epochs_pass():
    c = cluster()
    epochs = (c.epochs[1], c.epochs[2])
    assert codes(proposal(c, entry(isr=(1, 2), broker_epochs=epochs))) == [(0, 0)]


def test_row_15_nothing_to_change_is_no_record():
    c = cluster()
    assert codes(proposal(c, entry(isr=(3, 1, 2)))) == [(0, 0)] and c.ops == []


def test_r497_17_and_18_partitions_are_judged_one_by_one():
    c = cluster()
    c.topic("u", (1, 2), (1, 2), (1, 2))
    reply = proposal(c, entry(0), entry(1, version=-1), entry(2, isr=(1,)), entry(7), topic="u")
    assert codes(reply) == [(0, 0), (1, 95), (2, 0), (7, 3)]
    assert len(c.ops) == 1 and len(c.ops[0]) == 1  # R497-27: partition 0 wanted what it had; one op for the rest


def test_the_same_request_twice():
    c = cluster()
    assert codes(proposal(c, entry())) == [(0, 0)]
    assert codes(proposal(c, entry())) == [(0, 95)]  # I4: one winner


def test_r497_16_a_deleted_topic():
    c = cluster()
    c.run(delete_topics, message("DeleteTopicsRequest")(topic_names=["t"]))
    assert codes(proposal(c, entry())) == [(0, 3)]


def test_checks_stand_in_the_tables_order():
    rows = [int(name.split()[0].rstrip(",")) for name, _, _ in CHECKS]
    assert rows == sorted(rows)


# ---- reassignment


def move(c, number, replicas, name="t", allow=True):
    kind = message("AlterPartitionReassignmentsRequest")
    one = kind.ReassignablePartition(partition_index=number, replicas=None if replicas is None else list(replicas))
    request = kind(topics=[kind.ReassignableTopic(name=name, partitions=[one])], allow_replication_factor_change=allow)
    return c.run(alter_partition_reassignments, request).responses[0].partitions[0].error_code


def shape(c, number=0):
    row = c.image.partition(c.image.topic("t"), number)
    return c.image.replicas(row), c.image.adding(row), c.image.removing(row)


def moving(c):
    return [
        p.partition_index
        for t in c.run(list_partition_reassignments, message("ListPartitionReassignmentsRequest")()).topics
        for p in t.partitions
    ]


def test_the_same_reassignment_again_changes_nothing():
    c = cluster()
    assert move(c, 0, (1, 2, 4)) == 0
    before = c.partition("t"), shape(c)
    assert move(c, 0, (1, 2, 4)) == 0
    assert (c.partition("t"), shape(c)) == before and c.ops == []
    assert move(c, 0, (2, 1, 4)) == 0 and shape(c)[0] == (2, 1, 4, 3)


def test_r497_08_the_proposal_that_brings_in_the_last_replica_ends_the_reassignment():
    c = cluster()
    assert move(c, 0, (4, 1)) == 0
    assert shape(c) == ((4, 1, 2, 3), (4,), (2, 3)) and c.partition("t") == ((1, 2, 3), 1, 1)
    assert moving(c) == [0]
    assert codes(proposal(c, entry(epoch=1, isr=(1, 2, 3, 4)))) == [(0, 0)]
    assert [type(op) for op in c.ops] == [PartitionsSet]
    assert shape(c) == ((4, 1), (), ()) and c.partition("t") == ((4, 1), 1, 2) and moving(c) == []


def test_a_reassignment_that_moves_the_leader_away_is_answered_74_though_it_was_written():
    c = cluster()
    move(c, 0, (4, 2))
    assert codes(proposal(c, entry(epoch=1, isr=(1, 2, 3, 4)))) == [(0, 74)]
    assert shape(c) == ((4, 2), (), ()) and c.partition("t") == ((4, 2), 4, 2)


def test_a_reassignment_with_nothing_to_add_ends_at_once():
    c = cluster()
    assert move(c, 0, (2, 1)) == 0
    assert shape(c) == ((2, 1), (), ()) and c.partition("t") == ((2, 1), 1, 1)


def test_a_reassignment_given_up():
    c = cluster()
    move(c, 0, (4, 1))
    assert move(c, 0, None) == 0 and shape(c) == ((1, 2, 3), (), ()) and c.partition("t")[2] == 2
    assert move(c, 0, None) == 85


@pytest.mark.parametrize("number, replicas, allow, code", [
    (9, (1,), True, 3), (0, (), True, 39), (0, (1, 1), True, 39), (0, (1, 9), True, 39), (0, (1, 2), False, 38),
    (0, (1, 2, 3), True, 0), (0, None, True, 85),
])  # fmt: skip
def test_reassignments_that_are_refused_or_nothing(number, replicas, allow, code):
    c = cluster()
    assert move(c, number, replicas, allow=allow) == code and c.ops == []


def test_a_reassignment_that_only_removes_ends_when_the_shutdown_of_its_target_is_taken_back():
    c = cluster()
    c.beat(1, target=SHUTDOWN)
    assert move(c, 1, (1,)) == 0
    assert shape(c, 1) == ((1, 2, 3), (), (2, 3)), "nobody of the target may lead now"
    c.beat(1)
    c.settle()
    assert shape(c, 1) == ((1,), (), ()) and c.partition("t", 1)[:2] == ((1,), 1) and moving(c) == []


def test_a_reassignment_to_the_last_member_ends_when_that_one_leads_again():
    c = cluster()
    for broker in (2, 3):
        heartbeat_leases.revoke(c.soft, broker, "test")
        c.settle()
    c.beat(1, target=SHUTDOWN)
    c.settle()
    assert c.partition("t")[:2] == ((1,), -1)
    assert move(c, 0, (1,)) == 0 and moving(c) == [0]
    c.beat(1)
    c.settle()
    assert shape(c) == ((1,), (), ()) and c.partition("t")[:2] == ((1,), 1) and moving(c) == []
