"""Replication towards this broker: one fetcher for each source broker, in an incremental fetch session (KIP-227, Fetch
v17).

This file alone decides what a follower asks for and what it does with the answer. Rules:

1. The next request leaves in the turn of the answer; nothing waits for an interval. A request names only the partitions
   whose position or epoch changed since the last one.
2. While a long poll is in flight, partitions that metadata added or changed leave at once in a second request. The
   leader then answers the first one at once.
3. Batches are appended as they come. Data that does not begin at this log's end answers an older request, and is
   dropped.
4. A diverging epoch truncates the log (KIP-101, 279, 595), without waiting for another answer. The truncation is
   durable before the next request leaves: otherwise a power cut could bring the removed records back, below a high
   watermark that has passed them meanwhile. If much must be read first, a thread reads it; until then the partition is
   not fetched and nothing is removed.
   Where the leader's log begins at this log's end, it cannot tell whether they diverge: then this log begins anew there. Its
   records are deleted, but a kill could forget that, and show what was never committed (reading G-49).
   Where the leader has cleaned away how a transaction ended that is open here, this log begins anew at the leader's start,
   which has none of its data any more (reading G-50); never where it may be in the ISR. If the leader does have the data,
   and lacks the marker all the same, what it sends is taken the second time.
   Where this log ends inside a batch of the leader's, the first offset of one has rotted, which no checksum covers: that of
   the last batch here, or that of the leader's. This log is cut to the leader's, again not where it may be in the ISR, and
   once: where it ends inside that batch again it is the leader's that has rotted.
5. A partition that the leader refused leaves the session. It comes back after its next metadata update or after a
   delay.
6. A partition that is throttled and not in sync is not asked for while this broker is over its rate (KIP-73). It leaves the
   session meanwhile, since a leader would send what it grows by.
7. A new epoch of this broker begins a new session: the leader must learn it for every partition (R497-43).
8. A leader in ZooKeeper mode may speak versions before 13, which name topics and not their ids: a topic whose name another
   one had before begins a new session.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.broker.log.log import OffsetsOutOfOrder, PartitionLog, Unmarked, Unsettled
from actors.broker.log.producers.producers import CorruptSnapshot
from actors.broker.log.producers.transactions import NO_LIMIT
from actors.broker.log.segment import Job
from actors.broker.log.truncation import Preparation, Prepared, fits
from actors.broker.replication.fetch_sessions import FIRST_EPOCH
from actors.broker.replication.partition import Partition
from actors.broker.replication.replication_throttle import ReplicationThrottle
from actors.ports import Buffer, Disk, DiskFailed, DiskFull, Now
from actors.wire import batch_header
from actors.wire.errors import ErrorCode
from actors.wire.messages import Message, message
from fastpath.records.batch import CorruptBatch

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import FetchRequest, FetchResponse

VERSION = 17
BACKOFF_MS = 50
"""The pause after an error of the whole request, or of one partition that the next metadata update will settle."""
DISK_FULL_MS = 1000
IDS_KEPT = 100
"""How many ids of topics that are not fetched any more are kept at most; and as many as topics are fetched."""
IN_FLIGHT_MAX = 2
SESSION_ERRORS = frozenset(
    (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    )
)
FAR_MS = 1 << 62

Key = tuple[bytes, int]
Asked = tuple[int, int, int, int]
"""(fetch offset, leader epoch, last fetched epoch, log start) of a partition in the request that last named it."""


class FetcherLimits(NamedTuple):
    """The node's replica.fetch.* settings."""

    wait_ms: int
    bytes_min: int
    response_bytes_max: int
    partition_bytes_max: int


class Truncation(NamedTuple):
    """A truncation that must read from the disk first."""

    partition: Partition
    leader_epoch: int
    epoch: int
    end_offset: int
    """The diverging epoch of the leader's answer, and the offset where it ends there."""
    job: Preparation
    inside: bool
    """Whether this log ended inside a batch of the leader's, which begins there."""


class FetchOutcome(NamedTuple):
    """What a fetch answer has changed at this broker."""

    grown: list[Partition]
    advanced: list[Partition]
    """Partitions whose high watermark moved."""
    flush: dict[Partition, None]
    """Logs that must be durable before the next request leaves: logs that were truncated or begun anew and, with
    flush.messages=1, all that grew."""
    jobs: dict[Disk, list[Job]]
    """Jobs that unlink files, to be run in a thread."""
    reports: list[str]
    failures: list[tuple[Partition, DiskFailed]]
    """Partitions whose disk failed: nothing can be appended to them any more."""
    cuts: list[Truncation]
    """Truncations whose jobs must run in a thread; their results go to `cut`."""

    def unlink(self, partition: Partition, jobs: list[Job]) -> None:
        """Add jobs that remove files of a partition."""
        self.jobs.setdefault(partition.log.disk, []).extend(jobs)


