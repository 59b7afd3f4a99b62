"""The state of a share group as records of `__consumer_offsets`, in Apache Kafka's own format (KIP-932).

A group is many records, each of which holds one thing under a key of its own: this file alone decides which. Key: int16
kind, the group, and the member where the kind has one. Value: int16 version, then fields. A null value removes. What a
record says now follows from the group and its key (`record`), so whoever changes a group names keys and nothing else.

Values of later versions cannot be read: WireError, and the coordinator leaves such a group alone.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.broker.coordinators.coordination import Record
from actors.broker.groups.records import GroupLine, version, versioned
from actors.broker.groups.share.state import (
    FIRST_EPOCH,
    NOTHING,
    STABLE,
    Begun,
    Member,
    ShareGroup,
    Subscription,
    Target,
)
from actors.wire.errors import WireError
from actors.wire.messages import decode, message

if TYPE_CHECKING:
    from actors.wire.schemas.group import (
        ShareGroupCurrentMemberAssignmentValue,
        ShareGroupMemberMetadataValue,
        ShareGroupMetadataValue,
        ShareGroupStatePartitionMetadataValue,
        ShareGroupTargetAssignmentMemberValue,
        ShareGroupTargetAssignmentMetadataValue,
    )

MEMBER, GROUP, TARGET_EPOCH, TARGET, CURRENT, STATE = 10, 11, 12, 13, 14, 15
"""The kinds of records. STATE: which share partitions have begun."""
NAMES = {
    MEMBER: "ShareGroupMemberMetadata",
    GROUP: "ShareGroupMetadata",
    TARGET_EPOCH: "ShareGroupTargetAssignmentMetadata",
    TARGET: "ShareGroupTargetAssignmentMember",
    CURRENT: "ShareGroupCurrentMemberAssignment",
    STATE: "ShareGroupStatePartitionMetadata",
}
"""The name of the schemas of each kind of record, to which Key or Value is added."""
OF_MEMBERS = (MEMBER, TARGET, CURRENT)
VERSION = 0
"""The version of all values."""


class RecordKey(NamedTuple):
    """The key of a record inside its group. `name`: the member, where the kind has one."""

    kind: int
    name: str = ""


def key_bytes(group: str, key: RecordKey) -> bytes:
    """The key of a record."""
    given = {"member_id": key.name} if key.kind in OF_MEMBERS else {}
    return versioned(key.kind, f"group:{NAMES[key.kind]}Key", 0, group_id=group, **given)


def record(group: ShareGroup, key: RecordKey) -> Record:
    """The record of a key as the group is now: a value, or a removal where the group has nothing of the kind."""
    fields = None if group.gone else _FIELDS[key.kind](group, key.name)
    value = None
    if fields is not None:
        value = versioned(VERSION, f"group:{NAMES[key.kind]}Value", VERSION, **fields)
    return key_bytes(group.id, key), value


def keys(group: ShareGroup) -> list[RecordKey]:
    """Every key of which the log may have a value, in the order in which they are removed: the group's own last."""
    found = [RecordKey(kind, id) for kind in (CURRENT, TARGET, MEMBER) for id in group.members]
    return [*found, RecordKey(TARGET_EPOCH), RecordKey(STATE), RecordKey(GROUP)]


def read(kind: int, key: bytes, value: bytes | None) -> GroupLine:
    """Decode a record. Raises WireError: its key is damaged, or its value cannot be read."""
    schema = f"group:{NAMES[kind]}Key"
    named, end = decode(schema, 0, memoryview(key), 2)
    if end != len(key):
        raise WireError(schema, f"has {len(key) - end} bytes behind its end", end)
    name = RecordKey(kind, named.member_id if kind in OF_MEMBERS else "")
    if value is None:
        return GroupLine(named.group_id, name, None)
    data, _ = decode(f"group:{NAMES[kind]}Value", version(value), memoryview(value), 2)
    return GroupLine(named.group_id, name, data)


def replay(group: ShareGroup, key: RecordKey, data: Any) -> None:
    """Take in the record of a key. Nothing is derived: see `ShareGroup.index`."""
    _REPLAY[key.kind](group, key.name, data)


# ---- replay


def _replay_group(group: ShareGroup, name: str, data: "ShareGroupMetadataValue | None") -> None:
    group.epoch = data.epoch if data is not None else FIRST_EPOCH
    group.metadata_hash = data.metadata_hash if data is not None else 0


def _replay_target_epoch(group: ShareGroup, name: str, data: "ShareGroupTargetAssignmentMetadataValue | None") -> None:
    group.target_epoch = data.assignment_epoch if data is not None else FIRST_EPOCH
    group.target_wall_ms = data.assignment_timestamp if data is not None else 0


