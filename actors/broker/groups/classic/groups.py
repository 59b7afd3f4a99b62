"""Classic groups as a kind of group: what is written when, and when phases and sessions end.

The rules of the protocol are in `rebalance.py`. This file alone decides which of a group's changes is written, and who is
answered when that is committed. Rules:

1. A group is written when its assignments are there, when it becomes empty, and when a static member takes its place again.
2. What was committed for a name that no kind has, in an open transaction too, is a classic group without members, so that it
   can be listed and deleted.
3. A group without members gives way to any other kind (`gives_way` of `Kind`).
4. Of all groups together UNUSED_MAX member ids that were given out are kept until they are used. A further one takes the
   place of the oldest.
5. What a member says of itself is kept as long as it is one. Where the ledger has no room for it, it is told that the
   group is full, which is the one answer that a client does not repeat at once.
6. Any name makes a group. One of which nothing is left, in memory or in the log, goes with its last member id, whether that
   gave way to another, was given back, or lapsed.
"""

import heapq
from collections.abc import Callable, Sequence
from typing import NamedTuple

from actors.broker.coordinators.coordination import Record, Then
from actors.broker.groups.classic import rebalance, records
from actors.broker.groups.classic.rebalance import GroupPolicy
from actors.broker.groups.classic.state import MEMBER_BYTES, TYPE, Group, GroupState, said_bytes
from actors.broker.groups.classic.subscriptions import CONSUMER, subscribed
from actors.broker.groups.classic_requests import Joined, JoinRequest, Synced, SyncRequest
from actors.broker.groups.kind import FAR_MS, Committer, Expiry, Job, Kind, Ports
from actors.broker.groups.records import GroupLine
from actors.broker.groups.shard import Shard
from actors.ledger import NO_BOUND, Account, Ledger
from actors.ports import Now
from actors.wire.errors import ErrorCode

UNUSED_MAX = 20_000
UNUSED_BYTES = 900
"""The bytes that an id takes that was given out and not used, with its group if nothing else is in it."""
FORMER_MAX = 1000
"""The most keys of a former kind that are removed in one write."""


class ClassicGroupSettings(NamedTuple):
    """The broker's settings of classic groups, `group.*`."""

    policy: GroupPolicy
    session_ms_min: int
    session_ms_max: int


