"""Three brokers: in-sync sets, leader changes, cuts, crashes; every case ends with equal logs."""

from typing import Any

import pytest

from actors.metadata import ops
from actors.metadata.snapshot import encode
from actors.ports import Now, Sync
from actors.raft import SnapshotId
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.batch import records
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab, code, outcome
from tests.unit.node.roles.loading import load_into


def content(lab: Lab, id: int, number: int = 0) -> list[bytes | None]:
    """Values in a replica's log."""
    log = lab.partition(id, number).log
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, 1 << 20)
        position = 0
        while position < len(read.data):
            found += [record.value for record in records(read.data, position)]
            position += 12 + int.from_bytes(read.data[position + 8 : position + 12], "big")
        offset = read.next_offset
    return found


def delete_records(lab: Lab, leader: int, offset: int) -> Any:
    """Ask for everything below an offset of t-0 to be deleted."""
    kind = message("DeleteRecordsRequest")
    partitions = [kind.DeleteRecordsPartition(partition_index=0, offset=offset)]
    topics = [kind.DeleteRecordsTopic(name="t", partitions=partitions)]
    return lab.call(leader, "DeleteRecords", 2, kind(timeout_ms=5000, topics=topics))


def isr_of(lab: Lab, id: int = 1) -> tuple[int, ...]:
    """ISR in a broker's image."""
    image = lab.broker(id).cache.image
    return image.isr(image.partition(image.topic_by_id(TOPIC_ID), 0))


def test_r497_44_a_silent_follower_leaves_the_isr_and_comes_back() -> None:
    lab = Lab(3)
    lab.topic([1, 2, 3])
    lab.produce(1, b"a")
    lab.settle()
    lab.split.update((frozenset((1, 3)), frozenset((2, 3))))
    sent = lab.produce(1, b"b", timeout_ms=100_000)
    lab.pass_ms(29_000)
    assert isr_of(lab) == (1, 2, 3) and not sent.done
    lab.pass_ms(18_000)
    assert isr_of(lab) == (1, 2)
    assert code(sent) is ErrorCode.NONE
    lab.split.clear()
    lab.pass_ms(1000)
    assert isr_of(lab) == (1, 2, 3)
    assert content(lab, 3) == [b"a", b"b"]


def test_r497_26_partitions_that_come_into_sync_by_one_fetch_leave_in_one_request() -> None:
    lab = Lab(2)
    lab.commit(ops.TopicSet("t", TOPIC_ID), ops.PartitionsSet(TOPIC_ID, range(50), [[1, 2]] * 50, [[1]] * 50))
    lab.pass_ms(1000)
    asked = [request for _, name, request in lab.asked if name == "AlterIsr"]
    assert [len(request.topics[0].partitions) for request in asked] == [50]
    first = asked[0].topics[0]
    assert first.topic_id == TOPIC_ID and [one.partition_id for one in first.partitions] == list(range(50))
    assert len(first.partitions[0].isr_broker_epochs) == 2 and -1 not in first.partitions[0].isr_broker_epochs
    assert isr_of(lab) == (1, 2)


def test_a_new_leader_cuts_what_the_old_one_had_alone() -> None:
    lab = Lab(3)
    lab.topic([1, 2, 3])
    lab.produce(1, b"a")
    lab.settle()
    lab.cut.add(1)
    lab.split.update((frozenset((1, 2)), frozenset((1, 3))))
    lab.settle()
    alone = lab.produce(1, b"lost", timeout_ms=60_000)
    lab.change([2, 3], 2)
    lab.pass_ms(200)
    assert code(lab.produce(2, b"b", acks=1)) is ErrorCode.NONE
    lab.pass_ms(200)
    assert not alone.done
    lab.cut.clear()
    lab.split.clear()
    lab.pull(lab.nodes[1])
    lab.pass_ms(1000)
    assert code(alone) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert content(lab, 1) == content(lab, 2) == content(lab, 3) == [b"a", b"b"]
    assert any("cut t-0" in line for line in lab.nodes[1].log.lines)


