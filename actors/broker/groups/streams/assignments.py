"""When a streams group gets another target assignment, from what it is made, and what it changes (KIP-1071).

This file alone decides that; which member runs which task is decided in `assignor.py`. Rules:

1. One is needed when the group's epoch is above that of the present one. One is made at a time.
2. In a group that had no members the first one waits for more of them. Later ones keep an interval.
3. While the topics are not as they have to be, there are no tasks.
4. It holds for all members that are still there when it is made.
"""

from typing import NamedTuple

from actors.broker.groups.assignment_interval import left_ms
from actors.broker.groups.streams.answers import Status, Tasks
from actors.broker.groups.streams.assignor import AssignedMember, StreamsGroupSpec, Targets
from actors.broker.groups.streams.records import TARGET, TARGET_EPOCH, RecordKey
from actors.broker.groups.streams.state import StreamsGroup
from actors.ports import Now


class Due(NamedTuple):
    """The time when the next target assignment may be made, and why not now."""

    due_ms: int
    why: str


def needed(group: StreamsGroup) -> bool:
    """Whether there is something to assign that is not being assigned already."""
    way = group.way
    return bool(
        group.members and way.partitioned is not None and not way.assigning and group.epoch > group.target_epoch
    )


def due(group: StreamsGroup, interval_ms: int, now: Now) -> Due | None:
    """The time when the next assignment may be made; None: now."""
    if group.way.delayed_until_ms > now.mono_ms:
        why = "Assignment delayed due to the configured initial rebalance delay."
        return Due(group.way.delayed_until_ms, why)
    wait_ms = left_ms(group.target_wall_ms, interval_ms, now.wall_ms)
    if wait_ms:
        why = "Assignment delayed due to the configured assignment interval."
        return Due(now.mono_ms + wait_ms, why)
    return None


def delayed(group: StreamsGroup, interval_ms: int, now: Now) -> list[tuple[Status, str]]:
    """The status of a member whose assignment has to wait."""
    found = due(group, interval_ms, now) if needed(group) else None
    return [] if found is None else [(Status.ASSIGNMENT_DELAYED, found.why)]


def spec(group: StreamsGroup, standby_replicas: int) -> StreamsGroupSpec:
    """The spec for an assignor: what is to be assigned."""
    found = group.way.partitioned
    members = {
        id: AssignedMember(member.told.process_id, group.targets.get(id, Tasks()))
        for id, member in group.members.items()
    }
    tasks = found.tasks if found.ready else {}
    return StreamsGroupSpec(members, tasks, found.stateful(), standby_replicas)


def take(group: StreamsGroup, epoch: int, targets: Targets, now: Now) -> dict[RecordKey, None]:
    """Make an assignment hold. Returns the keys that it touches."""
    touched: dict[RecordKey, None] = {}
    for id, target in targets.items():
        if id in group.members and group.targets.get(id) != target:
            group.targets[id] = target
            touched[RecordKey(TARGET, id)] = None
    group.target_epoch, group.target_wall_ms = epoch, now.wall_ms
    touched[RecordKey(TARGET_EPOCH)] = None
    return touched
