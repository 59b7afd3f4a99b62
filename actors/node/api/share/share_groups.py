"""Why a request about a share group is refused: what the APIs of share groups have in common (KIP-932)."""

from actors.authorization.resources import Operation, Resource
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
