"""SaslAuthenticate (36), versions 0 to 2: one token of a login (KIP-152; from version 1 how long it is good, KIP-368).

A login that failed is answered after `connection.failed.authentication.delay.ms`, and its connection is closed: who guesses
passwords needs that time, and a connection, for each. The answer says nothing that helps; the log says why.

Errors: 34 ILLEGAL_SASL_STATE (no SaslHandshake before), 58 SASL_AUTHENTICATION_FAILED.
"""

from typing import Any

from actors.authentication.exchange import Accepted, Rejected
from actors.node.api.contexts import Context
from actors.node.api.table import rpc
from actors.node.net.connections import ANONYMOUS, Connection
from actors.node.runtime.answers import Answer, Close, Done, Last, Parked
from actors.node.runtime.calls import Call, Lane, Listener
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

LIFETIME_FROM = 1


@rpc(36, "SaslAuthenticate", range(0, 3), listeners=tuple(Listener), lane=Lane.DATA)
def sasl_authenticate(context: Context, request: Any, call: Call) -> Answer:
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
    try:
        said = exchange.respond(bytes(request.auth_bytes))
        if isinstance(said, Accepted) and connection.principal not in (ANONYMOUS, said.principal):
            raise Rejected(f"{connection.principal} may not become {said.principal} on the same connection")
    except Rejected as rejected:
        connection.exchange = None
        return _failed(context, connection, str(rejected))
    if not isinstance(said, Accepted):
        return Done(kind(error_code=ErrorCode.NONE, error_message=None, auth_bytes=said.token))
    connection.exchange = None
    good_for_ms = context.logins.good_for_ms(call.listener_name, connection.mechanism)
    if said.lifetime_ms:
        good_for_ms = min(good_for_ms or said.lifetime_ms, said.lifetime_ms)
    expires_ms = context.runtime.now.mono_ms + good_for_ms if good_for_ms else 0
    context.requests.identified(connection, said.principal, expires_ms)
    lifetime_ms = good_for_ms if call.api_version >= LIFETIME_FROM else 0
    return Done(
        kind(error_code=ErrorCode.NONE, error_message=None, auth_bytes=said.token, session_lifetime_ms=lifetime_ms)
    )


def _failed(context: Context, connection: Connection, why: str) -> Answer:
    kind = message("SaslAuthenticateResponse")
    text = f"Authentication failed due to invalid credentials with SASL mechanism {connection.mechanism}"
    reply = kind(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text, auth_bytes=b"")
    last = Last(reply, f"its login failed: {why}")
    deadline_ms = context.runtime.now.mono_ms + context.logins.delay_ms
    return Parked((), deadline_ms, lambda expired: last) if context.logins.delay_ms else last
