"""The Envelope in which a broker asks the active controller in the name of a client (KIP-590).

This file alone decides what is said of the client: its principal, its address and its client id. The controller judges the
request by that principal and charges that client's quotas: both where the request is the client's own, which is passed on as
it came, and where the broker makes one for it, as for topics that are created because a client has named them.
"""

import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from actors.node.net.channels import ChannelError, Channels
from actors.node.runtime.calls import Call
from actors.ports import Buffer
from actors.wire import framing
from actors.wire.errors import ErrorCode, WireError, text
from actors.wire.messages import encode, message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import CreateTopicsRequest, EnvelopeRequest, EnvelopeResponse

PRINCIPAL_VERSION = b"\x00\x00"


def principal_bytes(principal: str, by_token: bool) -> bytes:
    """The principal `Type:name` as DefaultPrincipalData version 0 behind its version number, with the mark whether it
    has logged in with a delegation token."""
    kind, _, name = principal.partition(":")
    data = message("DefaultPrincipalData")(type=kind, name=name, token_authenticated=by_token)
    return PRINCIPAL_VERSION + encode(data, 0)


def address_bytes(host: str) -> bytes:
    """The client's address in 4 or 16 bytes; loopback when the host gave none that can be read."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return b"\x7f\x00\x00\x01"


def envelope(call: Call, request: Buffer) -> "EnvelopeRequest":
    """The Envelope of a request, header included, of the client that asks with `call`."""
    return message("EnvelopeRequest")(
        request_data=request,
        request_principal=principal_bytes(call.principal, call.by_token),
        client_host_address=address_bytes(call.client_host),
    )


def ask_in_the_name_of(
    call: Call,
    channels: Channels,
    name: str,
    request: "CreateTopicsRequest",
    then: Callable[[Any], None],
    timeout_ms: int,
) -> None:
    """Ask the active controller what the broker wants for the client of `call`. `then` gets the reply or a ChannelError."""
    version = framing.latest_version(name)
    frame = b"".join(framing.encode_request(name, version, 0, call.client_id, request))[4:]

    def told(reply: "EnvelopeResponse | ChannelError") -> None:
        if isinstance(reply, ChannelError):
            then(reply)
        elif reply.error_code != ErrorCode.NONE or reply.response_data is None:
            why = f"the controller refused an Envelope: {text(reply.error_code)}"
            then(ChannelError("lost", why))
        else:
            try:
                answer = framing.decode_response(name, version, memoryview(reply.response_data))
            except WireError as error:
                answer = ChannelError("damaged", f"unreadable {name} answer: {error}")
            then(answer)

    channels.controller("Envelope", envelope(call, frame), told, timeout_ms, purpose="forwarding")
