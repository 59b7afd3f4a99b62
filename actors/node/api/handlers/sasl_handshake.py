"""SaslHandshake (17), versions 0 to 1, on listeners without SASL: refused as Kafka does, ILLEGAL_SASL_STATE.

No mechanism is enabled on any listener so far.
"""

from typing import Any

from actors.node.api.contexts import Context
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Lane, Listener
from actors.wire.errors import ErrorCode
from actors.wire.messages import message


@rpc(17, "SaslHandshake", range(0, 2), listeners=tuple(Listener), lane=Lane.DATA)
def sasl_handshake(context: Context, request: Any, call: Call) -> Answer:
    """Refuse."""
    return Done(message("SaslHandshakeResponse")(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[]))
