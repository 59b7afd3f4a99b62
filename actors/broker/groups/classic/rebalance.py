"""The classic rebalance protocol on one group: join, sync, heartbeat, leave, and timeouts.

Every function takes the group and appends answers to `out` as (ticket, Verdict); nothing is called back. Two things are
returned in other ways. The return value says whether the group must be written (`True`). Answers that must wait for
that write go to `held`, for `written`.

Rules (as Apache Kafka's classic groups):

1. A join phase ends when every known member has rejoined, or at the end of the longest rebalance timeout. A member that
   has not rejoined by then is dropped, unless it is static. A phase that began with an empty group first waits
   `group.initial.rebalance.delay.ms`, again for each new member.
2. In the sync phase the leader's assignment is written first. Only then all members are answered. A member that has not
   asked for its assignment within the longest rebalance timeout is dropped, even if it heartbeats.
3. A static member that comes back with a new member id takes its old place, and the old process is fenced. In a stable group
   nobody else has to move as long as the same protocol would be chosen (KIP-345): its metadata differs in any case, since a
   process that has just started has no generation and owns nothing. The leader is told that its assignment stands (KIP-814).
   The member learns its new id once that is written: another coordinator that only knows the old id would fence it.
4. A member that is there and joins again asks for a rebalance if its protocols or their metadata differ: the process is the
   same, so the difference is what it wants to tell.
5. `group.max.size` counts members. In a join phase it counts those that have joined, so that of a group that is too large
   those go that are the last to come. A member that takes a place that it has is no further one.
6. A join phase does not end without a member that has joined: static members that are all away keep their places and the
   generation.
"""

from collections.abc import Sequence
from typing import NamedTuple

from actors.broker.groups.classic.state import Group, GroupState, Member
from actors.broker.groups.classic_requests import Joined, JoinRequest, Synced, SyncRequest
from actors.broker.groups.epochs import next_generation
from actors.wire.errors import ErrorCode

REQUIRED_ID_VERSION = 4
SKIP_ASSIGNMENT_VERSION = 9
POSTPONED_MS_MIN = 1_000
"""How long a join phase in which no member has joined goes on at least, ms."""
SYNCING = (GroupState.COMPLETING, GroupState.STABLE)
"""The states in which members ask for their assignment."""


class Rejoined(NamedTuple):
    """The answer to a static member that has taken its place again. It leaves once the group is written."""

    ticket: int
    instance_id: str
    answer: Joined


Verdict = Joined | Synced
Out = list[tuple[int, Verdict]]
Held = list[Rejoined]


class GroupPolicy(NamedTuple):
    """The broker's settings for groups."""

    initial_delay_ms: int
    size_max: int


def join(
    group: Group, ticket: int, request: JoinRequest, now_ms: int, policy: GroupPolicy, out: Out, held: Held
) -> bool:
    """Let a member join or rejoin. It is answered at once only with an error or the present generation."""
    if _is_full(group, request, policy):
        group.forget_id(request.member_id)
        group.remove(request.member_id)
        out.append((ticket, Joined(ErrorCode.GROUP_MAX_SIZE_REACHED)))
        return _maybe_complete(group, now_ms, out)
    error = _join_error(group, request)
    if error is not None:
        out.append((ticket, Joined(error, request.member_id)))
        return False
    if request.instance_id is not None and request.instance_id in group.static and not request.member_id:
        return _rejoin_static(group, ticket, request, now_ms, policy, out, held)
    member = group.members.get(request.member_id)
    if member is None:
        if not request.member_id and request.instance_id is None and request.version >= REQUIRED_ID_VERSION:
            group.give_id(request.fresh_id, now_ms + request.session_timeout_ms)
            out.append((ticket, Joined(ErrorCode.MEMBER_ID_REQUIRED, request.fresh_id)))
            return False
        _admit(group, ticket, request, request.member_id or request.fresh_id, now_ms)
        group.newcomers = True
        _prepare(group, now_ms, policy, out)
        return _maybe_complete(group, now_ms, out)
    return _rejoin(group, member, ticket, request, now_ms, policy, out)


def written(group: Group, held: Held, error: ErrorCode, out: Out) -> None:
    """Answer members that have waited until the group is written. If that failed, they must ask again."""
    for ticket, instance_id, answer in held:
        if error is not ErrorCode.NONE:
            answer = Joined(error)
        elif answer.member_id not in group.members:
            gone = ErrorCode.FENCED_INSTANCE_ID if instance_id in group.static else ErrorCode.UNKNOWN_MEMBER_ID
            answer = Joined(gone, answer.member_id)
        out.append((ticket, answer))


