"""What one heartbeat changes of a streams group, found before anything is changed (KIP-1071).

This file alone decides which heartbeat is refused because of what the group is, and which change raises the group's epoch.
Rules:

1. A member may be one epoch behind, since the answer may have been lost, if it has nothing that it was not given.
2. A member has no task that the topology does not have.
3. The topology among the topics is asked again when a topic has changed that it needs, and only then.

It is a function of values: the group is not changed.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from actors.broker.groups.refusals import RequestRefused
from actors.broker.groups.streams.answers import Status
from actors.broker.groups.streams.partitioning import Partitioned, partition
from actors.broker.groups.streams.requests import StreamsHeartbeat
from actors.broker.groups.streams.state import Description, Member, StreamsGroup
from actors.broker.groups.streams.topology import Topology
from actors.broker.groups.topics import Topics, metadata_hash
from actors.wire.errors import ErrorCode

NOT_VALID = -1
"""The validated topology epoch while the topics are not as they have to be."""


class StreamsGroupChange(NamedTuple):
    """The group after a heartbeat, as far as that decides it. `member`: that speaks, perhaps a new one; `told`: what it
    has told of itself. `raises`: the group's epoch. `status`: what the member is told besides."""

    member: Member
    told: Description
    topology: Topology
    partitioned: Partitioned
    metadata_hash: int
    valid_epoch: int
    settings: tuple[tuple[str, str], ...]
    raises: bool
    status: Sequence[tuple[Status, str]]


def changed(
    group: StreamsGroup, request: StreamsHeartbeat, settings: tuple[tuple[str, str], ...], topics: Topics
) -> StreamsGroupChange:
    """The change that a heartbeat makes. `settings`: of the assignment, as they are now. Raises RequestRefused."""
    member = _member(group, request)
    told = _told(request, member.told)
    topology = _topology(group, request)
    status = []
    if group.topology is not None and told.topology_epoch < group.topology.epoch:
        ours, theirs = group.topology.epoch, told.topology_epoch
        text = f"The member's topology epoch {theirs} is behind the group's topology epoch {ours}."
        status.append((Status.STALE_TOPOLOGY, text))
    partitioned, hash = _partitioned(group, topology, topics)
    if partitioned.ready:
        for tasks in (request.active, request.standby, request.warmup):
            _check_tasks(partitioned.tasks, tasks or ())
    valid = topology.epoch if partitioned.ready else NOT_VALID
    raises = (
        member.id not in group.members
        or told != member.told
        or group.topology is None
        or hash != group.metadata_hash
        or valid != group.valid_epoch
        or settings != group.settings
    )
    return StreamsGroupChange(member, told, topology, partitioned, hash, valid, settings, raises, status)


def _member(group: StreamsGroup, request: StreamsHeartbeat) -> Member:
    member = group.members.get(request.member_id)
    if request.epoch == 0:
        return member or Member(request.member_id)
    if member is None:
        text = f"Member {request.member_id} is not a member of group {group.id}."
        raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, text)
    current = member.current
    if request.epoch != current.epoch:
        size = "greater" if request.epoch > current.epoch else "smaller"
        if not (size == "smaller" and request.epoch == current.previous_epoch and _within(request, member)):
            raise RequestRefused(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The streams group member has a {size} member epoch ({request.epoch}) than the one known by the group "
                f"coordinator ({current.epoch}). The member must abandon all its partitions and rejoin.",
            )
    return member


def _within(request: StreamsHeartbeat, member: Member) -> bool:
    """Whether the member has only what it was given."""
    owned = request.owned()
    if owned is None:
        return False
    given = member.current.assigned.tasks()
    return all(
        numbers <= sets.get(one, frozenset())
        for role, sets in zip(owned, given, strict=True)
        for one, numbers in role.items()
    )


def _told(request: StreamsHeartbeat, known: Description) -> Description:
    """The description of a member, with what it says now."""
    return Description(
        None,
        request.rack_id if request.rack_id is not None else known.rack_id,
        request.client_id,
        request.client_host,
        request.rebalance_timeout_ms if request.rebalance_timeout_ms != -1 else known.rebalance_timeout_ms,
        request.topology.epoch if request.topology is not None else known.topology_epoch,
        request.process_id if request.process_id is not None else known.process_id,
        request.endpoint if request.endpoint is not None else known.endpoint,
        tuple(sorted(dict(request.tags).items())) if request.tags is not None else known.tags,
    )


def _topology(group: StreamsGroup, request: StreamsHeartbeat) -> Topology:
    """The group's topology: the first that a member brings."""
    given, known = request.topology, group.topology
    if known is None:
        if given is None:
            text = "The group's topology is not known. The member must abandon all its tasks and rejoin."
            raise RequestRefused(ErrorCode.FENCED_MEMBER_EPOCH, text)
        return given
    if given is not None and given.epoch >= known.epoch and given != known:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
    return known


def _partitioned(group: StreamsGroup, topology: Topology, topics: Topics) -> tuple[Partitioned, int]:
    """The topology among the topics, and the number that changes with these."""
    way = group.way
    present: Partitioned | None = way.partitioned
    if present is not None and way.seen_version == topics.version:
        return present, group.metadata_hash
    hash = metadata_hash(topics, topology.required())
    if present is not None and hash == group.metadata_hash:
        return present, hash

    def size(topic: str) -> int | None:
        named = topics.named(topic)
        return None if named is None else named[1]

    return partition(topology, size), hash


def _check_tasks(counts: Mapping[str, int], tasks: Sequence[tuple[str, Sequence[int]]]) -> None:
    for one, numbers in tasks:
        count = counts.get(one)
        if count is None:
            raise RequestRefused(ErrorCode.INVALID_REQUEST, f"Subtopology {one[:100]} does not exist in the topology.")
        for number in numbers:
            if not 0 <= number < count:
                raise RequestRefused(
                    ErrorCode.INVALID_REQUEST,
                    f"Task {number} for subtopology {one} is invalid. Number of tasks for this subtopology: {count}",
                )
