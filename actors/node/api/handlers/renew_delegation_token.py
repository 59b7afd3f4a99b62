"""RenewDelegationToken 1-2 (KIP-48): a later expiry time.

Brokers pass it on; the active controller does it (`controller/principals/delegation_tokens.py`). A token's owner and
its renewers need no right for it.
Errors: DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH,
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_EXPIRED; NOT_CONTROLLER on a standby.
"""

from functools import partial
from typing import TYPE_CHECKING

from actors.controller.principals.delegation_tokens import renew_token
from actors.node.api.contexts import Context, ControllerContext
from actors.node.api.table import controllers_own
from actors.node.api.token_requests import may_ask
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Listener, Subject
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import RenewDelegationTokenRequest

KEY, NAME, VERSIONS = 39, "RenewDelegationToken", range(1, 3)


def refuse(context: Context, request: "RenewDelegationTokenRequest", call: Call) -> Answer | None:
    """The answer to a client that may not ask for tokens; None: it may."""
    if may_ask(context, call):
        return None
    code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return Done(message("RenewDelegationTokenResponse")(error_code=int(code), expiry_timestamp_ms=-1))


@controllers_own(KEY, NAME, VERSIONS, listeners=[Listener.CLIENT], writes=Subject.METADATA, refuse=refuse)
def decide(context: ControllerContext, request: "RenewDelegationTokenRequest", call: Call) -> Answer:
    """The active controller moves the expiry time of a token."""
    return context.role.submit(partial(renew_token, requester=call.principal), request, call)
