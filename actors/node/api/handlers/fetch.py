"""Fetch (1), versions 4 to 18: consumers and replicas.

Behaviour: fetch sessions (KIP-227), long poll, one batch at least whatever the limits, file bytes by reference, consumers
sent to the closest replica (KIP-392), leader epochs (KIP-320), diverging epochs (KIP-595). A broker that is fenced serves
replicas only. With isolation_level=1 a consumer gets what is below the last stable offset, and which transactions in it
were aborted (KIP-98).

A fetcher that wants more bytes (`min_bytes`) than one answer can have does not wait for them: where more is there than what
was read, at the end of a segment or of a limit, the answer leaves.

Version notes: 7 sessions, 9 leader epoch, 10 zstd (KIP-110), 11 rack, 12 flexible and diverging epoch, 13 topic ids, 15
replica state tag, 16 node endpoints, 17 directory id, 18 high watermark tag (read by the quorum only).

Over a quota (KIP-13, KIP-219) the answer has no records, and the session is as before it; a session that would begin does
not.

Errors: TOPIC_AUTHORIZATION_FAILED, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR, FETCH_SESSION_ID_NOT_FOUND,
INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR, UNSUPPORTED_COMPRESSION_TYPE.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any

from actors.authorization.resources import Operation, Resource
from actors.authorization.rights import Node
from actors.broker.log.aborted_search import AbortedFound
from actors.broker.log.log import Read
from actors.broker.replication.closest_replica import LEADER, Near
from actors.broker.replication.reading import RESTORER, Look, Reader, look, note_failure
from actors.broker.replication.sessions import Entry, Session, Wanted, Warm
from actors.node.api.contexts import BrokerContext
from actors.node.api.security.authorizer import from_broker
from actors.node.api.security.speakers import may_be, named
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Close, Done, Later, Parked
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.node.runtime.slices import ENTRIES_A_SLICE, Pace, Steps, go_on
from actors.node.runtime.waiting import WAIT_MS_MAX
from actors.ports import DiskFailed
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.batch import CorruptBatch

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import FetchRequest, FetchResponse

IDS_FROM = 13
ZSTD_FROM = 10
RACK_FROM = 11
STATE_FROM = 15
CONSUMER = -1
READ_COMMITTED = 1
ANSWER_BYTES, PARTITION_BYTES = 16, 58
"""About how long an answer is beside its partitions, and what a partition takes beside its records."""
MOVED = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH))
_RESPONSE = message("FetchResponse")


@rpc(
    1, "Fetch", range(4, 19), listeners=(Listener.CLIENT, Listener.INTER_BROKER), lane=Lane.DATA, reads=Subject.RECORDS
)
def fetch(context: BrokerContext, request: "FetchRequest", call: Call) -> Answer:
    """Answer at once, or park until enough bytes have come."""
    replica, broker_epoch = _replica(context, request, call.api_version)
    if replica < 0 and not context.lookups.serving:
        return Close("this broker is fenced")
    may = context.authorizer
    if replica >= 0 and not (
        may.allowed(call, Operation.CLUSTER_ACTION, Resource.CLUSTER)
        and may_be(call.principal, replica, Node.BROKER, context.kind)
    ):
        return go_on(_denied(request, call))
    now_ms = context.runtime.now.mono_ms
    if replica == RESTORER and not _restores(context, call):
        replica = CONSUMER
    registered = replica >= 0 and _registered(context, replica, broker_epoch)
    # What claims to be a replica's is served as one; only a broker's connection is read and paid for as a broker's.
    follower = registered and from_broker(may, context.config, call)
    if follower:
        context.requests.connections.replicates(call.connection)
    if registered:
        context.cluster.heard_ms[replica] = now_ms
    uses_ids = call.api_version >= IDS_FROM
    for session in context.sessions.evict(now_ms):
        context.replicas.end_session(session)
    opened = context.sessions.open(
        request.session_id,
        request.session_epoch,
        replica,
        uses_ids,
        now_ms,
        registered=registered,
        principal=call.principal,
    )
    if opened.closed is not None:
        context.replicas.end_session(opened.closed)
    if opened.session is None:
        return Done(_RESPONSE(error_code=opened.error, session_id=0))
    if registered and not opened.incremental:
        for old in context.sessions.replica_sessions(replica):
            if old is not opened.session:
                context.sessions.close(old)
                context.replicas.end_session(old)
    committed_only = replica < 0 and request.isolation_level == READ_COMMITTED
    if committed_only is not opened.session.committed_only:
        opened.session.isolate(committed_only)
    leader_only = replica >= 0 or call.api_version < RACK_FROM
    near = None
    if context.cluster.rack_aware and not leader_only and request.rack_id:
        near = _near(context, request.rack_id, call.listener_name)
    zstd = replica >= 0 or call.api_version >= ZSTD_FROM
    reader = Reader(replica, broker_epoch, leader_only, now_ms, committed_only, near, zstd)
    attempt = _Fetch(context, request, opened.session, opened.incremental, reader, uses_ids, call)
    if context.quotas.active and not follower:
        attempt.limit(call)
    # A request that is parked in this session is answered now: this one takes its place.
    context.runtime.waiting.signal(opened.session.key)
    if _taken_in(context, opened.session, request, uses_ids):
        return attempt.attempt(False)
    return go_on(attempt.first(request))


def _denied(request: "FetchRequest", call: Call) -> Steps:
    """The answer to somebody who says that it is a replica, and may not be one."""
    reply, pace = _RESPONSE(), Pace()
    for topic in request.topics:
        named = {"topic_id": topic.topic_id} if call.api_version >= IDS_FROM else {"topic": topic.topic}
        answer = _RESPONSE.FetchableTopicResponse(**named, partitions=[])
        reply.responses.append(answer)
        for one in topic.partitions:
            answer.partitions.append(
                _RESPONSE.PartitionData(
                    partition_index=one.partition,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    high_watermark=-1,
                    records=None,
                )
            )
            if pace.over():
                yield
        if pace.over():
            yield
    return Done(reply)


def _restores(context: BrokerContext, call: Call) -> bool:
    """Whether who says that it mends a replica is a broker: it may read what it could fetch as a replica."""
    ids = named(call.principal)
    brokers = ids is None or any(context.kind(id) & Node.BROKER for id in ids)
    return brokers and from_broker(context.authorizer, context.config, call)


def _registered(context: BrokerContext, replica: int, broker_epoch: int) -> bool:
    """Whether who asks is a broker of this cluster, in its present life. Registered is meant, fenced or not: a fenced broker
    goes on replicating (A30), an absent one is nobody. One whose registration has not been heard of yet is served like a
    client."""
    broker = context.cache.image.broker(replica)
    return broker is not None and broker.epoch == broker_epoch


def _near(context: BrokerContext, rack: str, listener: str) -> Near:
    """Which brokers are in a consumer's rack, and are reached on the listener that it uses."""

    def near(broker: int) -> bool:
        registration = context.cache.image.broker(broker)
        return (
            registration is not None
            and registration.rack == rack
            and context.cache.endpoint(broker, listener) is not None
        )

    return near


