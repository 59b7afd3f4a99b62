"""What becomes of the requests of a consumer group's members: heartbeats, leaves, and silence (KIP-848).

This file alone decides the order of each change: the group is changed, the records that this touches are written, and the
member is answered when they are committed. Rules:

1. A change of a group names the keys of the records that it touches; what they say is the group's state when they are
   written. Keys whose write has failed are written again with the next change, and nobody is answered with what depended on
   them.
2. An ordinary heartbeat costs the same in a group of one and of a thousand members.
3. A new target assignment is made outside the loop, when the group's epoch is above that of the present one and the last is
   `group.consumer.assignment.interval.ms` old. Who caused it, or joins meanwhile, is answered when it is there.
4. Regular expressions are matched outside the loop as well. A member gets the topics of a new one with a later heartbeat.
5. A member that is not heard of for its session, or does not let go of partitions within its rebalance timeout, is removed.
6. A group in which nothing is under way is laid to rest after some heartbeat intervals (`resting.py`).
7. Classic members are served as `classic_members.py` says. A group changes its protocol as `migration.py` says, together
   with the change that makes it do so.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from actors.broker.coordinators.coordination import Record, Then
from actors.broker.groups.assignment_interval import left_ms
from actors.broker.groups.classic.state import Group as ClassicGroup
from actors.broker.groups.classic.state import GroupState
from actors.broker.groups.classic_requests import JoinRequest, Synced, SyncRequest
from actors.broker.groups.consumer import classic_members
from actors.broker.groups.consumer import records as kinds
from actors.broker.groups.consumer.assignors import ASSIGNORS, Order, Targets, Wish
from actors.broker.groups.consumer.member_checks import check_regex, known_member, speaker, told_now, unknown
from actors.broker.groups.consumer.migration import (
    Migration,
    assignment_bytes,
    from_classic,
    is_replaced_by_classic,
    stays_classic,
    to_classic,
)
from actors.broker.groups.consumer.next_heartbeat import Step, next_heartbeat_ms
from actors.broker.groups.consumer.reconciliation import Fenced, Owned, Question, reconcile
from actors.broker.groups.consumer.records import Key
from actors.broker.groups.consumer.requests import Beat, Refused, Request, check
from actors.broker.groups.consumer.state import (
    AWAY,
    FAR_MS,
    NOTHING,
    TYPE,
    ConsumerGroup,
    Held,
    Member,
    MemberState,
    Resolved,
    Subscription,
)
from actors.broker.groups.epochs import next_epoch, spent
from actors.broker.groups.kind import Committer, Expiry, Job, Kind, Ports
from actors.broker.groups.patterns import Pattern
from actors.broker.groups.records import Line
from actors.broker.groups.shard import Shard
from actors.broker.groups.topics import Topics, metadata_hash
from actors.ports import Now
from actors.wire.errors import ErrorCode, WireError

WRITE_BYTES_MAX = 1 << 18
"""Of the records of one write. Many are written as several, of which a part makes sense to the next coordinator."""
REGEX_LEAST_INTERVAL_MS = 10_000
"""How often regular expressions are matched anew while topics come and go."""
REST_BEATS = 2
"""Heartbeat intervals between two looks whether a group that is awake may rest, at least; at most one more."""
REST_SPREAD_MS = 5
"""Between two of these looks: many groups that were loaded together are not laid to rest at once, which would take long."""
MEMBER, MEMBERS, ASSIGNMENT, REST = range(4)
"""What a planned look is at: the times of one member, the sessions of all, whether a target assignment is to be made,
whether the group may rest."""
Visible = Callable[[str], bool]
"""Whether the member's client may know of a topic."""


class Pace(NamedTuple):
    """How fast things go in a group."""

    session_ms: int
    heartbeat_ms: int
    assignment_interval_ms: int


class Settings(NamedTuple):
    """The broker's `group.consumer.*`. `pace`: of a group, by its name, as its own settings have it."""

    size_max: int
    assignors: Sequence[str]
    regex_refresh_ms: int
    pace: Callable[[str], Pace]
    migration: Migration = Migration()


class Waiting(NamedTuple):
    """A heartbeat that waits for a target assignment. `before`: what the member had. `changed`: its subscription has."""

    ticket: int
    member_id: str
    request: Request
    before: Held
    changed: bool


