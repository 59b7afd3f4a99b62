"""ShareFetch (78), versions 1 and 2: a member of a share group acquires records, and acknowledges earlier ones (KIP-932).

Behaviour: share sessions, long poll, acknowledgements before the fetch of the same request. Records are acquired as they are
read, and locked until they are acknowledged or the lock ends. Session epoch 0 begins a session, -1 ends it and gives back
what its member has. A request that renews locks brings no records (KIP-1222). The answer waits until the acknowledgements
are stored. Partitions take turns in being the first of an answer.

Version notes: 2 a strict limit on records (KIP-1206), renewals.

Over a quota the answer has no records, and nothing is acquired.

Errors: UNSUPPORTED_VERSION (the cluster has no share groups), INVALID_REQUEST, GROUP_AUTHORIZATION_FAILED,
SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED (after the time that the request may wait).
By partition: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, NOT_LEADER_OR_FOLLOWER,
KAFKA_STORAGE_ERROR, COORDINATOR_NOT_AVAILABLE, GROUP_ID_NOT_FOUND, UNKNOWN_SERVER_ERROR; for acknowledgements those of
ShareAcknowledge.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.broker.groups.share.delivery.acquisition import AcquisitionRequest
from actors.broker.groups.share.delivery.share_partition import ShareLimits
from actors.broker.groups.share.delivery.share_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    Named,
    SessionOwner,
    ShareSession,
)
from actors.broker.replication.admission import RequestRefused
from actors.node.api.contexts import BrokerContext
from actors.node.api.share.share_acknowledgements import Acknowledgements, AcknowledgementsOutcome
from actors.node.api.share.share_reads import READ_BYTES_MAX, SharePartitionRead, ShareReads, Taken
from actors.node.api.share.share_requests import NEVER_MS, admitted, leader_of
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Close, Done, Later, Parked
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.node.runtime.slices import SliceCount, Steps, go_on, in_slices
from actors.node.runtime.waiting import WAIT_MS_MAX
from actors.wire.errors import ErrorCode, text
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ShareFetchRequest, ShareFetchResponse

STRICT = 1
ANSWER_BYTES, PARTITION_BYTES = 16, 60
"""About how long an answer is beside its partitions, and what a partition takes beside its records."""
_RESPONSE = message("ShareFetchResponse")


@rpc(78, "ShareFetch", range(1, 3), listeners=(Listener.CLIENT,), lane=Lane.DATA, reads=Subject.RECORDS)
@in_slices
def share_fetch(context: BrokerContext, request: "ShareFetchRequest", call: Call) -> Steps:
    """Take in what the request says of its session, then its acknowledgements, then fetch."""
    if not context.availability.serving:
        return Close("this broker is fenced")
    epoch = request.share_session_epoch
    try:
        owner = admitted(context, request, call)
        _check_renewal(request)
        session, added = _session(context, owner, request, call)
    except RequestRefused as refused:
        answer = Done(_RESPONSE(error_code=refused.code, error_message=str(refused) or text(refused.code)))
        if refused.code is not ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            return answer
        # A client asks again at once: it is held up for as long as it wanted to wait.
        deadline_ms = context.runtime.now.mono_ms + max(0, min(request.max_wait_ms, WAIT_MS_MAX))
        return Parked([], deadline_ms, lambda expired: answer)
    acknowledgements = Acknowledgements(context, owner, call, renewing=request.is_renew_ack)
    yield from acknowledgements.take_in(request.topics, empty=False)
    fetch = _ShareFetch(context, request, owner, session, added, acknowledgements, call)
    if epoch == FINAL_EPOCH or request.is_renew_ack:
        return fetch.finish([], {})
    return (yield from fetch.steps(False))


def _check_renewal(request: "ShareFetchRequest") -> None:
    fields = ("max_bytes", "min_bytes", "max_records", "max_wait_ms")
    wrong = [name for name in fields if getattr(request, name)] if request.is_renew_ack else []
    if wrong:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, f"{', '.join(wrong)} must be 0 in a request that renews locks")


def _session(
    context: BrokerContext, owner: SessionOwner, request: "ShareFetchRequest", call: Call
) -> tuple[ShareSession, list[Named]]:
    """The session of a request, changed as it says, and the partitions that are new in it."""
    shares, epoch = context.shares, request.share_session_epoch
    named = [(topic.topic_id, one.partition_index) for topic in request.topics for one in topic.partitions]
    if epoch == INITIAL_EPOCH:
        if any(one.acknowledgement_batches for topic in request.topics for one in topic.partitions):
            raise RequestRefused(ErrorCode.INVALID_REQUEST, "the first request of a share session acknowledges nothing")
        session = shares.begin(owner, call.connection, call.principal)
    else:
        session = shares.sessions.follow(owner, epoch)
    added: list[Named] = []
    if epoch != FINAL_EPOCH:
        added = shares.sessions.add(session, named)
        gone = [(topic.topic_id, number) for topic in request.forgotten_topics_data for number in topic.partitions]
        if gone:
            shares.forget(session, gone)
    return session, added


class _ShareFetch:
    """One request, from its first look to its answer."""

    def __init__(
        self,
        context: BrokerContext,
        request: "ShareFetchRequest",
        owner: SessionOwner,
        session: ShareSession,
        added: Sequence[Named],
        acknowledgements: Acknowledgements,
        call: Call,
    ) -> None:
        """`added`: partitions that the answer names also where nothing is acquired of them."""
        self._context = context
        self._request = request
        self._owner = owner
        self._session = session
        self._epoch = session.epoch
        self._acknowledgements = acknowledgements
        self._call = call
        self._reads = ShareReads(context, owner, call)
        self._added = frozenset(added)
        self._places = [self._reads.place(named) for named in _rotated(session, request.share_session_epoch)]
        self._bytes_max = min(request.max_bytes, context.config.value("fetch.max.bytes"))
        if context.quotas.active:
            self._bytes_max = int(min(self._bytes_max, context.quotas.room(call)))
        self._bytes_min = min(request.min_bytes, self._bytes_max)
        self._deadline_ms = context.runtime.now.mono_ms + max(0, min(request.max_wait_ms, WAIT_MS_MAX))
        self._limits = context.shares.settings.limits(owner.group)
        self._throttle_ms = 0

    def attempt(self, expired: bool) -> Answer:
        """Look at every partition again; answer, or wait."""
        return go_on(self.steps(expired))

    def steps(self, expired: bool) -> Steps:
        """Look at every partition, slice by slice."""
        context, limits = self._context, self._limits
        pace = SliceCount()
        while True:
            if not context.availability.serving:
                return Close("this broker is fenced")
            if self._over():
                return Done(_RESPONSE(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH))
            readable = []
            for place in self._places:
                if self._reads.readable(place, limits):
                    readable.append(place)
                if pace.over():
                    yield
                    if self._over():
                        return Done(_RESPONSE(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH))
            later = self._read(readable, limits, expired)
            if later is not None:
                return later
            if not (self._enough(readable) or expired or self._hopeless()):
                return self._parked()
            if not self._within_quota(readable):
                return self.finish([], {})
            before = [(place, place.offset) for place in readable if place.found is not None and place.found.size]
            taken = self._take(readable, limits)
            if taken or expired or self._hopeless():
                return self.finish([place for place in self._places if place.error], taken)
            if not any(place.held and place.held.share.next_offset() != offset for place, offset in before):
                return self._parked()
            yield  # what was read is for nobody: look behind it

    def finish(self, failed: Sequence[SharePartitionRead], taken: dict[Named, Taken]) -> Answer:
        """Answer once the acknowledgements are stored."""
        keys = self._acknowledgements.waits()
        if keys:
            return Parked(keys, NEVER_MS, lambda expired: self.finish(failed, taken))
        if self._request.share_session_epoch == FINAL_EPOCH:
            self._context.shares.end(self._session)
        return go_on(self._answer(failed, taken))

    # ---- reading

    def _over(self) -> bool:
        """Whether the session has gone on without this request."""
        sessions = self._context.shares.sessions
        return sessions.by_owner.get(self._owner) is not self._session or self._session.epoch != self._epoch

    def _hopeless(self) -> bool:
        """Whether waiting brings nothing: nothing is wanted, or no partition can be read."""
        wanted = self._bytes_max > 0 and self._request.max_records > 0
        return not wanted or all(place.error for place in self._places)

    def _read(self, readable: Sequence[SharePartitionRead], limits: ShareLimits, expired: bool) -> Later | None:
        """Look at what may be read, until it is as much as the member wants. A job: something has to be read from the disk
        first."""
        left = self._request.max_records
        if not readable or left <= 0:
            return None
        context, connections, total = self._context, self._context.requests.connections, 0
        bytes_max = connections.room(self._call.connection, self._bytes_max)
        share = min(READ_BYTES_MAX, bytes_max // len(readable))
        for place in readable:
            if left <= 0:
                break
            found = self._reads.look(place, left, max(1, min(share, bytes_max - total)), limits, first=total == 0)
            if found.cold is not None:
                assert place.held is not None
                place.held.reading = True
                for read in readable:  # else it would be read again, and with a job again where it is not in memory
                    read.keep()
                promised = total + max(0, share)
                connections.promise(self._call.connection, promised)
                return Later(
                    found.cold,
                    partial(self._warmed, place, promised, expired),
                    seen=partial(self._reads.seen, place),
                )
            total += found.size
            if found.size and place.held is not None:
                left -= place.held.share.unseen(found.below, limits)
        context.appends.signal()
        return None

    def _warmed(self, place: SharePartitionRead, promised: int, expired: bool, result: Any) -> Answer:
        self._context.requests.connections.promise(self._call.connection, -promised)
        self._reads.warmed(place, result)
        return self.attempt(expired)

    def _enough(self, readable: Sequence[SharePartitionRead]) -> bool:
        """Whether there is as much as the member waits for; it gets no more than the records that it wants."""
        some = any(place.found is not None and place.found.size > 0 for place in readable)
        if self._bytes_min <= 1:
            return some or self._bytes_min <= 0
        return some and sum(self._reads.available(place, self._limits) for place in readable) >= self._bytes_min

    def _within_quota(self, readable: Sequence[SharePartitionRead]) -> bool:
        """Charge what is about to be given."""
        if not self._context.quotas.active:
            return True
        size = sum(place.found.size + PARTITION_BYTES for place in readable if place.found is not None)
        verdict = self._context.quotas.fetched(self._call, ANSWER_BYTES + size)
        self._throttle_ms = verdict.throttle_ms
        return not verdict.withheld

    def _take(self, readable: Sequence[SharePartitionRead], limits: ShareLimits) -> dict[Named, Taken]:
        """Acquire, partition by partition, until the member has as many records as it wants."""
        request, taken, left = self._request, dict[Named, Taken](), self._request.max_records
        for place in readable:
            if left <= 0:
                break
            ask = AcquisitionRequest(
                self._owner.member,
                left,
                max(1, request.batch_size),
                request.share_acquire_mode == STRICT,
                self._context.runtime.now.mono_ms + limits.lock_duration_ms,
                limits.delivery_limit,
                limits.in_flight_max,
            )
            found = self._reads.take(place, ask)
            if found is not None:
                taken[place.named] = found
                left -= sum(one.last - one.first + 1 for one in found.acquired)
        return taken

    def _parked(self) -> Parked:
        places: dict[Hashable, SharePartitionRead] = {}
        for place in self._places:
            if place.held is not None:
                places[place.held.key] = places[place.held.partition.committed] = place
        return Parked(list(places), self._deadline_ms, self.attempt, idle=partial(self._idle, places), early=True)

    def _idle(self, places: Mapping[Hashable, SharePartitionRead], key: Hashable) -> bool:
        """Whether a signal says nothing to this request."""
        place = places.get(key)
        return place is not None and self._reads.idle(place, self._limits)

    # ---- the answer

    def _answer(self, failed: Sequence[SharePartitionRead], taken: dict[Named, Taken]) -> Steps:
        if not self._context.availability.serving:
            return Close("this broker is fenced")
        pace, topics = SliceCount(), dict[bytes, Any]()
        leaders: dict[int, None] = {}
        errors = {place.named: place.error for place in failed}
        for place in self._places:
            if place.named in self._added and place.held is not None and place.held.share.active:
                errors.setdefault(place.named, ErrorCode.NONE)
        outcomes = self._acknowledgements.outcomes
        for named in dict.fromkeys((*errors, *taken, *outcomes)):
            topic_id, number = named
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = _RESPONSE.ShareFetchableTopicResponse(topic_id=topic_id, partitions=[])
            error = errors.get(named, ErrorCode.NONE)
            data = _data(number, error, taken.get(named), outcomes.get(named))
            if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                leader, epoch = leader_of(self._context, topic_id, number)
                data.current_leader = _RESPONSE.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
                leaders[leader] = None
            topic.partitions.append(data)
            if pace.over():
                yield
        cache = self._context.cache
        return Done(
            _RESPONSE(
                throttle_time_ms=self._throttle_ms,
                acquisition_lock_timeout_ms=self._limits.lock_duration_ms,
                responses=list(topics.values()),
                node_endpoints=cache.node_endpoints(leaders, _RESPONSE.NodeEndpoint, self._call.listener_name),
            )
        )


def _rotated(session: ShareSession, epoch: int) -> Iterator[Named]:
    """The partitions of a session; which one is the first changes with its epoch."""
    named = list(session.partitions)
    begin = epoch % len(named) if named else 0
    yield from named[begin:]
    yield from named[:begin]


def _data(
    number: int, error: ErrorCode, taken: Taken | None, outcome: AcknowledgementsOutcome | None
) -> "ShareFetchResponse.PartitionData":
    data = _RESPONSE.PartitionData(partition_index=number, error_code=error, records=b"")
    if error:
        data.error_message = text(error)
    if taken is not None:
        data.records = taken.records
        data.acquired_records = [
            _RESPONSE.AcquiredRecords(first_offset=one.first, last_offset=one.last, delivery_count=one.delivery_count)
            for one in taken.acquired
        ]
    if outcome is not None:
        data.acknowledge_error_code, data.acknowledge_error_message = outcome
    return data
