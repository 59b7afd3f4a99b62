"""Which share group a request means, or why it is not shown: what the APIs of share groups have in common (KIP-932)."""

from actors.authorization.resources import Operation, Resource
from actors.broker.groups.share.state import ShareGroup
from actors.node.api.contexts import BrokerContext
from actors.node.runtime.calls import Call
from actors.wire.errors import ErrorCode

SIMPLE = "simple"
"""The assignor of share groups."""
Why = tuple[ErrorCode, str | None]
"""An error code, and a sentence where the code's own says too little."""


def denied(context: BrokerContext, call: Call, operation: Operation, id: str) -> Why | None:
    """Why a request about a share group is refused whatever the group looks like; None: it is not."""
    if not context.groups.serves_share_groups():
        return ErrorCode.UNSUPPORTED_VERSION, None
    if not context.authorizer.allowed(call, operation, Resource.GROUP, id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED, None
    return None if id else (ErrorCode.INVALID_GROUP_ID, None)


def share_group(context: BrokerContext, call: Call, operation: Operation, id: str) -> ShareGroup | Why:
    """The group, if the principal has the right to that operation on it."""
    why = denied(context, call, operation, id)
    if why is not None:
        return why
    group = context.groups.machine.find(id)
    if isinstance(group, ErrorCode):
        return group, None
    if isinstance(group, ShareGroup) and not group.gone:
        return group
    known = group is not None and not isinstance(group, ShareGroup)
    return ErrorCode.GROUP_ID_NOT_FOUND, f"Group {id} is not a share group." if known else f"Group {id} not found."