def sync(
    group: Group,
    ticket: int,
    request: SyncRequest,
    now_ms: int,
    out: Out,
) -> bool:
    """Handle a member that asks for its assignment; the leader brings all assignments. Returns True if the group must
    be written, then `stabilise`."""
    member_id, instance_id, generation, protocol_type, protocol, assignments = request
    error = member_error(group, member_id, instance_id, generation)
    if error is None and (
        (protocol_type is not None and protocol_type != group.protocol_type)
        or (protocol is not None and protocol != group.protocol)
    ):
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if error is None and group.state is GroupState.PREPARING:
        error = ErrorCode.REBALANCE_IN_PROGRESS
    if error is not None:
        out.append((ticket, Synced(error)))
        return False
    member = group.members[member_id]
    group.touch(member, now_ms)
    group.set_unsynced(member, False)
    if group.state is GroupState.STABLE:
        out.append((ticket, _assignment(group, member)))
        return False
    _supersede_sync(group, member, now_ms, out)
    group.wait_to_sync(member, ticket)
    if member_id != group.leader:
        return False
    given = dict(assignments)
    for other in group.members.values():
        other.assignment = given.get(other.id, b"")
        group.weigh(other)
    return True


def stabilise(group: Group, error: ErrorCode, now_ms: int, wall_ms: int, policy: GroupPolicy, out: Out) -> None:
    """Answer all members that wait, once the assignment is written. If that failed, they must rejoin."""
    if error is ErrorCode.NONE:
        group.state, group.state_wall_ms = GroupState.STABLE, wall_ms
    for member in group.members.values():
        ticket = group.take_sync(member)
        if ticket:
            group.touch(member, now_ms)
            out.append((ticket, _assignment(group, member) if error is ErrorCode.NONE else Synced(error)))
        if error is not ErrorCode.NONE:
            member.assignment = b""
            group.weigh(member)
    if error is not ErrorCode.NONE:
        _prepare(group, now_ms, policy, out)


def heartbeat(group: Group, member_id: str, instance_id: str | None, generation: int, now_ms: int) -> ErrorCode:
    """Take a heartbeat of a member. Returns the error of the answer."""
    error = member_error(group, member_id, instance_id, generation)
    if error is not None:
        return error
    group.touch(group.members[member_id], now_ms)
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else ErrorCode.NONE


def leave(
    group: Group, member_id: str, instance_id: str | None, now_ms: int, policy: GroupPolicy, out: Out
) -> tuple[ErrorCode, bool]:
    """Take a member out that leaves. Returns the error, and whether the group must be written because it became
    empty."""
    if instance_id is not None:
        known = group.static.get(instance_id)
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID, False
        if member_id and member_id != known:
            return ErrorCode.FENCED_INSTANCE_ID, False
        member_id = known
    if member_id in group.pending:
        return ErrorCode.NONE, forget(group, member_id, now_ms, out)
    if member_id not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID, False
    return ErrorCode.NONE, drop(group, [member_id], now_ms, policy, out)


def forget(group: Group, member_id: str, now_ms: int, out: Out) -> bool:
    """Drop an id that was given out and will not be used, if it is there still; no request waits for it. Returns True
    if the group must be written, because it became empty."""
    return group.forget_id(member_id) and _maybe_complete(group, now_ms, out)


def drop(group: Group, ids: Sequence[str], now_ms: int, policy: GroupPolicy, out: Out) -> bool:
    """Take members out, and begin a rebalance for the others. Returns True if the group must be written, because it
    became empty."""
    for id in ids:
        member = group.remove(id)
        if member is not None:
            if member.join_ticket:
                out.append((member.join_ticket, Joined(ErrorCode.UNKNOWN_MEMBER_ID, id)))
            if member.sync_ticket:
                out.append((member.sync_ticket, Synced(ErrorCode.UNKNOWN_MEMBER_ID)))
    if group.state in (GroupState.STABLE, GroupState.COMPLETING):
        _prepare(group, now_ms, policy, out)
    return _maybe_complete(group, now_ms, out)


