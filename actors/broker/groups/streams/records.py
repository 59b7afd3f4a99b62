"""The state of a streams group as records of `__consumer_offsets`, in Apache Kafka's own format (KIP-1071).

A group is many records, each of which holds one thing under a key of its own: this file alone decides which. Key: int16
kind, the group, and the member where the kind has one. Value: int16 version, then fields. A null value removes. What a
record says now follows from the group and its key (`record`), so whoever changes a group names keys and nothing else.

Values of later versions cannot be read: WireError, and the coordinator leaves such a group alone.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.broker.coordinators.coordination import Record
from actors.broker.groups.records import GroupLine
from actors.broker.groups.streams.answers import Endpoint, Tasks, TaskSets
from actors.broker.groups.streams.state import (
    FIRST_EPOCH,
    NEVER_VALID,
    NEW,
    Current,
    Description,
    Epochs,
    Member,
    MemberState,
    OwnedTasks,
    StreamsGroup,
)
from actors.broker.groups.streams.topology import Topic, Topology, topology
from actors.wire.errors import WireError
from actors.wire.messages import decode, encode, message

if TYPE_CHECKING:
    from actors.wire.schemas.group import (
        StreamsGroupCurrentMemberAssignmentValue,
        StreamsGroupMemberMetadataValue,
        StreamsGroupTargetAssignmentMemberValue,
        StreamsGroupTopologyValue,
    )

CLASSIC, GROUP, MEMBER, TARGET_EPOCH, TARGET, CURRENT, TOPOLOGY = 2, 17, 19, 20, 21, 22, 23
"""The kinds of records. CLASSIC is that of a classic group of the name, which is only ever removed here."""
KEYS = {
    CLASSIC: "group:GroupMetadataKey",
    GROUP: "group:StreamsGroupMetadataKey",
    MEMBER: "group:StreamsGroupMemberMetadataKey",
    TARGET_EPOCH: "group:StreamsGroupTargetAssignmentMetadataKey",
    TARGET: "group:StreamsGroupTargetAssignmentMemberKey",
    CURRENT: "group:StreamsGroupCurrentMemberAssignmentKey",
    TOPOLOGY: "group:StreamsGroupTopologyKey",
}
"""The schema of the key of each kind of record."""
VALUES = {
    GROUP: "group:StreamsGroupMetadataValue",
    MEMBER: "group:StreamsGroupMemberMetadataValue",
    TARGET_EPOCH: "group:StreamsGroupTargetAssignmentMetadataValue",
    TARGET: "group:StreamsGroupTargetAssignmentMemberValue",
    CURRENT: "group:StreamsGroupCurrentMemberAssignmentValue",
    TOPOLOGY: "group:StreamsGroupTopologyValue",
}
OF_MEMBERS = (CURRENT, TARGET, MEMBER)
"""The kinds of which each member has a record, in the order in which they are removed."""
VERSION = 0
"""The version of all values."""
STATES = {state.value: state for state in MemberState}


class RecordKey(NamedTuple):
    """The key of a record inside its group. `member`: "" where the kind has none."""

    kind: int
    member: str = ""


def key_bytes(group: str, key: RecordKey) -> bytes:
    """The key of a record."""
    fields = {"group" if key.kind == CLASSIC else "group_id": group}
    if key.kind in OF_MEMBERS:
        fields["member_id"] = key.member
    return key.kind.to_bytes(2, "big") + encode(message(KEYS[key.kind])(**fields), 0)


def record(group: StreamsGroup, key: RecordKey) -> Record:
    """The record of a key as the group is now: a value, or a removal where the group has nothing of the kind."""
    fields = None if group.gone else _fields(group, key)
    value = None
    if fields is not None:
        value = VERSION.to_bytes(2, "big") + encode(message(VALUES[key.kind])(**fields), VERSION)
    return key_bytes(group.id, key), value


def keys(group: StreamsGroup) -> list[RecordKey]:
    """Every key of which the log may have a value, in the order in which they are removed."""
    found = [RecordKey(kind, id) for kind in OF_MEMBERS for id in group.members]
    return [*found, RecordKey(TARGET_EPOCH), RecordKey(TOPOLOGY), RecordKey(GROUP)]


def read(kind: int, key: bytes, value: bytes | None) -> GroupLine:
    """Decode a record of a kind out of VALUES. Raises WireError: its key is damaged, or its value cannot be read."""
    named, end = decode(KEYS[kind], 0, memoryview(key), 2)
    if end != len(key):
        raise WireError(KEYS[kind], f"has {len(key) - end} bytes behind its end", end)
    name = RecordKey(kind, named.member_id if kind in OF_MEMBERS else "")
    if value is None:
        return GroupLine(named.group_id, name, None)
    data, _ = decode(VALUES[kind], int.from_bytes(value[:2], "big"), memoryview(value), 2)
    return GroupLine(named.group_id, name, data)


def replay(group: StreamsGroup, key: RecordKey, data: Any) -> None:
    """Take in the record of a key. Nothing is derived: see `StreamsGroup.index`."""
    if key.kind in (MEMBER, CURRENT):
        _replay_member(group, key, data)
    elif key.kind == GROUP:
        group.epoch = data.epoch if data is not None else FIRST_EPOCH
        group.metadata_hash = data.metadata_hash if data is not None else 0
        group.valid_epoch = data.validated_topology_epoch if data is not None else NEVER_VALID
        settings = (data.last_assignment_configs or ()) if data is not None else ()
        group.settings = tuple(sorted((one.key, one.value) for one in settings))
    elif key.kind == TOPOLOGY:
        group.topology = topology(data) if data is not None else None
    elif key.kind == TARGET_EPOCH:
        group.target_epoch = data.assignment_epoch if data is not None else FIRST_EPOCH
        group.target_wall_ms = data.assignment_timestamp if data is not None else 0
    elif data is None:
        group.targets.pop(key.member, None)
    else:
        group.targets[key.member] = Tasks(_sets(data.active_tasks), _sets(data.standby_tasks), _sets(data.warmup_tasks))


def _replay_member(group: StreamsGroup, key: RecordKey, data: Any) -> None:
    if data is None and key.kind == MEMBER:
        group.members.pop(key.member, None)
        return
    member = group.members.get(key.member)
    if member is None:
        if data is None:
            return
        member = group.members[key.member] = Member(key.member)
    if key.kind == MEMBER:
        member.told = _description(data)
    else:
        member.current = NEW if data is None else _current(data)


def _description(data: "StreamsGroupMemberMetadataValue") -> Description:
    return Description(
        data.instance_id,
        data.rack_id,
        data.client_id,
        data.client_host,
        data.rebalance_timeout_ms,
        data.topology_epoch,
        data.process_id,
        None if data.user_endpoint is None else Endpoint(data.user_endpoint.host, data.user_endpoint.port),
        tuple(sorted((tag.key, tag.value) for tag in data.client_tags)),
    )


def _current(data: "StreamsGroupCurrentMemberAssignmentValue") -> Current:
    pending = data.active_tasks_pending_revocation, data.standby_tasks_pending_revocation
    return Current(
        data.member_epoch,
        data.previous_member_epoch,
        STATES.get(data.state, MemberState.UNKNOWN),
        OwnedTasks(_epochs(data.active_tasks, data.member_epoch), _sets(data.standby_tasks), _sets(data.warmup_tasks)),
        OwnedTasks(
            _epochs(pending[0], data.member_epoch), _sets(pending[1]), _sets(data.warmup_tasks_pending_revocation)
        ),
    )


def _sets(
    tasks: Iterable[
        "StreamsGroupCurrentMemberAssignmentValue.TaskIds | StreamsGroupTargetAssignmentMemberValue.TaskIds"
    ],
) -> TaskSets:
    return {one.subtopology_id: frozenset(one.partitions) for one in tasks if one.partitions}


def _epochs(tasks: Iterable["StreamsGroupCurrentMemberAssignmentValue.TaskIds"], epoch: int) -> Epochs:
    """The epochs of a record's tasks. `epoch`: the member's, where Kafka before 4.3 has written no other."""
    held = {}
    for one in tasks:
        epochs = one.assignment_epochs
        if epochs is None or len(epochs) != len(one.partitions):
            epochs = [epoch] * len(one.partitions)
        if one.partitions:
            held[one.subtopology_id] = dict(zip(one.partitions, epochs, strict=True))
    return held


def _fields(group: StreamsGroup, key: RecordKey) -> dict[str, Any] | None:
    """The fields of a key's value; None: there is none."""
    if key.kind == GROUP:
        return _group_fields(group)
    if key.kind == TARGET_EPOCH:
        return {"assignment_epoch": group.target_epoch, "assignment_timestamp": group.target_wall_ms}
    if key.kind == TOPOLOGY:
        return None if group.topology is None else _topology_fields(group.topology)
    member = group.members.get(key.member)
    if member is None or key.kind == CLASSIC:
        return None
    if key.kind == MEMBER:
        return _member_fields(member.told)
    if key.kind == CURRENT:
        return _current_fields(member.current)
    target = group.targets.get(key.member)
    if target is None:
        return None
    kind = message(VALUES[TARGET])
    return {f"{role}_tasks": _listed(kind, sets) for role, sets in zip(Tasks._fields, target, strict=True)}


