"""What becomes of the requests of a share group's members: heartbeats, leaves, and silence (KIP-932).

This file alone decides the order of each change: the group is changed, the records that this touches are written, and the
member is answered when they are committed. Rules:

1. A change of a group names the keys of the records that it touches (`keyed_writes.py`).
2. Partitions that a member subscribes to and that have not begun for the group begin first: the group says so in its log,
   then their share coordinators are asked, and what they have answered is said in the log (`initialization.py`). Who
   waits for that is told to come back soon.
3. A new target assignment is made outside the loop, when the group's epoch is above that of the present one and the last is
   `group.share.assignment.interval.ms` old. Who caused it, or joins meanwhile, is answered when it is there. The first
   partitions of a group are assigned as soon as they have begun.
4. A member that is not heard of for its session is removed.
5. While a group is being deleted nobody joins it.
6. An ordinary heartbeat costs the same in a group of one and of a thousand members, with one partition and with a thousand.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from actors.broker.coordinators.coordination import Record, Then
from actors.broker.groups.assignment_interval import left_ms
from actors.broker.groups.epochs import next_epoch, spent
from actors.broker.groups.keyed_writes import KeyedWrites
from actors.broker.groups.kind import Committer, Job, Kind, Ports
from actors.broker.groups.records import Line
from actors.broker.groups.shard import Shard
from actors.broker.groups.share import records as kinds
from actors.broker.groups.share.administration import Administration
from actors.broker.groups.share.assignor import Order, simple
from actors.broker.groups.share.initialization import Beginnings, StateAsk
from actors.broker.groups.share.records import Key
from actors.broker.groups.share.requests import Beat, Refused, Request, check
from actors.broker.groups.share.state import (
    FAR_MS,
    LEFT,
    NOTHING,
    TYPE,
    Member,
    ShareGroup,
    Subscription,
    Target,
)
from actors.broker.groups.topics import Topics, metadata_hash
from actors.ports import Now
from actors.wire.errors import ErrorCode

SOON_MS = 100
"""When a member that waits for its first partitions, or for others, is to come back."""


class Pace(NamedTuple):
    """How fast things go in a group."""

    session_ms: int
    heartbeat_ms: int
    assignment_interval_ms: int


class Settings(NamedTuple):
    """The broker's `group.share.*`. `pace`: of a group, by its name, as its own settings have it. `retry_ms`: when share
    partitions whose beginning could not be written are tried again."""

    size_max: int
    pace: Callable[[str], Pace]
    retry_ms: int


class Waiting(NamedTuple):
    """A heartbeat that waits for a target assignment. `before`: what the member had. `changed`: it has raised the group's
    epoch, so what the member has may be of topics to which it subscribes no more, or that are gone."""

    ticket: int
    member_id: str
    request: Request
    before: Target
    changed: bool


class Way:
    """What is under way for a group, and forgotten with the leadership.

    `assigning`: a target assignment is being made. `hurries`: the next one does not wait. `assign_due_ms`: when it may be
    made. `seen_version`: of the metadata that `metadata_hash` is of. `asked`: share partitions whose coordinators have been
    asked to begin them, and the number of the last time. `ending`: topics, with how many removals of them are under way.
    `number`: of the last time that something was to begin or to end. `look_ms`: when share coordinators are asked again
    whether they still know what has begun. `begun_at`: of which changes of the group and of topics it was seen that all has
    begun. `removing`: the group is being deleted."""

    def __init__(self, group: ShareGroup) -> None:
        self.writes = KeyedWrites[Key](lambda key: kinds.record(group, key))
        self.waiting: list[Waiting] = []
        self.assigning = self.hurries = False
        self.assign_due_ms = FAR_MS
        self.seen_version = -1
        self.asked: dict[tuple[bytes, int], int] = {}
        self.ending: Counter[bytes] = Counter()
        self.number = 0
        self.look_ms = 0
        self.begun_at = (-1, -1)
        self.removing = False


class ShareGroups(Kind[ShareGroup]):
    """The share groups of one broker."""

    type = TYPE
    numbers = tuple(kinds.NAMES)

    def __init__(self, ports: Ports, settings: Settings, topics: Topics) -> None:
        self.ports = ports
        self.settings = settings
        self.topics = topics
        self.jobs: list[Job] = []
        """To be taken and run."""
        self.beginnings = Beginnings(topics, settings.retry_ms, self._still, self._commit)
        self.administration = Administration(self.beginnings, topics, self._found, self.keep)
        """What administrators ask for."""
        self.watched: list[tuple[int, str, str]] = []
        """(when, group, member): looks that are planned; a member "" stands for the next target assignment."""

    @property
    def asks(self) -> list[StateAsk]:
        """What share coordinators are to be asked; see `Beginnings`."""
        return self.beginnings.asks

    # ---- requests

    def heartbeat(self, ticket: int, request: Request, now: Now) -> None:
        """ShareGroupHeartbeat. The answer comes under the ticket."""
        try:
            check(request)
            shard = self._shard(request.group_id)
            if request.epoch == LEFT:
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
            group = groups.setdefault(line.group, ShareGroup(line.group))
            kinds.replay(group, line.key, line.data)

    def loaded(self, shard: Shard, now: Now) -> None:
        """The log of a shard was read: sessions begin now."""
        for group in self.groups(shard).values():
            group.index()
            group.way = Way(group)
            self.beginnings.loaded(shard, group, now)
            for member in group.members.values():
                self._touch(group, member, now)

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
                    self._want_assignment(shard, group, now)
            else:
                self._look_at(shard, group, member_id, due_ms, now)

    def _look_at(self, shard: Shard, group: ShareGroup, member_id: str, due_ms: int, now: Now) -> None:
        member = group.members.get(member_id)
        if member is None or member.watched_ms != due_ms:
            return
        member.watched_ms = FAR_MS
        if member.session_due_ms > now.mono_ms:
            self._watch(group, member)
        else:
            self._commit(shard, group, self._remove(group, member))
            self._want_assignment(shard, group, now)

    def forget_topic(self, shard: Shard, topic_id: bytes) -> None:
        """A topic was deleted."""
        for group in list(self.groups(shard).values()):
            if not group.gone:
                self.beginnings.forget(shard, group, frozenset((topic_id,)))

    # ---- offsets are not committed, and what is told of a group

    def commit_error(self, group: ShareGroup, committer: Committer, now: Now) -> ErrorCode:
        """No offsets are committed for a share group."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def fetch_error(self, group: ShareGroup, member_id: str, epoch: int) -> ErrorCode:
        """Nor are there any to read."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def offset_delete_error(self, group: ShareGroup) -> ErrorCode:
        """Nor to delete."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def listed(self, group: ShareGroup) -> tuple[str, str]:
        """Its protocol type and its state."""
        return TYPE, group.state()

    def subscribes(self, group: ShareGroup) -> Callable[[str], bool]:
        """Whether some member does."""
        return group.topics.__contains__

    # ---- its end

    def removal_error(self, group: ShareGroup) -> ErrorCode:
        """Only an empty group can be deleted."""
        if group.gone:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NON_EMPTY_GROUP if group.members else ErrorCode.NONE

    def before_removal(self, shard: Shard, group: ShareGroup, then: Callable[[ErrorCode], None]) -> None:
        """What share coordinators remember for the group goes first."""
        if group.way.removing:
            then(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        group.way.removing = True

        def ended(error: ErrorCode) -> None:
            group.way.removing = False
            then(error)

        self.beginnings.delete_all(shard, group, ended)

    def removal(self, group: ShareGroup) -> list[Record]:
        """The records that remove a group, which is gone from now on."""
        group.gone = True
        behind = group.way.writes.behind if group.way is not None else ()
        return [kinds.record(group, key) for key in dict.fromkeys((*behind, *kinds.keys(group)))]

    def revive(self, group: ShareGroup) -> None:
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
        group, touched = self.group_of(shard, request.group_id, create=request.epoch == 0)
        if (why := spent(group.id, group.epoch)) is not None:
            raise Refused(ErrorCode.INVALID_REQUEST, why)
        if len(group.members) >= self.settings.size_max and request.member_id not in group.members:
            raise Refused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The share group has reached its maximum capacity of {self.settings.size_max} members.",
            )
        member = _member(group, request)
        # Nothing is refused from here on.
        self.keep(shard, group)
        known, before = member.subscription, member.assigned
        told = _told(request, known)
        new = member.id not in group.members
        if told != known or new:
            group.subscribe(member, told)
            touched[Key(kinds.MEMBER, member.id)] = None
        changed = told.topics != known.topics
        changed = self._bump(group, changed, touched)
        self._touch(group, member, now)
        asked = self.beginnings.begin(shard, group, touched, now)
        waits = group.way.assigning and request.epoch == 0
        waiting = Waiting(ticket, member.id, request, before, changed)
        if self._want_assignment(shard, group, now) or waits:
            group.way.waiting.append(waiting)
            if touched:
                self._commit(shard, group, touched, asked)
            return
        if asked is not None:
            self._commit(shard, group, touched, asked)
            touched = {}
        self._finish(shard, group, waiting, touched, now)

    def group_of(self, shard: Shard, id: str, *, create: bool) -> tuple[ShareGroup, dict[Key, None]]:
        """A group, perhaps a new one, which is not known yet (`keep`); and the keys that are touched by it. Raises
        Refused."""
        group = shard.find(id)
        if isinstance(group, ShareGroup):
            if group.gone or group.way.removing:
                raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"Share group {id} is being deleted.")
            return group, {}
        if group is not None:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {id} is not a share group.")
        if not create:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {id} not found.")
        group = ShareGroup(id)
        group.way = Way(group)
        return group, {}

    def _found(self, id: str, create: bool) -> tuple[Shard, ShareGroup]:
        """A group and where it is, perhaps a new one, which is not known yet. Raises Refused."""
        shard = self._shard(id)
        return shard, self.group_of(shard, id, create=create)[0]

    def keep(self, shard: Shard, group: ShareGroup) -> None:
        """A group is known from now on."""
        self.groups(shard)[group.id] = group

    def _bump(self, group: ShareGroup, changed: bool, touched: dict[Key, None]) -> bool:
        """Raise the group's epoch where its members' subscriptions, what is known of their topics, or what has begun asks
        for another assignment; whether it was raised."""
        begun = group.target_epoch >= group.epoch and group.unassigned()
        bump = changed or begun
        group.way.hurries = group.way.hurries or (begun and not any(group.targets.values()))
        if bump or group.way.seen_version != self.topics.version:
            found = self._hash(group)
            bump = bump or found != group.metadata_hash
            if bump:
                self._raise_epoch(group, found, touched)
        return bump

    def _raise_epoch(self, group: ShareGroup, hash: int, touched: dict[Key, None]) -> None:
        group.epoch = next_epoch(group.epoch)
        group.metadata_hash = hash
        touched[Key(kinds.GROUP)] = None

    def _hash(self, group: ShareGroup) -> int:
        group.way.seen_version = self.topics.version
        return metadata_hash(self.topics, group.topics)

    def _finish(self, shard: Shard, group: ShareGroup, waiting: Waiting, touched: dict[Key, None], now: Now) -> None:
        """Give the member its target, and answer when that is written."""
        ticket, request, member = waiting.ticket, waiting.request, group.members.get(waiting.member_id)
        if member is None:
            self._answer(ticket, _unknown(group.id, waiting.member_id).beat())
            return
        if waiting.changed or member.epoch != group.target_epoch:
            assigned = self._visible(group, member)
            if (member.epoch, member.assigned) != (group.target_epoch, assigned):
                if member.epoch != group.target_epoch:
                    member.previous_epoch, member.epoch = member.epoch, group.target_epoch
                member.assigned = assigned
                touched[Key(kinds.CURRENT, member.id)] = None
        full = request.epoch == 0 or request.topics is not None
        moved = full or member.assigned != waiting.before
        soon = self.beginnings.waits(group) or group.epoch > group.target_epoch or group.unassigned()
        interval_ms = self.settings.pace(group.id).heartbeat_ms
        beat = Beat(
            ErrorCode.NONE,
            None,
            member.id,
            member.epoch,
            min(SOON_MS, interval_ms) if soon else interval_ms,
            member.assigned if moved else None,
        )
        self._commit(
            shard,
            group,
            touched,
            lambda error: self._answer(ticket, beat if error is ErrorCode.NONE else Beat(error)),
        )

    def _visible(self, group: ShareGroup, member: Member) -> Target:
        """The member's target, without topics to which it subscribes no more."""
        target = group.targets.get(member.id, NOTHING)
        subscribed = {found[0] for name in member.subscription.topics if (found := self.topics.named(name))}
        return {topic_id: partitions for topic_id, partitions in target.items() if topic_id in subscribed}

    def _leave(self, shard: Shard, ticket: int, request: Request, now: Now) -> None:
        group, _ = self.group_of(shard, request.group_id, create=False)
        member = group.members.get(request.member_id)
        if member is None:
            raise _unknown(group.id, request.member_id)
        beat = Beat(ErrorCode.NONE, None, request.member_id, request.epoch)
        self._commit(
            shard,
            group,
            self._remove(group, member),
            lambda error: self._answer(ticket, beat if error is ErrorCode.NONE else Beat(error)),
        )
        self._want_assignment(shard, group, now)

    def _remove(self, group: ShareGroup, member: Member) -> dict[Key, None]:
        touched = {Key(kind, member.id): None for kind in (kinds.CURRENT, kinds.TARGET, kinds.MEMBER)}
        group.remove(member.id)
        self._raise_epoch(group, self._hash(group), touched)
        return touched

    # ---- target assignments

    def _want_assignment(self, shard: Shard, group: ShareGroup, now: Now) -> bool:
        """Have a target assignment made if one is needed, now or when it is time; whether now."""
        way = group.way
        if way.assigning or not group.members or group.epoch <= group.target_epoch:
            return False
        wait_ms = left_ms(group.target_wall_ms, self.settings.pace(group.id).assignment_interval_ms, now.wall_ms)
        if wait_ms and not way.hurries:
            due_ms = now.mono_ms + wait_ms
            if way.assign_due_ms > due_ms:
                way.assign_due_ms = due_ms
                heapq.heappush(self.watched, (due_ms, group.id, ""))
            return False
        way.assigning, way.hurries, way.assign_due_ms = True, False, FAR_MS
        epoch, order = group.epoch, self._order(group)
        self.jobs.append(
            Job(lambda: simple(order), lambda result, now: self._assigned(shard, group, epoch, result, now))
        )
        return True

    def _order(self, group: ShareGroup) -> Order:
        ids = {name: found[0] for name in group.topics if (found := self.topics.named(name)) is not None}
        subscribed = {
            member.id: frozenset(ids[name] for name in member.subscription.topics if name in ids)
            for member in group.members.values()
        }
        return Order(subscribed, {id: group.assignable(id) for id in ids.values()}, dict(group.targets))

    def _assigned(
        self, shard: Shard, group: ShareGroup, epoch: int, result: Mapping[str, Target] | Exception, now: Now
    ) -> None:
        """A target assignment was made: it holds for all who are still there."""
        way = group.way
        way.assigning = False
        waiting, way.waiting = way.waiting, []
        if not self._still(shard, group):
            for one in waiting:
                self._answer(one.ticket, _unknown(group.id, one.member_id).beat())
            return
        touched: dict[Key, None] = {}
        if isinstance(result, Exception):
            group.target_wall_ms = now.wall_ms
            beat = Beat(ErrorCode.UNKNOWN_SERVER_ERROR, f"No assignment could be made: {result!r}")
            for one in waiting:
                self._answer(one.ticket, beat)
        else:
            touched = {Key(kinds.TARGET, id): None for id in group.assign(result, epoch, now.wall_ms)}
            touched[Key(kinds.TARGET_EPOCH)] = None
            self._commit(shard, group, touched)
            for one in waiting:
                self._finish(shard, group, one, {}, now)
        self._want_assignment(shard, group, now)

    # ---- inside

    def _still(self, shard: Shard, group: ShareGroup) -> bool:
        """Whether a group is still what it was."""
        return self.ports.shard_of(group.id) is shard and shard.find(group.id) is group and not group.gone

    def _touch(self, group: ShareGroup, member: Member, now: Now) -> None:
        member.session_due_ms = now.mono_ms + self.settings.pace(group.id).session_ms
        self._watch(group, member)

    def _watch(self, group: ShareGroup, member: Member) -> None:
        if member.watched_ms > member.session_due_ms:
            member.watched_ms = member.session_due_ms
            heapq.heappush(self.watched, (member.session_due_ms, group.id, member.id))

    def _answer(self, ticket: int, beat: Beat) -> None:
        self.ports.answers.append((ticket, beat))

    def _commit(
        self,
        shard: Shard,
        group: ShareGroup,
        touched: Mapping[Key, None],
        then: Callable[[ErrorCode], None] | None = None,
    ) -> None:
        """Write what is touched; `then` when it is committed, and all that was under way before."""

        def write(records: Sequence[Record], ended: Then) -> int:
            return self.ports.write(shard, group.id, records, ended)

        group.way.writes.commit(touched, write, then)


def _unknown(group_id: str, member_id: str) -> Refused:
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")


def _member(group: ShareGroup, request: Request) -> Member:
    """The member that speaks, perhaps a new one. Raises Refused."""
    member = group.members.get(request.member_id)
    if request.epoch == 0:
        return member or Member(request.member_id)
    if member is None:
        raise _unknown(group.id, request.member_id)
    if request.epoch not in (member.epoch, member.previous_epoch):
        size = "greater" if request.epoch > member.epoch else "smaller"
        lost = (
            f", and it does not match the previous member epoch ({member.previous_epoch})" if size == "smaller" else ""
        )
        raise Refused(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a {size} member epoch ({request.epoch}) than the one known by the group "
            f"coordinator ({member.epoch}){lost}. The member must abandon all its partitions and rejoin.",
        )
    return member


def _told(request: Request, known: Subscription) -> Subscription:
    """What the member has told of itself, with what it says now."""
    return Subscription(
        request.rack_id if request.rack_id is not None else known.rack_id,
        request.client_id,
        request.client_host,
        tuple(sorted(set(request.topics))) if request.topics is not None else known.topics,
    )
