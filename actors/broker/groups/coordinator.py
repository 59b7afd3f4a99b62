"""The coordinator of the groups whose partition of `__consumer_offsets` this broker leads.

This file alone decides which groups and offsets exist, and the order of each change: first it is written, then it is
committed to the partition's high watermark, then it becomes visible and is answered. Partitions, their loading and their
loss are those of every coordinator (`broker/coordination.py`). Rules:

1. An answer never leaves before everything that it depends on is committed.
2. A group is dead from when its removal is written: from then on no member joins it or commits for it, unless the write
   fails.
3. A group and an offset that are removed leave a tombstone for each key of which the log may have a value. The log cleaner
   does the rest.
4. A group with a record that cannot be read here, of a later version or a damaged one, is foreign: whatever would write
   something of it is refused with UNSUPPORTED_VERSION, and none of its offsets expires. Nobody knows who its members are.
   It is not listed; the offsets of it that can be read are told.

Inputs come with the time. Outputs are taken from `answers` (ticket, verdict) and `writes`.
"""

import heapq
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from actors.broker.coordination import Coordination, Then
from actors.broker.groups import rebalance
from actors.broker.groups.consumer import groups as consumer
from actors.broker.groups.consumer import records as consumer_records
from actors.broker.groups.consumer.state import ConsumerGroup
from actors.broker.groups.consumer.topics import Topics
from actors.broker.groups.rebalance import Joined, JoinRequest, Policy, Synced
from actors.broker.groups.records import (
    CommittedOffset,
    GroupLine,
    OffsetLine,
    group_key,
    group_record,
    offset_record,
    read,
)
from actors.broker.groups.shard import Key, Shard
from actors.broker.groups.state import Group, GroupState
from actors.broker.groups.subscriptions import subscribed
from actors.ports import Now
from actors.wire.errors import ErrorCode, WireError

FAR_MS = 1 << 62


class Settings(NamedTuple):
    """The broker's `offsets.*` and `group.*`. `partitions`: how many `__consumer_offsets` will have; see `resized`."""

    partitions: int
    policy: Policy
    session_ms_min: int
    session_ms_max: int
    metadata_bytes_max: int
    retention_ms: int
    consumer: consumer.Settings


