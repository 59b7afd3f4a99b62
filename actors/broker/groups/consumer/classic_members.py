"""Members of a consumer group that still speak the classic protocol: JoinGroup, SyncGroup and Heartbeat (KIP-848).

This file alone decides what such a request means in a consumer group. Rules:

1. A join is a heartbeat with all that the member has to say. There is no leader: its answer brings the member's epoch as the
   generation, and no members.
2. A member gets its assignment with the sync that follows. What it has to give up is missing in it.
3. It is told to join anew (REBALANCE_IN_PROGRESS) when there is another target assignment, when it has to say that it has
   let go of partitions, and when partitions that it waits for are free.
4. All classic members have a protocol in common, as in a classic group.
"""

from actors.broker.groups import embedded
from actors.broker.groups.classic.rebalance import REQUIRED_ID_VERSION
from actors.broker.groups.classic_requests import Joined, JoinRequest, SyncRequest
from actors.broker.groups.consumer.migration import Migration, MigrationPolicy, owned_by_id
from actors.broker.groups.consumer.requests import TEXT_CHARACTERS_MAX, ConsumerBeat, ConsumerHeartbeat
from actors.broker.groups.consumer.state import ConsumerGroup, Member, MemberState
from actors.broker.groups.refusals import RequestRefused
from actors.broker.groups.topics import Topics
from actors.wire.errors import ErrorCode, WireError

ANY_VERSION = 1
CODES = {ErrorCode.FENCED_MEMBER_EPOCH: ErrorCode.UNKNOWN_MEMBER_ID}
"""The error that a classic member gets for an error of a heartbeat: it begins anew."""


def heartbeat_of(group: ConsumerGroup, join: JoinRequest, migration: Migration, topics: Topics) -> ConsumerHeartbeat:
    """A join as a heartbeat. Raises RequestRefused."""
    if migration.policy is MigrationPolicy.DISABLED:
        raise RequestRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if join.protocol_type != embedded.CONSUMER or not group.supports_classic(name for name, _ in join.protocols):
        raise RequestRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    known = group.static.get(join.instance_id) if join.instance_id is not None else None
    if join.member_id and join.instance_id is not None and known != join.member_id:
        raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID if known is None else ErrorCode.FENCED_INSTANCE_ID)
    if not join.member_id and join.instance_id is None and join.version >= REQUIRED_ID_VERSION:
        raise RequestRefused(ErrorCode.MEMBER_ID_REQUIRED)
    try:
        told = embedded.Embedded().subscription(join.protocols[0][1])
    except WireError:
        raise RequestRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from None
    if any(len(text or "") > TEXT_CHARACTERS_MAX for text in (join.member_id, join.instance_id, told.rack_id)):
        raise RequestRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return ConsumerHeartbeat(
        group_id=group.id,
        member_id=join.member_id,
        epoch=0,
        instance_id=join.instance_id,
        rack_id=told.rack_id,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        topics=told.topics,
        regex="",
        assignor=None,
        owned=owned_by_id(told.owned, topics),
        client_id=join.client_id,
        client_host=join.client_host,
        fresh_id=join.fresh_id,
        version=ANY_VERSION,
        join=join,
    )


def joined(request: ConsumerHeartbeat, beat: ConsumerBeat) -> Joined:
    """The answer to a join."""
    assert request.join is not None
    if beat.error is not ErrorCode.NONE:
        return Joined(CODES.get(beat.error, beat.error))
    return Joined(ErrorCode.NONE, beat.member_id or "", beat.epoch, embedded.CONSUMER, request.join.protocols[0][0])


def refused(join: JoinRequest, code: ErrorCode) -> Joined:
    """The answer to a join that is refused. With MEMBER_ID_REQUIRED it has the id."""
    return Joined(code, join.fresh_id if code is ErrorCode.MEMBER_ID_REQUIRED else "")


def member_of(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> Member:
    """The classic member that sends a sync or a heartbeat. Raises RequestRefused."""
    if group.gone:
        raise RequestRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if instance_id is not None:
        known = group.static.get(instance_id)
        if known is None:
            raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID)
        if known != member_id:
            raise RequestRefused(ErrorCode.FENCED_INSTANCE_ID)
    member = group.members.get(member_id)
    if member is None or member.subscription.classic is None:
        raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID)
    if generation != member.current.epoch:
        raise RequestRefused(ErrorCode.ILLEGAL_GENERATION)
    return member


def sync_error(group: ConsumerGroup, member: Member, request: SyncRequest) -> ErrorCode:
    """NONE if a member gets its assignment, else the error; REBALANCE_IN_PROGRESS: it has to join anew."""
    assert member.subscription.classic is not None
    name = member.subscription.classic.protocols[0][0]
    if request.protocol_type not in (None, embedded.CONSUMER) or request.protocol not in (None, name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    gives_up = member.current.state is MemberState.UNREVOKED_PARTITIONS
    behind = group.target_epoch > member.current.epoch and not gives_up
    return ErrorCode.REBALANCE_IN_PROGRESS if behind else ErrorCode.NONE


def heartbeat_error(group: ConsumerGroup, member: Member) -> ErrorCode:
    """The error for a heartbeat of a classic member; REBALANCE_IN_PROGRESS if it has to join anew."""
    current = member.current
    rejoins = (
        current.epoch < group.target_epoch
        or current.state is MemberState.UNREVOKED_PARTITIONS
        or (current.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_release(member))
    )
    return ErrorCode.REBALANCE_IN_PROGRESS if rejoins else ErrorCode.NONE
