"""Groups of all kinds: which there are, their members, their offsets.

KIP-88, KIP-496, KIP-518, KIP-848, KIP-932, KIP-1071.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from actors.client.asks import Ask, Coordinator, KeyType, Know, Node, Pause, Purpose, Reply, Steps
from actors.client.errors import Action, ClientError, Unspoken, refused
from actors.client.metadata import Metadata
from actors.client.operations.each import each
from actors.client.operations.leaders import Part, by_topic
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
DESCRIBED_BY = {CONSUMER: "ConsumerGroupDescribe", SHARE: "ShareGroupDescribe", STREAMS: "StreamsGroupDescribe"}
OFFSET_BYTES = 80
"""The most bytes of an offset in the log beside its group, its topic and its metadata."""
OFFSETS_BYTES_MAX = 1 << 19
"""The most bytes of offsets that are committed by one request: half of the default max.message.bytes."""
OTHER_KIND = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_GROUP_ID})


class Listed(NamedTuple):
    """A group in a listing."""

    name: str
    type: str
    """The type: classic, consumer, share or streams; empty: the cluster does not tell (before Kafka 3.8)."""
    state: str
    """The state of the group; empty: the cluster does not tell (before Kafka 2.6)."""
    protocol_type: str
    coordinator: int


class Member(NamedTuple):
    """A member of a group."""

    id: str
    client_id: str
    host: str
    instance: str | None
    assignment: dict[str, list[int]]
    """The partitions of each topic. For streams groups: the partitions of active tasks of each subtopology."""


class Group(NamedTuple):
    """A group of any kind, with its members."""

    name: str
    type: str
    state: str
    protocol: str
    """The name of the assignor."""
    epoch: int
    """The epoch of the group; -1 with a classic group, which does not tell it."""
    members: list[Member]
    coordinator: int


class Committed(NamedTuple):
    """An offset that a group has committed."""

    offset: int
    leader_epoch: int
    """The leader epoch of the offset; -1: it is not known."""
    metadata: str


def list_groups(
    states: Iterable[str] = (), types: Iterable[str] = ()
) -> Steps[tuple[dict[str, Listed], dict[int, ClientError]]]:
    """(groups by name, brokers that did not tell theirs). `states` and `types`: those only, where the brokers can choose."""
    metadata: Metadata = yield Know((), fresh=True)
    kind, brokers = message("ListGroupsRequest"), sorted(metadata.brokers)
    wanted_states, wanted_types = list(states), list(types)

    def build(version: int) -> Any:
        return kind(
            states_filter=wanted_states if version >= 4 else [], types_filter=wanted_types if version >= 5 else []
        )

    replies = yield [Ask(Node(one), "ListGroups", build) for one in brokers]
    found: dict[str, Listed] = {}
    failed: dict[int, ClientError] = {}
    for broker, reply in zip(brokers, replies, strict=True):
        if isinstance(reply, ClientError):
            failed[broker] = reply
        elif reply.message.error_code:
            failed[broker] = refused(f"groups of broker {broker}", reply.message.error_code)
        else:
            for one in reply.message.groups:
                found[one.group_id] = Listed(
                    one.group_id, one.group_type.lower(), one.group_state, one.protocol_type, broker
                )
    return found, failed


def describe(name: str, type: str | None = None) -> Steps[Group]:
    """The description of one group. `type`: None: it is found out. Raises ClientError, with GROUP_ID_NOT_FOUND if there
    is none."""
    to = Coordinator(KeyType.GROUP, name)
    for one in [type] if type is not None else [CONSUMER, SHARE, STREAMS, CLASSIC]:
        if one == CLASSIC:
            return (yield from _describe_classic(name))
        kind = message(f"{DESCRIBED_BY[one]}Request")
        try:
            reply = yield Ask(to, DESCRIBED_BY[one], partial(_described, kind, name))
        except Unspoken:
            if type is not None:
                raise
            continue
        told = reply.message.groups[0]
        if told.error_code in OTHER_KIND and type is None:
            continue
        if told.error_code:
            raise refused(f"group {name}", told.error_code, told.error_message)
        members = [_member(member, one) for member in told.members]
        protocol = getattr(told, "assignor_name", "")
        return Group(name, one, told.group_state, protocol, told.group_epoch, members, reply.node)
    raise AssertionError("a classic group is the last kind")


def _described(kind: Any, name: str, version: int) -> Any:
    return kind(group_ids=[name])


def _member(member: Any, type: str) -> Member:
    if type == STREAMS:
        assignment: dict[str, list[int]] = {}
        for task in member.assignment.active_tasks:
            assignment.setdefault(task.subtopology_id, []).extend(task.partitions)
    else:
        assignment = {one.topic_name: list(one.partitions) for one in member.assignment.topic_partitions}
    return Member(
        member.member_id, member.client_id, member.client_host, getattr(member, "instance_id", None), assignment
    )


def _describe_classic(name: str) -> Steps[Group]:
    kind = message("DescribeGroupsRequest")
    reply = yield Ask(Coordinator(KeyType.GROUP, name), "DescribeGroups", lambda version: kind(groups=[name]))
    told = reply.message.groups[0]
    if told.error_code or told.group_state == "Dead":
        code = told.error_code or int(ErrorCode.GROUP_ID_NOT_FOUND)
        raise refused(f"group {name}", code, told.error_message if told.error_code else None)
    members = [
        Member(
            one.member_id, one.client_id, one.client_host, one.group_instance_id,
            classic_assignment(bytes(one.member_assignment)) if told.protocol_type == "consumer" else {},
        )
        for one in told.members
    ]  # fmt: skip
    return Group(name, CLASSIC, told.group_state, told.protocol_data, -1, members, reply.node)


def classic_assignment(data: bytes) -> dict[str, list[int]]:
    """The partitions of each topic, from the bytes that a consumer's leader has written (ConsumerProtocolAssignment).
    What cannot be read is left out: any client may have written it."""
    found: dict[str, list[int]] = {}
    try:
        (topics,) = struct.unpack_from(">i", data, 2)
        position = 6
        for _ in range(topics):
            (size,) = struct.unpack_from(">h", data, position)
            if size < 0:
                break  # it would go back, and read the same for as many topics as are claimed
            name = data[position + 2 : position + 2 + size].decode()
            position += 2 + size
            (count,) = struct.unpack_from(">i", data, position)
            if count > len(data) // 4:
                break
            found[name] = list(struct.unpack_from(f">{count}i", data, position + 4))
            position += 4 + 4 * count
    except (struct.error, UnicodeDecodeError):
        pass
    return found


# ---- offsets


def committed(
    group: str, parts: Iterable[Part] | None = None, *, stable: bool = False, tries: int = 0
) -> Steps[dict[Part, Any]]:
    """The committed offset of each partition, or its ClientError; partitions without one are left out. None: all.
    `stable`: wait for open transactions that commit offsets (KIP-447). `tries`: how often that is looked for, before it is
    UNSTABLE_OFFSET_COMMIT; 0: until there is no more time. Raises ClientError."""
    kind = message("OffsetFetchRequest")
    topics = None if parts is None else by_topic(parts)

    def build(version: int) -> Any:
        if version < 8:
            return kind(
                group_id=group,
                topics=None
                if topics is None
                else [kind.OffsetFetchRequestTopic(name=name, partition_indexes=some) for name, some in topics.items()],
                require_stable=stable and version >= 7,
            )
        return kind(
            groups=[
                kind.OffsetFetchRequestGroup(
                    group_id=group,
                    topics=None
                    if topics is None
                    else [
                        kind.OffsetFetchRequestTopics(name=name, partition_indexes=some)
                        for name, some in topics.items()
                    ],
                )
            ],
            require_stable=stable,
        )

    # Version 10 names topics by ids, which a group of a deleted topic has no use for.
    ask = Ask(Coordinator(KeyType.GROUP, group), "OffsetFetch", build, purpose=Purpose.COORDINATOR, versions=(2, 9))
    attempt = 0
    while True:
        reply = yield ask
        told = reply.message if reply.version < 8 else reply.message.groups[0]
        if told.error_code:
            raise refused(f"group {group}", told.error_code)
        if all(one.error_code != ErrorCode.UNSTABLE_OFFSET_COMMIT for topic in told.topics for one in topic.partitions):
            break
        attempt += 1
        if attempt == tries:
            raise refused(f"group {group}", int(ErrorCode.UNSTABLE_OFFSET_COMMIT))
        yield Pause(attempt=attempt - 1)
    found: dict[Part, Any] = {}
    for topic in told.topics:
        for one in topic.partitions:
            part = topic.name, one.partition_index
            if one.error_code:
                found[part] = refused(f"group {group}, {part[0]}/{part[1]}", one.error_code)
            elif one.committed_offset >= 0:
                found[part] = Committed(one.committed_offset, one.committed_leader_epoch, one.metadata or "")
    return found


def commit(
    group: str,
    offsets: Mapping[Part, int | Committed],
    *,
    member: str = "",
    generation: int = -1,
    instance: str | None = None,
) -> Steps[dict[Part, ClientError | None]]:
    """Commit offsets, by default without being a member: that is for a group without members. Many take several requests,
    one after the other. Returns each one's error or None."""
    kind = message("OffsetCommitRequest")
    values = {part: one if isinstance(one, Committed) else Committed(one, -1, "") for part, one in offsets.items()}

    def build(some: list[Part]) -> Any:
        return kind(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            group_instance_id=instance,
            topics=[
                kind.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        kind.OffsetCommitRequestPartition(
                            partition_index=one,
                            committed_offset=values[topic, one].offset,
                            committed_leader_epoch=values[topic, one].leader_epoch,
                            committed_metadata=values[topic, one].metadata,
                        )
                        for one in numbers
                    ],
                )
                for topic, numbers in by_topic(some).items()
            ],
        )

    def ask(some: list[Part]) -> Ask:
        return Ask(
            Coordinator(KeyType.GROUP, group), "OffsetCommit", lambda version: build(some),
            purpose=Purpose.COORDINATOR, versions=(2, 9),
        )  # fmt: skip

    found: dict[Part, ClientError | None] = {}
    for some in portions(group, {part: one.metadata for part, one in values.items()}):
        try:
            found |= yield from each(f"group {group}, partition", some, ask, _offset_outcomes)
        except ClientError as error:
            if not found:
                raise
            found |= {part: error for part in values if part not in found}
            break  # what the first requests committed is committed, and has to be told
    return found


