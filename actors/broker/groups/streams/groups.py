"""What becomes of the requests of a streams group's members: heartbeats, leaves, and silence (KIP-1071).

This file alone decides the order of each change: the group is changed, the records that this touches are written
(`keyed_writes.py`), and the member is answered when they are committed. Rules:

1. The first member brings the topology. A member with an older one goes on with the group's and is told that it is stale;
   a topology that differs otherwise is refused, as Kafka 4.3 does.
2. The group's epoch grows with each change of a member's description, of the topics that the topology needs, of whether
   these are as they have to be, and of the settings for the assignment.
3. A new target assignment is made outside the loop, when the group's epoch is above that of the present one and the last is
   `group.streams.assignment.interval.ms` old. The member that caused it, or that joins meanwhile, is answered when it is
   there. In a group without members the first one waits for `group.streams.initial.rebalance.delay.ms`.
4. While the topics are not as they have to be, no member has a target.
5. A member that is not heard of for its session, or does not let go of tasks within its rebalance timeout, is removed.
6. Kafka assigns only when a member is heard of. Here the tasks of a member that leaves or is late pass on at once.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from actors.broker.groups.epochs import next_epoch
from actors.broker.groups.member_groups import GroupConfig, SettingsOf
from actors.broker.groups.reconciled_groups import ReconciledGroups
from actors.broker.groups.refusals import RequestRefused, unknown_member
from actors.broker.groups.shard import Shard
from actors.broker.groups.streams import assignments
from actors.broker.groups.streams import records as kinds
from actors.broker.groups.streams.answers import StreamsBeat, Tasks
from actors.broker.groups.streams.assignor import StreamsGroupSpec, Targets, sticky
from actors.broker.groups.streams.changes import StreamsGroupChange, changed
from actors.broker.groups.streams.endpoints_told import tell
from actors.broker.groups.streams.in_progress import InProgress, WaitingHeartbeat
from actors.broker.groups.streams.reconciliation import StreamsMemberToReconcile, reconcile
from actors.broker.groups.streams.records import RecordKey
from actors.broker.groups.streams.requests import StreamsHeartbeat, check
from actors.broker.groups.streams.state import TYPE, Member, StreamsGroup
from actors.ports import Now
from actors.wire.errors import ErrorCode

STANDBY_REPLICAS = "num.standby.replicas"
"""The setting of the assignment, by the name under which Kafka writes it."""


class StreamsGroupConfig(NamedTuple):
    """The settings of one group, as Kafka's GroupConfig has them."""

    session_ms: int
    heartbeat_ms: int
    assignment_interval_ms: int
    initial_delay_ms: int
    standby_replicas: int

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "StreamsGroupConfig":
        """The settings, taken out of all settings of a group."""
        return cls(
            *GroupConfig.of(TYPE, settings),
            settings["streams.initial.rebalance.delay.ms"],
            settings["streams.num.standby.replicas"],
        )


class StreamsGroupSettings(NamedTuple):
    """The broker's settings of streams groups, `group.streams.*`. `config`: of a group, by its name, as its own
    settings have it."""

    size_max: int
    config: Callable[[str], StreamsGroupConfig]

    @classmethod
    def of(cls, value: Callable[[str], Any], settings_of: SettingsOf) -> "StreamsGroupSettings":
        """The settings, taken out of the broker's settings by name, and of those of groups."""
        return cls(value("group.streams.max.size"), lambda group: StreamsGroupConfig.of(settings_of(group)))


USUAL = StreamsGroupSettings((1 << 31) - 1, lambda group: StreamsGroupConfig(45_000, 5_000, 1_000, 3_000, 0))
"""The settings without a bound on members, with Kafka's defaults."""


