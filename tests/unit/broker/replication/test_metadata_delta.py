"""The applier and the partitions: two epochs, deltas that come from no image, brokers that are fenced or absent.

`told` hands a broker a delta as a controller that pushes would; `replayed` gives every broker an op that the drafts have no
record for. No broker here asks for another ISR unless a story says so.
"""

from typing import Any

import pytest

from actors.broker.replication.metadata_delta import MetadataDelta, PartitionState
from actors.broker.replication.partition import Assignment, Became
from actors.metadata import ops
from actors.metadata.families import DRAFTS, RELEASED
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab, code, outcome


def lab_of(brokers: int = 3, **topic: Any) -> Lab:
    lab = Lab(brokers)
    lab.topic(list(range(1, brokers + 1)), **topic)
    lab.alter = lambda request: message("AlterIsrResponse")(error_code=int(ErrorCode.NOT_CONTROLLER))
    return lab


def told(lab: Lab, id: int, assignment: Assignment | None, number: int = 0) -> None:
    """One partition, from nowhere."""
    state = PartitionState("t", TOPIC_ID, number, assignment)
    lab.broker(id).applier.apply(MetadataDelta(partitions=[state], leaders_changed=True))
    lab.broker(id).partition_effects.run()


def replayed(lab: Lab, *changes: Any) -> None:
    """Ops of the released family, replayed by every broker in one turn."""
    lab.next_offset += sum(map(ops.records, changes))
    for node in lab.nodes.values():
        role = node.broker
        for op in changes:
            role.applier.apply(role._image_deltas.of(role.cache.image.replay(role.cache.image.next_offset, op)))
    lab.settle()


# ---- two epochs


def test_an_isr_that_changes_under_the_same_leader_epoch_begins_no_leadership() -> None:
    lab = lab_of(configs={"min.insync.replicas": "2"})
    lab.produce(1, b"a")
    lab.settle()
    leader, follower = lab.partition(1), lab.partition(2)
    epochs, start, since = leader.log.epochs.encode(), leader.epoch_start, leader.led_since
    known = dict(leader.followers)
    lab.split.add(frozenset((1, 3)))
    lab.settle()
    waiting = lab.produce(1, b"b", timeout_ms=60_000)
    lab.pass_ms(31_000, 1000)
    assert not waiting.done, "3 is in the ISR and has fetched nothing for longer than replica.lag.time.max.ms"
    replayed(lab, ops.PartitionsChanged.one(TOPIC_ID, 0, [1, 2]))
    assert leader.isr.isr == {1, 2} and (leader.leader_epoch, leader.isr.partition_epoch) == (0, 1)
    assert leader.log.epochs.encode() == epochs and (leader.epoch_start, leader.led_since) == (start, since)
    assert all(leader.followers[id] is one for id, one in known.items())
    assert (follower.leader_epoch, follower.isr.isr, follower.isr.partition_epoch) == (0, {1, 2}, 1)
    assert code(waiting) is ErrorCode.NONE, "who waits for the ISR hears of it"
    assert code(lab.fetch(1, 0, epoch=0)) is ErrorCode.NONE, "nobody is fenced by a change of the ISR"


def test_a_leader_epoch_that_moves_begins_a_leadership() -> None:
    lab = lab_of()
    lab.produce(1, b"a")
    lab.settle()
    leader = lab.partition(1)
    replayed(lab, ops.PartitionsChanged.one(TOPIC_ID, 0, None, 1))  # the same broker, named
    assert (leader.leader_epoch, leader.isr.partition_epoch, leader.epoch_start) == (1, 1, 1)
    assert leader.log.epochs.latest == 1
    assert code(lab.fetch(1, 0, epoch=0)) is ErrorCode.FENCED_LEADER_EPOCH
    replayed(lab, ops.PartitionsChanged.one(TOPIC_ID, 0, [1, 2]))
    assert (leader.leader_epoch, leader.isr.partition_epoch) == (1, 2)
    assert code(lab.fetch(1, 0, epoch=1)) is ErrorCode.NONE
    lab.produce(1, b"b")
    lab.settle()
    assert leader.log.end_offset_for_epoch(1) == (1, 2)


