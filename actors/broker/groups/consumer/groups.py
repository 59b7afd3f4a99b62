"""What becomes of the requests of a consumer group's members: heartbeats, leaves, and silence (KIP-848).

The order of each change is that of `member_groups.py` and `reconciled_groups.py`. This file alone decides what a heartbeat
changes, and in which order. Rules:

1. What could be wrong with a heartbeat is found before anything is changed.
2. Regular expressions are matched outside the loop (`regular_expressions.py`).
3. All members that are late are removed with one change of the group: a group may be large.
4. A group in which nothing is under way is laid to rest after some heartbeat intervals (`resting.py`).
5. Classic members are served as `mixed_groups.py` says. A group changes its protocol as `migration.py` says, together
   with the change that makes it do so.
"""

from collections.abc import Callable, Sequence

from actors.broker.groups.classic.state import Group as ClassicGroup
from actors.broker.groups.classic.state import GroupState
from actors.broker.groups.consumer import assignments, regular_expressions
from actors.broker.groups.consumer import records as kinds
from actors.broker.groups.consumer.assignors import ASSIGNORS, ConsumerGroupSpec, Targets
from actors.broker.groups.consumer.in_progress import InProgress, WaitingHeartbeat
from actors.broker.groups.consumer.member_checks import check_regex, known_member, speaker, told_now
from actors.broker.groups.consumer.membership import raise_epoch, remove, replace
from actors.broker.groups.consumer.migration import (
    from_classic,
    is_replaced_by_classic,
    stays_classic,
)
from actors.broker.groups.consumer.mixed_groups import MixedGroups
from actors.broker.groups.consumer.next_heartbeat import next_heartbeat_ms, step_of
from actors.broker.groups.consumer.reconciliation import reconcile
from actors.broker.groups.consumer.records import RecordKey
from actors.broker.groups.consumer.requests import ConsumerBeat, ConsumerHeartbeat, Visible, check
from actors.broker.groups.consumer.settings import ConsumerGroupSettings
from actors.broker.groups.consumer.state import (
    AWAY,
    FAR_MS,
    NOTHING,
    TYPE,
    ConsumerGroup,
    Held,
    Member,
    Subscription,
)
from actors.broker.groups.kind import Committer, Job, Ports
from actors.broker.groups.member_groups import MEMBERS, REST
from actors.broker.groups.refusals import RequestRefused
from actors.broker.groups.shard import Shard
from actors.broker.groups.topics import Topics, metadata_hash
from actors.ports import Now
from actors.wire.errors import ErrorCode

REST_BEATS = 2
"""The number of heartbeat intervals between two looks whether a group that is awake may rest, at least; at most one
more."""
REST_SPREAD_MS = 5
"""The time between two of these looks, ms: many groups that were loaded together are not laid to rest at once, which
would take long."""