def test_what_was_cut_does_not_come_back_from_a_power_cut() -> None:
    """Below a high watermark that had passed it meanwhile it looked committed (simulator, seed 25)."""
    lab = Lab(3)
    lab.topic([1, 2, 3])
    lab.produce(1, b"a")
    lab.settle()
    lab.split.update((frozenset((1, 2)), frozenset((1, 3))))
    lab.produce(1, b"lost", acks=1)
    lab.disks[1].sync(Sync(0, lab.partition(1).log.flush().files, []))
    lab.change([2, 3], 2)
    lab.pass_ms(200)
    lab.produce(2, b"b", acks=1)
    lab.split.clear()
    lab.pass_ms(1000)
    assert content(lab, 1) == content(lab, 2) == [b"a", b"b"]
    lab.split.update((frozenset((1, 2)), frozenset((1, 3))))
    lab.crash(1)
    lab.start(1)
    lab.pass_ms(500)
    assert content(lab, 1) in ([b"a"], [b"a", b"b"])


def test_kip_279_two_fast_leader_changes_leave_equal_logs() -> None:
    lab = Lab(3)
    lab.topic([1, 2, 3])
    lab.produce(1, b"a")
    lab.settle()
    for old, new in ((1, 2), (2, 3), (3, 1)):
        lab.split.update(frozenset((old, other)) for other in (1, 2, 3) if other != old)
        lab.settle()
        lab.produce(old, b"only on %d" % old, acks=1)
        lab.change([1, 2, 3], new)
        lab.split.clear()
        lab.pass_ms(500)
        lab.produce(new, b"by %d" % new, acks=1)
        lab.pass_ms(500)
    assert content(lab, 1) == content(lab, 2) == content(lab, 3)
    assert [value for value in content(lab, 1) if value and value.startswith(b"by")] == [b"by 2", b"by 3", b"by 1"]


def test_an_epoch_that_began_at_the_end_and_holds_nothing_is_forgotten_by_a_follower() -> None:
    lab = Lab(2)
    lab.topic([1, 2])
    lab.produce(1, b"a")
    lab.settle()
    lab.cut.add(1)
    lab.split.add(frozenset((1, 2)))
    lab.change([1, 2], 2)
    lab.change([1, 2], 1)
    lab.split.clear()
    lab.cut.clear()
    lab.partition(2).log.start_epoch(1)
    lab.pull(lab.nodes[1])
    lab.partition(1).log.epochs.truncate_end(1)
    lab.partition(1).log.start_epoch(2)
    lab.pass_ms(500)
    assert content(lab, 1) == content(lab, 2) == [b"a"]
    assert lab.fetches < 40


def test_the_old_leader_acknowledges_nothing_more() -> None:
    lab = Lab(2)
    lab.topic([1, 2])
    lab.split.add(frozenset((1, 2)))
    lab.settle()
    sent = lab.produce(1, b"a", timeout_ms=60_000)
    lab.change([1, 2], 2)
    lab.settle()
    assert code(sent) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code(lab.produce(1, b"b")) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_r497_25_min_insync_before_and_after_the_append() -> None:
    lab = Lab(2)
    lab.topic([1, 2], configs={"min.insync.replicas": "2"})
    lab.split.add(frozenset((1, 2)))
    lab.settle()
    back = lab.produce(1, b"a", timeout_ms=600_000)
    late = lab.produce(1, b"b", timeout_ms=5_000)
    lab.change([1], 1)
    lab.settle()
    assert not back.done and not late.done
    assert code(lab.produce(1, b"c")) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert code(lab.produce(1, b"d", acks=1)) is ErrorCode.NONE
    assert outcome(lab.fetch(1, 0)).high_watermark == 0
    lab.pass_ms(5_000, 500)
    assert code(late) is ErrorCode.REQUEST_TIMED_OUT
    lab.split.clear()
    lab.pass_ms(5_000, 500)
    lab.change([1, 2], 1)
    lab.pass_ms(5_000, 500)
    assert code(back) is ErrorCode.NONE


