"""A Fetch from its first look at its partitions to what its answer tells (Apache Kafka's `DelayedFetch`).

This file alone decides when a Fetch is answered and when it waits. Rules:

1. It is answered when there are as many bytes as its fetcher wants, at its time limit, or when a partition has something
   that is worth an answer whatever the byte count. One batch at least is given, whatever the limits.
2. A fetcher that wants more bytes than one answer can have does not wait for them: where more is there than what was read,
   at the end of a segment or of a limit, the answer leaves.
3. What must be read from the disk is read by a job, one partition at a time. What was read before it is kept, and counts if
   the log is still as it was.
4. A newer request of the session takes the place of one that waits, which gets an empty answer.
5. Over a quota (KIP-13, KIP-219) the answer has no records, and the session is as before it; a session that would begin does
   not.

What one partition gives is `broker/replication/reading.py`'s to say, which partitions are looked at `fetch_sessions.py`'s.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, islice
from typing import Any

from actors.broker.log.aborted_search import AbortedFound
from actors.broker.log.reads import Read
from actors.broker.replication.fetch_sessions import Key, Opened, SessionPartition, Sessions, Wanted, Warm
from actors.broker.replication.partition import Cluster
from actors.broker.replication.reading import RESTORER, PartitionRead, Reader, look, note_failure
from actors.broker.replication.replicas import Replicas
from actors.node.net.connections import Connections
from actors.node.roles.broker.availability import Availability
from actors.node.roles.broker.quotas.client_quotas import ClientQuotas
from actors.node.roles.broker.replication.appends import Appends
from actors.node.runtime.answers import Answer, Close, Done, Later, Parked
from actors.node.runtime.calls import Call
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.slices import ENTRIES_A_SLICE, Steps, go_on
from actors.node.runtime.waiting import WAIT_MS_MAX
from actors.ports import DiskFailed
from actors.wire.errors import ErrorCode
from fastpath.records.batch import CorruptBatch

ANSWER_BYTES, PARTITION_BYTES = 16, 58
"""The size of an answer beside its partitions, and of a partition beside its records, about."""

MayRead = Callable[[SessionPartition], bool]
"""A function that says whether the fetcher may read a partition. It is asked at each look: rules may change."""
Respond = Callable[["DelayedFetch", Sequence[PartitionRead], int], Generator[None, None, Any]]
"""A function that makes the response of (the fetch, what was found, throttle time in ms), in slices."""
NEWS_MAX = 1000
"""A follower is answered at once when there is news of so many partitions, also without records."""


class Fetches:
    """The state that the fetches of a broker share."""

    __slots__ = (
        "appends",
        "availability",
        "bytes_max",
        "cluster",
        "connections",
        "quotas",
        "replicas",
        "runtime",
        "sessions",
    )  # fmt: skip

    def __init__(
        self,
        runtime: Runtime,
        connections: Connections,
        replicas: Replicas,
        availability: Availability,
        appends: Appends,
        sessions: Sessions,
        quotas: ClientQuotas,
    ) -> None:
        self.runtime = runtime
        self.connections = connections
        self.replicas = replicas
        self.cluster: Cluster = replicas.cluster
        self.availability = availability
        self.appends = appends
        self.sessions = sessions
        self.quotas = quotas
        self.bytes_max: int = runtime.config.value("fetch.max.bytes")
        """The limit on the records of one answer."""


class DelayedFetch:
    """One Fetch request, from its first look to its answer."""

    __slots__ = (
        "_bytes_max",
        "_bytes_min",
        "_call",
        "_charged",
        "_deadline_ms",
        "_epoch",
        "_fetches",
        "_found",
        "_incremental",
        "_may_read",
        "_reader",
        "_respond",
        "_sent",
        "session",
    )

    def __init__(
        self,
        fetches: Fetches,
        opened: Opened,
        reader: Reader,
        call: Call,
        bytes_min: int,
        bytes_max: int,
        wait_ms: int,
        charged: bool,
        may_read: MayRead | None,
        respond: Respond,
    ) -> None:
        """A fetch that has not looked yet. `charged`: the client may have a quota; then it is given no more than that
        allows at once. `may_read` None: the fetcher may read everything."""
        assert opened.session is not None
        self._fetches = fetches
        self.session = session = opened.session
        self._epoch = session.epoch
        self._incremental = opened.incremental
        self._found: dict[SessionPartition, Warm] = {}
        """The batches that have been read for this answer by the time a job for another partition had to be waited
        for."""
        self._reader = reader
        self._call = call
        self._charged = charged
        self._may_read = may_read
        self._respond = respond
        self._sent: list[SessionPartition] = []
        """The entries that are dirty again behind the rest: until the fetcher names its new position, it may have
        thrown this away."""
        if bytes_max > fetches.bytes_max:
            bytes_max = fetches.bytes_max
        if charged and (room := fetches.quotas.room(call)) < bytes_max:
            bytes_max = int(room)
            bytes_min = min(bytes_min, bytes_max)
        self._bytes_min = bytes_min
        self._bytes_max = bytes_max
        # A replica's new session is answered at once: until it has one it cannot name what changes meanwhile.
        at_once = reader.replica >= 0 and session.id and not opened.incremental
        wait_ms = 0 if at_once else wait_ms if wait_ms < WAIT_MS_MAX else WAIT_MS_MAX
        self._deadline_ms = fetches.runtime.now.mono_ms + wait_ms

    def begin(self, wanted: Iterable[Wanted]) -> Answer:
        """Take in what the request says, which is shorter than a slice, then look for the first time."""
        self._overtake()
        if wanted:
            self._want(wanted)
        return go_on(self._steps(False))

    def begin_long(self, wanted: Iterator[Wanted], forgotten: Iterator[Key]) -> Answer:
        """Begin as `begin`, with a request that may be longer."""
        self._overtake()
        return go_on(self._long(wanted, forgotten))

    # ---- what its response is made of

    @property
    def overtaken(self) -> bool:
        """Whether the session has ended or gone on: then this request tells nothing of it."""
        return self.session.epoch != self._epoch

    def told(self, looks: Iterable[PartitionRead]) -> list[PartitionRead]:
        """The looks that the response names, out of `looks`, a part of what was found. The session notes what is sent."""
        session, told, replica = self.session, [], self._reader.replica >= 0
        for found in looks:
            entry = found.entry
            partition = entry.partition
            if partition is None:
                self._fetches.replicas.traffic.fetched(0, True, replica, False)
            else:
                moving = partition.moving and self._reader.replica not in partition.isr.isr
                partition.traffic.fetched(found.size, found.error != 0, replica, moving)
            if replica and found.size and entry.partition is not None and entry.partition.throttled_as_leader:
                self._fetches.cluster.leader_throttle.count(found.size, self._fetches.runtime.now.mono_ms)
            if not self._incremental or found.news:
                told.append(found)
                entry.told_high_watermark = found.high_watermark
            entry.sent_high_watermark, entry.sent_log_start = found.high_watermark, found.log_start
            if found.left_out:
                session.dirty[entry] = None
            elif found.size or found.urgent:
                self._sent.append(entry)
        return told

    def leaves(self) -> None:
        """Note that all is told, and the answer leaves."""
        if not self.session.id:
            self.session.end()  # no later request finds it
            return
        for entry in self._sent:
            self.session.dirty[entry] = None

    # ---- inside

    def _overtake(self) -> None:
        """Answer a request that is parked in this session now: this one takes its place."""
        if self._incremental:
            self._fetches.runtime.waiting.signal(self.session.key)

    def _want(self, wanted: Iterable[Wanted]) -> None:
        replicas = self._fetches.replicas
        for entry in self._fetches.sessions.want(self.session, wanted):
            if entry.partition is not None:
                replicas.detach(entry)
            replicas.attach(entry)

    def _long(self, wanted: Iterator[Wanted], forgotten: Iterator[Key]) -> Steps:
        """Take in a long request, slice by slice. A session that ends, or goes on, between two slices takes in no
        more."""
        fetches = self._fetches
        while portion := list(islice(wanted, ENTRIES_A_SLICE)):
            self._want(portion)
            if len(portion) == ENTRIES_A_SLICE:
                yield
                if self.overtaken:
                    return (yield from self._steps(False))
        while keys := list(islice(forgotten, ENTRIES_A_SLICE)):
            for entry in fetches.sessions.forget(self.session, keys):
                fetches.replicas.detach(entry)
            if len(keys) == ENTRIES_A_SLICE:
                yield
                if self.overtaken:
                    break
        return (yield from self._steps(False))

    def _again(self, expired: bool) -> Answer:
        """Look at whatever is dirty. Returns the answer, or waits."""
        return go_on(self._steps(expired))

    def _steps(self, expired: bool) -> Steps:
        """Look again, slice by slice. What was looked at in an earlier slice is dirty only if it changed since."""
        session, fetches, replica = self.session, self._fetches, self._reader.replica >= 0
        if not replica and not fetches.availability.serving:
            return Close("this broker is fenced")
        if session.epoch != self._epoch:
            return Done((yield from self._respond(self, (), 0)))
        looks: list[PartitionRead] = []
        clean = 0
        """How many looks were taken off the dirty entries."""
        total, urgent = 0, False
        bytes_max = fetches.connections.room(self._call.connection, self._bytes_max)
        over_rate = replica and fetches.cluster.leader_throttle.over(fetches.runtime.now.mono_ms)
        # A high watermark that a follower does not know is a reason to answer (KIP-392).
        hastens = replica and fetches.cluster.rack_aware
        for entry in list(session.dirty):
            found = self._look(entry, bytes_max - total, total == 0, over_rate)
            if found.cold is not None:
                if clean:
                    session.soil(one.entry for one in looks[:clean])
                return self._read(found, looks, expired, total + max(0, min(entry.bytes_max, bytes_max - total)))
            looks.append(found)
            total += found.size
            urgent = urgent or found.urgent or (found.more and total > 0 and not (over_rate and found.left_out))
            if hastens and found.high_watermark > entry.told_high_watermark:
                urgent = True
            if not len(looks) % ENTRIES_A_SLICE:
                session.clean(one.entry for one in looks[clean:])
                clean = len(looks)
                fetches.appends.signal()
                yield
                if session.epoch != self._epoch:
                    return Done((yield from self._respond(self, (), 0)))
        fetches.appends.signal()
        if replica and len(looks) >= NEWS_MAX:
            # All of it is looked at again with each look until it is told, and a follower names more all the time while
            # partitions are arriving there.
            urgent = urgent or sum(found.news for found in looks) >= NEWS_MAX
        now_ms = fetches.runtime.now.mono_ms
        if not (expired or urgent or self._enough(total) or now_ms >= self._deadline_ms or not session.entries):
            if clean:
                session.soil(one.entry for one in looks[:clean])
            return Parked(self._keys(), self._due_ms(over_rate, looks), self._again, early=True)
        throttle_ms = 0
        if self._charged:
            verdict = fetches.quotas.fetched(self._call, total + self._overhead(looks))
            throttle_ms = verdict.throttle_ms
            if verdict.withheld:
                if clean:
                    session.soil(one.entry for one in looks[:clean])
                self._withhold()
                looks = []
        for one in looks[clean:] if clean else looks:
            session.dirty.pop(one.entry, None)
        return Done((yield from self._respond(self, looks, throttle_ms)))

    def _enough(self, total: int) -> bool:
        """Whether so many bytes are worth an answer: as many as the fetcher wants, or as the answer can have."""
        if total >= self._bytes_min:
            return True
        if not total or total >= self._bytes_max:
            return total > 0
        # Nearly always the first partition alone may have more: a session of many is not walked whenever one has grown.
        room = accumulate(one.bytes_max for one in self.session.entries.values())
        return not any(most > total for most in room)

    def _overhead(self, looks: Sequence[PartitionRead]) -> int:
        """About how many bytes an answer has beside the records."""
        told = len(looks) if not self._incremental else sum(found.news for found in looks)
        return ANSWER_BYTES + PARTITION_BYTES * told

    def _withhold(self) -> None:
        """Give up the session that an answer without partitions would have begun: its client asks again, as if it had
        not asked."""
        session, fetches = self.session, self._fetches
        if not self._incremental and session.id:
            fetches.sessions.close(session)
            fetches.replicas.end_sessions([session])
            session.id = 0

    def _due_ms(self, over_rate: bool, looks: Iterable[PartitionRead]) -> int:
        """The time at which to answer at the latest: a follower that is held back need not wait longer than that
        lasts."""
        if not over_rate or not any(found.left_out for found in looks):
            return self._deadline_ms
        throttle = self._fetches.cluster.leader_throttle
        return min(self._deadline_ms, throttle.due_ms(self._fetches.runtime.now.mono_ms))

    def _keys(self) -> list[Hashable]:
        session = self.session
        if session.id:
            return [session.key]
        if self._reader.replica >= 0:
            return [entry.partition.grown for entry in session.entries.values() if entry.partition is not None]
        return [entry.partition.committed for entry in session.entries.values() if entry.partition is not None]

    def _look(self, entry: SessionPartition, bytes_max: int, first: bool, over_rate: bool) -> PartitionRead:
        if self._may_read is not None and not self._may_read(entry):
            return PartitionRead(entry, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        fetches = self._fetches
        partition, entry.warm = entry.partition, self._found.pop(entry, None)
        if partition is None or partition.removed:
            entry.warm = entry.aborted = None  # it is of the topic that had the name before
            fetches.replicas.attach(entry)
            if entry.partition is None:
                error = fetches.availability.absent(entry.topic, entry.number)
                leader = fetches.availability.leader(entry.topic, entry.number)
                return PartitionRead(entry, error, leader=leader.id, leader_epoch=leader.epoch)
        return look(fetches.replicas, entry, self._reader, bytes_max, first=first, over_rate=over_rate)

    def _read(self, cold: PartitionRead, looks: Sequence[PartitionRead], expired: bool, promised: int) -> Answer:
        """Have a job read what the last look needs from the disk, then look again."""
        self._fetches.connections.promise(self._call.connection, promised)
        # Else the partitions before this one would be read again, and what of them is cold with a job again.
        self._found = {
            one.entry: (one.entry.fetch_offset, one.below, one.records) for one in (*looks, cold) if one.size
        }
        assert cold.entry.partition is not None
        seen = partial(note_failure, self._fetches.replicas, cold.entry.partition)
        return Later(cold.cold, self._warming(cold.entry, expired, promised), seen=seen)

    def _warming(self, entry: SessionPartition, expired: bool, promised: int) -> Callable[[Any], Answer]:
        """Take in what a cold read has brought, and look again. It counts unless the session has gone on, or the
        partition was deleted meanwhile, and another one has its name."""
        partition, offset, log_to = entry.partition, entry.fetch_offset, self._fetches.runtime.log
        assert partition is not None
        layout = partition.log.layout

        def warmed(result: Any) -> Answer:
            self._fetches.connections.promise(self._call.connection, -promised)
            log = partition.log
            if self.session.epoch != self._epoch or entry.partition is not partition or partition.removed:
                return self._again(expired)
            if isinstance(result, FileNotFoundError) and not log.log_start_offset <= offset < log.log_end_offset:
                return self._again(expired)  # retention was faster
            if isinstance(result, FileNotFoundError) and log.layout != layout:
                return self._again(expired)  # the cleaner was
            if isinstance(result, AbortedFound):
                for one in result.rebuilt if log.layout == layout else ():  # else the cleaner may have taken the file
                    log_to.warning(f"{one.segment.aborted.path} is damaged, and is built again: {one.reason}")
                entry.aborted = result
            elif isinstance(result, Read):
                self._found[entry] = offset, result.next_offset, result.data
            elif isinstance(result, (DiskFailed, CorruptBatch, FileNotFoundError)):
                log_to.warning(f"cannot read {partition!r}: {result}")
                partition.unreadable = partition.unreadable or self._reader.replica != RESTORER
                entry.unread = offset
            return self._again(expired)

        return warmed
