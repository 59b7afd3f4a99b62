"""What becomes of the requests of a share group's members: heartbeats, leaves, and silence (KIP-932).

This file alone decides the order of each change: the group is changed, the records that this touches are written, and the
member is answered when they are committed. Rules:

1. A change of a group names the keys of the records that it touches (`keyed_writes.py`).
2. Partitions that a member subscribes to and that have not begun for the group begin first: the group says so in its log,
   then their share coordinators are asked, and what they have answered is said in the log (`initialization.py`). A
   member that waits for that is told to come back soon.
3. A new target assignment is made outside the loop, when the group's epoch is above that of the present one and the last is
   `group.share.assignment.interval.ms` old. The member that caused it, or that joins meanwhile, is answered when it is
   there. The first partitions of a group are assigned as soon as they have begun.
4. A member that is not heard of for its session is removed.
5. While a group is being deleted nobody joins it.
6. An ordinary heartbeat costs the same in a group of one and of a thousand members, with one partition and with a thousand.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from actors.broker.groups import member_groups
from actors.broker.groups.epochs import next_epoch
from actors.broker.groups.kind import Committer, Ports
from actors.broker.groups.member_groups import GroupConfig, MemberGroups, SettingsOf
from actors.broker.groups.refusals import RequestRefused, unknown_member
from actors.broker.groups.shard import Shard
from actors.broker.groups.share import records as kinds
from actors.broker.groups.share.administration import Administration
from actors.broker.groups.share.assignor import ShareGroupSpec, simple
from actors.broker.groups.share.initialization import Beginnings, StateAsk
from actors.broker.groups.share.records import RecordKey
from actors.broker.groups.share.requests import ShareBeat, ShareHeartbeat, check
from actors.broker.groups.share.state import (
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
"""The heartbeat interval of a member that waits for its first partitions, or for others, ms."""


class ShareGroupSettings(NamedTuple):
    """The broker's settings of share groups, `group.share.*`. `config`: of a group, by its name, as its own settings
    have it. `retry_ms`: when share partitions whose beginning could not be written are tried again."""

    size_max: int
    config: Callable[[str], GroupConfig]
    retry_ms: int

    @classmethod
    def of(cls, value: Callable[[str], Any], settings_of: SettingsOf) -> "ShareGroupSettings":
        """The settings, taken out of the broker's settings by name, and of those of groups."""
        return cls(
            size_max=value("group.share.max.size"),
            config=lambda group: GroupConfig.of(TYPE, settings_of(group)),
            retry_ms=value("group.share.initialize.retry.interval.ms"),
        )


class WaitingHeartbeat(NamedTuple):
    """A heartbeat that waits for a target assignment. `before`: what the member had. `changed`: it has raised the
    group's epoch, so what the member has may be of topics to which it subscribes no more, or that are gone."""

    ticket: int
    member_id: str
    request: ShareHeartbeat
    before: Target
    changed: bool


class InProgress(member_groups.InProgress):
    """The work in progress of one share group. `hurries`: the next target assignment does not wait. `asked`: share
    partitions whose coordinators have been asked to begin them, and the number of the last time. `ending`: topics, with
    how many removals of them are under way. `number`: of the last time that something was to begin or to end.
    `look_ms`: when share coordinators are asked again whether they still know what has begun. `begun_at`: of which
    changes of the group and of topics it was seen that all has begun. `removing`: the group is being deleted."""

    __slots__ = ("asked", "begun_at", "ending", "hurries", "look_ms", "number", "removing")

    def __init__(self) -> None:
        super().__init__()
        self.hurries = False
        self.asked: dict[tuple[bytes, int], int] = {}
        self.ending: Counter[bytes] = Counter()
        self.number = 0
        self.look_ms = 0
        self.begun_at = (-1, -1)
        self.removing = False


