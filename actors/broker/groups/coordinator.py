"""The coordinator of the groups whose partition of `__consumer_offsets` this broker leads.

This file alone decides which groups and offsets exist, and the order of each change: first it is written, then it is
committed to the partition's high watermark, then it becomes visible and is answered. Partitions, their loading and their
loss are those of every coordinator (`broker/coordinators/coordination.py`). What a group is, is decided by its kind
(`kind.py`); the kinds are in one table (`kinds.py`). Rules:

1. An answer never leaves before everything that it depends on is committed.
2. A group is dead from when its removal is written: from then on no member joins it or commits for it, unless the write
   fails.
3. A group and an offset that are removed leave a tombstone for each key of which the log may have a value. The log cleaner
   does the rest.
4. A group with a record that cannot be read here, of a later version or a damaged one, is foreign: whatever would write
   something of it is refused with UNSUPPORTED_VERSION, and none of its offsets expires. Nobody knows who its members are.
   It is not listed; the offsets of it that can be read are told.
5. Offsets of a topic that was deleted are removed in portions, `KEYS_A_TICK` in a turn, however many a group has; those of
   topics that were deleted meanwhile in one more walk, all together. What is committed for a topic of the same name
   meanwhile is not among them. A group that is deleted, offsets that have expired, and the end of a transaction share these
   keys of a turn.

Inputs come with the time. Outputs are taken from `answers` (ticket, verdict) and `writes`.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from actors.broker.coordinators.coordination import Coordination, Record, Then
from actors.broker.groups.classic import state as classic
from actors.broker.groups.classic.state import Group
from actors.broker.groups.classic_requests import Joined, JoinRequest, Synced, SyncRequest
from actors.broker.groups.consumer.state import ConsumerGroup
from actors.broker.groups.kind import Committer, Expiry, Kind
from actors.broker.groups.kinds import GroupSettings, Kinds, kinds
from actors.broker.groups.records import CommittedOffset, GroupLine, OffsetLine, offset_record, read
from actors.broker.groups.shard import NO_WRITE, PORTION_KEYS, AnyGroup, Missing, OffsetKey, Shard
from actors.broker.groups.topics import Topics
from actors.ledger import Account
from actors.ports import Now
from actors.wire.errors import ErrorCode

KEYS_A_TICK = 1_000
"""The number of offsets that are looked at, removed or made visible in one turn: about a millisecond."""
NO_LIMIT = 1 << 62


class MarkerPlace(NamedTuple):
    """The place of a marker in the log of a partition. `order`: of what was written before it
    (`TransactionalOffsets`)."""

    leader_epoch: int
    order: int


class _Removal:
    """The removal of a group and of all that it has committed, a portion at a time. It is dead meanwhile."""

    __slots__ = ("error", "group", "portions", "records", "seen", "shard", "then")

    def __init__(
        self, shard: Shard, group: AnyGroup, records: Sequence[Record], then: Callable[[ErrorCode], None]
    ) -> None:
        self.shard = shard
        self.group = group
        self.records = records
        """The records that remove the group itself: behind its offsets, so that a removal that is tried again finds
        it."""
        self.then = then
        self.portions = shard.portions(group.id)
        self.seen: set[OffsetKey] = set()
        self.error = ErrorCode.NONE
        """Why a portion could not be written; NONE: all could be."""

    def next(self) -> list[OffsetKey] | None:
        """The next keys to remove; None: there are no more."""
        for keys in self.portions:
            if found := [key for key in keys if key not in self.seen]:
                self.seen.update(found)
                return found
        return None


class Coordinator(Coordination[Shard]):
    """The group coordinator of one broker: all partitions of `__consumer_offsets` that it leads."""

    def __init__(self, settings: GroupSettings, topics: Topics, members: Account | None = None) -> None:
        """A coordinator without shards. `members`: the account to which members of classic groups are charged."""
        super().__init__(settings.partitions, Shard)
        self.settings = settings
        self.answers: list[tuple[int, Any]] = []
        """The answers that are not handed over yet: (ticket, verdict), a verdict in its kind's own words."""
        self.kinds: Kinds = kinds(self, settings, topics, members)
        self._by_type: dict[str, Kind[Any]] = {kind.type: kind for kind in self.kinds}
        self._readers = {number: kind.read for kind in self.kinds for number in kind.numbers}
        self._keys_left = KEYS_A_TICK
        """The number of offsets that may still be looked at in this turn, for whether their topic is gone."""
        self._walking: dict[Shard, None] = {}
        """The shards in which there is more to look at."""
        self._removals: deque[_Removal] = deque()
        """The groups whose removal takes longer than a turn."""
        self._expiring: Iterator[int] | None = None
        """The look for offsets that have expired; it gives how many were looked at."""
        self._owners: dict[int, Kind[Any]] = {number: kind for kind in self.kinds for number in kind.numbers}

    # ---- leadership and loading

    def _unload(self, shard: Shard) -> None:
        for kind in reversed(self.kinds):
            kind.unload(shard)

    def _read(self, key: bytes | None, value: bytes | None) -> Any | None:
        return read(self._readers, key, value)

    def _take(self, shard: Shard, key: bytes, line: Any, producer_id: int) -> str:
        """Take in one record. Returns a sentence if it makes a group foreign."""
        if isinstance(line, GroupLine):
            shard.known(line.group, key)
            self._owners[int.from_bytes(key[:2], "big")].replay(shard, line)
            return ""
        owner, strange = producer_id, ""
        if isinstance(line, OffsetLine):
            place, committed = (line.topic, line.partition), line.committed
            shard.known(line.group, key)
        else:
            if shard.take_foreign(line):
                strange = f"{line.why}; nothing is written of that group here"
            if line.offset is None:
                return strange
            place, committed, owner = line.offset, None, -1
        order = shard.transactional.next()
        if owner >= 0:
            shard.transactional.wrote(owner, line.group, place, order, committed)
        else:
            shard.set(line.group, place, committed)
            shard.transactional.set(line.group, place, order)
        return strange

    def load_end(self, partition: int, epoch: int, producer_id: int, commit: bool) -> None:
        """Replay a marker: the producer's transaction ends here. Ignored as `load` is."""
        shard = self.shard_loading(partition, epoch)
        if shard is not None:
            self._end(shard, producer_id, commit, shard.transactional.order)

    def loaded(self, partition: int, epoch: int, now: Now, exists: Callable[[str], bool] = lambda topic: True) -> None:
        """Let a shard serve, since the whole log has been replayed; its members' sessions begin now. `exists`: whether
        a topic of that name exists. Offsets of other topics were left by a coordinator that ended before it could
        remove them."""
        shard = self._serve(partition, epoch)
        if shard is None:
            return
        self._one_kind_each(shard)
        for id in shard.with_offsets():
            self.kinds.classic.simple(shard, id)
        for id in shard.foreign:
            shard.forget(id)
        for kind in self.kinds:
            kind.loaded(shard, now)
        self._forget_missing(shard, lambda topic: topic not in shard.forgotten and exists(topic))

    # ---- membership

    def join(self, group_id: str, ticket: int, request: JoinRequest, now: Now) -> None:
        """Handle a JoinGroup request. The verdict appears in `answers`, now or later."""
        shard = self.shard_of(group_id)
        error: ErrorCode | None = None
        if not group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif not self.settings.session_ms_min <= request.session_timeout_ms <= self.settings.session_ms_max:
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        elif isinstance(shard, ErrorCode):
            error = shard
        elif group_id in shard.foreign:
            error = ErrorCode.UNSUPPORTED_VERSION
        if error is not None:
            self.answers.append((ticket, Joined(error, request.member_id)))
            return
        assert isinstance(shard, Shard)
        group = shard.find(group_id)
        if group is None:
            self.kinds.classic.classic_join(shard, group_id, ticket, request, now)
        elif group.type == classic.TYPE or group.members:
            self.kind_of(group).classic_join(shard, group_id, ticket, request, now)
        else:
            self._join_empty(shard, group, ticket, request, now)

    def sync(
        self,
        group_id: str,
        ticket: int,
        member_id: str,
        instance_id: str | None,
        generation: int,
        protocol_type: str | None,
        protocol: str | None,
        assignments: Sequence[tuple[str, bytes]],
        now: Now,
    ) -> None:
        """Handle a SyncGroup request. The verdict appears in `answers`, for all members once the leader's assignment is
        written."""
        shard = self.shard_of(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        group = None if isinstance(shard, ErrorCode) else shard.find(group_id)
        if isinstance(shard, ErrorCode) or group is None:
            code = shard if isinstance(shard, ErrorCode) else ErrorCode.UNKNOWN_MEMBER_ID
            if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                # Clients do not expect that error here, and Java's client ends with it. The join is lost in any case.
                code = ErrorCode.REBALANCE_IN_PROGRESS
            self.answers.append((ticket, Synced(code)))
            return
        request = SyncRequest(member_id, instance_id, generation, protocol_type, protocol, assignments)
        self.kind_of(group).classic_sync(shard, group, ticket, request, now)

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int, now: Now) -> ErrorCode:
        """Handle Heartbeat of a classic member. Returns the error of the answer."""
        shard = self.shard_of(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if isinstance(shard, ErrorCode):
            # Kafka's clients go on and ask again after this: a load must not end their membership.
            return ErrorCode.NONE if shard is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else shard
        group = shard.find(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return self.kind_of(group).classic_heartbeat(shard, group, member_id, instance_id, generation, now)

    def leave(
        self,
        group_id: str,
        members: Sequence[tuple[str, str | None]],
        now: Now,
        then: Callable[[ErrorCode], None] = lambda error: None,
    ) -> ErrorCode | list[ErrorCode]:
        """Handle a LeaveGroup request. Returns one code for each member, or one for all. `then` is called when what
        they say is committed, or with the error of its write."""
        shard = self.shard_of(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        group = None if isinstance(shard, ErrorCode) else shard.find(group_id)
        if isinstance(shard, ErrorCode) or group is None:
            then(ErrorCode.NONE)
            return shard if isinstance(shard, ErrorCode) else [ErrorCode.UNKNOWN_MEMBER_ID] * len(members)
        return self.kind_of(group).leave(shard, group, members, then, now)

    # ---- offsets

    def commit_error(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        now: Now,
        *,
        transactional: bool = False,
    ) -> ErrorCode:
        """NONE if (member, generation) may commit for the group, else the error. `transactional`: a producer commits,
        for a member that it may name (KIP-447); if it names none, it is believed."""
        shard = self.shard_of(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        if group_id in shard.foreign:
            return ErrorCode.UNSUPPORTED_VERSION
        group = shard.find(group_id)
        if group is None:
            return ErrorCode.NONE if generation < 0 else ErrorCode.ILLEGAL_GENERATION
        committer = Committer(member_id, instance_id, generation, transactional)
        return self.kind_of(group).commit_error(group, committer, now)

    def held_since(self, group_id: str, member_id: str, epoch: int, topic: str, partition: int) -> bool:
        """Whether a member that commits in an earlier epoch has held the partition since (KIP-1251)."""
        group = self.find(group_id)
        if group is None or isinstance(group, ErrorCode):
            return False
        return self.kind_of(group).held_since(group, member_id, epoch, topic, partition)

    def stale_error(self, group_id: str, member_id: str) -> ErrorCode:
        """The error for a member that commits in an earlier epoch, and may not."""
        group = self.find(group_id)
        if group is None or isinstance(group, ErrorCode):
            return ErrorCode.STALE_MEMBER_EPOCH
        return self.kind_of(group).stale_error(group, member_id)

    def fetch_error(self, group_id: str, member_id: str, epoch: int) -> ErrorCode:
        """NONE if a member that names itself may read the group's offsets, else the error."""
        group = self.find(group_id)
        if group is None or isinstance(group, ErrorCode):
            return ErrorCode.NONE
        return self.kind_of(group).fetch_error(group, member_id, epoch)

    def commit(
        self,
        group_id: str,
        offsets: Sequence[tuple[str, int, CommittedOffset]],
        then: Callable[[ErrorCode], None],
        records: Sequence[Record] | None = None,
    ) -> None:
        """Write offsets of a group. Once they are committed, they are visible and `then` is called. `records`: their
        records, if they are encoded already."""
        shard = self.shard_of(group_id)
        if isinstance(shard, ErrorCode):
            then(shard)
            return
        self._before_commit(shard, group_id, offsets)
        self._write_offsets(
            shard, group_id, [((topic, number), committed) for topic, number, committed in offsets], then, records
        )

    def commit_transactional(
        self,
        group_id: str,
        producer: tuple[int, int],
        offsets: Sequence[tuple[str, int, CommittedOffset]],
        then: Callable[[ErrorCode], None],
        records: Sequence[Record] | None = None,
    ) -> None:
        """Write offsets in the transaction of a producer (id, epoch). `then` is called once they are committed to the
        log; they are visible when the transaction is committed, see `transaction_ended`. `records`: theirs, if they are
        encoded already."""
        shard = self.shard_of(group_id)
        if isinstance(shard, ErrorCode):
            then(shard)
            return
        self._before_commit(shard, group_id, offsets)
        pending = shard.transactional
        written = [((topic, number), pending.next(), committed) for topic, number, committed in offsets]

        def ended(error: ErrorCode, now: Now) -> None:
            if error is not ErrorCode.NONE:
                for key, order, _ in written:
                    pending.failed(producer[0], group_id, key, order)
            else:
                self.kinds.classic.simple(shard, group_id)
            then(error)

        for key, order, committed in written:
            pending.wrote(producer[0], group_id, key, order, committed)
        self._write(
            shard,
            group_id,
            records or [offset_record(group_id, *key, committed) for key, _, committed in written],
            ended,
            producer,
        )

    def marker_place(self, partition: int) -> MarkerPlace | None:
        """The place in the log at which a marker stands that is written to a partition now; None: the partition is not
        led here."""
        shard = self.shards.get(partition)
        return None if shard is None else MarkerPlace(shard.epoch, shard.transactional.order)

    def transaction_ended(self, partition: int, producer_id: int, commit: bool, place: MarkerPlace) -> None:
        """Make what a producer has committed in a transaction visible, or forget it: a marker is committed to a
        partition. Ignored where the partition is being loaded, or was loaded since: the log says it too."""
        shard = self.shards.get(partition)
        if shard is not None and shard.loaded and shard.epoch == place.leader_epoch:
            self._end(shard, producer_id, commit, place.order)

    def unstable(self, group_id: str) -> Collection[tuple[str, int]]:
        """Partitions for which the group has offsets in open transactions (KIP-447)."""
        shard = self.shard_of(group_id)
        return () if isinstance(shard, ErrorCode) else shard.transactional.unstable(group_id)

    def fetch(self, group_id: str) -> dict[tuple[str, int], CommittedOffset] | ErrorCode:
        """The committed offsets of a group (empty if there is none); UNSUPPORTED_VERSION if one of them cannot be read:
        a client that is told of no offset begins somewhere else."""
        shard = self.shard_of(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        return ErrorCode.UNSUPPORTED_VERSION if group_id in shard.unreadable else shard.offsets.get(group_id, {})

    def delete_offsets(
        self, group_id: str, partitions: Sequence[tuple[str, int]], then: Callable[[ErrorCode], None]
    ) -> None:
        """Remove committed offsets of a group."""
        shard = self.shard_of(group_id)
        if isinstance(shard, ErrorCode) or group_id in shard.foreign:
            then(shard if isinstance(shard, ErrorCode) else ErrorCode.UNSUPPORTED_VERSION)
        else:
            self._remove_offsets(shard, group_id, partitions, then)

    # ---- admin

    def kind_of(self, group: AnyGroup) -> Kind[Any]:
        """The kind of a group."""
        return self._by_type[group.type]

    def find(self, group_id: str) -> Any:
        """The group of whatever kind (an `AnyGroup`); None if there is none; an ErrorCode if that is not known here."""
        shard = self.shard_of(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        return ErrorCode.UNSUPPORTED_VERSION if group_id in shard.foreign else shard.find(group_id)

    def group(self, group_id: str) -> Group | ErrorCode | None:
        """The classic group, None if there is none, or why this broker cannot tell."""
        found = self.find(group_id)
        return found if isinstance(found, (Group, ErrorCode)) else None

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """The group of KIP-848, None if there is none of that name here."""
        found = self.find(group_id)
        return found if isinstance(found, ConsumerGroup) else None

    def groups(self, type: str = classic.TYPE) -> list[Any]:
        """Every group of a kind of every loaded shard, by id."""
        found = [group for shard in self.shards.values() if shard.loaded for group in shard.of(type).values()]
        return sorted(found, key=lambda group: group.id)

    def every(self, types: Collection[str] = ()) -> Iterator[AnyGroup]:
        """Every group of these kinds, or of all, by kind and id."""
        for type in sorted(self._by_type):
            if not types or type in types:
                yield from self.groups(type)

    def delete(self, group_id: str, then: Callable[[ErrorCode], None]) -> None:
        """Remove an empty group and its offsets. Meanwhile it is dead. For what was never written, nothing is
        written."""
        shard = self.shard_of(group_id)
        if isinstance(shard, ErrorCode):
            then(shard)
            return
        if group_id in shard.foreign:
            then(ErrorCode.UNSUPPORTED_VERSION)
            return
        group = shard.find(group_id)
        if group is None:
            then(ErrorCode.GROUP_ID_NOT_FOUND)
            return
        self._delete(shard, group, then)

    def forget_topic(self, topic: str) -> None:
        """Remove offsets committed for a topic that was deleted, and those that are being written; what is more than a
        turn can do, in the next ones."""
        for shard in self.shards.values():
            if shard.loaded:
                self._forget(shard, (topic,))
            else:
                shard.forgotten.add(topic)

    # ---- time and writes

    def tick(self, now: Now) -> None:
        """Do what is due in every kind. What this plans for now is done in the next tick, so that a tick ends."""
        for kind in self.kinds:
            kind.tick(now)
        self._keys_left = KEYS_A_TICK
        for shard in list(self._walking):
            if self.shards.get(shard.partition) is shard:
                self._walk(shard)
            else:
                del self._walking[shard]
        self._remove_on()
        self._expire_on()

    def deadline_ms(self) -> int:
        """The monotonic time at which `tick` has something to do."""
        if self._walking or self._removals or self._expiring is not None:
            return 0
        return min(kind.deadline_ms() for kind in self.kinds)

    def expire_offsets(self, now: Now, exists: Callable[[str], bool] = lambda topic: True) -> None:
        """Remove offsets whose time (offsets.retention.minutes) is over, as their group's kind says, and groups that go
        with them.

        Offsets for topics that do not exist are removed as well: their removal has failed, or this broker has learned
        of the deletion from a snapshot, which does not show it."""
        for shard in self.shards.values():
            if shard.loaded:
                self._forget_missing(shard, exists)
        if self._expiring is None:
            self._expiring = self._expiry(now)
        self._expire_on()

    # ---- kinds

    def write(self, shard: Shard, group_id: str, records: Sequence[Record], then: Then) -> int:
        """Begin a write of one group, for its kind."""
        return self._write(shard, group_id, records, then)

    def become_classic(
        self, shard: Shard, group: AnyGroup, removed: Sequence[bytes], now: Now, *, rebalance: bool, then: Then
    ) -> None:
        """Make a group of another kind classic; see `Ports`."""
        assert isinstance(group, Group)
        self.kinds.classic.adopt(shard, group, removed, now, rebalance_now=rebalance, then=then)

    def retire(self, shard: Shard, group: AnyGroup) -> list[Record]:
        """Let a classic group go on as another kind; see `Ports`."""
        assert isinstance(group, Group)
        return self.kinds.classic.retire(group)

    def vacate(self, shard: Shard, group_id: str) -> list[Record] | None:
        """Give a name to another kind; see `Ports`."""
        return self.kinds.classic.vacate(shard, group_id)

    def _one_kind_each(self, shard: Shard) -> None:
        """Leave each name to one kind of group. Where the log has records of several, the one with members counts, the
        others are removed."""
        for kind in self.kinds:
            for id in list(shard.of(kind.type)):
                found = [(one, shard.of(one.type)[id]) for one in self.kinds if id in shard.of(one.type)]
                counts = next((group for _, group in found if group.members), found[0][1])
                for other, group in found:
                    if group is not counts:
                        del shard.of(other.type)[id]
                        self._write(shard, id, other.removal(group), lambda error, now: None)

    def _join_empty(self, shard: Shard, group: AnyGroup, ticket: int, request: JoinRequest, now: Now) -> None:
        """Let a classic member join a group of another kind without members, which becomes a classic group first."""
        kind = self.kind_of(group)
        error = kind.removal_error(group) if kind.gives_way else ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.member_id:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is not ErrorCode.NONE:
            self.answers.append((ticket, Joined(error, request.member_id)))
            return

        def then(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self.join(group.id, ticket, request, now)
            else:
                self.answers.append((ticket, Joined(error, request.member_id)))

        self._remove(shard, group, then, with_offsets=False)

    def _delete(self, shard: Shard, group: AnyGroup, then: Callable[[ErrorCode], None]) -> None:
        kind = self.kind_of(group)
        error = kind.removal_error(group)
        if error is not ErrorCode.NONE:
            then(error)
            return

        def prepared(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                error = self._still(shard, group)
            if error is ErrorCode.NONE:
                self._remove(shard, group, then, with_offsets=True)
            else:
                then(error)

        kind.before_removal(shard, group, prepared)

    def _still(self, shard: Shard, group: AnyGroup) -> ErrorCode:
        """Whether a group is still here and can be removed."""
        present = self.shard_of(group.id)
        if isinstance(present, ErrorCode):
            return present
        if present is not shard or shard.find(group.id) is not group:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return self.kind_of(group).removal_error(group)

    def _remove(self, shard: Shard, group: AnyGroup, then: Callable[[ErrorCode], None], *, with_offsets: bool) -> None:
        """Remove a group that can be removed; its offsets stay where another kind takes its place. For what was never
        written nothing is written."""
        kind = self.kind_of(group)
        size = shard.keys_at_most(group.id) if with_offsets else 0
        if size and (size > PORTION_KEYS or self._keys_left <= 0):
            self._removals.append(_Removal(shard, group, kind.removal(group), then))
            return
        self._keys_left -= size
        records = [offset_record(group.id, *key, None) for key in shard.keys(group.id)] if with_offsets else []
        records += kind.removal(group)

        def gone(error: ErrorCode, now: Now) -> None:
            if error is not ErrorCode.NONE:
                kind.revive(group)
            elif with_offsets:
                shard.drop(group.id)
            else:
                shard.forget(group.id)
                if group.id in shard.offsets:
                    self.kinds.classic.simple(shard, group.id)
            then(error)

        if records:
            self._write(shard, group.id, records, gone)
        else:
            gone(ErrorCode.NONE, Now(0, 0))

    # ---- inside

    def _remove_on(self) -> None:
        """Go on with the removal of groups, as far as the turn allows."""
        while self._removals and self._keys_left > 0:
            one = self._removals[0]
            shard, group = one.shard, one.group
            if self.shards.get(shard.partition) is not shard:
                self._removals.popleft()
                one.then(ErrorCode.NOT_COORDINATOR)
                continue
            keys = one.next()
            if keys is not None:
                self._keys_left -= 1 + len(keys)
                self._remove_offsets(shard, group.id, keys, partial(_note, one))
                continue
            self._removals.popleft()
            self._keys_left -= 1
            self._remove_last(one)

    def _remove_last(self, one: _Removal) -> None:
        """Remove a group, behind all its offsets, which are on their way to be removed."""
        kind = self.kind_of(one.group)

        def gone(error: ErrorCode, now: Now) -> None:
            if error is ErrorCode.NONE:
                error = one.error
            if error is ErrorCode.NONE:
                one.shard.drop(one.group.id, in_portions=True)
            else:
                kind.revive(one.group)
            one.then(error)

        # A group that was never written has a record all the same, so that this ends behind its offsets' removals.
        records = one.records or [offset_record(one.group.id, *key, None) for key in islice(one.seen, 1)]
        if records:
            self._write(one.shard, one.group.id, records, gone)
        else:
            gone(ErrorCode.NONE, Now(0, 0))

    def _expire_on(self) -> None:
        """Go on with the look for offsets that have expired, as far as the turn allows."""
        while self._expiring is not None and self._keys_left > 0:
            looked_at = next(self._expiring, None)
            if looked_at is None:
                self._expiring = None
            else:
                self._keys_left -= looked_at

    def _expiry(self, now: Now) -> Iterator[int]:
        """Look at every group once, and at `PORTION_KEYS` of its offsets in one go. Yields how many, before it
        looks."""
        for shard in list(self.shards.values()):
            for kind in self.kinds:
                for id in list(shard.of(kind.type)) if shard.loaded else ():
                    yield 1 + min(len(shard.offsets_of(id)), PORTION_KEYS)
                    yield from self._expiry_of(shard, kind, id, now)

    def _expiry_of(self, shard: Shard, kind: Kind[Any], id: str, now: Now) -> Iterator[int]:
        """Remove what has expired of one group: portion by portion, or the whole group at the end if that is all and
        nothing has been committed meanwhile. It is asked anew before each portion, since the group goes on
        meanwhile."""
        keys, order, expired, whole = list(shard.offsets_of(id)), shard.transactional.order, 0, False
        busy = self.is_written(shard, id)
        for start in range(0, max(1, len(keys)), PORTION_KEYS):
            if start:
                yield PORTION_KEYS
            found = self._expiry_now(shard, kind, id, now, busy=busy)
            if found is None:
                return
            old = _old(shard, id, keys[start : start + PORTION_KEYS], found)
            expired, whole = expired + len(old), found.whole
            if not whole:
                self._forget_of(shard, id, old)
        if whole and expired == len(keys) and shard.transactional.order == order:
            self.delete(id, lambda error: None)
        elif whole and expired:
            yield from self._expire_some(shard, kind, id, keys, now)

    def _expire_some(
        self, shard: Shard, kind: Kind[Any], id: str, keys: Sequence[OffsetKey], now: Now
    ) -> Iterator[int]:
        """Remove some expired offsets of a group that could go as a whole. It stays, until a later look finds none."""
        for start in range(0, len(keys), PORTION_KEYS):
            portion = keys[start : start + PORTION_KEYS]
            yield len(portion)
            found = self._expiry_now(shard, kind, id, now, busy=False)
            if found is None:
                return
            self._forget_of(shard, id, _old(shard, id, portion, found))

    def _expiry_now(self, shard: Shard, kind: Kind[Any], id: str, now: Now, *, busy: bool) -> Expiry | None:
        """The expired offsets of a group; None: there are none, or the group is not here any more."""
        group = shard.of(kind.type).get(id) if self.shards.get(shard.partition) is shard else None
        return None if group is None else kind.expiry(shard, group, now, self.settings.retention_ms, busy=busy)

    def _forget_missing(self, shard: Shard, exists: Callable[[str], bool]) -> None:
        """Look for offsets of topics that do not exist: at once as far as the turn allows, and then in the next
        ones."""
        shard.look_for(Missing(exists))
        self._walking[shard] = None
        self._walk(shard)

    def _end(self, shard: Shard, producer_id: int, commit: bool, behind: int) -> None:
        shard.transactional.ended(producer_id, commit, behind)
        if shard.loaded:
            self._walking[shard] = None
            self._end_on(shard)
            if not shard.transactional.ending and not shard.walks:
                self._walking.pop(shard, None)
        else:
            while shard.transactional.ending:
                self._end_some(shard, NO_LIMIT)

    def _end_on(self, shard: Shard) -> None:
        """Take in what was committed in transactions that have ended, as far as the turn allows."""
        while shard.transactional.ending and self._keys_left > 0:
            self._keys_left -= self._end_some(shard, PORTION_KEYS)

    def _end_some(self, shard: Shard, keys_max: int) -> int:
        """Take in at most so many keys of what was committed in ended transactions. Returns how many there were."""
        looked_at, visible = shard.transactional.take_in(keys_max)
        for group_id, key, order, committed in visible:
            shard.set(group_id, key, committed)
            shard.transactional.set(group_id, key, order)
            if shard.loaded:
                self.kinds.classic.simple(shard, group_id)
        return looked_at

    def _forget(self, shard: Shard, topics: Collection[str]) -> None:
        """Remove the offsets of topics that are gone: at once as far as the turn allows, and the rest in the next
        ones."""
        if topics:
            shard.forget_topics(topics)
            self._walking[shard] = None
            self._walk(shard)

    def _walk(self, shard: Shard) -> None:
        """Go on with the groups of a shard, as far as the turn allows."""
        self._end_on(shard)
        while self._keys_left > 0 and shard.walks:
            walk = shard.walks[0]
            found = walk.next()
            if found is None:
                del shard.walks[0]
            else:
                group_id, keys = found
                self._keys_left -= 1 + len(keys)
                self._forget_of(shard, group_id, walk.gone(group_id, keys))
        if not shard.walks and not shard.transactional.ending:
            self._walking.pop(shard, None)

    def _forget_of(self, shard: Shard, group_id: str, gone: Sequence[OffsetKey]) -> None:
        """Remove what a group has committed for topics that are gone."""
        if gone:
            self._remove_offsets(shard, group_id, gone, lambda error: None)

    def _before_commit(self, shard: Shard, group_id: str, offsets: Sequence[tuple[str, int, CommittedOffset]]) -> None:
        """Remove what a group has of keys that it is about to commit, for topics that are gone."""
        for walk in shard.walks:
            gone = walk.gone(group_id, [(topic, number) for topic, number, _ in offsets])
            self._forget_of(shard, group_id, [key for key in gone if shard.holds_key(group_id, key)])

    def _remove_offsets(
        self, shard: Shard, group_id: str, keys: Sequence[OffsetKey], then: Callable[[ErrorCode], None]
    ) -> None:
        self._write_offsets(shard, group_id, [(key, None) for key in keys], then)

    def _write_offsets(
        self,
        shard: Shard,
        group_id: str,
        offsets: Sequence[tuple[OffsetKey, CommittedOffset | None]],
        then: Callable[[ErrorCode], None],
        records: Sequence[Record] | None = None,
    ) -> None:
        order = shard.transactional.next()

        def ended(error: ErrorCode, now: Now) -> None:
            for key, committed in offsets:
                if error is ErrorCode.NONE:
                    shard.set(group_id, key, committed)
                    shard.transactional.set(group_id, key, order)
                    if committed is not None:
                        self.kinds.classic.simple(shard, group_id)
                shard.settled(group_id, key, token, error)
            then(error)

        records = records or [offset_record(group_id, *key, committed) for key, committed in offsets]
        token = self._write(shard, group_id, records, ended)
        for key, _ in offsets:
            shard.wrote(group_id, key, token)


def _old(shard: Shard, id: str, keys: Sequence[OffsetKey], found: Expiry) -> list[OffsetKey]:
    """The keys of a group that have expired, out of `keys`. A key that is being written, also in an open transaction,
    has not, since its removal would stand behind the new value in the log."""
    offsets, unsettled, unstable = shard.offsets_of(id), shard.unsettled_of(id), shard.transactional.unstable(id)
    return [
        key
        for key in keys
        if key in offsets
        and found.old(key, offsets[key])
        and unsettled.get(key, NO_WRITE) == NO_WRITE
        and key not in unstable
    ]


def _note(removal: _Removal, error: ErrorCode) -> None:
    """Note that the write of a portion of a group's removal has ended."""
    if error is not ErrorCode.NONE:
        removal.error = error
