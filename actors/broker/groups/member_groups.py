"""What groups of the three newer protocols have in common: consumer, share and streams groups (KIP-848, KIP-932,
KIP-1071).

The coordinator makes the target assignment, and each member comes to its part of it with heartbeats. This file alone decides
the order of each change: the group is changed, the records that this touches are written (`keyed_writes.py`), and the member
is answered when they are committed. Rules:

1. A target assignment is made outside the loop, when the group's epoch is above that of the present one and the last is the
   group's assignment interval old. The member that has caused it, or joins meanwhile, is answered when it is there.
2. A member is looked at when its time may be over: a look is planned once, and planned anew when it finds that the member
   was heard of. So an ordinary heartbeat costs the same in a group of one and of a thousand members.
3. What is under way for a group (`InProgress`) is forgotten with the leadership. Sessions begin when the log was read.

What a heartbeat means, what is assigned, how a member comes to it and which records say so is decided by each kind.
"""

import heapq
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from actors.broker.coordinators.coordination import Record, Then
from actors.broker.groups.assignment_interval import left_ms
from actors.broker.groups.epochs import spent
from actors.broker.groups.keyed_writes import KeyedWrites
from actors.broker.groups.kind import FAR_MS, Job, Kind, Ports
from actors.broker.groups.records import GroupLine
from actors.broker.groups.refusals import RequestRefused, unknown_member
from actors.broker.groups.shard import AnyGroup, Shard
from actors.broker.groups.topics import Topics
from actors.ports import Now
from actors.wire.errors import ErrorCode

MEMBER, MEMBERS, ASSIGNMENT, REST = range(4)
"""The subjects of planned looks: the times of one member, the sessions of all, whether a target assignment is to be
made, whether the group may rest. Only consumer groups have the second and the last."""
SettingsOf = Callable[[str], Mapping[str, Any]]
"""A function that returns all settings of a group, by its name."""
Look = tuple[int, int, str, str, int]
"""A planned look: (when, rank, group, member, at what). The member is "" where the look is not at one."""


@cache
def _names(type: str) -> tuple[str, str, str]:
    """The settings' names of a type: each heartbeat asks for them."""
    return f"{type}.session.timeout.ms", f"{type}.heartbeat.interval.ms", f"{type}.assignment.interval.ms"


class GroupConfig(NamedTuple):
    """The settings of one group, as Kafka's GroupConfig has them."""

    session_ms: int
    heartbeat_ms: int
    assignment_interval_ms: int

    @classmethod
    def of(cls, type: str, settings: Mapping[str, Any]) -> "GroupConfig":
        """The settings of a type, taken out of all settings of a group."""
        session, heartbeat, interval = _names(type)
        return cls(settings[session], settings[heartbeat], settings[interval])


class AnyConfig(Protocol):
    """The settings that every kind of these groups has."""

    @property
    def session_ms(self) -> int: ...
    @property
    def heartbeat_ms(self) -> int: ...
    @property
    def assignment_interval_ms(self) -> int: ...


class AnySettings(Protocol):
    """The broker's settings that every kind of these groups has. `config`: of a group, by its name."""

    @property
    def size_max(self) -> int: ...
    @property
    def config(self) -> Callable[[str], AnyConfig]: ...


class AnyWaiting(Protocol):
    """A heartbeat that waits for a target assignment."""

    @property
    def ticket(self) -> int: ...
    @property
    def member_id(self) -> str: ...
    @property
    def request(self) -> Any: ...


W = TypeVar("W", bound=AnyWaiting)


class InProgress:
    """The work in progress of one group. It is not remembered: the next coordinator begins anew. `waiting`: heartbeats
    that wait for a target assignment. `assigning`: one is being made. `assign_due_ms`: when the next may be; FAR_MS: no
    look for it is planned. `seen_version`: of the metadata that the group's `metadata_hash` is of."""

    __slots__ = ("assign_due_ms", "assigning", "seen_version", "waiting", "writes")

    def __init__(self) -> None:
        self.writes = KeyedWrites[Any]()
        self.waiting: list[Any] = []
        self.assigning = False
        self.assign_due_ms = FAR_MS
        self.seen_version = -1


class MemberGroup(AnyGroup, Protocol):
    """One group of the newer protocols. `gone`: its removal is being written. `way`: what is in progress; None: the log
    is still being read."""

    way: Any
    gone: bool
    epoch: int
    target_epoch: int
    target_wall_ms: int

    def state(self) -> str: ...
    def index(self) -> list[str]: ...