class ConsumerGroups(MixedGroups):
    """The consumer groups of one broker."""

    type = TYPE
    numbers = tuple(kinds.VALUES)
    records = kinds
    beat = ConsumerBeat
    ranked = True

    def __init__(self, ports: Ports, settings: ConsumerGroupSettings, topics: Topics) -> None:
        super().__init__(ports, settings, topics)
        self._rests_planned = 0
        self._looks |= {MEMBERS: self._look_at_members, REST: self._look_at_rest}

    def _new(self, id: str) -> ConsumerGroup:
        return ConsumerGroup(id)

    def _in_progress(self, group: ConsumerGroup) -> InProgress:
        return InProgress()

    def _check(self, request: ConsumerHeartbeat) -> None:
        check(request, self.settings.assignors)

    # ---- requests of administrators

    def leave(
        self,
        shard: Shard,
        group: ConsumerGroup,
        members: Sequence[tuple[str, str | None]],
        then: Callable[[ErrorCode], None],
        now: Now,
    ) -> list[ErrorCode]:
        """Handle LeaveGroup: an administrator takes members out, by member or instance id. Returns a code for each;
        `then` is called when they are out of the log too."""
        codes, gone = [], dict[str, Member]()
        for member_id, instance_id in members:
            id = member_id if instance_id is None else group.static.get(instance_id, "")
            member = group.members.get(id)
            if member is None or group.gone:
                codes.append(ErrorCode.UNKNOWN_MEMBER_ID)
            elif member_id and member_id != id:
                codes.append(ErrorCode.FENCED_INSTANCE_ID)
            else:
                codes.append(ErrorCode.NONE)
                gone[member.id] = member
        if gone:
            self._take_out(shard, group, list(gone.values()), then, now)
        else:
            then(ErrorCode.NONE)
        return codes

    # ---- time

    def _resume(self, shard: Shard, group: ConsumerGroup, now: Now) -> None:
        for member in group.members.values():
            member.session_due_ms = now.mono_ms + self._session_ms(group, member)
            self._time_revocation(group, member, now)
        self._watch_all(group)
        if group.members:
            self._plan_rest(group, now)

    def _look_at_member(self, shard: Shard, group: ConsumerGroup, member_id: str, due_ms: int, now: Now) -> None:
        if group.rest is None:
            super()._look_at_member(shard, group, member_id, due_ms, now)

    def _end_session(self, shard: Shard, group: ConsumerGroup, member: Member, now: Now) -> None:
        self._end_sessions(shard, group, now)

    def _look_at_members(self, shard: Shard, group: ConsumerGroup, member_id: str, due_ms: int, now: Now) -> None:
        if group.watched_ms != due_ms:
            return
        group.watched_ms = FAR_MS
        if group.rest is not None and group.rest.first_due_ms() > now.mono_ms:
            self._watch_all(group)
            return
        for member in group.members.values():
            self._watch(group, member)
        self._end_sessions(shard, group, now)

    def _end_sessions(self, shard: Shard, group: ConsumerGroup, now: Now) -> None:
        """Take out all members that are late, with one change of the group."""
        late = [member for member in group.members.values() if member.due_ms() <= now.mono_ms]
        if late:
            self._take_out(shard, group, late, None, now)

    def _look_at_rest(self, shard: Shard, group: ConsumerGroup, member_id: str, due_ms: int, now: Now) -> None:
        if group.way.rest_due_ms == due_ms and group.rest is None:
            group.way.rest_due_ms = FAR_MS
            self._rest(group, now)

    # ---- who may commit and read offsets

    def _past_error(self, group: ConsumerGroup, committer: Committer, present: int) -> ErrorCode:
        classic = group.members[committer.member_id].subscription.classic is not None
        if committer.transactional or (classic and committer.epoch > present):
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.STALE_MEMBER_EPOCH

    def stale_error(self, group: ConsumerGroup, member_id: str) -> ErrorCode:
        """The error for a member that commits or reads in an earlier epoch, and may not."""
        member = group.members.get(member_id)
        classic = member is not None and member.subscription.classic is not None
        return ErrorCode.ILLEGAL_GENERATION if classic else ErrorCode.STALE_MEMBER_EPOCH

    def _held_as(self, group: ConsumerGroup, topic: str) -> bytes | None:
        named = self.topics.named(topic)
        return None if named is None else named[0]

    def size(self, group: ConsumerGroup) -> int:
        """The number of members of a group."""
        return group.size()

    # ---- heartbeats

    def _beat_at_rest(self, shard: Shard, ticket: int, request: ConsumerHeartbeat, now: Now) -> bool:
        """Answer a heartbeat that asks for nothing, of a group at rest. Returns False if there is more to do."""
        group = self.groups(shard).get(request.group_id)
        rest = None if group is None else group.rest
        if group is None or rest is None or request.epoch != group.target_epoch or not request.ordinary:
            return False
        if group.way.seen_version != self.topics.version:
            if metadata_hash(self.topics, rest.topics) != group.metadata_hash:
                return False
            group.way.seen_version = self.topics.version
        config = self.settings.config(group.id)
        due_ms = now.mono_ms + config.session_ms
        if not rest.heard(request.member_id, request.said, due_ms):
            return False
        if group.watched_ms > due_ms:  # sessions have become shorter
            self._watch_all(group)
        self._answer(ticket, ConsumerBeat(ErrorCode.NONE, None, request.member_id, request.epoch, config.heartbeat_ms))
        return True

    def _beat(self, shard: Shard, ticket: int, request: ConsumerHeartbeat, now: Now) -> None:
        if self._beat_at_rest(shard, ticket, request, now):
            return
        group = self._group(shard, request)
        touched: dict[RecordKey, None] = {}
        id = request.member_id or request.fresh_id
        self._check_room(group, id)
        member, replaced = speaker(group, request, id)
        told = told_now(request, (replaced or member).subscription)
        check_regex(told.regex, member.subscription.regex)
        # Nothing is refused from here on.
        if shard.find(group.id) is not group:
            touched |= self._begin(shard, group, now)
        static = replaced or (group.members.get(member.id) if request.instance_id is not None else None)
        turns = request.join is not None and is_replaced_by_classic(group, static, self.settings.migration)
        if replaced is not None:
            touched |= replace(group, replaced, member)
        known = member.subscription
        before = (replaced or member).current.assigned
        if told != known or member.id not in group.members:
            regex_before = known.regex if member.id in group.members else ""
            group.subscribe(member, told)
            touched[RecordKey(kinds.MEMBER, member.id)] = None
            touched |= regular_expressions.forget(group, regex_before)
        changed = (told.topics, told.regex) != (known.topics, known.regex)
        self._bump(group, told, known, touched)
        if turns and self._downgrade(shard, group, touched, None, now, joined=(ticket, request, member.id)):
            return
        if known.classic is not None:
            member.rebalance_due_ms = FAR_MS
        self._touch(group, member, now)
        self._plan_rest(group, now)
        if request.join is None:
            self._resolve(shard, group, member, request.visible, now)
        waiting = WaitingHeartbeat(ticket, member.id, request, before, changed)
        waits = group.way.assigning and request.epoch == 0
        if self._want_assignment(shard, group, now) or waits:
            group.way.waiting.append(waiting)
            if touched:
                self._commit(shard, group, touched)
            return
        self._finish(shard, group, waiting, touched, now)

    def _group(self, shard: Shard, request: ConsumerHeartbeat) -> ConsumerGroup:
        """The group of a request; if there is none, a new one that is not known yet."""
        group = self.groups(shard).get(request.group_id)
        if group is not None:
            if group.gone:
                raise RequestRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return group
        found = shard.find(request.group_id)
        if found is None and request.epoch != 0:
            raise self._not_found(request.group_id)
        if found is not None and not (request.epoch == 0 and isinstance(found, ClassicGroup)):
            raise self._other_kind(request.group_id)
        if found is not None and found.state is GroupState.DEAD:
            raise RequestRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if found is None or found.state is GroupState.EMPTY:
            group = ConsumerGroup(request.group_id)
        else:
            group = from_classic(found, self.settings.migration, self.settings.size_max, self.topics)
        group.way = InProgress()
        return group

    def _begin(self, shard: Shard, group: ConsumerGroup, now: Now) -> dict[RecordKey, None]:
        """Make a group known, with the members that it has from when it was classic. The records that the log has of it
        as a classic group are touched, too."""
        found = shard.find(group.id)
        former = [] if found is None else self.ports.retire(shard, found)
        touched = {kinds.key_of(key): None for key, _ in former}
        shard.forget(group.id)
        self.groups(shard)[group.id] = group
        for member in group.members.values():
            self._touch(group, member, now)
        return touched | dict.fromkeys(kinds.keys(group) if group.members else ())

    def _bump(
        self, group: ConsumerGroup, told: Subscription, known: Subscription, touched: dict[RecordKey, None]
    ) -> None:
        """Raise the group's epoch if its members' subscriptions, or what is known of their topics, ask for it."""
        resolved = told.regex != known.regex and (not told.regex or told.regex in group.resolved)
        bump = told.topics != known.topics or resolved
        if bump or group.way.seen_version != self.topics.version:
            found = self._hash(group)
            if bump or found != group.metadata_hash:
                raise_epoch(group, found, touched)

    def _hash(self, group: ConsumerGroup) -> int:
        group.way.seen_version = self.topics.version
        return metadata_hash(self.topics, group.all_topics())

    def _answer_member(
        self,
        shard: Shard,
        group: ConsumerGroup,
        member: Member,
        one: WaitingHeartbeat,
        touched: dict[RecordKey, None],
        now: Now,
    ) -> None:
        request = one.request
        if one.changed or not member.settled(group.target_epoch):
            asked = assignments.member_to_reconcile(group, member, request.owned, one.changed, self.topics)
            if not self._reconciled(shard, group, member, one, lambda: reconcile(asked), touched, now):
                return
        if request.join is not None:
            member.rebalance_due_ms = FAR_MS
            self._time_step(group, member, now)
        current = member.current
        moved = request.full or (
            current.assigned is not one.before and _numbers(current.assigned) != _numbers(one.before)
        )
        config = self.settings.config(group.id)
        step = step_of(group, member, now)
        interval_ms = next_heartbeat_ms(config.heartbeat_ms, config.assignment_interval_ms, step)
        beat = ConsumerBeat(
            ErrorCode.NONE, None, member.id, current.epoch, interval_ms, current.assigned if moved else None
        )
        self._commit(shard, group, touched, self._once_written(one.ticket, request, beat))

    def _take_out(
        self,
        shard: Shard,
        group: ConsumerGroup,
        members: Sequence[Member],
        then: Callable[[ErrorCode], None] | None,
        now: Now,
    ) -> None:
        """Take members out: the others share what they had, in a classic group if no member of KIP-848 is left."""
        turns = stays_classic(group, [member.id for member in members], self.settings.migration)
        touched: dict[RecordKey, None] = {}
        for member in members:
            touched |= remove(group, member)
        if turns and self._downgrade(shard, group, touched, then, now):
            return
        raise_epoch(group, self._hash(group), touched)
        self._commit(shard, group, touched, then)
        self._want_assignment(shard, group, now)

    def _leave(self, shard: Shard, ticket: int, request: ConsumerHeartbeat, now: Now) -> None:
        group = self.groups(shard).get(request.group_id)
        if group is None or group.gone:
            raise self._not_found(request.group_id)
        member = known_member(group, request)
        then = self._once_written(ticket, request, ConsumerBeat(ErrorCode.NONE, None, request.member_id, request.epoch))
        if request.epoch == AWAY:
            current = member.current.at(AWAY)._replace(previous_epoch=member.current.previous_epoch, revoking=NOTHING)
            group.move(member, current)
            member.rebalance_due_ms = FAR_MS
            self._commit(shard, group, {RecordKey(kinds.CURRENT, member.id): None}, then)
            self._want_assignment(shard, group, now)
        else:
            self._take_out(shard, group, [member], then, now)

    # ---- target assignments

    def _order(self, group: ConsumerGroup) -> ConsumerGroupSpec:
        return assignments.spec(group, self.topics)

    def _assignor(self, group: ConsumerGroup) -> Callable[[ConsumerGroupSpec], Targets]:
        return ASSIGNORS[group.assignor(self.settings.assignors[0])]

    def _take_targets(
        self, group: ConsumerGroup, epoch: int, order: ConsumerGroupSpec, targets: Targets, now: Now
    ) -> dict[RecordKey, None]:
        return assignments.take(group, epoch, order, targets, now)

    # ---- regular expressions

    def _resolve(self, shard: Shard, group: ConsumerGroup, member: Member, visible: Visible, now: Now) -> None:
        """Match the members' regular expressions with the topics, if it is time."""
        version = self.topics.version
        if not regular_expressions.is_due(group, member, version, self.settings.regex_refresh_ms, now):
            return
        group.way.resolving = True
        match = regular_expressions.matching(list(group.regexes), list(self.topics.names()))
        self.jobs.append(Job(match, lambda result, now: self._matched(shard, group, version, visible, result, now)))

    def _matched(
        self,
        shard: Shard,
        group: ConsumerGroup,
        version: int,
        visible: Visible,
        result: regular_expressions.Found | Exception,
        now: Now,
    ) -> None:
        if not self._still(shard, group) or group.gone:
            return
        way = group.way
        way.resolving, way.resolved_version, way.resolved_ms = False, version, now.mono_ms
        if isinstance(result, Exception):
            return
        touched, moved = regular_expressions.take(group, result, visible, version, now)
        if moved:
            raise_epoch(group, self._hash(group), touched)
        if touched:
            self._commit(shard, group, touched)
            self._want_assignment(shard, group, now)

    # ---- timers

    def _session_ms(self, group: ConsumerGroup, member: Member) -> int:
        classic = member.subscription.classic
        return classic.session_timeout_ms if classic else self.settings.config(group.id).session_ms

    def _watch_all(self, group: ConsumerGroup) -> None:
        """Plan a look at the group's members, not later than the first session ends."""
        if group.rest is not None:
            due_ms = group.rest.first_due_ms()
        else:
            due_ms = min((member.session_due_ms for member in group.members.values()), default=FAR_MS)
        if group.watched_ms > due_ms:
            group.watched_ms = due_ms
            self._plan(due_ms, MEMBERS, group)

    # ---- rest

    def _plan_rest(self, group: ConsumerGroup, now: Now) -> None:
        """Plan a look whether the group may rest."""
        if group.way.rest_due_ms == FAR_MS:
            heartbeat_ms = self.settings.config(group.id).heartbeat_ms
            self._rests_planned += 1
            later_ms = REST_BEATS * heartbeat_ms + self._rests_planned * REST_SPREAD_MS % heartbeat_ms
            group.way.rest_due_ms = now.mono_ms + later_ms
            self._plan(group.way.rest_due_ms, REST, group)

    def _rest(self, group: ConsumerGroup, now: Now) -> None:
        """Lay a group to rest, if it may. A member that has just been given something asks again soon (reading G-48),
        so the target assignment has to be older than that."""
        age_ms = now.wall_ms - group.target_wall_ms
        old = age_ms >= self.settings.config(group.id).assignment_interval_ms
        if old and group.way.idle() and group.lie_down():
            self._watch_all(group)
        elif group.size():
            self._plan_rest(group, now)


# ---- inside


def _numbers(held: Held) -> dict[bytes, frozenset[int]]:
    return {topic_id: frozenset(partitions) for topic_id, partitions in held.items()}
