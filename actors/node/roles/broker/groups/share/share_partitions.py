"""The share partitions of this broker: those of the partitions that it leads, while members fetch from them (KIP-932).

What happens in one of them is decided in `broker/groups/share/delivery/`. This file alone decides how long one is kept,
and carries out what it wants stored. Rules:

1. A share partition is loaded when a member of its group fetches from it first, and kept while a session names it, or a
   member has acquired something of it.
2. Its first offset, where nothing is stored, is that of `share.auto.offset.reset`.
3. What it wants stored leaves at the end of the turn, for as long as this broker leads the partition. When that is over, or
   the share coordinator knows a later leader, whoever waits in it hears so.
4. The end of a session gives back what its member has acquired. So does the end of the session's connection.
5. A request that waits for something in a share partition is told by `SharePartitions.Held.key`.
6. What goes wrong in the same way in several share partitions of a group in a turn is one line of the log. That a client
   names a group or a partition that has not begun is its own affair, and none.
"""

import heapq
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from actors.broker.groups.share.delivery.in_flight import StateBatch
from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.broker.groups.share.delivery.share_partition import SharePartition, told
from actors.broker.groups.share.delivery.share_sessions import (
    ENTRIES_MAX,
    ENTRY_BYTES,
    Named,
    SessionOwner,
    ShareSession,
    ShareSessions,
)
from actors.broker.log.offsets_by_time import TimeSearch
from actors.broker.log.slices import Sliced
from actors.broker.replication.partition import Partition
from actors.broker.replication.replicas import Replicas
from actors.node.net.request_channel import RequestChannel
from actors.node.roles.broker.groups.share.share_persister import SharePersister
from actors.node.roles.broker.groups.share.share_settings import SettingsOf, ShareSettings
from actors.node.runtime.runtime import Runtime
from actors.ports import Now, WorkKind
from actors.wire.errors import ErrorCode

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ReadShareGroupStateResponse, WriteShareGroupStateResponse

FAR_MS = 1 << 62
EARLIEST = "earliest"
CODES = {int(code): code for code in ErrorCode}


class LedSharePartition:
    """One share partition here, and the partition that it belongs to.

    `key`: waiting key, signalled when something may be acquired or was stored, and when it is over. `reading`: a member's
    fetch reads from the disk for it; other fetches wait meanwhile, since they would read the same."""

    __slots__ = ("gathered", "key", "partition", "reading", "record_bytes", "share", "watched_ms")

    def __init__(self, share: SharePartition, partition: Partition) -> None:
        self.share = share
        self.partition = partition
        self.key = ("share", share.key)
        self.reading = False
        self.record_bytes = 0.0
        """The mean size of the records that were read last; 0: nothing was read yet."""
        self.gathered = False
        self.watched_ms = FAR_MS
        """The earliest time at which its locks are looked at."""


