"""SaslAuthenticate (36), versions 0 to 2: one token of a login (KIP-152; from version 1 how long it is good, KIP-368).

One login at a time is judged on a connection, and no request behind it begins before it is answered: whatever a peer sends
ahead of the answers waits (`Subject.LOGIN`). A login that failed is answered after
`connection.failed.authentication.delay.ms`, and its connection is closed: somebody that guesses passwords needs that time,
and a connection, for each. The answer says nothing that helps; the log says why.

Errors: ILLEGAL_SASL_STATE (no SaslHandshake before), SASL_AUTHENTICATION_FAILED.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from actors.authentication.exchange import Accepted, Awaited, Calculation, Challenge, Exchange, ExchangeStep, Rejected
from actors.node.api.contexts import Context
from actors.node.api.table import rpc
from actors.node.net.connections import ANONYMOUS, Connection
from actors.node.runtime.answers import Answer, Close, Done, Last, Later, Parked
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.ports import WorkKind
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import SaslAuthenticateRequest

LIFETIME_FROM = 1


@rpc(36, "SaslAuthenticate", range(0, 3), listeners=tuple(Listener), lane=Lane.DATA, writes=Subject.LOGIN)
def sasl_authenticate(context: Context, request: "SaslAuthenticateRequest", call: Call) -> Answer:
    """Hand the token to the exchange of the connection."""
    kind = message("SaslAuthenticateResponse")
    connection = context.requests.connections.get(call.connection)
    if connection is None:
        return Close("its connection is gone")
    exchange = connection.exchange
    if exchange is None:
        code = ErrorCode.ILLEGAL_SASL_STATE
        text = "SaslAuthenticate request received, and no SaslHandshake before it"
        reply = kind(error_code=code, error_message=text, auth_bytes=b"")
        return Done(reply) if not context.logins.mechanisms(call.listener_name) else Last(reply, text)
    token = bytes(request.auth_bytes)
    return _said(context, call, connection, exchange, lambda: exchange.respond(token))


def _said(
    context: Context, call: Call, connection: Connection, exchange: Exchange, say: Callable[[], ExchangeStep]
) -> Answer:
    """The answer to what the exchange says, now or when it can say something."""
    try:
        if connection.exchange is not exchange:
            raise Rejected("another login began before the one before had ended")
        said = say()
        if isinstance(said, Accepted):
            who, before = (said.principal, said.by_token), (connection.principal, connection.by_token)
            if connection.principal != ANONYMOUS and who != before:
                raise Rejected(f"{connection.principal} may not become {said.principal} on the same connection")
    except Rejected as rejected:
        connection.exchange = None
        return _failed(context, connection, rejected)
    again = partial(_said, context, call, connection, exchange)
    if isinstance(said, Calculation):
        calculation = said
        return Later(said.job, lambda result: again(lambda: calculation.then(result)), WorkKind.RECORDS)
    if isinstance(said, Awaited):
        awaited = said
        deadline_ms = context.runtime.now.mono_ms + awaited.most_ms
        return Parked((awaited.key,), deadline_ms, lambda expired: again(awaited.then))
    if isinstance(said, Challenge):
        kind = message("SaslAuthenticateResponse")
        return Done(kind(error_code=ErrorCode.NONE, error_message=None, auth_bytes=said.token))
    connection.exchange = None
    return _accepted(context, call, connection, said)


def _accepted(context: Context, call: Call, connection: Connection, said: Accepted) -> Answer:
    kind = message("SaslAuthenticateResponse")
    good_for_ms = context.logins.good_for_ms(call.listener_name, connection.mechanism)
    if said.lifetime_ms:
        good_for_ms = min(good_for_ms or said.lifetime_ms, said.lifetime_ms)
    expires_ms = context.runtime.now.mono_ms + good_for_ms if good_for_ms else 0
    context.requests.identified(connection, said.principal, expires_ms, said.by_token)
    connection.kept = context.logins.kept(connection.mechanism, said)
    lifetime_ms = good_for_ms if call.api_version >= LIFETIME_FROM else 0
    return Done(
        kind(error_code=ErrorCode.NONE, error_message=None, auth_bytes=said.token, session_lifetime_ms=lifetime_ms)
    )


def _failed(context: Context, connection: Connection, rejected: Rejected) -> Answer:
    kind = message("SaslAuthenticateResponse")
    text = (
        rejected.told or f"Authentication failed due to invalid credentials with SASL mechanism {connection.mechanism}"
    )
    reply = kind(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text, auth_bytes=b"")
    # At once: a peer that does not wait for its answer leaves no line when its connection is gone.
    runtime, host = context.runtime, connection.peer_host
    runtime.peer_lines.of_host(
        runtime.log.warning, host, f"{host} on {connection.listener_name}: its login failed: {rejected}"
    )
    context.requests.failed_logins += 1
    connection.door.failed_logins += 1
    last = Last(reply, "its login failed")
    deadline_ms = context.runtime.now.mono_ms + context.logins.delay_ms
    return Parked((), deadline_ms, lambda expired: last) if context.logins.delay_ms else last
