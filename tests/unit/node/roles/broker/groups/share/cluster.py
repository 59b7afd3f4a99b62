"""Brokers with share groups, and members that are requests."""

from collections.abc import Sequence
from typing import Any

from actors.metadata import ops
from actors.metadata.topic_names import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab

IDS = {OFFSETS_TOPIC: b"\5" * 16, SHARE_STATE_TOPIC: b"\x08" * 16}
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.share.assignment.interval.ms": "0",
    "group.share.initialize.retry.interval.ms": "30000",
}
SESSION_MS = 45_000


def made(brokers: int = 2, partitions: int = 2, version: int = 1, **settings: str) -> Lab:
    """Broker 1 leads `__consumer_offsets`, the last one `__share_group_state` and the topic t."""
    found = Lab(brokers, SETTINGS | {name.replace("_", "."): value for name, value in settings.items()})
    if version:
        found.commit(ops.FeatureSet("share.version", version))
    everybody = list(range(1, brokers + 1))
    found.topic(everybody, OFFSETS_TOPIC, IDS[OFFSETS_TOPIC])
    found.topic(everybody[::-1], SHARE_STATE_TOPIC, IDS[SHARE_STATE_TOPIC])
    found.topic(everybody[::-1], partitions=partitions)
    return found


class Member:
    """One member. What it has is what it was told last."""

    def __init__(self, lab: Lab, id: str, topics: Sequence[str] = ("t",), group: str = "g") -> None:
        self.lab = lab
        self.id = id
        self.group = group
        self.topics = list(topics)
        self.epoch = 0
        self.interval_ms = 0
        self.assigned: dict[bytes, list[int]] = {}

    def beat(self, epoch: int | None = None, topics: Sequence[str] | None = None, **fields: Any) -> Any:
        """One heartbeat; the answer."""
        chosen = self.epoch if epoch is None else epoch
        if chosen == 0 and topics is None:
            topics = self.topics
        request = message("ShareGroupHeartbeatRequest")(
            **{
                "group_id": self.group,
                "member_id": self.id,
                "member_epoch": chosen,
                "subscribed_topic_names": None if topics is None else list(topics),
                **fields,
            }
        )
        reply = call(self.lab, "ShareGroupHeartbeat", 1, request)
        if reply.error_code == 0 and chosen >= 0:
            self.epoch, self.interval_ms = reply.member_epoch, reply.heartbeat_interval_ms
            if reply.assignment is not None:
                self.assigned = {one.topic_id: one.partitions for one in reply.assignment.topic_partitions}
        return reply

    def settle(self, beats: int = 8) -> dict[bytes, list[int]]:
        """Go on as it is told until nothing is expected any more; what it has."""
        self.beat()
        for _ in range(beats):
            if self.interval_ms >= 1_000:
                break
            self.lab.pass_ms(self.interval_ms)
            self.beat()
        return self.assigned

    def leave(self) -> ErrorCode:
        return ErrorCode(self.beat(epoch=-1).error_code)


def call(lab: Lab, name: str, version: int, request: Any, broker: int = 1, ms: int = 4_000) -> Any:
    """The answer of a broker."""
    pending = lab.call(broker, name, version, request)
    for _ in range(ms // 50):
        if pending.done:
            return pending.reply
        lab.settle()
        if not pending.done:
            lab.pass_ms(50)
    raise AssertionError(f"{name} is not answered")


def described(lab: Lab, group: str = "g") -> Any:
    """What ShareGroupDescribe says of a group."""
    (found,) = call(lab, "ShareGroupDescribe", 1, message("ShareGroupDescribeRequest")(group_ids=[group])).groups
    return found


def offsets(lab: Lab, group: str = "g", version: int = 1, topics: Any = None) -> dict[tuple[str, int], tuple[int, int]]:
    """(topic, partition) -> (start offset, lag), as DescribeShareGroupOffsets says."""
    kind = message("DescribeShareGroupOffsetsRequest")
    asked = kind.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics)
    (found,) = call(lab, "DescribeShareGroupOffsets", version, kind(groups=[asked])).groups
    assert found.error_code == 0, found.error_message
    return {
        (topic.topic_name, one.partition_index): (one.start_offset, one.lag)
        for topic in found.topics
        for one in topic.partitions
    }


def all_of(*numbers: int, topic_id: bytes = TOPIC_ID) -> dict[bytes, list[int]]:
    """An assignment."""
    return {topic_id: list(numbers)} if numbers else {}
