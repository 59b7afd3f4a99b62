"""The controller's decisions where a format has two epochs for a partition, and keeps the registration of a fenced broker.

No released metadata is written yet: what is tried here is that operations take both from the family, and none by themselves.
"""

import pytest

from actors.controller.brokers import heartbeat_leases
from actors.controller.brokers.unregistration import unregister_broker
from actors.controller.partitions.elect_leaders import elect_leaders
from actors.controller.partitions.reassignments import alter_partition_reassignments
from actors.controller.soft_state import Soft
from actors.controller.state import State
from actors.metadata.families import RELEASED, Epochs
from actors.metadata.ops import BrokerChanged, BrokerUnregistered
from actors.wire.messages import message
from tests.unit.controller.cluster import SHUTDOWN, Cluster
from tests.unit.controller.partitions.test_alter_isr import codes, entry, proposal


@pytest.fixture(autouse=True)
def released(monkeypatch):
    monkeypatch.setattr(State, "family", property(lambda state: RELEASED))


def cluster():
    c = Cluster(brokers=4)
    c.topic("t", (1, 2, 3))
    return c


def epochs(c):
    return Epochs(c.image.leader_epoch(0), c.image.partition_epoch(0))


def test_an_isr_changes_under_the_same_leader_epoch():
    c = cluster()
    assert codes(proposal(c, entry(epoch=0, version=0, isr=(1, 2)))) == [(0, 0)]
    assert c.image.isr(0) == (1, 2) and epochs(c) == (0, 1)
    assert codes(proposal(c, entry(epoch=0, version=1, isr=(1, 2, 3)))) == [(0, 0)]
    assert c.image.isr(0) == (1, 2, 3) and epochs(c) == (0, 2)


@pytest.mark.parametrize(
    ("epoch", "version", "code"),
    [(0, 1, 95), (0, 0, 95), (-1, 2, 95), (0, 3, 41), (1, 2, 41), (2, 2, 41)],
)
def test_an_alter_isr_is_judged_by_both_epochs_each_for_itself(epoch, version, code):
    c = cluster()
    proposal(c, entry(epoch=0, version=0, isr=(1, 2)))
    proposal(c, entry(epoch=0, version=1, isr=(1, 2, 3)))
    reply = proposal(c, entry(epoch=epoch, version=version, isr=(1, 3)))
    assert (reply.error_code or codes(reply)[0][1]) == code and epochs(c) == (0, 2)


def test_a_change_of_the_leader_moves_both():
    c = cluster()
    proposal(c, entry(epoch=0, version=0, isr=(1, 2)))
    c.beat(1, target=SHUTDOWN)
    c.settle()
    assert c.image.leader(0) == 2 and epochs(c) == (1, 2)
    c.join(1)
    kind = message("ElectLeadersRequest")
    proposal(c, entry(leader=2, epoch=1, version=2, isr=(1, 2)), sender=2)
    assert epochs(c) == (1, 3)
    c.run(elect_leaders, kind(election_type=0, topic_partitions=None))
    assert c.image.leader(0) == 1 and epochs(c) == (2, 4)


def test_a_broker_that_leaves_and_does_not_lead_moves_the_partition_epoch_only():
    c = cluster()
    heartbeat_leases.revoke(c.soft, 3, "gone")
    c.settle()
    assert c.image.isr(0) == (1, 2) and epochs(c) == (0, 1)


def reassign(c, *replicas):
    kind = message("AlterPartitionReassignmentsRequest")
    one = kind.ReassignablePartition(partition_index=0, replicas=list(replicas))
    c.run(alter_partition_reassignments, kind(topics=[kind.ReassignableTopic(name="t", partitions=[one])]))


def test_a_reassignment_moves_the_leader_epoch_when_a_replica_leaves():
    c = cluster()
    reassign(c, 1, 2, 4)
    assert c.image.replicas(0) == (1, 2, 4, 3) and epochs(c) == (0, 1)  # all that were are still there
    proposal(c, entry(epoch=0, version=1, isr=(1, 2, 3, 4)))
    assert c.image.replicas(0) == (1, 2, 4) and c.image.leader(0) == 1 and epochs(c) == (1, 2)
    reassign(c, 2, 1, 4)
    assert c.image.replicas(0) == (2, 1, 4) and epochs(c) == (1, 3)


# ---- fenced, absent


def fenced():
    c = cluster()
    heartbeat_leases.revoke(c.soft, 3, "gone")
    c.settle()
    return c


def test_a_fenced_broker_stays_registered():
    c = fenced()
    assert c.ops[-1] == BrokerChanged(3, c.epochs[3], fenced=True)
    assert c.image.is_registered(3) and not c.image.is_unfenced(3) and 3 not in c.soft.usable(c.image).ids


def test_a_stopped_broker_stays_registered_and_fenced():
    c = Cluster(brokers=1)
    c.beat(1, target=SHUTDOWN)
    assert c.ops == [BrokerChanged(1, c.epochs[1], fenced=True)] and c.image.is_registered(1)


def test_a_fenced_broker_may_be_named_in_an_assignment_and_an_absent_one_may_not():
    c = fenced()
    assert c.topic("u", (1, 3)).error_code == 0
    row = c.image.partition(c.image.topic("u"), 0)
    assert c.image.replicas(row) == (1, 3) and c.image.isr(row) == (1,)
    assert c.topic("v", (1, 9)).error_code == 39
    assert c.topic("w", (3,)).error_code == 39  # nobody of it is in sync


def test_an_isr_takes_in_neither():
    c = fenced()
    assert codes(proposal(c, entry(epoch=0, version=1, isr=(1, 2, 3)))) == [(0, 42)]


def test_unregistering_is_for_who_is_registered_fenced_or_not():
    c = fenced()
    kind = message("UnregisterBrokerRequest")
    epoch = c.image.broker(3).epoch
    c.run(unregister_broker, kind(broker_id=3))
    c.settle()
    assert c.ops[-1] == BrokerUnregistered(3, epoch) and not c.image.is_registered(3)
    c.soft.unregistered.clear()
    assert c.run(unregister_broker, kind(broker_id=3)).error_code == 102
    assert c.run(unregister_broker, kind(broker_id=9)).error_code == 102


def test_a_new_controller_gives_a_fenced_broker_no_lease():
    c = fenced()
    soft = Soft()
    heartbeat_leases.take_over(soft, c.image, c.now, 10_000, 0)
    assert sorted(soft.leases) == [1, 2, 4]
    soft.check(c.image)


def test_who_is_fenced_already_is_not_fenced_twice():
    c = fenced()
    heartbeat_leases.revoke(c.soft, 3, "again")
    c.settle()
    assert c.ops == []
