"""SaslHandshake (17), versions 0 to 1: a peer chooses a SASL mechanism (KIP-43, KIP-152).

Version 0 announces tokens without headers, which clients older than Kafka 1.0 send: that is refused. A peer that has logged
in may choose the same mechanism again, to log in anew (KIP-368).

Errors: UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE (a listener without SASL).
"""

from typing import TYPE_CHECKING

from actors.node.api.contexts import Context
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Close, Done, Last
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import SaslHandshakeRequest


@rpc(17, "SaslHandshake", range(0, 2), listeners=tuple(Listener), lane=Lane.DATA, writes=Subject.LOGIN)
def sasl_handshake(context: Context, request: "SaslHandshakeRequest", call: Call) -> Answer:
    """Name the mechanisms, and remember the one that the peer wants."""
    kind = message("SaslHandshakeResponse")
    mechanisms = list(context.logins.mechanisms(call.listener_name))
    if not mechanisms:
        return Done(kind(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[]))
    connection = context.requests.connections.get(call.connection)
    if connection is None or call.api_version == 0:
        return Close("SaslHandshake 0, whose tokens have no header: this takes SaslHandshake 1, of Kafka 1.0 and newer")
    if request.mechanism not in mechanisms or connection.mechanism not in ("", request.mechanism):
        code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        why = (
            f"it wants SASL mechanism {request.mechanism[:40]!r}, and {call.listener_name} has {', '.join(mechanisms)}"
        )
        return Last(kind(error_code=code, mechanisms=mechanisms), why)
    connection.mechanism = request.mechanism
    connection.exchange = context.logins.begin(call.listener_name, request.mechanism)
    return Done(kind(error_code=ErrorCode.NONE, mechanisms=mechanisms))
