"""Requests 38 to 40: delegation tokens in the metadata log (KIP-48, KIP-373).

This file alone decides what becomes of a token. What is stored says whose it is and how long it is good; its secret is
computed from its id (`authentication/delegation_tokens.py`). Rules, as in Apache Kafka:

1. A token is good until its expiry time. Renewing moves that, never beyond the token's last time.
2. The owner and the renewers may renew a token and let it expire. No other principal may, not even a super user.
3. Tokens whose time is over are removed every `delegation.token.expiry.check.interval.ms`.

Owners and renewers are of type User: a login can become no other principal. There may be TOKENS_MAX tokens, and
TOKENS_OF_A_REQUESTER_MAX of one requester. A requester may also have at most one for each ROOM_FOR_ONE that there is
room for: requesters that take all that they may get leave room for the next ones, less each time.
"""

import base64
from typing import TYPE_CHECKING, Any

from actors.controller.state import Result, State
from actors.metadata.ops import EntityGone, EntitySet
from actors.ports import Now, Random
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import (
        CreateDelegationTokenRequest,
        CreateDelegationTokenResponse,
        ExpireDelegationTokenRequest,
        RenewDelegationTokenRequest,
    )

KIND = "token"
USER = "User"
TOKENS_MAX = 10_000
TOKENS_OF_A_REQUESTER_MAX = 1_000
ROOM_FOR_ONE = 9
RENEWERS_MAX = 100
NAME_CHARACTERS_MAX = 1024
NEVER_MS = (1 << 63) - 1


def owner_of(request: "CreateDelegationTokenRequest", requester: str) -> str:
    """The principal that a new token stands for: the one that the request names, or the requester. In `type:name` the
    type ends at the first colon, so a colon in the type is replaced: no principal has such a type."""
    if not request.owner_principal_name:
        return requester
    return f"{(request.owner_principal_type or USER).replace(':', '_')}:{request.owner_principal_name}"


def not_created(code: ErrorCode, owner: str, requester: str, time_ms: int = -1) -> "CreateDelegationTokenResponse":
    """The reply to a request that gets no token."""
    owner_type, _, owner_name = owner.partition(":")
    requester_type, _, requester_name = requester.partition(":")
    return message("CreateDelegationTokenResponse")(
        error_code=int(code),
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp_ms=time_ms,
        expiry_timestamp_ms=time_ms,
        max_timestamp_ms=time_ms,
        token_id="",
        hmac=b"",
    )


def stored(
    id: str, owner: str, requester: str, renewers: tuple[str, ...], issued_ms: int, last_ms: int, expires_ms: int
) -> EntitySet:
    """The op that stores a token with these fields. Principals read User:name; times are those of the wall clock."""
    return EntitySet(
        KIND,
        (id,),
        (
            ("owner", owner),
            ("requester", requester),
            ("renewers", renewers),
            ("issue_timestamp", issued_ms),
            ("max_timestamp", last_ms),
            ("expiration_timestamp", expires_ms),
            ("token_id", id),
        ),
    )


def create_token(
    state: State, request: "CreateDelegationTokenRequest", now: Now, random: Random, requester: str
) -> Result:
    """Carry out a CreateDelegationTokenRequest of the principal `requester`. Errors: 61 DELEGATION_TOKEN_AUTH_DISABLED,
    67 INVALID_PRINCIPAL_TYPE, 42 INVALID_REQUEST for names that are too long, 44 POLICY_VIOLATION for too many tokens.
    """
    owner = owner_of(request, requester)
    key, options = state.options.token_key, state.options
    code = _wrong(state, request, owner, requester)
    if code is not ErrorCode.NONE or key is None:
        time_ms = 0 if code is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED else -1
        return Result([], not_created(code, owner, requester, time_ms))
    longest_ms = options.token_lifetime_ms
    if request.max_lifetime_ms > 0:
        longest_ms = min(longest_ms, request.max_lifetime_ms)
    last_ms = min(NEVER_MS, now.wall_ms + longest_ms)
    expires_ms = min(last_ms, now.wall_ms + options.token_expiry_ms)
    id = base64.urlsafe_b64encode(random.uuid()).rstrip(b"=").decode()
    renewers = tuple(f"{one.principal_type}:{one.principal_name}" for one in request.renewers)
    op = stored(id, owner, requester, renewers, now.wall_ms, last_ms, expires_ms)
    reply = not_created(ErrorCode.NONE, owner, requester)
    reply.issue_timestamp_ms, reply.expiry_timestamp_ms, reply.max_timestamp_ms = now.wall_ms, expires_ms, last_ms
    reply.token_id, reply.hmac = id, key.hmac(id)
    return Result([op], reply)


