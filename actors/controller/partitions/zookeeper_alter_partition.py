"""AlterPartition (56) of Apache Kafka's brokers in ZooKeeper mode, which 2.8 called AlterIsr: versions 0 to 3.

`alter_isr.py` alone decides what is granted; this file decides how such a broker's request becomes one of KIP-497, and how
the answer is written. Rules:

1. The leader commits an ISR from the answer, so it has the partition's leader, its leader epoch, its ISR and its partition
   epoch after the change.
2. At levels 1 and 2 that leader epoch is a new one (A33). Then the leader waits for the LeaderAndIsr that follows, and
   counts both ISRs meanwhile.
3. Versions 0 and 1 name topics, 2 and later their ids. A member that may not join is INELIGIBLE_REPLICA from version 2 on,
   and UNKNOWN_TOPIC_ID stands for a topic that is not there.
4. The epoch of a broker in the ISR may be left out (-1, KIP-903).
5. 2.8 comes to a stop over an error that it does not know: it asks again before it has taken back what it asked, fails,
   and takes the member for one that is about to join until it is told of another leader epoch. So before version 2 a
   member that may not join ends in a new leader epoch for the same leader and ISR (`anew`).
"""

from typing import TYPE_CHECKING, Any

from actors.controller.partitions.alter_isr import alter_isr, is_ahead
from actors.controller.partitions.leader_election import PartitionChange
from actors.controller.partitions.partition_changes import changed
from actors.controller.state import Result, State
from actors.metadata.image import Image
from actors.ports import Now, Random
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.kip631 import AlterIsrRequest, AlterIsrResponse
    from actors.wire.schemas.rpc import AlterPartitionRequest, AlterPartitionResponse

IDS_FROM = 2
NEWER = {
    ErrorCode.INVALID_REQUEST: ErrorCode.INELIGIBLE_REPLICA,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_ID,
}
"""The new name, from version `IDS_FROM` on, of an error of a partition."""
CODES = {int(code): code for code in ErrorCode}


class AlterPartition:
    """The operation for requests of one version."""

    def __init__(self, version: int, anew: bool = False) -> None:
        """`version` is that of the request. `anew`: if a member may not join, the leader begins anew under another
        leader epoch."""
        self._by_id = version >= IDS_FROM
        self._anew = anew

    def __call__(self, state: State, request: "AlterPartitionRequest", now: Now, random: Random) -> Result:
        """Carry out an AlterPartitionRequest. Errors: top level 41, 77; by partition 3, 42, 74, 95, 100, 107."""
        kind = message("AlterPartitionResponse")
        result = alter_isr(state, self._asked(state.image, request), now, random)
        if result.reply.error_code:
            return Result((), kind(error_code=result.reply.error_code))
        after = {(one.topic_id, one.number): one for op in result.ops for one in op}
        topics = []
        stopped: dict[int, PartitionChange] = {}
        for topic, answered in zip(_merged(request, self._by_id), result.reply.topics, strict=True):
            row, topic_id = self._topic(state.image, topic)
            partitions = []
            for one in answered.partitions:
                part = state.image.partition(row, one.partition_id) if row >= 0 else -1
                if self._anew and one.error_code == ErrorCode.INVALID_REQUEST:
                    one.error_code = int(ErrorCode.FENCED_LEADER_EPOCH)
                    if (topic_id, one.partition_id) not in after and state.image.leader(part) == request.broker_id:
                        stopped[part] = PartitionChange(part, tuple(state.image.isr(part)), request.broker_id)
                partitions.append(self._answer(kind, state.image, part, after.get((topic_id, one.partition_id)), one))
            topics.append(kind.TopicData(topic_name=topic.topic_name, topic_id=topic.topic_id, partitions=partitions))
        return Result([*result.ops, *changed(state, list(stopped.values()))], kind(topics=topics))

    def _asked(self, image: Image, request: "AlterPartitionRequest") -> "AlterIsrRequest":
        """The request in KIP-497's layout."""
        kind = message("AlterIsrRequest")
        topics = []
        for topic in _merged(request, self._by_id):
            row, topic_id = self._topic(image, topic)
            name = image.topic_name(row) if row >= 0 else topic.topic_name
            partitions = [_proposal(kind, request.broker_id, one) for one in topic.partitions]
            topics.append(kind.TopicData(topic=name, topic_id=topic_id, partitions=partitions))
        return kind(broker_id=request.broker_id, broker_epoch=request.broker_epoch, topics=topics)

    def _topic(self, image: Image, topic: "AlterPartitionRequest.TopicData") -> tuple[int, bytes]:
        """(row or -1, topic id) of the topic that an entry names."""
        row = image.topic_by_id(topic.topic_id) if self._by_id else image.topic(topic.topic_name)
        return row, (image.topic_id(row) or b"") if row >= 0 else topic.topic_id

    def _answer(
        self,
        kind: "type[AlterPartitionResponse]",
        image: Image,
        row: int,
        changed: Any,
        answered: "AlterIsrResponse.PartitionData",
    ) -> "AlterPartitionResponse.PartitionData":
        code = CODES[answered.error_code]
        answer = kind.PartitionData(partition_index=answered.partition_id)
        if code is not ErrorCode.NONE:
            answer.error_code = int(NEWER.get(code, code) if self._by_id else code)
            return answer
        answer.leader_id = image.leader(row) if changed is None else changed.leader
        answer.leader_epoch = image.leader_epoch(row) if changed is None else changed.leader_epoch
        answer.partition_epoch = image.partition_epoch(row) if changed is None else changed.partition_epoch
        answer.isr = list(image.isr(row) if changed is None else changed.isr)
        return answer


def legacy_knows_more(
    image: Image, topic: "AlterPartitionRequest.TopicData", entry: "AlterPartitionRequest.PartitionData"
) -> bool:
    """Whether the sender of this proposal has seen a newer state of the partition than `image` has."""
    topic_row = image.topic(topic.topic_name) if topic.topic_name else image.topic_by_id(topic.topic_id)
    row = image.partition(topic_row, entry.partition_index) if topic_row >= 0 else -1
    return row >= 0 and is_ahead(image, row, entry.leader_epoch, entry.partition_epoch)


def _merged(request: "AlterPartitionRequest", by_id: bool) -> list["AlterPartitionRequest.TopicData"]:
    """The topics of a request, each once, whether named by name or by id."""
    kind = message("AlterPartitionRequest").TopicData
    merged: dict[Any, Any] = {}
    for topic in request.topics:
        key = topic.topic_id if by_id else topic.topic_name
        if key in merged:
            topic = kind(
                topic_name=topic.topic_name,
                topic_id=topic.topic_id,
                partitions=[*merged[key].partitions, *topic.partitions],
            )
        merged[key] = topic
    return list(merged.values())


def _proposal(
    kind: "type[AlterIsrRequest]", sender: int, one: "AlterPartitionRequest.PartitionData"
) -> "AlterIsrRequest.PartitionData":
    members = one.new_isr_with_epochs
    return kind.PartitionData(
        partition_id=one.partition_index,
        leader=sender,
        leader_epoch=one.leader_epoch,
        isr=[member.broker_id for member in members] if members else list(one.new_isr),
        current_zk_version=one.partition_epoch,
        isr_broker_epochs=[member.broker_epoch for member in members],
    )
