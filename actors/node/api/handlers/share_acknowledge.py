"""ShareAcknowledge (79), versions 1 and 2: a member of a share group says what becomes of records that it has (KIP-932).

Behaviour: each partition's acknowledgements hold, or do not, by themselves; the answer waits until they are stored. A
request belongs to the member's share session on this broker and counts in it; with session epoch -1 it ends the session, and
what the member still has goes to others.

Version notes: 2 renewals of acquisition locks, and how long a lock lasts (KIP-1222).

Errors: UNSUPPORTED_VERSION (the cluster has no share groups), INVALID_REQUEST (group or member id),
GROUP_AUTHORIZATION_FAILED, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH. By partition: UNKNOWN_TOPIC_ID,
UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, NOT_LEADER_OR_FOLLOWER, INVALID_REQUEST (batches that make no sense),
INVALID_RECORD_STATE, COORDINATOR_NOT_AVAILABLE, GROUP_ID_NOT_FOUND.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from actors.broker.groups.share.delivery.share_sessions import FINAL_EPOCH, INITIAL_EPOCH, Named, ShareSession
from actors.broker.replication.admission import RequestRefused
from actors.node.api.contexts import BrokerContext
from actors.node.api.share.share_acknowledgements import Acknowledgements
from actors.node.api.share.share_requests import NEVER_MS, admitted, leader_of
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Close, Done, Parked
from actors.node.runtime.calls import Call, Lane, Listener
from actors.node.runtime.slices import ENTRIES_A_SLICE, Steps, go_on, in_slices
from actors.wire.errors import ErrorCode, text
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ShareAcknowledgeRequest

_RESPONSE = message("ShareAcknowledgeResponse")


@rpc(79, "ShareAcknowledge", range(1, 3), listeners=(Listener.CLIENT,), lane=Lane.DATA)
@in_slices
def share_acknowledge(context: BrokerContext, request: "ShareAcknowledgeRequest", call: Call) -> Steps:
    """Take in every partition, then wait until all of it is stored."""
    if not context.availability.serving:
        return Close("this broker is fenced")
    try:
        owner = admitted(context, request, call)
        if request.share_session_epoch == INITIAL_EPOCH:
            raise RequestRefused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session = context.shares.sessions.follow(owner, request.share_session_epoch)
    except RequestRefused as refused:
        return Done(_RESPONSE(error_code=refused.code, error_message=str(refused) or text(refused.code)))
    taken = Acknowledgements(context, owner, call, renewing=request.is_renew_ack)
    yield from taken.take_in(request.topics, empty=True)
    named = [(topic.topic_id, one.partition_index) for topic in request.topics for one in topic.partitions]
    ends = session if request.share_session_epoch == FINAL_EPOCH else None
    return _wait(context, taken, named, ends, call)


def _wait(
    context: BrokerContext, taken: Acknowledgements, named: Sequence[Named], ends: ShareSession | None, call: Call
) -> Answer:
    keys = taken.waits()
    if keys:
        return Parked(keys, NEVER_MS, lambda expired: _wait(context, taken, named, ends, call))
    if ends is not None:
        context.shares.end(ends)
    return go_on(_answer(context, taken, named, call))


def _answer(context: BrokerContext, taken: Acknowledgements, named: Sequence[Named], call: Call) -> Steps:
    if not context.availability.serving:
        return Close("this broker is fenced")
    topics: dict[bytes, Any] = {}
    leaders: dict[int, None] = {}
    for place, (topic_id, number) in enumerate(dict.fromkeys(named)):
        outcome = taken.outcomes[topic_id, number]
        data = _RESPONSE.PartitionData(partition_index=number, error_code=outcome.code, error_message=outcome.text)
        if outcome.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            leader, epoch = leader_of(context, topic_id, number)
            data.current_leader = _RESPONSE.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
            leaders[leader] = None
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = _RESPONSE.ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=[])
        topic.partitions.append(data)
        if place % ENTRIES_A_SLICE == ENTRIES_A_SLICE - 1:
            yield
    lock_ms = context.shares.settings.limits(taken.owner.group).lock_duration_ms
    return Done(
        _RESPONSE(
            acquisition_lock_timeout_ms=lock_ms,
            responses=list(topics.values()),
            node_endpoints=context.cache.node_endpoints(leaders, _RESPONSE.NodeEndpoint, call.listener_name),
        )
    )