def _group_fields(group: StreamsGroup) -> dict[str, Any]:
    kind = message(VALUES[GROUP])
    return {
        "epoch": group.epoch,
        "metadata_hash": group.metadata_hash,
        "validated_topology_epoch": group.valid_epoch,
        "last_assignment_configs": [kind.LastAssignmentConfig(key=name, value=value) for name, value in group.settings],
    }


def _member_fields(told: Description) -> dict[str, Any]:
    kind = message(VALUES[MEMBER])
    return {
        "instance_id": told.instance_id,
        "rack_id": told.rack_id,
        "client_id": told.client_id,
        "client_host": told.client_host,
        "rebalance_timeout_ms": told.rebalance_timeout_ms,
        "topology_epoch": told.topology_epoch,
        "process_id": told.process_id,
        "user_endpoint": None
        if told.endpoint is None
        else kind.Endpoint(host=told.endpoint.host, port=told.endpoint.port),
        "client_tags": [kind.KeyValue(key=name, value=value) for name, value in told.tags],
    }


def _current_fields(current: Current) -> dict[str, Any]:
    kind = message(VALUES[CURRENT])
    fields: dict[str, Any] = {
        "member_epoch": current.epoch,
        "previous_member_epoch": current.previous_epoch,
        "state": int(current.state),
    }
    for held, ending in ((current.assigned, ""), (current.revoking, "_pending_revocation")):
        fields[f"active_tasks{ending}"] = [
            kind.TaskIds(
                subtopology_id=one,
                partitions=sorted(numbers),
                assignment_epochs=[numbers[number] for number in sorted(numbers)],
            )
            for one, numbers in sorted(held.active.items())
        ]
        fields[f"standby_tasks{ending}"] = _listed(kind, held.standby)
        fields[f"warmup_tasks{ending}"] = _listed(kind, held.warmup)
    return fields