def test_an_alter_isr_names_both_epochs() -> None:
    lab = lab_of()
    replayed(lab, ops.PartitionsChanged.one(TOPIC_ID, 0, [1, 2]))
    replayed(lab, ops.PartitionsChanged.one(TOPIC_ID, 0, [1, 2], 1))
    replayed(lab, ops.PartitionsChanged.one(TOPIC_ID, 0, [1, 2], replicas=[1, 2, 3]))
    lab.asked.clear()
    lab.pass_ms(2000)
    requests = [request for _, name, request in lab.asked if name == "AlterIsr"]
    assert requests, "broker 3 is caught up, and to join"
    one = requests[-1].topics[0].partitions[0]
    assert (one.leader_epoch, one.current_zk_version, sorted(one.isr)) == (1, 3, [1, 2, 3])


def test_what_has_a_lower_partition_epoch_is_old_and_changes_nothing() -> None:
    lab = lab_of()
    told(lab, 1, Assignment((1, 2, 3), (1, 2), 1, 4, 9))
    told(lab, 2, Assignment((1, 2, 3), (1, 2), 1, 4, 9))
    for late in (Assignment((1, 2, 3), (1, 2, 3), 1, 4, 8), Assignment((1, 2, 3), (2, 3), 2, 3, 7)):
        for id in (1, 2):
            told(lab, id, late)
            partition = lab.partition(id)
            assert (partition.leader, partition.leader_epoch) == (1, 4)
            assert partition.isr.isr == {1, 2} and partition.isr.partition_epoch == 9


@pytest.mark.parametrize("id", [1, 2])
def test_a_leader_epoch_never_moves_without_the_partition_epoch(id: int) -> None:
    lab = lab_of()
    partition = lab.partition(id)
    with pytest.raises(AssertionError, match="only with the partition epoch"):
        partition.apply(Assignment((1, 2, 3), (1, 2, 3), 1, 1, 0), 0)
    assert partition.leader_epoch == 0


def test_only_a_change_that_was_missed_makes_a_leader_ask_its_followers_anew() -> None:
    lab = lab_of()
    leader = lab.partition(1)
    known = leader.followers[2]
    leader.apply(Assignment((1, 2, 3), (1, 2), 1, 0, 1), 0)
    assert leader.followers[2] is known
    leader.apply(Assignment((1, 2, 3), (1, 2, 3), 1, 0, 3), 0)  # 2 may have been moved away and back in between
    assert leader.followers[2] is not known


def test_a_follower_hears_that_its_part_is_the_same() -> None:
    lab = lab_of()
    follower = lab.partition(2)
    part, row = follower.apply(Assignment((1, 2, 3), (1, 2), 1, 0, 1), 0)
    assert part is Became.SAME and row is None
    part, _ = follower.apply(Assignment((1, 2, 3), (1, 2), 1, 1, 2), 0)
    assert part is Became.FOLLOWER


# ---- deltas from nowhere


def test_a_partition_begins_changes_and_ends_by_deltas_that_no_image_has_made() -> None:
    lab = lab_of(2)
    rows = lab.broker(2).cache.image.row_end
    told(lab, 2, Assignment((2,), (2,), 2, 5, 8), number=7)
    partition = lab.partition(2, 7)
    assert partition.leads and (partition.leader_epoch, partition.isr.partition_epoch) == (5, 8)
    assert code(lab.produce(2, b"x", number=7)) is ErrorCode.NONE
    told(lab, 2, Assignment((2, 1), (2,), 1, 6, 9), number=7)
    assert partition.leader == 1 and not partition.leads
    told(lab, 2, None, number=7)
    assert lab.partition(2, 7) is None and partition.removed
    assert lab.broker(2).cache.image.row_end == rows


def test_a_whole_delta_ends_what_it_does_not_name() -> None:
    lab = lab_of(2, partitions=2)
    role = lab.broker(2)
    kept = PartitionState("t", TOPIC_ID, 1, Assignment((1, 2), (1, 2), 1, 0, 0))
    brokers = [(broker.id, broker) for broker in role.cache.image.brokers()]
    role.applier.loaded(lambda: MetadataDelta(brokers, partitions=[kept]))
    assert lab.partition(2, 0) is None and lab.partition(2, 1) is not None


