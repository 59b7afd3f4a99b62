"""What becomes of the requests of a streams group's members: heartbeats, leaves, and silence (KIP-1071).

This file alone decides the order of each change: the group is changed, the records that this touches are written
(`keyed_writes.py`), and the member is answered when they are committed. Rules:

1. The first member brings the topology. A member with an older one goes on with the group's and is told that it is stale;
   a topology that differs otherwise is refused, as Kafka 4.3 does.
2. The group's epoch grows with each change of a member's description, of the topics that the topology needs, of whether
   these are as they have to be, and of the settings for the assignment.
3. A new target assignment is made outside the loop, when the group's epoch is above that of the present one and the last is
   `group.streams.assignment.interval.ms` old. Who caused it, or joins meanwhile, is answered when it is there. In a group
   without members the first one waits for `group.streams.initial.rebalance.delay.ms`.
4. While the topics are not as they have to be, no member has a target.
5. A member that is not heard of for its session, or does not let go of tasks within its rebalance timeout, is removed.
6. Kafka assigns only when a member is heard of. Here the tasks of a member that leaves or is late pass on at once.
"""

import heapq
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from actors.broker.coordinators.coordination import Record
from actors.broker.groups.epochs import next_epoch, spent
from actors.broker.groups.kind import Committer, Expiry, Job, Kind, Ports
from actors.broker.groups.records import Line
from actors.broker.groups.shard import Shard
from actors.broker.groups.streams import assignments, offsets
from actors.broker.groups.streams import records as kinds
from actors.broker.groups.streams.answers import Beat, Refused, Status, Tasks
from actors.broker.groups.streams.assignor import Targets, sticky
from actors.broker.groups.streams.changes import Change, changed
from actors.broker.groups.streams.endpoints_told import tell
from actors.broker.groups.streams.in_progress import Waiting, Way
from actors.broker.groups.streams.reconciliation import Fenced, Question, reconcile
from actors.broker.groups.streams.records import Key
from actors.broker.groups.streams.requests import Request, check
from actors.broker.groups.streams.state import FAR_MS, TYPE, Member, MemberState, StreamsGroup
from actors.broker.groups.topics import Topics
from actors.ports import Now
from actors.wire.errors import ErrorCode

STANDBY_REPLICAS = "num.standby.replicas"
"""The setting of the assignment, by the name under which Kafka writes it."""


class Pace(NamedTuple):
    """How fast things go in a group, and how many copies its tasks have."""

    session_ms: int
    heartbeat_ms: int
    assignment_interval_ms: int
    initial_delay_ms: int
    standby_replicas: int


class Settings(NamedTuple):
    """The broker's `group.streams.*`. `pace`: of a group, by its name, as its own settings have it."""

    size_max: int
    pace: Callable[[str], Pace]


USUAL = Settings((1 << 31) - 1, lambda group: Pace(45_000, 5_000, 1_000, 3_000, 0))
"""As Kafka's."""