def _replica(context: BrokerContext, request: "FetchRequest", version: int) -> tuple[int, int]:
    """(who asks or -1, its broker epoch). Before version 15 a request does not tell the epoch, and brokers in ZooKeeper mode
    need not tell it later: they ask in their present life. Another broker that does not tell it is served like a client."""
    if version < STATE_FROM:
        replica, epoch = request.replica_id, -1
    else:
        state = request.replica_state
        replica, epoch = (-1, -1) if state is None else (state.replica_id, state.replica_epoch)
    if replica >= 0 and epoch < 0:
        registration = context.cache.image.broker(replica)
        if registration is not None and registration.zookeeper:
            epoch = registration.epoch
    return replica, epoch


def _taken_in(context: BrokerContext, session: Session, request: "FetchRequest", uses_ids: bool) -> bool:
    """Take in at once what a request says that is shorter than a slice, as nearly all are. False: it is not."""
    topics = request.topics
    if not topics:
        return not request.forgotten_topics_data
    if request.forgotten_topics_data or len(topics) >= ENTRIES_A_SLICE:
        return False
    if sum([len(topic.partitions) for topic in topics]) >= ENTRIES_A_SLICE:
        return False
    added = session.want(_wanted(request, uses_ids))
    if added:
        for entry in added:
            context.replicas.attach(entry)
        if not context.sessions.grew(session, len(added)):
            _attach_anew(context, session)
    return True


