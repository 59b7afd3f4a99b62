"""ConsumerGroupHeartbeat (68), versions 0 and 1: a member of a consumer group joins, goes on, or leaves (KIP-848).

Version notes: 1 regular expressions, and member ids that clients make.
Behaviour: an answer waits for all that it depends on, and for the target assignment that the member has caused.
Errors: UNSUPPORTED_VERSION (the cluster's group.version is 0), GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED,
INVALID_REQUEST, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, GROUP_ID_NOT_FOUND,
UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID, UNSUPPORTED_ASSIGNOR,
GROUP_MAX_SIZE_REACHED, INVALID_REGULAR_EXPRESSION.
"""

import base64
from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.broker.groups.consumer.requests import ConsumerHeartbeat
from actors.node.api import groups_shown
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Listener
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ConsumerGroupHeartbeatRequest


@rpc(68, "ConsumerGroupHeartbeat", range(0, 2), listeners=(Listener.CLIENT,))
def consumer_group_heartbeat(context: BrokerContext, request: "ConsumerGroupHeartbeatRequest", call: Call) -> Answer:
    """Hand it to the coordinator, and wait for its verdict."""
    kind = message("ConsumerGroupHeartbeatResponse")
    groups, may = context.groups, context.authorizer
    error = groups_shown.heartbeat_error(context, call, request.group_id, groups.serves_consumers())
    if error is ErrorCode.NONE:
        error = groups_shown.topics_error(context, call, request.subscribed_topic_names or ())
    if error is not ErrorCode.NONE:
        return Done(kind(error_code=error))
    heartbeat = ConsumerHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=request.subscribed_topic_names,
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None
        if request.topic_partitions is None
        else {one.topic_id: frozenset(one.partitions) for one in request.topic_partitions},
        client_id=call.client_id or "",
        client_host=f"/{call.client_host}",
        fresh_id="" if request.member_id else _fresh(context),
        version=call.api_version,
        visible=lambda topic: may.shown(call, Operation.DESCRIBE, Resource.TOPIC, topic),
    )
    return groups.ask(
        call.connection,
        lambda ticket: groups.machine.kinds.consumer.heartbeat(ticket, heartbeat, context.runtime.now),
        lambda beat: groups_shown.heartbeat_reply(kind, beat),
    )


def _fresh(context: BrokerContext) -> str:
    """A member id, as Kafka writes its random ids."""
    return base64.urlsafe_b64encode(context.runtime.random.uuid()).decode().rstrip("=")
