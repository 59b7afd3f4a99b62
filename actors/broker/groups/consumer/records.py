"""The state of a consumer group as records of `__consumer_offsets`, in Apache Kafka's own format (KIP-848).

A group is many records, each of which holds one thing under a key of its own: this file alone decides which. Key: int16
kind, the group, and what the kind needs besides. Value: int16 version, then fields. A null value removes. What a record
says now follows from the group and its key (`record`), so whoever changes a group names keys and nothing else.

Values of later versions cannot be read: WireError, and the coordinator leaves such a group alone.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from actors.broker.coordinators.coordination import Record
from actors.broker.groups.consumer.state import (
    FIRST_EPOCH,
    NOTHING,
    ClassicMember,
    ConsumerGroup,
    Current,
    Held,
    Member,
    MemberState,
    Resolved,
    Subscription,
    Target,
)
from actors.broker.groups.records import GroupLine
from actors.wire.errors import WireError
from actors.wire.messages import decode, encode, message

if TYPE_CHECKING:
    from actors.wire.schemas.group import (
        ConsumerGroupCurrentMemberAssignmentValue,
        ConsumerGroupMemberMetadataValue,
        ConsumerGroupTargetAssignmentMemberValue,
    )

CLASSIC, GROUP, PARTITIONS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX = 2, 3, 4, 5, 6, 7, 8, 16
"""The kinds of records. CLASSIC is that of a classic group of the name, which is only ever removed here."""
KEYS = {
    CLASSIC: ("group:GroupMetadataKey", ""),
    GROUP: ("group:ConsumerGroupMetadataKey", ""),
    PARTITIONS: ("group:ConsumerGroupPartitionMetadataKey", ""),
    MEMBER: ("group:ConsumerGroupMemberMetadataKey", "member_id"),
    TARGET_EPOCH: ("group:ConsumerGroupTargetAssignmentMetadataKey", ""),
    TARGET: ("group:ConsumerGroupTargetAssignmentMemberKey", "member_id"),
    CURRENT: ("group:ConsumerGroupCurrentMemberAssignmentKey", "member_id"),
    REGEX: ("group:ConsumerGroupRegularExpressionKey", "regular_expression"),
}
"""The schema of the key of each kind of record, and the field that stands in it beside the group."""
VALUES = {
    GROUP: "group:ConsumerGroupMetadataValue",
    PARTITIONS: "group:ConsumerGroupPartitionMetadataValue",
    MEMBER: "group:ConsumerGroupMemberMetadataValue",
    TARGET_EPOCH: "group:ConsumerGroupTargetAssignmentMetadataValue",
    TARGET: "group:ConsumerGroupTargetAssignmentMemberValue",
    CURRENT: "group:ConsumerGroupCurrentMemberAssignmentValue",
    REGEX: "group:ConsumerGroupRegularExpressionValue",
}
VERSION = 0
"""The version of all values."""
STATES = {state.value: state for state in MemberState}


class RecordKey(NamedTuple):
    """The key of a record inside its group. `name`: the member, or the regular expression, where the kind has one."""

    kind: int
    name: str = ""


def key_bytes(group: str, key: RecordKey) -> bytes:
    """The key of a record."""
    schema, field = KEYS[key.kind]
    given = {schema_field: text for schema_field, text in ((field, key.name),) if schema_field}
    group_field = "group" if key.kind == CLASSIC else "group_id"
    return key.kind.to_bytes(2, "big") + encode(message(schema)(**{group_field: group}, **given), 0)


def key_of(key: bytes) -> RecordKey:
    """The kind and the name in the key of a record. Raises WireError."""
    number = int.from_bytes(key[:2], "big")
    return RecordKey(CLASSIC) if number == CLASSIC else read(number, key, None).key


def record(group: ConsumerGroup, key: RecordKey) -> Record:
    """The record of a key as the group is now: a value, or a removal where the group has nothing of the kind."""
    fields = None if group.gone else _fields(group, key)
    value = None
    if fields is not None:
        value = VERSION.to_bytes(2, "big") + encode(message(VALUES[key.kind])(**fields), VERSION)
    return key_bytes(group.id, key), value


def keys(group: ConsumerGroup) -> list[RecordKey]:
    """Every key of which the log may have a value, in the order in which they are removed: the group's own last."""
    found = [RecordKey(kind, id) for kind in (CURRENT, TARGET, MEMBER) for id in group.members]
    found += [RecordKey(REGEX, regex) for regex in group.resolved]
    if group.has_partition_metadata:
        found.append(RecordKey(PARTITIONS))
    return [*found, RecordKey(TARGET_EPOCH), RecordKey(GROUP)]


def read(kind: int, key: bytes, value: bytes | None) -> GroupLine:
    """Decode a record of a kind out of VALUES. Raises WireError: its key is damaged, or its value cannot be read; the
    two differ in that `group_of` can tell the group of the second."""
    schema, field = KEYS[kind]
    named, end = decode(schema, 0, memoryview(key), 2)
    if end != len(key):
        raise WireError(schema, f"has {len(key) - end} bytes behind its end", end)
    name = RecordKey(kind, getattr(named, field) if field else "")
    if value is None:
        return GroupLine(named.group_id, name, None)
    version = int.from_bytes(value[:2], "big")
    data, _ = decode(VALUES[kind], version, memoryview(value), 2)
    return GroupLine(named.group_id, name, data)