class FetchInFlight(NamedTuple):
    """A request in flight. `named`: the partitions whose position it states."""

    request: Message
    generation: int
    named: frozenset[Key]


class Fetcher:
    """Everything that this broker fetches from one other broker."""

    def __init__(
        self,
        source: int,
        me: int,
        limits: FetcherLimits,
        throttle: ReplicationThrottle | None = None,
        waiting_for_room: AbstractSet[Partition] = frozenset(),
    ) -> None:
        self.source = source
        self.me = me
        self.limits = limits
        self._throttle = throttle or ReplicationThrottle()
        """The throttle of everything that this broker takes in, from this source and others."""
        self._waiting_for_room = waiting_for_room
        """Partitions, of this source and others, that are not asked for before they are durable."""
        self.broker_epoch = -1
        self.not_before_ms = 0
        self._asked: dict[Partition, Asked] = {}
        """Partitions in the session, with the position that the leader last learned."""
        self._changed: dict[Partition, None] = {}
        """Partitions that the next request must name."""
        self._urgent = False
        """Whether a changed partition should not wait for the answer of the request in flight."""
        self._gone: dict[Key, str] = {}
        """Partitions in the session that the next request must drop from it, with the names of their topics."""
        self._ids: dict[str, bytes] = {}
        """The id of the topic that has a name now, or had it last."""
        self._delayed: dict[Partition, int] = {}
        """Partitions that were refused or are held back, with the monotonic time at which to fetch them again."""
        self._near: dict[Partition, None] = {}
        """Throttled partitions that had everything up to the leader's high watermark at its last answer."""
        self._unmarked: dict[Partition, int] = {}
        """Partitions that began anew as the end of a transaction was missing, and where that had begun."""
        self._inside: dict[Partition, int] = {}
        """Partitions that were cut as they ended inside a batch of the leader's, and where that begins."""
        self._partitions: dict[Key, Partition] = {}
        self._session = 0
        self._epoch = 0
        self._generation = 0
        self._in_flight: list[FetchInFlight] = []

    def __len__(self) -> int:
        return len(self._partitions)

    # ---- what to fetch

    def follow(self, partition: Partition) -> None:
        """Fetch this partition, or begin again because its leader epoch changed."""
        self._partitions[partition.topic_id, partition.number] = partition
        if len(self._ids) > 2 * len(self._partitions) + IDS_KEPT:
            self._ids = {one.topic: one.topic_id for one in self._partitions.values()}
        if self._ids.setdefault(partition.topic, partition.topic_id) != partition.topic_id:
            self._ids[partition.topic] = partition.topic_id
            self._restart()
        self._near.pop(partition, None)
        self._inside.pop(partition, None)
        self._delayed.pop(partition, None)
        self._changed[partition] = None
        self._urgent = True

    def leave(self, partition: Partition) -> None:
        """Stop fetching this partition."""
        self._partitions.pop((partition.topic_id, partition.number), None)
        self._near.pop(partition, None)
        self._unmarked.pop(partition, None)
        self._inside.pop(partition, None)
        self._delayed.pop(partition, None)
        self._drop(partition)

    def go_on(self, partition: Partition) -> None:
        """Fetch a partition again that has waited for room, if it is to be fetched."""
        if self._partitions.get((partition.topic_id, partition.number)) is partition and partition not in self._delayed:
            self._changed[partition] = None
            self._urgent = True

    def renew(self, broker_epoch: int) -> None:
        """Begin a new session, since the registration of this broker changed (rule 7)."""
        if broker_epoch != self.broker_epoch:
            self.broker_epoch = broker_epoch
            self._restart()

    def deadline_ms(self, mono_ms: int) -> int:
        """When `ask` may have something to send, if nothing happens before."""
        due = min(self._delayed.values()) if self._delayed else FAR_MS
        if not self._in_flight and (self._changed or (self._epoch and self._asked)):
            due = min(due, self.not_before_ms)
        elif self._urgent and self._epoch and len(self._in_flight) < IN_FLIGHT_MAX and (self._changed or self._asked):
            due = min(due, max(mono_ms, self.not_before_ms))
        return due

    # ---- the conversation

    def ask(self, mono_ms: int) -> FetchInFlight | None:
        """The request to send now; None: there is nothing to ask. The caller gives it back with its answer to
        `answered`, or without one to `lost`."""
        for partition in [partition for partition, until_ms in self._delayed.items() if until_ms <= mono_ms]:
            del self._delayed[partition]
            self._changed[partition] = None
            self._urgent = True
        for partition in self._waiting_for_room:
            self._drop(partition)
        if self._changed and self._throttle.over(mono_ms):
            self._hold_back(mono_ms)
        if mono_ms < self.not_before_ms or not (self._changed or (self._epoch and self._asked)):
            return None  # a session without partitions is answered at once, so requests would never pause
        if self._in_flight and not (self._urgent and self._epoch and len(self._in_flight) < IN_FLIGHT_MAX):
            return None
        self._urgent = False
        return self._build()

    def lost(self, question: FetchInFlight, mono_ms: int) -> None:
        """Begin a new session after a pause, since no answer to a request will come."""
        if question.generation == self._generation:
            self.not_before_ms = mono_ms + BACKOFF_MS
            self._restart()

    def answered(self, question: FetchInFlight, reply: "FetchResponse", now: Now) -> FetchOutcome:
        """Append, truncate, and note what the answer says. The answer of a session that was given up changes nothing.

        If an append finds no room, the partition is fetched again later.
        """
        outcome = _nothing()
        if question.generation != self._generation:
            return outcome
        self._in_flight.remove(question)
        if reply.error_code != ErrorCode.NONE or (not self._epoch and not reply.session_id):
            if reply.error_code not in SESSION_ERRORS:
                self.not_before_ms = now.mono_ms + BACKOFF_MS
            self._restart()
            return outcome
        if not self._epoch:
            self._session, self._epoch = reply.session_id, FIRST_EPOCH
        for topic in reply.responses:
            topic_id = self._ids.get(topic.topic, topic.topic_id) if topic.topic else topic.topic_id
            for data in topic.partitions:
                key = (topic_id, data.partition_index)
                partition = self._partitions.get(key)
                asked = self._asked.get(partition) if partition is not None else None
                # If a later request names the partition, this is the answer for its old position.
                if asked is not None and not any(key in later.named for later in self._in_flight):
                    assert partition is not None
                    try:
                        self._take_one(partition, asked, data, now, outcome)
                    except Unsettled:
                        outcome.flush[partition] = None
                        self._changed[partition] = None
                    except DiskFull as error:
                        partition.cluster.without_room[partition.log.disk] = error
                        self._delay(partition, now.mono_ms + DISK_FULL_MS)
                    except DiskFailed as error:
                        outcome.failures.append((partition, error))
        return outcome

    def cut(self, cut: Truncation, result: object, now: Now) -> FetchOutcome:
        """Cut a log, after the job of the truncation has ended. If the log or its leader has changed meanwhile, the
        leader is asked again."""
        outcome = _nothing()
        partition = cut.partition
        if self._partitions.get((partition.topic_id, partition.number)) is not partition:
            return outcome
        if isinstance(result, DiskFailed):
            outcome.failures.append((partition, result))
            return outcome
        if isinstance(result, CorruptSnapshot):
            partition.log.snapshots.forget(cut.job.start)
        if isinstance(result, Exception):
            outcome.reports.append(f"{partition!r} is cut later: {result!r}")
            self._delay(partition, now.mono_ms + BACKOFF_MS)
            return outcome
        assert isinstance(result, Prepared)
        self._delayed.pop(partition, None)
        self._changed[partition] = None
        self._urgent = True
        current = partition.leader == self.source and partition.leader_epoch == cut.leader_epoch
        if current and fits(partition.log, cut.job):
            try:
                self._cut(partition, cut.epoch, cut.end_offset, result, outcome, inside=cut.inside)
            except DiskFull as error:
                partition.cluster.without_room[partition.log.disk] = error
                self._delay(partition, now.mono_ms + DISK_FULL_MS)
            except DiskFailed as error:
                outcome.failures.append((partition, error))
        return outcome

    # ---- inside

    def _take_one(
        self, partition: Partition, asked: Asked, data: "FetchResponse.PartitionData", now: Now, outcome: FetchOutcome
    ) -> None:
        offset, epoch, _, _ = asked
        if partition.leader != self.source or partition.leader_epoch != epoch:
            return
        log = partition.log
        if data.error_code != ErrorCode.NONE:
            self._refused(partition, asked, data, now, outcome)
            return
        if offset != log.log_end_offset:
            self._changed[partition] = None
            return
        if data.diverging_epoch is not None:
            self._diverges(partition, epoch, data.diverging_epoch.epoch, data.diverging_epoch.end_offset, outcome)
            return
        known = partition.told_high_watermark = data.high_watermark
        try:
            if partition.unproven(data.log_start_offset):
                self._begin_anew(partition, offset, now, outcome)
            if data.records and (base_offset := log.begins_inside(data.records, data.log_start_offset)) is not None:
                # The batch is appended below, so what is known to be committed stays committed.
                known = max(known, partition.high_watermark)
                self._begin_anew(partition, base_offset, now, outcome, inside=True)
            # What was cleaned away was committed. A follower that has all that is committed may be in the ISR, and throws
            # nothing away: there the leader itself has never had the marker.
            taken = self._unmarked.get(partition, -1) if data.high_watermark > offset else NO_LIMIT
            if data.records and log.append_fetched(data.records, now.wall_ms, unmarked_offset=taken) is not None:
                outcome.grown.append(partition)
                self._changed[partition] = None
                moving = partition.moving and self.me not in partition.isr.isr
                partition.traffic.replicated(len(data.records), moving)
                if partition.settings.flush_messages == 1:
                    outcome.flush[partition] = None
            if partition.throttled_as_follower:
                self._counted(partition, len(data.records or b""), data.high_watermark, now.mono_ms)
        except Unmarked as unmarked:
            start = max(data.log_start_offset, 0)
            outcome.reports.append(f"{partition!r} begins anew at {start}, its leader's log was cleaned: {unmarked}")
            self._unmarked[partition] = unmarked.first_offset
            self._begin_anew(partition, start, now, outcome)
            self._changed[partition] = None
            return
        except (CorruptBatch, OffsetsOutOfOrder) as error:
            outside = isinstance(error, OffsetsOutOfOrder) and self.me not in partition.isr.isr
            end_offset = _ends_inside(log, data.records) if outside else None
            if end_offset is not None and self._inside.get(partition) != end_offset:
                self._diverges(partition, epoch, log.epochs.latest, end_offset, outcome, inside=True)
                return
            outcome.reports.append(f"broker {self.source} sent unusable data for {partition!r}: {error}")
            self._delay(partition, now.mono_ms + DISK_FULL_MS)
            return
        start = log.log_start_offset
        if partition.follow(known, data.log_start_offset):
            outcome.advanced.append(partition)
        if log.log_start_offset != start:
            self._changed[partition] = None

    def _diverges(
        self,
        partition: Partition,
        epoch: int,
        last: int,
        end_offset: int,
        outcome: FetchOutcome,
        *,
        inside: bool = False,
    ) -> None:
        """Cut a log to where the leader of `epoch` says that its own epoch `last` ends, or have that prepared. `inside`: as
        in `Truncation`."""
        job = partition.prepare_cut(last, end_offset)
        if job is None:
            self._cut(partition, last, end_offset, None, outcome, inside=inside)
        else:
            outcome.cuts.append(Truncation(partition, epoch, last, end_offset, job, inside))
            self._delay(partition, FAR_MS)

    def _counted(self, partition: Partition, size: int, leader_high_watermark: int, mono_ms: int) -> None:
        if size:
            self._throttle.count(size, mono_ms)
        if leader_high_watermark <= partition.log.log_end_offset:
            self._near[partition] = None
        else:
            self._near.pop(partition, None)

    def _hold_back(self, mono_ms: int) -> None:
        until_ms = self._throttle.due_ms(mono_ms)
        for partition in list(self._changed):
            if partition.throttled_as_follower and partition not in self._near:
                self._delay(partition, until_ms)

    def _cut(
        self,
        partition: Partition,
        epoch: int,
        end_offset: int,
        prepared: Prepared | None,
        outcome: FetchOutcome,
        *,
        inside: bool,
    ) -> None:
        log = partition.log
        before = log.log_end_offset
        try:
            outcome.unlink(partition, partition.truncate_for(epoch, end_offset, prepared))
        finally:  # what fails half way may have cut a part
            if log.log_end_offset < before:
                outcome.flush[partition] = None
        if log.log_end_offset < before:
            outcome.reports.append(
                f"cut {partition!r} from {before} to {log.log_end_offset}: "
                f"the leader of epoch {partition.leader_epoch} has other data"
            )
        if inside:
            self._inside[partition] = end_offset
        self._changed[partition] = None

    @staticmethod
    def _begin_anew(
        partition: Partition, offset: int, now: Now, outcome: FetchOutcome, *, inside: bool = False
    ) -> None:
        outcome.flush[partition] = None  # what fails half way may have cut a part
        outcome.unlink(partition, partition.restart(offset, now.wall_ms, inside=inside))

    def _refused(
        self, partition: Partition, asked: Asked, data: "FetchResponse.PartitionData", now: Now, outcome: FetchOutcome
    ) -> None:
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and data.log_start_offset >= 0:
            if asked[0] < data.log_start_offset or partition.log.log_end_offset == asked[0]:
                outcome.reports.append(
                    f"{partition!r} begins anew at {data.log_start_offset}: its offset {asked[0]} is not on the leader"
                )
                self._begin_anew(partition, data.log_start_offset, now, outcome)
            self._changed[partition] = None
            return
        if data.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
            outcome.reports.append(f"broker {self.source} cannot read {partition!r}")
        self._delay(partition, now.mono_ms + BACKOFF_MS)

    def _delay(self, partition: Partition, until_ms: int) -> None:
        self._drop(partition)
        self._delayed[partition] = until_ms

    def _drop(self, partition: Partition) -> None:
        self._changed.pop(partition, None)
        if self._asked.pop(partition, None) is not None:
            self._gone[partition.topic_id, partition.number] = partition.topic

    def _restart(self) -> None:
        self._generation += 1
        self._session = self._epoch = 0
        self._in_flight.clear()
        self._asked.clear()
        self._gone.clear()
        self._changed = {one: None for one in self._partitions.values() if one not in self._delayed}

    def _build(self) -> FetchInFlight:
        kind = message("FetchRequest")
        topics: dict[bytes, Any] = {}
        named: list[Key] = []
        for partition in self._changed:
            log = partition.log
            asked = _shared(log.log_end_offset, partition.leader_epoch, log.epochs.latest, log.log_start_offset)
            self._asked[partition] = asked
            key = (partition.topic_id, partition.number)
            self._gone.pop(key, None)
            named.append(key)
            topic = topics.get(partition.topic_id)
            if topic is None:
                topic = topics[partition.topic_id] = kind.FetchTopic(
                    topic=partition.topic, topic_id=partition.topic_id, partitions=[]
                )
            topic.partitions.append(
                kind.FetchPartition(
                    partition=partition.number,
                    current_leader_epoch=asked[1],
                    fetch_offset=asked[0],
                    last_fetched_epoch=asked[2],
                    log_start_offset=asked[3],
                    partition_max_bytes=self.limits.partition_bytes_max,
                )
            )
        self._changed = {}
        request = kind(
            replica_id=self.me,
            replica_state=kind.ReplicaState(replica_id=self.me, replica_epoch=self.broker_epoch),
            max_wait_ms=self.limits.wait_ms,
            min_bytes=self.limits.bytes_min,
            max_bytes=self.limits.response_bytes_max,
            session_id=self._session,
            session_epoch=self._epoch,
            topics=list(topics.values()),
            forgotten_topics_data=_by_topic(kind, self._gone) if self._epoch else [],
        )
        self._gone = {}
        question = FetchInFlight(request, self._generation, frozenset(named))
        self._in_flight.append(question)
        if self._epoch:
            self._epoch = 1 if self._epoch == (1 << 31) - 1 else self._epoch + 1
        return question


@lru_cache(maxsize=1024)
def _shared(*asked: int) -> Asked:
    """The one tuple of a position: partitions without records have it in common."""
    return asked  # type: ignore[return-value]


def _nothing() -> FetchOutcome:
    return FetchOutcome([], [], {}, {}, [], [], [])


def _by_topic(kind: Any, named: Mapping[Key, str]) -> list["FetchRequest.ForgottenTopic"]:
    topics: dict[bytes, Any] = {}
    for (topic_id, number), name in named.items():
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = kind.ForgottenTopic(topic=name, topic_id=topic_id, partitions=[])
        topic.partitions.append(number)
    return list(topics.values())


def _ends_inside(log: PartitionLog, records: Buffer) -> int | None:
    """The first offset of the first batch in `records`, which is sound, if the log ends inside it; None: it does not."""
    first, last = batch_header.base_offset(records), batch_header.last_offset(records)
    return first if log.log_start_offset < first < log.log_end_offset <= last else None