def portions(group: str, texts: Mapping[Part, str]) -> Iterator[list[Part]]:
    """The partitions whose offsets one request may commit, and those for the next. `texts`: the metadata of each. Apache
    Kafka writes the offsets of a request as one batch, and takes none of them if the topic does not take that."""
    some: list[Part] = []
    size = 0
    for part, text in texts.items():
        bytes_ = OFFSET_BYTES + sum(len(one.encode()) for one in (group, part[0], text))
        if some and size + bytes_ > OFFSETS_BYTES_MAX:
            yield some
            some, size = [], 0
        some.append(part)
        size += bytes_
    if some:
        yield some


def _offset_outcomes(reply: Reply) -> Any:
    for topic in reply.message.topics:
        for one in topic.partitions:
            yield (topic.name, one.partition_index), one.error_code, None


def delete_offsets(group: str, parts: Iterable[Part]) -> Steps[dict[Part, ClientError | None]]:
    """Delete committed offsets of topics to which no member of the group subscribes. Returns each one's error or
    None."""
    kind = message("OffsetDeleteRequest")

    def build(some: list[Part]) -> Any:
        topics = [
            kind.OffsetDeleteRequestTopic(
                name=topic, partitions=[kind.OffsetDeleteRequestPartition(partition_index=one) for one in numbers]
            )
            for topic, numbers in by_topic(some).items()
        ]
        return kind(group_id=group, topics=topics)

    def outcomes(reply: Reply) -> Any:
        if reply.message.error_code:
            raise refused(f"group {group}", reply.message.error_code)
        return _offset_outcomes(reply)

    def ask(some: list[Part]) -> Ask:
        return Ask(Coordinator(KeyType.GROUP, group), "OffsetDelete", lambda version: build(some))

    return (yield from each(f"group {group}, partition", parts, ask, outcomes))