class StreamsGroups(ReconciledGroups[StreamsGroup]):
    """The streams groups of one broker."""

    type = TYPE
    numbers = tuple(kinds.VALUES)
    records = kinds
    beat = StreamsBeat
    failure = "Failed to compute a new target assignment for epoch {epoch}: {error!r}"
    settings: StreamsGroupSettings

    def _new(self, id: str) -> StreamsGroup:
        return StreamsGroup(id)

    def _in_progress(self, group: StreamsGroup) -> InProgress:
        return InProgress(group)

    def _check(self, request: StreamsHeartbeat) -> None:
        check(request)

    def _held_as(self, group: StreamsGroup, topic: str) -> str | None:
        """The subtopology that reads a source topic: a partition of the topic belongs to the task of its number
        there."""
        return group.topology.readers.get(topic) if group.topology is not None else None

    # ---- time

    def _resume(self, shard: Shard, group: StreamsGroup, now: Now) -> None:
        for member in group.members.values():
            self._touch(group, member, now)
            self._time_revocation(group, member, now)

    def _end_session(self, shard: Shard, group: StreamsGroup, member: Member, now: Now) -> None:
        self._commit(shard, group, self._remove(group, member))
        self._want_assignment(shard, group, now)

    # ---- heartbeats

    def _beat(self, shard: Shard, ticket: int, request: StreamsHeartbeat, now: Now) -> None:
        group = self._group(shard, request)
        config = self.settings.config(group.id)
        self._check_room(group, request.member_id)
        settings = ((STANDBY_REPLICAS, str(config.standby_replicas)),)
        change = changed(group, request, settings, self.topics)
        taken: dict[RecordKey, None] = {}
        if self.groups(shard).get(group.id) is not group:
            taken = self._take(shard, group)
        # Nothing is refused from here on.
        if not group.members and group.way.delayed_until_ms <= now.mono_ms:
            group.way.delayed_until_ms = now.mono_ms + config.initial_delay_ms
        before = change.member.current
        touched = taken | self._apply(group, change)
        self._touch(group, change.member, now)
        if request.shutdown:
            group.way.shutdown = group.way.shutdown or request.member_id
        status = [*change.status, *assignments.delayed(group, config.assignment_interval_ms, now)]
        waits = group.way.assigning and request.epoch == 0
        waiting = WaitingHeartbeat(ticket, request.member_id, request, before, status)
        if self._want_assignment(shard, group, now) or waits:
            group.way.waiting.append(waiting)
            if touched:
                self._commit(shard, group, touched)
            return
        self._finish(shard, group, waiting, touched, now)

    def _group(self, shard: Shard, request: StreamsHeartbeat) -> StreamsGroup:
        """The group of a request; if there is none, a new one that is not known yet."""
        group = self.groups(shard).get(request.group_id)
        if group is not None:
            if group.gone:
                raise RequestRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return group
        if shard.find(request.group_id) is not None and request.epoch != 0:
            raise self._other_kind(request.group_id)
        if request.epoch != 0:
            raise self._not_found(request.group_id)
        group = StreamsGroup(request.group_id)
        group.way = InProgress(group)
        return group

    def _take(self, shard: Shard, group: StreamsGroup) -> dict[RecordKey, None]:
        """Take a name for a new group, from an empty classic one where there is one. Returns what that touches."""
        vacated = self.ports.vacate(shard, group.id)
        if vacated is None:
            raise self._other_kind(group.id)
        shard.forget(group.id)
        self.groups(shard)[group.id] = group
        return {RecordKey(kinds.CLASSIC): None} if vacated else {}

    def _apply(self, group: StreamsGroup, change: StreamsGroupChange) -> dict[RecordKey, None]:
        """Make a change hold. Returns the keys that it touches."""
        touched: dict[RecordKey, None] = {}
        way, member = group.way, change.member
        if change.told != member.told or member.id not in group.members:
            group.members[member.id] = member
            member.told = change.told
            way.forget(member.id)
            touched[RecordKey(kinds.MEMBER, member.id)] = None
        if group.topology != change.topology:
            group.topology = change.topology
            touched[RecordKey(kinds.TOPOLOGY)] = None
        if way.partitioned is not change.partitioned:
            way.partitioned = change.partitioned
            way.forget_all()
        way.seen_version = self.topics.version
        if change.raises:
            group.epoch = next_epoch(group.epoch)
            group.metadata_hash, group.valid_epoch = change.metadata_hash, change.valid_epoch
            group.settings = change.settings
            touched[RecordKey(kinds.GROUP)] = None
        return touched

    def _answer_member(
        self,
        shard: Shard,
        group: StreamsGroup,
        member: Member,
        one: WaitingHeartbeat,
        touched: dict[RecordKey, None],
        now: Now,
    ) -> None:
        way = group.way
        if not member.settled(group.target_epoch):
            question = self._question(group, member, one.request, now)
            if not self._reconciled(shard, group, member, one, lambda: reconcile(question), touched, now):
                return
        beat = tell(group, member, one, self.settings.config(group.id).heartbeat_ms, self._size, now)

        answer = self._once_written(one.ticket, one.request, beat)

        def written(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                way.untold(one.member_id)
            answer(error)

        self._commit(shard, group, touched, written)

    def _question(
        self, group: StreamsGroup, member: Member, request: StreamsHeartbeat, now: Now
    ) -> StreamsMemberToReconcile:
        delayed = now.mono_ms < group.way.delayed_until_ms
        target = Tasks() if delayed else group.targets.get(member.id, Tasks())
        return StreamsMemberToReconcile(
            member.current, group.target_epoch, target, request.owned(), partial(group.available, member)
        )

    def _leave(self, shard: Shard, ticket: int, request: StreamsHeartbeat, now: Now) -> None:
        group = self.groups(shard).get(request.group_id)
        if group is None or group.gone:
            other = shard.find(request.group_id) is not None
            text = "is not a streams group" if other else "not found"
            raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} {text}.")
        if request.shutdown:
            group.way.shutdown = group.way.shutdown or request.member_id
        member = group.members.get(request.member_id)
        if member is None:
            raise unknown_member(group.id, request.member_id)
        touched = self._remove(group, member)
        beat = StreamsBeat(ErrorCode.NONE, None, request.member_id, request.epoch)
        self._commit(shard, group, touched, self._once_written(ticket, request, beat))
        self._want_assignment(shard, group, now)

    def _remove(self, group: StreamsGroup, member: Member) -> dict[RecordKey, None]:
        group.remove(member.id)
        group.epoch = next_epoch(group.epoch)
        group.way.forget(member.id)
        if not group.members:
            group.way.shutdown = None
        return {
            **{RecordKey(kind, member.id): None for kind in kinds.OF_MEMBERS},
            RecordKey(kinds.GROUP): None,
        }

    # ---- target assignments

    def _needs_assignment(self, group: StreamsGroup) -> bool:
        return assignments.needed(group)

    def _assignment_due_ms(self, group: StreamsGroup, now: Now) -> int:
        due = assignments.due(group, self.settings.config(group.id).assignment_interval_ms, now)
        return now.mono_ms if due is None else due.due_ms

    def _order(self, group: StreamsGroup) -> StreamsGroupSpec:
        return assignments.spec(group, self.settings.config(group.id).standby_replicas)

    def _assignor(self, group: StreamsGroup) -> Callable[[StreamsGroupSpec], Targets]:
        return sticky

    def _take_targets(
        self, group: StreamsGroup, epoch: int, order: StreamsGroupSpec, targets: Targets, now: Now
    ) -> dict[RecordKey, None]:
        return assignments.take(group, epoch, targets, now)

    # ---- inside

    def _size(self, topic: str) -> int | None:
        named = self.topics.named(topic)
        return None if named is None else named[1]
