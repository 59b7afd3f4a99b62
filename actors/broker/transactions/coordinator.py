"""The coordinator of the transactional ids whose partition of `__transaction_state` this broker leads.

It alone decides which ids exist, when they may be asked for (a partition must be loaded first), and in which order a step is
written, visible and answered: written, committed to the partition's high watermark, then both. What a step is,
`rules.py` decides. Rules:

1. A partition is loaded from its log after leadership is gained, in slices; until then COORDINATOR_LOAD_IN_PROGRESS.
2. After leadership is lost nothing of the partition is kept, and whoever waits hears NOT_COORDINATOR.
3. Of an id one step at a time is on its way. A step whose write fails has not happened; the log may say otherwise, but
   nobody was told, and the next step follows it in the log.
4. Markers leave when the prepared end is committed, and again after each load. The end is complete, and written so, when
   each partition has its marker. A write of that which fails is tried again.
5. A client's request for the next transaction waits for the end of the one before, `PATIENCE_MS` at most, where Apache
   Kafka answers CONCURRENT_TRANSACTIONS at once: the client would wait for longer than the markers take.
6. An open transaction that is older than its timeout is aborted with a raised epoch. One of a two-phase commit has no
   timeout (KIP-939): its producer, or whoever asks in the producer's name, ends it. An id that has been at rest for
   `transactional.id.expiration.ms` is removed.
7. All ids together take `IDS_BYTES_MAX` of memory at most. Beyond it the id that has been at rest for longest goes for a new
   one, as if it had expired; one that was used within `SPARED_MS` does not, so that nobody drives others' ids out with a
   flood of new ones. Where there is none, new ids are refused with POLICY_VIOLATION, and so are more partitions. An id has
   32,767 bytes at most, as every string of a request.
8. So are partitions beyond `PARTITIONS_MAX` of one transaction: each step writes all of them anew.

9. Two-phase commit is served where `transaction.two.phase.commit.enable` is on; else
   TRANSACTIONAL_ID_AUTHORIZATION_FAILED. An open transaction is kept for its producer where each end raises the epoch;
   with `transaction.version` 0 and 1 that is UNSUPPORTED_VERSION. Keeping alone does not need two-phase commit to be on.

Inputs come with the time; outputs are drained from `answers` (ticket, verdict), `writes` and `endings`; the caller reports
a write's end with `written` and that of markers with `marked`.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from actors.broker.coordinators.coordination import Coordination, Then
from actors.broker.transactions import rules
from actors.broker.transactions.records import FLEXIBLE, TransactionLine, read, record
from actors.broker.transactions.rules import End, Fence, Init
from actors.broker.transactions.shard import ENTRY_BYTES, PARTITION_BYTES, Shard, TransactionEntry, WaitingRequest
from actors.broker.transactions.state import (
    AT_REST,
    NO_EPOCH,
    NO_ID,
    NO_TIMEOUT_MS,
    PREPARED,
    TopicPartition,
    Transaction,
    TransactionState,
    created,
)
from actors.ports import Now
from actors.wire.errors import ErrorCode

FAR_MS = 1 << 62
IDS_BYTES_MAX = 256 << 20
PARTITIONS_MAX = 20_000
"""The most partitions of a transaction; that many take a step of 10 ms."""
RETRY_MS = 100
"""The pause after a write of a complete end that failed."""
PATIENCE_MS = 100
HELD_MAX = 5
"""The most requests of a transactional id that wait."""
SPARED_MS = 900_000
LEAVE_FOR_ONE = 8
"""The most transactional ids that are removed for one that comes."""
EXPIRED_A_TICK = 500
"""The number of ids that are looked at, for whether they have expired, in one turn."""


class TransactionSettings(NamedTuple):
    """The broker's settings with the prefix `transaction.`. `partitions`: how many `__transaction_state` will have; see
    `resized`."""

    partitions: int
    timeout_ms_max: int
    expiration_ms: int
    abort_interval_ms: int
    expire_interval_ms: int
    two_phase: bool = False

    @classmethod
    def of(cls, value: Callable[[str], Any]) -> "TransactionSettings":
        """The settings, taken out of the broker's settings by name."""
        return cls(
            partitions=value("transaction.state.log.num.partitions"),
            timeout_ms_max=value("transaction.max.timeout.ms"),
            expiration_ms=value("transactional.id.expiration.ms"),
            abort_interval_ms=value("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            expire_interval_ms=value("transaction.remove.expired.transaction.cleanup.interval.ms"),
            two_phase=value("transaction.two.phase.commit.enable"),
        )


class Producer(NamedTuple):
    """The answer to InitProducerId and EndTxn. `ongoing_id`, `ongoing_epoch`: the pair with which a kept transaction goes
    on; NO_ID and NO_EPOCH: none was open."""

    error: ErrorCode
    id: int = NO_ID
    epoch: int = NO_EPOCH
    ongoing_id: int = NO_ID
    ongoing_epoch: int = NO_EPOCH


class Added(NamedTuple):
    """The answer to AddPartitionsToTxn."""

    error: ErrorCode


class Ending(NamedTuple):
    """A prepared end whose markers are to be written. Each leads to one call of `marked`, or to none at all when this
    coordinator was replaced."""

    shard: Shard
    entry: TransactionEntry
    transaction: Transaction

    @property
    def commit(self) -> bool:
        """Whether the transaction is committed, and not aborted."""
        return self.transaction.state is TransactionState.PREPARE_COMMIT


class Coordinator(Coordination[Shard]):
    """The transaction coordinator of one broker: all partitions of `__transaction_state` that it leads."""

    def __init__(self, settings: TransactionSettings, take_id: rules.TakeId, version: Callable[[], int]) -> None:
        """A coordinator without shards. `take_id`: a function that returns a producer id that no other producer has,
        None while there is none. `version`: `transaction.version` now."""
        super().__init__(settings.partitions, Shard)
        self.settings = settings
        self.answers: list[tuple[int, Producer | Added]] = []
        self.endings: list[Ending] = []
        self._take_id = take_id
        self._version = version
        self._held: deque[tuple[int, TransactionEntry]] = deque()
        """Transactional ids with requests that wait, and until when, the next one first."""
        self._retries: list[tuple[int, Ending]] = []
        """Ends whose completion could not be written, and when to try again."""
        self._abort_ms = self._expire_ms = -1
        self._going = 0
        """The bytes of ids at rest that are removed to make room, while the removal is being written."""
        self._suspects: deque[tuple[Shard, str]] = deque()
        """Ids that are still to be looked at for whether they have expired."""

    # ---- leadership and loading

    def _unload(self, shard: Shard) -> None:
        for entry in shard.entries.values():
            self._wake(entry, Now(0, 0))

    def _read(self, key: bytes | None, value: bytes | None) -> TransactionLine | None:
        return read(key, value)

    def _take(self, shard: Shard, key: bytes, line: TransactionLine, producer_id: int) -> str:
        shard.take(line)
        return line.strange

    def loaded(self, partition: int, epoch: int) -> None:
        """Let a shard serve, after the whole log has been replayed, and go on with the ends that were prepared."""
        shard = self._serve(partition, epoch)
        if shard is None:
            return
        for entry in shard.entries.values():
            if entry.transaction.state in PREPARED:
                self._mark(shard, entry)

    # ---- requests

    def init(self, id: str, ticket: int, request: Init, now: Now) -> None:
        """Handle InitProducerId of a transactional id; the verdict, a Producer, comes out of `answers`."""
        found = self._entry(id)
        error: ErrorCode | None = None
        if not id or (request.producer_id == NO_ID) is not (request.producer_epoch == NO_EPOCH):
            error = ErrorCode.INVALID_REQUEST
        elif request.two_phase and not self.settings.two_phase:
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        elif request.keep and self._version() < rules.EPOCH_RAISED_FROM:
            error = ErrorCode.UNSUPPORTED_VERSION
        elif not request.two_phase and not 0 < request.timeout_ms <= self.settings.timeout_ms_max:
            error = ErrorCode.INVALID_TRANSACTION_TIMEOUT
        elif isinstance(found, ErrorCode):
            error = found
        if error is not None:
            self._answer(ticket, error)
            return
        assert not isinstance(found, ErrorCode)
        shard, entry = found
        if entry is None:
            if not self._make_room(ENTRY_BYTES + len(id), now):
                self._answer(ticket, ErrorCode.POLICY_VIOLATION)
                return
            producer_id = self._take_id()
            if producer_id is None:
                self._answer(ticket, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                return
            entry = TransactionEntry(id, created(producer_id, request.lasts_ms, now.wall_ms))
            shard.put(entry)
        if entry.pending is not None:
            self._answer(ticket, ErrorCode.CONCURRENT_TRANSACTIONS)
            return
        following = rules.init(entry.transaction, request, self._take_id, now.wall_ms)
        if isinstance(following, Fence):
            # The client asks again, and gets the epoch after the one that fences the producer before it.
            self._fence(
                shard,
                entry,
                lambda code: self._answer(
                    ticket, ErrorCode.CONCURRENT_TRANSACTIONS if code is ErrorCode.NONE else code
                ),
                now,
            )
        elif isinstance(following, ErrorCode):
            self._answer(ticket, following)
        else:
            made = following
            ongoing = (made.producer_id, made.producer_epoch) if made.kept else (NO_ID, NO_EPOCH)
            self._step(
                shard,
                entry,
                made,
                lambda error, now: self._answer(ticket, error, *made.held_by, *ongoing),
            )

    def add(
        self,
        id: str,
        ticket: int,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        client_version: int,
        now: Now,
        *,
        patient: bool = False,
    ) -> None:
        """Handle AddPartitionsToTxn, or AddOffsetsToTxn with the group's partition; the verdict, an Added, comes out of
        `answers`. `patient`: it may wait for the end of the transaction before."""
        found = self._entry(id) if id else ErrorCode.INVALID_REQUEST
        if isinstance(found, ErrorCode):
            self.answers.append((ticket, Added(found)))
            return
        shard, entry = found
        code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if entry is not None:
            moving = entry.pending is not None or entry.transaction.state in PREPARED
            code = ErrorCode.CONCURRENT_TRANSACTIONS if moving else ErrorCode.NONE
            code = code or rules.producer_error(entry.transaction, producer_id, producer_epoch)
        following: Transaction | ErrorCode = code
        if entry is not None and code is ErrorCode.NONE:
            following = rules.add(entry.transaction, partitions, client_version, now.wall_ms)
        if entry is None or isinstance(following, ErrorCode):
            if patient and entry is not None and following is ErrorCode.CONCURRENT_TRANSACTIONS and _ends(entry):
                args = id, ticket, producer_id, producer_epoch, partitions, client_version
                if self._hold(entry, now, lambda now: self.add(*args, now)):
                    return
            assert isinstance(following, ErrorCode)
            self.answers.append((ticket, Added(following)))
        elif not self._has_partitions(len(entry.transaction.partitions), len(following.partitions)):
            self.answers.append((ticket, Added(ErrorCode.POLICY_VIOLATION)))
        else:
            self._step(shard, entry, following, lambda error, now: self.answers.append((ticket, Added(error))))

    def verify(
        self, id: str, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition]
    ) -> ErrorCode | list[ErrorCode]:
        """Handle AddPartitionsToTxn with VerifyOnly. Returns the error of each partition, or one for all."""
        found = self._entry(id) if id else ErrorCode.INVALID_REQUEST
        if isinstance(found, ErrorCode):
            return found
        entry = found[1]
        if entry is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        code = rules.producer_error(entry.transaction, producer_id, producer_epoch)
        if code is not ErrorCode.NONE:
            return code
        return rules.verify(entry.transaction, partitions)

    def end(self, id: str, ticket: int, request: End, now: Now) -> None:
        """Handle EndTxn; the verdict, a Producer, comes out of `answers`. Its id and epoch are those of the next
        transaction."""
        found = self._entry(id) if id else ErrorCode.INVALID_REQUEST
        if isinstance(found, ErrorCode):
            self._answer(ticket, found)
            return
        shard, entry = found
        if entry is None:
            self._answer(ticket, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            return
        self._end(shard, entry, request, lambda code, id, epoch: self._answer(ticket, code, id, epoch), now)

    # ---- admin

    def describe(self, id: str) -> Transaction | ErrorCode:
        """The transaction of an id; TRANSACTIONAL_ID_NOT_FOUND, or why this broker cannot tell."""
        found = self._entry(id) if id else ErrorCode.INVALID_REQUEST
        if isinstance(found, ErrorCode):
            return found
        entry = found[1]
        if entry is None or entry.pending is TransactionState.DEAD:
            return ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return entry.transaction

    def listed(self) -> list[tuple[str, Transaction]]:
        """Every transactional id of every loaded shard, except ids that are being removed, in their order of
        arrival."""
        return [
            (entry.id, entry.transaction)
            for shard in self.shards.values()
            if shard.loaded
            for entry in shard.entries.values()
            if entry.pending is not TransactionState.DEAD
        ]

    # ---- markers

    def marked(self, ending: Ending, now: Now) -> None:
        """Write that a prepared end is complete, since each partition has its marker, or is gone."""
        shard, entry = ending.shard, ending.entry
        if not self._current(ending) or entry.pending is not None:
            return

        def written(error: ErrorCode, now: Now) -> None:
            if error is ErrorCode.NONE:
                self._wake(entry, now)
            elif self._current(ending):
                self._retries.append((now.mono_ms + RETRY_MS, ending))

        self._step(shard, entry, rules.completed(entry.transaction, now.wall_ms), written)

    def stands(self, ending: Ending) -> bool:
        """Whether an end still is this coordinator's to carry out."""
        return self._current(ending)

    # ---- time and writes

    def tick(self, now: Now) -> None:
        """Handle transactions that are over their time, ids that have expired, and completions to write again."""
        if self._retries:  # every turn of every broker comes by here
            due = [ending for due_ms, ending in self._retries if due_ms <= now.mono_ms]
            self._retries = [one for one in self._retries if one[0] > now.mono_ms]
            for ending in due:
                self.marked(ending, now)
        while self._held and self._held[0][0] <= now.mono_ms:
            entry = self._held.popleft()[1]
            if entry.held and entry.held[0].until_ms <= now.mono_ms:
                self._wake(entry, now)
        if not self.shards:
            self._abort_ms = self._expire_ms = -1
            return
        if self._abort_ms < 0:
            self._abort_ms = now.mono_ms + self.settings.abort_interval_ms
            self._expire_ms = now.mono_ms + self.settings.expire_interval_ms
        if now.mono_ms >= self._abort_ms:
            self._abort_ms = now.mono_ms + self.settings.abort_interval_ms
            self._abort_timed_out(now)
        if now.mono_ms >= self._expire_ms:
            self._expire_ms = now.mono_ms + self.settings.expire_interval_ms
            if not self._suspects:
                loaded = [shard for shard in self.shards.values() if shard.loaded]
                self._suspects.extend((shard, id) for shard in loaded for id in shard.entries)
        if self._suspects:
            self._expire(now)

    def deadline_ms(self) -> int:
        """When `tick` has something to do."""
        due_ms = min(due_ms for due_ms, _ in self._retries) if self._retries else FAR_MS
        if self._held:
            due_ms = min(due_ms, self._held[0][0])
        if self._suspects:
            return 0
        if self.shards:
            due_ms = min(due_ms, self._abort_ms, self._expire_ms)
        return due_ms

    # ---- inside

    def _entry(self, id: str) -> tuple[Shard, TransactionEntry | None] | ErrorCode:
        shard = self.shard_of(id)
        if isinstance(shard, ErrorCode):
            return shard
        if id in shard.strange:
            return ErrorCode.UNSUPPORTED_VERSION
        return shard, shard.entries.get(id)

    @property
    def bytes(self) -> int:
        """The memory that all transactional ids take, about."""
        return sum([shard.bytes for shard in self.shards.values()])

    def _has_room(self, size: int) -> bool:
        return self.bytes - self._going + size <= IDS_BYTES_MAX

    def _make_room(self, size: int, now: Now) -> bool:
        """Remove ids that have been at rest for longest, if there is no room otherwise. Returns whether there is room
        then."""
        for _ in range(LEAVE_FOR_ONE):
            if self._has_room(size):
                return True
            found = [found for shard in self.shards.values() if (found := _longest_at_rest(shard)) is not None]
            shard, entry = min(found, key=lambda one: one[1].transaction.updated_ms, default=(None, None))
            if shard is None or entry is None or entry.transaction.updated_ms > now.wall_ms - SPARED_MS:
                return False
            gone = entry.bytes
            self._going += gone
            self._remove(shard, entry, gone)
        return self._has_room(size)

    def _has_partitions(self, present: int, wanted: int) -> bool:
        """Whether a transaction may have so many partitions. One that has more, from another release's log, may stay as
        it is."""
        return wanted <= max(present, PARTITIONS_MAX) and self._has_room(PARTITION_BYTES * (wanted - present))

    def _answer(self, ticket: int, error: ErrorCode, *pairs: int) -> None:
        """`pairs`: the fields of Producer that follow the error, for an answer without one."""
        verdict = Producer(error, *pairs) if error is ErrorCode.NONE else Producer(error)
        self.answers.append((ticket, verdict))

    def _fence(self, shard: Shard, entry: TransactionEntry, then: Callable[[ErrorCode], None], now: Now) -> None:
        present = entry.transaction
        version = rules.EPOCH_RAISED_FROM if present.kept else self._version()
        request = End(*present.held_by, False, version, own=True)
        self._end(shard, entry, request, lambda code, id, epoch: then(code), now)

    def _end(
        self, shard: Shard, entry: TransactionEntry, request: End, then: Callable[[ErrorCode, int, int], None], now: Now
    ) -> None:
        present = entry.transaction
        following: Transaction | ErrorCode = ErrorCode.CONCURRENT_TRANSACTIONS
        if entry.pending is None:
            following = rules.end(present, request, self._take_id, now.wall_ms)
        if isinstance(following, ErrorCode):
            then(following, present.producer_id, present.producer_epoch)
            return

        def written(error: ErrorCode, now: Now) -> None:
            if error is not ErrorCode.NONE:
                then(error, NO_ID, NO_EPOCH)
                return
            after = rules.completed(entry.transaction, now.wall_ms)
            then(ErrorCode.NONE, after.producer_id, after.producer_epoch)
            self._mark(shard, entry)

        self._step(shard, entry, following, written)

    def _hold(self, entry: TransactionEntry, now: Now, again: Callable[[Now], None]) -> bool:
        """Let a request wait. Returns False if too many wait already."""
        if len(entry.held) >= HELD_MAX:
            return False
        until_ms = now.mono_ms + PATIENCE_MS
        entry.held.append(WaitingRequest(until_ms, again))
        self._held.append((until_ms, entry))
        return True

    def _wake(self, entry: TransactionEntry, now: Now) -> None:
        """Repeat all requests that wait for the end of a transaction."""
        held, entry.held = entry.held, []
        for one in held:
            one.again(now)

    def _mark(self, shard: Shard, entry: TransactionEntry) -> None:
        self.endings.append(Ending(shard, entry, entry.transaction))

    def _current(self, ending: Ending) -> bool:
        return (
            self.shards.get(ending.shard.partition) is ending.shard
            and ending.shard.entries.get(ending.entry.id) is ending.entry
            and ending.entry.transaction is ending.transaction
        )

    def _step(self, shard: Shard, entry: TransactionEntry, following: Transaction, then: Then) -> None:
        """Write the next value of an id; it holds, and `then` is called, once it is committed."""

        def written(error: ErrorCode, now: Now) -> None:
            entry.pending = None
            if error is ErrorCode.NONE:
                shard.set(entry, following)
            then(error, now)

        entry.pending = following.state
        version = FLEXIBLE if self._version() >= 1 else 0
        self._write(shard, entry.id, [record(entry.id, following, version)], written)

    def _abort_timed_out(self, now: Now) -> None:
        for shard in self.shards.values():
            if not shard.loaded:
                continue
            for id in list(shard.open):
                entry = shard.entries[id]
                transaction = entry.transaction
                if transaction.timeout_ms == NO_TIMEOUT_MS or entry.pending is not None:
                    continue
                if transaction.started_ms + transaction.timeout_ms < now.wall_ms:
                    self._fence(shard, entry, lambda code: None, now)

    def _expire(self, now: Now) -> None:
        oldest_ms = now.wall_ms - self.settings.expiration_ms
        for _ in range(min(EXPIRED_A_TICK, len(self._suspects))):
            shard, id = self._suspects.popleft()
            entry = shard.entries.get(id)
            if (
                self.shards.get(shard.partition) is shard
                and entry is not None
                and entry.pending is None
                and entry.transaction.state in AT_REST
                and entry.transaction.updated_ms <= oldest_ms
            ):
                self._remove(shard, entry)

    def _remove(self, shard: Shard, entry: TransactionEntry, going: int = 0) -> None:
        """Write the removal of an id, as a write of its own: the removals of a turn share batches as large as a message
        may be. `going`: bytes that are counted as free until it is written."""

        def written(error: ErrorCode, now: Now) -> None:
            self._going -= going
            entry.pending = None
            if error is ErrorCode.NONE:
                shard.drop(entry.id)

        entry.pending = TransactionState.DEAD
        self._write(shard, entry.id, [record(entry.id, None, 0)], written)


def _longest_at_rest(shard: Shard) -> tuple[Shard, TransactionEntry] | None:
    """The transactional id of a shard that has been at rest for longest, and of which nothing is being written."""
    if shard.loaded:
        for id in shard.resting:
            if shard.entries[id].pending is None:
                return shard, shard.entries[id]
    return None


def _ends(entry: TransactionEntry) -> bool:
    """Whether the present transaction is being ended, so that the next one can begin soon."""
    return entry.transaction.state in PREPARED or entry.pending in PREPARED