def test_a_shrink_below_the_minimum_waits_for_the_disk() -> None:
    lab = Lab(2)
    lab.topic([1, 2], configs={"min.insync.replicas": "2"})
    lab.split.add(frozenset((1, 2)))
    lab.settle()
    lab.produce(1, b"a", acks=1)
    lab.nodes[1].hold_syncs = True
    lab.pass_ms(46_000, 500)
    assert not [name for _, name, _ in lab.asked if name == "AlterIsr"]
    node = lab.nodes[1]
    node.hold_syncs = False
    for sync in node.held_syncs:
        sync()
    lab.pass_ms(500)
    assert [name for _, name, _ in lab.asked if name == "AlterIsr"]
    assert lab.partition(1).log.recovery_point == 1


def test_a_shrink_below_the_minimum_leaves_while_another_follower_goes_on_fetching() -> None:
    """Syncs take a turn or longer; in a node their ends come before the requests of a turn."""
    lab = Lab(3)
    lab.topic([1, 2, 3], configs={"min.insync.replicas": "3"})
    lab.produce(1, b"a")
    lab.settle()
    lab.split.update((frozenset((1, 3)), frozenset((2, 3))))
    node = lab.nodes[1]
    node.hold_syncs = True
    for _ in range(1_000):
        lab.now = Now(lab.now.mono_ms + 50, lab.now.wall_ms + 50)
        held, node.held_syncs = node.held_syncs, []
        for sync in held:
            sync()
        lab.produce(1, b"b", acks=1)
        lab.turn()
    assert isr_of(lab) == (1, 2)


def test_with_a_proposal_to_be_alone_on_its_way_only_what_is_durable_counts() -> None:
    """The controller may commit the proposal after this broker has lost its power, and what came since with it."""
    lab = Lab(2)
    lab.topic([1, 2])
    kind = message("AlterIsrResponse")
    lab.alter = lambda request: kind(error_code=ErrorCode.NOT_CONTROLLER)
    lab.split.add(frozenset((1, 2)))
    lab.settle()
    lab.produce(1, b"a", acks=1)
    lab.pass_ms(46_000, 500)
    assert [name for _, name, _ in lab.asked if name == "AlterIsr"] and isr_of(lab) == (1, 2)
    node = lab.nodes[1]
    node.hold_syncs = True
    lab.split.clear()
    lab.pass_ms(2_000)
    assert lab.partition(2).log.log_end_offset == 1 == lab.partition(1).high_watermark
    sent = lab.produce(1, b"b", timeout_ms=60_000)
    lab.pass_ms(500)
    assert lab.partition(2).log.log_end_offset == 2 and not sent.done
    node.hold_syncs = False
    for sync in node.held_syncs:
        sync()
    lab.settle()
    assert code(sent) is ErrorCode.NONE and lab.partition(1).log.recovery_point == 2
    assert isr_of(lab) == (1, 2)


def test_flush_messages_1_acknowledges_what_is_durable_only() -> None:
    lab = Lab(1)
    lab.topic([1], configs={"flush.messages": "1"})
    lab.nodes[1].hold_syncs = True
    sent = lab.produce(1, b"a")
    lab.settle()
    assert not sent.done
    for sync in lab.nodes[1].held_syncs:
        sync()
    lab.settle()
    assert code(sent) is ErrorCode.NONE


def _told(lab: Lab) -> list[int]:
    """Where broker 2 has said that it is, of each partition."""
    return [lab.partition(1, number).followers[2].log_end for number in range(2)]


