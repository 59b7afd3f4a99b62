"""A classic group as a record of `__consumer_offsets`, in Apache Kafka's own format: one record holds the group with its
members and their assignments. Key: int16 2, the group. It is written in version 3.
"""

from actors.broker.coordinators.coordination import Record
from actors.broker.groups.classic.state import Group, GroupState, Member
from actors.broker.groups.records import GroupLine, version, versioned
from actors.wire.messages import decode, message

GROUP_KEY, GROUP_VALUE = 2, 3


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
    return group_key(group.id), versioned(
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
    return versioned(GROUP_KEY, "group:GroupMetadataKey", 0, group=id)


def read(number: int, key: bytes, value: bytes | None) -> GroupLine:
    """Decode a group's record; `data` of the line is a `Group`. Raises WireError."""
    id = decode("group:GroupMetadataKey", 0, memoryview(key), 2)[0].group
    return GroupLine(id, number, None if value is None else _group(id, value))


def _group(id: str, value: bytes) -> Group:
    data, _ = decode("group:GroupMetadataValue", version(value), memoryview(value), 2)
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
        group.remove(member.id)  # of two entries of one id in a damaged record the last counts
        group.add(member)
    group.protocol_type = data.protocol_type or None
    if group.members:
        group.leader = data.leader if data.leader in group.members else next(iter(group.members))
        group.state = GroupState.STABLE
    return group
