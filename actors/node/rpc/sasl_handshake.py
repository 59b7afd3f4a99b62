"""SaslHandshake (17), versions 0 to 1, on listeners without SASL: refused as Kafka does, ILLEGAL_SASL_STATE.

No mechanism is enabled on any listener so far.
"""

from typing import TYPE_CHECKING, Any

from actors.node.registry import Answer, Call, Done, Lane, Listener, rpc
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.node.node import Node


@rpc(17, "SaslHandshake", range(0, 2), listeners=tuple(Listener), lane=Lane.DATA)
def sasl_handshake(node: "Node", request: Any, call: Call) -> Answer:
    """Refuse."""
    return Done(message("SaslHandshakeResponse")(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[]))
