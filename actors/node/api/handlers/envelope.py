"""Envelope 0 (KIP-590): a client's request that a broker passes on to the active controller.

The inner request has released numbering and its client's version (A01); it runs with the principal and the address of
that client. Only what clients may send to a broker is taken, and it counts as what it is where long requests are counted
(`net/long_requests.py`). The answer is the inner response, header included.
Errors: UNKNOWN_SERVER_ERROR where the inner request's handler fails; UNSUPPORTED_VERSION, INVALID_REQUEST,
PRINCIPAL_DESERIALIZATION_FAILURE; NOT_CONTROLLER on a standby, so that the broker tries the next one.
"""

import ipaddress
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.authorization.addresses import canonical
from actors.node.api.contexts import ControllerContext
from actors.node.api.perform import perform
from actors.node.api.table import ENVELOPED, rpc
from actors.node.runtime.answers import Answer, Done, mapped
from actors.node.runtime.calls import Api, Call, Listener
from actors.wire import framing
from actors.wire.errors import ErrorCode, WireError
from actors.wire.messages import decode, message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import EnvelopeRequest, EnvelopeResponse

ENVELOPE = 58


def broken() -> "EnvelopeResponse":
    """The reply where what a client asks for breaks: a broker's other clients ask on the same connection."""
    return _reply(ErrorCode.UNKNOWN_SERVER_ERROR)


class Carried(NamedTuple):
    """The request that an Envelope carries, not read yet."""

    api: Api
    header: framing.RequestHeader
    frame: memoryview
    position: int


def carries_longer(request: "EnvelopeRequest", entries: int) -> bool:
    """Whether the request in an Envelope has more than so many entries."""
    inner = _carried(request)
    if not isinstance(inner, Carried):
        return False
    return framing.is_longer(inner.api.name, inner.header.api_version, inner.frame, inner.position, entries)


@rpc(
    ENVELOPE,
    "Envelope",
    range(1),
    listeners=[Listener.CONTROLLER],
    broken=broken,
    carries_longer=carries_longer,
)
def unwrap(context: ControllerContext, request: "EnvelopeRequest", call: Call) -> Answer:
    """The active controller does what a client asks for by way of a broker."""
    if not context.role.active:
        return _error(ErrorCode.NOT_CONTROLLER)
    carried = _carried(request)
    if not isinstance(carried, Carried):
        return _error(carried)
    api, header, frame, position = carried
    version = header.api_version
    try:
        principal, by_token = _principal(request.request_principal)
    except (WireError, ValueError):
        return _error(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    try:
        inner, entries = framing.decode_counted_request(api.name, version, frame, position)
        host = canonical(str(ipaddress.ip_address(bytes(request.client_host_address))))
    except (WireError, ValueError):
        return _error(ErrorCode.INVALID_REQUEST)
    if call.read is not None:
        call.read(entries)
    answer = perform(
        context,
        api,
        inner,
        call._replace(
            api_key=api.key,
            api_version=version,
            client_id=header.client_id,
            client_host=host,
            principal=principal,
            frame=frame,
            by_token=by_token,
            forwarded=True,
        ),
    )

    def wrap(reply: Any) -> "EnvelopeResponse":
        if not context.role.active:
            return _reply(ErrorCode.NOT_CONTROLLER)  # while the request waited; the next controller knows
        data = b"".join(framing.encode_response(api.name, version, header.correlation_id, reply))
        return message("EnvelopeResponse")(response_data=data[4:], error_code=0)

    return mapped(answer, wrap)


def _carried(request: "EnvelopeRequest") -> Carried | ErrorCode:
    """What is in an Envelope, or why it is not taken."""
    frame = memoryview(request.request_data)
    try:
        header, position = framing.decode_request_header(frame)
    except WireError:
        return ErrorCode.INVALID_REQUEST
    api = ENVELOPED.get(header.api_key)
    if api is None:
        return ErrorCode.INVALID_REQUEST
    if header.api_version not in api.versions:
        return ErrorCode.UNSUPPORTED_VERSION
    return Carried(api, header, frame, position)


def _principal(data: Any) -> tuple[str, bool]:
    """`Type:name`, and whether it has logged in with a delegation token, out of the bytes of a DefaultPrincipalData behind
    its version; null: anonymous."""
    if data is None:
        return "User:ANONYMOUS", False
    version = int.from_bytes(data[:2], "big", signed=True)
    told, _ = decode("DefaultPrincipalData", version, memoryview(data), 2)
    return f"{told.type}:{told.name}", told.token_authenticated


def _error(code: ErrorCode) -> Done:
    return Done(_reply(code))


def _reply(code: ErrorCode) -> "EnvelopeResponse":
    return message("EnvelopeResponse")(response_data=None, error_code=int(code))
