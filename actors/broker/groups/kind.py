"""What a kind of group has to offer, so that the coordinator needs to know none of them: classic, consumer, and others.

This file alone decides what the coordinator (`coordinator.py`) asks of a kind, and what a kind may ask of it. The table of
kinds is in `kinds.py`. Rules:

1. A group's name belongs to one kind at a time. Another kind takes it over when the group is empty, if the kind gives way.
2. A kind owns the numbers of its records' keys. Only the kind knows what is in these records, save the group's name, which
   comes first in the key of every record.
3. A kind calls nobody: what it wants written and answered goes through `Ports`, and work outside the loop is left in `jobs`.
4. Committed offsets belong to no kind: the coordinator keeps them, and asks who may commit and read them.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from actors.broker.coordinators.coordination import Record, Then
from actors.broker.groups.classic_requests import Joined, JoinRequest, Synced, SyncRequest
from actors.broker.groups.records import CommittedOffset, GroupLine
from actors.broker.groups.shard import AnyGroup, OffsetKey, Shard
from actors.ports import Now
from actors.wire.errors import ErrorCode

FAR_MS = 1 << 62
G = TypeVar("G", bound=AnyGroup)


class Job(NamedTuple):
    """A job outside the loop. `run` gives what `then` is called with, or an exception."""

    run: Callable[[], Any]
    then: Callable[[Any, Now], None]


class Committer(NamedTuple):
    """The member or producer that commits offsets. `epoch`: of the member, or its generation; -1: it names none.
    `transactional`: a producer commits, for a member that it may name (KIP-447); if it names none, it is believed."""

    member_id: str
    instance_id: str | None
    epoch: int
    transactional: bool = False


class Expiry(NamedTuple):
    """The committed offsets of a group that have expired. `whole`: the group goes if all have."""

    old: Callable[[OffsetKey, CommittedOffset], bool]
    whole: bool = False


class Ports(Protocol):
    """The coordinator, as far as a kind of group reaches it."""

    answers: list[tuple[int, Any]]
    """The answers of a kind: (ticket, verdict). It is another list after a while: append to the one that is here
    now."""

    def shard_of(self, name: str) -> Shard | ErrorCode:
        """The loaded shard of a group's name, or why there is none."""
        ...

    def write(self, shard: Shard, group_id: str, records: Sequence[Record], then: Then) -> int:
        """Begin a write of one group. Returns its token. `then` is called when it is committed, or has failed."""
        ...

    def vacate(self, shard: Shard, group_id: str) -> list[Record] | None:
        """Give a name to another kind. Returns the records that remove what the log has of a classic group without
        members, which are to be written with the first ones of the new group; `shard.forget` is called then. None: the
        name is taken."""
        ...

    def become_classic(
        self, shard: Shard, group: AnyGroup, removed: Sequence[bytes], now: Now, *, rebalance: bool, then: Then
    ) -> None:
        """Make a group classic. `removed`: keys of what the log has of it in its former kind. `rebalance`: its members
        join anew. `then` is called when all that is written."""
        ...

    def retire(self, shard: Shard, group: AnyGroup) -> list[Record]:
        """Let a classic group go on as another kind: members that wait in it are told to join anew. Returns the records
        that remove what the log has of it."""
        ...