def test_flush_messages_1_a_follower_waits_for_the_disk_whatever_changes_meanwhile() -> None:
    lab = Lab(2)
    lab.topic([1, 2], partitions=2, configs={"flush.messages": "1"})
    follower = lab.nodes[2]
    follower.hold_syncs = True
    sent = lab.produce(1, b"a")
    lab.settle()
    assert lab.partition(2).log.log_end_offset == 1 and len(follower.held_syncs) == 1
    leader = lab.broker(1).cache.image.broker(1)
    lab.commit(ops.BrokerSet(1, leader.epoch, leader.incarnation_id, leader.endpoints, "rack", (), ()))
    lab.pass_ms(200)
    assert _told(lab) == [0, 0] and not sent.done
    follower.held_syncs.pop()()
    lab.settle()
    assert _told(lab) == [1, 0] and code(sent) is ErrorCode.NONE


def test_flush_messages_1_a_follower_with_two_answers_waits_for_both() -> None:
    lab = Lab(2)
    lab.topic([1, 2], partitions=2, configs={"flush.messages": "1"})
    follower = lab.nodes[2]
    follower.hold_syncs = True
    sent = [lab.produce(1, b"a", number=0)]
    lab.change([1, 2], 1, number=1)
    lab.turn()  # the follower asks for that one before it has the answer for the other
    sent.append(lab.produce(1, b"b", number=1))
    lab.settle()
    assert [lab.partition(2, number).log.log_end_offset for number in range(2)] == [1, 1]
    first, second = follower.held_syncs
    first()
    lab.settle()
    assert _told(lab) == [0, 0] and not any(one.done for one in sent)
    second()
    lab.settle()
    assert _told(lab) == [1, 1] and [code(one) for one in sent] == [ErrorCode.NONE] * 2


def test_flush_messages_1_a_follower_waits_for_the_disk_before_it_asks_the_next_leader() -> None:
    lab = Lab(3)
    lab.topic([1, 2, 3], configs={"flush.messages": "1"})
    follower = lab.nodes[3]
    follower.hold_syncs = True
    lab.produce(1, b"a")
    lab.settle()
    lab.change([1, 2, 3], 2)
    lab.pass_ms(200)
    assert lab.partition(2).followers[3].log_end < 1 == lab.partition(3).log.log_end_offset
    follower.hold_syncs = False
    for sync in follower.held_syncs:
        sync()
    lab.settle()
    assert lab.partition(2).followers[3].log_end == 1


def test_flush_messages_1_that_is_set_later_holds_for_what_is_there() -> None:
    lab = Lab(2)
    lab.topic([1, 2])
    lab.produce(1, b"a")
    lab.settle()
    lab.split.add(frozenset((1, 2)))
    lab.pass_ms(2_000)
    sent = lab.produce(1, b"b", timeout_ms=60_000)
    lab.pass_ms(1_000)
    lab.commit(ops.ConfigSet(2, "t", "flush.messages", "1"))
    lab.split.clear()
    lab.pass_ms(2_000)
    assert code(sent) is ErrorCode.NONE
    assert lab.partition(1).high_watermark == lab.partition(1).log.recovery_point == 2


def test_a_leader_that_loads_a_snapshot_asks_its_followers_anew_where_they_are() -> None:
    """One was moved away and back in what the snapshot leaves out, and has thrown its log away."""
    lab = Lab(3)
    lab.topic([1, 2])
    lab.produce(1, b"a")
    lab.settle()
    epoch = lab.partition(1).leader_epoch
    lab.cut.add(1)
    lab.commit(ops.PartitionsSet(TOPIC_ID, [0], [[1]], [[1]], leader_epoch=[epoch + 1], partition_epoch=[epoch + 1]))
    lab.commit(ops.PartitionsSet(TOPIC_ID, [0], [[1, 2]], [[1]], leader_epoch=[epoch + 2], partition_epoch=[epoch + 2]))
    assert lab.partition(2).log.log_end_offset == 0
    pin = lab.broker(2).cache.image.pin()
    snapshot = b"".join(encode(pin, 1, 2, 0, None))
    pin.release()
    lab.cut.clear()
    lab.seen[1] = len(lab.log)
    load_into(lab.broker(1), snapshot, SnapshotId(lab.next_offset, 1))
    assert lab.partition(1).followers[2].log_end == -1
    assert "AlterIsr" not in [name for _, name, _ in lab.asked]
    lab.pass_ms(1_000)
    assert isr_of(lab) == (1, 2) and content(lab, 2) == [b"a"]


