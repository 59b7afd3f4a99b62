"""What a group has committed, as its coordinator tells it while the partition under it changes."""

from actors.metadata import ops
from actors.metadata.snapshot import encode
from actors.raft.messages import SnapshotId
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.node.roles.broker.lab import Lab, Pending
from tests.unit.node.roles.loading import load_into

OFFSETS = "__consumer_offsets"
OFFSETS_ID = b"\5" * 16


def coordinated(brokers: int) -> Lab:
    lab = Lab(brokers, {"offsets.topic.num.partitions": "1"})
    everywhere = list(range(1, brokers + 1))
    lab.topic(everywhere)
    lab.topic(everywhere, OFFSETS, OFFSETS_ID)
    return lab


def commit(lab: Lab, offset: int) -> Pending:
    kind = message("OffsetCommitRequest")
    partition = kind.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = kind.OffsetCommitRequestTopic(name="t", partitions=[partition])
    return lab.call(1, "OffsetCommit", 8, kind(group_id="g", generation_id_or_member_epoch=-1, topics=[topic]))


def committed(lab: Lab, broker: int = 1) -> int | ErrorCode:
    kind = message("OffsetFetchRequest")
    topic = kind.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    reply = lab.call(broker, "OffsetFetch", 7, kind(group_id="g", topics=[topic])).reply
    return ErrorCode(reply.error_code) if reply.error_code else int(reply.topics[0].partitions[0].committed_offset)


def test_of_two_commits_the_later_one_stands_when_the_isr_shrinks_between_them() -> None:
    lab = coordinated(2)
    lab.crash(2)
    first = commit(lab, 5)
    lab.settle()
    assert not first.done
    lab.change([1], 1, topic_id=OFFSETS_ID)
    lab.commit(ops.BrokerGone(2))
    second = commit(lab, 10)
    lab.settle()
    assert first.done and second.done
    assert committed(lab) == 10


def test_a_new_coordinator_tells_nothing_that_the_next_one_may_not_have() -> None:
    lab = coordinated(3)
    commit(lab, 5)
    lab.settle()
    lab.split = {frozenset((1, 3)), frozenset((2, 3))}
    later = commit(lab, 10)
    lab.settle()
    lab.crash(1)
    lab.change([2, 3], 2, topic_id=OFFSETS_ID)
    lab.settle()
    assert not later.done
    assert committed(lab, 2) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "broker 3 could lead without the second commit"
    lab.split.clear()
    lab.pass_ms(2_000)
    assert committed(lab, 2) == 10
    lab.crash(2)
    lab.change([3], 3, topic_id=OFFSETS_ID)
    lab.settle()
    assert committed(lab, 3) == 10


def test_a_coordinator_that_learns_from_a_snapshot_that_its_topic_was_made_again_serves_the_new_one() -> None:
    lab = coordinated(2)
    commit(lab, 5)
    lab.settle()
    lab.cut = {1}
    again = b"\6" * 16
    lab.commit(ops.TopicGone(OFFSETS_ID))
    lab.commit(ops.TopicSet(OFFSETS, again), ops.PartitionsSet(again, range(1), [[1]], [[1]]))
    lab.settle()
    image = lab.broker(2).cache.image
    snapshot = SnapshotId(image.next_offset, 1)
    load_into(lab.broker(1), b"".join(encode(image.pin(), 1, 2, lab.now.wall_ms, None)), snapshot)
    lab.seen[1] = len(lab.log)
    lab.cut = set()
    lab.pass_ms(500)
    assert committed(lab) == -1
    later = commit(lab, 7)
    lab.settle()
    assert later.done and committed(lab) == 7