def share_offsets(group: str) -> Steps[dict[Part, Any]]:
    """(start offset, lag; -1: it is not told) of each partition of a share group, or its ClientError."""
    kind = message("DescribeShareGroupOffsetsRequest")
    request = kind(groups=[kind.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)])
    reply = yield Ask(Coordinator(KeyType.GROUP, group), "DescribeShareGroupOffsets", lambda version: request)
    told = reply.message.groups[0]
    if told.error_code:
        raise refused(f"group {group}", told.error_code, told.error_message)
    found: dict[Part, Any] = {}
    for topic in told.topics:
        for one in topic.partitions:
            part = topic.topic_name, one.partition_index
            found[part] = (
                refused(f"group {group}, {part[0]}/{part[1]}", one.error_code, one.error_message)
                if one.error_code
                else (one.start_offset, one.lag)
            )
    return found


def delete(groups: Iterable[str]) -> Steps[dict[str, ClientError | None]]:
    """Delete groups that have no members. Returns each one's error or None: what cannot be asked about one of them, as who
    coordinates it, keeps none of the others."""
    kind = message("DeleteGroupsRequest")
    found: dict[str, ClientError | None] = {}
    for name in groups:
        try:
            found |= yield from each(
                "group", [name],
                lambda some: Ask(
                    Coordinator(KeyType.GROUP, some[0]), "DeleteGroups", lambda version: kind(groups_names=list(some))
                ),
                lambda reply: ((one.group_id, one.error_code, None) for one in reply.message.results),
                frozenset({Action.AGAIN}),
            )  # fmt: skip
        except ClientError as error:
            found[name] = error
    return found