def test_what_an_older_process_led_is_led_once_the_registration_is_of_this_one() -> None:
    lab = lab_of(1)
    role, own = lab.broker(1), lab.broker(1).cache.image.broker(1)
    leads = PartitionState("t", TOPIC_ID, 0, Assignment((1,), (1,), 1, 0, 0))
    other = own._replace(incarnation_id=b"o" * 16)
    role.applier.apply(MetadataDelta([(1, other)], led_here=iter([leads])))
    assert not lab.partition(1).leads, "its leadership is another process's"
    role.applier.apply(MetadataDelta([(1, other)], led_here=(pytest.fail("nothing has changed") for _ in [0])))
    role.applier.apply(MetadataDelta([(1, own)], led_here=iter([leads])))
    assert lab.partition(1).leads


# ---- fenced, absent

ENDS = {"fenced": RELEASED.fenced, "absent": DRAFTS.fenced}


def left(how: str) -> Lab:
    """Broker 3 is out of the ISR, and then fenced or absent; its process runs on."""
    lab = lab_of()
    lab.cut.add(3)
    epoch = lab.broker(1).cache.image.broker(3).epoch
    replayed(lab, ops.PartitionsChanged.one(TOPIC_ID, 0, [1, 2]), ENDS[how](3, epoch))
    return lab


@pytest.mark.parametrize("how", ENDS)
def test_to_clients_and_to_an_isr_fenced_and_absent_are_one(how: str) -> None:
    lab = left(how)
    kind = message("MetadataRequest")
    reply = lab.call(1, "Metadata", 9, kind(topics=[kind.MetadataRequestTopic(name="t")])).reply
    assert reply.topics[0].partitions[0].offline_replicas == [3]
    lab.pass_ms(3000)  # longer than who has just left is named
    reply = lab.call(1, "Metadata", 9, kind(topics=[])).reply
    assert [broker.node_id for broker in reply.brokers] == [1, 2]
    assert 3 not in lab.broker(1).cluster.unfenced and lab.broker(1).cache.endpoint(3, "PLAINTEXT") is None
    lab.asked.clear()
    lab.pass_ms(2000)
    assert not any(name == "AlterIsr" for _, name, _ in lab.asked), "it is caught up, and may not join"


@pytest.mark.parametrize(("how", "named"), [("fenced", ["1", "2", "3"]), ("absent", ["1", "2"])])
def test_a_fenced_broker_is_described_and_has_settings(how: str, named: list[str]) -> None:
    lab = left(how)
    ask = message("DescribeClusterRequest")
    for asked, found in ((True, named), (False, ["1", "2"])):
        request = ask(include_fenced_brokers=asked, endpoint_type=1)
        brokers = lab.call(1, "DescribeCluster", 2, request).reply.brokers
        assert [str(broker.broker_id) for broker in brokers] == found
        assert [broker.broker_id for broker in brokers if broker.is_fenced] == ([3] if "3" in found else [])
    reply = lab.call(1, "ListConfigResources", 1, message("ListConfigResourcesRequest")(resource_types=[4])).reply
    assert sorted(one.resource_name for one in reply.config_resources) == named


@pytest.mark.parametrize(("how", "replica"), [("fenced", True), ("absent", False)])
def test_a_fenced_broker_goes_on_replicating_as_a_broker(how: str, replica: bool) -> None:
    lab = left(how)
    kind = message("FetchRequest")
    request = kind(
        replica_state=kind.ReplicaState(replica_id=3, replica_epoch=lab.broker(3).lifecycle.epoch),
        session_id=0,
        session_epoch=0,
        topics=[
            kind.FetchTopic(
                topic_id=TOPIC_ID,
                partitions=[kind.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)],
            )
        ],
    )
    lab.broker(1).cluster.heard_ms.pop(3, None)
    pending = lab.call(1, "Fetch", 15, request)
    assert pending.done and outcome(pending).error_code == 0
    assert (3 in lab.broker(1).cluster.heard_ms) is replica