class Kind(Protocol[G]):
    """One kind of group. A method that a kind does not replace does what stands here."""

    type: ClassVar[str]
    """The name of the kind in ListGroups."""
    numbers: ClassVar[Collection[int]]
    """The numbers of the keys of its records."""
    gives_way: ClassVar[bool] = False
    """Whether an empty group of this kind becomes a classic one when a classic member comes."""
    ports: Ports
    jobs: list[Job]
    """The jobs outside the loop, to be taken and run."""

    def groups(self, shard: Shard) -> dict[str, G]:
        """The groups of this kind in a shard, by id."""
        return shard.of(self.type)

    # ---- the log

    def read(self, number: int, key: bytes, value: bytes | None) -> GroupLine:
        """Decode a record whose key has one of its `numbers`. Raises WireError if that cannot be done: then the group
        is foreign here."""
        ...

    def replay(self, shard: Shard, line: GroupLine) -> None:
        """Take in a record of the log. Nothing is answered, written or timed before `loaded`."""
        ...

    def loaded(self, shard: Shard, now: Now) -> None:
        """Let sessions begin now, since the whole log of a shard was read."""
        ...

    def unload(self, shard: Shard) -> None:
        """Answer every request that waits in the shard, since another broker leads it. Writes end on their own."""
        ...

    # ---- time

    def deadline_ms(self) -> int:
        """The monotonic time at which `tick` has something to do."""
        ...

    def tick(self, now: Now) -> None:
        """Do what is due. What this plans for now is done in the next tick, so that a tick ends."""
        ...

    # ---- who may commit and read offsets

    def commit_error(self, group: G, committer: Committer, now: Now) -> ErrorCode:
        """NONE if offsets may be committed, else the error. STALE_MEMBER_EPOCH: `held_since` decides."""
        ...

    def held_since(self, group: G, member_id: str, epoch: int, topic: str, partition: int) -> bool:
        """Whether a member that commits in an earlier epoch has held the partition since (KIP-1251)."""
        return False

    def stale_error(self, group: G, member_id: str) -> ErrorCode:
        """The error for a member that commits in an earlier epoch, and may not."""
        return ErrorCode.STALE_MEMBER_EPOCH

    def fetch_error(self, group: G, member_id: str, epoch: int) -> ErrorCode:
        """NONE if a member that names itself may read the group's offsets, else the error."""
        return ErrorCode.NONE

    # ---- what is told of a group, and when it goes

    def listed(self, group: G) -> tuple[str, str]:
        """The group's protocol type and its state, as ListGroups has them."""
        ...

    def size(self, group: G) -> int:
        """The number of members of a group."""
        return len(group.members)

    def subscribes(self, group: G) -> Callable[[str], bool]:
        """Whether some member subscribes to a topic, or may do so: committed offsets of such a topic are not
        deleted."""
        ...

    def offset_delete_error(self, group: G) -> ErrorCode:
        """NONE if committed offsets may be deleted at all (OffsetDelete), else the error."""
        return ErrorCode.NONE

    def expiry(self, shard: Shard, group: G, now: Now, retention_ms: int, *, busy: bool) -> Expiry | None:
        """The offsets of a group whose time is over; None: there are none. It looks at no offset. `busy`: something of
        the group is being written."""
        return None

    def removal_error(self, group: G) -> ErrorCode:
        """Why the group cannot be deleted now: NON_EMPTY_GROUP, or COORDINATOR_NOT_AVAILABLE while it is."""
        ...

    def before_removal(self, shard: Shard, group: G, then: Callable[[ErrorCode], None]) -> None:
        """Remove what must go before the group. `then` is called when it has gone, or with the error."""
        then(ErrorCode.NONE)

    def removal(self, group: G) -> list[Record]:
        """The records that remove the group, a removal of every key of which the log may have a value. The group is
        dead from now on."""
        ...

    def revive(self, group: G) -> None:
        """Take a group back whose removal could not be written: the log may have the removal or not."""
        ...

    # ---- requests of classic members

    def classic_join(self, shard: Shard, group_id: str, ticket: int, request: JoinRequest, now: Now) -> None:
        """Handle JoinGroup for a group of this kind which has members. The verdict, a `Joined`, appears in the
        answers."""
        self.ports.answers.append((ticket, Joined(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)))

    def classic_sync(self, shard: Shard, group: G, ticket: int, request: SyncRequest, now: Now) -> None:
        """Handle a SyncGroup request. The verdict, a `Synced`, appears in the answers."""
        self.ports.answers.append((ticket, Synced(ErrorCode.UNKNOWN_MEMBER_ID)))

    def classic_heartbeat(
        self, shard: Shard, group: G, member_id: str, instance_id: str | None, generation: int, now: Now
    ) -> ErrorCode:
        """Handle Heartbeat of a classic member. Returns the error of the answer."""
        return ErrorCode.UNKNOWN_MEMBER_ID

    def leave(
        self,
        shard: Shard,
        group: G,
        members: Sequence[tuple[str, str | None]],
        then: Callable[[ErrorCode], None],
        now: Now,
    ) -> ErrorCode | list[ErrorCode]:
        """Handle LeaveGroup, which is also how an administrator takes members out, by member or instance id. Returns a
        code for each, or one for all. `then` is called when what they say is committed, or with the error of its
        write."""
        then(ErrorCode.NONE)
        return [ErrorCode.UNKNOWN_MEMBER_ID] * len(members)