class Flight:
    """A write that is under way. `spoiled`: an earlier one of the group has failed."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self.keys = keys
        self.thens: list[Callable[[ErrorCode], None]] = []
        self.spoiled = False


class Way:
    """What is under way for a group, and forgotten with the leadership.

    `behind`: keys of which the log may have another value than the group. `assigning`: a target assignment is being made.
    `assign_due_ms`: when the next may be. `rest_due_ms`: of the next look whether the group may rest. `seen_version`: of the
    metadata that `metadata_hash` is of."""

    __slots__ = (
        "assign_due_ms", "assigning", "behind", "flights", "resolved_ms", "resolved_version", "resolving", "rest_due_ms",
        "seen_version", "waiting",
    )  # fmt: skip

    def __init__(self) -> None:
        self.behind: dict[Key, None] = {}
        self.flights: dict[int, Flight] = {}
        self.waiting: list[Waiting] = []
        self.assigning = False
        self.assign_due_ms = FAR_MS
        self.rest_due_ms = FAR_MS
        self.seen_version = -1
        self.resolving = False
        self.resolved_version = -1
        self.resolved_ms = -FAR_MS

    def idle(self) -> bool:
        """Whether nothing is."""
        return not (self.behind or self.flights or self.waiting or self.assigning or self.resolving)


class ConsumerGroups(Kind[ConsumerGroup]):
    """The consumer groups of one broker."""

    type = TYPE
    numbers = tuple(kinds.VALUES)
    gives_way = True

    def __init__(self, ports: Ports, settings: Settings, topics: Topics) -> None:
        self.ports = ports
        self.settings = settings
        self.topics = topics
        self.jobs: list[Job] = []
        """To be taken and run."""
        self.watched: list[tuple[int, int, str, str]] = []
        """(when, at what, group, member): looks that are planned; the member is "" where the look is not at one."""
        self._rests_planned = 0
        self._looks = {
            MEMBER: self._look_at_member,
            MEMBERS: self._look_at_members,
            ASSIGNMENT: self._look_at_assignment,
            REST: self._look_at_rest,
        }

    # ---- requests

    def heartbeat(self, ticket: int, request: Request, visible: Visible, now: Now) -> None:
        """ConsumerGroupHeartbeat. The answer comes under the ticket."""
        try:
            check(request, self.settings.assignors)
            shard = self._shard(request.group_id)
            if request.leaves:
                self._leave(shard, ticket, request, now)
            elif not self._beat_at_rest(shard, ticket, request, now):
                self._beat(shard, ticket, request, visible, now)
        except Refused as refused:
            self._answer(ticket, refused.beat())

    def classic_join(self, shard: Shard, group_id: str, ticket: int, request: JoinRequest, now: Now) -> None:
        """JoinGroup of a classic member. The answer comes under the ticket."""
        group = self.groups(shard)[group_id]
        try:
            self._check_size(group, request.member_id or request.fresh_id)
            heartbeat = classic_members.heartbeat_of(group, request, self.settings.migration, self.topics)
            self._beat(shard, ticket, heartbeat, _all, now)
        except Refused as refused:
            self.ports.answers.append((ticket, classic_members.refused(request, refused.code)))

    def classic_sync(self, shard: Shard, group: ConsumerGroup, ticket: int, request: SyncRequest, now: Now) -> None:
        """SyncGroup of a classic member: its assignment, once all that it depends on is committed."""
        error, given = ErrorCode.NONE, b""
        try:
            member = classic_members.member_of(group, request.member_id, request.instance_id, request.generation)
            error = classic_members.sync_error(group, member, request)
            given = self._synced(group, member, error, now)
        except Refused as refused:
            error = refused.code
        if error is not ErrorCode.NONE:
            self.ports.answers.append((ticket, Synced(error)))
            return
        done = Synced(ErrorCode.NONE, request.protocol_type, request.protocol, given)
        answers = self.ports
        self._commit(
            shard,
            group,
            {},
            lambda error: answers.answers.append((ticket, done if error is ErrorCode.NONE else Synced(error))),
        )

    def _synced(self, group: ConsumerGroup, member: Member, error: ErrorCode, now: Now) -> bytes:
        """What a member's sync does to its timers; its assignment."""
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self._time_step(group, member, now)
        if error is not ErrorCode.NONE:
            return b""
        member.rebalance_due_ms = FAR_MS
        self._touch(group, member, now)
        assert member.subscription.classic is not None
        return assignment_bytes(member.subscription.classic.protocols[0][1], member.current.assigned, self.topics)

    def classic_heartbeat(
        self, shard: Shard, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, now: Now
    ) -> ErrorCode:
        """Heartbeat of a classic member."""
        try:
            member = classic_members.member_of(group, member_id, instance_id, generation)
        except Refused as refused:
            return refused.code
        self._touch(group, member, now)
        error = classic_members.heartbeat_error(group, member)
        if error is not ErrorCode.NONE:
            self._time_step(group, member, now)
        return error

    def leave(
        self,
        shard: Shard,
        group: ConsumerGroup,
        members: Sequence[tuple[str, str | None]],
        then: Callable[[ErrorCode], None],
        now: Now,
    ) -> list[ErrorCode]:
        """LeaveGroup: an administrator takes members out, by member or instance id. A code for each; `then` when they are
        out of the log too."""
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
            group = groups.setdefault(line.group, ConsumerGroup(line.group))
            kinds.replay(group, line.key, line.data)

    def loaded(self, shard: Shard, now: Now) -> None:
        """The log of a shard was read: sessions begin now."""
        for group in self.groups(shard).values():
            group.way = Way()
            group.way.behind.update((Key(kinds.CURRENT, id), None) for id in group.index())
            for member in group.members.values():
                member.session_due_ms = now.mono_ms + self._session_ms(group, member)
                self._time_revocation(group, member, now)
            self._watch_all(group)
            if group.members:
                self._plan_rest(group, now)

    def unload(self, shard: Shard) -> None:
        """Another broker leads: who waits for an assignment asks there. Writes are told by themselves."""
        for group in self.groups(shard).values():
            if group.way is None:
                continue  # the log was still being read
            waiting, group.way.waiting = group.way.waiting, []
            for one in waiting:
                self._reply(one.ticket, one.request, Beat(ErrorCode.NOT_COORDINATOR))

    # ---- time

    def deadline_ms(self) -> int:
        """When `tick` has something to do."""
        return self.watched[0][0] if self.watched else FAR_MS

    def tick(self, now: Now) -> None:
        """Remove members that are late, make target assignments that are due, and lay groups to rest."""
        due = []
        while self.watched and self.watched[0][0] <= now.mono_ms:
            due.append(heapq.heappop(self.watched))
        for due_ms, what, group_id, member_id in due:
            shard = self.ports.shard_of(group_id)
            group = None if isinstance(shard, ErrorCode) else self.groups(shard).get(group_id)
            if not isinstance(shard, ErrorCode) and group is not None and not group.gone:
                self._looks[what](shard, group, member_id, due_ms, now)

    def _look_at_member(self, shard: Shard, group: ConsumerGroup, member_id: str, due_ms: int, now: Now) -> None:
        member = None if group.rest is not None else group.members.get(member_id)
        if member is not None and member.watched_ms == due_ms:
            member.watched_ms = FAR_MS
            if member.due_ms() > now.mono_ms:
                self._watch(group, member)
            else:
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
            self._take_out(shard, group, late, _ignore, now)

    def _look_at_assignment(self, shard: Shard, group: ConsumerGroup, member_id: str, due_ms: int, now: Now) -> None:
        if group.way.assign_due_ms == due_ms:
            group.way.assign_due_ms = FAR_MS
            self._want_assignment(shard, group, now)

    def _look_at_rest(self, shard: Shard, group: ConsumerGroup, member_id: str, due_ms: int, now: Now) -> None:
        if group.way.rest_due_ms == due_ms and group.rest is None:
            group.way.rest_due_ms = FAR_MS
            self._rest(group, now)

    # ---- who may commit and read offsets

    def commit_error(self, group: ConsumerGroup, committer: Committer, now: Now) -> ErrorCode:
        """Whether a member may commit in its epoch; STALE_MEMBER_EPOCH for an older one, in which it may still commit for
        what it has held since (`held_since`)."""
        member_id, instance_id, epoch, transactional = committer
        if group.gone:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if epoch < 0 and not group.size():
            return ErrorCode.NONE
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return ErrorCode.NONE
        present = group.epoch_of(member_id)
        if present is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if epoch == present:
            return ErrorCode.NONE
        classic = group.members[member_id].subscription.classic is not None
        if transactional or (classic and epoch > present):
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.STALE_MEMBER_EPOCH

    def stale_error(self, group: ConsumerGroup, member_id: str) -> ErrorCode:
        """What a member is told that commits in an earlier epoch, and may not."""
        member = group.members.get(member_id)
        return ErrorCode.STALE_MEMBER_EPOCH if member is None else _stale(member)

    def held_since(self, group: ConsumerGroup, member_id: str, epoch: int, topic: str, partition: int) -> bool:
        """Whether a member that commits in an earlier epoch has held the partition since (KIP-1251)."""
        member, named = group.members.get(member_id), self.topics.named(topic)
        if member is None or named is None or epoch > member.current.epoch:
            return False
        for held in (member.current.assigned, member.current.revoking):
            since = held.get(named[0], {}).get(partition)
            if since is not None:
                return since <= epoch
        return False

    def fetch_error(self, group: ConsumerGroup, member_id: str, epoch: int) -> ErrorCode:
        """A member reads offsets in its epoch alone."""
        present = group.epoch_of(member_id)
        if present is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if present == epoch else _stale(group.members[member_id])

    # ---- what is told of a group, and when it goes

    def size(self, group: ConsumerGroup) -> int:
        """How many members it has."""
        return group.size()

    def listed(self, group: ConsumerGroup) -> tuple[str, str]:
        """Its protocol type and its state."""
        return TYPE, group.state()

    def subscribes(self, group: ConsumerGroup) -> Callable[[str], bool]:
        """Whether some member does, by name or by a regular expression."""
        return group.subscribes

    def offset_delete_error(self, group: ConsumerGroup) -> ErrorCode:
        """Offsets of topics to which no member subscribes can be deleted at any time."""
        return ErrorCode.GROUP_ID_NOT_FOUND if group.gone else ErrorCode.NONE

    def expiry(self, shard: Shard, group: ConsumerGroup, now: Now, retention_ms: int, *, busy: bool) -> Expiry | None:
        """Offsets that are older than the retention, of topics to which no member subscribes; with the last one an empty
        group goes too."""
        if busy or group.gone or shard.transactional.unstable(group.id):
            return None
        oldest_ms, unsettled, subscribes = now.wall_ms - retention_ms, shard.unsettled_of(group.id), group.subscribes
        return Expiry(
            lambda key, committed: committed.wall_ms <= oldest_ms and key not in unsettled and not subscribes(key[0]),
            not group.size() and not unsettled,
        )

    def removal_error(self, group: ConsumerGroup) -> ErrorCode:
        """Only an empty group can be deleted."""
        if group.gone:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NON_EMPTY_GROUP if group.size() else ErrorCode.NONE

    def removal(self, group: ConsumerGroup) -> list[Record]:
        """The records that remove a group, which is gone from now on."""
        group.gone = True
        behind = group.way.behind if group.way is not None else ()
        keys = dict.fromkeys((*behind, *kinds.keys(group)))
        return [kinds.record(group, key) for key in keys]

    def revive(self, group: ConsumerGroup) -> None:
        """The removal could not be written: the log may have it or not, so all is written with the next change."""
        group.gone = False
        group.way.behind.update(dict.fromkeys(kinds.keys(group)))

    # ---- heartbeats

    def _shard(self, group_id: str) -> Shard:
        shard = self.ports.shard_of(group_id)
        if isinstance(shard, ErrorCode):
            raise Refused(shard)
        if group_id in shard.foreign:
            raise Refused(ErrorCode.UNSUPPORTED_VERSION)
        return shard

    def _beat_at_rest(self, shard: Shard, ticket: int, request: Request, now: Now) -> bool:
        """Answer a heartbeat that asks for nothing, of a group at rest. False: there is more to do."""
        group = self.groups(shard).get(request.group_id)
        rest = None if group is None else group.rest
        if group is None or rest is None or request.epoch != group.target_epoch or not request.ordinary:
            return False
        if group.way.seen_version != self.topics.version:
            if metadata_hash(self.topics, rest.topics) != group.metadata_hash:
                return False
            group.way.seen_version = self.topics.version
        pace = self.settings.pace(group.id)
        due_ms = now.mono_ms + pace.session_ms
        if not rest.heard(request.member_id, request.said, due_ms):
            return False
        if group.watched_ms > due_ms:  # sessions have become shorter
            self._watch_all(group)
        self._answer(ticket, Beat(ErrorCode.NONE, None, request.member_id, request.epoch, pace.heartbeat_ms))
        return True

    def _beat(self, shard: Shard, ticket: int, request: Request, visible: Visible, now: Now) -> None:
        group = self._group(shard, request)
        touched: dict[Key, None] = {}
        id = request.member_id or request.fresh_id
        self._check_size(group, id)
        member, replaced = speaker(group, request, id)
        told = told_now(request, (replaced or member).subscription)
        check_regex(told.regex, member.subscription.regex)
        # Nothing is refused from here on.
        if shard.find(group.id) is not group:
            touched |= self._begin(shard, group, now)
        static = replaced or (group.members.get(member.id) if request.instance_id is not None else None)
        turns = request.join is not None and is_replaced_by_classic(group, static, self.settings.migration)
        if replaced is not None:
            touched |= _replace(group, replaced, member)
        known = member.subscription
        before = (replaced or member).current.assigned
        if told != known or member.id not in group.members:
            regex_before = known.regex if member.id in group.members else ""
            group.subscribe(member, told)
            touched[Key(kinds.MEMBER, member.id)] = None
            touched |= _forget_regex(group, regex_before)
        changed = (told.topics, told.regex) != (known.topics, known.regex)
        self._bump(group, told, known, touched)
        if turns and self._downgrade(shard, group, touched, _ignore, now, joined=(ticket, request, member.id)):
            return
        if known.classic is not None:
            member.rebalance_due_ms = FAR_MS
        self._touch(group, member, now)
        self._plan_rest(group, now)
        if request.join is None:
            self._resolve(shard, group, member, visible, now)
        waits = group.way.assigning and request.epoch == 0
        if self._want_assignment(shard, group, now) or waits:
            group.way.waiting.append(Waiting(ticket, member.id, request, before, changed))
            if touched:
                self._commit(shard, group, touched, _ignore)
            return
        self._finish(shard, group, Waiting(ticket, member.id, request, before, changed), touched, now)

    def _group(self, shard: Shard, request: Request) -> ConsumerGroup:
        """The group of a request, perhaps a new one, which is not known yet."""
        group = self.groups(shard).get(request.group_id)
        if group is not None:
            if group.gone:
                raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return group
        found = shard.find(request.group_id)
        if found is None and request.epoch != 0:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} not found.")
        if found is not None and not (request.epoch == 0 and isinstance(found, ClassicGroup)):
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
        if found is not None and found.state is GroupState.DEAD:
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if found is None or found.state is GroupState.EMPTY:
            group = ConsumerGroup(request.group_id)
        else:
            group = from_classic(found, self.settings.migration, self.settings.size_max, self.topics)
        group.way = Way()
        return group

    def _begin(self, shard: Shard, group: ConsumerGroup, now: Now) -> dict[Key, None]:
        """A group is known from now on, with the members that it has from when it was classic. Touched is also what the log
        has of it as a classic group."""
        found = shard.find(group.id)
        former = [] if found is None else self.ports.retire(shard, found)
        touched = {kinds.key_of(key): None for key, _ in former}
        shard.forget(group.id)
        self.groups(shard)[group.id] = group
        for member in group.members.values():
            self._touch(group, member, now)
        return touched | dict.fromkeys(kinds.keys(group) if group.members else ())

    def _check_size(self, group: ConsumerGroup, id: str) -> None:
        if (why := spent(group.id, group.epoch)) is not None:
            raise Refused(ErrorCode.INVALID_REQUEST, why)
        if len(group.members) >= self.settings.size_max and id not in group.members:
            raise Refused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {self.settings.size_max} members.",
            )

    def _bump(self, group: ConsumerGroup, told: Subscription, known: Subscription, touched: dict[Key, None]) -> None:
        """Raise the group's epoch where its members' subscriptions, or what is known of their topics, ask for it."""
        resolved = told.regex != known.regex and (not told.regex or told.regex in group.resolved)
        bump = told.topics != known.topics or resolved
        if bump or group.way.seen_version != self.topics.version:
            found = self._hash(group)
            if bump or found != group.metadata_hash:
                self._raise_epoch(group, found, touched)

    def _raise_epoch(self, group: ConsumerGroup, hash: int, touched: dict[Key, None]) -> None:
        group.epoch = next_epoch(group.epoch)
        group.metadata_hash = hash
        if group.has_partition_metadata:
            group.has_partition_metadata = False
            touched[Key(kinds.PARTITIONS)] = None
        touched[Key(kinds.GROUP)] = None

    def _hash(self, group: ConsumerGroup) -> int:
        group.way.seen_version = self.topics.version
        return metadata_hash(self.topics, _topics(group))

    def _finish(self, shard: Shard, group: ConsumerGroup, waiting: Waiting, touched: dict[Key, None], now: Now) -> None:
        """Bring the member nearer to its target, and answer when that is written."""
        ticket, request, member = waiting.ticket, waiting.request, group.members.get(waiting.member_id)
        if member is None:
            self._reply(ticket, request, unknown(group.id, waiting.member_id).beat())
            return
        if waiting.changed or not member.settled(group.target_epoch):
            try:
                current = reconcile(self._question(group, member, request.owned, waiting.changed))
            except Fenced:
                self._commit(shard, group, touched, _ignore)
                text = (
                    "The member's state is of a later version. The member must abandon all its partitions and rejoin."
                )
                self._reply(ticket, request, Beat(ErrorCode.FENCED_MEMBER_EPOCH, text))
                return
            if current != member.current:
                group.move(member, current)
                touched[Key(kinds.CURRENT, member.id)] = None
                self._time_revocation(group, member, now)
        if request.join is not None:
            member.rebalance_due_ms = FAR_MS
            self._time_step(group, member, now)
        current = member.current
        moved = request.full or (
            current.assigned is not waiting.before and _numbers(current.assigned) != _numbers(waiting.before)
        )
        interval_ms = self._next_heartbeat_ms(group, member, now)
        beat = Beat(ErrorCode.NONE, None, member.id, current.epoch, interval_ms, current.assigned if moved else None)
        self._commit(
            shard,
            group,
            touched,
            lambda error: self._reply(ticket, request, beat if error is ErrorCode.NONE else Beat(error)),
        )

    def _next_heartbeat_ms(self, group: ConsumerGroup, member: Member, now: Now) -> int:
        pace, current = self.settings.pace(group.id), member.current
        step = Step(
            len(group.members),
            group.epoch > group.target_epoch,
            max(0, now.wall_ms - group.target_wall_ms),
            bool(current.assigned),
            current.state is MemberState.UNRELEASED_PARTITIONS,
            group.classic_members > 0,
        )
        return next_heartbeat_ms(pace.heartbeat_ms, pace.assignment_interval_ms, step)

    def _question(self, group: ConsumerGroup, member: Member, owned: Owned | None, changed: bool) -> Question:
        subscribed = group.subscribed(member.subscription)
        return Question(
            member.current,
            group.target_epoch,
            group.targets.get(member.id, {}),
            owned,
            lambda topic_id, partition: group.holder(topic_id, partition) in (None, member.id),
            lambda topic_id: self.topics.name(topic_id) in subscribed,
            changed,
        )

    def _take_out(
        self,
        shard: Shard,
        group: ConsumerGroup,
        members: Sequence[Member],
        then: Callable[[ErrorCode], None],
        now: Now,
    ) -> None:
        """Members are gone: the others share what they had, in a classic group if no member of KIP-848 is left."""
        turns = stays_classic(group, [member.id for member in members], self.settings.migration)
        touched: dict[Key, None] = {}
        for member in members:
            touched |= self._remove(group, member)
        if turns and self._downgrade(shard, group, touched, then, now):
            return
        self._raise_epoch(group, self._hash(group), touched)
        self._commit(shard, group, touched, then)
        self._want_assignment(shard, group, now)

    def _downgrade(
        self,
        shard: Shard,
        group: ConsumerGroup,
        touched: Mapping[Key, None],
        then: Callable[[ErrorCode], None],
        now: Now,
        joined: tuple[int, Request, str] | None = None,
    ) -> bool:
        """The group goes on as a classic group; whether it can. `joined`: ticket, request and id of the static member that
        has come back; it is answered when that is written, and hears of a rebalance afterwards like the others."""
        try:
            classic = to_classic(group, self.topics, now.wall_ms)
        except WireError:
            return False
        group.gone = True
        flying = [key for flight in group.way.flights.values() for key in flight.keys]
        keys = dict.fromkeys((*touched, *flying, *group.way.behind, *kinds.keys(group)))
        for one in group.way.waiting:
            self._reply(one.ticket, one.request, Beat(_gone_classic(one.request)))
        group.way.waiting.clear()
        rebalance = joined is None or group.epoch > group.target_epoch

        def written(error: ErrorCode, now: Now) -> None:
            if joined is not None:
                beat = Beat(error, None, joined[2], classic.generation)
                self._reply(joined[0], joined[1], beat)
            then(error)

        self.ports.become_classic(
            shard, classic, [kinds.key_bytes(group.id, key) for key in keys], now, rebalance=rebalance, then=written
        )
        return True

    def _leave(self, shard: Shard, ticket: int, request: Request, now: Now) -> None:
        group = self.groups(shard).get(request.group_id)
        if group is None or group.gone:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} not found.")
        member = known_member(group, request)
        beat = Beat(ErrorCode.NONE, None, request.member_id, request.epoch)

        def then(error: ErrorCode) -> None:
            self._answer(ticket, beat if error is ErrorCode.NONE else Beat(error))

        if request.epoch == AWAY:
            current = member.current.at(AWAY)._replace(previous_epoch=member.current.previous_epoch, revoking=NOTHING)
            group.move(member, current)
            member.rebalance_due_ms = FAR_MS
            self._commit(shard, group, {Key(kinds.CURRENT, member.id): None}, then)
            self._want_assignment(shard, group, now)
        else:
            self._take_out(shard, group, [member], then, now)

    def _remove(self, group: ConsumerGroup, member: Member) -> dict[Key, None]:
        touched = {Key(kind, member.id): None for kind in (kinds.CURRENT, kinds.TARGET, kinds.MEMBER)}
        regexes = list(group.resolved)
        group.remove(member.id)
        return touched | {Key(kinds.REGEX, regex): None for regex in regexes if regex not in group.resolved}

    # ---- target assignments

    def _want_assignment(self, shard: Shard, group: ConsumerGroup, now: Now) -> bool:
        """Have a target assignment made if one is needed, now or when it is time; whether now."""
        way = group.way
        if way.assigning or not group.members or group.epoch <= group.target_epoch:
            return False
        wait_ms = left_ms(group.target_wall_ms, self.settings.pace(group.id).assignment_interval_ms, now.wall_ms)
        if wait_ms:
            due_ms = now.mono_ms + wait_ms
            if way.assign_due_ms > due_ms:
                way.assign_due_ms = due_ms
                heapq.heappush(self.watched, (due_ms, ASSIGNMENT, group.id, ""))
            return False
        way.assigning, way.assign_due_ms = True, FAR_MS
        epoch, order = group.epoch, self._order(group)
        assign = ASSIGNORS[group.assignor(self.settings.assignors[0])]
        self.jobs.append(
            Job(lambda: assign(order), lambda result, now: self._assigned(shard, group, epoch, order, result, now))
        )
        return True

    def _order(self, group: ConsumerGroup) -> Order:
        sizes: dict[bytes, int] = {}
        topics: dict[tuple[tuple[str, ...], str], frozenset[bytes]] = {}
        members: dict[str, Wish] = {}
        for member in group.members.values():
            told = member.subscription
            wished = topics.get((told.topics, told.regex))
            if wished is None:
                found = [topic for name in group.subscribed(told) if (topic := self.topics.named(name)) is not None]
                sizes.update(found)
                wished = topics[told.topics, told.regex] = frozenset(topic_id for topic_id, _ in found)
            members[member.id] = Wish(told.instance_id, wished)
        return Order(members, sizes, dict(group.targets))

    def _assigned(
        self, shard: Shard, group: ConsumerGroup, epoch: int, order: Order, result: Targets | Exception, now: Now
    ) -> None:
        """A target assignment was made: it holds for all who are still there."""
        way = group.way
        way.assigning = False
        waiting, way.waiting = way.waiting, []
        if self.ports.shard_of(group.id) is not shard or self.groups(shard).get(group.id) is not group:
            for one in waiting:
                self._reply(one.ticket, one.request, unknown(group.id, one.member_id).beat())
            return
        touched: dict[Key, None] = {}
        if isinstance(result, Exception):
            group.target_wall_ms = now.wall_ms
            for one in waiting:
                beat = Beat(ErrorCode.UNKNOWN_SERVER_ERROR, f"No assignment could be made: {result!r}")
                self._reply(one.ticket, one.request, beat)
        else:
            for id, target in result.items():
                if id not in group.members:
                    # A static member may have come back under another id meanwhile.
                    instance = order.members[id].instance_id
                    id = group.static.get(instance, "") if instance is not None else ""
                if id and group.targets.get(id) != target:
                    group.targets[id] = target
                    touched[Key(kinds.TARGET, id)] = None
            group.target_epoch, group.target_wall_ms = epoch, now.wall_ms
            touched[Key(kinds.TARGET_EPOCH)] = None
            self._commit(shard, group, touched, _ignore)
            for one in waiting:
                self._finish(shard, group, one, {}, now)
        self._want_assignment(shard, group, now)

    # ---- regular expressions

    def _resolve(self, shard: Shard, group: ConsumerGroup, member: Member, visible: Visible, now: Now) -> None:
        """Match the members' regular expressions with the topics, where one is new, or the topics or time have gone on."""
        way = group.way
        if not group.regexes or way.resolving:
            return
        age_ms = now.mono_ms - way.resolved_ms
        new = any(regex not in group.resolved for regex in group.regexes) if member.subscription.regex else False
        late = way.resolved_version != self.topics.version and age_ms >= REGEX_LEAST_INTERVAL_MS
        if not (new or late or age_ms >= self.settings.regex_refresh_ms):
            return
        way.resolving = True
        version, regexes, names = self.topics.version, list(group.regexes), list(self.topics.names())

        def match() -> dict[str, list[str]]:
            return {regex: list(filter(Pattern(regex).fullmatch, names)) for regex in regexes}

        def then(result: dict[str, list[str]] | Exception, now: Now) -> None:
            self._matched(shard, group, version, visible, result, now)

        self.jobs.append(Job(match, then))

    def _matched(
        self,
        shard: Shard,
        group: ConsumerGroup,
        version: int,
        visible: Visible,
        result: dict[str, list[str]] | Exception,
        now: Now,
    ) -> None:
        if self.ports.shard_of(group.id) is not shard or self.groups(shard).get(group.id) is not group or group.gone:
            return
        way = group.way
        way.resolving, way.resolved_version, way.resolved_ms = False, version, now.mono_ms
        if isinstance(result, Exception):
            return
        touched: dict[Key, None] = {}
        moved = False
        for regex, names in result.items():
            if regex not in group.regexes:
                continue
            topics = frozenset(filter(visible, names))
            present = group.resolved.get(regex)
            if present is None or present.topics != topics:
                group.resolved[regex] = Resolved(topics, version, now.wall_ms)
                touched[Key(kinds.REGEX, regex)] = None
                moved = moved or topics != (frozenset() if present is None else present.topics)
        if moved:
            self._raise_epoch(group, self._hash(group), touched)
        if touched:
            self._commit(shard, group, touched, _ignore)
            self._want_assignment(shard, group, now)

    # ---- answers

    def _answer(self, ticket: int, beat: Beat) -> None:
        self.ports.answers.append((ticket, beat))

    def _reply(self, ticket: int, request: Request, beat: Beat) -> None:
        """Answer a heartbeat, or the join that it stands for."""
        verdict = beat if request.join is None else classic_members.joined(request, beat)
        self.ports.answers.append((ticket, verdict))

    # ---- timers

    def _touch(self, group: ConsumerGroup, member: Member, now: Now) -> None:
        member.session_due_ms = now.mono_ms + self._session_ms(group, member)
        self._watch(group, member)

    def _session_ms(self, group: ConsumerGroup, member: Member) -> int:
        classic = member.subscription.classic
        return classic.session_timeout_ms if classic else self.settings.pace(group.id).session_ms

    def _time_step(self, group: ConsumerGroup, member: Member, now: Now) -> None:
        """A classic member owes a step, to join anew or to ask for its assignment: the time for it begins."""
        if member.rebalance_due_ms == FAR_MS:
            member.rebalance_due_ms = now.mono_ms + max(0, member.subscription.rebalance_timeout_ms)
            self._watch(group, member)

    def _time_revocation(self, group: ConsumerGroup, member: Member, now: Now) -> None:
        member.rebalance_due_ms = FAR_MS
        if member.current.state is MemberState.UNREVOKED_PARTITIONS and member.current.epoch != AWAY:
            member.rebalance_due_ms = now.mono_ms + max(0, member.subscription.rebalance_timeout_ms)
            self._watch(group, member)

    def _watch(self, group: ConsumerGroup, member: Member) -> None:
        due_ms = member.due_ms()
        if member.watched_ms > due_ms:
            member.watched_ms = due_ms
            heapq.heappush(self.watched, (due_ms, MEMBER, group.id, member.id))

    def _watch_all(self, group: ConsumerGroup) -> None:
        """Plan a look at the group's members, not later than the first session ends."""
        if group.rest is not None:
            due_ms = group.rest.first_due_ms()
        else:
            due_ms = min((member.session_due_ms for member in group.members.values()), default=FAR_MS)
        if group.watched_ms > due_ms:
            group.watched_ms = due_ms
            heapq.heappush(self.watched, (due_ms, MEMBERS, group.id, ""))

    # ---- rest

    def _plan_rest(self, group: ConsumerGroup, now: Now) -> None:
        """Look later whether the group may rest."""
        if group.way.rest_due_ms == FAR_MS:
            heartbeat_ms = self.settings.pace(group.id).heartbeat_ms
            self._rests_planned += 1
            later_ms = REST_BEATS * heartbeat_ms + self._rests_planned * REST_SPREAD_MS % heartbeat_ms
            group.way.rest_due_ms = now.mono_ms + later_ms
            heapq.heappush(self.watched, (group.way.rest_due_ms, REST, group.id, ""))

    def _rest(self, group: ConsumerGroup, now: Now) -> None:
        """Lay a group to rest, if it may. A member that has just been given something asks again soon (reading G-48), so the
        target assignment has to be older than that."""
        age_ms = now.wall_ms - group.target_wall_ms
        old = age_ms >= self.settings.pace(group.id).assignment_interval_ms
        if old and group.way.idle() and group.lie_down():
            self._watch_all(group)
        elif group.size():
            self._plan_rest(group, now)

    # ---- writes

    def _commit(
        self, shard: Shard, group: ConsumerGroup, touched: Mapping[Key, None], then: Callable[[ErrorCode], None]
    ) -> None:
        """Write what is touched; `then` when it is committed, and all that was under way before."""
        way = group.way
        keys = {**way.behind, **touched}
        way.behind.clear()
        if not keys:
            if way.flights:
                way.flights[next(reversed(way.flights))].thens.append(then)
            else:
                then(ErrorCode.NONE)
            return
        flight = Flight([])
        for part, records in _portions(group, keys):
            flight = Flight(part)
            token = self.ports.write(shard, group.id, records, self._ended(group, flight))
            way.flights[token] = flight
        flight.thens.append(then)

    def _ended(self, group: ConsumerGroup, flight: Flight) -> Then:
        way = group.way

        def ended(error: ErrorCode, now: Now) -> None:
            for token in [token for token, one in way.flights.items() if one is flight]:
                del way.flights[token]
            if error is not ErrorCode.NONE:
                way.behind.update(dict.fromkeys(flight.keys))
                for other in way.flights.values():
                    other.spoiled = True
            elif flight.spoiled:
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            for then in flight.thens:
                then(error)

        return ended