class Records(Protocol):
    """The module that has the records of a kind (`consumer/records.py` and others). Each names a record by a key of its
    own; `CURRENT` is the record of a member's state."""

    GROUP: int
    CURRENT: int
    RecordKey: Any

    def read(self, kind: int, key: bytes, value: bytes | None) -> GroupLine: ...
    def replay(self, group: Any, key: Any, data: Any) -> None: ...
    def record(self, group: Any, key: Any) -> Record: ...
    def keys(self, group: Any) -> list[Any]: ...


G = TypeVar("G", bound=MemberGroup)


class MemberGroups(Kind[G]):
    """The groups of one kind on one broker."""

    records: Records
    beat: type[Any]
    """The answer to a heartbeat. It begins with the error code, and a sentence about that."""
    failure: ClassVar[str] = "No assignment could be made: {error!r}"
    """The sentence for waiting members when an assignor fails. Kafka has a sentence of its own for streams groups."""
    ranked: ClassVar[bool] = False
    """Whether looks of one millisecond are taken by what they are at, before the group: MEMBER first. Otherwise they
    are taken by the group, an assignment first. Consumer groups do that, of which ten thousand may be loaded at once:
    what frees partitions comes before what assigns them, and a look whether to rest last."""

    def __init__(self, ports: Ports, settings: AnySettings, topics: Topics) -> None:
        self.ports = ports
        self.settings = settings
        self.topics = topics
        self.jobs: list[Job] = []
        """The jobs outside the loop, to be taken and run."""
        self.watched: list[Look] = []
        """The looks that are planned."""
        self._looks: dict[int, Callable[[Shard, G, str, int, Now], None]] = {
            MEMBER: self._look_at_member,
            ASSIGNMENT: self._look_at_assignment,
        }

    # ---- what differs from kind to kind

    @abstractmethod
    def _new(self, id: str) -> G:
        """A group of that id, with nothing in progress."""

    @abstractmethod
    def _in_progress(self, group: G) -> InProgress:
        """The work in progress of a group that has none."""

    @abstractmethod
    def _check(self, request: Any) -> None:
        """Check what is wrong with a heartbeat whatever the group looks like. Raises RequestRefused."""

    @abstractmethod
    def _leave(self, shard: Shard, ticket: int, request: Any, now: Now) -> None:
        """Let a member leave. Raises RequestRefused."""

    @abstractmethod
    def _beat(self, shard: Shard, ticket: int, request: Any, now: Now) -> None:
        """Let a member join or go on. Raises RequestRefused."""

    @abstractmethod
    def _resume(self, shard: Shard, group: G, now: Now) -> None:
        """Let sessions of a group's members begin, since its log was read."""

    @abstractmethod
    def _end_session(self, shard: Shard, group: G, member: Any, now: Now) -> None:
        """Take out a member that is late."""

    @abstractmethod
    def _order(self, group: G) -> Any:
        """The order for an assignor: what is to be assigned to whom, as a value."""

    @abstractmethod
    def _assignor(self, group: G) -> Callable[[Any], Any]:
        """A function that makes a target assignment of an order, outside the loop."""

    @abstractmethod
    def _take_targets(self, group: G, epoch: int, order: Any, targets: Any, now: Now) -> dict[Any, None]:
        """Make a target assignment hold for all members that are still there. Returns the keys that it touches."""

    @abstractmethod
    def _answer_member(self, shard: Shard, group: G, member: Any, one: Any, touched: dict[Any, None], now: Now) -> None:
        """Bring a member nearer to its target, and answer its heartbeat when that is written."""

    def _needs_assignment(self, group: G) -> bool:
        """Whether a target assignment is to be made, now or later."""
        return bool(not group.way.assigning and group.members and group.epoch > group.target_epoch)

    def _assignment_due_ms(self, group: G, now: Now) -> int:
        """The time at which the next target assignment may be made."""
        interval_ms = self.settings.config(group.id).assignment_interval_ms
        return now.mono_ms + left_ms(group.target_wall_ms, interval_ms, now.wall_ms)

    def _session_ms(self, group: G, member: Any) -> int:
        """How long a member may be silent."""
        return self.settings.config(group.id).session_ms

    # ---- requests

    def heartbeat(self, ticket: int, request: Any, now: Now) -> None:
        """Handle the heartbeat of a member. The answer comes under the ticket."""
        try:
            self._check(request)
            shard = self._shard(request.group_id)
            if request.leaves:
                self._leave(shard, ticket, request, now)
            else:
                self._beat(shard, ticket, request, now)
        except RequestRefused as refused:
            self._answer(ticket, self.beat(refused.code, refused.text))

    def _shard(self, group_id: str) -> Shard:
        shard = self.ports.shard_of(group_id)
        if isinstance(shard, ErrorCode):
            raise RequestRefused(shard)
        if group_id in shard.foreign:
            raise RequestRefused(ErrorCode.UNSUPPORTED_VERSION)
        return shard

    def _check_room(self, group: G, member_id: str) -> None:
        """Check that there is room for a member. Raises RequestRefused if the group has no epoch or no place left."""
        if (why := spent(group.id, group.epoch)) is not None:
            raise RequestRefused(ErrorCode.INVALID_REQUEST, why)
        size_max = self.settings.size_max
        if len(group.members) >= size_max and member_id not in group.members:
            text = f"The {self.type} group has reached its maximum capacity of {size_max} members."
            raise RequestRefused(ErrorCode.GROUP_MAX_SIZE_REACHED, text)

    def _not_found(self, group_id: str) -> RequestRefused:
        text = f"{self.type.capitalize()} group {group_id} not found."
        return RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, text)

    def _other_kind(self, group_id: str) -> RequestRefused:
        return RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {self.type} group.")

    # ---- the log

    def read(self, number: int, key: bytes, value: bytes | None) -> GroupLine:
        """Decode a record of a group."""
        return self.records.read(number, key, value)

    def replay(self, shard: Shard, line: GroupLine) -> None:
        """Take in what the log says of a group."""
        groups = self.groups(shard)
        if line.key.kind == self.records.GROUP and line.data is None:
            groups.pop(line.group, None)
        elif line.data is not None or line.group in groups:
            group = groups.get(line.group)
            if group is None:
                group = groups[line.group] = self._new(line.group)
            self.records.replay(group, line.key, line.data)

    def loaded(self, shard: Shard, now: Now) -> None:
        """Let sessions begin, since the log of a shard was read."""
        for group in self.groups(shard).values():
            group.way = self._in_progress(group)
            group.way.writes.behind.update(
                (self.records.RecordKey(self.records.CURRENT, id), None) for id in group.index()
            )
            self._resume(shard, group, now)

    def unload(self, shard: Shard) -> None:
        """Answer the members that wait for an assignment, since another broker leads the shard: they ask there. Writes
        end on their own."""
        for group in self.groups(shard).values():
            if group.way is None:
                continue  # the log was still being read
            waiting, group.way.waiting = group.way.waiting, []
            self._refuse_all(waiting, ErrorCode.NOT_COORDINATOR)

    # ---- time

    def deadline_ms(self) -> int:
        """The monotonic time at which `tick` has something to do."""
        return self.watched[0][0] if self.watched else FAR_MS

    def tick(self, now: Now) -> None:
        """Take the looks that are due: at members that may be late, at target assignments, and what else the kind
        has."""
        due = []
        while self.watched and self.watched[0][0] <= now.mono_ms:
            due.append(heapq.heappop(self.watched))
        for due_ms, _, group_id, member_id, what in due:
            shard = self.ports.shard_of(group_id)
            group = None if isinstance(shard, ErrorCode) else self.groups(shard).get(group_id)
            if not isinstance(shard, ErrorCode) and group is not None and not group.gone:
                self._looks[what](shard, group, member_id, due_ms, now)

    def _plan(self, due_ms: int, what: int, group: G, member_id: str = "") -> None:
        heapq.heappush(self.watched, (due_ms, what if self.ranked else 0, group.id, member_id, what))

    def _look_at_member(self, shard: Shard, group: G, member_id: str, due_ms: int, now: Now) -> None:
        member = group.members.get(member_id)
        if member is not None and member.watched_ms == due_ms:
            member.watched_ms = FAR_MS
            if member.due_ms() > now.mono_ms:
                self._watch(group, member)
            else:
                self._end_session(shard, group, member, now)

    def _look_at_assignment(self, shard: Shard, group: G, member_id: str, due_ms: int, now: Now) -> None:
        if group.way.assign_due_ms == due_ms:
            group.way.assign_due_ms = FAR_MS
            self._want_assignment(shard, group, now)

    def _touch(self, group: G, member: Any, now: Now) -> None:
        """Begin a member's session anew, since it was heard of."""
        member.session_due_ms = now.mono_ms + self._session_ms(group, member)
        self._watch(group, member)

    def _watch(self, group: G, member: Any) -> None:
        due_ms = member.due_ms()
        if member.watched_ms > due_ms:
            member.watched_ms = due_ms
            self._plan(due_ms, MEMBER, group, member.id)

    # ---- what is told of a group, and when it goes

    def listed(self, group: G) -> tuple[str, str]:
        """The protocol type and the state of a group."""
        return self.type, group.state()

    def removal_error(self, group: G) -> ErrorCode:
        """NONE if a group can be deleted, else the error: only an empty group can."""
        if group.gone:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NON_EMPTY_GROUP if self.size(group) else ErrorCode.NONE

    def removal(self, group: G) -> list[Record]:
        """The records that remove a group, which is gone from now on."""
        group.gone = True
        behind = group.way.writes.behind if group.way is not None else ()
        return [self.records.record(group, key) for key in dict.fromkeys((*behind, *self.records.keys(group)))]

    def revive(self, group: G) -> None:
        """Take a group back whose removal could not be written: the log may have it or not, so all is written with the
        next change."""
        group.gone = False
        group.way.writes.behind.update(dict.fromkeys(self.records.keys(group)))

    # ---- target assignments

    def _want_assignment(self, shard: Shard, group: G, now: Now) -> bool:
        """Have a target assignment made if one is needed, now or when it is time. Returns whether now."""
        way = group.way
        if not self._needs_assignment(group):
            return False
        due_ms = self._assignment_due_ms(group, now)
        if due_ms > now.mono_ms:
            if way.assign_due_ms > due_ms:
                way.assign_due_ms = due_ms
                self._plan(due_ms, ASSIGNMENT, group)
            return False
        way.assigning, way.assign_due_ms = True, FAR_MS
        epoch, order, assign = group.epoch, self._order(group), self._assignor(group)
        self.jobs.append(
            Job(lambda: assign(order), lambda result, now: self._assigned(shard, group, epoch, order, result, now))
        )
        return True

    def _assigned(self, shard: Shard, group: G, epoch: int, order: Any, result: Any, now: Now) -> None:
        """Take a target assignment that was made, or an exception that says why not."""
        way = group.way
        way.assigning = False
        waiting, way.waiting = way.waiting, []
        if not self._still(shard, group):
            for one in waiting:
                self._refuse_unknown(group, one)
            return
        if isinstance(result, Exception):
            group.target_wall_ms = now.wall_ms
            text = self.failure.format(epoch=epoch, error=result)
            self._refuse_all(waiting, ErrorCode.UNKNOWN_SERVER_ERROR, text)
        else:
            self._commit(shard, group, self._take_targets(group, epoch, order, result, now))
            for one in waiting:
                self._finish(shard, group, one, {}, now)
        self._want_assignment(shard, group, now)

    def _still(self, shard: Shard, group: G) -> bool:
        """Whether a group is still the one of its name."""
        return self.ports.shard_of(group.id) is shard and self.groups(shard).get(group.id) is group

    # ---- answers

    def _finish(self, shard: Shard, group: G, one: AnyWaiting, touched: dict[Any, None], now: Now) -> None:
        """Answer a heartbeat, which may have waited: its member may be gone by now."""
        member = group.members.get(one.member_id)
        if member is None:
            self._refuse_unknown(group, one)
        else:
            self._answer_member(shard, group, member, one, touched, now)

    def _refuse_unknown(self, group: G, one: AnyWaiting) -> None:
        refused = unknown_member(group.id, one.member_id)
        self._refuse_all([one], refused.code, refused.text)

    def _refuse_all(self, waiting: Sequence[AnyWaiting], error: ErrorCode, text: str | None = None) -> None:
        for one in waiting:
            self._reply(one.ticket, one.request, self.beat(error, text))

    def _reply(self, ticket: int, request: Any, beat: Any) -> None:
        """Answer a heartbeat that may stand for another request."""
        self._answer(ticket, beat)

    def _answer(self, ticket: int, beat: Any) -> None:
        self.ports.answers.append((ticket, beat))

    def _once_written(self, ticket: int, request: Any, beat: Any) -> Callable[[ErrorCode], None]:
        """A function for a write to call, which then sends the answer."""

        def written(error: ErrorCode) -> None:
            self._reply(ticket, request, beat if error is ErrorCode.NONE else self.beat(error, None))

        return written

    def _commit(
        self, shard: Shard, group: G, touched: Mapping[Any, None], then: Callable[[ErrorCode], None] | None = None
    ) -> None:
        """Write what is touched. `then` is called when it is committed, and all that was under way before."""

        def write(records: Sequence[Record], ended: Then) -> int:
            return self.ports.write(shard, group.id, records, ended)

        group.way.writes.commit(touched, partial(self.records.record, group), write, then)