class Coordinator(Coordination[Shard]):
    """All shards of one broker."""

    def __init__(self, settings: Settings, topics: Topics) -> None:
        super().__init__(settings.partitions, Shard)
        self.settings = settings
        self.answers: list[tuple[int, Any]] = []
        """(ticket, verdict): of classic members a `Verdict`, of those of KIP-848 a `Beat`."""
        self.consumers = consumer.ConsumerGroups(
            self.shard_of,
            self._write,
            lambda ticket, beat: self.answers.append((ticket, beat)),
            settings.consumer,
            topics,
        )
        """Those of KIP-848."""
        self.deadlines: list[tuple[int, str]] = []
        self._scheduled: dict[str, int] = {}

    # ---- leadership and loading

    def _unload(self, shard: Shard) -> None:
        for group in shard.groups.values():
            self._dismiss(group, ErrorCode.NOT_COORDINATOR)
            group.state = GroupState.DEAD
        self.consumers.unload(shard)

    def load(
        self, partition: int, epoch: int, records: Iterable[tuple[bytes | None, bytes | None]], producer_id: int = -1
    ) -> list[str]:
        """Replay a slice of the partition's log, oldest first. Ignored if leadership changed meanwhile. `producer_id`: whose
        transaction the records belong to; -1: they belong to none.

        Returns a sentence about each damaged key, which is passed over, and about each group that is foreign."""
        shard = self.shard_loading(partition, epoch)
        strange: list[str] = []
        if shard is None:
            return strange
        for key, value in records:
            try:
                line = read(key, value) if key is not None else None
            except WireError as error:
                strange.append(str(error))
                continue
            if key is None or line is None:
                continue
            if isinstance(line, consumer_records.Line):
                shard.known(line.group, key)
                if line.key.kind == consumer_records.GROUP and line.data is None:
                    shard.consumers.pop(line.group, None)
                elif line.data is not None or line.group in shard.consumers:
                    group = shard.consumers.setdefault(line.group, ConsumerGroup(line.group))
                    consumer_records.replay(group, line.key, line.data)
                continue
            if isinstance(line, GroupLine):
                shard.known(line.id, key)
                if line.group is None:
                    shard.groups.pop(line.id, None)
                else:
                    shard.groups[line.id] = line.group
                    line.group.recorded = True
                continue
            if isinstance(line, OffsetLine):
                place, committed = (line.topic, line.partition), line.committed
                shard.known(line.group, key)
            else:
                if shard.take_foreign(line):
                    strange.append(f"{line.why}; nothing is written of that group here")
                if line.offset is None:
                    continue
                place, committed, producer_id = line.offset, None, -1
            order = shard.transactional.next()
            if producer_id >= 0:
                shard.transactional.wrote(producer_id, line.group, place, order, committed)
            else:
                shard.set(line.group, place, committed)
                shard.transactional.set(line.group, place, order)
        return strange

    def load_end(self, partition: int, epoch: int, producer_id: int, commit: bool) -> None:
        """Replay a marker: the producer's transaction ends here. Ignored as `load` is."""
        shard = self.shard_loading(partition, epoch)
        if shard is not None:
            self._end(shard, producer_id, commit)

    def loaded(self, partition: int, epoch: int, now: Now, exists: Callable[[str], bool] = lambda topic: True) -> None:
        """The whole log has been replayed. The shard serves, and its members' sessions begin now.

        `exists`: whether a topic of that name exists. Offsets of other topics were left by a coordinator that ended
        before it could remove them."""
        shard = self.shard_loading(partition, epoch)
        if shard is None:
            return
        shard.loaded = True
        self._one_protocol_each(shard)
        for id in shard.offsets:
            shard.simple(id)
        for id in shard.foreign:
            shard.groups.pop(id, None)
            shard.consumers.pop(id, None)
        self.consumers.loaded(shard, now)
        for group in shard.groups.values():
            for member in group.members.values():
                rebalance.touch(member, now.mono_ms)
            self._schedule(group)
        self._forget_missing(shard, lambda topic: topic not in shard.forgotten and exists(topic))

    # ---- membership

    def join(self, group_id: str, ticket: int, request: JoinRequest, now: Now) -> None:
        """JoinGroup. The verdict appears in `answers`, now or later."""
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
        elif request.member_id and group_id not in shard.groups:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error is not None:
            self.answers.append((ticket, Joined(error, request.member_id)))
            return
        assert isinstance(shard, Shard)
        if group_id in shard.consumers:
            self._join_consumers(shard, shard.consumers[group_id], ticket, request, now)
            return
        group = shard.groups.get(group_id) or Group(group_id)
        held: rebalance.Held = []
        write = rebalance.join(group, ticket, request, now.mono_ms, self.settings.policy, self.answers, held)
        if group.members or group.pending:
            shard.groups[group_id] = group
        self._after(shard, group, write, now, held)

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
        """SyncGroup. The verdict appears in `answers`, for all members once the leader's assignment is written."""
        shard = self.shard_of(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        group = None if isinstance(shard, ErrorCode) else shard.groups.get(group_id)
        if isinstance(shard, ErrorCode) or group is None:
            code = shard if isinstance(shard, ErrorCode) else ErrorCode.UNKNOWN_MEMBER_ID
            if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                # Clients do not expect that error here, and Java's client ends with it. The join is lost in any case.
                code = ErrorCode.REBALANCE_IN_PROGRESS
            self.answers.append((ticket, Synced(code)))
            return
        write = rebalance.sync(
            group,
            ticket,
            member_id,
            instance_id,
            generation,
            protocol_type,
            protocol,
            assignments,
            now.mono_ms,
            self.answers,
        )
        if write:
            self._write_group(shard, group, self._stabilise(group))
        self._schedule(group)

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int, now: Now) -> ErrorCode:
        """Heartbeat."""
        shard = self.shard_of(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if isinstance(shard, ErrorCode):
            # Kafka's clients go on and ask again after this: a load must not end their membership.
            return ErrorCode.NONE if shard is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else shard
        group = shard.groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return rebalance.heartbeat(group, member_id, instance_id, generation, now.mono_ms)

    def leave(self, group_id: str, members: Sequence[tuple[str, str | None]], now: Now) -> ErrorCode | list[ErrorCode]:
        """LeaveGroup: one code for each member, or one for all."""
        shard = self.shard_of(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if isinstance(shard, ErrorCode):
            return shard
        if group_id in shard.consumers:
            return self.consumers.remove_members(shard, shard.consumers[group_id], members, now)
        group = shard.groups.get(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(members)
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        codes = []
        for member_id, instance_id in members:
            code, write = rebalance.leave(
                group, member_id, instance_id, now.mono_ms, self.settings.policy, self.answers
            )
            codes.append(code)
            self._after(shard, group, write, now)
        return codes

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
        """Whether (member, generation) may commit for the group. `transactional`: a producer does, for a member that it may
        name (KIP-447); one that names none is believed."""
        shard = self.shard_of(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        if group_id in shard.foreign:
            return ErrorCode.UNSUPPORTED_VERSION
        if group_id in shard.consumers:
            code = self.consumers.commit_error(
                shard.consumers[group_id], member_id, instance_id, generation, transactional=transactional
            )
            stale = transactional and code is ErrorCode.STALE_MEMBER_EPOCH
            return ErrorCode.ILLEGAL_GENERATION if stale else code
        group = shard.groups.get(group_id)
        if group is None:
            return ErrorCode.NONE if generation < 0 else ErrorCode.ILLEGAL_GENERATION
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
            rebalance.touch(member, now.mono_ms)
        return ErrorCode.NONE

    def commit(
        self, group_id: str, offsets: Sequence[tuple[str, int, CommittedOffset]], then: Callable[[ErrorCode], None]
    ) -> None:
        """Write offsets. Once they are committed, they are visible and `then` is called."""
        shard = self.shard_of(group_id)
        if isinstance(shard, ErrorCode):
            then(shard)
            return
        self._write_offsets(
            shard, group_id, [((topic, number), committed) for topic, number, committed in offsets], then
        )

    def commit_transactional(
        self,
        group_id: str,
        producer: tuple[int, int],
        offsets: Sequence[tuple[str, int, CommittedOffset]],
        then: Callable[[ErrorCode], None],
    ) -> None:
        """Write offsets in the transaction of a producer (id, epoch). `then` is called once they are committed to the log;
        they are visible when the transaction is committed, see `transaction_ended`."""
        shard = self.shard_of(group_id)
        if isinstance(shard, ErrorCode):
            then(shard)
            return
        pending = shard.transactional
        written = [((topic, number), pending.next(), committed) for topic, number, committed in offsets]

        def ended(error: ErrorCode, now: Now) -> None:
            if error is not ErrorCode.NONE:
                for key, order, _ in written:
                    pending.failed(producer[0], group_id, key, order)
            then(error)

        for key, order, committed in written:
            pending.wrote(producer[0], group_id, key, order, committed)
        self._write(
            shard,
            group_id,
            [offset_record(group_id, *key, committed) for key, _, committed in written],
            ended,
            producer,
        )

    def transaction_ended(self, partition: int, producer_id: int, commit: bool) -> None:
        """A marker is committed to a partition: what the producer has committed there in its transaction is visible, or
        forgotten. Ignored where the partition is not led, or is being loaded: the log says it too."""
        shard = self.shards.get(partition)
        if shard is not None and shard.loaded:
            self._end(shard, producer_id, commit)

    def unstable(self, group_id: str) -> Collection[tuple[str, int]]:
        """Partitions for which the group has offsets in open transactions (KIP-447)."""
        shard = self.shard_of(group_id)
        return () if isinstance(shard, ErrorCode) else shard.transactional.unstable(group_id)

    def fetch(self, group_id: str) -> dict[tuple[str, int], CommittedOffset] | ErrorCode:
        """Committed offsets of a group (empty if there is none); UNSUPPORTED_VERSION where one of them cannot be read: who
        is told of no offset begins somewhere else."""
        shard = self.shard_of(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        return ErrorCode.UNSUPPORTED_VERSION if group_id in shard.unreadable else shard.offsets.get(group_id, {})

    def delete_offsets(
        self, group_id: str, partitions: Sequence[tuple[str, int]], then: Callable[[ErrorCode], None]
    ) -> None:
        """Remove committed offsets."""
        shard = self.shard_of(group_id)
        if isinstance(shard, ErrorCode) or group_id in shard.foreign:
            then(shard if isinstance(shard, ErrorCode) else ErrorCode.UNSUPPORTED_VERSION)
        else:
            self._remove_offsets(shard, group_id, partitions, then)

    # ---- admin

    def group(self, group_id: str) -> Group | ErrorCode | None:
        """The group, None if there is none, or why this broker cannot tell."""
        shard = self.shard_of(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        return ErrorCode.UNSUPPORTED_VERSION if group_id in shard.foreign else shard.groups.get(group_id)

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """The group of KIP-848, None if there is none of that name here."""
        shard = self.shard_of(group_id)
        return None if isinstance(shard, ErrorCode) else shard.consumers.get(group_id)

    def groups(self) -> list[Group]:
        """Every classic group of every loaded shard, by id."""
        found = [group for shard in self.shards.values() if shard.loaded for group in shard.groups.values()]
        return sorted(found, key=lambda group: group.id)

    def consumer_groups(self) -> list[ConsumerGroup]:
        """Every group of KIP-848 of every loaded shard, by id."""
        found = [group for shard in self.shards.values() if shard.loaded for group in shard.consumers.values()]
        return sorted(found, key=lambda group: group.id)

    def delete(self, group_id: str, then: Callable[[ErrorCode], None]) -> None:
        """Remove an empty group and its offsets. Meanwhile it is dead. For what was never written, nothing is
        written."""
        shard = self.shard_of(group_id)
        if isinstance(shard, ErrorCode):
            then(shard)
            return
        group = shard.groups.get(group_id)
        if group_id in shard.foreign:
            then(ErrorCode.UNSUPPORTED_VERSION)
            return
        if group_id in shard.consumers:
            self._delete_consumers(shard, shard.consumers[group_id], then, with_offsets=True)
            return
        if group is None:
            then(ErrorCode.GROUP_ID_NOT_FOUND)
            return
        if group.state is GroupState.DEAD:
            then(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        if group.state is not GroupState.EMPTY:
            then(ErrorCode.NON_EMPTY_GROUP)
            return

        def gone(error: ErrorCode, now: Now) -> None:
            if error is ErrorCode.NONE:
                shard.drop(group_id)
            else:
                group.state = GroupState.EMPTY
            then(error)

        group.state = GroupState.DEAD
        records = [offset_record(group_id, topic, partition, None) for topic, partition in shard.keys(group_id)]
        if group.recorded:
            records.append((group_key(group_id), None))
        if records:
            self._write(shard, group_id, records, gone)
        else:
            shard.drop(group_id)
            then(ErrorCode.NONE)

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted: remove offsets committed for it, and those that are being written."""
        for shard in self.shards.values():
            if shard.loaded:
                self._forget(shard, topic)
            else:
                shard.forgotten.add(topic)

    # ---- time and writes

    def tick(self, now: Now) -> None:
        """End sessions, phases, and ids never used. What this schedules for now runs in the next tick, so that a tick
        ends."""
        self.consumers.tick(now)
        due_now = []
        while self.deadlines and self.deadlines[0][0] <= now.mono_ms:
            due_now.append(heapq.heappop(self.deadlines))
        for due_ms, group_id in due_now:
            if self._scheduled.get(group_id) != due_ms:
                continue
            del self._scheduled[group_id]
            shard = self.shard_of(group_id)
            group = None if isinstance(shard, ErrorCode) else shard.groups.get(group_id)
            if group is None or isinstance(shard, ErrorCode):
                continue
            due = rebalance.next_deadline_ms(group)
            if due is not None and due <= now.mono_ms:
                write = rebalance.expire(group, now.mono_ms, self.settings.policy, self.answers)
                self._after(shard, group, write, now)
            else:
                self._schedule(group)

    def deadline_ms(self) -> int:
        """When `tick` has something to do."""
        classic_ms = self.deadlines[0][0] if self.deadlines else FAR_MS
        return min(classic_ms, self.consumers.deadline_ms())

    def expire_offsets(self, now: Now, exists: Callable[[str], bool] = lambda topic: True) -> None:
        """Remove offsets of groups that have been empty for longer than the retention (offsets.retention.minutes), and
        empty groups without other offsets. A group that is being written, or has given out an id, is left for the next
        time. A stable group loses offsets that are older than that, for topics to which no member subscribes.

        Offsets for topics that do not exist are removed as well: their removal has failed, or this broker has learned
        of the deletion from a snapshot, which does not show it."""
        loaded = [shard for shard in self.shards.values() if shard.loaded]
        for shard in loaded:
            self._forget_missing(shard, exists)
        busy = self._on_their_way()
        for shard in loaded:
            for consumers in list(shard.consumers.values()):
                if (shard.partition, consumers.id) not in busy:
                    self._expire_consumers(shard, consumers, now)
            for group in list(shard.groups.values()):
                if group.state is GroupState.STABLE:
                    self._expire_unsubscribed(shard, group, now)
                if group.state is not GroupState.EMPTY or group.pending or (shard.partition, group.id) in busy:
                    continue
                if shard.transactional.unstable(group.id):
                    continue
                offsets = shard.offsets.get(group.id, {})
                old = [
                    key
                    for key, committed in offsets.items()
                    if max(committed.wall_ms, group.state_wall_ms) + self.settings.retention_ms <= now.wall_ms
                ]
                if len(old) == len(offsets):
                    self.delete(group.id, lambda error: None)
                elif old:
                    self.delete_offsets(group.id, old, lambda error: None)

    # ---- groups of KIP-848

    def _one_protocol_each(self, shard: Shard) -> None:
        """A group is of one protocol. Where the log has records of both, what has members counts, the other is removed."""
        for id in [id for id in shard.consumers if id in shard.groups]:
            group = shard.consumers[id]
            if group.members or not shard.groups[id].members:
                del shard.groups[id]
                self._write(shard, id, [(group_key(id), None)], lambda error, now: None)
            else:
                del shard.consumers[id]
                group.gone = True
                records = [consumer_records.record(group, key) for key in consumer_records.keys(group)]
                self._write(shard, id, records, lambda error, now: None)

    def _join_consumers(self, shard: Shard, group: ConsumerGroup, ticket: int, request: JoinRequest, now: Now) -> None:
        """A classic member comes to a group of KIP-848: an empty one becomes a classic group first."""
        if group.members or group.gone:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE if group.gone else ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            self.answers.append((ticket, Joined(error, request.member_id)))
            return

        def then(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self.join(group.id, ticket, request, now)
            else:
                self.answers.append((ticket, Joined(error, request.member_id)))

        self._delete_consumers(shard, group, then, with_offsets=False)

    def _delete_consumers(
        self, shard: Shard, group: ConsumerGroup, then: Callable[[ErrorCode], None], *, with_offsets: bool
    ) -> None:
        """Remove an empty group of KIP-848; its offsets stay where another protocol takes its place."""
        if group.gone or group.members:
            then(ErrorCode.COORDINATOR_NOT_AVAILABLE if group.gone else ErrorCode.NON_EMPTY_GROUP)
            return
        records = [offset_record(group.id, *key, None) for key in shard.keys(group.id)] if with_offsets else []
        records += self.consumers.removal(group)

        def gone(error: ErrorCode, now: Now) -> None:
            if error is not ErrorCode.NONE:
                self.consumers.revive(group)
            elif with_offsets:
                shard.drop(group.id)
            else:
                shard.consumers.pop(group.id, None)
                if group.id in shard.offsets:
                    shard.simple(group.id)
            then(error)

        self._write(shard, group.id, records, gone)

    def _expire_consumers(self, shard: Shard, group: ConsumerGroup, now: Now) -> None:
        """Offsets go that are older than the retention, of topics to which no member subscribes; with the last one an empty
        group goes too."""
        if group.gone or shard.transactional.unstable(group.id):
            return
        oldest_ms, unsettled = now.wall_ms - self.settings.retention_ms, shard.unsettled.get(group.id, {})
        offsets = shard.offsets.get(group.id, {})
        old = [
            key
            for key, committed in offsets.items()
            if committed.wall_ms <= oldest_ms and key not in unsettled and not group.subscribes(key[0])
        ]
        if len(old) == len(offsets) and not group.members and not unsettled:
            self.delete(group.id, lambda error: None)
        elif old:
            self._remove_offsets(shard, group.id, old, lambda error: None)

    # ---- inside

    def _expire_unsubscribed(self, shard: Shard, group: Group, now: Now) -> None:
        """An offset that is being written is newer than the visible one: such a key stays."""
        oldest_ms, unsettled = now.wall_ms - self.settings.retention_ms, shard.unsettled.get(group.id, {})
        old = [
            key
            for key, committed in shard.offsets.get(group.id, {}).items()
            if committed.wall_ms <= oldest_ms and key not in unsettled
        ]
        topics = subscribed(group) if old else None
        if topics is not None:
            gone = [key for key in old if key[0] not in topics]
            if gone:
                self._remove_offsets(shard, group.id, gone, lambda error: None)

    def _forget_missing(self, shard: Shard, exists: Callable[[str], bool]) -> None:
        topics = dict.fromkeys(topic for offsets in shard.offsets.values() for topic, _ in offsets)
        for topic in topics:
            if not exists(topic):
                self._forget(shard, topic)

    def _end(self, shard: Shard, producer_id: int, commit: bool) -> None:
        for group_id, key, order, committed in shard.transactional.ended(producer_id, commit):
            shard.set(group_id, key, committed)
            shard.transactional.set(group_id, key, order)
            if shard.loaded:
                shard.simple(group_id)

    def _forget(self, shard: Shard, topic: str) -> None:
        shard.transactional.forget_topic(topic)
        for group_id in shard.with_offsets():
            keys = [key for key in shard.keys(group_id) if key[0] == topic]
            if keys:
                self._remove_offsets(shard, group_id, keys, lambda error: None)

    def _remove_offsets(
        self, shard: Shard, group_id: str, keys: Sequence[Key], then: Callable[[ErrorCode], None]
    ) -> None:
        self._write_offsets(shard, group_id, [(key, None) for key in keys], then)

    def _write_offsets(
        self,
        shard: Shard,
        group_id: str,
        offsets: Sequence[tuple[Key, CommittedOffset | None]],
        then: Callable[[ErrorCode], None],
    ) -> None:
        order = shard.transactional.next()

        def ended(error: ErrorCode, now: Now) -> None:
            for key, committed in offsets:
                if error is ErrorCode.NONE:
                    shard.set(group_id, key, committed)
                    shard.transactional.set(group_id, key, order)
                    if committed is not None:
                        shard.simple(group_id)
                shard.settled(group_id, key, token, error)
            then(error)

        records = [offset_record(group_id, *key, committed) for key, committed in offsets]
        token = self._write(shard, group_id, records, ended)
        for key, _ in offsets:
            shard.wrote(group_id, key, token)

    def _write_group(self, shard: Shard, group: Group, then: Then) -> None:
        group.recorded = True
        self._write(shard, group.id, [group_record(group)], then)

    def _after(self, shard: Shard, group: Group, write: bool, now: Now, held: rebalance.Held | None = None) -> None:
        if write:
            group.state_wall_ms = now.wall_ms
            self._write_group(
                shard,
                group,
                lambda error, now: rebalance.written(group, held or [], error, self.answers),
            )
        self._schedule(group)

    def _stabilise(self, group: Group) -> Then:
        generation = group.generation

        def then(error: ErrorCode, now: Now) -> None:
            if group.generation == generation and group.state is GroupState.COMPLETING:
                rebalance.stabilise(group, error, now.mono_ms, now.wall_ms, self.settings.policy, self.answers)
                self._schedule(group)

        return then

    def _dismiss(self, group: Group, error: ErrorCode) -> None:
        for member in group.members.values():
            if member.join_ticket:
                self.answers.append((member.join_ticket, Joined(error, member.id)))
            if member.sync_ticket:
                self.answers.append((member.sync_ticket, Synced(error)))
            member.join_ticket = member.sync_ticket = 0

    def _schedule(self, group: Group) -> None:
        due = rebalance.next_deadline_ms(group)
        if due is not None and self._scheduled.get(group.id, FAR_MS) > due:
            self._scheduled[group.id] = due
            heapq.heappush(self.deadlines, (due, group.id))