def test_settings_that_a_snapshot_brings_hold_for_partitions_that_are_here() -> None:
    """A broker that comes back from a long cut is not told of the changes, but of what they came to."""
    lab = Lab(2)
    lab.topic([1, 2], configs={"min.insync.replicas": "2"})
    lab.cut.add(1)
    lab.commit(ops.ConfigSet(2, "t", "retention.ms", "1000"), ops.ConfigSet(2, "t", "min.insync.replicas", None))
    pin = lab.broker(2).cache.image.pin()
    snapshot = b"".join(encode(pin, 1, 2, 0, None))
    pin.release()
    lab.cut.clear()
    lab.seen[1] = len(lab.log)
    load_into(lab.broker(1), snapshot, SnapshotId(lab.next_offset, 1))
    assert lab.partition(1).settings == lab.partition(1).log.settings == lab.partition(2).settings
    assert (lab.partition(1).settings.retention_ms, lab.partition(1).min_insync) == (1000, 1)


def test_r497_36_a_resend_is_the_same_save_for_the_broker_epoch() -> None:
    lab = Lab(2)
    lab.commit(ops.TopicSet("t", TOPIC_ID), ops.PartitionsSet(TOPIC_ID, [0], [[1, 2]], [[1]]))
    kind = message("AlterIsrResponse")
    lab.alter = lambda request: kind(error_code=ErrorCode.NOT_CONTROLLER)
    lab.pass_ms(500, 10)
    asked = [request for _, name, request in lab.asked if name == "AlterIsr"]
    assert len(asked) >= 3 and all(one.topics == asked[0].topics for one in asked)
    lab.alter = None
    lab.pass_ms(200)
    assert isr_of(lab) == (1, 2)


def test_r497_18_a_hole_in_the_answer_is_sent_again() -> None:
    lab = Lab(2)
    lab.commit(ops.TopicSet("t", TOPIC_ID), ops.PartitionsSet(TOPIC_ID, [0], [[1, 2]], [[1]]))
    kind = message("AlterIsrResponse")
    lab.alter = lambda request: kind(topics=[])
    lab.pass_ms(200)
    lab.alter = None
    lab.pass_ms(200)
    assert isr_of(lab) == (1, 2)


def test_a_crashed_follower_that_lost_its_tail_is_filled_again() -> None:
    lab = Lab(2)
    lab.topic([1, 2])
    lab.produce(1, b"a")
    lab.settle()
    lab.crash(2)
    lab.change([1], 1)
    lab.commit(ops.BrokerGone(2))
    lab.settle()
    lab.produce(1, b"b", acks=1)
    lab.start(2)
    lab.pass_ms(1000)
    assert isr_of(lab) == (1, 2)
    assert content(lab, 2) == [b"a", b"b"]