class SharePartitions:
    """All share partitions of this broker, and the sessions of their members."""

    def __init__(
        self,
        runtime: Runtime,
        requests: RequestChannel,
        replicas: Replicas,
        persister: SharePersister,
        settings_of: SettingsOf,
    ) -> None:
        self._runtime = runtime
        self._requests = requests
        self._replicas = replicas
        self._persister = persister
        self.settings = ShareSettings(settings_of)
        self.sessions = ShareSessions(
            runtime.config.value("group.share.max.share.sessions"),
            runtime.ledger.account("ShareSessions", ENTRIES_MAX * ENTRY_BYTES),
        )
        self._held: dict[SharePartitionKey, LedSharePartition] = {}
        self._connections: dict[int, set[SessionOwner]] = {}
        self._locks: list[tuple[int, int, LedSharePartition]] = []
        """The times when locks may end; the number keeps the order of arrival."""
        self._sequence = 0
        self._gathered: list[LedSharePartition] = []
        """The share partitions that have something to be stored."""
        self._reports: dict[tuple[str, str, int], list[str]] = {}
        """The first sentence of the turn, and the partitions that it is about, by (group, what fails, error code)."""

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[LedSharePartition]:
        return iter(self._held.values())

    # ---- sessions

    def begin(self, owner: SessionOwner, connection: int, principal: str) -> ShareSession:
        """Begin a new session in the place of an old one; what its member had acquired it keeps. Raises RequestRefused."""
        old = self.sessions.by_owner.get(owner)
        if old is not None and self._end(old):
            for held in self._of(old):
                self.gather(held)
        session = self.sessions.begin(owner, connection, principal)
        if connection not in self._connections:
            self._connections[connection] = set()
            self._requests.when_closed(connection, "share", lambda: self._hung_up(connection))
        self._connections[connection].add(owner)
        return session

    def forget(self, session: ShareSession, named: Iterable[Named]) -> None:
        """Note that a member does not fetch some partitions any more. What it has of them it may still acknowledge."""
        for topic_id, number in self.sessions.forget(session, named):
            self._drop_idle(SharePartitionKey(session.owner.group, topic_id, number))

    def end(self, session: ShareSession) -> None:
        """End a member's session; other members get what it has."""
        if self._end(session):
            limits = self.settings.limits(session.owner.group)
            for held in self._of(session):
                held.share.give_back(session.owner.member, limits)
                self.gather(held)

    def _of(self, session: ShareSession) -> Iterator[LedSharePartition]:
        for topic_id, number in session.partitions:
            held = self._held.get(SharePartitionKey(session.owner.group, topic_id, number))
            if held is not None:
                yield held

    def _end(self, session: ShareSession) -> bool:
        if not self.sessions.end(session):
            return False
        owners = self._connections.get(session.connection)
        if owners is not None:
            owners.discard(session.owner)
        return True

    def _hung_up(self, connection: int) -> None:
        for owner in sorted(self._connections.pop(connection, ())):
            session = self.sessions.by_owner.get(owner)
            if session is not None and session.connection == connection:
                self.end(session)

    # ---- share partitions

    def find(self, key: SharePartitionKey) -> LedSharePartition | None:
        """A share partition that is here; None: it is not."""
        return self._held.get(key)

    def open(self, group: str, partition: Partition) -> LedSharePartition:
        """The share partition of a group and a partition that this broker leads, which is begun if it is not here. It
        may not be loaded yet; `share.fenced` says why it could not be."""
        key = SharePartitionKey(group, partition.topic_id, partition.number)
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = LedSharePartition(SharePartition(key, partition.leader_epoch), partition)
            self._load(held)
        return held

    def gather(self, held: LedSharePartition) -> None:
        """Note that something may have to be stored of a share partition, and that its locks may end at another
        time."""
        if not held.gathered:
            held.gathered = True
            self._gathered.append(held)
        due_ms = held.share.lock_due_ms
        if due_ms < held.watched_ms:
            held.watched_ms = due_ms
            self._sequence += 1
            heapq.heappush(self._locks, (due_ms, self._sequence, held))

    def release_reading(self, held: LedSharePartition) -> None:
        """Note that a fetch has read what it wanted of a share partition."""
        held.reading = False
        self._runtime.waiting.signal(held.key)

    # ---- leaderships

    def became_leader(self, topic: str, number: int, epoch: int) -> None:
        """Do nothing: share partitions are loaded when a member fetches from them."""

    def resigned(self, topic: str, number: int) -> None:
        """Fence the share partitions of a partition that this broker leads no more."""
        for held in list(self._held.values()):
            partition = held.partition
            if partition.number == number and partition.topic == topic and not partition.leads:
                self._fence(held, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # ---- time

    def tick(self, now: Now) -> None:
        """End the locks whose time is over."""
        while self._locks and self._locks[0][0] <= now.mono_ms:
            due_ms, _, held = heapq.heappop(self._locks)
            if due_ms != held.watched_ms:
                continue
            held.watched_ms = FAR_MS
            if held.share.expire(now.mono_ms, self.settings.limits(held.share.key.group)):
                self._runtime.waiting.signal(held.key)
            if held.share.fenced is None:
                self.gather(held)

    def deadline_ms(self) -> int:
        """The monotonic time at which `tick` is due."""
        return self._locks[0][0] if self._locks else FAR_MS

    @property
    def gathers(self) -> bool:
        """Whether `end_turn` has something to do."""
        return bool(self._gathered or self._reports)

    def end_turn(self) -> None:
        """Store what has come up in the turn."""
        gathered, self._gathered = self._gathered, []
        for held in gathered:
            held.gathered = False
            self._write(held)
        if self._reports:
            reports, self._reports = self._reports, {}
            for (group, what, _), (why, first, *more) in reports.items():
                others = f" and {len(more)} other partitions" if more else ""
                self._runtime.log.warning(f"share group {group!r}, {first}{others}: {what}: {why}")

    # ---- inside

    def _write(self, held: LedSharePartition) -> None:
        write = held.share.next_write()
        if write is None:
            self._drop_idle(held.share.key)
            return

        def written(result: "WriteShareGroupStateResponse.PartitionResult") -> None:
            code = CODES.get(result.error_code, ErrorCode.UNKNOWN_SERVER_ERROR)
            if code:
                self._report(held, "its state is not stored", code, result.error_message or code.text)
            held.share.written(code, self._runtime.now.mono_ms)
            if held.share.fenced is not None:
                self._fence(held, held.share.fenced)
                return
            self._runtime.waiting.signal(held.key)
            self.gather(held)

        self._persister.write(
            held.share.key,
            write.state_epoch,
            write.leader_epoch,
            write.start_offset,
            write.complete_count,
            write.batches,
            written,
        )

    def _load(self, held: LedSharePartition) -> None:
        def read(result: "ReadShareGroupStateResponse.PartitionResult") -> None:
            if held.share.fenced is not None:
                return
            code = CODES.get(result.error_code, ErrorCode.UNKNOWN_SERVER_ERROR)
            if code:
                if code is not ErrorCode.INVALID_REQUEST:
                    self._report(held, "its state cannot be read", code, result.error_message or code.text)
                self._fence(held, told(code))
            elif result.start_offset >= 0:
                self._loaded(held, result.start_offset, result)
            else:
                self._reset(held, result)

        self._persister.read(held.share.key, held.share.leader_epoch, read)

    def _reset(self, held: LedSharePartition, result: "ReadShareGroupStateResponse.PartitionResult") -> None:
        """Begin a share partition of which nothing was stored where the group's settings say."""
        partition, reset = held.partition, self.settings.begins(held.share.key.group)
        if reset.name == EARLIEST:
            self._loaded(held, partition.log.log_start_offset, result)
        elif partition.high_watermark < partition.led_from:
            # As in KIP-207: the leader does not know yet how far it went.
            deadline_ms = self._runtime.now.mono_ms + 1_000
            self._runtime.waiting.park(
                [partition.committed], deadline_ms, lambda expired: self._reset_later(held, result)
            )
        elif reset.ago_ms is not None:
            since_ms = self._runtime.now.wall_ms - reset.ago_ms
            search = partition.log.offset_for_time(max(0, since_ms), partition.high_watermark)
            assert isinstance(search, TimeSearch)
            self._runtime.work(Sliced(search.steps()), lambda found: self._found(held, result, found), WorkKind.RECORDS)
        else:
            self._loaded(held, partition.high_watermark, result)

    def _reset_later(self, held: LedSharePartition, result: Any) -> None:
        if held.share.fenced is None:
            self._reset(held, result)

    def _found(self, held: LedSharePartition, result: Any, found: Any) -> None:
        if held.share.fenced is not None:
            return
        if isinstance(found, Exception):
            self._report(held, "its first offset cannot be looked up", ErrorCode.KAFKA_STORAGE_ERROR, str(found))
            self._fence(held, ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            partition = held.partition
            offset = partition.high_watermark if found is None or found.offset < 0 else found.offset
            self._loaded(held, offset, result)

    def _loaded(
        self, held: LedSharePartition, start_offset: int, result: "ReadShareGroupStateResponse.PartitionResult"
    ) -> None:
        batches = [
            StateBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
            for one in result.state_batches
        ]
        try:
            held.share.load(start_offset, result.state_epoch, batches)
        except ValueError as error:
            self._report(held, "its state makes no sense", ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
            self._fence(held, ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        self._runtime.waiting.signal(held.key)

    def _fence(self, held: LedSharePartition, code: ErrorCode) -> None:
        held.share.fence(code)
        if self._held.get(held.share.key) is held:
            del self._held[held.share.key]
        self._runtime.waiting.signal(held.key)

    def _drop_idle(self, key: SharePartitionKey) -> None:
        """Drop a share partition from which no member fetches (rule 1)."""
        held = self._held.get(key)
        if held is None or key in self.sessions.uses or held.reading or not held.share.idle or held.share.acquired:
            return
        self._fence(held, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _report(self, held: LedSharePartition, what: str, code: ErrorCode, why: str) -> None:
        """Note what an operator is to be told at the end of the turn (rule 6)."""
        self._reports.setdefault((held.share.key.group, what, code), [why]).append(repr(held.partition))
