"""The share coordinator: what share groups remember of the share partitions whose partition of `__share_group_state`
this broker leads (KIP-932).

This file alone decides who is fenced, and what is written for a request. Partitions, their loading and their loss are those
of every coordinator (`broker/coordinators/coordination.py`). Rules:

1. A request is decided by what was written before it, and answered when all that is committed. So a read that follows a
   write sees it, and nobody is told of what may yet be lost.
2. A leader that claims a leader epoch or a state epoch below the highest one that was seen is fenced.
3. A read in a higher leader epoch is remembered before it is answered: from then on the leader before it is fenced.
4. A write is an update. After `share.coordinator.snapshot.update.records.per.snapshot` of them it is a snapshot.
5. A write that fails may still count, since the log may have it. The next record of that share partition is a snapshot,
   or its removal; a read has one written before it is answered.
6. Share partitions of topics that are deleted are removed.
7. While others are written, a share partition that is not gets a new snapshot from time to time, so that the log before it
   can go (`share_shard.py`).

Inputs come with the time. Outputs are taken from `writes`; the caller is told through `then`.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from actors.broker.coordinators.coordination import Coordination
from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.broker.groups.share.persistence.share_shard import ShareStateEntry, ShareStateShard
from actors.broker.groups.share.persistence.share_state import (
    DELIVERY_STATES,
    NO_COUNT,
    NO_EPOCH,
    NO_OFFSET,
    Batch,
    ShareState,
    Update,
    combine,
    initial,
    snapshot,
)
from actors.broker.groups.share.persistence.share_state_records import StateLine, read, record
from actors.ports import Now
from actors.wire.errors import ErrorCode, text

UNINITIALIZED = ShareState(0, 0, 0, NO_OFFSET, NO_COUNT, 0, 0, ())
"""The state of a share partition of which nothing is remembered."""
COLD_A_TICK = 500
"""The number of share partitions that are looked at in one turn, for whether they need a new snapshot."""
FAR_MS = 1 << 62


class ShareStateSettings(NamedTuple):
    """The broker's settings of share coordinators, `share.coordinator.*`. `partitions`: how many `__share_group_state`
    will have; see `resized`."""

    partitions: int
    updates_per_snapshot: int
    cold_interval_ms: int

    @classmethod
    def of(cls, value: Callable[[str], Any]) -> "ShareStateSettings":
        """The settings, taken out of the broker's settings by name."""
        return cls(
            partitions=value("share.coordinator.state.topic.num.partitions"),
            updates_per_snapshot=value("share.coordinator.snapshot.update.records.per.snapshot"),
            cold_interval_ms=value("share.coordinator.cold.partition.snapshot.interval.ms"),
        )


class ShareStateVerdict(NamedTuple):
    """The result of a request for one share partition. `state`: what a read is answered."""

    error: ErrorCode
    message: str | None = None
    state: ShareState = UNINITIALIZED


Told = Callable[[ShareStateVerdict], None]


class StateRefused(Exception):
    """The request is refused: error code, and a sentence."""

    def __init__(self, code: ErrorCode, sentence: str | None = None) -> None:
        super().__init__(sentence)
        self.verdict = ShareStateVerdict(code, sentence or text(code))