def test_delete_records_moves_the_start_on_every_replica() -> None:
    lab = Lab(2)
    lab.topic([1, 2])
    for value in (b"a", b"b", b"c"):
        lab.produce(1, value)
        lab.settle()
    sent = delete_records(lab, 1, 2)
    lab.pass_ms(1000, 50)
    assert sent.reply.topics[0].partitions[0].low_watermark == 2
    assert lab.partition(2).log.log_start_offset == 2
    assert code(lab.fetch(1, 1)) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_what_only_an_old_leader_had_does_not_come_back_where_records_are_deleted_up_to_its_end() -> None:
    """The new leader has forgotten the epochs of what is deleted, and the old one's start does not outlive a kill."""
    lab = Lab(2)
    lab.topic([1, 2])
    lab.produce(1, b"a")
    lab.settle()
    lab.split.add(frozenset((1, 2)))
    lab.produce(1, b"lost", acks=1)
    lab.disks[1].sync(Sync(0, lab.partition(1).log.flush().files, []))
    lab.dead.add(1)
    lab.change([2], 2)
    lab.commit(ops.BrokerGone(1))
    lab.settle()
    lab.produce(2, b"b", acks=1)
    lab.settle()
    sent = delete_records(lab, 2, 2)
    lab.pass_ms(1000, 50)
    assert sent.reply.topics[0].partitions[0].low_watermark == 2
    lab.split.clear()
    lab.start(1)
    lab.pass_ms(500)
    assert isr_of(lab, 2) == (1, 2) and content(lab, 1) == content(lab, 2) == []
    lab.dead.add(1)
    lab.start(1)
    assert lab.partition(1).log.log_start_offset == 2 and content(lab, 1) == []