def _attach_anew(context: BrokerContext, session: Session) -> None:
    """The session cannot be found again: partitions need not tell it what changes."""
    for entry in session.entries.values():
        context.replicas.detach(entry)
        context.replicas.attach(entry)


def _update(
    context: BrokerContext, session: Session, request: "FetchRequest", uses_ids: bool
) -> Generator[None, None, None]:
    """Take in what the request says. A session that ends, or goes on, between two slices takes in no more."""
    epoch, kept = session.epoch, True
    wanted = _wanted(request, uses_ids)
    while portion := list(islice(wanted, ENTRIES_A_SLICE)):
        added = session.want(portion)
        for entry in added:
            context.replicas.attach(entry)
        kept = context.sessions.grew(session, len(added)) and kept
        if len(portion) < ENTRIES_A_SLICE:
            break
        yield
        if session.epoch != epoch:
            return
    if request.forgotten_topics_data:
        forgotten = _forgotten(request, uses_ids)
        while keys := list(islice(forgotten, ENTRIES_A_SLICE)):
            gone = session.forget(keys)
            for entry in gone:
                context.replicas.detach(entry)
            kept = context.sessions.grew(session, -len(gone)) and kept
            if len(keys) == ENTRIES_A_SLICE:
                yield
                if session.epoch != epoch:
                    return
    if not kept:
        _attach_anew(context, session)


def _wanted(request: "FetchRequest", uses_ids: bool) -> Iterator[Wanted]:
    for topic in request.topics:
        name = topic.topic_id if uses_ids else topic.topic
        for one in topic.partitions:
            yield Wanted(
                name,
                one.partition,
                one.fetch_offset,
                one.current_leader_epoch,
                one.last_fetched_epoch,
                one.log_start_offset,
                one.partition_max_bytes,
            )


def _forgotten(request: "FetchRequest", uses_ids: bool) -> Iterator[tuple[bytes | str, int]]:
    for topic in request.forgotten_topics_data:
        for number in topic.partitions:
            yield (topic.topic_id if uses_ids else topic.topic), number


class _Reply:
    """An answer that is being put together."""

    __slots__ = ("long", "moved", "sent", "topics")

    def __init__(self) -> None:
        self.topics: dict[bytes | str, Any] = {}
        self.moved: dict[int, None] = {}
        """Brokers that lead what the fetcher has asked here."""
        self.sent: list[Entry] = []
        """What is dirty again behind the rest: until the fetcher names its new position, it may have thrown this away."""
        self.long: list[tuple[Any, Sequence[tuple[int, int]]]] = []
        """Partitions whose aborted transactions are more than a slice, and have only their first slice yet."""