def _wrong(state: State, request: "CreateDelegationTokenRequest", owner: str, requester: str) -> ErrorCode:
    types = {owner.partition(":")[0], *(one.principal_type for one in request.renewers)}
    if types != {USER}:
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    if state.options.token_key is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    names = [owner, *(one.principal_name for one in request.renewers)]
    if len(names) > 1 + RENEWERS_MAX or any(len(name) > NAME_CHARACTERS_MAX for name in names):
        return ErrorCode.INVALID_REQUEST
    tokens = state.image.tokens
    room = TOKENS_MAX - len(tokens)
    of_requester = sum(1 for token in tokens.values() if ("requester", requester) in token.fields)
    most = min(TOKENS_OF_A_REQUESTER_MAX, -(-room // ROOM_FOR_ONE))
    return ErrorCode.POLICY_VIOLATION if of_requester >= most else ErrorCode.NONE


def renew_token(
    state: State, request: "RenewDelegationTokenRequest", now: Now, random: Random, requester: str
) -> Result:
    """Carry out a RenewDelegationTokenRequest. Errors: 61, 62 DELEGATION_TOKEN_NOT_FOUND, 66 DELEGATION_TOKEN_EXPIRED,
    63 DELEGATION_TOKEN_OWNER_MISMATCH."""
    kind = message("RenewDelegationTokenResponse")
    token = _found(state, request)
    if isinstance(token, ErrorCode):
        return Result([], kind(error_code=int(token)))
    if expired(token, now.wall_ms):
        return Result([], kind(error_code=int(ErrorCode.DELEGATION_TOKEN_EXPIRED)))
    if not _may_change(token, requester):
        return Result([], kind(error_code=int(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)))
    longer_ms = state.options.token_expiry_ms
    if request.renew_period_ms > 0:
        longer_ms = min(longer_ms, request.renew_period_ms)
    op, expires_ms = _moved(token, now.wall_ms + longer_ms)
    return Result([op], kind(error_code=0, expiry_timestamp_ms=expires_ms))


def expire_token(
    state: State, request: "ExpireDelegationTokenRequest", now: Now, random: Random, requester: str
) -> Result:
    """Carry out an ExpireDelegationTokenRequest: a period below zero ends the token now. Errors: as of `renew_token`."""
    kind = message("ExpireDelegationTokenResponse")
    token = _found(state, request)
    if isinstance(token, ErrorCode):
        return Result([], kind(error_code=int(token)))
    if not _may_change(token, requester):
        return Result([], kind(error_code=int(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)))
    if request.expiry_time_period_ms < 0:
        return Result([EntityGone(KIND, token.key)], kind(error_code=0, expiry_timestamp_ms=now.wall_ms))
    if expired(token, now.wall_ms):
        return Result([], kind(error_code=int(ErrorCode.DELEGATION_TOKEN_EXPIRED)))
    op, expires_ms = _moved(token, now.wall_ms + request.expiry_time_period_ms)
    return Result([op], kind(error_code=0, expiry_timestamp_ms=expires_ms))


def sweep_tokens(state: State, request: None, now: Now, random: Random) -> Result:
    """Remove the tokens whose time is over."""
    gone = [token for token in state.image.tokens.values() if expired(token, now.wall_ms)]
    return Result([EntityGone(KIND, token.key) for token in gone], None)


def expired(token: EntitySet, wall_ms: int) -> bool:
    """Whether the time of a token is over."""
    fields: dict[str, Any] = dict(token.fields)
    return bool(fields["max_timestamp"] < wall_ms or fields["expiration_timestamp"] < wall_ms)


def _found(
    state: State, request: "ExpireDelegationTokenRequest | RenewDelegationTokenRequest"
) -> EntitySet | ErrorCode:
    """The token whose secret a request names."""
    key, tokens, ids = state.options.token_key, state.image.tokens, state.soft.token_ids
    if key is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    wanted = bytes(request.hmac)
    if wanted not in ids:
        if len(ids) > 2 * len(tokens) + 1000:
            ids.clear()  # most of them are gone
        known = set(ids.values())
        ids.update((key.hmac(id), id) for id in tokens if id not in known)
    return tokens.get(ids.get(wanted, "")) or ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def _may_change(token: EntitySet, requester: str) -> bool:
    fields: dict[str, Any] = dict(token.fields)
    return requester == fields["owner"] or requester in fields["renewers"]


def _moved(token: EntitySet, expires_ms: int) -> tuple[EntitySet, int]:
    fields: dict[str, Any] = dict(token.fields)
    fields["expiration_timestamp"] = expires_ms = min(fields["max_timestamp"], expires_ms)
    return token._replace(fields=tuple(fields.items())), expires_ms