def test_what_is_deleted_up_to_a_followers_end_leaves_its_producers() -> None:
    lab = Lab(2)
    lab.topic([1, 2])
    lab.produce(1, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    lab.settle()
    lab.partition(2).high_watermark = 0  # as if it heard of that and of the start in one answer
    delete_records(lab, 1, 1)
    lab.pass_ms(1000, 50)
    assert lab.partition(2).log.log_start_offset == 1 and 7 in lab.partition(2).log.producers.by_id


def test_a_follower_that_comes_back_to_what_is_deleted_up_to_its_end_leaves_producers_of_what_was_committed() -> None:
    lab = Lab(2)
    lab.topic([1, 2])
    lab.produce(1, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    lab.pass_ms(10_000)
    lab.dead.add(2)
    lab.change([1], 1)
    lab.commit(ops.BrokerGone(2))
    lab.settle()
    delete_records(lab, 1, 1)
    lab.pass_ms(1000, 50)
    lab.start(2)
    lab.pass_ms(500)
    assert isr_of(lab) == (1, 2)
    assert lab.partition(2).log.log_start_offset == 1 and 7 in lab.partition(2).log.producers.by_id


def test_a_leader_that_lags_behind_the_metadata_is_not_asked_without_end() -> None:
    lab = Lab(2)
    lab.topic([1, 2])
    lab.cut.add(1)
    lab.change([1, 2], 1)
    before = lab.fetches
    lab.pass_ms(1000)
    assert lab.fetches - before < 100  # the partition is refused, and the session without it would be answered at once
    lab.cut.clear()
    lab.pull(lab.nodes[1])
    lab.pass_ms(200)
    assert code(lab.produce(1, b"a", acks=1)) is ErrorCode.NONE
    lab.pass_ms(200)
    assert content(lab, 2) == [b"a"]


def test_r497_43_a_fetch_that_came_before_the_registration_counts_once_that_is_known() -> None:
    lab = Lab(2)
    lab.topic([1, 2])
    lab.crash(2)
    lab.change([1], 1)
    lab.commit(ops.BrokerGone(2))
    lab.settle()
    pull = lab.pull
    lab.pull = lambda node: None if node.id == 1 else pull(node)  # type: ignore[method-assign]
    lab.start(2)
    lab.pass_ms(1000)
    assert isr_of(lab, 2) == (1,)
    lab.pull = pull  # type: ignore[method-assign]
    lab.pull(lab.nodes[1])
    lab.pass_ms(1000)
    assert isr_of(lab) == (1, 2)


def test_an_idle_cluster_costs_two_fetches_a_second_and_follower() -> None:
    lab = Lab(3)
    lab.topic([1, 2, 3], partitions=100)
    lab.pass_ms(2000)
    before = lab.fetches
    lab.pass_ms(10_000)
    assert lab.fetches - before <= 45


def test_a_deleted_topic_is_answered_unknown_and_its_directory_goes() -> None:
    lab = Lab(1)
    lab.topic([1])
    lab.produce(1, b"a")
    waiting = lab.fetch(1, 1, wait_ms=60_000)
    lab.commit(ops.TopicGone(TOPIC_ID))
    lab.settle()
    assert code(waiting) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(lab.produce(1, b"b")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not lab.disks[1].exists("t-0")
    lab.pass_ms(61_000, 5000)
    assert not [name for name in lab.disks[1].names("") if name.endswith("-delete")]


def test_a_produce_that_waits_while_its_replica_moves_away_is_told_to_look_for_the_leader() -> None:
    """The topic is there: a client that is told of an unknown one takes its records for not stored."""
    lab = Lab(2)
    lab.topic([1, 2])
    lab.split.add(frozenset((1, 2)))
    lab.settle()
    waiting = lab.produce(1, b"a", timeout_ms=600_000)
    epoch = [lab.partition(1).leader_epoch + 1]
    lab.commit(ops.PartitionsSet(TOPIC_ID, [0], [[2]], [[2]], leader_epoch=epoch, partition_epoch=epoch))
    lab.turn()
    assert code(waiting) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_restart_does_not_live_through_old_assignments() -> None:
    lab = Lab(2)
    lab.topic([1, 2])
    lab.produce(1, b"a")
    lab.settle()
    for leader in (2, 1, 2):
        lab.change([1, 2], leader)
        lab.settle()
        lab.produce(leader, b"by %d" % leader, acks=1)
        lab.pass_ms(300)
    log = lab.partition(1).log
    before = (list(log.epochs.epochs), list(log.epochs.starts))
    lab.disks[1].sync(Sync(0, log.flush().files, []))
    lab.dead.add(1)
    lab.start(1)
    lab.pass_ms(500)
    log = lab.partition(1).log
    assert (list(log.epochs.epochs), list(log.epochs.starts)) == before
    assert not [line for line in lab.nodes[1].log.lines if "cut" in line]


def test_a_new_process_leads_nothing_before_its_own_registration() -> None:
    lab = Lab(1)
    lab.topic([1])
    lab.produce(1, b"a")
    lab.controller_up = False
    lab.dead.add(1)
    lab.start(1)
    lab.controller_up = True
    lab.hold_heartbeats = True
    lab.settle()
    assert not lab.partition(1).leads
    lab.hold_heartbeats = False
    lab.pass_ms(3000)
    lab.change([1], 1)
    lab.settle()
    assert lab.partition(1).leads


def test_r291_04_a_demoted_partition_is_answered_at_once_and_the_others_on_their_own_merit() -> None:
    lab = Lab(3)
    lab.commit(
        ops.TopicSet("t", TOPIC_ID),
        ops.PartitionsSet(TOPIC_ID, range(20), [[1, 3]] + [[1, 2]] * 19, [[1, 3]] + [[1, 2]] * 19),
    )
    lab.settle()
    lab.split.add(frozenset((1, 3)))  # partition 0 waits for its follower, the others are satisfied
    lab.settle()
    sent = [lab.produce(1, b"x", number=number, timeout_ms=600_000) for number in range(20)]
    lab.settle()
    assert [pending.done for pending in sent] == [False] + [True] * 19
    lab.change([1, 3], 3, number=0)
    lab.turn()
    assert code(sent[0]) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert {code(pending) for pending in sent[1:]} == {ErrorCode.NONE}


def test_r291_05_what_comes_after_the_change_is_not_appended_whatever_its_acks() -> None:
    lab = Lab(2)
    lab.topic([1, 2])
    lab.change([1, 2], 2)
    end = lab.partition(1).log.log_end_offset
    assert code(lab.produce(1, b"a", acks=1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    silent = lab.produce(1, b"b", acks=0)
    assert silent.closed  # so that the client looks for the leader
    assert lab.partition(1).log.log_end_offset == end


def test_r291_06_a_promoted_partition_serves_the_next_request() -> None:
    lab = Lab(2)
    lab.topic([1, 2])
    assert code(lab.produce(2, b"a", acks=1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    lab.change([1, 2], 2)
    assert code(lab.produce(2, b"a", acks=1)) is ErrorCode.NONE


def test_r497_49_settled_changes_and_refusals_are_counted() -> None:
    lab = Lab(2)
    lab.topic([1, 2])
    replicas = lab.broker(1).replicas
    assert (replicas.isr_shrinks, replicas.isr_expands, replicas.isr_failures) == (0, 0, 0)
    lab.split.add(frozenset((1, 2)))
    lab.settle()
    lab.produce(1, b"a", acks=1)
    lab.pass_ms(46_000, 500)
    lab.split.clear()
    lab.pass_ms(1000)
    kind = message("AlterIsrResponse")
    lab.alter = lambda request: kind(
        topics=[kind.TopicData(topic="t", partitions=[kind.PartitionData(partition_id=0, error_code=42)])]
    )
    lab.split.add(frozenset((1, 2)))
    lab.settle()
    lab.produce(1, b"b", acks=1)
    lab.pass_ms(46_000, 500)
    assert (replicas.isr_shrinks, replicas.isr_expands) == (1, 1)
    assert 1 <= replicas.isr_failures <= 3
    meters = lab.broker(1).alter_isr.meters
    assert [meters[name].count for name in ("IsrExpandsPerSec", "IsrShrinksPerSec")] == [1, 1]
    assert meters["FailedIsrUpdatesPerSec"].count == replicas.isr_failures


@pytest.mark.parametrize("versions", [{1: 12, 2: 12, 3: 12}, {2: 16}], ids=["2.8", "3.9"])
def test_with_brokers_in_zookeeper_mode_both_ways_in_the_versions_that_they_know(versions: dict[int, int]) -> None:
    """They are asked in their version, name topics before 13 and no epoch of theirs before 15. They follow, they lead, logs
    that diverge are cut, and all are back in the ISR each time."""
    lab = Lab(3, zookeeper=versions)
    lab.topic([1, 2, 3])
    sent = lab.produce(1, b"a")
    lab.pass_ms(500)
    assert code(sent) is ErrorCode.NONE
    for leader, others in ((1, [2, 3]), (2, [1, 3])):  # the leader of the round is cut off, another one replaces it
        before = content(lab, leader)
        lab.cut.add(leader)
        lab.split.update(frozenset((leader, other)) for other in others)
        alone = lab.produce(leader, b"lost", timeout_ms=60_000)
        lab.change(others, others[0])
        lab.pass_ms(200)
        assert code(lab.produce(others[0], b"b", acks=1)) is ErrorCode.NONE
        lab.pass_ms(200)
        lab.cut.clear()
        lab.split.clear()
        lab.pull(lab.nodes[leader])
        lab.pass_ms(2000)
        assert code(alone) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert content(lab, 1) == content(lab, 2) == content(lab, 3) == [*before, b"b"]
        assert any("cut t-0" in line for line in lab.nodes[leader].log.lines)
        assert set(isr_of(lab)) == {1, 2, 3}


def test_a_topic_of_the_same_name_is_another_one_to_a_leader_that_knows_names_only() -> None:
    lab = Lab(2, zookeeper={1: 12, 2: 12})
    lab.topic([1, 2])
    sent = lab.produce(1, b"old")
    lab.pass_ms(500)
    assert code(sent) is ErrorCode.NONE
    lab.commit(ops.TopicGone(TOPIC_ID, "t"))
    lab.topic([1, 2], topic_id=b"another topic id")
    sent = lab.produce(1, b"new")
    lab.pass_ms(500)
    assert code(sent) is ErrorCode.NONE
    assert content(lab, 2) == [b"new"]
