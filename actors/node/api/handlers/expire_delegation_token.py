"""ExpireDelegationToken 1-2 (KIP-48): an earlier expiry time, or the end of a token.

Brokers pass it on; the active controller does it (`controller/principals/delegation_tokens.py`). A token's owner and
its renewers need no right for it.
Errors: 61, 62, 63, 64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, 66; 41 NOT_CONTROLLER on a standby.
"""

from functools import partial
from typing import TYPE_CHECKING

from actors.controller.principals.delegation_tokens import expire_token
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.table import rpc
from actors.node.api.token_requests import may_ask
from actors.node.runtime.answers import Answer, Done, Forward
from actors.node.runtime.calls import Call, Listener, Subject
from actors.wire.errors import ErrorCode
from actors.wire.messages import Message, message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ExpireDelegationTokenRequest

KEY, NAME, VERSIONS = 40, "ExpireDelegationToken", range(1, 3)


@rpc(KEY, NAME, VERSIONS, listeners=[Listener.CONTROLLER], enveloped=True)
def decide(context: ControllerContext, request: "ExpireDelegationTokenRequest", call: Call) -> Answer:
    """On a controller."""
    if not may_ask(context, call):
        return _not_allowed()
    return context.role.submit(partial(expire_token, requester=call.principal), request, call)


@rpc(KEY, NAME, VERSIONS, listeners=[Listener.CLIENT], writes=Subject.METADATA)
def forward(context: BrokerContext, request: Message, call: Call) -> Answer:
    """On a broker."""
    return Forward() if may_ask(context, call) else _not_allowed()


def _not_allowed() -> Done:
    code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return Done(message("ExpireDelegationTokenResponse")(error_code=int(code), expiry_timestamp_ms=-1))