def _listed(
    kind: Any, sets: TaskSets
) -> list["StreamsGroupCurrentMemberAssignmentValue.TaskIds | StreamsGroupTargetAssignmentMemberValue.TaskIds"]:
    return [kind.TaskIds(subtopology_id=one, partitions=sorted(numbers)) for one, numbers in sorted(sets.items())]


def _topology_fields(given: Topology) -> dict[str, Any]:
    kind = message(VALUES[TOPOLOGY])

    def topics(of: tuple[Topic, ...]) -> list["StreamsGroupTopologyValue.TopicInfo"]:
        return [
            kind.TopicInfo(
                name=topic.name,
                partitions=topic.partitions,
                replication_factor=topic.replicas,
                topic_configs=[kind.TopicConfig(key=name, value=value) for name, value in topic.settings],
            )
            for topic in of
        ]

    return {
        "epoch": given.epoch,
        "subtopologies": [
            kind.Subtopology(
                subtopology_id=one.id,
                source_topics=list(one.sources),
                source_topic_regex=list(one.patterns),
                state_changelog_topics=topics(one.changelogs),
                repartition_sink_topics=list(one.sinks),
                repartition_source_topics=topics(one.repartitions),
                copartition_groups=[
                    kind.CopartitionGroup(
                        source_topics=list(group.sources),
                        source_topic_regex=list(group.patterns),
                        repartition_source_topics=list(group.repartitions),
                    )
                    for group in one.copartitions
                ],
            )
            for one in given.subtopologies
        ],
    }
