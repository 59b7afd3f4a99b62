"""Fetch (1), versions 4 to 18: consumers and replicas.

Behaviour: fetch sessions (KIP-227, `broker/replication/fetch_sessions.py`), long poll
(`roles/broker/replication/delayed_fetch.py`), the answer (`api/fetch_response.py`), file bytes by reference, consumers sent
to the closest replica (KIP-392), leader epochs (KIP-320), diverging epochs (KIP-595). A broker that is fenced serves
replicas only. With isolation_level=1 a consumer gets what is below the last stable offset, and which transactions in it were
aborted (KIP-98).

Version notes: 7 sessions, 9 leader epoch, 10 zstd (KIP-110), 11 rack, 12 flexible and diverging epoch, 13 topic ids, 15
replica state tag, 16 node endpoints, 17 directory id, 18 high watermark tag (read by the quorum only).

Errors: TOPIC_AUTHORIZATION_FAILED, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR, FETCH_SESSION_ID_NOT_FOUND,
INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR, UNSUPPORTED_COMPRESSION_TYPE.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.authorization.rights import Node
from actors.broker.replication.fetch_sessions import SessionPartition, Wanted
from actors.broker.replication.reading import RESTORER, PartitionRead, Reader
from actors.node.api.contexts import BrokerContext
from actors.node.api.fetch_response import Response, response
from actors.node.api.replica_ids import CONSUMER, claimed, is_registered, near_brokers, restores
from actors.node.api.security.authorizer import from_broker
from actors.node.api.security.speakers import may_be
from actors.node.api.table import rpc
from actors.node.roles.broker.replication.delayed_fetch import DelayedFetch
from actors.node.runtime.answers import Answer, Close, Done
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.node.runtime.slices import ENTRIES_A_SLICE, SliceCount, Steps, go_on
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import FetchRequest

IDS_FROM = 13
ZSTD_FROM = 10
RACK_FROM = 11
READ_COMMITTED = 1
NODES_DO, CLUSTER, BROKER = Operation.CLUSTER_ACTION, Resource.CLUSTER, Node.BROKER
"""Module names, because every fetch of a follower uses them and the look-up of an enum member costs more."""
_RESPONSE = message("FetchResponse")


@rpc(
    1, "Fetch", range(4, 19), listeners=(Listener.CLIENT, Listener.INTER_BROKER), lane=Lane.DATA, reads=Subject.RECORDS
)
def fetch(context: BrokerContext, request: "FetchRequest", call: Call) -> Answer:
    """Answer at once, or park until enough bytes have come."""
    version, listener, may = call.api_version, call.listener_name, context.authorizer
    replica, broker_epoch = claimed(context, request, version)
    if replica < 0 and not context.availability.serving:
        return Close("this broker is fenced")
    if replica >= 0 and not (
        may.allowed(call, NODES_DO, CLUSTER) and may_be(call.principal, replica, BROKER, context.kind)
    ):
        return go_on(_denied(request, call))
    if replica == RESTORER and not restores(context, call):
        replica = CONSUMER
    registered = replica >= 0 and is_registered(context, replica, broker_epoch)
    # What claims to be a replica's is served as one; only a broker's connection is read and paid for as a broker's.
    follower = registered and from_broker(may, context.config, call)
    if follower:
        context.requests.connections.replicates(call.connection)
    now_ms = context.runtime.now.mono_ms
    if registered:
        context.cluster.heard_ms[replica] = now_ms
    committed = request.isolation_level == READ_COMMITTED
    opened = context.sessions.open(
        request.session_id,
        request.session_epoch,
        replica,
        version >= IDS_FROM,
        now_ms,
        registered=registered,
        principal=call.principal,
        committed_only=replica < 0 and committed,
    )
    if opened.ended:
        context.replicas.end_sessions(opened.ended)
    if opened.session is None:
        return Done(_RESPONSE(error_code=opened.error, session_id=0))
    leader_only = replica >= 0 or version < RACK_FROM
    near = None
    if context.cluster.rack_aware and not leader_only and request.rack_id:
        near = near_brokers(context, request.rack_id, listener)
    zstd = replica >= 0 or version >= ZSTD_FROM
    reader = Reader(replica, broker_epoch, leader_only, now_ms, replica < 0 and committed, near, zstd)
    charged = context.quotas.active and not follower
    may_read = partial(_may_read, context, call) if may.enabled and replica < 0 and replica != RESTORER else None
    least, most, wait_ms = request.min_bytes, request.max_bytes, request.max_wait_ms

    def respond(delayed: DelayedFetch, looks: Sequence[PartitionRead], throttle_ms: int) -> Response:
        return response(context, listener, committed, delayed, looks, throttle_ms)

    delayed = DelayedFetch(context.fetches, opened, reader, call, least, most, wait_ms, charged, may_read, respond)
    if _long(request):
        return delayed.begin_long(_wanted(request, version), _forgotten(request, version))
    return delayed.begin(_wanted(request, version) if request.topics else ())


def _denied(request: "FetchRequest", call: Call) -> Steps:
    """The answer to a peer that says that it is a replica, and may not be one."""
    reply, pace = _RESPONSE(), SliceCount()
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


def _may_read(context: BrokerContext, call: Call, entry: SessionPartition) -> bool:
    """Whether the consumer may read the topic of an entry. A topic id that nobody knows is judged as unknown."""
    topic = entry.topic
    name = topic if isinstance(topic, str) else context.cache.topic_name(topic)
    return name is None or context.authorizer.allowed(call, Operation.READ, Resource.TOPIC, name)


def _long(request: "FetchRequest") -> bool:
    """Whether a request may name more than a slice. Nearly all are shorter."""
    topics = request.topics
    if not topics:
        return bool(request.forgotten_topics_data)
    if request.forgotten_topics_data or len(topics) >= ENTRIES_A_SLICE:
        return True
    return sum([len(topic.partitions) for topic in topics]) >= ENTRIES_A_SLICE


def _wanted(request: "FetchRequest", version: int) -> Iterator[Wanted]:
    for topic in request.topics:
        name = topic.topic_id if version >= IDS_FROM else topic.topic
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


def _forgotten(request: "FetchRequest", version: int) -> Iterator[tuple[bytes | str, int]]:
    for topic in request.forgotten_topics_data:
        for number in topic.partitions:
            yield (topic.topic_id if version >= IDS_FROM else topic.topic), number