class ShareStateCoordinator(Coordination[ShareStateShard]):
    """The share coordinator of one broker: all partitions of `__share_group_state` that it leads."""

    def __init__(self, settings: ShareStateSettings, exists: Callable[[bytes, int], bool]) -> None:
        """A coordinator without shards. `exists`: whether a topic with that id has that partition."""
        super().__init__(settings.partitions, ShareStateShard)
        self.settings = settings
        self.answers: list[tuple[int, Any]] = []
        """An empty list always: answers come through `then`."""
        self._exists = exists
        self._offsets: dict[int, int] = {}
        """Token of a snapshot or a removal on its way -> where the log has it, or behind."""
        self._cold_ms = -1
        self._suspects: deque[tuple[ShareStateShard, SharePartitionKey]] = deque()
        """The share partitions that are still to be looked at for a new snapshot."""

    # ---- loading

    def loading_from(self, partition: int, epoch: int, offset: int) -> None:
        """What `load` brings next stands at this offset of the log, or behind it."""
        shard = self.shard_loading(partition, epoch)
        if shard is not None:
            shard.position = offset

    def _read(self, key: bytes | None, value: bytes | None) -> StateLine | None:
        return read(key, value)

    def _take(self, shard: ShareStateShard, key: bytes, line: StateLine, producer_id: int) -> str:
        shard.take(line)
        return line.strange

    def loaded(self, partition: int, epoch: int, topic_exists: Callable[[bytes], bool]) -> None:
        """The whole log has been replayed: the shard serves. What is remembered of topics that do not exist any more
        was left by a coordinator that ended before it could remove it."""
        shard = self._serve(partition, epoch)
        if shard is None:
            return
        self._remove_topics(shard, lambda topic_id: not topic_exists(topic_id))

    # ---- requests

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int, then: Told, now: Now) -> None:
        """InitializeShareGroupState: begin, or begin again, at an offset."""
        try:
            shard, entry = self._entry(key)
            if start_offset < NO_OFFSET:
                raise StateRefused(ErrorCode.INVALID_REQUEST, f"The start offset {start_offset} is negative.")
            if entry is not None:
                _fence_state_epoch(entry, state_epoch)
            self._check_exists(key)
        except StateRefused as refused:
            then(refused.verdict)
            return
        if entry is None:
            entry = shard.entries[key] = ShareStateEntry(key)
        self._commit(shard, entry, initial(entry.state, state_epoch, start_offset, now), then)

    def read(self, key: SharePartitionKey, leader_epoch: int, then: Told, now: Now) -> None:
        """ReadShareGroupState: all that is remembered, for the leader of the partition in that leader epoch."""
        try:
            shard, entry, state = self._known(key, "Read operation on uninitialized share partition not allowed.")
            _fence_leader_epoch(entry, leader_epoch)
            self._check_exists(key)
        except StateRefused as refused:
            then(refused.verdict)
            return

        def told(verdict: ShareStateVerdict) -> None:
            then(verdict._replace(state=state) if verdict.error is ErrorCode.NONE else verdict)

        if leader_epoch not in (NO_EPOCH, entry.leader_epoch):
            update = Update(state.snapshot_epoch, leader_epoch, state.start_offset, state.complete_count, ())
            self._commit(shard, entry, self._change(entry, state, update, now), told)
        else:
            self._settle(shard, entry, state, told)

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        complete_count: int,
        batches: Sequence[Batch],
        then: Told,
        now: Now,
    ) -> None:
        """WriteShareGroupState: acknowledgements, and what has become of records."""
        try:
            shard, entry, state = self._known(key, "Write operation on uninitialized share partition not allowed.")
            _fence_leader_epoch(entry, leader_epoch)
            _fence_state_epoch(entry, state_epoch)
            self._check_exists(key)
            _check_batches(start_offset, batches)
        except StateRefused as refused:
            then(refused.verdict)
            return
        update = Update(
            state.snapshot_epoch, state.leader_epoch, start_offset, complete_count, combine((), batches, start_offset)
        )
        self._commit(shard, entry, self._change(entry, state, update, now), then)

    def delete(self, key: SharePartitionKey, then: Told) -> None:
        """DeleteShareGroupState: remember nothing any more. Of what nothing is remembered, nothing is written."""
        try:
            shard, entry = self._entry(key)
            self._check_exists(key)
        except StateRefused as refused:
            then(refused.verdict)
            return
        if entry is None:
            then(ShareStateVerdict(ErrorCode.NONE))
        elif entry.state is None and not entry.behind:
            self._settle(shard, entry, UNINITIALIZED, then)
        else:
            self._commit(shard, entry, None, then)

    def summary(self, key: SharePartitionKey, then: Told) -> None:
        """Handle ReadShareGroupStateSummary: as `read` but for the batches, for a broker that leads nothing."""
        try:
            shard, entry = self._entry(key)
            self._check_exists(key)
        except StateRefused as refused:
            then(refused.verdict)
            return
        state = UNINITIALIZED if entry is None or entry.state is None else entry.state
        if entry is None:
            then(ShareStateVerdict(ErrorCode.NONE))
        else:
            self._settle(shard, entry, state, lambda verdict: then(verdict._replace(state=state)))

    # ---- topics, and time

    def forget_topic(self, topic_id: bytes) -> None:
        """Forget a topic that was deleted. A shard that is being loaded sees that by itself."""
        for shard in self.shards.values():
            if shard.loaded:
                self._remove_topics(shard, topic_id.__eq__)

    def tick(self, now: Now) -> None:
        """Write new snapshots for share partitions that are not written to, some each turn."""
        if now.mono_ms >= self._cold_ms:
            first, self._cold_ms = self._cold_ms < 0, now.mono_ms + self.settings.cold_interval_ms
            shards = [] if first else [shard for shard in self.shards.values() if _has_warm(shard)]
            self._suspects.extend((shard, key) for shard in shards for key in shard.entries)
        for _ in range(min(len(self._suspects), COLD_A_TICK)):
            shard, key = self._suspects.popleft()
            entry = shard.entries.get(key)
            if self.shards.get(shard.partition) is not shard or entry is None or entry.state is None:
                continue
            if now.wall_ms - entry.state.written_ms >= self.settings.cold_interval_ms and key not in shard.strange:
                fresh = entry.state._replace(snapshot_epoch=entry.state.snapshot_epoch + 1, written_ms=now.wall_ms)
                self._commit(shard, entry, fresh, _ignore)

    def deadline_ms(self) -> int:
        """The monotonic time at which `tick` has something to do; 0: at once."""
        return 0 if self._suspects else max(0, self._cold_ms)

    def redundant(self) -> list[tuple[int, int]]:
        """(partition, offset): what the log of a partition has below the offset is not needed."""
        return [(shard.partition, shard.redundant_below()) for shard in self.shards.values() if shard.loaded]

    # ---- writes

    def appending(self, token: int, offset: int) -> None:
        """The records of a write will be in the log at this offset or behind it, if they are appended at all."""
        if token in self._offsets:
            self._offsets[token] = offset

    def _commit(
        self, shard: ShareStateShard, entry: ShareStateEntry, content: ShareState | Update | None, then: Told
    ) -> None:
        """Write a record and take it in; `then` when it is committed."""
        whole = not isinstance(content, Update)
        entry.replay(content)
        if whole:
            entry.behind = False

        def ended(error: ErrorCode, now: Now) -> None:
            offset = self._offsets.pop(token, None)
            del entry.flights[token]
            if error is not ErrorCode.NONE:
                entry.behind = True
            elif offset is not None:
                entry.needed_from = shard.position = offset
            if entry.state is None and not entry.flights and not entry.behind:
                shard.entries.pop(entry.key, None)
            then(ShareStateVerdict(error, None if error is ErrorCode.NONE else text(error)))

        token = self._write(shard, entry.key.coordinator_key, [record(entry.key, content)], ended)
        entry.flights[token] = None
        if whole:
            self._offsets[token] = 0

    def _settle(self, shard: ShareStateShard, entry: ShareStateEntry, state: ShareState, then: Told) -> None:
        """`then` when all that was written of an entry is committed (rules 1 and 5)."""
        if entry.behind:
            self._commit(shard, entry, entry.state, then)
        elif entry.flights:
            self._follow(next(reversed(entry.flights)), then)
        else:
            then(ShareStateVerdict(ErrorCode.NONE))

    def _follow(self, token: int, then: Told) -> None:
        """Call `then` when an earlier write has ended, after the function of that write."""
        pending = self._pending[token]
        first = pending.then

        def ended(error: ErrorCode, now: Now) -> None:
            first(error, now)
            then(ShareStateVerdict(error, None if error is ErrorCode.NONE else text(error)))

        self._pending[token] = pending._replace(then=ended)

    def _change(self, entry: ShareStateEntry, state: ShareState, update: Update, now: Now) -> ShareState | Update:
        """An update, as one or as a snapshot (rules 4 and 5)."""
        if entry.behind or entry.updates >= self.settings.updates_per_snapshot:
            return snapshot(state, update, now)
        return update

    # ---- checks

    def _entry(self, key: SharePartitionKey) -> tuple[ShareStateShard, ShareStateEntry | None]:
        """The shard of a share partition, and what is remembered of it. Raises StateRefused."""
        if key.number < 0:
            raise StateRefused(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")
        shard = self.shard_of(key.coordinator_key)
        if isinstance(shard, ErrorCode):
            raise StateRefused(shard)
        if key in shard.strange:
            raise StateRefused(ErrorCode.UNSUPPORTED_VERSION, f"{shard.strange[key]}; nothing of it is changed here.")
        return shard, shard.entries.get(key)

    def _known(self, key: SharePartitionKey, otherwise: str) -> tuple[ShareStateShard, ShareStateEntry, ShareState]:
        """The shard of a share partition that is initialised, and what is remembered of it. Raises StateRefused."""
        shard, entry = self._entry(key)
        if entry is None or entry.state is None:
            raise StateRefused(ErrorCode.INVALID_REQUEST, otherwise)
        return shard, entry, entry.state

    def _check_exists(self, key: SharePartitionKey) -> None:
        if not self._exists(key.topic_id, key.number):
            raise StateRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _remove_topics(self, shard: ShareStateShard, gone: Callable[[bytes], bool]) -> None:
        for entry in list(shard.entries.values()):
            if gone(entry.key.topic_id) and (entry.state is not None or entry.key in shard.strange):
                shard.strange.pop(entry.key, None)
                self._commit(shard, entry, None, _ignore)


# ---- inside


def _ignore(verdict: ShareStateVerdict) -> None:
    """Do nothing when a write has ended for which no request waits."""


def _has_warm(shard: ShareStateShard) -> bool:
    """Whether something was written since all of them got a snapshot for being cold: else new ones help nothing."""
    states = [entry.state for entry in shard.entries.values() if entry.state is not None]
    return any(state.created_ms == state.written_ms for state in states)


def _fence_leader_epoch(entry: ShareStateEntry, claimed: int) -> None:
    if claimed != NO_EPOCH and claimed < entry.leader_epoch:
        raise StateRefused(ErrorCode.FENCED_LEADER_EPOCH)


def _fence_state_epoch(entry: ShareStateEntry, claimed: int) -> None:
    if claimed != NO_EPOCH and claimed < entry.state_epoch:
        raise StateRefused(ErrorCode.FENCED_STATE_EPOCH)


def _check_batches(start_offset: int, batches: Sequence[Batch]) -> None:
    """A batch that no leader writes would be remembered for good."""
    if start_offset < NO_OFFSET:
        raise StateRefused(ErrorCode.INVALID_REQUEST, f"The start offset {start_offset} is negative.")
    for batch in batches:
        if not 0 <= batch.first <= batch.last:
            raise StateRefused(
                ErrorCode.INVALID_REQUEST, f"A state batch has the offsets {batch.first} to {batch.last}."
            )
        if batch.delivery_state not in DELIVERY_STATES or batch.delivery_count < 0:
            raise StateRefused(
                ErrorCode.INVALID_REQUEST,
                f"A state batch has delivery state {batch.delivery_state} and delivery count {batch.delivery_count}.",
            )
