"""What a member of a streams group is told with a heartbeat: where it is, its tasks, and what it must know (KIP-1071).

This file alone decides that. Rules:

1. A member is told its tasks when it joins, when they change, and when it has not heard of its epoch.
2. When it says that it has others it is told again, once a heartbeat interval has passed: the answer may have been lost.
3. A member that does not know of the newest endpoints is told of all.
"""

from collections.abc import Callable

from actors.broker.groups.streams.answers import Status, StreamsBeat, Tasks
from actors.broker.groups.streams.in_progress import InProgress, WaitingHeartbeat
from actors.broker.groups.streams.state import Member, StreamsGroup
from actors.ports import Now
from actors.wire.errors import ErrorCode


def tell(
    group: StreamsGroup,
    member: Member,
    one: WaitingHeartbeat,
    interval_ms: int,
    size: Callable[[str], int | None],
    now: Now,
) -> StreamsBeat:
    """The answer to a heartbeat. `interval_ms`: between two heartbeats. `size`: how many partitions a topic has."""
    way, partitioned, tasks = group.way, group.way.partitioned, member.current.assigned.tasks()
    moved = one.request.epoch == 0 or member.current.assigned != one.before.assigned
    if moved:
        way.moved(member)
    tells = moved or _unheard(way, member, one, tasks, now.mono_ms - interval_ms)
    if tells:
        way.told_ms[member.id] = now.mono_ms
    status = list(one.status)
    if partitioned is not None and partitioned.problem is not None:
        status.append(partitioned.problem)
    if way.shutdown is not None:
        text = "encountered a fatal error and requested a shutdown for the entire application."
        status.append((Status.SHUTDOWN_APPLICATION, f"Streams group member {way.shutdown} {text}"))
    return StreamsBeat(
        ErrorCode.NONE,
        None,
        member.id,
        member.current.epoch,
        interval_ms,
        status,
        tasks if tells else None,
        way.endpoint_epoch,
        way.endpoints(size) if way.endpoint_epoch != one.request.endpoint_epoch else None,
        partitioned.missing if partitioned is not None else (),
    )


def _unheard(way: InProgress, member: Member, one: WaitingHeartbeat, tasks: Tasks, long_ago_ms: int) -> bool:
    """Whether the member has not heard of what it was told before."""
    owned = one.request.owned()
    if one.request.epoch != one.before.epoch:
        return True
    return owned is not None and owned != tasks and way.told_before(member, long_ago_ms)
