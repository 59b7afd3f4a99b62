"""CreateDelegationToken 1-3 (KIP-48; from version 3 for another owner, KIP-373).

Brokers pass it on; the active controller does it (`controller/principals/delegation_tokens.py`). For another owner than
oneself one needs CREATE_TOKENS on that user.
Errors: INVALID_REQUEST, POLICY_VIOLATION, DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
DELEGATION_TOKEN_AUTHORIZATION_FAILED, INVALID_PRINCIPAL_TYPE; NOT_CONTROLLER on a standby.
"""

from functools import partial
from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.controller.principals.delegation_tokens import create_token, not_created, owner_of
from actors.node.api.contexts import Context, ControllerContext
from actors.node.api.table import controllers_own
from actors.node.api.token_requests import may_ask
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Listener, Subject
from actors.wire.errors import ErrorCode

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import CreateDelegationTokenRequest

KEY, NAME, VERSIONS = 38, "CreateDelegationToken", range(1, 4)
REFUSED, DENIED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED


def refuse(context: Context, request: "CreateDelegationTokenRequest", call: Call) -> Answer | None:
    """The answer to a client that may not ask for tokens; None: it may."""
    if may_ask(context, call):
        return None
    return Done(not_created(REFUSED, owner_of(request, call.principal), call.principal))


@controllers_own(KEY, NAME, VERSIONS, listeners=[Listener.CLIENT], writes=Subject.METADATA, refuse=refuse)
def decide(context: ControllerContext, request: "CreateDelegationTokenRequest", call: Call) -> Answer:
    """The active controller makes a token, for its requester or, with a right to it, for another owner."""
    owner = owner_of(request, call.principal)
    if owner != call.principal and not context.authorizer.allowed(call, Operation.CREATE_TOKENS, Resource.USER, owner):
        return Done(not_created(DENIED, owner, call.principal))
    return context.role.submit(partial(create_token, requester=call.principal), request, call)