def expire(group: Group, now_ms: int, policy: GroupPolicy, out: Out) -> bool:
    """Apply timeouts: sessions, ids never used, ends of phases. Returns True if the group must be written."""
    late = [id for id in group.due(now_ms) if not group.forget_id(id)]
    write = drop(group, late, now_ms, policy, out) if late else False
    if group.state is GroupState.PREPARING and now_ms >= group.phase_deadline_ms:
        if group.newcomers and group.phase_deadline_ms < group.phase_extends_until_ms:
            group.newcomers = False
            group.phase_deadline_ms = min(now_ms + policy.initial_delay_ms, group.phase_extends_until_ms)
        else:
            for member in [m for m in group.members.values() if not m.join_ticket and m.instance_id is None]:
                group.remove(member.id)
            group.phase_extends_until_ms = 0
            if group.members and not group.joining:
                group.phase_deadline_ms = now_ms + max(group.rebalance_timeout_ms(), POSTPONED_MS_MIN)
            else:
                write = _complete(group, now_ms, out) or write
    elif group.state in SYNCING and now_ms >= group.phase_deadline_ms:
        silent = [member.id for member in group.members.values() if member.unsynced] if group.unsynced else []
        if silent:
            write = drop(group, silent, now_ms, policy, out) or write
    elif group.state is GroupState.PREPARING:
        write = _maybe_complete(group, now_ms, out) or write
    return write


def begin(group: Group, now_ms: int, policy: GroupPolicy, out: Out) -> None:
    """Let all members join anew, for a reason that is none of their own."""
    _prepare(group, now_ms, policy, out)


def next_deadline_ms(group: Group) -> int | None:
    """The time when `expire` may have something to do, None if never. If no member sends anything before, it has."""
    due_ms = group.next_due_ms()
    if group.state is not GroupState.PREPARING and not (group.state in SYNCING and group.unsynced):
        return due_ms
    return group.phase_deadline_ms if due_ms is None else min(due_ms, group.phase_deadline_ms)


def member_error(group: Group, member_id: str, instance_id: str | None, generation: int) -> ErrorCode | None:
    """The error for a request of (member, generation); None: it is accepted."""
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if instance_id is not None:
        known = group.static.get(instance_id)
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if known != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    if member_id not in group.members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return None


# ---- inside


def _is_full(group: Group, request: JoinRequest, policy: GroupPolicy) -> bool:
    if group.state in (GroupState.EMPTY, GroupState.DEAD):
        return False
    id = request.member_id or group.static.get(request.instance_id or "")
    member = group.members.get(id) if id else None
    if group.state is GroupState.PREPARING:
        return (member is None or not member.join_ticket) and group.joining >= policy.size_max
    return member is None and len(group.members) >= policy.size_max


def _join_error(group: Group, request: JoinRequest) -> ErrorCode | None:
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not group.supports(request.protocol_type, request.protocols):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.instance_id is not None and request.member_id:
        known = group.static.get(request.instance_id)
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if known != request.member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    if request.member_id and request.member_id not in group.members and request.member_id not in group.pending:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return None


def _admit(group: Group, ticket: int, request: JoinRequest, member_id: str, now_ms: int) -> None:
    member = Member(
        member_id,
        request.instance_id,
        request.client_id,
        request.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocol_type,
        request.protocols,
        request.principal,
    )
    group.add(member)
    group.touch(member, now_ms)
    group.wait_to_join(member, ticket, request.version)


def _update(group: Group, member: Member, request: JoinRequest, now_ms: int) -> None:
    group.belongs(member, request.principal)
    group.set_protocols(member, request.protocols)
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    member.client_id, member.client_host = request.client_id, request.client_host
    group.touch(member, now_ms)


def _rejoin(
    group: Group, member: Member, ticket: int, request: JoinRequest, now_ms: int, policy: GroupPolicy, out: Out
) -> bool:
    same = list(request.protocols) == member.protocols
    # A lost answer is repeated without a new generation. A leader that rejoins a stable group forces a rebalance.
    lost_answer = group.state is GroupState.COMPLETING and same
    idle = group.state is GroupState.STABLE and same and member.id != group.leader
    if lost_answer or idle:
        group.touch(member, now_ms)
        out.append((ticket, _joined(group, member, request.version)))
        return False
    first = group.take_join(member)
    if first:
        # The client gave up on its first request and repeats it. The first one is answered with an error.
        out.append((first, Joined(ErrorCode.UNKNOWN_MEMBER_ID, member.id)))
    _update(group, member, request, now_ms)
    group.wait_to_join(member, ticket, request.version)
    _prepare(group, now_ms, policy, out)
    return _maybe_complete(group, now_ms, out)