def _replay_target(group: ShareGroup, name: str, data: "ShareGroupTargetAssignmentMemberValue | None") -> None:
    if data is None:
        group.targets.pop(name, None)
    else:
        group.targets[name] = _partitions(data.topic_partitions)


def _replay_member(group: ShareGroup, name: str, data: "ShareGroupMemberMetadataValue | None") -> None:
    if data is None:
        group.members.pop(name, None)
    else:
        member = group.members.setdefault(name, Member(name))
        topics = tuple(sorted(set(data.subscribed_topic_names)))
        member.subscription = Subscription(data.rack_id, data.client_id, data.client_host, topics)


def _replay_current(group: ShareGroup, name: str, data: "ShareGroupCurrentMemberAssignmentValue | None") -> None:
    if data is None:
        member = group.members.get(name)
        if member is not None:
            member.epoch, member.previous_epoch, member.assigned = 0, -1, NOTHING
        return
    member = group.members.setdefault(name, Member(name))
    member.epoch, member.previous_epoch = data.member_epoch, data.previous_member_epoch
    member.assigned = _partitions(data.assigned_partitions)


def _replay_state(group: ShareGroup, name: str, data: "ShareGroupStatePartitionMetadataValue | None") -> None:
    group.initializing = {} if data is None else _begun(data.initializing_topics)
    group.initialized = {} if data is None else _begun(data.initialized_topics)
    group.deleting = {} if data is None else {bytes(one.topic_id): one.topic_name for one in data.deleting_topics}


_REPLAY: dict[int, Callable[[ShareGroup, str, Any], None]] = {
    MEMBER: _replay_member,
    GROUP: _replay_group,
    TARGET_EPOCH: _replay_target_epoch,
    TARGET: _replay_target,
    CURRENT: _replay_current,
    STATE: _replay_state,
}


def _partitions(topics: Any) -> Target:
    return {bytes(one.topic_id): frozenset(one.partitions) for one in topics if one.partitions}


def _begun(topics: Any) -> dict[bytes, Begun]:
    return {bytes(one.topic_id): Begun(one.topic_name, frozenset(one.partitions)) for one in topics if one.partitions}


# ---- what a record says


def _group(group: ShareGroup, name: str) -> dict[str, Any]:
    return {"epoch": group.epoch, "metadata_hash": group.metadata_hash}


def _target_epoch(group: ShareGroup, name: str) -> dict[str, Any]:
    return {"assignment_epoch": group.target_epoch, "assignment_timestamp": group.target_wall_ms}


def _target(group: ShareGroup, name: str) -> dict[str, Any] | None:
    target = group.targets.get(name)
    if target is None:
        return None
    kind = message("group:ShareGroupTargetAssignmentMemberValue").TopicPartition
    return {"topic_partitions": _topics(kind, target)}


def _member(group: ShareGroup, name: str) -> dict[str, Any] | None:
    member = group.members.get(name)
    if member is None:
        return None
    told = member.subscription
    return {
        "rack_id": told.rack_id,
        "client_id": told.client_id,
        "client_host": told.client_host,
        "subscribed_topic_names": list(told.topics),
    }


def _current(group: ShareGroup, name: str) -> dict[str, Any] | None:
    member = group.members.get(name)
    if member is None:
        return None
    kind = message("group:ShareGroupCurrentMemberAssignmentValue").TopicPartitions
    return {
        "member_epoch": member.epoch,
        "previous_member_epoch": member.previous_epoch,
        "state": STABLE,
        "assigned_partitions": _topics(kind, member.assigned),
    }


def _state(group: ShareGroup, name: str) -> dict[str, Any] | None:
    if not (group.initializing or group.initialized or group.deleting):
        return None
    kind = message("group:ShareGroupStatePartitionMetadataValue")

    def infos(topics: Mapping[bytes, Begun]) -> list["ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo"]:
        return [
            kind.TopicPartitionsInfo(topic_id=id, topic_name=begun.name, partitions=sorted(begun.partitions))
            for id, begun in sorted(topics.items())
        ]

    return {
        "initializing_topics": infos(group.initializing),
        "initialized_topics": infos(group.initialized),
        "deleting_topics": [
            kind.TopicInfo(topic_id=id, topic_name=name) for id, name in sorted(group.deleting.items())
        ],
    }


_FIELDS: dict[int, Callable[[ShareGroup, str], dict[str, Any] | None]] = {
    MEMBER: _member,
    GROUP: _group,
    TARGET_EPOCH: _target_epoch,
    TARGET: _target,
    CURRENT: _current,
    STATE: _state,
}


def _topics(
    kind: Any, target: Target
) -> list[
    "ShareGroupCurrentMemberAssignmentValue.TopicPartitions | ShareGroupTargetAssignmentMemberValue.TopicPartition"
]:
    return [kind(topic_id=topic_id, partitions=sorted(partitions)) for topic_id, partitions in sorted(target.items())]