class StreamsGroups(Kind[StreamsGroup]):
    """The streams groups of one broker."""

    type = TYPE
    numbers = tuple(kinds.VALUES)
    gives_way = True

    def __init__(self, ports: Ports, settings: Settings, topics: Topics) -> None:
        self.ports = ports
        self.settings = settings
        self.topics = topics
        self.jobs: list[Job] = []
        """To be taken and run."""
        self.watched: list[tuple[int, str, str]] = []
        """(when, group, member): looks that are planned; a member "" stands for the next target assignment."""

    # ---- requests

    def heartbeat(self, ticket: int, request: Request, now: Now) -> None:
        """StreamsGroupHeartbeat. The answer comes under the ticket."""
        try:
            check(request)
            shard = self._shard(request.group_id)
            if request.leaves:
                self._leave(shard, ticket, request, now)
            else:
                self._beat(shard, ticket, request, now)
        except Refused as refused:
            self._answer(ticket, refused.beat())

    # ---- the log

    def read(self, number: int, key: bytes, value: bytes | None) -> Line:
        """Decode a record."""
        return kinds.read(number, key, value)

    def replay(self, shard: Shard, line: Line) -> None:
        """Take in what the log says of a group."""
        groups = self.groups(shard)
        if line.key.kind == kinds.GROUP and line.data is None:
            groups.pop(line.group, None)
        elif line.data is not None or line.group in groups:
            group = groups.setdefault(line.group, StreamsGroup(line.group))
            kinds.replay(group, line.key, line.data)

    def loaded(self, shard: Shard, now: Now) -> None:
        """The log of a shard was read: sessions begin now."""
        for group in self.groups(shard).values():
            group.way = Way(group)
            group.way.writes.behind.update((Key(kinds.CURRENT, id), None) for id in group.index())
            for member in group.members.values():
                self._touch(group, member, now)
                self._time_revocation(group, member, now)

    def unload(self, shard: Shard) -> None:
        """Another broker leads: who waits for an assignment asks there. Writes are told by themselves."""
        for group in self.groups(shard).values():
            if group.way is None:
                continue  # the log was still being read
            waiting, group.way.waiting = group.way.waiting, []
            for one in waiting:
                self._answer(one.ticket, Beat(ErrorCode.NOT_COORDINATOR))

    # ---- time

    def deadline_ms(self) -> int:
        """When `tick` has something to do."""
        return self.watched[0][0] if self.watched else FAR_MS

    def tick(self, now: Now) -> None:
        """Remove members that are late, and make target assignments that are due."""
        due = []
        while self.watched and self.watched[0][0] <= now.mono_ms:
            due.append(heapq.heappop(self.watched))
        for due_ms, group_id, member_id in due:
            shard = self.ports.shard_of(group_id)
            group = None if isinstance(shard, ErrorCode) else self.groups(shard).get(group_id)
            if isinstance(shard, ErrorCode) or group is None or group.gone:
                continue
            if not member_id:
                if group.way.assign_due_ms == due_ms:
                    group.way.assign_due_ms = FAR_MS
                    self._want_assignment(shard, group, now, [])
                continue
            member = group.members.get(member_id)
            if member is None or member.watched_ms != due_ms:
                continue
            member.watched_ms = FAR_MS
            if member.due_ms() > now.mono_ms:
                self._watch(group, member)
            else:
                self._commit(shard, group, self._remove(group, member))
                self._want_assignment(shard, group, now, [])

    # ---- what the coordinator asks of every kind

    def commit_error(self, group: StreamsGroup, committer: Committer, now: Now) -> ErrorCode:
        """Whether a member may commit in its epoch."""
        return offsets.commit_error(group, committer)

    def held_since(self, group: StreamsGroup, member_id: str, epoch: int, topic: str, partition: int) -> bool:
        """Whether a member that commits in an earlier epoch has had the partition's task since (KIP-1251)."""
        return offsets.held_since(group, member_id, epoch, topic, partition)

    def fetch_error(self, group: StreamsGroup, member_id: str, epoch: int) -> ErrorCode:
        """A member reads offsets in its epoch alone."""
        return offsets.fetch_error(group, member_id, epoch)

    def listed(self, group: StreamsGroup) -> tuple[str, str]:
        """Its protocol type and its state."""
        return TYPE, group.state()

    def subscribes(self, group: StreamsGroup) -> Callable[[str], bool]:
        """Whether some member reads a topic."""
        return group.subscribes

    def offset_delete_error(self, group: StreamsGroup) -> ErrorCode:
        """Offsets of topics that no member reads can be deleted at any time."""
        return ErrorCode.GROUP_ID_NOT_FOUND if group.gone else ErrorCode.NONE

    def expiry(self, shard: Shard, group: StreamsGroup, now: Now, retention_ms: int, *, busy: bool) -> Expiry | None:
        """Which committed offsets' time is over."""
        return None if busy else offsets.expiry(shard, group, now, retention_ms)

    def removal_error(self, group: StreamsGroup) -> ErrorCode:
        """Only an empty group can be deleted."""
        if group.gone:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NON_EMPTY_GROUP if group.members else ErrorCode.NONE

    def removal(self, group: StreamsGroup) -> list[Record]:
        """The records that remove the group, which is gone from now on."""
        group.gone = True
        behind = group.way.writes.behind if group.way is not None else ()
        return [kinds.record(group, key) for key in dict.fromkeys((*behind, *kinds.keys(group)))]

    def revive(self, group: StreamsGroup) -> None:
        """The removal could not be written: the log may have it or not, so all is written with the next change."""
        group.gone = False
        group.way.writes.behind.update(dict.fromkeys(kinds.keys(group)))

    # ---- heartbeats

    def _shard(self, group_id: str) -> Shard:
        shard = self.ports.shard_of(group_id)
        if isinstance(shard, ErrorCode):
            raise Refused(shard)
        if group_id in shard.foreign:
            raise Refused(ErrorCode.UNSUPPORTED_VERSION)
        return shard

    def _beat(self, shard: Shard, ticket: int, request: Request, now: Now) -> None:
        group = self._group(shard, request)
        pace = self.settings.pace(group.id)
        if (why := spent(group.id, group.epoch)) is not None:
            raise Refused(ErrorCode.INVALID_REQUEST, why)
        if len(group.members) >= self.settings.size_max and request.member_id not in group.members:
            raise Refused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The streams group has reached its maximum capacity of {self.settings.size_max} members.",
            )
        settings = ((STANDBY_REPLICAS, str(pace.standby_replicas)),)
        change = changed(group, request, settings, self.topics)
        taken: dict[Key, None] = {}
        if self.groups(shard).get(group.id) is not group:
            taken = self._take(shard, group)
        # Nothing is refused from here on.
        if not group.members and group.way.delayed_until_ms <= now.mono_ms:
            group.way.delayed_until_ms = now.mono_ms + pace.initial_delay_ms
        before = change.member.current
        touched = taken | self._apply(group, change)
        self._touch(group, change.member, now)
        if request.shutdown:
            group.way.shutdown = group.way.shutdown or request.member_id
        status = list(change.status)
        waits = group.way.assigning and request.epoch == 0
        waiting = Waiting(ticket, request.member_id, request, before, status)
        if self._want_assignment(shard, group, now, status) or waits:
            group.way.waiting.append(waiting)
            if touched:
                self._commit(shard, group, touched)
            return
        self._finish(shard, group, waiting, touched, now)

    def _group(self, shard: Shard, request: Request) -> StreamsGroup:
        """The group of a request, perhaps a new one, which is not known yet."""
        group = self.groups(shard).get(request.group_id)
        if group is not None:
            if group.gone:
                raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return group
        if shard.find(request.group_id) is not None and request.epoch != 0:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a streams group.")
        if request.epoch != 0:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {request.group_id} not found.")
        group = StreamsGroup(request.group_id)
        group.way = Way(group)
        return group

    def _take(self, shard: Shard, group: StreamsGroup) -> dict[Key, None]:
        """Take a name for a new group, from an empty classic one where there is one; what that touches."""
        vacated = self.ports.vacate(shard, group.id)
        if vacated is None:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.id} is not a streams group.")
        shard.forget(group.id)
        self.groups(shard)[group.id] = group
        return {Key(kinds.CLASSIC): None} if vacated else {}

    def _apply(self, group: StreamsGroup, change: Change) -> dict[Key, None]:
        """Make a change hold; the keys that it touches."""
        touched: dict[Key, None] = {}
        way, member = group.way, change.member
        if change.told != member.told or member.id not in group.members:
            group.members[member.id] = member
            member.told = change.told
            way.forget(member.id)
            touched[Key(kinds.MEMBER, member.id)] = None
        if group.topology != change.topology:
            group.topology = change.topology
            touched[Key(kinds.TOPOLOGY)] = None
        if way.partitioned is not change.partitioned:
            way.partitioned = change.partitioned
            way.forget_all()
        way.seen_version = self.topics.version
        if change.raises:
            group.epoch = next_epoch(group.epoch)
            group.metadata_hash, group.valid_epoch = change.metadata_hash, change.valid_epoch
            group.settings = change.settings
            touched[Key(kinds.GROUP)] = None
        return touched

    def _finish(self, shard: Shard, group: StreamsGroup, one: Waiting, touched: dict[Key, None], now: Now) -> None:
        """Bring the member nearer to its target, and answer when that is written."""
        way, request, member = group.way, one.request, group.members.get(one.member_id)
        if member is None:
            self._answer(one.ticket, _unknown(group.id, one.member_id).beat())
            return
        if not member.settled(group.target_epoch):
            try:
                current = reconcile(self._question(group, member, request, now))
            except Fenced:
                self._commit(shard, group, touched)
                text = (
                    "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."
                )
                self._answer(one.ticket, Beat(ErrorCode.FENCED_MEMBER_EPOCH, text))
                return
            if current != member.current:
                group.move(member, current)
                touched[Key(kinds.CURRENT, member.id)] = None
                self._time_revocation(group, member, now)
        beat = tell(group, member, one, self.settings.pace(group.id).heartbeat_ms, self._size, now)

        def written(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                way.untold(one.member_id)
            self._answer(one.ticket, beat if error is ErrorCode.NONE else Beat(error))

        self._commit(shard, group, touched, written)

    def _question(self, group: StreamsGroup, member: Member, request: Request, now: Now) -> Question:
        delayed = now.mono_ms < group.way.delayed_until_ms
        target = Tasks() if delayed else group.targets.get(member.id, Tasks())
        return Question(member.current, group.target_epoch, target, request.owned(), partial(group.available, member))

    def _leave(self, shard: Shard, ticket: int, request: Request, now: Now) -> None:
        group = self.groups(shard).get(request.group_id)
        if group is None or group.gone:
            other = shard.find(request.group_id) is not None
            text = "is not a streams group" if other else "not found"
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} {text}.")
        if request.shutdown:
            group.way.shutdown = group.way.shutdown or request.member_id
        member = group.members.get(request.member_id)
        if member is None:
            raise _unknown(group.id, request.member_id)
        touched = self._remove(group, member)
        beat = Beat(ErrorCode.NONE, None, request.member_id, request.epoch)
        self._commit(
            shard,
            group,
            touched,
            lambda error: self._answer(ticket, beat if error is ErrorCode.NONE else Beat(error)),
        )
        self._want_assignment(shard, group, now, [])

    def _remove(self, group: StreamsGroup, member: Member) -> dict[Key, None]:
        group.remove(member.id)
        group.epoch = next_epoch(group.epoch)
        group.way.forget(member.id)
        if not group.members:
            group.way.shutdown = None
        return {**{Key(kind, member.id): None for kind in kinds.OF_MEMBERS}, Key(kinds.GROUP): None}

    # ---- target assignments

    def _want_assignment(self, shard: Shard, group: StreamsGroup, now: Now, status: list[tuple[Status, str]]) -> bool:
        """Have a target assignment made if one is needed, now or when it is time; whether now. `status`: takes why not."""
        way, pace = group.way, self.settings.pace(group.id)
        if not assignments.needed(group):
            return False
        due = assignments.due(group, pace.assignment_interval_ms, now)
        if due is not None:
            status.append((Status.ASSIGNMENT_DELAYED, due.why))
            if way.assign_due_ms > due.due_ms:
                way.assign_due_ms = due.due_ms
                heapq.heappush(self.watched, (due.due_ms, group.id, ""))
            return False
        way.assigning, way.assign_due_ms = True, FAR_MS
        epoch, order = group.epoch, assignments.order(group, pace.standby_replicas)
        self.jobs.append(
            Job(lambda: sticky(order), lambda result, now: self._assigned(shard, group, epoch, result, now))
        )
        return True

    def _assigned(self, shard: Shard, group: StreamsGroup, epoch: int, result: Targets | Exception, now: Now) -> None:
        """A target assignment was made: it holds for all who are still there."""
        way = group.way
        way.assigning = False
        waiting, way.waiting = way.waiting, []
        if self.ports.shard_of(group.id) is not shard or self.groups(shard).get(group.id) is not group:
            for one in waiting:
                self._answer(one.ticket, _unknown(group.id, one.member_id).beat())
            return
        if isinstance(result, Exception):
            group.target_wall_ms = now.wall_ms
            text = f"Failed to compute a new target assignment for epoch {epoch}: {result!r}"
            for one in waiting:
                self._answer(one.ticket, Beat(ErrorCode.UNKNOWN_SERVER_ERROR, text))
        else:
            self._commit(shard, group, assignments.take(group, epoch, result, now))
            for one in waiting:
                self._finish(shard, group, one, {}, now)
        self._want_assignment(shard, group, now, [])

    # ---- timers

    def _touch(self, group: StreamsGroup, member: Member, now: Now) -> None:
        member.session_due_ms = now.mono_ms + self.settings.pace(group.id).session_ms
        self._watch(group, member)

    def _time_revocation(self, group: StreamsGroup, member: Member, now: Now) -> None:
        member.rebalance_due_ms = FAR_MS
        if member.current.state is MemberState.UNREVOKED_TASKS:
            member.rebalance_due_ms = now.mono_ms + max(0, member.told.rebalance_timeout_ms)
            self._watch(group, member)

    def _watch(self, group: StreamsGroup, member: Member) -> None:
        due_ms = member.due_ms()
        if member.watched_ms > due_ms:
            member.watched_ms = due_ms
            heapq.heappush(self.watched, (due_ms, group.id, member.id))

    # ---- inside

    def _size(self, topic: str) -> int | None:
        named = self.topics.named(topic)
        return None if named is None else named[1]

    def _answer(self, ticket: int, beat: Beat) -> None:
        self.ports.answers.append((ticket, beat))

    def _commit(
        self,
        shard: Shard,
        group: StreamsGroup,
        touched: Mapping[Key, None],
        then: Callable[[ErrorCode], None] | None = None,
    ) -> None:
        group.way.writes.commit(touched, lambda records, ended: self.ports.write(shard, group.id, records, ended), then)


def _unknown(group_id: str, member_id: str) -> Refused:
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")