def replay(group: ConsumerGroup, key: RecordKey, data: Any) -> None:
    """Take in the record of a key. Nothing is derived: see `ConsumerGroup.index`."""
    if key.kind in (MEMBER, CURRENT):
        _replay_member(group, key, data)
    elif key.kind == GROUP:
        group.epoch = data.epoch if data is not None else FIRST_EPOCH
        group.metadata_hash = data.metadata_hash if data is not None else 0
    elif key.kind == PARTITIONS:
        group.has_partition_metadata = data is not None
    elif key.kind == TARGET_EPOCH:
        group.target_epoch = data.assignment_epoch if data is not None else FIRST_EPOCH
        group.target_wall_ms = data.assignment_timestamp if data is not None else 0
    elif key.kind == TARGET:
        if data is None:
            group.targets.pop(key.name, None)
        else:
            group.targets[key.name] = {one.topic_id: frozenset(one.partitions) for one in data.topic_partitions}
    elif data is None:
        group.resolved.pop(key.name, None)
    else:
        group.resolved[key.name] = Resolved(frozenset(data.topics), data.version, data.timestamp)


def _replay_member(group: ConsumerGroup, key: RecordKey, data: Any) -> None:
    if data is None and key.kind == MEMBER:
        group.members.pop(key.name, None)
        return
    member = group.members.get(key.name)
    if member is None:
        if data is None:
            return
        member = group.members[key.name] = Member(key.name)
    if key.kind == MEMBER:
        member.subscription = _subscription(data)
    elif data is None:
        member.current = Member(key.name).current
    else:
        member.current = Current(
            data.member_epoch,
            data.previous_member_epoch,
            STATES.get(data.state, MemberState.UNKNOWN),
            _held(data.assigned_partitions, data.member_epoch),
            _held(data.partitions_pending_revocation, data.member_epoch),
        )


def _subscription(data: "ConsumerGroupMemberMetadataValue") -> Subscription:
    classic = data.classic_member_metadata
    return Subscription(
        data.instance_id,
        data.rack_id,
        data.client_id,
        data.client_host,
        tuple(sorted(set(data.subscribed_topic_names))),
        data.subscribed_topic_regex or "",
        data.rebalance_timeout_ms,
        data.server_assignor,
        None
        if classic is None or not classic.supported_protocols  # what stands for a field that is not there
        else ClassicMember(
            classic.session_timeout_ms, tuple((one.name, bytes(one.metadata)) for one in classic.supported_protocols)
        ),
    )


def _held(topics: Any, epoch: int) -> Held:
    """The partitions of a record by topic id. `epoch`: the member's, where Kafka before 4.3 has written no other."""
    held: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [epoch] * len(topic.partitions)
        if topic.partitions:
            held[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return held or NOTHING


def _fields(group: ConsumerGroup, key: RecordKey) -> dict[str, Any] | None:
    """The fields of a key's value; None: there is none."""
    if key.kind == GROUP:
        return {"epoch": group.epoch, "metadata_hash": group.metadata_hash}
    if key.kind == TARGET_EPOCH:
        return {"assignment_epoch": group.target_epoch, "assignment_timestamp": group.target_wall_ms}
    if key.kind == REGEX:
        found = group.resolved.get(key.name)
        if found is None:
            return None
        return {"topics": sorted(found.topics), "version": found.version, "timestamp": found.wall_ms}
    member = group.members.get(key.name)
    if member is None or key.kind in (CLASSIC, PARTITIONS):
        return None
    if key.kind == MEMBER:
        return _member_fields(member.subscription)
    if key.kind == TARGET:
        target = group.targets.get(key.name)
        return None if target is None else {"topic_partitions": _target_fields(target)}
    current = member.current
    return {
        "member_epoch": current.epoch,
        "previous_member_epoch": current.previous_epoch,
        "state": int(current.state),
        "assigned_partitions": _held_fields(current.assigned),
        "partitions_pending_revocation": _held_fields(current.revoking),
    }


def _member_fields(told: Subscription) -> dict[str, Any]:
    kind = message(VALUES[MEMBER])
    classic = None
    if told.classic is not None:
        classic = kind.ClassicMemberMetadata(
            session_timeout_ms=told.classic.session_timeout_ms,
            supported_protocols=[
                kind.ClassicProtocol(name=name, metadata=metadata) for name, metadata in told.classic.protocols
            ],
        )
    return {
        "instance_id": told.instance_id,
        "rack_id": told.rack_id,
        "client_id": told.client_id,
        "client_host": told.client_host,
        "subscribed_topic_names": list(told.topics),
        "subscribed_topic_regex": told.regex,
        "rebalance_timeout_ms": told.rebalance_timeout_ms,
        "server_assignor": told.assignor,
        "classic_member_metadata": classic,
    }


def _target_fields(target: Target) -> list["ConsumerGroupTargetAssignmentMemberValue.TopicPartition"]:
    kind = message(VALUES[TARGET])
    return [
        kind.TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
        for topic_id, partitions in sorted(target.items())
    ]


def _held_fields(held: Held) -> list["ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions"]:
    kind = message(VALUES[CURRENT])
    return [
        kind.TopicPartitions(
            topic_id=topic_id,
            partitions=sorted(partitions),
            assignment_epochs=[partitions[number] for number in sorted(partitions)],
        )
        for topic_id, partitions in sorted(held.items())
    ]
