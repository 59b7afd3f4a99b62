"""When a member is to ask again (KIP-848, reading G-48): the heartbeat interval of an answer.

A group settles in steps, and a member learns of each with a heartbeat: that there is a target assignment, that a partition
which it waits for was let go of. With the group's heartbeat interval alone each step takes up to that long, however few
milliseconds it needs. So a member for which something is to come is told a shorter interval; clients take the interval from
each answer. This file alone decides it. Rules:

1. While a target assignment is to be made the member asks when it is there.
2. Members come together as a rule. One that has partitions, and is answered so soon after an assignment that no other could
   have been made yet, asks when one could: otherwise the first one, which gets all partitions, keeps them for a whole
   interval.
3. A member that waits for partitions which another one has asks again after a quarter to an eighth of the time since the
   target assignment was made. So it asks some times while that takes long, and hardly later than needed.
4. All members of a large group together ask `BEATS_A_SECOND` at most that way. No interval is longer than the group's.
5. Nobody asks sooner in a group with classic members, which take their steps with heartbeats that know no such interval.
6. A heartbeat that is repeated at once gets the same interval, as the same answer is expected (KIP-848).
"""

from typing import NamedTuple

from actors.broker.groups.consumer.state import ConsumerGroup, Member, MemberState
from actors.ports import Now

LEAST_MS = 100
AFTER_MS = 50
"""How long a target assignment and its records may take, ms."""
BEATS_A_SECOND = 2_000


class HeartbeatInputs(NamedTuple):
    """The state of a group and one of its members, as far as the next heartbeat depends on it."""

    members: int
    wanted: bool
    """Whether another target assignment is to be made."""
    age_ms: int
    """The time since the present target assignment was made."""
    has: bool
    """Whether the member has partitions."""
    waits: bool
    """Whether the member waits for partitions that other members have."""
    classic: bool = False
    """Whether the group has classic members."""


def step_of(group: ConsumerGroup, member: Member, now: Now) -> HeartbeatInputs:
    """The present state of a group and a member."""
    return HeartbeatInputs(
        len(group.members),
        group.epoch > group.target_epoch,
        max(0, now.wall_ms - group.target_wall_ms),
        bool(member.current.assigned),
        member.current.state is MemberState.UNRELEASED_PARTITIONS,
        group.classic_members > 0,
    )


def next_heartbeat_ms(interval_ms: int, assignment_interval_ms: int, step: HeartbeatInputs) -> int:
    """The heartbeat interval for an answer. `interval_ms` and `assignment_interval_ms`: those of the group."""
    if step.classic:
        return interval_ms
    if step.waits:
        soon_ms = LEAST_MS << max(0, (step.age_ms // 4 // LEAST_MS).bit_length() - 1)
    elif step.wanted or (step.has and step.age_ms < assignment_interval_ms):
        soon_ms = assignment_interval_ms + AFTER_MS
    else:
        return interval_ms
    return min(interval_ms, max(soon_ms, LEAST_MS, step.members * 1000 // BEATS_A_SECOND))
