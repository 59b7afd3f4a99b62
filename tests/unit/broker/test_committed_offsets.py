"""What a group has committed, as its coordinator tells it while the partition under it changes."""

from actors.metadata import ops
from actors.wire.messages import message
from tests.unit.broker.lab import Lab, Pending

OFFSETS = "__consumer_offsets"
OFFSETS_ID = b"\5" * 16


def coordinated() -> Lab:
    lab = Lab(2, {"offsets.topic.num.partitions": "1"})
    lab.topic([1, 2])
    lab.topic([1, 2], OFFSETS, OFFSETS_ID)
    return lab


def commit(lab: Lab, offset: int) -> Pending:
    kind = message("OffsetCommitRequest")
    partition = kind.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = kind.OffsetCommitRequestTopic(name="t", partitions=[partition])
    return lab.call(1, "OffsetCommit", 8, kind(group_id="g", generation_id_or_member_epoch=-1, topics=[topic]))


def committed(lab: Lab) -> int:
    kind = message("OffsetFetchRequest")
    topic = kind.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    reply = lab.call(1, "OffsetFetch", 7, kind(group_id="g", topics=[topic])).reply
    assert reply.error_code == 0
    return int(reply.topics[0].partitions[0].committed_offset)


def test_of_two_commits_the_later_one_stands_when_the_isr_shrinks_between_them() -> None:
    lab = coordinated()
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