# ---- inside


def _ignore(error: ErrorCode) -> None:
    """Nobody waits for this write."""


def _all(topic: str) -> bool:
    """A classic member names its topics."""
    return True


def _stale(member: Member) -> ErrorCode:
    """What an epoch of the past is to a member."""
    return ErrorCode.STALE_MEMBER_EPOCH if member.subscription.classic is None else ErrorCode.ILLEGAL_GENERATION


def _gone_classic(request: Request) -> ErrorCode:
    """What a member hears whose group has become classic while it waited."""
    return ErrorCode.UNKNOWN_MEMBER_ID if request.join is None else ErrorCode.REBALANCE_IN_PROGRESS


def _portions(group: ConsumerGroup, keys: Iterable[Key]) -> list[tuple[list[Key], list[Record]]]:
    """The records of these keys, in writes of a bounded size."""
    portions: list[tuple[list[Key], list[Record]]] = []
    left = 0
    for key in keys:
        record = kinds.record(group, key)
        size = len(record[0]) + len(record[1] or b"")
        if not portions or size > left:
            portions.append(([], []))
            left = WRITE_BYTES_MAX
        left -= size
        portions[-1][0].append(key)
        portions[-1][1].append(record)
    return portions


def _topics(group: ConsumerGroup) -> set[str]:
    """All topics to which the group subscribes."""
    found = set(group.topics)
    for regex in group.regexes:
        if regex in group.resolved:
            found |= group.resolved[regex].topics
    return found


def _numbers(held: Held) -> dict[bytes, frozenset[int]]:
    return {topic_id: frozenset(partitions) for topic_id, partitions in held.items()}


def _forget_regex(group: ConsumerGroup, regex: str) -> dict[Key, None]:
    """Nobody may name it any more."""
    if regex and regex not in group.regexes and group.resolved.pop(regex, None) is not None:
        return {Key(kinds.REGEX, regex): None}
    return {}


def _replace(group: ConsumerGroup, old: Member, new: Member) -> dict[Key, None]:
    """A static member has come back under another id: it has what the old one had."""
    touched = {Key(kind, old.id): None for kind in (kinds.CURRENT, kinds.TARGET, kinds.MEMBER)}
    target = group.targets.get(old.id)
    resolved = dict(group.resolved)
    group.remove(old.id)
    group.resolved = resolved
    group.subscribe(new, new.subscription)
    group.move(new, new.current)
    if target is not None:
        group.targets[new.id] = target
    return touched | {Key(kind, new.id): None for kind in (kinds.MEMBER, kinds.TARGET, kinds.CURRENT)}
