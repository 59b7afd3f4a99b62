"""ShareGroupHeartbeat (76), version 1: a member of a share group joins, goes on, or leaves (KIP-932).

Behaviour: an answer waits for all that it depends on, and for the target assignment that the member has caused. A member
whose partitions are not known for the group yet is told to come back soon.
Errors: UNSUPPORTED_VERSION (the cluster's share.version is 0), GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED,
INVALID_REQUEST, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, GROUP_ID_NOT_FOUND,
UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, GROUP_MAX_SIZE_REACHED.
"""

from typing import TYPE_CHECKING

from actors.broker.groups.share.requests import ShareHeartbeat
from actors.node.api import groups_shown
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Listener
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ShareGroupHeartbeatRequest


@rpc(76, "ShareGroupHeartbeat", range(1, 2), listeners=(Listener.CLIENT,))
def share_group_heartbeat(context: BrokerContext, request: "ShareGroupHeartbeatRequest", call: Call) -> Answer:
    """Hand it to the coordinator, and wait for its verdict."""
    kind = message("ShareGroupHeartbeatResponse")
    groups = context.groups
    error = groups_shown.heartbeat_error(context, call, request.group_id, groups.serves_share_groups())
    if error is ErrorCode.NONE:
        error = groups_shown.topics_error(context, call, request.subscribed_topic_names or ())
    if error is not ErrorCode.NONE:
        return Done(kind(error_code=error))
    heartbeat = ShareHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        rack_id=request.rack_id,
        topics=request.subscribed_topic_names,
        client_id=call.client_id or "",
        client_host=f"/{call.client_host}",
    )
    share = groups.machine.kinds.share
    return groups.ask(
        call.connection,
        lambda ticket: share.heartbeat(ticket, heartbeat, context.runtime.now),
        lambda beat: groups_shown.heartbeat_reply(kind, beat),
    )