class _Fetch:
    """One request, from its first look to its answer."""

    __slots__ = (
        "_authorized",
        "_bytes_max",
        "_bytes_min",
        "_call",
        "_charged",
        "_committed_only",
        "_connection",
        "_context",
        "_deadline_ms",
        "_epoch",
        "_found",
        "_hastens",
        "_incremental",
        "_listener",
        "_reader",
        "_session",
        "_throttle_ms",
        "_uses_ids",
    )

    def __init__(
        self,
        context: BrokerContext,
        request: "FetchRequest",
        session: Session,
        incremental: bool,
        reader: Reader,
        uses_ids: bool,
        call: Call,
    ) -> None:
        self._context = context
        self._session = session
        self._epoch = session.epoch
        self._found: dict[Entry, Warm] = {}
        """What has been read for this answer by the time a job for another partition had to be waited for."""
        self._incremental = incremental
        self._reader = reader
        self._hastens = reader.replica >= 0 and context.cluster.rack_aware
        """Whether a high watermark that a follower does not know is a reason to answer (KIP-392)."""
        self._uses_ids = uses_ids
        self._call = call
        self._authorized = context.authorizer.enabled and reader.replica < 0 and reader.replica != RESTORER
        """Whether each partition is looked at for the right to read it, each time: rules may change."""
        self._listener = call.listener_name
        self._connection = call.connection
        self._bytes_min = request.min_bytes
        self._committed_only = request.isolation_level == READ_COMMITTED
        self._bytes_max = min(request.max_bytes, context.config.value("fetch.max.bytes"))
        # A replica's new session is answered at once: until it has one it cannot name what changes meanwhile.
        wait_ms = 0 if reader.replica >= 0 and session.id and not incremental else min(request.max_wait_ms, WAIT_MS_MAX)
        self._deadline_ms = context.runtime.now.mono_ms + wait_ms

        self._charged: Call | None = None
        """What is charged; None: nothing is."""
        self._throttle_ms = 0

    def limit(self, call: Call) -> None:
        """Its client may have a quota: then it asks for no more than the quota allows at once."""
        self._charged = call
        room = self._context.quotas.room(call)
        if room < self._bytes_max:
            self._bytes_max = int(room)
            self._bytes_min = min(self._bytes_min, self._bytes_max)

    def first(self, request: "FetchRequest") -> Steps:
        """Take in what the request says, then look for the first time."""
        yield from _update(self._context, self._session, request, self._uses_ids)
        return (yield from self.steps(False))

    def attempt(self, expired: bool) -> Answer:
        """Look at whatever is dirty; answer, or wait."""
        return go_on(self.steps(expired))

    def steps(self, expired: bool) -> Steps:
        """The same, slice by slice. What was looked at in an earlier slice is dirty only if it changed since."""
        session, context = self._session, self._context
        if self._reader.replica < 0 and not context.lookups.serving:
            return Close("this broker is fenced")
        if session.epoch != self._epoch:
            return Done(_RESPONSE(session_id=session.id))
        looks: list[Look] = []
        clean = 0
        """So many looks were taken off the dirty entries."""
        total, urgent = 0, False
        bytes_max = self._context.requests.connections.room(self._connection, self._bytes_max)
        over_rate = self._reader.replica >= 0 and self._over_rate()
        for entry in list(session.dirty):
            found = self._look(entry, bytes_max - total, total == 0, over_rate)
            if found.cold is not None:
                _soil(session, looks[:clean])
                promised = total + max(0, min(entry.bytes_max, bytes_max - total))
                self._context.requests.connections.promise(self._connection, promised)
                # Else the partitions before this one would be read again, and what of them is cold with a job again.
                self._found = {
                    one.entry: (one.entry.fetch_offset, one.below, one.records) for one in (*looks, found) if one.size
                }
                assert entry.partition is not None
                seen = partial(note_failure, self._context.replicas, entry.partition)
                return Later(found.cold, self._warming(entry, expired, promised), seen=seen)
            looks.append(found)
            total += found.size
            urgent = urgent or found.urgent or (found.more and total > 0 and not (over_rate and found.left_out))
            if self._hastens and found.high_watermark > entry.told_high_watermark:
                urgent = True
            if not len(looks) % ENTRIES_A_SLICE:
                _clean(session, looks[clean:])
                clean = len(looks)
                context.appends.signal()
                yield
                if session.epoch != self._epoch:
                    return Done(_RESPONSE(session_id=session.id))
        context.appends.signal()
        now_ms = self._context.runtime.now.mono_ms
        if not (expired or urgent or self._enough(total) or now_ms >= self._deadline_ms or not session.entries):
            if clean:
                _soil(session, looks[:clean])
            return Parked(self._keys(), self._due_ms(over_rate, looks), self.attempt, early=True)
        if self._charged is not None:
            verdict = self._context.quotas.fetched(self._charged, total + self._overhead(looks))
            self._throttle_ms = verdict.throttle_ms
            if verdict.withheld:
                _soil(session, looks[:clean])
                return self._withheld()
        _clean(session, looks[clean:] if clean else looks)
        reply = _Reply()
        if len(looks) < ENTRIES_A_SLICE:
            self._tell(looks, reply)
        else:
            for begin in range(0, len(looks), ENTRIES_A_SLICE):
                portion = looks[begin : begin + ENTRIES_A_SLICE]
                self._tell(portion, reply)
                if len(portion) == ENTRIES_A_SLICE:
                    yield
                    if session.epoch != self._epoch:
                        return Done(_RESPONSE(session_id=session.id))
        for data, aborted in reply.long:
            for begin in range(ENTRIES_A_SLICE, len(aborted), ENTRIES_A_SLICE):
                yield
                if session.epoch != self._epoch:
                    return Done(_RESPONSE(session_id=session.id))
                data.aborted_transactions += _aborted(aborted[begin : begin + ENTRIES_A_SLICE])
        return self._done(reply)

    def _enough(self, total: int) -> bool:
        """Whether so many bytes are worth an answer: as many as the fetcher wants, or as the answer can have."""
        if total >= self._bytes_min:
            return True
        if not total or total >= self._bytes_max:
            return total > 0
        # Nearly always the first partition alone may have more: a session of many is not walked whenever one has grown.
        room = accumulate(one.bytes_max for one in self._session.entries.values())
        return not any(most > total for most in room)

    def _overhead(self, looks: Sequence[Look]) -> int:
        """About how many bytes an answer has beside the records."""
        told = len(looks) if not self._incremental else sum(found.news for found in looks)
        return ANSWER_BYTES + PARTITION_BYTES * told

    def _withheld(self) -> Answer:
        """An answer without partitions. Its client asks again, as if it had not asked."""
        session = self._session
        if not self._incremental and session.id:
            self._context.sessions.close(session)
            self._context.replicas.end_session(session)
        session_id = session.id if self._incremental else 0
        return Done(_RESPONSE(session_id=session_id, throttle_time_ms=self._throttle_ms))

    def _over_rate(self) -> bool:
        context = self._context
        return context.cluster.leader_throttle.over(context.runtime.now.mono_ms)

    def _due_ms(self, over_rate: bool, looks: Iterable[Look]) -> int:
        """When to answer at the latest: whoever is held back need not wait longer than that lasts."""
        if not over_rate or not any(found.left_out for found in looks):
            return self._deadline_ms
        now_ms = self._context.runtime.now.mono_ms
        return min(self._deadline_ms, self._context.cluster.leader_throttle.due_ms(now_ms))

    def _look(self, entry: Entry, bytes_max: int, first: bool, over_rate: bool) -> Look:
        if self._authorized and not self._may_read(entry):
            return Look(entry, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition, entry.warm = entry.partition, self._found.pop(entry, None)
        if partition is None or partition.removed:
            entry.warm = entry.aborted = None  # it is of the topic that had the name before
            self._context.replicas.attach(entry)
            if entry.partition is None:
                error = self._context.lookups.absent(entry.topic, entry.number)
                leader = self._context.lookups.leader(entry.topic, entry.number)
                return Look(entry, error, leader=leader.id, leader_epoch=leader.epoch)
        return look(self._context.replicas, entry, self._reader, bytes_max, first=first, over_rate=over_rate)

    def _may_read(self, entry: Entry) -> bool:
        """Whether the consumer may read that topic. A topic id that nobody knows is judged as unknown."""
        context, topic = self._context, entry.topic
        name = topic if isinstance(topic, str) else context.cache.topic_name(topic)
        return name is None or context.authorizer.allowed(self._call, Operation.READ, Resource.TOPIC, name)

    def _warming(self, entry: Entry, expired: bool, promised: int) -> Callable[[Any], Answer]:
        """What follows a cold read. It counts unless the session has gone on, or the partition was deleted meanwhile, and
        another one has its name."""
        partition, offset = entry.partition, entry.fetch_offset
        assert partition is not None
        layout = partition.log.layout

        def warmed(result: Any) -> Answer:
            self._context.requests.connections.promise(self._connection, -promised)
            log = partition.log
            if self._session.epoch != self._epoch or entry.partition is not partition or partition.removed:
                return self.attempt(expired)
            if isinstance(result, FileNotFoundError) and not log.log_start_offset <= offset < log.log_end_offset:
                return self.attempt(expired)  # retention was faster
            if isinstance(result, FileNotFoundError) and log.layout != layout:
                return self.attempt(expired)  # the cleaner was
            if isinstance(result, AbortedFound):
                for one in result.rebuilt if log.layout == layout else ():  # else the cleaner may have taken the file
                    where = one.segment.aborted.path
                    self._context.runtime.log.warning(f"{where} is damaged, and is built again: {one.reason}")
                entry.aborted = result
            elif isinstance(result, Read):
                self._found[entry] = offset, result.next_offset, result.data
            elif isinstance(result, (DiskFailed, CorruptBatch, FileNotFoundError)):
                self._context.runtime.log.warning(f"cannot read {partition!r}: {result}")
                partition.unreadable = partition.unreadable or self._reader.replica != RESTORER
                entry.unread = offset
            return self.attempt(expired)

        return warmed

    def _keys(self) -> list[Hashable]:
        session = self._session
        if session.id:
            return [session.key]
        if self._reader.replica >= 0:
            return [entry.partition.grown for entry in session.entries.values() if entry.partition is not None]
        return [entry.partition.committed for entry in session.entries.values() if entry.partition is not None]

    def _tell(self, looks: Iterable[Look], reply: "_Reply") -> None:
        """Put into the answer what was found."""
        session, topics = self._session, reply.topics
        replica = self._reader.replica >= 0
        for found in looks:
            entry = found.entry
            if replica and found.size and entry.partition is not None and entry.partition.throttled_as_leader:
                self._context.cluster.leader_throttle.count(found.size, self._context.runtime.now.mono_ms)
            if not self._incremental or found.news:
                topic = topics.get(entry.topic)
                if topic is None:
                    topic = topics[entry.topic] = self._topic(entry.topic)
                data = _partition_data(found, self._committed_only)
                topic.partitions.append(data)
                entry.told_high_watermark = found.high_watermark
                if found.aborted:
                    data.aborted_transactions = _aborted(found.aborted[:ENTRIES_A_SLICE])
                    if len(found.aborted) > ENTRIES_A_SLICE:
                        reply.long.append((data, found.aborted))
                if found.error in MOVED:
                    reply.moved[found.leader] = None
            entry.sent_high_watermark, entry.sent_log_start = found.high_watermark, found.log_start
            if found.left_out:
                session.dirty[entry] = None
            elif found.size or found.urgent:
                reply.sent.append(entry)

    def _done(self, reply: "_Reply") -> Answer:
        session = self._session
        for entry in reply.sent:
            session.dirty[entry] = None
        response = _RESPONSE(
            throttle_time_ms=self._throttle_ms, session_id=session.id, responses=list(reply.topics.values())
        )
        if reply.moved:
            response.node_endpoints = self._context.cache.node_endpoints(
                reply.moved, _RESPONSE.NodeEndpoint, self._listener
            )
        return Done(response)

    def _topic(self, topic: bytes | str) -> "FetchResponse.FetchableTopicResponse":
        if isinstance(topic, bytes):  # by id, from version 13 on
            return _RESPONSE.FetchableTopicResponse(topic_id=topic, partitions=[])
        return _RESPONSE.FetchableTopicResponse(topic=topic, partitions=[])


def _clean(session: Session, looks: Iterable[Look]) -> None:
    """What was looked at is clean, until it changes."""
    for found in looks:
        session.dirty.pop(found.entry, None)


def _soil(session: Session, looks: Sequence[Look]) -> None:
    """What was looked at is to be looked at again, before the rest, as it was."""
    if looks:
        session.dirty = dict.fromkeys(found.entry for found in looks) | session.dirty


def _partition_data(found: Look, committed_only: bool) -> "FetchResponse.PartitionData":
    data = _RESPONSE.PartitionData(
        partition_index=found.entry.number,
        error_code=found.error,
        high_watermark=found.high_watermark,
        last_stable_offset=found.last_stable,
        log_start_offset=found.log_start,
        records=found.records or b"",
        aborted_transactions=[] if committed_only else None,
    )
    if found.diverging is not None:
        data.diverging_epoch = _RESPONSE.EpochEndOffset(epoch=found.diverging[0], end_offset=found.diverging[1])
    if found.preferred != LEADER:
        data.preferred_read_replica = found.preferred
    if found.error in MOVED:
        data.current_leader = _RESPONSE.LeaderIdAndEpoch(leader_id=found.leader, leader_epoch=found.leader_epoch)
    return data


def _aborted(some: Sequence[tuple[int, int]]) -> list["FetchResponse.AbortedTransaction"]:
    return [
        _RESPONSE.AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
        for producer_id, first_offset in some
    ]