def _rejoin_static(
    group: Group, ticket: int, request: JoinRequest, now_ms: int, policy: GroupPolicy, out: Out, held: Held
) -> bool:
    assert request.instance_id is not None
    old_id = group.static[request.instance_id]
    member = group.members[old_id]
    join_ticket, sync_ticket = group.take_join(member), group.take_sync(member)
    if join_ticket:
        out.append((join_ticket, Joined(ErrorCode.FENCED_INSTANCE_ID, old_id)))
    if sync_ticket:
        out.append((sync_ticket, Synced(ErrorCode.FENCED_INSTANCE_ID)))
    leads = group.leader == old_id
    group.replace(old_id, request.fresh_id)
    _update(group, member, request, now_ms)
    if group.state is GroupState.STABLE and group.choose_protocol() == group.protocol:
        answer = _joined(group, member, request.version)
        if leads and request.version >= SKIP_ASSIGNMENT_VERSION:
            answer = answer._replace(skip_assignment=True)
        elif leads:
            # An old client that learns that it leads would assign again, so the answer names its former id as leader.
            answer = answer._replace(leader=old_id, members=())
        held.append(Rejoined(ticket, request.instance_id, answer))
        return True
    group.wait_to_join(member, ticket, request.version)
    _prepare(group, now_ms, policy, out)
    return _maybe_complete(group, now_ms, out)


def _prepare(group: Group, now_ms: int, policy: GroupPolicy, out: Out) -> None:
    """Begin a join phase unless one runs."""
    if group.state is GroupState.PREPARING:
        if group.phase_extends_until_ms == 0:
            group.phase_deadline_ms = max(group.phase_deadline_ms, now_ms)
        return
    from_empty = group.state is GroupState.EMPTY
    timeout_ms = group.rebalance_timeout_ms()
    if group.state is GroupState.COMPLETING:
        for member in group.members.values():
            member.assignment = b""
            group.weigh(member)
            _supersede_sync(group, member, now_ms, out)
    group.state = GroupState.PREPARING
    if from_empty and policy.initial_delay_ms > 0:
        group.newcomers = False
        group.phase_deadline_ms = now_ms + min(policy.initial_delay_ms, timeout_ms)
        group.phase_extends_until_ms = now_ms + timeout_ms
    else:
        group.phase_deadline_ms = now_ms + timeout_ms
        group.phase_extends_until_ms = 0


def _maybe_complete(group: Group, now_ms: int, out: Out) -> bool:
    if group.state is not GroupState.PREPARING or not group.all_joined():
        return False
    if group.members and group.phase_extends_until_ms and now_ms < group.phase_deadline_ms:
        return False
    return _complete(group, now_ms, out)


def _complete(group: Group, now_ms: int, out: Out) -> bool:
    """End the join phase. Returns True if the group is empty now and must be written."""
    group.generation = next_generation(group.generation)
    group.phase_extends_until_ms = 0
    if not group.members:
        group.state = GroupState.EMPTY
        group.protocol = None
        group.leader = None
        return True
    group.protocol = group.choose_protocol()
    if group.leader is None or not group.members[group.leader].join_ticket:
        group.leader = next((m.id for m in group.members.values() if m.join_ticket), next(iter(group.members)))
    group.state = GroupState.COMPLETING
    group.phase_deadline_ms = now_ms + group.rebalance_timeout_ms()
    for member in group.members.values():
        ticket = group.take_join(member)
        group.set_unsynced(member, True)
        group.touch(member, now_ms)
        if ticket:
            out.append((ticket, _joined(group, member, member.join_version)))
    return False


def _supersede_sync(group: Group, member: Member, now_ms: int, out: Out) -> None:
    ticket = group.take_sync(member)
    if ticket:
        # It could send nothing else while it waited, so its session begins now.
        group.touch(member, now_ms)
        out.append((ticket, Synced(ErrorCode.REBALANCE_IN_PROGRESS)))


def _joined(group: Group, member: Member, version: int) -> Joined:
    members = (
        [(m.id, m.instance_id, m.metadata(group.protocol)) for m in group.members.values()]
        if member.id == group.leader
        else []
    )
    return Joined(
        ErrorCode.NONE,
        member.id,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader or "",
        False,
        members,
    )


def _assignment(group: Group, member: Member) -> Synced:
    return Synced(ErrorCode.NONE, group.protocol_type, group.protocol, member.assignment)