class ShareGroups(MemberGroups[ShareGroup]):
    """The share groups of one broker."""

    type = TYPE
    numbers = tuple(kinds.NAMES)
    records = kinds
    beat = ShareBeat
    settings: ShareGroupSettings

    def __init__(self, ports: Ports, settings: ShareGroupSettings, topics: Topics) -> None:
        super().__init__(ports, settings, topics)
        self.beginnings = Beginnings(topics, settings.retry_ms, self._still, self._commit)
        self.administration = Administration(self.beginnings, topics, self._found, self.keep)
        """The requests of administrators."""

    @property
    def asks(self) -> list[StateAsk]:
        """The requests to share coordinators; see `Beginnings`."""
        return self.beginnings.asks

    def _new(self, id: str) -> ShareGroup:
        return ShareGroup(id)

    def _in_progress(self, group: ShareGroup) -> InProgress:
        return InProgress()

    def _check(self, request: ShareHeartbeat) -> None:
        check(request)

    # ---- time

    def _resume(self, shard: Shard, group: ShareGroup, now: Now) -> None:
        self.beginnings.loaded(shard, group, now)
        for member in group.members.values():
            self._touch(group, member, now)

    def _end_session(self, shard: Shard, group: ShareGroup, member: Member, now: Now) -> None:
        self._commit(shard, group, self._remove(group, member))
        self._want_assignment(shard, group, now)

    def forget_topic(self, shard: Shard, topic_id: bytes) -> None:
        """Forget a topic that was deleted."""
        for group in list(self.groups(shard).values()):
            if not group.gone:
                self.beginnings.forget(shard, group, frozenset((topic_id,)))

    # ---- offsets are not committed, and what is told of a group

    def commit_error(self, group: ShareGroup, committer: Committer, now: Now) -> ErrorCode:
        """GROUP_ID_NOT_FOUND always: no offsets are committed for a share group."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def fetch_error(self, group: ShareGroup, member_id: str, epoch: int) -> ErrorCode:
        """GROUP_ID_NOT_FOUND always: a share group has none to read."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def offset_delete_error(self, group: ShareGroup) -> ErrorCode:
        """GROUP_ID_NOT_FOUND always: a share group has none to delete."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def subscribes(self, group: ShareGroup) -> Callable[[str], bool]:
        """Whether some member subscribes to a topic."""
        return group.topics.__contains__

    # ---- its end

    def before_removal(self, shard: Shard, group: ShareGroup, then: Callable[[ErrorCode], None]) -> None:
        """Have share coordinators forget the group before it is removed."""
        if group.way.removing:
            then(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        group.way.removing = True

        def ended(error: ErrorCode) -> None:
            group.way.removing = False
            then(error)

        self.beginnings.delete_all(shard, group, ended)

    # ---- heartbeats

    def _beat(self, shard: Shard, ticket: int, request: ShareHeartbeat, now: Now) -> None:
        group, touched = self.group_of(shard, request.group_id, create=request.epoch == 0)
        self._check_room(group, request.member_id)
        member = _member(group, request)
        # Nothing is refused from here on.
        self.keep(shard, group)
        known, before = member.subscription, member.assigned
        told = _told(request, known)
        new = member.id not in group.members
        if told != known or new:
            group.subscribe(member, told)
            touched[RecordKey(kinds.MEMBER, member.id)] = None
        changed = told.topics != known.topics
        changed = self._bump(group, changed, touched)
        self._touch(group, member, now)
        asked = self.beginnings.begin(shard, group, touched, now)
        waits = group.way.assigning and request.epoch == 0
        waiting = WaitingHeartbeat(ticket, member.id, request, before, changed)
        if self._want_assignment(shard, group, now) or waits:
            group.way.waiting.append(waiting)
            if touched:
                self._commit(shard, group, touched, asked)
            return
        if asked is not None:
            self._commit(shard, group, touched, asked)
            touched = {}
        self._finish(shard, group, waiting, touched, now)

    def group_of(self, shard: Shard, id: str, *, create: bool) -> tuple[ShareGroup, dict[RecordKey, None]]:
        """A group, perhaps a new one, which is not known yet (`keep`); and the keys that are touched by it. Raises
        RequestRefused."""
        group = shard.find(id)
        if isinstance(group, ShareGroup):
            if group.gone or group.way.removing:
                raise RequestRefused(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"Share group {id} is being deleted.")
            return group, {}
        if group is not None:
            raise self._other_kind(id)
        if not create:
            raise self._not_found(id)
        group = ShareGroup(id)
        group.way = InProgress()
        return group, {}

    def _found(self, id: str, create: bool) -> tuple[Shard, ShareGroup]:
        """A group and where it is, perhaps a new one, which is not known yet. Raises RequestRefused."""
        shard = self._shard(id)
        return shard, self.group_of(shard, id, create=create)[0]

    def keep(self, shard: Shard, group: ShareGroup) -> None:
        """Note that a group is known from now on."""
        self.groups(shard)[group.id] = group

    def _bump(self, group: ShareGroup, changed: bool, touched: dict[RecordKey, None]) -> bool:
        """Raise the group's epoch where its members' subscriptions, what is known of their topics, or what has begun
        asks for another assignment. Returns whether it was raised."""
        begun = group.target_epoch >= group.epoch and group.unassigned()
        bump = changed or begun
        group.way.hurries = group.way.hurries or (begun and not any(group.targets.values()))
        if bump or group.way.seen_version != self.topics.version:
            found = self._hash(group)
            bump = bump or found != group.metadata_hash
            if bump:
                self._raise_epoch(group, found, touched)
        return bump

    def _raise_epoch(self, group: ShareGroup, hash: int, touched: dict[RecordKey, None]) -> None:
        group.epoch = next_epoch(group.epoch)
        group.metadata_hash = hash
        touched[RecordKey(kinds.GROUP)] = None

    def _hash(self, group: ShareGroup) -> int:
        group.way.seen_version = self.topics.version
        return metadata_hash(self.topics, group.topics)

    def _answer_member(
        self,
        shard: Shard,
        group: ShareGroup,
        member: Member,
        one: WaitingHeartbeat,
        touched: dict[RecordKey, None],
        now: Now,
    ) -> None:
        """Give a member its target at once, and answer its heartbeat."""
        request = one.request
        if one.changed or member.epoch != group.target_epoch:
            assigned = self._visible(group, member)
            if (member.epoch, member.assigned) != (group.target_epoch, assigned):
                if member.epoch != group.target_epoch:
                    member.previous_epoch, member.epoch = member.epoch, group.target_epoch
                member.assigned = assigned
                touched[RecordKey(kinds.CURRENT, member.id)] = None
        full = request.epoch == 0 or request.topics is not None
        moved = full or member.assigned != one.before
        soon = self.beginnings.waits(group) or group.epoch > group.target_epoch or group.unassigned()
        interval_ms = self.settings.config(group.id).heartbeat_ms
        beat = ShareBeat(
            ErrorCode.NONE,
            None,
            member.id,
            member.epoch,
            min(SOON_MS, interval_ms) if soon else interval_ms,
            member.assigned if moved else None,
        )
        self._commit(shard, group, touched, self._once_written(one.ticket, request, beat))

    def _visible(self, group: ShareGroup, member: Member) -> Target:
        """The member's target, without topics to which it subscribes no more."""
        target = group.targets.get(member.id, NOTHING)
        subscribed = {found[0] for name in member.subscription.topics if (found := self.topics.named(name))}
        return {topic_id: partitions for topic_id, partitions in target.items() if topic_id in subscribed}

    def _leave(self, shard: Shard, ticket: int, request: ShareHeartbeat, now: Now) -> None:
        group, _ = self.group_of(shard, request.group_id, create=False)
        member = group.members.get(request.member_id)
        if member is None:
            raise unknown_member(group.id, request.member_id)
        beat = ShareBeat(ErrorCode.NONE, None, request.member_id, request.epoch)
        self._commit(shard, group, self._remove(group, member), self._once_written(ticket, request, beat))
        self._want_assignment(shard, group, now)

    def _remove(self, group: ShareGroup, member: Member) -> dict[RecordKey, None]:
        touched = {RecordKey(kind, member.id): None for kind in (kinds.CURRENT, kinds.TARGET, kinds.MEMBER)}
        group.remove(member.id)
        self._raise_epoch(group, self._hash(group), touched)
        return touched

    # ---- target assignments

    def _want_assignment(self, shard: Shard, group: ShareGroup, now: Now) -> bool:
        begins = super()._want_assignment(shard, group, now)
        if begins:
            group.way.hurries = False
        return begins

    def _assignment_due_ms(self, group: ShareGroup, now: Now) -> int:
        return now.mono_ms if group.way.hurries else super()._assignment_due_ms(group, now)

    def _order(self, group: ShareGroup) -> ShareGroupSpec:
        ids = {name: found[0] for name in group.topics if (found := self.topics.named(name)) is not None}
        subscribed = {
            member.id: frozenset(ids[name] for name in member.subscription.topics if name in ids)
            for member in group.members.values()
        }
        return ShareGroupSpec(subscribed, {id: group.assignable(id) for id in ids.values()}, dict(group.targets))

    def _assignor(self, group: ShareGroup) -> Callable[[ShareGroupSpec], Mapping[str, Target]]:
        return simple

    def _take_targets(
        self, group: ShareGroup, epoch: int, order: ShareGroupSpec, targets: Mapping[str, Target], now: Now
    ) -> dict[RecordKey, None]:
        touched: dict[RecordKey, None] = {
            RecordKey(kinds.TARGET, id): None for id in group.assign(targets, epoch, now.wall_ms)
        }
        touched[RecordKey(kinds.TARGET_EPOCH)] = None
        return touched

    # ---- inside

    def _still(self, shard: Shard, group: ShareGroup) -> bool:
        """Whether a group is still what it was. Nothing begins, nor is assigned, in one that is being deleted."""
        return super()._still(shard, group) and not group.gone


def _member(group: ShareGroup, request: ShareHeartbeat) -> Member:
    """The member that sends a heartbeat, perhaps a new one. Raises RequestRefused."""
    member = group.members.get(request.member_id)
    if request.epoch == 0:
        return member or Member(request.member_id)
    if member is None:
        raise unknown_member(group.id, request.member_id)
    if request.epoch not in (member.epoch, member.previous_epoch):
        size = "greater" if request.epoch > member.epoch else "smaller"
        lost = (
            f", and it does not match the previous member epoch ({member.previous_epoch})" if size == "smaller" else ""
        )
        raise RequestRefused(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a {size} member epoch ({request.epoch}) than the one known by the group "
            f"coordinator ({member.epoch}){lost}. The member must abandon all its partitions and rejoin.",
        )
    return member


def _told(request: ShareHeartbeat, known: Subscription) -> Subscription:
    """The subscription of a member, with what it says now."""
    return Subscription(
        request.rack_id if request.rack_id is not None else known.rack_id,
        request.client_id,
        request.client_host,
        tuple(sorted(set(request.topics))) if request.topics is not None else known.topics,
    )