class ClassicGroups(Kind[Group]):
    """The classic groups of one broker."""

    type = TYPE
    numbers = (records.GROUP_KEY,)
    gives_way = True

    def __init__(self, ports: Ports, settings: ClassicGroupSettings, account: Account | None = None) -> None:
        """The classic groups of a broker that has none. `account`: the one to which members are charged."""
        self.ports = ports
        self.account = account or Ledger().account("GroupMembers", NO_BOUND)
        self.settings = settings
        self.jobs: list[Job] = []
        """The jobs outside the loop. Invariant: there are none."""
        self.deadlines: list[tuple[int, str]] = []
        """The looks at groups that are planned: (when, group)."""
        self._scheduled: dict[str, int] = {}
        self._unused: dict[tuple[str, str], None] = {}
        """Ids that were given out and not used, the oldest first: (group, member id). Some have lapsed."""

    @property
    def unused_bytes(self) -> int:
        """The bytes of the ids that were given out and not used."""
        return UNUSED_BYTES * len(self._unused)

    # ---- the log

    def read(self, number: int, key: bytes, value: bytes | None) -> GroupLine:
        """Decode a record of a classic group."""
        return records.read(number, key, value)

    def replay(self, shard: Shard, line: GroupLine) -> None:
        """Take in what the log says of a group."""
        groups = self.groups(shard)
        if line.data is None:
            groups.pop(line.group, None)
        else:
            groups[line.group] = line.data
            line.data.recorded = True

    def loaded(self, shard: Shard, now: Now) -> None:
        """Let sessions begin, since the log of a shard was read."""
        for group in self.groups(shard).values():
            group.take_in(self.account)
            for member in group.members.values():
                group.touch(member, now.mono_ms)
            self._schedule(group)

    def unload(self, shard: Shard) -> None:
        """Answer the members that wait for the end of a phase, since another broker leads the shard: they ask there."""
        for group in self.groups(shard).values():
            self._dismiss(group, ErrorCode.NOT_COORDINATOR)
            group.let_out()
            group.state = GroupState.DEAD

    def simple(self, shard: Shard, id: str) -> None:
        """Make a group for a name that has offsets, if there is none: it is a classic group without members."""
        if shard.find(id) is None and id not in shard.foreign:
            self.groups(shard)[id] = Group(id, self.account)

    def vacate(self, shard: Shard, id: str) -> list[Record] | None:
        """Give a name to another kind. Returns the records that remove a classic group without members, where the log
        has one; None: the name is taken. The caller sees to it that they are written, and calls `shard.forget`."""
        group = shard.find(id)
        if group is None:
            return []
        if group.type != TYPE or group.state is not GroupState.EMPTY:
            return None
        return _removal(group)

    # ---- time

    def deadline_ms(self) -> int:
        """The monotonic time at which `tick` has something to do."""
        return self.deadlines[0][0] if self.deadlines else FAR_MS

    def tick(self, now: Now) -> None:
        """End sessions and phases, and ids that were never used."""
        due_now = []
        while self.deadlines and self.deadlines[0][0] <= now.mono_ms:
            due_now.append(heapq.heappop(self.deadlines))
        for due_ms, group_id in due_now:
            if self._scheduled.get(group_id) != due_ms:
                continue
            del self._scheduled[group_id]
            shard = self.ports.shard_of(group_id)
            group = None if isinstance(shard, ErrorCode) else self.groups(shard).get(group_id)
            if group is None or isinstance(shard, ErrorCode):
                continue
            due = rebalance.next_deadline_ms(group)
            if due is not None and due <= now.mono_ms:
                write = rebalance.expire(group, now.mono_ms, self.settings.policy, self.ports.answers)
                self._after(shard, group, write, now)
            else:
                self._schedule(group)

    # ---- requests

    def classic_join(self, shard: Shard, id: str, ticket: int, request: JoinRequest, now: Now) -> None:
        """Handle a JoinGroup request. The verdict appears in the answers, now or later."""
        groups = self.groups(shard)
        if request.member_id and id not in groups:
            self.ports.answers.append((ticket, Joined(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)))
            return
        group = groups.get(id) or Group(id, self.account)
        present = group.members.get(request.member_id or group.static.get(request.instance_id or "", ""))
        more = MEMBER_BYTES + said_bytes(request.protocols) - (0 if present is None else present.charged)
        if more > 0 and not self.account.has_room(request.principal, more):
            self.ports.answers.append((ticket, Joined(ErrorCode.GROUP_MAX_SIZE_REACHED, request.member_id)))
            return
        held: rebalance.Held = []
        write = rebalance.join(group, ticket, request, now.mono_ms, self.settings.policy, self.ports.answers, held)
        if group.members or group.pending:
            groups[id] = group
        if request.fresh_id in group.pending:
            self._gave(id, request.fresh_id, now)
        elif request.member_id:
            self._unused.pop((id, request.member_id), None)
        self._after(shard, group, write, now, held)

    def classic_sync(self, shard: Shard, group: Group, ticket: int, request: SyncRequest, now: Now) -> None:
        """Handle a SyncGroup request. The verdict appears in the answers, for all members once the leader's assignment
        is written."""
        write = rebalance.sync(group, ticket, request, now.mono_ms, self.ports.answers)
        if write:
            self._write(shard, group, self._stabilise(group))
        self._schedule(group)

    def classic_heartbeat(
        self, shard: Shard, group: Group, member_id: str, instance_id: str | None, generation: int, now: Now
    ) -> ErrorCode:
        """Handle Heartbeat of a member. Returns the error of the answer."""
        return rebalance.heartbeat(group, member_id, instance_id, generation, now.mono_ms)

    def leave(
        self,
        shard: Shard,
        group: Group,
        members: Sequence[tuple[str, str | None]],
        then: Callable[[ErrorCode], None],
        now: Now,
    ) -> ErrorCode | list[ErrorCode]:
        """Handle a LeaveGroup request. Returns one code for each member, or one for all. The log does not say which
        members there are before the next generation is written, so the answer does not wait for a write."""
        then(ErrorCode.NONE)
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        codes = []
        for member_id, instance_id in members:
            code, write = rebalance.leave(
                group, member_id, instance_id, now.mono_ms, self.settings.policy, self.ports.answers
            )
            codes.append(code)
            self._after(shard, group, write, now)
        return codes

    # ---- who may commit offsets

    def commit_error(self, group: Group, committer: Committer, now: Now) -> ErrorCode:
        """The error for a member that commits, NONE if it may do so in its generation."""
        member_id, instance_id, generation, transactional = committer
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and group.state is GroupState.EMPTY:
            return ErrorCode.NONE
        if generation >= 0 or member_id or instance_id is not None:
            error = rebalance.member_error(group, member_id, instance_id, generation)
            if error is not None:
                return error
        elif group.state is not GroupState.EMPTY and not transactional:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.state is GroupState.COMPLETING and not transactional:
            return ErrorCode.REBALANCE_IN_PROGRESS
        member = group.members.get(member_id)
        if member is not None:
            group.touch(member, now.mono_ms)
        return ErrorCode.NONE

    # ---- what is told of a group, and when it goes

    def listed(self, group: Group) -> tuple[str, str]:
        """The protocol type and the state of a group."""
        return group.protocol_type or "", group.state.value

    def subscribes(self, group: Group) -> Callable[[str], bool]:
        """Whether some member subscribes to a topic. Members of which that is not known may do so, if they are
        consumers."""
        topics = subscribed(group)
        return (lambda topic: group.protocol_type == CONSUMER) if topics is None else topics.__contains__

    def offset_delete_error(self, group: Group) -> ErrorCode:
        """NONE if offsets of a group may be deleted, else the error: those of a group that is no consumer group go with
        its last member only."""
        if group.state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER:
            return ErrorCode.NON_EMPTY_GROUP
        return ErrorCode.NONE

    def expiry(self, shard: Shard, group: Group, now: Now, retention_ms: int, *, busy: bool) -> Expiry | None:
        """The offsets of a group that have expired. A stable group loses old offsets of topics to which no member
        subscribes. An empty one loses those that are old when it has been empty for so long, and goes with the last. A
        group that is being written, or has given out an id, is left for the next time."""
        if group.state is GroupState.STABLE:
            return _unsubscribed(shard, group, now.wall_ms - retention_ms)
        if group.state is not GroupState.EMPTY or group.pending or busy or shard.transactional.unstable(group.id):
            return None
        oldest_ms = now.wall_ms - retention_ms
        return Expiry(
            lambda key, committed: committed.wall_ms <= oldest_ms and group.state_wall_ms <= oldest_ms, whole=True
        )

    def removal_error(self, group: Group) -> ErrorCode:
        """NONE if a group can be deleted, else the error: only an empty group can."""
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NONE if group.state is GroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP

    def removal(self, group: Group) -> list[Record]:
        """The record that removes the group's record, if it was ever written. The group is dead from now on."""
        group.state = GroupState.DEAD
        return _removal(group)

    def revive(self, group: Group) -> None:
        """Take a group back whose removal could not be written."""
        group.state = GroupState.EMPTY

    # ---- from another kind, and to one

    def adopt(
        self, shard: Shard, group: Group, removed: Sequence[bytes], now: Now, *, rebalance_now: bool, then: Then
    ) -> None:
        """Take over a group of another kind, which is classic from now on; see `Ports.become_classic`."""
        shard.forget(group.id)
        self.groups(shard)[group.id] = group
        group.take_in(self.account)
        group.former.update(dict.fromkeys(removed))
        for member in group.members.values():
            group.touch(member, now.mono_ms)
        if rebalance_now:
            rebalance.begin(group, now.mono_ms, self.settings.policy, self.ports.answers)
        self._write(shard, group, then)
        self._schedule(group)

    def retire(self, group: Group) -> list[Record]:
        """Give up a group that goes on as another kind; see `Ports`."""
        self._dismiss(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.let_out()
        group.state = GroupState.DEAD
        return _removal(group)

    # ---- inside

    def _gave(self, id: str, member_id: str, now: Now) -> None:
        self._unused[id, member_id] = None
        if len(self._unused) <= UNUSED_MAX:
            return
        oldest = next(iter(self._unused))
        del self._unused[oldest]
        shard = self.ports.shard_of(oldest[0])
        group = None if isinstance(shard, ErrorCode) else self.groups(shard).get(oldest[0])
        if group is not None and not isinstance(shard, ErrorCode):
            self._after(shard, group, rebalance.forget(group, oldest[1], now.mono_ms, self.ports.answers), now)

    def _write(self, shard: Shard, group: Group, then: Then) -> None:
        """Write the group, behind the removal of what the log may still have of its former kind."""
        group.recorded = True
        former = list(group.former)
        for first in range(0, len(former), FORMER_MAX):
            self._write_former(shard, group, former[first : first + FORMER_MAX])
        self.ports.write(shard, group.id, [records.group_record(group)], then)

    def _write_former(self, shard: Shard, group: Group, keys: Sequence[bytes]) -> None:
        def ended(error: ErrorCode, now: Now) -> None:
            if error is ErrorCode.NONE:
                for key in keys:
                    group.former.pop(key, None)

        self.ports.write(shard, group.id, [(key, None) for key in keys], ended)

    def _after(self, shard: Shard, group: Group, write: bool, now: Now, held: rebalance.Held | None = None) -> None:
        if write:
            group.state_wall_ms = now.wall_ms
            self._write(
                shard,
                group,
                lambda error, now: rebalance.written(group, held or [], error, self.ports.answers),
            )
        if group.members or group.pending or group.recorded or group.former or shard.holds(group.id):
            self._schedule(group)
        elif self.groups(shard).get(group.id) is group:
            del self.groups(shard)[group.id]

    def _stabilise(self, group: Group) -> Then:
        generation = group.generation

        def then(error: ErrorCode, now: Now) -> None:
            if group.generation == generation and group.state is GroupState.COMPLETING:
                rebalance.stabilise(group, error, now.mono_ms, now.wall_ms, self.settings.policy, self.ports.answers)
                self._schedule(group)

        return then

    def _dismiss(self, group: Group, error: ErrorCode) -> None:
        answers = self.ports.answers
        for member in group.members.values():
            join_ticket, sync_ticket = group.take_join(member), group.take_sync(member)
            if join_ticket:
                answers.append((join_ticket, Joined(error, member.id)))
            if sync_ticket:
                answers.append((sync_ticket, Synced(error)))

    def _schedule(self, group: Group) -> None:
        due = rebalance.next_deadline_ms(group)
        if due is not None and self._scheduled.get(group.id, FAR_MS) > due:
            self._scheduled[group.id] = due
            heapq.heappush(self.deadlines, (due, group.id))


def _removal(group: Group) -> list[Record]:
    keys = [*group.former, records.group_key(group.id)] if group.recorded else list(group.former)
    return [(key, None) for key in keys]


def _unsubscribed(shard: Shard, group: Group, oldest_ms: int) -> Expiry | None:
    """The old offsets of topics to which no member subscribes; None: the topics are not known. An offset that is being
    written is newer than the visible one: such a key stays."""
    unsettled, topics = shard.unsettled_of(group.id), subscribed(group)
    if topics is None:
        return None
    return Expiry(
        lambda key, committed: committed.wall_ms <= oldest_ms and key not in unsettled and key[0] not in topics
    )
