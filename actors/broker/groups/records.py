"""Group state as records of `__consumer_offsets`, in Apache Kafka's own format.

Key: int16 version, then fields. Version 1: an offset (group, topic, partition). Version 2: a classic group. The kinds of a
consumer group of KIP-848 are in `consumer/records.py`. A group's name comes first in every kind, those of other protocols
included (KIP-932 share groups).
Value: int16 version, then fields. Offsets are written in version 3, groups in version 3. A null value removes.

Other kinds, values of other versions, and damaged values are never replaced or removed: `ForeignLine` says so, and the
coordinator refuses to write anything of such a group.
"""

from typing import NamedTuple

from actors.broker.coordination import Record
from actors.broker.groups.consumer import records as consumer
from actors.broker.groups.state import Group, GroupState, Member
from actors.wire.errors import WireError
from actors.wire.messages import decode, encode, message

OFFSET_KEY, OFFSET_VALUE = 1, 3
OFFSET_KEYS = (0, OFFSET_KEY)
"""Very old versions of Apache Kafka wrote the first."""
GROUP_KEY, GROUP_VALUE = 2, 3


class CommittedOffset(NamedTuple):
    """The offset that a group committed for one partition. `wall_ms`: when; `leader_epoch`: -1: unknown."""

    offset: int
    leader_epoch: int
    metadata: str
    wall_ms: int


class OffsetLine(NamedTuple):
    """A decoded offset record. `committed` None: the offset was removed."""

    group: str
    topic: str
    partition: int
    committed: CommittedOffset | None


class GroupLine(NamedTuple):
    """A decoded group record. `group` None: the group was removed."""

    id: str
    group: Group | None


class ForeignLine(NamedTuple):
    """A record that cannot be read here, by what can be read of its key. `removed`: its removal. `offset`: of which topic
    and partition, where it is one. `why`: a sentence."""

    group: str
    key: bytes
    removed: bool
    offset: tuple[str, int] | None
    why: str


def offset_record(group: str, topic: str, partition: int, committed: CommittedOffset | None) -> Record:
    """The record of an offset, or of its removal."""
    key = _versioned(OFFSET_KEY, "group:OffsetCommitKey", 0, group=group, topic=topic, partition=partition)
    if committed is None:
        return key, None
    return key, _versioned(
        OFFSET_VALUE,
        "group:OffsetCommitValue",
        OFFSET_VALUE,
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.wall_ms,
    )


def group_record(group: Group) -> Record:
    """The record of a group with its members and their assignments."""
    Value = message("group:GroupMetadataValue")
    members = [
        Value.MemberMetadata(
            member_id=member.id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(group.protocol),
            assignment=member.assignment,
        )
        for member in group.members.values()
    ]
    return group_key(group.id), _versioned(
        GROUP_VALUE,
        "group:GroupMetadataValue",
        GROUP_VALUE,
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=group.state_wall_ms,
        members=members,
    )


def group_key(id: str) -> bytes:
    """The key of a group's record. With a null value it removes the group."""
    return _versioned(GROUP_KEY, "group:GroupMetadataKey", 0, group=id)


def read(key: bytes | None, value: bytes | None) -> OffsetLine | GroupLine | ForeignLine | consumer.Line | None:
    """Decode a record. None for one that names no group. Raises WireError on a damaged key of a kind that is known."""
    if key is None or len(key) < 2:
        return None
    kind = int.from_bytes(key[:2], "big")
    if kind in OFFSET_KEYS:
        name, _ = decode("group:OffsetCommitKey", 0, memoryview(key), 2)
        place = name.topic, name.partition
        if value is None:
            return OffsetLine(name.group, *place, None)
        try:
            data, _ = decode("group:OffsetCommitValue", _version(value), memoryview(value), 2)
        except WireError as error:
            return ForeignLine(name.group, key, False, place, f"an offset of group {name.group!r}: {error}")
        committed = CommittedOffset(data.offset, data.leader_epoch, data.metadata, data.commit_timestamp)
        return OffsetLine(name.group, *place, committed)
    try:
        id = decode("group:GroupMetadataKey", 0, memoryview(key), 2)[0].group
    except WireError:
        if kind == GROUP_KEY:
            raise
        return None
    if kind in consumer.VALUES:
        try:
            return consumer.read(kind, key, value)
        except WireError as error:
            return ForeignLine(id, key, value is None, None, f"consumer group {id!r}: {error}")
    if kind != GROUP_KEY:
        return ForeignLine(id, key, value is None, None, f"a record of kind {kind} of group {id!r}")
    try:
        return GroupLine(id, None if value is None else _group(id, value))
    except WireError as error:
        return ForeignLine(id, key, False, None, f"group {id!r}: {error}")


def _group(id: str, value: bytes) -> Group:
    data, _ = decode("group:GroupMetadataValue", _version(value), memoryview(value), 2)
    group = Group(id)
    group.generation = data.generation
    group.protocol = data.protocol
    group.state_wall_ms = data.current_state_timestamp
    for entry in data.members:
        member = Member(
            entry.member_id,
            entry.group_instance_id,
            entry.client_id,
            entry.client_host,
            entry.session_timeout if entry.rebalance_timeout < 0 else entry.rebalance_timeout,
            entry.session_timeout,
            data.protocol_type,
            [(data.protocol or "", entry.subscription)],
        )
        member.assignment = entry.assignment
        member.is_new = False
        group.add(member)
    group.protocol_type = data.protocol_type or None
    if group.members:
        group.leader = data.leader if data.leader in group.members else next(iter(group.members))
        group.state = GroupState.STABLE
    return group


def _version(value: bytes) -> int:
    return int.from_bytes(value[:2], "big")


def _versioned(version: int, name: str, schema_version: int, **fields: object) -> bytes:
    return version.to_bytes(2, "big") + encode(message(name)(**fields), schema_version)
