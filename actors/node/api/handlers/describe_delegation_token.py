"""DescribeDelegationToken 1-3 (KIP-48, KIP-373): tokens and their secrets.

A broker answers from what it has replayed. One sees the tokens that one owns or may renew, those for which one has DESCRIBE
on the token, and those of users for whom one has DESCRIBE_TOKENS. Others are left out.
Errors: DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
"""

from typing import TYPE_CHECKING, Any

from actors.authorization.resources import Operation, Resource
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.api.token_requests import may_ask
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Listener, Subject
from actors.node.runtime.slices import SliceCount, Steps, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse


@rpc(41, "DescribeDelegationToken", range(1, 4), listeners=[Listener.CLIENT], reads=Subject.METADATA)
@in_slices
def describe_delegation_token(context: BrokerContext, request: "DescribeDelegationTokenRequest", call: Call) -> Steps:
    """Tokens of the owners and renewers that the request names; of all if it names none (null)."""
    kind = message("DescribeDelegationTokenResponse")
    if not may_ask(context, call):
        return Done(kind(error_code=int(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED), tokens=[]))
    key = context.logins.token_key
    if key is None:
        return Done(kind(error_code=int(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED), tokens=[]))
    named = request.owners
    wanted = None if named is None else {f"{one.principal_type}:{one.principal_name}" for one in named}
    shown, who = context.authorizer.shown, call.principal
    tokens = []
    pace = SliceCount()
    for token in sorted(context.cache.image.tokens.values(), key=lambda op: op.key) if wanted != set() else ():
        fields: dict[str, Any] = dict(token.fields)
        whose = {fields["owner"], *fields["renewers"]}
        if (wanted is None or not whose.isdisjoint(wanted)) and (
            who in whose
            or shown(call, Operation.DESCRIBE, Resource.DELEGATION_TOKEN, fields["token_id"])
            or shown(call, Operation.DESCRIBE_TOKENS, Resource.USER, fields["owner"])
        ):
            tokens.append(_described(kind, fields, key.hmac(fields["token_id"])))
        if pace.over():
            yield
    return Done(kind(error_code=0, tokens=tokens))


def _described(
    kind: "type[DescribeDelegationTokenResponse]", fields: dict[str, Any], hmac: bytes
) -> "DescribeDelegationTokenResponse.DescribedDelegationToken":
    owner_type, _, owner = fields["owner"].partition(":")
    requester_type, _, requester = fields["requester"].partition(":")
    parts = [one.partition(":") for one in fields["renewers"]]
    return kind.DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp=fields["issue_timestamp"],
        expiry_timestamp=fields["expiration_timestamp"],
        max_timestamp=fields["max_timestamp"],
        token_id=fields["token_id"],
        hmac=hmac,
        renewers=[
            kind.DescribedDelegationTokenRenewer(principal_type=type_, principal_name=name) for type_, _, name in parts
        ],
    )
